"""The notation of data sheets: what it states, how it is said back, and what is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eiv.io.notation import Stated, read_error


@pytest.mark.parametrize(
    ("texts", "stated", "words"),
    [
        (("0.5", "+0.5", " 0.5 "), Stated("absolute", 0.5), "0.5"),
        (("0",), Stated("absolute"), "exact"),
        (("5%", "5 %"), Stated("reading", share=0.05), "5 % of the reading"),
        (("5%sd", "5 % sd"), Stated("spread", share=0.05), "5 % of the column's spread"),
        (("±0.7", "+-0.7", "+/- 0.7", "± .7"), Stated("limits", 0.7), "limits ±0.7, all between equally likely"),
        (("±2%",), Stated("limits", share=0.02), "limits ±2 % of the reading, all between equally likely"),
        (
            ("±(0.5 + 2%)", "± (2 % + 0.5)"),
            Stated("limits", 0.5, 0.02),
            "limits ±(0.5 plus 2 % of the reading), all between equally likely",
        ),
        (("0.3 + 2%", "2 % + 0.3", "0.3+2%"), Stated("growing", 0.3, 0.02), "0.3 plus 2 % of the true value"),
        (
            ("+0.5 -0.2", "-0.2 +0.5", "−0.2 +0.5", "+0.5 / −0.2", "+0.5/-0.2", "+0.5, -0.2"),
            Stated("sides", 0.2, plus=0.5),
            "true value up to 0.5 above or 0.2 below the reading",
        ),
        (("0.4 k=2", "±0.4 (k=2)", "0.4, k = 2"), Stated("absolute", 0.2, k=2.0), "0.2 (0.4 at k = 2)"),
        (
            ("0.3 dof=8", "0.3, dof = 8", "0.3 (dof=8)"),
            Stated("absolute", 0.3, dof=8.0),
            "0.3, itself an estimate with 8 degrees of freedom: its size is learned",
        ),
        (("0.3 dof=inf", "0.3 (dof = inf)"), Stated("absolute", 0.3), "0.3"),
        (
            ("0.4 k=2 dof=5", "0.4 dof=5 k=2", "0.4, dof=5, k=2"),
            Stated("absolute", 0.2, k=2.0, dof=5.0),
            "0.2 (0.4 at k = 2), itself an estimate with 5 degrees of freedom: its size is learned",
        ),
    ],
)
def test_what_a_text_states(texts, stated, words):
    for text in texts:
        assert read_error(text) == stated
        assert str(read_error(text)) == words


@pytest.mark.parametrize("text", ["length_error", "5%rms", "nan", "a-b", ""])
def test_other_texts_are_none_of_these(text):
    assert read_error(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-1", "must not be negative or infinite, got '-1'"),
        ("inf", "must not be negative or infinite"),
        ("-5%", "must not be negative"),
        ("−1", "must not be negative or infinite, got '−1'"),
        ("+0.5 +0.2", r"one has the sign \+ and the other -, .* got '\+0.5 \+0.2'"),
        ("-0.5 -0.2", r"one has the sign \+"),
        ("0.4 k=0", "k must be above zero, got '0.4 k=0'"),
        ("0.4 k=-2", "k must be above zero"),
        ("0.3 dof=0", "dof must be a number of at least 1, got '0.3 dof=0'"),
        ("0.3 dof=-8", "dof must be a number of at least 1"),
        ("0.3 dof=many", "dof must be a number of at least 1"),
        ("±", "'±' is not an error; these are: 0.5"),
        ("±-0.7", "is not an error"),
        ("0.3 + 2", "is not an error"),
        ("0.7 0.2", "is not an error"),
    ],
)
def test_bad_numbers_are_refused_with_the_text(text, message):
    with pytest.raises(ValueError, match=message):
        read_error(text)


@given(st.text(max_size=30))
def test_any_text_is_read_refused_or_left(text):
    with contextlib.suppress(ValueError):
        stated = read_error(text)
        assert stated is None or str(stated)


@given(st.floats(0, 1e6), st.floats(0.1, 10))
def test_numbers_come_back(number, k):
    assert read_error(f"{number!r} k={k!r}").number == pytest.approx(number / k)
    assert read_error(f"±{number!r}").number == number
    assert read_error(f"+{number!r} -{k!r}") == Stated("sides", k, plus=number)
