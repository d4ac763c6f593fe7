import dataclasses
import inspect
import math
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from eiv import EiVClassifier, EiVRegressor
from eiv.inputs import ZetaDraws, ZetaNormal
from eiv.likelihoods import NOISE_RULES
from eiv.likelihoods.noise import unless_unseen_disagree
from eiv.metrics import coverage
from eiv.training import Schedule
from eiv.training.settings import RECIPES, SETTINGS, Settings, settings_for

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
FAST = {"hidden_units": 16, "n_hidden": 2, "n_theta": 10, "random_state": 0, "device": "cpu"}


def test_the_paper_s_recipe():
    found = settings_for({"recipe": "paper"}, n_rows=12345)
    assert found == Settings(
        input_prior="flat", zeta_draws="monte_carlo", n_zeta=5, posterior="bernoulli_dropout", hidden_units=128,
        n_hidden=4, dropout=0.1, weight_penalty=10.0, epochs=100, batch_size=16, learning_rate=1e-3,
        learning_rate_decay=0.0, y_noise="rmse", y_noise_init=0.5, y_noise_every=40, held_out=0.0, n_theta=100,
        recipe="paper", error_model="classical", module=None, n_networks=1, standardise=True, device="auto",
        dtype="float32", precision="auto", verbose=False, likelihood="normal", network="paper",
        x_err_factor=1.0, missing="refuse",
    )  # fmt: skip


@pytest.mark.parametrize("n_rows", [2, 100, 300, 500, 5_000, 20_000, 100_000])
def test_the_default_recipe_trains_by_steps(n_rows):
    found = settings_for({"recipe": "default"}, n_rows)
    steps = found.epochs * -(-n_rows // found.batch_size)
    assert steps >= 5000
    assert steps < 5000 * (1 + 1 / 30) + 40 * found.epochs or found.epochs == 10
    assert found.epochs % found.y_noise_every == 0  # the last epoch renews sigma_y
    assert 15 <= found.epochs / found.y_noise_every <= 60 or found.y_noise_every == 1
    assert found.batch_size == 64 or n_rows > 5000


@pytest.mark.parametrize("recipe", RECIPES)
def test_arguments_come_before_the_recipe(recipe):
    given = {"epochs": 7, "batch_size": 9, "dropout": 0.3, "y_noise": 0.2, "held_out": 0.0, "n_zeta": 4}
    found = dataclasses.asdict(settings_for({"recipe": recipe, **given}, 50))
    assert {name: found[name] for name in given} == given


def test_a_model_says_what_it_was_fitted_with(line, tmp_path):
    X, y = line
    model = EiVRegressor(0.1, epochs=3, **FAST).fit(X, y)
    assert model.settings_ == settings_for(model.get_params(), len(X))
    assert model.settings_.posterior == "linearised_laplace"
    assert model.epochs == 3
    assert model.batch_size is None  # arguments stay as they were given
    model.save(tmp_path / "model.eiv")
    again = EiVRegressor.load(tmp_path / "model.eiv")
    assert again.settings_ == model.settings_
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="recipe must be 'default' or 'paper', got 'mine'"):
        EiVRegressor(recipe="mine").fit(X, y)


def test_a_module_needs_no_dropout_layers(line):
    X, y = line

    def module(n_inputs, n_outputs):
        return nn.Sequential(nn.Linear(n_inputs, 8), nn.Tanh(), nn.Linear(8, n_outputs))

    p = EiVRegressor(0.1, module=module, epochs=5, random_state=0).fit(X, y).predict_distribution(X)
    assert (p.epistemic > 0).all()


@pytest.mark.parametrize(("n_noisy", "kind", "n_zeta"), [(1, "interpolated", 16), (2, "informed", 32)])
def test_the_way_to_integrate_goes_by_the_noisy_features(n_noisy, kind, n_zeta):
    std = torch.where(torch.arange(3) < n_noisy, 0.1, 0.0).reshape(1, 1, 3)
    draws = ZetaDraws.of("auto", None, ZetaNormal(torch.zeros(1, 5, 3), std))
    assert (draws.kind, draws.n_zeta) == (kind, n_zeta)


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")  # of the network that is fooled
@pytest.mark.parametrize("x_err", [None, 0.3])
def test_rows_that_are_held_out_keep_overfitting_out_of_sigma_y(x_err):
    """Labels that are noise alone: a network of many weights learns them by heart, and sigma_y must not shrink.

    SWAG, since Laplace's approximation splits the error on rows held out between sigma_y and the weights.
    """
    random = np.random.default_rng(0)
    X, y = random.standard_normal((60, 5)), random.standard_normal(60)
    settings = {"posterior": "swag", "weight_penalty": 0.01, "epochs": 400, "hidden_units": 64, "random_state": 0}
    honest = EiVRegressor(x_err, **settings).fit(X, y).y_noise_[0]
    fooled = EiVRegressor(x_err, held_out=0.0, **settings).fit(X, y).y_noise_[0]
    assert fooled < 0.4
    assert honest > 0.6  # 12 rows: a standard error of 20 % below 1, within three of them


@pytest.mark.slow
def test_labels_that_are_noise_alone_are_covered():
    """The default recipe calls some of that noise uncertainty about f, but its intervals hold."""
    random = np.random.default_rng(0)
    X, y = random.standard_normal((560, 5)), random.standard_normal(560)
    p = EiVRegressor(0.3, epochs=400, random_state=0).fit(X[:60], y[:60]).predict_distribution(X[60:])
    assert coverage(y[60:], *p.interval(0.95, of="label")) > 0.9


def test_what_held_out_rows_say_counts_where_they_disagree():
    found = torch.tensor([2.0, 2.0, 2.0, 2.0])
    error = torch.tensor([100.0, math.log(2), math.log(2) / 2, 1e-3])  # of an estimate of 1
    blend = unless_unseen_disagree(found, torch.ones(4), error)
    torch.testing.assert_close(blend, torch.tensor([2.0, 2 ** (16 / 17), 2**0.5, 1.0]))


def test_the_error_of_f_is_not_counted_twice():
    """Linear regression with 24 weights and 80 rows, where the error of f is 0.4 on rows that are held out: from their
    residuals alone sigma_y comes out near 0.64 instead of 0.5."""

    def rows(seed):
        random = np.random.default_rng(seed)
        X = random.standard_normal((80, 24))
        return X, X @ slopes + 0.5 * random.standard_normal(80)

    slopes = 0.3 * np.random.default_rng(9).standard_normal(24)
    settings = {"posterior": "last_layer_laplace", "module": nn.Linear, "weight_penalty": 0.5, "standardise": False}
    training = {"epochs": 300, "learning_rate": 0.01, "held_out": 0.2, "n_networks": 16}
    found = [EiVRegressor(**settings, **training, random_state=seed).fit(*rows(seed)).y_noise_[0] for seed in range(3)]
    assert 0.42 < np.mean(found) < 0.58  # 56 degrees of freedom each: a standard error of 5.5 %, three of them


def test_sigma_y_falls_slowly_until_the_end():
    schedule = Schedule(10, 8, 1e-3, 5, renew_every=3)
    assert [epoch for epoch in range(1, 11) if schedule.renews(epoch)] == [3, 6, 9]
    assert [schedule.is_last_renewal(epoch) for epoch in (3, 6, 9)] == [False, False, True]
    assert {name: rule.least_share for name, rule in NOISE_RULES.items()} == {
        "rmse": 0.0,
        "residual": 0.0,
        "likelihood": 0.8,
    }


def test_each_setting_is_an_argument_with_its_check_and_its_sentence():
    signature = inspect.signature(EiVRegressor).parameters
    assert {*signature} == {*SETTINGS} | {"x_err", "random_state"}
    text = " ".join(inspect.getdoc(EiVRegressor).split())
    for name, setting in SETTINGS.items():
        assert f"{name}: {setting.text}" in text, name
        assert signature[name].default == (None if setting.of_recipe else setting.default), name
        for value in (setting.paper, setting.default):
            assert setting.constraint.holds(value), name
        assert not setting.constraint.holds(object()), name


NOT_OF_CLASSES = {"y_noise", "y_noise_init", "y_noise_every", "held_out", "likelihood"}  # a class has no sigma_y
OF_CLASSES = {  # settings whose sentence differs for classes, and why
    "input_prior": "it is the same for all classes",
    "x_err_factor": "only networks of cosines find it",
    "posterior": "another default",
    "module": "as many outputs as classes",
    "network": "no network of cosines",
    "hidden_units": "no network of cosines",
    "dropout": "another default",
    "n_zeta": "all thetas are crossed with all zetas",
    "n_theta": "no network of cosines",
    "standardise": "labels have no units",
}


def test_arguments_of_the_classifier_are_settings_with_their_sentences_or_declared_exceptions():
    signature = inspect.signature(EiVClassifier).parameters
    assert {*signature} == {*SETTINGS} - NOT_OF_CLASSES | {"x_err", "random_state"}
    text = " ".join(inspect.getdoc(EiVClassifier).split())
    for name in {*signature} & {*SETTINGS}:
        setting = SETTINGS[name]
        assert f" {name}: " in text, name
        assert (f" {name}: {setting.text}" in text) == (name not in OF_CLASSES), name
        assert signature[name].default == (None if setting.of_recipe else setting.default), name


TABLES = {
    "input_prior": "eiv.inputs.PRIORS",
    "posterior": "eiv.posteriors.FAMILIES",
    "y_noise": "eiv.likelihoods.NOISE_RULES",
    "likelihood": "eiv.likelihoods.LIKELIHOODS",
}


@pytest.mark.parametrize("name", TABLES)
def test_names_that_can_be_added_stand_in_their_table_alone(name):
    """The sentence of a setting says where they are, the refusal of another name lists them, and so do the docs."""
    setting, names = SETTINGS[name], pkgutil.resolve_name(TABLES[name])
    assert f"`{TABLES[name]}`" in setting.text
    assert {*re.findall(r'"(\w+)"', setting.text)} == {setting.paper, setting.default}
    assert "Literal" not in inspect.signature(EiVRegressor).parameters[name].annotation
    with pytest.raises(ValueError, match=f"{name} must be .*" + ".*".join(map(repr, names))):
        EiVRegressor(0.1, **{name: "nonsense"}).fit([[0.0], [1.0]], [0.0, 1.0])
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{name}` |"))
    assert row.split(" | ")[1] == f"`{TABLES[name]}`"
    assert re.findall(r'`"(\w+)"`', row) == [*names]


def test_what_a_sentence_or_a_check_names_exists():
    for setting in SETTINGS.values():
        for name in re.findall(r"eiv(?:\.\w+)+", f"{setting.text} {setting.constraint.words}"):
            assert pkgutil.resolve_name(name) is not None
