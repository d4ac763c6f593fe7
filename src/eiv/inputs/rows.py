"""The rows of a table as the networks see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from eiv.inputs.ondemand import stack_any
from eiv.inputs.zeta import ZetaPosterior, take_rows

__all__ = ["Rows"]


class Rows(NamedTuple):
    """Rows with labels, for S networks: what is known of their true inputs, and labels with their known errors.

    Attributes:
        inputs: the posterior of zeta given x, `S x N x n_x`.
        y: `S x N x n_y`.
        y_err: the same shape, or None where nothing is known.
        weights: `S x N`, how often each row counts; None where each counts once.

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
    weights: Tensor | None = None

    @property
    def size(self) -> int | Tensor:
        """How many rows they count for: N, or the sum of the weights, `S`."""
        return self.y.shape[1] if self.weights is None else self.weights.sum(1)

    def kept(self, rows: Tensor) -> Rows:
        """The same as `take`, of rows that more is to be taken from."""
        return self._of(self.inputs.kept(rows), rows)

    def take(self, rows: Tensor) -> Rows:
        """Some of the rows; `rows` is `S x B`, a choice of its own for each network."""
        return self._of(self.inputs.take(rows), rows)

    def _of(self, inputs: ZetaPosterior, rows: Tensor) -> Rows:
        known = None if self.y_err is None else take_rows(self.y_err, rows)
        weights = None if self.weights is None else take_rows(self.weights, rows)
        return Rows(inputs, take_rows(self.y, rows), known, weights)

    def with_known(self, error: Tensor) -> Rows:
        """The same rows with a further known error of their labels, in the shape of `y`."""
        return self._replace(y_err=error if self.y_err is None else torch.hypot(error, self.y_err))

    def between(self, start: int, stop: int) -> Rows:
        """The rows from `start` up to `stop`."""
        known, weights = (None if part is None else part[:, start:stop] for part in (self.y_err, self.weights))
        return Rows(self.inputs.rows(start, stop), self.y[:, start:stop], known, weights)


def stack_rows(rows: Sequence[Rows]) -> Rows:
    """Rows of several networks, without the axis S, as one, with it."""
    known = [each.y_err for each in rows if each.y_err is not None]
    inputs, y = stack_any([each.inputs for each in rows]), torch.stack([each.y for each in rows])
    weights = [torch.ones_like(each.y[:, 0]) if each.weights is None else each.weights for each in rows]
    is_weighted = any(each.weights is not None for each in rows)
    return Rows(inputs, y, torch.stack(known) if known else None, torch.stack(weights) if is_weighted else None)
