"""The study of coverage: what a unit is, and that a small one runs."""

import json
import shutil
import warnings

import pandas as pd
import pytest

from eiv import EiVRegressor
from eiv.datasets import simulate
from eiv.experiments.runs import MixedResultsError, RunOptions
from eiv.experiments.studies import coverage
from eiv.experiments.studies.coverage import METHODS, CoverageUnit, study_coverage


def unit(**changes):
    known = {"problem": "linear", "zeta": "uniform", "method": "paper", "n_realisations": 2, "n_networks": 2}
    return CoverageUnit(**(known | {"seed": 0, "device": "cpu"} | changes))


def test_arguments_are_the_papers_and_what_the_method_changes():
    paper = unit().arguments()
    assert (paper["hidden_units"], paper["epochs"], paper["x_err"], paper["n_zeta"]) == (128, 100, 0.1, 5)
    assert unit(method="non-EiV").arguments()["x_err"] is None
    longer = unit(method="paper + longer, falling steps").arguments()
    assert longer["epochs"] * 8 == pytest.approx(5000, abs=8)  # 500 rows are eight minibatches of 64
    assert "steps" not in longer
    assert unit(method="ours").arguments() == {"x_err": 0.1, "recipe": "default"}
    assert unit(method="ours with layers").arguments() == {"x_err": 0.1, "recipe": "default", "network": "paper"}


def test_settings_come_back_from_a_file_as_they_were():
    for method in METHODS:
        settings = unit(method=method).settings()
        assert json.loads(json.dumps(settings)) == settings


def test_the_network_that_is_recorded_is_the_one_that_is_fitted(monkeypatch):
    monkeypatch.setattr("eiv.training.settings._COSINES", 16)
    monkeypatch.setattr("eiv.training.settings._STEPS", 50)
    data = simulate("linear", 60, random_state=0)
    for method, network in {"ours": "cosine", "ours with layers": "paper", "paper": "paper"}.items():
        one = unit(method=method)
        recorded = one.settings()["arguments"]
        arguments = one.arguments() | ({"epochs": 1} if method == "paper" else {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of so short a training
            fitted = EiVRegressor(**arguments, device="cpu", random_state=0).fit(data.X, data.y)
        assert fitted.settings_.network == network
        assert recorded.get("network", "paper") == network
        assert one.cost > 0


def test_keys_are_names_of_files_and_all_different():
    keys = [unit(method=method).key for method in METHODS]
    assert len(set(keys)) == len(METHODS)
    assert all(key.replace("-", "").replace("_", "").isalnum() for key in keys)


@pytest.mark.usefixtures("without_workers", "unrendered")
def test_a_small_study(run, tmp_path, monkeypatch):
    short = {"epochs": 2, "hidden_units": 8, "n_theta": 10}
    monkeypatch.setattr(coverage, "METHODS", {"non-EiV": {"x_err": None} | short, "paper": short})
    monkeypatch.setattr("eiv.experiments.studies.limits._NODES", 401)  # for the smallest possible error
    options = {"--out": tmp_path, "--realisations": 2, "--networks": 2, "--problems": "linear", "--device": "cpu"}
    status, out, _ = run("study", "coverage", *(word for option in options.items() for word in option))
    assert (status, "report.html" in out) == (0, True)
    table = pd.read_csv(tmp_path / "coverage.csv")
    assert len(table) == 2 * 2 * 2 * 2  # zeta, method, realisation, network
    assert table.groupby("method")["aleatoric"].max()["non-EiV"] == 0
    assert table["truth_moment_0.95"].between(0, 1).all()
    assert table.groupby(["zeta", "realisation"])["best_rmse"].nunique().max() == 1  # the same points for all methods
    assert (table["rmse"] > table["best_rmse"]).all()
    assert (table["training_s"] > 0).all()
    units = pd.read_csv(tmp_path / "coverage_units.csv")
    assert units["method"].tolist() == ["non-EiV", "paper"] * 2
    assert json.loads(units["arguments"][0])["hidden_units"] == 8
    page = (tmp_path / "report.html").read_bytes()
    shutil.rmtree(tmp_path / "stacks")  # the tables alone make the page
    assert run("report", tmp_path)[0] == 0
    assert (tmp_path / "report.html").read_bytes() == page


@pytest.mark.usefixtures("without_workers")
def test_a_method_is_added_to_the_tables_of_a_folder(tmp_path, monkeypatch):
    """Also where only the tables are at hand, as in results/coverage."""
    short = {"epochs": 1, "hidden_units": 8, "n_theta": 10}
    monkeypatch.setattr(coverage, "METHODS", {"non-EiV": {"x_err": None} | short, "paper": short, "ours": short})
    monkeypatch.setattr("eiv.experiments.studies.limits._NODES", 401)
    chosen = {"n_realisations": 1, "n_networks": 1, "problems": ["linear"], "options": RunOptions(device="cpu")}
    study_coverage(tmp_path, methods=["paper", "ours"], **chosen)
    shutil.rmtree(tmp_path / "stacks")
    kept = (tmp_path / "coverage.csv").read_text().splitlines()
    table = study_coverage(tmp_path, methods=["non-EiV"], **chosen)
    wanted = [(zeta, method) for zeta in ("uniform", "normal") for method in ("non-EiV", "paper", "ours")]
    assert list(zip(table["zeta"], table["method"], strict=True)) == wanted
    lines = (tmp_path / "coverage.csv").read_text().splitlines()
    assert [line for line in lines if ",non-EiV," not in line] == kept  # to the last digit
    units = pd.read_csv(tmp_path / "coverage_units.csv")
    assert list(zip(units["zeta"], units["method"], strict=True)) == wanted
    with pytest.raises(MixedResultsError, match="seed = 0, not 1"):
        study_coverage(tmp_path, methods=["paper"], seed=1, **chosen)
    chosen["options"] = RunOptions(device="cpu", restart=True)
    alone = study_coverage(tmp_path, methods=["paper"], seed=1, **chosen)
    assert set(alone["method"]) == {"paper"}


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"methods must be among .*'ours'"):
        study_coverage(tmp_path, methods=["best"])
