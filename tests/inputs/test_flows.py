"""Laws of errors as push-forwards by a flow, learned from pairs of readings."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from eiv import EiVRegressor, law_from_pairs
from eiv.inputs import FlatPrior, NormalPrior
from eiv.inputs.flows import Flow, fit_flow
from eiv.inputs.given import zeta_given
from eiv.inputs.mixed import MixedErrors

pytest.importorskip("zuko")


def log_density(law, e):
    """Of true values less readings under a law."""
    parts = law.parts(np.zeros(1), "x_err")
    return logsumexp(parts.log_weights + stats.norm.logpdf(e[:, None], parts.shifts, parts.stds), axis=1)


@pytest.fixture(scope="module")
def skewed():
    """Errors of an exponential law with a spread of one, and the flow that is learned from 300 of them."""
    e = np.random.default_rng(0).exponential(size=300)
    values = torch.from_numpy(e)
    flow = fit_flow(Flow.normal(float(e.mean()), float(e.std())), lambda flow: flow.log_density(values))
    return e, flow, flow.law()


def test_a_flow_that_is_not_trained_is_normal():
    flow = Flow.normal(0.3, 2.0)
    e = torch.linspace(-8, 8, 50, dtype=torch.float64)
    np.testing.assert_allclose(flow.log_density(e).detach(), stats.norm.logpdf(e, 0.3, 2.0), atol=1e-12)
    np.testing.assert_allclose(flow.push(torch.ones(1).double()).detach(), 2.3)


def test_the_density_of_a_flow_adds_up_to_one_and_is_that_of_its_draws(skewed):
    _, flow, _ = skewed
    e = torch.linspace(-12, 14, 40_001, dtype=torch.float64)
    with torch.no_grad():
        density = flow.log_density(e).exp()
        drawn = flow.push(torch.from_numpy(stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)))
    step = float(e[1] - e[0])
    assert float(density.sum()) * step == pytest.approx(1, abs=1e-4)
    assert float((density * e).sum()) * step == pytest.approx(float(drawn.mean()), abs=2e-3)


def test_its_shape_takes_any_standard_deviation_and_a_mean_of_zero(skewed):
    errors, weights = (part.detach() for part in skewed[1].shaped(0.4).rule())
    assert float(weights @ errors) == pytest.approx(0, abs=1e-12)
    assert float(weights @ errors**2) == pytest.approx(0.16, rel=1e-12)


def test_a_skewed_law_is_found_from_pairs(skewed):
    """Of 20,000 fresh errors; a normal law is off by 0.42 nats, log sqrt(2 pi e) - 1.

    A flow with 23 numbers from 300 rows costs about 23 / 600 = 0.04 nats, and the edge at zero as much again.
    """
    _, flow, law = skewed
    fresh = np.random.default_rng(1).exponential(size=20_000)
    lost = np.mean(stats.expon.logpdf(fresh) - log_density(law, fresh))
    assert 0 < lost < 0.25
    with torch.no_grad():
        own = flow.log_density(torch.from_numpy(fresh)).numpy()
    assert np.mean(own - log_density(law, fresh)) < 0.03  # what its parts lose


@pytest.mark.parametrize("prior", [FlatPrior(), NormalPrior(1.5)])
def test_the_posterior_of_zeta_is_that_of_quadrature_under_the_flow(skewed, prior):
    """The parts stand for the flow: mean and standard deviation of zeta within 3 % of the standard deviation."""
    _, flow, law = skewed
    x = np.array([[-2.0], [0.0], [1.0]])
    zeta = zeta_given(prior, torch.tensor(x), MixedErrors.of([law.parts(x[:, 0], "x_err")]))
    points = torch.linspace(-12, 14, 20_001, dtype=torch.float64)
    for row, reading in enumerate(x[:, 0]):
        with torch.no_grad():
            density = flow.log_density(points - reading).exp().numpy()
        if isinstance(prior, NormalPrior):
            density *= stats.norm.pdf(points, 0, 1.5)
        density /= density.sum()
        mean = density @ points.numpy()
        std = np.sqrt(density @ (points.numpy() - mean) ** 2)
        assert zeta.mean[row, 0] == pytest.approx(mean, abs=0.03 * std)
        assert zeta.std.expand(3, 1)[row, 0] == pytest.approx(std, rel=0.03)


def test_a_model_file_holds_the_law(skewed, tmp_path):
    _, _, law = skewed
    X = 3 * np.random.default_rng(2).normal(size=(40, 1))
    model = EiVRegressor(law, input_prior="flat", epochs=2, hidden_units=8, n_theta=4, random_state=0).fit(X, X[:, 0])
    model.save(tmp_path / "model.eiv")
    again = EiVRegressor.load(tmp_path / "model.eiv")
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    assert "16 normal distributions" in str(again.model_.laws[0])


def test_pairs_with_errors_of_their_own_are_refused():
    e = np.random.default_rng(0).normal(size=50)
    with pytest.raises(ValueError, match="clean_err must be 0 where the law is a flow"):
        law_from_pairs(e, 0 * e, clean_err=0.1, flow=True)
    with pytest.raises(ValueError, match="a law takes 12 readings at least, got 5"):
        law_from_pairs(e[:5], 0 * e[:5], flow=True)
