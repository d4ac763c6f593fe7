"""Mean-field normal weights: every weight has its own mean and standard deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from eiv.engine.streams import Streams
from eiv.networks import NetworkStack
from eiv.posteriors.base import PACE, Theta, WeightDraw, WeightPosterior
from eiv.posteriors.exported import OnnxGraph, OnnxTheta

__all__ = ["MeanField"]

_RATE = 0.1  # p for networks without dropout layers
_LEAST_RATE = 1e-4


class MeanField(WeightPosterior):
    r"""Independent normal weights, each with a mean and a standard deviation that are learned ("Bayes by backprop").

    .. math::
        \theta_j \sim \mathcal{N}(\mu_j, \sigma_j^2), \qquad
        D_{KL} = \sum_j \Big( \log \frac{\lambda_\theta}{\sigma_j} +
        \frac{\mu_j^2 + \sigma_j^2}{2 \lambda_\theta^2} - \frac12 \Big)

    phi is mu, the parameters of the stack, and log sigma, of the same size. All weights are random, including biases.
    Dropout layers of the network drop nothing, but their mean rate p sets the initial sigma:
    :math:`\sqrt{p / (1 - p)}` times the root mean square of each parameter's initial values.

    All rows of a minibatch share one theta, and so do the zetas of each row. A theta for each row would mean a separate
    network for each row. The local reparametrisation, which draws the outputs of a layer instead of its weights, gives
    noise of its own to each row, but also to each zeta. The outputs for several zetas of a row have a joint
    distribution under one theta. Independent noise per zeta breaks it, and noise shared by all zetas does not
    reproduce it. The local reparametrisation would be right for exact inputs only. One theta per minibatch is always
    right; its gradients vary more.

    A draw costs one normal number per weight rather than per unit, and a step moves twice as many parameters. Training
    therefore takes several times as long as with Bernoulli dropout (`benchmarks/posteriors.py` measures it). A
    prediction keeps `n_theta` copies of the weights.

    The epistemic uncertainty shrinks as N grows. Correlations between weights are missed: on linear regression sigma is
    the standard deviation of a weight given all the others, which is less than its posterior standard deviation. In
    wide networks with little data the prior dominates, and f comes out flat.

    Args:
        stack: the S networks.
        weight_penalty: 1 / (2 lambda_theta^2); where it is 0, lambda_theta is infinite and its logarithm is left out.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(2), torch.device("cpu")
        >>> q = MeanField(NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, cpu), weight_penalty=10.0)
        >>> q.evaluate(q.draw(Streams(seeds, cpu), n_draws=4), torch.zeros(2, 4, 50, 1)).shape
        torch.Size([2, 4, 50, 1])
        >>> q.evaluate(q.draw(Streams(seeds, cpu), n_draws=1), torch.zeros(2, 16, 5, 1)).shape  # one for 16 rows
        torch.Size([2, 16, 5, 1])

    """

    by_hand = True
    shares_draws = True

    def __init__(self, stack: NetworkStack, weight_penalty: float | Tensor) -> None:
        super().__init__(stack, weight_penalty)
        rates = [layer.rate for layer in stack.dropout_layers]
        rate = max(sum(rates) / len(rates) if rates else _RATE, _LEAST_RATE)
        starts = [_start(value.detach(), rate) for value in stack.parameters.values()]
        self.learned["log_sigma"] = (torch.cat(starts, dim=1) / PACE).requires_grad_(True)

    @property
    def sigmas(self) -> Tensor:
        """Sigma of all weights, in the order of the stack's parameters: `S x weights`."""
        return (PACE * self.learned["log_sigma"]).exp()

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw a normal number per weight for `n_draws` thetas per network: `{weights: S x n_draws x weights}`."""
        return {"weights": streams.normal(n_draws, self.learned["log_sigma"].shape[1])}

    def theta(self, draw: WeightDraw) -> Theta:
        """The weights mu + sigma e, with gradients to both."""
        noise, means = draw["weights"], self.stack.parameters
        weights = _Weights.apply(self.learned["log_sigma"], noise, *means.values())  # type: ignore[no-untyped-call]
        return Theta(self.no_masks(noise.shape[1]), dict(zip(means, weights, strict=True)))

    @property
    def weight_decay(self) -> float | Tensor:
        """The gradient of `kl` with respect to mu is this number times mu."""
        return 2 * self.weight_penalty

    def kl(self) -> Tensor:
        """The divergence of normal distributions, `S`."""
        squares = self.squares()
        return self.penalty_beside(squares) * squares + self.kl_beside_decay()

    def kl_beside_decay(self) -> Tensor:
        """The divergence without the penalty of mu, `S`."""
        log_sigma = self.learned["log_sigma"]
        kl: Tensor = _SigmaKL.apply(log_sigma, self.penalty_beside(log_sigma))  # type: ignore[no-untyped-call]
        return kl + self._constant()

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """The weights mu + sigma e."""
        shapes = {name: value.shape[1:] for name, value in self.stack.parameters.items()}
        drawn, sigmas = {}, self.sigmas.split([shape.numel() for shape in shapes.values()], dim=1)
        for (name, shape), sigma in zip(shapes.items(), sigmas, strict=True):
            moved = graph.add("Mul", graph.of_network(sigma.unflatten(1, shape)), graph.noise(name, shape))
            drawn[name] = graph.add("Add", parameters[name], moved)
        return OnnxTheta(drawn)

    def _constant(self) -> float | Tensor:
        n_weights, penalty = self.learned["log_sigma"].shape[1], self.weight_penalty
        if isinstance(penalty, Tensor):
            constants = n_weights * (-0.5 * (2 * penalty).log() - 0.5)
            return torch.where(penalty > 0, constants, 0.0).to(self.learned["log_sigma"].dtype)
        return n_weights * (-0.5 * math.log(2 * penalty) - 0.5) if penalty else 0.0


class _Weights(torch.autograd.Function):
    """The weights mu + sigma e of D draws, `S D x shape` for each parameter, with few passes over memory."""

    @staticmethod
    def forward(ctx: Any, log_sigma: Tensor, noise: Tensor, *means: Tensor) -> tuple[Tensor, ...]:
        sigmas = (PACE * log_sigma).exp_()
        ctx.save_for_backward(sigmas, noise)
        weights, start = [], 0
        for mean in means:
            own = slice(start, start + mean[0].numel())
            flat = mean.new_empty(*noise.shape[:2], mean[0].numel())  # contiguous
            torch.addcmul(mean.flatten(1).unsqueeze(1), sigmas[:, own].unsqueeze(1), noise[:, :, own], out=flat)
            weights.append(flat.view(-1, *mean.shape[1:]))
            start = own.stop
        return tuple(weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        sigmas, noise = ctx.saved_tensors
        n_networks, n_draws, _ = noise.shape
        of_sigma = torch.empty_like(sigmas)
        of_means, start = [], 0
        for gradient in gradients:
            by_draw = gradient.reshape(n_networks, n_draws, -1)
            own = slice(start, start + by_draw.shape[2])
            if n_draws == 1:
                torch.mul(by_draw[:, 0], noise[:, 0, own], out=of_sigma[:, own])
                of_means.append(gradient)
            else:
                of_sigma[:, own] = (by_draw * noise[:, :, own]).sum(1)
                of_means.append(by_draw.sum(1).view(n_networks, *gradient.shape[1:]))
            start = own.stop
        return of_sigma.mul_(sigmas).mul_(PACE), None, *of_means


class _SigmaKL(torch.autograd.Function):
    """The terms of the divergence that depend on sigma, `S`: the penalty of its squares minus its logarithms."""

    @staticmethod
    def forward(ctx: Any, log_sigma: Tensor, penalty: float | Tensor) -> Tensor:
        squares = (2 * PACE * log_sigma).exp_()
        ctx.save_for_backward(squares)
        ctx.penalty = penalty  # a number, or S x 1
        return (penalty * squares.sum(1, keepdim=True)).squeeze(1) - PACE * log_sigma.sum(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (squares,) = ctx.saved_tensors
        slopes = (2 * PACE * ctx.penalty * squares).sub_(PACE)
        return slopes.mul_(gradient.unsqueeze(1)), None


def _start(value: Tensor, rate: float) -> Tensor:
    """The initial logarithm of sigma, `S x weights`."""
    size = value.flatten(1).square().mean(1, keepdim=True).sqrt().clamp_min(1e-3)
    start: Tensor = (size * (rate / (1 - rate)) ** 0.5).log()
    return start.expand(-1, value[0].numel())
