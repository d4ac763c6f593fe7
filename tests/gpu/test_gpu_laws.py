"""What else can be said of the errors of X: laws, missing readings, sizes that are learned, zetas that are moved.

`devices.py` says how far the GPU and the CPU in float64 may differ, and why.
"""

import warnings

import numpy as np
import pytest
import torch
from devices import (
    GRADIENT,
    KINDS,
    MARKS,
    NOISE,
    SIDES,
    OwnModule,
    assert_same,
    assert_same_gradient,
    fresh,
    gradient,
    model_of,
    rounded,
    standard,
    table,
    twin,
    zetas_of,
)
from numpy.random import SeedSequence
from torch import nn

import eiv
from eiv import EiVRegressor, NormalPrior
from eiv.engine.batch import Batch
from eiv.engine.graphs import matmul_precision
from eiv.engine.optim import FlatAdam
from eiv.engine.streams import Streams
from eiv.inputs import MOVED_ZETAS, ZetaDraws
from eiv.likelihoods import NormalLikelihood
from eiv.training.moved import MovedZetaStep
from eiv.training.steps import Counts

pytestmark = MARKS
LAWS = {
    "rectangular": eiv.rectangular(0.3),
    "triangular": eiv.triangular(0.3),
    "student_t": eiv.student_t(0.2, dof=4),
    "growing": eiv.growing(0.1, 0.1),
}
OWN_FOR_EACH = ["±0.3", 0.2, "+0.3 -0.1"]


def fitted(x_err, family="linearised_laplace", with_gaps=False, **changes):
    X, y, _ = table("three noisy")
    if with_gaps:
        X = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    arguments = {
        "posterior": family, "input_prior": NormalPrior(std=0.7), "hidden_units": 16, "n_hidden": 2, "dropout": 0.2,
        "epochs": 2, "batch_size": 20, "n_zeta": 5, "zeta_draws": "stratified", "module": OwnModule,
    } if changes.get("network") != "cosine" else {"hidden_units": 16}  # fmt: skip
    known = {"n_theta": 40, "random_state": 0, "dtype": "float64", "device": "cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few epochs leave a loose bound
        return rounded(EiVRegressor(x_err, **known | arguments | changes).fit(X, y)), X, y


@pytest.mark.parametrize(
    ("x_err", "family"),
    [(law, "linearised_laplace") for law in LAWS.values()] + [(OWN_FOR_EACH, family) for family in KINDS],
    ids=[*LAWS, *(f"each its own, {family}" for family in KINDS)],
)
def test_laws_of_the_errors(x_err, family):
    model, X, y = fitted(x_err, family)
    assert_same(twin(model).predict_distribution(X), model.predict_distribution(X), y, family)


@pytest.mark.parametrize("family", KINDS)
def test_missing_readings_are_integrated_over(family):
    model, X, y = fitted([0.1, 0.2, 0.3], family, with_gaps=True, missing="integrate", input_prior="normal")
    assert_same(twin(model).predict_distribution(X), model.predict_distribution(X), y, family)


@pytest.mark.parametrize("changes", [{}, {"with_gaps": True, "missing": "integrate"}], ids=["", "missing readings"])
def test_sizes_that_were_learned(changes):
    """A pool of networks of cosines at each size; its moments are known in closed form."""
    model, X, y = fitted(eiv.estimated(0.2, dof=8), network="cosine", **changes)
    assert model.x_err_scale_ is not None
    assert_same(twin(model).predict_distribution(X), model.predict_distribution(X), y, "last_layer_laplace")


@pytest.mark.parametrize("kind", MOVED_ZETAS)
@pytest.mark.parametrize("inputs", ["one noisy", "three noisy", "per row"])
def test_gradients_with_zetas_that_are_moved(inputs, kind):
    """Zetas are at their maxima, where rounding moves them by far less than an error of x: `GRADIENT`."""
    X, y, errors = table(inputs)
    model, *_ = model_of("linearised_laplace", inputs, "own", epochs=1, input_prior=NormalPrior(std=0.7))
    results = []
    for device, dtype in SIDES:
        zetas = zetas_of(model, X, errors).to(device, dtype)
        draws = ZetaDraws.of(kind, None, zetas)
        posterior = fresh(model, "linearised_laplace", device, dtype)
        streams = Streams(SeedSequence(1).spawn(2), device, dtype, portable=True)
        batch = Batch(zetas.draw(draws.base(streams, len(X))), standard(y).to(device, dtype), None, None, {})
        adam, total = FlatAdam(posterior.parameters, 0.0), torch.zeros(2, device=device, dtype=dtype)
        likelihood = NormalLikelihood(NOISE).to(device, dtype)
        step = MovedZetaStep(posterior, likelihood, Counts(len(X), len(X)), adam, kind == "laplace")
        with matmul_precision(device, "float32"):
            step(batch, total)
        results.append((adam.gradient.double().cpu(), total.double().cpu()))
    assert_same_gradient(*results, GRADIENT)


@pytest.mark.parametrize("family", KINDS)
def test_gradients_of_silu(family):
    """Which torch's own operations find on the fast path, beside the kernels for leaky ReLU."""
    X, y, errors = table("three noisy")

    def module(n_inputs, n_outputs):
        layers = [nn.Linear(n_inputs, 16), nn.SiLU(), nn.Dropout(0.2), nn.Linear(16, 16), nn.SiLU(), nn.Dropout(0.2)]
        return nn.Sequential(*layers, nn.Linear(16, n_outputs))

    model, *_ = model_of("bernoulli_dropout", "three noisy", "paper's", epochs=1, module=module)
    zeta = zetas_of(model, X, errors).draw(torch.randn(2, len(X), 6, 3, dtype=torch.float64))
    results = [
        gradient(fresh(model, family, device, dtype, precision="float32"), zeta, standard(y)) for device, dtype in SIDES
    ]
    assert_same_gradient(*results)


def test_true_inputs():
    """Lines and thetas are the same on both; f is float32 numbers, and a mean over lines is off by no more."""
    model, X, y = fitted([0.1, 0.2, 0.3])
    found, wanted = (each.true_inputs(X[:10], y[:10]) for each in (twin(model), model))
    for part in ("mean", "std"):
        difference = np.abs(getattr(found, part) - getattr(wanted, part))
        assert difference.max() < 1e-3 * wanted.std.min(), part
