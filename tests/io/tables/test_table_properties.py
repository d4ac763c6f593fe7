"""Whatever the csv module, pandas or openpyxl writes comes back with its numbers and its rows, or is refused."""

import csv
import io
import math
import tempfile
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from openpyxl.utils.exceptions import IllegalCharacterError

from eiv.io.tables import TableError, open_table
from eiv.io.tables.reading import read_rows

FOLDER = tempfile.TemporaryDirectory()
SEPARATORS, ENCODINGS = [",", ";", "\t", "|", " ", ":"], ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"]
QUOTING = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC, csv.QUOTE_NONE]
values = st.one_of(
    st.integers(-20, 2000),
    st.integers(-(10**7), 10**7),
    st.floats(-2000, 2000).map(lambda value: round(value, 3)),
    st.floats(-1e300, 1e300),  # openpyxl rounds the largest one to infinity
    st.none(),
)
odd = st.sampled_from(
    ['"', '""', "0,5", "1,234", "1.5", "a\nb", "a\r\nb", '5" pipe', '",\n"', "x;y", "1\n2", "", " ", "µ", "\u2028"]
)
texts = st.one_of(odd, st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
SWAPPED = str.maketrans(",.", ".,")
FORMS = {
    "shortest": repr,
    "three places": "{:.3f}".format,
    "two places": "{:.2f}".format,
    "thousands": "{:,}".format,
    "thousands, two places": "{:,.2f}".format,
    "thousands with points": lambda value: f"{value:,}".translate(SWAPPED),
    "thousands with points, two places": lambda value: f"{value:,.2f}".translate(SWAPPED),
}


@st.composite
def tables(draw):
    """Columns of numbers and one of texts, in any order."""
    n_rows, n_columns = draw(st.integers(1, 5) | st.just(52)), draw(st.integers(1, 3))
    few = st.lists(values, min_size=1, max_size=5)
    columns = {f"n{j}": (draw(few) * n_rows)[:n_rows] for j in range(n_columns)}
    if draw(st.booleans()):
        columns["t"] = (draw(st.lists(texts, min_size=1, max_size=5)) * n_rows)[:n_rows]
    return {name: columns[name] for name in draw(st.permutations(list(columns)))}


def written_as(value, form, decimal):
    """A number in words, and the number that these mean."""
    if value is None:
        return "", math.nan
    text = FORMS[form](value)
    number = float((text.translate(SWAPPED) if "points" in form else text).replace(",", ""))
    return (text if "thousands" in form else text.replace(".", decimal)), number


def compare(path, numbers, n_rows, rtol=0, **given):
    """The numbers of each column and the number of rows, where nothing is refused."""
    try:
        rows = read_rows(open_table(path, **given))
    except TableError:
        return
    if not set(numbers) <= set(rows.source.columns):  # a separator that is not looked for: `--target` is refused
        return
    assert len(rows) == rows.source.n_rows
    for name, expected in numbers.items():
        try:
            read = rows.numbers(name)
        except TableError:
            continue
        assert len(read) == n_rows
        np.testing.assert_allclose(read, expected, rtol=rtol, atol=0)


def known(data, separator, decimal):
    """What the user says of the format: all of it, or nothing."""
    return {"separator": separator, "decimal": decimal} if data.draw(st.booleans()) else {}


@settings(deadline=None, max_examples=300)
@given(
    table=tables(),
    data=st.data(),
    separator=st.sampled_from(SEPARATORS),
    decimal=st.sampled_from(".,"),
    quoting=st.sampled_from(QUOTING),
    encoding=st.sampled_from(ENCODINGS),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_tables_of_the_csv_module(table, data, separator, decimal, quoting, encoding, end):
    columns, numbers = dict(table), {}
    forms = {name: data.draw(st.sampled_from(sorted(FORMS))) for name in table if name != "t"}
    for name, form in forms.items():
        columns[name], numbers[name] = zip(*(written_as(cell, form, decimal) for cell in table[name]), strict=True)
    if any("points" in form for form in forms.values()):  # alone, 1.234 is a decimal number: another column must tell
        columns["sure"] = ["0,5"] * len(next(iter(table.values())))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=quoting, lineterminator=end)
    try:
        writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    except csv.Error:
        assume(False)
    path = Path(FOLDER.name) / "c.csv"
    path.write_bytes(text.getvalue().encode(encoding, errors="replace"))
    grouped = {"." if "points" in form else "," for form in forms.values() if "thousands" in form}
    lies = decimal in grouped  # to say that it is decimal
    given = {} if lies else known(data, separator, decimal)
    compare(path, numbers, len(next(iter(table.values()))), **given)


@settings(deadline=None, max_examples=200)
@given(
    table=tables(),
    data=st.data(),
    separator=st.sampled_from(SEPARATORS),
    decimal=st.sampled_from(".,"),
    quoting=st.sampled_from(QUOTING[:3]),
    encoding=st.sampled_from(ENCODINGS),
    ending=st.sampled_from([".csv", ".csv.gz"]),
)
def test_tables_of_pandas(table, data, separator, decimal, quoting, encoding, ending):
    frame = pd.DataFrame({name: cells if name == "t" else np.array(cells, float) for name, cells in table.items()})
    path = Path(FOLDER.name) / f"p{ending}"
    frame.to_csv(
        path, sep=separator, decimal=decimal, quoting=quoting, encoding=encoding, errors="replace", index=False
    )
    numbers = {name: frame[name].to_numpy() for name in frame if name != "t"}
    compare(path, numbers, len(frame), **known(data, separator, decimal))


@settings(deadline=None, max_examples=200)
@given(table=tables(), separator=st.sampled_from(SEPARATORS[:4]), quoting=st.sampled_from(QUOTING[:3]), data=st.data())
def test_one_quote_too_many_loses_no_rows(table, separator, quoting, data):
    frame = pd.DataFrame({name: np.array(cells, float) for name, cells in table.items() if name != "t"})
    text = frame.to_csv(sep=separator, quoting=quoting, index=False)
    place = data.draw(st.integers(0, len(text)))
    path = Path(FOLDER.name) / "q.csv"
    path.write_text(text[:place] + '"' + text[place:])
    compare(path, {name: frame[name].to_numpy() for name in frame}, len(frame))


words = st.text("abc 1.5%-µ", max_size=4)


@settings(deadline=None, max_examples=200)
@given(table=tables(), data=st.data(), separator=st.sampled_from(SEPARATORS[:4]), end=st.sampled_from(["\n", "\r\n"]))
def test_a_pair_of_quotes_around_rows_is_refused(table, data, separator, end):
    """One quote before a cell of text, and one after such a cell in a later line."""
    columns = {name: ["" if cell is None else repr(cell) for cell in table[name]] for name in table if name != "t"}
    n_rows = len(columns["n0"])
    assume(n_rows > 1)
    names = data.draw(st.permutations([*columns, "t"]))
    columns["t"] = data.draw(st.lists(words, min_size=n_rows, max_size=n_rows))
    opened, closed = sorted(data.draw(st.lists(st.integers(0, n_rows - 1), min_size=2, max_size=2, unique=True)))
    columns["t"][opened] = '"' + columns["t"][opened]
    columns["t"][closed] += '"'
    lines = [names, *zip(*(columns[name] for name in names), strict=True)]
    path = Path(FOLDER.name) / "r.csv"
    path.write_bytes("".join(separator.join(line) + end for line in lines).encode())
    with pytest.raises(
        TableError, match=rf"r\.csv, line {opened + 2}: a quote opens and joins {closed - opened + 1} lines"
    ):
        open_table(path, separator=separator)


@settings(deadline=None, max_examples=200)
@given(data=st.data(), separator=st.sampled_from(SEPARATORS[:4]), end=st.sampled_from(["\n", "\r\n"]))
def test_a_pair_of_quotes_around_ragged_rows_is_refused(data, separator, end):
    """The same where lines have more cells than the header, or fewer: none of them is taken as text."""
    n_rows = data.draw(st.integers(2, 5))
    n_before, n_after = data.draw(st.sampled_from([(1, 0), (0, 1), (1, 1), (2, 1), (0, 2), (3, 0)]))
    number = st.integers(-999, 999).map(str)
    text = st.lists(st.text("abc µ", min_size=1, max_size=3), min_size=1, max_size=3).map(separator.join)
    several = [st.lists(number, min_size=n, max_size=n) for n in (n_before, n_after)]
    rows = [[*data.draw(several[0]), data.draw(text), *data.draw(several[1])] for _ in range(n_rows)]
    opened, closed = sorted(data.draw(st.lists(st.integers(0, n_rows - 1), min_size=2, max_size=2, unique=True)))
    rows[opened][n_before] = '"' + rows[opened][n_before]
    rows[closed][n_before] += '"'
    if n_before:  # without numbers before the text, only the end of a row tells
        rows = [
            row[: data.draw(st.integers(n_before + 1, len(row)))] if i != closed else row for i, row in enumerate(rows)
        ]
    names = [f"n{j}" for j in range(n_before)] + ["t"] + [f"m{j}" for j in range(n_after)]
    path = Path(FOLDER.name) / "g.csv"
    path.write_bytes("".join(separator.join(line) + end for line in [names, *rows]).encode())
    with pytest.raises(
        TableError, match=rf"g\.csv, line {opened + 2}: a quote opens and joins {closed - opened + 1} lines"
    ):
        open_table(path, separator=separator)


GROUPED = st.integers(-(10**7), 10**7).filter(lambda value: abs(value) >= 1000)


@settings(deadline=None, max_examples=200)
@given(
    cells=st.lists(GROUPED | st.integers(-999, 999), min_size=0, max_size=4),
    grouped=GROUPED,
    commas=st.lists(st.integers(-9999, 9999), min_size=1, max_size=5),
    separator=st.sampled_from([";", "\t", "|"]),
    data=st.data(),
)
def test_points_of_thousands_beside_decimal_commas(cells, grouped, commas, separator, data):
    """`1.234` is 1234 in such a table: it is never read as 1.234, wherever it stands."""
    numbers = data.draw(st.permutations([*cells, grouped]))
    whole = [f"{number:,}".replace(",", ".") for number in numbers]
    decimal = [f"{commas[i % len(commas)]},{i % 10}5" for i in range(len(numbers))]
    columns = data.draw(st.permutations([("w", whole), ("c", decimal)]))
    lines = [[name for name, _ in columns], *zip(*(cells for _, cells in columns), strict=True)]
    path = Path(FOLDER.name) / "k.csv"
    path.write_text("".join(separator.join(line) + "\n" for line in lines))
    compare(path, {"w": np.array(numbers, float)}, len(numbers))


@settings(deadline=None, max_examples=300)
@given(table=tables(), separator=st.sampled_from(SEPARATORS[:4]), quoting=st.sampled_from(QUOTING[:3]), data=st.data())
def test_rows_that_two_quotes_join_are_counted(table, separator, quoting, data):
    """Wherever the two are, and whatever the text: fewer rows are refused, or said to span several lines."""
    frame = pd.DataFrame({name: cells if name == "t" else np.array(cells, float) for name, cells in table.items()})
    text = frame.to_csv(sep=separator, quoting=quoting, index=False)
    for _ in range(2):
        place = data.draw(st.integers(0, len(text)))
        text = text[:place] + '"' + text[place:]
    path = Path(FOLDER.name) / "s.csv"
    path.write_text(text, encoding="utf-8", newline="")
    try:
        source = open_table(path, separator)
        rows = read_rows(source)
    except TableError:
        return
    n_lines = sum(map(bool, text.encode().splitlines())) - 1
    assert len(rows) == n_lines or source.n_spanning or "\n" in "".join(source.columns).replace("\r", "\n")


@settings(deadline=None, max_examples=60)
@given(table=tables(), data=st.data())
def test_tables_of_openpyxl(table, data):
    numbers = {name: np.array(cells, float) for name, cells in table.items() if name != "t"}
    as_text = {name for name in numbers if data.draw(st.booleans())}
    book, n_rows = openpyxl.Workbook(), len(next(iter(table.values())))
    book.active.append([*table, "last"])
    try:
        for row in zip(*table.values(), strict=True):
            cells = dict(zip(table, row, strict=True))
            said = {name: repr(cells[name]) for name in as_text if cells[name] is not None}
            book.active.append([*(cells | said).values(), "x"])
    except IllegalCharacterError:
        assume(False)
    path = Path(FOLDER.name) / "t.xlsx"
    book.save(path)
    compare(path, numbers, n_rows, rtol=1e-15)  # openpyxl writes 16 digits
