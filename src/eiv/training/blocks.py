"""The rows of an epoch, with the random numbers that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from numpy.random import SeedSequence
from torch import Tensor

from eiv.engine import memory
from eiv.engine.batch import Batch
from eiv.engine.graphs import matmul_precision
from eiv.engine.streams import Purpose, Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.inputs.zeta import take_rows
from eiv.posteriors import WeightDraw, WeightPosterior


class Blocks:
    """The rows of an epoch in random order, several minibatches at a time, with the random numbers they need.

    An epoch visits each row once. Rows with weights are visited in proportion to these, the fraction of a visit by
    chance, so that the expected loss is that of the table in which each row is repeated as often as its weight says. An
    epoch has as many visits, `n_visits`, as that table has rows.
    """

    like: Batch  # the latest block
    visits: Tensor  # the rows of the latest epoch in their order, S x n_visits

    def __init__(
        self,
        posterior: WeightPosterior,
        rows: Rows,
        draws: ZetaDraws | None,
        batch_size: int,
        seeds: Sequence[SeedSequence],
        n_visits: int | None = None,
    ) -> None:
        self.posterior, self.rows, self.draws, y = posterior, rows, draws, rows.y
        self._shuffle, self._zetas, self._weights = (
            Streams.of(seeds, purpose, y.device, y.dtype)
            for purpose in (Purpose.SHUFFLE, Purpose.ZETA, Purpose.WEIGHTS)
        )
        stack = posterior.stack
        values_per_row = (draws.n_zeta * draws.n_base if draws else 0) + stack.width * max(1, len(stack.dropout_layers))
        if posterior.shares_draws:
            values_per_row += sum(value[0].numel() for value in posterior.parameters) // batch_size
        self.batch_size = batch_size
        ahead = max(batch_size, memory.RANDOM_AHEAD[y.device.type] // values_per_row)  # the same for every S
        self.n_visits = n_visits or y.shape[1]
        whole_epochs = ahead // self.n_visits
        self.size = self.n_visits if whole_epochs else ahead // batch_size * batch_size
        self._ahead = whole_epochs * self.n_visits or self.size  # rows whose random numbers are drawn in one go
        self._used = self._ahead
        self._noise = self._shifts = y.new_empty(0)
        self._draws: WeightDraw = {}
        self._begun = self._shuffle.state

    @property
    def state(self) -> dict[str, Any]:
        """What the next blocks of the present epoch depend on, as tensors and numbers."""
        return {
            "shuffle": self._begun,
            "zetas": self._zetas.state,
            "weights": self._weights.state,
            "noise": self._noise,
            "shifts": self._shifts,
            "draws": dict(self._draws),
            "used": self._used,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state; the next epoch is the one that it was in."""
        self._shuffle.restore(state["shuffle"])
        self._zetas.restore(state["zetas"])
        self._weights.restore(state["weights"])
        device = self.rows.y.device
        self._noise, self._shifts = state["noise"].to(device), state["shifts"].to(device)
        self._draws = {name: values.to(device) for name, values in state["draws"].items()}
        self._used = state["used"]

    def epoch(self, done: int = 0) -> Iterator[Batch]:
        """All rows, a block at a time, after so many blocks that have been `done`."""
        self._begun = self._shuffle.state
        self.visits = self._visits()
        for rows in self.visits.split(self.size, dim=1)[done:]:
            (taken, y, y_err, _), fresh = self.rows.take(rows), self._fresh(rows.shape[1])
            with matmul_precision(y.device, "float32"):
                zeta = taken.draw(self._noise[:, fresh]) if self.draws else taken.mean.unsqueeze(2)
            if self.posterior.shares_draws:
                draw = self.posterior.draw(self._weights, -(-rows.shape[1] // self.batch_size))
            else:
                draw = {name: values[:, fresh] for name, values in self._draws.items()}
            levels = None
            if n_kept := self.draws.n_kept if self.draws else 0:
                spaced = torch.arange(n_kept, dtype=y.dtype, device=y.device)
                levels = (spaced + self._shifts[:, fresh]) / n_kept
            self.like = Batch(zeta, y, y_err, levels, draw)
            yield self.like

    @property
    def y_err(self) -> Tensor | None:
        """The known errors of the labels that the latest epoch has visited, in some order."""
        known = self.rows.y_err
        return known if known is None or self.rows.weights is None else take_rows(known, self.visits)

    def _visits(self) -> Tensor:
        """The rows in the order in which an epoch visits them, `S x n_visits`."""
        order = self._shuffle.permutations(self.rows.y.shape[1])
        if self.rows.weights is None:
            return order
        chosen = by_weight(take_rows(self.rows.weights, order), self._shuffle.uniform(1), self.n_visits)
        visits = torch.take_along_dim(order, chosen, dim=1)
        return torch.take_along_dim(visits, self._shuffle.permutations(self.n_visits), dim=1)  # copies lie together

    def _fresh(self, n_rows: int) -> slice:
        """Where the random numbers for `n_rows` rows stand that have not been used."""
        if self._used + n_rows > self._ahead:
            if self.draws:
                self._noise = self.draws.base(self._zetas, self._ahead)
                if self.draws.n_kept:
                    self._shifts = self._zetas.uniform(self._ahead, 1)
            if not self.posterior.shares_draws:
                self._draws = self.posterior.draw(self._weights, self._ahead)
            self._used = 0
        self._used += n_rows
        return slice(self._used - n_rows, self._used)


def by_weight(weights: Tensor, shift: Tensor, n: int) -> Tensor:
    r"""So many places, each as often as its weight says: `S x n` (systematic sampling).

    .. math:: i_k = \min \Big\{ i : \sum_{j \le i} w_j > (k + u) \frac{W}{n} \Big\}, \qquad k = 0 \dots n - 1

    A place comes up n w / W times on average, and never a whole time more or less often than that.

    Args:
        weights: w, `S x N`.
        shift: u, `S x 1`, uniform between 0 and 1.
        n: how many places.

    Returns:
        The places in rising order, `S x n`.

    Examples:
        >>> by_weight(torch.tensor([[2.0, 1.0, 1.0]]), torch.tensor([[0.3]]), 4)
        tensor([[0, 0, 1, 2]])

    """
    ends = weights.double().cumsum(1)
    at = (torch.arange(n, dtype=ends.dtype, device=ends.device) + shift.double()) * (ends[:, -1:] / n)
    return torch.searchsorted(ends, at, right=True).clamp_max(weights.shape[1] - 1)
