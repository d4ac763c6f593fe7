"""The curve along each feature, with the others held at their median over the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eiv.prediction import Prediction
from eiv.report.sample import predict

if TYPE_CHECKING:
    from eiv import FittedModel

__all__ = ["Curve", "curves"]

Array = NDArray[np.float64]
_POINTS = 61
_MOST_BEYOND = 0.5  # how far a curve may reach beyond the training range on either side, as a share of it


@dataclass(frozen=True)
class Curve:
    """The prediction along one feature.

    Attributes:
        feature: the index j of the feature.
        x: the values of the feature, `points`.
        p: the predictions at these values, for one output.
        quantiles: those of the feature over the training rows, from `Record.x_quantiles`.

    Examples:
        >>> x = np.linspace(0, 1, 5)
        >>> p = Prediction(mean=2 * x, epistemic=0 * x, aleatoric=0 * x, noise=0 * x)
        >>> Curve(0, x, p, quantiles=np.array([0, 0.25, 0.5, 0.75, 1])).effect
        1.0

    """

    feature: int
    x: Array
    p: Prediction
    quantiles: Array

    @property
    def effect(self) -> float:
        """The change of the prediction between the 5 % and the 95 % quantile of the feature."""
        inside = (self.x >= self.quantiles[1]) & (self.x <= self.quantiles[3])
        ends = np.interp(self.quantiles[[1, 3]], self.x, self.p.mean)
        return float(np.ptp([*self.p.mean[inside], *ends]))


def curves(model: FittedModel, X: Array | None = None) -> list[list[Curve]]:
    """The curves of each output along each feature that varies, in order of their effect, the largest first.

    The other features are at their median over the training rows. All features have the error that the model was fitted
    with, or its median where rows differed; the same holds for labels. A curve spans the range of the training rows. It
    extends to that of X, by up to half a range.

    Args:
        model: a fitted model.
        X: `rows x n_x`, rows that the curves should span.

    Returns:
        One list per output.

    Examples:
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> (of_y,) = curves(EiVRegressor(0.1, epochs=2).fit(X[:, None], y).model_)
        >>> of_y[0].feature, len(of_y[0].x)
        (0, 61)

    """
    quantiles = model.record.x_quantiles
    low, high = quantiles[0], quantiles[-1]
    if X is not None:
        beyond = _MOST_BEYOND * (high - low)
        low = np.clip(X.min(0), low - beyond, low)
        high = np.clip(X.max(0), high, high + beyond)
    varying = np.flatnonzero(quantiles[-1] > quantiles[0])
    grids = np.linspace(low, high, _POINTS)
    rows = np.tile(quantiles[2], (len(varying), _POINTS, 1))
    for place, feature in enumerate(varying):
        rows[place, :, feature] = grids[:, feature]
    if not len(varying):
        return [[] for _ in range(model.n_outputs)]
    errors = None if model.x_err is not None else model.record.x_err_median
    found = []
    for p in predict(model, rows.reshape(-1, len(low)), errors, model.record.y_err_median):
        of_output = [
            Curve(int(feature), grids[:, feature], p[place * _POINTS : (place + 1) * _POINTS], quantiles[:, feature])
            for place, feature in enumerate(varying)
        ]
        found.append(sorted(of_output, key=lambda curve: -curve.effect))
    return found
