"""The rows of a table as the networks see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from eiv.inputs.own import stack_posteriors
from eiv.inputs.zeta import ZetaPosterior, take_rows

__all__ = ["Rows"]


class Rows(NamedTuple):
    """Rows with labels, for S networks: what is known of their true inputs, and labels with their known errors.

    Attributes:
        inputs: the posterior of zeta given x, `S x N x n_x`.
        y: `S x N x n_y`.
        y_err: the same shape, or None where nothing is known.

    Examples:
        >>> import torch
        >>> from eiv.inputs import ZetaNormal
        >>> x = torch.zeros(1, 3, 1)
        >>> Rows(ZetaNormal(x, 0 * x), 2 * x).take(torch.tensor([[0, 2]])).y.shape
        torch.Size([1, 2, 1])

    """

    inputs: ZetaPosterior
    y: Tensor
    y_err: Tensor | None = None

    def take(self, rows: Tensor) -> Rows:
        """Some of the rows; `rows` is `S x B`, a choice of its own for each network."""
        known = None if self.y_err is None else take_rows(self.y_err, rows)
        return Rows(self.inputs.take(rows), take_rows(self.y, rows), known)

    def with_known(self, error: Tensor) -> Rows:
        """The same rows with a further known error of their labels, in the shape of `y`."""
        return self._replace(y_err=error if self.y_err is None else torch.hypot(error, self.y_err))

    def between(self, start: int, stop: int) -> Rows:
        """The rows from `start` up to `stop`."""
        known = None if self.y_err is None else self.y_err[:, start:stop]
        return Rows(self.inputs.rows(start, stop), self.y[:, start:stop], known)


def stack_rows(rows: Sequence[Rows]) -> Rows:
    """Rows of several networks, without the axis S, as one, with it."""
    known = [each.y_err for each in rows if each.y_err is not None]
    inputs = stack_posteriors([each.inputs for each in rows])
    return Rows(inputs, torch.stack([each.y for each in rows]), torch.stack(known) if known else None)
