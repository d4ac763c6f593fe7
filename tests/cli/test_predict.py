"""`eiv predict`: its numbers are those of the library, in whole and in pieces."""

import pickle

import numpy as np
import pandas as pd
import pytest

from commands import BAD_TABLES, rows
from eiv import EiVRegressor
from eiv.io.tables import reading
from forging import forged

PARTS = ["mean", "std", "epistemic", "aleatoric", "noise", "total", "low", "high", "likeness", "unlike"]


def test_predictions_are_those_of_the_library(model, run):
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


def test_predict_in_pieces_is_the_same(model, run, monkeypatch):
    assert run("predict", "m.eiv", "d.csv", "-o", "whole.csv")[0] == 0
    monkeypatch.setattr(reading, "_BLOCK", 300)
    assert run("predict", "m.eiv", "d.csv", "-o", "pieces.csv")[0] == 0
    whole, pieces = pd.read_csv("whole.csv"), pd.read_csv("pieces.csv")
    pd.testing.assert_frame_equal(whole, pieces, rtol=1e-4)


def test_errors_other_than_those_of_the_fit(model, run):
    assert run("predict", "m.eiv", "d.csv", "-o", "a.csv")[0] == 0
    assert run("predict", "m.eiv", "d.csv", "-o", "b.csv", "--x-err", "0")[0] == 0
    assert run("predict", "m.eiv", "d.csv", "-o", "c.csv", "--x-err", "50%sd", "--of", "label")[0] == 0
    a, b, c = (pd.read_csv(name) for name in ("a.csv", "b.csv", "c.csv"))
    assert (b["aleatoric"] == 0).all()
    assert c["aleatoric"].mean() > a["aleatoric"].mean() > 0
    np.testing.assert_allclose(c["high"] - c["mean"], 1.959964 * c["total"], rtol=1e-6)
    assert run("predict", "m.eiv", "d.csv", "-o", "e.csv", "--x-err", "length=0.1")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv("e.csv"), a)  # temp keeps its column


def test_missing_values_are_counted_over_the_whole_table(model, run, monkeypatch):
    table = rows()
    table.loc[[50, 78], "length"], table.loc[78, "temp"] = np.nan, np.inf
    table.to_csv("h.csv", index=False)
    monkeypatch.setattr(reading, "_BLOCK", 300)  # bytes: several rows before, between and after them
    status, _, err = run("predict", "m.eiv", "h.csv", "-o", "p.csv")
    assert status == 2
    assert "h.csv: 2 of 80 rows hold missing or infinite values (column 'length': 2 missing, first in line 52; " in err
    assert "column 'temp': 1 infinite, first in line 80)" in err


def test_a_model_that_was_saved_from_python(folder, run):
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
def test_predict_ends_with_one_sentence(model, run, arguments, message):
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


def test_prefix(model, run):
    (model / "mean.csv").write_text(BAD_TABLES["mean.csv"])
    assert run("predict", "m.eiv", "mean.csv", "-o", "p.csv", "--prefix", "eiv_")[0] == 0
    assert list(pd.read_csv("p.csv"))[3:6] == ["mean", "eiv_mean", "eiv_std"]


def test_rows_whose_squares_are_none(model, run):
    table = rows()
    table.assign(length=1e308).to_csv("far.csv", index=False)
    table.assign(mass=1e200).to_csv("high.csv", index=False)
    table.assign(mass=1e-200).to_csv("low.csv", index=False)
    for arguments in (["predict", "-o", "p.csv"], ["explain", "--row", "1"], ["report", "-o", "p.html"]):
        status, _, err = run(arguments[0], "m.eiv", "far.csv", *arguments[1:])
        assert status == 2
        assert err.startswith("error: "), "and no warning before"
        assert err.endswith("Its values are too far from those of the fit.\n")
    assert run("report", "m.eiv", "high.csv", "-o", "p.html") == (
        2,
        "",
        "error: high.csv: the labels in column 'mass' reach from 1e+200 to 1e+200, and their squares cannot be "
        "computed; give them in the unit of the model.\n",
    )
    assert run("report", "m.eiv", "low.csv", "-o", "p.html")[0] == 0


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_a_level_that_rounds_to_one(model, run, command):
    more = ["--row", "1"] if command == "explain" else ["-o", "p.csv"]
    status, _, err = run(command, "m.eiv", "d.csv", *more, "--level", "0.9999999999999999")
    assert (status, err.startswith("error: --level must not be so close to 1")) == (2, True)
    assert run(command, "m.eiv", "d.csv", *more, "--level", "0.999999")[0] == 0


def test_formulas_in_cells_are_kept_or_escaped(model, run):
    table = pd.read_csv("d.csv").assign(id="=HYPERLINK(1)")
    table.to_csv("formulas.csv", index=False)
    assert run("predict", "m.eiv", "formulas.csv", "-o", "kept.csv")[0] == 0
    assert run("predict", "m.eiv", "formulas.csv", "-o", "safe.csv", "--escape-formulas")[0] == 0
    kept, safe = pd.read_csv("kept.csv"), pd.read_csv("safe.csv")
    assert set(kept["id"]) == {"=HYPERLINK(1)"}
    assert set(safe["id"]) == {"'=HYPERLINK(1)"}
    pd.testing.assert_frame_equal(safe.drop(columns="id"), kept.drop(columns="id"))


def test_a_model_from_python_finds_the_columns_with_errors(model, run):
    table = pd.read_csv("d.csv")
    columns = ["length", "temp", "temp_err"]
    fitted = EiVRegressor({"temp": "temp_err", "length": 0.1}, epochs=2, recipe="paper", random_state=0)
    fitted.fit(table[columns], table["mass"]).save("own.eiv")
    assert run("predict", "own.eiv", "d.csv", "-o", "own.csv")[0] == 0
    expected = fitted.predict_distribution(table[columns]).to_frame()
    pd.testing.assert_frame_equal(pd.read_csv("own.csv")[PARTS], expected)
    table.drop(columns="temp_err").to_csv("without.csv", index=False)
    status, _, err = run("predict", "own.eiv", "without.csv", "-o", "o.csv")
    assert status == 2
    assert "'temp_err'" in err
    assert run("predict", "own.eiv", "without.csv", "-o", "o.csv", "--x-err", "temp=0.2")[0] == 0
