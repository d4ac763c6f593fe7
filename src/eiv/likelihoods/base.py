"""What every likelihood offers: the density of a label given f, and all that training and prediction need of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

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


class Likelihood(ABC):
    r"""The density of a measured output given the network's, for S networks at once.

    .. math:: p(y | f_\theta(\zeta), \text{state})

    What is fitted of it, such as sigma_y, is its `state`: tensors with the axis S first. `renew` changes them in place,
    since recorded steps read them. Shapes: f is `S x B x L x n_y`, y and its known errors are `S x B x n_y`.

    A likelihood of your own has to define the abstract methods. The others follow from them by eq. (mcloss), and may be
    defined for speed.

    Attributes:
        is_fixed: whether nothing of it is fitted.
        splits_error: whether `split` finds the state anew beside an epistemic part (see there).

    Examples:
        >>> from eiv.likelihoods import NormalLikelihood
        >>> likelihood = NormalLikelihood(torch.ones(1, 1))
        >>> likelihood.log_density(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1))
        tensor([[[-0.9189]]])

    """

    is_fixed: bool = True
    splits_error: bool = False

    @classmethod
    @abstractmethod
    def start(cls, y_noise: Tensor, rule: NoiseRule | None) -> Self:
        """The likelihood that training begins with.

        `y_noise`, `S x n_y`, is the noise to begin with, or the known one where `rule` is None; else `rule` is how the
        user wants it found.
        """

    @property
    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """What is fitted, by name: `S x shape` each."""

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
    def whitened(self, slopes: Tensor, y_err: Tensor | None = None) -> Tensor:
        r"""Slopes of f, `S x B x n_y x n_w`, times a root of the information that a label holds about f.

        .. math:: R^T J, \qquad R R^T = E_y \big[ \nabla_f \log p(y | f) \, \nabla_f \log p(y | f)^T \big]
        """

    @abstractmethod
    def std(self, pool: Tensor | None = None) -> NDArray[np.float64]:
        """The standard deviation of a label given f, pooled over the networks: `n_y`.

        `pool`, `S`, is the share of each of them; None where all are equal. See `eiv.engine.pooling.pooled`.
        """

    @abstractmethod
    def labels(
        self,
        y_scale: NDArray[np.float64],
        shape: tuple[int, ...],
        y_err: NDArray[np.float64] | None = None,
        pool: Tensor | None = None,
    ) -> Labels:
        """Labels of new rows, pooled over the networks, in units of y: of the `shape`, `rows x n_y`.

        `y_scale`, `n_y`, is the unit of the networks in units of y; `y_err`, `rows x n_y`, is in units of y; `pool` is
        that of `std`.
        """

    @abstractmethod
    def draw(self, f: Tensor, streams: Streams, y_err: Tensor | None = None) -> Tensor:
        """A label for each value of f."""

    def renew(
        self,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        draws: ZetaDraws | None,
        streams: Streams,
        is_last: bool,
    ) -> None:
        """Find the state anew, in place, for the networks as they are.

        `judged` are rows that training does not learn from, or `learned` itself; `draws` says how zetas are drawn, None
        for exact inputs. Asked unless `is_fixed`.
        """
        raise NotImplementedError(f"{type(self).__name__} is not fixed, but has no way to renew its state.")

    def split(
        self, posterior: WeightPosterior, learned: Rows, judged: Rows, draws: ZetaDraws | None, streams: Streams
    ) -> Self:
        """The state after training, beside an epistemic part that the known errors of `judged` already hold."""
        return self

    def terms(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """`log_density` up to `constant`: `S x B x L`."""
        return self.log_density(f, y, y_err)

    def constant(self, y_err: Tensor | None = None) -> Tensor | float:
        """What `terms` leaves out of the negative logarithm of the density, `S`, as a mean over rows."""
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
        r"""The data's part of eq. (mcloss), up to `constant`, and its gradient with respect to f, without autograd.

        .. math::
            \frac{\partial \mathcal{L}_s}{\partial f_{ml}} = - \frac{1}{M} w_{ml} \nabla \log p(y_m | f_{ml}), \qquad
            w_{ml} = \frac{p(y_m | f_{ml})}{\sum_{l'} p(y_m | f_{ml'})}

        Args:
            f: `S x B x L x n_y`; it may be overwritten.
            y: `S x B x n_y`.
            y_err: the same shape, or None.
            total: `S`; the negative bound of each network less `constant`, times `weight`, is added to it.
            weight: the share of this minibatch.
            quadrature: how the sum over zetas is formed, where it is not their mean; its weights multiply p in w.

        Returns:
            The gradient of the negative bound, `S x B x L x n_y`.

        """
        values = f if quadrature is None else quadrature.points(f)
        terms = self.terms(values, y, y_err)
        if quadrature is not None:
            terms = terms + quadrature.log_weights
        total.sub_(log_mean_exp(terms, dim=-1).sum(-1), alpha=weight / y.shape[1])
        gradient = self.score(values, y, y_err) * terms.softmax(-1).div_(-y.shape[1]).unsqueeze(-1)
        return gradient if quadrature is None else quadrature.to_zetas(gradient)

    def choose_zetas(
        self, f: Tensor, y: Tensor, y_err: Tensor | None, total: Tensor, weight: float, levels: Tensor
    ) -> Tensor:
        r"""Choose, of the zetas of a row, those that explain its y: draws from the posterior given x and y.

        .. math:: P(l) = w_l = \frac{p(y | \theta, \zeta_l)}{\sum_{l'} p(y | \theta, \zeta_{l'})}, \qquad
                  \nabla \log \frac1L \sum_l p(y | \theta, \zeta_l) = \sum_l w_l \nabla \log p(y | \theta, \zeta_l)

        The gradient of the bound is a mean over that distribution, so a few zetas drawn from it stand for all L.

        Args:
            f: `S x B x L x n_y`, the network's output for the candidates.
            y: `S x B x n_y`.
            y_err: the same shape, or None.
            total: `S`; the negative bound with all candidates, less `constant`, times `weight`, is added to it.
            weight: the share of this minibatch.
            levels: `S x B x n_kept`, uniform between 0 and 1; best evenly spaced with a common random shift.

        Returns:
            The positions of those chosen, `S x B x n_kept`.

        """
        terms = self.terms(f, y, y_err)
        total.sub_(log_mean_exp(terms, dim=-1).sum(-1), alpha=weight / y.shape[1])
        return torch.searchsorted(terms.softmax(-1).cumsum(-1), levels.contiguous()).clamp_max(f.shape[2] - 1)

    def chosen_gradient(self, f: Tensor, y: Tensor, y_err: Tensor | None) -> Tensor:
        r"""The gradient of the negative bound with respect to f at zetas that `choose_zetas` has chosen.

        .. math:: - \frac{1}{M L} \nabla \log p(y_m | f_{ml})

        Returns `S x B x L x n_y`; f may be overwritten.
        """
        return self.score(f, y, y_err).div_(-f.shape[1] * f.shape[2])

    def in_words(self, y_scale: float) -> str:
        """The state in a few words for a progress bar, `y_scale` being the unit of y."""
        return ""

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        """The same elsewhere, or in other numbers."""
        return self.with_state({name: value.to(device, dtype) for name, value in self.state.items()})

    def copy(self) -> Self:
        """The same with a state of its own."""
        return self.with_state({name: value.clone() for name, value in self.state.items()})

    def networks(self, chosen: slice) -> Self:
        """That of some of the networks."""
        return self.with_state({name: value[chosen] for name, value in self.state.items()})

    def join(self, others: Sequence[Self]) -> Self:
        """That of this one's networks and those of `others`, in order."""
        states = [each.state for each in (self, *others)]
        return self.with_state({name: torch.cat([state[name] for state in states]) for name in self.state})
