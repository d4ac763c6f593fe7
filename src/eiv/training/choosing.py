"""Choices that are left to the data: the kind of network, and whether the labels agree with the stated errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from eiv.engine.workers import run_tasks
from eiv.inputs.plausible import SuspiciousErrorWarning
from eiv.metrics import normal_crps
from eiv.model import FittedModel
from eiv.scaling import mean_and_spread
from eiv.training.evidence import LeftOut
from eiv.training.fitting import Spec, Table, Trial, fit_stack, held_out_rows
from eiv.training.large import suited
from eiv.training.making import device_of, new_likelihood
from eiv.training.progress import Progress, between, part_of, tell
from eiv.training.settings import AUTO, Settings, settings_for
from eiv.training.sizes import check_can_learn, fit_with_sizes

_MOST_ROWS = 3000  # that cosines learn from; of a larger table they are taken where they do better than layers
_MOST_EXACT = 10_000  # the same where errors are ignored: a row then has one node instead of 16 or more
_MOST_HELD_OUT, _HELD_OUT = 1000, 0.1  # rows that a trial is decided by
_VERY_STRONG = 5.0  # nats: evidence by Kass and Raftery, Journal of the American Statistical Association 90 (1995) 773
_NO_FARTHER = 1.02  # times the RMSE of another network, or its CRPS, which is what the goals of docs/tables.md allow
_CLEARLY, _SURE = 0.02, 2.0  # nats per label that a likelihood has to gain, as intervals 2 % narrower do; sigmas
_COMPARED, _FOLDS = ("normal", "student_t", "varying"), 3  # likelihoods that the data choose among, and folds
_FEWEST_COMPARED = 60  # rows, so that 20 are held out at a time
_SHARE_OF_FIT = 0.83  # of the time, where other factors of the errors are tried
_FACTORS, _BETWEEN = (0.5, 0.0), (0.25,)  # of the stated errors, that they are compared with; and if these do better

Array = NDArray[np.float64]


def fit_models(specs: Sequence[Spec], tables: Sequence[Table], on_progress: Progress = None) -> list[FittedModel]:
    """Fit models of one kind, and choose what their arguments leave open."""
    groups = _fitted_together(specs, tables)
    if len(groups) > 1:
        found: dict[int, FittedModel] = {}
        for i, places in enumerate(groups):
            chosen = [specs[place] for place in places], [tables[place] for place in places]
            found |= dict(zip(places, fit_models(*chosen, part_of(on_progress, i, len(groups))), strict=True))
        return [found[place] for place in range(len(specs))]
    tables = suited(specs[0], tables)
    if specs[0].arguments.get("likelihood") == AUTO:
        parts = [part_of(on_progress, i, len(specs)) for i in range(len(specs))]
        return [_with_best_likelihood(*each) for each in zip(specs, tables, parts, strict=True)]
    n_noisy = max(table.n_noisy for table in tables)
    settings = settings_for(specs[0].arguments, tables[0].size, n_noisy)
    if tables[0].size_prior is not None:
        check_can_learn(settings, tables[0])
        parts = [part_of(on_progress, i, len(specs)) for i in range(len(specs))]
        return [fit_with_sizes(*each) for each in zip(specs, tables, parts, strict=True)]
    if settings.network != "cosine":
        return _unless_labels_object(specs, tables, settings, on_progress)
    if specs[0].arguments.get("network") in (None, "auto") and len(tables[0].x) > _MOST_ROWS:
        parts = [part_of(on_progress, i, len(specs)) for i in range(len(specs))]
        found_by_trial = [_by_trial(*each) for each in zip(specs, tables, parts, strict=True)]
        if on_progress is not None:
            on_progress(1.0)  # where no third network was asked for
        return found_by_trial
    models = fit_stack(specs, tables, between(on_progress, 0.0, _SHARE_OF_FIT))
    tell(on_progress, _SHARE_OF_FIT, "whether the labels bear out the errors")
    borne_out = [_borne_out(*parts) for parts in zip(specs, tables, models, strict=True)]
    tell(on_progress, 1.0, "")
    if words := [words for _, words in borne_out if words]:
        _warn(words[-1])  # which is that of all rows, where the others have some of them
    return [model for model, _ in borne_out]


def _fitted_together(specs: Sequence[Spec], tables: Sequence[Table]) -> list[list[int]]:
    """The places of the models that are fitted at once, those of the fewest rows first.

    Networks of layers are trained as one stack, for which they need as many rows and visits each. Networks of cosines
    are fitted side by side, each by itself, and so may differ in their rows, but not in their width.
    """
    n_noisy, groups = max(table.n_noisy for table in tables), dict[tuple[int, ...], list[int]]()
    for place in sorted(range(len(tables)), key=lambda place: len(tables[place].x)):
        table = tables[place]
        settings, n_rows = settings_for(specs[place].arguments, table.size, n_noisy), len(table.x)
        of_cosines = int(n_rows > _MOST_ROWS), settings.hidden_units, settings.batch_size
        key = of_cosines if settings.network == "cosine" else (n_rows, table.size)
        groups.setdefault(key, []).append(place)
    return [sorted(places) for places in groups.values()]


def _unless_labels_object(
    specs: Sequence[Spec], tables: Sequence[Table], settings: Settings, on_progress: Progress
) -> list[FittedModel]:
    """Models of layers, and in place of those to whose likelihood held-out labels object, models with normal noise.

    These are fitted anew, since f has been learned together with the noise.
    """
    started = new_likelihood(settings, torch.ones(1, tables[0].y.shape[1]))  # or an error where settings do not suit
    fewest, held_out = started.fewest_held_out, held_out_rows(settings.held_out, len(tables[0].x))
    if held_out < fewest:
        words = f"it takes {fewest} held-out rows to tell another from it, and here {held_out or 'none'} are held out"
        return _with_normal_noise(specs, tables, [words] * len(specs), on_progress)
    if not fewest:
        return fit_stack(specs, tables, on_progress)
    models = fit_stack(specs, tables, part_of(on_progress, 0, 2))
    objections = {i: words for i, model in enumerate(models) if (words := model.likelihood.objection(model.pool))}
    if objections:
        some, of_some = [specs[i] for i in objections], [tables[i] for i in objections]
        plain = _with_normal_noise(some, of_some, list(objections.values()), part_of(on_progress, 1, 2))
        models = list((dict(enumerate(models)) | dict(zip(objections, plain, strict=True))).values())
    if on_progress is not None:
        on_progress(1.0)
    return models


def _with_normal_noise(
    specs: Sequence[Spec], tables: Sequence[Table], reasons: Sequence[str], on_progress: Progress
) -> list[FittedModel]:
    """Models with normal noise that say why they have it."""
    models = fit_models([spec.given(likelihood="normal") for spec in specs], tables, on_progress)
    words = [f"normal noise that is the same everywhere, since {reason}" for reason in reasons]
    return [
        replace(model, record=replace(model.record, likelihood_choice=each))
        for model, each in zip(models, words, strict=True)
    ]


def _with_best_likelihood(spec: Spec, table: Table, on_progress: Progress) -> FittedModel:
    """The model with normal noise, or with that which makes labels clearly more probable, held out fold by fold.

    Each fit is the one that the arguments ask for, so that networks may differ with the likelihood.
    """
    words, best = "normal noise, since there are too few rows to compare it with others", "normal"
    if len(table.x) >= _FEWEST_COMPARED:
        plain, *others = (_of_folds(spec, table, name, part_of(on_progress, i, 4)) for i, name in enumerate(_COMPARED))
        gains = {name: score.gain_over(plain) for name, score in zip(_COMPARED[1:], others, strict=True)}
        clear = {name: gain for name, (gain, error) in gains.items() if gain - _SURE * error > _CLEARLY}
        best = max(clear, key=lambda name: clear[name], default="normal")
        listed = ", ".join(f"{name} {gain:+.3f} ± {error:.3f}" for name, (gain, error) in gains.items())
        words = f"{best}, by the log density of held-out labels against normal noise, in nats per label: {listed}"
        if not any(score.is_finite for score in (plain, *others)):
            words = "normal noise, since the log density of held-out labels is not finite with any other"
    (model,) = fit_models([spec.given(likelihood=best)], [table], part_of(on_progress, 3, 4))
    objection = model.record.likelihood_choice  # of the labels held out from all rows
    words = f"{words}; of all rows {objection}" if objection else words
    return replace(model, record=replace(model.record, likelihood_choice=words))


def _of_folds(spec: Spec, table: Table, likelihood: str, on_progress: Progress) -> Score:
    """The score of a likelihood on each of three folds by models of the other two; of a large table on some rows."""
    order = np.random.default_rng(spec.seed).permutation(len(table.x))[: _MOST_ROWS // _FOLDS * _FOLDS]
    folds = order[: len(order) // _FOLDS * _FOLDS].reshape(_FOLDS, -1)
    learned = [table.take(np.delete(folds, fold, axis=0).ravel()) for fold in range(_FOLDS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit of all rows will say it
        models = fit_models([spec.given(likelihood=likelihood)] * _FOLDS, learned, on_progress)
    scores = [_score(model, table.take(fold)) for model, fold in zip(models, folds, strict=True)]
    return Score(
        np.concatenate([each.log_densities for each in scores]),
        LeftOut(*(np.concatenate([getattr(each.left_out, part) for each in scores]) for part in ("crps", "counts"))),
        float(np.sqrt(np.mean([each.rmse**2 for each in scores]))),
    )


def _by_trial(spec: Spec, table: Table, on_progress: Progress) -> FittedModel:
    """Cosines or layers, by labels of rows that neither has seen; or layers that ignore the errors.

    Thousands of rows can determine more than some hundred cosines describe; with large errors in x they cannot. Layers
    learn from all rows but those held out. Cosines learn from some of them, from more where errors are ignored, since
    each row is less work then. Errors are ignored only where labels speak clearly for it: such a model cannot
    distinguish f at exact inputs from the mean of labels given x.
    """
    order = np.random.default_rng(spec.seed).permutation(len(table.x))
    n_held_out = min(_MOST_HELD_OUT, round(_HELD_OUT * len(order)))
    held_out, rest = table.take(order[:n_held_out]), order[n_held_out:]
    asked = spec.arguments.get("x_err_factor")
    n_rows = _MOST_EXACT if asked == 0 else _MOST_ROWS
    (cosines,) = fit_models([spec.given(network="cosine")], [table.take(rest[:n_rows])], part_of(on_progress, 0, 4))
    factor = cosines.settings.x_err_factor
    if not factor and n_rows < min(_MOST_EXACT, len(rest)):
        decided = spec.given(network="cosine", x_err_factor=factor)
        (cosines,) = fit_stack([decided], [table.take(rest[:_MOST_EXACT])], part_of(on_progress, 1, 4))

    def layers(i: int, factor: float) -> FittedModel:
        decided = spec.given(network="paper", x_err_factor=factor)
        return fit_stack([decided], [table.take(rest)], part_of(on_progress, i, 4))[0]

    best, score, other = cosines, _score(cosines, held_out), layers(2, factor)
    if (of_other := _score(other, held_out)).is_better(score):
        best, score = other, of_other
    if factor and asked in (None, "auto"):
        ignoring = layers(3, 0.0)
        of_ignoring = _score(ignoring, held_out)
        if _is_clear(score.left_out, of_ignoring.left_out) and of_ignoring.is_better(score):
            loss = score.left_out.loss_to(of_ignoring.left_out)[0]
            why = f"with these {_size(0.0)}, labels of held-out rows are predicted better"
            _warn(_words_on_errors(f"{why} (a CRPS {loss:.0%} larger otherwise)"))
            return ignoring
    return best


class Score(NamedTuple):
    """How well a model predicts labels that it has not seen."""

    log_densities: Array
    left_out: LeftOut
    rmse: float

    @property
    def is_finite(self) -> bool:
        """Whether every label has a density above zero."""
        return bool(np.isfinite(self.log_densities).all())

    def gain_over(self, other: Score) -> tuple[float, float]:
        """How much more probable labels are than under another model, in nats each, and the standard error of that.

        A model under which some label has no finite density is infinitely worse than one without such a label.
        """
        if not (self.is_finite and other.is_finite):
            return {1: np.inf, 0: 0.0, -1: -np.inf}[self.is_finite - other.is_finite], 0.0
        gains = (self.log_densities - other.log_densities).reshape(len(self.log_densities), -1).mean(1)
        counts = self.left_out.counts
        mean, std = mean_and_spread(gains, counts)
        return float(mean), float(std / counts.sum() ** 0.5)

    def is_better(self, than: Score) -> bool:
        """Whether the CRPS is smaller, and predictions are no farther off.

        A few labels that are far off can decide the mean of the log density, but not that of the CRPS.
        """
        return self.left_out.loss_to(than.left_out)[0] < 0 and self.rmse <= _NO_FARTHER * than.rmse


def _score(model: FittedModel, table: Table) -> Score:
    """The score of a model, by the means and uncertainties of its predictions. Errors are in spreads of the labels."""
    found = model.predict(table.x, table.x_err, table.y_err, keep_draws=False)
    y, scale = table.y if model.names.has_columns else table.y[:, 0], model.y_scaler.scale
    assert found.labels is not None
    with np.errstate(invalid="ignore"):  # of predictions that are not finite; `Score` says so
        densities = found.labels.moment_log_density(found.mean, found.std, y)
        crps = normal_crps((y - found.mean) / scale, 0.0, found.total / scale).reshape(len(y), -1).mean(1)
        squares = np.square((y - found.mean) / scale).reshape(len(y), -1).mean(1)
    counts = np.ones(len(y)) if table.weights is None else table.weights
    return Score(densities, LeftOut(crps, counts), float(np.sqrt(np.average(squares, weights=counts))))


def _borne_out(spec: Spec, table: Table, model: FittedModel) -> tuple[FittedModel, str]:
    """The model, or where the labels contradict the stated errors one with less of them; and words of a warning."""
    record, taken = model.record, model.settings.x_err_factor
    if record.evidence is None or record.left_out is None or not table.n_noisy or not taken:
        return model, ""
    asked, of_fit, once = taken, record.left_out, table.once()

    def compared(*factors: float) -> dict[float, _Said]:
        return _what_labels_say(spec, once, factors, model, n_searched)

    def in_folds() -> LeftOut:
        return compared(asked)[asked].in_folds()

    n_searched = record.n_searched
    stated = _Said(record.evidence, False, lambda: of_fit, in_folds)
    found = compared(*_FACTORS)
    is_crowded = any(each.is_crowded for each in found.values())
    if is_crowded:
        n_searched = None
        found = compared(*_FACTORS)
    if is_crowded or once is not table:  # of copies of a label a curve may pass through all, without scatter
        stated = compared(asked)[asked]
    if max(each.evidence for each in found.values()) - stated.evidence >= _VERY_STRONG:
        found |= compared(*_BETWEEN)
        taken = max(found, key=lambda factor: found[factor].evidence)
    of_taken = found.get(taken, stated)
    loss = _loss_to_ignoring(of_taken, found[0.0], device_of(spec.arguments["device"]))
    if loss is not None:
        taken = 0.0
        why = (
            f"with these {_size(0.0)}, labels are predicted better from the others (a CRPS {loss:.0%} larger otherwise)"
        )
    elif of_taken is not stated:
        gain = of_taken.evidence - stated.evidence
        why = f"the labels are more probable with these {_size(taken)}, by a factor of e^{gain:.0f}"
    else:
        return model, ""
    if spec.arguments.get("x_err_factor") not in (None, "auto"):
        return model, f"The labels contradict the errors of X: {why}."
    return fit_stack([spec.given(x_err_factor=taken)], [table])[0], _words_on_errors(why)


def _size(factor: float) -> str:
    return f"taken as {factor:g} of what is stated" if factor else "ignored"


def _words_on_errors(why: str) -> str:
    return (
        f"The labels contradict the errors of X: {why}. This is done here and in predictions; x_err_factor=1 takes "
        "them as stated."
    )


def _warn(words: str) -> None:
    warnings.warn(
        f"{words} Check their units, and whether they are standard deviations, not limits or twice that; errors that "
        "several columns share need covariances.",
        SuspiciousErrorWarning,
        stacklevel=2,
    )


class _Said(NamedTuple):
    """What the labels say of errors of one size.

    Attributes:
        evidence: the logarithm of their density.
        is_crowded: whether the kernel was found with too few frequencies.
        left_out: finds how well each is predicted from the others, by the kernel of a fit to all.
        in_folds: the same, by kernels of fits to the others (`KernelSearch.in_folds`).

    """

    evidence: float
    is_crowded: bool
    left_out: Callable[[], LeftOut]
    in_folds: Callable[[], LeftOut]


def _loss_to_ignoring(taken: _Said, ignoring: _Said, device: torch.device) -> float | None:
    """By which share predictions with the errors are worse than those without, where they clearly are.

    The evidence takes the variances of labels as known, though the labels have been used to find them. Large errors and
    a kernel of short waves can describe all labels well and predict none of them. But a kernel from all labels has seen
    the label that is left out: where rows are few and features many, one without errors passes close to each label. So
    kernels that have not seen it have to agree; these take longer to find.
    """
    loss = None
    for left_out, holds in (("left_out", _is_clear), ("in_folds", _is_larger)):
        with_errors, without = run_tasks([getattr(taken, left_out), getattr(ignoring, left_out)], device)
        if not holds(with_errors, without):
            return None
        loss = with_errors.loss_to(without)[0]
    return loss


def _is_clear(of_errors: LeftOut, without: LeftOut) -> bool:
    """Whether ignoring the errors clearly gives better predictions: a CRPS smaller by 2 % and two standard errors."""
    loss, error = of_errors.loss_to(without)
    return loss - _SURE * error > _NO_FARTHER - 1


def _is_larger(of_errors: LeftOut, without: LeftOut) -> bool:
    """Whether the CRPS is larger with the errors by more than 2 %."""
    return of_errors.loss_to(without)[0] > _NO_FARTHER - 1


def _what_labels_say(
    spec: Spec, table: Table, factors: Sequence[float], stated: FittedModel, n_searched: int | None
) -> dict[float, _Said]:
    """What the labels say of the errors of X, by what these are multiplied by.

    Kernel and prior of zeta begin at those of the `stated` errors, so that what is compared is the errors: searches
    from nothing may end at different maxima. These kernels have no directions, but predictions are compared with the
    kernels that fits would take. All are found with `n_searched` frequencies, None for the most: densities of labels by
    kernels that more features stand for are not comparable.
    """
    kernel = torch.tensor(stated.record.kernel)

    def said(factor: float) -> _Said:
        search = Trial.of(spec.given(x_err_factor=factor), table, stated.input_prior).search
        if n_searched != search.family.n_frequencies:
            search = search.wider()
        plain = search.better_near(kernel)

        def left_out() -> LeftOut:
            return search.left_out(search.with_directions(plain))

        return _Said(search.log_density(plain), search.is_crowded(plain), left_out, partial(search.in_folds, plain))

    tasks = [partial(said, factor) for factor in factors]
    device = device_of(spec.arguments["device"])
    return dict(zip(factors, run_tasks(tasks, device), strict=True))
