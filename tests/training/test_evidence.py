"""Networks of cosines: each formula against a closed form, an integral or another program; then whole fits."""

import dataclasses
import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t, norm
from sklearn.gaussian_process.kernels import Matern

from eiv import EiVRegressor, MixturePrior, SuspiciousErrorWarning, fit_splits
from eiv.engine import memory
from eiv.inputs import Rows, ZetaNormal, ZetaPosterior
from eiv.inputs.zeta import ZetaMixture
from eiv.metrics import coverage, normal_crps, rmse
from eiv.training import choosing
from eiv.training.evidence import KernelSearch, LeftOut
from eiv.training.evidence import density as density_module
from eiv.training.evidence import fit as fit_module
from eiv.training.evidence import pool as pool_module
from eiv.training.evidence.density import log_evidence
from eiv.training.evidence.features import Family, Inputs
from eiv.training.evidence.left_out import left_out, predicted_from_others
from eiv.training.evidence.search import Found, evaluated
from eiv.training.evidence.solution import Labels, Solution, predicted, solve
from eiv.training.fitting import Spec, Table
from eiv.training.settings import settings_for

F64 = torch.float64
COSINE = {"network": "cosine", "hidden_units": 48, "random_state": 0}


def family(n_inputs=2, n_outputs=1, n_directions=1, n_frequencies=16):
    return Family(n_inputs, n_outputs, n_directions, n_frequencies, seed=0)


def values_of(some, seed=0):
    flat = 0.3 * torch.randn(some.n_values, generator=torch.Generator().manual_seed(seed), dtype=F64)
    return some.values(flat)


def features_at(some, zeta, values, draws):
    """In units of their prior, `... x n_features`, by their definition."""
    phases = zeta @ some.frequencies(values, draws).T
    parts = [phases.cos(), phases.sin(), zeta, torch.ones_like(zeta[..., :1])]
    return torch.cat(parts, -1) * some.scales(values, draws)


def mixture(n_rows, n_inputs=2, n_components=3, full=True, seed=0):
    random = torch.Generator().manual_seed(seed)
    means = torch.randn(n_rows, n_components, n_inputs, generator=random, dtype=F64)
    scales = 0.3 * torch.randn(n_rows, n_components, n_inputs, n_inputs, generator=random, dtype=F64)
    scales = scales @ scales.mT if full else scales.diagonal(dim1=-2, dim2=-1).abs()
    return ZetaMixture.of(torch.randn(n_rows, n_components, generator=random, dtype=F64), means, scales)


@pytest.mark.parametrize("full", [True, False])
def test_means_of_features_are_their_integrals_over_zeta(full):
    some, zeta = family(), mixture(4, full=full)
    values, draws, n_zeta = values_of(some), some.draws(zeta.mean), 200_000
    noise = torch.randn(4, n_zeta, zeta.n_base, generator=torch.Generator().manual_seed(1), dtype=F64)
    drawn = features_at(some, zeta.draw(noise), values, draws)
    gap = some.means(Inputs(zeta), values, draws) - drawn.mean(1)
    assert (gap.abs() < 5 * drawn.std(1) / n_zeta**0.5 + 1e-12).all()


def test_differences_at_nodes_keep_their_digits_for_fast_waves_and_close_nodes():
    """Float32 would leave phases of 1e5 two digits, and features that differ by 1e-4 three."""
    some, random = family(n_inputs=2, n_frequencies=64), torch.Generator().manual_seed(2)
    flat = 0.3 * torch.randn(some.n_values, generator=random, dtype=F64)
    flat[0] = -8.0  # phases of 1e4 and more
    values, draws = some.values(flat), some.draws(flat)
    zeta = torch.randn(5, 1, 2, generator=random, dtype=F64) + 1e-4 * torch.randn(5, 9, 2, generator=random, dtype=F64)
    weights = torch.rand(5, 9, generator=random, dtype=F64).log_softmax(1).exp()
    features = features_at(some, zeta, values, draws)
    expected = features - torch.einsum("rq,rqf->rf", weights, features).unsqueeze(1)
    found = some.differences((zeta, weights), values, draws).double()
    torch.testing.assert_close(found, expected, rtol=0, atol=3e-6 * expected.abs().amax().item())
    slow = expected[..., -3:-1]  # the inputs themselves
    torch.testing.assert_close(found[..., -3:-1], slow, rtol=0, atol=3e-7 * slow.abs().amax().item())


def test_frequencies_are_those_of_matern_kernels():
    some = Family(3, 1, 1, 8 * 4096, seed=0)
    flat = torch.zeros(some.n_values, dtype=F64)
    flat[3:6] = torch.tensor([0.5, -1.0, 0.2])
    values, zeta = some.values(flat), torch.randn(30, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    draws = some.draws(zeta)
    phi = features_at(some, zeta, values, draws)
    n_lines = len(draws[1])
    waves, n = phi[:, : 2 * some.n_frequencies].unflatten(1, (2, -1)), some.n_frequencies
    for part, kernel, points in (
        (slice(0, n - n_lines), Matern(1.0, nu=2.5), zeta.numpy()),
        (slice(n - n_lines, n), Matern(1.0, nu=1.5), (zeta @ values.directions.T).numpy()),
    ):
        own = waves[..., part].flatten(1)
        np.testing.assert_allclose(own @ own.T, kernel(points), atol=0.02)


def test_nodes_have_the_mean_and_the_covariance_of_zeta():
    root = torch.tensor([[0.5, 0.2], [0.2, 0.3]], dtype=F64)
    zeta = ZetaMixture.of(torch.zeros(3, 1, dtype=F64), torch.randn(3, 1, 2, dtype=F64), root.expand(3, 1, 2, 2))
    nodes, weights = Inputs(zeta).nodes
    gaps = nodes - zeta.mean.unsqueeze(1)
    torch.testing.assert_close(torch.einsum("rq,rqi->ri", weights, gaps), torch.zeros(3, 2, dtype=F64))
    found = torch.einsum("rq,rqi,rqj->rij", weights, gaps, gaps)
    torch.testing.assert_close(found, (root @ root.T).expand(3, 2, 2))


def test_exact_features_need_no_nodes():
    means = torch.randn(3, 2, 40, dtype=F64, generator=torch.Generator().manual_seed(0))
    scales = torch.zeros(3, 2, 40, dtype=F64)
    scales[..., [4, 7]] = 0.5
    means[:, 1, [i for i in range(40) if i not in (4, 7)]] = means[:, 0, [i for i in range(40) if i not in (4, 7)]]
    inputs = Inputs(ZetaMixture.of(torch.zeros(3, 2, dtype=F64), means, scales))
    zeta, weights = inputs.nodes
    assert zeta.shape == (3, 16, 40)
    np.testing.assert_allclose(weights.sum(1), 1)
    assert (zeta.std(1)[:, [4, 7]] > 0.4).all()
    torch.testing.assert_close(zeta[..., 5], means[:, :1, 5].expand(3, 16))
    assert inputs.covariances.shape == (3, 2, 2)
    drawn = inputs.zeta.draw(torch.randn(3, 100_000, 41, dtype=F64, generator=torch.Generator().manual_seed(1)))
    np.testing.assert_allclose(inputs.squares, drawn.square().sum(-1).mean(1), rtol=0.01)


def test_the_evidence_is_the_density_of_all_labels_at_once():
    some, random = family(n_outputs=2), torch.Generator().manual_seed(2)
    inputs, values = Inputs(mixture(25)), values_of(some)
    labels = Labels(torch.randn(25, 2, generator=random, dtype=F64), torch.rand(25, 2, generator=random, dtype=F64))
    draws = some.draws(labels.y)
    means = some.means(inputs, values, draws)
    expected = 0.0
    for j in range(2):
        noise = torch.exp(2 * values.log_noise[j]) + labels.known[:, j]
        expected += multivariate_normal(cov=(means @ means.T + noise.diag()).numpy()).logpdf(labels.y[:, j].numpy())
    assert log_evidence(some, values, draws, inputs, labels).item() == pytest.approx(expected, rel=1e-10)


def exact(n_rows, n_inputs=2):
    x = torch.randn(n_rows, n_inputs, generator=torch.Generator().manual_seed(3), dtype=F64)
    return Inputs(ZetaNormal(x, torch.zeros(1, n_inputs, dtype=F64)))


def test_with_exact_inputs_the_weights_are_those_of_ridge_regression():
    some, inputs = family(n_outputs=2), exact(40)
    values = values_of(some)
    y = torch.randn(40, 2, generator=torch.Generator().manual_seed(4), dtype=F64)
    draws = some.draws(y)
    found = solve(some, values, draws, inputs, Labels(y, torch.zeros_like(y)))
    phi = features_at(some, inputs.zeta.mean, values, draws)
    for j in range(2):
        variance = torch.exp(2 * values.log_noise[j])
        precision = phi.T @ phi / variance + torch.eye(some.n_features, dtype=F64)
        torch.testing.assert_close(found.inverse_covariance[j], precision)
        torch.testing.assert_close(found.weights[j], torch.linalg.solve(precision, phi.T @ y[:, j] / variance))
        together = phi @ phi.T + variance * torch.eye(40, dtype=F64)
        assert found.evidence[j].item() == pytest.approx(
            multivariate_normal(cov=together.numpy()).logpdf(y[:, j].numpy())
        )
    assert not found.of_inputs.any()
    assert not found.spare.any()


def test_with_errors_in_x_the_weights_lower_what_they_should(monkeypatch):
    some, inputs = family(n_inputs=1, n_directions=0, n_frequencies=8), Inputs(mixture(60, 1, 2, full=False))
    values, random = values_of(some), torch.Generator().manual_seed(5)
    y = torch.sin(2 * inputs.centres) + 0.1 * torch.randn(60, 1, generator=random, dtype=F64)
    draws = some.draws(y)
    monkeypatch.setattr("eiv.training.evidence.solution._STEPS", 60)
    monkeypatch.setattr("eiv.training.evidence.solution._ENOUGH", 1e-14)
    found = solve(some, values, draws, inputs, Labels(y, torch.zeros_like(y)))
    w = found.weights[0].clone().requires_grad_(True)
    zeta, weights = inputs.nodes
    f = features_at(some, zeta, values, draws) @ w
    within = (weights * (f - (weights * f).sum(-1, keepdim=True)).square()).sum(-1)
    total = torch.exp(2 * values.log_noise[0]) + within
    residuals = y[:, 0] - some.means(inputs, values, draws) @ w
    (0.5 * (residuals.square() / total + total.log()).sum() + 0.5 * w @ w).backward()
    assert w.grad.abs().max() < 1e-4
    torch.testing.assert_close(found.of_inputs[:, 0], within.detach())


def test_the_evidence_of_a_solution_integrates_over_weights_in_mean_and_variance():
    """Against importance sampling from a wide Student's t; taking the variances as known is off by two nats."""
    some, random = family(n_inputs=1, n_directions=0, n_frequencies=3), torch.Generator().manual_seed(10)
    x = torch.randn(80, 1, generator=random, dtype=F64)
    inputs = Inputs(ZetaNormal(x, torch.full((1, 1), 0.6, dtype=F64)))
    flat = torch.tensor([-0.5, -0.5, 0.0, math.log(0.2)], dtype=F64)
    values, y = some.values(flat), 1.5 * x + torch.randn(80, 1, generator=random, dtype=F64)
    labels, draws = Labels(y, torch.zeros_like(y)), some.draws(y)
    found = solve(some, values, draws, inputs, labels)
    law = multivariate_t(found.weights[0].numpy(), torch.linalg.inv(found.inverse_covariance[0]).numpy(), df=10, seed=1)
    w = torch.from_numpy(law.rvs(20_000))
    zeta, weights = inputs.nodes
    f = torch.einsum("rqf,nf->nrq", features_at(some, zeta, values, draws), w)
    within = (weights * (f - (weights * f).sum(-1, keepdim=True)).square()).sum(-1)
    variance = 0.04 + within + found.spare[:, 0]
    of_labels = norm(w @ some.means(inputs, values, draws).T, variance.sqrt()).logpdf(y.T).sum(1)
    densities = of_labels + norm.logpdf(w).sum(1) - law.logpdf(w)
    expected = logsumexp(densities) - math.log(len(w))
    assert found.evidence.item() == pytest.approx(expected, abs=0.7)  # Laplace's approximation of 10 weights
    known = Labels(y, found.of_inputs + found.spare)
    assert log_evidence(some, values, draws, inputs, known).item() > expected + 1.5


def test_blocks_make_no_difference(monkeypatch):
    some, inputs = family(), Inputs(mixture(50))
    values, y = values_of(some), torch.randn(50, 1, generator=torch.Generator().manual_seed(6), dtype=F64)
    draws, labels = some.draws(y), Labels(y, torch.zeros_like(y))
    whole = solve(some, values, draws, inputs, labels)
    monkeypatch.setitem(memory.FEATURES, "cpu", 7 * some.n_features * inputs.n_nodes)
    assert not inputs.fits(some.n_features)
    for part, expected in zip(
        dataclasses.astuple(solve(some, values, draws, inputs, labels)), dataclasses.astuple(whole), strict=True
    ):
        torch.testing.assert_close(part, expected)


def test_the_information_of_a_line_is_that_of_the_exact_likelihood():
    """With a flat prior of zeta y ~ N(b + w x, sigma_y^2 + w^2 sigma_x^2): labels tell of w by their variance too."""
    some, sigma, x_err, slope = family(n_inputs=1, n_directions=0, n_frequencies=2), 0.3, 0.5, 1.4
    random = torch.Generator().manual_seed(7)
    x = torch.randn(400, 1, generator=random, dtype=F64)
    y = slope * x + math.hypot(sigma, slope * x_err) * torch.randn(400, 1, generator=random, dtype=F64)
    flat = torch.tensor([0.0, -20.0, 3.0, math.log(sigma)], dtype=F64)  # no waves, a wide prior of the slope
    values, inputs = some.values(flat), Inputs(ZetaNormal(x, torch.full((1, 1), x_err, dtype=F64)))
    found = solve(some, values, some.draws(y), inputs, Labels(y, torch.zeros_like(y)))
    w = found.weights[0, -2] * math.exp(3.0)
    assert w.item() == pytest.approx(slope, abs=4 * math.hypot(sigma, slope * x_err) / 20)
    v = sigma**2 + w.item() ** 2 * x_err**2
    expected = (x.square().sum() / v + 400 * (2 * w * x_err**2) ** 2 / (2 * v**2)) * math.exp(6.0) + 1
    assert found.inverse_covariance[0, -2, -2].item() == pytest.approx(expected.item(), rel=1e-6)  # nodes in float32
    np.testing.assert_allclose(found.of_inputs[:, 0], w.item() ** 2 * x_err**2, rtol=1e-6)


def table(n_rows=300, n_columns=3, y_noise=0.3, x_err=0.4, seed=0):
    """A curved function of the first two columns of normal zetas, with errors in all of them."""
    random = np.random.default_rng(seed)
    zeta = random.normal(size=(n_rows, n_columns))
    truth = np.sin(1.5 * zeta[:, 0]) + 0.5 * zeta[:, 1] ** 2
    X = zeta + x_err * random.normal(size=zeta.shape)
    return X, truth + y_noise * random.normal(size=n_rows), zeta, truth


@pytest.fixture
def as_stated(monkeypatch):
    """Errors are taken as they are stated, without the fits that ask the labels about them."""
    monkeypatch.setattr(choosing, "_borne_out", lambda spec, table, model: (model, ""))


@pytest.fixture(scope="module")
def fitted():
    X, y, _, _ = table()
    return EiVRegressor(0.4, **COSINE | {"hidden_units": 96}).fit(X, y)


def test_a_fit_of_three_noisy_columns(fitted):
    X, y, zeta, truth = table(1000, seed=1)
    p = fitted.predict_distribution(X)
    ignored = EiVRegressor(**COSINE | {"hidden_units": 96}).fit(*table()[:2])
    assert rmse(truth, fitted.predict(zeta, X_err=0)) < 0.95 * rmse(truth, ignored.predict(zeta))
    assert rmse(truth, p.mean) < 1.02 * rmse(truth, ignored.predict(X))
    # 1,000 rows scatter by 0.007; the fit of one table by a few hundredths.
    assert 0.90 < coverage(truth, *p.interval(0.95)) < 0.99
    assert 0.90 < coverage(y, *p.interval(0.95, of="label")) < 0.99
    assert 0.2 < fitted.y_noise_[0] < 0.4
    assert fitted.settings_.posterior == "last_layer_laplace"
    assert (np.diff(fitted.loss_curve_[:, 0]) < 0.2).all()


def test_it_is_saved_and_loaded(fitted, tmp_path):
    X = table(20, seed=2)[0]
    fitted.save(tmp_path / "m.eiv")
    again = EiVRegressor.load(tmp_path / "m.eiv")
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(again.predict_distribution(X).draws, fitted.predict_distribution(X).draws)
    assert again.get_params() == fitted.get_params()
    with pytest.raises(ValueError, match='cosines cannot be exported to ONNX yet: fit with network="paper"'):
        fitted.export(tmp_path / "m.onnx", "onnx")


def test_predictions_do_not_depend_on_their_company(fitted):
    X = table(50, seed=3)[0]
    whole = fitted.predict_distribution(X)
    alone = [fitted.predict_distribution(X[i : i + 1]) for i in (0, 17)]
    for i, p in zip((0, 17), alone, strict=True):
        np.testing.assert_allclose([p.mean[0], p.std[0]], [whole.mean[i], whole.std[i]], rtol=1e-6)


@pytest.mark.usefixtures("as_stated")
@pytest.mark.slow
def test_two_outputs_two_networks_and_known_errors_of_labels():
    X, y, _, _ = table(150, 2)
    Y = np.column_stack([y, 100 - 20 * y])
    y_err = np.full(Y.shape, [0.1, 2.0])
    fewer = COSINE | {"hidden_units": 24}
    model = EiVRegressor(0.4, **fewer, n_networks=2).fit(X, Y, y_err=y_err)
    p = model.predict_distribution(X, y_err=y_err)
    assert p.mean.shape == (150, 2)
    # The second output is the first in other units, so that it has the same noise, but for the search.
    assert model.y_noise_[1] / 20 == pytest.approx(model.y_noise_[0], rel=0.1)
    np.testing.assert_allclose(100 - 20 * p.mean[:, 0], p.mean[:, 1], atol=0.5)
    without = EiVRegressor(0.4, **fewer).fit(X, y)
    assert model.y_noise_[0] < without.y_noise_[0]


@pytest.mark.usefixtures("as_stated")
@pytest.mark.parametrize(
    "arguments",
    [
        {"y_noise": 0.3},
        {"error_model": "berkson"},
        {"dtype": "float64", "standardise": False},
        {"input_prior": MixturePrior([1.0], [[0.0] * 2], [[1.0] * 2])},
        {"x_err": [0.4, 0.0]},
        {"x_err": [[0.16, 0.05], [0.05, 0.16]]},
        {"x_err": None},
    ],
)
def test_what_a_user_may_choose(arguments):
    X, y, _, _ = table(60, 2)
    model = EiVRegressor(**({"x_err": 0.4} | COSINE | {"hidden_units": 24} | arguments)).fit(X, y)
    p = model.predict_distribution(X)
    assert rmse(y, p.mean) < np.std(y)
    assert np.isfinite(p.std).all()
    if "y_noise" in arguments:
        np.testing.assert_allclose(model.y_noise_, 0.3, rtol=1e-6)


@pytest.mark.usefixtures("as_stated")
def test_a_posterior_of_zeta_of_one_s_own():
    @dataclasses.dataclass(frozen=True)
    class Uniform(ZetaPosterior):
        def draw(self, noise):
            return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * 3**0.5 * torch.erf(noise / 2**0.5)

    class Prior:
        def posterior(self, x, x_err):
            return Uniform(x, x_err.expand_as(x))

    X, y, _, _ = table(30, 2)  # each row is as 64 of other posteriors
    X = X[:, :1]
    model = EiVRegressor(0.4, **COSINE | {"hidden_units": 16}, input_prior=Prior(), x_err_factor=1.0).fit(X, y)
    assert rmse(y, model.predict(X)) < np.std(y)


@pytest.mark.usefixtures("as_stated")
@pytest.mark.parametrize("n_rows", [2, 5, 30])
def test_few_rows(n_rows):
    X, y, _, _ = table(n_rows, 3)
    model = EiVRegressor(0.1, **COSINE).fit(X, y)
    assert np.isfinite(model.predict_distribution(X).total).all()


@pytest.mark.usefixtures("as_stated")
def test_more_rows_and_cosines_than_the_search_has(monkeypatch):
    monkeypatch.setattr("eiv.training.evidence.search._ROWS", 150)
    monkeypatch.setattr("eiv.training.evidence.fit._SEARCHED", 24)
    X, y, zeta, truth = table(1200, 2)
    model = EiVRegressor(0.4, **COSINE).fit(X, y)
    few = EiVRegressor(0.4, **COSINE | {"hidden_units": 24}).fit(X[:150], y[:150])
    assert rmse(truth, model.predict(zeta, X_err=0)) < 0.7 * rmse(truth, few.predict(zeta, X_err=0))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"epochs": 5}, "epochs: 5 has no meaning"),
        ({"posterior": "swag"}, "posterior: 'swag' has no meaning"),
        ({"y_noise": "rmse"}, "y_noise: 'rmse' has no meaning"),
        ({"precision": "bfloat16"}, "precision: 'bfloat16' has no meaning"),
        ({"module": torch.nn.Linear}, "module: .* has no meaning"),
        ({"recipe": "paper"}, "recipe: 'paper' has no meaning"),
        ({"network": "deep"}, "network must be"),
    ],
)
def test_what_has_no_meaning_is_refused(arguments, word):
    with pytest.raises(ValueError, match=word):
        EiVRegressor(0.4, **({"network": "cosine"} | arguments)).fit(*table(30)[:2])


@pytest.mark.usefixtures("as_stated")
def test_progress_is_reported(capsys):
    EiVRegressor(0.4, **COSINE, verbose=True).fit(*table(60, 2)[:2])
    assert "12/12 rounds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, "cosine"),
        ({"n_theta": 10}, "cosine"),
        ({"x_err": None}, "paper"),
        ({"x_err": [0.4, 0.0]}, "cosine"),
        ({"hidden_units": 8}, "paper"),
        ({"epochs": 1}, "paper"),
        ({"posterior": "ensemble", "n_networks": 2}, "paper"),
        ({"recipe": "paper"}, "paper"),
        ({"y_noise": "residual"}, "paper"),
    ],
)
def test_which_network_it_is_unless_one_is_asked_for(arguments, kind):
    n_noisy = 0 if arguments.get("x_err", 0.4) is None else 1 if "x_err" in arguments else 2
    params = EiVRegressor(**({"x_err": 0.4} | arguments)).get_params()
    assert settings_for(params, 100, n_noisy).network == kind


def test_many_noisy_features_have_the_other_network():
    params = EiVRegressor(0.4).get_params()
    assert [settings_for(params, 100, n_noisy).network for n_noisy in (50, 51)] == ["cosine", "paper"]


@pytest.mark.parametrize("factor", [None, 1.0])
def test_errors_that_the_labels_contradict_are_taken_as_less(factor):
    """Errors of three quarters of the spread are stated where there are none: labels scatter by far less."""
    X, y, _, _ = table(150, 2, x_err=0.0)
    taken = r" This is done here and in predictions" if factor is None else r"\. Check"
    with pytest.warns(
        SuspiciousErrorWarning, match=rf"The labels contradict the errors of X: .*more probable.*{taken}"
    ):
        model = EiVRegressor(0.75, x_err_factor=factor, **COSINE).fit(X, y)
    assert (model.x_err_factor_ < 1) == (factor is None)
    np.testing.assert_array_equal(model.x_err_, 0.75)  # as stated
    if factor is None:  # 0.75 at prediction are so many times as little, too
        alone = EiVRegressor(0.75 * model.x_err_factor_, x_err_factor=1, **COSINE).fit(X, y)
        np.testing.assert_allclose(model.predict(X, X_err=0.75), alone.predict(X), rtol=1e-6)


def test_splits_of_a_table_are_warned_about_once(monkeypatch):
    said = choosing._Said(100.0, False, *[partial(LeftOut, np.ones(1), np.ones(1))] * 2)
    monkeypatch.setattr(choosing, "_what_labels_say", lambda spec, table, factors, *_: dict.fromkeys(factors, said))
    X, y, _, _ = table(60, 2)
    model = EiVRegressor(0.4, **COSINE | {"hidden_units": 16}, x_err_factor=1.0)
    with pytest.warns(SuspiciousErrorWarning, match="contradict the errors of X") as caught:
        fit_splits(model, X, y, [np.arange(30), np.arange(60)])
    assert sum("contradict" in str(each.message) for each in caught) == 1


def test_errors_that_are_right_are_not_warned_about(recwarn):
    X, y, _, _ = table(300, 2)
    model = EiVRegressor(0.4, **COSINE).fit(X, y)
    assert not recwarn.list
    # Compared with the errors that it was fitted with, a kernel ends near where it begins: no evidence for either.
    spec, rows = Spec(model.model_.arguments, 0), Table(X, np.full((1, 2), 0.4), y[:, None])
    again = choosing._what_labels_say(spec, rows, (1.0,), model.model_, model.model_.record.n_searched)[1.0]
    assert again.evidence == pytest.approx(model.model_.record.evidence, abs=choosing._VERY_STRONG / 2)


def test_labels_that_are_left_out_are_predicted_as_if_by_weights_that_never_saw_them():
    some, inputs = family(n_outputs=2, n_frequencies=6), exact(30)
    values, y = values_of(some), torch.randn(30, 2, generator=torch.Generator().manual_seed(11), dtype=F64)
    labels, draws = Labels(y, torch.rand_like(y)), some.draws(y)
    found = left_out(some, values, draws, inputs, labels, solve(some, values, draws, inputs, labels))
    for i in range(30):
        others, one = torch.tensor([k for k in range(30) if k != i]), torch.tensor([i])
        solution = solve(some, values, draws, inputs.take(others), labels.take(others))
        means = some.means(inputs.take(one), values, draws)[0]
        of_weights = torch.linalg.inv(solution.inverse_covariance) @ means @ means
        std = ((2 * values.log_noise).exp() + labels.known[i] + of_weights).sqrt()
        assert found.crps[i] == pytest.approx(normal_crps(y[i], solution.weights @ means, std).mean(), rel=1e-9)


def test_a_row_is_left_out_with_its_weight():
    """As if by weights that have seen none of its copies."""
    some, inputs = family(n_frequencies=6), exact(20)
    values, y = values_of(some), torch.randn(20, 1, generator=torch.Generator().manual_seed(12), dtype=F64)
    labels, draws = Labels(y, 0 * y, 1.0 + (torch.arange(20) < 7)), some.draws(y)
    found = left_out(some, values, draws, inputs, labels, solve(some, values, draws, inputs, labels))
    others, one = torch.arange(1, 20), torch.tensor([0])
    solution = solve(some, values, draws, inputs.take(others), labels.take(others))
    means = some.means(inputs.take(one), values, draws)[0]
    variance = (2 * values.log_noise).exp() + torch.linalg.inv(solution.inverse_covariance) @ means @ means
    assert found.crps[0] == pytest.approx(normal_crps(y[0], solution.weights @ means, variance.sqrt()).item(), rel=1e-7)
    halved = LeftOut(found.crps / 2, found.counts)
    assert found.loss_to(halved)[0] == pytest.approx(1)


@pytest.mark.parametrize("seed", [0, 1])
def test_labels_under_errors_are_left_out_as_if_by_weights_that_are_found_anew(seed):
    """To 0.2 standard deviations, and their score to 8 %; residuals of the fit itself score a quarter too low."""
    some, random = family(n_frequencies=12), torch.Generator().manual_seed(seed)
    x = torch.randn(40, 2, generator=random, dtype=F64)
    y = torch.sin(2 * x.sum(1, keepdim=True)) + 0.1 * torch.randn(40, 1, generator=random, dtype=F64)
    inputs, labels = Inputs(ZetaNormal(x, torch.full_like(x, 0.3))), Labels(y, torch.zeros_like(y))
    flat = torch.zeros(some.n_values, dtype=F64)
    flat[-1] = math.log(0.1)
    values, draws = some.values(flat), some.draws(y)
    solution = None
    for _ in range(4):  # until tr Sigma C is that of the weights
        solution = solve(some, values, draws, inputs, labels, solution)
    found, anew = predicted_from_others(some, values, draws, inputs, labels, solution, 0), []
    for i in range(40):
        others, one = torch.tensor([k for k in range(40) if k != i]), torch.tensor([i])
        near = dataclasses.replace(solution, of_inputs=solution.of_inputs[others], spare=solution.spare[others])
        without = solve(some, values, draws, inputs.take(others), labels.take(others), near)
        anew.append(torch.cat(predicted(some, values, draws, inputs.take(one), labels.take(one), without), 1)[0])
    mean, std = torch.stack(anew)[:, 0], torch.stack(anew)[:, 1].sqrt()
    assert ((found.mean - mean) / std).square().mean().sqrt() < 0.2
    assert ((found.variance.sqrt() / std - 1).abs() < 0.1).all()
    score = np.mean(normal_crps((y[:, 0] - mean).numpy(), 0.0, std.numpy()))
    assert left_out(some, values, draws, inputs, labels, solution).crps.mean() == pytest.approx(score, rel=0.08)
    residuals = y[:, 0] - some.means(inputs, values, draws) @ solution.weights[0]
    assert np.mean(normal_crps(residuals.numpy(), 0.0, found.variance.sqrt().numpy())) < 0.8 * score


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-6, 1e-2, 1.0]), st.booleans(), st.booleans(), st.booleans())
def test_no_label_decides_its_own_prediction_alone(seed, noise, two_valued, repeated, weighted):
    """Leverages are less than one, also of labels without noise, of two values, of copies and of weights."""
    random, some = torch.Generator().manual_seed(seed), family(n_frequencies=8)
    x, y = (torch.randn(16, n, generator=random, dtype=F64) for n in (2, 1))
    y = y.sign() if two_valued else y
    x, y = (part.repeat(2, 1) for part in (x, y)) if repeated else (x, y)
    counts = 5 * torch.rand(len(y), generator=random, dtype=F64) + 0.01 if weighted else None
    inputs, labels = Inputs(ZetaNormal(x, torch.full_like(x, 0.2))), Labels(y, torch.zeros_like(y), counts)
    flat = 0.5 * torch.randn(some.n_values, generator=random, dtype=F64)
    flat[-1] = math.log(noise)
    values, draws = some.values(flat), some.draws(y)
    solution = solve(some, values, draws, inputs, labels)
    found = predicted_from_others(some, values, draws, inputs, labels, solution, 0)
    assert ((found.leverages >= 0) & (found.leverages < 1)).all()
    assert (found.variance >= noise**2).all()
    scores = left_out(some, values, draws, inputs, labels, solution).crps
    assert (scores < 100 * (1 + y.abs().max().item())).all()


def test_weights_that_labels_determine_are_counted():
    """Of independent features with information i about each, i / (1 + i) is determined."""
    information = torch.tensor([0.0, 1.0, 3.0, 1e9], dtype=F64)
    inverse = torch.stack([torch.diag(1 + information), torch.eye(4, dtype=F64)])
    nothing = torch.zeros(1, 2, dtype=F64)
    solution = Solution(torch.zeros(2, 4, dtype=F64), inverse, nothing, nothing, nothing[0])
    assert solution.n_determined == pytest.approx(0.5 + 0.75 + 1, rel=1e-6)


@pytest.mark.parametrize(("waves", "most", "n_searched"), [(0.5, 48, 12), (9, 48, 24), (9, 12, 12)])
def test_a_kernel_whose_weights_the_labels_determine_is_found_with_more_frequencies(
    monkeypatch, waves, most, n_searched
):
    monkeypatch.setattr(fit_module, "_SEARCHED", 12)
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (80, 1))
    y = np.sin(waves * X[:, 0]) + 0.02 * random.standard_normal(80)
    model = EiVRegressor(1e-4, **COSINE | {"hidden_units": most}).fit(X, y)
    assert model.model_.record.n_searched == n_searched


def test_labels_in_folds_are_predicted_by_kernels_that_have_not_seen_them():
    X, y, _, _ = table(40, 2)
    rows = Rows(ZetaNormal(torch.tensor(X), torch.full((40, 2), 0.4, dtype=F64)), torch.tensor(y[:, None]))
    task = KernelSearch.of(rows, 8, 0, None)
    plain = task.near(torch.zeros(task.family.n_values, dtype=F64))
    before, moved = task.in_folds(plain).crps, task.labels.y.clone()
    moved[task.rows[3]] += 5.0
    after = task._replace(labels=dataclasses.replace(task.labels, y=moved)).in_folds(plain).crps
    same = np.arange(40) % 5 == 3
    same[3] = False
    np.testing.assert_allclose(after[same], before[same], rtol=1e-9)
    assert (abs(after - before)[np.arange(40) % 5 != 3] > 1e-6).all()
    assert after[3] > before[3] + 1


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_copies_of_rows_do_not_speak_against_the_errors(seed):
    """Rows drawn with replacement: labels of copies have the same scatter, as if a curve passed through them."""
    X, y, _, _ = table(80, 2, y_noise=0.05, x_err=0.5, seed=seed)
    rows = np.random.default_rng(seed).integers(0, 80, 160)
    fewer = COSINE | {"hidden_units": 24}
    model = EiVRegressor(0.5, **fewer).fit(X[rows], y[rows])
    assert model.x_err_factor_ == 1
    counts = np.bincount(rows, minlength=80)
    assert EiVRegressor(0.5, **fewer).fit(X, y, sample_weight=counts).x_err_factor_ == 1


def test_rows_are_copies_where_they_agree_more_often_than_by_chance():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(60, 2)), random.normal(size=(60, 1))
    errors = np.full((1, 2), 0.1)
    assert Table(x, errors, y).once().x is x
    twice = np.repeat(np.arange(60), 2)
    copies = Table(x[twice], errors, y[twice], weights=np.ones(120)).once()
    np.testing.assert_array_equal(copies.x, x)
    assert copies.weights is None
    others = np.tile([[0.1], [0.2]], (60, 2))  # the same reading by two instruments is two rows
    assert len(Table(x[twice], others, y[twice]).once().x) == 120
    rounded = Table(x[:, :1].round(), errors[:, :1], (2 * x[:, :1]).round())
    assert len(rounded.once().x) == 60


@pytest.mark.parametrize(
    ("better", "scatter", "in_folds", "factor"),
    [(0.2, 0.1, 0.2, 0.0), (0.2, 2.0, 0.2, 1.0), (0.01, 0.01, 0.2, 1.0), (0.2, 0.1, 0.01, 1.0)],
)
def test_errors_are_ignored_where_labels_left_out_are_predicted_better_without(
    better, scatter, in_folds, factor, monkeypatch
):
    """Clearly, by more than 2 %, and by other kernels as well. The evidence speaks for the errors as stated."""
    n_rows, noise = 60, np.random.default_rng(0).normal(size=60)

    def scores(better, scatter):
        gains = better + scatter * (noise - noise.mean()) / noise.std()
        return [partial(LeftOut, 1 - share * gains, np.ones(n_rows)) for share in (0, 1)]

    taken, without = zip(scores(better, scatter), scores(in_folds, 2.0), strict=True)

    def said(spec, table, factors, *_):
        return {each: choosing._Said(-math.inf, False, *(taken if each else without)) for each in factors}

    monkeypatch.setattr(choosing, "_what_labels_say", said)
    monkeypatch.setattr(KernelSearch, "left_out", lambda search, found: taken[0]())
    X, y, _, _ = table(n_rows, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SuspiciousErrorWarning)
        model = EiVRegressor(0.4, **COSINE | {"hidden_units": 16}).fit(X, y)
    assert model.x_err_factor_ == factor
    assert ["CRPS 25% larger otherwise" in str(each.message) for each in caught] == [True] * (factor == 0)


def test_sizes_of_errors_are_compared_by_kernels_of_as_many_frequencies(monkeypatch):
    """Where 16 do not suffice for one size, all are compared with the most, errors as they are stated too."""
    asked = []

    def said(spec, table, factors, stated, n_searched):
        asked.append((factors, n_searched))
        same = partial(LeftOut, np.ones(2), np.ones(2))
        return {each: choosing._Said(0.0, n_searched is not None and each == 0, same, same) for each in factors}

    monkeypatch.setattr(fit_module, "_SEARCHED", 16)
    monkeypatch.setattr(choosing, "_what_labels_say", said)
    X, y, _, _ = table(60, 2)
    assert EiVRegressor(0.4, **COSINE).fit(X, y).x_err_factor_ == 1
    assert asked == [((0.5, 0.0), 16), ((0.5, 0.0), None), ((1.0,), None)]


def test_derivatives_of_the_density_are_those_of_torch():
    random = torch.Generator().manual_seed(0)
    means, noise, y = (torch.rand(9, n, generator=random, dtype=F64).requires_grad_(n < 5) for n in (4, 2, 2))
    for counts in (torch.ones(9, dtype=F64), 0.5 + 2 * torch.rand(9, generator=random, dtype=F64)):  # rows, and weights
        assert torch.autograd.gradcheck(density_module._LogDensity.apply, (means, noise + 0.1, y.detach(), counts))


def test_a_pool_has_the_mean_and_the_covariance_of_its_kernels(monkeypatch):
    """With as many pairs as values, and a density that is normal, as `log_prior` is: what the prior says."""
    some = Family(1, 1, 0, 8, seed=3)
    zeta = ZetaNormal(torch.zeros(5, 1, dtype=F64), torch.zeros(1, 1, dtype=F64))
    labels = Labels(torch.zeros(5, 1, dtype=F64), torch.zeros(5, 1, dtype=F64))
    monkeypatch.setattr(pool_module, "log_evidence", lambda *_: torch.zeros((), dtype=F64, requires_grad=True))
    monkeypatch.setattr(pool_module, "evaluated", lambda family, flat, *_: Found(family, flat, 0.0, None))
    mean = torch.tensor([0.0, 0.0, -1.0, -2.0], dtype=F64)  # of the prior
    best = evaluated(some, mean, Inputs(zeta), labels, None)
    flats = torch.stack([each.flat for each in pool_module.pool_of(best, Inputs(zeta), labels, None, 8)])
    torch.testing.assert_close(flats.mean(0), mean)
    gaps = flats - mean
    torch.testing.assert_close(gaps.T @ gaps / len(gaps), torch.tensor([1.5, 2.0, 2.0, 2.0], dtype=F64).square().diag())
    known = torch.stack([each.flat for each in pool_module.pool_of(best, Inputs(zeta), labels, torch.ones(1), 8)])
    assert (known[:, -1] == mean[-1]).all()
    assert (known[:, :-1] != mean[:-1]).any()


def test_a_pool_does_not_depend_on_the_signs_of_eigenvectors(monkeypatch):
    """Which are as the library has them: another one on a GPU."""
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 2, generator=random, dtype=F64), torch.randn(30, 1, generator=random, dtype=F64)
    inputs, labels, some = Inputs(ZetaNormal(x, torch.full_like(x, 0.2))), Labels(y, 0 * y), family()
    best = evaluated(some, torch.zeros(some.n_values, dtype=F64), inputs, labels, None)
    here = pool_module.pool_of(best, inputs, labels, None, 4)
    original = torch.linalg.eigh

    def flipped(matrix):
        sizes, vectors = original(matrix)
        return sizes, vectors * torch.tensor([1.0, -1.0], dtype=F64).repeat(len(sizes))[: len(sizes)]

    monkeypatch.setattr(torch.linalg, "eigh", flipped)
    for one, other in zip(here, pool_module.pool_of(best, inputs, labels, None, 4), strict=True):
        torch.testing.assert_close(one.flat, other.flat)


def test_a_kernel_that_the_rows_rule_out_is_not_in_a_pool(monkeypatch):
    """Ways of which less than a third is allowed are halved twice; those of which nothing is end at the best kernel."""
    best = Found(None, torch.zeros(4, dtype=F64), 0.0, None)
    for allowed, share in ((0.3, 0.25), (0.0, 0.0)):

        def found(family, flat, *_, allowed=allowed):
            return Found(family, flat, 0.0 if flat.norm() <= allowed * 2 else -1e9, None)

        monkeypatch.setattr(pool_module, "evaluated", found)
        torch.testing.assert_close(
            pool_module._member(best, torch.ones(4, dtype=F64), None, None).flat, best.flat + share
        )


@pytest.fixture(scope="module")
def candidates():
    """What a trial chooses from, by the network and the factor of the errors."""
    X, y, _, _ = table(60, 2)
    arguments = {"cosine": {"hidden_units": 16}, "paper": {"hidden_units": 4, "epochs": 1}}
    choices = [("cosine", 1.0), ("cosine", 0.0), ("paper", 1.0), ("paper", 0.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one epoch leaves a loose bound
        return {
            (kind, factor): EiVRegressor(0.4, network=kind, x_err_factor=factor, **arguments[kind]).fit(X, y).model_
            for kind, factor in choices
        }


@pytest.fixture
def trial(candidates, monkeypatch):
    """The fit of a table of 200 rows where 60 are many, with what is fitted, and with the scores that are given."""
    fitted = []

    def fit(densities, rmse=lambda settings: 1.0, **arguments):
        def fake(specs, tables, on_progress=lambda done: None):
            (spec,), (rows,) = specs, tables
            kind, factor = spec.arguments["network"], spec.arguments["x_err_factor"]
            fitted.append((kind, len(rows.x)))
            on_progress(0.5)
            on_progress(1.0)
            return [candidates[kind, 1.0 if factor is None else factor]]

        def score(model, rows):
            gains = densities(model.settings, len(rows.x))
            return choosing.Score(gains, LeftOut(1 - gains, np.ones(len(gains))), rmse(model.settings))

        monkeypatch.setattr(choosing, "_MOST_ROWS", 60)
        monkeypatch.setattr(choosing, "fit_stack", fake)
        monkeypatch.setattr(choosing, "_borne_out", lambda spec, table, model: (model, ""))
        monkeypatch.setattr(choosing, "_score", score)
        X, y, _, _ = table(200, 2)
        seen = []
        model = EiVRegressor(0.4, random_state=0, **arguments)
        (found,) = fit_splits(model, X, y, [np.arange(200)], on_progress=seen.append)
        return found, seen

    return fit, fitted


@pytest.mark.parametrize("kind", ["cosine", "paper"])
def test_of_a_large_table_the_network_that_does_better_is_taken(kind, trial):
    fit, fitted = trial
    found, seen = fit(lambda settings, n: np.full(n, float(settings.network == kind)))
    assert fitted == [("cosine", 60), ("paper", 180), ("paper", 180)]
    assert (found.settings_.network, found.x_err_factor_) == (kind, 1.0)
    assert seen == sorted(seen)
    assert seen[-1] == 1


@pytest.mark.parametrize(("rmse", "kind"), [(1.03, "cosine"), (1.01, "paper")])
def test_layers_are_not_taken_for_their_crps_where_they_are_farther_off(rmse, kind, trial):
    fit, _ = trial
    found, _ = fit(
        lambda settings, n: np.full(n, float(settings.network == "paper")),
        lambda settings: rmse if settings.network == "paper" else 1.0,
    )
    assert (found.settings_.network, found.x_err_factor_) == (kind, 1.0)


@pytest.mark.parametrize(
    ("asked", "most", "n_rows"), [(0.0, 300, [180]), (0.0, 100, [100]), (None, 100, [60, 100]), (None, 50, [60])]
)
def test_cosines_that_ignore_the_errors_learn_from_more_rows(asked, most, n_rows, trial, candidates, monkeypatch):
    fit, fitted = trial
    monkeypatch.setattr(choosing, "_MOST_EXACT", most)
    monkeypatch.setitem(candidates, ("cosine", 1.0), candidates["cosine", 0.0])  # as where the labels ask for it
    found, seen = fit(lambda settings, n: np.full(n, float(settings.network == "cosine")), x_err_factor=asked)
    assert fitted == [*(("cosine", n) for n in n_rows), ("paper", 180)]
    assert (found.settings_.network, found.x_err_factor_) == ("cosine", 0.0)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("gain", "scatter", "asked", "factor"),
    [(0.1, 0.1, None, 0.0), (0.1, 1.0, None, 1.0), (0.015, 0.0, None, 1.0), (0.1, 0.1, 1.0, 1.0)],
)
def test_of_a_large_table_errors_are_ignored_where_labels_clearly_ask_for_it(gain, scatter, asked, factor, trial):
    """Twenty labels: a tenth with a standard error of 0.02 is clear, of 0.22 is not, and 0.015 is too little."""
    fit, fitted = trial

    def densities(settings, n):
        return gain + scatter * np.resize([1.0, -1.0], n) if settings.x_err_factor == 0 else np.zeros(n)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, seen = fit(densities, x_err_factor=asked)
    assert found.x_err_factor_ == factor
    assert any("CRPS 11% larger otherwise" in str(each.message) for each in caught) == (factor == 0)
    assert len(fitted) == (3 if asked is None else 2)
    assert seen[-1] == 1


def test_the_score_of_a_trial_is_that_of_labels(candidates):
    X, y, _, _ = table(60, 2)
    rows = Table(X[:5], np.full((1, 2), 0.4), y[:5, None])
    model = candidates["cosine", 1.0]
    p = model.predict(rows.x, rows.x_err, keep_draws=False)
    found = choosing._score(model, rows)
    np.testing.assert_allclose(found.log_densities, norm(p.mean, p.total).logpdf(y[:5]))
    np.testing.assert_allclose(found.left_out.crps * y.std(), normal_crps(y[:5], p.mean, p.total))
    np.testing.assert_allclose(found.rmse * y.std(), np.sqrt(np.mean((p.mean - y[:5]) ** 2)))
