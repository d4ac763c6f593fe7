"""The tensors that one step of training takes, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

__all__ = ["Batch"]


class Batch(NamedTuple):
    """The rows of one or several minibatches, and the random numbers for their training steps.

    Attributes:
        zeta: `S x B x L x n_x`; L = 1 for exact inputs.
        y: `S x B x n_y`.
        y_err: the known errors of y, `S x B x n_y`, or None.
        levels: numbers from 0 to 1 that choose zetas by the label (`Likelihood.choose_zetas`), `S x B x n_kept`; None
            where zetas are not chosen.
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
        """All tensors, in order, without those that are None."""
        parts = (self.zeta, self.y, self.y_err, self.levels, *self.draw.values())
        return [value for value in parts if value is not None]

    def filled(self, tensors: Sequence[Tensor]) -> Batch:
        """A batch with other values, in the order of `Batch.tensors`."""
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
