"""What the tests of all families share: small stacks, streams and linear regression with its closed form."""

import numpy as np
import torch
from numpy.random import SeedSequence
from torch import nn

from eiv import EiVRegressor
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaNormal
from eiv.likelihoods import NOISE_RULES, NormalLikelihood
from eiv.networks import NetworkStack, paper_network
from eiv.networks.fast import fast_stack
from eiv.posteriors import FAMILIES
from eiv.training import Schedule, train
from smallnets import CPU

NAMES = tuple(FAMILIES)
SEEDS = SeedSequence(0).spawn(3)


def streams(n_networks=3, dtype=torch.float32, seed=3):
    return Streams(SeedSequence(seed).spawn(n_networks), CPU, dtype)


def small(name, *, fast=False, dtype=torch.float64, weight_penalty=0.5, build=None, n_networks=3):
    """A family, by its name or a class, on small networks of two inputs and one output."""
    build = build or (lambda: paper_network(2, 1, 12, n_hidden=2, dropout=0.3))
    stack = NetworkStack(build, 2, 1, SEEDS[:n_networks], CPU, dtype)
    return FAMILIES.get(name, name)(fast_stack(stack) if fast else stack, weight_penalty)


def trained(
    posterior, *, epochs=4, x_err=0.2, n_rows=50, dtype=torch.float64, learning_rate=1e-2, n_zeta=5, seeds=SEEDS
):
    """Train on rows of a plane."""
    n_networks = posterior.stack.n_networks
    x = torch.linspace(-1, 1, 2 * n_rows, dtype=dtype).reshape(1, n_rows, 2).expand(n_networks, -1, -1)
    x = x + 0.3 * torch.sin(5 * x)
    inputs = ZetaNormal(x, torch.full((n_networks, 1, 2), x_err, dtype=dtype))
    schedule = Schedule(epochs=epochs, batch_size=16, learning_rate=learning_rate, n_zeta=n_zeta, renew_every=2)
    likelihood = NormalLikelihood(torch.full((n_networks, 1), 0.5, dtype=dtype), NOISE_RULES["rmse"])
    return train(posterior, Rows(inputs, x.sum(2, keepdim=True)), likelihood, schedule, seeds[:n_networks])


class Linear:
    """Bayesian linear regression with n_x correlated features, without bias: y = X w + noise, w ~ N(0, lambda^2)."""

    def __init__(self, n_rows, n_features=2, correlation=0.5, y_noise=0.5, weight_penalty=0.5, seed=0):
        random = np.random.default_rng(seed)
        common = random.standard_normal((n_rows, 1))
        own = random.standard_normal((n_rows, n_features))
        self.X = correlation**0.5 * common + (1 - correlation) ** 0.5 * own
        self.weights = np.linspace(1.0, -0.5, n_features)
        self.y = self.X @ self.weights + y_noise * random.standard_normal(n_rows)
        self.y_noise, self.weight_penalty = y_noise, weight_penalty
        self.precision = self.X.T @ self.X / y_noise**2 + 2 * weight_penalty * np.eye(n_features)
        self.covariance = np.linalg.inv(self.precision)
        self.mean = self.covariance @ self.X.T @ self.y / y_noise**2

    def fit(self, posterior, *, dropout=None, epochs, learning_rate=1e-2, n_networks=1, batch_size=50, **arguments):
        """Fit a network without hidden layer; dropout families drop its inputs."""

        def module(n_inputs, n_outputs):
            linear = nn.Linear(n_inputs, n_outputs, bias=False)
            return linear if dropout is None else nn.Sequential(nn.Dropout(dropout), linear)

        return EiVRegressor(
            None, posterior=posterior, module=module, epochs=epochs, learning_rate=learning_rate, batch_size=batch_size,
            weight_penalty=self.weight_penalty, y_noise=self.y_noise, standardise=False, n_networks=n_networks,
            n_theta=10, dtype="float64", device="cpu", random_state=0, **arguments, recipe="paper",
        ).fit(self.X, self.y)  # fmt: skip


def weights_of(model, n_draws=2000):
    """Draws of the weights of a network without hidden layer: f at the unit vectors, `draws x n_x`."""
    model.set_params(n_theta=n_draws)
    prediction = model.predict_distribution(np.eye(model.n_features_in_))
    return prediction.draws.reshape(-1, model.n_features_in_)


def shrinkage(name, *, n_rows=(40, 400), **arguments):
    """How the standard deviations of the weights change as N grows tenfold: the ratio of their root mean squares."""
    sizes = []
    for n in n_rows:
        draws = weights_of(Linear(n).fit(name, batch_size=n, **arguments))
        sizes.append(np.sqrt(draws.var(0).mean()))
    return sizes[1] / sizes[0]
