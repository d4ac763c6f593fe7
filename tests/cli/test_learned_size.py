"""A model that has learned the size of the errors, in the commands that use it."""

import re

import numpy as np
import pandas as pd
import pytest

from commands import numbers_after, shown_table, value
from eiv import EiVRegressor, estimated, uncertainty_budgets
from eiv.datasets import simulate


@pytest.fixture(scope="module")
def fitted():
    """Errors stated at twice their size, of a column with a name; and its rows."""
    data = simulate("quadratic", n_rows=80, random_state=0)
    table = pd.DataFrame({"reading": data.X[:, 0], "y": data.y})
    model = EiVRegressor(estimated(0.2, dof=4), network="cosine", hidden_units=8, random_state=0)
    return model.fit(table[["reading"]], table["y"]), table


@pytest.fixture
def folder(fitted, tmp_path, monkeypatch):
    model, table = fitted
    monkeypatch.chdir(tmp_path)
    model.save("m.eiv", {"target": "y"})
    table.to_csv("d.csv", index=False)
    return tmp_path


def test_predict_writes_what_the_size_adds(folder, fitted, run):
    model, table = fitted
    status, _, err = run("predict", "m.eiv", "d.csv", "-o", "p.csv")
    assert status == 0
    assert f"warning: {model.x_err_scale_.words()[0]}" in err
    found, p = pd.read_csv("p.csv"), model.predict_distribution(table[["reading"]])
    assert list(found)[2:6] == ["mean", "std", "epistemic", "of_size"]
    np.testing.assert_allclose(found["of_size"], p.of_size, rtol=1e-6)
    assert (found["of_size"] <= found["epistemic"]).all()


def test_explain_shows_the_error_as_it_is_taken(folder, fitted, run):
    model, table = fitted
    status, out, _ = run("explain", "m.eiv", "d.csv", "--row", 5)
    assert status == 0
    assert "stated error" in out
    line = next(line for line in out.splitlines() if line.startswith("│ reading "))
    _, stated, taken, *_ = numbers_after(line, "reading")
    assert stated == 0.2
    assert taken == pytest.approx(0.2 * model.x_err_scale_.factor[0], rel=1e-3)
    p = model.predict_distribution(table[["reading"]][4:5])
    np.testing.assert_allclose(numbers_after(out, "    of it from the size of the input errors"), p.of_size, rtol=1e-3)


def test_errors_stated_for_new_rows_are_multiplied_in_every_command(folder, fitted, run):
    """Those of --x-err and of X_err stand for what was stated at the fit, and share its factor."""
    model, table = fitted
    row, stated = table[["reading"]][4:5], 0.1
    p = model.predict_distribution(row, X_err=stated)
    status, _, err = run("predict", "m.eiv", "d.csv", "--x-err", f"reading={stated}", "-o", "p.csv")
    assert status == 0
    assert "Errors that are stated for new rows are multiplied in the same way." in err
    np.testing.assert_allclose(pd.read_csv("p.csv")["std"][4], p.std[0], rtol=1e-6)
    given = ("--x-err", f"reading={stated}", "--row", 5)
    out = run("explain", "m.eiv", "d.csv", *given, "--gum", "g.csv")[1]
    line = next(line for line in out.splitlines() if line.startswith("│ reading "))
    taken = stated * model.x_err_scale_.factor[0]
    np.testing.assert_allclose(numbers_after(line, "reading")[1:3], [stated, taken], rtol=1e-3)
    np.testing.assert_allclose(numbers_after(out, "uncertainty of the true value (std)"), p.std, rtol=1e-3)
    budget = pd.read_csv("g.csv", index_col=0)
    assert budget.loc["reading", "std"] == pytest.approx(taken, rel=0.05)  # the mean over the sizes
    (by_python,) = uncertainty_budgets(model, row, X_err=stated, of="label")
    pd.testing.assert_series_equal(budget.loc["reading"], by_python.to_frame().loc["reading"], rtol=1e-6)
    assert run("denoise", "m.eiv", "d.csv", "--x-err", f"reading={stated}", "-o", "z.csv")[0] == 0
    true = model.true_inputs(table[["reading"]], table["y"], X_err=stated)
    np.testing.assert_allclose(pd.read_csv("z.csv")["reading_true_std"], true.std[:, 0], rtol=1e-5)


@pytest.mark.usefixtures("unrendered")
def test_the_page_says_what_the_size_adds_and_which_errors_are_taken(folder, fitted, run):
    model, table = fitted
    taken = 0.2 * model.x_err_scale_.factor[0]
    for rows in ([], ["d.csv"]):
        assert run("report", "m.eiv", *rows, "-o", "m.html", "--force")[0] == 0
        text = (folder / "m.html").read_text()
        budget = shown_table(text, "Uncertainty budget")
        assert value(budget["reading"][-1]) == pytest.approx(taken, rel=5e-3)
        (added,) = re.findall(r"Of the uncertainty of the fitted curve, ([\d.e-]+) is there because the size", text)
        (shown,) = re.findall(r"The bands include the errors of the inputs .*?: reading ([\d.]+)\.", text, re.S)
        assert float(shown) == pytest.approx(taken, rel=5e-3)
    of_size = model.predict_distribution(table[["reading"]]).of_size
    assert float(added) == pytest.approx(np.sqrt(np.mean(of_size**2)), rel=0.1)
