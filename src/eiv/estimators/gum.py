"""Uncertainty budgets after the GUM, of the predictions of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eiv.estimators.base import masked_readings, named
from eiv.estimators.carried import inputs_at_predict
from eiv.inputs.mixed import Errors
from eiv.io.dsi import dsi_unit
from eiv.io.measured import errors_in_units
from eiv.model import FittedModel, Names
from eiv.prediction.gum import InputQuantity, UncertaintyBudget
from eiv.validation import check_numeric, check_option, check_same_labels, check_y_err

__all__ = ["uncertainty_budgets"]

Array = NDArray[np.float64]
_STEP = 1e-3  # of the spread of an exact column, over which its sensitivity coefficient is found


def uncertainty_budgets(
    model: Any,
    X: Any,
    X_err: Any = None,
    y_err: Any = None,
    *,
    of: Literal["function", "label"] = "function",
    dof: Mapping[str, float] | None = None,
    level: float = 0.95,
) -> list[UncertaintyBudget]:
    r"""The uncertainty budget of each prediction after the GUM.

    .. math:: c_i u(x_i) = \tfrac12 \big( f(\hat\zeta + u(x_i) e_i) - f(\hat\zeta - u(x_i) e_i) \big), \qquad
              u_c^2 = \sum_i c_i^2 u^2(x_i) + \mathrm{epistemic}^2 \; (+ \mathrm{noise}^2) + \mathrm{remainder}

    Input quantities are the features: their estimate is the mean of the true input given x, and their standard
    uncertainty its standard deviation, which differs from the stated error where the input prior is learned.
    Sensitivity coefficients are found as in GUM 5.1.3, note 2. What the fit leaves open is the quantity "fit", and the
    scatter of labels "noise". The combined standard uncertainty is that of the prediction, `Prediction.std` or `total`:
    the remainder holds what curvature and correlations add or take away.

    Where the size of an error was learned (`eiv.estimated`), standard uncertainties are over all sizes, and the degrees
    of freedom of the input are those of the learned size, `LearnedSizes.dof`.

    Args:
        model: a fitted `EiVRegressor` with one output, or its `FittedModel`.
        X: `rows x n_x`, in every form that `predict` takes; numbers with units are brought to those of the fit.
        X_err: the errors of these rows, where they differ from those of the fit.
        y_err: known errors of labels in these rows, which add to the noise.
        of: "function" for f(zeta), "label" for a measured y.
        dof: degrees of freedom of standard uncertainties, by the names of features, "fit" and "noise"; by default they
            are infinite, and those of the learned size for errors whose size was learned.
        level: the coverage probability.

    Returns:
        One budget per row, in the units of the fit. They are in the notation of the D-SI, or under their own names
        where that has none for them.

    Examples:
        >>> from eiv import EiVRegressor
        >>> x, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> model = EiVRegressor(0.1, epochs=2).fit(x[:, None], y)
        >>> (budget,) = uncertainty_budgets(model, [[0.5]], dof={"x0": 9})
        >>> [quantity.name for quantity in budget.quantities]
        ['x0', 'fit']
        >>> bool(np.isclose(budget.std, model.predict([[0.5]], return_std=True)[1][0]))
        True

    """
    check_option("of", of, ("function", "label"))
    fitted: FittedModel = model if isinstance(model, FittedModel) else model.model_
    if fitted.n_outputs != 1:
        raise ValueError(f"model must have one output, got {fitted.n_outputs}.")
    names = fitted.names.features or tuple(f"x{i}" for i in range(fitted.n_features))
    known = dict(dof or {})
    unknown = [name for name in known if name not in (*names, "fit", "noise")]
    if unknown:
        raise ValueError(f"dof must be of {', '.join((*names, 'fit', 'noise'))}; got {', '.join(map(str, unknown))}.")
    x, errors = _rows(fitted, X, X_err)
    known_y = None if y_err is None else _label_errors(fitted.names, X, y_err, len(x))
    p = fitted.predict(x, errors, known_y, keep_draws=False)
    mean, aleatoric, epistemic, noise = (np.ravel(v) for v in (p.mean, p.aleatoric, p.epistemic, p.noise))
    centre, stds = fitted.zeta_moments(x, errors)
    slopes = _slopes(fitted, centre, np.where(stds > 0, stds, _STEP * fitted.record.x_spread))
    of_sizes = np.full(len(names), np.inf) if fitted.sizes is None else fitted.sizes.dof
    dofs = dict(zip(names, of_sizes.tolist(), strict=True)) | {"fit": np.inf, "noise": np.inf} | known
    units, unit = _units(fitted.names, len(names))
    name = "y" if fitted.names.outputs is None else fitted.names.outputs[0]
    found = []
    for r in range(len(x)):
        quantities = [
            InputQuantity(each, float(centre[r, i]), float(stds[r, i]), float(slopes[r, i]), dofs[each], units[i])
            for i, each in enumerate(names)
        ]
        remainder = float(aleatoric[r]) ** 2 - sum(each.contribution**2 for each in quantities)
        quantities.append(InputQuantity("fit", 0.0, float(epistemic[r]), dof=dofs["fit"], unit=unit))
        if of == "label":
            quantities.append(InputQuantity("noise", 0.0, float(noise[r]), dof=dofs["noise"], unit=unit))
        found.append(UncertaintyBudget(name, float(mean[r]), tuple(quantities), remainder, level, unit))
    return found


def _rows(model: FittedModel, X: Any, X_err: Any) -> tuple[Array, Errors]:
    """The features of some rows, `rows x n_x`, and their errors, checked and in the units of the fit."""
    expected, columns = model.names.columns, model.names.error_columns
    n_columns = model.n_features if columns is None else len(columns.columns)
    check_same_labels(X, X_err=X_err)
    masked = masked_readings(model.settings.missing)
    X, X_err = inputs_at_predict(X, X_err, model.names, n_columns, masked=masked)
    check_numeric("X", X)
    if expected is not None and hasattr(X, "columns") and list(map(str, X.columns)) != list(expected):
        raise ValueError(f"X must have the columns {', '.join(expected)}, got {', '.join(map(str, X.columns))}.")
    x = named(X, None, np.asarray, X, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != n_columns:
        raise ValueError(f"X must have shape (rows, {n_columns}), got {x.shape}.")
    x, in_columns = (x, None) if columns is None else columns.split(x)
    found = model.readings(x, in_columns if X_err is None else X_err)
    return found.x, found.errors


def _label_errors(names: Names, X: Any, y_err: Any, n_rows: int) -> Array:
    """The known errors of labels, `rows x 1`, checked and in the unit of the fit."""
    check_same_labels(X, y_err=y_err)
    return check_y_err(errors_in_units("y_err", y_err, names.output_units, names.outputs), (n_rows, 1), names.outputs)


def _units(names: Names, n_features: int) -> tuple[list[str | None], str | None]:
    """The units of the features and of the output for a budget, of the D-SI where it has them; None if not known."""

    def written(unit: str | None) -> str | None:
        return None if unit is None else dsi_unit(unit) or unit

    (of_output,) = names.output_units or (None,)
    return [written(unit) for unit in names.units or (None,) * n_features], written(of_output)


def _slopes(model: FittedModel, centre: Array, steps: Array) -> Array:
    """Differences of f over two steps along each feature, over their length: `rows x n_x`; 0 for constant columns."""
    exact = np.zeros((1, centre.shape[1]))
    slopes = np.zeros_like(centre)
    for i in range(centre.shape[1]):
        if not steps[:, i].any():
            continue
        step = steps * np.eye(centre.shape[1])[i]
        up, down = (np.ravel(model.predict(z, exact, keep_draws=False).mean) for z in (centre + step, centre - step))
        slopes[:, i] = (up - down) / (2 * steps[:, i])
    return slopes
