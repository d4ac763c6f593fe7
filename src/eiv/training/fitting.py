"""From checked tables to fitted models: what `EiVRegressor.fit` and `fit_splits` share."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random import SeedSequence
from numpy.typing import NDArray
from torch import Tensor

import eiv
from eiv import validation as v
from eiv.engine.graphs import matmul_precision
from eiv.engine.streams import Purpose, Streams, network_seeds
from eiv.engine.workers import n_workers, run_tasks
from eiv.inputs import (
    ErrorLaw,
    FlatPrior,
    InputPrior,
    LearnedPrior,
    MixturePrior,
    Rows,
    SizePrior,
    TrainingCloud,
    ZetaDraws,
    ZetaPosterior,
)
from eiv.inputs.errors import standard_deviations, times
from eiv.inputs.given import log_density_of_readings
from eiv.inputs.mixed import Errors, MixedErrors, as_tensor, missing_cells
from eiv.inputs.rows import stack_rows
from eiv.inputs.zetas import standardised_zetas
from eiv.io.pieces import pieces
from eiv.likelihoods import Likelihood
from eiv.model import FittedModel, Names, Record
from eiv.posteriors import WeightPosterior
from eiv.posteriors.base import one_or_each
from eiv.scaling import Scaler, mean_and_spread
from eiv.training.checkpoints import Checkpoint, Course
from eiv.training.diagnostics import LARGE_GAP, LooseBoundWarning, advice, zeta_diagnostics
from eiv.training.evidence import MEMBERS, Fitted, KernelSearch, fit_by_evidence, n_rounds
from eiv.training.loop import Schedule, TrainingResult, train
from eiv.training.making import (
    device_of,
    input_prior_of,
    likelihood_of,
    new_likelihood,
    new_posterior,
)
from eiv.training.progress import Progress, Report, between, joint, part_of, show_integration, tell, training_progress
from eiv.training.settings import DTYPES, Settings, settings_for

Array = NDArray[np.float64]
X_QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)  # of the training rows, kept in the record
_OWN = (  # settings in which models of one stack may differ
    *("weight_penalty", "x_err_factor", "input_prior", "error_model", "standardise", "y_noise_init"),
    *("n_networks", "n_theta", "recipe", "verbose"),
)
_PLAIN = (str, int, float, type(None))
_SHARE_OF_PRIOR = 0.02  # of the time of a fit
_SHARE_OF_SEARCH = 0.62  # of that of a network of cosines
_FEWEST_HELD_OUT, _ENOUGH_HELD_OUT, _MOST_HELD_OUT = 5, 20, 1000


@dataclass(frozen=True)
class Table:
    """Checked training data of one model.

    Attributes:
        x: `rows x n_x`.
        x_err: errors of X, in a form of `eiv.inputs.errors`.
        y: `rows x n_y`.
        y_err: the same shape, or None.
        names: of features and outputs.
        weights: `rows`, above zero, how often each row counts; None where each counts once.
        laws: of the error of each feature in rows to come, where some have another law than the normal one.
        size_prior: what is believed of the size of the errors of X, where that is to be learned.

    """

    x: Array
    x_err: Errors
    y: Array
    y_err: Array | None = None
    names: Names = field(default_factory=Names)
    weights: Array | None = None
    laws: tuple[ErrorLaw, ...] | None = None
    size_prior: SizePrior | None = None

    @property
    def size(self) -> int:
        """How many rows they count for, to a whole number."""
        return len(self.x) if self.weights is None else round(float(self.weights.sum()))

    @property
    def x_spread(self) -> Array:
        """`n_x`, the standard deviation of the readings of each feature."""
        return mean_and_spread(self._readings, self.weights)[1]

    @property
    def x_quantiles(self) -> Array:
        """`5 x n_x`, those of the readings of each feature that a record keeps."""
        quantiles = np.nanquantile if self._has_gaps else np.quantile
        return np.asarray(quantiles(self._readings, X_QUANTILES, axis=0))

    @property
    def x_err_median(self) -> Array:
        """`n_x`, the median error of the readings of each feature."""
        errors, missing = standard_deviations(self.x_err), missing_cells(self.x_err)
        return np.asarray(
            np.median(errors, 0) if missing is None else np.nanmedian(np.where(missing, np.nan, errors), 0)
        )

    @property
    def _has_gaps(self) -> bool:
        return missing_cells(self.x_err) is not None

    @property
    def _readings(self) -> Array:
        """The rows with NaN where there is no reading."""
        missing = missing_cells(self.x_err)
        return self.x if missing is None else np.where(missing, np.nan, self.x)

    @property
    def usual_error(self) -> Array | None:
        """The error in predictions where none is given; None where rows had errors of their own."""
        if self.laws is not None:
            return self.x_err_median
        return None if isinstance(self.x_err, MixedErrors) or len(self.x_err) > 1 else self.x_err[0]

    @property
    def stated_errors(self) -> Array:
        """`(1 or rows) x n_x`, the standard deviations of the errors of readings; 0 where there is no reading."""
        errors, missing = standard_deviations(self.x_err), missing_cells(self.x_err)
        return errors if missing is None else np.where(missing, 0.0, errors)

    @property
    def n_noisy(self) -> int:
        """How many features have an error in some row."""
        return int(standard_deviations(self.x_err).any(0).sum())

    @property
    def sample(self) -> Table:
        """The rows that a prior is learned from, and quantiles are found from: all of them."""
        return self

    def zetas(self, prior: InputPrior, scaler: Scaler, errors: Errors) -> ZetaPosterior:
        """The posterior of the true inputs of all rows in the units of the networks, `rows x n_x`."""
        return standardised_zetas(prior, scaler, self.x, errors)

    def with_errors_times(self, factor: float | Array) -> Table:
        """The same rows with errors of X that are `factor` times as large, one number or one per feature."""
        return self if np.all(factor == 1) else replace(self, x_err=times(self.x_err, factor))

    def take(self, rows: NDArray[np.intp]) -> Table:
        """Some of the rows."""
        x_err = self.x_err if len(self.x_err) == 1 else self.x_err[rows]
        y_err, weights = (None if part is None else part[rows] for part in (self.y_err, self.weights))
        return replace(self, x=self.x[rows], x_err=x_err, y=self.y[rows], y_err=y_err, weights=weights)

    def once(self) -> Table:
        """Each row once: without weights, and without rows that are copies of others, to the last digit.

        Of rounded numbers rows may agree by chance. They do so about as often if the labels are shuffled.
        """
        of_rows = [part for part in (standard_deviations(self.x_err), self.y_err) if part is not None and len(part) > 1]
        readings = np.hstack([self._readings, *of_rows])
        _, first = np.unique(np.hstack([readings, self.y]), axis=0, return_index=True)
        shuffled = np.random.default_rng(0).permutation(self.y)
        by_chance = len(self.x) - len(np.unique(np.hstack([readings, shuffled]), axis=0))
        if len(self.x) - len(first) <= 2 * by_chance:
            return self if self.weights is None else replace(self, weights=None)
        return replace(self.take(np.sort(first)), weights=None)


@dataclass(frozen=True)
class Spec:
    """What is to be fitted.

    Attributes:
        arguments: of an estimator, None standing for the recipe's choice.
        seed: of all random streams.
        checkpoints: the folder for the state of a training, from which the next start goes on; None for none.

    """

    arguments: Mapping[str, Any]
    seed: int
    checkpoints: Path | None = None

    def given(self, **changes: Any) -> Spec:
        """The same with other arguments."""
        return replace(self, arguments=dict(self.arguments) | changes)


@dataclass(frozen=True)
class _Member:
    """One model of a stack before it is trained, in the units and on the device of its networks."""

    spec: Spec
    settings: Settings
    table: Table
    prior: InputPrior
    x_scaler: Scaler
    y_scaler: Scaler
    rows: Rows

    @classmethod
    def of(cls, spec: Spec, settings: Settings, table: Table, prior: InputPrior) -> _Member:
        x_scaler, y_scaler = scalers_of(settings, table)
        device, dtype = device_of(settings.device), DTYPES[settings.dtype]
        errors = times(table.x_err, settings.x_err_factor)
        zetas = table.zetas(prior, x_scaler, errors).to(device, dtype)

        def scaled(values: Array, shift: Array) -> Tensor:
            parts = ((piece - shift) / y_scaler.scale for piece in pieces(values))
            return torch.cat([torch.from_numpy(part).to(device, dtype) for part in parts])

        y = scaled(table.y, y_scaler.shift)
        known = None if table.y_err is None else scaled(table.y_err, np.zeros(1))
        weights = None if table.weights is None else torch.tensor(table.weights).to(device, dtype)
        return cls(spec, settings, table, prior, x_scaler, y_scaler, Rows(zetas, y, known, weights))

    @property
    def seeds(self) -> list[SeedSequence]:
        return network_seeds(self.spec.seed, self.settings.n_networks)

    @cached_property
    def halves(self) -> list[ZetaPosterior]:
        """The zetas of all rows under each prior learned from half of the rows; empty without a learned prior."""
        learned = input_prior_of(self.settings.input_prior, self.settings.error_model)
        if not isinstance(learned, LearnedPrior) or not isinstance(self.prior, MixturePrior):
            return []
        errors = times(self.table.x_err, self.settings.x_err_factor)
        x, x_err, weights = _as_tensors(replace(self.table, x_err=errors))
        priors = learned.halves(self.prior, x, x_err, MEMBERS, weights)
        return [standardised_zetas(prior, self.x_scaler, self.table.x, errors) for prior in priors]

    def fitted(self, posterior: WeightPosterior, likelihood: Likelihood, losses: Tensor) -> FittedModel:
        table, n_networks = self.table, posterior.stack.n_networks
        label_errors = table.sample.y_err
        known = np.zeros(table.y.shape[1]) if label_errors is None else v.median_above_zero(label_errors)
        record = Record(
            loss_curve=losses.double().cpu().numpy(),
            x_spread=table.x_spread,
            x_quantiles=table.x_quantiles,
            x_err_median=table.x_err_median,
            y_err_median=known,
        )
        return FittedModel(
            settings=self.settings,
            arguments=dict(self.spec.arguments) | vars(self.settings),
            seed=self.spec.seed,
            x_scaler=self.x_scaler,
            y_scaler=self.y_scaler,
            input_prior=self.prior,
            posterior=posterior,
            likelihood=likelihood,
            weights=np.full(n_networks, 1 / n_networks),
            x_err=self.table.usual_error,
            n_features=table.x.shape[1],
            n_outputs=table.y.shape[1],
            names=table.names,
            record=record,
            cloud=self._cloud(record),
            laws=table.laws,
        )

    def _cloud(self, record: Record) -> TrainingCloud:
        """Where the rows lie: by the prior, where that was learned from them."""
        settings = self.settings
        some = self.table.sample
        errors, usual = times(some.x_err, settings.x_err_factor), settings.x_err_factor * record.x_err_median
        is_learned = hasattr(input_prior_of(settings.input_prior, settings.error_model), "fit")
        prior = self.prior if is_learned and isinstance(self.prior, MixturePrior) else None
        cloud = TrainingCloud.of(some.x, errors, record.x_quantiles, usual, prior)
        return replace(cloud, n_rows=len(self.table.x))


def fit_stack(
    specs: Sequence[Spec],
    tables: Sequence[Table],
    on_progress: Progress = None,
    near: Sequence[Tensor] = (),
) -> list[FittedModel]:
    """Fit models of one kind, on as many rows each, as one stack of networks, or one for each way to draw zetas.

    They may differ in their rows, their seeds, and in what `_OWN` lists. Networks of cosines may begin `near` kernels
    that were found before, one for each model.
    """
    n_noisy = max(table.n_noisy for table in tables)
    chosen = [settings_for(spec.arguments, table.size, n_noisy) for spec, table in zip(specs, tables, strict=True)]
    _check_one_kind(chosen)
    tell(on_progress, 0.0, "distribution of the true inputs")
    priors = _fitted_priors(
        chosen, [table.with_errors_times(own.x_err_factor) for own, table in zip(chosen, tables, strict=True)]
    )
    members = [_Member.of(*parts) for parts in zip(specs, chosen, tables, priors, strict=True)]
    on_progress = between(on_progress, _SHARE_OF_PRIOR, 1.0)
    if chosen[0].network == "cosine":
        return _fit_by_evidence(members, on_progress, near or [None] * len(members))
    found: dict[int, FittedModel] = {}
    stacks = _by_draws(members)
    for i, places in enumerate(stacks):
        models = _fit_by_steps([members[place] for place in places], part_of(on_progress, i, len(stacks)))
        found |= dict(zip(places, models, strict=True))
    models = [found[place] for place in range(len(members))]
    _tell_of_zetas(models, members)
    return models


def _by_draws(members: Sequence[_Member]) -> list[list[int]]:
    """The places of the members that draw their zetas in the same way, so that each has the numbers it has alone."""
    stacks: dict[ZetaDraws | None, list[int]] = {}
    for place, member in enumerate(members):
        inputs = member.rows.inputs
        stacks.setdefault(None if inputs.is_exact else _draws(member.settings, inputs), []).append(place)
    return list(stacks.values())


def _fit_by_steps(members: Sequence[_Member], on_progress: Progress) -> list[FittedModel]:
    """Train the networks of all members as one stack."""
    settings, device, n_x = members[0].settings, members[0].rows.y.device, members[0].table.x.shape[1]
    seeds = [seed for member in members for seed in member.seeds]
    rows = [member.rows for member in members for _ in member.seeds]
    likelihood = _likelihood(members)
    schedule = _schedule(settings, likelihood, members[0].table)
    stop = threading.Event()

    def fit_group(posterior: WeightPosterior, group: slice, report: Report | None) -> TrainingResult:
        own = stack_rows(rows[group])
        started = likelihood.networks(group)
        checkpoint = _checkpoint(
            members[0].spec.checkpoints, posterior, own, started, (settings, schedule, seeds[group])
        )
        return train(posterior, own, started, schedule, seeds[group], report, stop, checkpoint)

    penalties = [member.settings.weight_penalty for member in members for _ in member.seeds]
    penalty = one_or_each(torch.tensor(penalties, dtype=torch.float64, device=device))
    whole = new_posterior(settings, n_x, members[0].table.y.shape[1], seeds, device, penalty)
    n_zeta = 1 if rows[0].inputs.is_exact else _draws(settings, rows[0].inputs).n_zeta
    work = settings.batch_size * n_zeta * whole.stack.width**2
    size = -(-len(seeds) // n_workers(len(seeds), device, work))
    groups = [slice(start, start + size) for start in range(0, len(seeds), size)]
    posteriors = whole.split([len(seeds[group]) for group in groups])
    y_scale = float(np.sqrt(np.mean(members[0].y_scaler.scale ** 2)))
    with training_progress(schedule.epochs, y_scale, settings.verbose, on_progress) as report:
        tasks = [
            partial(fit_group, posterior, group, report if group.start == 0 else None)
            for posterior, group in zip(posteriors, groups, strict=True)
        ]
        results = run_tasks(tasks, device, stop, whole.stack.width)
    return _models(members, posteriors[0].join(posteriors[1:]), results)


def _checkpoint(
    folder: Path | None, posterior: WeightPosterior, rows: Rows, likelihood: Likelihood, others: tuple[Any, ...]
) -> Checkpoint | None:
    """The file for the state of a training, named by all that this depends on; None without a folder."""
    if folder is None or not Course.is_known(posterior, likelihood):
        return None
    like = rows.inputs.described
    seen = [like.mean, like.std, rows.y, *(part for part in (rows.y_err, rows.weights) if part is not None)]
    words = repr((eiv.__version__, torch.__version__, posterior.stack.template, *others))
    return Checkpoint.of(folder, words, [*seen, *posterior.parameters, *likelihood.state.values()])


def _check_one_kind(chosen: Sequence[Settings]) -> None:
    """Refuse models that differ in what their networks have in common."""
    first = vars(chosen[0])
    for name, value in ((name, value) for other in chosen[1:] for name, value in vars(other).items()):
        known = name == "y_noise" and all(isinstance(each, int | float) for each in (value, first[name]))
        same = value == first[name] if isinstance(value, _PLAIN) else _same(value, first[name])
        if name not in _OWN and not known and not same:
            raise ValueError(f"{name} must be the same for all models of a stack, got {first[name]!r} and {value!r}.")


def _same(value: object, other: object) -> bool:
    """Whether two classes or objects of the user's own are one, or copies: a cloned estimator has copies of them."""
    if value is other or isinstance(value, type) or type(value) is not type(other):
        return value is other
    parts, others = getattr(value, "__dict__", {}), getattr(other, "__dict__", {})
    return parts.keys() == others.keys() and all(np.array_equal(part, others[name]) for name, part in parts.items())


def _fit_by_evidence(
    members: Sequence[_Member], on_progress: Progress, near: Sequence[Tensor | None]
) -> list[FittedModel]:
    """Fit networks of cosines, one after another on a GPU, side by side on the cores of a CPU."""
    settings, device = members[0].settings, members[0].rows.y.device
    n_x, n_y = members[0].table.x.shape[1], members[0].table.y.shape[1]
    likelihood = _likelihood(members)
    y_scale = float(np.sqrt(np.mean(members[0].y_scaler.scale ** 2)))

    def fit(member: _Member, seed: SeedSequence, begin: Tensor | None, place: int, report: Report | None) -> Fitted:
        tell(parts[place], 0.0, "search for the kernel")
        on_round = reported(report, between(parts[place], 0.0, _SHARE_OF_SEARCH))
        known = likelihood.state["y_noise"][place] if likelihood.is_fixed else None
        posterior = new_posterior(settings, n_x, n_y, [seed] * MEMBERS, device)
        own = between(parts[place], _SHARE_OF_SEARCH, 1.0)
        return fit_by_evidence(posterior, member.rows, _number(seed), known, on_round, member.halves, begin, own)

    def reported(report: Report | None, on_search: Progress) -> Callable[[Tensor, Tensor], None]:
        rounds, one_by_one = itertools.count(1), threading.Lock()

        def on_round(loss: Tensor, y_noise: Tensor) -> None:
            with one_by_one:
                done = next(rounds)
                tell(on_search, done / n_steps, "search for the kernel")
                if report is not None:
                    so_far = likelihood.networks(slice(1)).with_state({"y_noise": y_noise.unsqueeze(0)})
                    report(done, loss, so_far)

        return on_round

    pairs = [(member, seed, begin) for member, begin in zip(members, near, strict=True) for seed in member.seeds]
    n_steps = n_rounds(n_x, likelihood.is_fixed)
    parts = joint(on_progress, len(pairs))
    with training_progress(n_steps, y_scale, settings.verbose, unit="rounds") as report:
        tasks = [partial(fit, *pair, place, None if place else report) for place, pair in enumerate(pairs)]
        found = iter(run_tasks(tasks, device))
    models = []
    for member in members:
        first, *others = [next(found) for _ in member.seeds]
        y_noise = torch.cat([each.y_noise for each in (first, *others)]).to(member.rows.y.dtype)
        courses = _side_by_side([each.course for each in (first, *others)]).repeat_interleave(MEMBERS, dim=1)
        joined = first.posterior.join([each.posterior for each in others])
        rows, seeds = stack_rows([member.rows] * len(y_noise)), network_seeds(member.spec.seed, len(y_noise))
        streams = Streams.of(seeds, Purpose.FINISH, device, member.rows.y.dtype)
        fitted = new_likelihood(member.settings, y_noise).finished(joined, rows, None, streams)
        model = member.fitted(joined, fitted, courses)
        weights = np.concatenate([each.shares for each in (first, *others)])
        kernel = first.kernel.cpu().numpy()
        record = replace(
            model.record,
            evidence=first.evidence,
            left_out=first.left_out,
            kernel=kernel,
            n_searched=first.n_searched,
        )
        models.append(replace(model, weights=weights / weights.sum(), record=record))
    return models


def _side_by_side(courses: Sequence[Tensor]) -> Tensor:
    """The courses of several searches, `rounds x searches`; one whose best round came earlier stays there."""
    longest = max(map(len, courses))
    return torch.stack([torch.cat([each, each[-1:].expand(longest - len(each))]) for each in courses], dim=1)


class Trial(NamedTuple):
    """One size of the errors of X, to be tried by the density of x and y.

    Attributes:
        search: for the kernel of a network of cosines.
        prior: of the true inputs, as it is found for these errors.
        table: the rows, with errors of this size.

    """

    search: KernelSearch
    prior: InputPrior
    table: Table

    @classmethod
    def of(cls, spec: Spec, table: Table, near: InputPrior | None = None) -> Trial:
        """The trial of a table; a prior that is learned may begin `near` that of other errors."""
        settings = settings_for(spec.arguments, table.size, table.n_noisy)
        taken = table.with_errors_times(settings.x_err_factor)
        learned = input_prior_of(settings.input_prior, settings.error_model)
        if type(learned) is LearnedPrior and isinstance(near, MixturePrior) and taken.x_err.any():
            x, x_err, weights = _as_tensors(taken)
            prior: InputPrior = learned.near(near, x, x_err, weights)
        else:
            (prior,) = _fitted_priors([settings], [taken])
        member = _Member.of(spec, settings, table, prior)
        likelihood = _likelihood([member])
        known = likelihood.state["y_noise"][0] if likelihood.is_fixed else None
        search = KernelSearch.of(member.rows, settings.hidden_units, _number(member.seeds[0]), known)
        return cls(search, prior, taken)

    @property
    def log_density_of_x(self) -> float:
        r"""The logarithm of the density of x in the rows of the search.

        .. math:: \sum_i \log \int \pi(\zeta)\, p(x_i | \zeta)\, \mathrm{d}\zeta
        """
        some = self.table.take(self.search.rows.cpu().numpy())
        found = log_density_of_readings(self.prior, torch.tensor(some.x), some.x_err)
        return float(found.sum() if some.weights is None else found @ torch.tensor(some.weights))


def _number(seed: SeedSequence) -> int:
    return int(seed.generate_state(1)[0])


def _models(
    members: Sequence[_Member], posterior: WeightPosterior, results: Sequence[TrainingResult]
) -> list[FittedModel]:
    """The fitted models of a stack, with how well training has integrated over zeta."""
    first, *others = results
    likelihood = first.likelihood.join([result.likelihood for result in others])
    of_steps = first.likelihood_of_steps.join([result.likelihood_of_steps for result in others])
    losses = torch.cat([result.losses for result in results], dim=1)
    sizes = [member.settings.n_networks for member in members]
    ends = np.cumsum(sizes).tolist()
    networks = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    models = [
        member.fitted(part, likelihood.networks(own), losses[:, own])
        for member, part, own in zip(members, posterior.split(sizes), networks, strict=True)
    ]
    tasks = [
        partial(_measured, model, member, of_steps.networks(own))
        for model, member, own in zip(models, members, networks, strict=True)
    ]
    with matmul_precision(losses.device, members[0].settings.precision):
        return run_tasks(tasks, losses.device, width=posterior.stack.width)


def _measured(model: FittedModel, member: _Member, likelihood: Likelihood) -> FittedModel:
    """The model with the effective sample size of its zetas and the gap of its bound in the record."""
    rows = stack_rows([member.rows] * model.n_networks)
    if rows.inputs.is_exact:
        return model
    streams = Streams.of(member.seeds, Purpose.DIAGNOSTICS, rows.y.device, rows.y.dtype)
    draws = _draws(model.settings, rows.inputs)
    if draws.moves_zeta:
        return model
    found = zeta_diagnostics(model.posterior, rows, likelihood, draws, streams)
    ess, gap = found.ess.mean().item(), found.gap.mean().item()
    return replace(model, record=replace(model.record, zeta_ess=ess, bound_gap=gap))


def _tell_of_zetas(models: Sequence[FittedModel], members: Sequence[_Member]) -> None:
    """Show how well the worst of the models has integrated over zeta, and warn where that is not good enough."""
    gaps = {i: model.record.bound_gap for i, model in enumerate(models) if model.record.bound_gap is not None}
    if not gaps:
        return
    worst = max(gaps, key=lambda i: gaps[i])
    settings, ess, gap = models[worst].settings, models[worst].record.zeta_ess or 0.0, gaps[worst]
    draws = _draws(settings, members[worst].rows.inputs)
    if settings.verbose:
        show_integration(ess, gap, draws.n_zeta)
    if gap > LARGE_GAP:
        advised = advice(ess, gap, draws, settings.n_zeta or draws.n_zeta)
        warnings.warn(advised, LooseBoundWarning, stacklevel=2)


def _likelihood(members: Sequence[_Member]) -> Likelihood:
    """The likelihood that training begins with, for all networks."""
    values = []
    for member in members:
        y, settings = member.rows.y, member.settings
        start = y.new_full(y.shape[1:], settings.y_noise_init)
        if isinstance(settings.y_noise, int | float | np.number):
            start = torch.from_numpy(np.asarray(settings.y_noise, dtype=float) / member.y_scaler.scale).to(y)
        values += [start] * settings.n_networks
    return new_likelihood(members[0].settings, torch.stack(values))


def _schedule(settings: Settings, likelihood: Likelihood, table: Table) -> Schedule:
    judges = not likelihood.is_fixed or likelihood.splits_error
    shared: dict[str, Any] = {each.name: vars(settings).get(each.name) for each in fields(Schedule)}
    n_rows = len(table.x)
    held_out = held_out_rows(settings.held_out, n_rows) if judges else 0
    # The rows that are held out differ from network to network, and so does what the others count for.
    n_visits = None if table.weights is None else max(1, round(table.size * (1 - held_out / n_rows)))
    return Schedule(**(shared | {"renew_every": settings.y_noise_every, "held_out": held_out, "n_visits": n_visits}))


def _draws(settings: Settings, inputs: ZetaPosterior) -> ZetaDraws:
    return ZetaDraws.of(settings.zeta_draws, settings.n_zeta, inputs)


def held_out_rows(share: float, n_rows: int) -> int:
    """The rows that sigma_y is found on: enough to determine it, and not so many that the networks miss them."""
    found = min(max(round(share * n_rows), _ENOUGH_HELD_OUT), n_rows // 5, _MOST_HELD_OUT)
    return found if share and found >= _FEWEST_HELD_OUT else 0


def scalers_of(settings: Settings, table: Table) -> tuple[Scaler, Scaler]:
    """What standardises X, and what standardises y."""
    kind = likelihood_of(settings)
    x_scaler = _scaler(table.x, table.weights, settings.standardise)
    return x_scaler, _scaler(table.y, table.weights, settings.standardise and kind.has_units, kind.has_tails)


def _scaler(values: Array, weights: Array | None, standardise: bool, has_tails: bool = False) -> Scaler:
    if not standardise:
        return Scaler.identity(values.shape[1])
    return (Scaler.fit_middle if has_tails else Scaler.fit)(values, weights)


def _fitted_priors(settings: Sequence[Settings], tables: Sequence[Table]) -> list[InputPrior]:
    """The input priors of the models, learned once for each table, side by side on the cores: products are small."""
    tables = [table.sample for table in tables]
    keys = [
        (id(each.input_prior), each.error_model, *(part.tobytes() for part in (table.x, table.x_err, *_weights(table))))
        for each, table in zip(settings, tables, strict=True)
    ]
    tasks = {
        key: partial(
            _fitted_prior, input_prior_of(each.input_prior, each.error_model), table, each.missing == "integrate"
        )
        for key, each, table in zip(keys, settings, tables, strict=True)
    }
    found = dict(zip(tasks, run_tasks(list(tasks.values()), torch.device("cpu")), strict=True))
    return [found[key] for key in keys]


def _fitted_prior(prior: InputPrior | LearnedPrior, table: Table, needed: bool) -> InputPrior:
    """The prior itself, or what it learns from the training rows; without errors only where it is `needed`."""
    if not hasattr(prior, "fit"):
        return prior
    if not table.x_err.any() and not needed:
        return FlatPrior()
    x, x_err, weights = _as_tensors(table)
    if isinstance(prior, LearnedPrior) and type(prior).fit is LearnedPrior.fit:
        return prior.learn(x, x_err, weights)  # the estimator has looked at the errors
    if isinstance(x_err, MixedErrors):
        raise TypeError(
            f"input_prior: {type(prior).__name__} learns from standard deviations alone; laws of errors and missing "
            "readings take 'mixture', 'normal' or eiv.LearnedPrior."
        )
    fitted: InputPrior = prior.fit(x, x_err)
    return fitted


def _as_tensors(table: Table) -> tuple[Tensor, Tensor | MixedErrors, Tensor | None]:
    """Inputs, errors and weights as what priors are learned from; copies, since a pandas table is read-only."""
    weights = None if table.weights is None else torch.tensor(table.weights)
    return torch.tensor(table.x), as_tensor(table.x_err), weights


def _weights(table: Table) -> list[Array]:
    return [] if table.weights is None else [table.weights]
