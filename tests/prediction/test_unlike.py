"""Rows that are unlike the training rows: what a prediction says of them, from a fit and from a file."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from eiv import (
    EiVRegressor,
    FlatPrior,
    MixturePrior,
    ModelFileError,
    NormalPrior,
    Prediction,
    UnlikeRowsWarning,
    fit_splits,
)
from forging import forged
from test_golden import MODELS

FAST = {"recipe": "paper", "hidden_units": 8, "n_hidden": 2, "epochs": 2, "n_theta": 4, "random_state": 0}
FAR = np.array([[0.1, -0.2], [0.3, 12.0], [-0.5, 0.4]])


def table(n_rows=120):
    random = np.random.default_rng(0)
    zeta = random.normal(size=(n_rows, 2))
    return zeta + 0.2 * random.normal(size=zeta.shape), zeta.sum(1) + 0.1 * random.normal(size=n_rows)


def fitted(x_err=0.2, **changes):
    X, y = table()
    return EiVRegressor(x_err, **FAST | changes).fit(X, y)


@pytest.fixture
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnlikeRowsWarning)
        yield


@pytest.mark.usefixtures("quietly")
@pytest.mark.parametrize(
    "changes",
    [
        {"x_err": None},
        {},
        {"input_prior": "normal"},
        {"input_prior": "mixture"},
        {"input_prior": NormalPrior(1.0)},
        {"input_prior": MixturePrior([1.0], [[50.0, 50.0]], [[1.0, 1.0]])},
        {"error_model": "berkson"},
        {"recipe": "default", "network": "cosine", "hidden_units": 16, "n_hidden": None, "epochs": None},
    ],
)
def test_a_row_far_out_is_unlike_the_training_rows_whatever_the_model(changes):
    """Also under a prior of the user's own that lies elsewhere: it is the rows that count."""
    p = fitted(**changes).predict_distribution(FAR)
    assert p.unlike.tolist() == [False, True, False]
    assert p.unlike_below == 1 / (20 * 120)
    assert ((p.likeness >= 0) & (p.likeness <= 1)).all()


@pytest.mark.usefixtures("quietly")
@pytest.mark.parametrize("prior", ["flat", "mixture"])
def test_the_error_of_the_row_counts(prior):
    model = fitted(input_prior=prior)
    far = [[0.3, 12.0]]
    assert model.predict_distribution(far, X_err=0.0).unlike[0]
    assert not model.predict_distribution(far, X_err=[0.2, 8.0]).unlike[0]


@pytest.mark.usefixtures("quietly")
def test_errors_count_by_the_factor_of_the_fit():
    taken, ignored = (fitted(x_err_factor=factor) for factor in (1.0, 0.0))
    assert not taken.predict_distribution([[0.3, 12.0]], X_err=[0.2, 8.0]).unlike[0]
    assert ignored.predict_distribution([[0.3, 12.0]], X_err=[0.2, 8.0]).unlike[0]


@pytest.mark.usefixtures("quietly")
def test_parts_and_frames_of_a_prediction_have_it():
    model = fitted()
    rows = pd.DataFrame(FAR, index=["a", "b", "c"])
    p = model.predict_distribution(rows.to_numpy())
    assert repr(p) == "Prediction(rows=3, outputs=1, draws=20, unlike=1)"
    assert repr(p[[0, 2]]) == "Prediction(rows=2, outputs=1, draws=20)"
    np.testing.assert_array_equal(p[1:].likeness, p.likeness[1:])
    assert p[1:].unlike.tolist() == [True, False]
    frame = p.to_frame()
    assert list(frame)[-2:] == ["likeness", "unlike"]
    assert frame["unlike"].tolist() == [False, True, False]
    np.testing.assert_array_equal(frame["likeness"], p.likeness)
    X, y = table()
    two = EiVRegressor(0.2, **FAST).fit(X, pd.DataFrame({"a": y, "b": -y})).predict_distribution(FAR)
    assert list(two.to_frame())[-3:] == [("b", "high"), ("", "likeness"), ("", "unlike")]
    assert two.to_frame()["", "unlike"].tolist() == [False, True, False]


@pytest.mark.usefixtures("quietly")
@pytest.mark.parametrize("prior", ["flat", "mixture"])
def test_rows_alone_and_together_are_the_same(prior):
    model = fitted(input_prior=prior)
    together = model.predict_distribution(FAR).likeness
    np.testing.assert_allclose([model.predict_distribution(row[None]).likeness[0] for row in FAR], together, rtol=1e-9)


@pytest.mark.usefixtures("quietly")
@pytest.mark.parametrize("changes", [{"x_err": None}, {"input_prior": "mixture"}, {"x_err_factor": 0.3}])
def test_a_file_keeps_it_to_the_last_bit(changes, tmp_path):
    model = fitted(**changes)
    model.save(tmp_path / "m.eiv")
    loaded = EiVRegressor.load(tmp_path / "m.eiv")
    one, two = (m.predict_distribution(FAR, X_err=0.7) for m in (model, loaded))
    np.testing.assert_array_equal(one.likeness, two.likeness)
    assert one.unlike_below == two.unlike_below


def test_files_of_earlier_versions_say_nothing_of_it():
    p = EiVRegressor.load(MODELS / "swag.eiv").predict_distribution([[0.0, 99.0, 0.0]])
    assert p.likeness is None
    assert p.unlike is None
    assert p[:1].unlike is None
    assert "unlike" not in p.to_frame()
    assert Prediction(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1)).unlike is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 1}, "rows of its cloud"),
        ({"rows": "many"}, "rows of its cloud"),
        ({"stretch": 0.5}, "stretch of its cloud"),
        ({"normal": None}, "no distribution"),
        ({"normal": {"type": "flat_prior"}}, "no distribution"),
        ({"normal": {"type": "mixture_prior", "weights": 1.0, "means": 1.0, "covariances": 1.0}}, "can read"),
    ],
)
def test_forged_files_are_refused(change, message, tmp_path):
    fitted().save(tmp_path / "m.eiv")
    bad = forged((tmp_path / "m.eiv").read_bytes(), lambda inner, header: inner["cloud"].update(change))
    (tmp_path / "bad.eiv").write_bytes(bad)
    with pytest.raises(ModelFileError, match=message):
        EiVRegressor.load(tmp_path / "bad.eiv")


def test_more_than_a_tenth_of_the_rows_is_a_warning_that_says_where():
    X, y = table()
    named = pd.DataFrame(X, columns=["length", "temp"])
    model = EiVRegressor(0.2, **FAST).fit(named, y)
    rows = named.iloc[:20].copy()
    rows.loc[3, "temp"] = 81.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(rows)
    rows.loc[[7, 9], "length"] = -81.0
    words = (
        r"3 of 20 rows of X are unlike the training rows \(first: row 3, column temp = 81 beyond -.*unlike says which"
    )
    for predict in (model.predict, model.predict_distribution):
        with pytest.warns(UnlikeRowsWarning, match=words) as found:
            predict(rows)
        assert found[0].filename == __file__, "it points to who asks"


def test_each_model_of_several_splits_knows_its_own_rows():
    X, y = table()
    near, far = fit_splits(
        EiVRegressor(0.2, **FAST), np.vstack([X, X + 30]), np.tile(y, 2), [range(120), range(120, 240)]
    )
    assert near.predict_distribution(X[:20]).unlike.sum() == 0
    with pytest.warns(UnlikeRowsWarning):
        assert far.predict_distribution(X[:20]).unlike.all()


def test_a_learned_prior_does_not_overrule_rows_that_are_unlike_its_own():
    """The true input of a row far out is normal about x; of a row like the training rows it is as it was."""
    model = fitted(input_prior="mixture").model_
    random = np.random.default_rng(0)
    errors = np.full((1, 2), 0.2)
    zeta = model.draw_zeta(FAR, errors, 4000, random)
    np.testing.assert_allclose(zeta[:, 1].mean(0), FAR[1], atol=4 * 0.2 / 4000**0.5)
    np.testing.assert_allclose(zeta[:, 1].std(0), 0.2, rtol=4 / 8000**0.5)
    alone = model.draw_zeta(FAR[[0]], errors, 4000, np.random.default_rng(0))
    assert np.abs(alone.mean((0, 1)) - FAR[0]).max() < 0.1
    assert np.all(alone.std((0, 1)) < 0.2)  # the prior tells of it too
    like = model.input_prior.posterior(torch.tensor(FAR), torch.tensor(errors))
    np.testing.assert_allclose(alone.mean((0, 1)), like.mean[0], atol=4 * 0.2 / 4000**0.5)


@pytest.mark.usefixtures("quietly")
def test_a_prior_that_is_asked_for_at_prediction_holds_for_unlike_rows_too():
    model = fitted(input_prior="mixture")
    there = NormalPrior(std=0.1, mean=[0.3, 11.0])
    p = model.predict_distribution(FAR[[1]], input_prior=there)
    zeta = there.posterior(torch.tensor(FAR[[1]]), torch.full((1, 2), 0.2, dtype=torch.float64)).mean.numpy()
    exact = model.predict(zeta, X_err=0.0)
    assert abs(p.mean[0] - exact[0]) < abs(p.mean[0] - model.predict(FAR[[1]], X_err=0.0)[0])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("covariances", [False, True])
def test_a_flat_prior_for_some_rows_is_that_of_these_rows(full, covariances):
    prior = MixturePrior([1.0, 2.0], [[0.0, 0.0], [1.0, 1.0]], np.stack([np.eye(2)] * 2) if full else [[1.0, 1.0]] * 2)
    x, x_err = torch.tensor(FAR), torch.tensor([[0.2, 0.3]], dtype=torch.float64)
    x_err = x_err.square().diag_embed() if covariances else x_err
    before = prior.posterior(x, x_err)
    after = before.with_flat_prior(torch.tensor([False, True, False]), x, x_err)
    flat = FlatPrior().posterior(x, x_err)
    for part in ("mean", "std"):
        found, old, new = (getattr(each, part).expand_as(x) for each in (after, before, flat))
        torch.testing.assert_close(found[1], new[1])
        assert torch.equal(found[[0, 2]], old[[0, 2]])
