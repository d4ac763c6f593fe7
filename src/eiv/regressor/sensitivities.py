"""`sensitivity`: what would follow if the errors of X were of another size."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv import validation as v
from eiv.inputs.errors import standard_deviations, times
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
FACTORS = (0.5, 0.71, 1.41, 2.0)
_HELD_OUT, _FEWEST = 0.2, 10  # share of the rows that the models are judged by, and their least number
_SURE = 2.0  # standard errors
_CLEARLY = 0.02  # nats per label, as intervals 2 % narrower have
_ALL = "all"


@dataclass(frozen=True)
class SensitivityRow:
    """What another size of some errors does, on rows held out.

    Attributes:
        column: the column whose errors are changed, or "all".
        factor: what they are multiplied by.
        moved: the root mean square of the change of the prediction, in units of u(x) with the errors as stated.
        u_ratio: u(x) over that with the errors as stated, the median.
        coverage: the share of labels inside their 95 % interval.
        density_gain: the mean logarithm of the density of a label, less that with the errors as stated, in nats.
        density_error: the standard error of that difference, row by row.

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


@dataclass(frozen=True)
class Sensitivity:
    """How a model depends on the size of the errors of X; the result of `eiv.sensitivity`.

    Attributes:
        rows: one for each choice of columns and factor; that with the errors as stated has the factor 1.
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
        """A table with one line for each choice of columns and factor."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame([vars(row) for row in self.rows])

    def of(self, column: str) -> list[SensitivityRow]:
        """The lines of one choice of columns, by their factor; that with the errors as stated is among them."""
        chosen = [row for row in self.rows if row.column == column or row.factor == 1]
        return sorted(chosen, key=lambda row: row.factor)

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
            if not said:
                found.append(f"For the errors of {whose}, no conclusion changes between the factors that were tried.")
        return found

    def _changes(self, row: SensitivityRow) -> dict[str, str]:
        """What is other than with the errors as stated, by its kind."""
        if row.factor == 1:
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
        """Four panels against the factor, one line for each choice of columns: `figure.savefig("sensitivity.png")`."""
        from eiv.plotting import sensitivity_figure  # noqa: PLC0415

        return sensitivity_figure({column: [vars(row) for row in self.of(column)] for column in self.columns})


def sensitivity(
    model: EiVRegressor | FittedModel,
    X: Any,
    y: Any,
    X_err: Any = None,
    y_err: Any = None,
    *,
    factors: Sequence[float] = FACTORS,
    random_state: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> Sensitivity:
    r"""What would follow if the errors of X were of another size.

    .. math:: \sigma_{x,j} \mapsto \mathrm{factor} \cdot \sigma_{x,j}

    The model is fitted anew for each factor, of the errors of all columns together and of each noisy column alone. All
    fits are one stack, on the same four fifths of the rows and with the same seed, so that random differences cancel.
    The other rows judge them.

    Args:
        model: a fitted model, whose settings are taken.
        X: `rows x n_x`, such as its training rows; 50 rows at least.
        y: `rows` or `rows x n_y`.
        X_err: the errors of X; by default those of the fit.
        y_err: the known errors of y, or None.
        factors: what the errors are multiplied by.
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
        >>> found = sensitivity(model, X[:, None], y, factors=[0.5])
        >>> [(row.column, row.factor) for row in found.rows]
        [('all', 1.0), ('all', 0.5)]

    """
    fitted = model.model_ if isinstance(model, EiVRegressor) else model
    if not isinstance(fitted, FittedModel) or fitted.has_classes:
        raise TypeError("model must be a fitted EiVRegressor, or its FittedModel.")
    for factor in factors:
        v.check("factors", factor, v.real(0))
    table = _table(fitted, X, y, X_err, y_err)
    noisy = np.flatnonzero(standard_deviations(table.x_err).any(0)).tolist()
    if not noisy:
        raise ValueError("X_err: no column of X has an error, so that there is none to change.")
    choices = _choices(fitted, noisy, [each for each in factors if each != 1])
    order = np.random.default_rng(random_state).permutation(len(table.x))
    n_held_out = round(_HELD_OUT * len(order))
    spec = Spec(fitted.arguments, fitted.seed)
    scaled = [table.with_errors_times(factor) for _, _, factor in choices]
    models = fit_stack([spec] * len(scaled), [each.take(order[n_held_out:]) for each in scaled], on_progress)
    found = [_predicted(each, part.take(order[:n_held_out])) for each, part in zip(models, scaled, strict=True)]
    rows = tuple(_row(*choice[:2], each, found[0]) for choice, each in zip(choices, found, strict=True))
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


def _table(model: FittedModel, X: Any, y: Any, X_err: Any, y_err: Any) -> Table:
    """The rows, checked, with the errors that the model takes them to have."""
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
    if len(x) * _HELD_OUT < _FEWEST:
        raise ValueError(f"X must have {round(_FEWEST / _HELD_OUT)} rows at least, got {len(x)}.")
    if not (np.isfinite(x).all() and np.isfinite(labels).all()):
        raise ValueError("X and y must hold finite numbers only.")
    x, errors, _ = model.readings(x, X_err)
    if model.sizes is not None:
        errors = times(errors, model.sizes.factor)
    known = None if y_err is None else v.check_y_err(y_err, labels.shape, model.names.outputs)
    return Table(x, errors, labels, known, model.names)


def _choices(model: FittedModel, noisy: list[int], factors: list[float]) -> list[tuple[str, float, Array]]:
    """Which columns are changed, by how much, and the factor of each: first none of them."""
    names = model.names.features or tuple(f"x{j}" for j in range(model.n_features))
    found = [(_ALL, 1.0, np.ones(model.n_features))]
    groups = [(_ALL, noisy)] + ([(names[j], [j]) for j in noisy] if len(noisy) > 1 else [])
    for (name, columns), factor in itertools.product(groups, factors):
        each = np.ones(model.n_features)
        each[columns] = factor
        found.append((name, float(factor), each))
    return found


def _predicted(model: FittedModel, table: Table) -> _Judged:
    p = model.predict(table.x, table.x_err, 0.0 * table.y if table.y_err is None else table.y_err, keep_draws=False)
    y = table.y if model.names.has_columns else table.y[:, 0]
    assert p.labels is not None
    densities = p.labels.moment_log_density(p.mean, p.std, y).reshape(len(y), -1)
    return _Judged(p, densities.mean(1), coverage(y, *p.interval(0.95, of="label")))


def _row(column: str, factor: float, found: _Judged, stated: _Judged) -> SensitivityRow:
    change = (found.prediction.mean - stated.prediction.mean) / stated.prediction.std
    gain = found.densities - stated.densities
    return SensitivityRow(
        column,
        factor,
        moved=float(np.sqrt(np.mean(change**2))),
        u_ratio=float(np.median(found.prediction.std / stated.prediction.std)),
        coverage=float(found.covered),
        density_gain=float(gain.mean()),
        density_error=float(gain.std() / np.sqrt(len(gain))),
    )
