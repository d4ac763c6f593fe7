"""Excel workbooks: limits, and files that are not what they say."""

import io
import struct
import time
import tracemalloc
import zipfile
import zlib

import openpyxl
import pandas as pd
import pytest

from eiv.io.tables import TableError, open_table, reading, workbooks
from eiv.io.tables.reading import read_rows


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


def test_cells_beyond_the_header_are_refused_in_excel_too(tmp_path):
    book = openpyxl.Workbook()
    for row in (["a", "b", None], [1, 2, " "], [3, 4, 5]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(TableError, match=r"t\.xlsx, row 3: 3 cells where the header has 2 columns"):
        open_table(tmp_path / "t.xlsx")
