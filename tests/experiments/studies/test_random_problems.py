"""Random problems: what a seed gives, and the limit against integration over a grid."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from eiv.experiments.studies.random_inputs import CutColumns, NormalMixture, in_strata
from eiv.experiments.studies.random_problems import ERRORS, SHAPES, ZETAS, Ridges, random_problem

CORRELATION = np.array([[1.0, 0.6], [0.6, 1.0]])
CURVE = np.column_stack([np.linspace(-1.5, 1.5, 61), np.sin(2 * np.linspace(-1.5, 1.5, 61))])


def zetas_of(kind, n_columns):
    correlation = CORRELATION[:n_columns, :n_columns]
    modes = np.array([[-1.0, 0.5], [1.0, -0.5]])[:, :n_columns]
    return {
        "uniform": CutColumns.uniform(n_columns),
        "skewed": CutColumns.skewed(n_columns),
        "normal": NormalMixture.standardised(np.zeros((1, n_columns)), correlation, np.ones(1)),
        "bimodal": NormalMixture.standardised(modes, 0.25 * correlation, np.array([0.6, 0.4])),
        "curve": NormalMixture.standardised(CURVE[:, :n_columns], 0.02 * np.eye(n_columns), np.ones(61)),
    }[kind]


def made(zeta, errors, reliability, function="sine"):
    """A problem of one or two columns, in units of its own."""
    n_columns = len(reliability)
    return replace(
        random_problem(0),
        zeta=zeta,
        errors=errors,
        reliability=np.array(reliability),
        correlation=CORRELATION[:n_columns, :n_columns] if errors == "correlated" else np.eye(n_columns),
        g=Ridges(function, np.array([[0.8, -0.5]])[:, :n_columns], np.array([0.3]), np.ones(1)),
        zetas=zetas_of(zeta, n_columns),
        offset=np.array([5.0, -0.1])[:n_columns],
        scale=np.array([10.0, 0.01])[:n_columns],
        y_offset=-3.0,
        y_scale=20.0,
    )


def density(problem, zeta):
    """That of zeta, but for a factor, at `points x n_x`."""
    if problem.zeta == "uniform":
        return (np.abs(zeta) <= np.sqrt(3)).all(1).astype(float)
    if problem.zeta == "skewed":
        return np.where((zeta >= -1).all(1), np.exp(-zeta.sum(1)), 0.0)
    mixture = problem.zetas
    parts = (multivariate_normal.pdf(zeta, mean, mixture.covariance) for mean in mixture.means)
    return sum(weight * part for weight, part in zip(mixture.weights, parts, strict=True))


def covariance_of(problem, X_err, row):
    found = X_err[0] if problem.errors == "correlated" else np.diag((X_err if X_err.ndim == 1 else X_err[row]) ** 2)
    return found / np.outer(problem.scale, problem.scale)


def by_grid(problem, rows, row, n_points=201):
    """Mean and variance of g given the x of one row, by integration over a grid; exact columns stand still."""
    x, covariance = (rows.X[row] - problem.offset) / problem.scale, covariance_of(problem, rows.X_err, row)
    noisy = np.diag(covariance) > 0
    axes = [
        np.linspace(a - 7 * s, a + 7 * s, n_points) if s > 0 else np.array([a])
        for a, s in zip(x, np.sqrt(np.diag(covariance)), strict=True)
    ]
    if problem.zeta in ("uniform", "skewed"):  # points in the middle of cells that end where the density does
        ends = (-np.sqrt(3), np.sqrt(3)) if problem.zeta == "uniform" else (-1.0, np.inf)
        cells = [np.linspace(max(a[0], ends[0]), min(max(a[-1], ends[0] + 0.1), ends[1]), n_points + 1) for a in axes]
        axes = [(c[1:] + c[:-1]) / 2 if n else a for c, a, n in zip(cells, axes, noisy, strict=True)]
    zeta = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(x))
    error = multivariate_normal.logpdf((zeta - x)[:, noisy], np.zeros(noisy.sum()), covariance[np.ix_(noisy, noisy)])
    weight = density(problem, zeta) * np.exp(error - error.max())
    g = problem.y_offset + problem.y_scale * problem.g(zeta)
    mean = np.average(g, weights=weight)
    return mean, np.average((g - mean) ** 2, weights=weight)


@pytest.mark.parametrize(
    "zeta", [zeta if zeta != "curve" else pytest.param(zeta, marks=pytest.mark.slow) for zeta in ZETAS]
)
@pytest.mark.parametrize(
    ("errors", "reliability"),
    [
        ("equal", [0.7]),
        ("per row", [0.6]),
        ("equal", [0.6, 0.8]),
        ("equal", [0.6, 1.0]),
        ("per row", [0.8, 0.7]),
        ("correlated", [0.6, 0.7]),
    ],
)
def test_the_limit_is_that_of_integration_over_a_grid(zeta, errors, reliability):
    problem = made(zeta, errors, reliability)
    rows = problem.draw(6, "test")
    limit = problem.limit(rows, n_draws=4000)
    n_draws = 300 if errors == "correlated" and zeta in ("uniform", "skewed") else 4000  # Gibbs: fewer that count
    for row in range(6):
        mean, variance = by_grid(problem, rows, row)
        assert abs(limit.mean[row] - mean) < 4 * np.sqrt(variance / n_draws)
        assert limit.variance[row] == pytest.approx(variance, rel=8 / np.sqrt(n_draws), abs=1e-4 * problem.y_scale**2)


def test_a_plane_and_normal_zeta_have_a_closed_form():
    problem = made("normal", "correlated", [0.5, 0.8], "straight")
    rows = problem.draw(4, "test")
    limit = problem.limit(rows, n_draws=20_000)
    P, C = problem.zetas.covariance, covariance_of(problem, rows.X_err, 0)
    w, gain = problem.g.directions[0], P @ np.linalg.inv(P + C)
    x = (rows.X - problem.offset) / problem.scale
    variance = w @ (P - gain @ P) @ w
    np.testing.assert_allclose(limit.variance, problem.y_scale**2 * variance, rtol=0.05)
    expected = problem.y_offset + problem.y_scale * (x @ gain.T @ w + problem.g.shifts)
    np.testing.assert_allclose(limit.mean, expected, atol=4 * problem.y_scale * np.sqrt(variance / 20_000))


def test_far_out_readings_keep_to_the_support():
    """Where the normal is twenty of its spreads away from what it is cut to, on either side."""
    x = np.array([[8.0, -8.0], [-8.0, 8.0]])
    covariance = np.broadcast_to(0.09 * np.eye(2), (2, 2, 2))
    zeta = CutColumns.uniform(2).given(x, covariance, 10, np.random.default_rng(0))
    np.testing.assert_allclose(zeta, np.broadcast_to(np.clip(x, -(3**0.5), 3**0.5), zeta.shape), atol=0.2)
    skewed = CutColumns.skewed(2).given(x, covariance, 10, np.random.default_rng(0))
    np.testing.assert_allclose(skewed.mean(0)[0, 0], 8 - 0.09, atol=0.1)
    np.testing.assert_allclose(skewed[:, 0, 1], -1, atol=0.2)


@pytest.mark.parametrize("seed", range(40))
def test_spreads_and_reliabilities_are_as_stated(seed):
    problem = random_problem(seed)
    rows = problem.draw(20_000, "training")
    zeta, error = (
        (values - start) / problem.scale for values, start in ((rows.zeta, problem.offset), (rows.X, rows.zeta))
    )
    np.testing.assert_allclose(zeta.mean(0), 0, atol=0.05)
    np.testing.assert_allclose(zeta.std(0), 1, rtol=0.05)
    np.testing.assert_allclose(1 / (1 + error.var(0)), problem.reliability, atol=0.02)
    assert np.std(rows.truth) / problem.y_scale == pytest.approx(1, rel=0.05)
    assert np.std(rows.y - rows.truth) / problem.y_scale == pytest.approx(problem.y_noise, rel=0.05)
    noisy = problem.reliability < 1
    np.testing.assert_array_equal(rows.X[:, ~noisy], rows.zeta[:, ~noisy])
    correlation = np.corrcoef(error[:, noisy].T).reshape(noisy.sum(), -1)
    np.testing.assert_allclose(correlation, problem.correlation[np.ix_(noisy, noisy)], atol=0.05)


def test_errors_have_the_form_that_the_estimator_takes():
    shapes = {}
    for seed in range(40):
        problem = random_problem(seed)
        X_err = problem.draw(7, "test").X_err
        shapes.setdefault(problem.errors, []).append((X_err.shape, problem.n_columns))
    assert all(shape == (n,) for shape, n in shapes["equal"])
    assert all(shape == (7, n) for shape, n in shapes["per row"])
    assert all(shape == (1, n, n) for shape, n in shapes["correlated"])


def test_a_seed_always_gives_the_same_problem():
    one, two = (random_problem.__wrapped__(17) for _ in range(2))  # not from the cache
    for stream in ("training", "test"):
        a, b = one.draw(50, stream), two.draw(50, stream)
        np.testing.assert_array_equal(a.X, b.X)
        np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(one.limit(a).mean, two.limit(b).mean)
    training = one.draw(50, "training")
    assert not np.isin(training.zeta, a.zeta).any()
    assert random_problem(18).words != one.words


def test_problems_cover_every_kind():
    problems = [random_problem(seed) for seed in range(200)]
    for name, kinds in (("shape", SHAPES), ("zeta", ZETAS), ("errors", ERRORS)):
        assert {getattr(problem, name) for problem in problems} == set(kinds)
    columns = {problem.n_columns for problem in problems}
    assert (min(columns), max(columns)) == (1, 20)
    rows = [problem.n_rows for problem in problems]
    assert 60 <= min(rows) < 100
    assert 15_000 < max(rows) <= 20_000
    assert any(problem.n_noisy < problem.n_columns for problem in problems)
    noise = [problem.y_noise for problem in problems]
    assert (min(noise) > 0.03, min(noise) < 0.04, max(noise) < 0.5, max(noise) > 0.4) == (True,) * 4
    reliability = np.concatenate([problem.reliability[problem.reliability < 1] for problem in problems])
    assert 0.5 <= reliability.min() < 0.52
    assert 0.97 < reliability.max() <= 0.99


def test_half_of_the_problems_are_noisy():
    """Seeds of development: in most the errors of x are more than a tenth of the variance of a label given x."""
    shares = []
    for seed in range(0, 1000, 10):
        problem = random_problem(seed)
        rows = problem.draw(40, "test")
        shares.append(problem.noise_share(problem.limit(rows, n_draws=50)))
    assert np.mean(np.array(shares) > 0.1) > 0.5
    assert np.mean(np.array(shares) < 0.9) > 0.2  # sigma_y counts too


def test_strata_hold_one_number_each():
    levels = in_strata(50, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(levels * 50 // 1, axis=0), np.tile(np.arange(50.0)[:, None], 3))
