"""`eiv fit`, `eiv predict` and `eiv info`: from a table to an answer, and every way that it can go wrong."""

import hashlib
import json
import os
import pickle
import re
import resource
import signal
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from eiv import EiVRegressor
from eiv.cli import data
from eiv.io.modelfile import read_header
from eiv.io.tables import reading
from eiv.report.words import verdict
from processes import MAIN, command, ended
from test_cli import run  # noqa: F401  (a fixture)
from test_modelfile import altered, forged

QUICK = ("--recipe", "paper", "--set", "epochs=3", "--set", "hidden_units=8", "--set", "n_theta=10")
PARTS = ["mean", "std", "epistemic", "aleatoric", "noise", "total", "low", "high", "likeness", "unlike"]


def rows(n=80):
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (n, 2))
    return pd.DataFrame(
        {
            "id": [f"s, {i}" for i in range(n)],
            "length": (zeta[:, 0] + 0.1 * random.standard_normal(n)).round(4),
            "temp": (20 + 5 * zeta[:, 1] + 0.3 * random.standard_normal(n)).round(3),
            "temp_err": random.uniform(0.1, 0.5, n).round(3),
            "batch": random.integers(0, 6, n),
            "mass": (zeta.sum(1) + 0.05 * random.standard_normal(n)).round(4),
        }
    )


FIT = ("--target", "mass", "--drop", "id", "--drop", "batch", "--x-err", "length=0.1", "--x-err", "temp=temp_err")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table, in which the commands run."""
    rows().to_csv(tmp_path / "d.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder, run):  # noqa: F811
    """The same with a model."""
    status, _, err = run("fit", "d.csv", *FIT, *QUICK, "-o", "m.eiv")
    assert (status, err) == (0, "")
    return folder


def test_fit_says_what_it_understood_and_what_came_out(folder, run):  # noqa: F811
    status, out, _ = run(
        "fit", "d.csv", "--target", "mass", "--drop", "id", "--groups", "batch", "--x-err", "length=0.1", "--x-err",
        "temp=temp_err", *QUICK, "-o", "m.eiv",
    )  # fmt: skip
    assert status == 0
    for words in ("80 rows", "length", "0.1", "column temp_err", "error of temp", "target", "groups", "--drop"):
        assert words in out
    for words in ("root mean squared error", "95 % interval", "epistemic", "aleatoric", "The input errors", "m.eiv"):
        assert words in out
    notes = read_header("m.eiv")["notes"]
    assert notes["target"] == "mass"
    assert notes["data_sha256"] == hashlib.sha256(Path("d.csv").read_bytes()).hexdigest()
    assert notes["x_err"]["temp"] == {"kind": "column", "number": 0.0, "column": "temp_err"}
    held_out = notes["holdout"]["rows"]
    sizes = rows()["batch"].value_counts()
    assert any(held_out in (sizes.iloc[i], sizes.iloc[i] + sizes.iloc[j]) for i in range(6) for j in range(6) if i != j)


def test_a_wide_table_is_shown_in_short(folder, run, monkeypatch):  # noqa: F811
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 151)), columns=[f"c{i}" for i in range(151)])
    table.to_csv("wide.csv", index=False)
    spreads, asked = data.TrainingTable.spreads, []
    monkeypatch.setattr(data.TrainingTable, "spreads", property(lambda self: asked.append(1) or spreads.fget(self)))
    status, out, _ = run("fit", "wide.csv", "--target", "c0", *QUICK, "-o", "w.eiv")
    assert status == 0
    assert "│ c100 " in out
    assert "│ c101 " not in out
    assert "and 50 more features" in out
    assert len(asked) < 5, "each takes as long as the table is wide"
    status, out, _ = run("fit", "wide.csv", "--target", "c0", "--feature", "c1", *QUICK, "-o", "n.eiv")
    assert "and 50 more columns that are left out" in out


def test_predictions_are_those_of_the_library(model, run):  # noqa: F811
    table = pd.read_csv("d.csv")
    fitted = EiVRegressor.load("m.eiv")
    errors = np.column_stack([np.full(80, 0.1), table["temp_err"]])
    expected = fitted.predict_distribution(table[["length", "temp"]], X_err=errors).to_frame()
    again = EiVRegressor(**fitted.get_params()).fit(table[["length", "temp"]], table["mass"], X_err=errors)
    np.testing.assert_array_equal(again.predict(table[["length", "temp"]], X_err=errors), expected["mean"])
    table.to_parquet("d.parquet")
    table.to_excel("d.xlsx", index=False)
    for source in ("d.csv", "d.parquet", "d.xlsx"):
        for target in ("p.csv", "p.csv.gz", "p.parquet"):
            status, out, _ = run("predict", "m.eiv", source, "-o", target, "--force")
            assert status == 0
            assert "80 rows" in out
            read = (pd.read_parquet if target.endswith("parquet") else pd.read_csv)(target)
            assert list(read) == [*table, *PARTS]
            pd.testing.assert_frame_equal(read[PARTS], expected, check_exact=target.endswith("parquet"))
            assert read["id"].tolist() == table["id"].tolist()
            assert read["length"].tolist() == table["length"].tolist()


def test_predict_in_pieces_is_the_same(model, run, monkeypatch):  # noqa: F811
    assert run("predict", "m.eiv", "d.csv", "-o", "whole.csv")[0] == 0
    monkeypatch.setattr(reading, "_BLOCK", 300)
    assert run("predict", "m.eiv", "d.csv", "-o", "pieces.csv")[0] == 0
    whole, pieces = pd.read_csv("whole.csv"), pd.read_csv("pieces.csv")
    pd.testing.assert_frame_equal(whole, pieces, rtol=1e-4)


@pytest.mark.parametrize("separator", [";", ","])
def test_decimal_commas_go_in_and_out(folder, run, separator):  # noqa: F811
    rows().to_csv("k.csv", sep=separator, decimal=",", index=False)
    assert run("fit", "k.csv", *FIT, *QUICK, "-o", "k.eiv")[0] == 0
    assert run("fit", "d.csv", *FIT, *QUICK, "-o", "d.eiv")[0] == 0
    a, b = EiVRegressor.load("k.eiv"), EiVRegressor.load("d.eiv")
    x = rows(5)[["length", "temp"]]
    np.testing.assert_array_equal(a.predict(x, X_err=0.1), b.predict(x, X_err=0.1))
    assert run("predict", "k.eiv", "k.csv", "-o", "p.csv")[0] == 0
    read = pd.read_csv("p.csv", sep=separator, decimal=",")
    assert read["temp"].tolist() == rows()["temp"].tolist()
    assert read["mean"].dtype == float


def test_errors_other_than_those_of_the_fit(model, run):  # noqa: F811
    assert run("predict", "m.eiv", "d.csv", "-o", "a.csv")[0] == 0
    assert run("predict", "m.eiv", "d.csv", "-o", "b.csv", "--x-err", "0")[0] == 0
    assert run("predict", "m.eiv", "d.csv", "-o", "c.csv", "--x-err", "50%sd", "--of", "label")[0] == 0
    a, b, c = (pd.read_csv(name) for name in ("a.csv", "b.csv", "c.csv"))
    assert (b["aleatoric"] == 0).all()
    assert c["aleatoric"].mean() > a["aleatoric"].mean() > 0
    np.testing.assert_allclose(c["high"] - c["mean"], 1.959964 * c["total"], rtol=1e-6)
    assert run("predict", "m.eiv", "d.csv", "-o", "e.csv", "--x-err", "length=0.1")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv("e.csv"), a)  # temp keeps its column


def test_missing_values_at_fit_and_predict(folder, run):  # noqa: F811
    table = rows()
    table.loc[3, "length"], table.loc[5, "mass"] = np.nan, np.inf
    table.loc[3, "temp_err"] = np.nan
    table.to_csv("h.csv", index=False)
    status, _, err = run("fit", "h.csv", *FIT, *QUICK, "-o", "m.eiv")
    assert status == 2
    assert "2 of 80 rows hold missing or infinite values" in err
    assert "column 'length': 1 missing, first in line 5; column 'mass': 1 infinite, first in line 7" in err
    assert not (folder / "m.eiv").exists()
    status, out, _ = run("fit", "h.csv", *FIT, *QUICK, "-o", "m.eiv", "--drop-missing")
    assert status == 0
    assert "78 rows; 2 left out" in out
    status, _, err = run("predict", "m.eiv", "h.csv", "-o", "p.csv")
    assert status == 2
    assert "1 of 80 rows" in err  # the target is not needed
    assert not (folder / "p.csv").exists()
    status, out, _ = run("predict", "m.eiv", "h.csv", "-o", "p.csv", "--drop-missing")
    assert "80 rows, 1 of them without a prediction" in out
    read = pd.read_csv("p.csv")
    assert np.flatnonzero(read["mean"].isna()).tolist() == [3]


def test_missing_values_are_counted_over_the_whole_table(model, run, monkeypatch):  # noqa: F811
    table = rows()
    table.loc[[50, 78], "length"], table.loc[78, "temp"] = np.nan, np.inf
    table.to_csv("h.csv", index=False)
    monkeypatch.setattr(reading, "_BLOCK", 300)  # bytes: several rows before, between and after them
    status, _, err = run("predict", "m.eiv", "h.csv", "-o", "p.csv")
    assert status == 2
    assert "h.csv: 2 of 80 rows hold missing or infinite values (column 'length': 2 missing, first in line 52; " in err
    assert "column 'temp': 1 infinite, first in line 80)" in err


def test_options_from_a_file_the_command_line_first(folder, run):  # noqa: F811
    (folder / "fit.toml").write_text(
        'target = "mass"\ndrop = ["id", "batch"]\nseed = 3\ndrop-missing = true\nrecipe = "paper"\n'
        "[x_err]\nlength = 0.1\ntemp = '5%'\n[settings]\nepochs = 2\nhidden_units = 8\ninput_prior = 'normal'\n"
    )
    status, _, err = run("fit", "d.csv", "--config", "fit.toml", "--set", "hidden_units=4", "-o", "m.eiv")
    assert (status, err) == (0, "")
    header = read_header("m.eiv")
    assert (header["settings"]["hidden_units"], header["settings"]["epochs"]) == (4, 2)
    assert header["settings"]["input_prior"] == "normal"
    assert header["notes"]["seed"] == 3
    assert header["notes"]["x_err"]["temp"]["kind"] == "reading"
    assert run("fit", "d.csv", "--config", "fit.toml", "--x-err", "0.02", "--seed", "4", "-o", "n.eiv")[0] == 0
    header = read_header("n.eiv")
    assert header["notes"]["seed"] == 4
    assert {term["number"] for term in header["notes"]["x_err"].values()} == {0.02}


def test_errors_of_the_command_line_replace_those_of_the_file_column_by_column(folder, run):  # noqa: F811
    (folder / "fit.toml").write_text(
        '\ufefftarget = "mass"\ndrop = ["id", "batch"]\n[x_err]\nlength = 0.1\ntemp = "temp_err"\n', encoding="utf-8"
    )
    for told, expected in (
        (["length=0.2"], {"length": ("absolute", 0.2), "temp": ("column", 0)}),
        (["temp=0.3"], {"length": ("absolute", 0.1), "temp": ("absolute", 0.3)}),
        (["temp=0.3", "0.4"], {"length": ("absolute", 0.4), "temp": ("absolute", 0.3)}),
    ):
        options = [part for text in told for part in ("--x-err", text)]
        assert run("fit", "d.csv", "--config", "fit.toml", *options, *QUICK, "-o", "m.eiv", "--force")[0] == 0
        header = read_header("m.eiv")
        assert {name: (term["kind"], term["number"]) for name, term in header["notes"]["x_err"].items()} == expected
        assert header["features"]["names"] == ["length", "temp"], "a column of errors is no feature"


def test_the_same_command_gives_the_same_bytes(folder, run):  # noqa: F811
    for name in ("a.eiv", "b.eiv"):
        assert run("fit", "d.csv", *FIT, *QUICK, "-o", name)[0] == 0
    assert (folder / "a.eiv").read_bytes() == (folder / "b.eiv").read_bytes()


def test_without_hold_out_or_without_learning_again(folder, run):  # noqa: F811
    status, out, _ = run("fit", "d.csv", *FIT, *QUICK, "-o", "a.eiv", "--holdout", "0")
    assert status == 0
    assert "held out" not in out
    assert read_header("a.eiv")["notes"]["holdout"] is None
    assert run("fit", "d.csv", *FIT, *QUICK, "-o", "b.eiv", "--no-refit")[0] == 0
    assert read_header("b.eiv")["notes"]["rows_learned_from"] == 64
    rows(8).to_csv("few.csv", index=False)
    status, out, _ = run("fit", "few.csv", *FIT, *QUICK, "-o", "c.eiv")
    assert status == 0
    assert "Too few rows" in out
    status, out, _ = run("fit", "d.csv", "--target", "mass", "--feature", "length", *QUICK, "-o", "d.eiv")
    assert status == 0
    assert "taken as exact" in out
    assert "cannot be said" in out
    assert read_header("d.eiv")["features"]["names"] == ["length"]


def test_info(model, run):  # noqa: F811
    status, out, _ = run("info", "m.eiv")
    assert status == 0
    for words in ("eiv 0.", "length, temp", "mass", "column temp_err", "3 epochs", "of 8 units", "recipe=", "rmse"):
        assert words in out
    assert re.search(r"│ seed +│ 0 +│", out), "the seed that was told, not the one of this network"
    assert "random_state" not in out
    status, out, _ = run("info", "m.eiv", "--json")
    assert json.loads(out) == read_header("m.eiv")


@pytest.mark.parametrize(
    "change",
    [
        lambda inner, header: inner["notes"].update(x_err={"length": 3}),
        lambda inner, header: inner["settings"].pop("module"),
        lambda inner, header: inner["settings"].update(recipe="no such"),
        lambda inner, header: inner["training"].pop("y_noise"),
    ],
)
def test_info_on_a_forged_file_is_one_sentence(model, run, change):  # noqa: F811
    (model / "bad.eiv").write_bytes(forged((model / "m.eiv").read_bytes(), lambda *parts: change(*parts) and None))
    status, out, err = run("info", "bad.eiv")
    assert (status, out) == (2, "")
    assert err.startswith("error: bad.eiv is not a model that eiv")


def test_info_refuses_what_predict_does(model, run):  # noqa: F811
    whole = (model / "m.eiv").read_bytes()
    for name, size in (("network/0.bias", 8), ("likelihood/y_noise", 1)):
        (model / "bad.eiv").write_bytes(altered(whole, name, np.full(size, np.nan, np.float32)))
        said = run("predict", "bad.eiv", "d.csv", "-o", "p.csv")
        assert said[0] == 2
        assert run("info", "bad.eiv") == said
        assert run("info", "bad.eiv", "--json") == said


def test_info_of_a_model_with_a_network_of_its_own(folder, run):  # noqa: F811
    table = rows()[["length", "temp", "mass"]]
    settings = {"epochs": 2, "n_theta": 10, "recipe": "paper", "posterior": "swag"}
    own = EiVRegressor(0.1, module=torch.nn.Linear, **settings).fit(table[["length", "temp"]], table.mass)
    own.save("m.eiv")
    assert run("info", "m.eiv")[0] == 0
    Path("bad.eiv").write_bytes(altered(Path("m.eiv").read_bytes(), "network/bias", np.full(1, np.nan, np.float32)))
    status, _, err = run("info", "bad.eiv")
    assert status == 2
    assert err.endswith("can read: some of its weights are not finite numbers\n")


def test_a_model_that_was_saved_from_python(folder, run):  # noqa: F811
    table = rows()
    settings = {"epochs": 2, "hidden_units": 8, "n_theta": 10}
    EiVRegressor(0.1, **settings, recipe="paper").fit(
        table[["length", "temp"]].to_numpy(), table[["mass", "batch"]]
    ).save("m.eiv")
    assert run("info", "m.eiv")[0] == 0
    status, _, err = run("predict", "m.eiv", "d.csv", "-o", "p.csv")
    assert status == 2
    assert "does not hold the names of its 2 features" in err
    table[["length", "temp"]].to_csv("x.csv", index=False)
    assert run("predict", "m.eiv", "x.csv", "-o", "p.csv")[0] == 0
    assert {"mass_mean", "batch_high"} < set(pd.read_csv("p.csv"))
    assert "does not know the spread" in run("predict", "m.eiv", "x.csv", "--x-err", "5%sd", "-o", "q.csv")[2]
    assert run("predict", "m.eiv", "x.csv", "--x-err", "length=0.1", "-o", "same.csv")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv("p.csv"), pd.read_csv("same.csv"))  # temp keeps its 0.1
    EiVRegressor([[0.01, 0.02], [0.02, 0.09]], **settings, recipe="paper").fit(
        table[["length", "temp"]], table["mass"]
    ).save("c.eiv")
    _, _, err = run("predict", "c.eiv", "d.csv", "--x-err", "length=1", "-o", "c.csv")
    assert "holds no error of 'temp' by itself" in err
    EiVRegressor(**settings, recipe="paper").fit(
        table[["length"]], table["mass"], X_err=table[["temp_err"]].to_numpy()
    ).save("m.eiv")
    status, _, err = run("predict", "m.eiv", "d.csv", "-o", "q.csv")
    assert status == 2
    assert "give those of d.csv with --x-err" in err
    assert run("predict", "m.eiv", "d.csv", "-o", "q.csv", "--x-err", "length=temp_err")[0] == 0


BAD_TABLES = {
    "empty.csv": "",
    "header.csv": "id,length,temp,temp_err,batch,mass\n",
    "one.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\n",
    "text.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\nb,long,2,0.1,1,2\n",
    "double.csv": "id,length,length,mass\n1,2,3,4\n",
    "negative.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\nb,1,2,-0.1,1,2\n",
    "missing.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\nb,1,,0.1,1,inf\n",
    "narrow.csv": "id,length,temp,mass\na,1,2,3\n",
    "ragged.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\nb,1\n",
    "mean.csv": "length,temp,temp_err,mean\n1,2,0.1,3\n",
    "far.csv": "length,temp,temp_err\n1,2,0.1\n1e300,2,0.1\n",
    "bad.toml": "target = [",
    "odd.toml": "taget = 'mass'",
    "type.toml": "target = 3",
    "fit.toml": "seed = 1",
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.csv", *FIT], "There is no file no.csv."),
        (["empty.csv", *FIT], "empty.csv is empty"),
        (["header.csv", *FIT], "header.csv has a header but no rows"),
        (["one.csv", *FIT], "one.csv: there is one row to learn from, and a fit needs at least two."),
        (
            ["missing.csv", *FIT, "--drop-missing"],
            "missing.csv: there is one row to learn from, and a fit needs at least two",
        ),
        (["text.csv", *FIT], "text.csv, line 3: column 'length' holds 'long', not a number"),
        (["double.csv", *FIT], "double.csv: several columns have the name 'length'"),
        (["negative.csv", *FIT], "'temp_err' holds -0.1, but an error must not be negative (1 such row)."),
        (["missing.csv", *FIT], "missing.csv: 1 of 2 rows hold missing or infinite values (column 'temp': 1 missing"),
        (["ragged.csv", *FIT], "ragged.csv, line 3: 2 cells where the header has 6 columns"),
        (["d.csv", *FIT, "--target", "weight"], "d.csv has no column 'weight' (--target)"),
        (["d.csv", *FIT, "--drop", "weight"], "d.csv has no column 'weight' (--drop)"),
        (["d.csv", *FIT, "--groups", "weight"], "d.csv has no column 'weight' (--groups)"),
        (["d.csv", *FIT, "--feature", "mass"], "'mass' is the target, so it cannot be given with --feature"),
        (
            ["d.csv", *FIT, "--feature", "temp", "--feature", "temp_err"],
            "--feature: 'temp_err' holds the error of temp; features can be: length, temp.\n",
        ),
        (["d.csv", *FIT, "--feature", "weight"], "'weight' is not a column of d.csv; features can be: length, temp.\n"),
        (["d.csv", *FIT, "--drop", "mass"], "'mass' is the target, so it cannot be given with --drop"),
        (["d.csv", *FIT, "--x-err", "mass=0.1"], "'mass' is the target"),
        (["d.csv", *FIT[:-4], "--x-err", "length=mass"], "'mass' is the target, so it cannot be an error too"),
        (["d.csv", *FIT, "--x-err", "weight=0.1"], "no column 'weight'"),
        (["d.csv", *FIT[:-4], "--x-err", "length=-0.1"], "must not be negative"),
        (["d.csv", *FIT[:-4], "--x-err", "length=weight"], "'weight' is neither a number"),
        (["d.csv", "--x-err", "0.1"], "--target is missing"),
        (["d.csv", "--target", "mass"], "d.csv, line 2: column 'id' holds 's, 0', not a number"),
        (["d.csv", *FIT, "--set", "epochs=0"], "epochs must be a whole number of at least 1"),
        (["d.csv", *FIT, "--set", "epoch=9"], "'epoch' is not a setting of the model"),
        (["d.csv", *FIT, "--set", "epochs"], "--set takes NAME=VALUE"),
        (["d.csv", *FIT, "--set", "learning_rate=1e30"], "Lower learning_rate"),
        (
            ["d.csv", *FIT[:-4], "--x-err", "1e308", "--set", "input_prior=normal"],
            "x_err is beyond the spread of X in column 'length' (spread 0.6, error 1e+308, of 80 rows)",
        ),
        (["d.csv", *FIT, "--holdout", "1.5"], "--holdout must be a share"),
        (["d.csv", *FIT, "--config", "no.toml"], "There is no file no.toml"),
        (["d.csv", *FIT, "--config", "bad.toml"], "bad.toml is not a TOML file"),
        (["d.csv", *FIT, "--config", "odd.toml"], "odd.toml: 'taget' is not an option"),
        (["d.csv", *FIT, "--config", "type.toml"], "type.toml: target must be a word in quotes"),
        (["d.csv", *FIT, "--seed", "-1"], "equal to 0"),
        (["bad.toml", *FIT], "bad.toml: the ending does not say"),
        (["d.csv", *FIT, "--separator", ";"], "has no column 'mass'"),
        (["d.csv", *FIT, "-o", "d.csv/m.eiv"], "d.csv/m.eiv cannot be written: "),
        (
            ["d.csv", *FIT, "-o", "/proc/none/m.eiv"],
            "/proc/none/m.eiv cannot be written: there is no folder /proc/none",
        ),
        (["d.csv", *FIT, "--config", "fit.toml", "-o", "fit.toml", "--force"], "fit.toml is an input"),
    ],
)
def test_fit_ends_with_one_sentence(folder, run, arguments, message):  # noqa: F811
    for name, text in BAD_TABLES.items():
        (folder / name).write_text(text)
    before = sorted(folder.iterdir())
    status, out, err = run("fit", *arguments, *([] if "-o" in arguments else ["-o", "m.eiv"]))
    assert status == 2
    assert message in err
    assert "Traceback" not in out + err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.eiv", "no.csv"], "There is no file no.csv."),
        (["no.eiv", "d.csv"], "There is no file no.eiv."),
        (["d.csv", "d.csv"], "d.csv is not a model file of eiv"),
        (["cut.eiv", "d.csv"], "cut.eiv is damaged"),
        (["body.eiv", "d.csv"], "body.eiv is damaged"),
        (["head.eiv", "d.csv"], "head.eiv is damaged"),
        (["long.eiv", "d.csv"], "long.eiv is damaged: its header would have"),
        (["newer.eiv", "d.csv"], "newer.eiv is of format 2, written by eiv "),
        (["pickle.eiv", "d.csv"], "a pickle, which is not opened because it can run any program"),
        (["m.eiv", "empty.csv"], "empty.csv is empty"),
        (["m.eiv", "header.csv"], "header.csv has a header but no rows"),
        (["m.eiv", "text.csv"], "text.csv, line 3: column 'length' holds 'long'"),
        (["m.eiv", "narrow.csv"], "narrow.csv has no column 'temp_err' (the error of 'temp'; another can be given"),
        (["m.eiv", "narrow.csv", "--x-err", "length=0.2"], "narrow.csv has no column 'temp_err' (the error of 'temp'"),
        (["m.eiv", "negative.csv"], "negative.csv, line 3: column 'temp_err'"),
        (["m.eiv", "missing.csv"], "missing.csv: 1 of 2 rows"),
        (["m.eiv", "mean.csv"], "mean.csv has a column 'mean' already; use --prefix"),
        (["m.eiv", "far.csv"], "far.csv, rows from line 2 on: X: the prediction for 1 of 2 rows is not a finite"),
        (["m.eiv", "d.csv", "--level", "2"], "--level must lie between 0 and 1"),
        (["m.eiv", "d.csv", "--of", "curve"], "--of must be function or label"),
        (["m.eiv", "d.csv", "--x-err", "mass=1"], "'mass' is not a feature"),
        (["m.eiv", "d.csv", "-o", "p.xlsx"], "p.xlsx: a table can be written as .csv"),
        (["m.eiv", "d.csv", "-o", "d.csv", "--force"], "d.csv is an input"),
    ],
)
def test_predict_ends_with_one_sentence(model, run, arguments, message):  # noqa: F811
    for name, text in BAD_TABLES.items():
        (model / name).write_text(text)
    whole = (model / "m.eiv").read_bytes()
    (model / "cut.eiv").write_bytes(whole[:-100])
    (model / "body.eiv").write_bytes(whole[:-50] + bytes([whole[-50] ^ 1]) + whole[-49:])
    (model / "head.eiv").write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
    (model / "long.eiv").write_bytes(b"\xff" * 8 + whole[8:])
    (model / "newer.eiv").write_bytes(forged(whole, lambda inner, header: inner.update(format=2)))
    (model / "pickle.eiv").write_bytes(pickle.dumps(np.zeros(3)))
    before = sorted(model.iterdir())
    status, out, err = run("predict", *arguments, *([] if "-o" in arguments else ["-o", "p.csv"]))
    assert status == 2
    assert message in err
    assert "Traceback" not in out + err
    assert sorted(model.iterdir()) == before
    if arguments[0] not in ("m.eiv", "no.eiv"):
        assert run("info", arguments[0])[0] == 2


def test_outputs_are_not_replaced_unasked(model, run):  # noqa: F811
    before = (model / "m.eiv").read_bytes()
    status, _, err = run("fit", "d.csv", *FIT, *QUICK, "--seed", "9", "-o", "m.eiv")
    assert status == 2
    assert "m.eiv exists already; use --force" in err
    assert (model / "m.eiv").read_bytes() == before
    assert run("fit", "d.csv", *FIT, *QUICK, "--seed", "9", "-o", "m.eiv", "--force")[0] == 0
    assert (model / "m.eiv").read_bytes() != before
    (model / "p.csv").write_text("mine")
    assert run("predict", "m.eiv", "d.csv", "-o", "p.csv")[0] == 2
    assert (model / "p.csv").read_text() == "mine"
    assert "is a folder" in run("predict", "m.eiv", "d.csv", "-o", ".")[2]


def test_prefix(model, run):  # noqa: F811
    (model / "mean.csv").write_text(BAD_TABLES["mean.csv"])
    assert run("predict", "m.eiv", "mean.csv", "-o", "p.csv", "--prefix", "eiv_")[0] == 0
    assert list(pd.read_csv("p.csv"))[3:6] == ["mean", "eiv_mean", "eiv_std"]


@pytest.mark.parametrize(
    ("aleatoric", "words"), [(0.01, "hardly matter"), (0.3, "matter here"), (2.0, "matter a lot here")]
)
def test_verdict(aleatoric, words):
    scores = {"aleatoric": aleatoric, "epistemic": 0.1, "total": float(np.hypot(1, aleatoric))}
    assert words in verdict(scores, "these rows", exact=False)
    assert "(these rows)" in verdict(scores, "these rows", exact=False)


def test_verdict_on_a_constant_curve():
    scores = {"aleatoric": 0.0, "epistemic": 0.0, "total": 1.0}
    words = "The input errors do not matter here: the predicted curve is constant (these rows)."
    assert verdict(scores, "these rows", exact=False) == words


@pytest.mark.parametrize("kind", ["fit", "predict"])
def test_interrupted(model, kind):
    before = (model / "m.eiv").read_bytes()
    if kind == "fit":
        arguments = ("fit", "d.csv", *FIT, "--set", "epochs=1000000", "-o", "m.eiv", "--force")
        kept = "m.eiv is as it was before"
    else:
        large(1000)
        arguments = ("predict", "m.eiv", "large.csv", "-o", "p.csv")
        kept = "p.csv was not written"
    with command(*arguments) as process:
        if kind == "fit":
            process.stdout.readline()  # it has said what it understood
        else:
            wait_for(model, ".*.eiv-part")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert kept in err
    assert "Traceback" not in err
    assert (model / "m.eiv").read_bytes() == before
    assert {path.name for path in model.iterdir()} <= {"d.csv", "m.eiv", "large.csv"}


def large(times):
    """A table of that many thousand rows."""
    head, *lines = rows(1000).to_csv(index=False).splitlines(keepends=True)
    Path("large.csv").write_text(head + times * "".join(lines))


def wait_for(folder, pattern):
    deadline = time.monotonic() + 60
    while not list(folder.glob(pattern)) and time.monotonic() < deadline:
        time.sleep(0.05)


READS_OPTIONS = """
import time
from eiv.cli import main, options
def read(*_):
    print("reading", flush=True)
    time.sleep(60)
options.FitOptions.of = read
main()
"""


def test_interrupted_before_anything_is_read(folder):
    with command("fit", "d.csv", "-o", "m.eiv", code=READS_OPTIONS) as process:
        assert process.stdout.readline() == "reading\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted: m.eiv was not written, nothing else is left.\n")


@pytest.mark.timeout(30)
def test_a_named_pipe_with_options_is_not_waited_for(folder, run):  # noqa: F811
    os.mkfifo("fit.toml")
    status, _, err = run("fit", "d.csv", "--config", "fit.toml", "-o", "m.eiv")
    assert (status, err) == (2, "error: fit.toml is not a plain file.\n")


def test_an_interrupted_study_keeps_what_is_finished(folder):
    few = ("--data-sets", "linear", "--families", "bernoulli_dropout,mean_field,swag", "--networks", "1")
    with command("study", "posteriors", *few, "--epochs-share", "0.05", "--out", "s") as process:
        wait_for(folder, "s/stacks/*.json")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("interrupted: finished units are kept in s, and the same command continues there.\n")
    assert "Traceback" not in err
    assert not list(folder.glob("s/*.csv"))
    assert list(folder.glob("s/stacks/*.json"))


def test_too_little_memory_is_one_sentence(folder, run, monkeypatch):  # noqa: F811
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))

    wide = ("--set", "hidden_units=50000")  # ten gigabytes for one layer
    status, _, err = ended(
        sys.executable, "-c", MAIN, "fit", "d.csv", *FIT, *QUICK, *wide, "-o", "m.eiv", first=limited
    )
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("error: There is not enough memory")
    assert not (folder / "m.eiv").exists()

    def fail(*args):
        raise RuntimeError("a shape is wrong")

    monkeypatch.setattr("eiv.io.modelfile.models.checked_header", fail)
    with pytest.raises(RuntimeError, match="shape"):
        run("info", "m.eiv")


@pytest.mark.parametrize(
    ("kind", "target"), [("fit", "m.eiv"), *(("predict", name) for name in ("p.csv", "p.parquet", "p.csv.gz"))]
)
def test_a_limit_on_the_size_of_files(model, run, kind, target):  # noqa: F811
    """The write fails half way, as it does where a quota is used up."""
    large(10)
    before = (model / "m.eiv").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
        status, _, err = run(*full_disk(kind, target))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert status == 2, err
    kept = "it is as it was before" if target == "m.eiv" else "nothing is left of it"
    assert err == f"error: {target} could not be written, {kept}: File too large.\n"
    assert sorted(path.name for path in model.iterdir()) == ["d.csv", "large.csv", "m.eiv"]
    assert (model / "m.eiv").read_bytes() == before


def full_disk(kind, target):
    """A command that writes more than there is room for."""
    if kind == "predict":
        return ["predict", "m.eiv", "large.csv", "-o", target]
    return ["fit", "d.csv", *FIT, *QUICK, "--set", "hidden_units=100", "--holdout", "0", "-o", target, "--force"]


MOUNT = ["unshare", "--map-root-user", "--mount", "sh", "-c"]


def can_mount():
    """Whether a process may mount a disk of its own."""
    try:
        return ended(*MOUNT, "mount -t tmpfs none /mnt")[0] == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_mount(), reason="mounting a small disk is not allowed here")
def test_full_disk(model):
    """A disk of 64 kB in memory, which only the commands and the listing after them see."""
    large(10)
    (model / "disk").mkdir()
    outputs = {"fit": "disk/n.eiv", "predict": "disk/p.csv"}
    code = f"""
        import sys
        from eiv.cli import main
        for arguments in {[full_disk(*item) for item in outputs.items()]}:
            sys.argv = ["eiv", *arguments]
            try:
                main()
            except SystemExit as end:
                print("status", end.code)
    """
    script = """mount -t tmpfs -o size=64k none disk; "$@"; ls -A disk"""
    status, out, err = ended(*MOUNT, script, "sh", sys.executable, "-c", textwrap.dedent(code))
    assert err.splitlines() == [
        f"error: {name} could not be written, nothing is left of it: No space left on device."
        for name in outputs.values()
    ]
    assert re.findall("^status .*", out, re.MULTILINE) == ["status 2", "status 2"]
    assert out.endswith("status 2\n"), "the disk is empty"
    assert status == 0
