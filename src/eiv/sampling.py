"""Algorithm 2: draws of f_theta(zeta) for new rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import torch
from numpy.random import SeedSequence
from torch import Tensor

from eiv.decomposition import Moments, literal_moments, unbiased_moments
from eiv.inputs.zeta import ZetaPosterior
from eiv.networks import values_at_once
from eiv.posteriors import WeightPosterior, evaluate_rows
from eiv.streams import Purpose, Streams
from eiv.workers import run_tasks

__all__ = ["BlockSampler", "FunctionSampler", "LiteralSampler"]

_BLOCK = 5  # weight draws of a network that share their zetas, at most: as many as zetas, by the paper's L
_CHUNK_DRAWS = {"cpu": 2**21, "cuda": 2**24}  # draws that are held at once
_LITERAL_VALUES = {"cpu": 2**20, "cuda": 2**26}  # of the widest layer, in one pass of the literal version


class FunctionSampler(Protocol):
    r"""A way to draw f_theta(zeta) with theta ~ q_phi and zeta ~ pi(zeta | x), and the moments that go with it.

    .. math:: m_{lk} = f_{\theta_k}(\zeta_l)

    Examples:
        >>> samplers: list[type[FunctionSampler]] = [BlockSampler, LiteralSampler]

    """

    chunk_rows: int
    """How many rows can be drawn for at once within a fixed amount of memory."""

    def draw(self, inputs: ZetaPosterior) -> Tensor:
        """Draws for the rows of `inputs`; the axes of the draws first, `rows x n_y` last."""

    def moments(self, draws: Tensor) -> Moments:
        """Mean and variance parts of such draws, `rows x n_y`."""


class BlockSampler:
    r"""Draws for unbiased moments: blocks of thetas, each crossed with fresh zetas of its own.

    .. math:: f_{\theta_{gk}}(\zeta_{gl}), \qquad g = 1 \dots G, \quad k = 1 \dots K / G, \quad l = 1 \dots L

    K thetas a network stand in G blocks; the thetas of a block share L zetas. That takes K L forward passes a row, as
    Algorithm 2 does, but with G L zetas instead of L. A draw is a function: the same thetas and the same base noise
    serve all rows, whether they are predicted alone or together. Blocks come in pairs with opposite base noise, which
    leaves each block a random sample and takes the error of first order out of the mean.

    Args:
        posterior: q_phi of S networks.
        n_inputs: n_x.
        n_theta: K, thetas a network, 2 at least; rounded up to whole blocks.
        n_zeta: L, zetas a block, 2 at least (1 where the inputs are exact).
        seeds: one a network.

    Examples:
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, torch.device("cpu"))
        >>> sampler = BlockSampler(BernoulliDropout(stack, 10.0), n_inputs=1, n_theta=100, n_zeta=5, seeds=seeds)
        >>> draws = sampler.draw(ZetaPosterior(torch.zeros(7, 1), torch.full((1, 1), 0.1)))
        >>> draws.shape  # network, block, theta, zeta, row, output
        torch.Size([1, 20, 5, 5, 7, 1])
        >>> sampler.moments(draws).mean.shape
        torch.Size([7, 1])

    """

    def __init__(
        self,
        posterior: WeightPosterior,
        n_inputs: int,
        n_theta: int,
        n_zeta: int,
        seeds: Sequence[SeedSequence],
    ) -> None:
        parameter = posterior.parameters[0]
        device, dtype = parameter.device, parameter.dtype
        self.posterior = posterior
        n_blocks = max(-(-n_theta // _BLOCK), min(2, n_theta // 2))
        self.thetas_a_block = -(-n_theta // n_blocks)
        streams = Streams.of(seeds, Purpose.PREDICT_WEIGHTS, device, dtype)
        self._weights = [posterior.draw(streams, self.thetas_a_block) for _ in range(n_blocks)]
        base = Streams.of(seeds[:1], Purpose.PREDICT_ZETA, device, dtype)
        half = _shared_noise(base, -(-n_blocks // 2), n_zeta, n_inputs)
        self._noise = torch.stack([half, -half], dim=1).flatten(0, 1)[:n_blocks]  # G x L x n_x, or one more
        self.chunk_rows = chunk_rows(posterior, n_theta * n_zeta)

    def draw(self, inputs: ZetaPosterior) -> Tensor:
        """Draw f for `inputs`, `rows x n_x`: `S x G x A x L x rows x n_y`."""
        device, n_blocks = inputs.mean.device, len(self._weights)
        at_once = 1 if device.type == "cpu" else self._blocks_at_once(device)
        tasks = [
            partial(self._blocks, inputs, slice(start, min(start + at_once, n_blocks)))
            for start in range(0, n_blocks, at_once)
        ]
        return torch.cat(run_tasks(tasks, device), dim=1)

    def _blocks_at_once(self, device: torch.device) -> int:
        """A GPU likes large batches; the weights that each theta leaves of the network have to fit in its memory."""
        stack = self.posterior.stack
        return max(1, values_at_once(device) // (stack.n_networks * self.thetas_a_block * stack.width**2))

    @torch.no_grad()
    def _blocks(self, inputs: ZetaPosterior, which: slice) -> Tensor:
        """Some of the blocks, `S x g x A x L x rows x n_y`."""
        zetas = [inputs.draw(noise.expand(len(inputs.mean), -1, -1)).transpose(0, 1) for noise in self._noise[which]]
        zeta = torch.stack(zetas)  # g x L x rows x n_x
        same = zeta.flatten(1, 2).unsqueeze(1).expand(-1, self.thetas_a_block, -1, -1)  # for all thetas of a block
        weights = {name: torch.cat([draw[name] for draw in self._weights[which]], dim=1) for name in self._weights[0]}
        f = self.posterior.evaluate(weights, same.flatten(0, 1).expand(self.posterior.stack.n_networks, -1, -1, -1))
        blocks: Tensor = f.unflatten(1, same.shape[:2]).unflatten(3, zeta.shape[1:3])
        return blocks

    def moments(self, draws: Tensor) -> Moments:
        """The analysis of variance within blocks."""
        return unbiased_moments(draws)


class LiteralSampler:
    r"""Algorithm 2 as printed: for each row L zetas of its own, shared by K thetas of its own.

    .. math:: m_{lk} = f_{\theta_k}(\zeta_l), \qquad l = 1 \dots L, \quad k = 1 \dots K

    Kept for the reproduction of the paper. Its numbers for a row depend on the rows before it.

    Args:
        posterior: q_phi of S networks.
        n_inputs: n_x.
        n_theta: K, thetas a network.
        n_zeta: L.
        seeds: one a network.

    Examples:
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, torch.device("cpu"))
        >>> sampler = LiteralSampler(BernoulliDropout(stack, 10.0), n_inputs=1, n_theta=100, n_zeta=5, seeds=seeds)
        >>> sampler.draw(ZetaPosterior(torch.zeros(7, 1), torch.full((1, 1), 0.1))).shape
        torch.Size([100, 5, 7, 1])

    """

    def __init__(
        self,
        posterior: WeightPosterior,
        n_inputs: int,
        n_theta: int,
        n_zeta: int,
        seeds: Sequence[SeedSequence],
    ) -> None:
        parameter = posterior.parameters[0]
        self.posterior, self.n_theta, self.n_zeta = posterior, n_theta, n_zeta
        self._weights = Streams.of(seeds, Purpose.PREDICT_WEIGHTS, parameter.device, parameter.dtype)
        self._zetas = Streams.of(seeds[:1], Purpose.PREDICT_ZETA, parameter.device, parameter.dtype)
        stack = posterior.stack
        values_a_row = stack.n_networks * stack.width * max(n_zeta, len(stack.dropout_layers))  # a mask is a row's own
        most = max(1, values_at_once(parameter.device) // values_a_row)
        self.chunk_rows = min(chunk_rows(posterior, n_theta * n_zeta), most)

    def draw(self, inputs: ZetaPosterior) -> Tensor:
        """Draw f for `inputs`, `rows x n_x`: `S K x L x rows x n_y`, all networks pooled."""
        (draws,) = run_tasks([partial(self._draw, inputs)], inputs.mean.device, width=self.posterior.stack.width)
        return draws

    @torch.no_grad()
    def _draw(self, inputs: ZetaPosterior) -> Tensor:
        n_rows = len(inputs.mean)
        zeta = inputs.draw(self._zetas.normal(n_rows, self.n_zeta, inputs.n_base).squeeze(0))
        stack = self.posterior.stack
        values = stack.n_networks * stack.width * zeta.shape[0] * zeta.shape[1]
        at_once = max(1, _LITERAL_VALUES[zeta.device.type] // values)
        draws = []
        for start in range(0, self.n_theta, at_once):
            thetas = min(at_once, self.n_theta - start)
            repeated = zeta.expand(stack.n_networks, thetas, -1, -1, -1)
            draws.append(evaluate_rows(self.posterior, self._weights, repeated, theta_axis=1))
        return torch.cat(draws, dim=1).flatten(0, 1).transpose(1, 2)

    def moments(self, draws: Tensor) -> Moments:
        """Algorithm 2's m and u, and the parts of u."""
        return literal_moments(draws)


def _shared_noise(streams: Streams, n_blocks: int, n_zeta: int, n_inputs: int) -> Tensor:
    """Base noise that serves all rows, whatever their posterior is: of several features there is one number more."""
    noise = streams.normal(n_blocks, n_zeta, n_inputs)
    if n_inputs > 1:
        noise = torch.cat([noise, streams.normal(n_blocks, n_zeta, 1)], dim=-1)
    return noise.squeeze(0)


def chunk_rows(posterior: WeightPosterior, draws_a_network: int) -> int:
    """How many rows with so many draws of a network fit in a fixed amount of memory."""
    most = _CHUNK_DRAWS[posterior.parameters[0].device.type]
    return max(1, most // (posterior.stack.n_networks * draws_a_network))
