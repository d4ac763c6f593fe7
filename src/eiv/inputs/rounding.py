"""Whether numbers are left of a column after it is standardised and rounded."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eiv.scaling import Scaler
from eiv.validation import frames_to_caller

__all__ = ["LostPrecisionWarning", "warn_of_rounding"]

Array = NDArray[np.float64]
_MOST = 0.01  # of the standard deviation of most values: what rounding may add without a warning
_MIDDLE_HALF = 1.349  # standard deviations between the quartiles of a normal distribution


class LostPrecisionWarning(UserWarning):
    r"""An offset, or a few values far off, leave so few digits of a column that its values are lost to rounding.

    .. math:: \frac{r}{\sqrt{12}} > 0.01\, \frac{q_{75} - q_{25}}{1.349}

    where r is the step between neighbouring numbers at the quartiles, in the units of the column: the larger one of
    those of float64 before the column is standardised and of the networks' numbers after it. `fit` warns.

    Examples:
        >>> import warnings
        >>> warnings.simplefilter("ignore", LostPrecisionWarning)

    """


def warn_of_rounding(name: str, values: Array, scaler: Scaler, dtype: str, names: Sequence[str] | None = None) -> None:
    r"""Warn where the rounding error of most values of a column is more than a hundredth of their spread.

    .. math:: r = \max\big( \mathrm{ulp}_{64}(q),\; s \cdot \mathrm{ulp}((q - m) / s) \big)

    for the quartiles q, and the shift m and scale s of the standardisation. Columns whose middle half is constant are
    not judged.

    Args:
        name: of the argument, for messages.
        values: `rows x columns`.
        scaler: what standardises them.
        dtype: "float32" or "float64", the numbers of the networks.
        names: those of the columns, or None.

    Warns:
        LostPrecisionWarning: where it is so.

    Examples:
        >>> x = np.arange(9.0)[:, None]
        >>> warn_of_rounding("X", x, Scaler.fit(x), "float32")

    """
    quartiles = np.quantile(values, (0.25, 0.75), axis=0)
    standard = ((quartiles - scaler.shift) / scaler.scale).astype(dtype)
    with np.errstate(invalid="ignore"):  # a constant column has an infinite scale
        steps = np.maximum(np.abs(np.spacing(quartiles)), scaler.scale * np.abs(np.spacing(standard))).max(0)
    span = quartiles[1] - quartiles[0]
    for j in np.flatnonzero((span > 0) & (steps / np.sqrt(12) > _MOST * span / _MIDDLE_HALF)).tolist():
        column = f": column {names[j]!r}" if names is not None else f": column {j}" if values.shape[1] > 1 else ""
        warnings.warn(
            f"{name}{column} reaches from {values[:, j].min():.6g} to {values[:, j].max():.6g}, so that its values are "
            f"rounded to steps of {steps[j]:.2g}, while the middle half of them spans {span[j]:.2g}: little or nothing "
            "is left of it. Subtract an offset that all values share; correct or leave out values that are far off.",
            LostPrecisionWarning,
            stacklevel=frames_to_caller(),
        )
