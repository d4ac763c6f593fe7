"""Other explanations of the labels than the best smooth kernel, and how far each is to be believed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from eiv.engine.workers import run_tasks
from eiv.training.evidence.features import Inputs
from eiv.training.evidence.search import Found, evidence_of_means, rougher, washed_out
from eiv.training.evidence.solution import Labels, log_density, solve

Array = NDArray[np.float64]
_EVEN = 0.5  # the largest share of waves that errors of x wash out: as probable as no such waves
_NONE = -1e30  # the logarithm of a density where weights cannot be found
_RESAMPLES = 1000  # of the rows, which leaves shares a random error of 1 / 60 at most


class Explanation(NamedTuple):
    """A kernel, its share in the pool, and how many pairs of networks stand for it there."""

    found: Found
    share: float
    n_pairs: int


def explanations(
    found: Found, inputs: Inputs, labels: Labels, known_noise: Tensor | None, n_pairs: int
) -> list[Explanation]:
    r"""The best kernel, a rougher one, and short waves in place of noise, as far as labels cannot distinguish them.

    .. math::
        p_k = \mathrm{E}_\alpha \frac{\exp(n \sum_i \alpha_i l_{ki})}{\sum_j \exp(n \sum_i \alpha_i l_{ji})}, \qquad
        \alpha \sim \mathrm{Dirichlet}(1, \dots, 1)

    is the share of the smooth and of the rough kernel. l is the logarithm of the density of a label given the labels of
    the half of the rows that it is not in. The mean over weights of the rows counts that other rows would have given
    other sums (pseudo-BMA+: Y. Yao, A. Vehtari, D. Simpson, A. Gelman, Bayesian Analysis 13 (2018) 917).

    Waves that the errors of x wash out of the mean of the labels cannot be predicted, so that held-out labels speak
    against them even where they exist. Their share is by the evidence of all labels, and a half at most: the evidence
    takes the variance of a label for known which the same label has been used to find, and so favours them.

    Args:
        found: the best smooth kernel, from the rows of `inputs`.
        inputs: zeta given x for the rows of the search, in random order.
        labels: theirs.
        known_noise: sigma_y where it is known, `n_y`.
        n_pairs: of networks, which are given out.

    Returns:
        Those that a pair of networks stands for.

    """

    def waves_of() -> Found | None:
        return None if inputs.is_exact else washed_out(found, inputs, labels, known_noise)

    searches: list[Callable[[], Found | None]] = [partial(rougher, found, inputs, labels, known_noise), waves_of]
    rough, waves = run_tasks(searches, labels.y.device)
    assert rough is not None
    kernels = [found, rough]
    tasks = [partial(_held_out, each, inputs, labels) for each in kernels]
    densities = torch.stack(run_tasks(tasks, labels.y.device))
    shares = _shares((labels.weights * densities).cpu().numpy())
    if waves is not None:
        kernels.append(waves)
        gain = evidence_of_means(waves, inputs, labels) - evidence_of_means(found, inputs, labels)
        share = min(_EVEN, float(special.expit(gain)))
        shares = np.append((1 - share) * shares, share)
    pairs = _given_out(shares, n_pairs)
    shares = np.where(pairs > 0, shares, 0)
    parts = zip(kernels, (shares / shares.sum()).tolist(), pairs.tolist(), strict=True)
    return [Explanation(*each) for each in parts if each[-1]]


def _shares(densities: Array) -> Array:
    """Of each kernel, from the logarithms of the densities of labels, times the weights of rows: `kernels x rows`."""
    weights = np.random.default_rng(0).standard_exponential((_RESAMPLES, densities.shape[1]))
    sums = densities.shape[1] * weights / weights.sum(1, keepdims=True) @ densities.T
    shares: Array = special.softmax(sums, axis=1).mean(0)
    return shares


def _given_out(shares: Array, n_pairs: int) -> NDArray[np.intp]:
    """Pairs by shares: the next one goes to where each pair would stand for most (D'Hondt's method)."""
    pairs = np.zeros(len(shares), dtype=int)
    for _ in range(n_pairs):
        pairs[np.argmax(shares / (pairs + 1))] += 1
    return pairs


@torch.no_grad()
def _held_out(found: Found, inputs: Inputs, labels: Labels) -> Tensor:
    """The logarithm of the density of each label given the labels of the half of the rows that it is not in."""
    family, values, draws = found.family, found.family.values(found.flat), found.family.draws(labels.y)
    order = torch.arange(len(labels.y), device=labels.y.device)
    density = torch.full_like(labels.y[:, 0], _NONE)
    for known, other in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        with contextlib.suppress(torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            solution = solve(family, values, draws, inputs.take(known), labels.take(known))
            density[other] = log_density(family, values, draws, inputs.take(other), labels.take(other), solution)
    return density
