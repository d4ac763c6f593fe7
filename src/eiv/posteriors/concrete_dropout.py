"""Concrete dropout: Bernoulli dropout whose rates are learned."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eiv.engine.streams import Streams
from eiv.networks import NetworkStack
from eiv.posteriors.base import PACE, Theta, WeightDraw, WeightPosterior, check_dropout_layers, sum_over_units
from eiv.posteriors.exported import OnnxGraph, OnnxTheta

__all__ = ["ConcreteDropout"]

_TEMPERATURE = 0.1  # of the relaxed mask, as in Gal, Hron and Kendall (2017)
_LEAST_RATE = 0.01
_EDGE = 2.0**-24  # distance of a uniform number from 0 and 1


class ConcreteDropout(WeightPosterior):
    r"""Weights that lose whole units at random, at rates that the data decide.

    .. math::
        \theta = \phi \cdot \mathrm{diag}(b), \quad b_j \sim \mathrm{Bernoulli}(1 - p_l) / (1 - p_l), \qquad
        D_{KL} = \frac{1 - \bar p}{2 \lambda_\theta^2} |\phi|^2 - \sum_l n_l H(p_l) + \mathrm{const}

    with the entropy :math:`H(p) = -p \log p - (1 - p) \log(1 - p)` of each of the n_l units of dropout layer l, and the
    mean rate :math:`\bar p` (Gal, Hron and Kendall, 2017). As for `BernoulliDropout`, the divergence is that of masks
    of 0 and 1, with the same factor for all parameters. In training the mask is relaxed, so that gradients reach p:

    .. math:: b_j = \frac{1}{1 - p} \, \sigma\Big(- \frac{\mathrm{logit}\, p + \mathrm{logit}\, u_j}{t}\Big), \quad
              u_j \sim U(0, 1), \quad t = 0.1

    Without gradients, that is in predictions and for sigma_y, masks are exactly 0 or 1 / (1 - p), the limit t to 0.

    phi and one p per dropout layer and network are learned; p starts at the layer's rate. Every row has its own masks,
    shared by its zetas. A draw costs one logistic number per unit, and training needs the gradient with respect to the
    masks. Training therefore takes two to three times as long as with Bernoulli dropout, and up to six times for small
    networks on a GPU. With more data p falls, and the epistemic component with it. The entropy favours p = 1/2, so that
    rates are large for small data sets.

    Args:
        stack: the S networks, each with at least one dropout layer; p starts at its rate.
        weight_penalty: 1 / (2 lambda_theta^2).

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(2), torch.device("cpu")
        >>> q = ConcreteDropout(NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, cpu), weight_penalty=10.0)
        >>> q.evaluate(q.draw(Streams(seeds, cpu), n_draws=16), torch.zeros(2, 16, 5, 1)).shape
        torch.Size([2, 16, 5, 1])
        >>> q.rates.shape  # networks, dropout layers
        torch.Size([2, 4])

    """

    by_hand = True

    def __init__(self, stack: NetworkStack, weight_penalty: float | Tensor) -> None:
        super().__init__(stack, weight_penalty)
        check_dropout_layers(stack)
        like = next(iter(stack.parameters.values()))
        rates = like.new_tensor([max(layer.rate, _LEAST_RATE) for layer in stack.dropout_layers])
        self.learned["logit_p"] = (rates.logit() / PACE).repeat(len(like), 1).requires_grad_(True)

    @property
    def rates(self) -> Tensor:
        """P of each network and dropout layer, `S x layers`."""
        return torch.sigmoid(PACE * self.learned["logit_p"])

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw logit u for `n_draws` thetas per network: `{mask: S x n_draws x shape}`."""
        return {
            layer.mask_name: streams.uniform(n_draws, *layer.shape).clamp_(_EDGE, 1 - _EDGE).logit_()
            for layer in self.stack.dropout_layers
        }

    def theta(self, draw: WeightDraw) -> Theta:
        """Masks, relaxed where gradients are needed, and the networks' parameters."""
        masks = {}
        for (name, noise), own in zip(draw.items(), (PACE * self.learned["logit_p"]).unbind(1), strict=True):
            logit = own.view(-1, *[1] * (noise.ndim - 1))
            kept = torch.sigmoid(-(logit + noise) / _TEMPERATURE) if torch.is_grad_enabled() else noise + logit < 0
            masks[name] = kept * (1 + logit.exp())  # 1 / (1 - p)
        return Theta(masks, self.stack.parameters)

    def kl(self) -> Tensor:
        """The penalty of phi, less the entropy of the masks, `S`."""
        logits, rates = PACE * self.learned["logit_p"], self.rates
        entropies = nn.functional.softplus(logits) - rates * logits
        squares = self.squares()
        penalty = (1 - rates.mean(1)) * self.penalty_beside(squares) * squares
        return penalty - sum_over_units(self.stack, entropies)

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """The networks' parameters, and masks of 0 and 1 / (1 - p)."""
        return OnnxTheta(parameters, masks={"kind": "bernoulli", "p": self.rates.detach().double().tolist()})
