"""`--y-err`: the known errors of labels, from `eiv fit` to the other commands."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from commands import FIT, QUICK, numbers_after, rows, shown_table, value
from eiv import EiVRegressor
from eiv.io.modelfile import read_header
from eiv.io.tables import reading
from eiv.report.words import number, percent
from forging import forged

SETTINGS = {"epochs": 3, "hidden_units": 8, "n_theta": 10, "random_state": 0, "recipe": "paper"}
LEFT_OUT = "The labels of the fit had known errors ("


def with_errors(n=80):
    """The table of `eiv fit`, with a known error of each label."""
    return rows(n).assign(mass_err=np.random.default_rng(1).uniform(0.1, 0.5, n).round(3))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two tables, of which the second has no column of label errors."""
    with_errors().to_csv(tmp_path / "d.csv", index=False)
    with_errors().drop(columns="mass_err").to_csv(tmp_path / "plain.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fitted(folder, run, fits):
    """A function that fits with `--y-err`: what was printed. The same table and options are fitted once."""

    def fit(y_err, *more):
        given = [] if y_err is None else ["--y-err", y_err]
        options = (*FIT, *given, *QUICK, *more)
        key = (options, *(path.read_bytes() for path in (folder / "d.csv", *folder.glob("*.toml"))))
        if key not in fits:
            status, out, err = run("fit", "d.csv", *options, "-o", "m.eiv", "--force")
            assert (status, err) == (0, "")
            fits[key] = out, (folder / "m.eiv").read_bytes()
        (folder / "m.eiv").write_bytes(fits[key][1])
        return fits[key][0]

    return fit


def predicted(run, table, *options):
    """The written predictions, and what was printed on the two streams."""
    status, out, err = run("predict", "m.eiv", table, *options, "-o", "p.csv", "--force")
    assert status == 0
    return pd.read_csv("p.csv"), out, err


def simulated(n, errors, seed):
    """A straight line whose labels scatter by 0.1 and by a known error on top."""
    random = np.random.default_rng(seed)
    x, known = random.uniform(-1, 1, n), random.uniform(*errors, n)
    y = 2 * x + np.hypot(0.1, known) * random.standard_normal(n)
    return pd.DataFrame({"x": x, "mass_err": known, "mass": y})


def coverage_of(half_width, known):
    """The share of labels within +- half_width of the line, where they scatter by 0.1 and the known error."""
    return float(np.mean(2 * norm.cdf(half_width / np.hypot(0.1, known)) - 1))


@pytest.mark.parametrize(("errors", "y_err"), [((0.1, 0.5), "mass_err"), ((0.3, 0.3), "0.3")])
def test_intervals_of_labels_hold_95_percent_with_their_known_errors(tmp_path, monkeypatch, run, errors, y_err):
    """Bands: what the model adds to the known errors, noise and u, lies between 0 and 0.2; in truth it is 0.1.

    The scatter of 400 labels gives its square as 0.01 with a standard deviation of about 0.1 sqrt(2 / 400) = 0.007, so
    that four of these are allowed for. On top come four standard deviations of a share of 2,000 labels.
    """
    monkeypatch.chdir(tmp_path)
    simulated(400, errors, seed=0).to_csv("fit.csv", index=False)
    new = simulated(2000, errors, seed=1)
    new.to_csv("new.csv", index=False)
    settings = ("--set", "epochs=150", "--set", "hidden_units=16", "--set", "n_hidden=1", "--set", "n_theta=50")
    drop = () if y_err == "mass_err" else ("--drop", "mass_err")
    fit = ("fit", "fit.csv", "--target", "mass", "--y-err", y_err, *drop, *settings, "--holdout", "0", "-o", "m.eiv")
    assert run(*fit)[0] == 0
    assert EiVRegressor.load("m.eiv").y_noise_[0] < 0.2, "what comes on top of the known errors"

    def covered(*options):
        p, _, err = predicted(run, "new.csv", "--of", "label", *options)
        assert err == ""
        return ((p["low"] < p["mass"]) & (p["mass"] < p["high"])).mean()

    known = new["mass_err"].to_numpy()
    chance = 4 * np.sqrt(0.05 * 0.95 / len(new))
    low, high = (coverage_of(1.96 * np.hypot(on_top, known), known) for on_top in (0.0, 0.2))
    assert 0.9 < low - chance < covered() < high + chance
    chance = 4 * np.sqrt(0.25 / len(new))
    assert covered("--y-err", "0") < coverage_of(1.96 * 0.2, known) + chance < 0.85


def test_fit_says_what_it_understood_and_notes_it(folder, run, fitted):
    out = fitted("mass_err")
    lines = {line.split("│")[1].strip(): line for line in out.splitlines() if line.startswith("│")}
    assert "target" in lines["mass"]
    assert "column mass_err" in lines["mass"]
    assert "error of mass" in lines["mass_err"]
    assert "from the noise of the target and its known error" in lines
    header = read_header("m.eiv")
    assert header["features"]["names"] == ["length", "temp"]
    assert header["notes"]["y_err"] == {"mass": {"kind": "column", "number": 0.0, "column": "mass_err"}}
    _, out, _ = run("info", "m.eiv")
    assert "known errors of the labels" in out
    assert "mass: column mass_err" in out


@pytest.mark.parametrize(
    ("y_err", "known"),
    [
        ("0.3", lambda table: np.full(80, 0.3)),
        ("5%", lambda table: 0.05 * table["mass"].abs()),
        ("20%sd", lambda table: np.full(80, 0.2 * table["mass"].std(ddof=0))),
        ("mass_err", lambda table: table["mass_err"]),
    ],
)
def test_the_model_is_that_of_the_library(folder, fitted, y_err, known):
    fitted(y_err, *([] if y_err == "mass_err" else ["--drop", "mass_err"]))
    table = pd.read_csv("d.csv")
    X, errors = table[["length", "temp"]], np.column_stack([np.full(80, 0.1), table["temp_err"]])
    model = EiVRegressor.load("m.eiv")
    again = EiVRegressor(**model.get_params()).fit(X, table["mass"], X_err=errors, y_err=known(table))
    np.testing.assert_array_equal(again.predict(X, X_err=errors), model.predict(X, X_err=errors))
    np.testing.assert_allclose([again.y_noise_, again.y_err_median_], [model.y_noise_, model.y_err_median_])


def test_scores_on_held_out_rows_take_them_in(folder, fitted):
    fitted("mass_err", "--no-refit")
    with_them = read_header("m.eiv")["notes"]["holdout"]
    least = with_errors()["mass_err"].min()
    noise = EiVRegressor.load("m.eiv").y_noise_[0]
    assert with_them["noise"] > np.hypot(noise, least)
    np.testing.assert_allclose(with_them["total"] ** 2, sum(with_them[name] ** 2 for name in
                               ("epistemic", "aleatoric", "noise")))  # fmt: skip


def test_options_from_a_file_the_command_line_first(folder, fitted):
    config = folder / "fit.toml"
    for text, expected in (("0.25", ("absolute", 0.25)), ("'mass_err'", ("column", 0)), ("'10%'", ("reading", 0.1))):
        config.write_text(f"y_err = {text}\ndrop = ['mass_err']")
        fitted(None, "--config", "fit.toml")
        term = read_header("m.eiv")["notes"]["y_err"]["mass"]
        assert (term["kind"], term["number"]) == expected
    config.write_text("y-err = 'mass_err'")
    fitted("0.3", "--config", "fit.toml")
    header = read_header("m.eiv")
    assert header["notes"]["y_err"]["mass"] == {"kind": "absolute", "number": 0.3}
    assert header["features"]["names"] == ["length", "temp"], "a column of errors is no feature"


def test_a_column_is_taken_by_itself(folder, run, fitted):
    fitted("mass_err")
    noise = EiVRegressor.load("m.eiv").y_noise_[0]
    p, out, err = predicted(run, "d.csv", "--of", "label")
    assert err == ""
    assert "Known errors of the labels: column mass_err (as in the fit)" in out
    np.testing.assert_allclose(p["noise"], np.hypot(noise, p["mass_err"]))
    np.testing.assert_allclose(p["total"] ** 2, p["std"] ** 2 + p["noise"] ** 2)
    np.testing.assert_allclose(p["high"] - p["mean"], 1.959964 * p["total"], rtol=1e-6)
    pd.read_csv("d.csv").rename(columns={"mass_err": "other"}).to_csv("other.csv", index=False)
    same, out, _ = predicted(run, "other.csv", "--y-err", "other")
    assert "column other (--y-err)" in out
    pd.testing.assert_series_equal(same["noise"], p["noise"])


def test_in_pieces_and_in_parquet(folder, run, fitted, monkeypatch):
    fitted("mass_err")
    whole, _, _ = predicted(run, "d.csv")
    monkeypatch.setattr(reading, "_BLOCK", 300)
    pieces, _, _ = predicted(run, "d.csv")
    pd.testing.assert_series_equal(whole["noise"], pieces["noise"])
    assert run("predict", "m.eiv", "d.csv", "-o", "p.parquet")[0] == 0
    assert pd.read_parquet("p.parquet")["mass_err"].tolist() == whole["mass_err"].tolist()


@pytest.mark.parametrize(
    ("y_err", "why"),
    [
        ("mass_err", f"column mass_err; {with_errors()['mass_err'].median():.4g} in the median"),
        ("mass_err", "as it has no column 'mass_err'"),
        ("5%", "as a share of the label is not known before the label is"),
    ],
)
def test_without_them_labels_are_predicted_with_one_warning(folder, run, fitted, y_err, why):
    fitted(y_err, *([] if y_err == "mass_err" else ["--drop", "mass_err"]))
    p, out, err = predicted(run, "plain.csv", "--of", "label")
    assert err.startswith(f"warning: {LEFT_OUT}")
    assert err.count("\n") == 1
    assert why in err
    assert "--y-err 0" in err
    assert LEFT_OUT not in out
    np.testing.assert_allclose(p["noise"], EiVRegressor.load("m.eiv").y_noise_[0])
    _, out, err = predicted(run, "plain.csv")
    assert err == "", "the curve has no errors of labels"
    assert LEFT_OUT in out, "but noise and total would have"
    for options in (["--y-err", "0"], ["--y-err", "0.2"]):
        _, out, err = predicted(run, "plain.csv", "--of", "label", *options)
        assert (err, LEFT_OUT in out) == ("", False)


def test_constant_errors_hold_for_new_rows_and_others_can_be_given(folder, run, fitted):
    fitted("20%sd", "--drop", "mass_err")
    noise, spread = EiVRegressor.load("m.eiv").y_noise_[0], with_errors()["mass"].std(ddof=0)
    for options, known in (
        ([], 0.2 * spread),
        (["--y-err", "40%sd"], 0.4 * spread),
        (["--y-err", "0.7"], 0.7),
        (["--y-err", "0"], 0),
    ):
        p, out, err = predicted(run, "plain.csv", "--of", "label", *options)
        assert err == ""
        assert ("Known errors of the labels" in out) == (known > 0)
        np.testing.assert_allclose(p["noise"], np.hypot(noise, known), rtol=1e-6)


def test_a_fit_without_them(folder, run, fitted):
    fitted(None, "--drop", "mass_err")
    assert "y_err" not in read_header("m.eiv")["notes"]
    p, out, err = predicted(run, "d.csv", "--of", "label")
    assert (err, "Known errors" in out) == ("", False)
    np.testing.assert_allclose(p["noise"], EiVRegressor.load("m.eiv").y_noise_[0])
    assert "known errors" not in run("info", "m.eiv")[1]
    more, _, _ = predicted(run, "d.csv", "--y-err", "mass_err")
    np.testing.assert_allclose(more["noise"], np.hypot(p["noise"], p["mass_err"]))


def test_models_whose_notes_say_nothing(folder, run, fitted):
    """Those of eiv 0.1.0, and those that were saved from Python."""
    fitted(None, "--drop", "mass_err")
    notes = read_header("m.eiv")["notes"]
    del notes["target_spread"]
    EiVRegressor.load("m.eiv").save("m.eiv", notes)
    _, out, err = predicted(run, "d.csv", "--of", "label")
    assert (err, "Known errors" in out) == ("", False)
    status, _, err = run("predict", "m.eiv", "d.csv", "--y-err", "5%sd", "-o", "q.csv")
    assert status == 2
    assert "m.eiv does not know the spread of its training labels; give a number" in err
    table = pd.read_csv("d.csv")
    X, y = table[["length", "temp"]], table[["mass", "batch"]]
    EiVRegressor(0.1, **SETTINGS).fit(X, y, y_err=np.full((80, 2), [0.3, 0.0])).save("m.eiv")
    _, _, err = predicted(run, "d.csv", "--of", "label")
    assert f"{LEFT_OUT}0.3, 0 in the median), but those of d.csv are not known: noise" in err
    p, out, err = predicted(run, "d.csv", "--of", "label", "--y-err", "0.2")
    assert err == ""
    np.testing.assert_allclose(p["batch_noise"], np.hypot(EiVRegressor.load("m.eiv").y_noise_[1], 0.2))
    assert run("explain", "m.eiv", "d.csv", "--row", "1")[2].startswith(f"warning: {LEFT_OUT}")
    assert run("report", "m.eiv", "-o", "page.html")[::2] == (0, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--y-err", "weight"], "d.csv: --y-err weight: 'weight' is neither a number, a percentage"),
        (["--y-err", "mass=0.3"], "'mass=0.3' is neither a number"),
        (["--y-err", "-0.3"], "d.csv: --y-err -0.3: an error must not be negative"),
        (["--y-err", "-5%"], "must not be negative"),
        (["--y-err", "inf"], "must not be negative or infinite"),
        (["--y-err", "nan"], "neither a number"),
        (["--y-err", ""], "neither a number"),
        (["--y-err", "mass"], "--y-err mass: 'mass' is the target, so it cannot be its own error"),
        (["--y-err", "temp"], "'temp' is not a feature"),
        (["--y-err", "id"], "column 'id' holds 's, 0', not a number"),
        (["--y-err", "mass_err", "--feature", "mass_err"], "'mass_err' holds the error of mass; features can be"),
        (["--x-err", "mass=0.3"], "--x-err mass=0.3: 'mass' is the target; its error is given by --y-err 0.3"),
        (["--y-err", "below"], "d.csv, line 4: column 'below' holds -0.1, but an error must not be negative (1 such"),
        (["--y-err", "holes"], "1 of 80 rows hold missing or infinite values (column 'holes': 1 missing"),
        (["--config", "true.toml"], "true.toml: y_err must be a number, or words in quotes, got True"),
        (["--config", "list.toml"], "list.toml: y_err must be a number, or words in quotes, got [0.1]"),
    ],
)
def test_fit_ends_with_one_sentence(folder, run, options, message):
    table = with_errors()
    for name, row, cell in (("below", 2, -0.1), ("holes", 5, np.nan)):
        if name in options:
            table[name] = np.where(np.arange(80) == row, cell, 0.1)
    table.to_csv("d.csv", index=False)
    (folder / "true.toml").write_text("y_err = true")
    (folder / "list.toml").write_text("y_err = [0.1]")
    status, out, err = run("fit", "d.csv", *FIT, *options, *QUICK, "-o", "m.eiv")
    assert status == 2
    assert message in err
    assert "Traceback" not in out + err
    assert not (folder / "m.eiv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["d.csv", "--y-err", "weight"], "d.csv: --y-err weight: 'weight' is neither a number"),
        (["d.csv", "--y-err", "-1"], "must not be negative"),
        (["d.csv", "--y-err", "mass"], "'mass' is the target, so it cannot be the error of the target"),
        (["d.csv", "--y-err", "length"], "'length' is a feature, so it cannot be the error of the target"),
        (["d.csv", "--y-err", "5%"], "--y-err 5%: a share of the label is not known before the label is; give a"),
        (["below.csv"], "below.csv, line 4: column 'mass_err' holds -0.1, but an error must not be negative"),
        (
            ["holes.csv"],
            "(column 'mass_err': 1 missing, first in line 7). Use --drop-missing to continue without them. ",
        ),
        (["holes.csv"], "--y-err VALUE gives an error of labels that needs no column."),
    ],
)
def test_predict_and_explain_end_with_one_sentence(folder, run, fitted, arguments, message):
    fitted("mass_err")
    for name, row, cell in (("below", 2, -0.1), ("holes", 5, np.nan)):
        table = with_errors()
        table.loc[row, "mass_err"] = cell
        table.to_csv(f"{name}.csv", index=False)
    status, out, err = run("predict", "m.eiv", *arguments, "-o", "p.csv")
    assert status == 2
    assert message in err
    assert "Traceback" not in out + err
    assert not (folder / "p.csv").exists()
    status, _, err = run("explain", "m.eiv", *arguments, "--row", "3" if "below" in arguments[0] else "6")
    assert status == 2
    assert arguments[0] == "holes.csv" or message in err
    if arguments[0] == "holes.csv":
        assert "holds a missing or infinite value. --y-err VALUE gives an error of labels" in err
        p, _, _ = predicted(run, "holes.csv", "--drop-missing")
        assert np.flatnonzero(p["noise"].isna()).tolist() == [5]
        assert predicted(run, "holes.csv", "--y-err", "0.2")[0]["noise"].notna().all()


@pytest.mark.parametrize("content", [3, {"mass": 3}, {"mass": {"kind": "absolute", "number": -1}}, {"length": {}}, {}])
def test_forged_notes(folder, run, fitted, content):
    fitted("0.3", "--drop", "mass_err")
    whole = (folder / "m.eiv").read_bytes()
    (folder / "m.eiv").write_bytes(forged(whole, lambda inner, header: inner["notes"].update(y_err=content)))
    status, _, err = run("predict", "m.eiv", "d.csv", "-o", "p.csv")
    assert status == 2
    assert err.startswith("error: m.eiv: ")


def test_explain(folder, run, fitted):
    fitted("mass_err")
    model = EiVRegressor.load("m.eiv")
    status, out, err = run("explain", "m.eiv", "d.csv", "--row", "4")
    assert (status, err) == (0, "")
    table = pd.read_csv("d.csv").iloc[[3]]
    errors = np.column_stack([[0.1], table["temp_err"]])
    p = model.predict_distribution(table[["length", "temp"]], X_err=errors, y_err=table["mass_err"])
    assert f"{p.noise[0]:.4g}" in out
    np.testing.assert_allclose(numbers_after(out, "uncertainty of a label"), p.total, rtol=1e-3)
    assert numbers_after(out, "  of it the known error of the label") == [table["mass_err"].item()]
    low, high = p.interval(0.95, of="label")
    np.testing.assert_allclose(numbers_after(out, "95 % interval of the label"), [*low, *high], rtol=1e-4)
    status, out, err = run("explain", "m.eiv", "plain.csv", "--row", "4")
    assert status == 0
    assert err.startswith(f"warning: {LEFT_OUT}")
    assert "known error of the label" not in out
    status, out, err = run("explain", "m.eiv", "plain.csv", "--row", "4", "--y-err", "0.25")
    assert (status, err) == (0, "")
    assert numbers_after(out, "  of it the known error of the label") == [0.25]


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize(
    ("y_err", "given", "known"),
    [
        ("mass_err", [], lambda table: table["mass_err"]),
        ("0.3", [], lambda table: np.full(80, 0.3)),
        ("5%", [], lambda table: 0.05 * table["mass"].abs()),
        ("0.3", ["--y-err", "10%"], lambda table: 0.1 * table["mass"].abs()),
        (None, ["--y-err", "mass_err"], lambda table: table["mass_err"]),
    ],
)
def test_report_of_labels_with_known_errors(folder, run, fitted, y_err, given, known):
    fitted(y_err, "--drop", "mass_err")
    table = pd.read_csv("d.csv")
    table["mass"] += 0.5 * np.random.default_rng(2).standard_normal(80)
    table.to_csv("new.csv", index=False)
    table = pd.read_csv("new.csv")
    status, _, err = run("report", "m.eiv", "new.csv", *given)
    assert (status, err) == (0, "")
    text = (folder / "m.html").read_text()
    model, errors = EiVRegressor.load("m.eiv"), np.column_stack([np.full(80, 0.1), table["temp_err"]])
    p = model.predict_distribution(table[["length", "temp"]], X_err=errors, y_err=known(table))
    low, high = p.interval(0.95, of="label")
    inside = ((table["mass"] >= low) & (table["mass"] <= high)).mean()
    assert f"Of 80 labels, {percent(inside)} lie in their 95 % interval" in text
    typical = number(float(np.median(known(table))))
    assert f"The intervals of labels include their known errors (median {typical})." in text
    assert f"with its known error of {typical}" in text
    noise = value(shown_table(text, "Uncertainty budget")["noise of a label"][1])
    np.testing.assert_allclose(noise, np.sqrt(np.mean(p.noise**2)), rtol=5e-3)
    assert ("The band of a new label also includes its known error" in text) == (y_err is not None)
    assert ("known errors of the labels" in text) == (y_err is not None)


@pytest.mark.usefixtures("unrendered")
def test_report_without_the_column_and_without_a_table(folder, run, fitted):
    fitted("mass_err")
    status, _, err = run("report", "m.eiv", "plain.csv")
    assert status == 0
    assert err.startswith(f"warning: {LEFT_OUT}")
    text = (folder / "m.html").read_text()
    assert text.count("so the noise and the intervals of labels leave them out") == 2, "above all, and at calibration"
    assert run("report", "m.eiv", "--force")[::2] == (0, "")
    text, model = (folder / "m.html").read_text(), EiVRegressor.load("m.eiv")
    noise = value(shown_table(text, "Uncertainty budget")["noise of a label"][1])
    np.testing.assert_allclose(noise, np.hypot(model.y_noise_, model.y_err_median_)[0], rtol=5e-3)
    assert "leave them out" not in text
    status, _, err = run("report", "m.eiv", "--y-err", "0.3", "--force")
    assert status == 2
    assert "--y-err needs a table" in err


@pytest.mark.usefixtures("unrendered")
def test_report_with_shares_of_labels_some_of_which_are_missing(folder, run, fitted):
    fitted("5%", "--drop", "mass_err")
    table = pd.read_csv("d.csv")
    table.loc[:9, "mass"] = np.nan
    table.to_csv("some.csv", index=False)
    table.assign(mass=np.nan).to_csv("none.csv", index=False)
    assert run("report", "m.eiv", "some.csv", "-o", "some.html")[::2] == (0, "")
    typical = number(float(0.05 * table["mass"].abs().median()))
    assert f"include their known errors (median {typical})" in (folder / "some.html").read_text()
    assert run("report", "m.eiv", "none.csv", "-o", "none.html")[0] == 0
    assert "leave them out" in (folder / "none.html").read_text()


def test_help_names_the_option(run):
    for command in ("fit", "predict", "explain", "report"):
        assert "--y-err" in run(command, "--help")[1]
