"""Rows over several lines, because a quoted cell holds line ends: text of several lines, or rows swallowed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

_QUOTED = re.compile(rb'"(?:[^"]++|"")*+"')
_DIGIT = re.compile(rb"\d")
_NUMBER = re.compile(rb"[-+]?[\d.,]+(e[-+]?\d+)?|[-+]?inf(inity)?|n/?a|#n/a|nan|null|none|", re.IGNORECASE)


def n_cells(row: bytes, separator: bytes) -> int:
    """How many cells a row has; line ends in its quotes do not matter."""
    return len(next(_readings(row, separator)))


def are_rows(lines: Sequence[bytes], n_columns: int, separator: bytes, below: int = 0) -> bool:
    """Whether each line of one row would be a row by itself, as it is where a stray quote has joined them.

    Each then has as many cells as the header, and some column holds a number, or nothing, in all of them: a table
    without such a column is of no use here. Of a header, which holds names, only the lines from `below` on tell.
    """
    readings = [_fitting(line, n_columns, separator) for line in lines]
    if not all(readings):
        return False
    return any(all(map(_is_number, column)) for column in zip(*readings[below:], strict=True))


def first_row_inside(row: bytes, blotted: bytes, separator: bytes, is_header: bool) -> int | None:
    """The first line of a row over several lines, from 1 on, that begins a row by itself, however many cells it has.

    `blotted` is the row without line ends in quotes. A line in a quoted cell begins a row where it reaches the column
    of that cell and has numbers, or nothing, wherever this row has them before that column. One of them is a number;
    or the line before ends with numbers, wherever this row has them after that column. Before a cell of a header, which
    holds names, all columns count.
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
            ends = earlier.strip(b'"').split(separator)[:0:-1]  # without the cell of text that it begins with
            at_end = len(ends) >= len(cells) - column - 1 and _are_numbers(ends, numeric[:column:-1])
            if _has_number(found[:column], numeric) or (at_end and _has_number(ends, numeric[:column:-1])):
                return n_line + n
        place, n_line = place + len(cell) + 1, n_line + max(0, len(lines) - 1)
    return None


def _are_numbers(cells: Sequence[bytes], numeric: Sequence[bool]) -> bool:
    """Whether cells are numbers, or empty, in all columns that are numeric."""
    return all(_is_number(cell) for cell, counts in zip(cells, numeric, strict=False) if counts)


def _has_number(cells: Sequence[bytes], numeric: Sequence[bool]) -> bool:
    """Whether a cell of a column that is numeric has a digit."""
    return any(_DIGIT.search(cell) for cell, counts in zip(cells, numeric, strict=False) if counts)


def _fitting(line: bytes, n_columns: int, separator: bytes) -> list[bytes]:
    """The cells of a line read so that they are as many as the columns; none where that cannot be."""
    return next((found for found in _readings(line, separator) if len(found) == n_columns), [])


def _readings(line: bytes, separator: bytes) -> Iterator[list[bytes]]:
    """The cells of a line; where a quote stays open, as if it were an ordinary sign, and as if it went to the end."""
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
