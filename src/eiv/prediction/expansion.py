"""Moments of networks of cosines by an expansion about the mean of zeta, without draws or nodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from eiv.engine import memory
from eiv.engine.cosines import CosineStack
from eiv.engine.pooling import pooled
from eiv.engine.workers import run_tasks
from eiv.inputs.zeta import ZetaMixture, ZetaNormal, ZetaPosterior, is_ours
from eiv.posteriors import LastLayerLaplace, WeightPosterior
from eiv.posteriors.directions import Directions
from eiv.prediction.decomposition import Moments

__all__ = ["Expanded", "Expansion"]

_SAME = 0.01  # relative difference of variances that is left out of J C J^T
_ORDERS = {1: [(2, 2), (6, 6)], 2: [(2, 1), (4, 3)], 3: [(2, 1), (2, 2), (4, 3)]}  # by features
_OF_MANY = [(2, 1), (2, 2)]  # of up to nine features; a quadratic of ten has as many coefficients as there are nodes
_MOST_NOISY = 9
_OF_MEAN = 1e-3  # the share of Var f over zeta beyond the orders taken, up to which a row is expanded
_OF_VARIANCE = 0.015  # the same of Var f over theta, where it is estimated and added
_OF_NORMAL = 0.5  # the tail of that as a share of the tail for a normal spectrum, in trials 0.1 to 1.1
_BEYOND_REACH = 20  # times `_OF_MEAN`: further orders do not help
_NON_NORMAL = 0.02  # the part of a standard deviation that may be due to terms that take zeta for normal
_PEAKS = 0.5  # the excess of a mixture whose components can be much narrower than all of it
_LEAST_SHARE = 1e-8  # of a component that is not left out
_TAIL = 16  # terms of the estimate; the last is less than a thousandth of the first where a row is expanded


class Orders(NamedTuple):
    """The orders to which f and the slopes of f in the weights are expanded; 2 and 1 at least."""

    of_mean: int
    of_variance: int


class Expanded(NamedTuple):
    """The moments of some rows, `rows x n_y`, as in `Moments`, and which rows they are good for, `rows`.

    Attributes:
        mean, epistemic, aleatoric: those of f.
        holds: whether they are near enough to the truth.
        further: whether further orders may help the others.
        apart: whether components by themselves may.

    Examples:
        >>> Expanded.nothing(3, 1, torch.zeros(())).holds
        tensor([False, False, False])

    """

    mean: Tensor
    epistemic: Tensor
    aleatoric: Tensor
    holds: Tensor
    further: Tensor
    apart: Tensor

    @classmethod
    def nothing(cls, n_rows: int, n_y: int, like: Tensor) -> Expanded:
        """Moments that hold nowhere."""
        no = torch.zeros(3, n_rows, dtype=torch.bool, device=like.device)
        return cls(*like.new_full((3, n_rows, n_y), torch.nan), *no)

    def put(self, rows: Tensor, found: Expanded) -> None:
        """Set some rows to what was found for them."""
        for whole, part in zip(self, found, strict=True):
            whole[rows] = part

    def instead_of(self, moments: Moments) -> Moments:
        """These moments where they hold, others in the other rows."""
        ours, holds = Moments(self.mean, self.epistemic, self.aleatoric), self.holds.unsqueeze(1)
        names = ("mean", "epistemic", "aleatoric")
        return Moments(*(torch.where(holds, getattr(ours, name), getattr(moments, name)) for name in names))


class _Inputs(NamedTuple):
    """The posterior of zeta for some rows, in the n features that have an error, and in all of them.

    Attributes:
        mean: `rows x n_x`.
        covariance: P, `rows x n x n`.
        shares: w, `rows x C`.
        gaps: of the components' means from that of all, `rows x C x n`.
        within: the covariances of the components, `rows x C x n x n`, where rows may be 1.
        noisy: the n features.

    """

    mean: Tensor
    covariance: Tensor
    shares: Tensor
    gaps: Tensor
    within: Tensor
    noisy: list[int]

    @classmethod
    def of(cls, inputs: ZetaNormal | ZetaMixture, rows: Tensor, noisy: Sequence[int]) -> _Inputs:
        """Those of some rows of a posterior, whose errors are in the features `noisy`."""
        mixture, chosen = inputs.as_mixture(), list(noisy)

        def own(values: Tensor) -> Tensor:
            return values if len(values) == 1 else values[rows]

        scales, covariance = own(mixture.scales), own(mixture.covariance)[:, chosen][..., chosen]
        if scales.ndim == mixture.means.ndim:
            within = scales[..., chosen].square().diag_embed()
        else:
            within = scales[..., chosen, :] @ scales[..., chosen, :].mT
        return cls(
            inputs.mean[rows],
            covariance.expand(len(rows), -1, -1),
            own(mixture.log_weights.exp()).expand(len(rows), -1),
            mixture.means[rows][..., chosen] - inputs.mean[rows][:, None, chosen],
            within,
            chosen,
        )

    @property
    def excess(self) -> Tensor:
        r"""How far a mixture is from a normal distribution, by its fourth moment: `rows`.

        .. math:: \sum_c w_c \Big( \sum_j \frac{(m_{cj} - m_j)^2}{P_{jj}} \Big)^2
        """
        variances = self.covariance.diagonal(dim1=1, dim2=2).unsqueeze(1)
        far = torch.where(variances > 0, self.gaps.square() / variances, 0.0).sum(-1)
        return (self.shares * far.square()).sum(-1)

    def components(self) -> tuple[_Inputs, tuple[Tensor, Tensor]]:
        """All components that matter, each as a row of its own; and their rows and places among the components."""
        row, component = (self.shares > _LEAST_SHARE).nonzero(as_tuple=True)
        within = self.within.expand(len(self.mean), *(-1,) * 3)[row, component]
        mean = self.mean.clone().index_select(0, row)
        gaps = self.gaps[row, component]
        mean[:, self.noisy] += gaps
        one = _Inputs(
            mean, within, torch.ones_like(gaps[:, :1]), 0 * gaps.unsqueeze(1), within.unsqueeze(1), self.noisy
        )
        return one, (row, component)

    def rows(self, rows: Tensor) -> _Inputs:
        """Some of the rows."""
        within = self.within if len(self.within) == 1 else self.within[rows]
        return _Inputs(self.mean[rows], self.covariance[rows], self.shares[rows], self.gaps[rows], within, self.noisy)


def _mixture_variance(f: Sequence[Tensor], inputs: _Inputs) -> Tensor:
    r"""Var f over zeta, from the derivatives of f: to the second order over the mixture itself, `rows x n_y`.

    .. math:: f \approx a + d \cdot \delta + \tfrac12 (\delta^T H \delta - \mathrm{tr} HP) + \dots

    Terms beyond are taken over the normal distribution with the mixture's moments.
    """
    first, second = f[1].movedim(-1, 0), f[2].movedim(-1, 0)  # n_y x rows x n (x n)
    gaps, within = inputs.gaps, inputs.within
    slope = first.unsqueeze(-2) + gaps @ second  # n_y x rows x C x n
    moved = second.unsqueeze(-3) @ within
    of_each = ((within @ slope.unsqueeze(-1)).squeeze(-1) * slope).sum(-1) + 0.5 * (moved * moved.mT).sum((-2, -1))
    bent = moved.diagonal(dim1=-2, dim2=-1).sum(-1) - (second * inputs.covariance).sum((-2, -1)).unsqueeze(-1)
    shift = 0.5 * (((slope + first.unsqueeze(-2)) * gaps).sum(-1) + bent)
    of_mixture = (inputs.shares * (of_each + shift.square())).sum(-1).T
    return of_mixture + sum(_squared(part, inputs.covariance, k) for k, part in enumerate(f) if k > 2)


class Expansion:
    r"""Moments of f for networks of cosines with Laplace's approximation of the last layer.

    Over a normal zeta with covariance P the derivatives of f have means in closed form: each cosine of frequency omega
    is damped by :math:`\exp(-t / 2)`, :math:`t = \omega^T P \omega`. With these means

    .. math::
        \mathrm{Var}_\zeta f = \sum_{k \ge 1} \frac{1}{k!} \langle \mathrm{E} \nabla^k f,
        \mathrm{E} \nabla^k f \rangle_P, \qquad
        \mathrm{E}_\zeta\, h^T C h = \sum_{k \ge 0} \frac{1}{k!} \langle \mathrm{E} \nabla^k h,
        C\, \mathrm{E} \nabla^k h \rangle_P

    Over a mixture, the first sum is corrected to the second order. What it leaves out is known on average over the
    phases of the cosines; the tail of the second sum is extrapolated as for a normal spectrum. A row is done where
    both are small. The others are expanded further, and in the end left to other rules.

    Args:
        posterior: q_phi of S networks, in float64.
        pool: `S`, the share of each network, which add up to one; None where all are equal.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.engine.streams import Streams
        >>> from eiv.inputs import Rows
        >>> from eiv.likelihoods import NormalLikelihood
        >>> from eiv.networks import CosineNetwork, NetworkStack
        >>> from eiv.networks.fast import fast_stack
        >>> seeds, cpu = SeedSequence(0).spawn(1), torch.device("cpu")
        >>> stack = NetworkStack(lambda: CosineNetwork(1, 1, 16), 1, 1, seeds, cpu, torch.float64)
        >>> q = LastLayerLaplace(fast_stack(stack), weight_penalty=0.5)
        >>> x = torch.linspace(-1, 1, 40, dtype=torch.float64).view(1, 40, 1)
        >>> rows, noise = Rows(ZetaNormal(x, 0 * x), 2 * x), torch.full((1, 1), 0.1, dtype=torch.float64)
        >>> q.finish(rows, NormalLikelihood(noise), None, Streams(seeds, cpu))
        >>> Expansion(q, None).moments(ZetaNormal(x[0], 0.1 + 0 * x[0])).mean.shape
        torch.Size([40, 1])

    """

    def __init__(self, posterior: LastLayerLaplace, pool: Tensor | None) -> None:
        self.posterior, self.pool = posterior, pool
        self._directions = posterior.directions_of_covariance().within(_SAME)
        self._known: dict[tuple[tuple[int, ...], Orders], list[_Network]] = {}

    @staticmethod
    def suits(posterior: WeightPosterior) -> TypeGuard[LastLayerLaplace]:
        """Whether f is a network of cosines that is linear in the weights that vary."""
        cosines = type(posterior) is LastLayerLaplace and isinstance(posterior.stack, CosineStack)
        return cosines and posterior.in_closed_form

    @torch.no_grad()
    def moments(self, inputs: ZetaPosterior) -> Expanded:
        """The moments for `inputs`, `rows x n_x`."""
        n_rows = len(inputs.mean)
        found = Expanded.nothing(n_rows, self.posterior.stack.n_outputs, inputs.mean)
        if not isinstance(inputs, ZetaNormal | ZetaMixture) or not is_ours(inputs):
            return found
        own = (inputs.std > 0).expand(n_rows, -1)
        for pattern in own.unique(dim=0):  # of features with an error: a row is expanded as if it were alone
            noisy = tuple(pattern.nonzero().flatten().tolist())
            if 0 < len(noisy) <= _MOST_NOISY:
                rows = (own == pattern).all(1).nonzero().flatten()
                found.put(rows, self._whole(_Inputs.of(inputs, rows, noisy), noisy))
        return found

    def _whole(self, inputs: _Inputs, noisy: tuple[int, ...]) -> Expanded:
        """The moments about the mean of zeta, and about those of the components where that is not enough."""
        found = self._expand(inputs, noisy)
        left = (found.apart & ~found.holds).nonzero().flatten()
        if len(left) and inputs.shares.shape[1] > 1:
            rows = inputs.rows(left)
            parts, (row, component) = rows.components()
            more, shares = self._expand(parts, noisy), rows.shares[row, component].unsqueeze(1)

            def summed(values: Tensor) -> Tensor:
                return torch.zeros_like(found.mean[left]).index_add_(0, row, shares * values)

            of_all = summed(torch.ones_like(more.mean))
            mean = summed(more.mean) / of_all
            between = (more.mean - mean[row]).square()
            holds = torch.ones_like(found.holds[left]).index_fill_(0, row[~more.holds], value=False)
            epistemic, aleatoric = (summed(part) / of_all for part in (more.epistemic, more.aleatoric + between))
            found.put(left, Expanded(mean, epistemic, aleatoric, holds, holds, holds))
        return found

    def _expand(self, inputs: _Inputs, noisy: tuple[int, ...]) -> Expanded:
        """The moments about the mean of zeta, to as many orders as it takes."""
        n_rows, n_y = len(inputs.mean), self.posterior.stack.n_outputs
        found, sequence = Expanded.nothing(n_rows, n_y, inputs.mean), _ORDERS.get(len(noisy), _OF_MANY)
        size = max(1, memory.COSINES_AT_ONCE // len(self.posterior.stack.parameters["frequencies.weight"][0]))
        blocks = torch.arange(n_rows, device=inputs.mean.device).split(size)
        first = self._networks(noisy, Orders(*sequence[0]))
        looks = [partial(self._within_reach, first, inputs.rows(some)) for some in blocks]
        within_reach = torch.cat([*run_tasks(looks, inputs.mean.device), found.holds[:0]])
        found.apart.copy_(inputs.excess > _PEAKS)
        left = within_reach.nonzero().flatten()
        for orders in sequence:
            if not len(left):
                break
            networks = self._networks(noisy, Orders(*orders))
            tasks = [partial(self._block, networks, inputs.rows(some)) for some in left.split(size)]
            parts = zip(*run_tasks(tasks, inputs.mean.device), strict=True)
            more = Expanded(*(torch.cat(same) for same in parts))
            found.put(left, more)
            left = left[more.further & ~more.holds]
        return found

    def _networks(self, noisy: tuple[int, ...], orders: Orders) -> list[_Network]:
        """All networks for errors in some features."""
        if (noisy, orders) not in self._known:
            places = range(self.posterior.stack.n_networks)
            self._known[noisy, orders] = [
                _Network.of(self.posterior, self._directions, s, list(noisy), orders) for s in places
            ]
        return self._known[noisy, orders]

    @torch.no_grad()
    def _within_reach(self, networks: Sequence[_Network], inputs: _Inputs) -> Tensor:
        """Which rows have little beyond the second order, so that further orders may help: `rows`."""
        found = [network.over_phases(inputs, network.damping(inputs), order=2) for network in networks]
        rest, _, total = (pooled(torch.stack(same), self.pool) for same in zip(*found, strict=True))
        return (rest <= _BEYOND_REACH * _OF_MEAN * total).all(1)

    @torch.no_grad()
    def _block(self, networks: Sequence[_Network], inputs: _Inputs) -> Expanded:
        """The moments of some rows."""
        found = [network.expanded(inputs) for network in networks]
        own = [torch.stack(same) for same in zip(*(each.f for each in found), strict=True)]  # S x rows x n^k x n_y
        f = [pooled(part, self.pool) for part in own]
        apart = [
            _squared((part - mean).movedim(0, -1), inputs.covariance, k)
            for k, (part, mean) in enumerate(zip(own, f, strict=True))
        ]
        between = pooled(torch.stack(apart).sum(0).movedim(-1, 0), self.pool)
        terms, rest, cubic, total = (
            pooled(torch.stack([getattr(each, name) for each in found]), self.pool)
            for name in ("terms", "rest", "cubic", "total")
        )
        tail = _OF_NORMAL * _tail(terms, inputs.gaps.shape[-1])
        within = terms.sum(0) + tail
        excess = inputs.excess.unsqueeze(1)
        further = excess * (cubic / total).sqrt() <= _NON_NORMAL
        holds = further & (rest <= _OF_MEAN * total) & (tail <= _OF_VARIANCE * within)
        holds &= excess * (terms[2:].sum(0) + tail) <= _NON_NORMAL * within
        good = [each.all(1) for each in (holds, further, torch.ones_like(holds))]
        return Expanded(f[0], within + between, _mixture_variance(f, inputs), *good)


class _OfNetwork(NamedTuple):
    """What one network makes of some rows.

    Attributes:
        f: the derivatives of E f over theta, averaged over zeta; those of order k are `rows x n^k x n_y`.
        terms: the mean over zeta of Var f over theta, order by order, `orders x rows x n_y`.
        rest: the part of Var f over zeta that is beyond the orders taken, by its mean over phases, `rows x n_y`.
        cubic: the part beyond the second order.
        total: all of it, likewise.

    """

    f: list[Tensor]
    terms: Tensor
    rest: Tensor
    cubic: Tensor
    total: Tensor


class _Network(NamedTuple):
    r"""One network of F cosines and sines, as functionals of their damped values and of zeta.

    Attributes:
        frequencies: :math:`\Omega`, `F x n_x`.
        squares: the products of two frequencies, for :math:`\omega^T P \omega`: `n n x F`.
        weights: of f and of its derivatives, one order beside the other, `2 F x c n_y` for c derivatives; and the same
            for the directions of C, `2 F x c n_y r`.
        widths: the numbers of columns of each order.
        slopes: the weights of zeta in f, `n_x x n_y`, and in the directions, `n_x x n_y r`.
        biases: `n_y`, and `n_y r`.
        excess: of the directions, `r`.
        common: c.
        scales: those of cosines and sines, `2 x F`, and of zeta, `n_x`, squared.
        sizes: the squared size of each wave of f, `F x n_y`.
        noisy: the features that have an error.

    """

    frequencies: Tensor
    squares: Tensor
    weights: tuple[Tensor, ...]
    widths: tuple[list[int], ...]
    slopes: tuple[Tensor, Tensor]
    biases: tuple[Tensor, Tensor]
    excess: Tensor
    common: Tensor
    scales: tuple[Tensor, Tensor]
    sizes: Tensor
    noisy: list[int]

    @classmethod
    def of(
        cls, posterior: LastLayerLaplace, directions: Directions, s: int, noisy: list[int], orders: Orders
    ) -> _Network:
        """Network s and the directions of its C."""
        stack = posterior.stack
        omega, scales, head, bias = (
            stack.parameters[name][s].detach() for name in ("frequencies.weight", "scales", "head.weight", "head.bias")
        )
        n_waves, (n_y, n_h) = len(omega), head.shape
        of_noisy = omega[:, noisy]
        vectors = directions.vectors[s].unflatten(0, (n_y, n_h + 1))  # n_y x (h + 1) x r
        weights = [scales.unsqueeze(1) * part for part in (head.unsqueeze(2), vectors[:, :-1])]
        waves = [part[:, : 2 * n_waves].unflatten(1, (2, -1)).permute(1, 2, 0, 3) for part in weights]
        derived = [_derived(part, of_noisy, order) for part, order in zip(waves, orders, strict=True)]
        squared = scales.square()
        return cls(
            omega,
            (of_noisy.unsqueeze(2) * of_noisy.unsqueeze(1)).flatten(1).T.contiguous(),
            tuple(torch.cat(each, dim=1) for each in derived),
            tuple([part.shape[1] for part in each] for each in derived),
            (weights[0][:, 2 * n_waves :, 0].T, weights[1][:, 2 * n_waves :].permute(1, 0, 2).flatten(1)),
            (bias, vectors[:, -1].flatten()),
            directions.excess[s],
            directions.common[s],
            (squared[: 2 * n_waves], squared[2 * n_waves :]),
            waves[0].square().sum((0, 3)),
            noisy,
        )

    def expanded(self, inputs: _Inputs) -> _OfNetwork:
        """What the network makes of some rows."""
        covariance, n_y = inputs.covariance, self.sizes.shape[1]
        t, damping = self.damping(inputs)
        phases = inputs.mean @ self.frequencies.T
        waves = phases.new_empty(len(t), 2, len(self.frequencies))
        torch.mul(phases.cos(), damping, out=waves[:, 0])
        torch.mul(phases.sin_(), damping, out=waves[:, 1])
        f, along = (self._derivatives(waves.flatten(1), inputs, part) for part in (0, 1))
        powers = waves.square_(), waves.flip(1)
        terms = [
            (_squared(part, covariance, k).unflatten(1, (n_y, -1)) @ self.excess)
            + (self.common * self._square(powers[k % 2], t, inputs, k)).unsqueeze(1)
            for k, part in enumerate(along)
        ]
        rest, cubic, total = self.over_phases(inputs, (t, damping), order=len(f) - 1)
        return _OfNetwork(f, torch.stack(terms), rest, cubic, total)

    def damping(self, inputs: _Inputs) -> tuple[Tensor, Tensor]:
        r"""The numbers :math:`t = \omega^T P \omega`, and what the waves are damped by, `rows x F` both."""
        t = inputs.covariance.flatten(1) @ self.squares
        return t, (-0.5 * t).exp()

    def over_phases(self, inputs: _Inputs, damping: tuple[Tensor, Tensor], order: int) -> tuple[Tensor, Tensor, Tensor]:
        """Var f over zeta by its mean over phases: beyond an order, beyond the second one, and all: `rows x n_y`."""
        (t, factor), covariance = damping, inputs.covariance
        straight = _squared(self.slopes[0][self.noisy].expand(len(t), -1, -1), covariance, 1)
        left = factor.square()  # exp(-t)
        cubic = 0.5 * (1 - left * _exponential(t, 2)) @ self.sizes
        rest = cubic if order == 2 else 0.5 * (1 - left * _exponential(t, order)) @ self.sizes
        return rest, cubic, 0.5 * ((1 - left) @ self.sizes) + straight

    def _derivatives(self, waves: Tensor, inputs: _Inputs, part: int) -> list[Tensor]:
        """Derivatives of f (part 0), or of the directions of C (1), averaged over zeta: `rows x n^k x m` each."""
        weights, n = self.weights[part], len(self.noisy)
        found = list((waves @ weights).split(self.widths[part], dim=1))
        found[0] = found[0] + inputs.mean @ self.slopes[part] + self.biases[part]
        found[1] = found[1] + self.slopes[part][self.noisy].flatten()
        return [_full(values, n, k, self.widths[part][0]) for k, values in enumerate(found)]

    def _square(self, power: Tensor, t: Tensor, inputs: _Inputs, k: int) -> Tensor:
        """The square of the slopes of f in the weights after k derivatives, over k!, for squared waves: `rows`."""
        of_waves, of_zeta = self.scales
        if k == 0:
            return power.flatten(1) @ of_waves + inputs.mean.square() @ of_zeta + 1
        found = (power * (t**k / math.factorial(k)).unsqueeze(1)).flatten(1) @ of_waves
        if k == 1:
            found = found + inputs.covariance.diagonal(dim1=1, dim2=2) @ of_zeta[self.noisy]
        return found


def _derived(waves: Tensor, frequencies: Tensor, order: int) -> list[Tensor]:
    """Weights of cosines and sines, `2 x F x n_y x m`, after derivatives of each order: `2 F x c n_y m` each.

    There are c derivatives in different features, `frequencies` of which are `F x n`.
    """
    found = []
    for k in range(order + 1):
        some = [
            (frequencies[:, chosen].prod(1).view(-1, 1, 1) * waves).flatten(0, 1).flatten(1)
            for chosen in map(list, itertools.combinations_with_replacement(range(frequencies.shape[1]), k))
        ]
        found.append(torch.cat(some, dim=1))
        waves = torch.stack([waves[1], -waves[0]])
    return found


def _full(values: Tensor, n: int, k: int, m: int) -> Tensor:
    """Derivatives in all orders of features, `rows x n^k x m`, of those in different features, `rows x c m`."""
    places = {chosen: i for i, chosen in enumerate(itertools.combinations_with_replacement(range(n), k))}
    order = [places[tuple(sorted(chosen))] for chosen in itertools.product(range(n), repeat=k)]
    found = values.unflatten(1, (-1, m))
    return (found if len(order) == len(places) else found[:, order]).unflatten(1, (n,) * k) if k else values


def _squared(values: Tensor, covariance: Tensor, k: int) -> Tensor:
    r"""Squares :math:`\langle D, D \rangle_P / k!` of derivatives `rows x n^k x ...`: `rows x ...`."""
    if not k:
        return values.square()
    moved = values
    for axis in range(1, k + 1):
        front = moved.movedim(axis, 1)
        moved = (covariance @ front.flatten(2)).view(front.shape).movedim(1, axis)
    return (moved * values).flatten(1, k).sum(1) / math.factorial(k)


def _exponential(t: Tensor, order: int) -> Tensor:
    """The exponential series to some order."""
    found = torch.ones_like(t)
    for k in range(order, 0, -1):
        found = 1 + t / k * found
    return found


def _tail(terms: Tensor, n: int) -> Tensor:
    r"""What follows the last of some terms, `orders x ...`, as it would for n frequencies that are normal.

    .. math:: \frac{T_{k+1}}{T_k} = \frac{n / 2 + k}{k + 1} \rho, \qquad \rho < 1
    """
    last, before = len(terms) - 1, terms[-2]
    rho = (terms[-1] / before * (last / (0.5 * n + last - 1))).nan_to_num(0.0).clamp(0.0, 0.9)
    term, found = terms[-1], torch.zeros_like(before)
    for k in range(last, last + _TAIL):
        term = term * rho * ((0.5 * n + k) / (k + 1))
        found = found + term
    return found
