import numpy as np
import torch
from families import Linear, small, streams
from torch.distributions import Normal


def test_the_regulariser_is_the_anchored_prior():
    posterior = small("ensemble", weight_penalty=2.0)
    posterior.begin(streams(dtype=torch.float64))
    expected = 0.0
    for name, value in posterior.stack.parameters.items():
        prior = Normal(posterior.state[f"anchor.{name}"], 0.5)
        constant = Normal(0.0, 0.5).log_prob(torch.tensor(0.0, dtype=torch.float64))
        expected = expected + (constant - prior.log_prob(value)).flatten(1).sum(1)
    torch.testing.assert_close(posterior.kl(), expected)


def test_anchors_are_drawn_from_the_prior():
    posterior = small("ensemble", weight_penalty=2.0, build=lambda: torch.nn.Linear(2, 1))
    anchors = []
    for seed in range(400):
        posterior.begin(streams(dtype=torch.float64, seed=seed))
        anchors.append(torch.cat([value.flatten() for value in posterior.state.values()]))
    anchors = torch.cat(anchors)
    n = len(anchors)
    assert abs(float(anchors.mean())) < 5 * 0.5 / n**0.5
    assert abs(float(anchors.std()) / 0.5 - 1) < 5 / (2 * n) ** 0.5


def fitted(n_rows, n_networks):
    data = Linear(n_rows)
    model = data.fit("ensemble", epochs=400, n_networks=n_networks, batch_size=n_rows, learning_rate=2e-2)
    weights = model.posterior_.stack.parameters["weight"][:, 0].detach().numpy()
    anchors = model.posterior_.state["anchor.weight"][:, 0].numpy()
    return data, model, weights, anchors


def test_linear_regression_has_the_closed_form_of_each_member():
    """w_s = C (X'y / sigma^2 + a_s / lambda^2): the mean is the posterior's, the covariance C^2 / lambda^2. The
    shortfall: with the noise of the labels the same for all members, it is less than C."""
    data, model, weights, anchors = fitted(40, 10)
    moment = data.X.T @ data.y / data.y_noise**2
    expected = (moment + 2 * data.weight_penalty * anchors) @ data.covariance
    np.testing.assert_allclose(weights, expected, atol=1e-3)
    std = np.sqrt(np.diag(data.covariance @ data.covariance) * 2 * data.weight_penalty)
    assert (std < 0.2 * np.sqrt(np.diag(data.covariance))).all()
    epistemic = model.predict_distribution(np.eye(2)).epistemic
    np.testing.assert_allclose(epistemic, weights.std(0), rtol=1e-6)


def test_the_epistemic_part_shrinks_as_the_data_grow():
    """As 1 / N: faster than the posterior, as 1 / sqrt(N)."""
    sizes = []
    for n_rows in (40, 400):
        _, _, weights, _ = fitted(n_rows, 6)
        sizes.append(np.sqrt(weights.var(0).mean()))
    assert 0.04 < sizes[1] / sizes[0] < 0.25
