import numpy as np
import pytest
import torch
from families import Linear, shrinkage, small, weights_of
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import norm

from eiv.posteriors.variational_dropout import log_uniform_kl


@pytest.mark.parametrize("log_alpha", [-6.0, -2.0, 0.0, 1.0, 4.0])
def test_kl_of_a_scale_is_close_to_quadrature(log_alpha):
    """KL = -1/2 log(2 pi e alpha) + E log|s| + const, zero for infinite alpha, where E log|s| is that of a centred
    normal: log sqrt(alpha) - (gamma + log 2) / 2. The authors give 0.009 as the largest error."""
    std = np.exp(log_alpha / 2)
    zero = -1 / std  # where s is 0 and its logarithm has no value
    pieces = [(-12.0, zero), (zero, 12.0)] if zero > -12 else [(-12.0, 12.0)]
    expected_log = sum(quad(lambda z: norm.pdf(z) * np.log(abs(1 + std * z)), *piece, limit=200)[0] for piece in pieces)
    exact = expected_log - log_alpha / 2 + (np.euler_gamma + np.log(2)) / 2
    assert float(log_uniform_kl(torch.tensor(log_alpha))) == pytest.approx(exact, abs=0.01)


def test_kl_counts_every_unit_and_the_penalty(dtype):
    posterior = small("variational_dropout", dtype=dtype, weight_penalty=2.0)
    units = 2 * 12 * log_uniform_kl(torch.tensor(np.log(0.3 / 0.7)))
    squares = sum(value.detach().square().flatten(1).sum(1) for value in posterior.stack.parameters.values())
    torch.testing.assert_close(posterior.kl().detach(), (units + 2.0 * squares).to(dtype), rtol=1e-5, atol=1e-5)


def optimum(data):
    """Minimise the expected loss over phi and log alpha directly."""
    gram = (data.X**2).sum(0) / (2 * data.y_noise**2)

    def value(phi):
        weights, log_alpha = phi[:2], phi[2]
        residuals = ((data.y - data.X @ weights) ** 2).sum() / (2 * data.y_noise**2)
        noise = np.exp(log_alpha) * (weights**2 * gram).sum()
        divergence = 2 * float(log_uniform_kl(torch.tensor(log_alpha, dtype=torch.float64)))
        return residuals + noise + data.weight_penalty * (weights**2).sum() + divergence

    found = minimize(value, [1.0, -0.5, -2.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    return found.x[:2], np.exp(found.x[2] / 2)


def test_linear_regression_has_one_relative_std_for_all_weights():
    """The shortfall: sqrt(alpha) times each weight's size, where the posterior has a standard
    deviation of its own for each. Their relative mean is that of the posterior within a factor of two."""
    data = Linear(40)
    weights, relative_std = optimum(data)
    draws = weights_of(data.fit("variational_dropout", dropout=0.2, epochs=600, n_networks=8, batch_size=40))
    np.testing.assert_allclose(draws.mean(0), weights, atol=0.03)
    np.testing.assert_allclose(draws.std(0), relative_std * np.abs(weights), rtol=0.15)
    ratio = np.sqrt((draws.var(0).sum()) / np.trace(data.covariance))
    assert 0.5 < ratio < 2


def test_the_epistemic_part_shrinks_as_the_data_grow():
    """alpha goes as 1 / N, so the standard deviation as 0.32."""
    ratio = shrinkage("variational_dropout", dropout=0.2, epochs=700, n_networks=4)
    assert 0.22 < ratio < 0.45
