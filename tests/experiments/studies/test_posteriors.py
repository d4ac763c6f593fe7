"""The study of weight posteriors: its units, that it goes on after being killed, its scores and its page."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from eiv import EiVRegressor
from eiv.experiments.paper.problems import problem
from eiv.experiments.paper.settings import TRAINING
from eiv.experiments.runs import RunOptions
from eiv.experiments.studies import posteriors, posteriors_page
from eiv.experiments.studies.posteriors import DATA_SETS, PosteriorUnit, study_posteriors
from eiv.experiments.studies.posteriors_page import write_posteriors_page
from eiv.likelihoods import NormalLabels
from eiv.metrics import coverage, crps, interval_score, nll
from eiv.posteriors import FAMILIES
from scenarios import only_svg


def unit(**changes):
    known = {"dataset": "linear", "method": "eiv", "family": "mean_field", "n_models": 2, "epochs_share": 1.0}
    return PosteriorUnit(**(known | {"seed": 0, "device": "cpu"} | changes))


def study(folder, **changes):
    known = {"data_sets": ["linear"], "families": ["bernoulli_dropout", "ensemble"], "n_networks": 2}
    options = RunOptions("cpu", console=Console(quiet=True))
    return study_posteriors(folder, **known | changes, options=options)


@pytest.fixture
def small(monkeypatch):
    """Networks of eight units that are trained for four epochs."""
    rows = {name: replace(row, hidden_units=8, epochs=4, y_noise_every=2) for name, row in TRAINING.items()}
    monkeypatch.setattr(posteriors, "TRAINING", rows)


def without_times(table):
    return table.drop(columns=["training_s", "prediction_s"])


def test_the_study_is_of_ten_sets_and_all_families():
    assert len(DATA_SETS) == 10
    keys = {unit(dataset=name, family=family).key for name in DATA_SETS for family in FAMILIES}
    assert len(keys) == 10 * len(FAMILIES)


def test_a_unit_has_the_papers_settings_but_for_its_family():
    regressor = unit()._stack.regressor(problem("linear", 0, 2))
    assert (regressor.hidden_units, regressor.epochs, regressor.x_err, regressor.n_theta) == (128, 100, 0.1, 100)
    assert unit(epochs_share=0.1).training == replace(TRAINING["linear"], epochs=10, y_noise_every=4)
    assert unit(epochs_share=1e-6).training.epochs == 2  # as few as SWAG takes
    assert (unit(family="ensemble").members, unit().members) == (5, 1)


def test_settings_come_back_from_a_file_as_they_were():
    for name in ("linear", "yacht"):
        settings = unit(dataset=name).settings()
        assert json.loads(json.dumps(settings)) == settings


def test_a_small_study_goes_on_where_it_was(small, tmp_path, monkeypatch):
    whole = study(tmp_path / "whole")
    assert whole.groupby(["method", "family"]).size().tolist() == [2, 2, 2, 2]
    assert whole[whole["method"] == "non_eiv"]["aleatoric"].max() == 0
    assert (whole[["training_s", "prediction_s"]] > 0).all().all()
    seen, whole_run = [], PosteriorUnit.run

    def killed(self, on_progress):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(self.key)
        return whole_run(self, on_progress)

    monkeypatch.setattr(PosteriorUnit, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        study(tmp_path / "killed")
    monkeypatch.setattr(
        PosteriorUnit, "run", lambda self, on_progress: seen.append(self.key) or whole_run(self, on_progress)
    )
    again = study(tmp_path / "killed")
    assert len(seen) == len(set(seen)) == 4  # none ran twice
    pd.testing.assert_frame_equal(without_times(again), without_times(whole))


def test_scores_are_those_of_the_models(small, tmp_path):
    table = study(tmp_path, families=["mean_field"]).query("method == 'eiv'")
    data = problem("linear", 0, 2)
    model = unit()._fit(data, epochs=4)[1]
    _, test = data.splits[1]
    p = model.predict_distribution(data.X[test], keep_draws=False)
    row = table.iloc[1]
    low, high = p.interval(of="label")
    assert row["truth_coverage"] == coverage(data.truth[test], *p.interval())
    assert row["nll"] == pytest.approx(nll(data.y[test], p.mean, p.total))
    assert row["crps"] == pytest.approx(crps(data.y[test], p.mean, p.total))
    assert row["interval_score"] == pytest.approx(interval_score(data.y[test], low, high, 0.95))
    assert row["bound_gap"] == model.bound_gap_


def test_an_ensemble_has_five_members_and_time_is_a_networks(small):
    ensemble = unit(family="ensemble")
    tables, seconds = ensemble.run(lambda share: None)
    assert tables["networks"]["training_s"].tolist() == pytest.approx([seconds["training_s"] / 10] * 2)
    model = ensemble._fit(problem("linear", 0, 2), epochs=2)[0]
    assert isinstance(model, EiVRegressor)
    assert model.posterior_.stack.n_networks == 5


def test_label_scores_of_real_data_are_in_units_of_the_spread():
    ones = np.ones(3)
    p = posteriors.Prediction(0 * ones, 3 * ones, 4 * ones, 0 * ones, labels=NormalLabels(0 * ones))
    y = np.array([5.0, -5.0, 20.0])
    by_hand = {"nll": nll(y / 5, 0 * ones, ones), "crps": crps(y / 5, 0 * ones, ones)}
    found = posteriors._label_scores(p, y, 5.0)
    assert {name: found[name] for name in by_hand} == pytest.approx(by_hand)
    assert found["interval_score"] == pytest.approx(2 * 1.96 + 40 * (4 - 1.96) / 3, rel=1e-4)


@pytest.mark.usefixtures("unrendered")
def test_where_training_diverges_there_are_no_scores_and_the_page_says_so(small, tmp_path, monkeypatch):
    wild = {name: replace(row, learning_rate=1e30) for name, row in posteriors.TRAINING.items()}
    monkeypatch.setattr(posteriors, "TRAINING", wild)
    table = study(tmp_path, families=["bernoulli_dropout", "swag"])
    assert table["rmse"].isna().all()
    assert "diverged" in write_posteriors_page(tmp_path).read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"families": ["dropout"]}, r"families must be among 'bernoulli_dropout'.*got 'dropout'"),
        ({"data_sets": ["protein"]}, r"data_sets must be among 'linear'.*got 'protein'"),
        ({"n_networks": 0}, "n_networks must be at least 1, got 0"),
        ({"n_ensembles": 0}, "n_ensembles must be at least 1, got 0"),
        ({"epochs_share": 1.5}, r"epochs_share must be above 0 and at most 1, got 1\.5"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        study(tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


def made_up(folder, data_sets=DATA_SETS, families=tuple(FAMILIES)):
    """The tables of a study with numbers that were made up; mean field takes four times Bernoulli's time."""
    random = np.random.default_rng(0)
    keys = pd.MultiIndex.from_product([data_sets, ["eiv", "non_eiv"], families], names=["dataset", "method", "family"])
    units = keys.to_frame(index=False)
    known = {"n_models": 10, "epochs_share": 1.0, "seed": 0, "device_name": "<GPU>", "eiv": "0", "torch": "2"}
    units = units.assign(**known, numpy="2", python="3", training_s=1.0, evaluation_s=0.5, finished="2026-01-01")
    units["members"] = np.where(units["family"] == "ensemble", 5, 1)
    table = units[["dataset", "method", "family"]].merge(pd.DataFrame({"network": range(10)}), how="cross")
    for column in (*posteriors.SCORES, "prediction_s"):
        table[column] = 0.9 + 0.05 * random.random(len(table))
    table["training_s"] = np.where(table["family"] == "mean_field", 4.0, 1.0)
    table.loc[~table["dataset"].isin(["linear", "quadratic", "cubic", "sine"]), ["truth_coverage", "rmse_truth"]] = (
        np.nan
    )
    table.to_csv(folder / posteriors.TABLE, index=False)
    units.to_csv(folder / posteriors.UNITS, index=False)
    return table


def test_the_page_needs_nothing_from_elsewhere(tmp_path):
    made_up(tmp_path)
    with only_svg():
        text = write_posteriors_page(tmp_path).read_text()
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert len([source for source in sources if source.startswith("data:image")]) == 5
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert "<GPU>" not in text  # escaped
    assert "not the whole study" not in text


def test_ratios_on_the_page_are_those_of_the_table(tmp_path):
    table = made_up(tmp_path)
    ratios = posteriors_page._ratios(table, "training_s").set_index(["dataset", "method", "family"])["ratio"]
    assert ratios["sine", "eiv", "mean_field"] == 4.0
    assert ratios["sine", "eiv", "bernoulli_dropout"] == 1.0
    pairs = posteriors_page._compared(table, "crps", np.divide)
    chosen = table.query("dataset == 'wine' and method == 'eiv'").pivot(
        index="network", columns="family", values="crps"
    )
    expected = (chosen["swag"] / chosen["bernoulli_dropout"]).agg(["mean", "sem"])
    assert pairs.loc["wine", "eiv", "swag"].tolist() == pytest.approx(expected.tolist())


def test_the_page_in_markdown_has_its_figures_beside_it(tmp_path):
    made_up(tmp_path, data_sets=["sine", "wine"])
    page = write_posteriors_page(tmp_path, tmp_path / "families.md")
    text = page.read_text()
    figures = re.findall(r"!\[\w+\]\((.*)\)", text)
    assert len(figures) == 5
    assert all((tmp_path / name).is_file() for name in figures)
    rows = [line for line in text.splitlines() if line.startswith("| sine | EiV | mean_field | 4.000 | 4.00 |")]
    assert len(rows) == 1


@pytest.mark.usefixtures("unrendered")
def test_report_makes_the_page_again(run, tmp_path):
    made_up(tmp_path, data_sets=["sine"], families=["bernoulli_dropout", "swag"])
    assert run("report", tmp_path, "-o", tmp_path / "page.md")[0] == 0
    assert (tmp_path / "page.md").read_text().startswith("# Weight posteriors compared")


def test_rows_without_a_score_are_refused(run, tmp_path):
    made_up(tmp_path)
    table = pd.read_csv(tmp_path / "posteriors.csv")
    table.loc[:2, "crps"] = np.nan
    table.to_csv(tmp_path / "posteriors.csv", index=False)
    status, _, err = run("report", tmp_path)
    assert status == 2
    assert f"3 of {len(table)} rows of posteriors.csv lack a score" in err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.usefixtures("unrendered")
def test_a_part_of_the_study_says_what_is_missing(tmp_path, monkeypatch):
    made_up(tmp_path, data_sets=["yacht"], families=["swag", "ensemble"])
    text = write_posteriors_page(tmp_path).read_text()
    assert "This is not the whole study: without linear, quadratic" in text
    assert "When to use which family" not in text
    monkeypatch.setattr(posteriors_page, "DATA_SETS", ("yacht",))
    made_up(tmp_path, data_sets=["yacht"])
    (tmp_path / "remarks.md").write_text("Take any.\n")
    text = write_posteriors_page(tmp_path).read_text()
    assert "This is not the whole study" not in text
    assert "When to use which family" in text
    assert "Take any." in text


@pytest.mark.usefixtures("unrendered")
def test_what_the_command_prints_fits_into_80_columns(run, tmp_path, monkeypatch):
    table = made_up(tmp_path)
    monkeypatch.setattr(posteriors, "study_posteriors", lambda *args, **options: table)
    status, out, _ = run("study", "posteriors", "--out", tmp_path, width=80)
    assert status == 0
    lines = [line.rstrip() for line in out.splitlines()]
    assert "…" not in out
    assert max(map(len, lines[:-1])) <= 80  # the last one holds a path
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in lines if line.startswith(tuple(FAMILIES))}
    assert len(rows) == 2 * len(FAMILIES)
    truth = table.query("family == 'swag' and method == 'non_eiv'")["truth_coverage"].mean()
    assert rows["swag", "non-EiV"][0] == f"{truth:.3f}"
    assert rows["mean_field", "EiV"][3] == "4.000"  # times the training of Bernoulli dropout


def test_without_tables_there_is_no_page(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"posteriors\.csv is missing"):
        write_posteriors_page(tmp_path)


@pytest.mark.usefixtures("unrendered")
def test_the_page_in_docs_is_that_of_the_results(tmp_path):
    root = Path(__file__).parents[3]
    page = write_posteriors_page(root / "results" / "posteriors", tmp_path / "posteriors.md")
    assert page.read_text() == (root / "docs" / "posteriors.md").read_text()
    assert "When to use which family" in page.read_text()


@pytest.mark.parametrize(("times", "alone"), [(None, True), (True, True), (False, False)])
def test_units_run_alone_unless_times_are_not_asked_for(tmp_path, monkeypatch, times, alone):
    seen = {}

    def run_units(units, folder, console, restart, alone):
        seen.update(timed={unit.timed for unit in units}, alone=alone, restart=restart)

    monkeypatch.setattr(posteriors, "run_units", run_units)
    monkeypatch.setattr(posteriors, "collect_units", lambda *_: None)
    study_posteriors(tmp_path, options=RunOptions("cpu", times, restart=True))
    assert seen == {"timed": {alone}, "alone": alone, "restart": True}
