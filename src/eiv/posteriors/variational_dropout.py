"""Variational dropout: Gaussian dropout whose rates are learned."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eiv.engine.streams import Streams
from eiv.networks import NetworkStack
from eiv.posteriors.base import PACE, Theta, WeightDraw, WeightPosterior, check_dropout_layers, sum_over_units
from eiv.posteriors.exported import OnnxGraph, OnnxTheta

__all__ = ["VariationalDropout", "log_uniform_kl"]

_K1, _K2, _K3 = 0.63576, 1.87320, 1.48695  # Molchanov et al. (2017), eq. (14)
_LEAST_RATE = 0.01


class VariationalDropout(WeightPosterior):
    r"""Units that are scaled at random by an amount the data decide: Gaussian dropout of type A with learned rates.

    .. math::
        \theta = \phi \cdot \mathrm{diag}(s), \quad s_j \sim \mathcal{N}(1, \alpha_l), \qquad
        D_{KL} = \frac{1}{2 \lambda_\theta^2} |\phi|^2
        + \sum_l n_l\, D_{KL}\big(\mathcal{N}(1, \alpha_l) \,\|\, \mathrm{log\mbox{-}uniform}\big)

    for dropout layers l of n_l units. The prior has two factors, as for `GaussianDropout`: N(0, lambda_theta^2) for
    phi, and the log-uniform prior of Kingma, Salimans and Welling (2015) for s. The divergence from the latter is the
    approximation by Molchanov, Ashukha and Vetrov (2017) (`log_uniform_kl`).

    phi and one alpha per dropout layer and network are learned; alpha starts at p / (1 - p). Every row has its own s,
    shared by its zetas. Training also needs the gradient with respect to the masks, so that it takes up to three times
    as long as with Bernoulli dropout, for small networks. With more data alpha falls, and the epistemic component with
    it. The log-uniform prior is improper: alpha has no best value without data, and one alpha for many units is a
    coarse description of what the data leave open.

    Args:
        stack: the S networks, each with at least one dropout layer; alpha starts at p / (1 - p) for its rate p.
        weight_penalty: 1 / (2 lambda_theta^2).

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(2), torch.device("cpu")
        >>> q = VariationalDropout(NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, cpu), weight_penalty=10.0)
        >>> q.evaluate(q.draw(Streams(seeds, cpu), n_draws=16), torch.zeros(2, 16, 5, 1)).shape
        torch.Size([2, 16, 5, 1])
        >>> q.alphas.shape  # networks, dropout layers
        torch.Size([2, 4])

    """

    by_hand = True
    signed_masks = True

    def __init__(self, stack: NetworkStack, weight_penalty: float | Tensor) -> None:
        super().__init__(stack, weight_penalty)
        check_dropout_layers(stack)
        like = next(iter(stack.parameters.values()))
        rates = like.new_tensor([max(layer.rate, _LEAST_RATE) for layer in stack.dropout_layers])
        self.learned["log_alpha"] = (rates.logit() / PACE).repeat(len(like), 1).requires_grad_(True)

    @property
    def alphas(self) -> Tensor:
        """Alpha of each network and dropout layer, `S x layers`."""
        return (PACE * self.learned["log_alpha"]).exp()

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw the normal numbers behind s for `n_draws` thetas per network: `{mask: S x n_draws x shape}`."""
        return {layer.mask_name: streams.normal(n_draws, *layer.shape) for layer in self.stack.dropout_layers}

    def theta(self, draw: WeightDraw) -> Theta:
        """The scales s as masks, with gradients to alpha, and the networks' parameters."""
        stds = (0.5 * PACE * self.learned["log_alpha"]).exp().unbind(1)
        masks = {
            name: 1 + std.view(-1, *[1] * (noise.ndim - 1)) * noise
            for (name, noise), std in zip(draw.items(), stds, strict=True)
        }
        return Theta(masks, self.stack.parameters)

    @property
    def weight_decay(self) -> float | Tensor:
        """The gradient of `kl` with respect to phi is this number times phi."""
        return 2 * self.weight_penalty

    def kl(self) -> Tensor:
        """The penalty of phi, and the divergence of s from the log-uniform prior for every unit, `S`."""
        squares = self.squares()
        return self.penalty_beside(squares) * squares + self.kl_beside_decay()

    def kl_beside_decay(self) -> Tensor:
        """The divergence of s, `S`."""
        return sum_over_units(self.stack, log_uniform_kl(PACE * self.learned["log_alpha"]))

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """The networks' parameters, and normal masks about 1 of variance alpha."""
        return OnnxTheta(parameters, masks={"kind": "normal", "variance": self.alphas.detach().double().tolist()})


def log_uniform_kl(log_alpha: Tensor) -> Tensor:
    r"""The divergence of N(1, alpha) from the log-uniform prior, up to a constant that makes it 0 for infinite alpha.

    .. math:: D_{KL} \approx \tfrac12 \log(1 + \alpha^{-1}) + k_1 - k_1 \sigma(k_2 + k_3 \log \alpha)

    This is eq. (14) of Molchanov, Ashukha and Vetrov (2017), within 0.009 of the exact value for all alpha.

    Args:
        log_alpha: any shape.

    Returns:
        The same shape.

    Examples:
        >>> log_uniform_kl(torch.tensor([-4.0, 0.0, 20.0])).round(decimals=3)
        tensor([2.6340, 0.4310, 0.0000])

    """
    return 0.5 * nn.functional.softplus(-log_alpha) + _K1 * torch.sigmoid(-_K2 - _K3 * log_alpha)
