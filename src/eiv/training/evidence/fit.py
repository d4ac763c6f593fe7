"""From rows to a fitted network of cosines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine.workers import run_tasks
from eiv.inputs import Rows, ZetaPosterior
from eiv.posteriors import WeightPosterior
from eiv.training.evidence.explanations import explanations
from eiv.training.evidence.features import Family, Inputs
from eiv.training.evidence.left_out import LeftOut, left_out, scored
from eiv.training.evidence.pool import MEMBERS, pool_of
from eiv.training.evidence.search import (
    Found,
    OnRound,
    continued,
    evidence_of_means,
    plain_search,
    rows_of_search,
    search,
    unheard,
    with_directions,
)
from eiv.training.evidence.solution import Labels, Solution, predicted, solve
from eiv.training.progress import Progress, between, tell

_SHARE_OF_EXPLANATIONS = 0.48  # of the time after the search
_SEARCHED = 96  # frequencies that a kernel is found with; twice as many where these do not suffice
_CROWDED = 0.25  # of the features: where labels determine more of their weights, frequencies do not suffice
_FOLDS = 5  # of rows whose labels are predicted from the others


@dataclass(frozen=True)
class Fitted:
    """A pool of networks of cosines after its fit.

    Attributes:
        posterior: of their weights.
        y_noise: `S x n_y`, sigma_y.
        shares: `S`, of each network in the pool.
        course: of the negative evidence in nats per row, a number for each round of the search.
        evidence: the logarithm of the density of the labels that the kernel was found from
            (`KernelSearch.log_density`).
        left_out: how well each of these labels is predicted from the others by the kernel that is taken.
        kernel: the values of the best kernel without directions, to which the evidence belongs.
        n_searched: the frequencies that it was found with.

    """

    posterior: WeightPosterior
    y_noise: Tensor
    shares: NDArray[np.float64]
    course: Tensor
    evidence: float
    left_out: LeftOut
    kernel: Tensor
    n_searched: int


class KernelSearch(NamedTuple):
    """What a kernel without directions is found from.

    Attributes:
        inputs: zeta given x.
        labels: y and known variances.
        family: the features.
        known_noise: sigma_y where it is known, `n_y`.
        n_wider: the most frequencies that a search may have.

    """

    inputs: Inputs
    labels: Labels
    family: Family
    known_noise: Tensor | None
    n_wider: int

    @classmethod
    def of(cls, rows: Rows, n_frequencies: int, seed: int, known_noise: Tensor | None) -> KernelSearch:
        """The search for the kernel of these rows."""
        inputs, y = Inputs(rows.inputs.to(rows.y.device, torch.float64)), rows.y.double()
        known = torch.zeros_like(y) if rows.y_err is None else rows.y_err.double().square()
        labels = Labels(y, known, None if rows.weights is None else rows.weights.double())
        family = Family(inputs.zeta.mean.shape[1], y.shape[1], 0, min(n_frequencies, _SEARCHED), seed)
        known_noise = None if known_noise is None else known_noise.double()
        return cls(inputs, labels, family, known_noise, min(n_frequencies, 2 * _SEARCHED))

    def is_crowded(self, found: Found) -> bool:
        """Whether the kernel would be another one with more frequencies, which there may be.

        So few features stand for it that the labels determine many of their weights.
        """
        n_more = self.n_wider - self.family.n_frequencies
        return n_more > 0 and found.solution.n_determined > _CROWDED * found.family.n_features

    def wider(self) -> KernelSearch:
        """The same with the most frequencies."""
        return self._replace(family=replace(self.family, n_frequencies=self.n_wider))

    def taken(self, on_round: OnRound, near: Tensor | None) -> Found:
        """The kernel that a fit takes, from nothing or `near` another one."""
        return search(self.inputs, self.labels, self.family, self.known_noise, on_round, near)

    @property
    def rows(self) -> Tensor:
        """The rows that the kernel is found from."""
        return rows_of_search(self.labels, self.family.seed)

    def best(self) -> Found:
        """The best kernel."""
        return plain_search(self.inputs, self.labels, self.family, self.known_noise, unheard)

    def near(self, flat: Tensor) -> Found:
        """The best kernel that is found from where another one is."""
        flat = flat.to(self.labels.y)
        return continued(flat, self.inputs, self.labels, self.family, self.known_noise, unheard)

    def better_near(self, flat: Tensor) -> Found:
        """The better of the kernels that are found near another one and, without errors, from nothing.

        Without errors there may be a far better kernel than near, and a search from nothing takes little time.
        """
        found = [self.near(flat), self.best()] if self.inputs.is_exact else [self.near(flat)]
        return max(found, key=self.log_density)

    def with_directions(self, plain: Found) -> Found:
        """The kernel that a fit takes after one without directions."""
        return with_directions(plain, self.inputs, self.labels, self.known_noise, unheard)

    def log_density(self, found: Found) -> float:
        """Of the labels that a kernel was found from (`evidence_of_means`)."""
        rows = self.rows
        return evidence_of_means(found, self.inputs.take(rows), self.labels.take(rows))

    @torch.no_grad()
    def left_out(self, found: Found) -> LeftOut:
        """How well a kernel predicts each label that it was found from, from the others."""
        rows, values, draws = self.rows, found.family.values(found.flat), found.family.draws(self.labels.y)
        return left_out(found.family, values, draws, self.inputs.take(rows), self.labels.take(rows), found.solution)

    def in_folds(self, plain: Found) -> LeftOut:
        """How well the labels of each fold are predicted from the others, by kernels that have not seen them either.

        Each is found near that of all rows, as it would be for a fit.
        """
        rows = self.rows  # in random order
        inputs, labels = self.inputs.take(rows), self.labels.take(rows)
        places = torch.arange(len(rows), device=rows.device)
        mean, variance = torch.zeros_like(labels.y), torch.zeros_like(labels.y)
        for fold in range(_FOLDS):
            rest, held_out = places[places % _FOLDS != fold], places[places % _FOLDS == fold]
            others = self._replace(inputs=inputs.take(rest), labels=labels.take(rest))
            found = others.with_directions(others.better_near(plain.flat))
            parts = found.family, found.family.values(found.flat), found.family.draws(labels.y)
            held = inputs.take(held_out), labels.take(held_out)
            with torch.no_grad():
                mean[held_out], variance[held_out] = predicted(*parts, *held, found.solution)
        return scored(labels, mean, variance)


def fit_by_evidence(
    posterior: WeightPosterior,
    rows: Rows,
    seed: int,
    known_noise: Tensor | None,
    on_round: OnRound,
    halves: Sequence[ZetaPosterior] = (),
    near: Tensor | None = None,
    on_progress: Progress = None,
) -> Fitted:
    r"""Fit a pool of networks of cosines: their kernels and sigma_y, then their weights.

    .. math:: \max_{k, \sigma_y} \log p(y | x, k, \sigma_y), \qquad w \sim \mathcal{N}(\hat w, C)

    Args:
        posterior: `eiv.posteriors.LastLayerLaplace` of `MEMBERS` fresh `eiv.networks.CosineNetwork`, which are given
            weights.
        rows: the training rows, without the axis of the networks.
        seed: of the frequencies.
        known_noise: sigma_y where it is known, `n_y`.
        on_round: called after each round, with the loss and sigma_y.
        halves: zeta given x for all rows, by a prior of its own for each network; none where the prior is known.
        near: the values of a kernel for nearly the same rows, to begin from; None to begin from nothing.
        on_progress: called with the share that is done of the work after the search, which calls `on_round`.

    Returns:
        The posterior, sigma_y and the course of the search.

    """
    n_frequencies = posterior.stack.parameters["frequencies.weight"].shape[1]
    task = KernelSearch.of(rows, n_frequencies, seed, known_noise)
    found = task.taken(on_round, near)
    if task.is_crowded(found):
        tell(on_progress, 0.0, "search with more frequencies")
        task = task.wider()
        found = task.taken(unheard, near)
    inputs, labels, known, some, plain = task.inputs, task.labels, task.known_noise, task.rows, found.plain or found
    own = [Inputs(zeta.to(labels.y.device, torch.float64)) for zeta in halves] or [inputs] * MEMBERS
    members: list[Found] = []
    shares: list[float] = []
    few = inputs.take(some), labels.take(some)
    tell(on_progress, 0.0, "other explanations of the labels")
    explained = explanations(found, *few, known, MEMBERS // 2)
    for each, part in zip(explained, (between(on_progress, *ends) for ends in _ends(len(explained))), strict=True):
        tell(part, 0.0, "pool of networks")
        pool = pool_of(each.found, *few, known, 2 * each.n_pairs)
        theirs = own[len(members) : len(members) + len(pool)]
        tell(part, 0.5, "weights from all rows")
        members += _with_all_rows(each.found, pool, some, theirs, inputs, labels, n_frequencies)
        shares += [each.share / len(pool)] * len(pool)
    tell(on_progress, 1.0, "covariance of the weights")
    _take_over(posterior, members)
    y_noise = torch.stack([member.family.values(member.flat).log_noise.exp() for member in members])
    course, said = y_noise.new_tensor(found.course), (task.log_density(plain), task.left_out(found))
    return Fitted(posterior, y_noise, np.array(shares), course, *said, plain.flat, task.family.n_frequencies)


def _ends(n: int) -> list[tuple[float, float]]:
    """Where the pool of each of n explanations begins and ends, as shares of the work after the search."""
    rest = 1.0 - _SHARE_OF_EXPLANATIONS
    return [(_SHARE_OF_EXPLANATIONS + rest * i / n, _SHARE_OF_EXPLANATIONS + rest * (i + 1) / n) for i in range(n)]


def _with_all_rows(
    best: Found,
    members: Sequence[Found],
    some: Tensor,
    own: Sequence[Inputs],
    inputs: Inputs,
    labels: Labels,
    n_frequencies: int,
) -> list[Found]:
    """The weights of all frequencies from all rows: the kernels were found with `some` of them.

    Each member has its `own` zetas. The variances of labels from their inputs, to start from, are those that it was
    found with; where there are more rows, those of the best kernel.
    """
    family, y = replace(best.family, n_frequencies=n_frequencies), labels.y
    draws = family.draws(y)

    def spread_out(solution: Solution) -> Solution:
        """The variances in the order of all rows, with their mean for a row that was not among them."""
        few = labels.take(some)
        parts = [few.mean(part).expand_as(y).index_copy(0, some, part) for part in (solution.spare, solution.of_inputs)]
        return replace(solution, spare=parts[0], of_inputs=parts[1])

    starts = [spread_out(each.solution) for each in members]
    if len(some) < len(y) and not inputs.is_exact:
        starts = [solve(family, family.values(best.flat), draws, inputs, labels, starts[0])] * len(members)
    tasks = [
        partial(solve, family, family.values(each.flat), draws, zetas, labels, start)
        for each, zetas, start in zip(members, own, starts, strict=True)
    ]
    solutions = run_tasks(tasks, y.device)
    return [replace(each, family=family, solution=solution) for each, solution in zip(members, solutions, strict=True)]


@torch.no_grad()
def _take_over(posterior: WeightPosterior, members: Sequence[Found]) -> None:
    """Give the networks their frequencies, scales and weights, and the posterior the covariances of these."""
    inverses: list[Tensor] = []
    for place, member in enumerate(members):
        family, solution = member.family, member.solution
        values, draws = family.values(member.flat), family.draws(member.flat)
        scales = family.scales(values, draws)
        wanted = {
            "frequencies.weight": family.frequencies(values, draws),
            "scales": scales[:-1],
            "head.weight": solution.weights[:, :-1],
            "head.bias": solution.weights[:, -1] * scales[-1],  # the bias stands for itself
        }
        for name, value in posterior.stack.parameters.items():
            value[place].copy_(wanted[name])
        ones = torch.ones_like(scales)
        ones[-1] = scales[-1]
        inverses.append(solution.inverse_covariance / (ones.unsqueeze(1) * ones))
    roots = run_tasks([partial(_root, each) for each in inverses], inverses[0].device)
    posterior.load_state({"root": torch.stack(roots)})


@torch.no_grad()
def _root(inverse_covariances: Tensor) -> Tensor:
    """Of the inverses, `n_y x F x F`, in blocks: the symmetric one, which is unique."""
    values, vectors = torch.linalg.eigh(inverse_covariances)
    root: Tensor = torch.block_diag(*(vectors * values.rsqrt().unsqueeze(1) @ vectors.mT))
    return root
