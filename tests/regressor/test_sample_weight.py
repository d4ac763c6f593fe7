"""Weights of rows in the estimators: whole fits against fits of repeated rows, routes and bad weights."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import cross_validate

from eiv import EiVClassifier, EiVRegressor, NormalPrior, fit_splits, relative
from eiv.training.evidence import fit as fit_module
from eiv.training.evidence.explanations import Explanation

FAST = {"hidden_units": 8, "n_hidden": 1, "epochs": 5, "n_theta": 10, "random_state": 0}
COSINE = {"network": "cosine", "hidden_units": 32, "random_state": 0, "input_prior": NormalPrior(1.0)}
RANDOM = np.random.default_rng(0)
ZETA = RANDOM.normal(size=(60, 1))
X = ZETA + 0.3 * RANDOM.normal(size=(60, 1))
Y = np.sin(ZETA[:, 0]) + 0.1 * RANDOM.normal(size=60)
WHOLE = RANDOM.integers(1, 5, 60)
KINDS = {"regressor": (EiVRegressor, Y), "classifier": (EiVClassifier, Y > 0)}


@pytest.mark.parametrize("kind", KINDS)
def test_ones_are_no_weights_and_zeros_are_no_rows(kind):
    estimator, y = KINDS[kind]
    plain = estimator(0.3, **FAST).fit(X, y)
    ones = estimator(0.3, **FAST).fit(X, y, sample_weight=np.ones(60))
    few, kept = estimator(0.3, **FAST).fit(X[:50], y[:50]), np.repeat([1.0, 0.0], [50, 10])
    zeros = estimator(0.3, **FAST).fit(X, y, X_err=np.full((60, 1), 0.3), sample_weight=kept)
    method = "predict" if kind == "regressor" else "predict_proba"
    new = X[:5]
    assert np.array_equal(getattr(plain, method)(new), getattr(ones, method)(new))
    found = getattr(zeros, method)(new, X_err=0.3)
    np.testing.assert_allclose(found, getattr(few, method)(new), rtol=1e-4)  # per-row errors: a posterior for each row
    assert not np.array_equal(getattr(plain, method)(new), getattr(few, method)(new))


def test_weights_of_cosines_are_repeated_rows(monkeypatch):
    """The evidence, and predictions by the best kernel: halves of repeated rows, which judge others, share rows."""
    monkeypatch.setattr(fit_module, "explanations", lambda found, *_: [Explanation(found, 1.0, 4)])
    weighted = EiVRegressor(0.3, **COSINE).fit(X, Y, sample_weight=WHOLE)
    repeated = EiVRegressor(0.3, **COSINE).fit(X.repeat(WHOLE, 0), Y.repeat(WHOLE))
    plain = EiVRegressor(0.3, **COSINE).fit(X, Y)
    evidence = [model.model_.record.evidence for model in (weighted, repeated, plain)]
    assert evidence[0] == pytest.approx(evidence[1], abs=1e-3)
    assert abs(evidence[2] - evidence[1]) > 1
    p, q, r = (model.predict_distribution(X[:20]) for model in (weighted, repeated, plain))
    assert np.abs(p.mean - q.mean).max() < 0.01 * np.abs(p.mean - r.mean).max()
    for part in ("std", "epistemic", "aleatoric", "noise"):
        np.testing.assert_allclose(getattr(p, part), getattr(q, part), rtol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_layers_are_repeated_rows(kind):
    """Nearer to the repeated table than two seeds of that are to each other; rows that count once are far from both.

    No row is held out: of a repeated row one copy could be, and the others not.
    """
    estimator, y = KINDS[kind]
    whole = np.where(ZETA[:, 0] > 0, WHOLE, 1)
    method, arguments = ("predict", {"held_out": 0.0}) if kind == "regressor" else ("predict_proba", {})
    arguments |= {"hidden_units": 16, "n_hidden": 1, "epochs": 80, "learning_rate": 0.01, "random_state": 0}
    arguments |= {"input_prior": NormalPrior(1.0), "network": "paper"}
    grid = np.linspace(-2, 2, 50)[:, None]

    def found(*rows, sample_weight=None, **changes):
        model = estimator(0.3, **arguments | changes).fit(*rows, sample_weight=sample_weight)
        return getattr(model, method)(grid, X_err=0)

    repeated = X.repeat(whole, 0), y.repeat(whole)
    weighted, twice, other = found(X, y, sample_weight=whole), found(*repeated), found(*repeated, random_state=1)
    away = [np.sqrt(np.mean((each - twice) ** 2)) for each in (weighted, other, found(X, y))]
    assert away[0] < away[1]
    assert away[0] < 0.5 * away[2]


@pytest.mark.filterwarnings("ignore::eiv.MissedCurveWarning")  # rows that are repeated have no neighbours
def test_a_fit_by_default_has_the_steps_of_the_repeated_table():
    fits = [
        EiVRegressor(**FAST | {"epochs": None}, network="paper").fit(X.repeat(k, 0), Y.repeat(k), sample_weight=weights)
        for k, weights in ((1, np.full(60, 4.0)), (4, None))
    ]
    assert fits[0].settings_ == fits[1].settings_
    assert fits[0].settings_.epochs == 1271  # 5,000 steps of 64 of 240 rows, in whole periods of 41 between updates


@pytest.mark.parametrize("likelihood", ["normal", "student_t", "varying"])
@pytest.mark.usefixtures("any_head")
def test_layers_lean_to_the_rows_that_count(likelihood):
    """Two groups of labels at the same x, one of them ten times as often."""
    x = np.linspace(-1, 1, 80)[:, None]
    y = np.where(np.arange(80) % 2, 1.0, 0.0) + 0.05 * np.random.default_rng(1).normal(size=80)
    weights = np.where(np.arange(80) % 2, 1.0, 0.1)
    model = EiVRegressor(likelihood=likelihood, hidden_units=16, n_hidden=1, epochs=300, random_state=0)
    found = model.fit(x, y, sample_weight=weights).predict(x[::8])
    assert (found > 0.75).all()  # the mean of the repeated table is 10/11


def test_classes_have_the_shares_of_their_weights():
    x, y = np.zeros((90, 1)) + np.linspace(-1e-3, 1e-3, 90)[:, None], np.arange(90) % 3
    weights = np.array([1.0, 3.0, 6.0])[y]
    model = EiVClassifier(
        hidden_units=8, n_hidden=1, epochs=500, weight_penalty=1e-3, standardise=False, random_state=0
    )
    found = model.fit(x, y, sample_weight=weights).predict_proba(x[:1])
    np.testing.assert_allclose(found, [[0.1, 0.3, 0.6]], atol=0.06)


def test_spreads_of_relative_errors_are_weighted():
    x = np.repeat([0.0, 1.0], 20)[:, None] + np.linspace(0, 0.1, 40)[:, None]
    weights = np.repeat([9.0, 1.0], 20)
    model = EiVRegressor(relative(0.1), **FAST).fit(x, Y[:40], sample_weight=weights)
    spread = x.repeat(weights.astype(int), 0).std()
    assert model.x_err_[0] == pytest.approx(0.1 * spread)
    assert model.model_.record.x_spread[0] == pytest.approx(spread)


def test_splits_take_the_weights_of_their_rows():
    splits = [np.arange(0, 40), np.arange(20, 60)]
    models = fit_splits(EiVRegressor(0.3, **FAST), X, Y, splits, sample_weight=WHOLE)
    seed = models[1].random_state
    alone = EiVRegressor(0.3, **FAST | {"random_state": seed}).fit(X[20:], Y[20:], sample_weight=WHOLE[20:])
    np.testing.assert_allclose(models[1].predict(X[:5]), alone.predict(X[:5]), rtol=1e-5)


def test_weights_travel_as_metadata():
    with sklearn.config_context(enable_metadata_routing=True):
        routed = EiVRegressor(0.3, **FAST).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(routed, X, Y, params={"sample_weight": WHOLE}, cv=2)["test_score"]
    order = np.arange(60)
    by_hand = [
        EiVRegressor(0.3, **FAST)
        .fit(X[train], Y[train], sample_weight=WHOLE[train])
        .score(X[test], Y[test], sample_weight=WHOLE[test])
        for train, test in ((order[30:], order[:30]), (order[:30], order[30:]))
    ]
    np.testing.assert_allclose(found, by_hand)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.full(59, 1.0), r"sample_weight must have shape \(60,\), .* got shape \(59,\)"),
        (np.ones((60, 1)), r"got shape \(60, 1\)"),
        (3.0, r"got shape \(\)"),
        (np.r_[np.ones(59), -1.0], r"finite numbers of at least 0, but 1 of 60 are not; the first is -1 in row 59"),
        (np.r_[np.nan, np.ones(59)], "the first is nan in row 0"),
        (np.r_[np.inf, np.ones(59)], "the first is inf in row 0"),
        (["two"] * 60, "it holds what is no number"),
        (np.zeros(60), "all weights are zero"),
        (np.full(60, 1 / 60), r"count as 1 rows in all; 2 are needed at least. Weights that are shares have to be"),
        (np.repeat([5.0, 0.0], [1, 59]), "constant|one class only"),
    ],
)
def test_bad_weights(kind, weights, words):
    estimator, y = KINDS[kind]
    with pytest.raises(ValueError, match=words):
        estimator(0.3, **FAST).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_check_weights_as_fits_do(kind):
    estimator, y = KINDS[kind]
    model = estimator(0.3, **FAST).fit(X, y)
    for weights, words in (
        (-np.ones(60), "sample_weight must hold finite numbers of at least 0, but 60 of 60 are not"),
        (np.r_[np.nan, np.ones(59)], "sample_weight .* the first is nan in row 0"),
        (np.ones(59), r"sample_weight must have shape \(60,\)"),
        (["two"] * 60, "sample_weight .* holds what is no number"),
        (np.zeros(60), "sample_weight: all weights are zero"),
    ):
        with pytest.raises(ValueError, match=words):
            model.score(X, y, sample_weight=weights)
    assert model.score(X, y, np.full(60, 1 / 60)) == pytest.approx(model.score(X, y))
    assert model.score(X, y, list(WHOLE)) == pytest.approx(model.score(X.repeat(WHOLE, 0), y.repeat(WHOLE)))


def test_weights_of_a_table():
    frame = pd.DataFrame({"a": X[:, 0]})
    of_table = EiVRegressor(0.3, **FAST).fit(frame, pd.Series(Y), sample_weight=pd.Series(WHOLE, index=range(9, 69)))
    plain = EiVRegressor(0.3, **FAST).fit(X, Y, sample_weight=list(WHOLE))
    assert np.array_equal(of_table.predict(frame[:3]), plain.predict(X[:3]))
