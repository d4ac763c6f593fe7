"""Every family x inputs x network: the GPU in float32 against the CPU in float64, from the same state.

`devices.py` says how far the two may differ, and why.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from devices import (
    BFLOAT16,
    CPU,
    DEVICE,
    INFORMATION,
    INPUTS,
    KINDS,
    MARKS,
    N_ROWS,
    SIDES,
    OwnModule,
    assert_same,
    assert_same_budget,
    assert_same_gradient,
    fresh,
    gradient,
    model_of,
    standard,
    table,
    twin,
    untrained,
    with_posterior,
    zetas_of,
)
from numpy.random import SeedSequence
from torch import nn

from eiv import EiVRegressor, FlatPrior
from eiv.engine.graphs import matmul_precision
from eiv.engine.streams import Streams
from eiv.inputs import ZETA_DRAWS, Rows, ZetaDraws, ZetaPosterior
from eiv.inputs.own import stack_posteriors
from eiv.likelihoods import NormalLikelihood
from eiv.posteriors import FAMILIES
from eiv.training.fitting import Spec, Table, fit_stack

pytestmark = MARKS


@pytest.mark.parametrize("network", ["paper's", "own"])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_moments_and_quantiles(family, inputs, network):
    model, X, y, errors = model_of(family, inputs, network)
    found, wanted = (each.predict_distribution(X, X_err=errors) for each in (twin(model), model))
    assert_same(found, wanted, y, family)
    assert (wanted.aleatoric > 0).any() == (inputs != "exact")


@pytest.mark.parametrize("network", ["paper's", "own"])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["stratified", "informed", "rule"])
def test_gradients_of_a_step(family, inputs, network, kind):
    """The data's part of eq. (mcloss), by each way to draw zetas; "rule" where one feature is noisy."""
    if (kind == "rule" and inputs != "one noisy") or (inputs == "exact" and kind != "stratified"):
        pytest.skip("this way needs one noisy feature, and exact inputs need none")
    X, y, errors = table(inputs)
    model, *_ = model_of("bernoulli_dropout", inputs, network, epochs=1)
    zetas = zetas_of(model, X, errors)
    draws = ZetaDraws.of({"rule": "interpolated"}.get(kind, kind), 8, zetas)
    base = Streams(SeedSequence(1).spawn(2), CPU, torch.float64)
    zeta = zetas.draw(draws.base(base, N_ROWS)) if inputs != "exact" else zetas.mean.unsqueeze(2)
    levels = None
    if draws.n_kept and inputs != "exact":
        levels = ((torch.arange(draws.n_kept) + base.uniform(N_ROWS, 1)) / draws.n_kept).float().double()
    found, wanted = (
        gradient(
            fresh(model, family, device, dtype),
            zeta,
            standard(y),
            levels,
            None if inputs == "exact" else draws.quadrature(dtype, device),
        )
        for device, dtype in SIDES
    )
    assert_same_gradient(found, wanted)


@pytest.mark.parametrize("network", ["paper's", "own"])
@pytest.mark.parametrize("inputs", ["one noisy", "three noisy"])
@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("kind", ZETA_DRAWS)
def test_gradients_with_zetas_of_every_kind(family, inputs, network, kind):
    """Base noise, zetas and weights of the sum come from the device itself, by portable streams."""
    if kind == "interpolated" and inputs != "one noisy":
        pytest.skip("interpolation takes one noisy feature")
    X, y, errors = table(inputs)
    changes = {"input_prior": FlatPrior()} if kind == "gauss_hermite" and inputs == "three noisy" else {}
    model, *_ = model_of("bernoulli_dropout", inputs, network, epochs=1, **changes)
    results = []
    for device, dtype in SIDES:
        zetas = zetas_of(model, X, errors).to(device, dtype)
        draws = ZetaDraws.of(kind, 4 if kind == "gauss_hermite" else 8, zetas)
        streams = Streams(SeedSequence(1).spawn(2), device, dtype, portable=True)
        zeta, levels = zetas.draw(draws.base(streams, N_ROWS)), None
        if draws.n_kept:
            levels = (torch.arange(draws.n_kept, device=device) + streams.uniform(N_ROWS, 1)) / draws.n_kept
        posterior = fresh(model, family, device, dtype)
        results.append(gradient(posterior, zeta, standard(y), levels, draws.quadrature(dtype, device)))
    assert_same_gradient(*results)


@pytest.mark.parametrize("network", ["paper's", "own"])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_with_known_errors_of_labels(family, network):
    """The noise of a step is then that of each row."""
    X, y, errors = table("three noisy")
    model, *_ = model_of("bernoulli_dropout", "three noisy", network, epochs=1)
    zetas = zetas_of(model, X, errors)
    draws = ZetaDraws.of("stratified", 8, zetas)
    zeta = zetas.draw(draws.base(Streams(SeedSequence(1).spawn(2), CPU, torch.float64), N_ROWS))
    known = torch.from_numpy(np.random.default_rng(3).uniform(0, 1, y.shape)).expand(2, -1, -1)
    assert_same_gradient(*(gradient(fresh(model, family, *side), zeta, standard(y), y_err=known) for side in SIDES))


def test_a_gradient_in_bfloat16(request):
    """Against float64; three hidden layers have two products between them, whose operands are rounded."""
    if DEVICE.type == "cpu":
        request.getfixturevalue("has_bfloat16")
    X, y, errors = table("three noisy")
    model, *_ = model_of("bernoulli_dropout", "three noisy", "paper's", epochs=1, n_hidden=3, hidden_units=64)
    zetas = zetas_of(model, X, errors)
    draws = ZetaDraws.of("stratified", 8, zetas)
    zeta = zetas.draw(draws.base(Streams(SeedSequence(1).spawn(2), CPU, torch.float64), N_ROWS))
    found, plain, wanted = (
        gradient(fresh(model, "bernoulli_dropout", *side, precision), zeta, standard(y))
        for side, precision in zip((SIDES[0], *SIDES), ("bfloat16", "float32", "float32"), strict=True)
    )
    assert_same_gradient(found, wanted, BFLOAT16, of_loss=2**-8)
    assert (found[0] - wanted[0]).norm() > 10 * (plain[0] - wanted[0]).norm()  # it was rounded


@pytest.mark.parametrize("network", ["paper's", "own"])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("family", ["last_layer_laplace", "linearised_laplace"])
@pytest.mark.parametrize("kind", ["stratified", "informed", "interpolated"])
def test_information(family, inputs, network, kind):
    """The epistemic variance after the end of training is found anew, with the products of a GPU as they are (TF32)."""
    if kind == "interpolated" and inputs != "one noisy":
        pytest.skip("interpolation takes one noisy feature")
    model, X, y, errors = model_of(family, inputs, network)
    labels = torch.from_numpy((y - y.mean(0)) / y.std(0)).expand(2, -1, -1)
    variances = []
    for each, device, dtype in ((twin(model), DEVICE, torch.float32), (model, CPU, torch.float64)):
        posterior, zetas = each.posterior_, zetas_of(model, X, errors).to(device, dtype)
        draws = None if inputs == "exact" else ZetaDraws.of(kind, 16, zetas)
        streams = Streams(SeedSequence(3).spawn(2), device, dtype, portable=True)
        likelihood = NormalLikelihood(torch.tensor([[0.1, 0.2], [0.05, 0.1]], device=device, dtype=dtype))
        with matmul_precision(device, "auto"):
            posterior.finish(Rows(zetas, labels.to(device, dtype)), likelihood, draws, streams)
        variances.append(posterior.in_double().theta_variance(zetas.mean.double()).variance.cpu())
    found, wanted = variances
    assert ((found - wanted).abs() / wanted).max() < INFORMATION


@pytest.mark.parametrize("inputs", ["one noisy", "three noisy", "per row", "covariances"])
@pytest.mark.parametrize("family", KINDS)
def test_moments_under_berkson(family, inputs):
    model, X, y, errors = model_of(family, inputs, "paper's", error_model="berkson")
    assert_same(*(each.predict_distribution(X, X_err=errors) for each in (twin(model), model)), y, family)


@pytest.mark.parametrize("n_networks", [1, 5])
@pytest.mark.parametrize("family", KINDS)
def test_moments_of_several_networks(family, n_networks):
    model, X, y, errors = model_of(family, "three noisy", "paper's", n_networks=n_networks)
    assert_same(*(each.predict_distribution(X, X_err=errors) for each in (twin(model), model)), y, family)


@pytest.mark.parametrize("family", KINDS)
def test_networks_that_count_by_their_shares(family):
    model, X, y, errors = model_of(family, "three noisy", "paper's")
    model.model_ = replace(model.model_, weights=np.array([0.9, 0.1]))
    found, wanted = (each.predict_distribution(X, X_err=errors, budget=True) for each in (twin(model), model))
    assert_same(found, wanted, y, family)
    assert_same_budget(found, wanted)


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
@pytest.mark.parametrize("network", ["paper's", "own"])
@pytest.mark.parametrize("family", FAMILIES)
def test_weight_penalties_of_their_own(family, network):
    """Two models of a stack on the device against each alone: they differ by rounding, and penalties by far more."""
    X, y, errors = table("three noisy")
    rows = Table(X, errors[None], y)

    def fitted(*penalties):
        specs = []
        for seed, penalty in penalties:
            model = EiVRegressor(
                posterior=family, module=OwnModule if network == "own" else None, weight_penalty=penalty,
                hidden_units=16, n_hidden=2, epochs=3, batch_size=20, y_noise_every=2, n_networks=2, dtype="float32",
                device=str(DEVICE), precision="float32", recipe="paper",
            )  # fmt: skip
            specs.append(Spec(model.get_params(deep=False), seed))
        models = fit_stack(specs, [rows] * len(specs))
        return [torch.cat([value.flatten() for value in each.posterior.stack.parameters.values()]) for each in models]

    for place, found in enumerate(fitted((0, 0.1), (1, 30.0))):
        (alone,), (other,) = fitted((place, (0.1, 30.0)[place])), fitted((place, (30.0, 0.1)[place]))
        assert (found - alone).norm() < 0.02 * (found - other).norm()


@pytest.mark.parametrize("family", KINDS)
def test_known_errors_of_labels_at_fit_and_predict(family):
    X, y, errors = table("three noisy")
    y_err = np.random.default_rng(4).uniform(0, 0.3, y.shape)
    model, *_ = model_of(family, "three noisy", "paper's", y_err=y_err)
    found, wanted = (each.predict_distribution(X, X_err=errors, y_err=y_err) for each in (twin(model), model))
    assert_same(found, wanted, y, family)
    assert (found.noise > y_err).all()


class Uniform(ZetaPosterior):
    """Uniform between mean - std and mean + std; of two numbers per feature one is not used."""

    n_base = property(lambda self: 2 * self.mean.shape[-1])

    def draw(self, noise):
        level = 2 * torch.special.ndtr(noise[..., : self.mean.shape[-1]]) - 1
        return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * level


class OwnPrior:
    def posterior(self, x, x_err):
        return Uniform(x, x_err.expand_as(x))


@pytest.mark.parametrize("given", ["three noisy", "per row"])
@pytest.mark.parametrize("family", KINDS)
def test_a_posterior_of_the_users_own(family, given):
    model, X, y, errors = model_of(family, given, "paper's", input_prior=OwnPrior())
    found, wanted = (each.predict_distribution(X[:20], X_err=errors[:20], budget=True) for each in (twin(model), model))
    assert_same(found, wanted, y, family)
    assert_same_budget(found, wanted)


@pytest.mark.parametrize("inputs", ["one noisy", "three noisy", "per row", "covariances"])
@pytest.mark.parametrize("family", FAMILIES)
def test_budgets(family, inputs):
    model, X, _, errors = model_of(family, inputs, "paper's")
    found, wanted = (each.predict_distribution(X[:20], X_err=errors[:20], budget=True) for each in (twin(model), model))
    assert_same_budget(found, wanted)


@pytest.mark.parametrize("inputs", ["exact", "one noisy", "three noisy"])
@pytest.mark.parametrize("family", KINDS)
def test_predictions_as_printed(family, inputs):
    """`method="literal"` draws each row anew from streams that every device has of its own.

    So its moments are compared on the scale of their Monte Carlo noise, over 60 rows with two outputs. The mean of a
    row with variance e from K = 80 thetas and a from L = 5 zetas has an error of e / K + a / L in variance. Squares of
    differences over twice that have the mean 1 at most (e holds the difference of the networks, which is not drawn);
    with 120 of them, and two outputs of a row not independent, 1 + 4 sqrt(2 / 60) is not passed. The variance of a row
    has four degrees of freedom at least, the mean over 60 rows thus a standard error of sqrt(2 / 4 / 60) = 9 %, and the
    ratio of two such one of 13 %; four of these are allowed.
    """
    model, X, _, errors = model_of(family, inputs, "paper's")
    found, wanted = (
        each.predict_distribution(X, X_err=errors, method="literal", keep_draws=True) for each in (twin(model), model)
    )
    assert found.draws.shape == wanted.draws.shape
    scatter = 2 * (wanted.epistemic**2 / 80 + wanted.aleatoric**2 / 5)
    assert ((found.mean - wanted.mean) ** 2).mean() < (1 + 4 * (2 / 60) ** 0.5) * scatter.mean()
    ratio = (found.std**2).mean(0) / (wanted.std**2).mean(0)
    assert (np.abs(ratio - 1) < 4 * 0.13).all()


CHOICES = {
    "default": {},
    "errors of labels": {"y_err": 0.1},
    "berkson": {"error_model": "berkson"},
    "own posterior": {"input_prior": OwnPrior()},
    "bfloat16": {"precision": "bfloat16"},
    "three networks": {"n_networks": 3},
    **{kind: {"zeta_draws": kind} for kind in ZETA_DRAWS},
}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_fit_on_the_device(choice, request):
    """A whole fit with what a user can choose: its curve is that of the CPU in float64.

    Either side draws numbers of its own. Two fits of this table with different seeds differ by 0.02 to 0.07 of the
    spread of y (six seeds on the CPU, root mean square), so a tenth is allowed.
    """
    changes = dict(CHOICES[choice])
    if changes.get("precision") == "bfloat16" and DEVICE.type == "cpu":
        request.getfixturevalue("has_bfloat16")
    y_err = changes.pop("y_err", None)
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (200, 1))
    X, y = zeta + 0.1 * random.standard_normal(zeta.shape), np.sin(2 * zeta[:, 0]) + 0.1 * random.standard_normal(200)
    curves = []
    for device, dtype in SIDES:
        own = {"dtype": str(dtype).removeprefix("torch."), "device": str(device)}
        if dtype == torch.float64:
            own["precision"] = "auto"
        model = EiVRegressor(
            **{"x_err": 0.1, "hidden_units": 16, "n_hidden": 2, "epochs": 100, "random_state": 0} | changes | own
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few zetas leave a loose bound
            curves.append(model.fit(X, y, y_err=y_err).predict(np.linspace(-1, 1, 50)[:, None], X_err=0))
    assert np.sqrt(np.mean((curves[0] - curves[1]) ** 2)) < 0.1 * y.std()


def test_the_epistemic_part_of_a_fit_with_three_noisy_columns():
    """A fit on the device, and the end of its training once more on the CPU, from the same weights: within a tenth.

    On either side labels and zetas are drawn anew, which scatters the variance by some per cent. The labels of another
    row, which a kernel with a wrong stride read, made it 2,000 times too small.
    """
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (400, 3))
    X = zeta + 0.1 * random.standard_normal(zeta.shape)
    y = np.sin(2 * zeta[:, 0]) + zeta[:, 1] * zeta[:, 2] + 0.1 * random.standard_normal(400)

    def module(n_inputs, n_outputs):
        return nn.Sequential(nn.Linear(n_inputs, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, n_outputs))

    for arguments in ({}, {"module": module}):
        model = EiVRegressor(
            0.1, device=str(DEVICE), held_out=0.0, input_prior="normal", epochs=150, random_state=0, **arguments
        ).fit(X, y)
        there = model.predict_distribution(zeta, X_err=0).epistemic
        posterior = untrained(model, CPU, dtype="float64")
        with torch.no_grad():
            for name, value in posterior.stack.parameters.items():
                value.copy_(model.posterior_.stack.parameters[name].cpu())
        posterior.kept = {name: value.cpu().double() for name, value in model.posterior_.kept.items() if name != "root"}
        inputs = stack_posteriors([model.model_.zeta_posterior(X, np.full((1, 3), 0.1), CPU, torch.float64)])
        labels = torch.from_numpy((y - y.mean()) / y.std())[None, :, None]
        likelihood = NormalLikelihood(torch.tensor(model.y_noise_ / y.std())[None])
        draws, streams = ZetaDraws.of("informed", 32, inputs), Streams(SeedSequence(9).spawn(1), CPU, torch.float64)
        posterior.finish(Rows(inputs, labels), likelihood, draws, streams)
        here = with_posterior(model, posterior).predict_distribution(zeta, X_err=0).epistemic
        ratio = np.sqrt(np.mean(there**2) / np.mean(here**2))
        assert 0.9 < ratio < 1.1
