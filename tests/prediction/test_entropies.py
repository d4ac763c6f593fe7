"""Predictions of classes: the split of the entropy, and probabilities against quadrature."""

from functools import partial

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from numpy.random import SeedSequence
from scipy.stats import entropy
from torch import nn

from eiv.inputs import ZetaNormal
from eiv.inputs.nodes import nodes_of_rule
from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import BernoulliDropout, PointPosterior
from eiv.prediction.classes import ClassSampler, Entropies, entropies, interpolation
from smallnets import CPU

F64 = torch.float64


@pytest.mark.parametrize("shares", [None, [0.7, 0.2, 0.1]])
def test_the_parts_are_those_of_the_definition(shares):
    random = np.random.default_rng(0)
    p = random.dirichlet([0.5] * 4, (3, 5, 6, 7))  # networks, thetas, zetas, rows
    weights = random.dirichlet([1.0] * 6, 7).T
    pool = np.full(3, 1 / 3) if shares is None else np.array(shares)
    found = entropies(torch.tensor(p), torch.tensor(weights), None if shares is None else torch.tensor(shares))
    for row in range(7):
        of_theta = np.einsum("skqc,q->skc", p[:, :, :, row], weights[:, row])
        mean = np.einsum("skc,s->c", of_theta, pool) / 5
        label = np.einsum("skq,q,s->", entropy(p[:, :, :, row], axis=-1), weights[:, row], pool) / 5
        of_thetas = np.einsum("sk,s->", entropy(of_theta, axis=-1), pool) / 5
        np.testing.assert_allclose(found.probabilities[row], mean)
        parts = [float(part[row]) for part in found[1:]]
        np.testing.assert_allclose(parts, [label, of_thetas - label, entropy(mean) - of_thetas], atol=1e-12)


def test_sure_classes_have_no_entropy():
    found = entropies(torch.eye(2, dtype=F64).expand(1, 3, 1, 2, 2), torch.ones(1, 2, dtype=F64))
    assert all(torch.equal(part, torch.zeros(2, dtype=F64)) for part in found[1:])


def logistic(slope):
    """f = (0, slope zeta), without uncertainty of the weights."""
    seeds = SeedSequence(0).spawn(1)
    stack = NetworkStack(lambda: nn.Linear(1, 2), 1, 2, seeds, CPU, F64)
    with torch.no_grad():
        stack.parameters["weight"].copy_(torch.tensor([[[0.0], [slope]]]))
        stack.parameters["bias"].zero_()
    return ClassSampler(PointPosterior(stack, 1.0), n_inputs=1, n_theta=100, n_zeta=5, seeds=seeds)


def test_a_logistic_model_has_the_probabilities_of_quadrature():
    """Of a normal zeta by 200 nodes. The 60 nodes of the rule err by less than 1 % of the entropy."""
    mean, std, slope = np.linspace(-2, 2, 9), 0.8, 3.0
    found = logistic(slope).entropies(ZetaNormal(torch.tensor(mean)[:, None], torch.full((1, 1), std, dtype=F64)))
    nodes, weights = hermegauss(200)
    one = 1 / (1 + np.exp(-slope * (mean[:, None] + std * nodes)))
    weights = weights / weights.sum()
    np.testing.assert_allclose(found.probabilities[:, 1], one @ weights, atol=3e-3)
    label = entropy(np.stack([one, 1 - one]), axis=0) @ weights
    np.testing.assert_allclose(found.label, label, atol=7e-3)
    total = entropy(np.stack([one @ weights, 1 - one @ weights]), axis=0)
    np.testing.assert_allclose(found.aleatoric, total - label, atol=1e-2)
    np.testing.assert_allclose(found.epistemic, 0, atol=1e-12)


def dropping(n_x, n_classes, seed):
    """A hundred thetas of a network of two layers that drops a tenth of its units."""
    seeds = SeedSequence(5).spawn(1)
    network = partial(paper_network, n_x, n_classes, hidden_units=32, n_hidden=2)
    stack = NetworkStack(network, n_x, n_classes, seeds, CPU, F64)
    with torch.no_grad():
        for weight in stack.parameters.values():
            weight.mul_(2.0)  # classes that differ
    posterior = BernoulliDropout(stack, 1.0)
    return ClassSampler(posterior, n_inputs=n_x, n_theta=100, n_zeta=5, seeds=SeedSequence(seed).spawn(1))


def crossed(sampler, inputs, n_nodes):
    """All thetas at all zetas, each by a pass through the network."""
    zeta, weights = sampler._nodes(inputs, nodes_of_rule(n_nodes, sampler._n_base(inputs)))
    return entropies(sampler._probabilities(sampler._thetas(slice(None)), zeta), weights)


@pytest.mark.parametrize(("n_x", "n_classes"), [(1, 2), (3, 4)])
def test_interpolated_thetas_are_within_the_error_that_draws_of_theta_have(n_x, n_classes):
    """Against 400 zetas crossed with the same thetas: less far off than a hundred other thetas are, or 0.003."""
    sampler = dropping(n_x, n_classes, seed=0)
    means = torch.linspace(-1.5, 1.5, 12, dtype=F64)[:, None].expand(-1, n_x)
    inputs = ZetaNormal(means, torch.full((1, n_x), 0.5, dtype=F64))
    truth, found = crossed(sampler, inputs, 400), sampler.entropies(inputs)
    others = crossed(dropping(n_x, n_classes, seed=1), inputs, 400)
    for name in Entropies._fields:
        off, allowed = ((getattr(e, name) - getattr(truth, name)).square().mean().sqrt() for e in (found, others))
        assert off < max(allowed, 3e-3), name
    total = torch.special.entr(found.probabilities).sum(-1)
    torch.testing.assert_close(found.label + found.aleatoric + found.epistemic, total, atol=1e-12, rtol=0)


def test_constants_are_interpolated_exactly_and_lines_nearly():
    at = torch.linspace(-2, 2, 9, dtype=F64).view(1, 9, 1)
    weights = interpolation(at, at[:, [1, 4, 7]])
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 9, dtype=F64))
    torch.testing.assert_close(weights[:, [1, 4, 7]], torch.eye(3, dtype=F64).unsqueeze(0), atol=1e-4, rtol=0)
    torch.testing.assert_close(weights @ at[0, [1, 4, 7]], at, atol=0.15, rtol=0)


def test_points_that_coincide_share_their_weight():
    zeros = torch.zeros(1, 3, 2, dtype=F64)
    torch.testing.assert_close(interpolation(zeros, zeros), torch.full((1, 3, 3), 1 / 3, dtype=F64))
