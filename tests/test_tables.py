"""Tables: what is found in a file, what is said of a bad one, and what is written."""

import gzip
import io
import os
import struct
import sys
import time
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eiv.io.tables import (
    ErrorSpec,
    ErrorTerm,
    TableError,
    TableWriter,
    open_table,
    reading,
    rowgroups,
    scanning,
    workbooks,
)
from eiv.io.tables.reading import check_columns, read_rows
from processes import ended
from test_cli import run  # noqa: F401  (a fixture)

TEXTS = {
    "comma": "a,b\n1.5,x\n-2e3,y\n",
    "semicolon": "a;b\n1.5;x\n-2e3;y\n",
    "decimal comma": "a;b\n1,5;x\n-2e3;y\n",
    "tab": "a\tb\n1.5\tx\n-2e3\ty\n",
    "bar": "a|b\n1.5|x, y\n-2e3|y, z\n",
    "quotes": 'a,b\n"1.5","x, ""y"""\n"-2e3","two\nlines"\n',
    "no last newline": "a,b\n1.5,x\n-2e3,y",
    "windows": "a,b\r\n1.5,x\r\n-2e3,y\r\n",
    "mark": "\ufeffa,b\n1.5,x\n-2e3,y\n",
    "spaces": "a,b\n 1.5 ,x\n-2e3,y\n",
    "decimal comma in quotes": 'a,b\n"1,5",x\n-2e3,y\n',
    "blanks in the names": " a ,\tb\n1.5,x\n-2e3,y\n",
    "empty columns at the end": "a,b,,\n1.5,x,,\n-2e3,y,,\n",
    "blank lines": "a,b\n\n1.5,x\n\n-2e3,y\n\n",
}


def written(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("text", TEXTS)
def test_csv_of_many_kinds(text, tmp_path):
    source = open_table(written(tmp_path, TEXTS[text]))
    assert source.columns == ("a", "b")
    assert read_rows(source).numbers("a").tolist() == [1.5, -2000.0]


def test_one_column_and_other_encodings(tmp_path):
    assert read_rows(open_table(written(tmp_path, "a\n1\n2\n"))).numbers("a").tolist() == [1, 2]
    latin = open_table(written(tmp_path, "größe in µm;b\n1,5;2\n".encode("latin-1")))
    assert latin.columns == ("größe in µm", "b")
    assert read_rows(latin).numbers("größe in µm").tolist() == [1.5]
    wide = open_table(written(tmp_path, "größe;b\n1,5;2\n".encode("utf-16")))
    assert read_rows(wide).numbers("größe").tolist() == [1.5]
    packed = open_table(written(tmp_path, gzip.compress(b"a,b\n1,2\n"), "t.csv.gz"))
    assert read_rows(packed).numbers("b").tolist() == [2]


@pytest.mark.parametrize("sign", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_names_with_signs_that_part_lines_elsewhere(sign, tmp_path):
    source = open_table(written(tmp_path, f"a,b{sign}c\n1,2\n"))
    assert read_rows(source).numbers(f"b{sign}c").tolist() == [2]


def test_thousands_are_not_guessed_at(tmp_path):
    path = written(tmp_path, 'a,b\n"1,234",2\n"1,500",3\n')
    with pytest.raises(TableError, match=r"'1,234', not a number\. Is ',' its decimal sign\?"):
        read_rows(open_table(path)).numbers("a")
    assert read_rows(open_table(path, decimal=",")).numbers("a").tolist() == [1.234, 1.5]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a,b\n1,2\n3,"4\n' + 400 * "5,6\n", 3),
        ('a,b\n1,2\n3,4\n5,"6', 4),
        ('a,"b\n1,2\n', 1),
        ('\ufeff"a,b\n1,2\n', 1),
        ('a;b\n"x\ny";1\n2;"3""\n', 4),
        ('a,b\r\n1,"x\r\ny"\r\n"\r\n', 4),
        ("a,b\n" + 700_000 * "1,2\n" + '3,"4\n' + 700_000 * "5,6\n", 700_002),
    ],
)
def test_a_quote_that_is_never_closed(text, line, tmp_path):
    for content in (text.encode(), text.removeprefix("\ufeff").encode("utf-16")):
        with pytest.raises(TableError, match=rf"t\.csv, line {line}: a quote opens and is n"):
            open_table(written(tmp_path, content))
    with pytest.raises(TableError, match=rf"t\.csv\.gz, line {line}: a quote opens"):
        open_table(written(tmp_path, gzip.compress(text.encode(), 1), "t.csv.gz"))


def test_quotes_that_open_nothing(tmp_path):
    rows = read_rows(open_table(written(tmp_path, 'a,b\n1,5" pipe\n2,"x"y"\n3,""\n')))
    assert rows.cells["b"].to_pylist() == ['5" pipe', 'xy"', ""]


@pytest.mark.parametrize("cell", ["2\n3,4\n5", "2\n", "\r", "2\r\n3"])
def test_a_cell_of_several_lines_in_a_column_of_numbers(cell, tmp_path):
    rows = read_rows(open_table(written(tmp_path, f'a,b\n1,"x\n"\n"{cell}",y\n6,z\n')))
    assert len(rows) == 3
    with pytest.raises(TableError, match=r"t\.csv, line 4: column 'a' holds '.*', a cell over several lines"):
        rows.numbers("a")


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
def test_commas_that_may_be_thousands(separator, tmp_path):
    """Whatever the other columns show: `1,234` is read where its own column says how."""

    def table(*rows):
        quoted = [[f'"{cell}"' if separator == "," else cell for cell in row] for row in (("a", "b"), *rows)]
        return written(tmp_path, "".join(separator.join(row) + "\n" for row in quoted))

    unclear = table(("999", "x"), ("1,234", "y"), ("12,345", "z"))
    with pytest.raises(TableError, match=r"line 3: column 'a' holds '1,234', not a number\. .*use --decimal ,"):
        read_rows(open_table(unclear)).numbers("a")
    assert read_rows(open_table(unclear, decimal=",")).numbers("a").tolist() == [999, 1.234, 12.345]
    beside = table(("999", "0,5"), ("1,234", "2"), ("12,345", "2"))
    with pytest.raises(TableError, match=r"line 3: column 'a' holds '1,234', which may be thousands\..*--decimal ,"):
        read_rows(open_table(beside)).numbers("a")
    assert read_rows(open_table(beside)).numbers("b").tolist() == [0.5, 2, 2]
    late = table(*60 * [("999", "0,5")], ("1,234", "2"))
    with pytest.raises(TableError, match=r"line 62: column 'a' holds '1,234', which may be thousands"):
        read_rows(open_table(late)).numbers("a")
    clear = table(("0,125", "x"), ("1,234", "y"))
    assert read_rows(open_table(clear)).numbers("a").tolist() == [0.125, 1.234]
    millions = table(("0,125", "x"), ("1,234,567", "y"))
    with pytest.raises(TableError, match="not a number"):
        read_rows(open_table(millions)).numbers("a")


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u2009", "\u202f", "\x0b"])
@pytest.mark.parametrize(("cell", "other"), [("1,234", "0,5"), ("1.234", "0,5")])
def test_blanks_of_any_kind_hide_no_thousands(blank, cell, other, tmp_path):
    for padded in (cell + blank, blank + cell):
        table = written(tmp_path, f"a;b\n999;{other}\n{padded};{other}\n")
        with pytest.raises(
            TableError, match=r"line 3: column 'a' holds '1.234', (which may be thousands|not a number)"
        ):
            read_rows(open_table(table)).numbers("a")


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
@pytest.mark.parametrize("comma", ["0,5", "1.234,56"])
def test_points_that_may_be_thousands(separator, comma, tmp_path):
    """Where another column has decimal commas, `1.234` is read where its own column says how."""

    def table(*rows):
        quoted = [[f'"{cell}"' if separator == "," else cell for cell in row] for row in (("a", "b"), *rows)]
        return written(tmp_path, "".join(separator.join(row) + "\n" for row in quoted))

    unclear = table(("999", comma), (" 1.234", "2"), ("12.345", "2"))
    with pytest.raises(TableError, match=r"line 3: column 'a' holds '1\.234', which may be thousands\..*--decimal \."):
        read_rows(open_table(unclear)).numbers("a")
    assert read_rows(open_table(unclear, decimal=".")).numbers("a").tolist() == [999, 1.234, 12.345]
    clear = table(("0.125", comma), ("1.234", "2"))
    assert read_rows(open_table(clear)).numbers("a").tolist() == [0.125, 1.234]
    without = table(("999", "5"), ("1.234", "2,500"))
    assert read_rows(open_table(without)).numbers("a").tolist() == [999, 1.234]


def test_a_column_without_a_name(tmp_path):
    source = open_table(written(tmp_path, "a,\n1,2\n"))
    assert source.columns == ("a", "")
    late = open_table(written(tmp_path, "a,\n" + 60 * "1,\n" + "1,2\n"))
    assert late.columns == ("a",)
    with pytest.raises(TableError, match="a column without a name, after 'a', holds values"):
        read_rows(late)


def test_told_formats(tmp_path):
    path = written(tmp_path, "a b\n1,5 2\n")
    source = open_table(path, separator=" ", decimal=",")
    assert read_rows(source).numbers("a").tolist() == [1.5]
    with pytest.raises(TableError, match="one character"):
        open_table(path, separator="::")
    with pytest.raises(TableError, match="decimal sign must be"):
        open_table(path, decimal="x")
    with pytest.raises(TableError, match="both the separator and the decimal"):
        open_table(path, separator=",", decimal=",")


def test_missing_and_infinite_values(tmp_path):
    cells = ["1", "", "NaN", "n/a", "inf", "-Infinity", "NULL"]
    source = open_table(written(tmp_path, "a,b\n" + "".join(f"{cell},x\n" for cell in cells)))
    values = read_rows(source).numbers("a")
    assert np.isnan(values).tolist() == [False, True, True, True, False, False, True]
    assert np.isinf(values).sum() == 2


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("", "t.csv", r"t\.csv is empty"),
        ("\n\n", "t.csv", r"t\.csv is empty"),
        ("a,b\n", "t.csv", r"t\.csv has a header but no rows"),
        ("a,b\n1,2\n3,4,5\n", "t.csv", r"t\.csv, line 3: 3 cells where the header has 2 columns"),
        ('a,b\n"1\n",2\n\n3\n', "t.csv", r"t\.csv, line 5: 1 cells"),
        ("a,a\n1,2\n", "t.csv", r"t\.csv: several columns have the name 'a'"),
        (b"a,b\n\x00\x01\n", "t.csv", "zero bytes"),
        (b"\x1f\x8b\x08garbage", "t.csv.gz", "not a complete gzip file"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 99999)[:-30], "t.csv.gz", r"t\.csv\.gz"),
        ("a,b\n1,2\n", "t.parquet", r"t\.parquet cannot be read as Parquet"),
        ("a,b\n1,2\n", "t.xlsx", r"t\.xlsx is not an Excel workbook"),
        ("a,b\n1,2\n", "t.xls", r"known endings: \.csv"),
    ],
)
def test_bad_files(content, name, message, tmp_path):
    path = written(tmp_path, content, name)
    with pytest.raises(TableError, match=message):
        read_rows(open_table(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\nfive,3\n", r"t\.csv, line 3: column 'a' holds 'five', not a number\."),
        ('a,b\n1,"x\ny"\n\nfive,3\n', r"line 5: column 'a' holds 'five'"),
        ("a;b\n1.5;2\n2,5;3\n", r"line 3: column 'a' holds '2,5', not a number\. Is ',' its decimal sign\?"),
        ("a;b\n1,5;2\n1.234,5;3\n", r"line 3: column 'a' holds '1\.234,5'"),
        ("a;b\n1,5;2\n" * 1 + "1,0;3\n" * 60 + "1.500;3\n", r"line 63: column 'a' holds '1\.500'"),
    ],
)
def test_text_in_a_number_column(text, message, tmp_path):
    with pytest.raises(TableError, match=message):
        read_rows(open_table(written(tmp_path, text))).numbers("a")


def test_missing_files_and_columns(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*no\.csv"):
        open_table(tmp_path / "no.csv")
    with pytest.raises(TableError, match="is not a file"):
        open_table(tmp_path)
    with pytest.raises(TableError, match=r"t\.csv has no column 'c' \(--target\); it has: a, b\."):
        check_columns(open_table(written(tmp_path, TEXTS["comma"])), ["a", "c"], "--target")


def test_parquet_and_excel(tmp_path):
    frame = pd.DataFrame({"a": [1.5, np.nan], "n": [1, 2], "t": ["x", "3"], "d": pd.to_datetime(["2020-01-01"] * 2)})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    for name, place in (("t.parquet", "row 1"), ("t.xlsx", "row 2")):
        rows = read_rows(open_table(tmp_path / name))
        np.testing.assert_array_equal(rows.numbers("a"), [1.5, np.nan])
        assert rows.numbers("n").tolist() == [1, 2]
        with pytest.raises(TableError, match=f"{place}: column 't' holds 'x'"):
            rows.numbers("t")
        with pytest.raises(TableError, match="column 'd'"):
            rows.numbers("d")
    book = openpyxl.Workbook()
    book.save(tmp_path / "empty.xlsx")
    with pytest.raises(TableError, match="is empty"):
        open_table(tmp_path / "empty.xlsx")


def test_a_header_that_is_longer_than_the_sample(tmp_path):
    names = [f"column number {i}" for i in range(9000)]
    for end in ("\n", "\r\n"):
        text = end.join([",".join(names), ",".join(map(str, range(9000))), ""])
        source = open_table(written(tmp_path, text))
        assert source.columns == tuple(names)
        assert read_rows(source).numbers(names[-1]).tolist() == [8999]
    quoted = ",".join(f'"{name}\nin mm"' for name in names) + "\n" + ",".join(["1"] * 9000) + "\n"
    assert open_table(written(tmp_path, quoted)).columns[-1] == "column number 8999\nin mm"


def test_the_limit_of_names(tmp_path):
    name = "x" * 131_072
    assert open_table(written(tmp_path, f"a,{name}\n1,2\n")).columns == ("a", name)
    with pytest.raises(
        TableError, match=r"t\.csv: the names of its columns cannot be read; each may have at most 131,072 char"
    ):
        open_table(written(tmp_path, f"a,{name}x\n1,2\n"))


def test_the_first_latin_1_byte_may_come_late(tmp_path):
    text = "a;b\n" + 500_000 * "1,5;x\n" + "2,5;µ\n"
    source = open_table(written(tmp_path, text.encode("latin-1")))
    rows = read_rows(source)
    assert (len(rows), rows.cells["b"][-1].as_py(), rows.numbers("a")[-1]) == (500_001, "µ", 2.5)
    with pytest.raises(TableError, match=r"t\.csv begins with the mark of UTF-8, but is not UTF-8"):
        open_table(written(tmp_path, b"\xef\xbb\xbf" + text.encode("latin-1")))


def test_limits_of_rows_and_columns(tmp_path):
    long = "a,b\n1,2\n" + 2**21 * "3" + ",4\n5,6\n"
    with pytest.raises(TableError, match=r"t\.csv, line 3: a row of more than 2 MiB, the limit"):
        open_table(written(tmp_path, long))
    assert len(read_rows(open_table(written(tmp_path, long.replace(100 * "3", "", 1))))) == 3
    bomb = tmp_path / "t.csv.gz"
    with gzip.open(bomb, "wb", 1) as file:
        for _ in range(200):
            file.write(bytes([97]) * 2**20)
    tracemalloc.start()
    with pytest.raises(TableError, match=r"t\.csv\.gz, line 1: a row of more than 2 MiB"):
        open_table(bomb)
    assert tracemalloc.get_traced_memory()[1] < 2**25
    tracemalloc.stop()
    with pytest.raises(TableError, match=r"t\.csv has 100,001 columns; the limit is 100,000"):
        open_table(written(tmp_path, 100_000 * "," + "\n" + 100_000 * "," + "\n"))


def test_an_excel_sheet_with_a_cell_in_its_last_corner(tmp_path):
    book = openpyxl.Workbook()
    for cell, value in {"A1": "a", "B1": "b", "A2": 1, "B2": 2, "XFD1048576": 3}.items():
        book.active[cell] = value
    book.save(tmp_path / "t.xlsx")
    started = time.perf_counter()
    with pytest.raises(TableError, match=r"t\.xlsx, row 1048576: 16384 cells where the header has 2 columns"):
        open_table(tmp_path / "t.xlsx")
    assert time.perf_counter() - started < 20


def test_limit_of_cells_in_excel(tmp_path, monkeypatch):
    pd.DataFrame({"a": range(9), "b": range(9)}).to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setattr(reading, "_MOST_CELLS", 17)
    with pytest.raises(TableError, match=r"t\.xlsx has more than 17 cells, the limit; save it as CSV"):
        open_table(tmp_path / "t.xlsx")


MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
STRINGS, SHEET = "xl/sharedStrings.xml", "xl/worksheets/sheet1.xml"
STRINGS_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"


def workbook(path, texts=(), rows=(), **others):
    """A workbook with these pieces of XML as its shared texts and as its rows, below a header `a`, `b`."""
    book, empty = openpyxl.Workbook(), io.BytesIO()
    book.save(empty)
    with zipfile.ZipFile(empty) as archive, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name in archive.namelist():
            if name != SHEET:
                kind = f'<Override PartName="/{STRINGS}" ContentType="{STRINGS_TYPE}"/></Types>'
                target.writestr(name, archive.read(name).replace(b"</Types>", kind.encode()))
        header = '<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row>'
        head = others.get("doctype", "")
        for name, pieces in (
            (STRINGS, (f"{head}<sst {MAIN}>", "<si><t>a</t></si><si><t>b</t></si>", *texts, "</sst>")),
            (SHEET, (f"<worksheet {MAIN}><sheetData>", header, *rows, "</sheetData></worksheet>")),
        ):
            with target.open(name, "w") as part:
                for piece in pieces:
                    part.write(piece.encode())
    return path


LONG, CELLS = ["x" * 2**20] * 40, [f'<c r="{55 * "A"}"/>' * 2**14] * 40
CELL, INLINE = '<row><c><v>1.5</v></c><c t="s"><v>2</v></c></row>', '<row><c><v>1.5</v></c><c t="inlineStr"><is><t>'


@pytest.mark.parametrize(
    ("texts", "rows", "message"),
    [
        (("<si><t>", *LONG, "</t></si>"), (CELL,), r"a text of 'xl/sharedStrings.xml' in it has more than 16 MiB"),
        ((), (INLINE, *LONG, "</t></is></c></row>"), "a row of 'xl/worksheets/sheet1.xml' in it has more than 16 MiB"),
        ((), ("<row>", *CELLS, "</row>"), "a row of 'xl/worksheets/sheet1.xml' in it has more than 16 MiB"),
        (("<si><t><![CDATA[", *["<si>" * 2**18] * 40, "]]></t></si>"), (CELL,), "a text of .* more than 16 MiB"),
    ],
)
def test_a_small_workbook_that_unpacks_to_a_large_one(texts, rows, message, tmp_path):
    path = workbook(tmp_path / "t.xlsx", texts, rows)
    assert path.stat().st_size < 2**18
    lies = stated(path, 1000, SHEET if "row" in message else STRINGS)
    for content in (path.read_bytes(), lies):
        path.write_bytes(content)
        tracemalloc.start()
        with pytest.raises(TableError, match=rf"t\.xlsx: {message}"):
            open_table(path)
        assert tracemalloc.get_traced_memory()[1] < 2**25
        tracemalloc.stop()


def stated(path, size, name=STRINGS):
    """The bytes of a zip whose list says that a part has only `size` bytes, with the checksum of these."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive, archive.open(name) as part:
        check = zlib.crc32(part.read(size))
    entry = content.rfind(name.encode()) - 46  # in the list at the end
    content[entry + 16 : entry + 20], content[entry + 24 : entry + 28] = (
        struct.pack("<I", check),
        struct.pack("<I", size),
    )
    return bytes(content)


def test_workbooks_that_are_not_what_they_say(tmp_path):
    path = workbook(tmp_path / "t.xlsx", ["<si><t>c</t></si>"], [CELL])
    assert read_rows(open_table(path)).numbers("a").tolist() == [1.5]
    path.write_bytes(stated(path, 60))
    with pytest.raises(
        TableError, match=r"t\.xlsx.*(CRC|'xl/sharedStrings\.xml' in it unpacks to \d+ bytes, but its list)"
    ):
        open_table(path)
    entities = '<!DOCTYPE sst [<!ENTITY e "xxxxxxxxxx">]>'
    workbook(path, ["<si><t>&e;</t></si>"], [CELL], doctype=entities)
    with pytest.raises(TableError, match=r"t\.xlsx: 'xl/sharedStrings\.xml' in it defines entities"):
        open_table(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(STRINGS, "x")
    with pytest.raises(TableError, match="is packed in a way that Excel does not use"):
        open_table(path)


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("_LARGEST_BOOK", 2**14, r"t\.xlsx unpacks to more than 0\.015625 MiB, the limit; save it as CSV"),
        ("_LARGEST_PART", 2**12, r"t\.xlsx: '.*' in it unpacks to more than 0\.00390625 MiB, the limit"),
        ("_MOST_PIECES", 3, r"t\.xlsx has more than 3 rows and different texts, the limit; save it as CSV"),
    ],
)
def test_limits_of_workbooks(limit, value, message, tmp_path, monkeypatch):
    path = workbook(tmp_path / "t.xlsx", ["<si><t>c</t></si>"], [CELL] * 2)
    assert len(read_rows(open_table(path))) == 2
    monkeypatch.setattr(workbooks, limit, value)
    with pytest.raises(TableError, match=message):
        open_table(path)


def test_limits_of_cells_in_excel(tmp_path, monkeypatch):
    path = workbook(tmp_path / "t.xlsx", [f"<si><t>{'x' * 32_767}</t></si>"], [CELL] * 3)
    assert len(read_rows(open_table(path)).cells["b"][0].as_py()) == 32_767
    monkeypatch.setattr(reading, "LARGEST_TEXT", 70_000)
    with pytest.raises(TableError, match=r"t\.xlsx has more than 70,000 characters, the limit; save it as CSV"):
        open_table(path)
    workbook(path, [f"<si><t>{'x' * 32_768}</t></si>"], [CELL])
    with pytest.raises(TableError, match=r"t\.xlsx, row 2: a cell of 32,768 characters; the limit is 32,767"):
        open_table(path)


def parquet(path, texts, **options):
    """A table with a column of texts between two of numbers."""
    numbers = np.arange(float(len(texts)))
    pyarrow.parquet.write_table(pa.table({"a": numbers, "t": texts, "y": numbers}), path, **options)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"row_group_size": 200},
        {"row_group_size": 200, "use_dictionary": False},
        {"row_group_size": 200, "use_dictionary": False, "column_encoding": {"t": "DELTA_BYTE_ARRAY"}},
    ],
)
@pytest.mark.parametrize("same", [False, True])
def test_parquet_is_read_in_pieces_of_bounded_size(options, same, tmp_path, monkeypatch):
    monkeypatch.setattr(rowgroups, "_PIECE", 10**6)
    text = "x" * 10_000
    path = parquet(tmp_path / "t.parquet", [text if same else f"{i:04}{text}" for i in range(1000)], **options)
    pieces = list(open_table(path).chunks())
    assert max(rows.cells.nbytes for rows in pieces) < 2 * 10**6
    assert sum(map(len, pieces)) == 1000
    assert [len(rows) for rows in open_table(path).chunks(["y", "a"])] == [1000]
    assert read_rows(open_table(path), ["y", "a"]).cells.column_names == ["a", "y"]


def test_a_row_group_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(rowgroups, "_LARGEST_COLUMN", 2**20)
    path = parquet(tmp_path / "t.parquet", [f"{i}" + "x" * 10_000 for i in range(200)])
    with pytest.raises(
        TableError, match=r"t\.parquet: column 't' has 2 MiB in row group 1; the limit is 1 MiB\. Write it with smaller"
    ):
        read_rows(open_table(path))
    assert len(read_rows(open_table(path), ["a"])) == 200


DAMAGED = """
import io, pathlib, struct, sys
import pyarrow as pa, pyarrow.parquet
from eiv.io.tables import TableError, open_table, rowgroups
from eiv.io.tables.reading import read_rows
rowgroups._PIECE = 1
sink = io.BytesIO()
pyarrow.parquet.write_table(pa.table({"f": [1.5, None, 2.0], "t": ["1", "x", None]}), sink, compression="none")
good, path = sink.getvalue(), pathlib.Path(sys.argv[1])
for place in range(len(good) - 8 - struct.unpack("<I", good[-8:-4])[0], len(good) - 8):
    path.write_bytes(good[:place] + bytes([good[place] ^ 2]) + good[place + 1:])
    try:
        read_rows(open_table(path))
    except TableError:
        pass
"""


def test_damaged_metadata_do_not_end_the_process(tmp_path):
    """As they would where pyarrow is asked for the sizes of columns that it cannot read."""
    status, _, err = ended(sys.executable, "-c", DAMAGED, tmp_path / "t.parquet")
    assert status == 0, err


def test_a_dictionary_without_its_texts(tmp_path, monkeypatch):
    """As a damaged file has it: what its cells point to must not be looked up."""
    parquet(tmp_path / "t.parquet", pa.array(["x", "y"]).dictionary_encode())
    source = open_table(tmp_path / "t.parquet")
    empty = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([], pa.string()), safe=False)
    batch = pa.record_batch({"a": [0.0, 1.0], "t": empty, "y": [0.0, 1.0]})
    monkeypatch.setattr(reading.pyarrow.parquet.ParquetFile, "iter_batches", lambda *args, **kwargs: iter([batch]))
    with pytest.raises(TableError, match=r"t\.parquet cannot be read as Parquet: .*out of bounds"):
        read_rows(source)


def test_columns_with_points_and_parts(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "a.b": [3.0, 4.0], "s": [{"u": 1, "v": "x"}, {"u": 2, "v": "y"}]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    source = open_table(tmp_path / "t.parquet")
    assert read_rows(source, ["a"]).cells.column_names == ["a"]
    assert read_rows(source, ["a.b"]).numbers("a.b").tolist() == [3, 4]
    assert read_rows(source).cells["s"].to_pylist() == table["s"].to_pylist()


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_only_the_columns_that_are_needed(name, tmp_path, monkeypatch, run):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"t": "text", "a": np.linspace(0, 1, 20), "y": np.linspace(1, 3, 20), "u": "x"})
    write = {"t.parquet": frame.to_parquet, "t.xlsx": frame.to_excel}.get(name, frame.to_csv)
    write(name, index=False)
    seen = []
    numbered = reading._numbered

    def noted(source, tables, counted):
        for rows in numbered(source, tables, counted):
            seen.append(rows.cells.column_names)
            yield rows

    monkeypatch.setattr(reading, "_numbered", noted)
    quick = ("--recipe", "paper", "--set", "epochs=2", "--set", "hidden_units=8", "--set", "n_theta=10")
    for command in (
        ("fit", name, "--target", "y", "--drop", "t", "--drop", "u", *quick, "-o", "m.eiv"),
        ("explain", "m.eiv", name, "--row", "4"),
        ("report", "m.eiv", name),
        ("predict", "m.eiv", name, "-o", "p.csv"),
    ):
        assert run(*command)[0] == 0
    assert seen == [["a", "y"], ["a"], ["a", "y"], ["t", "a", "y", "u"]]


def test_cells_beyond_the_header_are_refused_in_excel_too(tmp_path):
    book = openpyxl.Workbook()
    for row in (["a", "b", None], [1, 2, " "], [3, 4, 5]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(TableError, match=r"t\.xlsx, row 3: 3 cells where the header has 2 columns"):
        open_table(tmp_path / "t.xlsx")


def test_parquet_columns_with_dictionaries_and_views(tmp_path):
    text = pa.array(["1.5", "2", None])
    table = pa.table({"v": text.cast(pa.string_view()), "d": text.dictionary_encode(), "l": text.cast("large_string")})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    source = open_table(tmp_path / "t.parquet")
    rows = read_rows(source)
    for name in source.columns:
        np.testing.assert_array_equal(rows.numbers(name), [1.5, 2, np.nan])
    with TableWriter(tmp_path / "o.csv") as writer:
        writer.write(rows.cells)
    assert (tmp_path / "o.csv").read_text() == "v,d,l\n1.5,1.5,1.5\n2,2,2\n,,\n"


def test_odd_signs_names_and_files(tmp_path):
    path = written(tmp_path, "a,b\n1,2\n")
    for sign in ("µ", '"', "\n"):
        with pytest.raises(TableError, match="The separator must be an ASCII character"):
            open_table(path, separator=sign)
    for text in ("a,b", "a,b\n\n", '"a"'):
        with pytest.raises(TableError, match=r"t\.csv has a header but no rows\."):
            read_rows(open_table(written(tmp_path, text)))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match=r"folder\.csv is not a file"):
        open_table(tmp_path / "folder.csv")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "xlsx"])
def test_a_file_name_that_is_not_text(ending, tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5]})
    plain, odd = tmp_path / f"t.{ending}", Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff." + ending.encode()))
    write = {"parquet": frame.to_parquet, "xlsx": frame.to_excel}.get(ending, frame.to_csv)
    write(plain, index=False)
    plain.rename(odd)
    assert read_rows(open_table(odd)).numbers("a").tolist() == [1.5, 2.5]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_table_goes_through_in_pieces(name, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK", 200)
    monkeypatch.setattr(reading, "_CHUNK", 7)
    frame = pd.DataFrame({"a": np.arange(100) / 7, "t": [f"row, {i}" for i in range(100)]})
    (frame.to_parquet if name.endswith("parquet") else frame.to_csv)(tmp_path / name, index=False)
    pieces = list(open_table(tmp_path / name).chunks())
    assert len(pieces) > 3
    assert [rows.first for rows in pieces] == np.cumsum([0, *map(len, pieces)])[:-1].tolist()
    with TableWriter(tmp_path / f"out-{name}") as writer:
        for rows in pieces:
            writer.write(rows.cells)
    again = read_rows(open_table(tmp_path / f"out-{name}"))
    assert again.numbers("a").tolist() == frame["a"].tolist()
    assert again.cells["t"].to_pylist() == frame["t"].tolist()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.xlsx"])
def test_rows_are_counted_before_they_are_read(name, tmp_path):
    frame = pd.DataFrame({"a": np.arange(50) / 7, "t": [f"two\r\nlines, {i}" for i in range(50)]})
    if name == "t.xlsx":
        frame.to_excel(tmp_path / name, index=False)
    else:
        (frame.to_parquet if name.endswith("parquet") else frame.to_csv)(tmp_path / name, index=False)
    source = open_table(tmp_path / name)
    assert (source.n_rows, len(read_rows(source))) == (50, 50)


def test_rows_that_the_parser_loses_are_noticed(tmp_path, monkeypatch):
    source = open_table(written(tmp_path, "a,b\n1,2\n3,4\n5,6\n"))
    monkeypatch.setattr(reading.pyarrow.csv, "open_csv", _without_last_row(reading.pyarrow.csv.open_csv))
    with pytest.raises(TableError, match=r"t\.csv: 2 rows were read, but its lines make up 3"):
        read_rows(source)


def test_parquet_that_is_said_to_have_other_rows(tmp_path):
    pd.DataFrame({"a": [1.5, 2.5, 3.5]}).to_parquet(tmp_path / "t.parquet")
    source = open_table(tmp_path / "t.parquet")
    source.n_rows = -4  # as a damaged file says
    with pytest.raises(TableError, match=r"t\.parquet: 3 rows were read, but the file states -4\. Is it damaged"):
        read_rows(source)


def _without_last_row(open_csv):
    class Reader:
        def __init__(self, *args):
            self.reader = open_csv(*args)
            self.schema = self.reader.schema

        def __iter__(self):
            return (batch.slice(0, batch.num_rows - 1) for batch in self.reader)

    return Reader


def test_blocks_may_end_anywhere(tmp_path, monkeypatch):
    text = 'a,b\r\n"1","x\r\n""y"""\r\n\r\n"2","µ"\r3,z\n"4",""'
    for size in range(3, 60):
        monkeypatch.setattr(scanning, "_BLOCK", size)
        for encoding in ("utf-8", "utf-8-sig", "latin-1", "utf-16"):
            path = written(tmp_path, text.encode(encoding))
            assert (open_table(path).n_rows, open_table(path).n_spanning) == (4, 1)
        with pytest.raises(TableError, match=r"line 7: a quote opens and is never closed"):
            open_table(written(tmp_path, text[:-1]))


@pytest.mark.usefixtures("unrendered")
def test_every_command_says_what_became_of_the_rows(tmp_path, monkeypatch, run):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"a": np.linspace(0, 1, 60), "y": np.linspace(1, 3, 60)})
    frame.loc[[3, 7, 8], "a"] = np.nan
    frame.to_csv("d.csv", index=False)
    quick = ("--recipe", "paper", "--set", "epochs=2", "--set", "hidden_units=8", "--set", "n_theta=10")
    fit = ("fit", "d.csv", "--target", "y", "--x-err", "a=0.1", "--drop-missing", *quick)
    assert "Rows: 60 read, 57 learned from, 3 left out." in run(*fit, "-o", "m.eiv")[1]
    assert "Rows: 60 read, 45 learned from, 12 held out, 3 left out." in run(*fit, "--no-refit", "-o", "n.eiv")[1]
    predicted = run("predict", "m.eiv", "d.csv", "--drop-missing", "-o", "p.csv")[1]
    assert "Rows: 60 read, 57 predicted, 3 left out." in predicted
    assert "Rows: 60 read, 1 explained, 59 left out." in run("explain", "m.eiv", "d.csv", "--row", "2")[1]
    reported = run("report", "m.eiv", "d.csv", "--drop-missing")[1]
    assert "Rows: 60 read, 57 evaluated, 3 left out." in reported
    odd = os.fsdecode(b"\xff.csv")
    Path(odd).write_bytes(Path("d.csv").read_bytes())  # a name that is not text
    for command in (("fit", odd, *fit[2:], "-o", "o.eiv"), ("report", "m.eiv", odd, "--drop-missing", "-o", "o.html")):
        assert run(*command)[0] == 0
    (tmp_path / "q.csv").write_text((tmp_path / "d.csv").read_text().replace("\n0.0,", '\n"0.0,'))
    commands = (
        ("fit", "q.csv", *fit[2:], "-o", "q.eiv"),
        ("predict", "m.eiv", "q.csv", "-o", "q.out.csv"),
        ("explain", "m.eiv", "q.csv", "--row", "20"),
    )
    for command in commands:
        status, _, err = run(*command)
        assert (status, err.count("\n")) == (2, 1)
        assert "q.csv, line 2: a quote opens and is never closed" in err
    monkeypatch.setattr(reading.pyarrow.csv, "open_csv", _without_last_row(reading.pyarrow.csv.open_csv))
    for command in (
        ("predict", "m.eiv", "d.csv", "--drop-missing", "-o", "r.csv"),
        ("explain", "m.eiv", "d.csv", "--row", "1"),
    ):
        assert run(*command)[::2] == (
            2,
            "error: d.csv: 59 rows were read, but its lines make up 60. Is a quote missing?\n",
        )


@pytest.mark.usefixtures("unrendered")
def test_every_command_says_how_many_rows_span_lines(tmp_path, monkeypatch, run):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"a": np.linspace(0, 1, 20), "y": np.linspace(1, 3, 20), "t": "x"})
    frame.loc[[2, 5], "t"] = "two\nlines, and so on"
    frame.to_csv("d.csv", index=False)
    quick = ("--recipe", "paper", "--set", "epochs=2", "--set", "hidden_units=8", "--set", "n_theta=10")
    commands = (
        ("fit", "d.csv", "--target", "y", "--drop", "t", *quick, "-o", "m.eiv"),
        ("predict", "m.eiv", "d.csv", "-o", "p.csv"),
        ("explain", "m.eiv", "d.csv", "--row", "4"),
        ("report", "m.eiv", "d.csv"),
    )
    for command in commands:
        assert "left out. 2 rows span several lines of d.csv." in run(*command)[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,t\n1,x\n2,"y\n3,z"\n', "line 3: a quote opens and joins 2 lines, each of which is a row by itself"),
        ('a,t\n1,"x\r2,y\r3,z"\r', "line 2: a quote opens and joins 3 lines"),
        ('\n\na,"t\n1,x"\n2,y\n', "line 3: a quote opens and joins 2 lines"),
        ('a;t\n"1";"x, y""\n"";"""\n', "line 2: a quote opens and joins 2 lines"),
        ('t,a\n"x,1\ny",n/a\n', "line 2: a quote opens and joins 2 lines"),
        ('a,t\n1,"x\n2,"y"\n', "line 2: a quote opens and is closed in a later line, in the middle of a cell"),
        ('"a"\n"""\n""\n"2"\n', "line 2: a quote opens and is closed in a later line"),
        ('a,t\n1,"x\n2,y,z\n3,w"\n', "line 2: a quote opens and joins 3 lines, of which line 3 begins as a row"),
        ('a,t\n0,v\n1,"x,y\n3,z,w"\n', "line 3: a quote opens and joins 2 lines, of which line 4 begins as a row"),
        ('a,t,b\n1,"x\n2,y",6\n', "line 2: a quote opens and joins 2 lines, of which line 3 begins as a row"),
        ('a,t,b\n1,"x,2\n,y,z",6\n', "line 2: a quote opens and joins 2 lines, of which line 3 begins as a row"),
        ('t,a,b\n"x,1,2\ny,3\nz",5,6\n', "line 2: a quote opens and joins 3 lines, of which line 3 begins as a row"),
        ('t;a\n"x;y;1\nz";5\n', "line 2: a quote opens and joins 2 lines, of which line 3 begins as a row"),
        ('a,"t\n1,x,y"\n2,z\n', "line 1: a quote opens and joins 2 lines, of which line 2 begins as a row"),
        ('t,a,u\n"x\ny",5,"v\nw,6,z,1"\n', "line 2: a quote opens and joins 3 lines, of which line 4 begins as a row"),
    ],
)
def test_quotes_that_join_rows(text, message, tmp_path, monkeypatch):
    path = written(tmp_path, text)
    for size in (3, 7, 10, 2**20):
        monkeypatch.setattr(scanning, "_BLOCK", size)
        with pytest.raises(TableError, match=rf"t\.csv, {message}"):
            open_table(path)


@pytest.mark.parametrize(
    ("text", "n_rows", "n_spanning"),
    [
        ('a,t\n1,"x\ny"\n2,z\n', 2, 1),
        ('a,t\n1,"x\ny, z"\n2,"\n"\n', 2, 2),  # as many cells, but no column of numbers
        ('a,t,b\n1,"2,3\n4",5\n', 1, 1),  # numbers, but not as many cells
        ('"a\n(mm)","t\n"\n1,x\n', 1, 0),
        ('a,t,u\n1,"x\ny","x\ny"\n', 1, 1),
        ('a,t,b\n1,"x, y\nv, 2, z",5\n', 1, 1),  # more cells, but text where the row has a number
        ('t,a\n"x, y\nv, w",5\n', 1, 1),
        ('a,t,u\n1,"x\n2",y\n', 1, 1),  # a number, but no further cell
    ],
)
def test_text_of_several_lines(text, n_rows, n_spanning, tmp_path):
    source = open_table(written(tmp_path, text))
    assert (len(read_rows(source)), source.n_spanning) == (n_rows, n_spanning)


def test_numbers_keep_the_format_of_the_table(tmp_path):
    source = open_table(written(tmp_path, "a;b\n1,50;x\n2;y\n"))
    cells = read_rows(source).cells.append_column("m", pa.array([0.25, np.nan]))
    with TableWriter(tmp_path / "o.csv", source.text_format) as writer:
        writer.write(cells)
    assert (tmp_path / "o.csv").read_text() == "a;b;m\n1,50;x;0,25\n2;y;\n"


def test_nothing_is_left_of_a_failed_write(tmp_path):
    def write(name):
        with TableWriter(tmp_path / name) as writer:
            writer.write(pa.table({"a": [1]}))
            raise KeyboardInterrupt

    for name in ("o.csv", "o.csv.gz", "o.parquet"):
        with pytest.raises(KeyboardInterrupt):
            write(name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TableError, match=r"o\.xlsx: a table can be written as"):
        TableWriter(tmp_path / "o.xlsx")


def test_errors_of_columns(tmp_path):
    source = open_table(written(tmp_path, "a,b,c,d,e\n1,-2,3,4,0.1\n2,4,3,4,0.2\n"))
    features = ["a", "b", "c", "d"]
    spec = ErrorSpec.parse(["0.5", "b=10%", "c=20%sd", "d=e"], features, source.columns)
    spec = spec.with_spreads(dict.fromkeys(features, 3.0))
    np.testing.assert_allclose(spec.of(read_rows(source)), [[0.5, 0.2, 0.6, 0.1], [0.5, 0.4, 0.6, 0.2]])
    assert spec.columns == ("e",)
    assert not spec.is_constant
    assert ErrorSpec.from_json(spec.to_json()) == spec
    assert [str(term) for term in spec.terms.values()] == [
        "0.5",
        "10 % of the reading",
        "20 % of the column's spread = 0.6",
        "column e",
    ]
    constant = ErrorSpec.parse(["a=0.5"], features, source.columns)
    assert constant.of(read_rows(source)).tolist() == [0.5, 0, 0, 0]
    assert not constant.is_exact
    assert ErrorSpec.parse([], features, source.columns).is_exact


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["-1"], "must not be negative"),
        (["a=-0.1"], "must not be negative"),
        (["a=-5%"], "must not be negative"),
        (["a=inf"], "negative or infinite"),
        (["z=1"], "no column 'z'"),
        (["y=1"], "'y' is not a feature"),
        (["a=nothing"], "'nothing' is neither a number, a percentage"),
        (["a=5%rms"], "'5%rms' is neither"),
        (["a=nan"], "neither"),
        (["nothing"], "neither"),
        (["a=1", "a=2"], "given twice"),
        (["a=b"], "'b' is a feature itself"),
    ],
)
def test_bad_errors_of_columns(texts, message):
    with pytest.raises(TableError, match=message):
        ErrorSpec.parse(texts, ["a", "b"], ["a", "b", "y"])


def test_negative_errors_in_a_column(tmp_path):
    rows = read_rows(open_table(written(tmp_path, "a,e\n1,0.1\n2,-0.1\n3,-1\n")))
    spec = ErrorSpec.parse(["a=e"], ["a"], ["a", "e"])
    with pytest.raises(TableError, match=r"t\.csv, line 3: column 'e' holds -0\.1, .* not be negative \(2 such rows\)"):
        spec.of(rows)


def test_names_with_an_equals_sign():
    spec = ErrorSpec.parse(["a=b=e=1"], ["a=b"], ["a=b", "e=1"])
    assert spec.terms == {"a=b": ErrorTerm("column", column="e=1")}


@pytest.mark.parametrize(
    "content", [3, {"a": 3}, {"a": {}}, {"a": {"kind": "column"}}, {"a": {"kind": "reading", "number": -1}}]
)
def test_forged_error_specifications(content):
    with pytest.raises(ValueError, match="error specification"):
        ErrorSpec.from_json(content)


def test_large_whole_numbers_are_rounded_whatever_the_file(tmp_path):
    pd.DataFrame({"a": [2**62 + 1, 3]}).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(f"a\n{2**62 + 1}\n3\n")
    for name in ("t.parquet", "t.csv"):
        assert read_rows(open_table(tmp_path / name)).numbers("a").tolist() == [2.0**62, 3.0]


def test_parquet_text_that_is_none(tmp_path):
    array = pa.array([b"1", b"\xff"], pa.binary()).cast(pa.string(), safe=False)
    rows = reading.TableRows(open_table(written(tmp_path, "a\n1\n")), pa.table({"a": array}))
    with pytest.raises(TableError, match="column 'a'"):
        rows.numbers("a")


@given(text=st.text(max_size=20))
def test_any_text_is_an_error_or_a_table_error(text):
    try:
        term = ErrorTerm.parse(text, ())
    except TableError:
        return
    assert term.number >= 0
