"""Predictions of classes: the split of the entropy, and probabilities against quadrature."""

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from numpy.random import SeedSequence
from scipy.stats import entropy
from torch import nn

from eiv.inputs import ZetaNormal
from eiv.networks import NetworkStack
from eiv.posteriors import PointPosterior
from eiv.prediction.classes import ClassSampler, entropies
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
    """Of a normal zeta by 200 nodes. The 40 nodes of the rule err by less than 1 % of the entropy."""
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
