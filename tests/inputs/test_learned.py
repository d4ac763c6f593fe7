"""Learned input priors against closed forms, known densities, and the coverage of the true inputs."""

from functools import cache

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import norm

from eiv.inputs import LearnedPrior

DOUBLE = torch.float64


def normals(*shape, seed=0):
    return torch.randn(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


def test_one_component_with_one_error_for_all_is_the_variance_less_the_noise():
    x = 3 + 2 * normals(1000, 1) + normals(1000, 1, seed=1)
    prior = LearnedPrior(max_components=1).fit(x, torch.ones(1, 1, dtype=DOUBLE))
    assert prior.means.item() == pytest.approx(x.mean().item(), rel=1e-6)
    assert prior.covariances.item() == pytest.approx(x.var().item() - 1, rel=1e-2)  # a weak prior counts for one row


def test_one_component_with_per_row_errors_is_the_maximum_of_the_likelihood():
    errors = torch.linspace(0.1, 2, 400, dtype=DOUBLE)[:, None]
    x = 1 + normals(400, 1) + errors * normals(400, 1, seed=1)
    prior = LearnedPrior(max_components=1).fit(x, errors)

    def minus_log_likelihood(parameters):
        return -norm.logpdf(x.numpy(), parameters[0], np.sqrt(np.exp(parameters[1]) + errors.numpy() ** 2)).sum()

    best = minimize(minus_log_likelihood, [0.0, 0.0]).x
    assert prior.means.item() == pytest.approx(best[0], abs=0.01)
    assert prior.covariances.item() == pytest.approx(np.exp(best[1]), rel=0.02)


def test_correlated_inputs_and_correlated_errors_are_told_apart():
    covariance = torch.tensor([[1.0, 0.6], [0.6, 0.8]], dtype=DOUBLE)
    noise = torch.tensor([[0.5, -0.3], [-0.3, 0.4]], dtype=DOUBLE)
    n = 4000
    zeta = normals(n, 2) @ torch.linalg.cholesky(covariance).T
    x = zeta + normals(n, 2, seed=1) @ torch.linalg.cholesky(noise).T
    for errors in (noise[None], noise.expand(n, 2, 2)):
        prior = LearnedPrior(max_components=1).fit(x, errors)
        # four standard errors of an element of the covariance of x, at most 1.5 sqrt(2 / n)
        np.testing.assert_allclose(prior.covariances[0], covariance, atol=4 * 1.5 * (2 / n) ** 0.5)


def two_peaks(n_rows, seed=0):
    random = np.random.default_rng(seed)
    zeta = np.where(random.random(n_rows) < 0.3, -1.0, 1.0) + 0.3 * random.standard_normal(n_rows)
    errors = random.uniform(0.3, 0.8, (n_rows, 1))
    x = zeta[:, None] + errors * random.standard_normal((n_rows, 1))
    return zeta, torch.tensor(x), torch.tensor(errors)


def test_a_two_peaked_density_is_recovered_from_noisy_rows():
    """The measured rows have one hump; the distance in total variation to the truth is below 0.1."""
    _, x, errors = two_peaks(2000)
    prior = LearnedPrior().fit(x, errors)
    grid = np.linspace(-4, 4, 2001)
    learned = sum(
        w * norm.pdf(grid, m, v**0.5)
        for w, m, v in zip(prior.weights, prior.means[:, 0], prior.covariances[:, 0], strict=True)
    )
    truth = 0.3 * norm.pdf(grid, -1, 0.3) + 0.7 * norm.pdf(grid, 1, 0.3)
    assert len(prior.weights) > 1
    assert 0.5 * np.abs(learned - truth).sum() * (grid[1] - grid[0]) < 0.1
    middle = np.abs(grid) < 0.5
    assert learned[middle].min() < 0.5 * learned[grid < -0.5].max()


@pytest.mark.parametrize(("n_rows", "x_err"), [(400, 0.1), (400, 0.2), (1600, 0.1), (1600, 0.2)])
def test_intervals_cover_true_inputs_that_are_uniform(n_rows, x_err):
    """As in the paper's simulated sets. Fresh rows; band set beforehand: 0.93 to 0.97, and 0.90 at least at an edge."""
    random = np.random.default_rng(1)
    zeta = random.uniform(-1, 1, (n_rows + 5000, 1))
    x = torch.tensor(zeta + x_err * random.standard_normal(zeta.shape))
    errors = torch.tensor([[x_err]], dtype=DOUBLE)
    posterior = LearnedPrior().fit(x[:n_rows], errors).posterior(x[n_rows:], errors)
    low, high = posterior.draw(torch.tensor([-1.96, 1.96], dtype=DOUBLE)[:, None].expand(5000, 2, 1)).unbind(1)
    truth = torch.tensor(zeta[n_rows:])
    inside = ((low <= truth) & (truth <= high)).double()
    assert 0.93 < inside.mean() < 0.97
    assert inside[x[n_rows:].abs() > 1 - x_err / 2].mean() > 0.90
    error = (posterior.mean - truth).square().mean().sqrt()
    best = {0.1: 0.0955, 0.2: 0.1815}[x_err]  # with the true prior
    assert error < 1.04 * best
    assert error < (x[n_rows:] - truth).square().mean().sqrt()


@pytest.mark.parametrize("n_rows", [2, 3, 10, 30])
@pytest.mark.parametrize("n_features", [1, 4])
def test_few_rows_are_safe(n_rows, n_features):
    x = normals(n_rows, n_features)
    for errors in (torch.full((1, n_features), 0.5), torch.full((n_rows, n_features), 3.0)):
        prior = LearnedPrior().learn(x, errors.double())
        posterior = prior.posterior(x, errors.double())
        assert posterior.mean.isfinite().all()
        assert (posterior.std > 0).all()
        assert (posterior.std < errors).all()


def test_constant_and_exact_columns():
    x = torch.cat([normals(200, 1), torch.full((200, 1), 7.0, dtype=DOUBLE), normals(200, 1, seed=1)], dim=1)
    errors = torch.tensor([[0.5, 0.1, 0.0]], dtype=DOUBLE)
    posterior = LearnedPrior().fit(x, errors).posterior(x, errors)
    assert torch.equal(posterior.mean[:, 2], x[:, 2])
    assert posterior.mean.isfinite().all()
    torch.testing.assert_close(posterior.mean[:, 1], x[:, 1])


CORRELATED = torch.tensor([[0.09, 0.04], [0.04, 0.04]], dtype=DOUBLE)


@cache
def without_constant_columns(n_features):
    """Rows, their errors, and the posterior of the true inputs."""
    x = torch.cat([two_peaks(600)[1], 2 * normals(600, 1)], dim=1)[:, :n_features]
    errors = torch.tensor([[0.3, 0.5]], dtype=DOUBLE)[:, :n_features]
    return x, errors, LearnedPrior().fit(x, errors).posterior(x, errors)


@pytest.mark.parametrize("value", [7.0, 0.1, 0.0, -1e6, 1e200])
@pytest.mark.parametrize("error", [0.0, 0.5])
@pytest.mark.parametrize("n_features", [1, 2])
def test_a_constant_column_moves_nothing(n_features, error, value):
    """The others have the posterior that they have without it, whatever it is for new rows, and it keeps its error."""
    x, errors, alone = without_constant_columns(n_features)
    column = torch.full((600, 1), value, dtype=DOUBLE)
    wide_errors = torch.cat([errors, torch.full((1, 1), error, dtype=DOUBLE)], dim=1)
    prior = LearnedPrior().fit(torch.cat([x, column], dim=1), wide_errors)
    assert len(prior.weights) == alone.means.shape[-2] > 1
    for moved, moved_error in ((0.0, error), (300.0, error), (-2.0, 1.0)):
        new = torch.cat([x, column + moved], dim=1)
        wide_errors[:, -1] = moved_error
        found = prior.posterior(new, wide_errors)
        torch.testing.assert_close(found.mean[:, :-1], alone.mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.std[:, :-1], alone.std.expand_as(found.std[:, :-1]), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.mean[:, -1:], column + moved, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(
            found.std[:, -1], torch.full((600,), moved_error, dtype=DOUBLE), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("per_row", [False, True])
def test_a_constant_column_moves_nothing_by_its_correlated_error(per_row):
    """Nothing is known of its true value, so its distance from the mean says nothing of its error."""
    _, x, _ = two_peaks(600)
    column = torch.full((600, 1), 7.0, dtype=DOUBLE)
    covariance = CORRELATED.expand(600, 2, 2) if per_row else CORRELATED[None]
    prior = LearnedPrior().fit(torch.cat([x, column], dim=1), covariance)
    alone = LearnedPrior().fit(x, covariance[:, :1, :1]).posterior(x, covariance[:, :1, :1])
    for moved in (0.0, 3.0):
        found = prior.posterior(torch.cat([x, column + moved], dim=1), covariance)
        torch.testing.assert_close(found.mean[:, :1], alone.mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.std[:, :1], alone.std.expand(600, 1), rtol=1e-9, atol=1e-9)


def test_constant_columns_alone_leave_what_was_measured():
    x = torch.tensor([[3.0, 0.0]], dtype=DOUBLE).expand(20, 2)
    errors = torch.tensor([[0.5, 0.0]], dtype=DOUBLE)
    found = LearnedPrior().fit(x, errors).posterior(x + 1, errors)
    torch.testing.assert_close(found.mean, x + 1)
    torch.testing.assert_close(found.std.expand(20, 2), errors.expand(20, 2))


def test_units_and_order_of_rows_hardly_matter_and_the_seed_decides():
    _, x, errors = two_peaks(500)
    first, again = (LearnedPrior(random_state=3).fit(x, errors) for _ in range(2))
    assert np.array_equal(first.means, again.means)
    scaled = LearnedPrior(random_state=3).fit(1000 * x + 5, 1000 * errors)
    np.testing.assert_allclose(scaled.means, 1000 * first.means + 5, rtol=1e-6)


def test_impossible_numbers_of_components_are_refused():
    with pytest.raises(ValueError, match="min_components must be 1 to max_components"):
        LearnedPrior(max_components=2, min_components=3).fit(normals(50, 1), torch.full((1, 1), 0.1))


@pytest.mark.parametrize("n_features", [1, 2])
def test_errors_that_leave_nothing_to_learn_are_refused(n_features):
    x = torch.linspace(-1, 1, 20).reshape(-1, 1).expand(-1, n_features)
    with pytest.raises(ValueError, match="x_err: errors so much larger than the spread"):
        LearnedPrior().learn(x, torch.full((1, n_features), 1e308, dtype=torch.float64))
