"""Likelihoods beside the normal one on a GPU, against the CPU in float64, from the same state.

`devices.py` says how far the two may differ, and why. Heads of noise that varies are open, whatever a fit of four
epochs has decided.
"""

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from devices import (
    CPU,
    DEVICE,
    KINDS,
    MARKS,
    N_ROWS,
    NOISE,
    SIDES,
    assert_same,
    assert_same_gradient,
    copy_weights,
    fresh,
    gradient,
    model_of,
    rounded,
    standard,
    table,
    twin,
    untrained,
    zetas_of,
)
from numpy.random import SeedSequence

from eiv import EiVClassifier
from eiv.engine.graphs import matmul_precision
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods import (
    NOISE_RULES,
    CategoricalLikelihood,
    NormalLikelihood,
    StudentTLikelihood,
    VaryingLikelihood,
)

pytestmark = [*MARKS, pytest.mark.usefixtures("any_head")]
# Renewed states are maxima of means of float32 passes: Newton steps of up to 1e-3 are left undone (`tailsearch`).
STATE = 2e-3
PROBABILITY = 1e-5  # of a class: outputs are float32 passes, each off by 1e-6 or so
KNOWN = np.random.default_rng(3).uniform(0.1, 1, (N_ROWS, 2))


def likelihood_of(kind):
    """A likelihood of two networks and two outputs, in float64 on the CPU."""
    rule = NOISE_RULES["likelihood"]
    if kind == "student_t":
        return StudentTLikelihood(NOISE.clone(), torch.tensor([[3.0, 8.0], [5.0, 30.0]], dtype=torch.float64), rule)
    if kind == "varying":
        started = VaryingLikelihood.start(NOISE.clone(), rule)
        return opened(started)
    return CategoricalLikelihood(2) if kind == "categorical" else NormalLikelihood(NOISE.clone(), rule)


def opened(likelihood):
    """The same with its heads open."""
    likelihood.share.fill_(1.0)
    likelihood.limits.copy_(torch.tensor([[-1.0, -1.0, 1.0, 1.0]]).expand_as(likelihood.limits))
    return likelihood


def model(kind, family, inputs, **changes):
    """A model of two outputs with this likelihood, its rows and their errors."""
    found, X, y, errors = model_of(family, inputs, "paper's", likelihood=kind, **changes)
    if kind == "varying":
        opened(found.model_.likelihood)
    return found, X, y, errors


def labels_of(kind, y):
    """Labels as two networks see them; classes are 0 and 1."""
    if kind != "categorical":
        return standard(y)
    return torch.nn.functional.one_hot(torch.from_numpy((y[:, 0] > 0).astype(int)), 2).double().expand(2, -1, -1)


@pytest.mark.parametrize(
    ("inputs", "known"),
    [("exact", None), ("one noisy", None), ("per row", None), ("per row", 0.3), ("covariances", None)],
)
@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("kind", ["student_t", "varying"])
def test_moments_quantiles_and_covariances(kind, family, inputs, known):
    errors_of_labels = None if known is None else known * KNOWN
    fitted, X, y, errors = model(kind, family, inputs, y_err=errors_of_labels)
    found, wanted = (
        each.predict_distribution(X, X_err=errors, y_err=errors_of_labels) for each in (twin(fitted), fitted)
    )
    assert_same(found, wanted, y, family)
    scale = y.std(0)
    pairs = ((found.noise_covariance, wanted.noise_covariance), (found.covariance("label"), wanted.covariance("label")))
    for one, other in pairs:
        assert (np.abs(one - other) / np.outer(scale, scale)).max() < 1e-4
    assert np.abs(wanted.noise_covariance[:, 0, 1]).max() > 0  # outputs that go together
    drawn = [each.samples(of="label", random_state=0) for each in (found, wanted)]
    assert (np.abs(drawn[0] - drawn[1]) / scale).max() < 1e-3  # of draws of f in another order none


@pytest.mark.parametrize("known", [False, True], ids=["", "y_err"])
@pytest.mark.parametrize("inputs", ["exact", "one noisy", "per row"])
@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("kind", ["student_t", "varying", "categorical"])
def test_gradients_of_a_step(kind, family, inputs, known):
    """The data's part of eq. (mcloss); one noisy feature by the rule for it."""
    if kind == "categorical" and known:
        pytest.skip("classes have no error bars")
    X, y, errors = table(inputs)
    network = "normal" if kind == "categorical" else kind
    started, *_ = model_of("bernoulli_dropout", inputs, "paper's", epochs=1, likelihood=network)
    zetas = zetas_of(started, X, errors)
    draws = (
        None if inputs == "exact" else ZetaDraws.of("interpolated" if inputs == "one noisy" else "stratified", 8, zetas)
    )
    streams = Streams(SeedSequence(1).spawn(2), CPU, torch.float64)
    zeta = zetas.mean.unsqueeze(2) if draws is None else zetas.draw(draws.base(streams, N_ROWS))
    found, wanted = (
        gradient(
            fresh(started, family, device, dtype),
            zeta,
            labels_of(kind, y),
            quadrature=None if draws is None else draws.quadrature(dtype, device),
            y_err=torch.from_numpy(KNOWN).expand(2, -1, -1) if known else None,
            likelihood=likelihood_of(kind),
        )
        for device, dtype in SIDES
    )
    assert_same_gradient(found, wanted)


@pytest.mark.parametrize("known", [False, True], ids=["", "y_err"])
@pytest.mark.parametrize("inputs", ["exact", "three noisy"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("kind", ["normal", "student_t", "varying"])
def test_renewed_states_and_correlations(kind, weighted, inputs, known):
    """What is found from the same weights, rows and random numbers; half of the rows are held out."""
    X, y, errors = table(inputs)
    started, *_ = model_of("bernoulli_dropout", inputs, "paper's", epochs=1, likelihood=kind)
    zetas, states = zetas_of(started, X, errors), []
    weights = torch.from_numpy(0.2 + np.random.default_rng(4).uniform(0, 2, (1, N_ROWS))).expand(2, -1)
    for device, dtype in SIDES:
        y_err = torch.from_numpy(KNOWN).expand(2, -1, -1).to(device, dtype) if known else None
        of_rows = weights.to(device, dtype) if weighted else None
        rows = Rows(zetas.to(device, dtype), standard(y).to(device, dtype), y_err, of_rows)
        draws = None if inputs == "exact" else ZetaDraws.of("stratified", 8, rows.inputs)
        streams = Streams(SeedSequence(6).spawn(2), device, dtype, portable=True)
        likelihood = likelihood_of(kind).to(device, dtype)
        with matmul_precision(device, "float32"), torch.no_grad():
            posterior = fresh(started, "linearised_laplace", device, dtype)
            likelihood.renew(posterior, rows.between(0, 30), rows.between(30, 60), draws, streams, is_last=False)
            likelihood = likelihood.finished(posterior, rows, draws, streams)
        states.append({name: value.double().cpu() for name, value in likelihood.state.items()})
    for name, wanted in states[1].items():
        torch.testing.assert_close(states[0][name], wanted, rtol=STATE, atol=STATE, msg=name)
    off = states[1]["correlation"] - torch.eye(2, dtype=torch.float64)
    assert (off.abs().amax((1, 2)) > 0.01).all()


def classes_model(family, inputs, **changes):
    """A classifier of three classes, its rows and their errors."""
    X, y, errors = table(inputs)
    arguments = {
        "posterior": family, "hidden_units": 16, "n_hidden": 2, "dropout": 0.2, "epochs": 4, "batch_size": 20,
        "n_networks": 2, "random_state": 0, "dtype": "float64", "device": "cpu", "n_theta": 20, "n_zeta": 5,
        "zeta_draws": "stratified", "input_prior": "normal",
    }  # fmt: skip
    labels = np.digitize(y[:, 0], [-0.5, 0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = EiVClassifier(**arguments | changes).fit(X, labels, X_err=errors)
    return rounded(model), X, errors


@pytest.mark.parametrize("inputs", ["exact", "one noisy", "three noisy", "per row", "covariances"])
@pytest.mark.parametrize("family", KINDS)
def test_probabilities_of_classes_and_their_entropies(family, inputs):
    model, X, errors = classes_model(family, inputs)
    posterior = untrained(model, DEVICE, dtype="float32")
    copy_weights(model.posterior_, posterior)
    posterior.load_state(model.posterior_.state)
    there = copy.copy(model)
    there.model_ = replace(model.model_, posterior=posterior)
    found, wanted = (each.predict_distribution(X, X_err=errors) for each in (there, model))
    np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=PROBABILITY)
    for part in ("label", "aleatoric", "epistemic"):
        np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), atol=PROBABILITY)
    assert (wanted.aleatoric > 1e-6).any() == (inputs != "exact")


@pytest.mark.parametrize("family", KINDS)
def test_a_fit_to_classes_on_the_device(family):
    """Probabilities of a whole fit are those of the CPU, as far as fits with other seeds agree."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (300, 2))
    X, y = zeta + 0.2 * random.standard_normal(zeta.shape), (zeta.sum(1) + 0.3 * random.standard_normal(300) > 0)
    found = []
    for device, dtype in SIDES:
        known = {"dtype": str(dtype).removeprefix("torch."), "device": str(device)}
        short = {"hidden_units": 16, "n_hidden": 2, "epochs": 40, "batch_size": 20, "random_state": 0, "n_theta": 40}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = EiVClassifier(0.2, posterior=family, **short | known).fit(X, y)
        found.append(model.predict_proba(X[:60]))
    assert np.sqrt(np.mean((found[0] - found[1]) ** 2)) < 0.1
