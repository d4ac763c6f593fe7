"""The fastest stack for networks of one kind."""

from __future__ import annotations

from eiv.engine.cosines import CosineStack
from eiv.engine.mlp import MLPStack, is_mlp
from eiv.engine.stack import NetworkStack
from eiv.networks.cosine import CosineNetwork


def fast_stack(stack: NetworkStack, precision: str = "auto") -> NetworkStack:
    """The same networks as an `MLPStack` if they are fully connected, as a `CosineStack`, or else `stack` itself."""
    if is_mlp(stack.template):
        return MLPStack(stack, precision)
    if precision == "bfloat16":
        raise ValueError("precision='bfloat16' is for fully connected networks such as the paper's, not this module.")
    return CosineStack(stack) if type(stack.template) is CosineNetwork else stack
