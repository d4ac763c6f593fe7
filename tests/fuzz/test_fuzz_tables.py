"""Tables made up and tables damaged: the numbers and rows that another reader finds, or a `TableError` on the file."""

import csv
import gzip
import io
import tempfile
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import strategies as st
from searching import edited, edits, refusal, search, search_long

from eiv.io.tables import TableError, open_table
from eiv.io.tables.reading import read_rows

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:openpyxl")  # of what it mends in a workbook
FOLDER = tempfile.TemporaryDirectory()


def check(content, ending):
    """Read all of a table as `eiv fit` does, and again with another reader."""
    path = Path(FOLDER.name) / f"t{ending}"
    path.write_bytes(content)
    refused = refusal(TableError, lambda: read_rows(open_table(path)))
    if refused is not None:
        assert path.name in refused
        return
    rows = read_rows(open_table(path))
    assert len(set(rows.source.columns)) == len(rows.source.columns)
    assert rows.source.n_rows == len(rows)
    others = other_reading(path, rows.source)
    for j, column in enumerate(rows.source.columns):
        refused = refusal(TableError, lambda column=column: rows.numbers(column))
        assert refused is None or (path.name in refused and repr(column) in refused)
        if refused is None:
            read = rows.numbers(column)
            assert read.shape == (len(rows),)
            if others is not None:
                expected = [number(other[j] if j < len(other) else None, rows.source) for other in others]
                np.testing.assert_array_equal(read, expected)


def other_reading(path, source):
    """The cells of each row read another way: csv for text, Parquet and Excel at once; None where that fails."""
    if path.suffix == ".parquet":
        return list(zip(*map(values_of, pyarrow.parquet.read_table(path).columns), strict=True))
    if path.suffix == ".xlsx":
        try:
            sheet = openpyxl.load_workbook(path, data_only=True).worksheets[0]
        except Exception:  # it reads parts of the book that the library does not need
            return None
        rows = [row for row in sheet.iter_rows(values_only=True) if any(str(cell or "").strip() for cell in row)]
        return rows[1:]
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = io.StringIO(content.decode(source.text_format.encoding), newline="")
    limit = csv.field_size_limit(2**30)
    try:
        rows = [row for row in csv.reader(text, delimiter=source.text_format.separator) if row]
    finally:
        csv.field_size_limit(limit)
    assert len(rows) == source.n_rows + 1
    assert all(len(row) == len(rows[0]) for row in rows)
    return rows[1:]


def values_of(column):
    """The cells of a Parquet column; None for all of them where Python has no such dates."""
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        assert not pa.types.is_floating(column.type) | pa.types.is_integer(column.type)
        return [None] * len(column)


def number(cell, source):
    """What a cell means that is accepted in a column of numbers."""
    if not isinstance(cell, str):
        return np.nan if cell is None else float(Decimal(cell))
    assert "\n" not in cell
    assert "\r" not in cell
    if cell.strip().lower() in ("", "na", "n/a", "#n/a", "nan", "null", "none"):
        return np.nan
    if source.text_format.decimal == ",":
        assert "." not in cell
        cell = cell.replace(",", ".")
    return float(cell)


numbers = st.sampled_from(
    ["0", "1.5", "-2e3", "1,5", "1.234,5", "1,234", "12,345", "inf", "-Infinity", "1e999", "0x10", "1_000", "٣", ".5"]
)
nothing = st.sampled_from(["", " ", "NaN", "n/a", "null", "#N/A", "None"])
odd = st.sampled_from(
    ['"', '""', "a\nb", "a\r\nb", "\r", "\0", "\x1a", "\ufeff", "\u2028", "😀", "x" * 140_000, "=1+1", "'"]
)
cells = st.one_of(numbers, nothing, odd, st.text(max_size=6))
TEXT_ENDINGS = [".csv", ".tsv", ".txt", ".dat", ".csv.gz"]


@st.composite
def texts(draw):
    """A table as text: any separator, quoting, line ends and encoding; sometimes ragged, double or damaged."""
    n_columns = draw(st.integers(1, 4))
    names = st.sampled_from(["a", "b", "a", "größe", "", "1", '"'])
    header = draw(st.lists(st.one_of(names, st.text(max_size=4)), min_size=n_columns, max_size=n_columns))
    width = st.just(n_columns) | st.integers(0, 6)
    rows = draw(st.lists(width.flatmap(lambda n: st.lists(cells, min_size=n, max_size=n)), max_size=5))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, None]))
    separator, end = draw(st.sampled_from(",;\t|: ")), draw(st.sampled_from(["\n", "\r\n", "\r"]))
    if quoting is None:
        text = end.join(separator.join(row) for row in (header, *rows))
    else:
        written = io.StringIO()
        csv.writer(written, delimiter=separator, quoting=quoting, lineterminator=end).writerows([header, *rows])
        text = written.getvalue()
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252"]))
    return text.encode(encoding, errors="replace")


@st.composite
def text_files(draw):
    """The bytes of such a table, compressed by its ending, and damaged before or after that."""
    content, ending = draw(texts()), draw(st.sampled_from(TEXT_ENDINGS))
    if draw(st.booleans()):
        content = edited(content, draw(edits))
    if ending.endswith(".gz"):
        content = gzip.compress(content)
        if draw(st.booleans()):
            content = edited(content, draw(edits))
    return content, ending


def parquet_files():
    """Small files of all kinds of columns."""
    columns = {
        "f": pa.array([1.5, None, float("nan")]),
        "i": pa.array([1, 2, 2**62]),
        "t": pa.array(["1", "x", None]),
        "b": pa.array([True, None, False]),
        "d": pa.array(["a", "b", "a"]).dictionary_encode(),
        "l": pa.array([[1], [], None]),
        "m": pa.array([1, 2, 3], pa.decimal128(5, 2)),
        "z": pa.array([1, 2, 3], pa.timestamp("us")),
        "y": pa.array([b"1", b"\xff", b""]),
        "n": pa.nulls(3),
    }
    for compression, chosen in (("none", "ft"), ("snappy", "".join(columns)), ("gzip", "idm"), ("zstd", "fi")):
        sink = io.BytesIO()
        pyarrow.parquet.write_table(pa.table({name: columns[name] for name in chosen}), sink, compression=compression)
        yield sink.getvalue()


def workbooks():
    """Small workbooks as `{part: bytes}`."""
    for rows in (
        [["a", "b"], [1.5, "x"], [None, True]],
        [["größe", None, "c"], ["1", 2, 3], [], ["=1+1", 1e300, "n/a"]],
    ):
        book, sink = openpyxl.Workbook(), io.BytesIO()
        for row in rows:
            book.active.append(row)
        book.save(sink)
        with zipfile.ZipFile(sink) as archive:
            yield {name: archive.read(name) for name in archive.namelist()}


PARQUET, WORKBOOKS = list(parquet_files()), list(workbooks())


@st.composite
def damaged_workbooks(draw):
    """A workbook with one of its parts damaged or gone, or the archive itself."""
    parts = dict(draw(st.sampled_from(WORKBOOKS)))
    name = draw(st.sampled_from(sorted(parts)) | st.just("xl/worksheets/sheet1.xml"))
    if draw(st.booleans()):
        parts[name] = edited(parts[name], draw(edits))
    elif draw(st.booleans()):
        del parts[name]
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    return edited(sink.getvalue(), draw(edits)) if draw(st.booleans()) else sink.getvalue()


PARQUET_HEADS = st.sampled_from([b"PAR1", b""])
FUZZERS = {
    "text": ({"file": text_files()}, lambda file: check(*file)),
    "bytes": ({"content": st.binary(max_size=120), "ending": st.sampled_from(TEXT_ENDINGS)}, check),
    "parquet": (
        {"content": st.sampled_from(PARQUET), "changes": edits},
        lambda content, changes: check(edited(content, changes), ".parquet"),
    ),
    "parquet bytes": (
        {"head": PARQUET_HEADS, "content": st.binary(max_size=120), "tail": PARQUET_HEADS},
        lambda head, content, tail: check(head + content + tail, ".parquet"),
    ),
    "workbook": ({"content": damaged_workbooks()}, lambda content: check(content, ".xlsx")),
    "workbook bytes": (
        {"content": st.binary(max_size=120)},
        lambda content: check(b"PK\x03\x04" + content, ".xlsx"),
    ),
}


@pytest.mark.parametrize("kind", FUZZERS)
def test_a_table_or_a_table_error(kind):
    search(*FUZZERS[kind], max_examples=100)


@pytest.mark.slow
def test_a_table_or_a_table_error_for_long():
    n_examples = search_long(FUZZERS)
    print(f"{n_examples:,} examples")
    assert n_examples > 0
