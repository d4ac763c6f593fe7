"""The posterior of the true input given a reading, under any law of its error."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eiv.engine import memory
from eiv.inputs.mixed import UNKNOWN, MixedErrors
from eiv.inputs.mixture import MixturePrior, component_posteriors
from eiv.inputs.parts import Parts
from eiv.inputs.priors import FlatPrior, InputPrior, NormalPrior
from eiv.inputs.zeta import ZetaMixture, ZetaPosterior, square_root

__all__ = ["log_density_of_readings", "zeta_given"]

MOST_PARTS = 32
"""The most components of a posterior under laws of errors; the rest of them become one with their moments."""
_MOST_LEARNING = 8  # the same of each component of a prior while it is learned


class _Found(NamedTuple):
    """Normal distributions for each row and component of the prior: `... x rows x K x C`, with features behind.

    Attributes:
        log_density: of the reading in each.
        means: `... x n_x`.
        covariances: variances, `... x n_x`, or `... x n_x x n_x`; the axis of the rows may be 1.

    """

    log_density: Tensor
    means: Tensor
    covariances: Tensor

    @property
    def is_full(self) -> bool:
        return self.covariances.ndim > self.means.ndim


def zeta_given(prior: InputPrior, x: Tensor, errors: np.ndarray | MixedErrors) -> ZetaPosterior:
    r"""The posterior of zeta, from the prior, the readings and the laws of their errors.

    .. math::
        \pi(\zeta | x) \propto \sum_k \alpha_k\, \mathcal{N}(\zeta | m_k, V_k)
        \prod_c \sum_j w_{cj}\, \mathcal{N}(\zeta_c | x_c + s_{cj}, v_{cj}^2)

    is a mixture again: a normal distribution for every component of the prior and every choice of a part in each
    column. Columns are taken in one after the other. Where more than 32 distributions come up, those of the greatest
    weight are kept, and the others become a single one with their mean and covariance. The mean and the covariance of
    all together stay what they are.

    Args:
        prior: pi; for laws other than the normal one of `FlatPrior`, `NormalPrior` and `MixturePrior`.
        x: `rows x n_x`, in units of X.
        errors: in a form of `eiv.inputs.errors`.

    Returns:
        The posterior; with normal errors that of `prior.posterior`.

    Examples:
        >>> from eiv.inputs.laws import Rectangular
        >>> errors = MixedErrors.of([Rectangular(0.3).parts(np.zeros(1), "x_err")])
        >>> zeta = zeta_given(FlatPrior(), torch.tensor([[2.0]], dtype=torch.float64), errors)
        >>> zeta.mean.item(), round(zeta.std.item(), 3)
        (2.0, 0.173)

    """
    if not isinstance(errors, MixedErrors):
        return prior.posterior(x, torch.tensor(errors))
    if errors.missing is not None and isinstance(prior, FlatPrior):
        raise ValueError(
            "missing='integrate' needs an input_prior that says where true values lie, such as 'mixture' or 'normal'; "
            "'flat' says nothing of them."
        )
    if not any(errors.parts):
        return prior.posterior(x, torch.tensor(errors.std))
    if not isinstance(prior, FlatPrior | NormalPrior | MixturePrior):
        raise _unknown(prior)
    values = MOST_PARTS * errors.widest * x.shape[1] ** 2  # of a row, while a column is taken in
    size = max(1, memory.LAWS // values)
    starts = range(0, len(x), size)
    pieces = [_given(prior, x[start : start + size], errors[slice(start, start + size)]) for start in starts]
    log_weights, means, covariances = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    scales = covariances.sqrt() if covariances.ndim == means.ndim else square_root(covariances)
    return ZetaMixture.of(log_weights, means, scales)


def log_density_of_readings(prior: InputPrior, x: Tensor, errors: np.ndarray | MixedErrors) -> Tensor:
    r"""The logarithm of the density of readings, `rows`, which scatter by the prior and by the laws of their errors.

    .. math:: \log \int \pi(\zeta) \prod_c p(x_c | \zeta_c)\, d\zeta

    Missing cells add a constant, a flat prior nothing at all.

    Args:
        prior: pi, with a `log_density` of normal errors; for laws one that `zeta_given` takes.
        x: `rows x n_x`, in units of X.
        errors: in a form of `eiv.inputs.errors`.

    Examples:
        >>> from eiv.inputs.laws import Rectangular
        >>> errors = MixedErrors.of([Rectangular(1.0).parts(np.zeros(1), "x_err")])
        >>> far = NormalPrior(std=1e3)  # hardly any readings are near, whatever their errors
        >>> log_density_of_readings(far, torch.zeros(1, 1).double(), errors).round(decimals=3)
        tensor([-7.8270], dtype=torch.float64)

    """
    if not isinstance(errors, MixedErrors) or not any(errors.parts):
        plain = errors.std if isinstance(errors, MixedErrors) else errors
        found: Tensor = prior.log_density(x, torch.tensor(plain))  # type: ignore[attr-defined]
        return found
    if isinstance(prior, FlatPrior):
        return torch.zeros_like(x[:, 0])
    if not isinstance(prior, NormalPrior | MixturePrior):
        raise _unknown(prior)
    weights, means, covariances = prior.components(x)
    by_component = _by_parts(x, errors, means, covariances, MOST_PARTS).log_density.logsumexp(-1)
    return (weights.log().log_softmax(0) + by_component).logsumexp(-1)


def _unknown(prior: InputPrior) -> TypeError:
    return TypeError(
        f"x_err: laws other than the normal one take input_prior 'flat', 'normal', 'mixture', eiv.NormalPrior or "
        f"eiv.MixturePrior, got {type(prior).__name__}, whose posterior for parts of a law is not known."
    )


def explained(
    x: Tensor, errors: Tensor | MixedErrors, means: Tensor, covariances: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What each component of a prior makes of each row, as `component_posteriors` has it, under any law.

    Mean and covariance of zeta given x and a component are those of all parts together. The arguments and the result
    have the shapes that they have there; each component keeps eight parts at most, the last of them the rest.
    """
    if not isinstance(errors, MixedErrors):
        return component_posteriors(x, errors, means, covariances)
    if not any(errors.parts):
        return component_posteriors(x, torch.tensor(errors.std), means, covariances)
    found = _by_parts(x, errors, means, covariances, _MOST_LEARNING)
    weights = found.log_density.softmax(-1)
    mean, covariance = _moments(weights, found)
    return found.log_density.logsumexp(-1), mean, covariance


def _given(prior: FlatPrior | NormalPrior | MixturePrior, x: Tensor, errors: MixedErrors) -> _Found:
    """The posterior of some rows: log weights `rows x C`, means and covariances, which have all rows."""
    weights, means, covariances = prior.components(x)
    if isinstance(prior, MixturePrior):
        found = _by_parts(x, errors, means, covariances, MOST_PARTS)
    else:  # one normal distribution with independent features, which may be flat
        laws, std = torch.tensor([each is not None for each in errors.parts]), torch.tensor(errors.std)
        normal = prior.posterior(x, std)
        known = torch.where(laws, covariances, normal.std.square()).expand_as(x)
        start = _Found(
            torch.zeros_like(x[:, :1, None]), torch.where(laws, means, normal.mean)[:, None, None], known[:, None, None]
        )
        found = _with_laws(start, x, errors, MOST_PARTS)
    log_density = found.log_density + weights.log().unsqueeze(-1)
    covariances = found.covariances.expand(len(x), *(-1,) * (found.covariances.ndim - 1))
    return _fewer(_Found(log_density.flatten(-2), found.means.flatten(1, 2), covariances.flatten(1, 2)), MOST_PARTS)


def _by_parts(x: Tensor, errors: MixedErrors, means: Tensor, covariances: Tensor, most: int) -> _Found:
    """What each component of a prior makes of each row, part by part.

    Columns with laws are left out at first, by an error that says nothing, and then taken in one after the other.
    """
    variances = covariances if covariances.ndim == means.ndim else covariances.diagonal(dim1=-2, dim2=-1)
    reach = variances.flatten(0, -2).amax(0).sqrt() + (x.unsqueeze(-2) - means.unsqueeze(-3)).abs().flatten(0, -2).amax(
        0
    )
    laws = torch.tensor([each is not None for each in errors.parts])
    std = torch.where(laws, UNKNOWN * reach, torch.tensor(errors.std))
    log_density, mean, covariance = component_posteriors(x, std, means, covariances)
    log_density = log_density + (UNKNOWN * reach[laws] * math.sqrt(2 * math.pi)).log().sum()
    behind = -2 if covariance.ndim == mean.ndim else -3
    start = _Found(log_density.unsqueeze(-1), mean.unsqueeze(-2), covariance.unsqueeze(behind))
    return _with_laws(start, x, errors, most)


def _with_laws(found: _Found, x: Tensor, errors: MixedErrors, most: int) -> _Found:
    """The same with the columns that have laws; of more than `most` parts the least become one."""
    for column, parts in enumerate(errors.parts):
        if parts is not None:
            found = _fewer(_with_column(found, x[:, column], parts, column), most)
    return found


def _with_column(found: _Found, x: Tensor, law: Parts, c: int) -> _Found:
    r"""The readings `x` of column c, `rows`, taken in: each part of its law with each distribution so far.

    .. math:: m' = m + \frac{V_{\cdot c}}{V_{cc} + v^2} (x + s - m_c), \qquad
              V' = V - \frac{V_{\cdot c} V_{c \cdot}}{V_{cc} + v^2}

    Row and column c of V' are :math:`V_{c \cdot} v^2 / (V_{cc} + v^2)`, which loses no digits. A column that nothing is
    known of yet has an infinite variance, and is independent of the others.
    """
    log_w, shifts, stds = (torch.tensor(part)[:, None, None] for part in law)
    y, v = x[:, None, None, None] + shifts, stds.square()  # rows x 1 x 1 x J
    variances = found.covariances.diagonal(dim1=-2, dim2=-1) if found.is_full else found.covariances
    before, gap = variances[..., c].unsqueeze(-1), y - found.means[..., c].unsqueeze(-1)
    total, ratio = before + v, v / before
    share = ratio / (1 + ratio)
    density = torch.where(total.isinf(), 0.0, -0.5 * (gap.square() / total + (2 * math.pi * total).log()))
    log_density = found.log_density.unsqueeze(-1) + log_w + density
    at_c = torch.arange(found.means.shape[-1]) == c
    means = torch.where(at_c, 0.0, found.means.unsqueeze(-2)).expand(*log_density.shape, -1)
    if found.is_full:
        with_c = found.covariances[..., c].unsqueeze(-2)  # ... x C x 1 x n_x
        gain = with_c / total.unsqueeze(-1)
        means = torch.where(at_c, 0.0, means + gain * gap.unsqueeze(-1))
        inner = found.covariances.unsqueeze(-3) - gain.unsqueeze(-1) * with_c.unsqueeze(-2)
        edge = (share.unsqueeze(-1) * with_c).unsqueeze(-2)
        covariances = torch.where(at_c[:, None], edge, torch.where(at_c, edge.mT, inner))
    else:
        covariances = torch.where(at_c, (v / (1 + ratio)).unsqueeze(-1), found.covariances.unsqueeze(-2))
    means = means + torch.where(at_c, (y - share * gap).unsqueeze(-1), 0.0)
    place = log_density.ndim - 2
    return _Found(log_density.flatten(-2), means.flatten(place, place + 1), covariances.flatten(place, place + 1))


def _fewer(found: _Found, most: int) -> _Found:
    """At most so many distributions per row: those of the greatest weight, and one with the moments of the rest."""
    if found.log_density.shape[-1] <= most:
        return found
    if not found.is_full and found.means.shape[-1] > 1:  # the rest has correlations between features
        found = found._replace(covariances=found.covariances.diag_embed())
    log_density, order = found.log_density.sort(dim=-1, descending=True, stable=True)
    places = order.unsqueeze(-1)
    means = torch.take_along_dim(found.means, places, dim=found.log_density.ndim - 1)
    places = places.unsqueeze(-1) if found.is_full else places
    covariances = torch.take_along_dim(found.covariances, places, dim=found.log_density.ndim - 1)
    kept, rest = (slice(None, most - 1), slice(most - 1, None))
    axis = (slice(None),) * (log_density.ndim - 1)
    others = _Found(log_density[..., rest], means[(*axis, rest)], covariances[(*axis, rest)])
    shares = others.log_density - others.log_density.amax(-1, keepdim=True).clamp_min(torch.finfo(means.dtype).min)
    mean, covariance = _moments(shares.softmax(-1).nan_to_num(1 / shares.shape[-1]), others)
    return _Found(
        torch.cat([log_density[..., kept], others.log_density.logsumexp(-1, keepdim=True)], -1),
        torch.cat([means[(*axis, kept)], mean.unsqueeze(len(axis))], len(axis)),
        torch.cat([covariances[(*axis, kept)], covariance.unsqueeze(len(axis))], len(axis)),
    )


def _moments(weights: Tensor, found: _Found) -> tuple[Tensor, Tensor]:
    """Mean and covariance of mixtures with these weights, `... x C`; variances where that is all that is known."""
    mean = (weights.unsqueeze(-1) * found.means).sum(-2)
    gap = found.means - mean.unsqueeze(-2)
    if not found.is_full:
        return mean, (weights.unsqueeze(-1) * (found.covariances + gap.square())).sum(-2)
    between = gap.unsqueeze(-1) * gap.unsqueeze(-2)
    return mean, (weights[..., None, None] * (found.covariances + between)).sum(-3)
