"""The scale and the degrees of freedom of Student's t that maximise the bound, for networks in their present state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from eiv.engine import memory
from eiv.engine.pooling import row_mean
from eiv.engine.quadrature import Quadrature
from eiv.engine.stable import log_mean_exp
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods.noise import OFF_ZERO, Squares, squares_of, unless_unseen_disagree
from eiv.likelihoods.tails import MIXTURE_NODES, Bends, bends

if TYPE_CHECKING:
    from eiv.posteriors import WeightPosterior

# A t has no variance for nu up to 2, and just above 2 the variance says nothing about most labels. At 2.5 the
# standard deviation is 2.2 scales. From 50 on it is hardly different from a normal one: its 95 % interval is 0.4 %
# wider.
LEAST_NU, MOST_NU = 2.5, 50.0
_SHAPE, _RATE = 2.0, 0.1  # of the Gamma prior of nu, mean 20: Juarez and Steel, J. Bus. Econ. Stat. 28 (2010) 52
_STEPS = 30
_STRIDE = 0.7  # the most that log s and log nu move in one step, as for sigma_y
_CLOSE = 1e-3  # a step of the logarithms that is not worth another one
_LEAST_BEND = 1e-4  # of the bound, below which a step would be longer than it is believed
_SYMMETRIC, _FIRST, _SECOND = [0, 1, 1, 2], [0, 0, 1], [0, 1, 1]  # places in a matrix of two


class TailFit(NamedTuple):
    """What maximises the bound: s and nu, and the standard error of log s, `S x n_y` each."""

    scale: Tensor
    nu: Tensor
    error: Tensor


def renewed_tail(
    scale: Tensor,
    nu: Tensor,
    posterior: WeightPosterior,
    learned: Rows,
    judged: Rows,
    draws: ZetaDraws | None,
    streams: Streams,
    with_nu: bool = True,
) -> TailFit:
    """The s and nu of the training rows; s is moved towards that of the held-out rows where the two disagree.

    A few held-out rows do not show nu, so that their s is found for the nu of the training rows. It moves as sigma_y
    does: half the way where the two differ by two standard errors, and further where they differ by more. Unless
    `with_nu`, nu stays as it is.
    """
    draws = draws or ZetaDraws.of("monte_carlo", 1, learned.inputs)  # one zeta per row for exact inputs
    found = fit_tail(squares_of(posterior, learned, draws, streams), scale, nu, with_nu)
    if judged is learned:
        return found
    unseen = fit_tail(squares_of(posterior, judged, draws, streams), found.scale, found.nu, with_nu=False)
    return found._replace(scale=unless_unseen_disagree(found.scale, unseen.scale, unseen.error))


@torch.no_grad()
def fit_tail(rows: Squares, scale: Tensor, nu: Tensor, with_nu: bool = True) -> TailFit:
    r"""The s and nu that maximise the bound with their priors, beginning with those given, `S x n_y` each.

    .. math:: \frac1N \sum_i \log \sum_l w_l \prod_j p(r_{ilj} | s_j, \nu_j)
              + \frac1N \sum_j \big( \log \mathrm{Gamma}(\nu_j | 2, 0.1) + \log s_j \big)

    These are Newton steps of (log s, log nu) of each output. What couples the outputs is left out, as for sigma_y.
    Where the bound bends upwards, its bend is taken downwards, so that a step climbs. A step that lowers the bound is
    shortened.

    Args:
        rows: squared residuals.
        scale: s.
        nu: the degrees of freedom.
        with_nu: whether nu is found; it stays as it is otherwise.

    Examples:
        >>> import numpy as np
        >>> from scipy import stats
        >>> t = torch.tensor(stats.t.ppf((np.arange(4000) + 0.5) / 4000, 4.0)).float().view(1, -1, 1, 1)
        >>> rows = Squares(t.square(), None, None, 4000, torch.full((1, 1), -9.0))
        >>> found = fit_tail(rows, torch.ones(1, 1), torch.full((1, 1), 10.0))
        >>> bool(0.9 < found.scale < 1.1), bool(3 < found.nu < 5.5)
        (True, True)

    """
    at = torch.stack([scale.log(), nu.log()], dim=-1)  # S x n_y x 2
    limits = torch.tensor([LEAST_NU, MOST_NU], dtype=at.dtype, device=at.device).log()
    low = torch.stack([rows.lowest, limits[0].expand_as(nu)], dim=-1)
    high = torch.stack([torch.full_like(scale, torch.inf), limits[1].expand_as(nu)], dim=-1)
    fixed = torch.tensor([False, not with_nu], device=at.device).expand_as(at)
    here, rate = _Look.of(rows, at), at.new_ones(len(at), 1, 1)
    for _ in range(_STEPS):
        step = rate * here.step(fixed | (at <= low) & (here.slope < 0) | (at >= high) & (here.slope > 0))
        trial = torch.where(fixed, at, torch.minimum(torch.maximum(at + step, low), high))
        there = _Look.of(rows, trial)
        better = (there.value >= here.value)[:, None, None]
        at, rate = torch.where(better, trial, at), torch.where(better, (2 * rate).clamp_max(1), rate / 4)
        here = here.where(better, there)
        if step.abs().max() < _CLOSE:
            break
    found = at.exp()
    return TailFit(found[..., 0], nu if not with_nu else found[..., 1], here.error(fixed, rows.size))


@dataclass(frozen=True)
class _Look:
    """The bound at some s and nu, `S`, its slope, `S x n_y x 2`, and minus its bend, `S x n_y x 2 x 2`."""

    value: Tensor
    slope: Tensor
    bend: Tensor

    @classmethod
    def of(cls, rows: Squares, at: Tensor) -> _Look:
        squares, errors, quadrature, size, _, counts = rows
        scale, nu = (each[:, None, None] for each in at.exp().unbind(-1))
        n_values = squares[0, 0].numel() * (1 if errors is None else MIXTURE_NODES)
        at_once, found = max(1, memory.TRAINING_PASS // n_values), []
        for start in range(0, squares.shape[1], at_once):
            part = slice(start, start + at_once)
            known = None if errors is None else errors[:, part].unsqueeze(2)
            found.append(_of_rows(bends(squares[:, part], scale, nu, known), quadrature))
        value, slope, bend = (row_mean(torch.cat(each, dim=1), counts) for each in zip(*found, strict=True))
        nu, nothing = nu.flatten(1), torch.zeros_like(at[..., 0])
        of_prior = ((_SHAPE - 1) * nu.log() - _RATE * nu + OFF_ZERO * at[..., 0]) / size
        value = value + of_prior.sum(1)
        slope = slope + torch.stack([nothing + OFF_ZERO / size, (_SHAPE - 1 - _RATE * nu) / size], dim=-1)
        bend = bend - torch.stack([nothing, nothing, _RATE * nu / size], dim=-1)
        return cls(value, slope, -bend[..., _SYMMETRIC].unflatten(-1, (2, 2)))

    def where(self, better: Tensor, other: _Look) -> _Look:
        """The other look for networks where that is `better`, `S x 1 x 1`."""
        return _Look(
            torch.where(better[:, 0, 0], other.value, self.value),
            torch.where(better, other.slope, self.slope),
            torch.where(better.unsqueeze(3), other.bend, self.bend),
        )

    def step(self, held: Tensor) -> Tensor:
        """The step of the parameters that are not held."""
        values, vectors = self._downwards(held)
        along = (vectors.mT @ torch.where(held, 0.0, self.slope).unsqueeze(-1)).squeeze(-1) / values
        step: Tensor = (vectors @ along.unsqueeze(-1)).squeeze(-1)
        return step * (_STRIDE / step.abs().amax(-1, keepdim=True).clamp_min(_STRIDE))  # which keeps its direction

    def error(self, held: Tensor, size: int | Tensor) -> Tensor:
        """The standard error of log s, given what is held."""
        values, vectors = self._downwards(held)
        return (vectors[..., 0, :].square() / values).sum(-1).div(size).sqrt()

    def _downwards(self, held: Tensor) -> tuple[Tensor, Tensor]:
        """Eigenvalues, made positive, and eigenvectors of minus the bend; what is held does not mix with the rest."""
        free = (~held).to(self.bend.dtype)
        apart = self.bend * free.unsqueeze(-1) * free.unsqueeze(-2) + torch.diag_embed(1 - free)
        values, vectors = torch.linalg.eigh(apart)
        return values.abs().clamp_min(_LEAST_BEND), vectors


def _of_rows(found: Bends, quadrature: Quadrature | None) -> tuple[Tensor, Tensor, Tensor]:
    """The bound of each row, its slopes and its bends, with the sum over zetas: `S x rows (x n_y x 2 or 3)`."""
    terms = found.log_density.sum(-1)
    terms = terms if quadrature is None else terms + quadrature.log_weights
    weights = terms.softmax(-1)[..., None, None]
    slope = (weights * found.slopes).sum(2)
    off = found.slopes - slope.unsqueeze(2)
    products = off[..., _FIRST] * off[..., _SECOND]
    return log_mean_exp(terms, dim=-1), slope, (weights * (found.bends + products)).sum(2)
