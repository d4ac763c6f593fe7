"""Tables: what is found in a file, what is said of a bad one, and what is written."""

import gzip

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eiv.tables import ErrorSpec, ErrorTerm, TableError, TableWriter, open_table, reading
from eiv.tables.reading import check_columns, read_rows

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
        (b"\x1f\x8b\x08garbage", "t.csv.gz", "not a whole gzip file"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 99999)[:-30], "t.csv.gz", r"t\.csv\.gz"),
        ("a,b\n1,2\n", "t.parquet", r"t\.parquet cannot be read as Parquet"),
        ("a,b\n1,2\n", "t.xlsx", r"t\.xlsx is not an Excel workbook"),
        ("a,b\n1,2\n", "t.xls", r"these are known: \.csv"),
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
    rows = reading.Rows(open_table(written(tmp_path, "a\n1\n")), pa.table({"a": array}))
    with pytest.raises(TableError, match="column 'a'"):
        rows.numbers("a")


@given(text=st.text(max_size=20))
def test_any_text_is_an_error_or_a_table_error(text):
    try:
        term = ErrorTerm.parse(text, ())
    except TableError:
        return
    assert term.number >= 0
