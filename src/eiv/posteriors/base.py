"""The base class of weight posteriors: the paper's three requirements on q_phi, and code that families share."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from eiv.engine.pooling import beside
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods import Likelihood
from eiv.networks import NetworkStack
from eiv.posteriors.exported import OnnxGraph, OnnxTheta

__all__ = ["PointPosterior", "Theta", "ThetaVariance", "WeightDraw", "WeightPosterior"]

WeightDraw = dict[str, Tensor]
"""The random numbers behind D draws of theta for each of S networks: `{name: S x D x shape}`."""


class Theta(NamedTuple):
    """The weights of drawn networks: f with weights theta is the stack with these masks and parameters.

    Attributes:
        masks: of the dropout layers, by name: `S x D x shape`, or `S x 1 x shape` where all draws share them.
        parameters: of the stack, by name: `S x shape`, or `S D x shape` where every draw has its own. The masks are
            then `S D x 1 x shape`.

    Examples:
        >>> Theta(masks={}, parameters={"0.weight": torch.zeros(2, 1, 1)}).parameters["0.weight"].shape
        torch.Size([2, 1, 1])

    """

    masks: dict[str, Tensor]
    parameters: dict[str, Tensor]


class ThetaVariance(NamedTuple):
    r"""The variance of f over theta at given zetas in closed form, and the deviations of single draws from the mean.

    .. math:: \mathrm{Var}_\theta f_\theta(\zeta), \qquad f_{\theta_d}(\zeta) - \mathrm{E}_\theta f_\theta(\zeta)

    Attributes:
        variance: at R zetas, `S x R x n_y`.
        moves: f under each draw of the weights minus the mean, `S x D x R x n_y`; None without draws.

    Examples:
        >>> ThetaVariance(variance=torch.ones(2, 40, 1)).moves is None
        True

    """

    variance: Tensor
    moves: Tensor | None = None


class WeightPosterior(ABC):
    r"""A family q_phi that approximates the posterior of the weights, eq. (idea_var_inf).

    .. math:: \pi(\theta | \mathcal{D}, \sigma^2) \approx q_\phi(\theta)

    The paper has three requirements, and a family of your own has to define a method for each: it can be sampled
    (`draw`), gradients with respect to phi pass through a draw (`theta`), and its divergence from the prior is known
    (`kl`). A family may learn more than the networks' parameters (`learned`) and keep other tensors (`kept`). It may
    act before training (`begin`), after every epoch (`observe`) and after training (`finish`). The parameters of the
    stack and `state` describe it in full. To restore a posterior, build one of the same family, load the stack's
    parameters, then call `load_state`.

    Args:
        stack: the S networks.
        weight_penalty: 1 / (2 lambda_theta^2), a number or one per network, `S`.

    Attributes:
        learned: `{name: S x shape}`, tensors that training moves in addition to the parameters of the networks.
        kept: `{name: S x shape}`, all other tensors that describe the posterior.
        shares_draws: True where the rows of a minibatch share one theta, because one theta per row would cost too
            much; else every row has its own. The zetas of a row share one theta in either case.
        trains_a_point: whether theta is a point during training, and varies only after it.
        depends_on_noise: whether the covariance of theta depends on sigma_y; `finish` may then be called again for
            another sigma_y.
        signed_masks: whether masks may be negative.
        by_hand: whether hand-written passes evaluate its draws in training. They can where a draw is a set of masks, or
            one theta for all rows. Other families use autograd. `weight_decay` makes them faster.
        matched_parts: the parts of a draw that are standard normal numbers, so few that predictions can match their
            covariance: `eiv.prediction.matching.matched_noise`.
        fewest_networks: the number of networks that a model needs for its weights to vary.

    A family with the mean and variance of f over theta in closed form computes them in `mean` and `theta_variance`, and
    returns True from `in_closed_form`. Its predictions then have no Monte Carlo error from the weights. A family that
    can be exported to ONNX says in `onnx_theta` how theta comes from noise.

    A family is passed as a class, or, where it has parameters of its own, as an object that is made from these alone:
    `EiVRegressor(posterior=Own(rate=0.2))`. Of that object `start` makes the posterior that is trained.

    Examples:
        >>> from eiv.posteriors import FAMILIES
        >>> sorted(FAMILIES["bernoulli_dropout"].__abstractmethods__), sorted(WeightPosterior.__abstractmethods__)
        ([], ['draw', 'kl', 'theta'])

    """

    shares_draws = False
    trains_a_point = False
    depends_on_noise = False
    signed_masks = False
    by_hand = False
    matched_parts: ClassVar[tuple[str, ...]] = ()
    fewest_networks = 1

    def __init__(self, stack: NetworkStack, weight_penalty: float | Tensor) -> None:
        self.stack, self.weight_penalty = stack, weight_penalty
        self.learned: dict[str, Tensor] = {}
        self.kept: dict[str, Tensor] = {}

    def start(self, stack: NetworkStack, weight_penalty: float | Tensor) -> Self:
        """The posterior of some networks that training begins with, for an object made from its own parameters alone.

        A family that learns more than the networks' parameters extends this method, and adds to `learned` here.
        """
        started = copy.copy(self)
        WeightPosterior.__init__(started, stack, weight_penalty)
        return started

    @property
    def penalties(self) -> Tensor:
        """The weight penalty of each network, `S`, in float64."""
        given, like = self.weight_penalty, next(iter(self.stack.parameters.values()))
        return torch.as_tensor(given, dtype=torch.float64, device=like.device).expand(len(like))

    def penalty_beside(self, values: Tensor) -> float | Tensor:
        """The weight penalty in a shape that multiplies values `S x ...`: one number, or one per network."""
        return beside(self.weight_penalty, values) if isinstance(self.weight_penalty, Tensor) else self.weight_penalty

    @property
    def parameters(self) -> Sequence[Tensor]:
        """Phi: the parameters of the stacked networks, then the tensors in `learned`."""
        return [*self.stack.parameters.values(), *self.learned.values()]

    @property
    def state(self) -> dict[str, Tensor]:
        """All tensors that describe the posterior, except those of the stack, by their names, each `S x shape`."""
        return {name: value.detach() for name, value in (self.learned | self.kept).items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Copy the `state` of another posterior of this family, to the device and dtype of this one."""
        if missing := self.learned.keys() - state.keys():
            raise ValueError(f"state lacks {sorted(missing)}; it holds {sorted(state)}.")
        shapes = {name: tuple(value.shape) for name, value in state.items()}
        wanted = {name: tuple(value.shape) for name, value in self.learned.items()}
        if shapes.keys() != wanted.keys():  # else it is a state before training
            wanted |= self.kept_shapes(shapes)
        if shapes != wanted:
            raise ValueError(f"state holds {shapes}, not {wanted}.")
        like = next(iter(self.stack.parameters.values()))
        own = {name: value.detach().to(like.device, like.dtype, copy=True) for name, value in state.items()}
        self.learned = {name: own.pop(name).requires_grad_(True) for name in self.learned}
        self.kept = own

    def kept_shapes(self, found: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The shapes that `kept` must have after training; `found` are those of a given state, for sizes that vary."""
        return {}

    @abstractmethod
    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw theta `n_draws` times for each network, from its own stream."""

    @abstractmethod
    def theta(self, draw: WeightDraw) -> Theta:
        """The masks and parameters of draws, with gradients to phi."""

    @abstractmethod
    def kl(self) -> Tensor:
        """The divergence of q_phi from the prior N(0, lambda_theta^2), up to a constant: `S`."""

    def evaluate(self, draw: WeightDraw, zeta: Tensor) -> Tensor:
        """Compute f_theta(zeta): `S x D x R x n_x` to `S x D x R x n_y`; draw d serves the R inputs `zeta[:, d]`."""
        masks, parameters = self.theta(draw)
        if parameters is self.stack.parameters:
            return self.stack(masks, zeta)
        stack, n_networks = self.stack.with_parameters(parameters), len(zeta)
        if stack.n_networks == n_networks:  # one theta per network serves all inputs
            return stack(masks, zeta)
        f = stack(masks, zeta.flatten(0, 1).unsqueeze(1))
        grouped: Tensor = f.squeeze(1).unflatten(0, (n_networks, -1))
        return grouped

    def evaluate_rows(self, streams: Streams, zeta: Tensor, theta_axis: int, as_trained: bool = False) -> Tensor:
        r"""Evaluate f under K thetas for each of B rows with L zetas.

        Each row has thetas of its own, unless the family shares them between rows (`shares_draws`).

        .. math:: f_{\theta_{bk}}(\zeta_{bkl}) \quad \text{or} \quad f_{\theta_k}(\zeta_{bkl})

        Args:
            streams: the random streams that thetas are drawn from.
            zeta: `S x B x K x L x n_x`, or `S x K x B x L x n_x`.
            theta_axis: the axis of K, 2 or 1.
            as_trained: whether families that train a point (`trains_a_point`) are evaluated at that point.

        Returns:
            f, with the axes of `zeta`, and n_y in the place of n_x.

        """
        draw = self.draw_as_in_training if as_trained else self.draw
        if not self.shares_draws:
            f = self.evaluate(draw(streams, zeta.shape[1] * zeta.shape[2]), zeta.flatten(1, 2))
            own: Tensor = f.unflatten(1, zeta.shape[1:3])
            return own
        by_theta = zeta.movedim(theta_axis, 1)  # S x K x B x L x n_x
        f = self.evaluate(draw(streams, by_theta.shape[1]), by_theta.flatten(2, 3))
        shared: Tensor = f.unflatten(2, by_theta.shape[2:4]).movedim(1, theta_axis)
        return shared

    def draw_as_in_training(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw theta `n_draws` times; an empty draw where theta is a point in training."""
        return {} if self.trains_a_point else self.draw(streams, n_draws)

    @property
    def in_closed_form(self) -> bool:
        """Whether `mean` and `theta_variance` are known, for instance because f is linear in the weights that vary."""
        return False

    def mean(self, zeta: Tensor) -> Tensor:
        """E f over theta at `zeta`, `S x R x n_x`, where it is known in closed form: `S x R x n_y`."""
        raise NotImplementedError(f"{type(self).__name__} knows no mean over theta in closed form.")

    def theta_variance(self, zeta: Tensor, draw: WeightDraw | None = None) -> ThetaVariance:
        """Var f over theta at `zeta`, `S x R x n_x`, in closed form, and f under each draw minus the mean of f."""
        raise NotImplementedError(f"{type(self).__name__} knows no variance over theta in closed form.")

    @classmethod
    def exports_onnx(cls) -> bool:
        """Whether this very class defines `onnx_theta`; a class derived from it may draw theta in another way."""
        return "onnx_theta" in vars(cls)

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """Theta in an ONNX graph, where `parameters` are those of the stack, by name: `shape`.

        A family whose draws are masks alone returns `OnnxTheta(parameters, masks={...})`, and says there how to draw
        them. Other random numbers come from `graph.noise`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define onnx_theta: how theta comes from noise.")

    def in_double(self) -> Self:
        """The same posterior in float64, where its networks can be converted (see `NetworkStack.in_double`)."""
        changed = copy.copy(self)
        changed.stack = self.stack.in_double()
        if changed.stack is self.stack:
            return self
        changed.learned = {name: value.detach().double() for name, value in self.learned.items()}
        changed.kept = {name: value.double() for name, value in self.kept.items()}
        return changed

    @property
    def weight_decay(self) -> float | Tensor | None:
        """The number c with `kl() = c / 2 * squares() + kl_beside_decay()`; None where no such number is stated.

        It has the shape `S` where networks differ. With `anchors`, squares are those of the distances from them. Only
        hand-written steps (`by_hand`) use it: without it autograd differentiates all of `kl`. Training refuses a
        statement that does not agree with `kl`.
        """
        return None

    @property
    def anchors(self) -> list[Tensor]:
        """The values that the networks' parameters decay to, one `S x shape` per parameter; empty if they are zero."""
        return []

    def kl_beside_decay(self) -> Tensor | None:
        """The remainder of `kl` without the term of `weight_decay`, `S`; None if it is a constant.

        By default, all of `kl` without a `weight_decay`, and nothing with one.
        """
        return self.kl() if self.weight_decay is None else None

    def squares(self) -> Tensor:
        """The sum of squared parameters of each network, `S`."""
        return sum_of_squares(list(self.stack.parameters.values()))

    def begin(self, streams: Streams) -> None:  # noqa: B027  (most families need nothing of the kind)
        """Prepare for training."""

    def observe(self, epoch: int, epochs: int) -> None:  # noqa: B027
        """Called at the end of each epoch, 1 to `epochs`: may record phi."""

    def finish(  # noqa: B027
        self, rows: Rows, likelihood: Likelihood, draws: ZetaDraws | None, streams: Streams
    ) -> None:
        """Called with the training rows at the end of training; `draws` is None for exact inputs."""

    def join(self, others: Sequence[Self]) -> Self:
        """One posterior of this one's networks and those of `others`, in order."""
        joined = copy.copy(self)
        joined.stack = self.stack.join([other.stack for other in others])
        joined.weight_penalty = one_or_each(torch.cat([posterior.penalties for posterior in (self, *others)]))
        for name in ("learned", "kept"):
            states: list[dict[str, Tensor]] = [getattr(posterior, name) for posterior in (self, *others)]
            setattr(joined, name, {key: torch.cat([state[key].detach() for state in states]) for key in states[0]})
        return joined

    def split(self, sizes: Sequence[int]) -> list[Self]:
        """Split the stack into stacks of `sizes` networks."""
        parts: list[Self] = []
        start = 0
        for stack, size in zip(self.stack.split(sizes), sizes, strict=True):
            part, own = copy.copy(self), slice(start, start + size)
            part.stack, part.weight_penalty = stack, one_or_each(self.penalties[own])
            part.learned = {key: value.detach()[own].clone() for key, value in self.learned.items()}
            part.kept = {key: value[own].clone() for key, value in self.kept.items()}
            for value in part.learned.values():
                value.requires_grad_(True)
            parts.append(part)
            start += size
        return parts

    def rates_of_layers(self) -> list[list[float]]:
        """The rates of the dropout layers, the same for each network: `S x layers`."""
        return [[layer.rate for layer in self.stack.dropout_layers]] * self.stack.n_networks

    def no_masks(self, n_each: int = 1) -> dict[str, Tensor]:
        """Masks of ones, which drop nothing, for `n_each` copies of each network: `S n_each x 1 x shape`."""
        like = next(iter(self.stack.parameters.values()))
        n_networks = n_each * len(like)
        return {layer.mask_name: like.new_ones(n_networks, 1, *layer.shape) for layer in self.stack.dropout_layers}

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """The attributes with all tensors on the CPU, as for the stack."""
        if "stack" not in self.__dict__:  # not started yet
            return self.__dict__
        on_cpu = {
            name: {key: value.detach().cpu() for key, value in getattr(self, name).items()}
            for name in ("learned", "kept")
        }
        penalty = self.weight_penalty
        return self.__dict__ | on_cpu | {"weight_penalty": penalty.cpu() if isinstance(penalty, Tensor) else penalty}


class PointPosterior(WeightPosterior):
    r"""A point, the MAP estimate: the base class of families that train a point and make it vary afterwards.

    .. math:: q_\phi(\theta) = \delta(\theta - \phi), \qquad - \log \mathcal{N}(\phi | 0, \lambda_\theta^2) =
              \frac{1}{2 \lambda_\theta^2} |\phi|^2 + \mathrm{const}

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from torch import nn
        >>> stack = NetworkStack(lambda: nn.Linear(3, 1), 3, 1, SeedSequence(0).spawn(2), torch.device("cpu"))
        >>> q = PointPosterior(stack, weight_penalty=10.0)
        >>> q.evaluate({}, torch.zeros(2, 16, 5, 3)).shape
        torch.Size([2, 16, 5, 1])

    """

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """An empty draw: a point needs no random numbers."""
        return {}

    def theta(self, draw: WeightDraw) -> Theta:
        """The parameters as they are."""
        return Theta(self.no_masks(), self.stack.parameters)

    @property
    def weight_decay(self) -> float | Tensor:
        """The gradient of `kl` is this number times phi."""
        return 2 * self.weight_penalty

    def kl(self) -> Tensor:
        """The negative logarithm of the prior at phi, up to a constant: `S`."""
        squares = self.squares()
        return self.penalty_beside(squares) * squares


PACE = 10.0
"""Rates and standard deviations are learned as logarithms divided by this number. Adam moves a number by at most its
step size, and these have further to go than weights."""


def one_or_each(penalties: Tensor) -> float | Tensor:
    """Weight penalties `S`, as one number where all networks have the same."""
    return float(penalties[0]) if bool((penalties == penalties[0]).all()) else penalties


def sum_of_squares(values: Sequence[Tensor]) -> Tensor:
    """The sum of squares over several tensors `S x shape`, for each network: `S`."""
    squares: Tensor = _Squares.apply(*values)  # type: ignore[no-untyped-call]
    return squares


class _Squares(torch.autograd.Function):
    """`sum_of_squares` with a backward pass of fewer operations than autograd's."""

    @staticmethod
    def forward(ctx: Any, *values: Tensor) -> Tensor:
        ctx.save_for_backward(*values)
        flat = [value.flatten(1) for value in values]
        return torch.stack([torch.linalg.vecdot(value, value) for value in flat]).sum(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        twice = 2 * gradient
        return tuple(value * twice.view(-1, *[1] * (value.ndim - 1)) for value in ctx.saved_tensors)


def sum_over_units(stack: NetworkStack, values: Tensor) -> Tensor:
    """The sum over all units of all dropout layers, `S`, of values per unit that each layer shares, `S x layers`."""
    sizes = [math.prod(layer.shape) for layer in stack.dropout_layers]
    return torch.stack([size * own for size, own in zip(sizes, values.unbind(1), strict=True)]).sum(0)


def check_dropout_layers(stack: NetworkStack) -> None:
    """Refuse networks without dropout layers, for the families that need them."""
    if not stack.dropout_layers:
        raise ValueError(
            "module has no dropout layer, so its weights cannot vary and its epistemic uncertainty would be zero. "
            "Add torch.nn.Dropout layers, for instance one after each activation."
        )
