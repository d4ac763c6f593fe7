"""The notation of data sheets, missing readings and limits of detection on the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from commands import QUICK, rows
from eiv import EiVRegressor, censored, split_normal
from eiv.cli.limits import Limits
from eiv.inputs import NormalLaw, Rectangular
from eiv.io.modelfile import read_header
from eiv.io.tables import ErrorTerm
from eiv.io.tables.reading import TableRows

COLUMNS = ("--target", "mass", "--drop", "id", "--drop", "batch", "--drop", "temp_err")
SMALL = (*QUICK, "--set", "input_prior=normal")
LEARNS = ("--set", "network=cosine", "--set", "hidden_units=4", "--set", "input_prior=normal", "--no-refit")


def said(out):
    """The words of tables, whatever the width of their columns."""
    return " ".join(out.replace("│", " ").split())


def test_errors_are_read_back_in_words_and_kept_for_new_rows(folder, run):
    errors = ("--x-err", "length=±0.2", "--x-err", "temp=0.1 + 2%")
    status, out, err = run("fit", "d.csv", *COLUMNS, *errors, *SMALL, "-o", "m.eiv")
    assert (status, err) == (0, "")
    assert "limits ±0.2, all between equally likely" in said(out)
    assert "0.1 plus 2 % of the true value" in said(out)
    assert read_header("m.eiv")["notes"]["x_err"]["length"] == {"kind": "stated", "number": 0.0, "text": "±0.2"}
    assert "limits ±0.2, all between equally likely" in said(run("info", "m.eiv")[1])
    assert run("predict", "m.eiv", "d.csv", "-o", "p.csv")[0] == 0
    model = EiVRegressor.load("m.eiv")
    table = rows()[["length", "temp"]]
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], model.predict(table), rtol=1e-6)
    status, out, _ = run("explain", "m.eiv", "d.csv", "--row", "3")
    assert status == 0
    assert run("report", "m.eiv", "d.csv", "-o", "r.html")[0] == 0
    status, out, _ = run("predict", "m.eiv", "d.csv", "--x-err", "length=0.3 k=2", "-o", "q.csv")
    assert status == 0
    wanted = model.predict(table, X_err={"length": 0.15, "temp": "0.1 + 2%"})
    np.testing.assert_allclose(pd.read_csv("q.csv")["mean"], wanted, rtol=1e-6)


def test_the_file_of_options_takes_the_same_notation(folder, run):
    Path("e.toml").write_text("[x_err]\nlength = '+0.2 -0.1'\ntemp = '0.4 k=2'\n")
    status, out, _ = run("fit", "d.csv", *COLUMNS, "--config", "e.toml", *SMALL, "-o", "m.eiv")
    assert status == 0
    assert "true value up to 0.2 above or 0.1 below the reading" in said(out)
    assert "0.2 (0.4 at k = 2)" in said(out)
    laws = EiVRegressor.load("m.eiv").model_.laws
    assert (laws[0].minus, laws[0].plus, laws[1].std) == (0.1, 0.2, 0.2)
    status, out, _ = run("fit", "d.csv", *COLUMNS, "--x-err", "0.1 k=2", *SMALL, "-o", "n.eiv")  # for all columns
    assert status == 0
    assert said(out).count("0.05 (0.1 at k = 2)") == 2


@pytest.mark.parametrize("config", [False, True])
def test_an_error_that_is_itself_an_estimate(folder, run, config):
    given = ("--x-err", "length=0.1", "--x-err", "temp=0.2 k=2 dof=50")
    if config:
        Path("e.toml").write_text("[x_err]\nlength = 0.1\ntemp = '0.2 k=2 dof=50'\n")
        given = ("--config", "e.toml")
    status, out, err = run("fit", "d.csv", *COLUMNS, *given, *LEARNS, "-o", "m.eiv")
    assert (status, err) == (0, "")
    assert "0.1 (0.2 at k = 2), itself an estimate with 50 degrees of freedom: its size is learned" in said(out)
    assert "the stated ones, uncertain by" in said(out)
    assert (EiVRegressor.load("m.eiv").x_err_scale_.prior_std > 0).tolist() == [False, True]


@pytest.mark.slow
def test_errors_of_all_columns_can_be_estimates(folder, run):
    given = ("--x-err", "length=0.1 dof=8", "--x-err", "temp=0.2 k=2 dof=50")
    status, out, err = run("fit", "d.csv", *COLUMNS, *given, *LEARNS, "-o", "m.eiv")
    assert (status, err) == (0, "")
    assert "0.1, itself an estimate with 8 degrees of freedom: its size is learned" in said(out)
    model = EiVRegressor.load("m.eiv")
    assert (model.x_err_scale_.prior_std > 0).all()
    assert "itself an estimate with 8 degrees of freedom" in said(run("info", "m.eiv")[1])
    assert run("predict", "m.eiv", "d.csv", "-o", "p.csv")[0] == 0
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], model.predict(rows()[["length", "temp"]]), rtol=1e-6)
    status, _, err = run("predict", "m.eiv", "d.csv", "--x-err", "length=0.2 dof=3", "-o", "q.csv")
    assert status == 2
    assert "--x-err: the size of errors is learned in `eiv fit`; here give the error without dof=" in said(err)
    assert run("predict", "m.eiv", "d.csv", "--x-err", "length=0.2", "-o", "q.csv")[0] == 0


def test_a_column_of_errors_can_be_an_estimate(folder, run):
    status, out, _ = run("fit", "d.csv", *COLUMNS[:-2], "--x-err", "temp=temp_err dof=6", *LEARNS, "-o", "m.eiv")
    assert status == 0
    assert "column temp_err, itself an estimate with 6 degrees of freedom: its size is learned" in said(out)
    sizes = EiVRegressor.load("m.eiv").x_err_scale_
    assert (sizes.prior_std > 0).tolist() == [False, True]


def test_two_columns_hold_minus_and_plus(folder, run):
    table = rows().assign(down=np.linspace(0.1, 0.2, 80).round(3), up=0.3)
    table.to_csv("t.csv", index=False)
    errors = ("--x-err", "length=down,up", "--x-err", "temp=temp_err")
    status, out, _ = run("fit", "t.csv", *COLUMNS[:-2], *errors, *SMALL, "-o", "m.eiv")
    assert status == 0
    assert "columns down (below the reading) and up (above)" in said(out)
    assert "error of length" in said(out)
    assert run("predict", "m.eiv", "t.csv", "-o", "p.csv")[0] == 0
    wanted = EiVRegressor.load("m.eiv").predict(
        table[["length", "temp"]], X_err=[split_normal(table["down"], table["up"]), NormalLaw(table["temp_err"])]
    )
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], wanted, rtol=1e-6)
    assert run("report", "m.eiv", "t.csv", "-o", "r.html")[0] == 0


def test_readings_below_a_limit(folder, run):
    table = rows()
    table["length"] = (table["length"] + 2).round(4).astype(str)
    table.loc[[2, 5], "length"] = ["<1.5", "< 1.2"]
    table.to_csv("t.csv", index=False)
    status, out, _ = run("fit", "t.csv", *COLUMNS, "--x-err", "length=±0.2", *SMALL, "-o", "m.eiv")
    assert status == 0
    assert "limits ±0.2, all between equally likely; 2 readings below a limit, anywhere from 0 to it" in said(out)
    assert run("predict", "m.eiv", "t.csv", "-o", "p.csv")[0] == 0
    written = pd.read_csv("p.csv")
    assert written["length"].tolist() == table["length"].tolist()
    below = np.full(80, np.nan)
    below[[2, 5]] = 1.5, 1.2
    x = pd.DataFrame({"length": pd.to_numeric(table["length"], errors="coerce"), "temp": table["temp"]})
    wanted = EiVRegressor.load("m.eiv").predict(x, X_err=[censored(Rectangular(0.2), below), 0.0])
    np.testing.assert_allclose(written["mean"], wanted, rtol=1e-6)
    assert run("predict", "m.eiv", "t.csv", "-o", "p.parquet")[0] == 0
    assert run("report", "m.eiv", "t.csv", "-o", "r.html")[0] == 0
    status, out, _ = run("explain", "m.eiv", "t.csv", "--row", "3")
    assert status == 0
    assert "length below 1.5 0.433" in said(out)  # 1.5 / sqrt(12)
    assert run("denoise", "m.eiv", "t.csv", "-o", "z.csv", "--without-labels")[0] == 0
    found = pd.read_csv("z.csv").loc[[2, 5]]
    assert found["length_true_low"].min() > -0.2
    assert (found["length_true"] < [1.5, 1.2]).all()


def test_missing_readings_are_integrated_over(folder, run):
    table = rows()
    table.loc[[3, 7], "length"] = np.nan
    table.to_csv("h.csv", index=False)
    fit = ("fit", "h.csv", *COLUMNS, "--x-err", "0.1", *SMALL, "-o", "m.eiv")
    status, _, err = run(*fit)
    assert status == 2
    assert "--set missing=integrate keeps rows with missing readings of features" in " ".join(err.split())
    assert run(*fit[:-1], "n.eiv", "--drop-missing")[0] == 0
    status, out, _ = run(*fit, "--set", "missing=integrate")
    assert status == 0
    assert "80 read" in out
    assert "0 left out" in out
    words = " ".join(out.replace("│", " ").split())
    assert "2 readings missing, integrated over" in words
    assert words.count("missing") == 1  # of the other columns none is said to miss any
    assert run("predict", "m.eiv", "h.csv", "-o", "p.csv")[0] == 0
    written = pd.read_csv("p.csv")
    assert written["mean"].notna().all()
    assert written["aleatoric"][[3, 7]].min() > written["aleatoric"].median()
    assert run("report", "m.eiv", "h.csv", "-o", "r.html")[0] == 0
    status, out, _ = run("explain", "m.eiv", "h.csv", "--row", "4", "--gum", "g.csv")
    assert status == 0
    assert "length missing –" in said(out)
    assert "fitted curve" in out
    budget = pd.read_csv("g.csv", index_col=0)
    assert budget.loc["length", "std"] > 3 * budget.loc["temp", "std"]
    status, _, err = run("explain", "n.eiv", "h.csv", "--row", "4")
    assert status == 2
    assert "column 'length' holds a missing or infinite value" in " ".join(err.split())


def test_a_missing_reading_needs_no_error(folder, run):
    table = rows()
    table["length_err"] = 0.1
    table.loc[[3, 7], ["length", "length_err"]] = np.nan
    table.to_csv("h.csv", index=False)
    fit = (
        "fit",
        "h.csv",
        *COLUMNS,
        "--x-err",
        "length=length_err",
        *SMALL,
        "--set",
        "missing=integrate",
        "-o",
        "m.eiv",
    )
    status, out, _ = run(*fit)
    assert status == 0
    assert "80 learned from" in out
    assert run("predict", "m.eiv", "h.csv", "-o", "p.csv")[0] == 0
    assert pd.read_csv("p.csv")["mean"].notna().all()
    table.loc[5, "length_err"] = np.nan
    table.to_csv("h.csv", index=False)
    status, _, err = run(*fit, "--force")
    assert status == 2
    assert "1 of 80 rows hold missing or infinite values (column 'length_err': 1 missing" in " ".join(err.split())


@pytest.mark.parametrize("errors", [(), ("--x-err", "temp=0.1")])
def test_missing_readings_of_exact_columns_have_true_values(folder, run, errors):
    table = rows()
    table.loc[[3, 7, 60], "length"] = np.nan
    table.to_csv("h.csv", index=False)
    fit = ("fit", "h.csv", *COLUMNS, *errors, *SMALL, "--set", "missing=integrate", "-o", "m.eiv")
    assert run(*fit)[0] == 0
    status, _, err = run("denoise", "m.eiv", "h.csv", "-o", "z.csv")
    assert status == 0
    assert errors or "3 of 80 labels are hardly explained" in err  # in rows that are exact there is nothing to find
    written = pd.read_csv("z.csv")
    found = EiVRegressor.load("m.eiv").true_inputs(table[["length", "temp"]], table["mass"])
    np.testing.assert_allclose(written["length_true"], found.mean[:, 0], rtol=1e-6)
    np.testing.assert_allclose(written["length_true_std"], found.std[:, 0], rtol=1e-6)
    assert (written["length_true_std"][[3, 7, 60]] > 0.1).all()
    assert (written["length_true_std"].drop([3, 7, 60]) == 0).all()
    assert ("temp_true" in written) == bool(errors)
    rows().to_csv("full.csv", index=False)
    status, _, err = run("denoise", "m.eiv", "full.csv", "-o", "y.csv")
    assert (status, "none is missing or below a limit" in " ".join(err.split())) == (
        (0, False) if errors else (2, True)
    )
    assert run("predict", "m.eiv", "full.csv", "-o", "p.csv")[0] == 0  # a table without gaps
    wanted = EiVRegressor.load("m.eiv").predict(rows()[["length", "temp"]])
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--x-err", "length=±"), "--x-err length=±: '±' is not an error; these are: 0.5"),
        (("--x-err", "length=+0.5 +0.2"), "--x-err length=+0.5 +0.2: of two sides one has the sign +"),
        (("--x-err", "length=0.4 k=0"), "k must be above zero, got '0.4 k=0'"),
        (("--x-err", "length=0.1 + 20%"), "x_err['length']: share must be one number of at most 0.1, got 0.2"),
        (("--x-err", "length=0.1 low=few"), "--x-err length=0.1 low=few: low must be one number, got '0.1 low=few'"),
        (("--x-err", "length=0.1 low=2 high=1"), "low = 2 must be below high = 1"),
        (("--x-err", "length=0.1 low=2 dof=8 low=1"), "low must be one number, got '0.1 low=2 dof=8 low=1'"),
        (("--x-err", "length=0.1 low=-0,5 high=3"), "low must be one number, got '0.1 low=-0,5 high=3'"),
        (("--x-err", "length=0.1 dof=2 dof=8"), "dof must be a number of at least 1, got '0.1 dof=2 dof=8'"),
        (("--y-err", "0.1 low=0"), "--y-err 0.1 low=0: the error of the target is a number"),
        (("--x-err", "length=0.1 dof=0"), "--x-err length=0.1 dof=0: dof must be a number of at least 1"),
        (("--x-err", "0.1 dof=few"), "dof must be a number of at least 1, got '0.1 dof=few'"),
        (("--x-err", "0.1 dof=8"), "x_err: the size of errors is learned with network='cosine' only"),
        (("--y-err", "0.1 dof=8"), "--y-err 0.1 dof=8: the error of the target is a number, a percentage or a single"),
        (("--y-err", "±0.1"), "--y-err ±0.1: the error of the target is a number, a percentage or a single column"),
    ],
)
def test_bad_notation_is_refused_with_column_and_text(folder, run, arguments, message):
    status, _, err = run("fit", "d.csv", *COLUMNS, *arguments, *SMALL, "-o", "m.eiv")
    assert status == 2
    assert message in " ".join(err.split())


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("<", "line 4: column 'length' holds '<', a limit without a number"),
        ("> ", "line 4: column 'length' holds '> ', a limit without a number"),
        (
            "<-1",
            "t.csv, line 4: column 'length' holds '<-1', and there are negative readings, so that true values need",
        ),
        ("<0.05", 'need not lie above 0. State the least true value: --x-err "length=ERROR low=VALUE".'),
        (">3", "t.csv, line 4: column 'length' holds '>3', which does not say how far above the true value may lie."),
    ],
)
def test_bad_limits_are_refused(folder, run, cell, message):
    table = rows()
    table["length"] = table["length"].astype(str)
    table.loc[2, "length"] = cell
    table.to_csv("t.csv", index=False)
    status, _, err = run("fit", "t.csv", *COLUMNS, "--x-err", "length=0.1", *SMALL, "-o", "m.eiv")
    assert status == 2
    assert message in " ".join(err.split())


@pytest.mark.parametrize(
    ("cell", "ends", "message"),
    [
        (
            "<0.05",
            "low=1",
            "t.csv, line 7: column 'length' holds '<0.05', but the least true value is 1, which has to be",
        ),
        (
            "<0",
            "high=4",
            "t.csv, line 7: column 'length' holds '<0', but the least true value is 0, which has to be below",
        ),
        (">5", "high=3", "t.csv, line 7: column 'length' holds '>5', but the largest true value is 3, which has to be"),
    ],
)
def test_an_end_on_the_wrong_side_of_a_limit_is_refused_with_its_cell(folder, run, cell, ends, message):
    table = rows()
    table["length"] = table["length"].abs().astype(str)
    table.loc[2, "temp"], table.loc[5, "length"] = np.nan, cell
    table.to_csv("t.csv", index=False)
    error = f"length=0.1 {ends}"
    status, _, err = run("fit", "t.csv", *COLUMNS, "--x-err", error, "--drop-missing", *SMALL, "-o", "m.eiv")
    assert status == 2
    assert message in " ".join(err.split())
    table.loc[5, "temp"] = np.nan  # a row that is left out is not asked
    table.to_csv("t.csv", index=False)
    assert run("fit", "t.csv", *COLUMNS, "--x-err", error, "--drop-missing", *SMALL, "-o", "m.eiv")[0] == 0


def test_the_parts_of_an_error_stand_in_any_order(folder, run):
    said_of = []
    for error in ("0.1 k=2 dof=inf low=-3 high=3", "0.1 high=3, low=-3 k=2", "0.1 low=-3, dof=inf k=2, high=3"):
        status, out, err = run("fit", "d.csv", *COLUMNS, "--x-err", f"length={error}", *SMALL, "-o", "m.eiv", "--force")
        assert status == 0, err
        said_of.append(next(line for line in out.splitlines() if "at k = 2" in line))
    assert len(set(said_of)) == 1
    terms = [ErrorTerm.parse(text, ()) for text in ("0.1 low=-3 high=3 dof=8", "0.1 dof=8 high=3 low=-3")]
    assert terms[0] == terms[1] == ErrorTerm("absolute", 0.1, dof=8.0, low=-3.0, high=3.0)


def test_the_ends_of_what_limits_leave_open_can_be_stated(folder, run):
    table = rows()
    assert table["length"].min() < 0
    table["length"] = table["length"].round(4).astype(str)
    table.loc[[2, 5, 9], "length"] = ["<-0.5", "< 0.1", "> 1.5"]
    table.to_csv("t.csv", index=False)
    ends = "length=±0.2 low=−3 high=4"  # a minus sign as in print
    status, out, _ = run("fit", "t.csv", *COLUMNS, "--x-err", ends, *SMALL, "-o", "m.eiv")
    assert status == 0
    assert "true values from -3 on, true values up to 4" in said(out)
    assert "2 readings below a limit" in said(out)
    low, high = np.full(80, np.nan), np.full(80, np.nan)
    low[[2, 5, 9]], high[[2, 5, 9]] = [-3, -3, 1.5], [-0.5, 0.1, 4]
    x = pd.DataFrame({"length": pd.to_numeric(table["length"], errors="coerce"), "temp": table["temp"]})
    wanted = EiVRegressor.load("m.eiv").predict(x, X_err=[censored(Rectangular(0.2), high, low), 0.0])
    for options in ((), ("--x-err", "length=±0.2")):  # which keeps the ends
        assert run("predict", "m.eiv", "t.csv", *options, "-o", "p.csv", "--force")[0] == 0
        np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], wanted, rtol=1e-6)
    assert "length above 1.5 0.7217" in said(run("explain", "m.eiv", "t.csv", "--row", "10")[1])  # 2.5 / sqrt(12)


def test_limits_in_words():
    cells = TableRows(None, pa.table({"a": ["<0.1", "<0.2", ">1.5", "<0.3"]}))
    term = ErrorTerm("absolute", low=-3.0, high=4.0)
    found = Limits.of(cells, "a", np.array([True, True, True, False]), term, is_signed=True)
    assert found.words() == (
        "2 readings below a limit, anywhere from -3 to it; 1 reading above a limit, anywhere from it to 4"
    )


def test_a_limit_in_new_rows_is_refused_where_the_training_rows_were_negative(model, run):
    table = rows().iloc[:5]
    table["length"] = ["0.5", "<0.05", "0.4", "0.3", "0.2"]
    table.to_csv("n.csv", index=False)
    status, _, err = run("predict", "m.eiv", "n.csv", "-o", "p.csv")
    assert status == 2
    assert "n.csv, line 3: column 'length' holds '<0.05', and there are negative readings" in " ".join(err.split())
    assert run("predict", "m.eiv", "n.csv", "--x-err", "length=0.1 low=-2", "-o", "p.csv")[0] == 0


def test_a_column_without_any_reading_is_refused(folder, run):
    rows().assign(length=np.nan).to_csv("t.csv", index=False)
    status, _, err = run("fit", "t.csv", *COLUMNS, *SMALL, "--set", "missing=integrate", "-o", "m.eiv")
    assert status == 2
    assert "column 'length' holds no reading at all" in " ".join(err.split())
