"""Networks: the paper's, stacks of networks, and modules of the user's own."""

from eiv.networks.cosine import CosineNetwork
from eiv.networks.stack import NetworkStack, paper_network

__all__ = ["CosineNetwork", "NetworkStack", "paper_network"]
