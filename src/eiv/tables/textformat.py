"""How a text table is written: its encoding, its separator, its decimal sign."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_SAMPLE = 2**16  # bytes that are looked at
_LINES = 50
_SEPARATORS = ("\t", ";", "|", ",")  # where two part the lines alike, the first one
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+\s*")
_COMMA, _POINT = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*"), re.compile(r"\s*[-+]?\d*\.\d+([eE][-+]?\d+)?\s*")


class TableError(ValueError):
    r"""A table that cannot be used; the message names the file, and the column and line where it applies.

    .. math:: x_{ij} \notin \mathbb{R}

    Examples:
        >>> raise TableError("data.csv is empty.")
        Traceback (most recent call last):
        ...
        eiv.tables.textformat.TableError: data.csv is empty.

    """


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written, the names of its columns, and its first line, with blanks and empty cells."""

    separator: str
    decimal: str
    encoding: str
    columns: tuple[str, ...]
    header: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: Path, separator: str | None = None, decimal: str | None = None) -> TextFormat:
        """The format of a file, as far as it is not told."""
        for name, sign in (("separator", separator), ("decimal", decimal)):
            if sign is not None and len(sign) != 1:
                raise TableError(f"The {name} must be one character, got {sign!r}.")
        if decimal not in (None, ".", ","):
            raise TableError(f"The decimal sign must be '.' or ',', got {decimal!r}.")
        sample, whole = _sample(path)
        encoding = _encoding(path, sample)
        text = sample.decode(encoding, errors="ignore")
        if not text.strip():
            raise TableError(f"{path} is empty.")
        if "\0" in text:
            raise TableError(f"{path} is not a text table: it holds zero bytes.")
        lines = list(io.StringIO(text, newline=""))  # not splitlines, which parts at other signs too
        if len(lines) > 1 and not whole:
            lines.pop()  # cut off by the sample
        found = separator or _separator(lines)
        rows = _rows(lines, found)
        if found == decimal and not _has(_COMMA, rows[1:]):  # but in quotes
            raise TableError(f"{path}: {found!r} cannot be both the separator and the decimal sign.")
        return cls(found, decimal or _decimal(rows[1:], found), encoding, _columns(rows), tuple(rows[0]))

    def line_of(self, path: Path, row: int) -> int:
        """The line of the file on which data row `row`, from 0, ends."""
        for n, (line, _) in enumerate(self._records(path), -1):  # the header is -1
            if n == row:
                return line
        return row + 2

    def ragged(self, path: Path) -> tuple[int, int] | None:
        """The first line with another number of cells than the header has, and that number."""
        return next(((line, len(cells)) for line, cells in self._records(path) if len(cells) != len(self.header)), None)

    def _records(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        """All lines that are not blank with the number on which each ends, as far as the file can be read."""
        with (
            contextlib.suppress(EOFError, OSError, zlib.error, csv.Error),
            io.TextIOWrapper(open_bytes(path), encoding=self.encoding, errors="replace", newline="") as file,
        ):
            reader = csv.reader(file, delimiter=self.separator)
            yield from ((reader.line_num, cells) for cells in reader if cells)


def is_gzip(path: Path) -> bool:
    """Whether the name says that the file is compressed."""
    return path.suffix.lower() == ".gz"


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of the file, decompressed."""
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")  # type: ignore[return-value]


def _sample(path: Path) -> tuple[bytes, bool]:
    """The beginning of the file, and whether it is all of it."""
    try:
        with open_bytes(path) as file:
            sample = file.read(_SAMPLE)
            return sample, not file.read(1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"{path} is not a whole gzip file: {error}.") from error


def _encoding(path: Path, sample: bytes) -> str:
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "latin-1"  # as older spreadsheets write it
    return "utf-8-sig"


def _separator(lines: list[str]) -> str:
    """The sign that parts all lines into as many cells as the header, the more the better."""
    counts = {}
    for sign in _SEPARATORS:
        rows = _rows(lines, sign)
        same = all(len(row) == len(rows[0]) for row in rows)
        counts[sign] = (same and len(rows[0]) > 1, len(rows[0]))
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best][1] > 1 else ","


def _decimal(rows: list[list[str]], separator: str) -> str:
    """The comma where some numbers have one and none has a point; `1,234` in quotes may be thousands."""
    if separator == ",":
        rows = [[cell for cell in row if not _THOUSANDS.fullmatch(cell)] for row in rows]
    return "," if _has(_COMMA, rows) and not _has(_POINT, rows) else "."


def _has(kind: re.Pattern[str], rows: list[list[str]]) -> bool:
    return any(kind.fullmatch(cell) for row in rows for cell in row)


def _columns(rows: list[list[str]]) -> tuple[str, ...]:
    """The names in the first row without blanks around them; empty columns at the end without a name are none."""
    names = [name.strip(" \t") for name in rows[0]]
    while len(names) > 1 and not any(cell.strip() for row in rows for cell in row[len(names) - 1 : len(names)]):
        names.pop()
    return tuple(names)


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    try:
        rows = [row for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:
        rows = []
    return rows[:_LINES] or [[""]]
