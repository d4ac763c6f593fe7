"""The methods of the study of tables, with a common interface: ours, and other common methods."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.preprocessing import StandardScaler

from eiv import EiVRegressor
from eiv.extras import is_installed

__all__ = ["RIVALS", "Answer", "Fitted", "fit_rival", "installed_rivals"]

Array = NDArray[np.float64]
_FOLDS = 5  # folds of cross-validation, whose residuals give the uncertainty of boosting
_GP_ROWS, _GP_PREDICT_ROWS = 1000, 3000  # the most rows for hyperparameters, and for predictions


class Answer(NamedTuple):
    """The prediction of a method for some rows.

    Attributes:
        mean: `rows`, m(x).
        std: `rows`, the uncertainty of the true value; nan where a method has none.
        total: `rows`, the uncertainty of a label.

    Examples:
        >>> Answer(np.zeros(1), np.full(1, 3.0), np.full(1, 5.0)).total
        array([5.])

    """

    mean: Array
    std: Array
    total: Array


class Fitted(Protocol):
    """A fitted method.

    Examples:
        >>> X = np.linspace(-1, 1, 50)[:, None]
        >>> fitted: Fitted = fit_rival("gp", X, np.array([0.1]), 3 * X[:, 0] + 0.01 * np.sin(999 * X[:, 0]))
        >>> fitted.predict(X[:2], np.array([0.1])).mean.round(1)
        array([-3. , -2.9])

    """

    @property
    def y_noise(self) -> float:
        """The fitted sigma_y; nan where a method has none."""

    def predict(self, X: Array, X_err: Array) -> Answer:
        """Predict rows; errors of zero mean f at exact inputs."""


@dataclass(frozen=True, eq=False)
class _Network:
    """An `EiVRegressor`, with the errors or without."""

    model: EiVRegressor
    with_errors: bool

    @property
    def y_noise(self) -> float:
        """The fitted sigma_y."""
        return float(self.model.y_noise_[0])

    def predict(self, X: Array, X_err: Array) -> Answer:
        """Predict by Algorithm 2."""
        p = self.model.predict_distribution(X, X_err=X_err if self.with_errors else None, keep_draws=False)
        return Answer(p.mean, p.std, p.total)


@dataclass(frozen=True, eq=False)
class _GaussianProcess:
    """The Gaussian process of scikit-learn, on standardised inputs and labels."""

    model: GaussianProcessRegressor
    inputs: StandardScaler
    unit: float
    centre: float

    @property
    def y_noise(self) -> float:
        """The fitted sigma_y, from the white kernel."""
        return self.unit * float(np.sqrt(self.model.kernel_.k2.noise_level))

    def predict(self, X: Array, X_err: Array) -> Answer:
        """Predict without regard to errors; its standard deviation of labels includes the white kernel."""
        mean, total = self.model.predict(self.inputs.transform(X), return_std=True)
        total = self.unit * total
        return Answer(self.centre + self.unit * mean, np.sqrt(np.maximum(total**2 - self.y_noise**2, 0)), total)


@dataclass(frozen=True, eq=False)
class _Boosting:
    """Boosted trees with the errors as further columns; one sigma for all labels, or those of the model."""

    model: Any
    residual: float | None
    y_noise: float = np.nan

    def predict(self, X: Array, X_err: Array) -> Answer:
        """Predict labels; boosted trees have no uncertainty of f."""
        columns = _with_errors(X, X_err)
        nothing = np.full(len(X), np.nan)
        if self.residual is not None:
            return Answer(np.asarray(self.model.predict(columns)), nothing, np.full(len(X), self.residual))
        found = self.model.pred_dist(columns)
        return Answer(np.asarray(found.loc), nothing, np.asarray(found.scale))


def fit_rival(name: str, X: Array, X_err: Array, y: Array, seed: int = 0, device: str = "cpu") -> Fitted:
    """Fit a method to a table.

    Args:
        name: one of `RIVALS`.
        X: `rows x n_x`.
        X_err: the errors in a form for `EiVRegressor.fit`.
        y: `rows`.
        seed: the seed of the method.
        device: the device of networks, "cpu" or "cuda".

    Returns:
        The fitted method.

    Examples:
        >>> X = np.linspace(-1, 1, 60)[:, None]
        >>> fitted = fit_rival("boosting", X, np.array([0.1]), X[:, 0])
        >>> bool(np.isnan(fitted.y_noise))
        True

    """
    return RIVALS[name](X, X_err, y, seed, device)


def installed_rivals() -> tuple[str, ...]:
    """The names of the methods whose packages are installed.

    Returns:
        Names of `RIVALS`, in order.

    Examples:
        >>> installed_rivals()[:2]
        ('ours', 'ignored')

    """
    return tuple(name for name in RIVALS if name not in OPTIONAL or is_installed(name))


def _network(with_errors: bool, **arguments: Any) -> Callable[[Array, Array, Array, int, str], Fitted]:
    def fit(X: Array, X_err: Array, y: Array, seed: int, device: str) -> Fitted:
        model = EiVRegressor(**arguments, device=device, random_state=seed)
        return _Network(model.fit(X, y, X_err=X_err if with_errors else None), with_errors)

    return fit


def _gp(X: Array, X_err: Array, y: Array, seed: int, device: str) -> Fitted:
    order = np.random.default_rng(seed).permutation(len(y))[:_GP_PREDICT_ROWS]
    scaler, centre, unit = StandardScaler().fit(X), float(y.mean()), float(y.std())
    inputs, labels = scaler.transform(X[order]), (y[order] - centre) / unit
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(0.1)
    few = GaussianProcessRegressor(kernel, random_state=seed).fit(inputs[:_GP_ROWS], labels[:_GP_ROWS])
    model = GaussianProcessRegressor(few.kernel_, optimizer=None).fit(inputs, labels)
    return _GaussianProcess(model, scaler, unit, centre)


def _boosting(make: Callable[[int], Any]) -> Callable[[Array, Array, Array, int, str], Fitted]:
    def fit(X: Array, X_err: Array, y: Array, seed: int, device: str) -> Fitted:
        columns, folds = _with_errors(X, X_err), KFold(_FOLDS, shuffle=True, random_state=seed)
        residual = y - cross_val_predict(make(seed), columns, y, cv=folds)
        return _Boosting(make(seed).fit(columns, y), float(np.sqrt(np.mean(residual**2))))

    return fit


def _ngboost(X: Array, X_err: Array, y: Array, seed: int, device: str) -> Fitted:
    model = importlib.import_module("ngboost").NGBRegressor(random_state=seed, verbose=False)
    return _Boosting(model.fit(_with_errors(X, X_err), y), residual=None)


def _lightgbm(seed: int) -> Any:
    return importlib.import_module("lightgbm").LGBMRegressor(random_state=seed, verbose=-1)


def _with_errors(X: Array, X_err: Array) -> Array:
    """The inputs, with the standard deviations of their errors as further columns."""
    std = X_err if X_err.ndim < 3 else np.sqrt(np.diagonal(X_err, axis1=1, axis2=2))
    return np.hstack([X, np.broadcast_to(std, X.shape)])


RIVALS: dict[str, Callable[[Array, Array, Array, int, str], Fitted]] = {
    "ours": _network(with_errors=True),
    "ignored": _network(with_errors=False),
    "ignored (cosine)": _network(with_errors=False, network="cosine"),
    "paper": _network(with_errors=True, recipe="paper"),
    "gp": _gp,
    "boosting": _boosting(lambda seed: HistGradientBoostingRegressor(random_state=seed)),
    "lightgbm": _boosting(_lightgbm),
    "ngboost": _ngboost,
}
OPTIONAL = ("lightgbm", "ngboost")  # with the names of their packages
