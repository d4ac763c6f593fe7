"""Text tables: separators, decimal signs, encodings and names that are found in a file."""

import gzip

import numpy as np
import pytest

from eiv.io.tables import TableError, open_table
from eiv.io.tables.reading import read_rows
from tablefiles import written

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
