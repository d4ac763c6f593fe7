"""The estimator's contract."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from eiv import EiVRegressor, NormalPrior, SuspiciousErrorWarning, TrainingDivergedError, fit_splits
from eiv.networks import paper_network
from eiv.training import choosing, train
from smallnets import BY_CHANCE, SmallConv

FAST = {"hidden_units": 16, "epochs": 5, "n_theta": 10, "random_state": 0}
# What scikit-learn checks, with short fits. Its tolerance is 1e-7 for a row alone and among others, below that of
# float32, in which the paper's recipe predicts; the default recipe's predictions are found in float64.
PAPER = {"hidden_units": 16, "n_hidden": 2, "epochs": 30, "learning_rate": 5e-3, "n_theta": 10, "weight_penalty": 0.1}
PAPER |= {"dtype": "float64", "recipe": "paper", "random_state": 0}
DEFAULT = {"hidden_units": 16, "n_hidden": 1, "epochs": 20, "learning_rate": 0.03, "y_noise_every": 10}
DEFAULT |= {"random_state": 0}


@parametrize_with_checks(
    [
        EiVRegressor(**PAPER),
        EiVRegressor(x_err=0.1, n_networks=2, **PAPER),
        EiVRegressor(**DEFAULT),
        EiVRegressor(x_err=0.1, n_zeta=5, n_theta=10, **DEFAULT),
    ],
    expected_failed_checks=lambda _: BY_CHANCE,
)
@pytest.mark.usefixtures("few_zetas")  # ten noisy features take a second each else
@pytest.mark.filterwarnings(
    "ignore:The zetas of a row are too few"
)  # which they are, with 100 rows that count for many
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_scikit_learn_contract_with_all_defaults():
    check_estimator(EiVRegressor(), on_skip=None, expected_failed_checks=BY_CHANCE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The labels contradict the errors of X")  # which the data of the checks do not have
def test_scikit_learn_contract_of_a_network_of_cosines():
    check_estimator(
        EiVRegressor(0.1, network="cosine", hidden_units=16, random_state=0),
        on_skip=None,
        expected_failed_checks=BY_CHANCE,
    )


def test_same_seed_same_numbers(line):
    X, y = line
    first, second = (EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y).predict(X, return_std=True) for _ in range(2))
    assert np.array_equal(first, second)
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y)
    assert np.array_equal(model.predict(X), model.predict(X))
    other = EiVRegressor(0.1, **(FAST | {"random_state": 1}), recipe="paper").fit(X, y)
    assert not np.allclose(other.predict(X), first[0])


@pytest.mark.parametrize("n_networks", [1, 3])
def test_prediction_has_the_parts_of_the_design(line, n_networks):
    X, y = line
    p = EiVRegressor(0.1, n_networks=n_networks, **FAST, recipe="paper").fit(X, y).predict_distribution(X)
    assert p.mean.shape == (40,)
    assert p.draws.shape == (n_networks * 50, 40)
    np.testing.assert_allclose(p.std**2, p.epistemic**2 + p.aleatoric**2)
    assert (p.epistemic > 0).all()
    assert (p.aleatoric > 0).mean() > 0.5
    np.testing.assert_allclose(p.draws.mean(0), p.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(p.noise, p.noise[0])


def test_no_error_is_the_model_without_errors_in_variables(line):
    X, y = line
    models = [EiVRegressor(x_err, **FAST, recipe="paper").fit(X, y) for x_err in (None, 0, 0.0, [0.0])]
    for model in models:
        p = model.predict_distribution(X)
        assert (p.aleatoric == 0).all()
        assert np.array_equal(p.mean, models[0].predict(X))


def test_curve_at_exact_inputs(line):
    X, y = line
    model = EiVRegressor(0.3, **FAST, recipe="paper").fit(X, y)
    p = model.predict_distribution(X, X_err=0)
    assert (p.aleatoric == 0).all()
    assert not np.allclose(p.mean, model.predict(X))


@pytest.mark.parametrize("method", ["unbiased", "literal"])
def test_prediction_goes_through_in_chunks(line, method, monkeypatch):
    X, y = line
    model = EiVRegressor(0.1, n_networks=2, dtype="float64", **FAST, recipe="paper").fit(X, y)
    whole = model.predict_distribution(X, method=method)
    monkeypatch.setattr("eiv.engine.memory.DRAWS", {"cpu": 2 * 50 * 3, "cuda": 2 * 50 * 3})
    monkeypatch.setattr("eiv.engine.mlp._ROWS_AT_ONCE", 4)
    parts = model.predict_distribution(X, method=method)
    if method == "unbiased":
        np.testing.assert_allclose(parts.mean, whole.mean)
        np.testing.assert_allclose(parts.draws, whole.draws)
    assert parts.draws.shape == whole.draws.shape


def test_draws_are_dropped_where_they_are_many(line, monkeypatch):
    X, y = line
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y)
    monkeypatch.setattr("eiv.engine.memory.KEPT_DRAWS", 1999)
    assert model.predict_distribution(X).draws is None
    assert model.predict_distribution(X, keep_draws=True).draws.shape == (50, 40)
    assert model.predict_distribution(X[:39]).draws is not None


def test_pandas_names_are_kept(line):
    X, y = line
    table = pd.DataFrame({"length": X[:, 0], "width": X[:, 0] ** 2}, index=[f"r{i}" for i in range(40)])
    target = pd.DataFrame({"mass": y, "price": y**2})
    model = EiVRegressor([0.1, 0.0], **FAST, recipe="paper").fit(table, target)
    assert list(model.feature_names_in_) == ["length", "width"]
    frame = model.predict_distribution(table.iloc[:3]).to_frame()
    assert list(frame.index) == ["r0", "r1", "r2"]
    assert ("mass", "mean") in frame
    assert model.predict(table).shape == (40, 2)
    assert model.y_noise_.shape == (2,)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename(columns={"width": "depth"}))


def test_standardisation_makes_units_irrelevant(line):
    X, y = line
    settings = FAST | {"dtype": "float64"}
    plain = EiVRegressor(0.1, **settings, recipe="paper").fit(X, y).predict_distribution(X)
    scaled = (
        EiVRegressor(100.0, **settings, recipe="paper")
        .fit(1000 * X + 5, 0.01 * y - 3)
        .predict_distribution(1000 * X + 5)
    )
    np.testing.assert_allclose(scaled.mean, 0.01 * plain.mean - 3, rtol=1e-6)
    for part in ("epistemic", "aleatoric", "noise"):
        np.testing.assert_allclose(getattr(scaled, part), 0.01 * getattr(plain, part), rtol=1e-6)


def test_columns_without_spread_map_to_zero(line):
    X, y = line
    wide = np.column_stack([X, np.full(40, 7.0)])
    with pytest.warns(SuspiciousErrorWarning, match="column 1 .* constant"):
        model = EiVRegressor([0.1, 1.0], **FAST, recipe="paper").fit(wide, y)
    moved = wide + np.array([0.0, 100.0])
    assert np.array_equal(model.predict(wide), model.predict(moved))


CORRELATED = [[0.01, 0.0, 0.05], [0.0, 0.09, 0.0], [0.05, 0.0, 1.0]]


@pytest.mark.parametrize("x_err", [[0.1, 0.3, 1.0], [0.1, 0.3, 0.0], CORRELATED], ids=["noisy", "exact", "correlated"])
def test_columns_without_spread_move_no_prediction_through_the_prior(x_err):
    """The learned mixture has several components, whose weights a new value of that column used to change."""
    random = np.random.default_rng(0)
    zeta = np.where(random.random((200, 2)) < 0.4, -1.0, 1.0) + 0.2 * random.standard_normal((200, 2))
    X = np.column_stack([zeta + [0.1, 0.3] * random.standard_normal((200, 2)), np.full(200, 7.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the column is constant
        model = EiVRegressor(x_err, hidden_units=8, n_hidden=1, epochs=2, random_state=0).fit(X, zeta.sum(1))
    assert len(model.input_prior_.weights) > 1
    expected, found = (model.predict_distribution(x) for x in (X[:40], X[:40] + np.array([0.0, 0.0, 5.0])))
    for part in ("mean", "epistemic", "aleatoric"):
        np.testing.assert_allclose(getattr(found, part), getattr(expected, part), rtol=1e-6)


def test_errors_of_each_row(line):
    X, y = line
    errors = np.where(np.arange(40) < 20, 0.0, 0.4)[:, None]
    model = EiVRegressor(**FAST, recipe="paper").fit(X, y, X_err=errors)
    p = model.predict_distribution(X, X_err=errors)
    assert (p.aleatoric[:20] < 1e-6).all()
    assert (p.aleatoric[20:] > 0).all()
    with pytest.raises(ValueError, match="X_err is needed"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"X_err must be .* got shape \(40, 1\)"):
        model.predict(X[:5], X_err=errors)


def test_normal_prior_narrows_the_posterior_of_the_input(line):
    X, y = line
    flat = EiVRegressor(0.5, **FAST, recipe="paper").fit(X, y).predict_distribution(X)
    narrow = (
        EiVRegressor(0.5, input_prior=NormalPrior(std=0.2), **FAST, recipe="paper").fit(X, y).predict_distribution(X)
    )
    assert narrow.aleatoric.mean() < 0.7 * flat.aleatoric.mean()


def test_own_module():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 12))
    y = X[:, :3].sum(1)
    model = EiVRegressor(0.1, module=SmallConv, n_networks=2, **FAST, recipe="paper").fit(X, y)
    p = model.predict_distribution(X)
    assert (p.epistemic > 0).all()
    assert model.loss_curve_.shape == (5, 2)
    with pytest.raises(ValueError, match="no dropout layer"):
        EiVRegressor(module=torch.nn.Linear, recipe="paper").fit(X, y)
    with pytest.raises(ValueError, match="module must be a callable"):
        EiVRegressor(module=3, recipe="paper").fit(X, y)
    with pytest.raises(ValueError, match="module must be a callable"):
        EiVRegressor(module=paper_network(12, 1), recipe="paper").fit(X, y)
    with pytest.raises(TypeError, match="module must take"):
        EiVRegressor(module=lambda n_inputs: None, recipe="paper").fit(X, y)
    with pytest.raises(ValueError, match="cannot take 2 rows of 12 inputs"):
        EiVRegressor(module=lambda n_in, n_out: paper_network(7, 1), recipe="paper").fit(X, y)


def test_splits_fitted_together_equal_splits_fitted_alone(line):
    X, y = line
    model = EiVRegressor(0.1, dtype="float64", **FAST, recipe="paper")
    splits = [train for train, _ in KFold(3, shuffle=True, random_state=0).split(X)]
    errors = np.full((40, 1), 0.1)
    for together, rows in zip(fit_splits(model, X, y, splits, X_err=errors), splits, strict=True):
        alone = clone(together).fit(X[rows], y[rows], X_err=errors[rows])
        np.testing.assert_allclose(together.predict(X, X_err=0.1), alone.predict(X, X_err=0.1), rtol=1e-9)
        np.testing.assert_allclose(together.y_noise_, alone.y_noise_)


@pytest.mark.parametrize(
    ("arguments", "at_once"),
    [({"network": "cosine", "hidden_units": 32}, [3]), ({**FAST, "recipe": "paper", "dtype": "float64"}, [1, 2])],
    ids=["cosines", "layers"],
)
def test_splits_of_different_sizes_equal_splits_fitted_alone(line, monkeypatch, arguments, at_once):
    """Networks of cosines are fitted side by side whatever their rows; layers are stacked where they have as many."""
    X, y = line
    splits, counts, plain = [range(40), range(30), range(5, 35)], [], choosing.fit_stack
    monkeypatch.setattr(choosing, "fit_stack", lambda specs, *rest: counts.append(len(specs)) or plain(specs, *rest))
    found = fit_splits(EiVRegressor(0.1, **{"random_state": 0} | arguments), X, y, splits)
    assert sorted(counts) == at_once
    for together, rows in zip(found, splits, strict=True):
        alone = clone(together).fit(X[rows], y[rows])
        if together.settings_.network == "cosine":
            np.testing.assert_array_equal(together.predict(X), alone.predict(X))
        np.testing.assert_allclose(together.predict(X), alone.predict(X), rtol=1e-9)


def test_ensemble_pools_the_draws_of_its_networks(line):
    X, y = line
    pooled = EiVRegressor(0.1, n_networks=4, **FAST, recipe="paper").fit(X, y).predict_distribution(X)
    by_network = pooled.draws.reshape(4, 50, 40)
    between = by_network.mean(1).var(0)
    assert (pooled.epistemic**2 > 0.5 * between).all()
    np.testing.assert_allclose(pooled.std**2, pooled.draws.var(0), rtol=0.25)


def test_errors_travel_as_metadata(line):
    X, y = line
    errors = np.linspace(0.05, 0.4, 40)[:, None]
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            EiVRegressor(**FAST, recipe="paper")
            .set_fit_request(X_err=True)
            .set_predict_request(X_err=True)
            .set_score_request(X_err=True)
        )
        pipeline = make_pipeline(FunctionTransformer(), model).fit(X, y, X_err=errors)
        alone = EiVRegressor(**FAST, recipe="paper").fit(X, y, X_err=errors)
        np.testing.assert_array_equal(pipeline.predict(X, X_err=errors), alone.predict(X, X_err=errors))
        assert not np.allclose(pipeline.predict(X, X_err=0), alone.predict(X, X_err=errors))
        scores = cross_validate(model, X, y, cv=3, params={"X_err": errors}, error_score="raise")["test_score"]
        assert np.isfinite(scores).all()
        search = GridSearchCV(model, {"epochs": [1, 5]}, cv=2, error_score="raise").fit(X, y, X_err=errors)
        assert search.best_params_["epochs"] in (1, 5)


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": 1e30},
        {"learning_rate": 1e8, "epochs": 1, "batch_size": 300},  # shows only after the last step
        {"learning_rate": 1e5, "y_noise_every": 1, "epochs": 1},
    ],
)
def test_divergence_is_an_error_not_a_nan(line, settings):
    X, y = line
    with pytest.raises(TrainingDivergedError, match="Lower learning_rate"):
        EiVRegressor(0.1, **FAST | settings, recipe="paper").fit(X, y)


def test_settings_of_the_fit_hold_at_predict(line):
    X, y = line
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y)
    before = model.predict(X)
    model.set_params(dtype="float64", input_prior=NormalPrior(std=0.1), device="cpu")
    np.testing.assert_array_equal(model.predict(X), before)


def test_inputs_beyond_all_bounds_are_refused_at_predict(line):
    X, y = line
    with pytest.raises(ValueError, match="X: the prediction for 1 of 2 rows is not a finite number, first for row 1"):
        EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y).predict([[0.0], [1e300]])


def test_errors_with_names_are_matched_by_name(line):
    X, y = line
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 0] ** 2})
    by_position = EiVRegressor([0.1, 0.0], **FAST, recipe="paper").fit(table, y)
    for errors in ({"b": 0.0, "a": 0.1}, pd.Series({"b": 0.0, "a": 0.1})):
        by_name = EiVRegressor(errors, **FAST, recipe="paper").fit(table, y)
        assert list(by_name.x_err_) == [0.1, 0.0]
        assert np.array_equal(by_name.predict(table), by_position.predict(table))
    rows = pd.DataFrame({"b": np.zeros(40), "a": np.full(40, 0.1)})
    shown = by_position.predict(table, X_err=rows[["a", "b"]])
    assert np.array_equal(by_position.predict(table, X_err=rows), shown)
    with pytest.raises(ValueError, match=r"x_err must have a value for each feature of X, \['a', 'b'\], got \['a'\]"):
        EiVRegressor(pd.Series({"a": 0.1}), **FAST, recipe="paper").fit(table, y)


def test_the_estimator_hands_its_settings_on(line, monkeypatch):
    X, y = line
    seen = []

    def spy(posterior, rows, likelihood, schedule, seeds, *rest):
        result = train(posterior, rows, likelihood, schedule, seeds, *rest)
        seen.append((posterior, rows, likelihood, schedule, result))
        return result

    monkeypatch.setattr("eiv.training.fitting.train", spy)
    errors = np.linspace(0.1, 0.5, 40)[:, None]
    settings = FAST | {"n_zeta": 7, "weight_penalty": 3.0, "y_noise_init": 0.4}
    model = EiVRegressor(standardise=False, n_networks=2, **settings, recipe="paper").fit(X, y, X_err=errors)
    posterior, rows, likelihood, schedule, result = seen[0]
    assert (schedule.n_zeta, posterior.weight_penalty) == (7, 3.0)
    assert likelihood.y_noise.flatten().tolist() == pytest.approx([0.4, 0.4])
    np.testing.assert_allclose(rows.inputs.std[1].cpu(), errors, rtol=1e-6)
    y_noise = result.likelihood.state["y_noise"]
    np.testing.assert_allclose(model.y_noise_, y_noise.square().mean(0).sqrt().cpu(), rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_module_built_once_is_refused_on_any_number_of_cores(line, threads):
    X, y = line
    module = paper_network(1, 1, 4)
    torch.set_num_threads(threads)
    with pytest.raises(ValueError, match="new network at every call"):
        EiVRegressor(module=lambda n_in, n_out: module, n_networks=2, **FAST, recipe="paper").fit(X, y)


def test_fit_splits_checks_its_rows(line):
    X, y = line
    with pytest.raises(ValueError, match="same number of rows: X has 40, y has 39"):
        fit_splits(EiVRegressor(**FAST, recipe="paper"), X, y[:-1], [range(20)])
    with pytest.raises(ValueError, match="splits must hold the rows to fit on"):
        fit_splits(EiVRegressor(**FAST, recipe="paper"), X, y, list(KFold(3).split(X)))


def test_progress_bar_shows_loss_noise_and_time(line, capsys):
    pytest.importorskip("rich")
    X, y = line
    EiVRegressor(0.1, **FAST, verbose=True, recipe="paper").fit(X, y)
    shown = capsys.readouterr().out
    assert "5/5 epochs" in shown
    assert "loss" in shown
    assert "σ_y" in shown
    assert "0:00:00" in shown
    EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y)
    assert capsys.readouterr().out == ""


def test_global_generators_are_left_alone(line):
    X, y = line
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y).predict(X)
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
