"""`sensitivity`: what would follow if the errors of X were of another size, or had another law."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eiv import validation as v
from eiv.inputs.errors import times
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

    @property
    def change(self) -> str:
        """What is changed, in a word: the factor, or the law."""
        return f"{self.factor:g}" if self.law == STATED else self.law


@dataclass(frozen=True)
class Sensitivity:
    """How a model depends on the size and the law of the errors of X; the result of `eiv.sensitivity`.

    Attributes:
        rows: one for each choice of columns, and factor or law; that with the errors as stated has the factor 1.
        n_held_out: rows that the models were judged by.

    Examples:
        >>> stated = SensitivityRow("all", 1.0, 0.0, 1.0, 0.95, 0.0, 0.0)
        >>> half = SensitivityRow("all", 0.5, 1.4, 0.5, 0.94, 0.2, 0.02)
        >>> Sensitivity((half, stated), n_held_out=100).words()[0]
        'With the errors of all columns times 0.5, predictions move by 1.4 of their uncertainty.'

    """

    rows: tuple[SensitivityRow, ...]
    n_held_out: int

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
        """Where conclusions change: the factors nearest to 1 at which predictions, coverage or density do."""
        found = []
        for column in self.columns:
            whose = "all columns" if column == _ALL else f"column {column}"
            said = set[str]()
            for row in sorted(self.of(column), key=lambda row: abs(np.log(row.factor))):
                for kind, words in self._changes(row).items():
                    side = f"{kind} {row.factor < 1}"
                    if side not in said:
                        said.add(side)
                        found.append(f"With the errors of {whose} times {row.factor:g}, {words}.")
            for row in self.laws_of(column):
                changes = list(self._changes(row).values())
                said |= set(changes)
                if changes:
                    found.append(f"With {row.law} errors of {whose} of the stated size, {' and '.join(changes)}.")
            if not said:
                found.append(f"For the errors of {whose}, no conclusion changes between what was tried.")
        return found

    def _changes(self, row: SensitivityRow) -> dict[str, str]:
        """What is other than with the errors as stated, by its kind."""
        if row.factor == 1 and row.law == STATED:
            return {}
        found = {}
        if row.moved > 1:
            found["moved"] = f"predictions move by {row.moved:.2g} of their uncertainty"
        if abs(row.coverage - 0.95) > _SURE * np.sqrt(0.95 * 0.05 / self.n_held_out):
            found["coverage"] = f"{100 * row.coverage:.0f} % of the labels lie in their 95 % intervals"
        if abs(row.density_gain) > _SURE * row.density_error:
            less = "more" if row.density_gain > 0 else "less"
            found["density"] = f"labels are {less} probable, by {abs(row.density_gain):.2g} nats each"
        return found

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
    differences cancel. The other rows judge them.

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
    for factor in factors:
        if isinstance(factor, str):
            v.check_option("factors", factor, _LAWS)
        else:
            v.check("factors", factor, v.real(0))
    fitted, table = table_for(model, X, y, X_err, y_err)
    if len(table.x) * _HELD_OUT < _FEWEST:
        raise ValueError(f"X must have {round(_FEWEST / _HELD_OUT)} rows at least, got {len(table.x)}.")
    noisy = np.flatnonzero(table.stated_errors.any(0)).tolist()
    if not noisy:
        raise ValueError("X_err: no column of X has an error, so that there is none to change.")
    cases = _cases(fitted, table, noisy, factors)
    order = np.random.default_rng(random_state).permutation(len(table.x))
    n_held_out = round(_HELD_OUT * len(order))
    spec = Spec(dict(fitted.arguments), fitted.seed)
    changed = [each.table for each in cases]
    models = fit_stack([spec] * len(changed), [each.take(order[n_held_out:]) for each in changed], on_progress)
    found = [_predicted(each, part.take(order[:n_held_out])) for each, part in zip(models, changed, strict=True)]
    rows = tuple(_row(case, each, found[0]) for case, each in zip(cases, found, strict=True))
    result = Sensitivity(rows, n_held_out)
    if result.overstated:
        warnings.warn(
            f"The errors of {', '.join(result.overstated)} (column) seem overstated: labels of rows held out are more "
            "probable as they shrink. Check their units, and whether they are standard deviations, not limits or twice "
            "that; x_err=eiv.estimated(...) learns their size.",
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


def table_for(model: EiVRegressor | FittedModel, X: Any, y: Any, X_err: Any, y_err: Any) -> tuple[FittedModel, Table]:
    """A model, and rows with labels for it, checked, with the errors that it takes them to have."""
    model = model.model_ if isinstance(model, EiVRegressor) else model
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
    if model.sizes is not None:
        errors = times(errors, model.sizes.factor)
    known = None if y_err is None else v.check_y_err(y_err, labels.shape, model.names.outputs)
    return model, Table(x, errors, labels, known, model.names)


class _Case(NamedTuple):
    """What is changed, and the rows with it."""

    column: str
    factor: float
    law: str
    table: Table


def _cases(model: FittedModel, table: Table, noisy: list[int], factors: Sequence[float | str]) -> list[_Case]:
    """What is changed: first nothing, then the errors of all noisy columns, then those of each."""
    names = model.names.features or tuple(f"x{j}" for j in range(model.n_features))
    groups = [(_ALL, noisy)] + ([(names[j], [j]) for j in noisy] if len(noisy) > 1 else [])
    found = [_Case(_ALL, 1.0, STATED, table)]
    for (name, columns), factor in itertools.product(groups, factors):
        if isinstance(factor, str):
            if table.x_err.ndim == 2:
                changed = replace(table, x_err=with_law(table.x_err, columns, _unit(factor)))
                found.append(_Case(name, 1.0, factor, changed))
        elif factor != 1:
            each = np.ones(model.n_features)
            each[columns] = factor
            found.append(_Case(name, float(factor), STATED, table.with_errors_times(each)))
    return found


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
    )
