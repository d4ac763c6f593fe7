"""The kernel and sigma_y that make the labels most probable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine.workers import run_tasks, scipy_alone
from eiv.training.evidence.density import Spare, log_evidence, log_prior
from eiv.training.evidence.features import ROUGH, Family, Inputs
from eiv.training.evidence.solution import Labels, Solution, solve

_ROUNDS = 3  # of a search with the variance from the inputs as it is, and of weights for that variance
_STEPS = (40, 10)  # of L-BFGS, in the first round and in the others
_ROWS = 1000  # that the kernel is found from, chosen at random
_ROWS_TO_START = 400
_LENGTHS = (0.1, 0.3, 1.0, 3.0)  # that a search may start from, in standard deviations of X over all features
_NOISES = (0.1, 0.37)  # sigma_y, in standard deviations of y
_SIZE, _SLOPE = -0.5, -0.7  # logarithms: functions of 0.6 and slopes of 0.5, in standard deviations of y and X
_RIDGE = 1e-3  # of the variance of a feature, where features say the same
_DIRECTIONS = 2
_NONE = -20.0  # the logarithm of a size that is as good as zero
_TINY = 1e-12  # as good as zero
_ENOUGH = 1e-6  # gain of a step, as a share of the value, below which a climb ends
_BAD = 1e10  # stands for a kernel whose matrix cannot be taken apart
_LEAST, _MOST = -7.0, 6.0  # of a logarithm: a factor of 1,000 and 400


OnRound = Callable[[Tensor, Tensor], None]
"""Called after each round with the negative evidence per row, and sigma_y; by searches that run side by side."""


@dataclass(frozen=True)
class Found:
    """A kernel, and the weights that go with it.

    Attributes:
        family: the features.
        flat: the values that the evidence decided.
        evidence: the logarithm of the density of the labels, with that of the values' prior, for these weights.
        solution: the weights, for the rows that the kernel was found from.
        course: of the negative evidence, in nats per row, a number for each round.
        plain: the best kernel without directions, where this one has them.

    """

    family: Family
    flat: Tensor
    evidence: float
    solution: Solution
    course: tuple[float, ...] = ()
    plain: Found | None = None


def search(
    inputs: Inputs,
    labels: Labels,
    family: Family,
    known_noise: Tensor | None,
    on_round: OnRound,
    near: Tensor | None = None,
) -> Found:
    """The better of two kernels: with and without functions of one direction.

    Directions have as many numbers as features, and a maximum over many numbers is too high. They are taken where the
    evidence rises by more than half the logarithm of the rows for each (Schwarz's criterion).

    Args:
        inputs: zeta given x, for all rows.
        labels: of all rows.
        family: without directions.
        known_noise: sigma_y where it is known, `n_y`.
        on_round: called after each round.
        near: values without directions for nearly the same inputs, to begin from; None to begin from nothing.

    Returns:
        The kernel.

    """
    if near is None:
        plain = plain_search(inputs, labels, family, known_noise, on_round)
    else:
        plain = continued(near, inputs, labels, family, known_noise, on_round)
    return with_directions(plain, inputs, labels, known_noise, on_round)


def with_directions(
    plain: Found, inputs: Inputs, labels: Labels, known_noise: Tensor | None, on_round: OnRound
) -> Found:
    """The better of a kernel without directions and the best one with them from there on (see `search`)."""
    family = plain.family
    if family.n_inputs == 1:
        return plain
    rows = rows_of_search(labels, family.seed)
    some, theirs = inputs.take(rows), labels.take(rows)
    wide = replace(family, n_directions=_DIRECTIONS)
    start, of_inputs = _with_directions(plain, wide, some, theirs), Spare.alone(plain.solution.of_inputs)
    directed = _from_either_side(some, theirs, wide, start, known_noise, of_inputs, on_round)
    price = 0.5 * (wide.n_values - family.n_values) * math.log(theirs.size)
    return replace(directed, plain=plain) if directed.evidence - price > plain.evidence else plain


def plain_search(
    inputs: Inputs, labels: Labels, family: Family, known_noise: Tensor | None, on_round: OnRound
) -> Found:
    """The kernel without directions."""
    rows = rows_of_search(labels, family.seed)
    inputs, labels = inputs.take(rows), labels.take(rows)
    of_line = _of_line(inputs, labels, family)
    start = _start(inputs, labels, family, known_noise, of_line)
    return _from_either_side(inputs, labels, family, start, known_noise, of_line, on_round)


def continued(
    near: Tensor, inputs: Inputs, labels: Labels, family: Family, known_noise: Tensor | None, on_round: OnRound
) -> Found:
    """The kernel without directions, from where that of nearly the same inputs is.

    Searches from nothing may end at different maxima for inputs that hardly differ; this one stays on the same.
    """
    rows = rows_of_search(labels, family.seed)
    inputs, labels = inputs.take(rows), labels.take(rows)
    start = evaluated(family, near, inputs, labels, None)
    start = replace(start, course=(-start.evidence / len(inputs),))
    of_inputs = Spare.alone(start.solution.of_inputs)
    return _best([start, *_rounds(inputs, labels, family, near, known_noise, of_inputs, on_round)])


def _from_either_side(
    inputs: Inputs,
    labels: Labels,
    family: Family,
    start: Tensor,
    known_noise: Tensor | None,
    spare: Spare,
    on_round: OnRound,
) -> Found:
    """The better kernel of two searches: from `spare`, and with all scatter of the labels as noise, none from inputs.

    The scatter of labels can be noise, or f within the errors of x. A search does not leave the side that it starts
    from where both explain the labels nearly as well.
    """
    searches = [partial(_rounds, inputs, labels, family, start, known_noise, spare, on_round)]
    if known_noise is None and not inputs.is_exact:
        noisy, none = start.clone(), Spare.alone(torch.zeros_like(labels.y))
        noisy[-family.n_outputs :] = 0.0  # sigma_y is the spread of y
        searches.append(partial(_rounds, inputs, labels, family, noisy, known_noise, none, on_round))
    return _best([each for rounds in run_tasks(searches, labels.y.device) for each in rounds])


def rougher(found: Found, inputs: Inputs, labels: Labels, known_noise: Tensor | None) -> Found:
    """The best kernel whose functions may have steps and kinks, from where the smooth one is."""
    family, spare = replace(found.family, tails=ROUGH), Spare.alone(found.solution.of_inputs)
    return _best(_rounds(inputs, labels, family, found.flat, known_noise, spare, unheard))


def washed_out(found: Found, inputs: Inputs, labels: Labels, known_noise: Tensor | None) -> Found | None:
    """Short waves in place of noise: what errors of x wash out of the mean of labels is left in their variance.

    With twice as many frequencies: they reach across more of their lengths than other functions.

    There is none to look for where sigma_y is known, or where it already is less than what the errors of x do.
    """
    values, of_inputs = found.family.values(found.flat), found.solution.of_inputs + found.solution.spare
    if known_noise is not None or not bool((values.log_noise.exp().square() > labels.mean(of_inputs)).any()):
        return None
    family = replace(found.family, n_directions=0, n_frequencies=2 * found.family.n_frequencies)
    lengths, log_noise = values.log_lengths.clone(), torch.full_like(values.log_noise, math.log(_NOISES[0]))
    lengths[inputs.noisy] = labels.mean(inputs.variances).sqrt().log()
    start = torch.cat([lengths, torch.zeros_like(values.log_size), values.log_slope, log_noise])
    parts = family, family.values(start), family.draws(labels.y), inputs
    spare = Spare.of(*parts, solve(*parts, labels))
    rounds = _rounds(inputs, labels, family, start, known_noise, spare, unheard)
    return max(rounds, key=lambda each: evidence_of_means(each, inputs, labels))


def unheard(loss: Tensor, y_noise: Tensor) -> None:
    """A search that nobody watches."""


def rows_of_search(labels: Labels, seed: int) -> Tensor:
    """The rows that a kernel is found from: all, or some at random."""
    random = torch.Generator().manual_seed(seed)
    return torch.randperm(len(labels.y), generator=random)[:_ROWS].to(labels.y.device)


def n_rounds(n_inputs: int, is_noise_known: bool) -> int:
    """How many rounds a search has, at most."""
    return _ROUNDS * (1 if is_noise_known else 2) * (1 if n_inputs == 1 else 2)


def _best(rounds: Sequence[Found]) -> Found:
    return max(rounds, key=lambda each: each.evidence)


def _rounds(
    inputs: Inputs,
    labels: Labels,
    family: Family,
    start: Tensor,
    known_noise: Tensor | None,
    spare: Spare,
    on_round: OnRound,
) -> list[Found]:
    """Search with the variance from the inputs fixed, find the weights and that variance, and so on."""
    draws, flat = family.draws(labels.y), start
    found: list[Found] = []
    course: list[float] = []
    for _ in range(1 if inputs.is_exact else _ROUNDS):

        def value(flat: Tensor, spare: Spare = spare) -> Tensor:
            values = family.values(flat)
            return log_evidence(family, values, draws, inputs, labels, spare) + log_prior(values, family.n_inputs)

        flat = _climb(value, flat, family, known_noise, _STEPS[min(len(course), 1)])
        now = evaluated(family, flat, inputs, labels, found[-1].solution if found else None)
        spare = Spare.of(family, family.values(flat), draws, inputs, now.solution)
        course.append(-now.evidence / labels.size)
        found.append(replace(now, course=tuple(course)))
        on_round(labels.y.new_tensor(course[-1:]), family.values(flat).log_noise.exp())
    return found


@torch.no_grad()
def evaluated(family: Family, flat: Tensor, inputs: Inputs, labels: Labels, before: Solution | None) -> Found:
    """The weights of a kernel, and its evidence."""
    values, draws = family.values(flat), family.draws(labels.y)
    solution = solve(family, values, draws, inputs, labels, before)
    return Found(family, flat, float(solution.evidence.sum() + log_prior(values, family.n_inputs)), solution)


@torch.no_grad()
def evidence_of_means(found: Found, inputs: Inputs, labels: Labels) -> float:
    """The evidence of a kernel if the variances of the labels that go with it were known, and only their means not."""
    family, values, draws = found.family, found.family.values(found.flat), found.family.draws(labels.y)
    spare = Spare.of(family, values, draws, inputs, found.solution)
    density = log_evidence(family, values, draws, inputs, labels, spare)
    return float(density + log_prior(values, family.n_inputs))


def _climb(
    value: Callable[[Tensor], Tensor], start: Tensor, family: Family, known_noise: Tensor | None, n_steps: int
) -> Tensor:
    """Where `value` is greatest, nearly."""

    def slope(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        at = torch.as_tensor(flat).to(start).requires_grad_(True)
        try:
            found = -value(at)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            return _BAD, np.zeros_like(flat)
        found.backward()
        assert at.grad is not None
        return found.item(), at.grad.cpu().double().numpy()

    n_y, n_lines = family.n_outputs, family.n_directions * family.n_inputs
    bounds = [(_LEAST, _MOST)] * family.n_values
    bounds[family.n_inputs : family.n_inputs + n_lines] = [(-math.inf, math.inf)] * n_lines
    if known_noise is not None:
        bounds[-n_y:] = [(log, log) for log in known_noise.log().tolist()]
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to import)

    with scipy_alone():
        found = minimize(
            slope,
            start.cpu().numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": n_steps, "ftol": _ENOUGH},
        )
    return torch.as_tensor(found.x).to(start)


@torch.no_grad()
def _of_line(inputs: Inputs, labels: Labels, family: Family) -> Spare:
    """The variance of a line given x. With none at all, a kernel would begin by fitting it as short waves."""
    flat = labels.y.new_zeros(family.n_values)
    flat[family.n_inputs] = _NONE
    flat[-family.n_outputs :] = math.log(_NOISES[-1])
    return Spare.alone(solve(family, family.values(flat), family.draws(labels.y), inputs, labels).of_inputs)


@torch.no_grad()
def _start(inputs: Inputs, labels: Labels, family: Family, known_noise: Tensor | None, spare: Spare) -> Tensor:
    """The best of a few kernels with the same length scale along all features, by the evidence of a few rows."""
    rows = torch.arange(min(len(inputs), _ROWS_TO_START), device=labels.y.device)
    inputs, labels, spare = inputs.take(rows), labels.take(rows), spare.take(rows)
    draws, n_x, best = family.draws(labels.y), family.n_inputs, (-math.inf, labels.y)
    for length in _LENGTHS:
        for noise in _NOISES:
            lengths = labels.y.new_full((n_x,), math.log(length * math.sqrt(n_x)))
            log_noise = labels.y.new_full((family.n_outputs,), math.log(noise))
            log_noise = log_noise if known_noise is None else known_noise.log().to(log_noise)
            flat = torch.cat([lengths, labels.y.new_tensor([_SIZE, _SLOPE]), log_noise])
            values = family.values(flat)
            found = float(log_evidence(family, values, draws, inputs, labels, spare) + log_prior(values, n_x))
            if found > best[0]:
                best = (found, flat)
    return best[1]


def _with_directions(found: Found, family: Family, inputs: Inputs, labels: Labels) -> Tensor:
    """The values of a search without directions, and directions to start from.

    The first is the slope of a linear fit, the others are those along which its residuals are most curved (principal
    Hessian directions); of several outputs, for their sum.
    """
    values = found.family.values(found.flat)
    centres = inputs.centres - labels.mean(inputs.centres)
    y, counts = labels.y.sum(1) - labels.mean(labels.y.sum(1)), labels.weights
    covariance = (counts * centres.T) @ centres / labels.size + _RIDGE * torch.eye(family.n_inputs).to(y)
    slope = torch.linalg.solve(covariance, centres.T @ (counts * y) / labels.size)
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), centres.T, upper=False)
    curvature = (white * (counts * (y - centres @ slope))) @ white.T / labels.size
    sizes, vectors = torch.linalg.eigh(curvature)
    order = sizes.abs().argsort(descending=True)
    back = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance).T, vectors[:, order], upper=True).T
    directions = torch.cat([slope[None], back])[: family.n_directions]
    directions = directions / directions.norm(dim=1, keepdim=True).clamp_min(_TINY)
    sizes = values.log_size.new_full((family.n_directions,), _SIZE)
    return torch.cat(
        [values.log_lengths, directions.flatten(), values.log_size, sizes, values.log_slope, values.log_noise]
    )
