"""Rows over several lines, because a quoted cell holds line ends: text of several lines, or rows swallowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_QUOTED = re.compile(rb'"(?:[^"]++|"")*+"')
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
