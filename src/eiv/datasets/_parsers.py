"""Readers for the layouts of the original files; each returns a table, rows x columns, features first, targets last.

Archives are read in memory, member by member, so no name inside an archive becomes a path.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import warnings
import zipfile
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from eiv.datasets._download import LIMIT
from eiv.extras import needs

Array = NDArray[np.float64]
Parser = Callable[[bytes], Array]


def numbers(raw: bytes, delimiter: str | None = None, skip: int = 0) -> Array:
    """Rows of numbers, exactly as printed, separated by `delimiter`, or by blanks where it is None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on an empty file, which the check of the number of rows finds
        return np.loadtxt(
            io.StringIO(raw.decode("utf-8-sig")), delimiter=delimiter, skiprows=skip, ndmin=2, comments=None
        )


def gunzip(raw: bytes) -> bytes:
    """`raw`, decompressed if it is gzip-compressed."""
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        return _limited(file.read(LIMIT + 1))


def from_zip(member: str, read: Parser) -> Parser:
    """A parser that applies `read` to a `member` of a zip archive, in any of its folders."""

    def parse(raw: bytes) -> Array:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            name = _find(member, archive.namelist())
            with archive.open(name) as file:
                return read(_limited(file.read(LIMIT + 1)))

    return parse


def from_tgz(member: str, read: Parser) -> Parser:
    """A parser that applies `read` to a `member` of a gzip-compressed tar archive."""

    def parse(raw: bytes) -> Array:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as archive:
            file = archive.extractfile(_find(member, archive.getnames()))
            if file is None:
                raise ValueError(f"{member} in the archive is not a file")
            return read(_limited(file.read(LIMIT + 1)))

    return parse


def blanks(raw: bytes) -> Array:
    """No header, blanks between the numbers: yacht, naval."""
    return numbers(raw)


def commas(raw: bytes) -> Array:
    """A header, then commas: the tables that UCI exports."""
    return numbers(raw, ",", skip=1)


def semicolons(raw: bytes) -> Array:
    """A header, then semicolons: wine."""
    return numbers(raw, ";", skip=1)


def target_first(raw: bytes) -> Array:
    """As `commas`, with the target before the features: protein."""
    return np.roll(commas(raw), -1, axis=1)


def arff(raw: bytes) -> Array:
    """Attribute-Relation File Format with numeric attributes: kin8nm."""
    lines = [line.strip() for line in raw.decode("utf-8-sig").splitlines()]
    starts = [i for i, line in enumerate(lines) if line.lower() == "@data"]
    if not starts:
        raise ValueError("an ARFF file without @data")
    rows = [line for line in lines[starts[0] + 1 :] if line and not line.startswith("%")]
    return numbers("\n".join(rows).encode(), ",")


def cal_housing(raw: bytes) -> Array:
    """The raw columns of StatLib, converted to the eight features of scikit-learn: california."""
    longitude, latitude, age, rooms, bedrooms, population, households, income, value = numbers(raw, ",").T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.column_stack(
            [
                income,
                age,
                rooms / households,
                bedrooms / households,
                population,
                population / households,
                latitude,
                longitude,
                value / 100000,
            ]
        )


def workbook(sheet: str | None, decimals: int) -> Parser:
    """A parser of a `sheet` of an Excel workbook (the first where None) with a header: power, energy.

    Excel stores binary numbers, some of them with more digits than the table shows; they are rounded to its `decimals`.
    Empty cells after the table, which some originals have, are left out.
    """

    def parse(raw: bytes) -> Array:
        needs("An Excel workbook", "openpyxl", extra="datasets")
        import openpyxl  # noqa: PLC0415

        book = openpyxl.load_workbook(io.BytesIO(raw), read_only=True, data_only=True)
        table = book.worksheets[0] if sheet is None else book[sheet]
        table.reset_dimensions()  # some writers state a wrong size
        rows = [[cell for cell in row if cell is not None] for row in table.iter_rows(min_row=2, values_only=True)]
        values: Array = np.array([row for row in rows if row], dtype=np.float64)
        return values.round(decimals)

    return parse


def _find(member: str, names: list[str]) -> str:
    for name in names:
        if name == member or name.endswith(f"/{member}"):
            return name
    raise ValueError(f"no {member} in the archive, only {', '.join(names[:8]) or 'nothing'}")


def _limited(raw: bytes) -> bytes:
    if len(raw) > LIMIT:
        raise ValueError(f"more than {LIMIT // 2**20} MiB when unpacked")
    return raw
