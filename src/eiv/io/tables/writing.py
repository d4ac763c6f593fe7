"""Tables to files, block by block; a file appears when it is complete."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from eiv.io.files import written_whole
from eiv.io.tables.reading import plain
from eiv.io.tables.scanning import TableError, is_gzip
from eiv.io.tables.textformat import TextFormat

__all__ = ["TableWriter"]

_FORMULA = r"^[=+\-@\t\r]"  # what a spreadsheet may take for the beginning of a formula
_NUMBER = r"^[+\-]?[\d.,]+([eE][+\-]?\d+)?$"
ENDINGS = (".csv", ".csv.gz", ".parquet")


class TableWriter:
    r"""Writes a table in blocks of rows: CSV (`.csv`, `.csv.gz`) or Parquet, by the ending of its name.

    The file appears under its name when the `with` statement ends. After an error or an interruption there is none.

    Args:
        path: the file.
        text_format: separator and decimal sign of a CSV.
        escape_formulas: whether texts of a CSV that a spreadsheet would take for a formula get an apostrophe first.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "t.csv"
        >>> with TableWriter(path) as writer:
        ...     writer.write(pa.table({"a": [1.5], "b": ["x,y"]}))
        ...     writer.write(pa.table({"a": [2.5], "b": ["z"]}))
        >>> path.read_text()
        'a,b\n1.5,"x,y"\n2.5,z\n'

    """

    def __init__(
        self, path: str | Path, text_format: TextFormat | None = None, *, escape_formulas: bool = False
    ) -> None:
        self._escapes = escape_formulas
        self.path, self.format = Path(path), text_format or TextFormat(",", ".", "utf-8", ())
        if not self.path.name.lower().endswith(ENDINGS):
            raise TableError(f"{path}: a table can be written as {', '.join(ENDINGS)}; choose one of these endings.")
        self._stack = contextlib.ExitStack()
        self._sink: Any = None

    @property
    def is_parquet(self) -> bool:
        """Whether the table is written as Parquet, whose columns keep their types."""
        return self.path.suffix.lower() == ".parquet"

    def __enter__(self) -> Self:
        self._part = self._stack.enter_context(written_whole(self.path))
        if not self.is_parquet:
            file: Any = self._stack.enter_context(self._part.open("wb"))
            if is_gzip(self.path):
                file = self._stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
            self._file = file
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(self, table: Any) -> None:
        """Add rows; all blocks must have the same columns."""
        if self.is_parquet:
            if self._sink is None:
                self._sink = self._stack.enter_context(pyarrow.parquet.ParquetWriter(self._part, table.schema))
            self._sink.write_table(table)
            return
        if self._sink is None:
            self._sink = self._file
            header = io.StringIO()
            names = [_escaped(name) for name in table.column_names] if self._escapes else table.column_names
            csv.writer(header, delimiter=self.format.separator, lineterminator="\n").writerow(names)
            self._sink.write(header.getvalue().encode())
        self._sink.write(self._text(table))

    def _text(self, table: Any) -> Any:
        columns = [self._readable(column) for column in table.columns]
        table = pa.Table.from_arrays(columns, names=table.column_names)
        for quoting in ("none", "needed"):  # pyarrow's "needed" quotes every text, so it is used only if it has to be
            buffer = pa.BufferOutputStream()
            options = {"include_header": False, "delimiter": self.format.separator, "quoting_style": quoting}
            try:
                pyarrow.csv.write_csv(table, buffer, pyarrow.csv.WriteOptions(**options))
                break
            except pa.ArrowInvalid as error:
                if quoting == "needed":
                    raise TableError(f"{self.path}: a column cannot be written as CSV: {error}.") from error
        return buffer.getvalue()

    def _readable(self, column: Any) -> Any:
        """Numbers with the decimal sign of the format, and missing numbers as empty cells."""
        column = plain(column)
        if self._escapes and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            is_formula = pc.and_not(
                pc.match_substring_regex(column, _FORMULA), pc.match_substring_regex(column, _NUMBER)
            )
            return pc.if_else(is_formula, pc.binary_join_element_wise("'", column, ""), column)
        if not pa.types.is_floating(column.type):
            return column
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        if self.format.decimal == ".":
            return column
        return pc.replace_substring(pc.cast(column, pa.string()), ".", self.format.decimal)


def _escaped(text: str) -> str:
    """A text with an apostrophe before it, where a spreadsheet would take it for a formula."""
    return f"'{text}" if re.search(_FORMULA, text) and not re.search(_NUMBER, text) else text


def with_columns(cells: Any, values: dict[str, np.ndarray[Any, Any]]) -> Any:
    """A table with these columns added, or in the place of its own columns of the same name."""
    for name, column in values.items():
        array = pa.array(column)
        place = cells.column_names.index(name) if name in cells.column_names else None
        cells = cells.append_column(name, array) if place is None else cells.set_column(place, name, array)
    return cells
