"""The fast path for fully connected networks such as the paper's: hand-written forward and backward passes.

Matrix products write into buffers that are reused, and gradients directly into those that the optimiser reads. In
prediction the units that a weight draw drops are cut out of the matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from eiv.engine import kernels
from eiv.engine.products import product
from eiv.engine.stack import MaskedDropout, NetworkStack

_ROWS_WORTH_A_CUT = 64  # inputs per weight draw from which on it pays to cut units out
_ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.SiLU)
_ROWS_AT_ONCE = 1024  # rows per matrix product in prediction: they fill the cache and still fit into it


def is_mlp(module: nn.Module) -> bool:
    """Whether `module` is hidden layers of `Linear, (Leaky)ReLU or SiLU, dropout` and a `Linear` head, nothing else."""
    if type(module) is not nn.Sequential or len(module) < 4 or len(module) % 3 != 1:
        return False
    layers = list(module)
    linears, activations, dropouts = layers[0::3], layers[1::3], layers[2::3]
    slopes = {_slope(activation) for activation in activations}
    kinds = {type(activation) for activation in activations}
    return (
        all(type(layer) is nn.Linear and layer.bias is not None for layer in linears)
        and len(list(module.parameters())) == 2 * len(linears)  # no layer occurs twice
        and all(parameter.requires_grad for parameter in module.parameters())
        and not any(layer._forward_hooks or layer._forward_pre_hooks for layer in module.modules())  # noqa: SLF001
        and kinds <= set(_ACTIVATIONS)
        and len(slopes) == 1
        and (slopes.pop() or 0.0) >= 0
        and all(type(layer) is MaskedDropout and layer.shared_axes == 0 and layer.n_uses == 1 for layer in dropouts)
    )


class MLPStack(NetworkStack):
    """S fully connected networks of one shape, with the interface and the results of `NetworkStack`.

    `forward` and `backward` are passes without autograd, for training. `slope` is that of leaky ReLU below zero, and
    None for SiLU.

    Args:
        stack: the networks, whose parameters are shared, not copied.
        precision: "bfloat16" rounds the operands of the large products in `forward` and `backward`.

    """

    def __init__(self, stack: NetworkStack, precision: str = "auto") -> None:
        self.__dict__.update(stack.__dict__)
        self.operands = torch.bfloat16 if precision == "bfloat16" else stack.dtype
        assert isinstance(self.template, nn.Sequential)
        self.slope = _slope(self.template[1])
        weights, _ = self._layers()
        self.n_inputs = weights[0].shape[2]
        self.large_layers = range(1, len(weights) - 1)  # those between hidden layers
        self._spaces: dict[tuple[int, ...], _Workspace] = {}
        self._rounded: dict[int, Tensor] = {}

    def __call__(self, masks: dict[str, Tensor], zeta: Tensor) -> Tensor:
        """Evaluate `zeta`, `S x D x R x n_x`, for D weight draws: `S x D x R x n_y`."""
        if torch.is_grad_enabled():
            return super().__call__(masks, zeta)
        ordered = self._ordered(masks)
        if zeta.shape[2] < _ROWS_WORTH_A_CUT or not _drop_units(ordered):
            return torch.cat([self._evaluate_masked(ordered, part) for part in self.blocks(zeta)], dim=2)
        return (
            self._evaluate_cut(ordered, zeta) if zeta.device.type == "cpu" else self._evaluate_together(ordered, zeta)
        )

    def takes_its_dtype(self) -> bool:
        """True: fully connected networks work in any floating point type."""
        return True

    def forward(self, masks: dict[str, Tensor], zeta: Tensor, parameters: Sequence[Tensor] | None = None) -> Tensor:
        """Compute f, `S x D x R x n_y`, and keep the values that `backward` needs in buffers.

        `parameters` of the same shapes replace those of the stack.
        """
        space = self._spaces.get(zeta.shape)
        if space is None:
            space = self._spaces[zeta.shape] = _Workspace(self, zeta)
        if parameters is not None:
            space.weights, space.biases = list(parameters[0::2]), [bias.unsqueeze(1) for bias in parameters[1::2]]
        space.masks = self._ordered(masks)
        values = zeta.flatten(1, 2)
        for i, mask in enumerate(space.masks):
            weight = space.weights[i]
            if i > 0 and self.operands != values.dtype:
                values = space.rounded[i - 1].copy_(values)
                weight = self._rounded[i] if i in self._rounded else weight.to(self.operands)
            space.operands[i] = values, weight
            values = space.activations[i]
            before = space.before[i] if space.before else None
            self._hidden_layer(*space.operands[i], space.biases[i], mask, values, space.groups[i], before)
        torch.baddbmm(space.biases[-1], values, space.weights[-1].mT, out=space.f)
        space.operands[len(space.masks)] = values, space.weights[-1]
        return space.f.view(*zeta.shape[:3], -1)

    def backward(
        self,
        df: Tensor,
        gradients: Sequence[Tensor],
        move: Callable[[int, int, Tensor], None] | None = None,
        *,
        signed: bool = False,
        mask_gradients: Sequence[Tensor] = (),
    ) -> None:
        """Compute the gradient with respect to each parameter from `df`, that with respect to f.

        Gradients are written into `gradients`, not added. With `move`, those of the large weight matrices are not kept:
        `move(parameter, network, gradient)` is called for each network while its gradient is in the cache. `signed`
        says that masks may be negative. The gradients with respect to the logarithms of the absolute values of the
        masks are written into `mask_gradients`, `S x D x h` each.
        """
        space = self._spaces[(*df.shape[:3], self.n_inputs)]
        delta, fused = df.flatten(1, 2), self._has_kernels(df)
        for i in reversed(range(len(space.weights))):
            hidden = i < len(space.masks)
            if hidden and mask_gradients:
                torch.sum(space.delta_groups[i] * space.groups[i], dim=2, out=mask_gradients[i])
            if hidden and signed and not fused and self.slope is not None:
                space.groups[i].mul_(space.masks[i].unsqueeze(2))  # has the sign of the values before the mask
            if hidden and fused and self.slope is not None:
                kernels.activate_backward(delta, space.activations[i], space.masks[i], self.slope, gradients[2 * i + 1])
            elif hidden and self.slope is None:
                torch.ops.aten.silu_backward.grad_input(delta, space.before[i], grad_input=delta)
                space.delta_groups[i].mul_(space.masks[i].unsqueeze(2))
            elif hidden:
                # A masked output has the sign of its input where the unit is kept; elsewhere the mask is zero.
                torch.ops.aten.leaky_relu_backward.grad_input(
                    delta, space.activations[i], self.slope, True, grad_input=delta
                )
                space.delta_groups[i].mul_(space.masks[i].unsqueeze(2))
            if not (hidden and fused):
                torch.bmm(space.ones, delta, out=gradients[2 * i + 1].unsqueeze(1))
            below, weight = space.operands[i]
            rounded = delta if below.dtype == delta.dtype else space.rounded_deltas[i].copy_(delta)
            if i > 0:
                delta = product(rounded, weight, out=space.deltas[i - 1])  # before the weights move
            if move is None or i not in self.large_layers:
                product(rounded.mT, below, out=gradients[2 * i])
                continue
            scratch = space.scratch[: weight[0].numel()].view(1, *weight.shape[1:])
            for s in range(len(rounded)):
                move(2 * i, s, product(rounded[s : s + 1].mT, below[s : s + 1], out=scratch))

    def round_weights(self, layer: int | None = None, network: int | None = None) -> None:
        """Round the weights of the large layers for the products of `forward`, or those of one layer and network."""
        weights, _ = self._layers()
        if layer is None or network is None:
            self._rounded = {i: weights[i].detach().to(self.operands) for i in self.large_layers}
        else:
            self._rounded[layer][network].copy_(weights[layer][network])

    def forget_buffers(self) -> None:
        """Free the buffers of `forward` and `backward`, which refer to the parameters as they were."""
        self._spaces.clear()
        self._rounded.clear()

    def _has_kernels(self, values: Tensor) -> bool:
        return self.slope is not None and values.dtype == torch.float32 and kernels.available(values.device)

    def _evaluate_masked(self, masks: Sequence[Tensor], zeta: Tensor) -> Tensor:
        weights, biases = self._layers()
        values = zeta.flatten(1, 2)
        for weight, bias, mask in zip(weights[:-1], biases[:-1], masks, strict=True):
            values = self._hidden_layer(values, weight, bias.unsqueeze(1), mask)
        return torch.baddbmm(biases[-1].unsqueeze(1), values, weights[-1].mT).view(*zeta.shape[:3], -1)

    def _hidden_layer(
        self,
        values: Tensor,
        weight: Tensor,
        bias: Tensor,
        mask: Tensor,
        out: Tensor | None = None,
        groups: Tensor | None = None,
        before: Tensor | None = None,
    ) -> Tensor:
        """A hidden layer: `mask`, `S x D x h`, times the activation of an affine map of `values`, `S x rows x in`.

        Returns `S x rows x h`. If given, `out` receives the result, `groups` is a view of it, `S x D x R x h`, and
        `before` receives the affine map.
        """
        if out is None:
            out = mask.new_empty(*values.shape[:2], mask.shape[2])
        if self.slope is not None and self._has_kernels(out):
            product(values, weight.mT, out=out)
            kernels.activate(out, bias, mask, self.slope)
            return out
        if values.dtype == out.dtype:
            torch.baddbmm(bias, values, weight.mT, out=out)
        else:
            product(values, weight.mT, out=out).add_(bias)
        if before is not None:
            before.copy_(out)
        self._activate(out)
        (out.view(*mask.shape[:2], -1, mask.shape[2]) if groups is None else groups).mul_(mask.unsqueeze(2))
        return out

    def _evaluate_cut(self, masks: Sequence[Tensor], zeta: Tensor) -> Tensor:
        """Evaluate each weight draw separately, with only the units that it keeps."""
        weights, biases = self._layers()
        outputs = zeta.new_empty(*zeta.shape[:3], biases[-1].shape[1])
        kept = [
            [[mask[s, d].nonzero()[:, 0] for mask in masks] for d in range(zeta.shape[1])] for s in range(len(zeta))
        ]
        for s, network_kept in enumerate(kept):
            scales = [float(mask[s].max()) for mask in masks]
            layers = [(weight[s], bias[s]) for weight, bias in zip(weights, biases, strict=True)]
            for start in range(0, zeta.shape[2], _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                first: Tensor | None = None
                for d, units in enumerate(network_kept):
                    if first is None or zeta.stride(1) != 0:  # once for inputs that all draws share
                        first = self._activate(torch.addmm(layers[0][1][:, None], layers[0][0], zeta[s, d, rows].mT))
                    values = first.index_select(0, units[0]).mT
                    for i in range(1, len(layers) - 1):
                        weight = layers[i][0].index_select(0, units[i]).index_select(1, units[i - 1])
                        bias = layers[i][1].index_select(0, units[i])
                        values = self._activate(torch.addmm(bias, values, weight.mT, alpha=scales[i - 1]))
                    head = layers[-1][0].index_select(1, units[-1])
                    outputs[s, d, rows] = torch.addmm(layers[-1][1], values, head.mT, alpha=scales[-1])
        return outputs

    def _evaluate_together(self, masks: Sequence[Tensor], zeta: Tensor) -> Tensor:
        """Evaluate all weight draws in one batch, for a GPU; all keep as many units as the draw that keeps most."""
        weights, biases = self._layers()
        network = torch.arange(len(zeta), device=zeta.device)[:, None, None]
        below = torch.arange(zeta.shape[3], device=zeta.device).expand(*zeta.shape[:2], -1)
        fullest = torch.stack([(mask > 0).sum(-1).max() for mask in masks]).tolist()
        layers = []
        for weight, bias, mask, n_kept in zip(weights[:-1], biases[:-1], masks, fullest, strict=True):
            n_units = min(mask.shape[2], -(-n_kept // 32) * 32)  # whole tiles; surplus units have a mask of zero
            units = mask.topk(n_units, dim=2).indices  # S x D x units
            cut = weight[network.unsqueeze(3), units.unsqueeze(3), below.unsqueeze(2)].flatten(0, 1)
            layers.append((cut, bias[network, units].flatten(0, 1), mask.gather(2, units).flatten(0, 1)))
            below = units
        head = weights[-1].mT[network, below].flatten(0, 1)
        parts = []
        for part in self.blocks(zeta):
            values = part.flatten(0, 1)
            for weight, bias, mask in layers:
                values = self._hidden_layer(values, weight, bias.unsqueeze(1), mask.unsqueeze(1))
            parts.append(torch.bmm(values, head).view(*part.shape[:3], -1))
        return torch.cat(parts, dim=2) + biases[-1][:, None, None]

    def _activate(self, values: Tensor) -> Tensor:
        if self.slope is None:
            return nn.functional.silu(values, inplace=True)
        return nn.functional.leaky_relu_(values, self.slope)

    def _layers(self) -> tuple[list[Tensor], list[Tensor]]:
        """Weights `S x out x in` and biases `S x out`, first layer first."""
        values = list(self.parameters.values())
        return values[0::2], values[1::2]

    def _ordered(self, masks: dict[str, Tensor]) -> list[Tensor]:
        return [masks[layer.mask_name] for layer in self.dropout_layers]

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_spaces": {}, "_rounded": {}}

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__ | {"_spaces": {}, "_rounded": {}})
        return copied


class _Workspace:
    """Buffers, and views of them, that forward and backward passes over inputs of one shape reuse."""

    def __init__(self, stack: MLPStack, zeta: Tensor) -> None:
        n_networks, n_draws, n_inputs, _ = zeta.shape
        n_rows = n_draws * n_inputs
        weights, biases = stack._layers()  # noqa: SLF001
        self.weights = [weight.detach() for weight in weights]
        self.biases = [bias.detach().unsqueeze(1) for bias in biases]
        shapes = [(n_networks, n_rows, bias.shape[2]) for bias in self.biases]
        rounds = stack.operands != zeta.dtype
        self.activations, self.deltas = ([zeta.new_empty(shape) for shape in shapes[:-1]] for _ in range(2))
        self.before = [torch.empty_like(value) for value in self.activations if stack.slope is None]
        self.groups, self.delta_groups = (
            [value.view(n_networks, n_draws, n_inputs, -1) for value in values]
            for values in (self.activations, self.deltas)
        )
        self.rounded, self.rounded_deltas = (
            [torch.empty_like(value, dtype=stack.operands) for value in self.activations if rounds] for _ in range(2)
        )
        self.f = zeta.new_empty(shapes[-1])
        self.ones = zeta.new_ones(n_networks, 1, n_rows)  # a product with ones is faster than a sum over rows
        self.scratch = zeta.new_empty(max(weight[0].numel() for weight in weights))  # one network's gradient
        self.masks: list[Tensor] = []
        self.operands: dict[int, tuple[Tensor, Tensor]] = {}  # the inputs and weights of each layer


def _drop_units(masks: Sequence[Tensor]) -> bool:
    """Whether units can be cut out: all masks of a network are 0 or one other value, and some are 0."""
    two_valued = torch.stack([((mask == 0) | (mask == mask.amax((1, 2), True))).all() for mask in masks]).all()
    return bool(two_valued & torch.stack([(mask == 0).any() for mask in masks]).any())


def _slope(activation: nn.Module) -> float | None:
    """The slope of a (leaky) ReLU below zero; None for another activation."""
    return (
        activation.negative_slope if type(activation) is nn.LeakyReLU else 0.0 if type(activation) is nn.ReLU else None
    )
