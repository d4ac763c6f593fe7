"""`EiVRegressor`: a model of one table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from eiv import validation as v
from eiv.engine.ambient import own_defaults
from eiv.estimators import EiVEstimator
from eiv.estimators.base import above_zero, counting, masked_readings, named, spec_of, whole_fit
from eiv.estimators.carried import inputs_at_fit, labels_of
from eiv.estimators.population import Population, for_population, warn_of_unlike
from eiv.estimators.sentences import with_sentences
from eiv.inputs import InputPrior
from eiv.inputs.plausible import check_plausible_labels, warn_of_scaled
from eiv.inputs.sizes import EstimatedError
from eiv.inputs.stated import StatedErrors
from eiv.io.measured import errors_in_units
from eiv.likelihoods import Likelihood, NoiseRule
from eiv.posteriors import WeightPosterior
from eiv.prediction import LabelErrorWarning, Prediction
from eiv.prediction.sampling import SAMPLERS
from eiv.regressor.fromfile import FileRoles, fit_file
from eiv.training.choosing import fit_models
from eiv.training.fitting import Table
from eiv.training.neighbours import warn_of_missed_curves
from eiv.training.settings import ArgumentsForNumbers

__all__ = ["EiVRegressor"]

Array = NDArray[np.float64]


@with_sentences({})
@dataclass(eq=False, repr=False)
class EiVRegressor(RegressorMixin, EiVEstimator, ArgumentsForNumbers):  # type: ignore[misc]
    r"""Neural network regression for inputs that carry error bars.

    .. math:: x = \zeta + \varepsilon_x, \qquad y = f_\theta(\zeta) + \varepsilon_y

    The error of x is known (`x_err`), the true input zeta is not. The network f is fitted with that in mind
    (eq. mcloss, Algorithm 1), and a prediction says how much of its uncertainty comes from the weights (epistemic), how
    much from the unknown true input (aleatoric) and how much is output noise (Algorithm 2, eq. EiV_uncertainty and
    total_unc).

    Args:
        x_err: the error of X that holds for all rows, in the units of X: a standard deviation, one per feature, or
            those by name (a mapping or a pandas Series); 0 for exact columns; a covariance `n_x x n_x`; or
            `eiv.relative(0.05)`, a share of each column's spread; or `eiv.estimated(0.3, dof=8)`, an error whose size
            is itself an estimate and is learned. A law such as `eiv.rectangular(0.7)`, or the text of
            a data sheet such as "±0.7", for all columns or for each; `docs/errors.md` lists them. A mapping may name a
            column of X that holds the errors of each row instead, `{"a": "a_err", "b": 0.1}`; such a column is no
            feature. What a mapping leaves out is exact. None for exact inputs: the model without Errors-in-Variables.
        recipe, ...: the settings; `eiv.training.settings.SETTINGS` has the sentence of each.
        random_state: seed; the same one gives the same numbers on the same machine.

    Attributes:
        n_features_in_: the columns of X: n_x, and those that hold errors.
        feature_names_in_: their names, where X was a table.
        n_outputs_: n_y.
        settings_: what the fit was made with, an `eiv.training.settings.Settings`: the arguments, and the recipe's
            choice for those that were None.
        model_: everything that the fit found, an `eiv.model.FittedModel`; the attributes here are parts of it.
        x_err_: `n_x`, or a covariance `n_x x n_x`, the error that prediction takes where none is given; None after a
            fit with per-row errors.
        x_err_factor_: what stated errors are multiplied by; 1 unless `x_err_factor` or the labels said otherwise, and
            `n_x` numbers where the size of the errors was learned.
        x_err_scale_: what was learned of the size of the errors, an `eiv.inputs.LearnedSizes` with a factor and its
            relative uncertainty for each column; None where they were stated as known.
        x_quantiles_: `5 x n_x`, the least value of each feature in the training rows, its 5 %, 50 % and 95 % quantiles
            and its greatest value.
        x_err_median_: `n_x`, the median error of each feature in the training rows.
        y_err_median_: `n_y`, the median of the known errors of training labels that are above zero; 0 without any.
        input_prior_: the input prior, where it was learned as it was found.
        y_noise_: `n_y`, sigma_y in units of y (the root mean square over the networks).
        loss_curve_: `epochs x n_networks`, the course of eq. (mcloss).
        zeta_ess_: the effective sample size of the `n_zeta` zetas of a training row, from 1 to `n_zeta` (see
            `eiv.training.diagnostics`); None for exact inputs.
        bound_gap_: the error of the bound that was trained on because zetas are few, in nats per row; above 0.1 `fit`
            warns. None for exact inputs.
        posterior_: the fitted weight posterior of the stacked networks.

    Examples:
        >>> from eiv.datasets import simulate
        >>> data = simulate("linear", random_state=0)
        >>> model = EiVRegressor(x_err=0.1, hidden_units=32, epochs=5, random_state=0).fit(data.X, data.y)
        >>> mean, std = model.predict(data.X[:3], return_std=True)
        >>> p = model.predict_distribution(data.X[:3])
        >>> p.epistemic.shape, p.aleatoric.shape, p.noise.shape
        ((3,), (3,), (3,))
        >>> bool(np.allclose(p.std**2, p.epistemic**2 + p.aleatoric**2))
        True
        >>> curve = model.predict([[0.0], [0.5]], X_err=0)  # f itself, at inputs known exactly
        >>> curve.shape
        (2,)

    """

    x_err: StatedErrors | EstimatedError = None

    def fit(self, X: Any, y: Any, X_err: Any = None, y_err: Any = None, sample_weight: Any = None) -> Self:
        """Fit the networks by Algorithm 1.

        Args:
            X: `rows x n_x`, the measured inputs.
            y: `rows` or `rows x n_y`, the measured outputs.
            X_err: the error of X instead of `x_err`, in the same forms or one per row: `rows x n_x`, or covariances
                `rows x n_x x n_x`. A table is matched by its column names, and its row labels must be those of X. A
                covariance of all rows is best given as `1 x n_x x n_x`: `n_x x n_x` is refused where there are as many
                rows as features and both could be meant. Laws and texts are given for all columns, or by a list or
                mapping with one for each, beside numbers or one value per row. `eiv.estimated(...)` of numbers where
                their size is to be learned.
            y_err: the known part of the error of y, a standard deviation for each row (`rows` or `rows x n_y`), each of
                several outputs, or all. A pandas table, or a mapping or Series with a value for each output, is matched
                by the column names of y; row labels must be those of X. `y_noise_` is what comes on top of it.
            sample_weight: `rows`, how often each row counts: a row of weight 2 is fitted as if it stood in the table
                twice, and one of weight 0 as if it were not there. The weights of all rows add up to the number of rows
                that the fit believes to have. Weights are for counts of equal rows and for shares of a population; a
                label that is known more precisely needs `y_err`.

        Returns:
            The fitted model.

        Raises:
            ValueError: where an argument is wrong, or an error is beyond the spread of its column.

        Warns:
            SuspiciousErrorWarning: where an error may be right but hardly is; see `eiv.inputs.plausible`.
            LostPrecisionWarning: where an offset or a few values far off leave no digits of a column; see
                `eiv.inputs.rounding`.
            MissedCurveWarning: where labels of neighbouring rows agree far better than sigma_y says; see
                `eiv.training.neighbours`. Not where `epochs` is given.

        Examples:
            >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
            >>> model = EiVRegressor(epochs=2).fit(X[:, None], y, X_err=0.1)

        """
        with whole_fit(self):
            table = self._check_table(X, y, X_err, y_err, sample_weight)
            (self.model_,) = fit_models([spec_of(self)], [table])
        if self.epochs is None:  # a training that is cut short may leave the curve for later
            warn_of_missed_curves([self.model_], [table], stacklevel=2)
        return self

    def fit_file(
        self,
        path: str | Path,
        target: str | Sequence[str],
        *,
        columns: Sequence[str] | None = None,
        y_err: str | float | None = None,
        sample_weight: str | None = None,
        drop_missing: bool = False,
        leave_out: ArrayLike = (),
        cache: str | Path | None = None,
    ) -> Self:
        """Fit the table in a file, which need not fit into memory.

        The model is that of `fit` for the same rows, to the last bit. Up to 131,072 rows are read into memory. A larger
        table is read once, into memory-mapped files, from which minibatches come. There the state of the training is
        kept as well, so that a fit that was ended, even by SIGKILL, goes on when it is started again, and ends with
        the same model. `docs/scale.md` says what this takes of disk and memory.

        Args:
            path: CSV, Parquet or another table that `eiv fit` reads.
            target: the column to predict, or several.
            columns: those of X; by default all others. Columns that `x_err` names as errors are among them.
            y_err: a number for all rows, as for `fit`; or the column that holds it.
            sample_weight: the column that says how often each row counts.
            drop_missing: whether rows with missing or infinite values are left out; else they are refused.
            leave_out: places of rows that are not to be learned from, for instance because they are held out.
            cache: the folder for the memory-mapped files, which are then kept. By default they lie beside the table in
                a folder with the ending `.eiv-cache`, until the fit has ended.

        Returns:
            The fitted model.

        Raises:
            TableError: where the file cannot be read, or lacks a column.
            TypeError: for what names no file, folder or column.
            ValueError: as for `fit`; where the target is among the other columns, or one is named twice; for rows to
                leave out that are not there; and for a table of more than 131,072 rows where `x_err` states laws or
                `eiv.estimated` errors, or `missing` is "integrate", which need all rows at once.

        Examples:
            >>> import tempfile
            >>> import pandas as pd
            >>> path = Path(tempfile.mkdtemp()) / "table.csv"
            >>> pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["x", "y"]).to_csv(path)
            >>> model = EiVRegressor(0.1, epochs=2).fit_file(path, "y", columns=["x"])

        """
        fit_file(self, path, FileRoles(target, columns, y_err, sample_weight, drop_missing, leave_out), cache)
        return self

    @overload
    def predict(
        self, X: Any, *, X_err: Any = None, return_std: Literal[False] = False, input_prior: Population = None
    ) -> Array: ...
    @overload
    def predict(
        self, X: Any, *, X_err: Any = None, return_std: Literal[True], input_prior: Population = None
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self, X: Any, *, X_err: Any = None, return_std: bool, input_prior: Population = None
    ) -> Array | tuple[Array, Array]: ...
    def predict(
        self, X: Any, *, X_err: Any = None, return_std: bool = False, input_prior: Population = None
    ) -> Array | tuple[Array, Array]:
        """Predict m(x), eq. (EiV_pred_unc), and with `return_std` its uncertainty u(x).

        Args:
            X: `rows x n_x`.
            X_err: the error of these rows, where it differs from that of the fit; 0 gives the curve f itself.
            return_std: whether u(x) is returned too.
            input_prior: of the true inputs of these rows, where they are of another population than the training rows;
                as for `predict_distribution`.

        Returns:
            m(x), or m(x) and u(x): `rows`, or `rows x n_y` where y had two axes.

        Examples:
            >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
            >>> mean, std = EiVRegressor(0.1, epochs=2).fit(X[:, None], y).predict([[0.0]], return_std=True)

        """
        prediction = self._distribution(X, X_err, keep_draws=False, input_prior=input_prior)
        return (prediction.mean, prediction.std) if return_std else prediction.mean

    def predict_distribution(
        self,
        X: Any,
        *,
        X_err: Any = None,
        y_err: Any = None,
        method: Literal["unbiased", "literal"] = "unbiased",
        keep_draws: bool | None = None,
        budget: bool = False,
        input_prior: Population = None,
    ) -> Prediction:
        """Predict with all components of the uncertainty, by Algorithm 2.

        Args:
            X: `rows x n_x`.
            X_err: the error of these rows, where it differs from that of the fit.
            y_err: the known part of the error of labels in these rows, in the forms that `fit` takes, names being
                those of its y. It comes on top of `y_noise_` in `Prediction.noise`. After a fit with `y_err`, intervals
                of labels warn where none is given.
            method: "unbiased" for moments without a random error that all rows share (see
                `eiv.prediction.sampling.BlockSampler`), "literal" for Algorithm 2 as printed but for its misprint.
            keep_draws: whether the draws behind quantiles and samples are kept; by default up to 2^25 values (256 MiB).
            budget: whether `Prediction.budget` is made ready, the shares of features in the aleatoric variance. That
                takes as long as one prediction more, and one for each feature that has an error.
            input_prior: what is believed of the true inputs of these rows before x is seen, where they are of another
                population than the training rows, as of a sensor that is moved to another room: "flat", or an object
                such as `eiv.NormalPrior(std, mean)` or `eiv.MixturePrior`. One that is learned has to be fitted first,
                with the errors times `x_err_factor_`: `eiv.LearnedPrior().fit(x, x_err)`. By default that of the fit.

        Returns:
            A `Prediction`.

        Warns:
            UnlikeRowsWarning: where more than a tenth of the rows are unlike the training rows; `Prediction.unlike`
                says which.

        Examples:
            >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
            >>> EiVRegressor(0.1, epochs=2).fit(X[:, None], y).predict_distribution([[0.0], [1.0]])
            Prediction(rows=2, outputs=1, draws=500)

        """
        return self._distribution(
            X, X_err, y_err, method=method, keep_draws=keep_draws, budget=budget, input_prior=input_prior
        )

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, X_err: Any = None) -> float:
        """The coefficient of determination R^2 of m(x).

        Args:
            X: `rows x n_x`.
            y: `rows` or `rows x n_y`.
            sample_weight: `rows`, weights of the squared errors.
            X_err: the error of these rows, where it differs from that of the fit.

        Returns:
            1 at best.

        Examples:
            >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
            >>> EiVRegressor(0.1, epochs=2).fit(X[:, None], y).score(X[:, None], y) < 1
            True

        """
        from sklearn.metrics import r2_score  # noqa: PLC0415  (slow to import)

        check_is_fitted(self, "model_")
        labels = labels_of(y, None, self.model_.names.output_units).y
        weights = v.check_weights(sample_weight, len(labels), fewest=0)
        return float(r2_score(labels, self.predict(X, X_err=X_err), sample_weight=weights))

    @property
    def n_outputs_(self) -> int:
        """n_y."""
        return self._fitted.n_outputs

    @property
    def y_err_median_(self) -> Array:
        """The median known error of training labels."""
        return self._fitted.record.y_err_median

    @property
    def y_noise_(self) -> Array:
        """sigma_y in units of y."""
        return self._fitted.y_noise

    @classmethod
    def load(
        cls,
        path: str | Path,
        module: Callable[[int, int], nn.Module] | None = None,
        *,
        posterior: type[WeightPosterior] | WeightPosterior | None = None,
        input_prior: InputPrior | None = None,
        y_noise: NoiseRule | None = None,
        likelihood: type[Likelihood] | Likelihood | None = None,
    ) -> Self:
        """Read a fitted model from its file; it predicts what it did before, to the last bit on the same machine.

        A model that was trained on a GPU loads on the CPU where there is none. Nothing in the file is executed.

        Args:
            path: the file.
            module: as it was for the constructor, for a model with a network of your own.
            posterior: the same for a family of your own.
            input_prior: the same for a prior of your own, as `input_prior_` had it.
            y_noise: the same for a rule of your own.
            likelihood: the same for a likelihood of your own.

        Returns:
            The fitted model. A file that is damaged, or that eiv did not write, raises an `eiv.ModelFileError`.

        Examples:
            >>> import tempfile
            >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
            >>> model = EiVRegressor(0.1, epochs=2).fit(X[:, None], y)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     model.save(f"{folder}/model.eiv")
            ...     bool((EiVRegressor.load(f"{folder}/model.eiv").predict([[0.5]]) == model.predict([[0.5]])).all())
            True

        """
        own = {
            "module": module,
            "posterior": posterior,
            "input_prior": input_prior,
            "y_noise": y_noise,
            "likelihood": likelihood,
        }
        return cls._loaded(path, own)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_table(
        self, X: Any, y: Any, X_err: Any, y_err: Any = None, sample_weight: Any = None, *, is_part: bool = False
    ) -> Table:
        """Check the arguments and the training data, and note their names. The model counts as not fitted from here.

        Rows of weight zero are left out. Whether errors are plausible, and digits enough, is asked of the whole table
        once, not again of a part of it.
        """
        self._check_arguments()
        self.__dict__.pop("model_", None)
        v.check_same_labels(X, X_err=X_err, y_err=y_err)
        X, X_err, units = inputs_at_fit(X, X_err, self.x_err, masked=masked_readings(self.missing))
        y, y_err, output_units = labels_of(y, y_err)
        v.check_same_rows(X=X, y=y)
        v.check_numeric("X", X)
        v.check_numeric("y", y)
        options: dict[str, Any] = {"multi_output": True, "y_numeric": True, "ensure_all_finite": "allow-nan"}
        x, outputs = named(X, y, validate_data, self, X, y, dtype=np.float64, ensure_min_samples=2, **options)
        outputs = named(X, y, np.asarray, outputs, dtype=np.float64)
        output_names = tuple(map(str, y.columns)) if hasattr(y, "columns") else None
        has_columns, outputs = outputs.ndim == 2, outputs.reshape(len(x), -1)
        weights = v.check_weights(sample_weight, len(x))
        counted = counting(weights)
        labels = outputs[counted]
        constant = np.flatnonzero(np.ptp(labels, axis=0) == 0)
        if len(constant):
            which = f" in column {(output_names or range(len(constant) + constant[0]))[constant[0]]}"
            raise ValueError(f"y is constant{which if labels.shape[1] > 1 else ''}: there is nothing to fit.")
        v.check_spread("y", labels, output_names)
        y_errors = None if y_err is None else v.check_y_err(y_err, outputs.shape, output_names)[counted]
        found, names, size_prior = self._readings_at_fit(x, X_err, weights, units, is_part=is_part)
        if y_errors is not None and not is_part:
            check_plausible_labels(labels, y_errors, output_names)
            if self.standardise:
                warn_of_scaled("y_err", labels, y_errors, output_names)
        names = replace(names, outputs=output_names, has_columns=has_columns, output_units=output_units)
        table = Table(found.x, found.errors, labels, y_errors, names, above_zero(weights), found.laws, size_prior)
        if not is_part:
            self._warn_of_rounding(table)
        return table

    def _check_observed(self, X: Any, y: Any, y_err: Any) -> tuple[Array, Array | None]:
        """Labels, `rows x n_y`, NaN in rows without one, and their known errors."""
        v.check_same_labels(X, y_err=y_err)
        y, y_err, _ = labels_of(y, y_err, self.model_.names.output_units)
        v.check_same_rows(X=X, y=y)
        v.check_numeric("y", y)
        labels = named(X, y, np.asarray, y, dtype=np.float64)
        n_outputs = self.n_outputs_
        if labels.ndim not in (1, 2) or labels.reshape(len(labels), -1).shape[1] != n_outputs:
            raise ValueError(
                f"y must have shape (rows{f', {n_outputs}' if n_outputs > 1 else ''}), as in the fit, got "
                f"{labels.shape}."
            )
        labels = labels.reshape(len(labels), n_outputs)
        missing = np.isnan(labels)
        if np.isinf(labels).any() or (missing.any(1) != missing.all(1)).any():
            raise ValueError("y must hold finite numbers, or NaN for all outputs of a row whose label is not known.")
        if y_err is not None:
            return labels, v.check_y_err(y_err, labels.shape, self.model_.names.outputs)
        if self.y_err_median_.any():
            warnings.warn(
                "The labels of the fit had known errors (y_err), but those of these rows are not given: they are taken "
                "as zero. Give them with y_err, or y_err=0 for labels without such an error.",
                LabelErrorWarning,
                stacklevel=3,
            )
        return labels, None

    def _distribution(
        self,
        X: Any,
        X_err: Any,
        y_err: Any = None,
        *,
        method: str = "unbiased",
        keep_draws: bool | None = None,
        budget: bool = False,
        input_prior: Population = None,
    ) -> Prediction:
        """What the methods that predict have in common; a warning of it points to who calls these."""
        check_is_fitted(self, "model_")
        v.check_option("method", method, tuple(SAMPLERS))
        x, errors, index = self._check_rows(X, X_err)
        v.check_same_labels(X, y_err=y_err)
        if y_err is not None:
            y_err = errors_in_units("y_err", y_err, self.model_.names.output_units, self.model_.names.outputs)
        known = None if y_err is None else v.check_y_err(y_err, (len(x), self.n_outputs_), self.model_.names.outputs)
        n_draws = self._draws_for()
        with own_defaults():
            found = for_population(self.model_, input_prior).predict(
                x, errors, known, n_draws=n_draws, method=method, keep_draws=keep_draws, budget=budget, index=index
            )
        warn_of_unlike(self.model_, x, found, stacklevel=3)
        return found
