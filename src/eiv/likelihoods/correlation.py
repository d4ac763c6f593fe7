"""How the noise of several outputs goes together: its correlations, for networks that are fitted."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine.pooling import pooled, row_mean
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods.base import Likelihood
from eiv.likelihoods.noise import outputs_of

if TYPE_CHECKING:
    from eiv.posteriors import WeightPosterior

_STEPS, _CLOSE = 500, 1e-6  # of expectation maximisation, and the change of a correlation that is not worth another
_WIDEST = 0.999  # the largest correlation, so that the covariance has an inverse
_NODES = 32  # zetas per row, where training has drawn none


class Scores(NamedTuple):
    """Labels as standard normal numbers about f, for the zetas of each row.

    Attributes:
        z: the normal scores of y - f, `S x rows x L x n_y`.
        part: the root of the share that the noise has in the variance of z, the rest being the known error; in a shape
            that multiplies z, or None where there are no known errors.

    """

    z: Tensor
    part: Tensor | None = None


class JointNoise(Likelihood):
    r"""A likelihood whose outputs are independent given f in training, and whose correlations are found afterwards.

    .. math:: \mathrm{noise}_j = F_j^{-1}\big(\Phi(n_j)\big), \qquad n \sim \mathcal{N}(0, R)

    Each output has the distribution F of its own likelihood, and R says how the outputs of a row go together (a
    Gaussian copula; for normal noise R are its correlations). Without correlations, R = 1, it is the likelihood of
    training.

    Args:
        correlation: R, `S x n_y x n_y`; None for independent outputs.

    Attributes:
        later_state: files of earlier versions hold no correlations.

    Examples:
        >>> from eiv.likelihoods import NormalLikelihood
        >>> NormalLikelihood(torch.ones(1, 2)).correlation
        tensor([[[1., 0.],
                 [0., 1.]]])

    """

    later_state: tuple[str, ...] = ("correlation",)

    def __init__(self, correlation: Tensor | None) -> None:
        sigma = self.sigma
        independent = torch.eye(sigma.shape[1], dtype=sigma.dtype, device=sigma.device).repeat(len(sigma), 1, 1)
        self.correlation = independent if correlation is None else correlation

    @property
    @abstractmethod
    def sigma(self) -> Tensor:
        """The standard deviation of the noise of each network and output: `S x n_y`."""

    @abstractmethod
    def scores(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Scores:
        """Labels as standard normal numbers about f."""

    @property
    def joint_state(self) -> dict[str, Tensor]:
        """The correlations of several outputs; nothing for one."""
        return {} if self.correlation.shape[1] == 1 else {"correlation": self.correlation}

    def fault(self) -> str:
        """Correlations that no noise has."""
        is_possible = (torch.linalg.cholesky_ex(self.correlation.double())[1] == 0).all()
        is_one = (self.correlation.diagonal(dim1=1, dim2=2) == 1).all()
        is_same = (self.correlation == self.correlation.mT).all()
        return "" if bool(is_possible & is_one & is_same) else "the correlations of its noise must be possible ones"

    def std(self, pool: Tensor | None = None) -> NDArray[np.float64]:
        """The root mean square of `sigma` over the networks, weighted by their shares: `n_y`."""
        found: NDArray[np.float64] = pooled(self.sigma.double().square(), pool).sqrt().cpu().numpy()
        return found

    def pooled_correlation(self, pool: Tensor | None = None) -> NDArray[np.float64] | None:
        """R of the covariance that the networks have on average, weighted by their shares; None for one output."""
        if self.correlation.shape[1] == 1:
            return None
        own, all_networks = self.sigma.double(), self.std(pool)
        covariance = pooled(self.correlation.double() * own.unsqueeze(2) * own.unsqueeze(1), pool)
        found: NDArray[np.float64] = covariance.cpu().numpy() / np.outer(all_networks, all_networks)
        return found

    def finished(self, posterior: WeightPosterior, rows: Rows, draws: ZetaDraws | None, streams: Streams) -> Self:
        """The likelihood with the correlations of the noise of several outputs.

        `rows` are those that training learned from; 2,000 at most count, as for sigma_y.
        """
        if self.correlation.shape[1] == 1:
            return self
        if draws is None:
            kind, n_zeta = ("monte_carlo", 1) if rows.inputs.is_exact else ("sobol", _NODES)
            draws = ZetaDraws.of(kind, n_zeta, rows.inputs)
        seen = outputs_of(posterior, rows, draws, streams).double()
        exact = self.to(seen.f.device, torch.float64)
        terms = seen.weighted(exact.log_density(seen.f, seen.y, seen.y_err))
        found = fit_correlation(exact.scores(seen.f, seen.y, seen.y_err), terms, seen.counts)
        return self.with_state(self.state | {"correlation": found.to(self.correlation)})


@torch.no_grad()
def fit_correlation(scores: Scores, terms: Tensor, counts: Tensor | None = None) -> Tensor:
    r"""The correlations R that make labels most probable, the noise of each output being known.

    .. math::
        M = \frac1N \sum_i \Big( R - G_i A_i R + G_i \sum_l w_{il} z_{il} z_{il}^T \, G_i^T \Big), \qquad
        R_{jk} \leftarrow \frac{M_{jk}}{\sqrt{M_{jj} M_{kk}}}, \qquad
        \Sigma_i = A_i R A_i + 1 - A_i^2, \quad G_i = R A_i \Sigma_i^{-1}

    with normal scores z of the labels of a row at zeta_l. A is diagonal and holds the root of the share of the noise in
    the variance, on average over the zetas of a row, the rest being the known error, which is independent. The weights
    w of the zetas of a row are proportional to the density of y at each: that of independent outputs times
    :math:`\mathcal{N}(z | 0, \Sigma_i) / \mathcal{N}(z | 0, 1)`. What the unknown zeta does to all outputs at once is
    no noise and does not count. This is expectation maximisation.

    Args:
        scores: z and A.
        terms: the log density of y for independent outputs with the logarithm of the weight of zeta_l, `S x rows x L`.
        counts: how often each row counts, `S x rows`; None where all count the same.

    Returns:
        R, `S x n_y x n_y`.

    Examples:
        >>> z = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [2.0, 1.0], [0.0, 1.0]]).view(1, 4, 1, 2)
        >>> fit_correlation(Scores(z), torch.zeros(1, 4, 1))[0, 0, 1].item()  # 4 over the root of 6 times 4
        0.8164...

    """
    z, part = scores
    if part is not None:
        part = (terms.softmax(-1).unsqueeze(-1) * part.square()).sum(2).sqrt()  # S x rows x n_y
    base = terms + 0.5 * z.square().sum(-1)
    found = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device).expand(len(z), -1, -1)
    for _ in range(_STEPS):
        moved = _correlations(row_mean(_second_moments(z, part, base, found), counts))
        away, found = (moved - found).abs().max(), moved
        if away < _CLOSE:
            break
    return found


def _second_moments(z: Tensor, part: Tensor | None, base: Tensor, correlation: Tensor) -> Tensor:
    """The second moments of the noise in each row, `S x rows x n_y x n_y`."""
    of_rows = correlation.unsqueeze(1)
    if part is not None:
        known = part.unsqueeze(-1) * of_rows  # A R
        of_rows = known * part.unsqueeze(-2) + (1 - part.square()).diag_embed()
    root = torch.linalg.cholesky(of_rows)
    white = torch.linalg.solve_triangular(root, z.mT, upper=False)  # S x rows x n_y x L
    weights = (base - 0.5 * white.square().sum(2)).softmax(-1)
    found: Tensor = (weights.unsqueeze(-1) * z).mT @ z
    if part is not None:
        gain = torch.cholesky_solve(known, root).mT  # G
        found = correlation.unsqueeze(1) - gain @ known + gain @ found @ gain.mT
    return found


def _correlations(moments: Tensor) -> Tensor:
    stds = moments.diagonal(dim1=-2, dim2=-1).sqrt()
    found = (moments / (stds.unsqueeze(-1) * stds.unsqueeze(-2))).clamp(-_WIDEST, _WIDEST)
    found = (found + found.mT) / 2  # else rounding makes it less symmetric from step to step
    return found - torch.diag_embed(found.diagonal(dim1=-2, dim2=-1)) + torch.eye(found.shape[-1]).to(found)
