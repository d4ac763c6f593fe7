"""The base class of likelihoods: the density of a label given f, and the methods that training and prediction use."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine.quadrature import Quadrature
from eiv.engine.stable import log_mean_exp
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods.labels import Labels

if TYPE_CHECKING:
    from eiv.likelihoods.noise import NoiseRule
    from eiv.posteriors import WeightPosterior

__all__ = ["Likelihood"]


class OtherOutputs(NamedTuple):
    """What a prediction knows of the outputs of one network that are not f, in the units of the networks.

    Attributes:
        mean: `rows x n`.
        variance: over weights and true inputs, `rows x n`.
        draws: `n_draws x rows x n`, draw by draw with those of f; None where they are not kept, or networks are pooled.

    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    draws: NDArray[np.float64] | None


class Likelihood(ABC):
    r"""The density of a measured output given the output f of a network, for S networks at once.

    .. math:: p(y | f_\theta(\zeta), \text{state})

    Its fitted quantities, such as sigma_y, are its `state`: tensors with the axis S first. `renew` changes them in
    place, because recorded training steps read them. Shapes: f is `S x B x L x n_y`, y and its known errors are
    `S x B x n_y`. A network may have more outputs than y has columns (`width`), such as one that says how labels
    scatter; `f` then stands for all of them, except where a prediction takes f itself (`f_outputs`).

    A likelihood of your own has to define the abstract methods. The other methods follow from them by eq. (mcloss), and
    may be overridden for speed. It is passed as a class, or, where it has parameters of its own, as an object that is
    made from these alone, `EiVRegressor(likelihood=Own(dof=4))`; `start` is then an ordinary method.

    Attributes:
        is_fixed: whether nothing of it is fitted.
        has_tails: whether labels may lie far off, so that y is scaled by its interquartile range.
        splits_error: whether `split` finds the state again after training, given the epistemic uncertainty.
        has_units: whether labels are measured in a unit, so that training may standardise them; classes are not.
        fewest_held_out: held-out rows below which noise is normal instead, since they could not show any other.
        later_state: names of the state that files of earlier versions do not hold; these have it as in `start`.

    Examples:
        >>> from eiv.likelihoods import NormalLikelihood
        >>> likelihood = NormalLikelihood(torch.ones(1, 1))
        >>> likelihood.log_density(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1))
        tensor([[[-0.9189]]])

    """

    is_fixed: bool = True
    splits_error: bool = False
    has_tails: bool = False
    has_units: bool = True
    fewest_held_out: int = 0
    later_state: tuple[str, ...] = ()

    @classmethod
    @abstractmethod
    def start(cls, y_noise: Tensor, rule: NoiseRule | None) -> Self:
        """The likelihood that training begins with.

        `y_noise`, `S x n_y`, is the initial noise, and `rule` is the way to find it in training. Where `rule` is None,
        `y_noise` is known.
        """

    @classmethod
    def width(cls, n_y: int) -> int:
        """How many outputs the network has for `n_y` columns of labels."""
        return n_y

    @classmethod
    def f_outputs(cls, n_y: int) -> slice:
        """Which outputs of the network are f itself; the first `n_y`, which are all where `width` says no more."""
        return slice(n_y)

    @property
    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """The fitted quantities by their names, each `S x shape`."""

    @abstractmethod
    def with_state(self, state: dict[str, Tensor]) -> Self:
        """The same likelihood with another state."""

    @abstractmethod
    def log_density(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The logarithm of the density of y, summed over the outputs: `S x B x L`."""

    @abstractmethod
    def score(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The slope of `log_density` with respect to f, `S x B x L x n_y`."""

    @abstractmethod
    def whitened(self, slopes: Tensor, f: Tensor, y_err: Tensor | None = None) -> Tensor:
        r"""Slopes J of f, `S x B x n_y x n_w`, times a root R of the Fisher information of a label about f.

        .. math:: R^T J, \qquad R R^T = E_y \big[ \nabla_f \log p(y | f) \, \nabla_f \log p(y | f)^T \big]

        `f`, `S x B x n_y`, is where the slopes are taken. The result has the dtype of the slopes.
        """

    @abstractmethod
    def std(self, pool: Tensor | None = None) -> NDArray[np.float64]:
        """The standard deviation of a label given f, pooled over the networks: `n_y`.

        `pool`, `S`, is the share of each network; None where all are equal. See `eiv.engine.pooling.pooled`.
        """

    @abstractmethod
    def labels(
        self,
        y_scale: NDArray[np.float64],
        shape: tuple[int, ...],
        y_err: NDArray[np.float64] | None = None,
        pool: Tensor | None = None,
    ) -> Labels:
        """The distribution of labels of new rows about f, pooled over the networks, in units of y.

        `shape` is `rows x n_y`. `y_scale`, `n_y`, is the unit of the networks' outputs in units of y. The known errors
        `y_err`, `rows x n_y`, are in units of y. `pool` is as for `std`.
        """

    @abstractmethod
    def draw(self, f: Tensor, streams: Streams, y_err: Tensor | None = None) -> Tensor:
        """Draw a label for each f, `S x B x L x n_y`."""

    def renew(
        self,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        draws: ZetaDraws | None,
        streams: Streams,
        is_last: bool,
    ) -> None:
        """Find the state again, in place, for the networks as they are now.

        `learned` are the rows that training learns from. `judged` are held-out rows, or `learned` if there are none.
        `draws` is the way to draw zetas, None for exact inputs. Training calls this unless `is_fixed`; `is_last` is
        True at its end.
        """
        raise NotImplementedError(f"{type(self).__name__} is not fixed, but has no way to renew its state.")

    def split(
        self,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        epistemic: Tensor,
        draws: ZetaDraws | None,
        streams: Streams,
    ) -> Self:
        """The likelihood found again after training, with the error of `judged` split between noise and weights.

        `epistemic`, `S x N x n_y`, is the standard deviation of f over theta in the rows of `judged`. The other
        arguments are those of `renew`. Training calls this where `splits_error` is True.
        """
        raise NotImplementedError(f"{type(self).__name__} splits the error of held-out rows, but has no way to do so.")

    def finished(self, posterior: WeightPosterior, rows: Rows, draws: ZetaDraws | None, streams: Streams) -> Self:
        """The likelihood with what is found once, when the posterior is fitted, from the rows that it learned from.

        `draws` is the way to draw zetas; None where training has drawn none.
        """
        return self

    def observe(self, done: float) -> None:
        """Take note that a share `done` of the training lies behind; called after every epoch."""
        return

    def labels_at(
        self,
        others: Sequence[OtherOutputs],
        y_scale: NDArray[np.float64],
        shape: tuple[int, ...],
        y_err: NDArray[np.float64] | None = None,
        pool: Tensor | None = None,
    ) -> Labels:
        """As `labels`, for networks with more outputs than f, which may say how labels scatter.

        `others` has these outputs, for one network after another.
        """
        return self.labels(y_scale, shape, y_err, pool)

    def log_mean_density(self, f: Tensor, change: Tensor, y: Tensor, y_err: Tensor) -> Tensor:
        r"""The logarithm of the mean density of y where f is uniform about its value: `S x B`.

        .. math:: \int_{-1/2}^{1/2} p(y | f + s \Delta)\, ds \approx \min \Big(p\big(y | f,\ y_{err}^2 +
                  \tfrac{1}{12} \Delta^2\big),\ \max_s p(y | f + s \Delta)\Big)

        By default the standard deviation of f counts as a known error of y, and no mean is above the greatest value.

        Args:
            f: `S x B x n_y`.
            change: Delta, the same shape.
            y: `S x B x n_y`.
            y_err: known errors of the same shape.

        """
        own = self.f_outputs(y.shape[-1])
        half, nearest = 0.5 * change[..., own].abs(), f.clone()
        nearest[..., own] = y.clamp(f[..., own] - half, f[..., own] + half)
        smoothed = self.log_density(f.unsqueeze(2), y, torch.hypot(y_err, half / math.sqrt(3)))
        return torch.minimum(smoothed, self.log_density(nearest.unsqueeze(2), y, y_err)).squeeze(2)

    def terms(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """`log_density` up to `constant`: `S x B x L`."""
        return self.log_density(f, y, y_err)

    def terms_and_score(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Both, for likelihoods that find them together."""
        return self.terms(f, y, y_err), self.score(f, y, y_err)

    def constant(self, y_err: Tensor | None = None) -> Tensor | float:
        """The terms of the negative log density that `terms` leaves out, `S`, as a mean over rows."""
        return 0.0

    def add_loss_gradient(
        self,
        f: Tensor,
        y: Tensor,
        y_err: Tensor | None,
        total: Tensor,
        weight: float,
        quadrature: Quadrature | None = None,
    ) -> Tensor:
        r"""The term of the data in eq. (mcloss), up to `constant`, and its gradient for f, without autograd.

        .. math::
            \frac{\partial \mathcal{L}_s}{\partial f_{ml}} = - \frac{1}{M} w_{ml} \nabla \log p(y_m | f_{ml}), \qquad
            w_{ml} = \frac{p(y_m | f_{ml})}{\sum_{l'} p(y_m | f_{ml'})}

        Args:
            f: `S x B x L x n_y`; it may be overwritten.
            y: `S x B x n_y`.
            y_err: known errors of the same shape, or None.
            total: `S`; the negative bound of each network without `constant`, times `weight`, is added to it.
            weight: the share of this minibatch in an epoch.
            quadrature: the rule for the sum over zetas; None for their mean. Its weights multiply p in w.

        Returns:
            The gradient of the negative bound, `S x B x L x n_y`.

        """
        values = f if quadrature is None else quadrature.points(f)
        terms, score = self.terms_and_score(values, y, y_err)
        if quadrature is not None:
            terms = terms + quadrature.log_weights
        total.sub_(log_mean_exp(terms, dim=-1).sum(-1), alpha=weight / y.shape[1])
        gradient = score * terms.softmax(-1).div_(-y.shape[1]).unsqueeze(-1)
        return gradient if quadrature is None else quadrature.to_zetas(gradient)

    def choose_zetas(
        self, f: Tensor, y: Tensor, y_err: Tensor | None, total: Tensor, weight: float, levels: Tensor
    ) -> Tensor:
        r"""Choose zetas of a row that explain its y: draws from the posterior of zeta given x and y.

        .. math:: P(l) = w_l = \frac{p(y | \theta, \zeta_l)}{\sum_{l'} p(y | \theta, \zeta_{l'})}, \qquad
                  \nabla \log \frac1L \sum_l p(y | \theta, \zeta_l) = \sum_l w_l \nabla \log p(y | \theta, \zeta_l)

        The gradient of the bound is a mean over that distribution, so a few zetas drawn from it stand for all L.

        Args:
            f: `S x B x L x n_y`, the output of the network for L candidates.
            y: `S x B x n_y`.
            y_err: known errors of the same shape, or None.
            total: `S`; the negative bound with all candidates, without `constant`, times `weight`, is added to it.
            weight: the share of this minibatch in an epoch.
            levels: `S x B x n_kept`, uniform between 0 and 1; best evenly spaced with a common random shift.

        Returns:
            The indices of the chosen zetas among the candidates, `S x B x n_kept`.

        """
        terms = self.terms(f, y, y_err)
        total.sub_(log_mean_exp(terms, dim=-1).sum(-1), alpha=weight / y.shape[1])
        return torch.searchsorted(terms.softmax(-1).cumsum(-1), levels.contiguous()).clamp_max(f.shape[2] - 1)

    def chosen_gradient(self, f: Tensor, y: Tensor, y_err: Tensor | None) -> Tensor:
        r"""The gradient of the negative bound with respect to f at the zetas from `choose_zetas`.

        .. math:: - \frac{1}{M L} \nabla \log p(y_m | f_{ml})

        Returns `S x B x L x n_y`; f may be overwritten.
        """
        return self.score(f, y, y_err).div_(-f.shape[1] * f.shape[2])

    def in_words(self, y_scale: float) -> str:
        """The state in a few words for a progress bar; `y_scale` is the unit of the networks in units of y."""
        return ""

    def describe(self, y_scale: NDArray[np.float64], pool: Tensor | None = None) -> str:
        """How labels scatter about f, in words for a user; empty where the noise says all there is to say.

        `y_scale` and `pool` are as for `labels`.
        """
        return ""

    def objection(self, pool: Tensor | None = None) -> str:
        """Why held-out labels do not ask for another than normal noise, in words; empty where they do.

        The model is then fitted again with normal noise. `pool` is as for `std`.
        """
        return ""

    def fault(self) -> str:
        """Why the state, as read from a file, cannot come from a fit; empty where it can."""
        return ""

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        """The same likelihood on another device or in another dtype."""
        return self.with_state({name: value.to(device, dtype) for name, value in self.state.items()})

    def copy(self) -> Self:
        """A copy, whose state can be changed independently."""
        return self.with_state({name: value.clone() for name, value in self.state.items()})

    def networks(self, chosen: slice) -> Self:
        """The likelihood of some of the networks."""
        return self.with_state({name: value[chosen] for name, value in self.state.items()})

    def join(self, others: Sequence[Self]) -> Self:
        """The likelihood of these networks and those of `others`, in order."""
        states = [each.state for each in (self, *others)]
        return self.with_state({name: torch.cat([state[name] for state in states]) for name in self.state})
