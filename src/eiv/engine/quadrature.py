"""Weighted sums over the zetas of a row, or over points between them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Quadrature"]


@dataclass(frozen=True)
class Quadrature:
    r"""A quadrature rule in place of the mean over draws in the inner sum of eq. (mcloss).

    .. math:: \int p(y | \theta, \zeta)\, \pi(\zeta | x)\, d\zeta \approx
              \sum_{p=1}^P w_p\, p\Big(y \Big| f = \sum_{l=1}^L A_{pl} f_\theta(\zeta_l)\Big)

    The density of y given f is that of any likelihood.

    Without A the P points are the zetas themselves. With A, f is interpolated linearly between L zetas, so that a
    narrow peak of the likelihood between two zetas is not missed.

    Attributes:
        log_weights: log(P w), `P`.
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
        """The values of f at the points, `S x B x P x n_y`, from those at the zetas, `S x B x L x n_y`."""
        return f if self.between is None else torch.matmul(self.between, f)

    def to_zetas(self, gradient: Tensor) -> Tensor:
        """The gradient with respect to f at the zetas from that at the points, in the shapes of `points`."""
        return gradient if self.between is None else torch.matmul(self.between.mT, gradient)

    def of_zetas(self, weights: Tensor) -> Tensor:
        """The weights of the zetas, `S x B x L`, from those of the points, `S x B x P`."""
        return weights if self.between is None else weights @ self.between
