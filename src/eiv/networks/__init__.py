"""Networks: that of the paper, cosines, and modules that users bring; stacks of them."""

from eiv.engine.stack import NetworkStack
from eiv.networks.cosine import CosineNetwork
from eiv.networks.paper import paper_network

__all__ = ["CosineNetwork", "NetworkStack", "paper_network"]
