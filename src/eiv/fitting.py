"""From checked tables to trained networks: what `EiVRegressor.fit` and `fit_splits` share."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.random import SeedSequence
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from eiv import validation as v
from eiv.diagnostics import LARGE_GAP, LooseBoundWarning, ZetaDiagnostics, advice, zeta_diagnostics
from eiv.graphs import matmul_precision
from eiv.inputs import FlatPrior, InputPrior, LearnedPrior, Rows, ZetaDraws, ZetaPosterior
from eiv.inputs.rows import stack_rows
from eiv.likelihoods import NOISE_RULES, Likelihood, NormalLikelihood
from eiv.mlp import fast_stack
from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import FAMILIES, WeightPosterior
from eiv.progress import Report, show_integration, training_progress
from eiv.recipes import settings_for
from eiv.scaling import Scaler
from eiv.streams import Purpose, Streams, network_seeds
from eiv.training import Schedule, TrainingResult, train
from eiv.workers import n_workers, run_tasks

if TYPE_CHECKING:
    from eiv.regressor import EiVRegressor

Array = NDArray[np.float64]
DTYPES = {"float32": torch.float32, "float64": torch.float64}
_FEWEST_HELD_OUT, _ENOUGH_HELD_OUT, _MOST_HELD_OUT = 5, 20, 1000
_PRIORS: dict[str, InputPrior | LearnedPrior] = {
    "flat": FlatPrior(),
    "normal": LearnedPrior(max_components=1),
    "mixture": LearnedPrior(),
}


@dataclass(frozen=True)
class Table:
    """Checked training data of one model: `rows x n_x`, errors of X in a form of `eiv.inputs.errors`, `rows x n_y`."""

    x: Array
    x_err: Array
    y: Array
    y_err: Array | None = None


def fit_stack(
    models: Sequence[EiVRegressor], tables: Sequence[Table], on_progress: Callable[[float], None] | None = None
) -> None:
    """Fit models of one kind, on as many rows each, as one stack of networks."""
    first, stop = models[0], threading.Event()
    device, dtype = device_of(first.device), DTYPES[first.dtype]
    seeds: list[SeedSequence] = []
    rows: list[Rows] = []
    known_noise: list[Tensor] = []
    for model, table in zip(models, tables, strict=True):
        model._seed = int(check_random_state(model.random_state).randint(2**31))
        model._n_fitted_networks = model.n_networks
        model.settings_ = settings_for(model.get_params(deep=False), len(table.x))
        model._fitted_params = model.get_params(deep=False) | vars(model.settings_)
    settings = first.settings_
    for model, table, prior in zip(models, tables, _fitted_priors(models, tables), strict=True):
        model.input_prior_ = prior
        model._x_scaler = _scaler(table.x, model.standardise)
        model._y_scaler = _scaler(table.y, model.standardise)
        model.x_err_ = table.x_err[0] if len(table.x_err) == 1 else None
        seeds += network_seeds(model._seed, model.n_networks)
        y = torch.from_numpy((table.y - model._y_scaler.shift) / model._y_scaler.scale)
        zetas, errors = model._zeta_posterior(table.x, table.x_err, device, dtype), None
        if table.y_err is not None:
            errors = torch.from_numpy(table.y_err / model._y_scaler.scale).to(device, dtype)
        rows += [Rows(zetas, y.to(device, dtype), errors)] * model.n_networks
        if not isinstance(settings.y_noise, str):
            noise = torch.from_numpy(np.asarray(settings.y_noise, dtype=float) / model._y_scaler.scale)
            known_noise += [noise.to(device, dtype)] * model.n_networks

    rule = NOISE_RULES[settings.y_noise] if isinstance(settings.y_noise, str) else None
    y_noise = rows[0].y.new_full((len(rows), rows[0].y.shape[1]), settings.y_noise_init)
    likelihood = NormalLikelihood(y_noise if rule else torch.stack(known_noise), rule)
    schedule = Schedule(
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        learning_rate_decay=settings.learning_rate_decay,
        n_zeta=settings.n_zeta,
        renew_every=settings.y_noise_every,
        precision=first.precision,
        zeta_draws=settings.zeta_draws,
        held_out=0 if rule is None else _n_held_out(settings.held_out, len(tables[0].x)),
    )

    def fit_group(posterior: WeightPosterior, group: slice, report: Report | None) -> TrainingResult:
        own = stack_rows(rows[group])
        return train(posterior, own, likelihood.networks(group), schedule, seeds[group], report, stop)

    whole = new_posterior(first, seeds, device)
    n_zeta = 1 if rows[0].inputs.is_exact else _draws(first, rows[0].inputs).n_zeta
    work = settings.batch_size * n_zeta * whole.stack.width**2
    size = -(-len(seeds) // n_workers(len(seeds), device, work))
    groups = [slice(start, start + size) for start in range(0, len(seeds), size)]
    posteriors = whole.split([len(seeds[group]) for group in groups])
    y_scale = float(np.sqrt(np.mean(first._y_scaler.scale**2)))
    with training_progress(schedule.epochs, y_scale, first.verbose, on_progress) as report:
        tasks = [
            partial(fit_group, posterior, group, report if group.start == 0 else None)
            for posterior, group in zip(posteriors, groups, strict=True)
        ]
        results = run_tasks(tasks, device, stop, whole.stack.width)

    sizes = [model.n_networks for model in models]
    posterior = posteriors[0].join(posteriors[1:])
    first_result, *others = results
    fitted = first_result.likelihood.join([result.likelihood for result in others])
    of_steps = first_result.likelihood_of_steps.join([result.likelihood_of_steps for result in others])
    losses = torch.cat([result.losses for result in results], dim=1)
    start = 0
    for model, part, curve in zip(models, posterior.split(sizes), losses.split(sizes, dim=1), strict=True):
        own = fitted.networks(slice(start, start := start + model.n_networks))
        model.posterior_ = part
        model.y_noise_ = own.state["y_noise"].double().square().mean(0).sqrt().cpu().numpy() * model._y_scaler.scale
        model.loss_curve_ = curve.double().cpu().numpy()
    _measure_zetas(models, seeds, rows, of_steps)


def _measure_zetas(
    models: Sequence[EiVRegressor], seeds: Sequence[SeedSequence], rows: Sequence[Rows], likelihood: Likelihood
) -> None:
    """Note how well training has integrated over zeta; all but `models` has one entry per network."""

    def measure(model: EiVRegressor, start: int) -> ZetaDiagnostics | None:
        networks = slice(start, start + model.n_networks)
        own = stack_rows(rows[networks])
        if own.inputs.is_exact:
            return None
        streams = Streams.of(seeds[networks], Purpose.DIAGNOSTICS, own.y.device, own.y.dtype)
        draws = _draws(model, own.inputs)
        return zeta_diagnostics(model.posterior_, own, likelihood.networks(networks), draws, streams)

    first, device = models[0], rows[0].y.device
    starts = np.cumsum([0, *(model.n_networks for model in models[:-1])]).tolist()
    with matmul_precision(device, first.precision):
        tasks = [partial(measure, model, start) for model, start in zip(models, starts, strict=True)]
        results = run_tasks(tasks, device, width=first.posterior_.stack.width)
    for model, found in zip(models, results, strict=True):
        model.zeta_ess_ = None if found is None else found.ess.mean().item()
        model.bound_gap_ = None if found is None else found.gap.mean().item()
    measured = [pair for pair in zip(models, starts, strict=True) if pair[0].bound_gap_ is not None]
    if measured:
        worst, start = max(measured, key=lambda pair: float(pair[0].bound_gap_))
        _tell(worst, _draws(worst, rows[start].inputs))


def _tell(model: EiVRegressor, draws: ZetaDraws) -> None:
    """Show how well a model has integrated over zeta, and warn where that is not good enough."""
    if model.verbose:
        show_integration(model.zeta_ess_, model.bound_gap_, draws.n_zeta)
    if model.bound_gap_ > LARGE_GAP:
        n_zeta = model.settings_.n_zeta or draws.n_zeta
        warnings.warn(advice(model.zeta_ess_, model.bound_gap_, draws, n_zeta), LooseBoundWarning, stacklevel=2)


def _draws(model: EiVRegressor, inputs: ZetaPosterior) -> ZetaDraws:
    return ZetaDraws.of(model.settings_.zeta_draws, model.settings_.n_zeta, inputs)


def _n_held_out(share: float, n_rows: int) -> int:
    """The rows that sigma_y is found on: enough to tell it, and not so many that the networks miss them."""
    found = min(max(round(share * n_rows), _ENOUGH_HELD_OUT), n_rows // 5, _MOST_HELD_OUT)
    return found if share and found >= _FEWEST_HELD_OUT else 0


def new_posterior(model: EiVRegressor, seeds: Sequence[SeedSequence], device: torch.device) -> WeightPosterior:
    """The weight posterior of fresh networks with these seeds."""
    n_inputs, n_outputs, settings = model.n_features_in_, model.n_outputs_, model.settings_

    def build() -> nn.Module:
        if model.module is not None:
            try:
                return model.module(n_inputs, n_outputs)
            except TypeError as error:
                raise TypeError(f"module must take (n_inputs, n_outputs); calling it failed: {error}") from error
        return paper_network(n_inputs, n_outputs, settings.hidden_units, settings.n_hidden, settings.dropout)

    stack = NetworkStack(build, n_inputs, n_outputs, seeds, device, DTYPES[model.dtype])
    return FAMILIES[settings.posterior](fast_stack(stack, model.precision), settings.weight_penalty)


def _scaler(values: Array, standardise: bool) -> Scaler:
    return Scaler.fit(values) if standardise else Scaler.identity(values.shape[1])


def input_prior_of(prior: object, error_model: str) -> InputPrior | LearnedPrior:
    """The input prior that the arguments of a model stand for, to be fitted or not."""
    if isinstance(prior, str):
        v.check_option("input_prior", prior, tuple(_PRIORS))
    elif isinstance(prior, type) or not (hasattr(prior, "posterior") or hasattr(prior, "fit")):
        raise TypeError(
            f"input_prior must be 'flat', 'normal', 'mixture' or an input prior such as eiv.NormalPrior(std=1.0), "
            f"got {prior!r}."
        )
    if error_model == "berkson":
        return FlatPrior()
    return _PRIORS[prior] if isinstance(prior, str) else prior  # type: ignore[return-value]


def _fitted_priors(models: Sequence[EiVRegressor], tables: Sequence[Table]) -> list[InputPrior]:
    """The input priors of the models, learned once for each table, side by side on the cores: products are small."""
    keys = [
        (id(model.settings_.input_prior), model.error_model, table.x.tobytes(), table.x_err.tobytes())
        for model, table in zip(models, tables, strict=True)
    ]
    tasks = {
        key: partial(_fitted_prior, input_prior_of(model.settings_.input_prior, model.error_model), table)
        for key, model, table in zip(keys, models, tables, strict=True)
    }
    found = dict(zip(tasks, run_tasks(list(tasks.values()), torch.device("cpu")), strict=True))
    return [found[key] for key in keys]


def _fitted_prior(prior: InputPrior | LearnedPrior, table: Table) -> InputPrior:
    """The prior itself, or what it learns from the training rows; without errors there is nothing to learn."""
    if not hasattr(prior, "fit"):
        return prior
    if not table.x_err.any():
        return FlatPrior()
    fitted: InputPrior = prior.fit(torch.tensor(table.x), torch.tensor(table.x_err))  # a pandas table is read-only
    return fitted


def device_of(device: str) -> torch.device:
    """The device that an argument stands for."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}.") from error
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}.")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, but torch sees no GPU here. Use device='auto' or 'cpu'.")
    return found
