"""The error of the input in every form a user may give it.

Inside there are two forms of normal errors, distinguished by their axes: standard deviations, `1 x n_x` or
`rows x n_x`, and covariances, `1 x n_x x n_x` or `rows x n_x x n_x`. Errors without correlation always have the first,
which is faster. Columns with other laws, and cells without a reading, make a `MixedErrors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from eiv.inputs.mixed import Errors, MixedErrors
from eiv.validation import in_feature_order

__all__ = ["RelativeError", "check_x_err", "relative", "standard_deviations", "times"]

Array = NDArray[np.float64]
_ROUNDING = 1e-8  # share of a matrix by which rounding may break its symmetry, or make an eigenvalue negative


@dataclass(frozen=True)
class RelativeError:
    r"""An error given as a share of the spread of each column of the training X; made by `eiv.relative`.

    .. math:: \sigma_{x,j} = \mathrm{share}_j \cdot \mathrm{std}(x_{1j}, \dots, x_{Nj})

    Attributes:
        share: a number, one per feature, or those by name.

    Examples:
        >>> RelativeError(0.05).of(np.array([[0.0], [2.0]]).std(0), None)
        array([[0.05]])

    """

    share: Any

    def of(self, spread: Array, feature_names: Sequence[str] | None) -> Array:
        """The error for columns with this `spread`, `n_x`: `1 x n_x`."""
        shares = check_x_err("relative", in_feature_order("relative", self.share, feature_names), len(spread))
        if shares.ndim == 3:
            raise ValueError(f"relative must be a number or {len(spread)} values, got a matrix.")
        return shares * spread


def relative(share: Any) -> RelativeError:
    r"""An error of X as a share of the spread of each column, as the paper has it on real data.

    .. math:: \sigma_{x,j} = \mathrm{share}_j \cdot \mathrm{std}(x_{1j}, \dots, x_{Nj})

    The spread is that of the training rows, at predict too.

    Args:
        share: a number, one value per feature, or those by name (a mapping or a pandas Series).

    Returns:
        What `x_err` and `X_err` take.

    Examples:
        >>> from eiv import EiVRegressor, relative
        >>> model = EiVRegressor(x_err=relative(0.05))

    """
    return RelativeError(share)


def check_x_err(name: str, x_err: Any, n_features: int, n_rows: int | None = None) -> Array:
    """Errors in every form, checked, in one of the two forms that are used inside.

    Without `n_rows` two axes are a covariance. With it, for errors handed to `fit` or `predict`, shape `(rows, n_x)` is
    one standard deviation per row and feature, and `(n_x, n_x)` is a covariance of all rows where there are two
    features or more and another number of rows. Where both could be meant, a matrix that cannot be a covariance, or
    whose values are all the same, is one value per row and feature; any other is refused. `(1, n_x, n_x)` is always a
    covariance, and so is a table whose index and columns have the same names.

    Args:
        name: of the argument, for messages.
        x_err: a number; `n_x` values; a covariance; and with `n_rows` `rows x n_x` or `rows x n_x x n_x`.
        n_features: n_x.
        n_rows: the rows of X, where per-row errors are accepted.

    Returns:
        Standard deviations `(1 or rows) x n_x`, or covariances `(1 or rows) x n_x x n_x`.

    Examples:
        >>> check_x_err("x_err", 0.1, n_features=2)
        array([[0.1, 0.1]])
        >>> check_x_err("x_err", [[0.04, 0.0], [0.0, 0.01]], n_features=2)
        array([[0.2, 0.1]])
        >>> check_x_err("x_err", [[0.04, 0.01], [0.01, 0.01]], n_features=2).shape
        (1, 2, 2)

    """
    if isinstance(x_err, str | bool | np.bool_):
        raise ValueError(f"{name} must be a number or numbers, got {x_err!r}.")
    takes = _takes(n_features, n_rows)
    try:
        errors = np.asarray(x_err, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be {takes}, got {x_err!r}.") from error
    matrix = (n_features, n_features)
    shapes: set[tuple[int, ...]] = {(), (n_features,), (1, *matrix)}
    if n_rows is None or n_features > 1:
        shapes.add(matrix)
    if n_rows is not None:
        shapes |= {(n_rows, n_features), (n_rows, *matrix)}
    if errors.shape not in shapes:
        raise ValueError(f"{name} must be {takes}, got shape {errors.shape}.")
    if not np.isfinite(errors).all():
        raise ValueError(f"{name} must be finite, but holds NaN or infinity.")
    if errors.ndim == 2 and _is_one_covariance(name, errors, n_rows):
        errors = errors[None]
    if errors.ndim == 3:
        return _checked_covariances(name, errors)
    if (errors < 0).any():
        raise ValueError(f"{name} must not be negative, got {errors.min():g}.")
    return np.array(np.broadcast_to(errors, (1 if errors.ndim < 2 else len(errors), n_features)))


def named_errors(name: str, x_err: Any, feature_names: Sequence[str] | None) -> Any:
    """Errors that carry names in the order of the features; a covariance table becomes `1 x n_x x n_x`."""
    if not isinstance(x_err, Mapping) and getattr(x_err, "ndim", 0) == 2 and hasattr(x_err, "columns"):
        labels = list(x_err.index)
        if len(labels) == len(x_err.columns) and set(labels) == set(x_err.columns):
            if feature_names is None:
                raise ValueError(f"{name} has names, but X has none: give a table with column names, or plain numbers.")
            ordered = in_feature_order(name, x_err, feature_names)  # columns; and now the rows
            return ordered[[labels.index(feature) for feature in feature_names]][None]
    return in_feature_order(name, x_err, feature_names)


@overload
def times(x_err: Array, factor: float | Array) -> Array: ...
@overload
def times(x_err: Errors, factor: float | Array) -> Errors: ...
def times(x_err: Errors, factor: float | Array) -> Errors:
    """Errors `factor` times as large, one number or one per feature, in the same form, or with the same laws.

    Examples:
        >>> times(np.array([[0.1, 0.2]]), 2.0)
        array([[0.2, 0.4]])
        >>> times(np.array([[0.1, 0.2]]), np.array([1.0, 3.0])).round(3)
        array([[0.1, 0.6]])

    """
    if isinstance(x_err, MixedErrors):
        return x_err.times(factor)
    if x_err.ndim == 2:
        return x_err * factor
    return x_err * (factor**2 if isinstance(factor, float | int) else factor[:, None] * factor)


def standard_deviations(x_err: Errors) -> Array:
    """The errors of single features, `(1 or rows) x n_x`, from either form of `check_x_err`, or those of laws.

    Examples:
        >>> standard_deviations(np.array([[[0.01, 0.0], [0.0, 0.04]]]))
        array([[0.1, 0.2]])

    """
    if isinstance(x_err, MixedErrors):
        return x_err.std
    return x_err if x_err.ndim == 2 else np.sqrt(np.diagonal(x_err, axis1=-2, axis2=-1))


def _takes(n_features: int, n_rows: int | None) -> str:
    if n_rows is None:
        values = f"{n_features} value{'s' if n_features > 1 else ''} (one per feature)"
        return f"a number, {values} or a covariance of shape ({n_features}, {n_features})"
    return (
        f"a number, {n_features} values (one per feature), shape ({n_rows}, {n_features}) (one per row and feature), "
        f"or covariances of shape (1, {n_features}, {n_features}) or ({n_rows}, {n_features}, {n_features})"
    )


def _is_one_covariance(name: str, errors: Array, n_rows: int | None) -> bool:
    """Whether a matrix of errors is the covariance of all rows, rather than one value per row and feature."""
    if n_rows is None or len(errors) != n_rows:
        return True
    if errors.shape[0] != errors.shape[1] or np.ptp(errors) == 0 or not _is_covariance(errors[None]):
        return False
    n = len(errors)
    raise ValueError(
        f"{name} of shape ({n}, {n}) for {n} rows of {n} features could be one value per row and feature, or a "
        f"covariance. Give the covariance as shape (1, {n}, {n}), or the values as variances on the diagonals of an "
        f"array of shape ({n}, {n}, {n})."
    )


def _checked_covariances(name: str, covariances: Array) -> Array:
    if not _is_covariance(covariances):
        raise ValueError(f"{name} must hold covariances: symmetric matrices without negative eigenvalues.")
    variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    if (covariances == variances[..., None] * np.eye(variances.shape[-1])).all():
        return np.array(np.sqrt(variances))
    return np.array((covariances + covariances.swapaxes(-2, -1)) / 2)


def _is_covariance(matrices: Array) -> bool:
    """Whether all of `matrices` are symmetric and positive semi-definite, whatever the units of the features."""
    scale = np.sqrt(np.abs(np.diagonal(matrices, axis1=-2, axis2=-1)))
    scale = np.where(scale > 0, scale, 1.0)
    unit = matrices / (scale[..., None] * scale[..., None, :])
    if (np.abs(unit - unit.swapaxes(-2, -1)) > _ROUNDING).any():
        return False
    return bool((np.linalg.eigvalsh(unit) >= -_ROUNDING * matrices.shape[-1]).all())
