"""The posterior of zeta for every prior and error form against numerical quadrature, and what is drawn from it."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest, multivariate_normal, norm

from eiv.inputs import FlatPrior, MixturePrior, NormalPrior, ZetaMixture, ZetaNormal
from eiv.inputs.own import stack_posteriors
from eiv.inputs.quantile import mixture_quantile
from eiv.inputs.zeta import square_root

COVARIANCE = np.array([[0.25, 0.12], [0.12, 0.16]])
X = torch.tensor([[0.7, -0.4], [-0.5, 0.3], [0.1, 0.9]], dtype=torch.float64)
ERRORS = {  # each of them `1 or rows x n_x (x n_x)`
    "feature": torch.tensor([[0.5, 0.3]]),
    "row": torch.tensor([[0.5, 0.3], [0.2, 0.6], [0.4, 0.4]]),
    "covariance": torch.tensor(COVARIANCE)[None],
    "covariance a row": torch.tensor(np.stack([COVARIANCE, COVARIANCE * [[1, -1], [-1, 1]], 0.5 * COVARIANCE])),
}
TWO = {
    "weights": [0.3, 0.7],
    "means": [[-0.6, 0.2], [0.8, -0.1]],
}
COVARIANCES = np.array([[[0.2, 0.1], [0.1, 0.3]], [[0.3, -0.15], [-0.15, 0.2]]])
PRIORS = {
    "flat": (FlatPrior(), lambda z: np.ones(len(z))),
    "normal": (
        NormalPrior(std=[0.8, 0.5], mean=[0.2, 0.0]),
        lambda z: multivariate_normal([0.2, 0.0], np.diag([0.64, 0.25])).pdf(z),
    ),
    "mixture": (
        MixturePrior(**TWO, covariances=COVARIANCES),
        lambda z: sum(w * multivariate_normal(m, v).pdf(z) for w, m, v in zip(*TWO.values(), COVARIANCES, strict=True)),
    ),
    "independent mixture": (
        MixturePrior(**TWO, covariances=[[0.2, 0.3], [0.3, 0.2]]),
        lambda z: sum(
            w * multivariate_normal(m, np.diag(v)).pdf(z)
            for w, m, v in zip(*TWO.values(), [[0.2, 0.3], [0.3, 0.2]], strict=True)
        ),
    ),
}
AXIS = np.linspace(-5, 5, 201)
GRID = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1).reshape(-1, 2)
CELL = (AXIS[1] - AXIS[0]) ** 2


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("prior", PRIORS)
def test_posterior_is_bayes_theorem(prior, errors):
    """The trapezoidal rule on a smooth density far inside the grid is exact to many digits."""
    prior, density = PRIORS[prior]
    x_err = ERRORS[errors].double()
    found = prior.posterior(X, x_err)
    logs = found.log_density(torch.tensor(GRID)[None].expand(3, -1, -1)).numpy()
    for row in range(3):
        error = x_err[min(row, len(x_err) - 1)].numpy()
        covariance = np.diag(error**2) if error.ndim == 1 else error
        product = density(GRID) * multivariate_normal(X[row].numpy(), covariance).pdf(GRID)
        product /= product.sum() * CELL
        np.testing.assert_allclose(np.exp(logs[row]), product, atol=1e-9, rtol=1e-6)
        mean = (product[:, None] * GRID).sum(0) * CELL
        variance = (product[:, None] * (GRID - mean) ** 2).sum(0) * CELL
        np.testing.assert_allclose(found.mean[row], mean, atol=1e-8)
        np.testing.assert_allclose(found.std.expand(3, 2)[row], np.sqrt(variance), atol=1e-8)


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("prior", PRIORS)
def test_draws_have_the_moments_of_the_posterior(prior, errors):
    n = 40_000
    zeta = PRIORS[prior][0].posterior(X, ERRORS[errors].double())
    noise = torch.randn(3, n, zeta.n_base, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drawn = zeta.draw(noise)
    gap = (drawn - zeta.mean.unsqueeze(1)) / zeta.std.unsqueeze(-2)
    assert gap.mean(1).abs().max() < 4 / n**0.5
    assert (gap.square().mean(1) - 1).abs().max() < 4 * (2 / n) ** 0.5 * 1.5  # kurtosis of a mixture: 4.5 at most
    # The mean log-density of draws is minus the entropy; that of a wrong correlation would be lower.
    entropy = -(zeta.log_density(torch.tensor(GRID)[None].expand(3, -1, -1)).exp() * CELL)
    density = zeta.log_density(torch.tensor(GRID)[None].expand(3, -1, -1))
    torch.testing.assert_close(zeta.log_density(drawn).mean(1), -(entropy * density).sum(1), atol=0.03, rtol=0)


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("prior", PRIORS)
def test_covariance_is_that_of_the_draws(prior, errors):
    n = 40_000
    zeta = PRIORS[prior][0].posterior(X, ERRORS[errors].double())
    assert zeta.matchable
    noise = torch.randn(3, n, zeta.n_base, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = zeta.covariance.expand(3, 2, 2)
    gaps = zeta.draw(noise) - zeta.mean.unsqueeze(1)
    products = gaps.unsqueeze(-1) * gaps.unsqueeze(-2)
    error = products.std(1) / n**0.5
    assert ((products.mean(1) - found) / error).abs().max() < 4.5  # of 9 numbers in each of 16 cases
    torch.testing.assert_close(found.diagonal(dim1=-2, dim2=-1), zeta.std.square().expand(3, 2))


def test_covariance_of_two_components_in_closed_form():
    """Half at -d, half at d, each with variances v and correlation r: v on the diagonal plus d d^T."""
    v, d = torch.tensor([[0.5, 0.2], [0.2, 0.4]]).double(), torch.tensor([1.0, -3.0]).double()
    means = torch.stack([d, -d]).expand(4, 2, 2)
    factors = torch.linalg.cholesky(v).expand(4, 2, 2, 2)
    zeta = ZetaMixture.of(torch.zeros(4, 2).double(), means, factors)
    torch.testing.assert_close(zeta.covariance, (v + d[:, None] * d).expand(4, 2, 2))
    stacked = stack_posteriors([zeta, zeta.standardised(torch.ones(2).double(), torch.tensor([2.0, 4.0]).double())])
    scaled = zeta.covariance / torch.tensor([[4.0, 8.0], [8.0, 16.0]]).double()
    torch.testing.assert_close(stacked.covariance, torch.stack([zeta.covariance, scaled]))
    normal = ZetaNormal(torch.zeros(4, 2), torch.tensor([[3.0, 0.0]]))
    assert torch.equal(normal.covariance, torch.tensor([[[9.0, 0.0], [0.0, 0.0]]]))
    assert torch.equal(normal.as_mixture().covariance, normal.covariance)


def test_an_exact_feature_has_no_covariance():
    for x_err in (torch.tensor([[0.5, 0.0]]), torch.tensor([[[0.25, 0.0], [0.0, 0.0]]]), torch.zeros(1, 2)):
        for prior, _ in PRIORS.values():
            covariance = prior.posterior(X, x_err.double()).covariance
            assert (covariance[:, 1] == 0).all()
            assert (covariance[..., 1] == 0).all()
            assert (covariance[:, 0, 0] > 0).all() == bool(x_err.any())


def test_an_exact_feature_stays_exact_and_informs_the_other():
    x_err = torch.tensor([[0.5, 0.0]], dtype=torch.float64)
    zeta = PRIORS["mixture"][0].posterior(X, x_err)
    assert torch.equal(zeta.mean[:, 1], X[:, 1])
    assert (zeta.std[:, 1] == 0).all()
    assert zeta.noisy == (0,)
    assert zeta.lines == "all"
    for row in range(3):
        along = np.column_stack([AXIS, np.full(len(AXIS), X[row, 1])])
        product = PRIORS["mixture"][1](along) * norm.pdf(X[row, 0], AXIS, 0.5)
        product /= product.sum()
        assert zeta.mean[row, 0].item() == pytest.approx((product * AXIS).sum(), abs=1e-8)
    drawn = zeta.draw(torch.randn(3, 7, zeta.n_base, dtype=torch.float64))
    assert torch.equal(drawn[..., 1], X[:, None, 1].expand(3, 7))


def test_a_line_is_drawn_by_its_distribution_function(dtype):
    zeta = MixturePrior([0.5, 0.5], [[-1.0], [1.0]], [[0.05], [0.02]]).posterior(
        torch.tensor([[0.1]], dtype=dtype), torch.tensor([[0.8]], dtype=dtype)
    )
    noise = torch.linspace(-5, 5, 1001, dtype=dtype)[None, :, None]
    drawn = zeta.draw(noise)
    assert (drawn.diff(dim=1) >= 0).all()
    weights, stds = zeta.log_weights.exp().double(), zeta.scales.double()
    levels = (weights * torch.special.ndtr((drawn.double()[0] - zeta.means.double()[0].T) / stds[0].T)).sum(1)
    torch.testing.assert_close(
        levels, torch.special.ndtr(noise.double()[0, :, 0]), atol=2e-6 if dtype == torch.float32 else 1e-9, rtol=0
    )


def test_quantiles_in_single_precision_keep_their_tails():
    """Levels down to 3e-7 from normal numbers of -5; a distribution function with an absolute error loses them."""
    weights, means, stds = torch.tensor([0.4, 0.6]), torch.tensor([-1.0, 1.0]), torch.tensor([0.3, 0.1])
    scores = torch.linspace(-5, 5, 2001)
    found = mixture_quantile(scores, weights, means, stds)
    exact = mixture_quantile(scores.double(), weights.double(), means.double(), stds.double())
    torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=0)


def test_draws_change_smoothly_with_x_where_one_feature_is_noisy():
    x = torch.linspace(-2, 2, 4001, dtype=torch.float64)[:, None]
    prior = MixturePrior([0.5, 0.5], [[-1.0], [1.0]], [[0.2], [0.1]])
    drawn = prior.posterior(x, torch.tensor([[0.5]], dtype=torch.float64)).draw(torch.ones(4001, 1, 1).double())
    assert drawn.diff(dim=0).abs().max() < 0.01


def test_rows_with_one_and_with_two_noisy_features_side_by_side():
    """A row's draws do not depend on the rows beside it."""
    x_err = torch.tensor([[0.5, 0.0], [0.2, 0.6], [0.0, 0.0]], dtype=torch.float64)
    prior = PRIORS["mixture"][0]
    noise = torch.randn(1, 50, 3, dtype=torch.float64).expand(3, -1, -1)
    together = prior.posterior(X, x_err)
    assert together.lines == "some"
    for row in range(3):
        alone = prior.posterior(X[row : row + 1], x_err[row : row + 1])
        torch.testing.assert_close(alone.draw(noise[:1])[0], together.draw(noise)[row])
    torch.testing.assert_close(together.draw(noise)[2], X[2].expand(50, 2))


def test_component_choice_follows_the_weights():
    zeta = ZetaMixture.of(
        torch.tensor([[0.2, 0.5, 0.3]]).log(),
        torch.arange(3.0)[None, :, None].expand(1, 3, 2),
        torch.full((1, 3, 2), 0.01),
    )
    n = 20_000
    drawn = zeta.draw(torch.randn(1, n, 3, generator=torch.Generator().manual_seed(1)))[0, :, 0].round()
    shares = torch.stack([(drawn == k).float().mean() for k in range(3)])
    assert (shares - torch.tensor([0.2, 0.5, 0.3])).abs().max() < 4 * 0.5 / n**0.5


@pytest.mark.parametrize("gap", [0.1, 1.0, 10.0])
def test_quantiles_of_normal_scores_follow_the_mixture(gap):
    random = np.random.default_rng(0)
    weights, means, stds = torch.tensor([0.7, 0.3]).double(), torch.tensor([0.0, gap]).double(), torch.ones(2).double()
    z = mixture_quantile(torch.tensor(random.standard_normal(5000)), weights, means, stds)
    assert kstest(z.numpy(), lambda q: 0.7 * norm.cdf(q) + 0.3 * norm.cdf(q - gap)).pvalue > 1e-4


def test_stacks_of_different_posteriors_draw_as_each_alone():
    noise = torch.randn(4, 3, 5, 3, dtype=torch.float64)
    x_err = torch.tensor([[0.5, 0.3]], dtype=torch.float64)
    three = MixturePrior([1, 1, 1], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]] * 3)
    priors = [PRIORS["mixture"][0], PRIORS["independent mixture"][0], three, FlatPrior()]
    alone = [prior.posterior(X, x_err) for prior in priors]
    stacked = stack_posteriors(alone)
    drawn = stacked.draw(noise)
    for i, zeta in enumerate(alone):
        torch.testing.assert_close(drawn[i], zeta.draw(noise[i]))
    rows = torch.tensor([[2, 0]]).expand(4, 2)
    torch.testing.assert_close(stacked.take(rows).draw(noise[:, :2])[1], alone[1].draw(noise[1][[1, 1, 0]])[[2, 0]])
    torch.testing.assert_close(stacked.rows(1, 3).draw(noise[:, 1:]), drawn[:, 1:])


def test_standardised_posteriors_scale_along():
    shift, scale = torch.tensor([1.0, -2.0]).double(), torch.tensor([2.0, np.inf]).double()
    for errors in ERRORS.values():
        for prior, _ in PRIORS.values():
            plain = prior.posterior(X, errors.double())
            moved = plain.standardised(shift, scale)
            torch.testing.assert_close(moved.mean[:, 0], (plain.mean[:, 0] - 1) / 2)
            torch.testing.assert_close(moved.std[..., 0], plain.std[..., 0] / 2)
            assert (moved.mean[:, 1] == 0).all()
            assert moved.noisy == (0,)


def test_square_roots_of_singular_covariances():
    singular = torch.tensor([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.5], [0.5, 1.0]]]).double()
    root = square_root(singular)
    torch.testing.assert_close(root @ root.mT, singular)
    assert (root[1, 0] == 0).all()


def test_correlated_errors_under_a_prior_that_is_flat_in_one_feature():
    covariance = torch.tensor(COVARIANCE)[None]
    wide = NormalPrior(std=[1e6, 0.5]).posterior(X, covariance)
    flat = NormalPrior(std=[np.inf, 0.5]).posterior(X, covariance)
    torch.testing.assert_close(wide.mean, flat.mean)
    torch.testing.assert_close(wide.std, flat.std)
    both = NormalPrior(std=np.inf).posterior(X, covariance)
    torch.testing.assert_close(both.mean, X)
    torch.testing.assert_close(both.std[0], covariance[0].diagonal().sqrt())


def test_a_normal_posterior_is_a_mixture_of_one():
    plain = ZetaNormal(X, torch.tensor([[0.5, 0.0]]).double())
    noise = torch.randn(3, 5, 3).double()
    mixture = plain.as_mixture()
    torch.testing.assert_close(mixture.draw(noise), plain.draw(noise))
    torch.testing.assert_close(mixture.log_density(noise[..., :2]), plain.log_density(noise[..., :2]))


@pytest.mark.parametrize(
    ("weights", "means", "covariances"),
    [
        ([1.0], [[0.0]], [[1.0]]),
        ([-1.0], [[0.0, 0.0]], [[1.0, 1.0]]),
        ([1.0], [[0.0, 0.0]], [[1.0, 0.0]]),
        ([1.0], [[0.0, 0.0]], [[[1.0, 2.0], [2.0, 1.0]]]),
        (1.0, [[0.0, 0.0]], [[1.0, 1.0]]),
    ],
)
def test_bad_mixtures_are_refused(weights, means, covariances):
    with pytest.raises(ValueError, match="MixturePrior"):
        MixturePrior(weights, means, covariances).posterior(X, torch.ones(1, 2).double())


def test_a_table_of_quantiles_draws_as_the_mixture_does():
    generator = torch.Generator().manual_seed(3)
    means = torch.randn(2, 50, 3, 1, generator=generator, dtype=torch.float64)
    stds = 0.2 + torch.rand(2, 50, 3, 1, generator=generator, dtype=torch.float64)
    mixture = ZetaMixture.of(torch.randn(2, 50, 3, generator=generator, dtype=torch.float64), means, stds)
    noise = torch.randn(2, 50, 200, 1, generator=generator, dtype=torch.float64)
    table = mixture.for_training()
    off = (table.draw(noise) - mixture.draw(noise)).abs() / mixture.std.unsqueeze(-2)
    assert off.mean() < 1e-3
    assert (off > 0.01).double().mean() < 0.01  # between peaks
    rows = torch.tensor([[3, 1], [0, 4]])
    chosen = table.take(rows).draw(noise[:, :2])
    torch.testing.assert_close(chosen[0, 0], table.draw(noise[:, :1].expand(-1, 50, -1, -1))[0, 3])


def test_a_normal_posterior_needs_no_table():
    zeta = ZetaNormal(torch.zeros(1, 3, 2), torch.ones(1, 1, 2))
    assert zeta.for_training() is zeta


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("networks", [None, 3])
def test_quantiles_are_found_for_the_rows_that_need_them_alone(monkeypatch, correlated, networks):
    random = torch.Generator().manual_seed(0)
    means = torch.randn(6, 2, 2, generator=random, dtype=torch.float64)
    stds = torch.rand(6, 2, 2, generator=random, dtype=torch.float64) + 0.1
    stds[2, :, 0] = stds[4] = 0.0  # one noisy feature, and none
    means[2, :, 0] = means[4] = 1.0
    log_weights = torch.log(torch.rand(6, 2, generator=random, dtype=torch.float64))
    noise = torch.randn(6, 50, 3, generator=random, dtype=torch.float64)
    scales = stds.diag_embed() if correlated else stds
    parts = [log_weights, means, scales]
    if networks:
        parts = [part.expand(networks, *part.shape) for part in parts]
    sizes = []

    def counted(score, *mixture):
        sizes.append(score.shape)
        return mixture_quantile(score, *mixture)

    monkeypatch.setattr("eiv.inputs.zeta.mixture_quantile", counted)
    zeta = ZetaMixture.of(*parts)
    drawn = zeta.draw(noise.expand(*zeta.mean.shape[:-2], *noise.shape))
    assert [math.prod(size) for size in sizes] == [(networks or 1) * 2 * 50]
    alone = ZetaMixture.of(log_weights[2:3], means[2:3], scales[2:3]).draw(noise[2:3])
    torch.testing.assert_close(drawn[..., 2:3, :, :], alone.expand_as(drawn[..., 2:3, :, :]))
    assert (drawn[..., 4, :, :] == 1).all()
    of_many = ZetaMixture.of(log_weights[:2], means[:2], scales[:2]).draw(noise[:2])
    torch.testing.assert_close(drawn[..., :2, :, :], of_many.expand_as(drawn[..., :2, :, :]))
