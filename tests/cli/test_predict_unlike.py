"""What the commands say of rows that are unlike the training rows."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest

from eiv.io.tables import reading
from test_golden import MODELS

FIT = ("--target", "mass", "--x-err", "length=0.1", "--x-err", "temp=0.3", "--recipe", "paper")
QUICK = ("--set", "epochs=2", "--set", "hidden_units=8", "--set", "n_theta=4")


def rows(n=80):
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (n, 2))
    X = zeta * [1, 5] + [0, 20] + random.normal(size=zeta.shape) * [0.1, 0.3]
    return pd.DataFrame({"length": X[:, 0], "temp": X[:, 1], "mass": zeta.sum(1) + 0.05 * random.normal(size=n)}).round(
        4
    )


@pytest.fixture
def folder(tmp_path, monkeypatch, run):
    """A folder with a model, and a table of which three rows are unlike those of the fit."""
    monkeypatch.chdir(tmp_path)
    rows().to_csv("d.csv", index=False)
    assert run("fit", "d.csv", *FIT, *QUICK, "-o", "m.eiv")[::2] == (0, "")
    odd = rows()[["length", "temp"]]
    odd.loc[[6, 70], "temp"], odd.loc[40, "length"] = 81.0, -9.5
    odd.to_csv("odd.csv", index=False)
    return tmp_path


def sentence(n_rows):
    low, high = rows()["temp"].min(), rows()["temp"].max()
    return (
        f"warning: 3 of {n_rows} rows are unlike the training rows (first: row 7, column temp = 81 beyond {low:.6g} to "
        f"{high:.6g}).\n"
    )


@pytest.mark.parametrize("block", [None, 300], ids=["whole", "in pieces"])
def test_predict_flags_them_and_says_so_once(folder, run, monkeypatch, block):
    if block:
        monkeypatch.setattr(reading, "_BLOCK", block)  # bytes: about ten rows
    status, _, err = run("predict", "m.eiv", "odd.csv", "-o", "p.csv")
    assert (status, err) == (0, sentence(80))
    read = pd.read_csv("p.csv")
    assert list(read)[-2:] == ["likeness", "unlike"]
    assert np.flatnonzero(read["unlike"]).tolist() == [6, 40, 70]
    assert (read["likeness"][read["unlike"]] < 1e-6).all()


def test_predict_says_nothing_where_all_rows_are_alike(folder, run):
    status, _, err = run("predict", "m.eiv", "d.csv", "-o", "p.csv")
    assert (status, err) == (0, "")
    assert not pd.read_csv("p.csv")["unlike"].any()


def test_a_row_without_values_is_neither(folder, run):
    odd = pd.read_csv("odd.csv")
    odd.loc[[2, 50], "length"] = np.nan
    odd.to_csv("odd.csv", index=False)
    for name in ("p.csv", "p.parquet"):
        assert run("predict", "m.eiv", "odd.csv", "-o", name, "--drop-missing", "--prefix", "my_")[2] == sentence(78)
        read = (pd.read_csv if name.endswith("csv") else pd.read_parquet)(name)
        assert np.flatnonzero(read["my_unlike"].isna()).tolist() == [2, 50]
        assert np.flatnonzero(read["my_unlike"] == True).tolist() == [6, 40, 70]  # noqa: E712  (some are missing)


def test_errors_of_the_rows_count(folder, run):
    assert run("predict", "m.eiv", "odd.csv", "-o", "p.csv", "--x-err", "40")[2] == ""


def test_a_column_of_that_name_is_not_replaced(folder, run):
    rows().assign(unlike=1).to_csv("e.csv", index=False)
    status, _, err = run("predict", "m.eiv", "e.csv", "-o", "p.csv")
    assert status == 2
    assert "has a column 'unlike' already; use --prefix" in err


def test_models_of_earlier_versions_write_no_such_column(folder, run):
    shutil.copy(MODELS / "ensemble.eiv", "old.eiv")
    pd.DataFrame({"a": [0.0, 99.0], "b": [0.0, 0.0], "c": [0.1, 0.2]}).to_csv("abc.csv", index=False)
    status, _, err = run("predict", "old.eiv", "abc.csv", "-o", "p.csv")
    assert (status, err) == (0, "")
    assert list(pd.read_csv("p.csv"))[-1] == "high"


def test_explain_says_it_of_its_row(folder, run):
    assert (
        "warning: The row is unlike the training rows (column length = -9.5 beyond "
        in run("explain", "m.eiv", "odd.csv", "--row", "41")[2]
    )
    assert run("explain", "m.eiv", "odd.csv", "--row", "42")[2] == ""


@pytest.mark.usefixtures("unrendered")
def test_the_page_counts_them(folder, run):
    pytest.importorskip("jinja2")
    assert run("report", "m.eiv", "odd.csv", "-o", "page.html")[::2] == (0, "")
    text = re.sub(r"<[^>]+>", " ", (folder / "page.html").read_text())
    assert "3 of 80 rows are unlike the training rows" in text
    assert "Rows unlike the training rows" in text
    assert "column length = -9.5 beyond" in text
    assert "the mean over 77 rows of odd.csv, without 3 unlike the training rows" in text
    assert run("report", "m.eiv", "d.csv", "-o", "page.html", "--force")[::2] == (0, "")
    assert "None of the 80 rows is unlike the training rows" in (folder / "page.html").read_text()
