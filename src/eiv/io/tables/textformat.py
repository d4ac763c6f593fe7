"""The format of a text table: its encoding, its separator, its decimal sign."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from eiv.io.tables.scanning import LONGEST_ROW, UTF_16, Scan, TableError, naming, open_bytes

_SAMPLE = 2**16  # bytes that the format is found from; more where the header is longer
_LINES = 50
_MOST_COLUMNS = 100_000
_SEPARATORS = ("\t", ";", "|", ",")  # where two split the lines equally well, the first one is taken
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+\s*")
_POINT_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*")
_BOTH = re.compile(r"\s*[-+]?\d{1,3}(\.\d{3})+,\d+\s*")  # thousands with points, and a decimal comma
_COMMA, _POINT = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*"), re.compile(r"\s*[-+]?\d*\.\d+([eE][-+]?\d+)?\s*")


@dataclass(frozen=True)
class TextFormat:
    """The format of a text table, the names of its columns, and its first line, with blanks and empty cells.

    `n_rows` is the number of rows below the header, counted without a parser; `n_spanning` of them span several lines.
    `decimal_commas` are the columns in which the first lines show a comma that is decimal and cannot separate
    thousands, and `decimal_points` those with such a point. Both are None where the decimal sign was given.
    """

    separator: str
    decimal: str
    encoding: str
    columns: tuple[str, ...]
    header: tuple[str, ...] = ()
    n_rows: int = 0
    n_spanning: int = 0
    decimal_commas: frozenset[str] | None = None
    decimal_points: frozenset[str] | None = None

    @classmethod
    def of(cls, path: Path, separator: str | None = None, decimal: str | None = None) -> TextFormat:
        """The format of a file; a separator or decimal sign that is not given is found from its first lines."""
        _check_signs(separator, decimal)
        sample, whole = _sample(path)
        text = sample.decode("utf-16" if sample.startswith(UTF_16) else "latin-1", errors="ignore")
        if not text.lstrip("\xef\xbb\xbf").strip():
            raise TableError(f"{path} is empty.")
        if "\0" in text:
            raise TableError(f"{path} is not a text table: it holds zero bytes.")
        found = separator or _separator(_lines(text, whole))
        scan = Scan.of(path, found)
        rows = _rows(_lines(sample.decode(scan.encoding, errors="ignore"), whole), found)
        if not rows:
            limit = f"{csv.field_size_limit():,} characters"
            raise TableError(f"{path}: the names of its columns cannot be read; each may have at most {limit}.")
        if len(rows[0]) > _MOST_COLUMNS:
            raise TableError(f"{path} has {len(rows[0]):,} columns; the limit is {_MOST_COLUMNS:,}.")
        if found == decimal and not _has(_COMMA, rows[1:]):  # a comma can be both where numbers are in quotes
            raise TableError(f"{path}: {found!r} cannot be both the separator and the decimal sign.")
        return cls(
            separator=found,
            decimal=decimal or _decimal(rows[1:]),
            encoding=scan.encoding,
            columns=_columns(rows),
            header=tuple(rows[0]),
            n_rows=scan.n_rows - 1,
            n_spanning=scan.n_spanning,
            decimal_commas=None if decimal else _showing(rows, _is_comma_for_certain),
            decimal_points=None if decimal else _showing(rows, _is_decimal_point),
        )

    def is_clear(self, column: str) -> bool:
        """Whether a cell of the column such as `1,234`, or `1.234` where the point is decimal, has only one meaning.

        A point may separate thousands where some column of the table has decimal commas.
        """
        if self.decimal_commas is None or self.decimal_points is None:
            return True
        if self.decimal == ",":
            return column in self.decimal_commas
        return not self.decimal_commas or column in self.decimal_points

    def line_of(self, path: Path, row: int) -> int:
        """The line of the file on which data row `row`, counted from 0, begins."""
        for n, (line, _) in enumerate(self._records(path), -1):  # the header is -1
            if n == row:
                return line
        return row + 2

    def ragged(self, path: Path) -> tuple[int, int] | None:
        """The first line whose number of cells differs from the header's, and that number; None if there is none."""
        return next(((line, len(cells)) for line, cells in self._records(path) if len(cells) != len(self.header)), None)

    def _records(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        """All rows that are not blank, each with the line on which it begins, as far as the file can be read."""
        with (
            contextlib.suppress(EOFError, OSError, zlib.error, csv.Error),
            io.TextIOWrapper(open_bytes(path), encoding=self.encoding, errors="replace", newline="") as file,
        ):
            reader = csv.reader(file, delimiter=self.separator)
            yield from ((reader.line_num - sum(map(_line_ends, cells)), cells) for cells in reader if cells)


def _line_ends(cell: str) -> int:
    return cell.count("\n") + cell.count("\r") - cell.count("\r\n")


def _check_signs(separator: str | None, decimal: str | None) -> None:
    for name, sign in (("separator", separator), ("decimal", decimal)):
        if sign is not None and len(sign) != 1:
            raise TableError(f"The {name} must be one character, got {sign!r}.")
    if separator is not None and (not separator.isascii() or separator in '"\r\n\0'):
        raise TableError(f"The separator must be an ASCII character other than a quote or line end, got {separator!r}.")
    if decimal not in (None, ".", ","):
        raise TableError(f"The decimal sign must be '.' or ',', got {decimal!r}.")


def _sample(path: Path) -> tuple[bytes, bool]:
    """The beginning of the file, with its whole first row, and whether it is the whole file."""
    with open_bytes(path) as file, naming(path):
        sample = file.read(_SAMPLE)
        while _is_one_row(sample) and len(sample) <= LONGEST_ROW and (more := file.read(len(sample))):
            sample += more
        return sample, not file.read(1)


def _is_one_row(sample: bytes) -> bool:
    """Whether the sample may end within the first row, which may hold line ends in quotes."""
    text = sample.decode("utf-16" if sample.startswith(UTF_16) else "latin-1", errors="ignore")
    return any(len(_rows(_lines(text, whole=False), sign)) < 2 for sign in _SEPARATORS)


def _lines(text: str, whole: bool) -> list[str]:
    lines = list(io.StringIO(text, newline=""))  # not splitlines, which splits at other characters too
    return lines if whole else lines[:-1]  # the last one is cut off by the sample


def _separator(lines: list[str]) -> str:
    """The character that splits all lines into as many cells as the header, and into the most cells."""
    counts = {}
    for sign in _SEPARATORS:
        rows = _rows(lines, sign) or [[""]]
        same = all(len(row) == len(rows[0]) for row in rows)
        counts[sign] = (same and len(rows[0]) > 1, len(rows[0]))
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best][1] > 1 else ","


def _decimal(rows: list[list[str]]) -> str:
    """A comma where some numbers have one and none has a point, else a point; `1,234` alone is no evidence."""
    return "," if any(_is_decimal_comma(cell) for row in rows for cell in row) and not _has(_POINT, rows) else "."


def _showing(rows: list[list[str]], test: Callable[[str], bool]) -> frozenset[str]:
    """The columns with a cell that passes a test."""
    names = [name.strip(" \t") for name in rows[0]]
    return frozenset(name for row in rows[1:] for name, cell in zip(names, row, strict=False) if test(cell))


def _is_decimal_comma(cell: str) -> bool:
    return bool(_COMMA.fullmatch(cell)) and not _THOUSANDS.fullmatch(cell)


def _is_comma_for_certain(cell: str) -> bool:
    return _is_decimal_comma(cell) or bool(_BOTH.fullmatch(cell))


def _is_decimal_point(cell: str) -> bool:
    return bool(_POINT.fullmatch(cell)) and not _POINT_THOUSANDS.fullmatch(cell)


def _has(kind: re.Pattern[str], rows: list[list[str]]) -> bool:
    return any(kind.fullmatch(cell) for row in rows for cell in row)


def _columns(rows: list[list[str]]) -> tuple[str, ...]:
    """The names in the first row, without blanks around them and without empty columns at the end that have no name."""
    names = [name.strip(" \t") for name in rows[0]]
    while len(names) > 1 and not any(cell.strip() for row in rows for cell in row[len(names) - 1 : len(names)]):
        names.pop()
    return tuple(names)


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    """The first rows that are not blank, up to a cell that is too long for csv."""
    rows: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        for row in csv.reader(lines, delimiter=separator):
            rows += [row] if row else []
            if len(rows) == _LINES:
                break
    return rows
