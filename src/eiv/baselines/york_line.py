"""York's line: errors in both coordinates, known for each point."""

from __future__ import annotations

from typing import Any

from eiv.baselines.base import Rows
from eiv.baselines.orthogonal_distance import OrthogonalDistance

__all__ = ["YorkLine"]


class YorkLine(OrthogonalDistance):
    r"""A straight line through points whose errors are known in both coordinates, by the package odrpack.

    .. math:: \min_{a, b} \sum_i \frac{(y_i - a - b x_i)^2}{\sigma_{y,i}^2 + b^2 \sigma_{x,i}^2}

    - It assumes one column, a straight line, independent errors that are known for each point, and no other scatter.
    - It gives slope and intercept, with standard errors that follow from the stated errors alone.
    - It misses scatter beyond the stated errors: the standard errors of the line leave it out. `y_noise_` says how much
      there is.
    - Take it for two instruments on the same samples, for isochrons and for calibration lines.

    D. York, Least-squares fitting of a straight line, Can. J. Phys. 44, 1966.

    Args:
        x_err: as for `EiVRegressor`; errors of y go to `fit`.

    Attributes:
        coef_: `1`, the slope.
        intercept_: the value at x = 0.
        result_: the `odrpack.OdrResult`, in standardised units.
        y_noise_: the scatter of labels that the errors do not explain.

    Examples:
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.1, 1.9, 3.0]
        >>> model = YorkLine(0.1).fit(X, y, y_err=0.1)
        >>> model.coef_.round(3), round(model.intercept_, 3)
        (array([0.98...]), 0.0...)

    """

    def __init__(self, x_err: Any = None) -> None:
        super().__init__(x_err)

    def _fit(self, rows: Rows) -> None:
        if rows.x.shape[1] != 1:
            raise ValueError(f"X must have one column for York's line, got {rows.x.shape[1]}.")
        super()._fit(rows)

    @property
    def _covariance_factor(self) -> float:
        """One: the stated errors are all there is."""
        return 1.0
