"""Predictions of several sizes of the errors of X, pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.random import SeedSequence
from numpy.typing import NDArray

from eiv.likelihoods import Labels
from eiv.prediction.decomposition import Moments
from eiv.prediction.matching import matched_draws
from eiv.prediction.result import Prediction
from eiv.prediction.sampling import shared_out

__all__ = ["over_sizes"]

Array = NDArray[np.float64]


def over_sizes(found: Sequence[Prediction], shares: Array, labels: Labels, seeds: Sequence[SeedSequence]) -> Prediction:
    r"""The prediction that does not know the size of the errors of X, from those for each size.

    .. math::
        m = \sum_k p_k m_k, \qquad u^2 = \sum_k p_k \big( \mathrm{epistemic}_k^2 + \mathrm{aleatoric}_k^2 \big) +
        \underbrace{\sum_k p_k (m_k - m)^2}_{\mathrm{of\ size}}

    What the sizes disagree in counts among the epistemic part: further rows, or a calibration, would lower it.

    Args:
        found: for each size.
        shares: p, `K`, which add up to one.
        labels: how labels scatter about f, over all sizes.
        seeds: one per size, for the choice of draws.

    Returns:
        The pooled prediction, with `Prediction.of_size`.

    Examples:
        >>> from eiv.likelihoods import NormalLabels
        >>> zero, one = np.zeros(1), np.ones(1)
        >>> low, high = (Prediction(mean, one, 2 * one, one) for mean in (-2 * one, 2 * one))
        >>> p = over_sizes([low, high], np.array([0.5, 0.5]), NormalLabels(one), SeedSequence(0).spawn(2))
        >>> p.mean, p.of_size, p.epistemic**2, p.aleatoric
        (array([0.]), array([2.]), array([5.]), array([2.]))

    """

    def over(values: Sequence[NDArray[np.float64]]) -> Array:
        return np.tensordot(shares, np.stack(values), axes=1)

    mean = over([each.mean for each in found])
    of_size = over([(each.mean - mean) ** 2 for each in found])
    epistemic = over([each.epistemic**2 for each in found]) + of_size
    aleatoric = over([each.aleatoric**2 for each in found])
    return replace(
        found[0],
        mean=mean,
        epistemic=np.sqrt(epistemic),
        aleatoric=np.sqrt(aleatoric),
        noise=labels.std,
        draws=_draws(found, shares, Moments(*map(torch.from_numpy, (mean, epistemic, aleatoric))), seeds),
        shares=_budget(found, shares),
        labels=labels,
        likeness=None if found[0].likeness is None else over([np.asarray(each.likeness) for each in found]),
        of_size=np.sqrt(of_size),
    )


def _draws(found: Sequence[Prediction], shares: Array, moments: Moments, seeds: Sequence[SeedSequence]) -> Array | None:
    """Draws of each size by its share, matched to the moments; None where they were not kept."""
    kept = [each.draws for each in found if each.draws is not None]
    if len(kept) < len(found):
        return None
    stacked = torch.from_numpy(np.stack(kept))
    drawn: Array = matched_draws(shared_out(stacked, torch.from_numpy(shares), seeds), moments).numpy()
    return drawn


def _budget(found: Sequence[Prediction], shares: Array) -> Array | None:
    """The shares of features in the aleatoric variance of all sizes; None where they were not asked for."""
    kept = [each.shares for each in found if each.shares is not None]
    if len(kept) < len(found):
        return None
    weights = np.stack([share * each.aleatoric**2 for share, each in zip(shares, found, strict=True)])[..., None]
    with np.errstate(invalid="ignore"):
        return np.asarray((weights * np.stack(kept)).sum(0) / weights.sum(0))
