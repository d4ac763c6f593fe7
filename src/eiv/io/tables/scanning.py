"""One pass over the bytes of a text table: its encoding, its rows, and quotes that are never closed."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from eiv.io.tables.spanning import are_rows, first_row_inside, n_cells

LONGEST_ROW = 2**21  # bytes: half a block of `reading`, because Latin-1 may double in size as UTF-8
_BLOCK = 2**20  # bytes that are scanned at once
_BLOT = bytes.maketrans(b"\r\n", b"xx")
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TableError(ValueError):
    """A table that cannot be used; the message names the file, and the column and line if they are known.

    Examples:
        >>> raise TableError("data.csv is empty.")
        Traceback (most recent call last):
        ...
        eiv.io.tables.scanning.TableError: data.csv is empty.

    """


class TextError(TableError):
    """A column that is to hold numbers holds something else.

    Examples:
        >>> raise TextError("data.csv, line 2: column 'a' holds 'long', not a number.")
        Traceback (most recent call last):
        ...
        eiv.io.tables.scanning.TextError: data.csv, line 2: column 'a' holds 'long', not a number.

    """


@dataclass(frozen=True)
class Scan:
    """The encoding of a text table and the number of its rows, with the header, found without a parser.

    A row ends at a line end outside quotes; blank lines do not count. The count is independent of the parser that reads
    the cells, so that rows which the parser loses are noticed. `n_spanning` is the number of rows below the header that
    span several lines. No more than one row and one block are in memory.
    """

    encoding: str
    n_rows: int
    n_spanning: int

    @classmethod
    def of(cls, path: Path, separator: str) -> Scan:
        """Scan a file; a `TableError` for stray quotes, a row that is too long, and bytes that are not text."""
        text, rows = _Text(path), _Counter(path, separator)
        for block in text.blocks():
            rows.add(block)
        rows.end()
        return cls(text.encoding, rows.n_rows, rows.n_spanning)


class _Text:
    """The content of a file as bytes in which ASCII characters are single bytes."""

    def __init__(self, path: Path) -> None:
        self.path, self.encoding = path, "utf-8-sig"

    def blocks(self) -> Iterator[bytes]:
        with open_bytes(self.path) as file, naming(self.path):
            block = file.read(_BLOCK)
            if block.startswith(UTF_16):
                self.encoding = "utf-16"
            decoder, marked = codecs.getincrementaldecoder(self.encoding)(), block.startswith(codecs.BOM_UTF8)
            begin = len(codecs.BOM_UTF8) if marked else 0
            while block:
                following = file.read(_BLOCK)
                content = self._checked(block, not following, decoder, marked)
                if b"\0" in content:
                    raise TableError(f"{self.path} is not a text table: it holds zero bytes.")
                yield content[begin:]
                block, begin = following, 0

    def _checked(self, block: bytes, final: bool, decoder: codecs.IncrementalDecoder, marked: bool) -> bytes:
        """The block, as UTF-8 if the file is UTF-16; the encoding becomes Latin-1 at the first invalid byte."""
        if self.encoding == "latin-1":
            return block
        try:
            text = decoder.decode(block, final)
        except UnicodeDecodeError as error:
            if marked or self.encoding == "utf-16":
                kind = "UTF-8" if marked else "UTF-16"
                raise TableError(f"{self.path} begins with the mark of {kind}, but is not {kind}.") from error
            self.encoding = "latin-1"  # the encoding of older spreadsheets
            return block
        return text.encode() if self.encoding == "utf-16" else block


class _Counter:
    """Counts rows, block by block."""

    def __init__(self, path: Path, separator: str) -> None:
        self.path, self.n_rows, self.n_spanning = path, 0, 0
        self._n_lines, self._rest, self._separator = 0, b"", separator.encode()
        self._n_columns = 0  # the number of columns of the header, once it is known
        # As for csv and pyarrow, a quote opens only at the beginning of a cell, and two quotes inside stand for one.
        self._quoted = re.compile(rb'(?<![^%b\r\n])"[^"]*(?:""[^"]*)*("?)' % re.escape(self._separator))

    def add(self, block: bytes) -> None:
        content = self._rest + block
        blotted, spanning, opened = self._blotted(content)
        stop = len(content) - content.endswith(b"\r")  # a \n may follow
        end = max(blotted.rfind(b"\n", 0, stop), blotted.rfind(b"\r", 0, stop)) + 1
        self._count(content, blotted, spanning, end)
        self._rest = content[end:]
        if len(self._rest) > LONGEST_ROW:
            raise self._too_long(None if opened is None else opened - end)

    def end(self) -> None:
        """Count the rest as the last row."""
        blotted, spanning, opened = self._blotted(self._rest)
        if opened is not None:
            raise TableError(f"{self.path}, line {self._line(self._rest[:opened])}: a quote opens and is never closed.")
        self._count(self._rest, blotted, spanning, len(blotted))

    def _count(self, content: bytes, blotted: bytes, spanning: list[tuple[int, int]], end: int) -> None:
        rows = blotted[:end].splitlines()
        if max(map(len, rows), default=0) > LONGEST_ROW:
            kept = blotted[:end].splitlines(keepends=True)
            n = next(i for i, row in enumerate(rows) if len(row) > LONGEST_ROW)
            self._n_lines += _line_ends(content[: sum(map(len, kept[:n]))])
            raise self._too_long(None)
        if not self._n_columns and any(rows):
            self._n_columns = n_cells(next(filter(None, rows)), self._separator)
        self._look_at(content, blotted, [cell for cell in spanning if cell[0] < end])
        self.n_rows += sum(map(bool, rows))
        self._n_lines += _line_ends(content[:end])

    def _blotted(self, content: bytes) -> tuple[bytes, list[tuple[int, int]], int | None]:
        """The content without line ends in quotes, the spans of cells over several lines, and that of an open quote."""
        opened, spanning = None, []

        def blot(cell: re.Match[bytes]) -> bytes:
            nonlocal opened
            if not cell[1]:
                opened = cell.start()
            blotted = cell[0].translate(_BLOT)
            if blotted != cell[0]:
                spanning.append(cell.span())
            return blotted

        return (self._quoted.sub(blot, content) if b'"' in content else content), spanning, opened

    def _look_at(self, content: bytes, blotted: bytes, spanning: list[tuple[int, int]]) -> None:
        """Count the rows over several lines; a `TableError` where a stray quote has joined several rows."""
        begin = len(blotted) - len(blotted.lstrip(b"\r\n"))  # the start of the header, if it is not counted yet
        before = 0  # the end of the row that was examined last
        for start, end in spanning:
            if blotted[end : end + 1] not in (b"", b"\r", b"\n", self._separator):
                raise self._amiss(content[:start], "is closed in a later line, in the middle of a cell")
            if start < before:
                continue
            first = max(blotted.rfind(b"\n", before, start), blotted.rfind(b"\r", before, start)) + 1
            before = _end_of_line(blotted, end)
            is_header = not self.n_rows and first <= begin
            row = content[first:before]
            lines = row.splitlines()
            if are_rows(lines, self._n_columns, self._separator, below=int(is_header)):
                raise self._amiss(content[:start], f"joins {len(lines)} lines, each of which is a row by itself")
            inside = first_row_inside(row, blotted[first:before], self._separator, is_header)
            if inside is not None:
                line = self._line(content[:first]) + inside
                raise self._amiss(content[:start], f"joins {len(lines)} lines, of which line {line} begins as a row")
            self.n_spanning += not is_header

    def _amiss(self, before: bytes, why: str) -> TableError:
        why = f"a quote opens and {why}. Is a quote missing, or one too many?"
        return TableError(f"{self.path}, line {self._line(before)}: {why}")

    def _too_long(self, opened: int | None) -> TableError:
        limit = f"{LONGEST_ROW / 2**20:g} MiB"
        if opened is None:
            return TableError(f"{self.path}, line {self._n_lines + 1}: a row of more than {limit}, the limit.")
        line = self._line(self._rest[:opened])
        return TableError(f"{self.path}, line {line}: a quote opens and is not closed within {limit}.")

    def _line(self, before: bytes) -> int:
        """The number of the line that follows these bytes of the rest."""
        return self._n_lines + _line_ends(before) + 1


def is_gzip(path: Path) -> bool:
    """Whether the file is compressed, by its name."""
    return path.suffix.lower() == ".gz"


def open_bytes(path: Path) -> IO[bytes]:
    """The file opened for reading, decompressed if it is a gzip file."""
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")  # type: ignore[return-value]


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raise a `TableError` that names the file where a gzip file is damaged."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"{path} is not a complete gzip file: {error}.") from error


def _end_of_line(content: bytes, place: int) -> int:
    found = re.compile(rb"[\r\n]").search(content, place)
    return found.start() if found else len(content)


def _line_ends(content: bytes) -> int:
    return content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
