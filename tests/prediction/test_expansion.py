"""Moments of networks of cosines by expansion, against integrals over many zetas."""

from __future__ import annotations

import pytest
import torch
from numpy.random import SeedSequence

from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaMixture, ZetaNormal
from eiv.likelihoods import NormalLikelihood
from eiv.networks import CosineNetwork, NetworkStack
from eiv.networks.fast import fast_stack
from eiv.posteriors import LastLayerLaplace
from eiv.prediction.decomposition import conditional_moments
from eiv.prediction.expansion import Expansion
from eiv.prediction.sampling import BlockSampler

SEEDS, CPU, F64 = SeedSequence(0).spawn(2), torch.device("cpu"), torch.float64
POOL = torch.tensor([0.7, 0.3], dtype=F64)
PARTS = ("mean", "epistemic", "aleatoric")


def posterior(n_inputs, n_outputs=1, wave=1.0):
    """Two networks of 24 frequencies of size `wave` that 60 rows have determined in part."""
    stack = NetworkStack(lambda: CosineNetwork(n_inputs, n_outputs, 24), n_inputs, n_outputs, SEEDS, CPU, F64)
    random = torch.Generator().manual_seed(0)
    for name, value in stack.parameters.items():
        numbers = torch.randn(value.shape, generator=random, dtype=F64)
        value.data = {"frequencies.weight": wave * numbers, "scales": 0.2 + 0.05 * numbers}.get(name, numbers)
    q = LastLayerLaplace(fast_stack(stack), weight_penalty=0.5)
    x = 2 * torch.rand(2, 60, n_inputs, generator=random, dtype=F64) - 1
    rows = Rows(ZetaNormal(x, 0 * x), x[..., :1].expand(-1, -1, n_outputs))
    q.finish(rows, NormalLikelihood(torch.full((2, n_outputs), 0.1, dtype=F64)), None, Streams(SEEDS, CPU))
    return q


def inputs(n_inputs, kind, n_rows=6, size=0.12):
    random = torch.Generator().manual_seed(1)
    mean = torch.rand(n_rows, n_inputs, generator=random, dtype=F64) - 0.5
    std = size * (0.5 + torch.rand(n_rows, n_inputs, generator=random, dtype=F64))
    if kind == "one error for all":
        return ZetaNormal(mean, std[:1])
    if kind == "an error per row":
        return ZetaNormal(mean, std)
    means = mean.unsqueeze(1) + (2.0 if kind == "two peaks" else 0.3) * size * torch.tensor([[-1.0], [1.0]], dtype=F64)
    factors = std[:, None, :, None] * torch.eye(n_inputs, dtype=F64) + 0.3 * size
    return ZetaMixture.of(
        torch.tensor([[0.3, 0.7]], dtype=F64).log().expand(n_rows, -1), means, factors.expand(-1, 2, -1, -1)
    )


def by_many_zetas(q, zeta, n_zetas):
    """The same from Sobol points, so many that they are off by less than 100,000 random draws."""
    points = torch.quasirandom.SobolEngine(zeta.n_base, scramble=True, seed=0).draw(n_zetas, dtype=F64)
    drawn = zeta.draw(torch.special.ndtri(points.clamp(1e-12, 1 - 1e-12)).expand(len(zeta.mean), -1, -1))
    at = drawn.transpose(0, 1).flatten(0, 1).expand(2, -1, -1)
    shape = (n_zetas, len(zeta.mean))
    mean, variance = (part.unflatten(1, shape) for part in (q.mean(at), q.theta_variance(at).variance))
    weights = torch.full(shape, 1 / n_zetas, dtype=F64)
    return conditional_moments(mean, variance, weights, weights, POOL)


def assert_within_a_percent(found, expected, rows=slice(None)):
    u = expected.variance[rows].sqrt()
    assert ((found.mean - expected.mean)[rows].abs() < 0.01 * u).all()
    for part in PARTS[1:]:
        ratio = (getattr(found, part)[rows] / getattr(expected, part)[rows]).sqrt()
        assert ((ratio - 1).abs() < 0.01).all(), (part, ratio)


@pytest.mark.parametrize("kind", ["one error for all", "an error per row", "near components", "two peaks"])
@pytest.mark.parametrize(("n_inputs", "n_outputs"), [(1, 1), (3, 1), (2, 2)])
def test_moments_are_within_a_percent_of_the_integral(n_inputs, n_outputs, kind):
    q, zeta = posterior(n_inputs, n_outputs), inputs(n_inputs, kind)
    found = Expansion(q, POOL).moments(zeta)
    assert found.holds.all()
    assert_within_a_percent(found, by_many_zetas(q, zeta, 2**14))


def test_a_straight_line_is_exact():
    """Waves so long that f is straight: slopes times errors."""
    q, zeta = posterior(2, wave=1e-6), inputs(2, "two peaks")
    found = Expansion(q, None).moments(zeta)
    slope = q.mean(torch.eye(2, dtype=F64).expand(2, -1, -1)) - q.mean(torch.zeros(2, 2, 2, dtype=F64))
    slope = slope.mean(0).squeeze(1)
    torch.testing.assert_close(found.aleatoric[:, 0], torch.einsum("i,rij,j->r", slope, zeta.covariance, slope))
    torch.testing.assert_close(found.mean, q.mean(zeta.mean.expand(2, -1, -1)).mean(0))


def test_short_waves_are_left_to_nodes():
    q, zeta = posterior(1, wave=20.0), inputs(1, "an error per row")
    assert not Expansion(q, POOL).moments(zeta).holds.any()
    sampler = BlockSampler(q, 1, 100, 5, SEEDS, POOL)
    nodes = sampler._in_closed_form(q, zeta, keep_draws=False, known=None).moments
    for part in PARTS:
        torch.testing.assert_close(getattr(sampler.sample(zeta, keep_draws=False).moments, part), getattr(nodes, part))


def test_rows_do_not_depend_on_each_other():
    """Rows with errors in different features, some of which hold and some of which are left to nodes."""
    q, zeta = posterior(2, wave=4.0), inputs(2, "an error per row", n_rows=24, size=0.3)
    std = zeta.std.clone()
    std[::3, 0], std[1::3] = 0.0, 0.1 * std[1::3]
    zeta, sampler = ZetaNormal(zeta.mean, std), BlockSampler(q, 2, 100, 5, SEEDS, POOL)
    together, holds = sampler.sample(zeta, keep_draws=False).moments, Expansion(q, POOL).moments(zeta).holds
    assert 0 < holds.sum() < 24
    alone = [sampler.sample(zeta.rows(i, i + 1), keep_draws=False).moments for i in range(24)]
    for part in PARTS:
        torch.testing.assert_close(
            torch.cat([getattr(each, part) for each in alone]), getattr(together, part), rtol=1e-9, atol=1e-15
        )


def test_draws_have_the_moments():
    q, zeta = posterior(2), inputs(2, "near components")
    found = BlockSampler(q, 2, 20, 5, SEEDS, POOL).sample(zeta, keep_draws=True)
    moments = Expansion(q, POOL).moments(zeta)
    torch.testing.assert_close(found.draws.mean(0), moments.mean)
    torch.testing.assert_close(found.draws.var(0, correction=0), moments.epistemic + moments.aleatoric)
