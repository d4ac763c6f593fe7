"""What both estimators share: checks of rows and their errors, attributes of a fit, files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from eiv import validation as v
from eiv.engine.ambient import own_defaults
from eiv.engine.products import check_precision
from eiv.estimators.carried import inputs_at_predict
from eiv.estimators.population import Population, for_population
from eiv.inputs import EstimatedError, FlatPrior, InputPrior, LearnedSizes, RelativeError, SizePrior
from eiv.inputs.columns import ErrorColumns
from eiv.inputs.errors import standard_deviations, times
from eiv.inputs.mixed import Errors, MixedErrors
from eiv.inputs.plausible import check_plausible, warn_of_scaled
from eiv.inputs.rounding import warn_of_rounding
from eiv.inputs.stated import Readings, refuse_for_berkson
from eiv.io.modelfile import ModelFileError, load_model, save_model
from eiv.io.onnx import export_onnx
from eiv.model import FittedModel, Names
from eiv.posteriors import WeightPosterior
from eiv.prediction import TrueInputs
from eiv.prediction.sampling import zetas_per_block
from eiv.scaling import mean_and_spread
from eiv.training.fitting import Spec, Table, scalers_of
from eiv.training.making import device_of, family_of, input_prior_of, likelihood_of, new_likelihood
from eiv.training.settings import DTYPES, SETTINGS, Arguments, Settings, check_kind, settings_for

__all__ = ["EiVEstimator"]

Array = NDArray[np.float64]


class EiVEstimator(BaseEstimator, Arguments):  # type: ignore[misc]
    """A model of one table whose inputs carry error bars, whatever its labels are: the base of the estimators.

    The arguments of the constructor are the settings, as fields of a dataclass, and `x_err`. What the fit found is
    `model_`, and the other attributes are parts of it.

    Examples:
        >>> from eiv import EiVRegressor
        >>> issubclass(EiVRegressor, EiVEstimator)
        True

    """

    _constraints: ClassVar[dict[str, v.Constraint]] = {name: each.constraint for name, each in SETTINGS.items()}
    _of_classes: ClassVar[bool] = False  # whether labels are classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "integrate"
        return tags

    def draw_zeta(
        self,
        X: Any,
        n_draws: int,
        X_err: Any = None,
        random_state: int | None = None,
        *,
        input_prior: Population = None,
    ) -> Array:
        r"""Draw true inputs given the measured ones, in the units of X: what an exported network is to be evaluated at.

        .. math:: \zeta_{lr} \sim \pi(\zeta | x_r, \sigma_x^2)

        Args:
            X: `rows x n_x`, the measured inputs.
            n_draws: L.
            X_err: the error of these rows, where it differs from that of the fit.
            random_state: seed.
            input_prior: of the true inputs of these rows, as for `predict_distribution`.

        Returns:
            `n_draws x rows x n_x`.

        Examples:
            >>> from eiv import EiVRegressor
            >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
            >>> model = EiVRegressor(0.1, input_prior="mixture", epochs=2).fit(X[:, None], y)
            >>> model.draw_zeta([[0.0], [1.0]], n_draws=5, random_state=0).shape
            (5, 2, 1)

        """
        check_is_fitted(self, "model_")
        x, errors, _ = self._check_rows(X, X_err)
        with own_defaults():
            model = for_population(self.model_, input_prior)
            return model.draw_zeta(x, errors, n_draws, np.random.default_rng(random_state))

    def true_inputs(
        self,
        X: Any,
        y: Any = None,
        X_err: Any = None,
        y_err: Any = None,
        *,
        input_prior: Population = None,
        n_draws: int = 500,
        keep_draws: bool | None = None,
    ) -> TrueInputs:
        r"""What is known of the true inputs, given the readings and, where known, the labels.

        .. math:: p(\zeta | x, y) \propto \pi(\zeta | x) \int p(y | f_\theta(\zeta))\, q_\phi(\theta)\, d\theta

        The uncertainty of the weights counts: a label says of zeta what the curve, as far as it is known, lets it say.
        The curve has been learned from the labels of training rows already, so with few rows these labels count for a
        little too much.

        Args:
            X: `rows x n_x`, the readings.
            y: their labels, in the form that `fit` takes; NaN where a label is not known. None where none is.
            X_err: the error of these rows, where it differs from that of the fit.
            y_err: the known part of the error of these labels, as for `fit`.
            input_prior: of the true inputs of these rows, as for `predict_distribution`.
            n_draws: draws of the true inputs of a row, 2 at least.
            keep_draws: whether draws and covariances are kept; by default up to 2^25 values (256 MiB).

        Returns:
            A `TrueInputs`: mean, standard deviation, draws, intervals.

        Examples:
            >>> from eiv import EiVRegressor
            >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
            >>> model = EiVRegressor(0.1, epochs=2).fit(X[:, None], y)
            >>> model.true_inputs(X[:3, None], y[:3])
            TrueInputs(rows=3, features=1, draws=500)

        """
        check_is_fitted(self, "model_")
        if isinstance(n_draws, bool) or not isinstance(n_draws, int | np.integer) or n_draws < 2:
            raise ValueError(f"n_draws must be an integer of at least 2, got {n_draws!r}.")
        x, errors, index = self._check_rows(X, X_err)
        if y is None and y_err is not None:
            raise ValueError("y_err is the error of labels, but y is None: give the labels too.")
        labels, known = (None, None) if y is None else self._check_observed(X, y, y_err)
        n_theta, _ = self._draws_for()
        with own_defaults():
            return for_population(self.model_, input_prior).true_inputs(
                x, errors, labels, known, n_theta=n_theta, n_draws=int(n_draws), keep_draws=keep_draws, index=index
            )

    def _check_observed(self, X: Any, y: Any, y_err: Any) -> tuple[Array, Array | None]:
        """Labels of rows to find the true inputs of, `rows x n_y`, and their known errors."""
        raise NotImplementedError

    @property
    def settings_(self) -> Settings:
        """What the fit was made with."""
        return self._fitted.settings

    @property
    def x_err_(self) -> Array | None:
        """The error that prediction takes where none is given."""
        return self._fitted.x_err

    @property
    def x_quantiles_(self) -> Array:
        """Least value, quantiles and greatest value of each feature in the training rows."""
        return self._fitted.record.x_quantiles

    @property
    def x_err_factor_(self) -> float:
        """What stated errors are multiplied by."""
        return self._fitted.settings.x_err_factor

    @property
    def x_err_scale_(self) -> LearnedSizes | None:
        """What was learned of the size of the errors; None where they were stated as known."""
        return self._fitted.sizes

    @property
    def x_err_median_(self) -> Array:
        """The median error of each feature in the training rows."""
        return self._fitted.record.x_err_median

    @property
    def input_prior_(self) -> InputPrior:
        """The input prior, where it was learned as it was found."""
        return self._fitted.input_prior

    @property
    def posterior_(self) -> WeightPosterior:
        """The fitted weight posterior."""
        return self._fitted.posterior

    @property
    def loss_curve_(self) -> Array:
        """The course of eq. (mcloss)."""
        return self._fitted.record.loss_curve

    @property
    def zeta_ess_(self) -> float | None:
        """The effective sample size of the zetas of a row."""
        return self._fitted.record.zeta_ess

    @property
    def bound_gap_(self) -> float | None:
        """The error of the bound because zetas are few, in nats per row."""
        return self._fitted.record.bound_gap

    @property
    def _fitted(self) -> FittedModel:
        if "model_" not in self.__dict__:
            raise AttributeError(f"This {type(self).__name__} is not fitted yet.")
        found: FittedModel = self.model_
        return found

    def save(self, path: str | Path, notes: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model to one file (safetensors with a JSON header), whole or not at all.

        The same model gives the same bytes. Code of your own, such as a module, a weight posterior or an input prior,
        is not saved; it has to be given again at load.

        Args:
            path: the file; one that is there is replaced.
            notes: what else to keep in its header: numbers, words, lists and mappings of them.

        Examples:
            >>> import tempfile
            >>> from eiv import EiVRegressor
            >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     EiVRegressor(0.1, epochs=2).fit(X[:, None], y).save(f"{folder}/model.eiv")

        """
        check_is_fitted(self, "model_")
        save_model(self.model_, path, notes, self._changed_since_fit())

    @classmethod
    def _loaded(cls, path: str | Path, own: Mapping[str, Any]) -> Self:
        """The model of a file; `own` is the user's own code, by the name of its setting."""
        saved = load_model(path, own)
        if saved.model.likelihood.has_units == cls._of_classes:
            kind, reader = ("classes", "EiVClassifier") if not cls._of_classes else ("numbers", "EiVRegressor")
            raise ModelFileError(f"{path}: the model predicts {kind}; load it with eiv.{reader}.load.")
        names = cls._get_param_names()
        loaded = cls(**{name: value for name, value in saved.model.arguments.items() if name in names})
        columns = saved.model.names.columns
        loaded.n_features_in_ = saved.model.n_features if columns is None else len(columns)
        if columns is not None:
            loaded.feature_names_in_ = np.array(columns, dtype=object)
        loaded.model_ = saved.model
        loaded.set_params(**saved.changed)
        return loaded

    def export(self, path: str | Path, form: Literal["onnx"] = "onnx") -> None:
        """Write the networks in a form that other programs run, with all randomness as inputs (see `eiv.io.onnx`).

        Args:
            path: the file; one that is there is replaced. It is written whole or not at all.
            form: "onnx", which needs `pip install "eiv[onnx]"`.

        Examples:
            >>> import tempfile
            >>> from eiv import EiVRegressor
            >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     EiVRegressor(0.1, epochs=2).fit(X[:, None], y).export(f"{folder}/model.onnx", "onnx")

        """
        v.check_option("form", form, ("onnx",))
        check_is_fitted(self, "model_")
        export_onnx(self.model_, path)

    @property
    def _arguments(self) -> dict[str, Any]:
        """The arguments of the constructor, and what every estimator of this kind has in common."""
        arguments: dict[str, Any] = self.get_params(deep=False)
        return arguments

    def _readings_at_fit(
        self,
        table: Array,
        X_err: Any,
        weights: Array | None,
        units: Sequence[str | None] | None,
        *,
        is_part: bool = False,
    ) -> tuple[Readings, Names, SizePrior | None]:
        """The features of the training rows that count, without NaN, their errors and names, and what is open of sizes.

        `table` and `units` have columns that hold errors, too. Whether errors are plausible is checked once, on the
        whole table.
        """
        names = getattr(self, "feature_names_in_", None)
        size_of, x_err = self.x_err if X_err is None else X_err, _known(self.x_err)
        X_err = _known(X_err)
        x, features = table, None if names is None else tuple(map(str, names))
        name, given = ("x_err", 0.0 if x_err is None else x_err) if X_err is None else ("X_err", X_err)
        columns = ErrorColumns.of(x_err, names)
        if columns is not None:
            (x, in_columns), features = columns.split(table), columns.features
            given = in_columns if X_err is None else X_err
        counted, by_row = counting(weights), X_err is not None or columns is not None
        _refuse_empty(x[counted], features)
        if self.error_model == "berkson":
            refuse_for_berkson(name, given)
        middle, spread = mean_and_spread(x[counted], above_zero(weights))
        found = Readings.of(name, given, x, features, spread=spread, by_row=by_row).take(counted)
        found = found.without_gaps(self.missing or "refuse", spread, middle, features)
        v.check_spread("X", found.x, features)
        size_prior = self._size_prior(size_of, x.shape[1], features)
        if not is_part:
            name, taken = self._taken(name, found.errors, size_prior)
            stated = X_err if X_err is not None or columns is not None else x_err
            is_share = isinstance(stated, RelativeError)
            check_plausible(
                name,
                found.x,
                taken,
                features,
                classical=self.error_model == "classical",
                constant_left_out=self.standardise,
                is_share=is_share,
            )
            if self.standardise and stated is not None and not is_share:
                warn_of_scaled(name, found.x, standard_deviations(found.errors), features)
        if units is not None and columns is not None:
            units = [unit for name, unit in zip(columns.columns, units, strict=True) if name in columns.features]
        own = Names(features, error_columns=columns, units=None if units is None else tuple(units))
        return found, own, size_prior

    def _size_prior(self, stated: Any, n_features: int, features: Sequence[str] | None) -> SizePrior | None:
        """What is believed of the size of the errors where that is to be learned; else None."""
        if not isinstance(stated, EstimatedError):
            return None
        if self.x_err_factor not in (None, "auto"):
            raise ValueError(
                f"x_err_factor must be left out where the size of the errors is learned, got {self.x_err_factor!r}."
            )
        return stated.size_prior(n_features, features)

    def _check_rows(self, X: Any, X_err: Any) -> tuple[Array, Errors, Any]:
        """New rows, their errors, and their labels."""
        v.check_same_labels(X, X_err=X_err)
        X, X_err = inputs_at_predict(X, X_err, self.model_.names, self.n_features_in_)
        v.check_numeric("X", X)
        index = getattr(X, "index", None) if hasattr(X, "columns") else None
        x: Array = named(X, None, validate_data, self, X, dtype=np.float64, reset=False, ensure_all_finite="allow-nan")
        columns = self.model_.names.error_columns
        if columns is not None:
            x, in_columns = columns.split(x)
            X_err = in_columns if X_err is None else X_err
        found = self.model_.readings(x, X_err)
        return found.x, found.errors, index

    def _draws_for(self) -> tuple[int, int]:
        """Draws of the weights, and of the true input for each block of them, that a prediction takes; checked."""
        for name in ("n_theta", "n_zeta"):
            v.check(name, getattr(self, name), self._constraints[name])
        return self.n_theta or self.settings_.n_theta, zetas_per_block(self.n_zeta or self.settings_.n_zeta)

    def _warn_of_rounding(self, table: Table) -> None:
        """Warn where numbers of the networks leave little of a column of X or y."""
        settings = settings_for(self._arguments, n_rows=1)
        for name, values, scaler, names in zip(
            ("X", "y"),
            (table.x, table.y),
            scalers_of(settings, table),
            (table.names.features, table.names.outputs),
            strict=True,
        ):
            warn_of_rounding(name, values, scaler, settings.dtype, names)

    def _changed_since_fit(self) -> dict[str, Any]:
        fitted = self.model_.arguments
        return {name: value for name, value in self.get_params(deep=False).items() if value is not fitted.get(name)}

    def _taken(self, name: str, errors: Errors, size_prior: SizePrior | None) -> tuple[str, Errors]:
        """The errors that the fit takes as those of X, and what to call them; the least likely ones of unknown size."""
        if size_prior is not None:
            return f"{name} at the small end of its sizes", times(errors, np.exp(size_prior.mean - 2 * size_prior.std))
        factor = settings_for(self._arguments, n_rows=1).x_err_factor
        if factor == 1:
            return name, errors
        with np.errstate(over="ignore"):
            taken = times(errors, factor)
        words = f"{name} times x_err_factor ({factor:g})"
        return words, taken if isinstance(taken, MixedErrors) else np.nan_to_num(taken)

    def _check_arguments(self) -> None:
        arguments = self._arguments
        for name, constraint in self._constraints.items():
            v.check(name, arguments.get(name), constraint)
        check_kind(arguments)
        settings = settings_for(arguments, n_rows=1)
        if likelihood_of(settings).has_units == self._of_classes:
            raise ValueError(f"likelihood: {settings.likelihood!r} is that of classes; eiv.EiVClassifier fits them.")
        if settings.zeta_draws == "profile" and not new_likelihood(settings, torch.ones(1, 1)).is_fixed:
            raise ValueError(
                "zeta_draws='profile' fits the true input of every row beside the curve, and these absorb residuals: "
                "sigma_y would come out too small, by half of its square where the error of x moves f by sigma_y, and "
                "again at each renewal. Give y_noise a number, or take zeta_draws='laplace'."
            )
        fewest = family_of(settings).fewest_networks
        if self.n_networks < fewest:
            raise ValueError(
                f"n_networks must be {fewest} at least for posterior={settings.posterior!r}, where only networks "
                f"differ, got {self.n_networks}."
            )
        prior = input_prior_of(settings.input_prior, self.error_model)
        if self.missing == "integrate" and isinstance(prior, FlatPrior):
            why = "error_model='berkson' has none" if self.error_model == "berkson" else "'flat' says nothing of them"
            raise ValueError(
                f"missing='integrate' needs an input_prior that says where true values lie, such as 'mixture'; {why}."
            )
        check_precision(self.precision, device_of(self.device), DTYPES[self.dtype])


@contextlib.contextmanager
def whole_fit(estimator: EiVEstimator) -> Iterator[None]:
    """A fit. One that fails or is interrupted leaves the estimator as it was, with the model of an earlier fit."""
    before = dict(estimator.__dict__)
    try:
        with own_defaults():
            yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def spec_of(estimator: EiVEstimator) -> Spec:
    """What a fit of the estimator is to do, with the next seed of its `random_state`."""
    return Spec(estimator._arguments, int(v.check_random_state(estimator.random_state).randint(2**31)))  # noqa: SLF001


def _known(errors: Any) -> Any:
    """The stated errors, without what is said of their size."""
    inside = errors.values() if isinstance(errors, Mapping) else errors if isinstance(errors, list | tuple) else ()
    if any(isinstance(each, EstimatedError) for each in inside):
        raise ValueError(
            "eiv.estimated stands around the errors of all columns, not inside of them: "
            "x_err=eiv.estimated({'a': 0.1, 'b': 0.1}, dof={'a': 8, 'b': inf}), with infinity for an error whose size "
            "is known."
        )
    return errors.error if isinstance(errors, EstimatedError) else errors


def counting(weights: Array | None) -> NDArray[np.intp] | slice:
    """The rows whose weight is above zero: a weight of zero means that the row is not there."""
    return slice(None) if weights is None else np.flatnonzero(weights)


def _refuse_empty(x: Array, features: Sequence[str] | None) -> None:
    """Raise a ValueError that names a column of `x` without a single reading, if there is one."""
    empty = np.flatnonzero(np.isnan(x).all(0))
    if len(empty):
        label = empty[0] if features is None else repr(str(features[empty[0]]))
        raise ValueError(f"X: column {label} holds nothing but NaN; drop it.")


def above_zero(weights: Array | None) -> Array | None:
    """The weights of the rows that count; None where each of them counts once."""
    if weights is None or (weights[weights > 0] == 1).all():
        return None
    return weights[weights > 0]


def named(X: Any, y: Any, check: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a check of scikit-learn's or NumPy's, and name the argument in its error."""
    try:
        found = check(*args, **kwargs)
        return tuple(map(_forwards, found)) if isinstance(found, tuple) else _forwards(found)
    except ValueError as error:
        if "could not convert string" in str(error):
            name = "X" if y is None or _holds_text(X) else "y"
            raise ValueError(f"{name} must hold numbers only: {error}.") from error
        if str(error).startswith(("Found array with", "Expected 2D array")):
            raise ValueError(f"X: {error}") from error
        raise


def _forwards(values: NDArray[Any]) -> NDArray[Any]:
    """The same values; those of a view that runs backwards, which torch does not take, as a copy."""
    return values.copy() if min(values.strides, default=0) < 0 else values


def _holds_text(table: Any) -> bool:
    try:
        np.asarray(table, dtype=float)
    except (TypeError, ValueError):
        return True
    return False
