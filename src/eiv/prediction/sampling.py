"""Algorithm 2: draws of f_theta(zeta) for new rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from numpy.random import SeedSequence
from torch import Tensor

from eiv.engine import memory
from eiv.engine.streams import Purpose, Streams
from eiv.engine.workers import run_tasks
from eiv.inputs.draws import ZetaDraws
from eiv.inputs.nodes import nearest_nodes, nodes_of_rule
from eiv.inputs.zeta import ZetaPosterior
from eiv.posteriors import ThetaVariance, WeightDraw, WeightPosterior
from eiv.prediction.decomposition import Moments, conditional_moments, literal_moments, unbiased_moments
from eiv.prediction.matching import by_share, evenly, matched_draws, matched_nodes, matched_noise, matched_zetas

__all__ = ["BlockSampler", "FunctionSampler", "LiteralSampler", "Sampled"]

_BLOCK = 5  # weight draws of a network that share their zetas, at most: as many as zetas, by the paper's L
_FEWEST_ZETAS = 2  # in a block, to split the variance


class Sampled(NamedTuple):
    """What is found of f(zeta) for some rows.

    Attributes:
        moments: mean and variance parts, `rows x n_y`, in float64.
        draws: `n x rows x n_y`, in float64, or None where they were not asked for.

    Examples:
        >>> one = torch.ones(1, 1)
        >>> Sampled(Moments(one, one, one), draws=None).moments.variance
        tensor([[2.]])

    """

    moments: Moments
    draws: Tensor | None


class FunctionSampler(Protocol):
    r"""A way to draw f_theta(zeta) with theta ~ q_phi and zeta ~ pi(zeta | x), and the moments that go with it.

    .. math:: m_{lk} = f_{\theta_k}(\zeta_l)

    Examples:
        >>> samplers: list[type[FunctionSampler]] = [BlockSampler, LiteralSampler]

    """

    chunk_rows: int
    """How many rows can be drawn for at once within a fixed amount of memory."""

    def sample(self, inputs: ZetaPosterior, keep_draws: bool) -> Sampled:
        """The moments, and with `keep_draws` the draws, for the rows of `inputs`, `rows x n_x`."""


class BlockSampler:
    r"""Moments without an error that all rows share, and draws that go with them.

    .. math:: f_{\theta_{gk}}(\zeta_{gl}), \qquad g = 1 \dots G, \quad k = 1 \dots K / G, \quad l = 1 \dots L

    K thetas per network stand in G blocks; the thetas of a block share L zetas. That takes K L forward passes per row,
    as Algorithm 2 does, but with G L zetas instead of L. A draw is a function: the same thetas and the same base noise
    serve all rows, whether they are predicted alone or together.

    A random error of the draws would therefore be an error of all rows. Three measures avoid this. The zetas of a row
    are placed evenly and matched to the mean and the covariance of its posterior (`eiv.prediction.matching`): for f
    linear in up to 50 features no error is left. Where the family knows mean and variance of f over theta in closed
    form (`WeightPosterior.in_closed_form`), no theta is drawn for the moments, and zetas are nodes of a rule, the same
    for every seed: G L for the mean over theta, G for the variance, which takes more time and varies less. Each
    draw is then the mean at one of the G L zetas plus the deviation of f under one theta at the nearest of the G. For
    other families the moments come from the analysis of variance within blocks. In either case the draws that are kept
    are matched to the moments.

    Args:
        posterior: q_phi of S networks.
        n_inputs: n_x.
        n_theta: K, thetas per network, 2 at least; rounded up to whole blocks.
        n_zeta: L, zetas per block, 2 at least (1 where the inputs are exact).
        seeds: one per network.
        pool: `S`, the share of each network, which add up to one; None where all are equal.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, torch.device("cpu"))
        >>> sampler = BlockSampler(BernoulliDropout(stack, 10.0), n_inputs=1, n_theta=100, n_zeta=5, seeds=seeds)
        >>> found = sampler.sample(ZetaNormal(torch.zeros(7, 1), torch.full((1, 1), 0.1)), keep_draws=True)
        >>> found.moments.mean.shape, found.draws.shape
        (torch.Size([7, 1]), torch.Size([500, 7, 1]))

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
        parameter = posterior.parameters[0]
        device, dtype = parameter.device, parameter.dtype
        self.posterior, self.pool, self.n_inputs, self.n_zeta = posterior, pool, n_inputs, n_zeta
        self._seeds = seeds
        self.n_blocks = max(-(-n_theta // _BLOCK), min(2, n_theta // 2))
        self.thetas_per_block = -(-n_theta // self.n_blocks)
        streams = Streams.of(seeds, Purpose.PREDICT_WEIGHTS, device, dtype, portable=True)
        self._weights = _matched_weights(
            [posterior.draw(streams, self.thetas_per_block) for _ in range(self.n_blocks)], posterior.matched_parts
        )
        self.chunk_rows = chunk_rows(posterior, n_theta * n_zeta)

    def sample(self, inputs: ZetaPosterior, keep_draws: bool) -> Sampled:
        """The moments of f for `inputs`, `rows x n_x`, and `S G A L x rows x n_y` draws."""
        if self.posterior.in_closed_form:
            return self._in_closed_form(self.posterior, inputs, keep_draws)
        f = self._draws(inputs)
        moments = unbiased_moments(f, self.pool)
        if not keep_draws:
            return Sampled(moments, None)
        draws = f.flatten(0, 3) if self.pool is None else shared_out(f.flatten(1, 3), self.pool, self._seeds)
        return Sampled(moments, matched_draws(draws, moments))

    def _in_closed_form(self, posterior: WeightPosterior, inputs: ZetaPosterior, keep_draws: bool) -> Sampled:
        """The same from the mean and the variance over theta."""
        if self.n_zeta == 1:  # exact inputs: the zeta of all blocks is the same
            thetas, near = [slice(None)], torch.zeros(1, 1, dtype=torch.long)
            at_nodes = [(inputs.mean.unsqueeze(0), inputs.mean.new_ones(1, len(inputs.mean)))] * 2
        else:
            rules = [nodes_of_rule(n, self._n_base(inputs)) for n in (self.n_blocks * self.n_zeta, self.n_blocks)]
            near = nearest_nodes(*rules) if keep_draws else torch.empty(0)
            at_nodes = [self._nodes(inputs, rule.to(inputs.mean)) for rule in rules]
            thetas = [slice(g, g + 1) for g in range(self.n_blocks)]
        nodes, weights = zip(*at_nodes, strict=True)
        draws = [self._thetas(which) if keep_draws else None for which in thetas]
        tasks: list[Callable[[], Any]] = [partial(_mean, posterior, zeta) for zeta in nodes[0].split(self.n_zeta)]
        tasks += [partial(_over_theta, posterior, zeta, draw) for zeta, draw in zip(nodes[1], draws, strict=True)]
        found = run_tasks(tasks, inputs.mean.device)
        mean, found_at = torch.cat(found[: -len(thetas)], dim=1), found[-len(thetas) :]
        variance = torch.stack([at.variance for at in found_at], dim=1)
        moments = conditional_moments(mean, variance, weights[0], weights[1], self.pool)
        if not keep_draws:
            return Sampled(moments, None)
        order = near.flatten().to(mean.device)
        mean = mean[:, order].take_along_dim(evenly(weights[0][order])[None, ..., None], dim=1)
        of_block = mean.unflatten(1, near.shape).unsqueeze(2).unbind(1)  # S x 1 x L x rows x n_y each
        moved = [(f + at.moves.unsqueeze(2)).flatten(1, 2) for f, at in zip(of_block, found_at, strict=True)]
        if self.pool is None:
            return Sampled(moments, matched_draws(torch.stack(moved).flatten(0, 2), moments))
        return Sampled(moments, matched_draws(shared_out(torch.cat(moved, dim=1), self.pool, self._seeds), moments))

    def _draws(self, inputs: ZetaPosterior) -> Tensor:
        """Draw f for `inputs`, `rows x n_x`: `S x G x A x L x rows x n_y`."""
        device = inputs.mean.device
        zeta = self._zetas(inputs).unflatten(0, (self.n_blocks, self.n_zeta))  # G x L x rows x n_x
        at_once = 1 if device.type == "cpu" else self._blocks_at_once(device)
        tasks = [
            partial(self._blocks, zeta, slice(start, min(start + at_once, self.n_blocks)))
            for start in range(0, self.n_blocks, at_once)
        ]
        return torch.cat(run_tasks(tasks, device), dim=1).double()

    def _blocks_at_once(self, device: torch.device) -> int:
        """A GPU likes large batches; the weights that each theta leaves of the network have to fit in its memory."""
        stack = self.posterior.stack
        return max(1, memory.values_at_once(device) // (stack.n_networks * self.thetas_per_block * stack.width**2))

    @torch.no_grad()
    def _blocks(self, zeta: Tensor, which: slice) -> Tensor:
        """Some of the blocks, `S x g x A x L x rows x n_y`."""
        zeta = zeta[which]
        same = zeta.flatten(1, 2).unsqueeze(1).expand(-1, self.thetas_per_block, -1, -1)  # for all thetas of a block
        inputs = same.flatten(0, 1).expand(self.posterior.stack.n_networks, -1, -1, -1)
        f = self.posterior.evaluate(self._thetas(which), inputs)
        blocks: Tensor = f.unflatten(1, same.shape[:2]).unflatten(3, zeta.shape[1:3])
        return blocks

    def _thetas(self, which: slice) -> WeightDraw:
        """The weight draws of some of the blocks, one behind another."""
        return {name: torch.cat([draw[name] for draw in self._weights[which]], dim=1) for name in self._weights[0]}

    def _zetas(self, inputs: ZetaPosterior) -> Tensor:
        """The zetas of all blocks, `G L x rows x n_x`, a Latin hypercube that is matched within blocks."""
        if self.n_zeta == 1:
            return inputs.mean.expand(self.n_blocks, -1, -1)
        n_base, like = self._n_base(inputs), inputs.mean
        streams = Streams.of(self._seeds[:1], Purpose.PREDICT_ZETA, like.device, like.dtype, portable=True)
        hypercube = ZetaDraws("stratified", self.n_blocks * self.n_zeta, n_base, tuple(range(n_base)))
        return self._matched(inputs, hypercube.base(streams, 1).view(self.n_blocks, self.n_zeta, n_base))

    def _n_base(self, inputs: ZetaPosterior) -> int:
        """The numbers behind a zeta, whatever posterior a row has: of several features one more, for a component."""
        return max(self.n_inputs + (self.n_inputs > 1), inputs.n_base)

    def _matched(self, inputs: ZetaPosterior, noise: Tensor) -> Tensor:
        """Draws of zeta for base noise `G x L x n_base`, matched to each row: `G L x rows x n_x`."""
        zetas: Tensor = matched_zetas(inputs, self._matched_noise(inputs, noise)).flatten(1, 2).transpose(0, 1)
        return zetas

    def _nodes(self, inputs: ZetaPosterior, rule: Tensor) -> tuple[Tensor, Tensor]:
        """Zetas for the nodes of a rule, `Q x n_base`, matched to each row: `Q x rows x n_x`, weights `Q x rows`."""
        zetas, weights = matched_nodes(inputs, self._matched_noise(inputs, rule.unsqueeze(0), correction=0)[0])
        return zetas.transpose(0, 1), weights.T

    def _matched_noise(self, inputs: ZetaPosterior, noise: Tensor, correction: int = 1) -> Tensor:
        if not inputs.matchable:
            return noise
        own = matched_noise(noise[..., : self.n_inputs], correction)
        return torch.cat([own, noise[..., self.n_inputs :]], dim=-1)


def _matched_weights(draws: Sequence[WeightDraw], parts: Sequence[str]) -> list[WeightDraw]:
    """Weight draws of blocks, some parts of which are normal numbers, `S x A x n`, that are matched within blocks."""
    matched = {
        name: torch.stack([matched_noise(network) for network in torch.stack([draw[name] for draw in draws], dim=1)])
        for name in parts
        if name in draws[0]
    }
    return [draw | {name: noise[:, block] for name, noise in matched.items()} for block, draw in enumerate(draws)]


@torch.no_grad()
def _mean(posterior: WeightPosterior, zeta: Tensor) -> Tensor:
    """E f over theta at `zeta`, `L x rows x n_x`: `S x L x rows x n_y`, in float64."""
    mean = posterior.mean(zeta.flatten(0, 1).expand(posterior.stack.n_networks, -1, -1))
    by_zeta: Tensor = mean.double().unflatten(1, zeta.shape[:2])
    return by_zeta


@torch.no_grad()
def _over_theta(posterior: WeightPosterior, zeta: Tensor, draw: WeightDraw | None) -> ThetaVariance:
    """Var f over theta at `zeta`, `rows x n_x`, and what draws add, in float64."""
    found = posterior.theta_variance(zeta.expand(posterior.stack.n_networks, -1, -1), draw)
    return ThetaVariance(found.variance.double(), None if found.moves is None else found.moves.double())


class LiteralSampler:
    r"""Algorithm 2 as printed: for each row L zetas of its own, shared by K thetas of its own.

    .. math:: m_{lk} = f_{\theta_k}(\zeta_l), \qquad l = 1 \dots L, \quad k = 1 \dots K

    Kept for the reproduction of the paper. Its numbers for a row depend on the rows before it.

    Args:
        posterior: q_phi of S networks.
        n_inputs: n_x.
        n_theta: K, thetas per network.
        n_zeta: L.
        seeds: one per network.
        pool: `S`, the share of each network, which add up to one; None where all are equal.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, torch.device("cpu"))
        >>> sampler = LiteralSampler(BernoulliDropout(stack, 10.0), n_inputs=1, n_theta=100, n_zeta=5, seeds=seeds)
        >>> sampler.sample(ZetaNormal(torch.zeros(7, 1), torch.full((1, 1), 0.1)), keep_draws=True).draws.shape
        torch.Size([500, 7, 1])

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
        parameter = posterior.parameters[0]
        self.posterior, self.pool, self.n_theta, self.n_zeta, self._seeds = posterior, pool, n_theta, n_zeta, seeds
        self._weights = Streams.of(seeds, Purpose.PREDICT_WEIGHTS, parameter.device, parameter.dtype)
        self._zetas = Streams.of(seeds[:1], Purpose.PREDICT_ZETA, parameter.device, parameter.dtype)
        stack = posterior.stack
        n_values = max(n_zeta, len(stack.dropout_layers))  # per unit; each row has a mask of its own
        values_per_row = stack.n_networks * stack.width * n_values
        most = max(1, memory.values_at_once(parameter.device) // values_per_row)
        self.chunk_rows = min(chunk_rows(posterior, n_theta * n_zeta), most)

    def sample(self, inputs: ZetaPosterior, keep_draws: bool) -> Sampled:
        """Algorithm 2's m and u, the components of u, and `S K L x rows x n_y` draws, all networks pooled."""
        (f,) = run_tasks([partial(self._draw, inputs)], inputs.mean.device, width=self.posterior.stack.width)
        draws = f.double()  # S K x L x rows x n_y
        if self.pool is None:
            return Sampled(literal_moments(draws), draws.flatten(0, 1) if keep_draws else None)
        moments = literal_moments(draws, (self.pool / self.n_theta).repeat_interleave(self.n_theta))
        of_networks = draws.flatten(0, 1).unflatten(0, (len(self.pool), -1))
        return Sampled(moments, shared_out(of_networks, self.pool, self._seeds) if keep_draws else None)

    @torch.no_grad()
    def _draw(self, inputs: ZetaPosterior) -> Tensor:
        n_rows = len(inputs.mean)
        zeta = inputs.draw(self._zetas.normal(n_rows, self.n_zeta, inputs.n_base).squeeze(0))
        stack = self.posterior.stack
        values = stack.n_networks * stack.width * zeta.shape[0] * zeta.shape[1]
        at_once = max(1, memory.LITERAL_PASS[zeta.device.type] // values)
        draws = []
        for start in range(0, self.n_theta, at_once):
            thetas = min(at_once, self.n_theta - start)
            repeated = zeta.expand(stack.n_networks, thetas, -1, -1, -1)
            draws.append(self.posterior.evaluate_rows(self._weights, repeated, theta_axis=1))
        return torch.cat(draws, dim=1).flatten(0, 1).transpose(1, 2)


def shared_out(draws: Tensor, pool: Tensor, seeds: Sequence[SeedSequence]) -> Tensor:
    """Draws of networks, `S x n x rows x n_y`, as many of each as its share is: `S n x rows x n_y`.

    The same ones for all rows, since a draw is a function.
    """
    orders = Streams.of(seeds, Purpose.POOL, torch.device("cpu"), torch.float64).permutations(draws.shape[1])
    chosen: Tensor = draws.flatten(0, 1)[by_share(pool, orders).to(draws.device)]
    return chosen


def chunk_rows(posterior: WeightPosterior, draws_per_network: int) -> int:
    """How many rows with so many draws of a network fit in a fixed amount of memory."""
    most = memory.DRAWS[posterior.parameters[0].device.type]
    return max(1, most // (posterior.stack.n_networks * draws_per_network))


SAMPLERS: dict[str, type[BlockSampler] | type[LiteralSampler]] = {
    "unbiased": BlockSampler,
    "literal": LiteralSampler,
}
"""The ways to draw f, by the names that a user asks for them with."""


def zetas_per_block(n_zeta: int | None) -> int:
    """The zetas in a block of a prediction where training has `n_zeta` per row, or chooses their number itself."""
    return min(max(n_zeta or _BLOCK, _FEWEST_ZETAS), _BLOCK)
