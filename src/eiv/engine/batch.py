"""What a step of training takes, with names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

__all__ = ["Batch"]


class Batch(NamedTuple):
    """The rows of a minibatch, or of several, and the random numbers that a step takes.

    Attributes:
        zeta: `S x B x L x n_x`; L = 1 for exact inputs.
        y: `S x B x n_y`.
        y_err: the same shape, or None.
        levels: of an informed choice of zetas, `S x B x n_kept`, or None.
        draw: a weight draw per row, or per minibatch where the family shares its draws.

    Examples:
        >>> import torch
        >>> batch = Batch(torch.zeros(1, 8, 5, 1), torch.zeros(1, 8, 1), None, None, draw={})
        >>> [len(part.tensors) for part in batch.split(4, shares_draws=False)]
        [2, 2]

    """

    zeta: Tensor
    y: Tensor
    y_err: Tensor | None
    levels: Tensor | None
    draw: dict[str, Tensor]

    @property
    def tensors(self) -> list[Tensor]:
        """All of them, one after the other."""
        parts = (self.zeta, self.y, self.y_err, self.levels, *self.draw.values())
        return [value for value in parts if value is not None]

    def filled(self, tensors: Sequence[Tensor]) -> Batch:
        """The same with other tensors, in the order of `tensors`."""
        zeta, y, *rest = tensors
        y_err = None if self.y_err is None else rest.pop(0)
        levels = None if self.levels is None else rest.pop(0)
        return Batch(zeta, y, y_err, levels, dict(zip(self.draw, rest, strict=True)))

    def split(self, size: int, shares_draws: bool) -> Iterator[Batch]:
        """Minibatches of `size` rows."""
        of_draw = 1 if shares_draws else size
        sizes = [size] * (len(self.tensors) - len(self.draw)) + [of_draw] * len(self.draw)
        parts = [value.split(count, dim=1) for value, count in zip(self.tensors, sizes, strict=True)]
        for tensors in zip(*parts, strict=True):
            yield self.filled(tensors)
