"""Nodes of a rule for a mixture: a rare component far away is not missed."""

import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss

from eiv.inputs.nodes import nodes_of_rule
from eiv.inputs.zeta import ZetaMixture
from eiv.prediction.matching import evenly, matched_nodes, matched_noise

RARE = torch.tensor([0.5, 0.1, 0.02, 5e-3, 1e-3, 1e-4], dtype=torch.float64)  # of the second component, by row


def two_clusters():
    """Two features, components at -0.9 and 0.9 in both, standard deviation 0.4."""
    centres = torch.tensor([[-0.9, -0.9], [0.9, 0.9]], dtype=torch.float64).expand(len(RARE), 2, 2)
    scales = torch.full((len(RARE), 2, 2), 0.4, dtype=torch.float64)
    return ZetaMixture.of(torch.stack([1 - RARE, RARE], -1).log(), centres, scales)


def nodes(n_nodes):
    rule = nodes_of_rule(n_nodes, 3)
    noise = torch.cat([matched_noise(rule[None, :, :2], correction=0)[0], rule[:, 2:]], dim=-1)
    return matched_nodes(two_clusters(), noise)


def moments(values, weights):
    mean = (weights * values).sum(1)
    return mean, (weights * (values - mean.unsqueeze(1)) ** 2).sum(1).sqrt()


@pytest.mark.parametrize("n_nodes", [20, 100])
def test_a_step_between_two_components(n_nodes):
    """f = tanh 2 zeta_1 against Gauss-Hermite quadrature: mean and u, however rare the second component is."""
    zeta, weights = nodes(n_nodes)
    mean, u = moments(torch.tanh(2 * zeta[..., 0]), weights)
    points, shares = (torch.from_numpy(part) for part in hermegauss(60))
    shares = shares / shares.sum()
    f = torch.tanh(2 * (torch.tensor([[-0.9], [0.9]]) + 0.4 * points))  # component x point
    joint = torch.stack([1 - RARE, RARE], -1).unsqueeze(-1) * shares
    wanted, std = moments(f.expand_as(joint).flatten(1), joint.flatten(1))
    assert ((mean - wanted).abs() / std).max() < 0.05
    assert (u / std - 1).abs().max() < 0.03


@pytest.mark.parametrize("n_nodes", [20, 100])
def test_mean_and_covariance_are_those_of_the_posterior(n_nodes):
    zeta, weights = nodes(n_nodes)
    inputs, shares = two_clusters(), weights.unsqueeze(-1)
    torch.testing.assert_close(weights.sum(1), torch.ones_like(RARE))
    mean = (shares * zeta).sum(1)
    gaps = zeta - mean.unsqueeze(1)
    torch.testing.assert_close(mean, inputs.mean)
    torch.testing.assert_close((shares * gaps).mT @ gaps, inputs.covariance)


def test_nodes_are_taken_as_often_as_their_weights_ask_for():
    weights = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    found = evenly(weights.repeat_interleave(25).unsqueeze(1) / 25).flatten()
    counts = torch.bincount(found // 25, minlength=4)
    assert counts.tolist() == [50, 30, 15, 5]
    assert torch.equal(evenly(torch.full((7, 2), 1 / 7)), torch.arange(7)[:, None].expand(7, 2))
