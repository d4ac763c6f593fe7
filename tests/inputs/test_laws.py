"""Laws of errors: how near a few normal distributions are to them, and what they make of the true input."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from eiv import censored, growing, law_from_pairs, law_from_repeats, rectangular, split_normal, student_t, triangular
from eiv.inputs import FlatPrior, LearnedPrior, MixturePrior, NormalPrior
from eiv.inputs.given import MOST_PARTS, explained, log_density_of_readings, zeta_given
from eiv.inputs.mixed import MixedErrors
from eiv.inputs.mixture import component_posteriors
from eiv.inputs.parts import N_PARTS, Parts, divergence, nearest_parts

LAWS = {
    "rectangular": rectangular(0.5),
    "triangular": triangular(0.6),
    "student_t": student_t(0.3, 4),
    "split_normal": split_normal(0.2, 0.5),
    "growing": growing(0.2, 0.05),
    "censored": censored(0.2, below=[np.nan, 0.5, np.nan]),
}
TWO = MixturePrior([0.3, 0.7], [[-1.0], [1.0]], [[0.2], [0.4]])
PRIORS = {
    "mixture": (TWO, lambda z: 0.3 * stats.norm.pdf(z, -1, 0.2**0.5) + 0.7 * stats.norm.pdf(z, 1, 0.4**0.5)),
    "normal": (NormalPrior(1.0, 0.5), lambda z: stats.norm.pdf(z, 0.5, 1.0)),
    "nearly flat": (NormalPrior(np.inf), np.ones_like),
    "flat": (FlatPrior(), np.ones_like),
}


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def density(parts, row, zeta, x):
    """That of the true value under the parts of a row."""
    log_w, shifts, stds = (part[0 if len(part) == 1 else row] for part in parts)
    return (np.exp(log_w) * stats.norm.pdf(zeta[..., None], x + shifts, stds)).sum(-1)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("law", LAWS)
def test_the_posterior_of_zeta_is_that_of_quadrature(law, prior):
    x = LAWS[law].readings(np.array([0.3, 1.2, -2.0]))
    parts = LAWS[law].parts(x, "x_err")
    pi, of_prior = PRIORS[prior]
    zeta = zeta_given(pi, double(x)[:, None], MixedErrors.of([parts]))
    grid = np.linspace(-20, 20, 16_001)  # a sixth of the narrowest part from one node to the next
    for row in range(3):
        weights = of_prior(grid) * density(parts, row, grid, x[row])
        weights /= weights.sum()
        mean = weights @ grid
        assert zeta.mean[row].item() == pytest.approx(mean, abs=1e-10)
        assert zeta.std[row].item() == pytest.approx(np.sqrt(weights @ (grid - mean) ** 2), abs=1e-10)
        level = zeta.draw(torch.zeros(3, 1, 1, dtype=torch.float64))[row].item()  # the median
        assert np.interp(level, grid, weights.cumsum() - weights / 2) == pytest.approx(0.5, abs=1e-4)


def split_of(ratio, std=0.5):
    """A split normal law with this standard deviation whose plus is `ratio` times its minus, and its density."""
    minus = std / np.sqrt((1 - 2 / np.pi) * (ratio - 1) ** 2 + ratio)
    sides = minus, ratio * minus
    return split_normal(*sides), lambda e: np.exp(-0.5 * (e / np.where(e < 0, *sides)) ** 2)


LIMIT, WIDE, SCALE = np.sqrt(3) / 2, np.sqrt(6) / 2, np.sqrt(1 / 8)  # of laws with a standard deviation of 0.5
TRUE_LAWS = {  # a law, its density, and how far off mean and standard deviation may be: within 2 prior spreads, at 4
    "rectangular": (rectangular(LIMIT), lambda e: 1.0 * (np.abs(e) <= LIMIT), (0.001, 0.004), (0.013, 0.014)),
    "triangular": (triangular(WIDE), lambda e: np.maximum(1 - np.abs(e) / WIDE, 0), (0.002, 0.005), (0.028, 0.036)),
    "student_t": (student_t(SCALE, 4), lambda e: stats.t.pdf(e / SCALE, 4), (0.002, 0.003), (0.13, 0.075)),
    "split_normal, 2.5": (*split_of(2.5), (0.008, 0.010), (0.023, 0.030)),
    "split_normal, 4": (*split_of(4.0), (0.008, 0.011), (0.067, 0.080)),
}


@pytest.mark.parametrize("kind", TRUE_LAWS)
def test_the_posterior_is_near_that_of_the_law_itself(kind):
    """Not of its parts: the table of docs/errors.md has these numbers."""
    law, density_of, within, far = TRUE_LAWS[kind]
    x = np.append(np.linspace(-2, 2, 17), [-4, 4])
    zeta = zeta_given(NormalPrior(1.0), double(x)[:, None], MixedErrors.of([law.parts(x, "x_err")]))
    grid = np.linspace(-10, 10, 100_001)
    weights = stats.norm.pdf(grid) * density_of(grid - x[:, None])
    weights /= weights.sum(1, keepdims=True)
    mean = weights @ grid
    std = np.sqrt((weights * (grid - mean[:, None]) ** 2).sum(1))
    off = np.stack([np.abs(zeta.mean[:, 0].numpy() - mean) / std, np.abs(zeta.std[:, 0].numpy() / std - 1)])
    assert (off[:, :-2].max(1) <= within).all()
    assert (off[:, -2:].max(1) <= far).all()


@pytest.mark.parametrize("laws", [("rectangular", "split_normal"), ("student_t", None), (None, "triangular")])
def test_columns_that_depend_on_each_other_are_taken_in_together(laws):
    covariances = [[[0.5, 0.3], [0.3, 0.4]], [[0.6, -0.2], [-0.2, 0.3]]]
    prior = MixturePrior([0.4, 0.6], [[-1.0, 0.0], [1.0, 0.5]], covariances)
    x = np.array([[0.3, -0.2], [1.5, 1.0]])
    parts = [
        Parts.normal(0.3) if law is None else LAWS[law].parts(column, "x_err")
        for law, column in zip(laws, x.T, strict=True)
    ]
    zeta = zeta_given(prior, double(x), MixedErrors.of(parts))
    axis = np.linspace(-7, 7, 1001)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    pi = sum(
        w * stats.multivariate_normal.pdf(grid, m, v)
        for w, m, v in zip(prior.weights, prior.means, prior.covariances, strict=True)
    )
    for row in range(2):
        weights = pi * np.multiply.outer(*(density(parts[c], row, axis, x[row, c]) for c in range(2)))
        weights /= weights.sum()
        mean = (weights[..., None] * grid).sum((0, 1))
        covariance = np.einsum("ab,abi,abj->ij", weights, grid - mean, grid - mean)
        np.testing.assert_allclose(zeta.mean[row], mean, atol=1e-10)
        np.testing.assert_allclose(zeta.covariance[row], covariance, atol=1e-10)


def test_more_parts_than_are_kept_leave_mean_and_covariance_of_a_flat_prior_as_they_are():
    """Three columns of five parts: 125, of which 31 are kept, and one stands for the others."""
    parts = [rectangular(a).parts(np.zeros(2), "x_err") for a in (0.5, 1.0, 2.0)]
    zeta = zeta_given(FlatPrior(), double([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]), MixedErrors.of(parts))
    assert zeta.means.shape[-2] == MOST_PARTS
    np.testing.assert_allclose(zeta.mean, [[1, 2, 3], [0, 0, 0]], atol=1e-12)
    wanted = np.diag([each.std[0] ** 2 for each in parts])
    np.testing.assert_allclose(zeta.covariance, np.broadcast_to(wanted, (2, 3, 3)), atol=1e-12)


def test_many_columns_with_laws_stay_close_to_all_of_their_parts(monkeypatch):
    """Heavy tails in four columns of a correlated prior: means differ by less than a hundredth of a spread."""
    random = np.random.default_rng(0)
    root = random.normal(size=(4, 4))
    prior = MixturePrior([1.0], np.zeros((1, 4)), (root @ root.T + 0.5 * np.eye(4))[None])
    x = random.multivariate_normal(np.zeros(4), prior.covariances[0], 50) + 0.5 * random.standard_t(4, (50, 4))
    errors = MixedErrors.of([student_t(0.5, 4).parts(column, "x_err") for column in x.T])
    few = zeta_given(prior, double(x), errors)
    monkeypatch.setattr("eiv.inputs.given.MOST_PARTS", 81)
    every = zeta_given(prior, double(x), errors)
    assert (few.means.shape[-2], every.means.shape[-2]) == (MOST_PARTS, 81)
    assert float(((few.mean - every.mean).abs() / every.std).max()) < 0.01
    assert float((few.std / every.std - 1).abs().max()) < 0.01


@pytest.mark.parametrize("prior", PRIORS)
def test_one_part_is_the_normal_law_to_the_last_bit(prior):
    x, pi = double([[0.3], [1.2]]), PRIORS[prior][0]
    errors = MixedErrors.plain_or_of([Parts.normal(np.array([0.2, 0.4]))])
    assert isinstance(errors, np.ndarray)
    law, normal = zeta_given(pi, x, errors), pi.posterior(x, double([[0.2], [0.4]]))
    assert torch.equal(law.mean, normal.mean)
    assert torch.equal(law.std, normal.std)


def test_a_split_normal_law_with_equal_sides_is_the_normal_one():
    x = double([[0.3], [1.2]])
    equal = MixedErrors.of([split_normal(0.3, 0.3).parts(np.zeros(2), "x_err")])
    law, normal = zeta_given(TWO, x, equal), TWO.posterior(x, double([[0.3]]))
    np.testing.assert_allclose(law.mean, normal.mean, rtol=1e-11)
    np.testing.assert_allclose(law.std, normal.std, rtol=1e-11)


def test_what_components_make_of_rows_is_the_moments_of_their_parts():
    """Against the posterior of each component alone."""
    x, errors = double([[0.3], [1.2]]), MixedErrors.of([split_normal(0.2, 0.5).parts(np.zeros(2), "x_err")])
    means, covariances = double(TWO.means), double(TWO.covariances)
    log_density, mean, variance = explained(x, errors, means, covariances)
    for k in range(2):
        alone = zeta_given(MixturePrior([1.0], TWO.means[k : k + 1], TWO.covariances[k : k + 1]), x, errors)
        np.testing.assert_allclose(mean[:, k], alone.mean, atol=1e-10)
        np.testing.assert_allclose(variance[:, k].sqrt(), alone.std, atol=1e-10)
    grid = np.linspace(-20, 20, 8001)
    of_prior = stats.norm.pdf(grid, 1, 0.4**0.5)
    parts = split_normal(0.2, 0.5).parts(np.zeros(1), "x_err")
    found = (of_prior * density(parts, 0, grid, 0.3)).sum() * (grid[1] - grid[0])
    assert log_density[0, 1].item() == pytest.approx(np.log(found), abs=1e-9)
    plain = explained(x, double([[0.2]]), means, covariances)
    for mine, theirs in zip(plain, component_posteriors(x, double([[0.2]]), means, covariances), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    ("kind", "shape", "most"),
    [
        ("rectangular", 0.0, 0.027),
        ("triangular", 0.0, 0.0054),
        ("student_t", 3.0, 0.0026),
        ("student_t", 4.0, 0.00076),
        ("student_t", 30.0, 1e-6),
        ("split_normal", 0.2, 0.0001),
        ("split_normal", 0.5, 0.0006),
        ("split_normal", 0.9, 0.022),
        ("split_normal", 1.0, 0.043),
    ],
)
def test_how_far_the_parts_are_from_their_law(kind, shape, most):
    """As `docs/errors.md` has it, in nats, by quadrature of the law on another grid than the one of the search."""
    parts, stated = nearest_parts(kind, shape), divergence(kind, shape)
    half = np.sinh((np.arange(20_000) + 0.5) / 20_000 * 11)  # dense in the middle, up to 30,000
    steps = np.sqrt(1 + half**2) * 11 / 20_000
    if kind in ("rectangular", "triangular"):
        half, steps = (np.arange(20_000) + 0.5) / 20_000, np.full(20_000, 1 / 20_000)
    a = shape if kind == "split_normal" else 0.0
    found = 0.0
    for sign, side in ((-1, 1 - a), (1, 1 + a)):
        if side == 0:
            continue
        log_law = {
            "rectangular": lambda: np.full_like(half, -np.log(2)),
            "triangular": lambda: np.log(1 - half),
            "student_t": lambda: stats.t.logpdf(half, shape),
            "split_normal": lambda side=side: stats.norm.logpdf(half / side),
        }[kind]()
        logs = parts.log_weights + stats.norm.logpdf(sign * half[:, None], parts.shifts, parts.stds)
        found += (steps * np.exp(log_law) * (log_law - logsumexp(logs, axis=1))).sum()
    assert found == pytest.approx(stated, rel=0.01, abs=1e-6)
    assert stated < most
    more = divergence(kind, shape, nearest_parts(kind, shape, N_PARTS[kind] - 1)) if shape < 30 else 1.0
    assert stated < more


@pytest.mark.parametrize(
    ("law", "mean", "std"),
    [
        (rectangular(0.7), 0.0, 0.7 / 3**0.5),
        (triangular(0.7), 0.0, 0.7 / 6**0.5),
        (student_t(0.5, 4), 0.0, 0.5 * 2**0.5),
        (split_normal(0.2, 0.5), 0.3 * (2 / np.pi) ** 0.5, ((1 - 2 / np.pi) * 0.09 + 0.1) ** 0.5),
        (split_normal(0.5, 0.2), -0.3 * (2 / np.pi) ** 0.5, ((1 - 2 / np.pi) * 0.09 + 0.1) ** 0.5),
    ],
)
def test_mean_and_standard_deviation_are_those_of_the_law(law, mean, std):
    parts = law.parts(np.zeros(2), "x_err")
    assert parts.mean[0] == pytest.approx(mean, abs=1e-5)
    assert parts.std[0] == pytest.approx(std, rel=1e-4)


@pytest.mark.parametrize(("share", "most"), [(0.02, 0.0004), (0.05, 0.0008), (0.1, 0.0076)])
def test_errors_that_grow_with_the_true_value_against_their_likelihood(share, most):
    """In nats, as `docs/errors.md` has it; a normal distribution by the reading is several times as far off."""
    x = 10.0
    parts = growing(0.0, share).parts(np.array([x]), "x_err")
    zeta = x + share * x * np.linspace(-8, 14, 20_001)
    likelihood = stats.norm.pdf(x, zeta, share * np.abs(zeta))
    likelihood /= likelihood.sum()
    step, inside = zeta[1] - zeta[0], likelihood > 0
    mean = likelihood @ zeta
    assert parts.mean[0] == pytest.approx(mean - x, rel=1e-4)
    assert parts.std[0] == pytest.approx(np.sqrt(likelihood @ (zeta - mean) ** 2), rel=1e-4)
    logs = np.log(likelihood[inside] / step)
    found = likelihood[inside] @ (logs - np.log(density(parts, 0, zeta[inside], x)))
    by_reading = likelihood[inside] @ (logs - stats.norm.logpdf(zeta[inside], x, share * x))
    assert found < most
    assert by_reading > 4 * found


def drawn(kind, random, n):
    """True values less readings."""
    if kind == "student_t":
        return 0.3 * random.standard_t(4, n), student_t(0.3, 4)
    if kind == "rectangular":
        return random.uniform(-0.8, 0.8, n), rectangular(0.8)
    sizes = np.where(random.random(n) < 0.8, 0.6, -0.15)  # a side is as likely as it is wide
    return sizes * np.abs(random.standard_normal(n)), split_normal(0.15, 0.6)


@pytest.mark.parametrize("kind", ["student_t", "rectangular", "split_normal"])
def test_intervals_cover_the_true_inputs_under_a_prior_that_is_learned_with_the_law(kind):
    """Band set beforehand: 0.93 to 0.97 of 5,000 true inputs; the standard error of a share of 0.95 is 0.003."""
    random = np.random.default_rng(0)
    zeta = np.where(random.random(6000) < 0.5, -1.0, 1.0) + 0.4 * random.standard_normal(6000)
    gaps, law = drawn(kind, random, 6000)
    x = double(zeta - gaps)[:, None]
    prior = LearnedPrior(max_components=2).learn(x[:1000], MixedErrors.of([law.parts(x[:1000, 0].numpy(), "x_err")]))
    posterior = zeta_given(prior, x[1000:], MixedErrors.of([law.parts(x[1000:, 0].numpy(), "x_err")]))
    low, high = (posterior.draw(torch.full((5000, 1, 1), sign * 1.96).double())[:, 0, 0].numpy() for sign in (-1, 1))
    covered = np.mean((low <= zeta[1000:]) & (zeta[1000:] <= high))
    assert 0.93 <= covered <= 0.97


def test_the_law_from_pairs_is_that_of_the_readings():
    """Skewed errors with a mean: held-out differences are as probable as under the truth, within 0.01 nats."""
    random = np.random.default_rng(1)
    truth = random.normal(size=4000)
    gaps, law = drawn("split_normal", random, 4000)
    found = law_from_pairs(truth[:2000], (truth - gaps)[:2000] + 0.1)
    parts, wanted = (each.parts(np.zeros(1), "x_err") for each in (found, law))
    fresh = gaps[2000:]
    gain = np.log(density(parts, 0, fresh - 0.1, 0.0)) - np.log(density(wanted, 0, fresh, 0.0))
    assert len(found.weights) > 1
    assert gain.mean() > -0.01


def test_the_error_of_the_better_readings_is_taken_off():
    random = np.random.default_rng(2)
    truth = random.normal(size=3000)
    clean, noisy = truth + 0.2 * random.standard_normal(3000), truth + 0.3 * random.standard_normal(3000)
    stds = [float(law_from_pairs(clean, noisy, clean_err=tau).parts(np.zeros(1), "law").std[0]) for tau in (0.0, 0.2)]
    # four standard errors of a standard deviation, 1 / sqrt(2 n) each
    assert stds[0] == pytest.approx(0.13**0.5, rel=4 / 6000**0.5)
    assert stds[1] == pytest.approx(0.3, rel=0.13 / 0.09 * 4 / 6000**0.5)


def test_the_law_from_repeats_has_the_tails_of_single_readings():
    """Fourth moments of t errors with five degrees do not exist to compare: held-out readings judge instead."""
    random = np.random.default_rng(3)
    groups = np.repeat(np.arange(400), 5)
    x = groups + 0.3 * random.standard_t(5, 2000)
    law = law_from_repeats(x, groups)
    parts = law.parts(np.zeros(1), "x_err")
    fresh = 0.3 * random.standard_t(5, 4000)
    found = np.log(density(parts, 0, fresh, 0.0)).mean()
    truth = stats.t.logpdf(fresh / 0.3, 5).mean() - np.log(0.3)
    normal = stats.norm.logpdf(fresh, 0, fresh.std()).mean()
    assert parts.mean[0] == pytest.approx(0, abs=1e-12)
    assert truth - 0.02 < found
    assert found > normal


def test_laws_of_several_columns_are_named_as_these():
    import pandas as pd  # noqa: PLC0415

    random = np.random.default_rng(0)
    noisy = pd.DataFrame(random.normal(size=(50, 2)), columns=["a", "b"])
    assert list(law_from_pairs(np.zeros((50, 2)), noisy)) == ["a", "b"]
    assert len(law_from_pairs(np.zeros((50, 2)), noisy.to_numpy())) == 2
    assert list(law_from_repeats(noisy, np.repeat(np.arange(10), 5))) == ["a", "b"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rectangular(-1.0).parts(np.zeros(3), "x_err['a']"), r"x_err\['a'\]: half_width must .*, got -1"),
        (lambda: rectangular([1.0, 2.0]).parts(np.zeros(3), "X_err[0]"), r"one per row \(3\), got shape \(2,\)"),
        (lambda: rectangular("wide").parts(np.zeros(3), "x_err"), "half_width must be a number .* 'wide'"),
        (lambda: student_t(1.0, 2).parts(np.zeros(3), "x_err"), "dof must be one number above 2, got 2"),
        (lambda: split_normal(0.1, np.inf).parts(np.zeros(3), "x_err"), "plus must be finite"),
        (lambda: growing(0.3, 0.2).parts(np.zeros(3), "x_err"), "share must be one number of at most 0.1, got 0.2"),
        (lambda: censored(0.1, [1.0, np.nan]).parts(np.zeros(3), "x_err"), "below must be one limit per row"),
        (lambda: censored(0.1, [0.5], low=0.6).parts(np.zeros(1), "x_err"), "wrong order in row 0: below = 0.5"),
        (lambda: law_from_pairs([1.0, 2.0], [1.0]), "the same shape"),
        (lambda: law_from_pairs("a", "b"), "clean must be numbers, `rows` or `rows x n_x`, got 'a'"),
        (lambda: law_from_pairs([1.0], {"a": 1}), "noisy must be numbers, `rows` or `rows x n_x`, got {'a': 1}"),
        (lambda: law_from_repeats([["a"] * 99], [0]), "X must be numbers, `rows` or `rows x n_x`, got <class 'list'>"),
        (lambda: law_from_pairs(np.zeros(5), np.arange(5.0)), "12 readings at least, got 5"),
        (lambda: law_from_pairs(np.zeros(20), np.ones(20)), "off by 1, so that there is no error"),
        (lambda: law_from_pairs(np.zeros(20), np.arange(20.0), clean_err=-1), "errors not negative"),
        (lambda: law_from_repeats(np.arange(20.0), np.repeat(np.arange(10), 2)), "3 readings each at least"),
    ],
)
def test_laws_that_do_not_fit_their_numbers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_prior_of_the_users_own_is_refused_where_a_law_needs_more_of_it():
    class Own:
        def posterior(self, x, x_err):
            return FlatPrior().posterior(x, x_err)

    errors = MixedErrors.of([rectangular(0.5).parts(np.zeros(1), "x_err")])
    with pytest.raises(TypeError, match="got Own, whose posterior for parts of a law is not known"):
        zeta_given(Own(), double([[0.0]]), errors)


@pytest.mark.parametrize("law", [rectangular(0.6), student_t(0.3, 4), split_normal(0.1, 0.5)])
@pytest.mark.parametrize("prior", [NormalPrior(0.8, 0.1), MixturePrior([0.3, 0.7], [[-1.0], [0.5]], [[0.1], [0.4]])])
def test_the_density_of_readings_is_that_of_quadrature(law, prior):
    x = np.array([[0.2], [-1.3]])
    errors = MixedErrors.of([law.parts(x[:, 0], "x_err")])
    found = log_density_of_readings(prior, torch.tensor(x), errors).numpy()
    zeta = np.linspace(-12, 12, 20_001)
    weights, means, variances = (np.asarray(part) for part in prior.components(torch.tensor(x)))
    density = stats.norm.pdf(zeta[:, None], means[:, 0], np.sqrt(variances[:, 0])) @ (weights / weights.sum())
    parts = errors.parts[0]
    for row, reading in enumerate(x[:, 0]):
        of_x = np.exp(parts.log_weights[0]) @ stats.norm.pdf(
            zeta - reading, parts.shifts[0][:, None], parts.stds[0][:, None]
        )
        assert found[row] == pytest.approx(np.log(np.sum(density * of_x) * (zeta[1] - zeta[0])), abs=1e-10)


def test_missing_cells_change_the_density_of_readings_by_a_constant():
    prior = NormalPrior([0.8, 1.5], [0.1, 0.0])
    x = torch.tensor([[0.2, 3.0], [-1.3, 0.0]], dtype=torch.float64)
    missing = np.array([[False, True], [False, True]])
    plain = np.array([[0.3, 0.2]])
    both = MixedErrors.with_missing(plain, missing, np.ones(2))
    alone = log_density_of_readings(NormalPrior(0.8, 0.1), x[:, :1], plain[:, :1])
    gaps = log_density_of_readings(prior, x, both) - alone
    assert gaps[0] == pytest.approx(float(gaps[1]), abs=1e-10)
