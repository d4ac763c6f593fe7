"""Whether neighbouring rows agree better than sigma_y says: a fit that has missed the curve."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eiv.model import FittedModel
from eiv.scaling import mean_and_spread
from eiv.training.fitting import Table

__all__ = ["MissedCurveWarning", "NeighbourTest"]

Array = NDArray[np.float64]
_CHANCE = 1e-3  # of tables with as much scatter as is tested for lead to a warning
_SHARE = 0.5  # of the variance that sigma_y claims; more of it can be what is left of any fit
_MOST_ROWS = 2000  # that are compared with each other: they leave 4 % of a variance open


class MissedCurveWarning(UserWarning):
    r"""Labels of neighbouring rows agree far better than the fitted sigma_y says, so that the fit has missed a curve.

    .. math:: \frac{1}{2 N} \sum_i (y_i - y_{n(i)})^2 \ll \sigma_y^2

    Examples:
        >>> import warnings
        >>> warnings.simplefilter("ignore", MissedCurveWarning)

    """


@dataclass(frozen=True)
class NeighbourTest:
    r"""A test of whether labels scatter about f by as much as is said, from pairs of neighbouring rows.

    With n(i) the nearest row to row i, columns in units of their spread,

    .. math::
        D = \frac{1}{2 N} \sum_i (y_i - y_{n(i)})^2 = \frac{1}{2 N} y^T L y, \qquad
        E D = v + \frac{1}{2 N} \sum_i (f_i - f_{n(i)})^2 \ge v

    for labels with variance v about f; errors of x can but raise D, too. L is the Laplacian of the graph of neighbours,
    with w = 2 between two rows that are nearest to each other, else 1. If f is the same in neighbouring rows,

    .. math::
        \operatorname{Var} D = \frac{v^2}{4 N^2} \big( 2 \operatorname{tr} L^2 + (\kappa - 3) \sum_i L_{ii}^2 \big),
        \qquad \operatorname{tr} L^2 = \sum_i L_{ii}^2 + 2 \sum_{i < j} w_{ij}^2

    with kurtosis kappa; that of y is taken, 3 at least. For rows on a line this is von Neumann's ratio.

    Attributes:
        difference: the root of D, in units of y.
        error: the standard error of D over v, which does not depend on v.

    Examples:
        >>> x = np.linspace(0, 1, 200)[:, None]
        >>> test = NeighbourTest.of(x, np.sin(6 * x[:, 0]))
        >>> round(test.difference, 3), test.contradicts(0.5), test.contradicts(0.01)
        (0.015, True, False)

    """

    difference: float
    error: float

    @classmethod
    def of(cls, x: Array, y: Array, weights: Array | None = None) -> NeighbourTest:
        """The test of rows `rows x n_x` with labels `rows`, evenly chosen of many.

        With weights, `rows`, the pair of a row counts as often as its weight says, in D and in L.
        """
        rows = np.linspace(0, len(x) - 1, min(_MOST_ROWS, len(x))).round().astype(int)
        nearest, values = _nearest(x[rows]), y[rows]
        counts = np.ones(len(rows)) if weights is None else weights[rows]
        edges = np.zeros((len(rows), len(rows)))
        edges[np.arange(len(rows)), nearest] = counts
        edges += edges.T
        degrees = edges.sum(1)
        trace = np.square(degrees).sum() + np.square(edges).sum()
        mean, spread = mean_and_spread(values, weights if weights is None else counts)
        unit = (values - mean) / (spread or 1.0)
        excess = max(0.0, float(np.average(unit**4, weights=counts)) - 3)
        variance = (2 * trace + excess * np.square(degrees).sum()) / (4 * counts.sum() ** 2)
        difference = math.sqrt(float(np.average((values - values[nearest]) ** 2, weights=counts)) / 2)
        return cls(difference, math.sqrt(variance))

    def contradicts(self, noise: float) -> bool:
        """Whether labels scatter by less than half of the variance of `noise`, but for one table in 1,000."""
        claimed = _SHARE * noise**2
        return self.difference**2 < claimed * (1 - float(ndtri(1 - _CHANCE)) * self.error)


def warn_of_missed_curves(models: Sequence[FittedModel], tables: Sequence[Table], stacklevel: int) -> None:
    """Warn once where neighbouring rows contradict sigma_y of one of the models, by the worst of them.

    `stacklevel` is that of `warnings.warn`, seen from whoever calls this.
    """
    found = [
        (noise / (test.difference or math.inf), _words(model, output, noise, test))
        for model, table in zip(models, tables, strict=True)
        for output, noise in enumerate(_claimed(model, table))
        if (test := NeighbourTest.of(table.x, table.y[:, output], table.weights)).contradicts(noise)
    ]
    if found:
        warnings.warn(max(found)[1], MissedCurveWarning, stacklevel=stacklevel + 1)


def _claimed(model: FittedModel, table: Table) -> list[float]:
    """How far labels scatter about f by the model: sigma_y and the known errors of each output."""
    known = 0.0 if table.y_err is None else np.average(table.y_err**2, axis=0, weights=table.weights)
    return [float(noise) for noise in np.sqrt(model.y_noise**2 + known)]


def _words(model: FittedModel, output: int, noise: float, test: NeighbourTest) -> str:
    of_output = f" of {model.names.outputs[output]}" if model.names.outputs and model.n_outputs > 1 else ""
    other = "network='paper'" if model.settings.network == "cosine" else "more epochs"
    if model.settings.network != "cosine" and model.settings.likelihood == "normal":
        other = "network='cosine' or more epochs"
    return (
        f"sigma_y{of_output} came out at {noise:.3g}, but labels of rows next to each other differ as if it were "
        f"{test.difference:.3g} at most: the fit has missed a curve that the labels show. Check the units of the "
        f"errors of X: errors that are too large wash a curve out. Try {other}, or give y_noise. Where rows are "
        "repeats of each other, average them first."
    )


def _nearest(x: Array) -> NDArray[np.intp]:
    """The place of the row nearest to each, columns in units of their spread."""
    spread = x.std(0)
    unit = (x - x.mean(0)) / np.where(np.ptp(x, axis=0) > 0, spread, np.inf)
    squares = np.square(unit).sum(1)
    distances = squares[:, None] + squares - 2 * unit @ unit.T
    np.fill_diagonal(distances, np.inf)
    return np.asarray(distances.argmin(1))
