"""Columns of classes: which columns are such, their labels, and their words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv.io.tables import MISSING_WORDS, TableError

if TYPE_CHECKING:
    from eiv.io.tables import TableRows

_MOST_NAMED = 10  # the most classes that are listed
_FEW_ROWS = 10  # in which words may differ by chance
_FEW_NUMBERS, _ROWS_EACH = 10, 10  # different whole numbers that may be codes of classes, and rows for each
_MOST_CLASSES = 1000  # a column with more is hardly one of classes


@dataclass(frozen=True)
class Labels:
    """The classes of rows, None where there is none."""

    values: NDArray[Any]

    @property
    def as_gaps(self) -> NDArray[np.float64]:
        """A column of numbers that are missing where labels are."""
        return np.where(np.array([value is None for value in self.values], dtype=bool), np.nan, 0.0)

    def taken(self, good: NDArray[np.bool_]) -> NDArray[Any]:
        """The labels of the good rows, of the narrowest type that holds them."""
        return np.array(self.values[good].tolist())


def holds_classes(rows: TableRows, column: str, asked: bool) -> bool:
    """Whether a column is one of classes: because it is asked for, or because no cell of it is a number."""
    cells = _cells(rows, column)
    is_text = all(isinstance(cell, str | bool) for cell in cells if cell is not None)
    return asked or (is_text and not any(_is_number(cell) for cell in cells if cell is not None))


def refuse_identifiers(rows: TableRows, column: str, labels: Labels) -> None:
    """Raise a `TableError` for a column of words most of which stand in one row only, such as names of the rows."""
    counts = Counter(value for value in labels.values if value is not None)
    if 2 * sum(n == 1 for n in counts.values()) > max(counts.total(), _FEW_ROWS):
        raise TableError(
            f"{rows.source.path}: the target {column!r} holds {len(counts):,} different words in {counts.total():,} "
            "rows, so it seems to name the rows. Use --classes to take them for classes all the same."
        )


def labels_of(rows: TableRows, column: str) -> Labels:
    """The labels of a column: truth values, whole numbers, or words."""
    cells = _cells(rows, column)
    known = [cell for cell in cells if cell is not None]
    if known and all(_is_number(cell) for cell in known):
        numbers = rows.numbers(column)
        if not np.array_equal(numbers[np.isfinite(numbers)] % 1, np.zeros(np.isfinite(numbers).sum())):
            raise TableError(f"{rows.source.path}: --classes: column {column!r} holds numbers with decimals.")
        cells = [int(number) if np.isfinite(number) else None for number in numbers]
    if len(classes := {cell for cell in cells if cell is not None}) > _MOST_CLASSES:
        raise TableError(
            f"{rows.source.path}: the target {column!r} holds {len(classes):,} different words, too many for classes."
        )
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return Labels(values)


def in_words(y: NDArray[Any]) -> str:
    """What the target is taken as, with the classes and their rows."""
    classes, counts = np.unique(y, return_counts=True)
    named = [f"{name} ({n:,})" for name, n in zip(classes.tolist(), counts.tolist(), strict=True)]
    rest = [f"and {len(named) - _MOST_NAMED:,} more"] if len(named) > _MOST_NAMED else []
    return f"target, {len(named)} class{'' if len(named) == 1 else 'es'}: {', '.join(named[:_MOST_NAMED] + rest)}"


def may_be_classes(y: NDArray[np.float64]) -> str:
    """A hint where numbers are whole and hardly different, as codes of classes are; empty elsewhere."""
    values = np.unique(y)
    if len(values) > min(_FEW_NUMBERS, len(y) // _ROWS_EACH) or (values % 1).any():
        return ""
    return f"The target holds {len(values)} different whole numbers; --classes would fit classes."


def _cells(rows: TableRows, column: str) -> list[Any]:
    """The cells of a column, None where a value is missing."""
    try:
        cells = rows.cells[column].to_pylist()
    except (ValueError, UnicodeError) as error:  # bytes that are not valid text
        raise TableError(f"{rows.source.path}: column {column!r} cannot be read: {error}.") from error
    cells = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
    return [None if str(cell).lower() in MISSING_WORDS else cell for cell in cells]


def _is_number(cell: Any) -> bool:
    if isinstance(cell, bool):
        return False
    try:
        float(str(cell).replace(",", "."))
    except ValueError:
        return False
    return True
