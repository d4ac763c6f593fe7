"""`eiv explain`: the budget of one row, in the terminal and as a picture, and every way that it can go wrong."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from commands import FIT, QUICK, numbers_after, rows
from eiv import EiVRegressor
from eiv.io.budgets import budget_from_json
from eiv.plotting import image, new_figure
from eiv.prediction import Prediction
from eiv.report.contributions import NOISE, TOGETHER, WEIGHTS, Budget
from eiv.report.words import percent

SETTINGS = {"epochs": 2, "hidden_units": 8, "n_theta": 10, "random_state": 0}


def test_a_budget_adds_up():
    random = np.random.default_rng(0)
    epistemic, aleatoric, noise = random.uniform(1, 2, (3, 5))
    shares = random.uniform(0, 0.3, (5, 3))
    p = Prediction(np.zeros(5), epistemic, aleatoric, noise, shares=shares)
    budget = Budget.of(p, ["a", "b", "c"])
    assert budget.sources == (WEIGHTS, "a", "b", "c", TOGETHER, NOISE)
    np.testing.assert_allclose(budget.variances[1:4], (shares * aleatoric[:, None] ** 2).mean(0))
    np.testing.assert_allclose(budget.total**2, (p.total**2).mean())
    np.testing.assert_allclose([budget.shares.sum(), budget.of_inputs.sum()], 1)
    names, variances = budget.largest(2)
    assert names == [WEIGHTS, *np.array(["a", "b", "c"])[np.argsort(-budget.variances[1:4])[:2]], "1 other inputs",
                     TOGETHER, NOISE]  # fmt: skip
    np.testing.assert_allclose(variances.sum(), budget.total**2)


def test_a_budget_of_exact_inputs_and_one_with_correlations():
    one = np.ones(1)
    exact = Budget.of(Prediction(one, one, 0 * one, one, shares=np.full((1, 2), np.nan)), ["a", "b"])
    assert exact.variances.tolist() == [1, 0, 0, 0, 1]
    assert np.isnan(exact.of_inputs).all()
    assert exact.largest(5)[0] == [WEIGHTS, NOISE]
    by_chance = Budget.of(Prediction(one, one, one, one, shares=np.array([[0.6, 0.41]])), ["a", "b"])
    np.testing.assert_allclose(by_chance.of_inputs, [0.6 / 1.01, 0.41 / 1.01, 0])
    assert by_chance.total**2 == pytest.approx(3)
    assert percent(-0.0004) == "0.0\u00a0%"
    correlated = Budget.of(Prediction(one, one, one, one, shares=np.array([[0.9, 0.6]])), ["a", "b"])
    np.testing.assert_allclose(correlated.shares[-2], -0.5 / 3)
    assert np.isnan(correlated.uncertainties[-2])


LEARNED = {"epochs": 60, "learning_rate": 0.01, "n_hidden": 1, "hidden_units": 32}  # so that input errors count


@pytest.mark.parametrize("number", [1, 7, 80])
def test_the_numbers_are_those_of_the_library(folder, run, number):
    settings = [part for name, value in LEARNED.items() for part in ("--set", f"{name}={value}")]
    assert run("fit", "d.csv", *FIT, *QUICK, *settings, "-o", "m.eiv")[0] == 0
    status, out, err = run("explain", "m.eiv", "d.csv", "--row", number)
    assert (status, err) == (0, "")
    table = pd.read_csv("d.csv").iloc[[number - 1]]
    errors = np.column_stack([[0.1], table["temp_err"]])
    fitted = EiVRegressor.load("m.eiv")
    p = fitted.predict_distribution(table[["length", "temp"]], X_err=errors)
    fitted.set_params(n_theta=1600)  # the shares of a single row want more
    many = fitted.predict_distribution(table[["length", "temp"]], X_err=errors, budget=True)
    assert f"row {number} (line {number + 1})" in out
    np.testing.assert_allclose(numbers_after(out, "prediction"), p.mean, rtol=1e-5)
    np.testing.assert_allclose(numbers_after(out, "  from the input errors"), p.aleatoric, rtol=1e-3)
    np.testing.assert_allclose(numbers_after(out, "uncertainty of a label"), p.total, rtol=1e-3)
    low, high = p.interval(0.95, of="label")
    np.testing.assert_allclose(numbers_after(out, "95 % interval of the label"), [*low, *high], rtol=1e-4)
    budget = Budget.of(replace(p, shares=many.shares), ["length", "temp"])
    lines = [line for line in out.splitlines() if line.startswith("│ temp ")]
    value, error, *_ = numbers_after(lines[0], "temp")
    assert (value, error) == (table["temp"].item(), table["temp_err"].item())
    of_variance, of_inputs, u = numbers_after(lines[1], "temp")
    np.testing.assert_allclose(
        [of_inputs, of_variance], [100 * budget.of_inputs[1], 100 * budget.shares[2]], atol=0.051
    )
    np.testing.assert_allclose(u, budget.uncertainties[2], rtol=1e-3)
    np.testing.assert_allclose(numbers_after(out, "inputs together")[1], 100 * budget.of_inputs[2], atol=0.051)


def test_other_errors_and_exact_ones(model, run):
    status, out, _ = run("explain", "m.eiv", "d.csv", "--row", 2, "--x-err", "length=0.5", "--x-err", "temp=0")
    assert status == 0
    assert numbers_after([line for line in out.splitlines() if "│ length" in line][1], "length")[1] == 100
    status, out, _ = run("explain", "m.eiv", "d.csv", "--row", 2, "--x-err", "0")
    assert status == 0
    assert "taken as exact" in out
    assert numbers_after(out, "  from the input errors") == [0]


def test_a_row_outside_the_training_range(model, run):
    rows(3).assign(length=[0.0, 9.0, 0.0]).to_csv("far.csv", index=False)
    assert "outside" in run("explain", "m.eiv", "far.csv", "--row", 2)[1]
    assert "outside" not in run("explain", "m.eiv", "far.csv", "--row", 1)[1]


def test_an_svg_with_a_control_character_in_a_name():
    figure, ((axes,),) = new_figure(1, 1, (2, 2))
    axes.set_xlabel("le\x1b[2Jngth")
    content = image(figure, "svg")
    assert ElementTree.fromstring(content).tag.endswith("svg")
    assert "le\ufffd[2Jngth" in content.decode()


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_picture(model, run, kind):
    picture = model / f"budget.{kind}"
    status, out, _ = run("explain", "m.eiv", "d.csv", "--row", 3, "-o", picture.name)
    assert status == 0
    assert picture.name in out
    content = picture.read_bytes()
    assert content.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind])
    if kind == "svg":
        assert ElementTree.fromstring(content).tag.endswith("svg")
    status, _, err = run("explain", "m.eiv", "d.csv", "--row", 3, "-o", picture.name)
    assert status == 2
    assert "exists already" in err
    assert run("explain", "m.eiv", "d.csv", "--row", 3, "-o", picture.name, "--force")[0] == 0
    assert picture.read_bytes() == content, "the same row gives the same picture"


def test_several_outputs_and_correlated_errors(folder, run):
    table = rows()
    X = table[["length", "temp"]]
    EiVRegressor([[0.01, 0.02], [0.02, 0.09]], **SETTINGS, recipe="paper").fit(X, table[["mass", "batch"]]).save(
        "m.eiv"
    )
    status, out, _ = run("explain", "m.eiv", "d.csv", "--row", 1)
    assert status == 0
    assert "a label of mass" in out
    assert "a label of batch" in out
    assert numbers_after(next(line for line in out.splitlines() if "│ temp" in line), "temp")[1] == 0.3
    status, _, err = run("explain", "m.eiv", "d.csv", "--row", 1, "-o", "p.png")
    assert status == 2
    assert "a picture shows one only" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.eiv", "d.csv", "--row", "0"], "--row must be from 1, the first row below the names, to 80, got 0"),
        (["m.eiv", "d.csv", "--row", "-3"], "to 80, got -3"),
        (["m.eiv", "d.csv", "--row", "81"], "to 80, got 81"),
        (["m.eiv", "d.csv", "--row", "first"], "valid integer"),
        (["m.eiv", "d.csv"], "Missing option"),
        (["m.eiv", "narrow.csv", "--row", "1"], "narrow.csv has no column 'temp'"),
        (["m.eiv", "holes.csv", "--row", "2"], "holes.csv, line 3: column 'temp' holds a missing or infinite value"),
        (["m.eiv", "words.csv", "--row", "2"], "words.csv, line 3: column 'length' holds 'long', not a number"),
        (["m.eiv", "d.csv", "--row", "1", "-o", "p.gif"], "p.gif: a picture can be written as .png, .svg, .pdf"),
        (["m.eiv", "d.csv", "--row", "1", "-o", "d.csv"], "d.csv: a picture can be written"),
        (["m.eiv", "d.csv", "--row", "1", "--level", "1"], "--level must lie between 0 and 1"),
        (["m.eiv", "d.csv", "--row", "1", "--x-err", "mass=1"], "'mass' is not a feature"),
        (["no.eiv", "d.csv", "--row", "1"], "There is no file no.eiv"),
        (["d.csv", "d.csv", "--row", "1"], "d.csv is not a model file"),
    ],
)
def test_it_ends_with_one_sentence(model, run, arguments, message):
    (model / "narrow.csv").write_text("length,temp_err\n1,0.1\n")
    (model / "holes.csv").write_text("length,temp,temp_err\n0.5,20,0.1\n0.5,,0.1\n")
    (model / "words.csv").write_text("length,temp,temp_err\n0.5,20,0.1\nlong,20,0.1\n")
    before = sorted(model.iterdir())
    status, out, err = run("explain", *arguments)
    assert status == 2
    assert message in err
    assert "Traceback" not in out + err
    assert sorted(model.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "kept"),
    [([], "nothing was written."), (["-o", "b.png"], "b.png was not written, nothing else is left.")],
)
def test_interrupted(model, run, monkeypatch, options, kept):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("eiv.cli.explain._row", interrupt)
    status, _, err = run("explain", "m.eiv", "d.csv", "--row", 1, *options)
    assert (status, err) == (130, f"interrupted: {kept}\n")


def test_other_rows_may_be_amiss(model, run):
    (model / "words.csv").write_text("length,temp,temp_err\n0.5,20,0.1\nlong,,0.1\n")
    assert run("explain", "m.eiv", "words.csv", "--row", "1")[0] == 0


def test_the_budget_after_the_gum_is_a_file(model, run):
    status, out, _ = run("explain", "m.eiv", "d.csv", "--row", "2", "--gum", "b.json", "--level", "0.9")
    assert status == 0
    assert "Budget after the GUM: b.json" in out
    found = budget_from_json(Path("b.json").read_text())
    assert [each.name for each in found.quantities] == ["length", "temp", "fit", "noise"]
    assert found.level == 0.9
    for ending, words in ((".csv", "quantity,value,std,dof"), (".tex", "tabular"), (".xml", "<si:expandedMU>")):
        assert run("explain", "m.eiv", "d.csv", "--row", "2", "--gum", f"b{ending}")[0] == 0
        assert words in Path(f"b{ending}").read_text()
    status, _, err = run("explain", "m.eiv", "d.csv", "--row", "2", "--gum", "b.json")
    assert status == 2
    assert "b.json exists already" in err
    status, _, err = run("explain", "m.eiv", "d.csv", "--row", "2", "--gum", "b.pdf")
    assert status == 2
    assert "a budget can be written as .csv, .json, .tex, .xml" in " ".join(err.split())


def test_degrees_of_freedom_of_the_budget_are_given_by_name(model, run):
    known = ("explain", "m.eiv", "d.csv", "--row", "2", "--gum", "b.json", "--force")
    assert run(*known, "--dof", "length=9", "--dof", "noise=4.5")[0] == 0
    found = budget_from_json(Path("b.json").read_text())
    assert found.name == "mass"
    assert {each.name: each.dof for each in found.quantities} == {
        "length": 9,
        "temp": np.inf,
        "fit": np.inf,
        "noise": 4.5,
    }
    assert found.coverage_factor > 1.97
    for given in ("width=9", "length=0", "length=nan", "length=few", "9"):
        status, _, err = run(*known, "-o", "b.png", "--dof", given)
        assert status == 2
        words = f"--dof must be NAME=VALUE, a number above 0 for length, temp, fit, noise; got {given!r}."
        assert words in " ".join(err.split())
        assert not Path("b.png").exists()
    status, _, err = run("explain", "m.eiv", "d.csv", "--row", "2", "--dof", "length=9")
    assert status == 2
    assert "--dof is for the budget after the GUM: give --gum FILE, too." in err
