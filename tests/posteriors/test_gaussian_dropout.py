import numpy as np
import torch
from families import Linear, shrinkage, small, streams, weights_of


def test_masks_have_the_moments_of_bernoulli_dropout():
    posterior = small("gaussian_dropout")
    (first, *_) = posterior.draw(streams(dtype=torch.float64), 20_000).values()
    n = first[0].numel()
    alpha = 0.3 / 0.7
    assert ((first.flatten(1).mean(1) - 1).abs() < 5 * (alpha / n) ** 0.5).all()
    assert ((first.flatten(1).var(1) / alpha - 1).abs() < 5 * (2 / n) ** 0.5).all()
    assert (first < 0).any()


def test_kl_is_the_normal_prior_of_phi_up_to_a_constant():
    differences = []
    for factor in (1.0, 3.0):
        posterior = small("gaussian_dropout", weight_penalty=2.0)
        for value in posterior.parameters:
            value.data.mul_(factor)
        prior = torch.distributions.Normal(0.0, 0.5)  # 1 / (2 lambda^2) = 2
        log_prior = sum(prior.log_prob(value.double()).flatten(1).sum(1) for value in posterior.parameters)
        differences.append(posterior.kl() + log_prior)
    torch.testing.assert_close(*differences)


def test_linear_regression_is_ridge_regression_with_stds_of_fixed_share():
    """Noise on the inputs adds alpha diag(X'X) to the precision (Wager et al., 2013), so the mean is shrunk; the spread
    is sqrt(alpha) of each weight's size, whatever the data say: the family's shortfall."""
    data, alpha = Linear(40), 0.25
    gram = data.X.T @ data.X / data.y_noise**2
    ridge = gram + alpha * np.diag(np.diag(gram)) + 2 * data.weight_penalty * np.eye(2)
    expected = np.linalg.solve(ridge, data.X.T @ data.y / data.y_noise**2)
    # Steps of Adam about the minimum: one network is off by some learning rates, the mean of eight by less than 0.03.
    draws = weights_of(data.fit("gaussian_dropout", dropout=0.2, epochs=400, n_networks=8, batch_size=40))
    np.testing.assert_allclose(draws.mean(0), expected, atol=0.03)
    np.testing.assert_allclose(draws.std(0), alpha**0.5 * np.abs(expected), rtol=0.1)
    assert (draws.std(0) > 1.5 * np.sqrt(np.diag(data.covariance))).all()


def test_the_epistemic_part_does_not_shrink_as_the_data_grow():
    assert 0.7 < shrinkage("gaussian_dropout", dropout=0.2, epochs=200, n_networks=2) < 1.4
