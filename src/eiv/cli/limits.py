"""Readings of a table that are missing, or say no more than that the true value is below or above a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eiv import censored

if TYPE_CHECKING:
    from eiv.io.tables import ErrorTerm, TableRows
    from eiv.io.tables.reading import CellsOfReadings

Array = NDArray[np.float64]


class Limits(NamedTuple):
    """The two ends between which true values lie, `rows` each; NaN where a reading is a number."""

    low: Array
    high: Array
    is_above: NDArray[np.bool_]

    @classmethod
    def of(
        cls, rows: TableRows, name: str, chosen: NDArray[np.bool_], term: ErrorTerm | None, is_signed: bool
    ) -> Limits:
        """Those of the chosen cells like <0.05 and >3, the other end being that which is stated for the column, or 0.

        Without a stated end `<` is refused where true values may be negative (`is_signed`), and `>` everywhere. A
        stated end is refused that lies on the wrong side of a limit.
        """
        cells, ends = rows.readings(name), {} if term is None else term.ends
        is_below, is_above = np.isfinite(cells.below), np.isfinite(cells.above)
        low = np.where(is_below, ends.get("low", 0.0), cells.above)
        high = np.where(is_above, ends.get("high", np.inf), cells.below)

        def refuse(wrong: NDArray[np.bool_], why: str) -> None:
            if (wrong & chosen).any():
                row = int(np.flatnonzero(wrong & chosen)[0])
                raise rows.refusal(name, row, rows.cells[name][row].as_py(), why)

        if "low" not in ends and (is_signed or (np.append(cells.below, cells.numbers) < 0).any()):
            why = "and there are negative readings, so that true values need not lie above 0. State the least true"
            refuse(is_below, f'{why} value: --x-err "{name}=ERROR low=VALUE".')
        if "high" not in ends:
            why = "which does not say how far above the true value may lie. State the largest true value:"
            refuse(is_above, f'{why} --x-err "{name}=ERROR high=VALUE".')
        least, largest, wrong = ends.get("low", 0.0), ends.get("high", np.inf), low >= high
        why = f"but the least true value is {least:g}, which has to be below it:"
        refuse(is_below & wrong, f'{why} --x-err "{name}=ERROR low=VALUE".')
        why = f"but the largest true value is {largest:g}, which has to be above it:"
        refuse(is_above & wrong, f'{why} --x-err "{name}=ERROR high=VALUE".')
        return cls(low[chosen], high[chosen], is_above[chosen])

    def words(self) -> str:
        """How many there are, and what they leave open."""
        is_below, found = np.isfinite(self.high) & ~self.is_above, []
        if is_below.any():
            found.append(
                f"{in_words(int(is_below.sum()))} below a limit, anywhere from {self.low[is_below][0]:g} to it"
            )
        if self.is_above.any():
            n_above, high = int(self.is_above.sum()), self.high[self.is_above][0]
            found.append(f"{in_words(n_above)} above a limit, anywhere from it to {high:g}")
        return "; ".join(found)


def limits_of(
    rows: TableRows,
    readings: Mapping[str, CellsOfReadings],
    chosen: NDArray[np.bool_],
    terms: Mapping[str, ErrorTerm],
    signed: Sequence[str] = (),
) -> dict[str, Limits]:
    """The limits of each feature with some among the chosen rows; `signed` features have been seen below 0."""
    return {
        name: Limits.of(rows, name, chosen, terms.get(name), name in signed)
        for name, cells in readings.items()
        if cells.hidden[chosen].any()
    }


def with_limits(stated: Any, features: Sequence[str], limits: Mapping[str, Limits]) -> Any:
    """Stated errors of rows of which some readings say no more than that true values lie between two ends."""
    if not limits:
        return stated
    if isinstance(stated, np.ndarray):
        stated = dict(zip(features, stated.T, strict=True))
    return {
        name: censored(error, limits[name].high, limits[name].low) if name in limits else error
        for name, error in stated.items()
    }


def as_gaps(cells: CellsOfReadings, integrates: bool) -> Array:
    """Readings of a column, with zero for those that leave no row out: behind a limit, or missing if `integrates`."""
    return np.where(cells.hidden | (np.isnan(cells.numbers) & integrates), 0.0, cells.numbers)


def in_words(n: int) -> str:
    """A number of readings."""
    return f"{n:,} {'reading' if n == 1 else 'readings'}"
