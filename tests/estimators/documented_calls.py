"""The calls that README and docstrings show. mypy checks their types in `make lint`; a test runs them."""

from __future__ import annotations

import numpy as np
import pandas as pd

import eiv


def call_all(X: pd.DataFrame, y: np.ndarray, flag: bool) -> list[eiv.Prediction]:
    """Fit and predict in every form of the arguments; X has the columns a, b and a_err."""
    inputs = X[["a", "b"]]
    models = [
        eiv.EiVRegressor(0.1, recipe="paper", epochs=2).fit(inputs, y),
        eiv.EiVRegressor([0.1, 0.0], recipe="paper", epochs=2).fit(inputs, y),
        eiv.EiVRegressor(np.diag([0.01, 0.01]), recipe="paper", epochs=2).fit(inputs, y),
        eiv.EiVRegressor({"a": 0.1}, recipe="paper", epochs=2).fit(inputs, y),
        eiv.EiVRegressor(x_err={"a": 0.1, "b": 0.0}, recipe="paper", epochs=2).fit(inputs, y),
        eiv.EiVRegressor(pd.Series({"a": 0.1, "b": 0.0}), recipe="paper", epochs=2).fit(inputs, y),
        eiv.EiVRegressor(eiv.relative(0.05), recipe="paper", epochs=2).fit(inputs, y),
        eiv.EiVRegressor(eiv.relative({"a": 0.05}), recipe="paper", epochs=2).fit(inputs, y),
        eiv.EiVRegressor(recipe="paper", epochs=2).fit(inputs, y, X_err=np.full((len(X), 2), 0.1), y_err=0.1),
    ]
    columns = eiv.EiVRegressor({"a": "a_err"}, recipe="paper", epochs=2).fit(
        eiv.ErrorScaler({"a": "a_err"}).fit_transform(X), y
    )
    model = models[0]
    mean = model.predict(inputs)
    mean, std = model.predict(inputs, return_std=True)
    either = model.predict(inputs, return_std=flag)
    assert isinstance(either, tuple) == flag
    assert mean.shape == std.shape
    p = columns.predict_distribution(X, keep_draws=True)
    low, high = p.interval(0.95, of="label")
    assert (low <= high).all()
    assert list(p.to_frame(of="label")) == list(p.to_frame(0.9))
    classes = eiv.EiVClassifier({"a": 0.1}, recipe="paper", epochs=2).fit(inputs, y > 0)
    assert classes.predict_proba(inputs).shape == (len(X), 2)
    return [p[0], p[[1, 2]], p[1:3], p[np.array([1, 2])], p[p.mean > p.mean.min()]]
