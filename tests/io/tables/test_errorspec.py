"""Errors of columns, as they are given on the command line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eiv.io.tables import ErrorSpec, ErrorTerm, TableError, open_table
from eiv.io.tables.reading import read_rows
from tablefiles import written


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


@given(text=st.text(max_size=20))
def test_any_text_is_an_error_or_a_table_error(text):
    try:
        term = ErrorTerm.parse(text, ())
    except TableError:
        return
    assert term.number >= 0
