"""Noise of several outputs that goes together: correlations against closed forms, joint labels, whole fits."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from eiv import EiVRegressor, ModelFileError
from eiv.likelihoods import (
    NOISE_RULES,
    NormalLabels,
    NormalLikelihood,
    StudentTLabels,
    StudentTLikelihood,
    VaryingLabels,
    VaryingLikelihood,
)
from eiv.likelihoods.correlation import fit_correlation
from eiv.likelihoods.noise import Outputs
from forging import altered, forged

F64 = torch.float64
N = 4000
R = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.0], [-0.3, 0.0, 1.0]])
SIGMA = np.array([0.5, 1.0, 2.0])


def correlation_of(covariance):
    spread = np.sqrt(np.diag(covariance))
    return covariance / np.outer(spread, spread)


def noise(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 3)) @ np.linalg.cholesky(R).T * SIGMA


def found(rows, likelihood=None):
    """The correlations of one network under a likelihood; by default normal with the true sigma_y."""
    likelihood = likelihood or NormalLikelihood(torch.tensor(SIGMA)[None])
    terms = rows.weighted(likelihood.log_density(rows.f, rows.y, rows.y_err))
    return fit_correlation(likelihood.scores(rows.f, rows.y, rows.y_err), terms, rows.counts)[0].numpy()


def test_exact_inputs_have_the_correlations_of_their_residuals():
    r = torch.tensor(noise(N))
    correlation = found(Outputs(torch.zeros(1, N, 1, 3, dtype=F64), r[None], None, None, N, None))
    np.testing.assert_allclose(correlation, correlation_of(r.numpy().T @ r.numpy()), atol=1e-12)
    np.testing.assert_allclose(correlation, R, atol=5 / N**0.5)  # 1 / sqrt(N) is the standard error at most


@pytest.mark.parametrize("known", [None, 0.4])
@pytest.mark.parametrize("kind", ["normal", "varying", "student_t"])
def test_what_inputs_and_known_errors_do_is_taken_off(known, kind):
    r"""f = a zeta, zeta given x normal with variance v: labels have the covariance C = S + v a a^T + e^2.

    With r of exactly that second moment, the correlations of C - v a a^T - e^2 make them most probable. A t with
    nu = 50 and the same variance is nearly normal: the fourth moment is 3.13 instead of 3.
    """
    a, v = np.array([1.0, -0.5, 2.0]), 0.3
    covariance = R * np.outer(SIGMA, SIGMA)
    total = covariance + v * np.outer(a, a) + (0.0 if known is None else known**2) * np.eye(3)
    r = np.random.default_rng(1).standard_normal((200, 3))
    r = r @ np.linalg.inv(np.linalg.cholesky(r.T @ r / 200)).T @ np.linalg.cholesky(total).T  # exact second moment
    z, weights = np.polynomial.hermite_e.hermegauss(40)
    f = torch.tensor(v**0.5 * z)[None, None, :, None] * torch.tensor(a)
    log_weights = torch.tensor(np.log(weights / weights.sum() * len(z)))

    rule = SimpleNamespace(log_weights=log_weights)
    errors = None if known is None else torch.full((1, 200, 3), known, dtype=F64)
    rows = Outputs(f.expand(1, 200, -1, -1), torch.tensor(r)[None], errors, rule, 200, None)
    sigma, one = torch.tensor(SIGMA)[None], torch.ones(1, 1, dtype=F64)
    if kind == "varying":  # half of log sigma is in the head
        likelihood = VaryingLikelihood(sigma**0.5, one, sigma, sigma, one, one, NOISE_RULES["likelihood"])
        heads = (0.5 * sigma.log()).expand(rows.f.shape)
        correlation = found(rows._replace(f=torch.cat([rows.f, heads], dim=-1)), likelihood)
    elif kind == "student_t":
        correlation = found(rows, StudentTLikelihood(sigma * 0.96**0.5, torch.full((1, 3), 50.0, dtype=F64)))
    else:
        correlation = found(rows)
        ignored = found(rows._replace(f=0 * rows.f[:, :, :1], quadrature=None))
        assert np.abs(ignored - R).max() > 0.1  # without the unknown zeta correlations come out wrong
    np.testing.assert_allclose(correlation, R, atol=2e-3 if kind != "student_t" else 0.02)


def test_noise_that_varies_has_the_correlations_of_its_scores():
    """Noise of the zeta of each row, which is known: residuals over their sigma."""
    r, h = noise(N) / SIGMA, np.random.default_rng(7).normal(size=(N, 3))
    y = torch.tensor(r * SIGMA * np.exp(h))[None]
    f = torch.tensor(np.hstack([np.zeros((N, 3)), h]))[None, :, None]
    sigma, one = torch.tensor(SIGMA)[None], torch.ones(1, 1, dtype=F64)
    likelihood = VaryingLikelihood(sigma, one, sigma, sigma, one, one, NOISE_RULES["likelihood"])
    np.testing.assert_allclose(found(Outputs(f, y, None, None, N, None), likelihood), correlation_of(r.T @ r))


@pytest.mark.parametrize("known", [None, 0.5])
def test_heavy_tails_have_the_correlations_of_their_normal_scores(known):
    """Each output has its own nu, and errors on top; 5 standard errors without these, whose part is that of the bulk.

    With errors of half a scale and more, correlations of the labels themselves are off by 0.2.
    """
    nu, random = np.array([2.5, 4.0, 20.0]), np.random.default_rng(3)
    scores = random.standard_normal((N, 3)) @ np.linalg.cholesky(R).T
    r = SIGMA * stats.t.ppf(stats.norm.cdf(scores), nu)
    errors = None if known is None else known * SIGMA * random.uniform(0.5, 3, (N, 3))
    y = r if errors is None else r + errors * random.standard_normal((N, 3))
    likelihood = StudentTLikelihood(torch.tensor(SIGMA)[None], torch.tensor(nu)[None])
    given = None if errors is None else torch.tensor(errors)[None]
    rows = Outputs(torch.zeros(1, N, 1, 3, dtype=F64), torch.tensor(y)[None], given, None, N, None)
    correlation = found(rows, likelihood)
    np.testing.assert_allclose(correlation, R, atol=5 / N**0.5 if known is None else 0.1)
    if known is not None:
        assert np.abs(stats.spearmanr(y).statistic - R).max() > 0.2


def test_weights_are_repeated_rows():
    r, counts = torch.tensor(noise(30)), torch.tensor([1, 2, 3] * 10)
    repeated = r.repeat_interleave(counts, 0)
    rows = [
        Outputs(torch.zeros(1, len(y), 1, 3, dtype=F64), y[None], None, None, len(y), weights)
        for y, weights in ((r, counts.double()[None]), (repeated, None))
    ]
    np.testing.assert_allclose(*(found(each) for each in rows))


def test_labels_are_drawn_jointly():
    known = np.array([[0.3, 0.0, 1.0]])
    labels = NormalLabels(np.hypot(SIGMA, known), R, known)
    truth = R * np.outer(SIGMA, SIGMA) + np.diag(known[0] ** 2)
    np.testing.assert_allclose(labels.covariance, truth[None])
    np.testing.assert_allclose(np.diagonal(labels.covariance, axis1=1, axis2=2), labels.std**2)
    sampled = labels.sample(np.zeros((40_000, 1, 3)), np.random.default_rng(0))[:, 0]
    error = 5 * np.sqrt((truth**2 + np.outer(np.diag(truth), np.diag(truth))) / 40_000)  # of a sample covariance
    assert (np.abs(np.cov(sampled.T) - truth) < error).all()
    np.testing.assert_allclose(labels[:1].covariance, truth[None])
    assert labels[:, 1].std.shape == (1,)


def test_heavy_tails_are_drawn_jointly():
    """Every output has its own t, whatever the others do; covariances are finite for nu above 4 in the test of them."""
    nu, known = np.array([[5.0, 9.0, 30.0]]), np.array([[0.0, 0.5, 1.0]])
    labels = StudentTLabels(SIGMA[None], nu, known, R)
    plain = StudentTLabels(SIGMA[None], nu, known)
    np.testing.assert_allclose(np.diagonal(labels.covariance, axis1=1, axis2=2), labels.std**2)
    np.testing.assert_allclose(plain.covariance[0], np.diag(plain.std[0] ** 2))
    sampled = labels.sample(np.zeros((100_000, 1, 3)), np.random.default_rng(0))[:, 0]
    assert stats.kstest(sampled[:, 0] / SIGMA[0], stats.t(5).cdf).statistic < 1.95 / 100_000**0.5
    products = sampled[:, :, None] * sampled[:, None, :]
    error = 5 * products.std(0) / 100_000**0.5
    assert (np.abs(products.mean(0) - labels.covariance[0]) < error).all()
    assert (labels[:1].correlation == R).all()
    assert labels[:, 1].correlation is None


def test_noise_of_each_draw_is_drawn_jointly():
    random, known = np.random.default_rng(0), np.array([[0.5, 0.0, 1.0]])
    widths = np.exp(random.normal(size=(100_000, 1, 3)) * [0.5, 0.2, 0.8])
    labels = VaryingLabels(np.sqrt((widths**2).mean(0)), known, widths, R)
    np.testing.assert_allclose(np.diagonal(labels.covariance, axis1=1, axis2=2), labels.std**2)
    sampled = labels.sample(np.zeros(widths.shape), random)[:, 0]
    products = sampled[:, :, None] * sampled[:, None, :]
    assert (np.abs(products.mean(0) - labels.covariance[0]) < 5 * products.std(0) / 100_000**0.5).all()
    alone = VaryingLabels(labels.sigma, known, None, R)
    np.testing.assert_allclose(alone.covariance[0], R * np.outer(labels.sigma, labels.sigma) + np.diag(known[0] ** 2))
    assert labels[:1].of_draws.shape == (100_000, 1, 3)
    assert labels[:, 1].correlation is None


def test_pooled_networks_have_the_mean_of_their_covariances():
    y_noise = torch.tensor([[1.0, 1.0], [3.0, 1.0]], dtype=F64)
    matrices = torch.tensor([[[1.0, 0.5], [0.5, 1.0]], [[1.0, -0.5], [-0.5, 1.0]]], dtype=F64)
    pool = torch.tensor([0.75, 0.25], dtype=F64)
    labels = NormalLikelihood(y_noise, None, matrices).labels(np.array([2.0, 10.0]), (1, 2), None, pool)
    expected = [[4 * (0.75 + 0.25 * 9), 20 * (0.75 * 0.5 - 0.25 * 1.5)], [0.0, 100.0]]
    np.testing.assert_allclose(labels.covariance[0], [expected[0], [expected[0][1], 100.0]], atol=1e-12)


@pytest.fixture(scope="module")
def correlated():
    random = np.random.default_rng(3)
    zeta = random.normal(size=(600, 1))
    X = zeta + 0.3 * random.normal(size=(600, 1))
    joint = random.standard_normal((600, 2)) @ np.linalg.cholesky([[1.0, 0.7], [0.7, 1.0]]).T
    Y = np.hstack([np.sin(zeta), 3 * np.cos(zeta)]) + joint * [0.3, 0.9]
    return X, Y


def test_a_whole_fit_finds_the_correlation(correlated, tmp_path):
    """Of noise 0.7, where that of the labels themselves is another; 0.7 +- 4 (1 - 0.7^2) / sqrt(600), and some bias."""
    X, Y = correlated
    model = EiVRegressor(0.3, network="cosine", hidden_units=48, random_state=0).fit(X, Y)
    p = model.predict_distribution(X[:4])
    found = correlation_of(p.noise_covariance[0])[0, 1]
    assert 0.58 < found < 0.82
    np.testing.assert_allclose(np.diagonal(p.noise_covariance, axis1=1, axis2=2), p.noise**2)
    np.testing.assert_allclose(np.diagonal(p.covariance("label"), axis1=1, axis2=2), p.total**2)
    sampled = p.samples(of="label", random_state=0)[:, 0]
    expected = correlation_of(p.covariance("label")[0])[0, 1]
    assert np.corrcoef(sampled.T)[0, 1] == pytest.approx(expected, abs=0.1)  # 1,600 draws
    model.save(tmp_path / "model.eiv")
    again = EiVRegressor.load(tmp_path / "model.eiv").predict_distribution(X[:4])
    assert np.array_equal(again.noise_covariance, p.noise_covariance)


@pytest.mark.slow
def test_one_output_and_layers(correlated):
    X, Y = correlated
    fast = {"hidden_units": 16, "n_hidden": 1, "epochs": 20, "learning_rate": 0.02, "random_state": 0}
    p = EiVRegressor(0.3, **fast).fit(X, Y).predict_distribution(X[:3])
    assert correlation_of(p.noise_covariance[0])[0, 1] > 0.4
    q = EiVRegressor(0.3, **fast).fit(X, Y[:, 0]).predict_distribution(X[:3])
    np.testing.assert_allclose(q.noise_covariance[:, 0, 0], q.noise**2)


@pytest.mark.parametrize("likelihood", [pytest.param("student_t", marks=pytest.mark.slow), "varying"])
def test_other_likelihoods_find_the_correlation(correlated, likelihood, tmp_path):
    """As layers with normal noise; files hold it, older ones have independent outputs, and labels are drawn jointly."""
    X, Y = correlated
    fast = {"hidden_units": 16, "n_hidden": 1, "epochs": 30, "learning_rate": 0.02, "random_state": 0}
    model = EiVRegressor(0.3, likelihood=likelihood, **fast).fit(X, Y)
    p = model.predict_distribution(X[:4])
    assert 0.4 < correlation_of(p.noise_covariance[0])[0, 1] < 0.82
    np.testing.assert_allclose(np.diagonal(p.noise_covariance, axis1=1, axis2=2), p.noise**2)
    drawn = np.concatenate([p[:1].samples(of="label", random_state=i) - p[:1].samples() for i in range(20)])[:, 0]
    assert stats.spearmanr(drawn).statistic > 0.3
    model.save(tmp_path / "model.eiv")
    again = EiVRegressor.load(tmp_path / "model.eiv").predict_distribution(X[:4])
    assert np.array_equal(again.noise_covariance, p.noise_covariance)
    content = (tmp_path / "model.eiv").read_bytes()
    older = forged(content, lambda inner, header: header.update(unused=header.pop("likelihood/correlation")))
    (tmp_path / "older.eiv").write_bytes(older)
    p = EiVRegressor.load(tmp_path / "older.eiv").predict_distribution(X[:2])
    np.testing.assert_allclose(p.noise_covariance[0], np.diag(p.noise[0] ** 2))


def test_a_file_without_correlations_has_independent_outputs(correlated, tmp_path):
    """As files of earlier versions are; a file whose correlations are impossible is refused."""
    X, Y = correlated
    fast = {"hidden_units": 4, "n_hidden": 1, "epochs": 1, "random_state": 0}
    EiVRegressor(**fast).fit(X, Y).save(tmp_path / "model.eiv")
    content, name = (tmp_path / "model.eiv").read_bytes(), "likelihood/correlation"
    older = forged(content, lambda inner, header: header.update(unused=header.pop(name)))
    (tmp_path / "older.eiv").write_bytes(older)
    (tmp_path / "bad.eiv").write_bytes(altered(content, name, np.array([1.0, 2.0, 2.0, 1.0], dtype=np.float32)))
    p = EiVRegressor.load(tmp_path / "older.eiv").predict_distribution(X[:2])
    np.testing.assert_allclose(p.noise_covariance[0], np.diag(p.noise[0] ** 2))
    with pytest.raises(ModelFileError, match="correlations of its noise"):
        EiVRegressor.load(tmp_path / "bad.eiv")
