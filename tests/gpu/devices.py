"""Models on two devices: the one that is tested in float32 or float64, and the CPU in float64, from the same state.

Tolerances. The weights are float32 numbers on both sides, and random numbers are the same. What differs is rounding:

- `CLOSED`: families whose moments are known in closed form are evaluated in float64 on both; what is left is the order
  of sums, and base noise whose normal scores are taken by other routines.
- `DRAWN`: draws of other families are float32 passes without TF32, each off by some 1e-6 of the spread of y. A moment
  is compared on that scale. Quantiles are order statistics of the draws: they move no more than a draw does.
- `GRADIENT`: of a step, without TF32. Units whose input lies within rounding of the kink of a leaky ReLU switch sides,
  one in some ten thousand, and each is a share of the gradient.
- `BFLOAT16`: operands of the large products, and on a GPU their results, have 8 significant bits: each is off by 2^-9
  of its size at most. Two such products forwards and two backwards leave twelve roundings in the gradient of the first
  layer. If all agree in sign that is 12 x 2^-9 = 0.023, and units at the kink, which switch sides, make it more: 2^-5.
  On the CPU, which does not round results, it is 0.006 to 0.011.
- `INFORMATION`: the epistemic variance from information that is found anew on either side: scores are found in float64,
  but which of two zetas is chosen for a label can depend on the last digit of its noise.
- `BUDGET`: the variances behind a share V_i / V are off by some 1e-6 of that of f, which is up to 1,000 times V where
  the weights are so uncertain. An error d of V moves a share by d share / V, which is d share^2 / V_i.

`EIV_TEST_DEVICE=cpu` runs the suite on the CPU, float32 against float64, which leaves out the kernels.
"""

import copy
import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence
from torch import nn

from eiv import EiVRegressor, FlatPrior, MixturePrior
from eiv.engine.batch import Batch
from eiv.engine.graphs import matmul_precision
from eiv.engine.streams import Streams
from eiv.inputs.own import stack_posteriors
from eiv.likelihoods import NormalLikelihood
from eiv.posteriors import FAMILIES
from eiv.training.making import new_posterior
from eiv.training.steps import Counts, step_for

DEVICE = torch.device(os.environ.get("EIV_TEST_DEVICE", "cuda"))
MARKS = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE.type == "cuda" and not torch.cuda.is_available(), reason="torch sees no GPU here"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # of autograd's thread, once per process
]
CLOSED, DRAWN, GRADIENT, INFORMATION, BFLOAT16, BUDGET = 1e-6, 2e-5, 2e-3, 1e-2, 2**-5, 1e-3
N_ROWS, CPU = 60, torch.device("cpu")
SIDES = ((DEVICE, torch.float32), (CPU, torch.float64))
NOISE = torch.tensor([[0.4, 0.3], [0.5, 0.6]], dtype=torch.float64)  # of two networks and outputs
INPUTS = ["exact", "one noisy", "three noisy", "per row", "covariances"]
# A family of each kind: one mask per row, one draw per minibatch, a point with moments in closed form.
KINDS = ["bernoulli_dropout", "mean_field", "linearised_laplace"]


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


def model_of(family, inputs, network, y_err=None, **changes):
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
        model = EiVRegressor(**arguments | changes).fit(X, y, X_err=errors, y_err=y_err)
    return rounded(model), X, y, errors


def rounded(model):
    """The model, its weights rounded to float32."""
    posterior = model.posterior_
    for values in (posterior.stack.parameters, posterior.learned, posterior.kept):
        for value in values.values():
            value.data.copy_(value.data.float().double())
    return model


def untrained(model, device, **changes):
    """The weight posterior of fresh networks with the seeds of a model."""
    fitted = model.model_
    settings = replace(fitted.settings, **changes)
    return new_posterior(settings, fitted.n_features, fitted.n_outputs, fitted.seeds, device)


def with_posterior(model, posterior):
    """The same model with another weight posterior."""
    other = copy.copy(model)
    other.model_ = replace(model.model_, posterior=posterior)
    return other


def copy_weights(source, target):
    """Give one weight posterior the weights of another, rounded to float32."""
    with torch.no_grad():
        for name, value in target.stack.parameters.items():
            value.copy_(source.stack.parameters[name].float())
        for name, value in target.learned.items():
            value.copy_(source.learned[name].float())


def twin(model, dtype="float32"):
    """The same model on the device."""
    posterior = untrained(model, DEVICE, dtype=dtype)
    copy_weights(model.posterior_, posterior)
    posterior.load_state(model.posterior_.state)
    other, like, likelihood = with_posterior(model, posterior), posterior.parameters[0], model.model_.likelihood
    there = {name: value.to(like.device, like.dtype) for name, value in likelihood.state.items()}
    other.model_ = replace(other.model_, likelihood=likelihood.with_state(there))
    return other


def fresh(model, family, device, dtype, precision="auto"):
    """The posterior of a family as training begins with it, the same weights everywhere."""
    start = untrained(model, CPU, posterior=family, dtype="float64")
    there = {"dtype": str(dtype).removeprefix("torch."), "precision": precision}
    found = untrained(model, device, posterior=family, **there)
    copy_weights(start, found)
    found.begin(Streams(SeedSequence(5).spawn(2), device, dtype, portable=True))
    return found


def zetas_of(model, X, errors):
    """The posterior of zeta for two networks, standardised, on the CPU in float64."""
    given = np.zeros((1, 3)) if errors is None else np.atleast_2d(errors)
    return stack_posteriors([model.model_.zeta_posterior(X, given, CPU, torch.float64)] * 2)


def standard(y):
    """Labels as two networks see them."""
    return torch.from_numpy((y - y.mean(0)) / y.std(0)).expand(2, -1, -1)


def assert_same(found, wanted, y, family):
    """Moments and quantiles agree within the tolerance of the family, on the scale of y."""
    name = FAMILIES[family].__name__ if isinstance(family, str) else family.__name__
    tolerance = CLOSED if name in ("Ensemble", "LastLayerLaplace", "LinearisedLaplace") else DRAWN
    scale = y.std(0)
    for part in ("mean", "std", "epistemic", "aleatoric", "noise"):
        difference = np.abs(getattr(found, part) ** 2 - getattr(wanted, part) ** 2) / scale**2
        if part == "mean":
            difference = np.abs(found.mean - wanted.mean) / scale
        assert difference.max() < tolerance, part
    levels = [0.025, 0.5, 0.975]
    for of in ("function", "label"):
        difference = np.abs(found.quantile(levels, of=of) - wanted.quantile(levels, of=of)) / scale
        assert difference.max() < 5 * tolerance, of


def assert_same_budget(found, wanted):
    """Shares V_i / V agree, and so do rows whose V cannot be told from zero (NaN), but for one at the edge of that."""
    assert (np.isnan(found.shares) != np.isnan(wanted.shares)).any(-1).sum() <= 1
    difference = np.abs(found.shares - wanted.shares) / (1 + np.abs(wanted.shares)) ** 2
    assert np.isfinite(difference).any()
    assert np.nanmax(difference) < BUDGET


def gradient(posterior, zeta, labels, levels=None, quadrature=None, y_err=None, likelihood=None):
    """The gradient of the data's part of eq. (mcloss) in all weights, and its value for each network.

    The likelihood is normal with `NOISE` by default; it is moved to the device.
    """
    like = posterior.parameters[0]
    device, dtype, n_rows = like.device, like.dtype, labels.shape[1]
    likelihood = NormalLikelihood(NOISE) if likelihood is None else likelihood
    streams = Streams(SeedSequence(2).spawn(2), device, dtype, portable=True)
    draw = {} if posterior.trains_a_point else posterior.draw(streams, 1 if posterior.shares_draws else n_rows)
    step = step_for(posterior, likelihood.to(device, dtype), 0.0, Counts(n_rows, n_rows))
    step.quadrature, step.piecewise = quadrature, False  # the gradient is to be found whole
    values = [None if value is None else value.to(device, dtype) for value in (zeta, labels, y_err, levels)]
    total = torch.zeros(2, device=device, dtype=dtype)
    with matmul_precision(device, "float32"):
        step(Batch(*values, draw), total)
    return torch.cat([adam.gradient for adam in step.adams]).double().cpu(), total.double().cpu()


def assert_same_gradient(found, wanted, tolerance=GRADIENT, of_loss=1e-4):
    assert (found[0] - wanted[0]).norm() < tolerance * wanted[0].norm()
    torch.testing.assert_close(found[1], wanted[1], rtol=of_loss, atol=of_loss)
