"""Algorithm 2: the design of the draws."""

import pytest
import torch
from numpy.random import SeedSequence

from conftest import small_posterior
from eiv.inputs import ZetaPosterior
from eiv.sampling import BlockSampler, LiteralSampler

SEEDS = SeedSequence(0).spawn(2)


def inputs(n_rows=6, dtype=torch.float64):
    return ZetaPosterior(torch.linspace(-1, 1, n_rows, dtype=dtype)[:, None], torch.full((1, 1), 0.2, dtype=dtype))


def sampler(kind=BlockSampler, n_theta=100, n_zeta=5):
    return kind(small_posterior(2, dtype=torch.float64), 1, n_theta, n_zeta, SEEDS)


@pytest.mark.parametrize(
    ("n_theta", "n_blocks", "in_block"),
    [(2, 1, 2), (3, 1, 3), (4, 2, 2), (5, 2, 3), (7, 2, 4), (10, 2, 5), (99, 20, 5), (100, 20, 5), (101, 21, 5)],
)
def test_blocks_are_small_and_take_hardly_more_passes_than_algorithm_2(n_theta, n_blocks, in_block):
    assert sampler(n_theta=n_theta).draw(inputs()).shape == (2, n_blocks, in_block, 5, 6, 1)


def test_networks_have_weight_draws_of_their_own():
    for weights in sampler()._weights:
        for masks in weights.values():
            assert not torch.equal(masks[0], masks[1])


class LineWithOffsets:
    """f = theta + slope * zeta with a known spread of theta, slopes and means that differ between networks."""

    def __init__(self, posterior, spread=0.7, slopes=(1.0, 2.0), means=(0.0, 1.0)):
        self.stack, self.parameters, self.spread = posterior.stack, posterior.parameters, spread
        self.slopes, self.means = (torch.tensor(v, dtype=torch.float64)[:, None, None, None] for v in (slopes, means))

    def draw(self, streams, n_draws):
        return {"theta": streams.normal(n_draws)}

    def evaluate(self, draw, zeta):
        return self.means + self.spread * draw["theta"][:, :, None, None] + self.slopes * zeta


def test_moments_of_a_prediction_are_unbiased():
    """2,000 small predictions of one row: the mean of each part within four standard errors of the truth."""
    posterior = LineWithOffsets(small_posterior(2, dtype=torch.float64))
    place = ZetaPosterior(torch.full((1, 1), 0.3, dtype=torch.float64), torch.full((1, 1), 0.5, dtype=torch.float64))
    found = []
    for seed in range(2000):
        small = BlockSampler(posterior, 1, 6, 2, SeedSequence(seed).spawn(2))
        moments = small.moments(small.draw(place))
        found.append([moments.mean.item(), moments.epistemic.item(), moments.aleatoric.item(), moments.variance.item()])
    means = torch.tensor([0.3, 1.6])  # of the networks at this row; their slopes differ, and so their spread over zeta
    epistemic = 0.7**2 + means.var(correction=0).item() + 0.5**2 * torch.tensor([1.0, 2.0]).var(correction=0).item()
    aleatoric = (1.5 * 0.5) ** 2
    found = torch.tensor(found)
    for column, truth in enumerate((0.95, epistemic, aleatoric, epistemic + aleatoric)):
        values = found[:, column]
        assert abs(values.mean() - truth) < 4 * values.std() / 2000**0.5


def test_rows_predicted_alone_or_together_give_the_same_numbers():
    rows = inputs()
    together = sampler().draw(rows)
    alone = torch.cat([sampler().draw(rows.rows(i, i + 1)) for i in range(6)], dim=4)
    torch.testing.assert_close(together, alone)


def test_blocks_have_zetas_of_their_own_and_opposite_pairs_cancel_in_the_mean():
    noise = sampler()._noise
    assert noise.shape == (20, 5, 1)
    assert len(noise.abs().unique()) == 50
    assert noise.mean().abs() < 1e-12


def test_literal_sampler_shares_a_rows_zetas_between_all_thetas():
    class Identity:
        """f = zeta, whatever the weights."""

        def __init__(self, posterior):
            self.stack, self.parameters = posterior.stack, posterior.parameters

        def draw(self, streams, n_draws):
            return {}

        def evaluate(self, draw, zeta):
            return zeta

    draws = LiteralSampler(Identity(small_posterior(2, dtype=torch.float64)), 1, 50, 5, SEEDS).draw(inputs())
    assert draws.shape == (100, 5, 6, 1)
    assert torch.equal(draws, draws[:1].expand_as(draws))
    assert len(draws[0].unique()) == 30


def test_both_ways_estimate_the_same_mean_and_epistemic_part():
    """Averages over many rows at one place; the literal variance over K thetas is short by 1/K."""
    posterior = small_posterior(1, dtype=torch.float64, hidden_units=16)
    place = ZetaPosterior(torch.full((3000, 1), 0.3, dtype=torch.float64), torch.full((1, 1), 0.5, dtype=torch.float64))
    literal = LiteralSampler(posterior, 1, 20, 5, SEEDS[:1])
    found = literal.moments(literal.draw(place))
    reference = BlockSampler(posterior, 1, 8000, 5, SEEDS[:1])
    exact = reference.moments(reference.draw(place.rows(0, 1)))
    tolerance = 4 * found.mean.std() / 3000**0.5 + 4 * (exact.variance.item() / 1600) ** 0.5
    assert abs(found.mean.mean() - exact.mean.item()) < tolerance
    assert found.epistemic.mean() / exact.epistemic.item() == pytest.approx(0.95 * 100 / 99, abs=0.08)
