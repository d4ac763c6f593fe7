"""Networks: that of the paper, cosines, stacks of networks, and modules that users bring."""

from eiv.networks.cosine import CosineNetwork
from eiv.networks.stack import NetworkStack, paper_network

__all__ = ["CosineNetwork", "NetworkStack", "paper_network"]
