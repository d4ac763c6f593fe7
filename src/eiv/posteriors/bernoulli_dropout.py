"""Bernoulli dropout, the weight posterior of the paper."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from eiv.engine.streams import Streams
from eiv.networks import NetworkStack
from eiv.posteriors.base import Theta, WeightDraw, WeightPosterior, check_dropout_layers
from eiv.posteriors.exported import OnnxGraph, OnnxTheta

__all__ = ["BernoulliDropout"]


class BernoulliDropout(WeightPosterior):
    r"""Weights that lose whole units at random: q_phi of Monte Carlo dropout.

    .. math::
        \theta = \phi \cdot \mathrm{diag}(b), \quad b_j \sim \mathrm{Bernoulli}(1 - p) / (1 - p), \qquad
        D_{KL}(q_\phi \| \mathcal{N}(0, \lambda_\theta^2)) = \frac{1 - p}{2 \lambda_\theta^2} |\phi|^2 + \mathrm{const}

    The divergence is that of the paper: of masks of 0 and 1, and with the same factor for all parameters, including
    biases and the first layer. Masks are scaled by 1 / (1 - p), so that the mean of theta is phi.

    phi is the network's own parameters and is learned; the rate p is fixed. Every row has a theta of its own, which its
    zetas share. A draw costs one random mask per dropout layer. The epistemic component does not vanish as N grows,
    because p does not depend on the data.

    Where the dropout layers of a network have different rates, p in the divergence is their mean.

    Args:
        stack: the S networks, each with at least one dropout layer.
        weight_penalty: 1 / (2 lambda_theta^2), 10 in the paper.

    Examples:
        >>> import torch
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(2), torch.device("cpu")
        >>> q = BernoulliDropout(NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, cpu), weight_penalty=10.0)
        >>> draw = q.draw(Streams(seeds, cpu), n_draws=16)    # one draw for each of 16 rows ...
        >>> q.evaluate(draw, torch.zeros(2, 16, 5, 1)).shape  # ... shared by its five zetas
        torch.Size([2, 16, 5, 1])
        >>> q.kl().shape
        torch.Size([2])

    """

    by_hand = True

    def __init__(self, stack: NetworkStack, weight_penalty: float | Tensor) -> None:
        super().__init__(stack, weight_penalty)
        check_dropout_layers(stack)

    @property
    def rate(self) -> float:
        """p, the mean rate of the dropout layers."""
        rates = [layer.rate for layer in self.stack.dropout_layers]
        return sum(rates) / len(rates)

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw the masks of `n_draws` thetas per network: `{mask: S x n_draws x shape}`."""
        return {
            layer.mask_name: streams.masks(layer.rate, n_draws, *layer.shape) for layer in self.stack.dropout_layers
        }

    def theta(self, draw: WeightDraw) -> Theta:
        """The masks themselves, and the networks' parameters."""
        return Theta(draw, self.stack.parameters)

    @property
    def weight_decay(self) -> float | Tensor:
        """The gradient of `kl` is this number times phi."""
        return 2 * (1 - self.rate) * self.weight_penalty

    def kl(self) -> Tensor:
        """Section 2.1: (1 - p) / (2 lambda_theta^2) times the sum of squared weights, `S`."""
        squares = self.squares()
        return (1 - self.rate) * self.penalty_beside(squares) * squares

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """The networks' parameters, and masks of 0 and 1 / (1 - p)."""
        return OnnxTheta(parameters, masks={"kind": "bernoulli", "p": self.rates_of_layers()})
