"""What the baselines share: checks of tables and their errors, and a `Prediction` from a mean and three variances."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from eiv import validation as v
from eiv.engine import memory
from eiv.estimators.base import named
from eiv.estimators.carried import inputs_at_fit, inputs_at_predict, labels_of, stated_at_fit
from eiv.inputs.stated import stated_errors
from eiv.io.measured import errors_in_units
from eiv.likelihoods import NormalLabels
from eiv.model import Names
from eiv.prediction import Prediction

__all__ = ["Answer", "Baseline", "Rows"]

Array = NDArray[np.float64]
_N_DRAWS = 200  # of f, evenly spread over its normal distribution


class Rows(NamedTuple):
    """A checked table.

    Attributes:
        x: `rows x n_x`.
        errors: standard deviations `(1 or rows) x n_x`, or covariances `(1 or rows) x n_x x n_x`.
        y: `rows`.
        y_err: `rows`, the known errors of the labels; 0 where none were given.

    Examples:
        >>> Rows(np.zeros((3, 2)), np.ones((1, 2)), np.zeros(3), np.zeros(3)).covariances.shape
        (3, 2, 2)

    """

    x: Array
    errors: Array
    y: Array
    y_err: Array

    @property
    def covariances(self) -> Array:
        """The errors as covariances, `rows x n_x x n_x`."""
        return as_covariances(self.errors, len(self.x))


class Answer(NamedTuple):
    """What a method says of f for some rows: `rows` each; standard deviations in units of y.

    Attributes:
        mean: the prediction.
        epistemic: what the data leave open about f; 0 where a method does not say.
        aleatoric: what the error of x leaves open; 0 where a method does not say.

    Examples:
        >>> Answer(np.zeros(1), np.ones(1), np.zeros(1)).epistemic
        array([1.])

    """

    mean: Array
    epistemic: Array
    aleatoric: Array


class Baseline(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A method that a user would try instead of `EiVRegressor`, with the same arguments and results.

    A subclass says in `_fit` how it is fitted to `Rows`, and in `_answer` what it says of new ones. Its distribution of
    labels is normal: the variance of f, and `y_noise_` with the known errors of labels on top.

    Attributes:
        n_features_in_: n_x.
        feature_names_in_: the names of the features, where X was a pandas table.
        x_err_: the error that prediction takes where none is given; None after a fit with per-row errors.
        y_noise_: the scatter of labels that nothing else explains, in units of y.

    Examples:
        >>> from eiv.baselines import LeastSquares
        >>> issubclass(LeastSquares, Baseline)
        True

    """

    _takes_errors: ClassVar[bool] = True  # whether predictions depend on the errors of X
    _names: Names
    x_err: Any

    @abstractmethod
    def _fit(self, rows: Rows) -> None:
        """Fit the method to checked rows; sets `y_noise_`."""

    @abstractmethod
    def _answer(self, x: Array, errors: Array) -> Answer:
        """What the fitted method says of f for `x`, `rows x n_x`, and its checked errors."""

    def fit(self, X: Any, y: Any, X_err: Any = None, y_err: Any = None) -> Self:
        """Fit the method to a table.

        Args:
            X: `rows x n_x`, the measured inputs.
            y: `rows`, the measured outputs.
            X_err: the error of X instead of `x_err`, in the forms that `EiVRegressor.fit` takes.
            y_err: the known part of the error of y, one standard deviation or one for each row.

        Returns:
            The fitted method.

        """
        v.check_same_labels(X, X_err=X_err, y_err=y_err)
        X, X_err, units = inputs_at_fit(X, X_err, self.x_err)
        y, y_err, output_units = labels_of(y, y_err)
        v.check_same_rows(X=X, y=y)
        v.check_numeric("X", X)
        v.check_numeric("y", y)
        x, labels = named(X, y, validate_data, self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        labels = np.asarray(labels, dtype=np.float64)
        if np.ptp(labels) == 0:
            raise ValueError("y is constant: there is nothing to fit.")
        columns = getattr(self, "feature_names_in_", None)
        x, name, given, by_row, names = stated_at_fit(x, X_err, self.x_err, columns, units)
        self._names = replace(names, output_units=output_units)
        v.check_spread("X", x, names.features)
        v.check_spread("y", labels[:, None], None)
        known = np.zeros(len(labels)) if y_err is None else v.check_y_err(y_err, (len(labels), 1))[:, 0]
        self._spread, self._y_err_median = x.std(0), v.median_above_zero(known[:, None])
        errors = stated_errors(name, given, x, names.features, by_row=by_row)
        self.x_err_ = errors[0] if len(errors) == 1 and names.error_columns is None else None
        self._fit(Rows(x, errors, labels, known))
        return self

    def predict_distribution(self, X: Any, *, X_err: Any = None, y_err: Any = None) -> Prediction:
        """Predict with the components of the uncertainty that the method knows; the others are 0.

        Args:
            X: `rows x n_x`.
            X_err: the error of these rows, where it differs from that of the fit.
            y_err: the known part of the error of labels in these rows; it comes on top of `y_noise_`.

        Returns:
            A `Prediction`, with evenly spread draws of a normal f for quantiles and samples.

        """
        check_is_fitted(self)
        v.check_same_labels(X, X_err=X_err, y_err=y_err)
        names = self._names
        X, X_err = inputs_at_predict(X, X_err, names, self.n_features_in_)
        y_err = None if y_err is None else errors_in_units("y_err", y_err, names.output_units, None)
        v.check_numeric("X", X)
        index = getattr(X, "index", None) if hasattr(X, "columns") else None
        x: Array = named(X, None, validate_data, self, X, dtype=np.float64, reset=False)
        x, in_columns = (x, None) if names.error_columns is None else names.error_columns.split(x)
        errors = self._errors_at_predict(x, in_columns if X_err is None else X_err)
        mean, epistemic, aleatoric = self._answer(x, errors)
        known = 0.0 if y_err is None else v.check_y_err(y_err, (len(x), 1))[:, 0]
        noise = np.broadcast_to(np.hypot(self.y_noise_, known), mean.shape).copy()
        return Prediction(
            mean=mean,
            epistemic=epistemic,
            aleatoric=aleatoric,
            noise=noise,
            draws=_draws(mean, np.hypot(epistemic, aleatoric)),
            index=index,
            feature_names=names.features,
            y_err_of_fit=self._y_err_median if y_err is None and self._y_err_median.any() else None,
            labels=NormalLabels(noise),
        )

    @overload
    def predict(self, X: Any, *, X_err: Any = None, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: Any, *, X_err: Any = None, return_std: Literal[True]) -> tuple[Array, Array]: ...
    def predict(self, X: Any, *, X_err: Any = None, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict, and with `return_std` return the standard deviation of f too.

        Args:
            X: `rows x n_x`.
            X_err: the error of these rows, where it differs from that of the fit.
            return_std: whether the standard deviation is returned.

        Returns:
            `rows`, or two such arrays.

        """
        prediction = self.predict_distribution(X, X_err=X_err)
        return (prediction.mean, prediction.std) if return_std else prediction.mean

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, X_err: Any = None) -> float:
        """The coefficient of determination R^2 of the prediction.

        Args:
            X: `rows x n_x`.
            y: `rows`.
            sample_weight: `rows`, weights of the squared errors, none below zero.
            X_err: the error of these rows, where it differs from that of the fit.

        Returns:
            1 at best.

        """
        from sklearn.metrics import r2_score  # noqa: PLC0415  (slow to import)

        check_is_fitted(self)
        labels = labels_of(y, None, self._names.output_units).y
        weights = v.check_weights(sample_weight, len(labels), fewest=0)
        return float(r2_score(labels, self.predict(X, X_err=X_err), sample_weight=weights))

    def _errors_at_predict(self, x: Array, X_err: Any) -> Array:
        if X_err is not None:
            return stated_errors("X_err", X_err, x, self._names.features, spread=self._spread, by_row=True)
        if self.x_err_ is None and self._takes_errors:
            raise ValueError(
                "X_err is needed: the method was fitted with an error for each row, so the errors of new rows have to "
                "be given too (X_err=0 where they are exact)."
            )
        return np.zeros((1, len(self._spread))) if self.x_err_ is None else self.x_err_[None]


def as_covariances(errors: Array, n_rows: int) -> Array:
    """Errors in either form of `check_x_err` as covariances, `rows x n_x x n_x`."""
    found = errors if errors.ndim == 3 else errors[:, :, None] ** 2 * np.eye(errors.shape[1])
    return np.broadcast_to(found, (n_rows, *found.shape[1:]))


def std_through(f: Callable[[Array], Array], centre: Array, covariances: Array) -> Array:
    r"""The standard deviation of f at an uncertain input, from f at two points along each direction.

    .. math:: \sqrt{\sum_k \Big( \frac{f(c + L_k) - f(c - L_k)}{2} \Big)^2}, \qquad L L^T = \mathrm{cov}

    It is exact for a linear f.

    Args:
        f: takes `rows x n_x` and returns `rows`.
        centre: c, `rows x n_x`.
        covariances: `rows x n_x x n_x`.

    Returns:
        `rows`.

    """
    values, vectors = np.linalg.eigh(covariances)
    steps = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]  # the columns are the directions
    variance = np.zeros(len(centre))
    for k in range(centre.shape[1]):
        step = steps[:, :, k]
        if step.any():
            variance += ((f(centre + step) - f(centre - step)) / 2) ** 2
    return np.asarray(np.sqrt(variance))


def noise_left(residual_variance: float, *known: Array) -> float:
    r"""The standard deviation of residuals that known standard deviations of rows do not explain; 0 at least.

    .. math:: \sqrt{\max\Big(0, s^2 - \sum_j \overline{\mathrm{known}_j^2}\Big)}
    """
    return float(np.sqrt(max(0.0, residual_variance - sum(float(np.mean(each**2)) for each in known))))


def seed_of(random_state: Any) -> int | None:
    """A seed from the forms of `random_state` that scikit-learn takes."""
    if random_state is None or isinstance(random_state, int | np.integer):
        return None if random_state is None else int(random_state)
    return int(v.check_random_state(random_state).randint(2**31))


def _draws(mean: Array, std: Array) -> Array | None:
    """Draws of f that are evenly spread over its normal distribution, `n_draws x rows`; None for very many rows."""
    if _N_DRAWS * len(mean) > memory.KEPT_DRAWS:
        return None
    base = ndtri((np.arange(_N_DRAWS) + 0.5) / _N_DRAWS)
    return np.asarray(mean + std * (base / base.std())[:, None])
