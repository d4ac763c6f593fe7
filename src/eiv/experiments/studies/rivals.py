"""The methods of the study of tables, with a common interface: ours, and other common methods."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from eiv import EiVRegressor
from eiv.baselines import BoostedTrees, GaussianProcess
from eiv.extras import is_installed
from eiv.inputs import RelativeError

__all__ = ["RIVALS", "Answer", "Fitted", "fit_rival", "installed_rivals"]

Array = NDArray[np.float64]
_Fit = Callable[[Array, "Array | RelativeError", Array, int, str], "Fitted"]


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
class _Baseline:
    """A method of `eiv.baselines`; `knows_f` where it has an uncertainty and a noise of f."""

    model: Any
    knows_f: bool

    @property
    def y_noise(self) -> float:
        """The fitted sigma_y; nan where all uncertainty counts as noise."""
        return float(self.model.y_noise_) if self.knows_f else np.nan

    def predict(self, X: Array, X_err: Array) -> Answer:
        """Predict with the errors, which some methods ignore."""
        p = self.model.predict_distribution(X, X_err=X_err)
        return Answer(p.mean, p.std if self.knows_f else np.full(len(X), np.nan), p.total)


@dataclass(frozen=True, eq=False)
class _NGBoost:
    """Boosted trees of NGBoost with the errors as further columns, and a sigma for each label."""

    model: Any
    y_noise: float = np.nan

    def predict(self, X: Array, X_err: Array) -> Answer:
        """Predict labels; boosted trees have no uncertainty of f."""
        found = self.model.pred_dist(_with_errors(X, X_err))
        return Answer(np.asarray(found.loc), np.full(len(X), np.nan), np.asarray(found.scale))


def fit_rival(
    name: str, X: Array, X_err: Array | RelativeError, y: Array, seed: int = 0, device: str = "cpu"
) -> Fitted:
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


def _network(with_errors: bool, **arguments: Any) -> _Fit:
    def fit(X: Array, X_err: Array | RelativeError, y: Array, seed: int, device: str) -> Fitted:
        model = EiVRegressor(**arguments, device=device, random_state=seed)
        return _Network(model.fit(X, y, X_err=X_err if with_errors else None), with_errors)

    return fit


def _baseline(make: Callable[[int], Any], *, knows_f: bool) -> _Fit:
    def fit(X: Array, X_err: Array | RelativeError, y: Array, seed: int, device: str) -> Fitted:
        return _Baseline(make(seed).fit(X, y, X_err=X_err), knows_f)

    return fit


def _ngboost(X: Array, X_err: Array | RelativeError, y: Array, seed: int, device: str) -> Fitted:
    model = importlib.import_module("ngboost").NGBRegressor(random_state=seed, verbose=False)
    return _NGBoost(model.fit(_with_errors(X, X_err), y))


def _lightgbm(seed: int) -> BoostedTrees:
    trees = importlib.import_module("lightgbm").LGBMRegressor(random_state=seed, verbose=-1)
    return BoostedTrees(regressor=trees, random_state=seed)


def _with_errors(X: Array, X_err: Array | RelativeError) -> Array:
    """The inputs, with the standard deviations of their errors as further columns."""
    if isinstance(X_err, RelativeError):
        X_err = X_err.of(X.std(0), None)
    std = X_err if X_err.ndim < 3 else np.sqrt(np.diagonal(X_err, axis1=1, axis2=2))
    return np.hstack([X, np.broadcast_to(std, X.shape)])


RIVALS: dict[str, _Fit] = {
    "ours": _network(with_errors=True),
    "ignored": _network(with_errors=False),
    "ignored (cosine)": _network(with_errors=False, network="cosine"),
    "paper": _network(with_errors=True, recipe="paper"),
    "gp": _baseline(lambda seed: GaussianProcess(random_state=seed), knows_f=True),
    "boosting": _baseline(lambda seed: BoostedTrees(random_state=seed), knows_f=False),
    "lightgbm": _baseline(_lightgbm, knows_f=False),
    "ngboost": _ngboost,
}
OPTIONAL = ("lightgbm", "ngboost")  # with the names of their packages
