import numpy as np
import pytest
import torch
from families import Linear, shrinkage, small, streams, weights_of
from torch.distributions import Normal, kl_divergence

from eiv.posteriors.mean_field import _SigmaKL, _Weights


def test_kl_is_that_of_normal_distributions(dtype):
    posterior = small("mean_field", dtype=dtype, weight_penalty=2.0)
    posterior.learned["log_sigma"].data.add_(0.05 * torch.randn_like(posterior.learned["log_sigma"]))
    means = torch.cat([value.flatten(1) for value in posterior.stack.parameters.values()], dim=1)
    q, prior = Normal(means, posterior.sigmas), Normal(0.0, 0.5)
    torch.testing.assert_close(posterior.kl(), kl_divergence(q, prior).sum(1), rtol=1e-4, atol=1e-3)
    draws = q.sample((4000,))
    terms = (q.log_prob(draws) - prior.log_prob(draws)).sum(2)
    standard_error = terms.std(0) / 4000**0.5
    assert ((terms.mean(0) - posterior.kl()).abs() < 5 * standard_error).all()


@pytest.mark.parametrize("n_draws", [1, 3])
def test_gradients_written_by_hand_are_right(n_draws):
    posterior = small("mean_field", build=lambda: torch.nn.Linear(2, 1))
    draw = posterior.draw(streams(dtype=torch.float64), n_draws)
    log_sigma, *means = posterior.learned["log_sigma"], *posterior.stack.parameters.values()
    assert torch.autograd.gradcheck(lambda *phi: _Weights.apply(phi[0], draw["weights"], *phi[1:]), (log_sigma, *means))
    assert torch.autograd.gradcheck(lambda value: _SigmaKL.apply(value, 0.7), (log_sigma,))


def test_sigma_starts_where_dropout_would_have_it():
    posterior = small("mean_field")
    first = next(iter(posterior.stack.parameters.values()))
    expected = first.detach().flatten(1).square().mean(1).sqrt() * (0.3 / 0.7) ** 0.5
    torch.testing.assert_close(posterior.sigmas[:, 0].detach(), expected)


def test_draws_have_mean_mu_and_standard_deviation_sigma():
    posterior = small("mean_field")
    n = 20_000
    with torch.no_grad():
        found = (
            posterior.theta(posterior.draw(streams(dtype=torch.float64), n)).parameters["0.weight"].unflatten(0, (3, n))
        )
        sigma = posterior.sigmas[:, :24].reshape(3, 12, 2)
        assert ((found.mean(1) - posterior.stack.parameters["0.weight"]).abs() < 5 * sigma / n**0.5).all()
        assert ((found.std(1) / sigma - 1).abs() < 5 / (2 * n) ** 0.5).all()


def test_linear_regression_has_the_sigma_of_a_weight_given_the_others():
    """The shortfall of independent weights: 1 / sqrt(precision_jj), less than the posterior's standard deviation."""
    data = Linear(40)
    model = data.fit("mean_field", epochs=500, n_networks=8, batch_size=40)
    draws = weights_of(model)
    conditional = np.diag(data.precision) ** -0.5
    sigmas = model.posterior_.sigmas.detach().log().mean(0).exp().numpy()
    np.testing.assert_allclose(draws.mean(0), data.mean, atol=0.03)
    np.testing.assert_allclose(sigmas, conditional, rtol=0.15)  # log sigma moves by 0.1 per step; eight networks
    assert (conditional < 0.95 * np.sqrt(np.diag(data.covariance))).all()


def test_the_epistemic_part_shrinks_as_the_data_grow():
    expected = np.sqrt(np.mean(1 / np.diag(Linear(400).precision)) / np.mean(1 / np.diag(Linear(40).precision)))
    ratio = shrinkage("mean_field", epochs=500, n_networks=4)
    assert 0.75 * expected < ratio < 1.33 * expected
    assert expected < 0.35
