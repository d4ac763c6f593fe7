"""What every command says of the rows of its table, and which columns it reads."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eiv.io.tables import reading
from tablefiles import without_last_row


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_only_the_columns_that_are_needed(name, tmp_path, monkeypatch, run):
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


@pytest.mark.usefixtures("unrendered")
def test_every_command_says_what_became_of_the_rows(tmp_path, monkeypatch, run):
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
    monkeypatch.setattr(reading.pyarrow.csv, "open_csv", without_last_row(reading.pyarrow.csv.open_csv))
    for command in (
        ("predict", "m.eiv", "d.csv", "--drop-missing", "-o", "r.csv"),
        ("explain", "m.eiv", "d.csv", "--row", "1"),
    ):
        assert run(*command)[::2] == (
            2,
            "error: d.csv: 59 rows were read, but its lines make up 60. Is a quote missing?\n",
        )


@pytest.mark.usefixtures("unrendered")
def test_every_command_says_how_many_rows_span_lines(tmp_path, monkeypatch, run):
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
