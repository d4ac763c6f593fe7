"""Bernoulli dropout, the weight posterior of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from eiv.networks import NetworkStack
from eiv.posteriors.base import WeightDraw
from eiv.streams import Streams

__all__ = ["BernoulliDropout"]


class BernoulliDropout:
    r"""Weights that lose whole units at random: q_phi of Monte Carlo dropout.

    .. math::
        \theta = \phi \cdot \mathrm{diag}(b), \quad b_j \sim \mathrm{Bernoulli}(1 - p) / (1 - p), \qquad
        D_{KL}(q_\phi \| \mathcal{N}(0, \lambda_\theta^2)) = \frac{1 - p}{2 \lambda_\theta^2} |\phi|^2 + \mathrm{const}

    phi is the network's own parameters and is learned; the rate p is fixed. A draw costs one random mask a dropout
    layer. The epistemic part does not vanish as N grows, because p does not depend on the data.

    Where the dropout layers of a network have different rates, p in the divergence is their mean.

    Args:
        stack: the S networks, each with one dropout layer at least.
        weight_penalty: 1 / (2 lambda_theta^2); the paper has 10.

    Examples:
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

    def __init__(self, stack: NetworkStack, weight_penalty: float) -> None:
        if not stack.dropout_layers:
            raise ValueError(
                "module has no dropout layer, so its weights cannot vary and its epistemic uncertainty would be zero. "
                "Add torch.nn.Dropout layers, for instance one after each activation."
            )
        self.stack, self.weight_penalty = stack, weight_penalty

    @property
    def parameters(self) -> Sequence[Tensor]:
        """Phi: the parameters of the stacked networks."""
        return list(self.stack.parameters.values())

    @property
    def rate(self) -> float:
        """p, the mean rate of the dropout layers."""
        rates = [layer.rate for layer in self.stack.dropout_layers]
        return sum(rates) / len(rates)

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw the masks of `n_draws` thetas a network: `{mask: S x n_draws x shape}`."""
        return {
            layer.mask_name: streams.masks(layer.rate, n_draws, *layer.shape) for layer in self.stack.dropout_layers
        }

    def evaluate(self, draw: WeightDraw, zeta: Tensor) -> Tensor:
        """Compute f_theta(zeta): `S x D x R x n_x` to `S x D x R x n_y`."""
        return self.stack(draw, zeta)

    @property
    def weight_decay(self) -> float:
        """The gradient of `kl` is this number times phi."""
        return 2 * (1 - self.rate) * self.weight_penalty

    def kl(self) -> Tensor:
        """Section 2.1: (1 - p) / (2 lambda_theta^2) times the sum of squared weights, `S`."""
        squares = [value.square().flatten(1).sum(1) for value in self.parameters]
        return (1 - self.rate) * self.weight_penalty * torch.stack(squares).sum(0)

    def join(self, others: Sequence[Self]) -> Self:
        """One posterior of this one's networks and those of `others`, in order."""
        return type(self)(self.stack.join([other.stack for other in others]), self.weight_penalty)

    def split(self, sizes: Sequence[int]) -> list[Self]:
        """Part the stack into stacks of `sizes` networks."""
        return [type(self)(stack, self.weight_penalty) for stack in self.stack.split(sizes)]
