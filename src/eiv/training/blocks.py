"""The rows of an epoch, with the random numbers that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from numpy.random import SeedSequence

from eiv.engine import memory
from eiv.engine.batch import Batch
from eiv.engine.graphs import matmul_precision
from eiv.engine.streams import Purpose, Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.posteriors import WeightDraw, WeightPosterior


class Blocks:
    """The rows of an epoch in random order, several minibatches at a time, with the random numbers they need."""

    like: Batch  # the latest block

    def __init__(
        self,
        posterior: WeightPosterior,
        rows: Rows,
        draws: ZetaDraws | None,
        batch_size: int,
        seeds: Sequence[SeedSequence],
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
        self.n_rows = y.shape[1]
        whole_epochs = ahead // self.n_rows
        self.size = self.n_rows if whole_epochs else ahead // batch_size * batch_size
        self._ahead = whole_epochs * self.n_rows or self.size  # rows whose random numbers are drawn in one go
        self._used = self._ahead
        self._noise = self._shifts = y.new_empty(0)
        self._draws: WeightDraw = {}

    def epoch(self) -> Iterator[Batch]:
        """All rows, a block at a time."""
        for rows in self._shuffle.permutations(self.n_rows).split(self.size, dim=1):
            (taken, y, y_err), fresh = self.rows.take(rows), self._fresh(rows.shape[1])
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
