"""Stacks of fully connected networks with a hand-written forward and backward pass: the fast path for the paper's.

One node of the autograd graph stands for the whole network. Its products write into buffers that are kept, and its
gradients can go straight to where the optimiser reads them. In prediction the units that a weight draw drops are cut
out of the matrix products.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eiv.networks import VALUES_AT_ONCE, MaskedDropout, NetworkStack

_ROWS_WORTH_A_CUT = 64  # inputs a weight draw from which on the cut pays
_ROWS_AT_ONCE = 1024  # rows of a matrix product in prediction: few enough for the cache, enough to fill it


def fast_stack(stack: NetworkStack) -> NetworkStack:
    """The same networks on the fast path, where they have one."""
    return MLPStack(stack) if _is_mlp(stack.template) else stack


def _is_mlp(module: nn.Module) -> bool:
    """Whether `module` is hidden layers of `Linear, (Leaky)ReLU, dropout` and a `Linear` head, and nothing else."""
    if type(module) is not nn.Sequential or len(module) < 4 or len(module) % 3 != 1:
        return False
    layers = list(module)
    linears, activations, dropouts = layers[0::3], layers[1::3], layers[2::3]
    slopes = {_slope(activation) for activation in activations}
    return (
        all(type(layer) is nn.Linear and layer.bias is not None for layer in linears)
        and all(parameter.requires_grad for parameter in module.parameters())
        and len(slopes) == 1
        and None not in slopes
        and all(type(layer) is MaskedDropout and layer.shared_axes == 0 for layer in dropouts)
    )


class MLPStack(NetworkStack):
    """S fully connected networks of one shape. The interface and the results are those of `NetworkStack`.

    Args:
        stack: the networks; their parameters are taken over.

    Attributes:
        gradients: where set, one a parameter: a backward pass writes (does not add) the gradients of the
            parameters there, and autograd is given none.

    """

    gradients: list[Tensor] | None = None

    def __init__(self, stack: NetworkStack) -> None:
        self.__dict__.update(stack.__dict__)
        assert isinstance(self.template, nn.Sequential)
        self._slope = _slope(self.template[1]) or 0.0
        self._pools: dict[tuple[int, ...], list[_Workspace]] = defaultdict(list)

    def __call__(self, masks: dict[str, Tensor], zeta: Tensor) -> Tensor:
        """Evaluate `zeta`, `S x D x R x n_x`, for D weight draws: `S x D x R x n_y`."""
        ordered = [masks[layer.mask_name] for layer in self.dropout_layers]
        if torch.is_grad_enabled():
            f: Tensor = _MLP.apply(self, ordered, zeta, *self.parameters.values())  # type: ignore[no-untyped-call]
            return f
        if zeta.device.type == "cpu" and zeta.shape[2] >= _ROWS_WORTH_A_CUT:
            return self._evaluate_cut(ordered, zeta)
        size = max(1, VALUES_AT_ONCE // (zeta.shape[0] * zeta.shape[1] * self.width))
        return torch.cat([self._evaluate_masked(ordered, part) for part in zeta.split(size, dim=2)], dim=2)

    def _evaluate_masked(self, masks: Sequence[Tensor], zeta: Tensor) -> Tensor:
        space = self._take_workspace(zeta)
        f = self._forward(masks, zeta, space)
        self._pools[zeta.shape].append(space)
        return f

    def _forward(self, masks: Sequence[Tensor], zeta: Tensor, space: _Workspace) -> Tensor:
        """The forward pass; the outputs of the hidden layers, masked, stay in `space`."""
        weights, biases = self._layers()
        values = zeta.flatten(1, 2)
        for weight, bias, mask, layer in zip(weights, biases, masks, space.activations, strict=False):
            self._activate(torch.baddbmm(bias.unsqueeze(1), values, weight.mT, out=layer))
            layer.view(*zeta.shape[:3], -1).mul_(mask.unsqueeze(2))
            values = layer
        f = torch.baddbmm(biases[-1].unsqueeze(1), values, weights[-1].mT)
        return f.view(*zeta.shape[:3], -1)

    def _take_workspace(self, zeta: Tensor) -> _Workspace:
        try:
            return self._pools[zeta.shape].pop()  # several threads may ask at once
        except IndexError:
            return _Workspace.like(zeta, self._layers()[1])

    def _evaluate_cut(self, masks: Sequence[Tensor], zeta: Tensor) -> Tensor:
        """Each weight draw by itself, with the units that it keeps."""
        weights, biases = self._layers()
        outputs = zeta.new_empty(*zeta.shape[:3], biases[-1].shape[1])
        kept = [
            [[mask[s, d].nonzero()[:, 0] for mask in masks] for d in range(zeta.shape[1])] for s in range(len(zeta))
        ]
        scales = [float(mask.max()) for mask in masks]
        for s, network_kept in enumerate(kept):
            layers = [(weight[s], bias[s]) for weight, bias in zip(weights, biases, strict=True)]
            for start in range(0, zeta.shape[2], _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                first: Tensor | None = None
                for d, units in enumerate(network_kept):
                    if first is None or zeta.stride(1) != 0:  # inputs that all draws share pass the first layer once
                        first = self._activate(torch.addmm(layers[0][1][:, None], layers[0][0], zeta[s, d, rows].mT))
                    values = first.index_select(0, units[0]).mT
                    for i in range(1, len(layers) - 1):
                        weight = layers[i][0].index_select(0, units[i]).index_select(1, units[i - 1])
                        bias = layers[i][1].index_select(0, units[i])
                        values = self._activate(torch.addmm(bias, values, weight.mT, alpha=scales[i - 1]))
                    head = layers[-1][0].index_select(1, units[-1])
                    outputs[s, d, rows] = torch.addmm(layers[-1][1], values, head.mT, alpha=scales[-1])
        return outputs

    def _activate(self, values: Tensor) -> Tensor:
        return nn.functional.leaky_relu_(values, self._slope)

    def _layers(self) -> tuple[list[Tensor], list[Tensor]]:
        """Weights `S x out x in` and biases `S x out`, first layer first."""
        values = list(self.parameters.values())
        return values[0::2], values[1::2]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pools": defaultdict(list)}


class _MLP(torch.autograd.Function):
    """The network as one operation: f_theta(zeta) and the gradients with respect to its parameters."""

    @staticmethod
    def forward(ctx: Any, stack: MLPStack, masks: Sequence[Tensor], zeta: Tensor, *parameters: Tensor) -> Tensor:
        space = stack._take_workspace(zeta)
        ctx.stack, ctx.masks, ctx.zeta, ctx.space = stack, masks, zeta, space
        return stack._forward(masks, zeta, space)

    @staticmethod
    def backward(ctx: Any, df: Tensor) -> tuple[Tensor | None, ...]:
        stack, space = ctx.stack, ctx.space
        if stack.gradients is None:
            gradients = [torch.empty_like(parameter) for parameter in stack.parameters.values()]
        else:
            gradients = stack.gradients
        below = [ctx.zeta.flatten(1, 2), *space.activations]
        weights, _ = stack._layers()
        delta = df.flatten(1, 2)
        for i in reversed(range(len(weights))):
            if i < len(ctx.masks):
                # The sign of a masked output is that of its input where it was kept; elsewhere the mask is zero.
                layer = space.activations[i]
                torch.ops.aten.leaky_relu_backward.grad_input(delta, layer, stack._slope, True, grad_input=delta)
                delta.view(*ctx.zeta.shape[:3], -1).mul_(ctx.masks[i].unsqueeze(2))
            torch.bmm(delta.mT, below[i], out=gradients[2 * i])
            torch.sum(delta, 1, out=gradients[2 * i + 1])
            if i > 0:
                delta = torch.bmm(delta, weights[i], out=space.deltas[i - 1])
        stack._pools[ctx.zeta.shape].append(space)
        returned = gradients if stack.gradients is None else [None] * len(gradients)
        return None, None, None, *returned


@dataclass(frozen=True)
class _Workspace:
    """Kept buffers of one pass: the hidden layers' outputs and the gradients with respect to them."""

    activations: list[Tensor]
    deltas: list[Tensor]

    @classmethod
    def like(cls, zeta: Tensor, biases: Sequence[Tensor]) -> _Workspace:
        n_networks, n_rows = zeta.shape[0], zeta.shape[1] * zeta.shape[2]
        shapes = [(n_networks, n_rows, bias.shape[1]) for bias in biases[:-1]]
        return cls([zeta.new_empty(shape) for shape in shapes], [zeta.new_empty(shape) for shape in shapes])


def _slope(activation: nn.Module) -> float | None:
    if type(activation) is nn.LeakyReLU and activation.negative_slope >= 0:
        return float(activation.negative_slope)
    return 0.0 if type(activation) is nn.ReLU else None
