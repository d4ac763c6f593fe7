"""Input errors, input priors and ways to draw zeta, through the estimator."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from eiv import EiVRegressor, FlatPrior, LearnedPrior, MixturePrior, fit_splits, relative
from eiv.inputs import ZETA_DRAWS

FAST = {"hidden_units": 16, "epochs": 3, "n_theta": 10, "random_state": 0, "dtype": "float64", "device": "cpu"}
COVARIANCE = np.array([[0.04, 0.015], [0.015, 0.01]])
PRIORS = ["flat", "normal", "mixture"]


@pytest.fixture
def plane():
    """Forty noisy rows of two features: X, y."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (40, 2))
    X = zeta + random.multivariate_normal([0, 0], COVARIANCE, 40)
    return X, zeta @ [2.0, -1.0] + 0.1 * random.standard_normal(40)


@pytest.mark.parametrize("prior", PRIORS)
def test_equal_errors_in_different_forms_give_equal_numbers(plane, prior):
    X, y = plane
    model = EiVRegressor(input_prior=prior, **FAST, recipe="paper")

    def predict(constructor, at_fit, at_predict):
        return clone(model).set_params(x_err=constructor).fit(X, y, X_err=at_fit).predict(X, X_err=at_predict)

    forms = [
        [0.2, 0.1],
        np.tile([0.2, 0.1], (40, 1)),
        np.diag([0.04, 0.01])[None],
        np.tile(np.diag([0.04, 0.01]), (40, 1, 1)),
    ]
    reference = predict([0.2, 0.1], None, None)
    np.testing.assert_allclose(predict(np.diag([0.04, 0.01]), None, None), reference, rtol=1e-9)
    for form in forms:
        np.testing.assert_allclose(predict(None, form, form), reference, rtol=1e-9)
    correlated = predict(COVARIANCE, None, None)
    assert not np.allclose(correlated, reference)
    for form in (COVARIANCE, COVARIANCE[None], np.tile(COVARIANCE, (40, 1, 1))):
        np.testing.assert_allclose(predict(None, form, form), correlated, rtol=1e-6)


@pytest.mark.parametrize("prior", PRIORS)
def test_rows_predicted_alone_or_together_give_the_same_numbers(plane, prior):
    X, y = plane
    errors = np.tile(COVARIANCE, (40, 1, 1))
    errors[:10, 0, 1] = errors[:10, 1, 0] = 0.0
    errors[5:10, 1] = 0.0
    model = EiVRegressor(input_prior=prior, **FAST, recipe="paper").fit(X, y, X_err=errors)
    together = model.predict(X, X_err=errors)
    alone = [model.predict(X[[i]], X_err=errors[[i]])[0] for i in range(0, 40, 5)]
    np.testing.assert_allclose(alone, together[::5], rtol=1e-9)


@pytest.mark.parametrize("zeta_draws", ZETA_DRAWS)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("standardise", [True, False])
def test_every_prior_goes_with_every_way_to_draw(line, prior, zeta_draws, standardise):
    X, y = line
    wide = np.column_stack([X, X**2])
    model = EiVRegressor(
        [0.1, 0.0],
        input_prior=prior,
        zeta_draws=zeta_draws,
        standardise=standardise,
        n_networks=2,
        **FAST,
        recipe="paper",
    )
    p = model.fit(wide, y).predict_distribution(wide, X_err=[0.0, 0.2])
    assert np.isfinite(p.mean).all()
    assert p.aleatoric.max() > 0
    assert (model.predict_distribution(wide, X_err=0).aleatoric == 0).all()
    assert np.isfinite(model.predict_distribution(wide, method="literal").std).all()


def test_quadrature_over_too_many_features_is_refused():
    X = np.random.default_rng(0).normal(size=(30, 4))
    with pytest.raises(ValueError, match="zeta_draws='gauss_hermite' takes at most 3 features"):
        EiVRegressor(0.1, zeta_draws="gauss_hermite", **FAST, recipe="paper").fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"zeta_draws must be 'auto', 'monte_carlo', .* got 'simpson'"):
        EiVRegressor(0.1, zeta_draws="simpson", **FAST, recipe="paper").fit(X, X[:, 0])


def test_relative_errors_are_resolved_at_fit(plane):
    X, y = plane
    X = X * [1.0, 100.0]
    model = EiVRegressor(relative(0.05), **FAST, recipe="paper").fit(X, y)
    np.testing.assert_allclose(model.x_err_, 0.05 * X.std(0))
    np.testing.assert_allclose(model.predict(X[:5]), model.predict(X)[:5])
    np.testing.assert_array_equal(model.predict(X[:5], X_err=relative(0.05)), model.predict(X[:5]))
    by_number = EiVRegressor(0.05 * X.std(0), **FAST, recipe="paper").fit(X, y)
    np.testing.assert_allclose(by_number.predict(X), model.predict(X))
    table = pd.DataFrame(X, columns=["a", "b"])
    named = EiVRegressor(**FAST, recipe="paper").fit(table, y, X_err=relative({"b": 0.1, "a": 0.0}))
    np.testing.assert_allclose(named.x_err_, [0.0, 0.1 * X[:, 1].std()])


def test_a_covariance_with_names_is_matched_by_name(plane):
    X, y = plane
    table = pd.DataFrame(X, columns=["a", "b"])
    turned = pd.DataFrame(COVARIANCE, index=["a", "b"], columns=["a", "b"]).loc[["b", "a"], ["b", "a"]]
    by_name = EiVRegressor(turned, **FAST, recipe="paper").fit(table, y)
    np.testing.assert_allclose(by_name.x_err_, COVARIANCE)
    np.testing.assert_allclose(
        by_name.predict(table), EiVRegressor(COVARIANCE, **FAST, recipe="paper").fit(table, y).predict(table)
    )


def test_the_prior_has_no_say_under_berkson(line):
    X, y = line
    flat = EiVRegressor(0.3, **FAST, recipe="paper").fit(X, y)
    for prior in ("flat", "mixture", MixturePrior([1.0], [[5.0]], [[0.01]])):
        berkson = EiVRegressor(0.3, error_model="berkson", input_prior=prior, **FAST, recipe="paper").fit(X, y)
        assert isinstance(berkson.input_prior_, FlatPrior)
        np.testing.assert_array_equal(berkson.predict(X), flat.predict(X))
    with pytest.raises(ValueError, match="error_model must be 'classical' or 'berkson', got 'both'"):
        EiVRegressor(0.3, error_model="both", **FAST, recipe="paper").fit(X, y)


def test_priors_are_learned_in_the_units_of_x_and_kept(line):
    X, y = line
    model = EiVRegressor(10.0, input_prior="normal", **FAST, recipe="paper").fit(100 * X + 7, y)
    assert isinstance(model.input_prior_, MixturePrior)
    assert model.input_prior_.means.item() == pytest.approx(100 * X.mean() + 7, rel=0.01)
    assert model.input_prior_.covariances.item() == pytest.approx(1e4 * X.var() - 100, rel=0.1)
    plain = EiVRegressor(0.1, input_prior="normal", **FAST, recipe="paper").fit(X, y)
    np.testing.assert_allclose(model.predict(100 * X + 7), plain.predict(X), rtol=1e-6)
    exact = EiVRegressor(input_prior="mixture", **FAST, recipe="paper").fit(X, y)
    np.testing.assert_array_equal(exact.predict(X), EiVRegressor(**FAST, recipe="paper").fit(X, y).predict(X))


def test_own_priors(line):
    X, y = line

    class Own:
        def posterior(self, x, x_err):
            return FlatPrior().posterior(x - 0.5, x_err)

    class Learner:
        def fit(self, x, x_err):
            return Own()

    own = EiVRegressor(0.1, input_prior=Own(), **FAST, recipe="paper").fit(X, y).predict(X)
    assert not np.allclose(own, EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y).predict(X))
    np.testing.assert_array_equal(
        EiVRegressor(0.1, input_prior=Learner(), **FAST, recipe="paper").fit(X, y).predict(X), own
    )

    class Wrong:
        def posterior(self, x, x_err):
            return x

    with pytest.raises(
        TypeError, match=r"input_prior: its posterior must be an eiv\.inputs\.ZetaPosterior, got Tensor"
    ):
        EiVRegressor(0.1, input_prior=Wrong(), **FAST, recipe="paper").fit(X, y)


@pytest.mark.parametrize("prior", ["normal", LearnedPrior(max_components=3), "mixture"])
def test_splits_fitted_together_equal_splits_fitted_alone(plane, prior):
    X, y = plane
    errors = np.tile(COVARIANCE, (40, 1, 1)) * np.linspace(0.5, 2, 40)[:, None, None]
    splits = [range(0, 30), range(10, 40), range(5, 35)]
    model = EiVRegressor(relative([0.2, 0.1]), input_prior=prior, **FAST, recipe="paper")
    for X_err in (None, errors, COVARIANCE[None], relative(0.3)):
        for together, rows in zip(fit_splits(model, X, y, splits, X_err=X_err), splits, strict=True):
            chosen = X_err[list(rows)] if X_err is errors else X_err
            alone = clone(together).fit(X[list(rows)], y[list(rows)], X_err=chosen)
            np.testing.assert_allclose(together.predict(X, X_err=0.1), alone.predict(X, X_err=0.1), rtol=1e-7)


def test_curves_are_smooth_under_a_mixture(line):
    """With steps a quarter as large, so is the largest change: there is no jump from component to component."""
    X, y = line
    prior = MixturePrior([0.5, 0.5], [[-0.5], [0.5]], [[0.02], [0.02]])
    model = EiVRegressor(0.3, input_prior=prior, **FAST | {"dropout": 0.0}, recipe="paper").fit(X, y)
    coarse, fine = (np.abs(np.diff(model.predict(np.linspace(-1, 1, n)[:, None]))).max() for n in (2001, 8001))
    assert fine < 0.5 * coarse  # a jump stays as large as it is


def test_a_prior_is_learned_from_a_pandas_table_without_a_warning(line):
    X, y = line
    model = EiVRegressor(0.1, input_prior="normal", **FAST, recipe="paper").fit(pd.DataFrame(X, columns=["a"]), y)
    assert model.input_prior_.means.shape == (1, 1)
