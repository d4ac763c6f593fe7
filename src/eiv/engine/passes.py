"""The hand-written passes of fully connected networks as one step of autograd.

For weight posteriors that learn more than the parameters of the networks: autograd takes the gradients with respect to
masks and parameters on to phi, by a few operations on small tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from eiv.engine.mlp import MLPStack


def evaluate_by_hand(
    stack: MLPStack,
    masks: Mapping[str, Tensor],
    parameters: Iterable[Tensor],
    zeta: Tensor,
    signed: bool,
    gradients: Sequence[Tensor] | None = None,
) -> Tensor:
    """Compute f, `S x D x R x n_y`, with gradients to `masks` and `parameters`, not to `zeta`, `S x D x R x n_x`.

    The buffers are the stack's: the gradient is to be taken before the next evaluation. Where `gradients` are given,
    those of the parameters are written there, not added, and go nowhere else.
    """
    ordered = [masks[layer.mask_name] for layer in stack.dropout_layers]
    f: Tensor = _Passes.apply(stack, zeta, signed, gradients, *ordered, *parameters)  # type: ignore[no-untyped-call]
    return f


class _Passes(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, stack: MLPStack, zeta: Tensor, signed: bool, gradients: Sequence[Tensor] | None, *tensors: Tensor
    ) -> Tensor:
        n_masks, ctx.gradients = len(stack.dropout_layers), gradients
        ctx.stack, ctx.signed, ctx.tensors, ctx.n_masks = stack, signed, [t.detach() for t in tensors], n_masks
        masks = {layer.mask_name: mask for layer, mask in zip(stack.dropout_layers, ctx.tensors, strict=False)}
        return stack.forward(masks, zeta, ctx.tensors[n_masks:]).clone()  # the buffer is used again

    @staticmethod
    def backward(ctx: Any, df: Tensor) -> tuple[Tensor | None, ...]:
        masks, parameters = ctx.tensors[: ctx.n_masks], ctx.tensors[ctx.n_masks :]
        gradients = ctx.gradients or [torch.empty_like(parameter) for parameter in parameters]
        of_masks: list[Tensor] = []
        if any(ctx.needs_input_grad[4 : 4 + ctx.n_masks]):
            of_masks = [torch.empty_like(mask) for mask in masks]
        ctx.stack.backward(df, gradients, signed=ctx.signed, mask_gradients=of_masks)
        for gradient, mask in zip(of_masks, masks, strict=False):
            gradient.div_(torch.where(mask == 0, torch.inf, mask))  # a mask of zero leaves nothing to see
        for_masks: list[Tensor | None] = [*of_masks] or [None] * ctx.n_masks
        for_parameters = [None] * len(gradients) if ctx.gradients else gradients
        return None, None, None, None, *for_masks, *for_parameters
