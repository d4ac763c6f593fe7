"""`eiv sensitivity`: the table, its files, and every way that it can go wrong."""

import pandas as pd
import pytest


def test_a_table_a_picture_and_sentences(model, run):
    status, out, err = run("sensitivity", "m.eiv", "d.csv", "--factors", "0.5,2", "-o", "s.png")
    assert (status, err) == (0, "")
    assert "rows held out, by what the errors are multiplied by" in out
    assert "Written: s.png" in out
    assert (model / "s.png").read_bytes().startswith(b"\x89PNG")
    status, _, err = run("sensitivity", "m.eiv", "d.csv", "--factors", "0.5,rectangular", "-o", "s.csv")
    assert (status, err) == (0, "")
    table = pd.read_csv(model / "s.csv")
    assert set(table["factor"]) == {0.5, 1.0}
    assert table.loc[(table["factor"] == 1) & (table["law"] == "as stated"), "u_ratio"].item() == 1
    assert set(table["law"]) == {"as stated", "rectangular"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--factors", ","), "--factors must be numbers or laws separated by commas"),
        (("--factors", "half"), "factors must be 'normal', 'rectangular'"),
        (("--factors", "-1"), "factors must be a number of at least 0"),
        (("-o", "s.txt"), "choose one of these endings"),
        (("--target", "nothing"), "--target"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(model, run, options, words):
    status, out, err = run("sensitivity", "m.eiv", "d.csv", *options)
    assert (status, out) == (2, "")
    assert words in err


def test_a_section_of_the_report(model, run, unrendered):
    status, _, err = run("report", "m.eiv", "d.csv", "--sensitivity", "-o", "s.html")
    assert (status, err) == (0, "")
    page = (model / "s.html").read_text(encoding="utf-8")
    assert "If the errors were other ones" in page
    assert "rectangular" in page
    status, _, err = run("report", "m.eiv", "--sensitivity", "-o", "t.html")
    assert status == 2
    assert "--sensitivity needs a table" in err
