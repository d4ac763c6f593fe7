"""Input priors that are learned from the measured rows: extreme deconvolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from eiv.engine.readonly import tensor_of
from eiv.inputs.deconvolution import Mixtures, Start, deconvolve
from eiv.inputs.errors import times
from eiv.inputs.mixed import MixedErrors
from eiv.inputs.mixture import MixturePrior
from eiv.inputs.plausible import check_plausible

__all__ = ["LearnedPrior"]

_MOST_ROWS, _LEAST_ROWS = 4000, 500  # that a prior is learned from; others are left out at random
_MOST_VALUES = 2**16  # rows times features (times features again for per-row covariances) to learn a mixture from
_MOST_CORRELATED = 10  # features with per-row errors that are not taken as independent
_FOLDS, _FEW_VALUES = 5, 2000  # cross-validation for a small table, else one row in five is held out
_ROWS_A_PARAMETER = 4
_PATIENCE = 2  # more components are tried until so many in a row have done no better
_SURE = 1.0  # standard errors by which a larger mixture has to do better on held-out rows
_FLAT = 1e6  # std of the prior of a constant feature over its value or error, whichever is larger: as good as flat


class _Standardised(NamedTuple):
    """Rows to learn from, in units in which each feature has a mean of zero and a standard deviation of one.

    `weights`, `rows`, says how often each of them counts.
    """

    x: Tensor
    x_err: Tensor | MixedErrors
    weights: Tensor
    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, x: Tensor, x_err: Tensor | MixedErrors, weights: Tensor | None) -> _Standardised:
        shift, scale = x.mean(0), x.std(0, correction=0)
        if weights is not None:
            shift = weights @ x / weights.sum()
            scale = (weights @ (x - shift).square() / weights.sum()).sqrt()
        scale = torch.where(scale > 0, scale, 1.0)
        weights = torch.ones_like(x[:, 0]) if weights is None else weights
        if isinstance(x_err, MixedErrors):
            return cls((x - shift) / scale, x_err.over(scale.numpy()), weights, shift, scale)
        x_err = x_err / scale if x_err.ndim == 2 else x_err / (scale[:, None] * scale)
        if not bool(torch.isfinite(x_err.square()).all()):
            raise ValueError("x_err: errors so much larger than the spread of X leave no prior to be learned.")
        return cls((x - shift) / scale, x_err, weights, shift, scale)

    def squares(self, covariances: Tensor) -> Tensor:
        """The units of covariances, or of variances."""
        return self.scale**2 if covariances.ndim == 2 else self.scale[:, None] * self.scale

    def prior(self, found: Mixtures, place: int) -> MixturePrior:
        """One of the mixtures, in the units of X."""
        weights, means, covariances = (part[place] for part in found[:3])
        parts = (weights, self.shift + self.scale * means, covariances * self.squares(covariances))
        return MixturePrior(*(part.numpy() for part in parts))

    def start(self, prior: MixturePrior) -> Start:
        """Each row as a prior in the units of X has it."""
        weights, means, covariances = map(tensor_of, (prior.weights, prior.means, prior.covariances))
        means, covariances = (means - self.shift) / self.scale, covariances / self.squares(covariances)
        return Start.by_mixture(self.x, self.x_err, weights, means, covariances)


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

    def fit(
        self,
        x: Tensor,
        x_err: Tensor | MixedErrors,
        weights: Tensor | None = None,
        *,
        name: str = "x_err",
        feature_names: Sequence[str] | None = None,
    ) -> MixturePrior:
        """The prior for `x`, `rows x n_x`, with standard deviations, covariances or laws `x_err` (rows may be 1).

        A row counts as often as its weight says, `rows` numbers above zero; once where there are none.

        Errors that cannot be true are refused, and those that hardly can are warned about, as in `EiVRegressor.fit`
        (`eiv.inputs.plausible`); messages call them `name`, and the columns by `feature_names`.
        """
        self._check(x, x_err, name, feature_names)
        return self.learn(x, x_err, weights)

    def learn(self, x: Tensor, x_err: Tensor | MixedErrors, weights: Tensor | None = None) -> MixturePrior:
        """What `fit` finds, of errors that were looked at before, and that may have laws or missing cells."""
        if not 1 <= self.min_components <= self.max_components:
            raise ValueError(
                f"LearnedPrior: min_components must be 1 to max_components ({self.max_components}), "
                f"got {self.min_components}."
            )
        random = torch.Generator().manual_seed(self.random_state)
        x, x_err = x.double().cpu(), _in_double(x_err)
        varies = x.amin(0) < x.amax(0)
        if not bool(varies.all()):
            few = self.learn(x[:, varies], _of_features(x_err, varies), weights) if bool(varies.any()) else None
            return _with_constants(few, x, x_err, varies)
        table = _Standardised.of(*self._some_rows(x, x_err, weights, random))
        return table.prior(self._best(table, random), 0)

    def halves(
        self, prior: MixturePrior, x: Tensor, x_err: Tensor | MixedErrors, n_halves: int, weights: Tensor | None = None
    ) -> list[MixturePrior]:
        r"""Priors that scatter about `prior`, learned from these rows, as it does about the truth.

        .. math:: \mathrm{Var}(\hat\pi_{n/2} - \hat\pi_n) = \frac{v}{n/2} - 2 \frac{v}{n} + \frac{v}{n} = \frac{v}{n}

        Each is learned from half of the rows, chosen at random, and each second one from the rows that the one before
        left out. What is learned from n rows has a variance of v / n, and the mean of what two halves say is what all
        rows say, nearly. The components begin at those of `prior`.
        """

        def chosen(n_rows: int, random: torch.Generator) -> Tensor:
            orders = torch.stack([torch.randperm(n_rows, generator=random) for _ in range(n_halves // 2)])
            return torch.stack([orders % 2 == 0, orders % 2 == 1], dim=1).flatten(0, 1)

        return self._begun(prior, x, x_err, weights, chosen)

    def near(
        self, prior: MixturePrior, x: Tensor, x_err: Tensor | MixedErrors, weights: Tensor | None = None
    ) -> MixturePrior:
        """What is learned from all rows where as many components begin at those of `prior`."""
        (found,) = self._begun(prior, x, x_err, weights, lambda n_rows, _: torch.ones(1, n_rows, dtype=torch.bool))
        return found

    def _begun(
        self,
        prior: MixturePrior,
        x: Tensor,
        x_err: Tensor | MixedErrors,
        weights: Tensor | None,
        choose: Callable[[int, torch.Generator], Tensor],
    ) -> list[MixturePrior]:
        """Priors of the rows that are chosen, `priors x rows`, with components that begin at those of `prior`."""
        random = torch.Generator().manual_seed(self.random_state)
        x, x_err = x.double().cpu(), _in_double(x_err)
        varies = x.amin(0) < x.amax(0)
        if not bool(varies.any()):
            return [prior] * len(choose(len(x), random))
        if not bool(varies.all()):
            means, covariances = (tensor_of(part) for part in (prior.means, prior.covariances))
            few = MixturePrior(prior.weights, means[:, varies].numpy(), _of_features(covariances, varies).numpy())
            found = self._begun(few, x[:, varies], _of_features(x_err, varies), weights, choose)
            return [_with_constants(each, x, x_err, varies) for each in found]
        table = _Standardised.of(*self._some_rows(x, x_err, weights, random))
        chosen = choose(len(table.x), random)
        full = tensor_of(prior.covariances).ndim == 3
        mixtures = deconvolve(table.x, table.x_err, chosen * table.weights, table.start(prior), full)
        return [table.prior(mixtures, place) for place in range(len(chosen))]

    def _check(self, x: Tensor, x_err: Tensor | MixedErrors, name: str, feature_names: Sequence[str] | None) -> None:
        """Whether the errors can be true; one row, or a constant feature, says nothing of that."""
        values = x.double().cpu().numpy()
        if len(values) > 1:
            errors = x_err if isinstance(x_err, MixedErrors) else x_err.double().cpu().numpy()
            check_plausible(name, values, times(errors, (np.ptp(values, axis=0) > 0).astype(float)), feature_names)

    def _best(self, table: _Standardised, random: torch.Generator) -> Mixtures:
        """The fit to all rows, row 0 of the result, of the structure that does best on held-out rows."""
        x, x_err, weights = table[:3]
        chosen = _folds(len(x), x.shape[1], random)  # F x rows; the first line has all of them
        shared = len(x_err) == 1 and not isinstance(x_err, MixedErrors)
        correlated = x.shape[1] > 1 and (shared or x.shape[1] <= _MOST_CORRELATED)

        def mixtures(n_components: int, full: bool) -> Mixtures:
            start = Start.by_centres(x, weights, min(n_components, len(x)), random)
            return deconvolve(x, x_err, chosen * weights, start, full)

        independent = mixtures(self.min_components, False)
        best, full, failures = independent, False, 0
        if correlated:
            best = _better(independent, mixtures(self.min_components, True), chosen, weights)
            full = best is not independent
        for n_components in range(self.min_components + 1, self.max_components + 1):
            if not _affordable(float(weights.sum()), x.shape[1], n_components, full) or failures == _PATIENCE:
                break
            last, best = best, _better(best, mixtures(n_components, full), chosen, weights)
            failures = failures + 1 if best is last else 0
        return best

    def _some_rows(
        self, x: Tensor, x_err: Tensor | MixedErrors, weights: Tensor | None, random: torch.Generator
    ) -> tuple[Tensor, Tensor | MixedErrors, Tensor | None]:
        """As many rows as can be learned from in seconds."""
        n_features = x.shape[1]
        widest = x_err.widest if isinstance(x_err, MixedErrors) else 0
        matrices = (len(x_err) > 1 or widest) and n_features <= _MOST_CORRELATED
        values = n_features ** (2 if matrices else 1) * max(1, widest)
        most = min(_MOST_ROWS, max(_LEAST_ROWS, _MOST_VALUES // values))
        weights = None if weights is None else weights.double().cpu()
        if len(x) <= most:
            return x, x_err, weights
        rows = torch.randperm(len(x), generator=random)[:most]
        weights = None if weights is None else weights[rows]
        if isinstance(x_err, MixedErrors):
            return x[rows], x_err[rows.numpy()], weights
        return x[rows], x_err if len(x_err) == 1 else x_err[rows], weights


def _with_constants(prior: MixturePrior | None, x: Tensor, x_err: Tensor | MixedErrors, varies: Tensor) -> MixturePrior:
    """The prior where some features are constant: that of the others, if there are any, and nearly flat for these."""
    errors = torch.tensor(x_err.std) if isinstance(x_err, MixedErrors) else x_err
    variances = errors.square() if errors.ndim == 2 else errors.diagonal(dim1=-2, dim2=-1)  # (1 or rows) x n_x
    size = torch.maximum(variances.amax(0), x[0].square())
    flat = (_FLAT**2 * torch.where(size > 0, size, 1.0)).clamp_max(1e300)  # squares of large values overflow
    if prior is None:
        return MixturePrior(*(part.numpy() for part in (torch.ones(1).double(), x[:1], flat[None])))
    learned, place = tensor_of(prior.covariances), torch.eye(len(flat)).double()[varies]  # varying x n_x
    means = tensor_of(prior.means) @ place + torch.where(varies, 0.0, x[0])
    rest = torch.where(varies, 0.0, flat)
    covariances = learned @ place + rest if learned.ndim == 2 else place.T @ learned @ place + rest.diag()
    return MixturePrior(prior.weights, means.numpy(), covariances.numpy())


def _in_double(x_err: Tensor | MixedErrors) -> Tensor | MixedErrors:
    return x_err if isinstance(x_err, MixedErrors) else x_err.double().cpu()


@overload
def _of_features(values: Tensor, chosen: Tensor) -> Tensor: ...
@overload
def _of_features(values: Tensor | MixedErrors, chosen: Tensor) -> Tensor | MixedErrors: ...
def _of_features(values: Tensor | MixedErrors, chosen: Tensor) -> Tensor | MixedErrors:
    """Errors or variances, `... x n_x`, or covariances, `... x n_x x n_x`, of some features."""
    if isinstance(values, MixedErrors):
        return values.of_features(chosen.numpy())
    return values[:, chosen] if values.ndim == 2 else values[:, chosen][:, :, chosen]


def _better(small: Mixtures, large: Mixtures, chosen: Tensor, weights: Tensor) -> Mixtures:
    """The larger fit where held-out rows say so clearly, else the smaller one."""
    gain = (large.log_density - small.log_density)[1:][~chosen[1:]]
    counts = weights.expand_as(chosen[1:])[~chosen[1:]]
    mean = counts @ gain / counts.sum()
    error = (counts @ (gain - mean).square() / (counts.sum() - 1) / counts.sum()).sqrt()
    return large if mean > _SURE * error else small


def _folds(n_rows: int, n_features: int, random: torch.Generator) -> Tensor:
    """Which rows each fit uses, `F x rows`: all of them, then all but one fold in turn."""
    folds = torch.randperm(n_rows, generator=random) % _FOLDS
    held_out = range(_FOLDS) if n_rows * n_features <= _FEW_VALUES else range(1)
    return torch.stack([folds >= 0, *(folds != fold for fold in held_out)])


def _affordable(n_rows: float, n_features: int, n_components: int, full: bool) -> bool:
    """Whether there are enough rows for the numbers of such a mixture."""
    shape = n_features * (n_features + 1) // 2 if full else n_features
    return n_components * (1 + n_features + shape) * _ROWS_A_PARAMETER <= n_rows
