"""Networks: the paper's, stacks of networks, and modules of the user's own."""

from eiv.networks.mlp import MLPStack, fast_stack
from eiv.networks.stack import DropoutLayer, MaskedDropout, NetworkStack, paper_network, values_at_once

__all__ = [
    "DropoutLayer",
    "MLPStack",
    "MaskedDropout",
    "NetworkStack",
    "fast_stack",
    "paper_network",
    "values_at_once",
]
