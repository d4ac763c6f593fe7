"""Where the training rows lie: the probability of rows farther out, by closed forms, and what it finds."""

import os

import numpy as np
import pytest
from scipy import stats

from eiv import LearnedPrior, MixturePrior
from eiv.inputs import TrainingCloud
from eiv.inputs.errors import check_x_err

QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)
WIDE = np.array([[-1e6], [-1.0], [0.0], [1.0], [1e6]])  # a range that no row leaves


def cloud_of(x, x_err=0.0, prior=None):
    errors = check_x_err("x_err", x_err, x.shape[1], len(x))
    usual = np.median(errors if errors.ndim == 2 else np.sqrt(np.diagonal(errors, axis1=1, axis2=2)), axis=0)
    return TrainingCloud.of(x, errors, np.quantile(x, QUANTILES, axis=0), usual, prior)


def unlike(cloud, x, x_err=0.0):
    return cloud.likeness(x, check_x_err("X_err", x_err, x.shape[1], len(x))) < cloud.level


def test_one_normal_distribution_is_the_chi_squared_of_x_with_its_error():
    random = np.random.default_rng(0)
    root = random.normal(size=(3, 3))
    mean, V = random.normal(size=3), root @ root.T + np.eye(3)
    prior = MixturePrior([1.0], mean[None], V[None])
    cloud = TrainingCloud(prior, True, 2.0, 1000, np.repeat(WIDE, 3, axis=1), np.zeros(3))
    x, errors = 3 * random.normal(size=(40, 3)), random.uniform(0.1, 2, (40, 3))
    covariances = random.normal(size=(40, 3, 3))
    covariances = covariances @ covariances.transpose(0, 2, 1)
    squares = errors[:, None] ** 2 * np.eye(3)
    for given, S in ((errors, squares), (errors[:1], squares[[0] * 40]), (covariances, covariances)):
        squared = [gap @ np.linalg.solve(V + own, gap) for gap, own in zip(x - mean, S, strict=True)]
        np.testing.assert_allclose(cloud.likeness(x, given), stats.chi2.sf(np.array(squared) / 2.0, 3), rtol=1e-9)


def test_of_a_mixture_each_component_counts_by_its_weight_given_the_row():
    prior = MixturePrior([1, 3], [[-2.0], [1.0]], [[0.5], [2.0]])
    cloud = TrainingCloud(prior, True, 1.0, 1000, WIDE, np.zeros(1))
    x, s = np.linspace(-6, 6, 25), 0.7
    stds, means = np.sqrt(np.array([0.5, 2.0]) + s**2), np.array([-2.0, 1.0])
    density = np.array([1, 3]) * stats.norm.pdf(x[:, None], means, stds)
    tails = 2 * stats.norm.sf(np.abs(x[:, None] - means) / stds)
    expected = (density * tails).sum(1) / density.sum(1)
    np.testing.assert_allclose(cloud.likeness(x[:, None], np.array([[s]])), expected, rtol=1e-9)


def test_beyond_the_range_of_a_column_the_tail_is_exponential():
    """1/2 at the median and 1 / (N + 1) at the greatest value, here times two for two sides of one column."""
    prior = MixturePrior([1.0], [[0.0]], [[1e12]])  # so that all columns together say nothing
    quantiles = np.array([[-1.0], [0.0], [2.0], [5.0], [6.0]])
    cloud = TrainingCloud(prior, True, 1.0, 99, quantiles, np.array([0.3]))
    exact = np.full((1, 1), 0.3)  # the usual error, which the range holds
    x = np.array([[5.9], [6.0 + 1e-12], [10.0], [-4.0]])
    np.testing.assert_allclose(cloud.likeness(x, exact), [1, 2 * 0.01, 0.02**2, 0.02**2], rtol=1e-5)
    large = np.full((1, 1), 0.5)  # 0.4 beyond the usual
    tail = 0.5 * 0.02**1.25 + stats.norm.sf(1 / 0.4)
    np.testing.assert_allclose(cloud.likeness(np.array([[7.0]]), large), [2 * tail], rtol=1e-9)


def test_a_constant_column_has_one_value():
    x = np.column_stack([np.random.default_rng(0).normal(size=200), np.full(200, 3.0)])
    cloud = cloud_of(x)
    rows = np.array([[0.1, 3.0], [0.1, 3.001]])
    assert unlike(cloud, rows).tolist() == [False, True]
    assert unlike(cloud, rows, [0.0, 0.01]).tolist() == [False, False], "within the error of the row"
    alone = cloud_of(x[:, 1:])
    assert alone.likeness(rows[:, 1:], np.zeros((1, 1))).tolist() == [1.0, 0.0]


def test_training_rows_are_seen_from_a_cloud_without_them():
    """The formula against covariances of all other rows, a row's weight of the prior among them."""
    random = np.random.default_rng(1)
    x = random.standard_t(4, (60, 3)) @ random.normal(size=(3, 3))
    cloud = cloud_of(x)
    found = cloud._distances_without(x, np.zeros((1, 3)))
    for i in range(len(x)):
        others = np.delete(x, i, axis=0)
        V = (len(others) * np.cov(others.T, bias=True) + np.diag(x.var(0))) / (len(others) + 1)
        gap = x[i] - others.mean(0)
        assert found[i] == pytest.approx(gap @ np.linalg.solve(V, gap), rel=0.12)
    inside = np.array([(row - x.mean(0)) @ np.linalg.solve(cloud.prior.covariances[0], row - x.mean(0)) for row in x])
    assert found.max() > 1.3 * inside.max(), "what a row does to its own cloud shows"


def test_heavy_tails_stretch_the_cloud_and_normal_ones_do_not():
    random = np.random.default_rng(0)
    assert cloud_of(random.normal(size=(2000, 3))).stretch < 1.3
    assert cloud_of(random.standard_t(3, (2000, 3))).stretch > 3


def inputs(kind, n, random):
    if kind == "uniform":
        return random.uniform(-1, 1, (n, 3))
    if kind == "normal":
        return random.normal(size=(n, 3))
    if kind == "bimodal":
        return np.where(random.random((n, 1)) < 0.5, -3, 3) + random.normal(size=(n, 3))
    if kind == "skewed":
        return random.exponential(size=(n, 3))
    category = np.eye(4)[random.choice(4, n, p=[0.6, 0.3, 0.08, 0.02])]
    return np.column_stack([random.normal(size=(n, 2)), category])


@pytest.mark.parametrize("learned", [False, True], ids=["normal", "learned"])
@pytest.mark.parametrize("kind", ["uniform", "normal", "bimodal", "skewed", "categories"])
def test_fresh_rows_are_like_the_training_rows_and_those_far_out_are_not(kind, learned):
    """Fewer than one in 200 fresh rows, and all whose first column is five spreads beyond the range, above or below."""
    random = np.random.default_rng(3)
    zeta = inputs(kind, 10_500, random)
    errors = np.where(np.arange(zeta.shape[1]) < 2, 0.3 * zeta.std(0), 0.0)
    x = zeta + errors * random.normal(size=zeta.shape)
    train, fresh = x[:500], x[500:]
    prior = None
    if learned:
        import torch  # noqa: PLC0415

        prior = LearnedPrior(max_components=4).fit(torch.tensor(train), torch.tensor(errors[None]))
    cloud = cloud_of(train, errors, prior)
    assert unlike(cloud, fresh, errors).mean() < 0.005
    for sign in (-1, 1):
        far = fresh[:1000].copy()
        end = train[:, 0].max() if sign > 0 else train[:, 0].min()
        far[:, 0] = end + sign * 5 * train[:, 0].std()
        assert unlike(cloud, far, errors).mean() > 0.99
        within = [5 * train[:, 0].std(), *errors[1:]]
        assert unlike(cloud, far, within).mean() < 0.005, "far out within the error of the row is not unlike"


def test_columns_that_do_not_go_together():
    random = np.random.default_rng(0)
    first = random.normal(size=(1000, 1))
    x = np.hstack([first, first + 0.1 * random.normal(size=(1000, 1))])
    cloud = cloud_of(x)
    rows = np.array([[1.5, 1.5], [1.5, -1.5]])
    assert unlike(cloud, rows).tolist() == [False, True]
    assert cloud.words(rows[1], ["a", "b"]) == "each column within its range, but not all of them together"
    assert cloud.words(np.array([1.0, 99.0]), ["a", "b"]).startswith("column b = 99 beyond -")
    assert cloud.words(np.array([-99.0, 1.0])).startswith("column 0 = -99 beyond ")


def test_a_slip_in_the_training_rows_does_not_hide_others():
    """Three of 3,000 rows at 100 spreads: one at 15 is unlike the rest, although the range holds it."""
    x = np.random.default_rng(0).normal(size=(3000, 2))
    x[:3] = 100
    assert unlike(cloud_of(x), np.array([[0.0, 0.0], [15.0, -15.0]])).tolist() == [False, True]


def test_rows_alone_and_together_have_the_same_likeness():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 4)) @ random.normal(size=(4, 4))
    cloud, errors = cloud_of(x), random.uniform(0, 1, (50, 4))
    together = cloud.likeness(2 * x[:50], errors)
    alone = [cloud.likeness(2 * x[i : i + 1], errors[i : i + 1])[0] for i in range(50)]
    np.testing.assert_allclose(together, alone, rtol=1e-9)
    assert np.ptp(together) > 0.5


def test_values_without_end_are_unlike_and_odd_sizes_are_no_trouble():
    random = np.random.default_rng(0)
    x = random.normal(size=(30, 2)) * [1e-140, 1e140]
    cloud = cloud_of(x)
    assert unlike(cloud, np.array([[1e300, -1e300], [0.0, 0.0]])).tolist() == [True, False]
    wide = random.normal(size=(20, 400))
    assert np.ndim(cloud_of(wide).prior.covariances) == 2
    assert not unlike(cloud_of(wide), wide).any()


@pytest.mark.skipif("EIV_TABLES" not in os.environ, reason="needs the measured tables")
@pytest.mark.parametrize(
    "name", ["photoz_vvds", "supernovae_pantheon", "exoplanet_radius", "cpx_pressure", "nhanes_age"]
)
def test_fresh_rows_of_measured_tables(name):
    """Four fifths of the rows against the others, some columns of which are skewed or of two values: under 1 %."""
    from eiv.experiments.studies.real_tables import load_table  # noqa: PLC0415

    table, found = load_table(name), []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(table.X))
        train, test = (table.take(rows) for rows in np.split(order, [round(0.8 * len(order))]))
        found.append(unlike(cloud_of(train.X, train.X_err), test.X, test.X_err))
    assert np.concatenate(found).mean() < 0.01
