"""Tests of rows over several lines: a quoted cell holds line ends, or a stray quote has swallowed rows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

_QUOTED = re.compile(rb'"(?:[^"]++|"")*+"')
_DIGIT = re.compile(rb"\d")
_NUMBER = re.compile(rb"[-+]?[\d.,]+(e[-+]?\d+)?|[-+]?inf(inity)?|n/?a|#n/a|nan|null|none|", re.IGNORECASE)


def n_cells(row: bytes, separator: bytes) -> int:
    """The number of cells of a row; line ends in its quotes do not matter."""
    return len(next(_readings(row, separator)))


def are_rows(lines: Sequence[bytes], n_columns: int, separator: bytes, below: int = 0) -> bool:
    """Whether each line of a row would be a row by itself, so that a stray quote has joined them.

    Each line then has as many cells as the header, and some column holds a number, or nothing, in all lines. (A table
    without such a column cannot be used anyway.) In a header, which holds names, only the lines from `below` on count.
    """
    readings = [_fitting(line, n_columns, separator) for line in lines]
    if not all(readings):
        return False
    return any(all(map(_is_number, column)) for column in zip(*readings[below:], strict=True))


def first_row_inside(row: bytes, blotted: bytes, separator: bytes, is_header: bool) -> int | None:
    """The number, from 1 on, of the first line inside a row over several lines that begins a row by itself, or None.

    `blotted` is the row without line ends in quotes. A line in a quoted cell begins a row if two conditions hold,
    whatever its number of cells. It reaches the column of that cell, with numbers or nothing wherever this row has them
    before that column. And one of these is a number, or the line before ends with numbers wherever this row has them
    after that column. In a header, which holds names, all columns before the cell count.
    """
    cells = next(_readings(blotted, separator))
    numeric = [is_header or _is_number(cell) for cell in cells]
    place = n_line = 0
    for column, cell in enumerate(cells):
        lines = row[place : place + len(cell)].splitlines()
        for n, (earlier, line) in enumerate(itertools.pairwise(lines), 1):
            found = line.strip(b'"').split(separator)
            if len(found) <= column or not _are_numbers(found[:column], numeric):
                continue
            ends = earlier.strip(b'"').split(separator)[:0:-1]  # without the first cell, which is text
            at_end = len(ends) >= len(cells) - column - 1 and _are_numbers(ends, numeric[:column:-1])
            if _has_number(found[:column], numeric) or (at_end and _has_number(ends, numeric[:column:-1])):
                return n_line + n
        place, n_line = place + len(cell) + 1, n_line + max(0, len(lines) - 1)
    return None


def _are_numbers(cells: Sequence[bytes], numeric: Sequence[bool]) -> bool:
    """Whether all cells in numeric columns are numbers or empty."""
    return all(_is_number(cell) for cell, counts in zip(cells, numeric, strict=False) if counts)


def _has_number(cells: Sequence[bytes], numeric: Sequence[bool]) -> bool:
    """Whether a cell in a numeric column has a digit."""
    return any(_DIGIT.search(cell) for cell, counts in zip(cells, numeric, strict=False) if counts)


def _fitting(line: bytes, n_columns: int, separator: bytes) -> list[bytes]:
    """The cells of a line, read so that they match the number of columns; empty where that is impossible."""
    return next((found for found in _readings(line, separator) if len(found) == n_columns), [])


def _readings(line: bytes, separator: bytes) -> Iterator[list[bytes]]:
    """The cells of a line; with an open quote, first with it as an ordinary character, then as open to the end."""
    found: list[bytes] = []
    place = 0
    while True:
        quoted = _QUOTED.match(line, place)
        if quoted is None and line.startswith(b'"', place):
            yield found + line[place:].split(separator)
            yield [*found, line[place:]]
            return
        end = line.find(separator, quoted.end() if quoted else place)
        if end < 0:
            yield [*found, line[place:]]
            return
        found.append(line[place:end])
        place = end + 1


def _is_number(cell: bytes) -> bool:
    return _NUMBER.fullmatch(cell.strip(b' \t\r\n"')) is not None
