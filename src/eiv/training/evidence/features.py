"""Cosine features of an input that is not known: their means in closed form, their scatter at nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eiv.engine import memory
from eiv.inputs import ZetaPosterior
from eiv.inputs.nodes import nodes_of_rule
from eiv.inputs.zeta import ZetaMixture, ZetaNormal

SMOOTH, ROUGH = (5.0, 3.0), (1.0, 1.0)  # degrees of freedom of frequencies, of all features and along a line
_LINES = 8  # one frequency in this many belongs to each direction
_FEWEST_NODES = 16
_BIAS = 3.0  # prior standard deviation of the constant, in standard deviations of y
_OWN_DRAWS = 64  # that stand for a posterior of the user's own


class Inputs:
    """Zeta given x for some rows: a mixture of normal distributions for means, nodes with weights for variances."""

    def __init__(self, zeta: ZetaPosterior) -> None:
        self.zeta = zeta.as_mixture() if isinstance(zeta, ZetaNormal | ZetaMixture) else _of_points(zeta)
        self.is_exact = zeta.is_exact

    @cached_property
    def weights(self) -> Tensor:
        """Of the components, `rows x C`."""
        return self.zeta.log_weights.exp()

    @cached_property
    def noisy(self) -> list[int]:
        """The features with an error."""
        return list(self.zeta.noisy)

    @cached_property
    def covariances(self) -> Tensor:
        """Of the noisy features in each component: variances, `rows x C x m`, or `rows x C x m x m`; rows may be 1."""
        scales = self.zeta.scales
        if scales.ndim == self.zeta.means.ndim:
            return scales[..., self.noisy].square()
        roots = scales[..., self.noisy, :]
        return roots @ roots.mT

    @cached_property
    def variances(self) -> Tensor:
        """Of each noisy feature given x, `rows x m`."""
        return self.zeta.std[:, self.noisy].square()

    @cached_property
    def centres(self) -> Tensor:
        """E zeta, `rows x n_x`."""
        return torch.einsum("rk,rki->ri", self.weights, self.zeta.means)

    @cached_property
    def squares(self) -> Tensor:
        """E |zeta|^2, `rows`."""
        variances = self.covariances
        if variances.ndim > self.zeta.means.ndim:
            variances = variances.diagonal(dim1=-2, dim2=-1)
        of_components = self.zeta.means.square().sum(-1) + variances.sum(-1)
        return (self.weights * of_components).sum(-1)

    def __len__(self) -> int:
        return len(self.zeta.mean)

    def take(self, rows: Tensor) -> Inputs:
        """Some of the rows."""
        return Inputs(self.zeta.map_tensors(lambda values: values if len(values) == 1 else values[rows]))

    @property
    def n_nodes(self) -> int:
        """Q, nodes for the variance of f given x, more than the numbers behind a zeta, so that these can be matched."""
        return 1 if self.is_exact else max(_FEWEST_NODES, 2 * len(self._used) + 4)

    @property
    def _used(self) -> list[int]:
        """Which of the numbers behind a zeta matter: those of noisy features, and what chooses a component."""
        return self.noisy + list(range(self.zeta.mean.shape[-1], self.zeta.n_base))

    @cached_property
    def nodes(self) -> tuple[Tensor, Tensor]:
        """Zetas, whose noise has a mean of zero and a covariance of one, and weights: `rows x Q x n_x`, `rows x Q`."""
        matched = nodes_of_rule(self.n_nodes, len(self._used)).to(self.zeta.mean)
        matched = matched - matched.mean(0)
        root = torch.linalg.cholesky(matched.T @ matched / self.n_nodes)
        noise = matched.new_zeros(self.n_nodes, self.zeta.n_base)
        noise[:, self._used] = torch.linalg.solve_triangular(root, matched.T, upper=False).T
        zeta, weights = self.zeta.at_nodes(noise.expand(len(self), -1, -1))
        return zeta, weights.expand(zeta.shape[:-1])

    def blocks(self, n_features: int) -> Iterator[tuple[Tensor, Inputs]]:
        """The rows, as many at once as have their features at all nodes and components in a fixed memory."""
        for rows in torch.arange(len(self), device=self.zeta.mean.device).split(self._block(n_features)):
            yield rows, self.take(rows)

    def fits(self, n_features: int) -> bool:
        """Whether there is one block."""
        return len(self) <= self._block(n_features)

    def _block(self, n_features: int) -> int:
        most = memory.FEATURES[self.zeta.mean.device.type]
        return max(1, most // (n_features * max(self.n_nodes, self.zeta.means.shape[-2])))


def _of_points(zeta: ZetaPosterior) -> ZetaMixture:
    """Draws of each row as a mixture of points."""
    noise = nodes_of_rule(_OWN_DRAWS, zeta.n_base).to(zeta.mean).expand(len(zeta.mean), -1, -1)
    points = zeta.draw(noise)
    return ZetaMixture.of(points.new_zeros(points.shape[:2]), points, torch.zeros_like(points))


Draws = tuple[Tensor, Tensor]
"""Frequencies in units of one over the length scale: `D_0 x n_x` of all features, `D_r` along a line."""


class Values(NamedTuple):
    r"""What the evidence decides.

    .. math:: \ell, \quad a_r, \quad \log s_0, \quad \log s_r, \quad \log s_{\mathrm{linear}}, \quad \log \sigma_y

    Attributes:
        log_lengths: `n_x`, of the length scale along each feature.
        directions: `R x n_x`, inverse length scales of functions of one direction each.
        log_size: of the function of all features.
        log_sizes: `R`, of those of one direction.
        log_slope: of the linear part.
        log_noise: `n_y`, of sigma_y.

    """

    log_lengths: Tensor
    directions: Tensor
    log_size: Tensor
    log_sizes: Tensor
    log_slope: Tensor
    log_noise: Tensor


@dataclass(frozen=True)
class Family:
    r"""The Gaussian processes among which the evidence chooses, and their features.

    .. math::
        k(\zeta, \zeta') = s_0^2\, k_{5/2}\big((\zeta - \zeta') / \ell\big)
        + \sum_{r=1}^R s_r^2\, k_{3/2}\big(a_r^T (\zeta - \zeta')\big) + s_{\mathrm{linear}}^2\, \zeta^T \zeta' + 9

    The first is smooth in all features at once, each with a length scale of its own; a long one lets a feature fade. In
    many dimensions that needs many rows. Functions of one direction each need few, and directions are what a network
    would find.

    Attributes:
        n_inputs: n_x.
        n_outputs: n_y.
        n_directions: R.
        n_frequencies: D.
        seed: of the frequencies.
        tails: twice the nu of the Matern kernels, of all features and along a line: `SMOOTH` as above, or `ROUGH`, with
            nu = 1/2, whose functions are nowhere smooth.

    """

    n_inputs: int
    n_outputs: int
    n_directions: int
    n_frequencies: int
    seed: int
    tails: tuple[float, float] = SMOOTH

    @property
    def n_values(self) -> int:
        """How many numbers the evidence decides."""
        return self.n_inputs + self.n_directions * (self.n_inputs + 1) + 2 + self.n_outputs

    @property
    def n_features(self) -> int:
        """With the inputs themselves and the constant."""
        return 2 * self.n_frequencies + self.n_inputs + 1

    def values(self, flat: Tensor) -> Values:
        """The numbers by name."""
        n_x, n_r = self.n_inputs, self.n_directions
        lengths, directions, size, sizes, slope, noise = flat.split([n_x, n_r * n_x, 1, n_r, 1, self.n_outputs])
        return Values(lengths, directions.view(n_r, n_x), size, sizes, slope, noise)

    def draws(self, like: Tensor) -> Draws:
        """The frequencies, a Sobol sequence."""
        from scipy import stats  # noqa: PLC0415  (slow to import)

        on_line = self.n_frequencies // _LINES if self.n_directions else 0
        n = self.n_frequencies - self.n_directions * on_line
        sequence = torch.quasirandom.SobolEngine(self.n_inputs + 1, scramble=True, seed=self.seed)
        levels = sequence.draw(n, dtype=torch.float64).clamp(1e-9, 1 - 1e-9).numpy()
        of_all, of_lines = self.tails
        stretch = np.sqrt(of_all / stats.chi2.ppf(levels[:, :1], of_all))
        middles = (np.arange(on_line) + 0.5) / max(1, on_line)
        lines = stats.t.ppf(0.5 + middles / 2, of_lines)  # a cosine does not know the sign
        return torch.as_tensor(stretch * stats.norm.ppf(levels[:, 1:])).to(like), torch.as_tensor(lines).to(like)

    def frequencies(self, values: Values, draws: Draws) -> Tensor:
        """Omega, `D x n_x`."""
        everywhere, along = draws
        lines = along[None, :, None] * values.directions[:, None, :]
        return torch.cat([everywhere * (-values.log_lengths).exp(), lines.flatten(0, 1)])

    def scales(self, values: Values, draws: Draws) -> Tensor:
        """Prior standard deviations of the weights of cosines, sines, inputs and the constant: `n_features`."""
        everywhere, along = draws
        sizes = (values.log_sizes.exp() / math.sqrt(max(1, len(along)))).repeat_interleave(len(along))
        of_waves = torch.cat([(values.log_size.exp() / math.sqrt(len(everywhere))).expand(len(everywhere)), sizes])
        slopes = values.log_slope.exp().expand(self.n_inputs)
        return torch.cat([of_waves, of_waves, slopes, slopes.new_full((1,), _BIAS)])

    def means(self, inputs: Inputs, values: Values, draws: Draws) -> Tensor:
        r"""E of the features given x, in units of their prior: `rows x n_features`.

        .. math:: \mathrm{E} \cos \omega^T \zeta = \sum_k q_k\, e^{-\omega^T B_k \omega / 2} \cos \omega^T b_k
        """
        omega, centres, covariances = self.frequencies(values, draws), inputs.zeta.means, inputs.covariances
        of_noisy = omega[:, inputs.noisy]
        if covariances.ndim == centres.ndim:  # variances
            powers = covariances @ of_noisy.square().T
        else:
            powers = covariances.flatten(-2) @ (of_noisy.unsqueeze(2) * of_noisy.unsqueeze(1)).flatten(1).T
        waves = _Waves.apply(centres @ omega.T, powers, inputs.weights)  # type: ignore[no-untyped-call]
        return torch.cat([*waves, inputs.centres, torch.ones_like(waves[0][:, :1])], 1) * self.scales(values, draws)

    def traces(self, means: Tensor, inputs: Inputs, values: Values, draws: Draws) -> Tensor:
        r"""Tr Sigma, the variance of f given x before any label is seen: `rows`.

        .. math:: \mathrm{tr}\, \Sigma = \mathrm{E}\big[|\phi(\zeta)|^2 \,\big|\, x\big] - |\mu|^2
        """
        waves = self.scales(values, draws)[: self.n_frequencies].square().sum()
        linear = values.log_slope.exp().square() * inputs.squares
        found: Tensor = waves + linear + _BIAS**2 - means.square().sum(1)
        return found

    @torch.no_grad()
    def differences(self, nodes: tuple[Tensor, Tensor], values: Values, draws: Draws) -> Tensor:
        """The features at the nodes of each row less their mean there, in float32: `rows x Q x n_features`.

        Each row counts the phases of its waves from those at its first node, which float64 turns them by: so the
        differences keep the digits of float32, however fast a wave is and however close the nodes are.
        """
        (zeta, weights), omega, d = nodes, self.frequencies(values, draws), self.n_frequencies
        first = zeta[:, :1] @ omega.T
        cosines, sines = first.cos().float(), first.sin().float()
        steps = (zeta - zeta[:, :1]).float()
        turns = steps @ omega.T.float()
        by_cosine, by_sine = turns.cos(), turns.sin()
        found = turns.new_empty(*turns.shape[:2], self.n_features)
        torch.mul(by_cosine, cosines, out=found[..., :d]).addcmul_(by_sine, sines, value=-1)
        torch.mul(by_cosine, sines, out=found[..., d : 2 * d]).addcmul_(by_sine, cosines)
        found[..., 2 * d : -1], found[..., -1] = steps, 0
        found -= torch.einsum("rq,rqf->rf", weights.float(), found).unsqueeze(1)
        return found.mul_(self.scales(values, draws).float())


class _Waves(torch.autograd.Function):
    r"""The means of cosines and sines over the components of each row, `rows x D` each.

    .. math::
        c = \sum_k q_k\, e^{-p_k / 2} \cos a_k, \qquad s = \sum_k q_k\, e^{-p_k / 2} \sin a_k

    Their derivatives are made of the terms of these sums, which torch would find again.
    """

    @staticmethod
    def forward(ctx: Any, phases: Tensor, powers: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Of a, `rows x C x D`, p, the same or `1 x C x D`, and q, `rows x C`."""
        damped = weights.unsqueeze(-1) * torch.exp(-0.5 * powers)
        cosines, sines = phases.cos().mul_(damped), phases.sin().mul_(damped)
        ctx.save_for_backward(cosines, sines)
        ctx.has_own_powers = len(powers) == len(phases)
        return cosines.sum(1), sines.sum(1)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None]:
        """The derivatives with respect to a and p."""
        cosines, sines = ctx.saved_tensors
        of_cosines, of_sines = (slope.unsqueeze(1) for slope in slopes)
        of_phases = (cosines * of_sines).addcmul_(sines, of_cosines, value=-1)
        of_powers = (cosines * of_cosines).addcmul_(sines, of_sines).mul_(-0.5)
        return of_phases, of_powers if ctx.has_own_powers else of_powers.sum(0, keepdim=True), None
