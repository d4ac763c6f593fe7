"""Every family x inputs x network: the GPU in float32 against the CPU in float64, from the same state.

Tolerances. The weights are float32 numbers on both sides, and random numbers are the same. What differs is rounding:

- `CLOSED`: families whose moments are known in closed form are evaluated in float64 on both; what is left is the order
  of sums, and base noise whose normal scores are taken by other routines.
- `DRAWN`: draws of other families are float32 passes without TF32, each off by some 1e-6 of the spread of y. A moment
  is compared on that scale. Quantiles are order statistics of the draws: they move no more than a draw does.
- `GRADIENT`: of a step, without TF32. Units whose input lies within rounding of the kink of a leaky ReLU switch sides,
  one in some ten thousand, and each is a share of the gradient.
- `INFORMATION`: the epistemic variance from information that is found anew on either side: scores are found in float64,
  but which of two zetas is chosen for a label can depend on the last digit of its noise.

`EIV_TEST_DEVICE=cpu` runs the suite on the CPU, float32 against float64, which leaves out the kernels.
"""

import copy
import os
import warnings

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence
from torch import nn

from eiv import EiVRegressor, FlatPrior, MixturePrior
from eiv.fitting import new_posterior
from eiv.graphs import matmul_precision
from eiv.inputs import ZetaDraws
from eiv.inputs.zeta import stack_posteriors
from eiv.posteriors import FAMILIES
from eiv.streams import Streams, network_seeds
from eiv.training import _step_for

DEVICE = torch.device(os.environ.get("EIV_TEST_DEVICE", "cuda"))
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE.type == "cuda" and not torch.cuda.is_available(), reason="torch sees no GPU here"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # of autograd's thread, once per process
]
CLOSED, DRAWN, GRADIENT, INFORMATION = 1e-6, 2e-5, 2e-3, 1e-2
N_ROWS, CPU = 60, torch.device("cpu")
INPUTS = ["exact", "one noisy", "three noisy", "per row", "covariances"]


class OwnModule(nn.Module):
    """Smooth units, a skip connection and dropout: nothing of it takes the fast path."""

    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(n_inputs, 12), nn.Linear(12, 12), nn.Dropout(0.2)
        self.head = nn.Linear(12, n_outputs)

    def forward(self, x):
        hidden = self.drop(torch.nn.functional.silu(self.first(x)))
        return self.head(hidden + self.drop(torch.tanh(self.second(hidden))))


def table(inputs):
    """Rows of three features and their errors; two outputs."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (N_ROWS, 3))
    factors = 0.15 * random.standard_normal((N_ROWS, 3, 3))
    errors = {
        "exact": None,
        "one noisy": np.array([0.0, 0.3, 0.0]),
        "three noisy": np.array([0.1, 0.3, 0.2]),
        "per row": random.uniform(0.05, 0.3, (N_ROWS, 3)),
        "covariances": factors @ factors.swapaxes(1, 2),
    }[inputs]
    y = np.column_stack([np.sin(2 * zeta[:, 0]) + zeta[:, 1] * zeta[:, 2], zeta.sum(1)])
    return zeta + 0.1 * random.standard_normal(zeta.shape), y + 0.1 * random.standard_normal(y.shape), errors


def prior(inputs):
    if inputs == "exact":
        return FlatPrior()
    return MixturePrior([0.4, 0.6], [[-0.3, 0.2, 0.0], [0.4, -0.1, 0.2]], [np.eye(3) * 0.3, np.eye(3) * 0.5 - 0.1])


def model_of(family, inputs, network, **changes):
    """Trained for a few epochs on the CPU in float64; its weights are then rounded to float32."""
    X, y, errors = table(inputs)
    arguments = {
        "posterior": family, "module": OwnModule if network == "own" else None, "input_prior": prior(inputs),
        "hidden_units": 16, "n_hidden": 2, "dropout": 0.2, "epochs": 4, "batch_size": 20, "y_noise_every": 2,
        "held_out": 0.0, "n_networks": 2, "random_state": 0, "dtype": "float64", "device": "cpu", "n_theta": 40,
        "n_zeta": 5, "zeta_draws": "stratified",
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few epochs leave a loose bound
        model = EiVRegressor(**arguments | changes).fit(X, y, X_err=errors)
    posterior = model.posterior_
    for values in (posterior.stack.parameters, posterior.learned, posterior.kept):
        for value in values.values():
            value.data.copy_(value.data.float().double())
    return model, X, y, errors


def fresh(model, device, dtype):
    """The posterior as training begins with it, the same weights everywhere."""
    like = copy.copy(model).set_params(dtype="float64")
    seeds = network_seeds(model._seed, 2)
    start = new_posterior(like, seeds, CPU)
    found = new_posterior(copy.copy(model).set_params(dtype=str(dtype).removeprefix("torch.")), seeds, device)
    _copy(start, found)
    found.begin(Streams(SeedSequence(5).spawn(2), device, dtype, portable=True))
    return found


def _copy(source, target):
    with torch.no_grad():
        for name, value in target.stack.parameters.items():
            value.copy_(source.stack.parameters[name].float())
        for name, value in target.learned.items():
            value.copy_(source.learned[name].float())


def zetas_of(model, X, errors):
    """The posterior of zeta for two networks, standardised, on the CPU in float64."""
    given = np.zeros((1, 3)) if errors is None else np.atleast_2d(errors)
    return stack_posteriors([model._zeta_posterior(X, given, CPU, torch.float64)] * 2)


def twin(model):
    """The same model on the device in float32."""
    other = copy.copy(model).set_params(dtype="float32", device=str(DEVICE))
    posterior = new_posterior(other, network_seeds(model._seed, 2), DEVICE)
    _copy(model.posterior_, posterior)
    posterior.load_state(model.posterior_.state)
    other.posterior_ = posterior
    return other


@pytest.mark.parametrize("network", ["paper's", "own"])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_moments_and_quantiles(family, inputs, network):
    model, X, y, errors = model_of(family, inputs, network)
    found, wanted = (each.predict_distribution(X, X_err=errors) for each in (twin(model), model))
    tolerance = CLOSED if FAMILIES[family].__name__ in ("Ensemble", "LastLayerLaplace", "LinearisedLaplace") else DRAWN
    scale = y.std(0)
    for part in ("mean", "std", "epistemic", "aleatoric"):
        difference = np.abs(getattr(found, part) ** 2 - getattr(wanted, part) ** 2) / scale**2
        if part == "mean":
            difference = np.abs(found.mean - wanted.mean) / scale
        assert difference.max() < tolerance, part
    levels = [0.025, 0.5, 0.975]
    for of in ("function", "label"):
        difference = np.abs(found.quantile(levels, of=of) - wanted.quantile(levels, of=of)) / scale
        assert difference.max() < 5 * tolerance, of
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
    model.settings_ = type(model.settings_)(**vars(model.settings_) | {"posterior": family})
    zetas = zetas_of(model, X, errors)
    draws = ZetaDraws.of({"rule": "interpolated"}.get(kind, kind), 8, zetas)
    base = Streams(SeedSequence(1).spawn(2), CPU, torch.float64)
    zeta = zetas.draw(draws.base(base, N_ROWS)) if inputs != "exact" else zetas.mean.unsqueeze(2)
    labels = torch.from_numpy((y - y.mean(0)) / y.std(0)).expand(2, -1, -1)
    noise = torch.tensor([[0.4, 0.3], [0.5, 0.6]], dtype=torch.float64)
    levels = None
    if draws.n_kept and inputs != "exact":
        levels = ((torch.arange(draws.n_kept) + base.uniform(N_ROWS, 1)) / draws.n_kept).float().double()
    found = []
    for device, dtype in ((DEVICE, torch.float32), (CPU, torch.float64)):
        posterior = fresh(model, device, dtype)
        n_draws = 1 if posterior.shares_draws else N_ROWS
        draw = {} if posterior.trains_a_point else posterior.draw(
            Streams(SeedSequence(2).spawn(2), device, dtype, portable=True), n_draws
        )  # fmt: skip
        step, total = _step_for(posterior, 0.0, N_ROWS), torch.zeros(2, device=device, dtype=dtype)
        step.quadrature = None if inputs == "exact" else draws.quadrature(dtype, device)
        values = [None if value is None else value.to(device, dtype) for value in (zeta, labels, 1 / noise, levels)]
        with matmul_precision(device, "float32"):
            step(draw, *values[:3], total, values[3])
        gradient = torch.cat([adam.gradient for adam in step.adams]).double().cpu()
        found.append((gradient, total.double().cpu()))
    (gradient, total), (wanted, reference) = found
    assert (gradient - wanted).norm() < GRADIENT * wanted.norm()
    torch.testing.assert_close(total, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("network", ["paper's", "own"])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("family", ["last_layer_laplace", "linearised_laplace"])
@pytest.mark.parametrize("kind", ["stratified", "interpolated"])
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
        noise = torch.tensor([[0.1, 0.2], [0.05, 0.1]], device=device, dtype=dtype)
        with matmul_precision(device, "auto"):
            posterior.finish(zetas, labels.to(device, dtype), noise, draws, streams)
        variances.append(posterior.in_double().spread(zetas.mean.double()).variance.cpu())
    found, wanted = variances
    assert ((found - wanted).abs() / wanted).max() < INFORMATION


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
        other = copy.copy(model).set_params(dtype="float64", device="cpu")
        posterior = new_posterior(other, network_seeds(model._seed, 1), CPU)
        with torch.no_grad():
            for name, value in posterior.stack.parameters.items():
                value.copy_(model.posterior_.stack.parameters[name].cpu())
        posterior.kept = {name: value.cpu().double() for name, value in model.posterior_.kept.items() if name != "root"}
        inputs = stack_posteriors([model._zeta_posterior(X, np.full((1, 3), 0.1), CPU, torch.float64)])
        labels = torch.from_numpy((y - y.mean()) / y.std())[None, :, None]
        noise = torch.tensor(model.y_noise_ / y.std())[None]
        draws = ZetaDraws.of("informed", 32, inputs)
        posterior.finish(inputs, labels, noise, draws, Streams(SeedSequence(9).spawn(1), CPU, torch.float64))
        other.posterior_ = posterior
        here = other.predict_distribution(zeta, X_err=0).epistemic
        ratio = np.sqrt(np.mean(there**2) / np.mean(here**2))
        assert 0.9 < ratio < 1.1
