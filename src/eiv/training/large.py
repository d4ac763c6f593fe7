"""Training tables of many rows, in memory or in files: what is needed of them is read a piece at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from eiv.inputs import FlatPrior, InputPrior, LearnedPrior, MixturePrior, NormalPrior, ZetaPosterior
from eiv.inputs.mixed import Errors
from eiv.inputs.ondemand import ZetaOnDemand
from eiv.inputs.zetas import standardised_zetas
from eiv.io.pieces import AT_ONCE, LargeArray, evenly, extremes, pieces
from eiv.scaling import Scaler
from eiv.training.fitting import Spec, Table
from eiv.training.making import input_prior_of, likelihood_of
from eiv.training.settings import AUTO, settings_for

Array = NDArray[np.float64]
_LIKE = 4096  # rows whose posterior says what that of all rows is like
_OURS = (FlatPrior, NormalPrior, MixturePrior)


@dataclass(frozen=True)
class LargeTable(Table):
    """A table whose x, y and errors are `LargeArray`s.

    The priors, quantiles and medians of a fit are those of a sample of its rows, means and standard deviations those of
    all. The posterior of a true input is found whenever its row is visited. A fit therefore needs the labels and some
    orders of the rows in memory, 40 bytes or so per row, and no inputs.

    The arrays may lie in memory or in memory-mapped files: the numbers that come out are the same.
    """

    @classmethod
    def of(cls, table: Table) -> LargeTable:
        """The same rows."""
        by_row = {name: getattr(table, name) for name in ("x", "y", "y_err", "x_err")}
        large = {name: as_large(values) for name, values in by_row.items() if values is not None and len(values) > 1}
        return cls(**_fields(table) | large)

    @property
    def in_memory(self) -> Table:
        """The same rows, read into memory."""
        return self._read(np.arange(len(self.x)))

    @cached_property
    def sample(self) -> Table:
        """Rows that are evenly chosen, as many as are worked on at once."""
        return self.take(evenly(len(self.x), AT_ONCE))

    @property
    def x_quantiles(self) -> Array:
        """`5 x n_x`: the least and the greatest value of all rows, quantiles of the sample."""
        low, high = extremes(self.x)
        return np.stack([low, *self.sample.x_quantiles[1:-1], high])

    @property
    def x_err_median(self) -> Array:
        """`n_x`, the median error of the sample."""
        return self.sample.x_err_median

    def take(self, rows: NDArray[np.intp]) -> Table:
        """Some of the rows; many of them stay where they are."""
        if len(rows) <= AT_ONCE:
            return self._read(rows)
        chosen: dict[str, Any] = {
            name: part.take(rows) for name, part in _fields(self).items() if isinstance(part, LargeArray)
        }
        return replace(self, weights=None if self.weights is None else self.weights[rows], **chosen)

    def _read(self, rows: NDArray[np.intp]) -> Table:
        return Table(**_fields(super().take(rows)))

    def zetas(self, prior: InputPrior, scaler: Scaler, errors: Errors) -> ZetaPosterior:
        """The posterior of the true inputs, found row by row when it is asked for."""

        def find(rows: NDArray[np.intp]) -> ZetaPosterior:
            own = errors if len(errors) == 1 else errors[rows]
            return standardised_zetas(prior, scaler, self.x[rows], own)

        return ZetaOnDemand.of(find, len(self.x), find(self._typical))

    @cached_property
    def _typical(self) -> NDArray[np.intp]:
        """Rows among which every feature has an error that has one in any row, and a row with as many as any has."""
        rows = evenly(len(self.x), _LIKE)
        if len(self.x_err) == 1:
            return rows
        most, places = np.full(self.x.shape[1] + 1, -1.0), np.zeros(self.x.shape[1] + 1, dtype=np.intp)
        for number, piece in enumerate(pieces(cast(Array, self.x_err))):
            looks = np.column_stack([piece, (piece > 0).sum(1)])
            here = looks.argmax(0)
            better = looks.max(0) > most
            places[better], most[better] = number * AT_ONCE + here[better], looks.max(0)[better]
        return np.concatenate([rows, places])


def _fields(table: Table) -> dict[str, Any]:
    return {each.name: getattr(table, each.name) for each in fields(Table)}


def as_large(values: Any) -> Array:
    """An array whose rows are read when they are asked for; it stands in for one of NumPy's."""
    return cast(Array, values if isinstance(values, LargeArray) else LargeArray(values))


def suited(spec: Spec, tables: Sequence[Table]) -> list[Table]:
    """The tables as a fit takes them: large ones a piece at a time, where the arguments allow that."""
    return [_suited(spec, table) for table in tables]


def _suited(spec: Spec, table: Table) -> Table:
    if len(table.x) <= AT_ONCE or not _reads_pieces(spec, table):
        return table.in_memory if isinstance(table, LargeTable) else table
    return table if isinstance(table, LargeTable) else LargeTable.of(table)


def _reads_pieces(spec: Spec, table: Table) -> bool:
    """Whether a fit can read the rows a piece at a time: not where all of them are needed at once."""
    arguments = dict(spec.arguments)
    if arguments.get("likelihood") == AUTO:
        arguments["likelihood"] = "normal"
    settings = settings_for(arguments, table.size, table.n_noisy)
    prior = input_prior_of(settings.input_prior, settings.error_model)
    known_prior = isinstance(prior, _OURS) or (isinstance(prior, LearnedPrior) and type(prior).fit is LearnedPrior.fit)
    plain = isinstance(table.x_err, np.ndarray | LargeArray) and (table.x_err.ndim == 2 or len(table.x_err) == 1)
    return (
        known_prior
        and plain
        and table.size_prior is None
        and table.laws is None
        and likelihood_of(settings).has_units
        and settings.zeta_draws not in ("profile", "laplace")
        and arguments.get("network") != "cosine"
    )
