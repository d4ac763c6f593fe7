"""The number of rows of a Parquet file that can be read at once, from its description of row groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from eiv.io.tables.scanning import TableError

_PIECE = 2**26  # bytes of cells that are read at once
_LARGEST_COLUMN = 2**30  # bytes of one column in a row group, where cells differ in size: one cell may hold them all
_SIZES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


def rows_at_once(path: Path, file: Any, names: Sequence[str], most: int) -> int:
    """The number of rows, at most `most`, whose cells in these columns take some 64 MiB.

    A `TableError` where a column of a row group is too large.
    """
    wanted, fixed = set(names), 0
    of_any_size: list[tuple[int, str]] = []
    for j in range(len(file.schema)):
        column = file.schema.column(j)
        name = column.path if column.path in wanted else column.path.partition(".")[0]
        if name in wanted:
            size = _SIZES.get(column.physical_type, max(0, column.length)) if not column.max_repetition_level else 0
            fixed += size
            of_any_size += [] if size else [(j, name)]
    row_size = float(fixed)
    for group in range(file.metadata.num_row_groups if of_any_size else 0):
        said = file.metadata.row_group(group)
        if said.num_rows * said.total_byte_size > _PIECE:  # a text may be stored once for many cells
            row_size = max(row_size, fixed + sum(_row_size(path, group, j, name) for j, name in of_any_size))
    return max(1, min(most, int(_PIECE // max(1.0, row_size))))


def _row_size(path: Path, group: int, j: int, name: str) -> float:
    """An upper limit for the mean bytes per cell of column j: the stored bytes per row, or its longest text."""
    with path.open("rb") as stream, pyarrow.parquet.ParquetFile(stream) as file:
        if not _first(file, group, name):
            return 0.0
        said = file.metadata.row_group(group)
        chunk = said.column(j)  # after a first cell was read, since pyarrow crashes here if the file is damaged
    stored, longest = chunk.total_uncompressed_size, 0
    if stored > _LARGEST_COLUMN:
        raise TableError(
            f"{path}: column {name!r} has {stored / 2**20:,.0f} MiB in row group {group + 1}; the limit is "
            f"{_LARGEST_COLUMN / 2**20:,.0f} MiB. Write it with smaller row groups."
        )
    if "DELTA_BYTE_ARRAY" in chunk.encodings:  # each cell may repeat the beginning of another
        longest = stored
    elif chunk.has_dictionary_page:
        with path.open("rb") as stream, pyarrow.parquet.ParquetFile(stream, read_dictionary=[name]) as file:
            longest = max((_longest(cells) for cells in _first(file, group, name)), default=0)
    return float(stored / said.num_rows + longest)


def _first(file: Any, group: int, name: str) -> list[Any]:
    """The first cell of a column in a row group; empty where there are no rows."""
    batch = next(file.iter_batches(1, row_groups=[group], columns=[name]), None)
    return [] if batch is None else batch.columns


def _longest(cells: Any) -> int:
    """The bytes of the longest text in a dictionary; 0 for columns without one, such as texts inside lists."""
    if not pa.types.is_dictionary(cells.type):
        return 0
    return int(pc.max(pc.binary_length(cells.dictionary)).as_py() or 0)
