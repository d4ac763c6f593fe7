"""Sums over the zetas of a row that have weights, or that stand for the points between them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Quadrature"]


@dataclass(frozen=True)
class Quadrature:
    r"""A rule for the inner sum of eq. (mcloss) that is more than a mean over draws.

    .. math:: \int p(y | \theta, \zeta)\, \pi(\zeta | x)\, d\zeta \approx
              \sum_{p=1}^P w_p\, \mathcal{N}\Big(y \Big| \sum_{l=1}^L A_{pl} f_\theta(\zeta_l), \sigma_y^2\Big)

    Without A the points are the zetas themselves. With A, f is known at L zetas and taken to be straight between them:
    a likelihood that is narrow in f, and has moved on from one zeta to the next, is not missed.

    Attributes:
        log_weights: log P w, `P`.
        between: A, `P x L`; None where P = L and A is the identity.

    Examples:
        >>> middle = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
        >>> rule = Quadrature(torch.zeros(3), middle)
        >>> rule.points(torch.tensor([0.0, 4.0]).reshape(1, 1, 2, 1)).flatten()
        tensor([0., 2., 4.])

    """

    log_weights: Tensor
    between: Tensor | None = None

    def points(self, f: Tensor) -> Tensor:
        """F at the points, `S x B x P x n_y`, from f at the zetas, `S x B x L x n_y`."""
        return f if self.between is None else torch.matmul(self.between, f)

    def to_zetas(self, gradient: Tensor) -> Tensor:
        """The gradient with respect to f at the zetas, from that with respect to f at the points."""
        return gradient if self.between is None else torch.matmul(self.between.mT, gradient)

    def of_zetas(self, weights: Tensor) -> Tensor:
        """The weights of the zetas, `S x B x L`, from those of the points, `S x B x P`."""
        return weights if self.between is None else weights @ self.between
