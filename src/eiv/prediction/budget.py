"""The uncertainty budget of a prediction: which input's error makes how much of its aleatoric variance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from numpy.random import SeedSequence
from torch import Tensor

from eiv.engine import memory
from eiv.engine.streams import Purpose, Streams
from eiv.engine.workers import run_tasks
from eiv.inputs.zeta import ZetaPosterior
from eiv.posteriors import WeightPosterior
from eiv.prediction.decomposition import unbiased_moments
from eiv.prediction.matching import FREEDOM, matched_noise
from eiv.prediction.sampling import BlockSampler, chunk_rows

__all__ = ["BudgetSampler"]

_LEAST_FREEDOM = 64  # degrees of freedom behind a variance, at least


class BudgetSampler(BlockSampler):
    r"""Draws for the shares of each feature's error in the aleatoric variance V.

    .. math::
        \mathrm{share}_i = \frac{V_i}{V}, \qquad
        V_i = \mathrm{Var}_{\zeta_i} E_{\theta, \eta} f_\theta(\zeta_i, \eta_{-i}), \qquad
        V = \mathrm{Var}_\zeta E_\theta f_\theta(\zeta)

    zeta and eta are independent draws of the true input. V_i is what feature i contributes by its own uncertainty: its
    first-order (Sobol) index where errors are independent of each other, and :math:`a_i^2 s_i^2` for a linear f in any
    case, as in a budget of the GUM. What the features do together is left as remainder: interactions, which are never
    negative, and correlations, which can be.

    For V_i, each theta of a block has an eta of its own, and is crossed with the zeta_i of the block. The analysis of
    variance that frees the aleatoric component of the weights' interaction (`unbiased_moments`) then frees V_i of that
    with the other features too. V is estimated as the sum of all V_i and

    .. math:: \mathrm{Var}_\zeta E_\theta f - \mathrm{Var}_\zeta E_{\theta, \eta} \sum_i f(\zeta_i, \eta_{-i})

    from the same draws where errors are independent: both hold the same chance correlations between features, and for a
    sum of functions of one feature each the difference is zero. Where they are not independent, the correlations are
    what V is about, and V is estimated as it is.

    One set of base noise serves all rows. Its covariance within blocks is made exactly one, which leaves no Monte Carlo
    error for a linear f. Of a variance that comes from curvature it takes a share of 2 / (degrees of freedom), a
    fortieth by default.

    Args:
        posterior: q_phi of S networks.
        n_inputs: n_x.
        n_theta: K, thetas per network, 2 at least.
        n_zeta: L, zetas per block; more are taken where blocks are so few that G (L - 1) is below 64, or below twice
            the numbers behind a zeta (`ZetaPosterior.n_base`, and n_x + 1 at least).
        seeds: one per network.
        pool: `S`, the share of each network, which add up to one; None where all are equal.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(2, 1), 2, 1, seeds, torch.device("cpu"))
        >>> sampler = BudgetSampler(BernoulliDropout(stack, 10.0), n_inputs=2, n_theta=100, n_zeta=5, seeds=seeds)
        >>> shares = sampler.shares(ZetaNormal(torch.zeros(7, 2), torch.tensor([[0.1, 0.0]])))
        >>> shares.shape  # row, output, feature
        torch.Size([7, 1, 2])
        >>> shares[0]  # one feature has an error
        tensor([[1., 0.]], dtype=torch.float64)

    """

    def __init__(
        self,
        posterior: WeightPosterior,
        n_inputs: int,
        n_theta: int,
        n_zeta: int,
        seeds: Sequence[SeedSequence],
        pool: Tensor | None = None,
    ) -> None:
        super().__init__(posterior, n_inputs, n_theta, n_zeta, seeds, pool)
        if posterior.parameters[0].device.type == "cuda":  # all blocks at once, with the zetas of every theta
            self.chunk_rows = chunk_rows(posterior, n_theta * self._zetas_per_block(n_inputs + 1) * n_inputs)

    def shares(self, inputs: ZetaPosterior) -> Tensor:
        """The shares for `inputs`, `rows x n_x`: `rows x n_y x n_x`.

        They lie between 0 and 1, but where errors depend on each other. A row without error has NaN, and so has a row
        whose aleatoric variance cannot be distinguished from zero.
        """
        device, n_blocks = inputs.mean.device, self.n_blocks
        noise, others = self._base_noise(inputs)
        values = others[:, 0].numel() * noise.shape[1] * len(inputs.mean)  # of the zetas of a block
        at_once = max(1, memory.BUDGET // values) if device.type == "cpu" else self._blocks_at_once(device)
        parts = [slice(start, min(start + at_once, n_blocks)) for start in range(0, n_blocks, at_once)]
        parts_found = run_tasks([partial(self._variances, inputs, noise, others, part) for part in parts], device)
        sizes = torch.tensor([part.stop - part.start for part in parts], dtype=torch.float64, device=device)
        variances = torch.einsum("p,p...->...", sizes / n_blocks, torch.stack(parts_found))  # rows x n_y x (n_x + 2)
        joint, additive = variances[..., 0], variances[..., 1]
        noisy = (inputs.std > 0).unsqueeze(-2)  # rows x 1 x n_x
        single = torch.where(noisy, variances[..., 2:], 0.0).clamp_min(0)
        apart = single.sum(-1) + (joint - additive).clamp_min(0)
        total = torch.where(inputs.independent.unsqueeze(-1), apart, joint)
        shares = torch.where((total > 0).unsqueeze(-1), single / total.unsqueeze(-1), torch.nan)
        n_noisy = noisy.sum(-1, keepdim=True)
        shares = torch.where(n_noisy == 1, noisy.to(shares), shares)  # one feature has it all
        found: Tensor = torch.where(n_noisy == 0, torch.nan, shares)
        return found

    def _zetas_per_block(self, n_base: int) -> int:
        """L, raised where the degrees of freedom of so many numbers ask for it."""
        return max(self.n_zeta, 1 + -(-max(FREEDOM * n_base, _LEAST_FREEDOM) // self.n_blocks))

    def _base_noise(self, inputs: ZetaPosterior) -> tuple[Tensor, Tensor]:
        """The numbers behind zeta, `G x L x n_base`, and eta, `S x G x A x n_base`: the same in every call."""
        parameter, n_base = self.posterior.parameters[0], self._n_base(inputs)
        streams = Streams.of(self._seeds, Purpose.BUDGET, parameter.device, parameter.dtype, portable=True)
        zetas = streams.normal(self.n_blocks, self._zetas_per_block(n_base), n_base)[0]
        return matched_noise(zetas), streams.normal(self.n_blocks, self.thetas_per_block, n_base)

    @torch.no_grad()
    def _variances(self, inputs: ZetaPosterior, noise: Tensor, others: Tensor, which: slice) -> Tensor:
        """V, the variance of the sum, and all V_i, from some of the blocks: `rows x n_y x (n_x + 2)`."""
        n_zeta, n_networks = noise.shape[1], self.posterior.stack.n_networks
        zeta = _drawn(inputs, noise[which]).unsqueeze(1)  # g x 1 x L x rows x n_x
        eta = _drawn(inputs, others[:, which]).unsqueeze(3)  # S x g x A x 1 x rows x n_x
        mixed = eta.repeat_interleave(n_zeta, dim=3)
        weights = self._thetas(which)

        def evaluate(inputs: Tensor) -> Tensor:
            f = self.posterior.evaluate(weights, inputs.flatten(3, 4).flatten(1, 2))
            axes: Tensor = f.unflatten(1, mixed.shape[1:3]).unflatten(3, mixed.shape[3:5])
            return axes.double()

        joint = evaluate(zeta.expand(n_networks, -1, self.thetas_per_block, -1, -1, -1))
        variances = [unbiased_moments(joint, self.pool).aleatoric] * 2
        variances += [torch.zeros_like(variances[0])] * inputs.mean.shape[-1]
        additive = torch.zeros_like(joint)
        for feature in inputs.noisy:
            mixed[..., feature] = zeta[..., feature]
            f = evaluate(mixed)
            mixed[..., feature] = eta[..., feature]
            variances[2 + feature] = unbiased_moments(f, self.pool).aleatoric
            additive += f
        variances[1] = unbiased_moments(additive, self.pool).aleatoric
        return torch.stack(variances, dim=-1)


def _drawn(inputs: ZetaPosterior, noise: Tensor) -> Tensor:
    """True inputs for base noise `... x n_base` that serves all rows: `... x rows x n_x`."""
    flat = noise.flatten(0, -2).expand(len(inputs.mean), -1, -1)
    drawn: Tensor = inputs.draw(flat).movedim(1, 0).unflatten(0, noise.shape[:-1])
    return drawn
