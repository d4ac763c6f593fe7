"""The columns of a table: whether they are there, their units, and their names in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eiv.io.tables.scanning import TableError

if TYPE_CHECKING:
    from eiv.io.tables.reading import Source

_LISTED = 30


def check_columns(source: Source, names: Sequence[str], what: str) -> None:
    """Raise a `TableError` where the table lacks a column; `what` says what the column is for."""
    for name in names:
        if name not in source.columns:
            raise TableError(f"{source.path} has no column {name!r} ({what}); it has: {listed(source.columns)}.")


def split_names(texts: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The names in texts that hold one or, with commas between them, several; names of `columns` may contain commas.

    Examples:
        >>> split_names(["a,b", "c, d"], ["a", "b", "c, d"])
        ['a', 'b', 'c, d']

    """
    found = [[text] if text in columns else text.split(",") for text in texts]
    return [name if name in columns else name.strip() for names in found for name in names]


def check_unit(source: Source, column: str, unit: str | None, whose: str) -> None:
    """Raise a `TableError` where a column has another unit than `unit`, that of `whose`; nothing is converted."""
    own = source.units.get(column)
    if own is None or unit is None or own == unit:
        return
    from astropy.units import Unit  # noqa: PLC0415  (the table was read by it)

    if Unit(own) != Unit(unit, parse_strict="silent"):
        raise TableError(
            f"{source.path}: column {column!r} is in {own}, but {whose} is in {unit}: convert one of them first."
        )


def listed(names: Sequence[str]) -> str:
    """The first names, for a sentence."""
    return ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
