"""Algorithm 2: the design of the draws."""

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence

from eiv.inputs import MixturePrior, ZetaNormal
from eiv.posteriors import BernoulliDropout, PointPosterior, ThetaVariance
from eiv.prediction.sampling import BlockSampler, LiteralSampler
from smallnets import small_posterior

SEEDS = SeedSequence(0).spawn(2)


def inputs(n_rows=6, dtype=torch.float64):
    return ZetaNormal(torch.linspace(-1, 1, n_rows, dtype=dtype)[:, None], torch.full((1, 1), 0.2, dtype=dtype))


def sampler(kind=BlockSampler, n_theta=100, n_zeta=5):
    return kind(small_posterior(2, dtype=torch.float64), 1, n_theta, n_zeta, SEEDS)


@pytest.mark.parametrize(
    ("n_theta", "n_blocks", "in_block"),
    [(2, 1, 2), (3, 1, 3), (4, 2, 2), (5, 2, 3), (7, 2, 4), (10, 2, 5), (99, 20, 5), (100, 20, 5), (101, 21, 5)],
)
def test_blocks_are_small_and_take_hardly_more_passes_than_algorithm_2(n_theta, n_blocks, in_block):
    assert sampler(n_theta=n_theta)._draws(inputs()).shape == (2, n_blocks, in_block, 5, 6, 1)


def test_networks_have_weight_draws_of_their_own():
    for weights in sampler()._weights:
        for masks in weights.values():
            assert not torch.equal(masks[0], masks[1])


class FewNumbers(BernoulliDropout):
    """Two parts of a draw: one is matched, the other is drawn as it comes."""

    matched_parts = ("few", "absent")

    def draw(self, streams, n_draws):
        return super().draw(streams, n_draws) | {"few": streams.normal(n_draws, 3), "many": streams.normal(n_draws, 3)}


@pytest.mark.parametrize("n_theta", [2, 4, 100])
def test_parts_of_weight_draws_that_are_few_numbers_are_matched_within_blocks(n_theta):
    """Mean 0, and the covariance of normal numbers: of f linear in them the variance over theta has no random error."""
    drawn = BlockSampler(FewNumbers(small_posterior(2, dtype=torch.float64).stack, 1.0), 1, n_theta, 5, SEEDS)
    few, many = (torch.stack([draw[name] for draw in drawn._weights], dim=1) for name in ("few", "many"))
    assert not torch.equal(few[0], few[1])
    for part, tolerance in ((few, 1e-9), (many, None)):
        gaps = part - part.mean(2, keepdim=True)
        covariance = torch.einsum("sgai,sgaj->sij", gaps, gaps) / (part.shape[1] * (part.shape[2] - 1))
        off = covariance - torch.eye(3, dtype=torch.float64)
        off = off if n_theta == 100 else off.diagonal(dim1=1, dim2=2)  # too few for more
        assert off.abs().max() < tolerance if tolerance else off.abs().max() > 0.01
    assert few.mean((1, 2)).abs().max() < 1e-12


class LineWithOffsets(PointPosterior):
    """f = theta + slope * zeta with a known scatter of theta, slopes and means that differ between networks."""

    def __init__(self, stack, scatter=0.7, slopes=(1.0, 2.0), means=(0.0, 1.0)):
        super().__init__(stack, weight_penalty=1.0)
        self.scatter = scatter
        self.slopes, self.means = (torch.tensor(v, dtype=torch.float64)[:, None, None, None] for v in (slopes, means))

    def draw(self, streams, n_draws):
        return {"theta": streams.normal(n_draws)}

    def evaluate(self, draw, zeta):
        return self.means + self.scatter * draw["theta"][:, :, None, None] + self.slopes * zeta


@pytest.mark.slow
def test_moments_of_a_prediction_are_unbiased():
    """2,000 small predictions of one row: the mean of each part within four standard errors of the truth."""
    posterior = LineWithOffsets(small_posterior(2, dtype=torch.float64).stack)
    place = ZetaNormal(torch.full((1, 1), 0.3, dtype=torch.float64), torch.full((1, 1), 0.5, dtype=torch.float64))
    found = []
    for seed in range(2000):
        moments = BlockSampler(posterior, 1, 6, 2, SeedSequence(seed).spawn(2)).sample(place, False).moments
        found.append([moments.mean.item(), moments.epistemic.item(), moments.aleatoric.item(), moments.variance.item()])
    means = torch.tensor([0.3, 1.6])  # of the networks at this row; their slopes differ, and so their spread over zeta
    epistemic = 0.7**2 + means.var(correction=0).item() + 0.5**2 * torch.tensor([1.0, 2.0]).var(correction=0).item()
    aleatoric = (1.5 * 0.5) ** 2
    found = torch.tensor(found)
    for column, truth in enumerate((0.95, epistemic, aleatoric, epistemic + aleatoric)):
        values = found[:, column]
        assert abs(values.mean() - truth) < 4 * values.std() / 2000**0.5 + 1e-6
    assert found[:, 2].std() < 1e-6  # zetas are matched: no error of a part that is linear in zeta


def test_rows_predicted_alone_or_together_give_the_same_numbers():
    rows = inputs()
    together = sampler().sample(rows, True).draws
    alone = torch.cat([sampler().sample(rows.rows(i, i + 1), True).draws for i in range(6)], dim=1)
    torch.testing.assert_close(together, alone)


PAIR = MixturePrior([1, 2], [[-1.0, 0.0], [1.0, 0.5]], [[[0.3, 0.1], [0.1, 0.2]], [[0.2, 0.0], [0.0, 0.4]]])
POSTERIORS = {
    "normal": ZetaNormal(torch.randn(6, 2, dtype=torch.float64), torch.tensor([[0.3, 0.1]], dtype=torch.float64)),
    "mixture": PAIR.posterior(torch.randn(6, 2).double(), torch.tensor([[0.8, 0.5]]).double()),
    "covariances": PAIR.posterior(torch.randn(6, 2).double(), torch.tensor([[[0.6, 0.5], [0.5, 0.7]]]).double()),
    "one exact": PAIR.posterior(torch.randn(6, 2).double(), torch.tensor([[0.8, 0.0]]).double()),
    "exact in some rows": PAIR.posterior(torch.randn(6, 2).double(), torch.rand(6, 2).double().round(decimals=0)),
}


@pytest.mark.parametrize("n_blocks", [1, 20])
@pytest.mark.parametrize("name", POSTERIORS)
def test_zetas_have_the_moments_of_their_posterior(name, n_blocks):
    posterior = POSTERIORS[name]
    blocks = BlockSampler(small_posterior(2, n_inputs=2, dtype=torch.float64), 2, 100, 5, SEEDS)
    noise = torch.randn(n_blocks, 100 // n_blocks, 3, dtype=torch.float64)
    zeta = blocks._matched(posterior, noise).unflatten(0, (n_blocks, -1))  # G x L x rows x n_x
    torch.testing.assert_close(zeta.mean((0, 1)), posterior.mean, rtol=0, atol=1e-9)
    gaps = (zeta - zeta.mean(1, keepdim=True)).movedim(2, 0).flatten(1, 2)
    covariance = gaps.mT @ gaps / (100 - n_blocks)
    torch.testing.assert_close(covariance, posterior.covariance.expand(6, 2, 2), rtol=0, atol=1e-8)


def test_blocks_have_zetas_of_their_own():
    zeta = sampler()._zetas(inputs())
    assert zeta.shape == (100, 6, 1)
    assert len(zeta[:, 0].unique()) == 100


class Curved(PointPosterior):
    """f = w . (1, zeta, zeta^2 sin 3 zeta) with w ~ N((0, 1, 1), C): everything about it is known at each zeta."""

    covariance = torch.tensor([[0.04, 0.01, 0.0], [0.01, 0.09, 0.02], [0.0, 0.02, 0.05]], dtype=torch.float64)
    in_closed_form = True

    def features(self, zeta):
        return torch.cat([torch.ones_like(zeta), zeta, zeta**2 * torch.sin(3 * zeta)], dim=-1)

    def draw(self, streams, n_draws):
        return {"w": streams.normal(n_draws, 3)}

    def mean(self, zeta):
        return self.features(zeta)[..., 1:].sum(-1, keepdim=True)

    def theta_variance(self, zeta, draw=None):
        slopes = self.features(zeta)
        root = torch.linalg.cholesky(self.covariance)
        moves = None if draw is None else torch.einsum("sdi,ji,srj->sdr", draw["w"], root, slopes).unsqueeze(-1)
        return ThetaVariance(((slopes @ root) ** 2).sum(-1, keepdim=True), moves)

    def evaluate(self, draw, zeta):
        root = torch.linalg.cholesky(self.covariance)
        w = torch.tensor([0.0, 1.0, 1.0]) + draw["w"] @ root.mT
        return torch.einsum("sdrj,sdj->sdr", self.features(zeta), w).unsqueeze(-1)


@pytest.mark.parametrize("closed", [True, False])
def test_moments_of_a_curved_function_against_quadrature(closed):
    """Rows where f bends within the error of x. In closed form: 3 % by the rule, no scatter over seeds.

    By draws, 100 thetas in 20 blocks leave 80 degrees of freedom: a scatter of sqrt(2 / 80) = 16 % in a variance. Over
    60 seeds its mean is good to 4 * 16 % / sqrt(60) = 8 %.
    """
    posterior = Curved(small_posterior(1, dtype=torch.float64).stack, 1.0)
    rows = inputs(9)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = torch.tensor(weights / weights.sum())
    zeta = rows.mean + 0.2 * torch.tensor(nodes)  # rows x nodes
    mean, over_theta = posterior.mean(zeta[..., None]), posterior.theta_variance(zeta[..., None])
    m = (mean[..., 0] * weights).sum(1)
    aleatoric = ((mean[..., 0] - m[:, None]) ** 2 * weights).sum(1)
    epistemic = (over_theta.variance[..., 0] * weights).sum(1)
    if not closed:
        posterior = ByDraws(posterior.stack, 1.0)
    found = [
        BlockSampler(posterior, 1, 100, 5, SeedSequence(i).spawn(1)).sample(rows, False).moments for i in range(60)
    ]
    for part, truth, bands in (("mean", m, None), ("epistemic", epistemic, 0.03), ("aleatoric", aleatoric, 0.03)):
        values = torch.stack([getattr(moments, part)[:, 0] for moments in found])
        if closed:
            assert (values == values[0]).all()
        if part == "mean":
            assert ((values.mean(0) - truth).abs() < 0.02 * (epistemic + aleatoric).sqrt()).all()
        else:
            assert ((values.mean(0) / truth - 1).abs() < (bands if closed else 0.08)).all()


class ByDraws(Curved):
    """The same family without its closed form."""

    in_closed_form = False


def test_draws_have_the_moments_of_the_prediction_and_those_of_the_family():
    """Quantiles of 500 draws of a row against those of 20,000 thetas, within 0.3 u.

    At the 5 % level those of 100 independent draws have a standard error of sqrt(0.05 * 0.95 / 100) / 0.103 = 0.21 u.
    """
    posterior = Curved(small_posterior(1, dtype=torch.float64).stack, 1.0)
    rows = inputs(5)
    found = BlockSampler(posterior, 1, 100, 5, SEEDS[:1]).sample(rows, True)
    assert found.draws.shape == (500, 5, 1)
    torch.testing.assert_close(found.draws.mean(0), found.moments.mean)
    torch.testing.assert_close(found.draws.var(0, correction=0), found.moments.variance)
    many = BlockSampler(ByDraws(posterior.stack, 1.0), 1, 20_000, 20, SEEDS[:1]).sample(rows, True).draws
    for level in (0.05, 0.5, 0.95):
        gap = (found.draws.quantile(level, dim=0) - many[::20].quantile(level, dim=0)).abs()
        assert (gap < 0.3 * found.moments.variance.sqrt()).all()


def test_literal_sampler_shares_a_rows_zetas_between_all_thetas():
    class Identity(PointPosterior):
        """f = zeta, whatever the weights."""

        def evaluate(self, draw, zeta):
            return zeta

    literal = LiteralSampler(Identity(small_posterior(2, dtype=torch.float64).stack, 1.0), 1, 50, 5, SEEDS)
    draws = literal.sample(inputs(), True).draws.unflatten(0, (100, 5))
    assert torch.equal(draws, draws[:1].expand_as(draws))
    assert len(draws[0].unique()) == 30


def test_both_ways_estimate_the_same_mean_and_epistemic_part():
    """Averages over many rows at one place; the literal variance over K thetas is short by 1/K."""
    posterior = small_posterior(1, dtype=torch.float64, hidden_units=16)
    place = ZetaNormal(torch.full((3000, 1), 0.3, dtype=torch.float64), torch.full((1, 1), 0.5, dtype=torch.float64))
    literal = LiteralSampler(posterior, 1, 20, 5, SEEDS[:1])
    found = literal.sample(place, False).moments
    exact = BlockSampler(posterior, 1, 8000, 5, SEEDS[:1]).sample(place.rows(0, 1), False).moments
    tolerance = 4 * found.mean.std() / 3000**0.5 + 4 * (exact.variance.item() / 1600) ** 0.5
    assert abs(found.mean.mean() - exact.mean.item()) < tolerance
    assert found.epistemic.mean() / exact.epistemic.item() == pytest.approx(0.95 * 100 / 99, abs=0.08)
