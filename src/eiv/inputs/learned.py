"""Input priors that are learned from the measured rows: extreme deconvolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from eiv.inputs.mixture import MixturePrior, component_posteriors

__all__ = ["LearnedPrior"]

_MOST_ROWS, _LEAST_ROWS = 4000, 500  # that a prior is learned from; others are left out at random
_MOST_VALUES = 2**16  # rows times features (times features again for per-row covariances) to learn a mixture from
_MOST_CORRELATED = 10  # features with per-row errors that are not taken as independent
_FOLDS, _FEW_VALUES = 5, 2000  # cross-validation for a small table, else one row in five is held out
_ROWS_A_PARAMETER = 4
_PATIENCE = 2  # more components are tried until so many in a row have done no better
_SURE = 1.0  # standard errors by which a larger mixture has to do better on held-out rows
_STEPS, _TOLERANCE = (300, 60), 1e-5  # on a line, and of several features; an early stop smooths a mixture
_STARTS = 4
_TINY = 1e-6  # a component that none of the rows belongs to goes to the middle
_PRIOR_ROWS = 1.0  # rows that the prior of a component's covariance counts for
_FLAT = 1e6  # std of the prior of a constant feature over its value or error, whichever is larger: as good as flat


class _Fit(NamedTuple):
    """Mixtures for F choices of rows, and the mean log-density of all rows under each, `F x rows`."""

    weights: Tensor
    means: Tensor
    covariances: Tensor
    log_density: Tensor


@dataclass(frozen=True)
class LearnedPrior:
    r"""The distribution of the true inputs, learned from rows whose errors are known (extreme deconvolution).

    .. math::
        \max_{\alpha, m, V} \sum_i \log \sum_k \alpha_k\, \mathcal{N}(x_i | m_k, V_k + S_i)

    by expectation maximisation (J. Bovy, D. W. Hogg, S. T. Roweis, Annals of Applied Statistics 5 (2011) 1657), with a
    weak prior that keeps each :math:`V_k` from collapsing. Each row may have an error of its own. The number of
    components is the one with the best likelihood of held-out rows. One component is empirical Bayes for
    the normal prior of appendix A.2.

    A constant feature says nothing of the distribution of its true values. It has a prior that is as good as flat, the
    same in all components and independent of the other features, so that its value and its error move none of these:
    they have the prior that they would have without it.

    Attributes:
        max_components: components that are tried at most; few rows allow fewer.
        min_components: components at least, however few the rows.
        random_state: seed of the folds and of the starts.

    Examples:
        >>> random = torch.Generator().manual_seed(0)
        >>> zeta = torch.randn(2000, 1, generator=random, dtype=torch.float64)
        >>> x = zeta + 0.5 * torch.randn(2000, 1, generator=random, dtype=torch.float64)
        >>> prior = LearnedPrior(max_components=1).fit(x, torch.tensor([[0.5]], dtype=torch.float64))
        >>> 0.9 < prior.covariances.item() < 1.1  # of zeta; that of x is 1.25
        True

    """

    max_components: int = 10
    min_components: int = 1
    random_state: int = 0

    def fit(self, x: Tensor, x_err: Tensor) -> MixturePrior:
        """The prior for `x`, `rows x n_x`, with standard deviations or covariances `x_err` (rows may be 1)."""
        if not 1 <= self.min_components <= self.max_components:
            raise ValueError(
                f"LearnedPrior: min_components must be 1 to max_components ({self.max_components}), "
                f"got {self.min_components}."
            )
        random = torch.Generator().manual_seed(self.random_state)
        x, x_err = x.double().cpu(), x_err.double().cpu()
        varies = x.amin(0) < x.amax(0)
        if not bool(varies.all()):
            return self._with_constants(x, x_err, varies)
        x, x_err = self._some_rows(x, x_err, random)
        shift, scale = x.mean(0), x.std(0, correction=0)
        scale = torch.where(scale > 0, scale, 1.0)
        x = (x - shift) / scale
        x_err = x_err / scale if x_err.ndim == 2 else x_err / (scale[:, None] * scale)
        if not bool(torch.isfinite(x_err.square()).all()):
            raise ValueError("x_err: errors so much larger than the spread of X leave no prior to be learned.")
        best = self._best(x, x_err, random)
        covariances = best.covariances[0]
        covariances = covariances * (scale**2 if covariances.ndim == 2 else scale[:, None] * scale)
        return MixturePrior(*(part.numpy() for part in (best.weights[0], shift + scale * best.means[0], covariances)))

    def _with_constants(self, x: Tensor, x_err: Tensor, varies: Tensor) -> MixturePrior:
        """The prior where some features are constant: that of the others, and nearly flat for these."""
        variances = x_err.square() if x_err.ndim == 2 else x_err.diagonal(dim1=-2, dim2=-1)  # (1 or rows) x n_x
        size = torch.maximum(variances.amax(0), x[0].square())
        flat = (_FLAT**2 * torch.where(size > 0, size, 1.0)).clamp_max(1e300)  # squares of large values overflow
        if not bool(varies.any()):
            return MixturePrior(*(part.numpy() for part in (torch.ones(1).double(), x[:1], flat[None])))
        others = x_err[:, varies] if x_err.ndim == 2 else x_err[:, varies][:, :, varies]
        prior = self.fit(x[:, varies], others)
        learned, place = torch.as_tensor(prior.covariances), torch.eye(len(flat)).double()[varies]  # varying x n_x
        means = torch.as_tensor(prior.means) @ place + torch.where(varies, 0.0, x[0])
        rest = torch.where(varies, 0.0, flat)
        covariances = learned @ place + rest if learned.ndim == 2 else place.T @ learned @ place + rest.diag()
        return MixturePrior(prior.weights, means.numpy(), covariances.numpy())

    def _best(self, x: Tensor, x_err: Tensor, random: torch.Generator) -> _Fit:
        """The fit to all rows, row 0 of the result, of the structure that does best on held-out rows."""
        chosen = _folds(len(x), x.shape[1], random)  # F x rows; the first line has all of them
        correlated = x.shape[1] > 1 and (len(x_err) == 1 or x.shape[1] <= _MOST_CORRELATED)
        independent = _deconvolve(x, x_err, chosen, self.min_components, False, random)
        best, full, failures = independent, False, 0
        if correlated:
            best = _better(independent, _deconvolve(x, x_err, chosen, self.min_components, True, random), chosen)
            full = best is not independent
        for n_components in range(self.min_components + 1, self.max_components + 1):
            if not _affordable(len(x), x.shape[1], n_components, full) or failures == _PATIENCE:
                break
            last, best = best, _better(best, _deconvolve(x, x_err, chosen, n_components, full, random), chosen)
            failures = failures + 1 if best is last else 0
        return best

    def _some_rows(self, x: Tensor, x_err: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """As many rows as can be learned from in seconds."""
        n_features = x.shape[1]
        matrices = len(x_err) > 1 and n_features <= _MOST_CORRELATED
        most = min(_MOST_ROWS, max(_LEAST_ROWS, _MOST_VALUES // n_features ** (2 if matrices else 1)))
        if len(x) <= most:
            return x, x_err
        rows = torch.randperm(len(x), generator=random)[:most]
        return x[rows], x_err if len(x_err) == 1 else x_err[rows]


def _deconvolve(
    x: Tensor, x_err: Tensor, chosen: Tensor, n_components: int, full: bool, random: torch.Generator
) -> _Fit:
    """Expectation maximisation for all choices of rows at once: `chosen` is `F x rows`."""
    used = chosen.to(x)
    n_components = min(n_components, len(x))
    shares = _start(x, n_components, random) * used.unsqueeze(-1)  # F x rows x K, who belongs to which component
    size = n_components ** (-2 / x.shape[1])  # of a component where K of them share the variance of x
    prior = _PRIOR_ROWS * size * (torch.eye(x.shape[1]).to(x) if full else torch.ones_like(x[0]))
    b, B = x.unsqueeze(-2), torch.zeros_like(prior).expand(1, 1, 1, *prior.shape)
    last = x.new_full((), -torch.inf)
    for _ in range(_STEPS[x.shape[1] > 1]):
        counts = shares.sum(1)  # F x K
        weights = (counts + 1) / (counts + 1).sum(-1, keepdim=True)
        means = torch.einsum("frk,frki->fki", shares, b.expand(*shares.shape, -1)) / (counts + _TINY).unsqueeze(-1)
        gap = b - means.unsqueeze(1)
        weighted = shares.unsqueeze(-1) * gap
        scatter = torch.einsum("frki,frkj->fkij", weighted, gap) if full else (weighted * gap).sum(1)
        covariances = (scatter + _summed(shares, B) + prior) / (counts + _PRIOR_ROWS)[(..., *(None,) * prior.ndim)]
        log_density, b, B = component_posteriors(x, x_err, means, covariances)
        if not full and x_err.ndim == 3:
            B = B.diagonal(dim1=-2, dim2=-1)
        joint = log_density + weights.log().unsqueeze(1)
        log_density = joint.logsumexp(-1)
        shares = (joint - log_density.unsqueeze(-1)).exp() * used.unsqueeze(-1)
        now = (log_density * used).sum(1) / used.sum(1)
        if bool((now - last).abs().max() < (_TOLERANCE if n_components > 1 else 1e-9)):
            break
        last = now
    return _Fit(weights, means, covariances, log_density)


def _summed(shares: Tensor, B: Tensor) -> Tensor:
    """Sums over the rows of `F x rows x K` times `F x (1 or rows) x K x ...`."""
    if B.shape[1] == 1:
        return shares.sum(1)[(..., *(None,) * (B.ndim - 3))] * B.squeeze(1)
    return torch.einsum("frk,frk...->fk...", shares, B)


def _better(small: _Fit, large: _Fit, chosen: Tensor) -> _Fit:
    """The larger fit where held-out rows say so clearly, else the smaller one."""
    gain = (large.log_density - small.log_density)[1:][~chosen[1:]]
    return large if gain.mean() > _SURE * gain.std() / len(gain) ** 0.5 else small


def _start(x: Tensor, n_components: int, random: torch.Generator) -> Tensor:
    """Rows by the nearest of K centres (k-means): `rows x K`, zeros and ones."""
    n_starts = min(_STARTS, len(x) // n_components)
    centres = x[torch.randperm(len(x), generator=random)[: n_starts * n_components]].unflatten(0, (n_starts, -1))
    for _ in range(20):
        nearest = torch.nn.functional.one_hot(torch.cdist(x, centres).argmin(-1), centres.shape[1]).to(x)
        counts = nearest.sum(1).unsqueeze(-1)
        centres = torch.where(counts > 0, nearest.mT @ x / counts.clamp_min(1), centres)
    best = torch.cdist(x, centres).amin(-1).square().sum(-1).argmin()
    return nearest[best]


def _folds(n_rows: int, n_features: int, random: torch.Generator) -> Tensor:
    """Which rows each fit uses, `F x rows`: all of them, then all but one fold in turn."""
    folds = torch.randperm(n_rows, generator=random) % _FOLDS
    held_out = range(_FOLDS) if n_rows * n_features <= _FEW_VALUES else range(1)
    return torch.stack([folds >= 0, *(folds != fold for fold in held_out)])


def _affordable(n_rows: int, n_features: int, n_components: int, full: bool) -> bool:
    """Whether there are enough rows for the numbers of such a mixture."""
    shape = n_features * (n_features + 1) // 2 if full else n_features
    return n_components * (1 + n_features + shape) * _ROWS_A_PARAMETER <= n_rows
