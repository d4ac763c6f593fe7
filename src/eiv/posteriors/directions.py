"""A covariance of weights by the few directions in which the data have changed it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Directions"]

_SAME = 2.0**-23  # relative difference of variances that is left out: that of roots which are kept in float32


class Directions(NamedTuple):
    r"""C where most directions have the variance c, as under a prior that the data do not change there.

    .. math:: C = c\, I + \sum_k (\lambda_k - c)\, v_k v_k^T, \qquad
              J C J^T = c\, |J|^2 + \sum_k (\lambda_k - c)\, (J v_k)^2

    Directions whose variance is c, except for 1.2e-7 of it, are not among the :math:`v_k`. This changes no
    :math:`J C J^T` by more than 1.2e-7 of it, for it includes c times the square of J along these directions.

    Attributes:
        common: c, `S`.
        excess: :math:`\lambda_k - c`, `S x r`.
        vectors: :math:`v_k`, `S x n_w x r`.

    Examples:
        >>> root = torch.diag(torch.tensor([2.0, 1.0, 1.0], dtype=torch.float64))[None]
        >>> directions = Directions.of(root)
        >>> directions.vectors.shape, directions.variance(torch.ones(1, 1, 3).double())
        (torch.Size([1, 3, 1]), tensor([[6.]], dtype=torch.float64))

    """

    common: Tensor
    excess: Tensor
    vectors: Tensor

    @classmethod
    def of(cls, root: Tensor) -> Directions:
        """The directions of C, whose symmetric roots are `S x n_w x n_w`."""
        values, vectors = torch.linalg.eigh(root)
        variances = values.square()
        common = variances.median(dim=1, keepdim=True).values
        excess = variances - common
        n_different = int((excess.abs() > _SAME * common).sum(1).max())
        chosen = excess.abs().topk(n_different, dim=1).indices
        return cls(common.squeeze(1), excess.gather(1, chosen), vectors.take_along_dim(chosen.unsqueeze(1), dim=2))

    def variance(self, slopes: Tensor) -> Tensor:
        """J C J^T for slopes J, `S x R x n_w`: `S x R`."""
        along = torch.matmul(slopes, self.vectors).square_()
        changed = torch.matmul(along, self.excess.unsqueeze(2)).squeeze(2)
        found: Tensor = changed.addcmul_(self.common.unsqueeze(1), torch.linalg.vecdot(slopes, slopes))
        return found
