"""`eiv fit`: what it understood, what came out, and the sentence where it cannot."""

import hashlib
import itertools
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from commands import BAD_TABLES, FIT, QUICK, rows
from eiv import EiVRegressor, fit_splits
from eiv.cli import data
from eiv.io.modelfile import read_header


def test_fit_says_what_it_understood_and_what_came_out(folder, run):
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


def test_a_long_fit_says_how_long_it_will_take(folder, run, monkeypatch):
    """Once, where no bar is shown; the clock of the test makes a minute of each look at it."""
    clock = SimpleNamespace(monotonic=itertools.count(step=60).__next__, perf_counter=time.perf_counter)
    monkeypatch.setattr("eiv.cli.fit.time", clock)
    status, out, err = run("fit", "d.csv", *FIT, *QUICK, "-o", "m.eiv")
    assert (status, err) == (0, "")
    ((share, left),) = re.findall(r"Learning: ([\d.]+) % done after 120 s, about (\d+:\d\d:\d\d) h to go\.", out)
    hours, minutes, seconds = map(int, left.split(":"))
    assert 3600 * hours + 60 * minutes + seconds == pytest.approx(120 * (100 / float(share) - 1), rel=0.05, abs=1)


def test_a_wide_table_is_shown_in_short(folder, run, monkeypatch):
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


def test_weights_are_a_column(folder, run):
    table = rows().assign(n=np.arange(80) % 3)
    table.to_csv("w.csv", index=False)
    status, out, _ = run("fit", "w.csv", *FIT, *QUICK, "--weights", "n", "--holdout", "0", "-o", "w.eiv")
    assert status == 0
    words = " ".join(out.replace("│", " ").split())
    assert "53 rows; 27 left out, with a weight of 0; their weights add up to 79" in words
    assert "Rows: 80 read, 53 learned from, 27 left out." in words
    assert "n weights of the rows" in words
    assert read_header("w.eiv")["notes"]["weights"] == {"column": "n", "sum": 79.0}
    assert "column n, 79 in all" in " ".join(run("info", "w.eiv")[1].replace("│", " ").split())
    kept = table[table["n"] > 0]
    settings = {"recipe": "paper", "epochs": 3, "hidden_units": 8, "n_theta": 10, "random_state": 0}
    errors = np.column_stack([np.full(53, 0.1), kept["temp_err"]])
    (by_hand,) = fit_splits(
        EiVRegressor(**settings),
        kept[["length", "temp"]],
        kept["mass"],
        [range(53)],
        errors,
        None,
        kept["n"].to_numpy(),
    )
    new = table[["length", "temp"]][:5]
    found = EiVRegressor.load("w.eiv").predict(new, X_err=errors[:5])
    np.testing.assert_allclose(found, by_hand.predict(new, X_err=errors[:5]), rtol=1e-6)


def test_shares_of_a_spread_are_of_that_by_weight(folder, run):
    table = rows().assign(n=np.arange(80) % 3)
    table.to_csv("w.csv", index=False)
    given = ("--target", "mass", "--drop", "id", "--drop", "batch", "--x-err", "length=5%sd", "--weights", "n")
    assert run("fit", "w.csv", *given, *QUICK, "--holdout", "0", "-o", "s.eiv")[0] == 0
    repeated = table.loc[table.index.repeat(table["n"])]
    notes = read_header("s.eiv")["notes"]
    assert notes["spreads"]["length"] == pytest.approx(repeated["length"].std(ddof=0))
    assert notes["target_spread"] == pytest.approx(repeated["mass"].std(ddof=0))
    assert EiVRegressor.load("s.eiv").x_err_[0] == pytest.approx(0.05 * repeated["length"].std(ddof=0))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (np.r_[-1.0, np.ones(79)], "w.csv, --weights n: must hold finite numbers of at least 0"),
        (np.zeros(80), "w.csv, --weights n: all weights are zero"),
        (np.full(80, 0.01), "count as 0.8 rows in all"),
        (np.r_[np.nan, np.ones(79)], "column 'n': 1 missing"),
    ],
)
def test_bad_weights_are_one_sentence(folder, run, column, words):
    rows().assign(n=column).to_csv("w.csv", index=False)
    status, _, complaint = run("fit", "w.csv", *FIT, *QUICK, "--weights", "n", "-o", "w.eiv")
    assert status == 2
    assert words in " ".join(complaint.split())


def test_weights_are_no_feature_and_not_the_target(folder, run):
    for more, words in (
        (("--weights", "mass"), "is the target"),
        (("--weights", "no"), "no"),
        (("--weights", "temp", "--feature", "temp"), "at once"),
    ):
        status, _, complaint = run("fit", "d.csv", *FIT, *QUICK, *more, "-o", "x.eiv")
        assert status == 2
        assert words in " ".join(complaint.split())


def test_how_labels_scatter_is_an_option_and_is_said(folder, run):
    quick = (*QUICK, "--set", "y_noise=likelihood")
    status, out, _ = run("fit", "d.csv", *FIT, *quick, "--likelihood", "student_t", "-o", "t.eiv")
    assert status == 0
    assert "Labels scatter about the curve by Student's t with scale" in " ".join(out.split())
    assert "degrees of freedom" in " ".join(run("info", "t.eiv")[1].replace("│", " ").split())
    Path("o.toml").write_text('likelihood = "student_t"\n')
    assert run("fit", "d.csv", *FIT, *quick, "--config", "o.toml", "-o", "u.eiv")[0] == 0
    assert read_header("u.eiv")["settings"]["likelihood"] == "student_t"
    status, out, _ = run("fit", "d.csv", *FIT, *quick, "--likelihood", "varying", "--set", "held_out=0", "-o", "w.eiv")
    assert status == 0
    reason = "normal noise that is the same everywhere, since it takes 20 held-out rows to tell another from it"
    assert f"Likelihood: {reason}" in " ".join(out.split())
    assert reason in " ".join(run("info", "w.eiv")[1].replace("│", " ").split())
    status, _, complaint = run("fit", "d.csv", *FIT, *QUICK, "--likelihood", "cauchy", "-o", "v.eiv")
    assert status == 2
    assert "--likelihood must be one of normal, student_t, varying, auto" in " ".join(complaint.split())


@pytest.mark.parametrize("separator", [";", ","])
def test_decimal_commas_go_in_and_out(folder, run, separator):
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


def test_missing_values_at_fit_and_predict(folder, run):
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


def test_options_from_a_file_the_command_line_first(folder, run):
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


def test_errors_of_the_command_line_replace_those_of_the_file_column_by_column(folder, run):
    (folder / "fit.toml").write_text(
        '\ufefftarget = "mass"\ndrop = ["id", "batch"]\n[x_err]\nlength = 0.1\ntemp = "temp_err"\n', encoding="utf-8"
    )
    for given, expected in (
        (["length=0.2"], {"length": ("absolute", 0.2), "temp": ("column", 0)}),
        (["temp=0.3"], {"length": ("absolute", 0.1), "temp": ("absolute", 0.3)}),
        (["temp=0.3", "0.4"], {"length": ("absolute", 0.4), "temp": ("absolute", 0.3)}),
    ):
        options = [part for text in given for part in ("--x-err", text)]
        assert run("fit", "d.csv", "--config", "fit.toml", *options, *QUICK, "-o", "m.eiv", "--force")[0] == 0
        header = read_header("m.eiv")
        assert {name: (term["kind"], term["number"]) for name, term in header["notes"]["x_err"].items()} == expected
        assert header["features"]["names"] == ["length", "temp"], "a column of errors is no feature"


def test_the_same_command_gives_the_same_bytes(folder, run):
    for name in ("a.eiv", "b.eiv"):
        assert run("fit", "d.csv", *FIT, *QUICK, "-o", name)[0] == 0
    assert (folder / "a.eiv").read_bytes() == (folder / "b.eiv").read_bytes()


def test_without_hold_out_or_without_learning_again(folder, run):
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


@pytest.mark.parametrize(
    "options",
    [
        ("--drop", "temp,batch", "--drop", "a,b"),
        ("--drop", "temp, batch", "--drop", "id", "--drop", "a,b"),
        ("--feature", "length,temp_err"),
    ],
)
def test_names_stand_one_by_one_or_with_commas_between(folder, run, options):
    table = rows().drop(columns="id") if "id" not in options else rows()
    table.assign(**{"a,b": 1.0}).to_csv("t.csv", index=False)  # a name of its own
    assert run("fit", "t.csv", "--target", "mass", *options, *QUICK, "-o", "d.eiv")[0] == 0
    assert read_header("d.eiv")["features"]["names"] == ["length", "temp_err"]


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
        (
            ["text.csv", *FIT],
            "text.csv, line 3: column 'length' holds 'long', not a number. Leave the column out with --drop length.\n",
        ),
        (["double.csv", *FIT], "double.csv: several columns have the name 'length'"),
        (["negative.csv", *FIT], "'temp_err' holds -0.1, but an error must not be negative (1 such row)."),
        (["missing.csv", *FIT], "missing.csv: 1 of 2 rows hold missing or infinite values (column 'temp': 1 missing"),
        (["ragged.csv", *FIT], "ragged.csv, line 3: 2 cells where the header has 6 columns"),
        (["d.csv", *FIT, "--target", "weight"], "d.csv has no column 'weight' (--target)"),
        (["d.csv", *FIT, "--drop", "weight"], "d.csv has no column 'weight' (--drop)"),
        (["d.csv", *FIT, "--drop", "temp,weight"], "d.csv has no column 'weight' (--drop)"),
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
def test_fit_ends_with_one_sentence(folder, run, arguments, message):
    for name, text in BAD_TABLES.items():
        (folder / name).write_text(text)
    before = sorted(folder.iterdir())
    status, out, err = run("fit", *arguments, *([] if "-o" in arguments else ["-o", "m.eiv"]))
    assert status == 2
    assert message in err
    assert "Traceback" not in out + err
    assert sorted(folder.iterdir()) == before


@pytest.mark.timeout(30)
def test_a_named_pipe_with_options_is_not_waited_for(folder, run):
    os.mkfifo("fit.toml")
    status, _, err = run("fit", "d.csv", "--config", "fit.toml", "-o", "m.eiv")
    assert (status, err) == (2, "error: fit.toml is not a plain file.\n")


QUOTED_PART = r"""'a' . "b\"" ."""
LONG_KEY = f"{'a.' * 100_000}a"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--set", "y_noise_every=1000001"],
            "y_noise_every must be a whole number of at least 1 and at most 1,000,000,",
        ),
        (["--set", "n_theta=200000"], "n_theta must be a whole number of at least 2 and at most 100,000, got 200000."),
        (["--set", "n_hidden=12345678901234567890"], "n_hidden must be a whole number of at least 1 and at most 100,"),
        (["--set", "n_networks=100000"], "n_networks must be a whole number of at least 1 and at most 1,000, got"),
        (["--set", "epochs=99999999"], "epochs must be a whole number of at least 1 and at most 1,000,000, got"),
        (["--set", "n_theta=100000", "--set", "n_zeta=10000"], "n_theta x n_zeta must be at most 1,000,000, got"),
        (["--set", f"epochs={'9' * 5000}"], "epochs must be a whole number of at least 1"),
        (["--set", f"epochs={'[' * 5000}"], "epochs must be a whole number of at least 1"),
        (["--set", "batch_size=99999999999999999999"], "batch_size must be a whole number of at least 1 and at most"),
        (
            ["--set", "hidden_units=100001"],
            "hidden_units must be a whole number of at least 1 and at most 100,000",
        ),
        (["--seed", "4294967296"], "--seed must be a whole number from 0 to 4,294,967,295, got 4294967296."),
        (["--config", "/dev/zero"], "/dev/zero is not a plain file."),
        (["--config", "large.toml"], "large.toml is not a file of options: it has more than 1 MiB, the limit."),
        (["--config", "deep.toml"], "deep.toml is not a TOML file of options: its brackets are nested too deeply."),
        (["--config", "dots.toml"], "dots.toml is not a TOML file: a key has more than 10 parts, the limit."),
        (["--config", "quotes.toml"], "quotes.toml is not a TOML file: a key has more than 10 parts, the limit."),
        (["--config", "table.toml"], "table.toml is not a TOML file: a key has more than 10 parts, the limit."),
        (["--set", f"epochs={{{'a.' * 10}a = 1}}"], "at most 1,000,000, got '{a.a."),
        (["--config", "."], ". cannot be read: Is a directory."),
        (["--config", "twice.toml"], "twice.toml: drop-missing and drop_missing are the same option; give one of them"),
        (["--holdout", "0.99"], "--holdout 0.99 leaves none of 80 rows to learn from; give less."),
        (["--holdout", "0.98"], "--holdout 0.98 leaves one of 80 rows to learn from; give less."),
        (["--set", "learning_rate=1e300"], "learning_rate must be at most 3.4e+38, got 1e+300."),
        (["--holdout", "0.9", "--groups", "batch"], "--holdout 0.9 leaves none of 6 groups to learn from; give less."),
    ],
)
def test_what_is_checked_before_the_work(folder, run, monkeypatch, arguments, message):
    monkeypatch.setattr("eiv.fit_splits", lambda *args, **kwargs: pytest.fail("it has begun to learn"))
    Path("deep.toml").write_text(f"target = {'[' * 5000}")
    Path("dots.toml").write_text(f"[{LONG_KEY}]")
    Path("table.toml").write_text(f'settings = {{b = """text"""", {LONG_KEY} = 1}}')
    Path("quotes.toml").write_text(f"{QUOTED_PART * 50_000}a = 1")
    Path("large.toml").write_text("#" * (2**20 + 1))
    Path("twice.toml").write_text("drop-missing = true\ndrop_missing = false\n")
    drop = ("--drop", "id") if "--groups" in arguments else ("--drop", "id", "--drop", "batch")
    status, _, err = run("fit", "d.csv", "--target", "mass", *drop, *arguments, "-o", "m.eiv")
    assert status == 2
    assert err.startswith("error: ")
    assert message in err
    assert not Path("m.eiv").exists()


def test_dots_that_part_no_keys(folder, run):
    many = ", ".join(f"{i}.5" for i in range(30))
    Path("fit.toml").write_text(f"""drop = ['{"id." * 30}'] # {"a." * 30}\nsettings.hidden_units = [{many}]\n""")
    _, _, err = run("fit", "d.csv", "--target", "mass", "--config", "fit.toml", "-o", "m.eiv")
    assert err.startswith("error: hidden_units must be a whole number")


@pytest.mark.parametrize("value", [1e200, 1e-200, 8e307])
@pytest.mark.parametrize("column", ["mass", "length"])
@pytest.mark.parametrize("error", [[], ["--x-err", "length=5%sd", "--y-err", "5%sd"]])
def test_numbers_whose_squares_are_none(folder, run, value, column, error):
    table = rows()
    table[column] *= value
    table.to_csv("d.csv", index=False)
    status, _, err = run("fit", "d.csv", "--target", "mass", "--feature", "length", *error, *QUICK, "-o", "m.eiv")
    name = "y: the values reach" if column == "mass" else "X: the values in column 'length' reach"
    assert status == 2
    assert err.startswith(f"error: {name}"), "and no warning before"
    assert err.endswith("their spread cannot be computed; give them in another unit.\n")


def test_a_large_table_is_fitted_piece_by_piece(folder, run, monkeypatch):
    from eiv.cli import largefit  # noqa: PLC0415  (needs an extra)
    from eiv.regressor import fromfile  # noqa: PLC0415

    table = rows(400)
    table.to_parquet("big.parquet")
    monkeypatch.setattr(largefit, "LARGE", 300)
    monkeypatch.setattr(largefit, "_SCORED", 50)
    monkeypatch.setattr(fromfile, "AT_ONCE", 300)
    status, out, err = run("fit", "big.parquet", *FIT, *QUICK, "-o", "big.eiv")
    assert (status, err) == (0, "")
    assert "big.parquet: 400 rows, which are read piece by piece; 50 of them:" in out
    assert "On 50 rows that were held out" in out
    held_out = np.sort(np.random.default_rng(0).choice(400, 50, replace=False))
    model = EiVRegressor.load("big.eiv")
    learned, columns = table.drop(held_out), ["length", "temp", "temp_err"]
    same = EiVRegressor(
        {"length": 0.1, "temp": "temp_err"}, recipe="paper", epochs=3, hidden_units=8, n_theta=10, random_state=0
    ).fit(learned[columns], learned["mass"])
    assert np.array_equal(model.predict(table[columns]), same.predict(table[columns]))
    assert run("predict", "big.eiv", "big.parquet", "-o", "o.csv")[0] == 0
    assert not list(folder.glob("*.eiv-cache"))
    status, out, _ = run("fit", "big.parquet", *FIT[:-1], "temp=2%", *QUICK, "-o", "memory.eiv")
    assert status == 0
    assert "piece by piece" not in out  # errors that need all rows
