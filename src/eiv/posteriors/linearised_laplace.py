"""Laplace's approximation for all layers, under the likelihood with errors in x, with f linear in the weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods import Likelihood
from eiv.networks import NetworkStack
from eiv.posteriors.exported import OnnxGraph, OnnxTheta
from eiv.posteriors.last_layer_laplace import Features, LastLayerLaplace, onnx_layer

__all__ = ["LinearisedLaplace"]


class LinearisedLaplace(LastLayerLaplace):
    r"""A normal distribution of the weights of all layers about the MAP estimate, with f linearised there.

    .. math::
        f_\theta(\zeta) = f_{\hat\theta}(\zeta) + \nabla_\theta f_{\hat\theta}(\zeta) \cdot (\theta - \hat\theta),
        \qquad
        \theta_l = \hat\theta_l + \frac{1}{\sqrt{M H}} \sum_{k=1}^{M} \delta_{lk}\, u_{lk} v_{lk}^T,
        \qquad (w, \delta) \sim \mathcal{N}\big((\hat w, 0), C\big)

    The weights w of the last layer all vary. The weights :math:`\theta_l` of each of H hidden layers, including its
    bias, vary along M = 64 random directions :math:`u_{lk} v_{lk}^T`, with vectors u and v of standard normal numbers
    that are drawn once per network. Under the prior :math:`\delta \sim \mathcal{N}(0, \lambda_\theta^2)` the variance
    of f from the hidden layers is the mean, over these layers, of the variance that the full prior of one layer gives
    it. It does not grow with the number of layers. C is found as in `LastLayerLaplace`, from the Fisher information of
    the EiV likelihood, and so is the divergence:

    .. math:: D_{KL} = \frac{|\phi|^2 + \mathrm{tr}\, C}{2 \lambda_\theta^2}
              - \frac12 \log\det \frac{C}{\lambda_\theta^2} - \frac{n_w}{2} + \mathrm{const}

    Slopes come from one forward pass, and one backward pass per output. For a layer with inputs h and slopes g of f
    with respect to its outputs, the slope along a direction is :math:`(g \cdot u) (h \cdot v) / \sqrt{M H}`. phi are
    the weights that training found. Training costs as much as with `LastLayerLaplace`, except at the end: with several
    noisy features the slopes of all layers take seconds per network. A prediction costs several times as much, up to 28
    times that of Bernoulli dropout on large tables (docs/posteriors.md). All rows and all zetas share a theta. All
    parameters other than the weights and biases of `nn.Linear` layers stay points.

    The epistemic variance shrinks as 1 / N. It is exact for a network without hidden layer and exact inputs. Otherwise
    it is that of a model that is linear in its weights. It tends to be too large rather than too small, since training
    prefers smooth functions more than the prior does. With few rows and many features it stays bounded if sigma_y is
    estimated from held-out rows given this covariance, as the default recipe does.

    Args:
        stack: the S networks; what the last `nn.Linear` returns must be the output.
        weight_penalty: 1 / (2 lambda_theta^2); with 0 nothing bounds the directions that the data leave open.

    Attributes:
        hidden: the names of the hidden layers that vary.
        n_directions: M.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.networks import paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(2), torch.device("cpu")
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8, n_hidden=2), 1, 1, seeds, cpu)
        >>> q = LinearisedLaplace(stack, weight_penalty=10.0)
        >>> x = torch.linspace(-1, 1, 40).reshape(1, 40, 1).expand(2, -1, -1)
        >>> from eiv.likelihoods import NormalLikelihood
        >>> rows = Rows(ZetaNormal(x, 0 * x), 2 * x)
        >>> q.finish(rows, NormalLikelihood(torch.full((2, 1), 0.1)), None, Streams(seeds, cpu))
        >>> q.state["root"].shape  # networks, 9 weights of the last layer and 2 x 64 directions twice
        torch.Size([2, 137, 137])

    """

    n_directions = 64

    def __init__(self, stack: NetworkStack, weight_penalty: float | Tensor) -> None:
        super().__init__(stack, weight_penalty)
        self.hidden = [name for name in dict.fromkeys(self._called_layers()) if name != self.head]

    @torch.no_grad()
    def finish(self, rows: Rows, likelihood: Likelihood, draws: ZetaDraws | None, streams: Streams) -> None:
        """Draw the directions of all hidden layers, `left` and `right`, if there are none yet; then find C."""
        for name, (_, *shape) in self._shapes_of_directions().items():
            if name not in self.kept:
                self.kept[name] = streams.normal(*shape)
        super().finish(rows, likelihood, draws, streams)

    @property
    def n_weights(self) -> int:
        """The number of weights that vary: those of the last layer, and one per direction."""
        return self.n_head_weights + self.n_directions * len(self.hidden)

    def kept_shapes(self, found: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The root of C for each network, and its directions."""
        return super().kept_shapes(found) | self._shapes_of_directions()

    def directions(self) -> list[tuple[str, Tensor, Tensor]]:
        """The name of each hidden layer, its u / sqrt(M H), `S x out x M`, and its v, `S x (in + 1) x M`."""
        left = self.kept["left"].split([out for out, _ in self._sizes()], dim=1)
        right = self.kept["right"].split([into for _, into in self._sizes()], dim=1)
        scale = (self.n_directions * max(1, len(self.hidden))) ** -0.5
        return [(name, scale * u, v) for name, u, v in zip(self.hidden, left, right, strict=True)]

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """The MAP estimate, and what was drawn as moves, in which f is linear."""
        moved, of_head = self._onnx_draw(graph)
        delta, moves = graph.part(moved, 0, self.n_head_weights, None), {}
        for place, (name, left, right) in enumerate(self.directions()):
            own = graph.part(delta, 0, place * self.n_directions, (place + 1) * self.n_directions)
            along = graph.add("Mul", graph.of_network(left), own)  # out x K
            both = graph.add("Transpose", graph.of_network(right), perm=[1, 0])  # K x (in + 1)
            for kind, value in onnx_layer(graph, graph.add("MatMul", along, both)).items():
                moves[f"{name}.{kind}"] = value
        return OnnxTheta(parameters, moves | self._onnx_moves_of_head(graph, of_head))

    def _shapes_of_directions(self) -> dict[str, tuple[int, ...]]:
        """The shapes of u and v, `S x all outputs x M` and `S x all inputs x M`."""
        n_networks = self.stack.n_networks
        return {
            "left": (n_networks, sum(out for out, _ in self._sizes()), self.n_directions),
            "right": (n_networks, sum(into for _, into in self._sizes()), self.n_directions),
        }

    def _sizes(self) -> list[tuple[int, int]]:
        """The numbers of outputs and inputs of each hidden layer; its bias counts as an input."""
        found = []
        for name in self.hidden:
            _, n_outputs, n_inputs = self.stack.parameters[f"{name}.weight"].shape
            found.append((n_outputs, n_inputs + (f"{name}.bias" in self.stack.parameters)))
        return found

    @property
    def _values_per_row(self) -> int:
        """The number of values that `_features` holds at once per zeta: slopes, inputs and outputs, with copies."""
        return 4 * (self.n_weights + sum(map(sum, self._sizes())))

    def _features(self, zeta: Tensor) -> Features:
        """The slopes of f at `zeta`, `S x D x R x n_x`."""
        return Features(*(torch.stack(same) for same in zip(*map(self._slopes, range(len(zeta)), zeta), strict=True)))

    def _slopes(self, s: int, zeta: Tensor) -> tuple[Tensor, Tensor]:
        """The slopes of network s at `zeta`, `D x R x n_x`: `D x R x (h + 1)` and `D x R x n_y x m`."""
        template = copy.deepcopy(self.stack.template)  # functional_call changes it meanwhile, so each thread needs one
        last: list[Tensor] = []
        template.get_submodule(self.head or "").register_forward_pre_hook(lambda _, inputs: last.append(inputs[0]))
        calls: list[_Call] = []
        for place, name in enumerate(self.hidden):
            template.get_submodule(name).register_forward_hook(partial(_catch, calls, place))
        state = self.stack.parameters | self.stack.constants | self.no_masks()
        with torch.enable_grad():
            own = {name: value[s].detach() for name, value in state.items()}
            f = functional_call(template, own, (zeta.flatten(0, 1),))
            totals = f.sum(0).unbind()  # rows do not depend on each other, so slopes of the sum are those of each row
        directions = self.directions()
        hidden = f.new_zeros(len(f), len(totals), len(self.hidden), self.n_directions)
        for j, total in enumerate(totals if calls else ()):
            outputs = [call.output for call in calls]
            slopes = torch.autograd.grad(total, outputs, retain_graph=j + 1 < len(totals), allow_unused=True)
            for (place, inputs, _), slope in zip(calls, slopes, strict=True):
                if slope is not None:
                    (_, u, v), n_inputs = directions[place], inputs.shape[-1]
                    along = (slope @ u[s]) * (inputs @ v[s, :n_inputs] + v[s, n_inputs:].sum(0))
                    hidden[:, j, place] += along.reshape(len(f), -1, self.n_directions).sum(1)
        into_last = self._with_one(last[0].detach())
        return into_last.unflatten(0, zeta.shape[:2]), hidden.flatten(2).unflatten(0, zeta.shape[:2])


class _Call(NamedTuple):
    """The inputs and outputs of a call of hidden layer number `place`."""

    place: int
    inputs: Tensor
    output: Tensor


def _catch(calls: list[_Call], place: int, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """Record a call of a layer; later layers get a copy of the output, which they may change in place."""
    calls.append(_Call(place, inputs[0].detach(), output if output.requires_grad else output.requires_grad_()))
    return output.clone()
