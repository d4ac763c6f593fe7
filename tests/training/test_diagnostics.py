"""How well training integrates over zeta, against a linear function with Gaussian noise."""

import warnings

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from numpy.random import SeedSequence
from torch.distributions import Normal

from eiv import EiVRegressor, fit_splits
from eiv.datasets import SIMULATED, simulate
from eiv.engine.streams import Streams
from eiv.experiments.paper.settings import TRAINING
from eiv.inputs import ZETA_DRAWS, Rows, ZetaDraws, ZetaNormal
from eiv.likelihoods import NormalLikelihood
from eiv.posteriors import SWAG, LinearisedLaplace, PointPosterior
from eiv.training.diagnostics import LARGE_GAP, LooseBoundWarning, advice, zeta_diagnostics
from smallnets import CPU, small_posterior

SLOPE, X_ERR, Y = 2.0, 0.4, 0.7
FAST = {"hidden_units": 16, "epochs": 3, "random_state": 0, "device": "cpu"}


class Line(PointPosterior):
    """f = slope * zeta, for two networks."""

    def __init__(self):
        super().__init__(small_posterior(2, dtype=torch.float64).stack, weight_penalty=1.0)

    def evaluate(self, draw, zeta):
        return SLOPE * zeta


def measure(kind, n_zeta, y_noise, n_rows=3000, y_err=None):
    """Rows at x = 0 with y = 0.7; 512 of them and two networks are looked at."""
    inputs = ZetaNormal(torch.zeros(2, n_rows, 1).double(), torch.full((2, 1, 1), X_ERR).double())
    rows = Rows(inputs, torch.full((2, n_rows, 1), Y).double(), y_err)
    likelihood = NormalLikelihood(torch.full((2, 1), y_noise).double())
    draws = ZetaDraws.of(kind, n_zeta, inputs)
    streams = Streams(SeedSequence(0).spawn(2), CPU, torch.float64)
    found = zeta_diagnostics(Line(), rows, likelihood, draws, streams)
    return found.ess.mean().item(), found.gap.mean().item()


def by_quadrature(y_noise, n_zeta=2, n_nodes=200):
    """Effective sample size of two zetas, and the gap to 32: that to the likelihood, less what 32 leave of it.

    With c^2 = E p^2 / (E p)^2 - 1 the bound with many zetas, n, lies c^2 / (2 n) below the likelihood.
    """
    nodes, weights = hermegauss(n_nodes)
    weights = weights / weights.sum()
    log_p = Normal(SLOPE * X_ERR * torch.tensor(nodes), y_noise).log_prob(torch.tensor(Y)).numpy()
    p, pairs = np.exp(log_p), weights[:, None] * weights
    ratio = np.exp(-np.abs(log_p[:, None] - log_p))
    ess = (pairs * (1 + ratio) ** 2 / (1 + ratio**2)).sum()
    bound = (pairs * (np.logaddexp(log_p[:, None], log_p) - np.log(2))).sum()
    scatter = weights @ p**2 / (weights @ p) ** 2 - 1
    return ess, np.log(weights @ p) - bound - scatter / (2 * 16 * n_zeta)


@pytest.mark.parametrize("y_noise", [2.0, 1.0, 0.6])
def test_effective_sample_size_and_gap_of_two_zetas_are_those_of_quadrature(y_noise):
    """16,384 pairs of zetas of 1,024 rows.

    A number between 1 and 2 has a standard deviation of 0.5 at most: four standard errors are 0.016. The gaps of rows
    scatter by about as much as they are large: four standard errors are an eighth.
    """
    ess, gap = measure("monte_carlo", 2, y_noise)
    expected_ess, expected_gap = by_quadrature(y_noise)
    assert ess == pytest.approx(expected_ess, abs=0.016)
    assert gap == pytest.approx(expected_gap, rel=0.125)


def test_the_gap_falls_like_one_over_the_zetas():
    gaps = [measure("monte_carlo", n_zeta, 0.6)[1] for n_zeta in (5, 20, 80)]
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.3)
    assert gaps[1] / gaps[2] == pytest.approx(4, rel=0.3)


def test_better_rules_have_smaller_gaps():
    gaps = {kind: measure(kind, 8, 0.6)[1] for kind in ZETA_DRAWS}
    assert all(gaps[kind] < 0.5 * gaps["monte_carlo"] for kind in ("stratified", "sobol"))
    assert gaps["gauss_hermite"] < 0.01


def test_quadrature_with_nodes_further_apart_than_the_noise_has_a_gap():
    assert measure("gauss_hermite", 3, 0.2)[1] > 1  # y lies between two of them
    assert measure("gauss_hermite", 40, 0.2)[1] < 0.1


def test_known_errors_of_y_count_as_noise():
    known = torch.full((2, 3000, 1), 0.8, dtype=torch.float64)
    assert measure("monte_carlo", 2, 0.6, y_err=known) == pytest.approx(measure("monte_carlo", 2, 1.0))


@pytest.mark.parametrize("family", [LinearisedLaplace, SWAG])
def test_weights_that_vary_only_after_training_count_as_the_point_that_was_trained(family):
    inputs = ZetaNormal(torch.linspace(-1, 1, 100).view(1, 100, 1).expand(2, -1, -1), torch.full((2, 1, 1), X_ERR))
    rows, likelihood = Rows(inputs, inputs.mean), NormalLikelihood(torch.full((2, 1), 0.3))
    seeds = SeedSequence(0).spawn(2)
    draws, found = ZetaDraws.of("monte_carlo", 4, inputs), []
    for posterior in (family(small_posterior().stack, 1.0), PointPosterior(small_posterior().stack, 1.0)):
        posterior.begin(Streams(seeds, CPU))
        for epoch in (1, 2):
            posterior.observe(epoch, 2)
        posterior.finish(rows, likelihood, draws, Streams(seeds, CPU))
        assert bool(posterior.draw(Streams(seeds, CPU), 1)) == isinstance(posterior, family)
        found.append(zeta_diagnostics(posterior, rows, likelihood, draws, Streams(seeds, CPU)))
    torch.testing.assert_close(found[0].gap, found[1].gap)
    torch.testing.assert_close(found[0].ess, found[1].ess)


def test_few_rows_are_all_looked_at():
    ess, gap = measure("monte_carlo", 5, 1.0, n_rows=3)
    assert 1 < ess < 5
    assert gap > 0


def test_a_model_knows_how_well_it_has_integrated(line):
    X, y = line
    model = EiVRegressor(0.1, n_networks=2, **FAST, recipe="paper").fit(X, y)
    assert 1 < model.zeta_ess_ <= 5
    assert 0 < model.bound_gap_ < LARGE_GAP
    exact = EiVRegressor(**FAST, recipe="paper").fit(X, y)
    assert exact.zeta_ess_ is None
    assert exact.bound_gap_ is None
    again, other = fit_splits(EiVRegressor(0.1, **FAST, recipe="paper"), X, y, [range(30), range(10, 40)])
    assert again.bound_gap_ != other.bound_gap_


@pytest.mark.parametrize("kind", ZETA_DRAWS)
def test_a_small_sigma_y_makes_fit_warn(line, kind):
    X, y = line
    model = EiVRegressor(0.3, y_noise=0.005, zeta_draws=kind, **(FAST | {"epochs": 30}), recipe="paper")
    with pytest.warns(LooseBoundWarning, match=r"sample size is \S+ of 5.* n_zeta .* y_noise"):
        model.fit(X, y)
    assert model.zeta_ess_ < 4


def test_the_advice_goes_with_the_rule():
    zeta = ZetaNormal(torch.zeros(1, 3, 1), torch.ones(1, 1, 1))
    words = {kind: advice(2.0, 0.25, ZetaDraws.of(kind, 8, zeta), 8) for kind in ZETA_DRAWS}
    assert "from 8 to about 20, take zeta_draws='interpolated'" in words["monte_carlo"]
    assert "from 8 to about 16, take zeta_draws='interpolated'" in words["gauss_hermite"]
    assert "from 8 to about 16, or check" in words["interpolated"]
    plane = ZetaDraws.of("stratified", 8, ZetaNormal(torch.zeros(1, 3, 2), torch.ones(1, 1, 2)))
    assert "take zeta_draws='informed'" in advice(2.0, 0.25, plane, 8)
    assert "y_noise is too small" in advice(1.0, 100.0, ZetaDraws.of("monte_carlo", 8, zeta), 8)


def test_verbose_shows_it(line, capsys):
    EiVRegressor(0.1, verbose=True, **FAST, recipe="paper").fit(*line)
    assert "of 5 count (effective sample size), gap of the bound" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["linear", "quadratic"])
def test_the_papers_settings_do_not_warn(name):
    """Both have 0.013 and 0.023 after the whole of training; this is half of it."""
    settings, data = TRAINING[name], simulate(name, random_state=0)
    model = EiVRegressor(
        SIMULATED[name].x_err,
        hidden_units=settings.hidden_units,
        batch_size=settings.batch_size,
        epochs=settings.epochs // 2,
        y_noise_init=settings.y_noise_init,
        y_noise_every=settings.y_noise_every,
        standardise=False,
        random_state=0,
        recipe="paper",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", LooseBoundWarning)
        model.fit(data.X, data.y)
    assert model.bound_gap_ < 0.06
