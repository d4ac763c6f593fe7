"""Nodes for the integral over zeta in a prediction: a rule that does not depend on any seed."""

from __future__ import annotations

import functools

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, root
from scipy.spatial.distance import cdist
from scipy.special import ndtri
from torch import Tensor

__all__ = ["nodes_of_rule"]

Array = NDArray[np.float64]
_SCRAMBLE = 0  # the seed of Owen's scrambling, which belongs to the rule
_FEWEST_WITH_TAILS = 10


@functools.lru_cache(maxsize=32)
def nodes_of_rule(n_coarse: int, n_near: int, n_base: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""Standard normal noise of equal weight in two sets, a fine and a coarse one, and which of them lie close.

    .. math:: \int h(e)\, \mathcal{N}(e | 0, I)\, de \approx \frac1Q \sum_q h(e_q) \approx \frac1P \sum_p h(e'_p),
              \qquad Q = L P

    On a line they are the quantiles at (q - 1/2) / Q, from ten on stretched a little, so that their squares and fourth
    powers have the means of normal numbers. Of several numbers each takes these values, in the order of a scrambled
    Sobol sequence.

    Args:
        n_coarse: P.
        n_near: L.
        n_base: the numbers behind a zeta.

    Returns:
        The fine nodes, `L P x n_base`; the coarse ones, `P x n_base`; and for each of these the positions of L of the
        fine ones, `P x L`, such that the sum of all squared distances is the smallest.

    Examples:
        >>> fine, coarse, near = nodes_of_rule(2, 3, 1)
        >>> fine.flatten().round(decimals=2)
        tensor([-1.3800, -0.6700, -0.2100,  0.2100,  0.6700,  1.3800], dtype=torch.float64)
        >>> coarse.flatten().round(decimals=2), near.sort().values
        (tensor([-0.6700,  0.6700], dtype=torch.float64), tensor([[0, 1, 2],
                [3, 4, 5]]))

    """
    fine, coarse = _nodes(n_near * n_coarse, n_base), _nodes(n_coarse, n_base)
    _, places = linear_sum_assignment(cdist(coarse.repeat(n_near, 0), fine, "sqeuclidean"))
    return torch.from_numpy(fine), torch.from_numpy(coarse), torch.from_numpy(places.reshape(n_coarse, n_near))


def _nodes(n_nodes: int, n_base: int) -> Array:
    """The same nodes along every axis, `n x n_base`, in an order that fills the space between them evenly."""
    on_a_line = _with_tails(ndtri((np.arange(n_nodes) + 0.5) / n_nodes))
    if n_base == 1:
        return on_a_line[:, None]
    points = torch.quasirandom.SobolEngine(n_base, scramble=True, seed=_SCRAMBLE).draw(n_nodes, dtype=torch.float64)
    return np.asarray(on_a_line[points.argsort(dim=0).argsort(dim=0).numpy()])


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

    a, b = root(gaps, [1.0, 0.0]).x
    return np.asarray(a * nodes + b * nodes**3)
