"""The page of a model: its numbers, its words, and how it looks in a browser."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from commands import shown_table, value
from eiv import EiVRegressor, SuspiciousErrorWarning
from eiv.cli import modeltable
from eiv.io.modelfile import load_model, read_header
from eiv.io.tables import reading
from eiv.likelihoods import NormalLabels
from eiv.metrics import calibration_curve, rmse
from eiv.prediction import Prediction
from eiv.report import Sample, write_model_page
from eiv.report.contributions import Budget
from eiv.report.curves import curves
from eiv.report.labels import Comparison, Pattern
from eiv.report.ranges import Ranges
from eiv.report.sample import single_outputs
from eiv.report.words import counted, listed, number, percent
from likelihoods.student_t import StudentLabels

FAST = {"hidden_units": 8, "n_hidden": 2, "epochs": 5, "n_theta": 10, "random_state": 0}
ODD = ["<b>length</b>", "$t$ & \\frac", "a very long name of a column that goes on, and on, and on", "größe ζ"]


def table(n_rows=120, n_features=4):
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features))
    return X, X @ np.arange(1, n_features + 1) + 0.1 * random.normal(size=n_rows)


def page_of(path, sample=None, fitted=None, notes=None):
    """A model, saved and read, on its page: the text of the page."""
    X, y = table()
    fitted = fitted or EiVRegressor(0.1, **FAST, recipe="paper").fit(pd.DataFrame(X, columns=ODD), y)
    fitted.save(path / "m.eiv", notes)
    write_model_page(path / "page.html", load_model(path / "m.eiv").model, read_header(path / "m.eiv"), sample)
    return (path / "page.html").read_text()


@pytest.mark.usefixtures("unrendered")
def test_the_page_has_one_seed_and_says_whose_networks_there_are(tmp_path):
    """The seed that was given, once, and the number of networks with that of the sizes that they belong to."""
    X, y = table()
    EiVRegressor(0.1, **FAST | {"random_state": 48151623}, recipe="paper").fit(X, y).save(tmp_path / "m.eiv")
    size = {"factor": [0.5] * 4, "std": [0.1] * 4, "prior_std": [0.4] * 4, "nodes": [{}, {}]}
    header = read_header(tmp_path / "m.eiv") | {"n_networks": 16, "sizes": size}
    write_model_page(tmp_path / "page.html", load_model(tmp_path / "m.eiv").model, header)
    text = (tmp_path / "page.html").read_text()
    assert text.count(">48151623<") == 1
    assert "random_state" not in text
    assert "n_networks" not in text
    assert "16, 8 for each of 2 sizes of the errors, 2 hidden layers of 8 units" in text


def sample_of(X, y=None, **known):
    y = None if y is None else np.asarray(y).reshape(len(X), -1)
    return Sample(X, None, y, np.arange(1, len(X) + 1), len(X), "new.csv", **known)


def test_curves_are_those_of_the_library():
    X, y = table()
    fitted = EiVRegressor([0.1, 0.0, 0.3, 0.1], **FAST, recipe="paper").fit(X, y)
    (found,) = curves(fitted.model_)
    assert {curve.feature for curve in found} == set(range(4))
    assert [curve.effect for curve in found] == sorted((curve.effect for curve in found), reverse=True)
    for curve in found:
        rows_of_curve = np.tile(np.median(X, axis=0), (len(curve.x), 1))
        rows_of_curve[:, curve.feature] = curve.x
        expected = fitted.predict_distribution(rows_of_curve)
        np.testing.assert_allclose(curve.p.mean, expected.mean, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(curve.p.total, expected.total, rtol=1e-4)
        assert (curve.x[0], curve.x[-1]) == (X[:, curve.feature].min(), X[:, curve.feature].max())
    far = np.array([X.min(0), X.max(0)])
    far[1, 0] += 1000
    reaching = {curve.feature: curve for curve in curves(fitted.model_, far)[0]}
    width = np.ptp(X[:, 0])
    np.testing.assert_allclose(reaching[0].x[-1], X[:, 0].max() + width / 2)
    assert reaching[1].x[-1] == X[:, 1].max()


def test_curves_with_errors_of_rows_and_columns_without_spread():
    X, y = table()
    X[:, 1] = 3.0
    errors = 0.3 * np.abs(X)
    with pytest.warns(SuspiciousErrorWarning, match="column 1 .* constant"):
        fitted = EiVRegressor(**FAST, recipe="paper").fit(X, y, X_err=errors)
    (found,) = curves(fitted.model_)
    assert {curve.feature for curve in found} == {0, 2, 3}
    rows_of_curve = np.tile(np.median(X, axis=0), (len(found[0].x), 1))
    rows_of_curve[:, found[0].feature] = found[0].x
    expected = fitted.predict_distribution(rows_of_curve, X_err=np.median(errors, axis=0))
    np.testing.assert_allclose(found[0].p.aleatoric, expected.aleatoric, rtol=1e-4)


def test_labels_of_each_output_stay_with_it():
    """Of two outputs with Student-t noise, the second has the larger scale: its intervals are those of that noise."""
    scale, nothing = np.array([[1.0, 3.0]] * 4), np.zeros((4, 2))
    labels = StudentLabels(scale, 5.0)
    _, second = single_outputs(Prediction(nothing, nothing, nothing, labels.std, labels=labels))
    edge = 3 * t.ppf(0.995, 5)
    found = Comparison(np.zeros((4, 1)), edge * np.array([-0.99, 0.99, 1.01, 5.0]), second)
    assert found.covered([0.99]).tolist() == [0.5]


def test_patterns_in_residuals():
    random = np.random.default_rng(0)
    x = random.normal(size=(2000, 2))
    residuals = x[:, 0] ** 2 + random.normal(size=2000)
    labels = NormalLabels(np.ones(2000))
    p = Prediction(np.zeros(2000), *np.zeros((2, 2000)), labels.std, labels=labels)
    found = Comparison(x, residuals, p).patterns()
    assert [j for j, _ in found] == [0, 1]
    assert 0.4 < found[0][1].explained < 2 / 3  # the variance of x^2 is 2, that of the rest 1
    assert found[1][1].explained < 0.02
    chance = [Pattern.of(x[:, 0], random.normal(size=2000)).explained for _ in range(50)]
    np.testing.assert_allclose(np.mean(chance), Pattern.of(x[:, 0], residuals).by_chance, rtol=0.3)
    assert Pattern.of(np.zeros(3), np.zeros(3)).explained == 0


@pytest.mark.usefixtures("unrendered")
def test_the_numbers_on_the_page_are_those_of_the_library(tmp_path):
    X, y = table()
    fitted = EiVRegressor(0.1, **FAST, recipe="paper").fit(pd.DataFrame(X, columns=list("abcd")), y)
    random = np.random.default_rng(1)
    new = random.normal(size=(90, 4))
    labels = new @ np.arange(1, 5) + random.normal(size=90)
    labels[:3] = np.nan
    text = page_of(tmp_path, sample_of(new, labels), fitted)
    p = fitted.predict_distribution(pd.DataFrame(new, columns=list("abcd")), budget=True)
    budget = Budget.of(p, list("abcd"))
    shown = shown_table(text, "Uncertainty budget")
    for source, share, u in zip(budget.sources, budget.shares, budget.uncertainties, strict=True):
        np.testing.assert_allclose(value(shown[source][0]), 100 * share, atol=0.051)
        np.testing.assert_allclose(value(shown[source][1]), u, rtol=5e-3)
    assert shown["total"][1] == number(np.sqrt(np.mean(p.total**2)))
    known = p[np.isfinite(labels)]
    levels = [0.5, 0.68, 0.9, 0.95, 0.99]
    covered = calibration_curve(labels[3:], known.mean, known.total, levels)
    inside = [cells[0] for cells in shown_table(text, "Labels inside").values()]
    assert inside == [percent(share) for share in covered]
    assert f"Of 87 labels, {percent(covered[3])} lie in their 95 % interval" in text
    assert f"error is {number(rmse(labels[3:], known.mean))}" in text
    outside = (new < X.min(0)) | (new > X.max(0))
    assert f"{outside.any(1).sum()} of 90 rows are outside the range" in text
    counts = shown_table(text, "Inputs that leave")
    for j, name in enumerate("abcd"):
        if outside[:, j].any():
            assert int(counts[name][-2]) == (new[:, j] < X[:, j].min()).sum()
            assert int(counts[name][-1]) == (new[:, j] > X[:, j].max()).sum()
    first = shown_table(text, r"(?:The first|Rows outside)")
    assert [int(row) for row in first] == (np.flatnonzero(outside.any(1))[:10] + 1).tolist()


def test_without_a_table_the_page_shows_what_the_file_holds(tmp_path):
    text = page_of(tmp_path)
    assert "No table was given" in text
    for title in ("The curve along each input", "Uncertainty budget", "Training", "Settings and provenance"):
        assert title in text
    assert "Residuals" not in text
    assert text.count("<img ") == 4 + 1 + 1
    fitted = EiVRegressor.load(tmp_path / "m.eiv")
    middle = pd.DataFrame(fitted.x_quantiles_[2:3], columns=ODD)
    budget = Budget.of(fitted.predict_distribution(middle, budget=True), ODD)
    assert shown_table(text, "Uncertainty budget")["total"][1] == number(budget.total)


@pytest.mark.usefixtures("unrendered")
def test_exact_inputs_and_several_outputs(tmp_path):
    X, y = table()
    outputs = pd.DataFrame({"mass": y, "volume": -y})
    fitted = EiVRegressor(**FAST, recipe="paper").fit(X, outputs)
    text = page_of(tmp_path, sample_of(X, outputs), fitted)
    assert "The curve along each input: mass" in text
    assert "Calibration: volume" in text
    assert "taken as exact" in text
    assert "All 120 rows lie within the range" in text
    names = re.findall(r' id="([^"]*)"', text)
    assert len(names) == len(set(names))


@pytest.mark.usefixtures("unrendered")
def test_tables_without_labels_and_the_training_table(tmp_path):
    X, y = table()
    assert "holds no labels of y" in page_of(tmp_path, sample_of(X))
    again = page_of(tmp_path, sample_of(X, y), notes={"data": "new.csv"})
    assert "On these rows, residuals and calibration look better" in again
    assert "rows that are new to it" in again
    assert "so this is not a test" in again
    for verdict in ("as it should be", "the intervals are too"):
        assert verdict not in again, "learned rows say nothing of calibration"
    fresh = page_of(tmp_path, sample_of(X, y), notes={"data": "old.csv"})
    assert "so this is not a test" not in fresh
    same = page_of(tmp_path, sample_of(X, y, digest="ab"), notes={"data": "old.csv", "data_sha256": "ab"})
    other = page_of(tmp_path, sample_of(X, y, digest="cd"), notes={"data": "new.csv", "data_sha256": "ab"})
    assert "so this is not a test" in same, "a copy under another name"
    assert "so this is not a test" not in other, "another table under the old name"
    for text in (again, fresh):
        assert "Labels inside" in text


def test_the_same_model_gives_the_same_page_which_needs_nothing_from_elsewhere(tmp_path):
    X, y = table()
    notes = {"target": "<script>alert(1)</script>", "data": "old.csv"}
    text = page_of(tmp_path, sample_of(X, y), notes=notes)
    assert text == page_of(tmp_path, sample_of(X, y), notes=notes)
    assert "On these rows, residuals and calibration look better" not in text
    assert "<script>alert" not in text
    assert "<b>length" not in text
    assert all(source.startswith(("data:", "#")) for source in re.findall(r'(?:src|href)="([^"]*)"', text))
    assert "@import" not in text
    assert "url(" not in text


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("notes", [{"holdout": "good"}, {"holdout": {"rmse": "low"}}, {"target": 3, "data": []}])
def test_odd_notes_do_no_harm(tmp_path, notes):
    text = page_of(tmp_path, notes=notes)
    assert "rows were held out" not in text
    assert "On these rows, residuals and calibration look better" not in text


def test_words():
    assert [listed(list("abc")), listed(["a"]), listed(list("abcd"), 2)] == ["a, b and c", "a", "a, b and 2 more"]
    assert [counted(1, "row"), counted(2000, "row")] == ["1 row", "2,000 rows"]
    assert [number(12345.6), number(0.012345), number(-1.5), number(246.9, 6)] == ["12,346", "0.0123", "-1.5", "246.9"]


def test_ranges_of_constant_columns():
    found = Ranges(np.array([[1.0], [2.0]]), low=np.array([1.0]), high=np.array([1.0]))
    assert found.rows.tolist() == [False, True]
    assert np.isfinite(found.places).all()


@pytest.mark.usefixtures("unrendered")
def test_the_command(model, run, monkeypatch):
    status, out, err = run("report", "m.eiv", "d.csv")
    assert (status, err) == (0, "")
    assert "m.html" in out
    text = (model / "m.html").read_text()
    assert "mass from 2 measured inputs" in text
    assert "d.csv: 80 rows." in text
    assert "On these rows, residuals and calibration look better" in text
    fitted, data = EiVRegressor.load("m.eiv"), pd.read_csv("d.csv")
    errors = np.column_stack([np.full(80, 0.1), data["temp_err"]])
    p = fitted.predict_distribution(data[["length", "temp"]], X_err=errors)
    assert f"error is {number(rmse(data['mass'], p.mean))}" in text
    held_out = read_header("m.eiv")["notes"]["holdout"]
    assert f"{held_out['rows']} rows were held out" in text
    status, _, err = run("report", "m.eiv", "d.csv")
    assert status == 2
    assert "m.html exists already; use --force" in err
    assert run("report", "m.eiv", "--force")[0] == 0
    assert "No table was given" in (model / "m.html").read_text()
    assert run("report", "m.eiv", "d.csv", "--target", "batch", "-o", "other.html")[0] == 0
    assert f"error is {number(rmse(data['batch'], p.mean))}" in (model / "other.html").read_text()


@pytest.mark.usefixtures("unrendered")
def test_of_a_large_table_rows_are_chosen_evenly(model, run, monkeypatch):
    monkeypatch.setattr(modeltable, "_MOST_ROWS", 30)
    monkeypatch.setattr(reading, "_BLOCK", 600)
    data = pd.read_csv("d.csv")
    data.loc[4, "length"], data.loc[8, "mass"] = np.nan, np.nan
    data.to_csv("new.csv", index=False)
    status, _, err = run("report", "m.eiv", "new.csv", "-o", "p.html")
    assert status == 2
    assert "new.csv: 1 of 80 rows hold missing or infinite values" in err
    assert run("report", "m.eiv", "new.csv", "-o", "p.html", "--drop-missing")[0] == 0
    text = (model / "p.html").read_text()
    assert (
        "new.csv: 19 of 79 rows, evenly chosen; 1 left out" in text
    )  # every fourth, the second of them without length
    assert "Of 18 labels" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.eiv", "d.csv", "-o", "p.pdf"], "p.pdf: the page of a model can be written as .html or .htm"),
        (["m.eiv", "d.csv", "-o", "p.md"], "p.md: the page of a model"),
        (["m.eiv", "no.csv"], "There is no file no.csv"),
        (["no.eiv", "d.csv"], "There is no model file and no folder no.eiv"),
        (["d.csv"], "d.csv is not a model file"),
        (["m.eiv", "narrow.csv"], "narrow.csv has no column 'temp'"),
        (["m.eiv", "d.csv", "--target", "weight"], "d.csv has no column 'weight' (--target)"),
        (["m.eiv", "--target", "mass"], "--target needs a table"),
        (["m.eiv", "--x-err", "1"], "--x-err needs a table"),
        (["m.eiv", "d.csv", "--x-err", "mass=1"], "'mass' is not a feature"),
        (["m.eiv", "holes.csv"], "holes.csv: 1 of 1 rows hold missing"),
        (["m.eiv", "holes.csv", "--drop-missing"], "holes.csv: every row holds missing or infinite values"),
        (["m.eiv", "words.csv"], "words.csv, line 2: column 'mass' holds 'heavy', not a number"),
        (["m.eiv", "far.csv"], "not a finite number"),
        ([".", "d.csv"], "for which no table can be given"),
    ],
)
def test_the_command_ends_with_one_sentence(model, run, arguments, message):
    (model / "narrow.csv").write_text("length,temp_err\n1,0.1\n")
    (model / "holes.csv").write_text("length,temp,temp_err\n0.5,,0.1\n")
    (model / "words.csv").write_text("length,temp,temp_err,mass\n0.5,20,0.1,heavy\n")
    (model / "far.csv").write_text("length,temp,temp_err\n1e300,20,0.1\n")
    before = sorted(model.iterdir())
    status, out, err = run("report", *arguments)
    assert status == 2
    assert message in err
    assert "Traceback" not in out + err
    assert sorted(model.iterdir()) == before


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with everything on it, and with names that make trouble."""
    path = tmp_path_factory.mktemp("page")
    X, y = table()
    page_of(path, sample_of(1.3 * X, y), notes={"target": "mass of the whole specimen after drying in g"})
    return path / "page.html"


@pytest.mark.parametrize("width", [380, 1400])
def test_in_a_browser_it_loads_without_errors_fits_and_shows_every_figure(browser, page, width):
    window = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    assert browser.execute_script("return [window.innerWidth, document.documentElement.scrollWidth]")[1] <= width
    shown = browser.execute_script("return [...document.images].map(i => [i.complete, i.naturalWidth, i.clientWidth])")
    # curves, calibration, measured and residuals over prediction and inputs, budget, range, loss
    assert len(shown) == 4 + 1 + 2 + 4 + 1 + 1 + 1
    assert all(complete and natural > 200 and 200 < client <= width for complete, natural, client in shown)


def test_units_are_shown_with_the_names(tmp_path, monkeypatch):
    u = pytest.importorskip("astropy.units")
    X, y = table(n_features=1)
    labels = []
    monkeypatch.setattr("eiv.report.figures.shortened", lambda text: labels.append(text) or text)
    text = page_of(tmp_path, fitted=EiVRegressor(0.1, **FAST, recipe="paper").fit(X * u.m, y * u.kg))
    assert {"x0 [m]", "y [kg]"} <= set(labels)  # those of the axes
    assert "x0 [m]" in text
