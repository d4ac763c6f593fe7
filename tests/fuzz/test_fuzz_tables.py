"""Tables made up and tables damaged: numbers or a `TableError` that names the file, and nothing else."""

import csv
import gzip
import io
import tempfile
import zipfile
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import strategies as st
from searching import edited, edits, refusal, search, search_long

from eiv.tables import TableError, open_table
from eiv.tables.reading import read_rows

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:openpyxl")  # of what it mends in a workbook
FOLDER = tempfile.TemporaryDirectory()


def check(content, ending):
    """Read all of a table as `eiv fit` does."""
    path = Path(FOLDER.name) / f"t{ending}"
    path.write_bytes(content)
    told = refusal(TableError, lambda: read_rows(open_table(path)))
    if told is not None:
        assert path.name in told
        return
    rows = read_rows(open_table(path))
    assert len(set(rows.source.columns)) == len(rows.source.columns)
    for column in rows.source.columns:
        told = refusal(TableError, lambda column=column: rows.numbers(column))
        assert (path.name in told and repr(column) in told) if told else rows.numbers(column).shape == (len(rows),)


numbers = st.sampled_from(
    ["0", "1.5", "-2e3", "1,5", "1.234,5", "inf", "-Infinity", "1e999", "0x10", "1_000", "٣", ".5"]
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
