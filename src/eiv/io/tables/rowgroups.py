"""How many rows of a Parquet file can be read at once, by what it says of its row groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from eiv.io.tables.scanning import TableError

_PIECE = 2**26  # bytes of cells that are read at once
_LARGEST_COLUMN = 2**30  # bytes of one column in one row group, where cells differ in size: any of them may hold it all
_SIZES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


def rows_at_once(path: Path, file: Any, names: Sequence[str], most: int) -> int:
    """How many rows with these columns have some 64 MiB; a `TableError` where a row group is too large for that."""
    n_rows = most
    for group in range(file.metadata.num_row_groups):
        n_rows = min(n_rows, _rows_of_group(path, file, group, names))
    return max(1, n_rows)


def _rows_of_group(path: Path, file: Any, group: int, names: Sequence[str]) -> int:
    said = file.metadata.row_group(group)
    n_rows, row_size = max(1, said.num_rows), 0.0
    wanted = set(names)
    for j in range(said.num_columns):
        described, chunk = file.schema.column(j), said.column(j)
        name = described.path if described.path in wanted else described.path.partition(".")[0]
        if name not in wanted:
            continue
        size = _SIZES.get(chunk.physical_type, max(0, described.length))  # of one cell; 0 where they differ
        stored = max(chunk.total_uncompressed_size, chunk.num_values * size)
        if (not size or described.max_repetition_level) and stored > _LARGEST_COLUMN:
            raise TableError(
                f"{path}: column {name!r} has {stored / 2**20:,.0f} MiB in row group {group + 1}; "
                f"{_LARGEST_COLUMN / 2**20:,.0f} MiB are the most. Write it with smaller row groups."
            )
        row_size += stored / n_rows
        if not size and n_rows * stored > _PIECE:  # the same text may stand for many cells
            row_size += _longest(path, group, name, chunk)
    return int(_PIECE // max(1.0, row_size))


def _longest(path: Path, group: int, name: str, chunk: Any) -> int:
    """The bytes of the longest text that is stored once for several cells."""
    if "DELTA_BYTE_ARRAY" in chunk.encodings:  # each cell may repeat the beginning of another
        return int(chunk.total_uncompressed_size)
    if not chunk.has_dictionary_page:
        return 0
    with path.open("rb") as stream, pyarrow.parquet.ParquetFile(stream, read_dictionary=[name]) as file:
        cells = next(file.iter_batches(1, row_groups=[group], columns=[name])).column(0)
        if not pa.types.is_dictionary(cells.type) or not len(cells.dictionary):  # texts inside lists, say
            return 0
        return int(pc.max(pc.binary_length(cells.dictionary)).as_py() or 0)
