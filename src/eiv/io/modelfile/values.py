"""Values of a model file, checked for what they stand for; a ValueError says what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eiv.inputs import ErrorLaw
from eiv.inputs.errors import check_x_err
from eiv.inputs.stated import errors_under
from eiv.io.modelfile.container import Arrays
from eiv.scaling import Scaler


def floats(arrays: Arrays, name: str, *shape: int) -> NDArray[np.float64]:
    """An array of float64 of this shape."""
    values = arrays[name]
    if values.shape != shape or values.dtype != np.float64:
        raise ValueError(f"{name} is {values.dtype} of shape {values.shape}, not float64 of {shape}")
    return values


def not_negative(arrays: Arrays, name: str, n: int) -> NDArray[np.float64]:
    """`n` finite numbers of at least 0."""
    values = floats(arrays, name, n)
    if not ((values >= 0) & (values < np.inf)).all():
        raise ValueError(f"{name} must not be negative or infinite")
    return values


def quantiles_of(arrays: Arrays, n_x: int) -> NDArray[np.float64]:
    """The quantiles of the features, `5 x n_x`, in order."""
    values = floats(arrays, "x/quantiles", 5, n_x)
    if not np.isfinite(values).all() or (np.diff(values, axis=0) < 0).any():
        raise ValueError("the quantiles of its features are not in order")
    return values


def scaler_of(arrays: Arrays, name: str, n: int) -> Scaler:
    """Shifts and scales; an infinite scale is that of a feature without spread."""
    shift, scale = floats(arrays, f"{name}/shift", n), floats(arrays, f"{name}/scale", n)
    if not np.isfinite(shift).all() or not (scale > 0).all() or (name == "y" and not np.isfinite(scale).all()):
        finite = " and finite" if name == "y" else ""
        raise ValueError(f"{name}/shift must be finite, {name}/scale above zero{finite}")
    return Scaler(shift, scale)


def x_err_of(x_err: Any, n_x: int) -> NDArray[np.float64] | None:
    """The error of predictions: standard deviations, a covariance, or None."""
    if x_err is None:
        return None
    if not isinstance(x_err, np.ndarray) or x_err.dtype != np.float64 or x_err.shape not in ((n_x,), (n_x, n_x)):
        raise ValueError("x_err has the wrong shape")
    check_x_err("x_err", x_err, n_x)
    return x_err


def laws_of(laws: Any, n_x: int) -> tuple[ErrorLaw, ...] | None:
    """The laws of the errors of the features, tried on a reading of zero."""
    if laws is None:
        return None
    if not isinstance(laws, tuple) or len(laws) != n_x or not all(isinstance(law, ErrorLaw) for law in laws):
        raise ValueError(f"it must hold {n_x} laws of errors")
    if not all(law.is_shared for law in laws):
        raise ValueError("its laws of errors are not those of all rows")
    errors_under("laws", laws, np.zeros((1, n_x)))
    return laws


def sentence_of(value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError(f"words were expected, but there is {value!r}")
    return value
