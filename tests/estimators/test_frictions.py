"""What a daily user of scikit-learn, NumPy, pandas and torch would stumble over."""

import multiprocessing
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

from eiv import EiVClassifier, EiVRegressor, TrainingDivergedError, fit_splits
from eiv.regressor import estimator as of_numbers
from processes import started

FAST = {"hidden_units": 16, "epochs": 5, "n_theta": 10, "random_state": 0, "recipe": "paper", "device": "cpu"}


@pytest.fixture
def two_columns(line):
    X, y = line
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 0] ** 2}), y


def test_an_interrupted_refit_keeps_the_model_before(line, monkeypatch):
    X, y = line
    model = EiVRegressor(0.1, **FAST).fit(X, y)
    before = model.predict(X)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(of_numbers, "fit_models", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(np.column_stack([X, X**2]), y)
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(TrainingDivergedError):
        model.set_params(learning_rate=1e30).fit(X, 1000 * y)
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(TrainingDivergedError):
        (new := EiVRegressor(0.1, **FAST | {"learning_rate": 1e30})).fit(X, y)
    assert not hasattr(new, "n_features_in_")
    with pytest.raises(NotFittedError):
        new.predict(X)


@pytest.mark.parametrize("kind", [EiVRegressor, EiVClassifier])
@pytest.mark.filterwarnings("error")
def test_what_a_program_sets_in_torch_changes_nothing(line, kind, tmp_path):
    X, y = line
    labels = y if kind is EiVRegressor else y > 0

    def found():
        model = kind(0.1, **FAST).fit(X, labels)
        model.save(tmp_path / "model.eiv")
        loaded = kind.load(tmp_path / "model.eiv")
        p = model.predict_distribution(X)
        parts = [p.epistemic, p.aleatoric, loaded.predict(X), model.draw_zeta(X, 3, random_state=0).ravel()]
        return np.concatenate([np.asarray(part, dtype=float) for part in parts])

    plain = found()
    with torch.inference_mode():
        np.testing.assert_array_equal(found(), plain)
        assert torch.is_inference_mode_enabled()
    with torch.no_grad():
        np.testing.assert_array_equal(found(), plain)
    torch.set_default_dtype(torch.float64)
    try:
        np.testing.assert_array_equal(found(), plain)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_splits_are_fitted_alike_whatever_torch_is_set_to(line):
    X, y = line

    def found():
        return fit_splits(EiVRegressor(0.1, **FAST), X, y, [range(30)])[0].predict(X)

    plain = found()
    with torch.inference_mode():
        np.testing.assert_array_equal(found(), plain)


def test_masked_values_are_refused_and_others_taken(line):
    X, y = line
    model, mask = EiVRegressor(0.1, **FAST), np.arange(40) == 3
    for name, arguments in {
        "X": {"X": np.ma.array(X, mask=mask[:, None]), "y": y},
        "y": {"X": X, "y": np.ma.array(y, mask=mask)},
        "X_err": {"X": X, "y": y, "X_err": np.ma.array(np.full((40, 1), 0.1), mask=mask[:, None])},
        "y_err": {"X": X, "y": y, "y_err": np.ma.array(np.full(40, 0.1), mask=mask)},
    }.items():
        with pytest.raises(ValueError, match=f"^{name} must hold a value everywhere, but 1 of its 40 values are mask"):
            model.fit(**arguments)
    with pytest.raises(ValueError, match=r"^y must hold a value everywhere"):
        EiVClassifier(0.1, **FAST).fit(X, np.ma.array(y > 0, mask=mask))
    with pytest.raises(ValueError, match="X must hold a value everywhere, but 1 of its 40"):
        model.fit(X, y).predict(np.ma.array(X, mask=mask[:, None]))
    with pytest.raises(ValueError, match="are masked: missing='integrate', an argument of the estimator, takes such a"):
        model.predict(np.ma.array(X, mask=mask[:, None]))
    unmasked = EiVRegressor(0.1, **FAST).fit(np.ma.array(X), np.ma.array(y)).predict(np.ma.array(X))
    np.testing.assert_array_equal(unmasked, model.predict(X))


@pytest.mark.parametrize("kind", ["numpy", "astropy", "pint", "table"])
def test_masked_readings_are_missing_ones_where_these_are_integrated_over(line, kind):
    X, y = line
    mask = np.arange(40)[:, None] == 3
    wild, gaps = np.ma.array(np.where(mask, -999.0, X), mask=mask), np.where(mask, np.nan, X)
    if kind == "astropy":
        masked = pytest.importorskip("astropy.utils.masked").Masked(wild.data, mask) * pytest.importorskip(
            "astropy.units"
        ).Unit("m")
    elif kind == "pint":
        masked = pytest.importorskip("pint").UnitRegistry().Quantity(wild, "m")
    elif kind == "table":
        table = pytest.importorskip("astropy.table")
        masked = table.Table({"a": table.MaskedColumn(wild.data[:, 0], mask=mask[:, 0])})
    else:
        masked = wild
    settings = FAST | {"missing": "integrate", "input_prior": "normal"}
    found, expected = EiVRegressor(0.1, **settings).fit(masked, y), EiVRegressor(0.1, **settings).fit(gaps, y)
    np.testing.assert_array_equal(found.predict(masked), expected.predict(gaps))
    classes = EiVClassifier(0.1, **settings).fit(masked, y > 0).predict_proba(masked)
    np.testing.assert_array_equal(classes, EiVClassifier(0.1, **settings).fit(gaps, y > 0).predict_proba(gaps))
    with pytest.raises(ValueError, match=r"^X(: column 'a')? must hold a value everywhere, but 1 of its 40 values are"):
        EiVRegressor(0.1, **FAST).fit(masked, y)
    with pytest.raises(ValueError, match=r"^X_err must hold a value everywhere"):
        EiVRegressor(**settings).fit(gaps, y, X_err=np.ma.array(np.full((40, 1), 0.1), mask=mask))


def test_views_that_run_backwards_are_taken(line):
    X, y = line
    errors = np.linspace(0.05, 0.2, 40)[:, None]
    backwards = EiVRegressor(**FAST).fit(X[::-1], y[::-1], X_err=errors[::-1])
    copied = EiVRegressor(**FAST).fit(X[::-1].copy(), y[::-1].copy(), X_err=errors[::-1].copy())
    found = backwards.predict_distribution(X[::-1], X_err=errors[::-1], y_err=y[::-1] ** 2)
    np.testing.assert_array_equal(found.total, copied.predict_distribution(X, X_err=errors, y_err=y**2).total[::-1])


def test_features_that_a_mapping_leaves_out_are_exact(two_columns):
    X, y = two_columns
    some = EiVRegressor({"a": 0.1}, **FAST).fit(X, y)
    assert some.x_err_.tolist() == [0.1, 0.0]
    np.testing.assert_array_equal(some.predict(X), EiVRegressor([0.1, 0.0], **FAST).fit(X, y).predict(X))
    with pytest.raises(ValueError, match=r"x_err names \['c'\], but the features of X are \['a', 'b'\]"):
        EiVRegressor({"a": 0.1, "c": 0.1}, **FAST).fit(X, y)


def test_a_generator_as_random_state_is_refused_with_what_to_give(line):
    X, y = line
    model = EiVRegressor(0.1, **FAST | {"random_state": np.random.default_rng(0)})
    with pytest.raises(ValueError, match=r"random_state must be .* Give int\(generator.integers\(2\*\*31\)\)"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="random_state must be"):
        fit_splits(model, X, y, [range(30)])


@pytest.mark.parametrize("method", ["unbiased", "literal"])
def test_a_fit_with_one_zeta_per_row_predicts(line, method):
    X, y = line
    model = EiVRegressor(0.1, n_zeta=1, **FAST).fit(X, y)
    p = model.predict_distribution(X, method=method)
    two = model.set_params(n_zeta=2).predict_distribution(X, method=method)
    np.testing.assert_array_equal(p.aleatoric, two.aleatoric)
    assert p.aleatoric.max() > 0
    assert model.model_.predict(X, np.full((1, 1), 0.1)).aleatoric.max() > 0


FORKED = """
import multiprocessing, sys
import numpy as np, torch
from eiv import EiVRegressor

if __name__ == "__main__":
    method, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = EiVRegressor(0.1, recipe="paper", epochs=2, n_theta=20, random_state=0).fit(X, X[:, 0])
    with multiprocessing.get_context(method).Pool(1) as pool:
        (found,) = pool.map_async(model.predict, [X]).get(100)
    print(np.abs(found - model.predict(X)).max())
"""


@pytest.mark.parametrize(
    ("method", "threads"),
    [
        pytest.param("fork", 1, marks=pytest.mark.slow),
        pytest.param("forkserver", 2, marks=pytest.mark.slow),
        pytest.param("spawn", 2, marks=pytest.mark.slow),
    ],
)
def test_the_cures_of_a_fork_after_a_fit_that_docs_name(tmp_path, method, threads):
    """Each in a process of its own. With "fork" and two threads, prediction in the child waits for ever."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    script = tmp_path / "forked.py"
    script.write_text(FORKED)
    with started(sys.executable, script, method, threads) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert float(out) < 1e-9
