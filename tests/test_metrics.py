import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.metrics import root_mean_squared_error

from eiv.metrics import calibration_curve, coverage, crps, interval_score, nll, rmse

RANDOM = np.random.default_rng(0)
TRUTH, MEAN = RANDOM.normal(size=(2, 30, 2))
STD = RANDOM.uniform(0.2, 2.0, (30, 2))
DRAWS = MEAN + STD * RANDOM.normal(size=(40, 30, 2))


def test_rmse_agrees_with_scikit_learn():
    a, b = np.random.default_rng(0).normal(size=(2, 50))
    assert rmse(a, b) == pytest.approx(root_mean_squared_error(a, b))


def test_coverage_counts_the_values_inside_ends_included():
    assert coverage([0, 1, 2, 3], low=[0, 0, 0, 0], high=[0, 1, 1, 9]) == 0.75


def test_nll_of_a_normal_distribution_and_of_a_mixture():
    assert nll(TRUTH, MEAN, STD) == pytest.approx(-norm.logpdf(TRUTH, MEAN, STD).mean())
    density = norm.pdf(TRUTH, DRAWS, 0.3).mean(0)
    assert nll(TRUTH, DRAWS, 0.3) == pytest.approx(-np.log(density).mean())
    assert np.isfinite(nll([0.0], [[1e3], [2e3]], 1.0))


def test_crps_is_the_integral_that_defines_it():
    t, m, s = 0.7, 0.2, 1.3
    by_hand = sum(quad(lambda z, step=step: (norm.cdf(z, m, s) - step) ** 2, *ends)[0]
                  for step, ends in ((0, (-12, t)), (1, (t, 12))))  # fmt: skip
    assert crps(t, m, s) == pytest.approx(by_hand, abs=1e-8)
    assert crps([1.0, 2.0], [0.0, 0.0], [0.0, 0.0]) == 1.5


def test_crps_of_draws_is_the_sum_over_pairs():
    pairs = np.abs(DRAWS[:, None] - DRAWS).mean((0, 1))
    assert crps(TRUTH, draws=DRAWS) == pytest.approx((np.abs(DRAWS - TRUTH).mean(0) - 0.5 * pairs).mean())


def test_crps_of_many_draws_is_that_of_the_distribution():
    """The bias is E|Z - Z'| / (2 K) = 1 / (sqrt(pi) K); the standard error of each term is below 1 / sqrt(K)."""
    draws = RANDOM.normal(size=(20_000, 1))
    assert crps([0.5], draws=draws) == pytest.approx(crps([0.5], [0.0], [1.0]), abs=5 / 20_000**0.5)


def test_crps_says_what_is_missing():
    with pytest.raises(TypeError, match="one of them is missing"):
        crps([0.0], [0.0])
    with pytest.raises(TypeError, match="not both"):
        crps([0.0], [0.0], [1.0], draws=[[0.0]])


def test_the_interval_score_is_best_at_the_quantiles():
    t = RANDOM.normal(size=20_000)
    scores = [interval_score(t, -z, z, 0.9) for z in (1.3, norm.ppf(0.95), 2.1)]
    expected = 2 * norm.ppf(0.95) + 2 / 0.1 * 2 * (norm.pdf(norm.ppf(0.95)) - norm.ppf(0.95) * 0.05)
    assert scores[1] == min(scores)
    assert scores[1] == pytest.approx(expected, abs=5 * np.std(20 * np.maximum(np.abs(t) - 1.645, 0)) / 20_000**0.5)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        interval_score([0.0], [0.0], [1.0], 95)


def test_the_calibration_curve_is_the_coverage_at_each_level():
    levels = [0.1, 0.5, 0.95]
    curve = calibration_curve(TRUTH, MEAN, STD, levels)
    for level, found in zip(levels, curve, strict=True):
        half = norm.ppf((1 + level) / 2) * STD
        assert found == coverage(TRUTH, MEAN - half, MEAN + half)
    t = RANDOM.normal(size=20_000)
    np.testing.assert_allclose(calibration_curve(t, 0.0, 1.0, levels), levels, atol=5 * 0.5 / 20_000**0.5)


def test_an_independent_referee_agrees():
    referee = pytest.importorskip("scoringrules", exc_type=ImportError)
    assert crps(TRUTH, MEAN, STD) == pytest.approx(np.mean(referee.crps_normal(TRUTH, MEAN, STD)), rel=1e-12)
    by_draws = referee.crps_ensemble(TRUTH, np.moveaxis(DRAWS, 0, -1), estimator="nrg")
    assert crps(TRUTH, draws=DRAWS) == pytest.approx(np.mean(by_draws), rel=1e-12)
    assert nll(TRUTH, MEAN, STD) == pytest.approx(np.mean(referee.logs_normal(TRUTH, MEAN, STD)), rel=1e-12)
    mixture = referee.logs_mixnorm(TRUTH, np.moveaxis(DRAWS, 0, -1), np.full((30, 2, 40), 0.3))
    assert nll(TRUTH, DRAWS, 0.3) == pytest.approx(np.mean(mixture), rel=1e-12)
    scores = referee.interval_score(TRUTH, MEAN - STD, MEAN + STD, 0.2)
    assert interval_score(TRUTH, MEAN - STD, MEAN + STD, 0.8) == pytest.approx(np.mean(scores), rel=1e-12)
