"""Models of one stack that differ in their weight penalty and in the factor of their errors: as if fitted alone."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from eiv import EiVRegressor, NormalPrior
from eiv.model import Names
from eiv.posteriors import FAMILIES, BernoulliDropout
from eiv.training.fitting import Spec, Table, _side_by_side, fit_stack
from extensions import CommonFactor, FactorOfSize

pytestmark = pytest.mark.usefixtures("few_zetas")
RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, (40, 2))
Y = np.sin(2 * X[:, :1]) + X[:, 1:] ** 2 + 0.1 * RANDOM.standard_normal((40, 1))
ERRORS = np.array([[0.1, 0.05]])
COVARIANCE = np.array([[[0.01, 0.004], [0.004, 0.0025]]])
X_NEW = np.linspace(-1, 1, 10).reshape(5, 2)
ONLY_OF_STEPS = ("n_hidden", "epochs", "batch_size", "learning_rate", "y_noise_every")
PENALTIES, FACTORS, SEEDS = (0.2, 20.0), (0.5, 2.0), (3, 4)


def smooth(n_inputs, n_outputs):
    """A network that only autograd evaluates."""
    return nn.Sequential(nn.Linear(n_inputs, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, n_outputs))


NETWORKS = {"the paper's": None, "own module": smooth}


def spec(place, penalty=None, factor=None, **arguments):
    settings = {
        "hidden_units": 8, "n_hidden": 2, "epochs": 3, "batch_size": 16, "learning_rate": 1e-2, "y_noise_every": 2,
        "n_theta": 10, "n_networks": 2, "dtype": "float64", "device": "cpu", "recipe": "paper", "verbose": False,
    }  # fmt: skip
    settings["weight_penalty"] = PENALTIES[place] if penalty is None else penalty
    settings["x_err_factor"] = FACTORS[place] if factor is None else factor
    return Spec(EiVRegressor(**settings | arguments).get_params(deep=False), SEEDS[place])


def table(errors=ERRORS):
    return Table(X, errors, Y)


def parameters(model):
    return model.posterior.stack.parameters | model.posterior.state


def assert_same(one, two):
    assert one.posterior.weight_penalty == two.posterior.weight_penalty == one.settings.weight_penalty
    mine, other = parameters(one), parameters(two)
    assert mine.keys() == other.keys()
    for name, value in mine.items():
        torch.testing.assert_close(value, other[name], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(one.posterior.kl(), two.posterior.kl(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(one.record.loss_curve, two.record.loss_curve, rtol=1e-6)
    np.testing.assert_allclose(one.y_noise, two.y_noise, rtol=1e-6)
    np.testing.assert_array_equal(one.x_err, two.x_err)
    found, expected = (model.predict(X_NEW, model.x_err[None]) for model in (one, two))
    for part in ("mean", "epistemic", "aleatoric", "noise"):
        np.testing.assert_allclose(getattr(found, part), getattr(expected, part), rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("family", [*FAMILIES, CommonFactor], ids=[*FAMILIES, "own family"])
def test_penalties_and_errors_of_their_own(family, network):
    own = {"posterior": family, "module": NETWORKS[network]}
    together = fit_stack([spec(0, **own), spec(1, **own)], [table(), table()])
    for place, model in enumerate(together):
        assert_same(model, *fit_stack([spec(place, **own)], [table()]))
    for changed in ({"penalty": PENALTIES[1]}, {"factor": FACTORS[1]}):
        (other,) = fit_stack([spec(0, **changed, **own)], [table()])
        found = parameters(together[0]).items()
        assert not all(torch.allclose(value, parameters(other)[name], rtol=1e-3) for name, value in found)


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
@pytest.mark.parametrize("draws", ["monte_carlo", "auto"])
@pytest.mark.parametrize("prior", ["flat", "mixture"])
def test_neighbours_with_exact_inputs_or_other_noisy_columns(draws, prior):
    """How many numbers a zeta takes, and how they are drawn, depends on which columns are noisy."""
    errors = [ERRORS, 0 * ERRORS, ERRORS * [1, 0], np.tile(ERRORS, (40, 1)), ERRORS]
    specs = [spec(0, factor=factor, zeta_draws=draws, input_prior=prior) for factor in (1, 1, 1, 1, 0)]
    done = []
    together = fit_stack(specs, [table(each) for each in errors], done.append)
    assert done == sorted(done)
    assert done[-1] == 1
    for own, each, model in zip(specs, errors, together, strict=True):
        (alone,) = fit_stack([own], [table(each)])
        for name, value in parameters(model).items():
            torch.testing.assert_close(value, parameters(alone)[name], rtol=1e-6, atol=1e-9)
    assert np.array_equal(together[1].record.loss_curve, together[4].record.loss_curve)  # both have exact inputs


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_one_of_them_without_a_prior(family):
    own = {"posterior": family, "dropout": 0.1}
    specs = [spec(0, 0.0, 1.0, **own), spec(1, 10.0, 1.0, **own)]
    for model, alone in zip(fit_stack(specs, [table(), table()]), specs, strict=True):
        assert_same(model, *fit_stack([alone], [table()]))


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
@pytest.mark.parametrize("family", ["last_layer_laplace", "linearised_laplace"])
def test_the_penalty_is_the_prior_precision_of_each(family):
    """Where a label tells next to nothing, C is lambda_theta^2 = 1 / (2 weight_penalty) times the unit matrix."""
    own = {"posterior": family, "y_noise": 1e6}
    for penalty, model in zip(PENALTIES, fit_stack([spec(0, **own), spec(1, **own)], [table(), table()]), strict=True):
        root = model.posterior.kept["root"]
        expected = torch.eye(root.shape[1], dtype=root.dtype).expand_as(root) / (2 * penalty)
        torch.testing.assert_close(root @ root.mT, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
def test_what_is_passed_stays_as_it_was():
    family, prior = FactorOfSize(0.3), NormalPrior(std=1.0)
    family_was, prior_was = copy.deepcopy(vars(family)), copy.deepcopy(vars(prior))
    specs = [spec(0, posterior=family, input_prior=prior), spec(1, posterior=family, input_prior=prior)]
    tables = [Table(X.copy(), ERRORS.copy(), Y.copy(), 0.1 * np.ones_like(Y)) for _ in specs]
    arguments, was = [dict(each.arguments) for each in specs], copy.deepcopy(tables)
    models = fit_stack(specs, tables)
    assert (vars(family), vars(prior)) == (family_was, prior_was)
    for now, before, own, kept in zip(specs, arguments, tables, was, strict=True):
        assert now.arguments == before
        for name in ("x", "x_err", "y", "y_err"):
            np.testing.assert_array_equal(getattr(own, name), getattr(kept, name))
    with pytest.raises(ValueError, match="read-only"):
        models[0].weights[0] = 1.0


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
@pytest.mark.parametrize("family", ["bernoulli_dropout", "linearised_laplace", "mean_field"])
def test_in_two_groups_and_in_float32(family, monkeypatch):
    """A worker for each of two networks; float32 rounds in the seventh digit, which a few steps make some ten times."""
    own = {"posterior": family, "dtype": "float32", "n_networks": 1}
    specs = [spec(0, **own), spec(1, **own)]
    together = fit_stack(specs, [table(), table()])
    monkeypatch.setattr("eiv.training.fitting.n_workers", lambda *_: 2)
    for model, apart in zip(together, fit_stack(specs, [table(), table()]), strict=True):
        for name, value in model.posterior.stack.parameters.items():
            torch.testing.assert_close(value, apart.posterior.stack.parameters[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("errors", [ERRORS, np.tile(ERRORS, (40, 1)), COVARIANCE], ids=["shared", "per row", "matrix"])
def test_the_factor_is_that_of_standard_deviations(errors):
    (found,) = fit_stack([spec(0, factor=0.5)], [table(errors)])
    (expected,) = fit_stack([spec(0, factor=1.0)], [table(errors / (4 if errors.ndim == 3 else 2))])
    for name, value in parameters(found).items():
        torch.testing.assert_close(value, parameters(expected)[name])
    prediction, wanted = (
        model.predict(X_NEW, np.tile(each, (len(X_NEW), 1, 1)) if each.ndim == 3 else each[:1])
        for model, each in ((found, errors), (expected, errors / (4 if errors.ndim == 3 else 2)))
    )
    np.testing.assert_allclose(prediction.aleatoric, wanted.aleatoric)
    np.testing.assert_allclose(found.record.x_err_median, np.sqrt(np.diag(COVARIANCE[0])))  # as it is stated


def test_a_factor_of_zero_ignores_the_errors():
    (found,) = fit_stack([spec(0, factor=0.0)], [table()])
    (expected,) = fit_stack([spec(0, factor=1.0)], [table(0 * ERRORS)])
    for name, value in parameters(found).items():
        torch.testing.assert_close(value, parameters(expected)[name])
    assert not found.predict(X_NEW, ERRORS).aleatoric.any()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("epochs", (3, 4)),
        ("posterior", ("swag", "ensemble")),
        ("y_noise", ("rmse", "residual")),
        ("n_zeta", (5, 6)),
        ("posterior", ("bernoulli_dropout", CommonFactor)),
        ("posterior", (CommonFactor, BernoulliDropout)),
    ],
)
def test_models_of_another_kind_are_refused(name, values):
    with pytest.raises(ValueError, match=f"{name} must be the same for all models of a stack"):
        fit_stack([spec(place, **{name: value}) for place, value in enumerate(values)], [table(), table()])


def test_known_noise_of_their_own():
    models = fit_stack([spec(0, y_noise=0.5), spec(1, y_noise=0.7)], [table(), table()])
    np.testing.assert_allclose([model.y_noise[0] for model in models], [0.5, 0.7])


def contents(value):
    """A value that compares equal as long as nothing in it has changed: arrays by their bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict | list | tuple):
        return [contents(each) for each in (value.items() if isinstance(value, dict) else value)]
    return [contents(each) for each in vars(value).values()] if dataclasses.is_dataclass(value) else value


def test_searches_that_end_in_different_rounds_stand_side_by_side():
    courses = _side_by_side([torch.tensor([3.0, 2.0, 1.0]), torch.tensor([5.0])])
    assert courses.tolist() == [[3.0, 5.0], [2.0, 5.0], [1.0, 5.0]]


@pytest.mark.parametrize(
    "arguments",
    [
        {"posterior": "linearised_laplace", "input_prior": "mixture", "held_out": 0.2, "y_noise": "likelihood"},
        {"posterior": "mean_field", "input_prior": NormalPrior(np.ones(2), np.zeros(2)), "y_noise": 0.5},
        {"recipe": "default", "network": "cosine", "hidden_units": 8} | dict.fromkeys(ONLY_OF_STEPS),
    ],
    ids=["default family", "own prior", "cosine"],
)
def test_a_fit_changes_none_of_its_arguments(arguments):
    errors = np.tile(ERRORS, (40, 1))
    specs = [spec(place, x_err=errors, **arguments) for place in (0, 1)]
    if "network" in arguments:
        specs = [each.given(weight_penalty=None) for each in specs]
    tables = [Table(X.copy(), errors, Y.copy(), np.full_like(Y, 0.05), Names(("a", "b"))) for _ in specs]
    before = copy.deepcopy(contents([specs, tables]))
    models = fit_stack(specs, tables)
    assert contents([specs, tables]) == before
    assert [model.seed for model in models] == [each.seed for each in specs]


def test_a_fitted_model_is_frozen():
    (model,) = fit_stack([spec(0)], [table()])
    for part in (model, model.settings, model.names, model.record, model.x_scaler):
        for field in dataclasses.fields(part):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(part, field.name, None)
