import numpy as np
import pytest
import torch
from families import Linear, small, streams, trained, weights_of
from torch.distributions import LowRankMultivariateNormal, Normal


def test_moments_are_those_of_the_last_quarter_of_the_path():
    posterior, path = small("swag"), []
    posterior.begin(streams())
    for epoch in range(1, 41):
        for value in posterior.stack.parameters.values():
            value.data.normal_()
        posterior.observe(epoch, 40)
        path.append({name: value.detach().clone() for name, value in posterior.stack.parameters.items()})
    posterior.finish(None, None, None, streams())
    for name, mean in posterior.stack.parameters.items():
        last = torch.stack([values[name] for values in path[30:]])
        torch.testing.assert_close(mean.detach(), last.mean(0))
        torch.testing.assert_close(posterior.state[f"spread.{name}"] * 2**0.5, last.std(0))
        low_rank = posterior.state[f"path.{name}"]
        torch.testing.assert_close(low_rank.square().sum(1) * 2, last.var(0))


def finished():
    posterior = small("swag", weight_penalty=2.0, n_networks=2, build=lambda: torch.nn.Linear(2, 1))
    trained(posterior, epochs=12, learning_rate=0.1)
    return posterior


def test_kl_and_draws_are_those_of_a_low_rank_normal():
    posterior = finished()
    flat = {
        kind: torch.cat([posterior.state[f"{kind}.{name}"].flatten(first) for name in ("weight", "bias")], dim=-1)
        for kind, first in (("spread", 1), ("path", 2))
    }
    mean = torch.cat([value.detach().flatten(1) for value in posterior.parameters], dim=1)
    q = LowRankMultivariateNormal(mean, flat["path"].mT, flat["spread"].square())
    draws = q.sample((20_000,))
    terms = q.log_prob(draws) - Normal(0.0, 0.5).log_prob(draws).sum(-1)
    assert ((terms.mean(0) - posterior.kl()).abs() < 5 * terms.std(0) / 20_000**0.5 + 1e-6).all()
    with torch.no_grad():
        theta = posterior.theta(posterior.draw(streams(2, torch.float64), 20_000)).parameters
    own = torch.cat([value.flatten(1) for value in theta.values()], dim=1).unflatten(0, (2, -1))
    scale = q.covariance_matrix.diagonal(dim1=1, dim2=2).sqrt()
    for s in range(2):
        bands = 6 / 20_000**0.5 * scale[s][:, None] * scale[s]  # of a covariance: at most sqrt(2 / n) of the variances
        assert ((torch.cov(own[s].T) - q.covariance_matrix[s]).abs() < 1.5 * bands).all()


def test_linear_regression_has_the_posterior_mean_but_not_its_variance():
    """The shortfall: the optimiser's path about the minimum is not the posterior. With whole batches it comes to rest,
    and its variance goes to zero."""
    data = Linear(40)
    draws = weights_of(data.fit("swag", epochs=400, batch_size=40, learning_rate=2e-2))
    np.testing.assert_allclose(draws.mean(0), data.mean, atol=0.01)
    assert (draws.std(0) < 0.1 * np.sqrt(np.diag(data.covariance))).all()


def test_the_epistemic_part_does_not_shrink_as_the_data_grow():
    """As many steps with minibatches of the same size: their noise is what moves the weights, not N."""
    sizes = []
    for n_rows in (40, 400):
        model = Linear(n_rows).fit("swag", epochs=16_000 // n_rows, batch_size=20, learning_rate=2e-2)
        sizes.append(np.sqrt(weights_of(model).var(0).mean()))
    assert sizes[1] > sizes[0]


def test_one_epoch_has_no_path(line):
    from eiv import EiVRegressor  # noqa: PLC0415

    with pytest.raises(ValueError, match="epochs must be at least 2"):
        EiVRegressor(posterior="swag", epochs=1, hidden_units=4, recipe="paper").fit(*line)
