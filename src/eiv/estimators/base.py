"""What both estimators share: checks of rows and their errors, attributes of a fit, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from eiv import validation as v
from eiv.engine.products import check_precision
from eiv.estimators.population import Population, for_population
from eiv.inputs import EstimatedError, InputPrior, LearnedSizes, RelativeError, SizePrior
from eiv.inputs.errors import check_x_err, named_errors, times
from eiv.inputs.plausible import check_plausible
from eiv.io.modelfile import ModelFileError, load_model, save_model
from eiv.io.onnx import export_onnx
from eiv.model import MOST_ZETAS, FittedModel
from eiv.posteriors import WeightPosterior
from eiv.training.fitting import Spec, device_of, family_of, input_prior_of, likelihood_of
from eiv.training.settings import DTYPES, SETTINGS, Settings, check_kind, settings_for

__all__ = ["EiVEstimator"]

Array = NDArray[np.float64]


class EiVEstimator(BaseEstimator):  # type: ignore[misc]
    """A model of one table whose inputs carry error bars, whatever its labels are: the base of the estimators.

    The arguments of the constructor are those of each estimator. What the fit found is `model_`, and the other
    attributes are parts of it.

    Examples:
        >>> from eiv import EiVRegressor
        >>> issubclass(EiVRegressor, EiVEstimator)
        True

    """

    _constraints: ClassVar[dict[str, v.Constraint]] = {name: each.constraint for name, each in SETTINGS.items()}
    _of_classes: ClassVar[bool] = False  # whether labels are classes

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
        return for_population(self.model_, input_prior).draw_zeta(
            x, errors, n_draws, np.random.default_rng(random_state)
        )

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
        loaded.n_features_in_ = saved.model.n_features
        if saved.model.names.features is not None:
            loaded.feature_names_in_ = np.array(saved.model.names.features, dtype=object)
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

    def _errors_at_fit(self, x: Array, X_err: Any, *, is_part: bool = False) -> tuple[Array, SizePrior | None]:
        """The errors of the training rows, and what is believed of their size where that is to be learned.

        Whether they are plausible is asked of the whole table once, not again of a part of it.
        """
        name, given, features = "x_err", self.x_err, getattr(self, "feature_names_in_", None)
        if X_err is not None:
            name, given = "X_err", X_err
        size_prior = None
        if isinstance(given, EstimatedError):
            if self.x_err_factor not in (None, "auto"):
                raise ValueError(
                    f"x_err_factor must be left out where the size of the errors is learned, got {self.x_err_factor!r}."
                )
            given, size_prior = given.error, given.size_prior(self.n_features_in_, features)
        errors = self._errors(name, 0.0 if given is None else given, x.std(0), None if X_err is None else len(x))
        if not is_part:
            name, taken = self._taken(name, errors, size_prior)
            classical = self.error_model == "classical"
            check_plausible(name, x, taken, features, classical=classical, constant_left_out=self.standardise)
        return errors, size_prior

    def _check_rows(self, X: Any, X_err: Any) -> tuple[Array, Array, Any]:
        """New rows, their errors, and their labels."""
        v.check_numeric("X", X)
        index = getattr(X, "index", None) if hasattr(X, "columns") else None
        x: Array = named(X, None, validate_data, self, X, dtype=np.float64, reset=False)
        return x, self.model_.errors_of(X_err, len(x)), index

    def _draws_for(self, errors: Array) -> tuple[int, int]:
        """Draws of the weights, and of the true input for each block of them, that a prediction takes; checked."""
        for name in ("n_theta", "n_zeta"):
            v.check(name, getattr(self, name), self._constraints[name])
        n_zeta = self.n_zeta or self.settings_.n_zeta or MOST_ZETAS
        if errors.any() and n_zeta < 2:
            raise ValueError("n_zeta must be at least 2 to predict inputs that have errors, got 1.")
        return self.n_theta or self.settings_.n_theta, min(n_zeta, MOST_ZETAS)

    def _spec(self) -> Spec:
        return Spec(self._arguments, int(check_random_state(self.random_state).randint(2**31)))

    def _changed_since_fit(self) -> dict[str, Any]:
        fitted = self.model_.arguments
        return {name: value for name, value in self.get_params(deep=False).items() if value is not fitted.get(name)}

    def _errors(self, name: str, errors: Any, x_spread: Array, n_rows: int | None = None) -> Array:
        """Checked errors in the order of the features, in one of the forms of `eiv.inputs.errors`."""
        names = getattr(self, "feature_names_in_", None)
        if isinstance(errors, RelativeError):
            return errors.of(x_spread, names)
        return check_x_err(name, named_errors(name, errors, names), self.n_features_in_, n_rows)

    def _taken(self, name: str, errors: Array, size_prior: SizePrior | None) -> tuple[str, Array]:
        """The errors that the fit takes as those of X, and what to call them; the least likely ones of unknown size."""
        if size_prior is not None:
            return f"{name} at the small end of its sizes", times(errors, np.exp(size_prior.mean - 2 * size_prior.std))
        factor = settings_for(self._arguments, n_rows=1).x_err_factor
        if factor == 1:
            return name, errors
        with np.errstate(over="ignore"):
            return f"{name} times x_err_factor ({factor:g})", np.nan_to_num(times(errors, factor))

    def _check_arguments(self) -> None:
        arguments = self._arguments
        for name, constraint in self._constraints.items():
            v.check(name, arguments.get(name), constraint)
        if self.module is not None and (not callable(self.module) or isinstance(self.module, nn.Module)):
            raise TypeError(
                "module must be a callable (n_inputs, n_outputs) -> torch.nn.Module or None, "
                f"got {type(self.module).__name__}. A network of fixed shape: module=lambda n_inputs, n_outputs: ..."
            )
        check_kind(arguments)
        settings = settings_for(arguments, n_rows=1)
        if likelihood_of(settings).has_units == self._of_classes:
            raise ValueError(f"likelihood: {settings.likelihood!r} is that of classes; eiv.EiVClassifier fits them.")
        fewest = family_of(settings).fewest_networks
        if self.n_networks < fewest:
            raise ValueError(
                f"n_networks must be {fewest} at least for posterior={settings.posterior!r}, where only networks "
                f"differ, got {self.n_networks}."
            )
        input_prior_of(settings.input_prior, self.error_model)
        check_precision(self.precision, device_of(self.device), DTYPES[self.dtype])


def named(X: Any, y: Any, check: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a check of scikit-learn's or NumPy's, and name the argument in its error."""
    try:
        return check(*args, **kwargs)
    except ValueError as error:
        if "could not convert string" in str(error):
            name = "X" if y is None or _holds_text(X) else "y"
            raise ValueError(f"{name} must hold numbers only: {error}.") from error
        if str(error).startswith(("Found array with", "Expected 2D array")):
            raise ValueError(f"X: {error}") from error
        raise


def _holds_text(table: Any) -> bool:
    try:
        np.asarray(table, dtype=float)
    except (TypeError, ValueError):
        return True
    return False
