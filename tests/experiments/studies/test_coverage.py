"""The study of coverage: what a unit is, and that a small one runs."""

import json
import shutil

import pandas as pd
import pytest

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


def test_settings_come_back_from_a_file_as_they_were():
    for method in METHODS:
        settings = unit(method=method).settings()
        assert json.loads(json.dumps(settings)) == settings


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


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"methods must be among .*'ours'"):
        study_coverage(tmp_path, methods=["best"])
