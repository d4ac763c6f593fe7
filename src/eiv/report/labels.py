"""Predictions compared with measured labels: calibration, residuals, and patterns in the residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eiv.metrics import coverage, rmse
from eiv.prediction import Prediction

__all__ = ["Comparison", "Pattern"]

Array = NDArray[np.float64]
LEVELS = np.arange(0.05, 1.0, 0.05)
_GROUPS = 10


@dataclass(frozen=True)
class Pattern:
    r"""How much of the residuals a quantity explains, by their means in groups of rows with similar values of it.

    .. math:: \eta^2 = \sum_g n_g (\bar r_g - \bar r)^2 \Big/ \sum_i (r_i - \bar r)^2

    Attributes:
        centres: `groups`, the mean of the quantity in each group.
        means: `groups`, the mean residual in each group.
        errors: `groups`, the standard errors of these means; NaN for a group of one row.
        explained: eta^2, the share of the residuals' variance that the group means explain.
        by_chance: the mean of eta^2 if the residuals did not depend on the quantity.

    Examples:
        >>> x = np.repeat([0.0, 1.0], 50)
        >>> found = Pattern.of(x, np.where(x > 0, 1.0, -1.0))
        >>> found.means.tolist(), found.explained, round(found.by_chance, 3)
        ([-1.0, 1.0], 1.0, 0.01)

    """

    centres: Array
    means: Array
    errors: Array
    explained: float
    by_chance: float

    @classmethod
    def of(cls, x: Array, residuals: Array) -> Pattern:
        """The pattern of residuals over x in ten groups of equal size, or fewer where values repeat."""
        edges = np.unique(np.quantile(x, np.linspace(0, 1, _GROUPS + 1)[1:-1]))
        places = np.unique(np.searchsorted(edges, x, side="left"), return_inverse=True)[1]
        sizes = np.bincount(places)
        means = np.bincount(places, residuals) / sizes
        squares = np.bincount(places, (residuals - means[places]) ** 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.sqrt(squares / (sizes - 1) / sizes)
        whole = np.sum((residuals - residuals.mean()) ** 2)
        explained = float(1 - squares.sum() / whole) if whole > 0 else 0.0
        by_chance = (len(sizes) - 1) / max(len(x) - 1, 1)
        return cls(np.bincount(places, x) / sizes, means, errors, explained, by_chance)


@dataclass(frozen=True)
class Comparison:
    """Measured labels and their predictions.

    Attributes:
        X: `rows x n_x`, the rows that have a label.
        y: `rows`, the labels.
        p: the predictions for these rows, of one output.

    Examples:
        >>> from eiv.likelihoods import NormalLabels
        >>> labels = NormalLabels(np.ones(4))
        >>> p = Prediction(np.zeros(4), np.zeros(4), np.zeros(4), labels.std, labels=labels)
        >>> found = Comparison(np.zeros((4, 1)), np.array([-1.0, 0.5, 1.0, 5.0]), p)
        >>> found.covered([0.68, 0.95]).tolist(), found.residuals.tolist()
        ([0.25, 0.75], [-1.0, 0.5, 1.0, 5.0])

    """

    X: Array
    y: Array
    p: Prediction

    @classmethod
    def of(cls, X: Array, y: Array, p: Prediction) -> Comparison | None:
        """The comparison for the rows that have a label; None where there are fewer than two."""
        known = np.isfinite(y)
        return cls(X[known], y[known], p[known]) if known.sum() > 1 else None

    @property
    def residuals(self) -> Array:
        """Measured minus predicted labels, `rows`."""
        return self.y - self.p.mean

    @property
    def rmse(self) -> float:
        """Root mean squared error."""
        return rmse(self.y, self.p.mean)

    def covered(self, levels: Array | list[float]) -> Array:
        """The share of labels inside their interval at each level."""
        return np.array([coverage(self.y, *self.p.interval(float(level), of="label")) for level in levels])

    def chance(self, levels: Array | list[float]) -> Array:
        """Two standard deviations of `covered` at each level, for a calibrated model and independent rows."""
        q = np.asarray(levels, dtype=float)
        return np.asarray(2 * np.sqrt(q * (1 - q) / len(self.y)))

    def patterns(self) -> list[tuple[int, Pattern]]:
        """The pattern of the residuals over each feature that varies, the one that explains most first."""
        found = [(j, Pattern.of(self.X[:, j], self.residuals)) for j in np.flatnonzero(np.ptp(self.X, axis=0)).tolist()]
        return sorted(found, key=lambda pair: pair[1].by_chance - pair[1].explained)
