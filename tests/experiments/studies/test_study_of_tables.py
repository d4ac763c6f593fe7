"""The study of tables: its methods, its real tables, what a unit is, and that a small one runs."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eiv.datasets import DataNotFoundError
from eiv.experiments.studies import real_tables, rivals, tables
from eiv.experiments.studies.real_tables import MEASURED, humidity, left_out, load_table, tables_at_hand
from eiv.experiments.studies.rivals import Answer, fit_rival, installed_rivals
from eiv.experiments.studies.tables import KEPT_SEEDS, TableUnit, study_tables

ROOT = Path(__file__).parents[3]


def unit(problem="seed 0", method="gp", most_rows=100):
    return TableUnit(problem, method, most_rows, "cpu")


def line(n_rows=200, x_err=0.1):
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (n_rows, 2))
    X_err = np.full(2, x_err)
    truth = 3 * zeta[:, 0]
    return zeta + X_err * random.standard_normal(zeta.shape), X_err, truth + 0.1 * random.standard_normal(n_rows), zeta


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of measured tables: two inputs, one with errors in its rows, and a covariance."""
    names = {name: {"file": f"{name}.csv", "target_column": "y", "inputs": ["a", "b"]} for name in MEASURED}
    names["photoz_vvds"]["errors"] = {"a": "e_a", "b": "e_b"}
    names["photoz_vvds"]["covariances"] = ["cov_a_b", "cov_a_y"]
    names["nhanes_age"]["errors"] = {"b": "e_c"}
    names["cpx_pressure"]["errors"] = {"a": "e_a"}
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.normal(size=(50, 3)), columns=["a", "b", "y"])
    rows[["e_a", "e_b"]] = random.uniform(0.1, 0.2, (50, 2))
    rows[["e_c", "cov_a_b", "cov_a_y"]] = 0.25, 0.003, 9.0
    for name in MEASURED:
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "tables.json").write_text(json.dumps(names))
    monkeypatch.setenv("EIV_TABLES", str(tmp_path))
    return rows


def test_errors_of_a_table_are_those_that_it_names(folder):
    table = load_table("cpx_pressure")
    np.testing.assert_allclose(table.X_err, np.column_stack([folder["e_a"], np.zeros(50)]))
    np.testing.assert_array_equal(load_table("nhanes_age").X_err, [0, 0.25])  # the same in all rows
    covariances = load_table("photoz_vvds").X_err
    np.testing.assert_allclose(covariances[:, 0, 1], 0.003)  # that with the label is not one of inputs
    np.testing.assert_allclose(covariances[:, 1, 1], folder["e_b"] ** 2)
    np.testing.assert_allclose(table.y, folder["y"])


def test_splits_are_four_fifths_and_always_the_same(folder):
    table = load_table("cpx_pressure")
    (one, rest), (two, _) = table.splits()
    assert (len(one.y), len(rest.y)) == (40, 10)
    assert set(one.y) | set(rest.y) == set(table.y)
    assert set(one.y) != set(two.y)
    np.testing.assert_array_equal(one.X, load_table("cpx_pressure").splits()[0][0].X)
    (few, same_rest), _ = table.splits(most_rows=20)
    np.testing.assert_array_equal(few.X_err, one.X_err[:20])
    np.testing.assert_array_equal(same_rest.y, rest.y)


def test_tables_that_are_not_at_hand_are_named(monkeypatch, tmp_path):
    for variable in ("EIV_TABLES", "EIV_DATA", "EIV_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path))
    assert tables_at_hand() == ()
    assert all(name in left_out() for name in (*MEASURED, "EIV_TABLES", "yacht", "EIV_DATA"))
    monkeypatch.delenv("EIV_TABLES")
    with pytest.raises(DataNotFoundError, match="EIV_TABLES must name the folder"):
        load_table("nhanes_age")


def test_the_papers_tables_have_errors_of_a_twentieth_of_a_spread(monkeypatch):
    class Data:
        X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "constant": 0.1})
        y = pd.Series([1, 2, 3])

    monkeypatch.setattr(real_tables, "load", lambda name: Data)
    np.testing.assert_allclose(load_table("yacht").X_err, [0.05 * np.std([1, 2, 3]), 0])


def test_the_example_is_that_of_the_readme():
    table, zeta, truth = humidity(400, seed=0)
    printed = pd.read_csv(ROOT / "examples" / "humidity.csv")
    np.testing.assert_array_equal(table.X, printed[["temperature_C", "humidity_percent", "pressure_hPa"]])
    np.testing.assert_array_equal(table.X_err[:, 1], printed["humidity_err"])
    np.testing.assert_array_equal(table.y, printed["mixing_ratio_g_kg"])
    assert np.std((table.X - zeta) / table.X_err, axis=0) == pytest.approx(1, abs=0.1)
    assert np.std(table.y - truth) == pytest.approx(0.15, abs=0.02)


@pytest.mark.parametrize(
    ("method", "form"), [("gp", "equal"), ("boosting", "equal"), ("boosting", "per row"), ("boosting", "correlated")]
)
@pytest.mark.filterwarnings("ignore:The optimal value found")
def test_rivals_learn_a_line(method, form):
    X, X_err, y, zeta = line()
    given = {"equal": X_err, "per row": np.tile(X_err, (200, 1)), "correlated": np.diag(X_err**2)[None]}[form]
    fitted = fit_rival(method, X, given, y)
    answer = fitted.predict(X, given)
    assert np.corrcoef(answer.mean, 3 * zeta[:, 0])[0, 1] > 0.95
    assert 0.9 < np.mean(np.abs(y - answer.mean) < 1.96 * answer.total) <= 1
    if method == "gp":
        np.testing.assert_allclose(answer.total**2, answer.std**2 + fitted.y_noise**2)
    else:
        assert np.isnan(fitted.y_noise)
        assert np.isnan(answer.std).all()


def test_boosting_sees_the_errors():
    columns = rivals._with_errors(np.zeros((3, 2)), np.array([[[4.0, 1.0], [1.0, 9.0]]]))
    np.testing.assert_array_equal(columns, [[0, 0, 2, 3]] * 3)


def test_networks_with_the_errors_and_without(monkeypatch):
    X, X_err, y, _ = line(100)
    short = {"recipe": "paper", "epochs": 2, "hidden_units": 8, "n_theta": 10}
    for with_errors in (True, False):
        fitted = rivals._network(with_errors, **short)(X, X_err, y, 0, "cpu")
        aleatoric = fitted.model.predict_distribution(X[:5]).aleatoric
        assert (aleatoric > 0).all() == with_errors
        answer, exact = fitted.predict(X[:5], X_err), fitted.predict(X[:5], np.zeros(2))
        np.testing.assert_allclose(answer.total**2, answer.std**2 + fitted.y_noise**2, rtol=1e-5)
        assert np.array_equal(answer.mean, exact.mean) != with_errors


def test_packages_that_are_missing_are_left_out(monkeypatch):
    monkeypatch.setattr(rivals, "is_installed", lambda package: package == "ngboost")
    assert installed_rivals() == (*list(rivals.RIVALS)[:6], "ngboost")


def test_keys_are_names_of_files_and_all_different():
    keys = {unit(problem, method).key for problem in ("seed 1", "seed 11", "wine") for method in rivals.RIVALS}
    assert len(keys) == 3 * len(rivals.RIVALS)
    assert all(key.replace("-", "").replace("_", "").isalnum() for key in keys)


@pytest.mark.parametrize("method", rivals.RIVALS)
def test_settings_come_back_from_a_file_as_they_were(method):
    settings = unit(method=method).settings()
    assert json.loads(json.dumps(settings)) == settings
    assert "rows" in settings["words"]


@pytest.mark.slow
def test_the_limit_itself_has_the_scores_of_the_limit(monkeypatch):
    """A method that knows everything: an RMSE of the limit, all intervals right."""

    class Knows:
        y_noise = tables.random_problem(21).y_noise * tables.random_problem(21).y_scale

        def predict(self, X, X_err):
            problem = tables.random_problem(21)
            rows = problem.draw(len(X), "test")
            if not np.any(X_err):
                return Answer(rows.truth, np.full(len(X), 1e-9), np.full(len(X), self.y_noise))
            limit = problem.limit(rows)
            return Answer(limit.mean, np.sqrt(limit.variance), np.sqrt(limit.variance + self.y_noise**2))

    monkeypatch.setattr(tables, "fit_rival", lambda *args, **options: Knows())
    found, _ = unit("seed 21").run(lambda share: None)
    scores = found["networks"].iloc[0]
    assert scores["rmse_ratio"] == pytest.approx(1)
    assert scores["crps"] == pytest.approx(scores["best_crps"])
    assert scores["y_noise_ratio"] == pytest.approx(1)
    assert scores["clean_rmse"] == 0
    assert scores["clean_0.95"] == 1
    assert scores["truth_0.95"] == scores["best_truth_0.95"] == pytest.approx(0.95, abs=0.03)
    assert scores["labels_0.95"] == scores["best_labels_0.95"] == pytest.approx(0.95, abs=0.03)


def test_a_fit_that_fails_has_no_scores(monkeypatch):
    def refuse(*args, **options):
        raise ValueError("x_err is beyond the spread.")

    monkeypatch.setattr(tables, "fit_rival", refuse)
    found, _ = unit().run(lambda share: None)
    row = found["networks"].iloc[0]
    assert row["failure"] == "x_err is beyond the spread."
    assert np.isnan(row["rmse"])
    assert row["best_rmse"] > 0


@pytest.mark.usefixtures("without_workers", "unrendered")
def test_a_small_study(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "tables_at_hand", lambda: ("cpx_pressure",))
    out = tmp_path / "study"
    options = ["--seeds", "0:2", "--methods", "gp,boosting", "--most-rows", "80", "--device", "cpu", "--out", out]
    status, shown, _ = run("study", "tables", *options)
    assert (status, "report.html" in shown, "boosting" in shown) == (0, True, True)
    table = pd.read_csv(out / "tables.csv")
    assert len(table) == 2 * (2 + 1 + 2)  # problems, the example, two splits of a table
    assert set(table["kind"]) == {"random", "real", "example"}
    assert (table.loc[table["kind"] == "random", "n_rows"] <= 80).all()
    assert table["labels_0.95"].between(0, 1).all()
    page = (out / "report.html").read_bytes()
    shutil.rmtree(out / "stacks")  # the tables alone make the page
    assert run("report", out)[0] == 0
    assert (out / "report.html").read_bytes() == page
    table.iloc[:-1].to_csv(out / "tables.csv", index=False)
    assert run("report", out)[0] == 2


def test_the_seeds_that_count_are_not_those_of_development():
    assert (min(KEPT_SEEDS), len(KEPT_SEEDS)) == (1200, 100)


def test_unknown_methods_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"methods must be among .*'ours'"):
        study_tables(tmp_path, methods=["best"])
