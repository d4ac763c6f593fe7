"""Nodes for the integral over zeta in a prediction: a rule that does not depend on any seed."""

from __future__ import annotations

import functools

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

__all__ = ["nearest_nodes", "nodes_of_rule"]

Array = NDArray[np.float64]
_SCRAMBLE = 0  # the seed of Owen's scrambling, which belongs to the rule
_FEWEST_WITH_TAILS = 10
_MOST_ASSIGNED = 1000


@functools.lru_cache(maxsize=32)
def nodes_of_rule(n_nodes: int, n_base: int) -> Tensor:
    r"""Standard normal noise of equal weight for the integral over zeta.

    .. math:: \int h(e)\, \mathcal{N}(e | 0, I)\, de \approx \frac1Q \sum_q h(e_q)

    On a line they are the quantiles at (q - 1/2) / Q, from ten on stretched a little, so that their squares and fourth
    powers have the means of normal numbers. Of several numbers each takes these values, in the order of a scrambled
    Sobol sequence.

    Args:
        n_nodes: Q.
        n_base: the numbers behind a zeta.

    Returns:
        `Q x n_base`, in float64.

    Examples:
        >>> nodes_of_rule(6, 1).flatten().round(decimals=2)
        tensor([-1.3800, -0.6700, -0.2100,  0.2100,  0.6700,  1.3800], dtype=torch.float64)

    """
    on_a_line = torch.from_numpy(_with_tails(ndtri((np.arange(n_nodes) + 0.5) / n_nodes)))
    if n_base == 1:
        return on_a_line.unsqueeze(1)
    points = torch.quasirandom.SobolEngine(n_base, scramble=True, seed=_SCRAMBLE).draw(n_nodes, dtype=torch.float64)
    return on_a_line[points.argsort(dim=0).argsort(dim=0)]


def nearest_nodes(fine: Tensor, coarse: Tensor) -> Tensor:
    r"""For each coarse node as many fine ones as there are for each, near to it.

    .. math:: \min_{q(p, l)} \sum_{p, l} |e_{q(p, l)} - e'_p|^2

    Of more than 1,000 fine nodes, where that takes long, those are put together that are next to each other along the
    first axis.

    Args:
        fine: `L P x n_base`.
        coarse: `P x n_base`.

    Returns:
        Their positions, `P x L`.

    Examples:
        >>> nearest_nodes(nodes_of_rule(6, 1), nodes_of_rule(2, 1)).sort().values
        tensor([[0, 1, 2],
                [3, 4, 5]])

    """
    n_near = len(fine) // len(coarse)
    if len(fine) > _MOST_ASSIGNED or fine.shape[1] == 1:
        in_order = fine[:, 0].argsort().view(len(coarse), n_near)
        return in_order[coarse[:, 0].argsort().argsort()]
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  (slow to import)
    from scipy.spatial.distance import cdist  # noqa: PLC0415

    distances = cdist(coarse.repeat_interleave(n_near, 0).numpy(), fine.numpy(), "sqeuclidean")
    return torch.from_numpy(linear_sum_assignment(distances)[1].reshape(len(coarse), n_near))


def _with_tails(nodes: Array) -> Array:
    """Nodes a e + b e^3 whose mean square is 1 and whose mean fourth power is 3, as of normal numbers.

    Few nodes of equal weight do not reach the tails: a hundred quantiles have a fourth power of 2.9, and a variance
    that comes from curvature would be 6 % too small. Where there are too few nodes for that, they stay as they are.
    """
    if len(nodes) < _FEWEST_WITH_TAILS:
        return nodes

    def gaps(factors: Array) -> list[float]:
        squares = (factors[0] * nodes + factors[1] * nodes**3) ** 2
        return [squares.mean() - 1, (squares**2).mean() - 3]

    from scipy.optimize import root  # noqa: PLC0415  (slow to import)

    a, b = root(gaps, [1.0, 0.0]).x
    return np.asarray(a * nodes + b * nodes**3)
