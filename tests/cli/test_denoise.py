"""`eiv denoise`: its numbers are those of the library, beside the readings."""

import numpy as np
import pandas as pd
import pytest

from commands import FIT, QUICK, rows
from eiv import EiVClassifier, EiVRegressor
from eiv.cli import denoise
from eiv.io.tables import reading

NEW = [f"{name}_true{part}" for name in ("length", "temp") for part in ("", "_std", "_low", "_high")] + ["true_ess"]


def errors_of(table):
    return np.column_stack([np.full(len(table), 0.1), table["temp_err"]])


@pytest.mark.parametrize("labels", [True, False])
def test_columns_are_those_of_the_library(model, run, labels):
    table = pd.read_csv("d.csv")
    found = EiVRegressor.load("m.eiv").true_inputs(
        table[["length", "temp"]], table["mass"] if labels else None, X_err=errors_of(table)
    )
    table.to_parquet("d.parquet")
    for source, target in (("d.csv", "p.csv"), ("d.parquet", "p.parquet"), ("d.csv", "p.parquet")):
        status, out, _ = run(
            "denoise", "m.eiv", source, "-o", target, "--force", *([] if labels else ["--without-labels"])
        )
        assert status == 0
        assert "Rows: 80 read, 80 denoised, 0 left out." in out
        assert ("Labels: mass in 80 rows." if labels else "Labels: none; the true values") in out
        read = (pd.read_parquet if target.endswith("parquet") else pd.read_csv)(target)
        assert list(read) == [*table, *NEW]
        expected = found.to_frame().rename(columns={"ess": "true_ess"})[NEW]
        pd.testing.assert_frame_equal(read[NEW].astype(float), expected, rtol=1e-6)
        assert read["length"].tolist() == table["length"].tolist()


def test_in_pieces_it_is_the_same(model, run, monkeypatch):
    assert run("denoise", "m.eiv", "d.csv", "-o", "whole.csv")[0] == 0
    monkeypatch.setattr(reading, "_BLOCK", 300)
    monkeypatch.setattr(denoise, "_ROWS", 3)
    assert run("denoise", "m.eiv", "d.csv", "-o", "pieces.csv", "--level", "0.95")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv("whole.csv"), pd.read_csv("pieces.csv"), rtol=1e-6)


def test_formulas_in_cells_are_kept_or_escaped(model, run):
    pd.read_csv("d.csv").assign(id="=cmd|x").to_csv("formulas.csv", index=False)
    assert run("denoise", "m.eiv", "formulas.csv", "-o", "kept.csv")[0] == 0
    assert run("denoise", "m.eiv", "formulas.csv", "-o", "safe.csv", "--escape-formulas")[0] == 0
    kept, safe = pd.read_csv("kept.csv"), pd.read_csv("safe.csv")
    assert (set(kept["id"]), set(safe["id"])) == ({"=cmd|x"}, {"'=cmd|x"})
    pd.testing.assert_frame_equal(safe.drop(columns="id"), kept.drop(columns="id"))


def test_missing_labels_and_readings(model, run):
    table = rows()
    table.loc[3, "mass"], table.loc[[50, 78], "length"] = np.nan, np.nan
    table.to_csv("h.csv", index=False)
    status, _, err = run("denoise", "m.eiv", "h.csv", "-o", "p.csv")
    assert status == 2
    assert "h.csv: 2 of 80 rows hold missing or infinite values (column 'length': 2 missing" in err
    status, out, _ = run("denoise", "m.eiv", "h.csv", "-o", "p.csv", "--drop-missing")
    assert status == 0
    assert "Labels: mass in 77 rows." in out
    assert "p.csv: 80 rows, 2 of them without true values" in out
    read, fitted = pd.read_csv("p.csv"), EiVRegressor.load("m.eiv")
    assert read[NEW].isna().all(axis=1).sum() == 2
    alone = fitted.true_inputs(table.loc[[3], ["length", "temp"]], X_err=errors_of(table)[[3]])
    assert read.loc[3, "length_true"] == pytest.approx(alone.mean[0, 0])


def test_other_errors_another_target_a_prefix_and_a_level(model, run):
    table = rows().rename(columns={"mass": "weight"})
    table.to_csv("w.csv", index=False)
    assert "Labels: none" in run("denoise", "m.eiv", "w.csv", "-o", "a.csv")[1]
    arguments = ("--target", "weight", "--prefix", "d_", "--x-err", "temp=0", "--level", "0.5", "--y-err", "0.2")
    status, out, _ = run("denoise", "m.eiv", "w.csv", "-o", "b.csv", *arguments)
    assert status == 0
    assert "Labels: weight in 80 rows with known errors: 0.2 (--y-err)." in out
    read = pd.read_csv("b.csv")
    assert [name for name in read if name.startswith("d_")] == [f"d_{name}" for name in [*NEW[:4], NEW[-1]]]
    fitted = EiVRegressor.load("m.eiv")
    found = fitted.true_inputs(table[["length", "temp"]], table["weight"], X_err=[0.1, 0.0], y_err=0.2)
    np.testing.assert_allclose(read["d_length_true"], found.mean[:, 0], rtol=1e-6)
    np.testing.assert_allclose(read["d_length_true_low"], found.interval(0.5)[0][:, 0], rtol=1e-6)
    status, out, _ = run("denoise", "m.eiv", "d.csv", "-o", "c.csv", "--input-prior", "normal")
    assert status == 0
    assert "Prior of the true inputs: learned from 80 rows of d.csv (normal)." in out


def test_labels_that_nothing_explains_are_counted(model, run):
    table = rows()
    table.loc[4, "mass"] = 1e4
    table.to_csv("wild.csv", index=False)
    status, _, err = run("denoise", "m.eiv", "wild.csv", "-o", "p.csv")
    assert status == 0
    assert "1 of 80 labels are hardly explained by the curve and the readings (first: row 5)" in err


def test_a_model_of_classes(folder, run):
    table = rows()
    table["side"] = np.where(table["mass"] > 0, "high", "low")
    X = table[["length", "temp"]]
    model = EiVClassifier(0.1, epochs=3, n_theta=10, random_state=0).fit(X, table["side"])
    model.save("c.eiv")
    table.loc[2, "side"] = None
    table.to_csv("c.csv", index=False)
    status, out, _ = run("denoise", "c.eiv", "c.csv", "-o", "p.csv", "--target", "side")
    assert status == 0
    assert "Labels: side in 79 rows." in out
    found = model.true_inputs(X[:2], table["side"][:2])
    np.testing.assert_allclose(pd.read_csv("p.csv")["temp_true"][:2], found.mean[:, 1], rtol=1e-6)
    table.loc[5, "side"] = "middle"
    table.to_csv("c.csv", index=False)
    status, _, err = run("denoise", "c.eiv", "c.csv", "-o", "q.csv", "--target", "side")
    assert status == 2
    assert "c.csv: column 'side' holds 'middle', a class that the fit has not seen" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--x-err", "0"), "d.csv: the inputs are taken as exact, and none is missing or below a limit, so"),
        (("--without-labels", "--target", "mass"), "--without-labels leaves no use for --target and --y-err."),
        (("--target", "weight"), "'weight'"),
        (("--level", "2"), "--level must lie between 0 and 1, got 2.0."),
        (("--input-prior", "odd"), "--input-prior must be"),
        (("--y-err", "-1"), "--y-err -1"),
    ],
)
def test_bad_arguments(model, run, arguments, words):
    status, _, err = run("denoise", "m.eiv", "d.csv", "-o", "p.csv", *arguments)
    assert status == 2
    assert words in err
    assert not pd.io.common.file_exists("p.csv")


def test_files_that_are_there_are_kept(model, run):
    rows().assign(length_true=1.0).to_csv("t.csv", index=False)
    status, _, err = run("denoise", "m.eiv", "t.csv", "-o", "p.csv")
    assert status == 2
    assert "t.csv has a column 'length_true' already; use --prefix" in err
    assert run("denoise", "m.eiv", "d.csv", "-o", "p.csv")[0] == 0
    status, _, err = run("denoise", "m.eiv", "d.csv", "-o", "p.csv")
    assert status == 2
    assert "--force" in err
    rows().drop(columns="mass").to_csv("n.csv", index=False)
    status, _, err = run("denoise", "m.eiv", "n.csv", "-o", "q.csv", "--y-err", "0.1")
    assert status == 2
    assert "the table has no labels; --target names their column" in err


def test_labels_whose_known_errors_are_missing_are_warned_of(folder, run):
    table = rows().assign(mass_err=0.1)
    table.to_csv("e.csv", index=False)
    assert run("fit", "e.csv", *FIT, "--y-err", "mass_err", *QUICK, "-o", "y.eiv")[0] == 0
    status, _, err = run("denoise", "y.eiv", "d.csv", "-o", "p.csv")
    assert status == 0
    assert "d.csv: the labels of the fit had known errors. Here they are taken as 0; --y-err gives them." in err
