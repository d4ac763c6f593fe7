"""Posteriors of the true inputs of many rows, each found when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.inputs.own import stack_posteriors
from eiv.inputs.zeta import ZetaPosterior

Find = Callable[[NDArray[np.intp]], ZetaPosterior]


@dataclass(frozen=True)
class ZetaOnDemand(ZetaPosterior):
    """Posteriors that `take` and `rows` find for the rows of a minibatch, so that those of a table fill no memory.

    What they are like is known without finding them: `alike` is the posterior of some rows, which has every noisy
    feature. `mean` has the shape that it is to have, and no numbers.

    Attributes:
        finds: one function for each network, from places of rows to their posterior, `rows x n_x`.
        alike: the posterior of some rows, on the device and in the numbers of the networks.
        chosen: `S x N`, the places of the rows; None for all.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> x = torch.arange(4.0).unsqueeze(1)
        >>> def find(rows):
        ...     return ZetaNormal(x[rows], torch.full((1, 1), 0.1))
        >>> zeta = ZetaOnDemand.of(find, 4, find([0]))
        >>> stack_any([zeta]).take(torch.tensor([[3, 1]])).mean.flatten()
        tensor([3., 1.])

    """

    finds: tuple[Find, ...]
    alike: ZetaPosterior
    chosen: Tensor | None = None

    @classmethod
    def of(cls, find: Find, n_rows: int, alike: ZetaPosterior) -> ZetaOnDemand:
        """Those of one network, `n_rows x n_x`."""
        return cls(_nothing(alike, n_rows), alike.std[:1], (find,), alike)

    @property
    def described(self) -> ZetaPosterior:
        """The posterior of some rows."""
        return self.alike

    @property
    def is_exact(self) -> bool:
        """Whether zeta is known."""
        return self.alike.is_exact

    @property
    def noisy(self) -> tuple[int, ...]:
        """The features that have an error in any row."""
        return self.alike.noisy

    @property
    def n_base(self) -> int:
        """How many standard normal numbers make a zeta."""
        return self.alike.n_base

    @property
    def is_smooth(self) -> bool:
        """Whether `draw` is a smooth function of its noise."""
        return self.alike.is_smooth

    def draw(self, noise: Tensor) -> Tensor:
        """Take the rows first."""
        raise TypeError("ZetaOnDemand has no zetas before its rows are taken.")

    def take(self, rows: Tensor) -> Any:
        """The posterior of some rows; `rows` is `S x B`, a choice of its own for each network."""
        like = self.alike.mean
        found = [find(chosen) for find, chosen in zip(self.finds, self._places(rows).cpu().numpy(), strict=True)]
        return stack_posteriors([each.to(like.device, like.dtype) for each in found])

    def kept(self, rows: Tensor) -> ZetaOnDemand:
        """The same, to be taken from later: still on demand."""
        own = self._places(rows)
        return replace(self, mean=_nothing(self.alike, own.shape[1]).expand(len(own), -1, -1), chosen=own)

    def _places(self, rows: Tensor) -> Tensor:
        return rows if self.chosen is None else torch.take_along_dim(self.chosen, rows, dim=1)

    def rows(self, start: int, stop: int) -> Any:
        """The posterior of the rows from `start` up to `stop`."""
        own = torch.arange(start, min(stop, self.mean.shape[-2]), device=self.alike.mean.device)
        return self.take(own.expand(len(self.finds), -1))

    def to(self, device: torch.device, dtype: torch.dtype) -> Any:
        """The same elsewhere, or in other numbers."""
        return replace(self, alike=self.alike.to(device, dtype))


def stack_any(posteriors: Sequence[ZetaPosterior]) -> ZetaPosterior:
    """Posteriors of several networks, `rows x n_x` each, as one, `S x rows x n_x`; all of them on demand, or none."""
    on_demand = [each for each in posteriors if isinstance(each, ZetaOnDemand)]
    if not on_demand:
        return stack_posteriors(posteriors)
    alike = stack_posteriors([each.alike for each in on_demand])
    mean = on_demand[0].mean.expand(len(on_demand), -1, -1)
    return ZetaOnDemand(mean, alike.std[:, :1], tuple(each.finds[0] for each in on_demand), alike)


def _nothing(alike: ZetaPosterior, n_rows: int) -> Tensor:
    """A tensor of a shape, `n_rows x n_x`, that takes no memory."""
    return alike.mean.new_zeros(()).expand(n_rows, alike.mean.shape[-1])
