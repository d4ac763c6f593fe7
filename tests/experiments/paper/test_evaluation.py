"""Scores of predictions whose outcome is known."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from eiv import Prediction
from eiv.datasets import SIMULATED
from eiv.experiments.paper.evaluation import LEVELS, evaluate_models, evaluate_regression
from eiv.experiments.paper.problems import Points, Problem, problem
from eiv.likelihoods import NormalLabels


class Oracle:
    """Predicts a constant with a given u and sigma_y; the literal estimator has half the u."""

    def __init__(self, mean, u, noise):
        self.mean, self.u, self.noise = mean, u, noise

    def predict_distribution(self, x, method, keep_draws):
        ones = np.ones(len(x))
        u = self.u * (1 if method == "unbiased" else 0.5)
        labels = NormalLabels(self.noise * ones)
        return Prediction(self.mean * ones, 0.6 * u * ones, 0.8 * u * ones, labels.std, labels=labels)


def toy():
    y = np.array([0.0, 0.0, 1.0, -1.0, 3.0])
    truth = np.array([0.0, 0.0, 0.5, -0.5, 2.5])
    splits = [(np.array([0, 1]), np.array([2, 3, 4])), (np.array([0, 2]), np.array([1, 3, 4]))]
    points = (Points("fresh", np.zeros(2), np.ones(2), np.zeros(2), np.ones(2)),)
    return Problem("linear", np.zeros((5, 1)), y, truth, splits, points, 0)


def test_scores_by_hand():
    found = evaluate_models(toy(), [Oracle(0.0, 1.0, 2.0), Oracle(1.0, 1.0, 2.0)])
    first = found.networks.query("network == 0 and estimator == 'unbiased'").iloc[0]
    assert first["rmse"] == pytest.approx(np.sqrt((1 + 1 + 9) / 3))
    assert first["rmse_truth"] == pytest.approx(np.sqrt((0.25 + 0.25 + 6.25) / 3))
    assert first["label_coverage_u"] == pytest.approx(2 / 3)  # 1.96
    assert first["label_coverage_total"] == 1.0  # 1.96 * sqrt 5 = 4.38
    assert first["truth_coverage"] == pytest.approx(2 / 3)
    assert (first["u"], first["epistemic"], first["aleatoric"]) == pytest.approx((1.0, 0.6, 0.8))
    literal = found.networks.query("network == 0 and estimator == 'literal'").iloc[0]
    assert literal["label_coverage_u"] == 0.0  # 0.98


def test_calibration_and_points_by_hand():
    found = evaluate_models(toy(), [Oracle(0.0, 1.0, 2.0), Oracle(1.0, 1.0, 2.0)])
    curve = found.calibration.query("network == 0 and estimator == 'unbiased'")
    assert tuple(curve["q"]) == LEVELS
    # |truth| is 0.5, 0.5, 2.5: two points are inside once the factor passes 0.5, q = 0.383
    assert curve.set_index("q")["coverage"].loc[[0.35, 0.4, 0.95]].tolist() == pytest.approx([0, 2 / 3, 2 / 3])
    points = found.points.query("estimator == 'unbiased'")
    assert points["mean"].tolist() == [0.5, 0.5]  # of 0 and 1
    assert points["mean_se"].tolist() == pytest.approx([0.5, 0.5])


def test_real_data_are_scored_in_units_of_the_training_labels():
    data = toy()
    splits = [(np.array([0, 2]), np.array([1, 3, 4])), (np.array([0, 4]), np.array([1, 2, 3]))]
    real = Problem("yacht", data.X, data.y, None, splits, (), 0)
    found = evaluate_models(real, [Oracle(0.0, 1.0, 2.0), Oracle(0.0, 1.0, 2.0)]).networks
    second = found.query("network == 1 and estimator == 'unbiased'").iloc[0]
    unit = np.std([0.0, 3.0])
    assert second["unit"] == unit
    assert second["rmse"] == pytest.approx(np.sqrt((0 + 1 + 1) / 3) / unit)
    assert second["y_noise"] == pytest.approx(2.0 / unit)
    assert np.isnan(second["truth_coverage"])


def test_more_networks_leave_the_first_ones_alone():
    few, many = problem("cubic", seed=3, n_networks=2), problem("cubic", seed=3, n_networks=4)
    np.testing.assert_array_equal(few.X, many.X[:2000])
    np.testing.assert_array_equal(few.y, many.y[:2000])
    for (train, test), (other_train, other_test) in zip(few.splits, many.splits, strict=False):
        np.testing.assert_array_equal(train, other_train)
        np.testing.assert_array_equal(test, other_test)
    assert few.network_seed == many.network_seed
    for one, other in zip(few.points, many.points, strict=True):
        np.testing.assert_array_equal(one.x, other.x)


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_data_are_drawn_anew_for_each_network(name):
    """No two networks share a row or a value, and each has as many rows as the paper says."""
    data, n_rows = problem(name, seed=0, n_networks=4), SIMULATED[name].n_rows
    assert [(len(train), len(test)) for train, test in data.splits] == [(0.8 * n_rows, 0.2 * n_rows)] * 4
    rows = np.concatenate([np.concatenate(split) for split in data.splits])
    assert len(np.unique(rows)) == len(rows) == 4 * n_rows
    for values in (data.X[rows, 0], data.y[rows], data.truth[rows]):
        assert len(np.unique(values)) == len(values)
    other = problem(name, seed=1, n_networks=4)
    assert not set(other.y) & set(data.y)
    np.testing.assert_allclose(np.std(data.y - data.truth), SIMULATED[name].y_noise, rtol=0.1)


def test_standard_errors_are_those_of_other_data():
    """What another seed changes of a mean over the networks is what its standard error says.

    Forty seeds measure their scatter to one part in nine. With ten overlapping splits of one data set it was about
    twice the standard error.
    """
    found = [evaluate_regression(problem("quadratic", seed, n_networks=10)).networks for seed in range(40)]
    for reading in ("parameters", "predictive"):
        coverage = [table[table["estimator"] == reading]["truth_coverage"] for table in found]
        means, errors = np.array([(values.mean(), values.sem()) for values in coverage]).T
        assert 0.75 < means.std(ddof=1) / np.sqrt(np.mean(errors**2)) < 1.25


def test_real_data_are_one_table_split_anew(monkeypatch):
    table = SimpleNamespace(X=np.arange(50.0)[:, None], y=pd.Series(np.arange(50.0)))
    monkeypatch.setattr("eiv.experiments.paper.problems.load", lambda name: table)
    data = problem("yacht", seed=0, n_networks=3)
    assert (data.X.shape, data.truth, data.points) == ((50, 1), None, ())
    for train, test in data.splits:
        assert (len(train), sorted([*train, *test])) == (40, list(range(50)))
    assert set(data.splits[0][1]) != set(data.splits[1][1])


def test_regression_readings():
    """With sigma_y the band covers too much where that is large, and far too little where it is small."""
    readings = {}
    for name in SIMULATED:
        found = evaluate_regression(problem(name, seed=0, n_networks=5)).networks
        readings[name] = found.groupby("estimator")["truth_coverage"].mean()
        assert readings[name]["parameters"] < 0.4  # little uncertainty is left of 400 rows, less of 1,600
    assert readings["linear"]["predictive"] > 0.98
    assert 0.85 < readings["quadratic"]["predictive"] < 0.95
    assert readings["cubic"]["predictive"] < 0.7
    assert readings["sine"]["predictive"] < 0.2
