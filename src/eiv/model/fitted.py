"""The result of a fit."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.random import SeedSequence
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine import memory
from eiv.engine.graphs import matmul_precision
from eiv.engine.readonly import ReadOnly, read_only
from eiv.engine.streams import network_seeds
from eiv.inputs import (
    ErrorLaw,
    EstimatedError,
    InputPrior,
    LearnedSizes,
    TrainingCloud,
    ZetaPosterior,
)
from eiv.inputs.errors import times
from eiv.inputs.mixed import Errors, MixedErrors
from eiv.inputs.own import OwnDraws
from eiv.inputs.stated import Readings
from eiv.inputs.zeta import is_ours
from eiv.inputs.zetas import PriorOfLike, checked_zetas, standardised_zetas
from eiv.likelihoods import Labels, Likelihood
from eiv.likelihoods.base import OtherOutputs
from eiv.model.record import Names, Record
from eiv.posteriors import WeightPosterior
from eiv.prediction import ClassPrediction, Prediction, TrueInputs
from eiv.prediction.budget import BudgetSampler
from eiv.prediction.classbudget import EntropyBudgetSampler
from eiv.prediction.classes import ClassSampler
from eiv.prediction.lines import LineSampler, Observed
from eiv.prediction.pooling import over_sizes
from eiv.prediction.sampling import SAMPLERS, FunctionSampler, zetas_per_block
from eiv.prediction.trueinputs import FoundZetas, true_inputs_over_sizes
from eiv.scaling import Scaler
from eiv.training.settings import Settings
from eiv.validation import check_option

__all__ = ["FittedModel"]

Array = NDArray[np.float64]
_BUDGET_THETAS = 20  # of a network, for the budget of an entropy: it takes 1,024 zetas of a row for each input
_MOST_SHOWN = 20  # inputs in a notebook
_MOMENT_DRAWS = 2000  # of each row, for the moments of a posterior of the user's own
_OFF_ONE = 1e-9  # the tolerance of the sum of the shares: above rounding, and too small to show in a prediction


@dataclass(frozen=True, eq=False)
class FittedModel(ReadOnly):
    """Everything that a fit finds. Predictions, model files, exports and reports are made from it.

    Nothing of it is to be changed: arrays and arguments are read-only. `dataclasses.replace` makes another model.

    Attributes:
        settings: all settings of the fit.
        arguments: those of the estimator, with the choice of the recipe for those that were None.
        seed: the seed of all random streams.
        x_scaler: converts X to the units of the networks.
        y_scaler: the same for y.
        input_prior: pi(zeta); a learned prior as it was found.
        posterior: q_phi of the S networks.
        likelihood: the fitted p(y | f) of each network, in the units of the networks.
        weights: `S`, the share of each network in the pool; they add up to one.
        x_err: the error of X in predictions where none is given, `n_x` or `n_x x n_x`; None after a fit with errors
            that differ from row to row. Where there are `laws`, the median of their standard deviations.
        n_features: n_x.
        n_outputs: n_y.
        names: the names of features and outputs.
        record: the record of the training.
        cloud: where the training rows lie; None where an older file does not say.
        sizes: what was learned of the size of the errors of X, where that was asked for. The networks then belong to
            its nodes, as many to each; `input_prior` and `cloud` are those of the node with the largest share.
        laws: of the error of each feature, where some have another one than the normal; else None.

    Examples:
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> model = EiVRegressor(0.1, epochs=2).fit(X[:, None], y).model_
        >>> model.predict(np.zeros((3, 1)), np.full((1, 1), 0.1)).mean.shape
        (3,)

    """

    settings: Settings
    arguments: Mapping[str, Any]
    seed: int
    x_scaler: Scaler
    y_scaler: Scaler
    input_prior: InputPrior
    posterior: WeightPosterior
    likelihood: Likelihood
    weights: Array
    x_err: Array | None
    n_features: int
    n_outputs: int
    names: Names
    record: Record
    cloud: TrainingCloud | None = None
    sizes: LearnedSizes | None = None
    laws: tuple[ErrorLaw, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse weights that are not shares of one."""
        n_networks = self.posterior.stack.n_networks
        if self.weights.shape != (n_networks,) or not ((self.weights >= 0) & (self.weights <= 1)).all():
            raise ValueError(f"weights must be {n_networks} numbers from 0 to 1, got {self.weights}.")
        if not abs(self.weights.sum() - 1) < _OFF_ONE:
            raise ValueError(f"weights must add up to one, got {self.weights}.")
        super().__post_init__()
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))
        for name in ("x_scaler", "y_scaler"):
            scaler: Scaler = getattr(self, name)
            object.__setattr__(self, name, Scaler(read_only(scaler.shift), read_only(scaler.scale)))
        if self.sizes is not None and self.sizes.nodes and n_networks % len(self.sizes.nodes):
            raise ValueError(f"sizes must have as many networks each, got {n_networks} for {len(self.sizes.nodes)}.")

    def __reduce__(self) -> tuple[Callable[..., FittedModel], tuple[dict[str, Any]]]:
        """Pickle and copy by the parts, so that those of the copy are read-only too."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        return _of_parts, (parts | {"arguments": dict(self.arguments)},)

    @property
    def n_networks(self) -> int:
        """S."""
        return len(self.weights)

    @cached_property
    def y_noise(self) -> Array:
        """The standard deviation of a label about f in units of y, `n_y`: the root mean square over the networks."""
        return read_only(self.likelihood.std(self.pool) * self.y_scaler.scale)

    @property
    def pool(self) -> Tensor | None:
        """The weights as a tensor; None where all are equal."""
        return None if np.ptp(self.weights) == 0 else torch.tensor(self.weights, dtype=torch.float64)

    @property
    def seeds(self) -> list[SeedSequence]:
        """The seeds of the networks, one for each."""
        return network_seeds(self.seed, self.n_networks)

    def zeta_posterior(self, x: Array, errors: Errors, device: torch.device, dtype: torch.dtype) -> ZetaPosterior:
        """The posterior of zeta given x and its `errors`, in the units of the networks: `rows x n_x`."""
        return standardised_zetas(self._prior, self.x_scaler, x, errors).to(device, dtype)

    @property
    def _prior(self) -> InputPrior | PriorOfLike:
        """The input prior; one that was learned does not overrule rows that are unlike those it was learned from."""
        if self.cloud is None or not self.cloud.of_zeta or self.cloud.prior is not self.input_prior:
            return self.input_prior
        return PriorOfLike(self.cloud)

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes."""
        return self.names.classes is not None

    def _repr_html_(self) -> str:
        """What the model predicts from what, and how, in notebooks."""
        features = self.names.features or tuple(f"x{i}" for i in range(self.n_features))
        quantiles, errors = self.record.x_quantiles, self.record.x_err_median
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{quantiles[0, i]:.4g} to {quantiles[-1, i]:.4g}</td>"
            f"<td>{errors[i]:.4g}</td></tr>"
            for i, name in enumerate(features[:_MOST_SHOWN])
        )
        more = f"<p>and {len(features) - _MOST_SHOWN} more inputs</p>" if len(features) > _MOST_SHOWN else ""
        words = {
            "predicts": ", ".join(self.names.outputs or ("y",)) + (" (classes)" if self.has_classes else ""),
            "network": f"{self.settings.network}, pool of {self.n_networks}",
            "weight posterior": type(self.posterior).__name__,
            "input prior": type(self.input_prior).__name__,
            "labels scatter by": self.likelihood.describe(self.y_scaler.scale, self.pool),
            "stated errors times": self._factor_in_words(features),
        }
        facts = "".join(f"<tr><td>{name}</td><td>{html.escape(text)}</td></tr>" for name, text in words.items() if text)
        heading = "<tr><th>input</th><th>training rows</th><th>median error</th></tr>"
        return f"<div><p><b>FittedModel</b></p><table>{facts}</table><table>{heading}{rows}</table>{more}</div>"

    def _factor_in_words(self, features: Sequence[str]) -> str:
        """What stated errors are multiplied by: one number, or that of each feature whose size was learned."""
        if self.sizes is None:
            return f"{self.settings.x_err_factor:g}"
        learned = np.flatnonzero(self.sizes.prior_std)[:_MOST_SHOWN].tolist()
        return ", ".join(f"{self.sizes.factor[j]:.2g} ({features[j]})" for j in learned)

    def with_draws(self, n_theta: int | None = None, n_zeta: int | None = None) -> FittedModel:
        """The same model with other numbers of draws in its predictions; None leaves a number as it is."""
        settings = self.settings
        n_theta, n_zeta = n_theta or settings.n_theta, n_zeta or settings.n_zeta
        return replace(self, settings=replace(settings, n_theta=n_theta, n_zeta=n_zeta))

    def with_prior(self, input_prior: InputPrior) -> FittedModel:
        """The same model for rows whose true inputs have another prior than those of the training rows."""
        if self.settings.error_model == "berkson":
            raise ValueError(
                "input_prior has no meaning for error_model='berkson', where zeta given x is N(x, x_err^2) whatever is "
                "believed of zeta before."
            )
        sizes = self.sizes
        if sizes is not None:
            sizes = replace(sizes, nodes=tuple(replace(node, input_prior=input_prior) for node in sizes.nodes))
        return replace(self, input_prior=input_prior, sizes=sizes)

    @property
    def factor(self) -> float | Array:
        """What the stated errors of X are multiplied by: a number, or one per feature where sizes were learned."""
        return self.settings.x_err_factor if self.sizes is None else self.sizes.factor * self.settings.x_err_factor

    @property
    def by_size(self) -> list[tuple[float, FittedModel]]:
        """Models of one size of the errors each, with their shares: itself alone where sizes were not learned."""
        if self.sizes is None or not self.sizes.nodes:
            return [(1.0, self)]
        nodes, size = self.sizes.nodes, self.n_networks // len(self.sizes.nodes)
        found = []
        for place, (node, posterior) in enumerate(zip(nodes, self.posterior.split([size] * len(nodes)), strict=True)):
            own = slice(place * size, (place + 1) * size)
            weights = self.weights[own] / self.weights[own].sum()
            model = replace(
                self,
                input_prior=node.input_prior,
                posterior=posterior,
                likelihood=self.likelihood.networks(own),
                weights=weights,
                record=replace(self.record, loss_curve=self.record.loss_curve[:, own]),
                cloud=node.cloud,
                sizes=self.sizes.at(node),
            )
            found.append((node.share, model))
        return found

    def readings(self, x: Array, X_err: Any = None) -> Readings:
        """Rows to predict and their errors, in a form of `eiv.inputs.errors`.

        Args:
            x: `rows x n_x`; NaN for a reading that is missing, where the model was fitted with missing="integrate", or
                that is below the limit of a law.
            X_err: what a user states, in the units of X; None for the error of the fit.

        Returns:
            The rows without NaN, and their errors.

        """
        record, features = self.record, self.names.features
        if X_err is None and self.laws is None:
            if self.x_err is None:
                raise ValueError(
                    "X_err is needed: the model was fitted with an error for each row, so the errors of new rows have "
                    "to be given too (X_err=0 where they are exact)."
                )
            found = Readings(x, self.x_err[None])
        elif isinstance(X_err, EstimatedError):
            raise ValueError(
                "X_err: the size of errors is learned in a fit; state the errors of rows to predict as numbers, which "
                "are multiplied by what the fit has learned."
            )
        else:
            given = self.laws if X_err is None else X_err
            found = Readings.of("X_err", given, x, features, spread=record.x_spread, by_row=True)
        return found.without_gaps(self.settings.missing, record.x_spread, record.x_quantiles[2], features)

    def for_predictions(self) -> WeightPosterior:
        """The weight posterior, in float64 where its moments are known in closed form.

        Rounding errors then do not matter: rows have the same predictions alone, together and in any order, on every
        machine. Draws of the other families have Monte Carlo errors far above the rounding errors of float32.
        """
        return self._in_double if self.posterior.in_closed_form else self.posterior

    @cached_property
    def _in_double(self) -> WeightPosterior:
        return self.posterior.in_double()

    def predict(
        self,
        x: Array,
        errors: Errors,
        y_err: Array | None = None,
        *,
        n_draws: tuple[int, int] | None = None,
        method: str = "unbiased",
        keep_draws: bool | None = None,
        budget: bool = False,
        index: Any = None,
    ) -> Prediction:
        """Algorithm 2 for rows that have been checked.

        Args:
            x: `rows x n_x`.
            errors: the stated errors of x, in a form of `eiv.inputs.errors`.
            y_err: `rows x n_y`, known errors of labels, or None.
            n_draws: the number of thetas per network, and of zetas per block of thetas; by default as in the settings.
            method: "unbiased" or "literal".
            keep_draws: whether draws are kept; by default they are, up to 2^25 values.
            budget: whether the share of each feature in the uncertainty is computed.
            index: the labels of the rows.

        Returns:
            A `Prediction`.

        """
        check_option("method", method, tuple(SAMPLERS))
        self._check_rows(x, errors, of_classes=False)
        taken, n_theta, n_zeta = self._taken(errors, n_draws)
        n_values = n_theta * self.n_networks * n_zeta * len(x) * self.n_outputs
        keep = n_values <= memory.KEPT_DRAWS if keep_draws is None else keep_draws
        n_draws, make, of_sizes = (n_theta, n_zeta), SAMPLERS[method], self.by_size
        if len(of_sizes) > 1:
            predict = partial(
                FittedModel.predict, x=x, errors=errors, y_err=y_err, n_draws=n_draws, method=method, keep_draws=keep
            )
            found = [predict(part, budget=budget, index=index) for _, part in of_sizes]
            labels = self.likelihood.labels(self.y_scaler.scale, (len(x), self.n_outputs), y_err, self.pool)
            labels = labels if self.names.has_columns else labels[:, 0]
            return over_sizes(found, np.array([share for share, _ in of_sizes]), labels, self.seeds[: len(of_sizes)])
        errors, posterior = taken, self.for_predictions()
        sampler: FunctionSampler = make(posterior, self.n_features, *n_draws, self.seeds, self.pool)
        moments, drawn = self._sampled(x, errors, sampler, posterior, keep)
        shift, scale, own = self.y_scaler.shift, self.y_scaler.scale, self._f_outputs
        mean, draws = moments[0][:, own] * scale + shift, None if drawn is None else drawn[..., own] * scale + shift
        epistemic, aleatoric = np.sqrt(np.maximum(moments[1:, :, own], 0)) * scale
        shares = self._shares(x, errors, n_theta, n_zeta) if budget else None

        def alone(part: WeightPosterior, seed: SeedSequence) -> tuple[Array, Array | None]:
            return self._sampled(x, errors, make(part, self.n_features, *n_draws, [seed]), part, keep=False)

        labels = self._labels((moments, drawn), y_err, alone)
        known_of_fit = self.record.y_err_median
        likeness = None if self.cloud is None else self.cloud.likeness(x, errors)

        def shaped(values: NDArray[Any]) -> NDArray[Any]:
            return values if self.names.has_columns else values[..., 0]

        return Prediction(
            mean=shaped(mean),
            epistemic=shaped(epistemic),
            aleatoric=shaped(aleatoric),
            noise=shaped(labels.std),
            draws=None if draws is None else shaped(draws),
            index=index,
            output_names=self.names.outputs,
            shares=shares if shares is None or self.names.has_columns else shares[:, 0],
            feature_names=self.names.features,
            y_err_of_fit=known_of_fit if y_err is None and known_of_fit.any() else None,
            labels=labels if self.names.has_columns else labels[:, 0],
            likeness=likeness,
            unlike_below=None if self.cloud is None else self.cloud.level,
        )

    def _labels(
        self,
        found: tuple[Array, Array | None],
        y_err: Array | None,
        alone: Callable[[WeightPosterior, SeedSequence], tuple[Array, Array | None]],
    ) -> Labels:
        """The labels given f, and given other outputs of the networks where there are some.

        `found` is what `_sampled` gives, and `alone` the same of a single network.
        """
        scale, shape = self.y_scaler.scale, (found[0].shape[1], self.n_outputs)
        if found[0].shape[2] == self.n_outputs:
            return self.likelihood.labels(scale, shape, y_err, self.pool)
        of_networks = [found]
        if self.n_networks > 1:  # each alone, since the scales of these outputs are its own
            parts = self.for_predictions().split([1] * self.n_networks)
            of_networks = [alone(*each) for each in zip(parts, self.seeds, strict=True)]
        others = [self._others(*each) for each in of_networks]
        return self.likelihood.labels_at(others, scale, shape, y_err, self.pool)

    def predict_classes(
        self,
        x: Array,
        errors: Errors,
        *,
        n_draws: tuple[int, int] | None = None,
        budget: bool = False,
        index: Any = None,
    ) -> ClassPrediction:
        """The probabilities of classes, and the components of their entropy, for rows that have been checked.

        The arguments are those of `predict`. `budget` adds what each input contributes, by 20 thetas at most.
        """
        self._check_rows(x, errors, of_classes=True)
        assert self.names.classes is not None
        errors, n_theta, n_zeta = self._taken(errors, n_draws)
        posterior = self._in_double  # rows alone and together then have the same probabilities
        sampler = ClassSampler(posterior, self.n_features, n_theta, n_zeta, self.seeds, self.pool)
        found = np.empty((len(x), self.n_outputs + 3))
        shares = np.zeros((len(x), self.n_features)) if budget else None
        few = min(n_theta, _BUDGET_THETAS)
        of_inputs = EntropyBudgetSampler(posterior, self.n_features, few, n_zeta, self.seeds, self.pool)
        with matmul_precision(posterior.parameters[0].device, "float32"):
            for rows, inputs in self._chunks(x, errors, sampler.rows_at_once, posterior):
                p, *parts = sampler.entropies(inputs)
                found[rows] = torch.cat([p, torch.stack(parts, dim=1)], dim=1).cpu().numpy()
            if shares is not None:
                for rows, inputs in self._chunks(x, errors, of_inputs.rows_at_once, posterior):
                    shares[rows] = of_inputs.contributions(inputs).cpu().numpy()
        _check_finite(found[None])
        label, aleatoric, epistemic = found[:, self.n_outputs :].T
        return ClassPrediction(
            probabilities=found[:, : self.n_outputs],
            classes=self.names.classes,
            label=label,
            aleatoric=aleatoric,
            epistemic=epistemic,
            index=index,
            likeness=None if self.cloud is None else self.cloud.likeness(x, errors),
            unlike_below=None if self.cloud is None else self.cloud.level,
            contributions=shares,
            feature_names=self.names.features,
        )

    def true_inputs(
        self,
        x: Array,
        errors: Errors,
        y: Array | None = None,
        y_err: Array | None = None,
        *,
        n_theta: int | None = None,
        n_draws: int = 500,
        keep_draws: bool | None = None,
        index: Any = None,
    ) -> TrueInputs:
        """The true inputs of rows that have been checked.

        Args:
            x: `rows x n_x`.
            errors: the stated errors of x, in a form of `eiv.inputs.errors`.
            y: `rows x n_y`, the labels; NaN in rows whose label is not known. None where none is.
            y_err: `rows x n_y`, known errors of labels, or None.
            n_theta: the number of thetas per network; by default as in the settings.
            n_draws: draws of the true inputs, 2 at least.
            keep_draws: whether draws and covariances are kept; by default they are, up to 2^25 values.
            index: the labels of the rows.

        Returns:
            The `TrueInputs`.

        """
        keep = n_draws * x.size <= memory.KEPT_DRAWS if keep_draws is None else keep_draws
        of_sizes = self.by_size
        if len(of_sizes) > 1:
            of_size = partial(
                FittedModel.true_inputs, x=x, errors=errors, y=y, y_err=y_err,
                n_theta=n_theta, n_draws=n_draws, keep_draws=keep, index=index,
            )  # fmt: skip
            shares = np.array([share for share, _ in of_sizes])
            return true_inputs_over_sizes([of_size(part) for _, part in of_sizes], shares, self.seeds[0])
        taken, n_theta = times(errors, self.factor), n_theta or self.settings.n_theta
        posterior = self._in_double  # rows alone and together then have the same answers
        like, units = posterior.parameters[0], (self.x_scaler.shift, self.x_scaler.scale)
        likelihood = self.likelihood.to(like.device, torch.float64)
        sampler = LineSampler(posterior, likelihood, units, n_theta, self.seeds, self.pool)
        found = FoundZetas.empty(x.shape, n_draws, keep)
        unit = self.y_scaler.scale
        labels = np.full((len(x), self.n_outputs), np.nan) if y is None else (y - self.y_scaler.shift) / unit
        known = np.zeros(labels.shape) if y_err is None else y_err / unit
        observed = Observed(*(torch.tensor(part, device=like.device) for part in (labels, known)))
        with matmul_precision(like.device, "float32"):
            for start in range(0, len(x), sampler.chunk_rows):
                chunk = np.arange(start, min(start + sampler.chunk_rows, len(x)))
                kinds = sampler.kinds(self._zetas(x, taken, chunk, like.device), observed.rows(chunk))
                for kind in np.unique(kinds):
                    rows = chunk[kinds == kind]
                    inputs = self._zetas(x, taken, rows, like.device)
                    found.put(rows, x[rows], sampler.sample(inputs, observed.rows(rows), n_draws, kind))
        return TrueInputs(
            x, found.mean, found.std, found.ess, found.draws, found.covariance, index, self.names.features
        )

    def _zetas(self, x: Array, errors: Errors, rows: NDArray[np.int64], device: torch.device) -> ZetaPosterior:
        """The posterior of zeta given x in some rows, in the units of X and in float64."""
        zeta = checked_zetas(self._prior, x[rows], errors if len(errors) == 1 else errors[rows])
        if not is_ours(zeta):
            shift, scale = torch.zeros(x.shape[1]).double(), torch.ones(x.shape[1]).double()
            zeta = OwnDraws.of(zeta, shift, scale)  # which looks whether it can be drawn from
        return zeta.to(device, torch.float64)

    def _check_rows(self, x: Array, errors: Errors, *, of_classes: bool) -> None:
        """Raise a ValueError for rows that `readings` has not made ready, and for the other kind of labels."""
        if self.has_classes != of_classes:
            kind, method = ("classes", "predict_classes") if self.has_classes else ("numbers", "predict")
            raise ValueError(f"The model predicts {kind}: use its method {method}.")
        if np.ndim(x) != 2 or np.shape(x)[1] != self.n_features:
            raise ValueError(f"x must have shape (rows, {self.n_features}), got {np.shape(x)}.")
        if not isinstance(errors, np.ndarray | MixedErrors) or len(errors) not in (1, len(x)):
            raise ValueError("errors must be those of `readings(x, X_err)`, for all rows or for each.")

    def _taken(self, errors: Errors, n_draws: tuple[int, int] | None) -> tuple[Errors, int, int]:
        """The errors of x that a prediction takes, the number of thetas per network, and of zetas per block."""
        n_theta, n_zeta = n_draws or (self.settings.n_theta, zetas_per_block(self.settings.n_zeta))
        taken = times(errors, self.factor)
        return taken, n_theta, n_zeta if taken.any() else 1

    def draw_zeta(self, x: Array, errors: Errors, n_draws: int, random: np.random.Generator) -> Array:
        """Draw true inputs given the measured ones, in the units of X: `n_draws x rows x n_x`."""
        of_sizes = self.by_size
        if len(of_sizes) > 1:
            chosen = random.choice(len(of_sizes), n_draws, p=[share for share, _ in of_sizes])
            found = np.empty((n_draws, *x.shape))
            for place, (_, part) in enumerate(of_sizes):
                found[chosen == place] = part.draw_zeta(x, errors, int(np.sum(chosen == place)), random)
            return found
        taken = times(errors, self.factor)
        zeta = checked_zetas(self._prior, x, taken)
        noise = random.standard_normal((len(x), n_draws, zeta.n_base))
        drawn: Array = zeta.draw(torch.from_numpy(noise)).transpose(0, 1).numpy()
        return drawn

    def zeta_moments(self, x: Array, errors: Errors) -> tuple[Array, Array]:
        """The mean and the standard deviation of the true inputs given the measured ones, in the units of X.

        Where the size of the errors was learned they are over all sizes, and those of a posterior of the user's own are
        those of its draws.

        Args:
            x: `rows x n_x`.
            errors: the stated errors of x, in a form of `eiv.inputs.errors`.

        Returns:
            Two arrays `rows x n_x`.

        """
        first = self._zetas(x, times(errors, self.factor), np.arange(min(1, len(x))), torch.device("cpu"))
        n_draws = 2 if first.matchable else _MOMENT_DRAWS  # moments in closed form need none
        found = self.true_inputs(x, errors, n_draws=n_draws, keep_draws=False)
        return found.mean, found.std

    def _sampled(
        self, x: Array, errors: Errors, sampler: FunctionSampler, posterior: WeightPosterior, keep: bool
    ) -> tuple[Array, Array | None]:
        """Mean, epistemic and aleatoric variance of all outputs of the networks, in their units, and draws.

        They are `3 x rows x n` and `n_draws x rows x n`.
        """
        moments = np.empty((3, len(x), posterior.stack.n_outputs))
        kept: list[Array] = []
        # TF32 would change f by 1/2,000 of its value, more than some uncertainties; for training it is good enough.
        with matmul_precision(posterior.parameters[0].device, "float32"):
            for rows, inputs in self._chunks(x, errors, sampler.chunk_rows, posterior):
                found, draws = sampler.sample(inputs, keep)
                moments[:, rows] = torch.stack([found.mean, found.epistemic, found.aleatoric]).cpu().numpy()
                if draws is not None:
                    kept.append(draws.cpu().numpy())
        _check_finite(moments)
        return moments, np.concatenate(kept, axis=1) if keep else None

    def _others(self, moments: Array, draws: Array | None) -> OtherOutputs:
        """The outputs of a network that are not f."""
        rest = np.delete(np.arange(moments.shape[2]), np.arange(moments.shape[2])[self._f_outputs])
        variance = np.maximum(moments[1:, :, rest], 0).sum(0)
        return OtherOutputs(moments[0][:, rest], variance, None if draws is None else draws[..., rest])

    @property
    def _f_outputs(self) -> slice:
        """Which outputs of the networks are f."""
        return self.likelihood.f_outputs(self.n_outputs)

    def _shares(self, x: Array, errors: Errors, n_theta: int, n_zeta: int) -> Array:
        """The share of each feature in the aleatoric variance, `rows x n_y x n_x`; NaN where there is no error."""
        shares = np.full((len(x), self.n_outputs, self.n_features), np.nan)
        if errors.any():
            sampler = BudgetSampler(self.posterior, self.n_features, n_theta, n_zeta, self.seeds, self.pool)
            with matmul_precision(self.posterior.parameters[0].device, "float32"):
                for rows, inputs in self._chunks(x, errors, sampler.chunk_rows, self.posterior):
                    shares[rows] = sampler.shares(inputs)[:, self._f_outputs].cpu().numpy()
        return shares

    def _chunks(
        self, x: Array, errors: Errors, size: int, posterior: WeightPosterior
    ) -> Iterator[tuple[slice, ZetaPosterior]]:
        """The posterior of zeta, standardised, for `size` rows at a time, in the dtype of the networks."""
        like = posterior.parameters[0]
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            chunk = errors if len(errors) == 1 else errors[rows]
            yield rows, self.zeta_posterior(x[rows], chunk, like.device, like.dtype)


def _of_parts(parts: dict[str, Any]) -> FittedModel:
    return FittedModel(**parts)


def _check_finite(moments: Array) -> None:
    bad = np.asarray(~np.isfinite(moments).all((0, 2)))
    if bad.any():
        raise ValueError(
            f"X: the prediction for {bad.sum()} of {len(bad)} rows is not a finite number, first for row "
            f"{bad.argmax()}. Its values are too far from those of the fit."
        )
