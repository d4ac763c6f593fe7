"""`eiv compare`: scores, a sentence and a figure; interrupted runs continue."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import eiv
from commands import rows
from eiv.experiments import comparisons

TABLE = ("--target", "mass", "--drop", "id", "--drop", "batch", "--x-err", "length=0.1", "--x-err", "temp=temp_err")
METHODS = ("--methods", "least_squares,calibrated_plane", "--methods", "york_line", "--folds", "3")


def test_scores_sentence_and_figure(folder, run):
    status, out, err = run("compare", "d.csv", *TABLE, *METHODS, "-o", "c")
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert "d.csv: 80 rows, 3 folds. Features with their errors: length (0.1), temp (column temp_err)." in words
    assert "Skipped: york_line (it takes one column, and the table has 2)." in words
    table, found = rows(), pd.read_csv("c/compare.csv", index_col="method")
    errors = np.column_stack([np.full(80, 0.1), table["temp_err"]])
    direct = eiv.compare(
        table[["length", "temp"]], table["mass"], errors, methods=["least_squares", "calibrated_plane"], n_folds=3
    )
    expected = direct.to_frame()
    pd.testing.assert_frame_equal(
        found.drop(columns="seconds"), expected.drop(columns="seconds"), check_dtype=False, rtol=1e-5
    )
    assert direct.sentence.partition("Take")[0].strip() in Path("c/compare.txt").read_text()
    assert direct.sentence.partition("CPU")[0][:60] in words
    assert {"compare.svg", "compare.png", "compare.csv", "compare.txt"} < {path.name for path in Path("c").iterdir()}


def test_laws_of_data_sheets_are_taken(folder, run):
    status, out, err = run("compare", "d.csv", *TABLE[:-2], "--x-err", "temp=±0.7", *METHODS, "-o", "c")
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert "temp (limits ±0.7, all between equally likely)" in words
    assert "eiv takes the laws of the errors as they are, the others by mean and standard deviation." in words
    assert list(pd.read_csv("c/compare.csv")["method"].sort_values()) == ["calibrated_plane", "least_squares"]


def test_missing_readings_are_compared_on_by_ours(folder, run):
    rows().assign(temp=lambda t: t["temp"].where(t["temp"].index % 9 > 0)).to_csv("g.csv", index=False)
    quick = ("--recipe", "paper", "--set", "epochs=2", "--set", "hidden_units=8", "--set", "n_theta=4")
    gaps = ("--set", "missing=integrate", "--set", "input_prior=normal", "--methods", "eiv,least_squares")
    status, out, err = run("compare", "g.csv", *TABLE, *quick, *gaps, "--folds", "2", "-o", "c")
    assert (status, err) == (0, "")
    assert "Skipped: least_squares (it takes no missing readings)." in " ".join(out.split())


def test_ours_takes_the_options_of_fit(folder, run):
    Path("o.toml").write_text('target = "mass"\ndrop = ["id", "batch"]\nrecipe = "paper"\n[x_err]\ntemp = "temp_err"\n')
    quick = ("--set", "epochs=2", "--set", "hidden_units=8", "--set", "n_theta=4")
    choice = ("--methods", "eiv", "--folds", "2", "--seed", "3")
    assert run("compare", "d.csv", "--config", "o.toml", *quick, *choice, "-o", "c")[0] == 0
    table, model = rows(), eiv.EiVRegressor(recipe="paper", epochs=2, hidden_units=8, n_theta=4, random_state=3)
    errors = np.column_stack([np.zeros(80), table["temp_err"]])
    direct = eiv.compare(table[["length", "temp"]], table["mass"], errors, methods=["eiv"], n_folds=2, model=model)
    found = pd.read_csv("c/compare.csv", index_col="method")
    assert found.loc["eiv", "crps"] == pytest.approx(direct.to_frame().loc["eiv", "crps"], rel=1e-5)


def test_a_part_of_the_rows_and_groups(folder, run):
    status, out, _ = run(
        "compare", "d.csv", "--target", "mass", "--drop", "id", "--groups", "batch", "--x-err", "temp=temp_err",
        "--methods", "least_squares", "--folds", "2", "--most-rows", "50", "-o", "c",
    )  # fmt: skip
    assert status == 0
    assert "50 of 80 rows, 2 folds" in " ".join(out.split())


def test_an_interrupted_run_continues(folder, run, monkeypatch):
    ran, fold = [], comparisons.run_fold

    def counted(method, *arguments, **options):
        if len(ran) == 4:
            raise KeyboardInterrupt
        ran.append(method)
        return fold(method, *arguments, **options)

    monkeypatch.setattr(comparisons, "run_fold", counted)
    status, _, err = run("compare", "d.csv", *TABLE, *METHODS, "-o", "c")
    assert status == 130
    assert "finished units are kept in c" in " ".join(err.split())
    monkeypatch.setattr(comparisons, "run_fold", lambda *a, **k: (ran.append(a[0]), fold(*a, **k))[1])
    assert run("compare", "d.csv", *TABLE, *METHODS, "-o", "c")[0] == 0
    assert ran == [*["least_squares"] * 3, *["calibrated_plane"] * 3]


def test_results_of_another_table_are_not_mixed_in(folder, run):
    assert run("compare", "d.csv", *TABLE, *METHODS, "-o", "c")[0] == 0
    status, _, err = run("compare", "d.csv", *TABLE, *METHODS, "--seed", "1", "-o", "c")
    assert status == 2
    assert "Choose another folder" in " ".join(err.split())
    assert run("compare", "d.csv", *TABLE, *METHODS, "--seed", "1", "--restart", "-o", "c")[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--target is missing"),
        ((*TABLE, "--methods", "odr"), "methods must be among 'eiv', "),
        ((*TABLE, "--folds", "90"), "--folds 90: there are 80 rows or groups"),
    ],
)
def test_what_is_wrong_is_one_sentence(folder, run, options, words):
    status, _, err = run("compare", "d.csv", *options)
    assert status == 2
    assert words in " ".join(err.split())
    assert not Path("compare").exists()


def test_classes_are_refused(folder, run):
    rows().assign(kind=["good", "bad"] * 40).to_csv("k.csv", index=False)
    status, _, err = run("compare", "k.csv", "--target", "kind", "--drop", "id")
    assert status == 2
    assert "'kind' holds classes; eiv compare is for numbers" in " ".join(err.split())
