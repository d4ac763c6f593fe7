"""The posterior of the true input given the measured one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["ZetaPosterior"]


@dataclass(frozen=True)
class ZetaPosterior:
    r"""Normal posterior of zeta given x, independent between rows and features.

    .. math:: \pi(\zeta | x, \sigma_x^2) = \mathcal{N}(\zeta | \mathrm{mean}, \mathrm{std}^2)

    Attributes:
        mean: `... x rows x n_x`.
        std: the same shape; the axis of the rows may be 1 where all rows share one error.

    Examples:
        >>> zeta = ZetaPosterior(mean=torch.zeros(1, 3, 2), std=torch.full((1, 1, 2), 0.1))
        >>> zeta.draw(torch.ones(1, 3, 5, 2)).shape  # five zetas a row
        torch.Size([1, 3, 5, 2])

    """

    mean: Tensor
    std: Tensor

    @property
    def is_exact(self) -> bool:
        """Whether zeta is known: no error in any row and feature."""
        return not bool(self.std.any())

    def take(self, rows: Tensor) -> ZetaPosterior:
        """The posterior of some rows; `rows` is `S x B`, a choice of its own for each network."""
        std = self.std if self.std.shape[1] == 1 else take_rows(self.std, rows)
        return ZetaPosterior(take_rows(self.mean, rows), std)

    def rows(self, start: int, stop: int) -> ZetaPosterior:
        """The posterior of the rows from `start` up to `stop`."""
        std = self.std if self.std.shape[-2] == 1 else self.std[..., start:stop, :]
        return ZetaPosterior(self.mean[..., start:stop, :], std)

    def draw(self, noise: Tensor) -> Tensor:
        """Turn standard normal `noise`, `... x rows x L x n_x`, into L zetas a row (the reparametrised draw)."""
        return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * noise


def take_rows(values: Tensor, rows: Tensor) -> Tensor:
    """Rows `S x B` of `values`, `S x N x features`."""
    return torch.take_along_dim(values, rows.unsqueeze(-1), dim=1)
