"""Tables from files, read as a whole or in blocks of rows."""

from __future__ import annotations

import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from eiv.extras import needs
from eiv.io.tables.rowgroups import rows_at_once
from eiv.io.tables.scanning import TableError, TextError, is_gzip, open_bytes
from eiv.io.tables.textformat import TextFormat
from eiv.io.tables.workbooks import LARGEST_TEXT, LONGEST_CELL, check_workbook

__all__ = ["Source", "TableError", "TableRows", "open_table"]

Array = NDArray[np.float64]
_CSV, _PARQUET = (".csv", ".tsv", ".txt", ".dat"), (".parquet", ".pq")
_ASTRONOMY = {".fits": "FITS", ".fit": "FITS", ".ecsv": "ECSV", ".vot": "VOTable", ".xml": "VOTable"}
_BLOCK = 2**22  # bytes of text, or
_CHUNK = 2**16  # rows, that are read at once
_MOST_CELLS = 2 * 10**7  # the most cells of an Excel sheet, which is kept in memory as a whole
_THOUSANDS = {sign: rf"^[-+]?[1-9][0-9]{{0,2}}({re.escape(sign)}[0-9]{{3}})+$" for sign in ",."}
MISSING_WORDS = ("", "na", "n/a", "#n/a", "nan", "null", "none")
"""What a cell without a value may hold, in small letters."""
_MISSING = pa.array(MISSING_WORDS)


class Source(Protocol):
    r"""A table in a file.

    Attributes:
        path: the file.
        columns: the names of its columns, all different.
        text_format: the format of a text table; for other tables, that of numbers given as text.
        n_rows: the number of rows, known before they are read.
        n_spanning: the number of rows that span several lines, because a quoted cell holds line ends.
        units: the units of columns, by name, where the file has some.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "t.csv"
        >>> _ = path.write_text("a;b\n1,5;x\n2,5;y\n")
        >>> source: Source = open_table(path)
        >>> source.columns, [rows.numbers("a").tolist() for rows in source.chunks()]
        (('a', 'b'), [[1.5, 2.5]])

    """

    path: Path
    columns: tuple[str, ...]
    text_format: TextFormat
    n_rows: int
    n_spanning: int
    units: Mapping[str, str]

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """The rows in blocks of bounded size, with these columns or all; a `TableError` where there are no rows."""

    def place(self, row: int) -> str:
        """The place of data row `row`, counted from 0, in the file, in words."""


class CellsOfReadings(NamedTuple):
    """The cells of a column of readings, `rows` each: numbers, and the limits that true values are below or above.

    NaN where a cell holds no number, or no such limit.
    """

    numbers: Array
    below: Array
    above: Array

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Which cells hold a limit, `rows`."""
        return np.asarray(np.isfinite(self.below) | np.isfinite(self.above))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which cells hold neither a number nor a limit, `rows`."""
        return np.asarray(np.isnan(self.numbers) & ~self.hidden)


@dataclass(frozen=True)
class TableRows:
    """A block of consecutive rows of a table.

    Attributes:
        source: the table.
        cells: the rows as they are in the file.
        first: the number of the first row, counted from 0.

    Examples:
        >>> TableRows(None, pa.table({"a": ["1", "", "inf"]}), first=0).numbers("a")
        array([ 1., nan, inf])

    """

    source: Any
    cells: Any
    first: int = 0
    _known: dict[str, Array] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return int(self.cells.num_rows)

    def numbers(self, column: str) -> Array:
        """A column as numbers, `rows`; NaN where a cell is empty. A `TableError` where a cell is something else."""
        if column not in self._known:
            self._known[column] = self._numbers(column)
        return self._known[column]

    def readings(self, column: str) -> CellsOfReadings:
        """A column as numbers, and the limits of cells such as `<0.05` and `>3`.

        Examples:
            >>> cells = TableRows(None, pa.table({"a": ["1", "<0.5", "> 3"]}), first=0).readings("a")
            >>> cells.numbers, cells.below, cells.above
            (array([ 1., nan, nan]), array([nan, 0.5, nan]), array([nan, nan,  3.]))

        """
        cells, nothing = self.cells[column], np.full(len(self), np.nan)
        if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
            return CellsOfReadings(self.numbers(column), nothing, nothing)
        text = pc.utf8_trim_whitespace(cells)
        signs = [pc.fill_null(pc.starts_with(text, sign), False) for sign in "<>"]
        hidden = pc.or_(*signs)
        if not pc.any(hidden).as_py():
            return CellsOfReadings(self.numbers(column), nothing, nothing)
        empty, after = pa.scalar(None, text.type), pc.utf8_slice_codeunits(text, 1)
        parts = (pc.if_else(hidden, empty, cells), *(pc.if_else(sign, after, empty) for sign in signs))
        place = self.cells.column_names.index(column)
        found = CellsOfReadings(
            *(
                TableRows(self.source, self.cells.set_column(place, column, part), self.first).numbers(column)
                for part in parts
            )
        )
        bare = np.flatnonzero(hidden.to_numpy(zero_copy_only=False) & ~found.hidden)
        if len(bare):
            raise self.refusal(column, int(bare[0]), cells[int(bare[0])].as_py(), "a limit without a number.")
        return found

    def _numbers(self, column: str) -> Array:
        try:
            return self._converted(column)
        except (pa.ArrowException, UnicodeError) as error:  # bytes that are not valid text
            raise TableError(
                f"{self.source.path}: column {column!r} cannot be read as numbers: {_first_line(error)}"
            ) from error

    def _converted(self, column: str) -> Array:
        values = self.cells[column]
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        values = plain(values)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = self._parsed(column, values)
        elif not (_is_number(values.type) or pa.types.is_null(values.type)):
            raise TextError(f"{self.source.path}: column {column!r} holds {values.type}, not numbers.")
        rounded = pc.cast(values, pa.float64(), safe=False)  # rounds integers above 2^53, as in a CSV
        return np.asarray(pc.fill_null(rounded, np.nan).to_numpy(zero_copy_only=False))

    def _parsed(self, column: str, text: Any) -> Any:
        text_format = self.source.text_format if self.source is not None else TextFormat(",", ".", "utf-8", ())
        sign = text_format.decimal
        if not text_format.is_clear(column):
            hint = f"which may be thousands. Is {sign!r} its decimal sign? Then use --decimal {sign}"
            self._refuse(column, pc.utf8_trim_whitespace(text), _THOUSANDS[sign], hint)
        try:
            if sign == ".":
                return pc.cast(text, pa.float64())
        except pa.ArrowInvalid:
            pass  # empty cells, spaces, or cells that are not numbers: found below
        self._refuse(column, text, r"[\r\n]", "a cell over several lines, not a number. Is a quote missing?")
        text = pc.utf8_trim_whitespace(text)
        text = pc.if_else(pc.is_in(pc.utf8_lower(text), value_set=_MISSING), pa.scalar(None, text.type), text)
        plain = text
        if sign == ",":  # a point could separate thousands, which is refused
            plain = pc.replace_substring(pc.replace_substring(text, ".", "_"), ",", ".")
        try:
            return pc.cast(plain, pa.float64())
        except pa.ArrowInvalid:
            row = next(i for i, cell in enumerate(plain) if not _is_parsed(cell))
            value, hint = text[row].as_py(), ""
            if sign == "." and re.fullmatch(r"[-+]?\d+,\d+", value):
                hint = " Is ',' its decimal sign? Then use --decimal ,"
            refusal = self.refusal(column, row, value, f"not a number.{hint}")
            raise refusal if hint else TextError(str(refusal)) from None

    def _refuse(self, column: str, text: Any, pattern: str, why: str) -> None:
        """Raise a `TableError` for the first cell that matches the pattern, if there is one."""
        row = pc.index(pc.fill_null(pc.match_substring_regex(text, pattern), False), True).as_py()
        if row >= 0:
            raise self.refusal(column, row, text[row].as_py(), why)

    def refusal(self, column: str, row: int, value: str, why: str) -> TableError:
        """The error that says what is wrong with the value of a cell."""
        place = f"{self.source.path}, {self.source.place(self.first + row)}"
        return TableError(f"{place}: column {column!r} holds {value[:40]!r}, {why}")


def open_table(path: str | Path, separator: str | None = None, decimal: str | None = None) -> Source:
    r"""Open a table in a file.

    CSV (`.csv`, `.tsv`, `.txt`, `.dat`, also `.gz`), Parquet, Excel (`.xlsx`), FITS (`.fits`), ECSV (`.ecsv`) or
    VOTable (`.vot`).

    Args:
        path: the file.
        separator: the separator of the cells of a CSV; if not given, tab, `;`, `|` or `,` is found from the file.
        decimal: the decimal sign, `.` or `,`; if not given, it is found from the file.

    Returns:
        A `Source`, from which rows can be read.

    Raises:
        TableError: where the file is empty, not a table, or has two columns of the same name.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "t.csv"
        >>> _ = path.write_text("length,mass\n1.5,2\n")
        >>> open_table(path).columns
        ('length', 'mass')

    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise TableError(f"{path} is not a file.")
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty.")
    suffix = Path(path.stem).suffix.lower() if is_gzip(path) else path.suffix.lower()
    source: Source
    if suffix in _CSV:
        source = _TextSource(path, TextFormat.of(path, separator, decimal))
    elif suffix in _PARQUET and not is_gzip(path):
        source = _ParquetSource(path)
    elif suffix == ".xlsx" and not is_gzip(path):
        source = _ExcelSource(path)
    elif suffix in _ASTRONOMY and not is_gzip(path):
        source = _AstropySource(path, _ASTRONOMY[suffix])
    else:
        known = ", ".join((*_CSV, *(f"{name}.gz" for name in _CSV[:1]), *_PARQUET[:1], ".xlsx", *_ASTRONOMY))
        raise TableError(f"{path}: the ending does not say what kind of table this is; known endings: {known}.")
    double = [name for name, n in Counter(source.columns).items() if n > 1]
    if double:
        raise TableError(f"{path}: several columns have the name {double[0]!r}.")
    return source


class _TextSource:
    units: Mapping[str, str] = {}

    def __init__(self, path: Path, text_format: TextFormat) -> None:
        self.path, self.text_format, self.columns = path, text_format, text_format.columns
        self.n_rows, self.n_spanning = text_format.n_rows, text_format.n_spanning

    def place(self, row: int) -> str:
        return f"line {self.text_format.line_of(self.path, row)}"

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        encoding = self.text_format.encoding.replace("-sig", "")
        if not self.n_rows:
            raise TableError(f"{self.path} has a header but no rows.")
        try:
            with open_bytes(self.path) as stream:  # pyarrow cannot open names that are not valid text
                reader = pyarrow.csv.open_csv(
                    stream,
                    pyarrow.csv.ReadOptions(block_size=_BLOCK, encoding=encoding),
                    pyarrow.csv.ParseOptions(delimiter=self.text_format.separator, newlines_in_values=True),
                    pyarrow.csv.ConvertOptions(
                        column_types=dict.fromkeys(self.text_format.header, pa.string()), strings_can_be_null=False
                    ),
                )
                if tuple(reader.schema.names) != self.text_format.header:
                    raise TableError(f"{self.path}: the names of its columns cannot be read.")
                names = _in_order(self, columns)
                tables = (self._named(batch).select(names) for batch in reader)
                yield from _numbered(self, tables, "its lines make up {:,}. Is a quote missing?")
        except (pa.ArrowInvalid, UnicodeError, EOFError, zlib.error, OSError) as error:
            raise self._complaint(error) from error

    def _named(self, batch: Any) -> Any:
        """The columns that have a name; a `TableError` where others are not empty."""
        n = len(self.columns)
        if any(pc.any(pc.not_equal(pc.utf8_trim_whitespace(cells), "")).as_py() for cells in batch.columns[n:]):
            raise TableError(f"{self.path}: a column without a name, after {self.columns[-1]!r}, holds values.")
        return pa.Table.from_arrays(batch.columns[:n], names=list(self.columns))

    def _complaint(self, error: Exception) -> Exception:
        ragged = self.text_format.ragged(self.path)
        if ragged is not None:
            (line, n_cells), n_columns = ragged, len(self.text_format.header)
            return TableError(f"{self.path}, line {line}: {n_cells} cells where the header has {n_columns} columns.")
        if isinstance(error, OSError) and not isinstance(error, pa.ArrowInvalid) and not is_gzip(self.path):
            return error
        return TableError(f"{self.path} cannot be read as a table: {_first_line(error)}")


class _ParquetSource:
    n_spanning = 0
    units: Mapping[str, str] = {}

    def __init__(self, path: Path) -> None:
        self.path, self.text_format = path, TextFormat(",", ".", "utf-8", ())
        self.columns, self.n_rows = self._read(lambda file: (tuple(file.schema_arrow.names), file.metadata.num_rows))

    def place(self, row: int) -> str:
        return f"row {row + 1}"

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        names = _in_order(self, columns)
        try:
            with self.path.open("rb") as stream, pyarrow.parquet.ParquetFile(stream) as file:
                n_rows = rows_at_once(self.path, file, names, _CHUNK)
                batches = map(_checked, file.iter_batches(n_rows, columns=None if columns is None else names))
                tables = (pa.table(batch).select(names) for batch in batches)
                yield from _numbered(self, tables, "the file states {:,}. Is it damaged?")
        except (pa.ArrowException, OSError, UnicodeError, KeyError) as error:  # KeyError: its lists of names differ
            raise TableError(f"{self.path} cannot be read as Parquet: {_first_line(error)}") from error

    def _read(self, look: Callable[[Any], Any]) -> Any:
        try:
            with self.path.open("rb") as stream, pyarrow.parquet.ParquetFile(stream) as file:
                return look(file)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise TableError(f"{self.path} cannot be read as Parquet: {_first_line(error)}") from error


class _ExcelSource:
    """The first sheet of a workbook. It has at most a million rows, so it is read at once."""

    n_spanning = 0
    units: Mapping[str, str] = {}

    def __init__(self, path: Path) -> None:
        self.path, self.text_format = path, TextFormat(",", ".", "utf-8", ())
        needs(f"{path}: reading Excel", "openpyxl", extra="excel")
        import openpyxl  # noqa: PLC0415

        try:
            with path.open("rb") as stream:
                check_workbook(path, stream)
                book = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
                self._read(book.worksheets[0])
                book.close()
        except TableError:
            raise
        except Exception as error:  # openpyxl raises many kinds for a broken archive
            raise TableError(f"{path} is not an Excel workbook (.xlsx): {_first_line(error)}") from error

    def _read(self, sheet: Any) -> None:
        """Read the rows that are not empty; the first one holds the names."""
        sheet.reset_dimensions()  # else every row is padded to the width of the widest one
        header: list[Any] | None = None
        self._lines: list[int] = []
        self._rows: list[list[Any]] = []
        n_characters = 0
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            cells = _without_empty_end(row)
            if not cells:
                continue
            lengths = [len(cell) for cell in cells if isinstance(cell, str)]
            if lengths and max(lengths) > LONGEST_CELL:
                raise TableError(
                    f"{self.path}, row {number}: a cell of {max(lengths):,} characters; the limit is {LONGEST_CELL:,}."
                )
            n_characters += sum(lengths)
            if n_characters > LARGEST_TEXT:
                raise TableError(f"{self.path} has more than {LARGEST_TEXT:,} characters, the limit; save it as CSV.")
            if header is None:
                header = cells
                continue
            if len(cells) > len(header):
                raise TableError(
                    f"{self.path}, row {number}: {len(cells)} cells where the header has {len(header)} columns."
                )
            self._lines.append(number)
            self._rows.append(cells)
            if len(self._rows) * len(header) > _MOST_CELLS:
                raise TableError(f"{self.path} has more than {_MOST_CELLS:,} cells, the limit; save it as CSV.")
        if header is None:
            raise TableError(f"{self.path} is empty.")
        self.columns = tuple("" if cell is None else str(cell) for cell in header)
        self.n_rows = len(self._rows)

    def place(self, row: int) -> str:
        return f"row {self._lines[row]}"

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        places, names, found = {name: j for j, name in enumerate(self.columns)}, _in_order(self, columns), []
        for j in map(places.__getitem__, names):
            cells = [row[j] if j < len(row) else None for row in self._rows]
            plain = all(cell is None or (isinstance(cell, int | float)) for cell in cells)
            found.append(
                pa.array([None if cell is None else _float(cell) for cell in cells], pa.float64())
                if plain
                else pa.array(["" if cell is None else str(cell) for cell in cells], pa.string())
            )
        cells = pa.Table.from_arrays(found, names=names)
        yield from _numbered(self, [cells], "its sheet has {:,}.")


class _AstropySource:
    """A table in FITS, ECSV or VOTable, as astropy reads it: all of it at once."""

    n_spanning = 0

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.text_format = path, TextFormat(",", ".", "utf-8", ())
        needs(f"{path}: reading {kind}", "astropy", extra="astro")
        from astropy.table import Table  # noqa: PLC0415  (optional)
        from astropy.units import UnrecognizedUnit  # noqa: PLC0415

        form = {"FITS": "fits", "ECSV": "ascii.ecsv", "VOTable": "votable"}[kind]
        if kind == "VOTable":
            _check_votable(path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of units and names that a standard does not know
                table = Table.read(path, format=form)
        except Exception as error:  # astropy raises many kinds for a broken file
            raise TableError(f"{path} is not a table in {kind}: {_first_line(error)}") from error
        self._cells = pa.table({name: _arrow(table[name]) for name in table.colnames})
        self.columns, self.n_rows = tuple(table.colnames), len(table)
        units = {name: getattr(table[name], "unit", None) for name in table.colnames}
        known = {name: unit for name, unit in units.items() if unit is not None}
        self.units: Mapping[str, str] = {
            name: str(unit) for name, unit in known.items() if not isinstance(unit, UnrecognizedUnit)
        }

    def place(self, row: int) -> str:
        return f"row {row + 1}"

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        yield from _numbered(self, [self._cells.select(_in_order(self, columns))], "it has {:,}.")


def _check_votable(path: Path) -> None:
    """Refuse a VOTable that would have its reader open other files or addresses: `<STREAM href=...>`."""
    content = path.read_bytes()
    if b"\0" in content or re.search(
        rb"<!(DOCTYPE|ENTITY|ATTLIST)|<(\w+:)?STREAM\b[^>]*\bhref\b", content, re.IGNORECASE
    ):
        raise TableError(
            f"{path}: a VOTable is read where it holds its data itself, in UTF-8 and without a document type; this one "
            "does not."
        )


def _arrow(column: Any) -> Any:
    """A column of astropy, with masked values as missing ones; what is neither numbers nor texts is put in words."""
    if getattr(getattr(column, "dtype", None), "kind", "O") not in "biufSU" or column.ndim > 1:
        return pa.array([str(cell) for cell in column], pa.string())
    values = np.ma.asanyarray(column)
    data, mask = np.asarray(values.data), np.ma.getmaskarray(values)
    if data.dtype.kind in "SU":
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in data]
        return pa.array(texts, pa.string(), mask=mask)
    return pa.array(data.astype(data.dtype.newbyteorder("=")), mask=mask)  # FITS has its bytes in the other order


def read_rows(source: Source, columns: Sequence[str] | None = None) -> TableRows:
    """All rows of a table, with these columns or all."""
    return TableRows(source, pa.concat_tables([rows.cells for rows in source.chunks(columns)]))


def _numbered(source: Source, tables: Any, counted: str) -> Iterator[TableRows]:
    """Blocks of a table with their places; a `TableError`, in the words of `counted`, where the row count differs."""
    first = 0
    for cells in tables:
        if cells.num_rows:
            yield TableRows(source, cells, first)
            first += cells.num_rows
    if first == 0:
        raise TableError(f"{source.path} has a header but no rows.")
    if first != source.n_rows:
        raise TableError(f"{source.path}: {first:,} rows were read, but {counted.format(source.n_rows)}")


def _in_order(source: Source, columns: Sequence[str] | None) -> list[str]:
    """These columns of a table in its own order, or all of them."""
    wanted = set(source.columns if columns is None else columns)
    return [name for name in source.columns if name in wanted]


def _is_number(kind: Any) -> bool:
    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)) or (
        pa.types.is_decimal(kind)
    )


def _is_parsed(cell: Any) -> bool:
    try:
        cell.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _checked(batch: Any) -> Any:
    """The same rows; an `ArrowInvalid` where a cell of a damaged file points outside its data."""
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) or pa.types.is_nested(column.type):
            column.validate(full=True)
    return batch


def plain(values: Any) -> Any:
    """A column without dictionaries and views, as it would be from a CSV."""
    if pa.types.is_dictionary(values.type):
        values = pc.cast(values, values.type.value_type)
    return pc.cast(values, pa.string()) if str(values.type) == "string_view" else values


def _without_empty_end(row: Sequence[Any]) -> list[Any]:
    cells = list(row)
    while cells and (cells[-1] is None or (isinstance(cells[-1], str) and not cells[-1].strip())):
        cells.pop()
    return cells


def _float(cell: float) -> float:
    try:
        return float(cell)
    except OverflowError:  # an integer larger than any float
        return np.inf if cell > 0 else -np.inf


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
