"""Lines and quotes of text tables: rows that span lines, quotes that join rows, limits."""

import gzip
import tracemalloc

import pytest

from eiv.io.tables import TableError, open_table, scanning
from eiv.io.tables.reading import read_rows
from tablefiles import written


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


def test_blocks_may_end_anywhere(tmp_path, monkeypatch):
    text = 'a,b\r\n"1","x\r\n""y"""\r\n\r\n"2","µ"\r3,z\n"4",""'
    for size in range(3, 60):
        monkeypatch.setattr(scanning, "_BLOCK", size)
        for encoding in ("utf-8", "utf-8-sig", "latin-1", "utf-16"):
            path = written(tmp_path, text.encode(encoding))
            assert (open_table(path).n_rows, open_table(path).n_spanning) == (4, 1)
        with pytest.raises(TableError, match=r"line 7: a quote opens and is never closed"):
            open_table(written(tmp_path, text[:-1]))


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
