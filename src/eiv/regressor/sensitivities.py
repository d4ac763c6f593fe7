"""`sensitivity`: what would follow if the errors of X were of another size, or had another law."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from eiv import validation as v
from eiv.inputs.mixed import with_law
from eiv.inputs.parts import Parts, nearest_parts
from eiv.inputs.plausible import SuspiciousErrorWarning
from eiv.metrics import coverage
from eiv.model import FittedModel
from eiv.prediction import Prediction
from eiv.regressor.estimator import EiVRegressor
from eiv.training.fitting import Spec, Table, fit_stack

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Sensitivity", "SensitivityRow", "sensitivity"]

Array = NDArray[np.float64]
FACTORS = (0.5, 0.71, 1.41, 2.0, "rectangular", "student_t")  # and laws: one without tails, one with heavy ones
STATED = "as stated"
_LAWS = ("normal", "rectangular", "triangular", "student_t")
_DOF = 4.0  # of a t distribution
_HELD_OUT, _FEWEST = 0.2, 10  # share of the rows that the models are judged by, and their least number
_SURE = 2.0  # standard errors
_CLEARLY = 0.02  # nats per label, as intervals 2 % narrower have
_ALL = "all"
_KINDS = ("moved", "coverage", "density")  # of conclusions
_INTERPOLATED = "Factors between those that were tried are interpolated on their logarithm."


@dataclass(frozen=True)
class SensitivityRow:
    """What another size or law of some errors does, on rows held out.

    Attributes:
        column: the column whose errors are changed, or "all".
        factor: what they are multiplied by.
        moved: the root mean square of the change of the prediction, in units of u(x) with the errors as stated.
        u_ratio: u(x) over that with the errors as stated, the median.
        coverage: the share of labels inside their 95 % interval.
        density_gain: the mean logarithm of the density of a label, less that with the errors as stated, in nats.
        density_error: the standard error of that difference, row by row.
        law: the law of these errors, with the stated standard deviation; "as stated" where that is not changed.
        as_fitted: whether the fit itself took the errors to be of this size, rather than as stated.

    Examples:
        >>> SensitivityRow("all", 0.5, 0.2, 0.6, coverage=0.9, density_gain=-0.3, density_error=0.1).factor
        0.5

    """

    column: str
    factor: float
    moved: float
    u_ratio: float
    coverage: float
    density_gain: float
    density_error: float
    law: str = STATED
    as_fitted: bool = False

    @property
    def change(self) -> str:
        """What is changed, in a word: the factor, or the law."""
        if self.law != STATED:
            return self.law
        named = ", as fitted" if self.as_fitted else f", {STATED}" if self.factor == 1 else ""
        return f"{self.factor:.3g}{named}"


@dataclass(frozen=True)
class Sensitivity:
    """How a model depends on the size and the law of the errors of X; the result of `eiv.sensitivity`.

    Attributes:
        rows: one for each choice of columns, and factor or law; that with the errors as stated has the factor 1.
        n_held_out: rows that the models were judged by.
        taken: for each column with an error, what the fit itself multiplied its stated errors by, where that is not 1
            for all: because of `x_err_factor`, because the labels contradict them, or because their size was learned.

    Examples:
        >>> stated = SensitivityRow("all", 1.0, 0.0, 1.0, 0.95, 0.0, 0.0)
        >>> half = SensitivityRow("all", 0.5, 1.4, 0.5, 0.94, 0.2, 0.02)
        >>> Sensitivity((half, stated), n_held_out=100).words()[0]
        'Errors of all columns below 0.61 times those stated: predictions move by 1.4 of their uncertainty (at 0.5).'

    """

    rows: tuple[SensitivityRow, ...]
    n_held_out: int
    taken: Mapping[str, float] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """A table with one line for each choice of columns, and factor or law."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame([vars(row) for row in self.rows])

    def of(self, column: str) -> list[SensitivityRow]:
        """The lines of one choice of columns, by their factor; that with the errors as stated is among them."""
        chosen = [row for row in self.rows if row.law == STATED and (row.column == column or row.factor == 1)]
        return sorted(chosen, key=lambda row: row.factor)

    def laws_of(self, column: str) -> list[SensitivityRow]:
        """The lines of one choice of columns with other laws."""
        return [row for row in self.rows if row.column == column and row.law != STATED]

    @property
    def columns(self) -> list[str]:
        """The choices of columns."""
        return list(dict.fromkeys(row.column for row in self.rows))

    @property
    def overstated(self) -> list[str]:
        """Choices of columns whose errors are clearly overstated: labels are more probable as they shrink."""
        found = []
        for column in self.columns:
            smaller = [row for row in self.of(column) if row.factor < 1]
            if any(row.density_gain > _CLEARLY and row.density_gain > _SURE * row.density_error for row in smaller):
                found.append(column)
        return found

    def words(self) -> list[str]:
        """What the fit itself took the errors to be, and where conclusions differ from those with the errors as stated.

        The factor at which one changes lies between two that were tried; it is interpolated on its logarithm.
        """
        found = self._words_on_fit()
        any_crossing = False
        for column in self.columns:
            whose = "all columns" if column == _ALL else f"column {column}"
            crossings, laws = self._crossings(column, whose), self._words_on_laws(column, whose)
            found += [*crossings, *laws]
            any_crossing = any_crossing or bool(crossings)
            if not crossings and not laws:
                found.append(f"For the errors of {whose}, no conclusion changes between what was tried.")
        return [*found, _INTERPOLATED] if any_crossing else found

    def _words_on_fit(self) -> list[str]:
        if not self.taken:
            return []
        if len(set(self.taken.values())) == 1:
            factor = next(iter(self.taken.values()))
            return [f"The fit itself took the errors as {factor:.3g} times those stated."]
        each = " and ".join(f"{factor:.3g} times in column {name}" for name, factor in self.taken.items())
        return [f"The fit itself took the errors, over those stated, as {each}."]

    def _crossings(self, column: str, whose: str) -> list[str]:
        """For each conclusion the nearest factor on either side of 1 where it changes."""
        rows = self.of(column)
        start = next(place for place, row in enumerate(rows) if row.factor == 1)
        sides = (("below", rows[start::-1]), ("above", rows[start:]))
        found = []
        for kind, (side, way) in itertools.product(_KINDS, sides):
            for near, far in itertools.pairwise(way):
                before, after = (self._distance(row)[kind] for row in (near, far))
                if _side(before) != _side(after):
                    limit = _side(before) or _side(after)
                    share = (limit - before) / (after - before)
                    found.append(
                        f"Errors of {whose} {_between(side, near.factor, far.factor, share)}: "
                        f"{_in_words(kind, far, after)} (at {far.factor:.3g})."
                    )
                    break
        return found

    def _words_on_laws(self, column: str, whose: str) -> list[str]:
        stated = self._distance(next(row for row in self.of(column) if row.factor == 1))
        found = []
        for row in self.laws_of(column):
            here = self._distance(row)
            changes = [_in_words(kind, row, here[kind]) for kind in _KINDS if _side(here[kind]) != _side(stated[kind])]
            if changes:
                found.append(f"With {row.law} errors of {whose} of the stated size, {' and '.join(changes)}.")
        return found

    def _distance(self, row: SensitivityRow) -> dict[str, float]:
        """How far each conclusion is from what is expected, in units of what still agrees with it."""
        chance = _SURE * math.sqrt(0.95 * 0.05 / self.n_held_out)
        gain = (
            row.density_gain / (_SURE * row.density_error) if row.density_error else math.copysign(2, row.density_gain)
        )
        return {
            "moved": row.moved,
            "coverage": (row.coverage - 0.95) / chance,
            "density": gain if row.density_gain else 0.0,
        }

    def plot(self) -> Figure:
        """Four panels, for each choice of columns a line against the factor, and points for laws.

        `figure.savefig("sensitivity.png")` writes it.
        """
        from eiv.plotting import sensitivity_figure  # noqa: PLC0415

        sizes, laws = (
            {column: [vars(row) for row in rows_of(column)] for column in self.columns}
            for rows_of in (self.of, self.laws_of)
        )
        return sensitivity_figure(sizes, laws)


def _side(distance: float) -> int:
    """Where a conclusion stands: -1 or 1 where it is off by more than agrees, else 0."""
    return int(distance > 1) - int(distance < -1)


def _between(side: str, near: float, far: float, share: float) -> str:
    """The factor at which a conclusion changes, at a share of the way from `near` to `far`."""
    if far == 0:  # which has no logarithm
        return f"times a factor between 0 and {near:.3g}"
    return f"{side} {near * (far / near) ** share:.2g} times those stated"


def _in_words(kind: str, row: SensitivityRow, distance: float) -> str:
    if kind == "moved":
        return f"predictions move by {row.moved:.2g} of their uncertainty"
    if kind == "coverage":
        as_said = "" if _side(distance) else ", as many as should"
        return f"{100 * row.coverage:.0f} % of the labels lie in their 95 % intervals{as_said}"
    return f"labels are {'more' if distance > 0 else 'less'} probable, by {abs(row.density_gain):.2g} nats each"


def sensitivity(
    model: EiVRegressor | FittedModel,
    X: Any,
    y: Any,
    X_err: Any = None,
    y_err: Any = None,
    *,
    factors: Sequence[float | str] = FACTORS,
    random_state: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> Sensitivity:
    r"""What would follow if the errors of X were of another size, or had another law.

    .. math:: \sigma_{x,j} \mapsto \mathrm{factor} \cdot \sigma_{x,j}

    The model is fitted anew for each factor and each law, of the errors of all columns together and of each noisy
    column alone. All fits are one stack, on the same four fifths of the rows and with the same seed, so that random
    differences cancel. The other rows judge them. Factors are those of the errors as stated, also where the fit took
    them as smaller (`x_err_factor_`) or learned their size (`eiv.estimated`). What the fit took is one of the factors.

    Args:
        model: a fitted model, whose settings are taken.
        X: `rows x n_x`, such as its training rows; 50 rows at least.
        y: `rows` or `rows x n_y`.
        X_err: the errors of X; by default those of the fit.
        y_err: the known errors of y, or None.
        factors: what the errors are multiplied by; or a law in place of a number, which they have then at the stated
            standard deviation: "normal", "rectangular", "triangular" or "student_t" (4 degrees of freedom). Errors with
            covariances have no other laws, so that these are left out.
        random_state: the seed of the choice of rows that are held out.
        on_progress: called with the share of the work that is done.

    Returns:
        A table, sentences and a figure: `Sensitivity`.

    Warns:
        SuspiciousErrorWarning: where the stated errors are clearly too large, since labels of rows held out are more
            probable as they shrink.

    Examples:
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 60))
        >>> model = EiVRegressor(0.1, epochs=2).fit(X[:, None], y)
        >>> found = sensitivity(model, X[:, None], y, factors=[0.5, "rectangular"])
        >>> [(row.column, row.factor, row.law) for row in found.rows]
        [('all', 1.0, 'as stated'), ('all', 0.5, 'as stated'), ('all', 1.0, 'rectangular')]

    """
    factors = _checked_factors(factors)
    fitted, table = table_for(model, X, y, X_err, y_err)
    if len(table.x) * _HELD_OUT < _FEWEST:
        raise ValueError(f"X must have {round(_FEWEST / _HELD_OUT)} rows at least, got {len(table.x)}.")
    noisy = np.flatnonzero(table.stated_errors.any(0)).tolist()
    if not noisy:
        raise ValueError("X_err: no column of X has an error, so that there is none to change.")
    taken = np.broadcast_to(np.asarray(fitted.factor, dtype=float), fitted.n_features)
    cases = _cases(fitted, table, noisy, factors)
    order = np.random.default_rng(random_state).permutation(len(table.x))
    n_held_out = round(_HELD_OUT * len(order))
    spec = Spec(dict(fitted.arguments), fitted.seed).given(x_err_factor=1.0)  # what the fit took is one of the cases
    changed = [each.table for each in cases]
    models = fit_stack([spec] * len(changed), [each.take(order[n_held_out:]) for each in changed], on_progress)
    found = [_predicted(each, part.take(order[:n_held_out])) for each, part in zip(models, changed, strict=True)]
    rows = tuple(_row(case, each, found[0]) for case, each in zip(cases, found, strict=True))
    names = _feature_names(fitted)
    own = {names[j]: float(taken[j]) for j in noisy} if (taken[noisy] != 1).any() else {}
    result = Sensitivity(rows, n_held_out, own)
    if result.overstated:
        more = result.words()[0] if own else "x_err=eiv.estimated(...) learns their size."
        warnings.warn(
            f"The errors of {', '.join(result.overstated)} (column) seem overstated: labels of rows held out are more "
            "probable as they shrink. Check their units, and whether they are standard deviations, not limits or twice "
            f"that. {more}",
            SuspiciousErrorWarning,
            stacklevel=2,
        )
    return result


@dataclass(frozen=True)
class _Judged:
    """The prediction of the rows held out, in units of the spread of y, and how probable their labels are."""

    prediction: Prediction
    densities: Array
    covered: float


def _checked_factors(factors: Any) -> list[Any]:
    found: list[Any] = [] if isinstance(factors, str) or not np.iterable(factors) else list(factors)
    if not found:
        raise ValueError(
            f"factors must be a list of numbers of at least 0, or of laws, such as [0.5, 2, 'rectangular'], got "
            f"{factors!r}."
        )
    for factor in found:
        if isinstance(factor, str):
            v.check_option("factors", factor, _LAWS)
        else:
            v.check("factors", factor, v.real(0))
    return found


def table_for(model: EiVRegressor | FittedModel, X: Any, y: Any, X_err: Any, y_err: Any) -> tuple[FittedModel, Table]:
    """A model, and rows with labels for it, checked, with their errors as stated."""
    if isinstance(model, EiVRegressor):
        check_is_fitted(model, "model_")
        model = model.model_
    if not isinstance(model, FittedModel) or model.has_classes:
        raise TypeError("model must be a fitted EiVRegressor, or its FittedModel.")
    names = model.names.features
    if names is not None and hasattr(X, "columns"):
        missing = [name for name in names if name not in set(map(str, X.columns))]
        if missing:
            raise ValueError(f"X has no column {missing[0]!r}, which the model was fitted with.")
        X = X[list(names)]
    v.check_same_rows(X=X, y=y)
    x, labels = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    labels = labels.reshape(len(labels), -1)
    if x.ndim != 2 or x.shape[1] != model.n_features:
        raise ValueError(f"X must be rows x {model.n_features}, as the model was fitted with, got shape {x.shape}.")
    if labels.shape[1] != model.n_outputs:
        raise ValueError(f"y must have {model.n_outputs} outputs, as the model has, got {labels.shape[1]}.")
    x, errors, _ = model.readings(x, X_err)
    if not (np.isfinite(x).all() and np.isfinite(labels).all()):
        raise ValueError("X and y must hold finite numbers only.")
    known = None if y_err is None else v.check_y_err(y_err, labels.shape, model.names.outputs)
    return model, Table(x, errors, labels, known, model.names)


class _Case(NamedTuple):
    """What is changed, and the rows with it."""

    column: str
    factor: float
    law: str
    table: Table
    as_fitted: bool = False


def _cases(model: FittedModel, table: Table, noisy: list[int], factors: Sequence[float | str]) -> list[_Case]:
    """What is changed: first nothing, then the errors of all noisy columns, then those of each.

    What the fit itself took is among them wherever it is one factor of the columns.
    """
    names, taken = _feature_names(model), np.broadcast_to(model.factor, model.n_features)
    groups = [(_ALL, noisy)] + ([(names[j], [j]) for j in noisy] if len(noisy) > 1 else [])
    found = [_Case(_ALL, 1.0, STATED, table)]
    for name, columns in groups:
        own = float(taken[columns[0]]) if np.ptp(taken[columns]) == 0 else None
        for factor in [*factors, *([] if own is None or own in factors else [own])]:
            if isinstance(factor, str):
                if table.x_err.ndim == 2:
                    changed = replace(table, x_err=with_law(table.x_err, columns, _unit(factor)))
                    found.append(_Case(name, 1.0, factor, changed))
            elif factor != 1:
                each = np.ones(model.n_features)
                each[columns] = factor
                found.append(_Case(name, float(factor), STATED, table.with_errors_times(each), factor == own))
    return found


def _feature_names(model: FittedModel) -> tuple[str, ...]:
    return model.names.features or tuple(f"x{j}" for j in range(model.n_features))


def _unit(law: str) -> Parts:
    return Parts.normal(np.ones(1)) if law == "normal" else nearest_parts(law, _DOF if law == "student_t" else 0.0)


def _predicted(model: FittedModel, table: Table) -> _Judged:
    p = model.predict(table.x, table.x_err, 0.0 * table.y if table.y_err is None else table.y_err, keep_draws=False)
    y = table.y if model.names.has_columns else table.y[:, 0]
    assert p.labels is not None
    densities = p.labels.moment_log_density(p.mean, p.std, y).reshape(len(y), -1)
    return _Judged(p, densities.mean(1), coverage(y, *p.interval(0.95, of="label")))


def _row(case: _Case, found: _Judged, stated: _Judged) -> SensitivityRow:
    change = (found.prediction.mean - stated.prediction.mean) / stated.prediction.std
    gain = found.densities - stated.densities
    return SensitivityRow(
        case.column,
        case.factor,
        moved=float(np.sqrt(np.mean(change**2))),
        u_ratio=float(np.median(found.prediction.std / stated.prediction.std)),
        coverage=float(found.covered),
        density_gain=float(gain.mean()),
        density_error=float(gain.std() / np.sqrt(len(gain))),
        law=case.law,
        as_fitted=case.as_fitted,
    )
