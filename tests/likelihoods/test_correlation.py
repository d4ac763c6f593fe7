"""Noise of several outputs that goes together: correlations against closed forms, joint labels, whole fits."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from eiv import EiVRegressor, ModelFileError
from eiv.likelihoods import NormalLabels, NormalLikelihood
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


def test_exact_inputs_have_the_correlations_of_their_residuals():
    r = torch.tensor(noise(N))
    rows = Outputs(torch.zeros(1, N, 1, 3, dtype=F64), r[None], None, None, N, None)
    found = fit_correlation(torch.tensor(SIGMA)[None], rows)[0].numpy()
    np.testing.assert_allclose(found, correlation_of(r.numpy().T @ r.numpy()), atol=1e-12)
    np.testing.assert_allclose(found, R, atol=5 / N**0.5)  # 1 / sqrt(N) is the standard error at most


@pytest.mark.parametrize("known", [None, 0.4])
def test_what_inputs_and_known_errors_do_is_taken_off(known):
    r"""f = a zeta, zeta given x normal with variance v: labels have the covariance C = S + v a a^T + e^2.

    With r of exactly that second moment, the correlations of C - v a a^T - e^2 make them most probable.
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
    found = fit_correlation(torch.tensor(SIGMA)[None], rows)[0].numpy()
    np.testing.assert_allclose(found, R, atol=2e-3)
    ignored = fit_correlation(torch.tensor(SIGMA)[None], rows._replace(f=0 * rows.f[:, :, :1], quadrature=None))
    assert np.abs(ignored[0].numpy() - R).max() > 0.1  # without the unknown zeta correlations come out wrong


def test_weights_are_repeated_rows():
    r, counts = torch.tensor(noise(30)), torch.tensor([1, 2, 3] * 10)
    repeated = r.repeat_interleave(counts, 0)
    rows = [
        Outputs(torch.zeros(1, len(y), 1, 3, dtype=F64), y[None], None, None, len(y), weights)
        for y, weights in ((r, counts.double()[None]), (repeated, None))
    ]
    torch.testing.assert_close(*(fit_correlation(torch.tensor(SIGMA)[None], each) for each in rows))


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


def test_one_output_and_layers(correlated):
    X, Y = correlated
    fast = {"hidden_units": 16, "n_hidden": 1, "epochs": 20, "learning_rate": 0.02, "random_state": 0}
    p = EiVRegressor(0.3, **fast).fit(X, Y).predict_distribution(X[:3])
    assert correlation_of(p.noise_covariance[0])[0, 1] > 0.4
    q = EiVRegressor(0.3, **fast).fit(X, Y[:, 0]).predict_distribution(X[:3])
    np.testing.assert_allclose(q.noise_covariance[:, 0, 0], q.noise**2)


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
