"""The posterior of the true input given x and y, by integration along lines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import SeedSequence
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine import memory
from eiv.engine.pooling import beside, pooled
from eiv.engine.stable import log_normal_mass
from eiv.engine.streams import Purpose, Streams
from eiv.engine.workers import run_tasks
from eiv.inputs.draws import ZetaDraws
from eiv.inputs.zeta import ZetaPosterior, is_ours
from eiv.likelihoods import Likelihood
from eiv.posteriors import WeightDraw, WeightPosterior
from eiv.prediction.matching import matched_noise, matched_zetas
from eiv.prediction.trueinputs import ZetaMoments

__all__ = ["LineSampler", "Observed", "between", "moments_given_x"]

_BLOCK = 5  # thetas that share their lines, and lines that they share, where several features have errors
_REACH = 6.0  # standard deviations that a line spans on either side: beyond lie 2e-9 of the probability
_PASSES, _NODES = 3, 16  # of a line: how often nodes are added, and how many, at which f is evaluated
_TAIL = 4.0  # standard deviations of a normal posterior that the added nodes span on either side
_CELLS = 2  # between two nodes, where f is taken as straight


class Observed(NamedTuple):
    """Labels of rows in the units of the networks.

    Attributes:
        y: `rows x n_y`; NaN where it is not known.
        y_err: their known errors, the same shape.

    Examples:
        >>> Observed(torch.zeros(3, 1), torch.zeros(3, 1)).y.shape
        torch.Size([3, 1])

    """

    y: Tensor
    y_err: Tensor

    def rows(self, rows: NDArray[np.int64]) -> Observed:
        """Those of some rows."""
        return Observed(self.y[rows], self.y_err[rows])


class _Lines(NamedTuple):
    """Straight lines in the space of the base noise: `start + t direction`, one for each row and draw.

    start: `rows x L x n_base`; direction: the same, of length one; log_weight: `rows x L`, the density of `start`
    over the one that it was drawn from.
    """

    start: Tensor
    direction: Tensor
    log_weight: Tensor


class _Nodes(NamedTuple):
    """Points of lines in order, T on each.

    t: their places, `rows x L x T`; zeta: `rows x L x T x n_x`; f: under each theta, `S x A x rows x L x T x n_out`.
    """

    t: Tensor
    zeta: Tensor
    f: Tensor

    def merged(self, more: _Nodes) -> _Nodes:
        """These and more of them, in order."""
        t, order = torch.cat([self.t, more.t], dim=2).sort(dim=2)
        zeta = torch.cat([self.zeta, more.zeta], dim=2).take_along_dim(order.unsqueeze(-1), dim=2)
        f = torch.cat([self.f, more.f], dim=4).take_along_dim(order[None, None, ..., None], dim=4)
        return _Nodes(t, zeta, f)


class _Cells(NamedTuple):
    """Pieces of lines, C for each: `rows x L x C (x n_x)`, and the probability of each under each theta.

    zeta: the true input in the middle; width: from one end to the other; log_mass: `S x A x rows x L x C`.
    """

    zeta: Tensor
    width: Tensor
    log_mass: Tensor


class LineSampler:
    r"""The posterior of the true input given x and y, the weights being integrated over.

    .. math:: p(\zeta | x, y) \propto \pi(\zeta | x) \int p(y | f_\theta(\zeta))\, q_\phi(\theta)\, d\theta

    Where a label says much more than x, draws from :math:`\pi(\zeta | x)` would nearly all have a weight of zero. So
    only the directions that the label says little of are drawn, and along the one that it says most of the integral is
    a sum. Zeta is a function of standard normal numbers e, and along a line

    .. math:: e = e_\perp + t\, d, \qquad p(t | e_\perp, \theta, y) \propto \mathcal{N}(t | 0, 1)\,
              p(y | f_\theta(\zeta(e_\perp + t d)))

    f is evaluated at nodes of t and is straight between them. The first nodes are evenly spaced. More are added, twice,
    where the posterior was found to lie. The density of the label is averaged over the cells between nodes, so that a
    peak that is narrower than a cell is not missed. The direction d is that of the steepest slope of f, in units of the
    uncertainty of the label. For several outputs :math:`e_\perp` comes from the normal posterior that zeta would have
    if f were straight, and has a weight. Where one feature has an error there is one line.

    Thetas are drawn in blocks, and each block has lines of its own. The same thetas and base noise serve all rows.

    Args:
        posterior: q_phi of S networks.
        likelihood: p(y | f) of each network.
        units: shift and scale of X, `n_x` each, for the units of the networks.
        n_theta: thetas per network; rounded up to whole blocks.
        seeds: one per network.
        pool: `S`, the share of each network, which add up to one; None where all are equal.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.likelihoods import NormalLikelihood
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, torch.device("cpu"), torch.float64)
        >>> units, one = (np.zeros(1), np.ones(1)), torch.ones(1, 1).double()
        >>> sampler = LineSampler(BernoulliDropout(stack, 10.0), NormalLikelihood(one), units, 20, seeds)
        >>> zeta = ZetaNormal(torch.zeros(7, 1).double(), 0.1 * one)
        >>> observed = Observed(zeta.mean, 0 * zeta.mean)
        >>> sampler.sample(zeta, observed, 50, "line").draws.shape
        torch.Size([50, 7, 1])

    """

    def __init__(
        self,
        posterior: WeightPosterior,
        likelihood: Likelihood,
        units: tuple[NDArray[np.float64], NDArray[np.float64]],
        n_theta: int,
        seeds: Sequence[SeedSequence],
        pool: Tensor | None = None,
    ) -> None:
        like = posterior.parameters[0]
        self.posterior, self.likelihood, self.pool, self._seeds = posterior, likelihood, pool, seeds
        self._shift, self._scale = (torch.tensor(part, device=like.device) for part in units)
        self.n_blocks = -(-n_theta // _BLOCK)
        streams = Streams.of(seeds, Purpose.PREDICT_WEIGHTS, like.device, like.dtype, portable=True)
        self._weights = [posterior.draw(streams, _BLOCK) for _ in range(self.n_blocks)]

        per_row = posterior.stack.n_networks * self.n_blocks * _BLOCK * _BLOCK * _PASSES * _NODES * _CELLS
        self.chunk_rows = max(1, memory.DRAWS[like.device.type] // per_row)

    def kinds(self, inputs: ZetaPosterior, observed: Observed) -> NDArray[np.str_]:
        """How zeta is found in each row: "x" without its label, "line" along one line, "lines" along many."""
        n_rows = len(inputs.mean)
        if is_ours(inputs):
            n_moved = (inputs.std > 0).sum(-1).expand(n_rows)
        else:
            n_moved = torch.where(inputs.std.any(-1).expand(n_rows), inputs.n_base, 0)
        by_label = torch.where(observed.y.isnan().any(-1), 0, n_moved).clamp_max(2)
        found: NDArray[np.str_] = np.array(["x", "line", "lines"])[by_label.cpu().numpy()]
        return found

    @torch.no_grad()
    def sample(self, inputs: ZetaPosterior, observed: Observed, n_draws: int, kind: str) -> ZetaMoments:
        """The moments and draws for `inputs`, `rows x n_x` in the units of X and in float64, and their labels.

        All rows are of one of the `kinds`.
        """
        if kind == "x":
            return moments_given_x(inputs, n_draws, self._seeds)
        if kind == "line":
            thetas = {name: torch.cat([draw[name] for draw in self._weights], dim=1) for name in self._weights[0]}
            return self._summary([self._on_lines(inputs, observed, _axes(inputs), thetas)], n_draws)
        noises = self._noise(inputs).split(_BLOCK)
        tasks = [
            partial(self._block, inputs, observed, noise, thetas)
            for noise, thetas in zip(noises, self._weights, strict=True)
        ]
        return self._summary(run_tasks(tasks, self._shift.device), n_draws)

    @torch.no_grad()
    def log_likelihood(self, zeta: Tensor, observed: Observed) -> Tensor:
        """The logarithm of the mean density of labels between points `zeta`, `rows x T x n_x`: `S x A x rows x C`.

        The C cells lie between the points as on a line, and the A thetas are those of all blocks.
        """
        thetas = {name: torch.cat([draw[name] for draw in self._weights], dim=1) for name in self._weights[0]}
        f, change = between(self._evaluate(zeta.unsqueeze(1), thetas), dim=4)
        return self._log_density(f, change, observed).squeeze(3)

    def _noise(self, inputs: ZetaPosterior) -> Tensor:
        """Base noise of all lines, a Latin hypercube: `G L x n_base`; that of the features is matched."""
        n_base, n_features, n_lines = inputs.n_base, inputs.mean.shape[-1], self.n_blocks * _BLOCK
        streams = Streams.of(self._seeds[:1], Purpose.PREDICT_ZETA, self._shift.device, torch.float64, portable=True)
        noise = ZetaDraws("stratified", n_lines, n_base, tuple(range(n_base))).base(streams, 1)[0]
        own = matched_noise(noise[..., :n_features], correction=0)
        return torch.cat([own, noise[..., n_features:]], dim=-1)[0]

    @torch.no_grad()
    def _block(self, inputs: ZetaPosterior, observed: Observed, noise: Tensor, thetas: WeightDraw) -> _Cells:
        """The cells of the lines through base noise `L x n_base`, for some thetas."""
        return self._on_lines(inputs, observed, self._lines(inputs, observed, noise, thetas), thetas)

    def _on_lines(self, inputs: ZetaPosterior, observed: Observed, lines: _Lines, thetas: WeightDraw) -> _Cells:
        """The cells of some lines."""
        even = torch.linspace(-_REACH, _REACH, _NODES, dtype=torch.float64, device=self._shift.device)
        nodes = self._nodes(inputs, lines, even.expand(*lines.log_weight.shape, -1), thetas)
        cells = self._cells(nodes, observed, lines)
        for _ in range(1, _PASSES):
            more = _quantiles(nodes.t, self._over_networks(cells.log_mass))
            nodes = nodes.merged(self._nodes(inputs, lines, more, thetas))
            cells = self._cells(nodes, observed, lines)
        return cells

    def _nodes(self, inputs: ZetaPosterior, lines: _Lines, t: Tensor, thetas: WeightDraw) -> _Nodes:
        """Zeta and f at `t`, `rows x L x T`."""
        noise = lines.start.unsqueeze(2) + t.unsqueeze(-1) * lines.direction.unsqueeze(2)
        zeta = inputs.draw(noise.flatten(1, 2)).unflatten(1, t.shape[1:])
        return _Nodes(t, zeta, self._evaluate(zeta, thetas))

    def _cells(self, nodes: _Nodes, observed: Observed, lines: _Lines) -> _Cells:
        """The cells between nodes."""
        log_density = self._log_density(*between(nodes.f, dim=4), observed)
        edges = _edges(nodes.t)
        log_mass = log_density + (log_normal_mass(edges[..., :-1], edges[..., 1:]) + lines.log_weight.unsqueeze(-1))
        return _Cells(*between(nodes.zeta, dim=2), log_mass)

    def _evaluate(self, zeta: Tensor, thetas: WeightDraw) -> Tensor:
        """Values of f under each theta at `zeta`, `... x n_x` in the units of X: `S x A x ... x n_out`, in float64."""
        like, n_networks = self.posterior.parameters[0], self.posterior.stack.n_networks
        seen = ((zeta - self._shift) / self._scale).to(like.dtype).flatten(0, -2)
        n_thetas = next(iter(thetas.values())).shape[1] if thetas else 1
        f = self.posterior.evaluate(thetas, seen.expand(n_networks, n_thetas, -1, -1))
        values: Tensor = f.double().unflatten(2, zeta.shape[:-1])
        return values

    def _log_density(self, f: Tensor, change: Tensor, observed: Observed) -> Tensor:
        """The logarithm of the mean density of the labels over cells: `S x A x rows x L x C`.

        `f`, in the middle of the cells, and its `change` within them are `S x A x rows x L x C x n_out`.
        """
        y, y_err = (part[:, None, None].expand(*f.shape[:-1], -1) for part in observed)
        flat = (part.flatten(1, -2) for part in (f, change, y, y_err))
        found: Tensor = self.likelihood.log_mean_density(*flat).unflatten(1, f.shape[1:-1])
        return found

    def _lines(self, inputs: ZetaPosterior, observed: Observed, noise: Tensor, thetas: WeightDraw) -> _Lines:
        """Lines along the steepest slope of f, for base noise `L x n_base`."""
        moved = list(inputs.noisy) if is_ours(inputs) else list(range(inputs.n_base))  # none chooses a component
        step = torch.eye(noise.shape[-1], dtype=noise.dtype, device=noise.device)[moved]
        fixed = noise.clone().index_fill_(1, torch.tensor(moved, device=noise.device), 0.0)
        centres = fixed if bool(fixed.any()) else fixed[:1]
        around = torch.cat([0 * step[:1], step, -step])
        points = centres.unsqueeze(1) + around  # L x (1 + 2 n) x n_base
        zeta = inputs.draw(points.flatten(0, 1).expand(len(inputs.mean), -1, -1)).unflatten(1, points.shape[:2])
        information, slope = self._straight(self._evaluate(zeta, thetas), observed, len(moved))
        roots, vectors = torch.linalg.eigh(information)  # rows x L x n (x n)
        direction = vectors[..., -1]
        largest = direction.abs().argmax(-1, keepdim=True)
        direction = direction * direction.gather(-1, largest).sign()
        rest = 1 + roots.clamp_min(0)
        centre = ((slope.unsqueeze(-2) @ vectors).squeeze(-2) / rest).unsqueeze(-2) @ vectors.mT
        root = vectors / rest.sqrt().unsqueeze(-2) @ vectors.mT
        own = noise[:, moved].unsqueeze(-2)  # L x 1 x n
        start = _across((centre + own @ root).squeeze(-2), direction)
        whitened = _across(own.squeeze(-2).expand_as(start), direction)
        log_weight = 0.5 * (whitened.square() - start.square()).sum(-1) - 0.5 * rest[..., :-1].log().sum(-1)
        expanded = fixed.expand(len(start), -1, -1)
        return _Lines(
            expanded + start @ step,
            (direction @ step).expand_as(expanded),
            log_weight.expand(len(start), len(noise)),
        )

    def _straight(self, f: Tensor, observed: Observed, n_moved: int) -> tuple[Tensor, Tensor]:
        """The information of a label about e, `rows x L x n x n`, and the slope of its log density, `rows x L x n`.

        `f`, `S x A x rows x L x (1 + 2 n) x n_out`, has its values at e = 0 and at one standard deviation on either
        side. Its scatter over theta, and what it departs from a straight line by, count as errors of the label.
        """
        over_theta = pooled(f.mean(1), self.pool)  # rows x L x (1 + 2 n) x n_out
        centre, up, down = over_theta.split([1, n_moved, n_moved], dim=2)
        scatter = pooled((f[..., 0, :] - over_theta[..., 0, :]).square().mean(1), self.pool)
        curved = (up + down - 2 * centre).square().sum(2) / 2
        n_networks, own = len(f), self.likelihood.f_outputs(observed.y.shape[-1])
        y, y_err = (part.unsqueeze(1).expand(-1, f.shape[3], -1) for part in observed)
        y_err = (y_err.square() + (scatter + curved)[..., own]).sqrt()
        values, labels, known, slopes = (
            part.flatten(0, 1).expand(n_networks, *(-1,) * (part.ndim - 1))
            for part in (centre.squeeze(2), y, y_err, 0.5 * (up - down).mT)
        )
        root = self.likelihood.whitened(slopes, values, known)
        score = self.likelihood.score(values.unsqueeze(2), labels, known)  # S x rows L x 1 x n_out
        shape = over_theta.shape[:2]
        information = pooled(root.mT @ root, self.pool).unflatten(0, shape)
        return information, pooled((score @ slopes).squeeze(2), self.pool).unflatten(0, shape)

    def _over_networks(self, log_mass: Tensor) -> Tensor:
        """The logarithm of masses, `S x A x ...`, summed over thetas and, by their shares, over networks."""
        return self._shared(log_mass).flatten(0, 1).logsumexp(0)

    def _shared(self, log_mass: Tensor) -> Tensor:
        return log_mass if self.pool is None else log_mass + beside(self.pool.log(), log_mass)

    def _summary(self, cells: Sequence[_Cells], n_draws: int) -> ZetaMoments:
        """Mean, covariance and draws of all blocks together."""
        zeta, width = (torch.cat([getattr(block, name) for block in cells], dim=1) for name in ("zeta", "width"))
        pairs = [self._shared(block.log_mass).logsumexp(-1).movedim(2, 0).flatten(1) for block in cells]  # rows x S A L
        ess = 1 / torch.cat(pairs, dim=1).softmax(-1).square().sum(-1)
        mass = torch.cat([self._over_networks(block.log_mass) for block in cells], dim=1).flatten(1).softmax(-1)
        zeta, width = zeta.flatten(1, 2), width.flatten(1, 2)  # rows x L C x n_x
        first = zeta[:, :1]  # exact features come out exact
        mean = first + mass.unsqueeze(1) @ (zeta - first)
        gaps, shares = zeta - mean, mass.unsqueeze(-1)
        covariance = (shares * gaps).mT @ gaps + (shares * width).mT @ width / 12
        return ZetaMoments(mean.squeeze(1), covariance, self._draws(zeta, width, mass, n_draws), ess)

    def _draws(self, zeta: Tensor, width: Tensor, mass: Tensor, n_draws: int) -> Tensor:
        """Draws from cells, as many of each as its mass is, in an order that is random but the same for all rows."""
        device = mass.device
        streams = Streams.of(self._seeds[:1], Purpose.POOL, device, torch.float64, portable=True)
        order, (level, place) = streams.permutations(n_draws)[0], streams.uniform(2, n_draws)[0]
        levels = ((order + level) / n_draws).expand(len(mass), -1).contiguous()
        chosen = torch.searchsorted(mass.cumsum(-1), levels).clamp_max(mass.shape[-1] - 1).unsqueeze(-1)
        middle, own = (values.take_along_dim(chosen, dim=1) for values in (zeta, width))
        drawn: Tensor = middle + (place[:, None] - 0.5) * own
        return drawn.transpose(0, 1)


@torch.no_grad()
def moments_given_x(inputs: ZetaPosterior, n_draws: int, seeds: Sequence[SeedSequence]) -> ZetaMoments:
    """The same where no label is known: mean and covariance in closed form, and draws that have them.

    Args:
        inputs: the posterior of zeta given x, `rows x n_x`, in the units of X and in float64.
        n_draws: 2 at least.
        seeds: of the networks; the first one serves.

    Returns:
        The moments. Those of a posterior of the user's own are those of its draws.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> zeta = ZetaNormal(torch.zeros(7, 1).double(), torch.full((1, 1), 0.1).double())
        >>> moments_given_x(zeta, 50, SeedSequence(0).spawn(1)).covariance[0]
        tensor([[0.0100]], dtype=torch.float64)

    """
    n_base, (n_rows, n_features) = inputs.n_base, inputs.mean.shape
    streams = Streams.of(seeds[:1], Purpose.PREDICT_ZETA, inputs.mean.device, torch.float64, portable=True)
    noise = ZetaDraws("stratified", n_draws, n_base, tuple(range(n_base))).base(streams, 1)[0]
    if inputs.matchable:
        own = matched_noise(noise[..., :n_features])
        noise = torch.cat([own, noise[..., n_features:]], dim=-1)
    draws = matched_zetas(inputs, noise).squeeze(1).transpose(0, 1)
    ess = draws.new_full((n_rows,), float(n_draws))
    if inputs.matchable:
        return ZetaMoments(inputs.mean, inputs.covariance.expand(n_rows, -1, -1), draws, ess)
    gaps = (draws - draws.mean(0)).transpose(0, 1)
    return ZetaMoments(draws.mean(0), gaps.mT @ gaps / (n_draws - 1), draws, ess)


def _axes(inputs: ZetaPosterior) -> _Lines:
    """The line of each row along the only feature that has an error, or along its only number."""
    n_rows, n_base = len(inputs.mean), inputs.n_base
    std = inputs.std.expand(n_rows, -1) if is_ours(inputs) else inputs.std.new_ones(n_rows, 1)
    start = std.new_zeros(n_rows, 1, n_base)
    direction = start.scatter(-1, std.argmax(-1)[:, None, None], 1.0)
    return _Lines(start, direction, std.new_zeros(n_rows, 1))


def _across(vectors: Tensor, direction: Tensor) -> Tensor:
    """The part of vectors that is at right angles to `direction`."""
    return vectors - (vectors * direction).sum(-1, keepdim=True) * direction


def between(values: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Values at nodes as values in the middle of cells, straight between nodes, and their change within each.

    Examples:
        >>> between(torch.tensor([0.0, 1.0]), dim=0)
        (tensor([0.2500, 0.7500]), tensor([0.5000, 0.5000]))

    """
    left = values.narrow(dim, 0, values.shape[dim] - 1)
    change = (values.narrow(dim, 1, left.shape[dim]) - left) / _CELLS
    middle = torch.stack([left + (i + 0.5) * change for i in range(_CELLS)], dim=dim + 1)
    return middle.flatten(dim, dim + 1), change.repeat_interleave(_CELLS, dim)


def _edges(nodes: Tensor) -> Tensor:
    """The ends of all cells between `nodes`, `... x T`: `... x (C + 1)`."""
    middle, width = between(nodes, dim=nodes.ndim - 1)
    return torch.cat([middle - 0.5 * width, nodes[..., -1:]], dim=-1)


def _quantiles(nodes: Tensor, log_mass: Tensor) -> Tensor:
    """Quantiles of the distribution over the cells between `nodes`, `rows x L x T`: `rows x L x _NODES`."""
    edges, share = _edges(nodes), log_mass.softmax(-1)
    reached = torch.nn.functional.pad(share.cumsum(-1), (1, 0))
    scores = torch.linspace(-_TAIL, _TAIL, _NODES, dtype=nodes.dtype, device=nodes.device)  # no cell has a long tail
    levels = torch.special.ndtr(scores).expand(*nodes.shape[:-1], -1).contiguous()
    cell = (torch.searchsorted(reached, levels) - 1).clamp(0, share.shape[-1] - 1)
    part = (levels - reached.gather(-1, cell)) / share.gather(-1, cell)
    return torch.lerp(edges.gather(-1, cell), edges.gather(-1, cell + 1), part.clamp(0, 1))
