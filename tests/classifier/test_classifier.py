"""The estimator of classes: scikit-learn's contract, labels of all types, bad input, files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from eiv import EiVClassifier, EiVRegressor, ModelFileError, UnlikeRowsWarning
from eiv.io.modelfile import read_header
from eiv.posteriors import FAMILIES
from forging import forged
from smallnets import BY_CHANCE

# Short fits. scikit-learn's tolerance is 1e-7 for a row alone and among others, so that draws need float64.
PAPER = {"hidden_units": 16, "n_hidden": 2, "epochs": 30, "learning_rate": 5e-3, "n_theta": 4, "weight_penalty": 0.1}
PAPER |= {"dtype": "float64", "recipe": "paper", "random_state": 0}
DEFAULT = {"hidden_units": 8, "n_hidden": 1, "epochs": 20, "learning_rate": 0.03, "n_theta": 4, "random_state": 0}
FAST = {"hidden_units": 8, "n_hidden": 1, "epochs": 10, "learning_rate": 0.03, "n_theta": 10, "random_state": 0}


@parametrize_with_checks(
    [EiVClassifier(**PAPER), EiVClassifier(x_err=0.1, n_zeta=5, **DEFAULT)],
    expected_failed_checks=lambda _: BY_CHANCE,
)
@pytest.mark.usefixtures("few_zetas")  # ten noisy features take a second each else
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_scikit_learn_contract_with_all_defaults():
    check_estimator(EiVClassifier(), on_skip=None, expected_failed_checks=BY_CHANCE)


def table(n=60, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    zeta = random.uniform(-1, 1, (n, 2))
    codes = np.digitize(zeta[:, 0], np.linspace(-1, 1, n_classes + 1)[1:-1])
    return zeta + 0.1 * random.standard_normal((n, 2)), codes


@pytest.mark.parametrize(
    "classes",
    [["b", "a", "c"], [7, 3, 5], np.array(["x", "y", "zz"], dtype=object), [0.0, 1.0, 2.0], [False, True]],
    ids=["words", "numbers", "objects", "floats", "truth"],
)
def test_labels_of_all_types_come_back(classes, tmp_path):
    X, codes = table(n_classes=len(classes))
    y = np.asarray(classes)[codes]
    model = EiVClassifier(0.1, **FAST).fit(X, y)
    assert model.classes_.tolist() == sorted(classes)
    p = model.predict_proba(X)
    assert p.shape == (60, len(classes))
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-12)
    found = model.predict(X)
    assert found.dtype == model.classes_.dtype
    np.testing.assert_array_equal(found, model.classes_[p.argmax(1)])
    assert model.score(X, y) == np.mean(found == y)
    model.save(tmp_path / "model.eiv")
    again = EiVClassifier.load(tmp_path / "model.eiv")
    np.testing.assert_array_equal(again.predict_proba(X), p)
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(X), found)
    assert again.get_params() == model.get_params()


def test_pandas_tables_and_categories():
    X, codes = table()
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(100, 160))
    labels = pd.Series(pd.Categorical.from_codes(codes, ["low", "middle", "high"], ordered=True))
    model = EiVClassifier({"b": 0.0, "a": 0.1}, **FAST).fit(frame, labels)
    found = model.predict_distribution(frame).to_frame()
    assert list(found)[:7] == ["P(high)", "P(low)", "P(middle)", "predicted", "label", "aleatoric", "epistemic"]
    assert found.index.equals(frame.index)


@pytest.mark.parametrize("posterior", FAMILIES)
@pytest.mark.usefixtures("few_zetas")
def test_every_family_predicts_probabilities_whose_entropy_adds_up(posterior):
    X, y = table()
    more = {"n_networks": 2, "dropout": 0.1, "n_theta": 4}
    p = EiVClassifier(0.1, posterior=posterior, **FAST | more).fit(X, y).predict_distribution(X)
    total = -(p.probabilities * np.log(p.probabilities)).sum(1)
    np.testing.assert_allclose(p.label + p.aleatoric + p.epistemic, total, atol=1e-12)
    np.testing.assert_allclose(p.entropy, total, atol=1e-12)
    for part in (p.label, p.aleatoric, p.epistemic):
        assert (part >= 0).all()
        assert part.max() > 0


def test_exact_inputs_leave_nothing_open_about_the_true_input():
    X, y = table()
    model = EiVClassifier(0.1, **FAST).fit(X, y)
    exact, small, large = (model.predict_distribution(X, X_err=error) for error in (0.0, 0.05, 0.3))
    assert np.abs(exact.aleatoric).max() < 1e-12
    assert exact.aleatoric.mean() < small.aleatoric.mean() < large.aleatoric.mean()
    assert exact.entropy.mean() < large.entropy.mean()


def test_rows_alone_and_together_are_the_same():
    X, y = table()
    model = EiVClassifier(**FAST).fit(X, y, X_err=np.abs(X) / 10)
    together = model.predict_proba(X[:5], X_err=np.abs(X[:5]) / 10)
    alone = [model.predict_proba(X[i : i + 1], X_err=np.abs(X[i : i + 1]) / 10)[0] for i in range(5)]
    np.testing.assert_allclose(together, alone, atol=1e-9)
    with pytest.raises(ValueError, match="X_err is needed"):
        model.predict(X)


def test_another_population_and_unlike_rows():
    X, y = table()
    model = EiVClassifier(0.1, **FAST).fit(X, y)
    assert not np.allclose(model.predict_proba(X), model.predict_proba(X, input_prior="flat"))
    with pytest.warns(UnlikeRowsWarning):
        assert model.predict_distribution(X + 100).unlike.all()


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a"] * 60, "y has one class only, 'a'"),
        (["a", None] * 30, r"y: 30 of 60 labels are missing \(NaN or None\), first in row 1"),
        ([1.0, np.nan] * 30, "labels are missing"),
        (np.linspace(0, 1, 60), "Unknown label type: continuous.*EiVRegressor"),
        (np.array(["a", 1] * 30, dtype=object), "several types"),
        (np.zeros((60, 2)), "1d array"),
        (["a", "b"], "X has 60, y has 2"),
    ],
    ids=["one class", "None", "NaN", "continuous", "mixed", "columns", "too few"],
)
def test_labels_that_cannot_be_fitted(y, words):
    with pytest.raises(ValueError, match=words):
        EiVClassifier(0.1, **FAST).fit(table()[0], y)


def test_a_class_with_one_row_is_refused():
    X, y = table()
    words = np.where(y > 0, "b", "a")
    rare = np.where(np.arange(60) == 7, "rare", words)
    with pytest.raises(
        ValueError, match=r"y: a class needs two rows at least.*one row have: 'rare'. Leave these rows out"
    ):
        EiVClassifier(0.1, **FAST).fit(X, rare)
    with pytest.raises(ValueError, match=r"one row have: 0, 1, 2, 3, 4 and 15 more"):
        EiVClassifier(0.1, **FAST).fit(X, np.where(np.arange(60) < 20, np.arange(60), 99))
    with pytest.raises(ValueError, match="one row have: 'rare'"):  # the other one does not count
        EiVClassifier(0.1, **FAST).fit(X, np.where(np.arange(60) == 8, "rare", rare), sample_weight=np.arange(60) != 8)
    twice = np.where(np.isin(np.arange(60), [7, 8]), "rare", words)
    assert EiVClassifier(0.1, **FAST).fit(X, twice).classes_.tolist() == ["a", "b", "rare"]


def test_a_class_unseen_at_fit_cannot_be_scored():
    X, y = table()
    model = EiVClassifier(0.1, **FAST).fit(X, y)
    with pytest.raises(ValueError, match="y: 9 is a class that the fit has not seen; it has seen 0, 1, 2"):
        model.score(X, np.where(y == 1, 9, y))
    with pytest.raises(ValueError, match="labels are missing"):
        model.score(X, np.where(y == 1, np.nan, y))


def test_arguments_without_meaning_for_classes():
    X, y = table()
    with pytest.raises(ValueError, match=r"network: 'cosine' .* not for classes"):
        EiVClassifier(0.1, network="cosine").fit(X, y)
    assert EiVClassifier(0.1, network="auto", **FAST).fit(X, y).settings_.network == "paper"
    with pytest.raises(ValueError, match="EiVClassifier"):
        EiVRegressor(0.1, likelihood="categorical").fit(X, y)
    with pytest.raises(TypeError):
        EiVClassifier(y_noise=0.1)


def test_files_of_classes_and_of_numbers_are_told_apart(tmp_path):
    X, y = table()
    EiVClassifier(0.1, **FAST).fit(X, y).save(tmp_path / "classes.eiv")
    EiVRegressor(0.1, **FAST).fit(X, X[:, 0]).save(tmp_path / "numbers.eiv")
    with pytest.raises(ModelFileError, match=r"predicts classes; load it with eiv.EiVClassifier.load"):
        EiVRegressor.load(tmp_path / "classes.eiv")
    with pytest.raises(ModelFileError, match=r"predicts numbers; load it with eiv.EiVRegressor.load"):
        EiVClassifier.load(tmp_path / "numbers.eiv")
    assert read_header(tmp_path / "classes.eiv")["outputs"]["classes"]["values"] == [0, 1, 2]


def test_classes_that_json_cannot_hold_cannot_be_saved(tmp_path):
    X, y = table(n_classes=2)
    model = EiVClassifier(0.1, **FAST).fit(X, np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")[y])
    with pytest.raises(ValueError, match="classes of type date"):
        model.save(tmp_path / "model.eiv")


@pytest.mark.parametrize(
    "classes",
    [
        {"type": "<U3", "values": ["a", "b"]},
        {"type": "<U3", "values": ["a", "b", "b"]},
        {"type": "<U3", "values": ["a", "b", None]},
        {"type": "V4", "values": ["a", "b", "c"]},
        {"type": "no type", "values": ["a", "b", "c"]},
        {"type": "<i8", "values": [1, 2, 10**30]},
        {"values": ["a", "b", "c"]},
        None,
    ],
)
def test_forged_classes_are_refused(classes, tmp_path):
    X, y = table()
    path = tmp_path / "model.eiv"
    EiVClassifier(0.1, **FAST | {"epochs": 1}).fit(X, y).save(path)
    path.write_bytes(forged(path.read_bytes(), lambda inner, header: inner["outputs"].update(classes=classes)))
    with pytest.raises(ModelFileError):
        EiVClassifier.load(tmp_path / "model.eiv")
