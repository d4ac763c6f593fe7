"""`EiVClassifier`: a model of one table whose labels are classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import nn

from eiv import validation as v
from eiv.classifier.labels import check_labels, check_seen, one_column_per_class
from eiv.engine.ambient import own_defaults
from eiv.estimators import EiVEstimator
from eiv.estimators.base import above_zero, counting, masked_readings, named, spec_of, whole_fit
from eiv.estimators.carried import inputs_at_fit
from eiv.estimators.population import Population, for_population, warn_of_unlike
from eiv.estimators.sentences import with_sentences
from eiv.inputs import InputPrior
from eiv.inputs.stated import StatedErrors
from eiv.io.arrays import plain
from eiv.posteriors import WeightPosterior
from eiv.prediction import ClassPrediction
from eiv.training.choosing import fit_models
from eiv.training.fitting import Table

__all__ = ["EiVClassifier"]

Array = NDArray[np.float64]
# Laplace's approximation leaves probabilities of small tables too uncertain: docs/classes.md.
_FOR_CLASSES = {"likelihood": "categorical", "posterior": "bernoulli_dropout", "dropout": 0.1}


_SENTENCES = {  # of settings that differ for classes
    "input_prior": "what is believed of the true input before x is seen, whatever its class, as for "
    '`eiv.EiVRegressor`; "mixture" by default.',
    "x_err_factor": "what the stated errors of X are multiplied by, in the fit and in predictions: a number, 0 to "
    "ignore them; 1 by default.",
    "posterior": 'the family of the weight posterior: a name of `eiv.posteriors.FAMILIES`, "bernoulli_dropout" by '
    "default, or a subclass of `eiv.posteriors.WeightPosterior` of your own, or an object of it. `docs/classes.md` "
    "says why.",
    "module": "a callable `(n_inputs, n_classes) -> torch.nn.Module`, with dropout layers of its own for the dropout "
    "families, or None for the paper's network.",
    "network": 'the kind of network: "paper", hidden layers of leaky ReLU, trained by steps, or "auto" (the default), '
    "which is that. The cosines of `eiv.EiVRegressor` are for labels that are numbers.",
    "hidden_units": "units of each hidden layer, 128 by default.",
    "dropout": "p of the paper's network, for the dropout families, 0.1 by default; where rates are learned, or "
    "weights are normal, what they start from.",
    "n_zeta": "L, draws of the true input per row in training. A prediction takes as many for each five thetas, two at "
    "least and five at most, and crosses all thetas with all of them.",
    "n_theta": "K, draws of the weights per network in a prediction; 100 by default.",
    "standardise": "whether X is brought to mean 0 and standard deviation 1 first, and its errors with it.",
}


@with_sentences(_SENTENCES)
@dataclass(eq=False, repr=False)
class EiVClassifier(ClassifierMixin, EiVEstimator):  # type: ignore[misc]
    r"""Neural network classification for inputs that carry error bars.

    .. math:: x = \zeta + \varepsilon_x, \qquad P(y = c) = \mathrm{softmax}_c\, f_\theta(\zeta)

    The error of x is known (`x_err`), the true input zeta is not, and the class depends on zeta. The network f is
    fitted with that in mind: the probability of a label is averaged over zeta (eq. mcloss with the likelihood of
    `eiv.likelihoods.CategoricalLikelihood`). A prediction averages probabilities over weights and true inputs, so that
    a larger error of x makes it less certain. It says how much of its entropy comes from the weights (epistemic), how
    much from the unknown true input (aleatoric), and how much is left where both are known (label).

    Args:
        x_err: the error of X that holds for all rows, in the units of X, in the forms of `eiv.EiVRegressor`; None for
            exact inputs: the model without Errors-in-Variables.
        recipe, ...: the settings; `eiv.training.settings.SETTINGS` has the sentence of each.
        random_state: seed; the same one gives the same numbers on the same machine.

    Attributes:
        classes_: `C`, the classes in order.
        n_features_in_: the columns of X: n_x, and those that hold errors.
        feature_names_in_: their names, where X was a table.
        settings_: what the fit was made with, an `eiv.training.settings.Settings`.
        model_: everything that the fit found, an `eiv.model.FittedModel`; the attributes here are parts of it.
        x_err_: `n_x`, or a covariance `n_x x n_x`, the error that prediction takes where none is given; None after a
            fit with per-row errors.
        x_err_factor_: what stated errors are multiplied by.
        x_quantiles_: `5 x n_x`, the least value of each feature in the training rows, its 5 %, 50 % and 95 % quantiles
            and its greatest value.
        x_err_median_: `n_x`, the median error of each feature in the training rows.
        input_prior_: the input prior, where it was learned as it was found.
        loss_curve_: `epochs x n_networks`, the course of eq. (mcloss).
        zeta_ess_: the effective sample size of the `n_zeta` zetas of a training row; None for exact inputs.
        bound_gap_: the error of the bound that was trained on because zetas are few, in nats per row.
        posterior_: the fitted weight posterior of the stacked networks.

    Examples:
        >>> random = np.random.default_rng(0)
        >>> zeta = random.normal(size=(100, 1))
        >>> y = np.where(zeta[:, 0] > 0, "high", "low")
        >>> X = zeta + 0.3 * random.normal(size=(100, 1))
        >>> model = EiVClassifier(x_err=0.3, hidden_units=16, n_hidden=1, epochs=30, random_state=0).fit(X, y)
        >>> model.classes_
        array(['high', 'low'], dtype='<U4')
        >>> p = model.predict_distribution([[1.0], [0.0]])
        >>> p.predicted[0], p.probabilities.shape
        (np.str_('high'), (2, 2))
        >>> bool(p.entropy[0] < p.entropy[1])  # the class is open near the border
        True

    """

    _of_classes: ClassVar[bool] = True

    x_err: StatedErrors = None

    def fit(self, X: Any, y: Any, X_err: Any = None, sample_weight: Any = None) -> Self:
        """Fit the networks by Algorithm 1.

        Args:
            X: `rows x n_x`, the measured inputs.
            y: `rows`, the class of each row: words, whole numbers or truth values.
            X_err: the error of X instead of `x_err`, in the forms that `eiv.EiVRegressor.fit` takes.
            sample_weight: `rows`, how often each row counts, as for `eiv.EiVRegressor.fit`. A class whose rows all have
                weight 0 is not there.

        Returns:
            The fitted model.

        Raises:
            ValueError: where an argument is wrong, labels are missing, numbers with decimals or of one class only, or
                an error is beyond the spread of its column.

        Warns:
            SuspiciousErrorWarning: where an error may be right but hardly is; see `eiv.inputs.plausible`.

        Examples:
            >>> X = np.random.default_rng(0).normal(size=(50, 1))
            >>> model = EiVClassifier(epochs=2).fit(X, X[:, 0] > 0, X_err=0.1)

        """
        with whole_fit(self):
            (self.model_,) = fit_models([spec_of(self)], [self._check_table(X, y, X_err, sample_weight)])
        return self

    def predict(self, X: Any, *, X_err: Any = None, input_prior: Population = None) -> NDArray[Any]:
        """Predict the most probable class of each row.

        Args:
            X: `rows x n_x`.
            X_err: the error of these rows, where it differs from that of the fit.
            input_prior: of the true inputs of these rows, as for `eiv.EiVRegressor.predict_distribution`.

        Returns:
            `rows`, of the type of `classes_`.

        Examples:
            >>> X = np.random.default_rng(0).normal(size=(50, 1))
            >>> EiVClassifier(0.1, epochs=20, random_state=0).fit(X, X[:, 0] > 0).predict([[2.0]])
            array([ True])

        """
        return self._distribution(X, X_err, input_prior).predicted

    def predict_proba(self, X: Any, *, X_err: Any = None, input_prior: Population = None) -> Array:
        r"""Predict the probability of each class, averaged over the weights and the true input.

        .. math:: P(c | x) = E_{\theta, \zeta | x}\, \mathrm{softmax}_c\, f_\theta(\zeta)

        Args:
            X: `rows x n_x`.
            X_err: the error of these rows, where it differs from that of the fit.
            input_prior: of the true inputs of these rows, as for `eiv.EiVRegressor.predict_distribution`.

        Returns:
            `rows x C`, columns in the order of `classes_`.

        Examples:
            >>> X = np.random.default_rng(0).normal(size=(50, 1))
            >>> EiVClassifier(0.1, epochs=2).fit(X, X[:, 0] > 0).predict_proba([[2.0]]).shape
            (1, 2)

        """
        return self._distribution(X, X_err, input_prior).probabilities

    def predict_distribution(
        self, X: Any, *, X_err: Any = None, budget: bool = False, input_prior: Population = None
    ) -> ClassPrediction:
        """Predict probabilities, with the components of their entropy.

        Args:
            X: `rows x n_x`.
            X_err: the error of these rows, where it differs from that of the fit.
            budget: whether `ClassPrediction.budget` is made ready, what each input contributes to the entropy. That
                takes some seconds per row and input with the defaults.
            input_prior: of the true inputs of these rows, as for `eiv.EiVRegressor.predict_distribution`.

        Returns:
            A `ClassPrediction`.

        Warns:
            UnlikeRowsWarning: where more than a tenth of the rows are unlike the training rows;
                `ClassPrediction.unlike` says which.

        Examples:
            >>> X = np.random.default_rng(0).normal(size=(50, 1))
            >>> EiVClassifier(0.1, epochs=2).fit(X, X[:, 0] > 0).predict_distribution([[0.0], [1.0]])
            ClassPrediction(rows=2, classes=2)

        """
        return self._distribution(X, X_err, input_prior, budget=budget)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, X_err: Any = None) -> float:
        """The share of rows whose class is the most probable one.

        Args:
            X: `rows x n_x`.
            y: `rows`, classes that the fit has seen.
            sample_weight: `rows`, weights of the rows.
            X_err: the error of these rows, where it differs from that of the fit.

        Returns:
            1 at best.

        Examples:
            >>> X = np.random.default_rng(0).normal(size=(50, 1))
            >>> EiVClassifier(0.1, epochs=2).fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) <= 1
            True

        """
        from sklearn.metrics import accuracy_score  # noqa: PLC0415  (slow to import)

        check_is_fitted(self, "model_")
        y = plain("y", y)
        check_labels(y)
        labels = column_or_1d(y)
        check_seen(labels, self.classes_)
        weights = v.check_weights(sample_weight, len(labels), fewest=0)
        return float(accuracy_score(labels, self.predict(X, X_err=X_err), sample_weight=weights))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in order."""
        classes = self._fitted.names.classes
        assert classes is not None
        return classes

    @classmethod
    def load(
        cls,
        path: str | Path,
        module: Callable[[int, int], nn.Module] | None = None,
        *,
        posterior: type[WeightPosterior] | WeightPosterior | None = None,
        input_prior: InputPrior | None = None,
    ) -> Self:
        """Read a fitted model from its file; it predicts what it did before, to the last bit on the same machine.

        Nothing in the file is executed.

        Args:
            path: the file.
            module: as it was for the constructor, for a model with a network of your own.
            posterior: the same for a family of your own.
            input_prior: the same for a prior of your own, as `input_prior_` had it.

        Returns:
            The fitted model. A file that is damaged, that eiv did not write, or that holds a model of numbers raises an
            `eiv.ModelFileError`.

        Examples:
            >>> import tempfile
            >>> X = np.random.default_rng(0).normal(size=(50, 1))
            >>> model = EiVClassifier(0.1, epochs=2).fit(X, np.where(X[:, 0] > 0, "high", "low"))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     model.save(f"{folder}/model.eiv")
            ...     EiVClassifier.load(f"{folder}/model.eiv").classes_.tolist()
            ['high', 'low']

        """
        return cls._loaded(path, {"module": module, "posterior": posterior, "input_prior": input_prior})

    @property
    def _arguments(self) -> dict[str, Any]:
        given = {name: value for name, value in super()._arguments.items() if value is not None}
        return dict.fromkeys(super()._arguments) | _FOR_CLASSES | given

    def _check_arguments(self) -> None:
        if self.network == "cosine":
            raise ValueError(
                "network: 'cosine' is fitted in a closed form that holds for labels with normal noise, not for "
                "classes. Leave it out, or choose network='paper'."
            )
        super()._check_arguments()

    def _check_table(self, X: Any, y: Any, X_err: Any, sample_weight: Any = None) -> Table:
        """Check the arguments and the training data, and note their names. The model counts as not fitted from here.

        Rows of weight zero are left out.
        """
        self._check_arguments()
        self.__dict__.pop("model_", None)
        v.check_same_labels(X, X_err=X_err)
        X, X_err, units = inputs_at_fit(X, X_err, self.x_err, masked=masked_readings(self.missing))
        y = plain("y", y)
        v.check_same_rows(X=X, y=y)
        v.check_numeric("X", X)
        check_labels(y)
        options: dict[str, Any] = {"ensure_min_samples": 2, "ensure_all_finite": "allow-nan"}
        x, labels = named(X, None, validate_data, self, X, y, dtype=np.float64, **options)
        weights = v.check_weights(sample_weight, len(x))
        counted = counting(weights)
        columns, classes = one_column_per_class(labels[counted])
        found, names, size_prior = self._readings_at_fit(x, X_err, weights, units)
        if size_prior is not None:
            raise ValueError(
                "x_err: the size of errors is learned from labels that are numbers only (eiv.EiVRegressor). For "
                "classes, state the errors without eiv.estimated."
            )
        names = replace(names, has_columns=True, classes=classes)
        table = Table(found.x, found.errors, columns, names=names, weights=above_zero(weights), laws=found.laws)
        self._warn_of_rounding(table)
        return table

    def _check_observed(self, X: Any, y: Any, y_err: Any) -> tuple[Array, None]:
        """Classes as zeros and ones; they have no errors."""
        if y_err is not None:
            raise ValueError(f"y_err: classes have no error bars, so it must be None, got {y_err!r}.")
        y = plain("y", y)
        v.check_same_rows(X=X, y=y)
        check_labels(y)
        labels = column_or_1d(y)
        check_seen(labels, self.classes_)
        return (labels[:, None] == self.classes_).astype(float), None

    def _distribution(self, X: Any, X_err: Any, input_prior: Population, *, budget: bool = False) -> ClassPrediction:
        """What the methods that predict have in common; a warning of it points to who calls these."""
        check_is_fitted(self, "model_")
        x, errors, index = self._check_rows(X, X_err)
        with own_defaults():
            model = for_population(self.model_, input_prior)
            found = model.predict_classes(x, errors, n_draws=self._draws_for(), budget=budget, index=index)
        warn_of_unlike(self.model_, x, found, stacklevel=3)
        return found
