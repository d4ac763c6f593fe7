"""The unpacked size of an Excel workbook, found before it is opened, since a small zip of XML can hold a lot."""

from __future__ import annotations

import copy
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO
from xml.parsers import expat

from eiv.io.tables.scanning import TableError

LONGEST_CELL = 32_767  # characters, as in Excel
LARGEST_TEXT = 2**28  # characters of all cells of a sheet
_LARGEST_BOOK = 2**30  # bytes of all parts
_LARGEST_PART = 2**26  # bytes of a part that is not made of rows or texts, such as a picture
_LARGEST_PIECE = 2**24  # bytes of XML of one row or text, which is in memory at once
_MOST_PIECES = 5 * 10**6  # rows and texts
_BLOCK = 2**20
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_PIECES = {f"{_MAIN}}}worksheet": f"{_MAIN}}}row", f"{_MAIN}}}sst": f"{_MAIN}}}si"}  # by the root of a part


def check_workbook(path: Path, stream: IO[bytes]) -> None:
    """Raise a `TableError` where a workbook would take too much memory. One block of it is unpacked at a time."""
    n_bytes = n_pieces = 0
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            part = _Part(path, member.filename)
            for block in _unpacked(path, archive, member):
                part.add(block)
                if n_bytes + part.n_bytes > _LARGEST_BOOK:
                    raise TableError(f"{path} unpacks to more than {_mib(_LARGEST_BOOK)}, the limit; save it as CSV.")
                if n_pieces + part.n_pieces > _MOST_PIECES:
                    what = f"{_MOST_PIECES:,} rows and different texts"
                    raise TableError(f"{path} has more than {what}, the limit; save it as CSV.")
            if part.n_bytes != member.file_size:
                raise TableError(
                    f"{path}: {part.name!r} in it unpacks to {part.n_bytes:,} bytes, but the archive states "
                    f"{member.file_size:,}. Is it damaged?"
                )
            n_bytes, n_pieces = n_bytes + part.n_bytes, n_pieces + part.n_pieces


def _unpacked(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content of a part in blocks, whatever size the archive states."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise TableError(f"{path}: {member.filename!r} in it is packed in a way that Excel does not use.")
    whole = copy.copy(member)
    whole.file_size = _LARGEST_BOOK + 1
    with archive.open(whole) as file:
        while block := file.read(_BLOCK):
            yield block


class _Part:
    """Scans one part of a workbook, block by block, and checks the size of its rows or texts."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name, self.n_bytes, self.n_pieces = path, name, 0, 0
        self._begin, self._piece, self._is_xml = 0, "", True
        self._parser = expat.ParserCreate(namespace_separator="}")
        self._parser.StartElementHandler = self._root
        self._parser.StartDoctypeDeclHandler = self._refuse

    def add(self, block: bytes) -> None:
        self.n_bytes += len(block)
        if self._is_xml:
            try:
                self._parser.Parse(block)
            except expat.ExpatError:  # not XML, such as a picture; or damaged, so that openpyxl cannot read it either
                self._is_xml = False
        if self._piece and self.n_bytes - self._begin > _LARGEST_PIECE + _BLOCK:
            raise self._too_large()
        if not self._piece and self.n_bytes > _LARGEST_PART:
            raise TableError(f"{self.path}: {self.name!r} in it unpacks to more than {_mib(_LARGEST_PART)}, the limit.")

    def _root(self, name: str, _: object) -> None:
        self._piece = _PIECES.get(name, "")
        handler: Callable[[str, object], None] | None = self._start if self._piece else None
        self._parser.StartElementHandler = handler

    def _start(self, name: str, _: object) -> None:
        if name == self._piece:
            here = self._parser.CurrentByteIndex
            if here - self._begin > _LARGEST_PIECE:
                raise self._too_large()
            self._begin, self.n_pieces = here, self.n_pieces + 1

    def _too_large(self) -> TableError:
        what = "text" if self._piece.endswith("}si") else "row"
        return TableError(
            f"{self.path}: a {what} of {self.name!r} in it has more than {_mib(_LARGEST_PIECE)}, the limit."
        )

    def _refuse(self, *_: object) -> None:
        raise TableError(f"{self.path}: {self.name!r} in it defines entities, which workbooks do not need.")


def _mib(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:g} MiB"
