"""A fitted model without its estimator: rows to predict, their errors, and the number of draws."""

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np
import pytest
import torch

from eiv import EiVRegressor, MixturePrior, NormalPrior, estimated, relative
from eiv.io.modelfile import load_model
from eiv.model import Record

FAST = {"hidden_units": 8, "n_hidden": 2, "epochs": 2, "n_theta": 4, "random_state": 0, "recipe": "paper"}


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).normal(size=(60, 2))
    return EiVRegressor([0.1, 0.2], **FAST).fit(X, X.sum(1)), X[:5]


def test_it_predicts_as_its_estimator_does(fitted):
    estimator, X = fitted
    model = estimator.model_
    for X_err in (None, 0.3, relative(0.1), np.full((5, 2), 0.2)):
        found = model.predict(*model.readings(X, X_err)[:2])
        expected = estimator.predict_distribution(X, X_err=X_err)
        for part in ("mean", "epistemic", "aleatoric", "noise"):
            np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))


@pytest.mark.parametrize("made", ["fitted", "unpickled", "copied", "loaded", "replaced"])
def test_nothing_of_it_can_be_changed(fitted, made, tmp_path):
    estimator, X = fitted
    model = estimator.model_
    expected = model.predict(*model.readings(X)[:2]).mean
    if made == "loaded":
        estimator.save(tmp_path / "m.eiv")
        model = EiVRegressor.load(tmp_path / "m.eiv").model_
    made_from = {"unpickled": lambda m: pickle.loads(pickle.dumps(m)), "copied": copy.deepcopy, "replaced": replace}
    model = made_from.get(made, lambda m: m)(model)
    arrays = [model.y_noise, model.weights, model.x_err, model.x_scaler.scale, model.y_scaler.shift]
    arrays += [value for value in vars(model.record).values() if isinstance(value, np.ndarray)]
    assert len(arrays) >= 10
    for values in arrays:
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 99
    with pytest.raises(TypeError, match="does not support item assignment"):
        model.arguments["n_theta"] = 3
    with pytest.raises(FrozenInstanceError):
        model.seed = 1
    assert dict(model.arguments).keys() == dict(estimator.model_.arguments).keys()
    np.testing.assert_array_equal(model.predict(*model.readings(X)[:2]).mean, expected)


@pytest.fixture(scope="module")
def with_sizes():
    """A model that has learned its prior, the size of its errors, and how well each label is predicted."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (40, 1))
    X = zeta + 0.2 * random.normal(size=zeta.shape)
    settings = {"network": "cosine", "hidden_units": 4, "random_state": 0}
    return EiVRegressor(estimated(0.3, dof=4), **settings).fit(X, np.sin(3 * zeta[:, 0])).model_


def arrays_in(part, seen=()):
    """All arrays of a part of a fitted model, with its name: in dataclasses and tuples at any depth."""
    if isinstance(part, np.ndarray):
        yield ".".join(seen), part
    elif is_dataclass(part):
        for each in fields(part):
            yield from arrays_in(getattr(part, each.name), (*seen, each.name))
    elif isinstance(part, tuple):
        for place, each in enumerate(part):
            yield from arrays_in(each, (*seen, str(place)))


@pytest.mark.parametrize("made", ["fitted", "unpickled", "copied"])
def test_no_array_inside_its_parts_can_be_changed(with_sizes, made):
    made_from = {"unpickled": lambda m: pickle.loads(pickle.dumps(m)), "copied": copy.deepcopy}
    model = made_from.get(made, lambda m: m)(with_sizes)
    found = {}
    for name in ("sizes", "input_prior", "cloud", "record"):
        found |= dict(arrays_in(getattr(model, name), (name,)))
    assert {"sizes.factor", "sizes.nodes.0.factor", "sizes.nodes.0.input_prior.means", "cloud.quantiles"} < found.keys()
    assert {"input_prior.weights", "input_prior.covariances", "record.left_out.crps", "record.kernel"} < found.keys()
    for values in found.values():
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 99


@pytest.mark.filterwarnings("error:The given NumPy array is not writable")
def test_priors_take_copies_of_arrays_and_make_tensors_of_their_own():
    """A tensor that shared memory with a read-only array could be written to."""
    std, means = np.ones(1), np.zeros((1, 1))
    normal, mixture = NormalPrior(std), MixturePrior(np.ones(1), means, np.ones((1, 1)))
    std[:], means[:] = 5, 5
    assert (normal.std.tolist(), mixture.means.tolist()) == ([1.0], [[0.0]])
    x = torch.zeros(3, 1, dtype=torch.float64)
    for prior in (normal, mixture):
        for part in prior.components(x):
            part.fill_(7.0)
        assert prior.components(x)[2].tolist() == [[1.0]]


def test_arrays_of_others_stay_as_they_are():
    values = np.zeros((5, 2, 2))
    record = Record(*values)
    values[...] = 1
    assert not record.loss_curve.any()


def test_errors_are_checked(fitted):
    model = fitted[0].model_
    with pytest.raises(ValueError, match="X_err must not be negative, got -1"):
        model.readings(fitted[1], -1.0)
    per_row = EiVRegressor(**FAST).fit(fitted[1], fitted[1].sum(1), X_err=np.full((5, 2), [[0.1, 0.2]])).model_
    with pytest.raises(ValueError, match="X_err is needed"):
        per_row.readings(fitted[1])


def test_draws_that_were_changed_before_saving_are_those_of_the_file(fitted, tmp_path):
    estimator, X = fitted
    changed = EiVRegressor(**estimator.get_params()).fit(X, X.sum(1)).set_params(n_theta=7)
    changed.save(tmp_path / "m.eiv")
    saved = load_model(tmp_path / "m.eiv")
    assert (saved.model.settings.n_theta, saved.to_predict.settings.n_theta) == (4, 7)
    assert saved.to_predict.settings.n_zeta == saved.model.settings.n_zeta


def test_another_prior_leaves_the_model_as_it_was(fitted):
    model, X = fitted[0].model_, fitted[1]
    before = model.predict(*model.readings(X)[:2]).mean
    other = model.with_prior(NormalPrior(std=0.2))
    assert np.abs(other.predict(*other.readings(X)[:2]).mean - before).max() > 0
    np.testing.assert_array_equal(model.predict(*model.readings(X)[:2]).mean, before)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (lambda X: (X[:, :1], np.full((1, 1), 0.1)), r"x must have shape \(rows, 2\), got \(5, 1\)"),
        (lambda X: (X, 0.1), r"errors must be those of `readings\(x, X_err\)`"),
        (lambda X: (X, np.full((3, 2), 0.1)), "for all rows or for each"),
    ],
)
def test_rows_that_were_not_made_ready_are_refused(fitted, rows, words):
    estimator, X = fitted
    with pytest.raises(ValueError, match=words):
        estimator.model_.predict(*rows(X))


def test_the_other_kind_of_labels_and_an_unknown_method_are_refused(fitted):
    model, X = fitted[0].model_, fitted[1]
    with pytest.raises(ValueError, match="The model predicts numbers: use its method predict"):
        model.predict_classes(*model.readings(X)[:2])
    with pytest.raises(ValueError, match="method must be"):
        model.predict(*model.readings(X)[:2], method="exact")
