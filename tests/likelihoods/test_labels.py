"""Labels of a prediction: quantiles, samples and parts of normal noise about draws of f."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm, t
from student_t import StudentLabels

from eiv.likelihoods import Labels, NormalLabels, NormalLikelihood


@pytest.fixture
def draws():
    """200 draws of f for four rows and two outputs."""
    return np.random.default_rng(0).standard_normal((200, 4, 2)) * [1.0, 10.0] + np.arange(4)[:, None]


NOISE = np.array([[0.5, 2.0], [0.1, 0.1], [3.0, 30.0], [1e-3, 1.0]])


@pytest.mark.parametrize("shape", [(), (3,)])
def test_quantiles_invert_the_mixture_of_normals(draws, shape):
    levels = np.array([0.025, 0.5, 0.9])[: shape[0] if shape else 1].reshape(shape)
    found = NormalLabels(NOISE).quantile(draws, levels)
    assert found.shape == (*shape, 4, 2)
    below = norm.cdf((found.reshape(-1, 1, 4, 2) - draws) / NOISE).mean(1)
    expected = np.broadcast_to(levels.reshape(-1, 1, 1), below.shape)
    np.testing.assert_allclose(below, expected, atol=1e-9)


def test_samples_scatter_about_the_draws_by_the_noise(draws):
    """The standard deviation of 200 x 100 labels, within four standard errors."""
    labels, random = NormalLabels(NOISE), np.random.default_rng(1)
    found = np.stack([labels.sample(draws, random) - draws for _ in range(100)])
    np.testing.assert_allclose(found.std((0, 1)) / NOISE, 1.0, rtol=4 * (1 / 40_000) ** 0.5)


class Derived(NormalLabels):
    """Normal labels with the answers for moments that follow from those for draws."""

    moment_interval, moment_log_density = Labels.moment_interval, Labels.moment_log_density


@pytest.mark.parametrize("ratio", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_answers_for_moments_follow_from_those_for_draws(ratio, columns, monkeypatch):
    """Within the error of 400 draws of a normal f, in blocks of a row; the closed forms are those of a normal sum."""
    monkeypatch.setattr("eiv.engine.memory.LABELS", 1)
    mean = np.arange(4.0 if not columns else 8.0).reshape(4, *columns)
    std, noise = ratio + 0 * mean, 1 + 0.1 * mean
    total, y = np.hypot(std, noise), mean + 0.7
    low, high = NormalLabels(noise).moment_interval(mean, std, 0.9)
    np.testing.assert_allclose([low, high], norm.interval(0.9, mean, total))
    np.testing.assert_allclose(NormalLabels(noise).moment_log_density(mean, std, y), norm.logpdf(y, mean, total))
    found = np.array(Derived(noise).moment_interval(mean, std, 0.9))
    np.testing.assert_allclose((found - mean) / total, (np.array([low, high]) - mean) / total, atol=0.01)
    found = Derived(noise).moment_log_density(mean, std, y)
    np.testing.assert_allclose(found, norm.logpdf(y, mean, total), atol=0.01)


def test_densities_about_draws_are_those_of_the_mixture(draws):
    y = draws.mean(0) + NOISE
    expected = np.log(norm.pdf(y, draws, NOISE).mean(0))
    np.testing.assert_allclose(NormalLabels(NOISE).log_density(draws, y), expected)


def test_labels_of_ones_own_answer_for_a_normal_f():
    """Student-t noise of scale 1 about f with standard deviation 0.5, by numerical integration."""
    mean, std, y = np.array([2.0]), np.array([0.5]), np.array([4.5])
    labels = StudentLabels(np.ones(1), 5.0)
    density, _ = quad(lambda f: norm.pdf(f, 2.0, 0.5) * t.pdf(4.5 - f, 5.0), -2.0, 6.0)
    np.testing.assert_allclose(labels.moment_log_density(mean, std, y), np.log(density), atol=2e-3)
    low, high = labels.moment_interval(mean, std, 0.99)
    covered, _ = quad(lambda f: norm.pdf(f, 2.0, 0.5) * np.diff(t.cdf([low[0] - f, high[0] - f], 5.0))[0], -2.0, 6.0)
    assert covered == pytest.approx(0.99, abs=1e-4)


def test_there_may_be_no_rows():
    nothing = np.empty((0, 2))
    for labels in (NormalLabels(nothing), Derived(nothing), StudentLabels(nothing, 5.0)):
        assert [each.shape for each in labels.moment_interval(nothing, nothing, 0.9)] == [(0, 2)] * 2
        assert labels.moment_log_density(nothing, nothing, nothing).shape == (0, 2)


def test_those_of_some_rows(draws):
    labels = NormalLabels(NOISE)
    for rows in (slice(1, 3), np.array([3, 0]), np.array([True, False, True, False])):
        part = labels[rows]
        np.testing.assert_array_equal(part.std, NOISE[rows])
        whole = labels.quantile(draws, np.array(0.3))
        np.testing.assert_allclose(part.quantile(draws[:, rows], np.array(0.3)), whole[rows])


def test_labels_without_their_methods_cannot_be_made():
    with pytest.raises(TypeError, match="abstract methods"):
        Labels()


def test_those_of_a_likelihood_are_pooled_and_in_units_of_y():
    """sigma_y of 3 and 4 in two networks: the root of 12.5, times the unit of y; known errors on top."""
    likelihood = NormalLikelihood(torch.tensor([[3.0, 1.0], [4.0, 1.0]]))
    np.testing.assert_allclose(likelihood.std(), [12.5**0.5, 1.0])
    scale, y_err = np.array([10.0, 2.0]), np.array([[0.0, 1.5], [1.0, 0.0], [5.0, 5.0]])
    sigma = np.array([10 * 12.5**0.5, 2.0])
    np.testing.assert_allclose(likelihood.labels(scale, (3, 2)).std, np.broadcast_to(sigma, (3, 2)))
    np.testing.assert_allclose(likelihood.labels(scale, (3, 2), y_err).std, np.hypot(sigma, y_err))


def test_networks_count_by_their_shares():
    """sigma_y of 3 and 4 with shares 0.9 and 0.1: the root of 0.9 * 9 + 0.1 * 16."""
    likelihood, pool = NormalLikelihood(torch.tensor([[3.0], [4.0]])), torch.tensor([0.9, 0.1], dtype=torch.float64)
    np.testing.assert_allclose(likelihood.std(pool), [9.7**0.5])
    labels = likelihood.labels(np.array([2.0]), (3, 1), None, pool)
    np.testing.assert_allclose(labels.std, np.full((3, 1), 2 * 9.7**0.5))
