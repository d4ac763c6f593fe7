"""Gaussian dropout of type A: every unit is multiplied by a normal random number."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from eiv.engine.streams import Streams
from eiv.networks import NetworkStack
from eiv.posteriors.base import Theta, WeightDraw, WeightPosterior, check_dropout_layers
from eiv.posteriors.exported import OnnxGraph, OnnxTheta

__all__ = ["GaussianDropout"]


class GaussianDropout(WeightPosterior):
    r"""Units that are scaled at random: Gaussian dropout of type A with a fixed rate (the paper's footnote).

    .. math::
        \theta = \phi \cdot \mathrm{diag}(s), \quad s_j \sim \mathcal{N}(1, \alpha), \quad \alpha = \frac{p}{1 - p},
        \qquad D_{KL} = \frac{1}{2 \lambda_\theta^2} |\phi|^2 + \mathrm{const}

    The mask has the mean and the variance of Bernoulli dropout at rate p. q_phi lives on lines through phi, where the
    divergence from a normal prior of theta has no finite value. As in Kingma, Salimans and Welling (2015) the prior is
    therefore given as two factors: N(0, lambda_theta^2) for phi, and the scale-free log-uniform prior for s. The
    divergence from the latter depends on alpha alone and is constant here (`VariationalDropout` learns alpha).

    phi is the network's own parameters and is learned; alpha is fixed. Every row has its own s, shared by its zetas.
    (Type B noise, drawn for each output of a layer, could not be shared.) A draw costs one normal number per unit.
    Unlike Bernoulli dropout, no units can be cut out of the matrix products of a prediction. The epistemic component
    does not vanish as N grows, because alpha does not depend on the data.

    Args:
        stack: the S networks, each with at least one dropout layer, whose rates are p.
        weight_penalty: 1 / (2 lambda_theta^2).

    Examples:
        >>> import torch
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(2), torch.device("cpu")
        >>> q = GaussianDropout(NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, cpu), weight_penalty=10.0)
        >>> q.evaluate(q.draw(Streams(seeds, cpu), n_draws=16), torch.zeros(2, 16, 5, 1)).shape
        torch.Size([2, 16, 5, 1])

    """

    by_hand = True
    signed_masks = True

    def __init__(self, stack: NetworkStack, weight_penalty: float | Tensor) -> None:
        super().__init__(stack, weight_penalty)
        check_dropout_layers(stack)

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw s for `n_draws` thetas per network: `{mask: S x n_draws x shape}`."""
        return {
            layer.mask_name: _scaled(streams.normal(n_draws, *layer.shape), layer.rate)
            for layer in self.stack.dropout_layers
        }

    def theta(self, draw: WeightDraw) -> Theta:
        """The scales as masks, and the networks' parameters."""
        return Theta(draw, self.stack.parameters)

    @property
    def weight_decay(self) -> float | Tensor:
        """The gradient of `kl` is this number times phi."""
        return 2 * self.weight_penalty

    def kl(self) -> Tensor:
        """The penalty of the weights, `S`."""
        squares = self.squares()
        return self.penalty_beside(squares) * squares

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """The networks' parameters, and normal masks about 1 of variance alpha."""
        variances = [[p / (1 - p) for p in rates] for rates in self.rates_of_layers()]
        return OnnxTheta(parameters, masks={"kind": "normal", "variance": variances})


def _scaled(noise: Tensor, rate: float) -> Tensor:
    """1 + sqrt(alpha) times the noise, in place."""
    return noise.mul_((rate / (1 - rate)) ** 0.5).add_(1.0)
