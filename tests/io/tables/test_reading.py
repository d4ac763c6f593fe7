"""Rows of tables of any kind: in pieces, counted, and the sentence for a bad file."""

import gzip
import os
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from eiv.io.tables import TableError, TableWriter, open_table, reading
from eiv.io.tables.columns import check_columns
from eiv.io.tables.reading import read_rows
from tablefiles import without_last_row, written


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


def test_missing_files_and_columns(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*no\.csv"):
        open_table(tmp_path / "no.csv")
    with pytest.raises(TableError, match="is not a file"):
        open_table(tmp_path)
    with pytest.raises(TableError, match=r"t\.csv has no column 'c' \(--target\); it has: a, b\."):
        check_columns(open_table(written(tmp_path, "a,b\n1,2\n")), ["a", "c"], "--target")


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
    monkeypatch.setattr(reading.pyarrow.csv, "open_csv", without_last_row(reading.pyarrow.csv.open_csv))
    with pytest.raises(TableError, match=r"t\.csv: 2 rows were read, but its lines make up 3"):
        read_rows(source)


def test_large_whole_numbers_are_rounded_whatever_the_file(tmp_path):
    pd.DataFrame({"a": [2**62 + 1, 3]}).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(f"a\n{2**62 + 1}\n3\n")
    for name in ("t.parquet", "t.csv"):
        assert read_rows(open_table(tmp_path / name)).numbers("a").tolist() == [2.0**62, 3.0]
