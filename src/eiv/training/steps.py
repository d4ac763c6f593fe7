"""One optimisation step of Algorithm 1: by autograd, by passes written by hand, or a mixture of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from eiv.engine.batch import Batch
from eiv.engine.mlp import MLPStack
from eiv.engine.optim import FlatAdam
from eiv.engine.passes import evaluate_by_hand
from eiv.engine.quadrature import Quadrature
from eiv.likelihoods import Likelihood
from eiv.posteriors import WeightPosterior
from eiv.posteriors.base import sum_of_squares
from eiv.training.objective import bound, loss

_ROUNDING = 1e-3  # of gradients, as a share of their length: above rounding errors in float32


class Counts(NamedTuple):
    """How many rows an epoch visits, and how many the table counts for, which the prior of the weights is shared by.

    For weighted rows `n_rows`, `S`, is the sum of their weights; visits are a whole number, the same for all networks.
    """

    n_visits: int
    n_rows: int | Tensor


class Step:
    """One optimisation step of Algorithm 1, for any weight posterior, by autograd."""

    quadrature: Quadrature | None = None  # of the zetas of a row

    def __init__(self, posterior: WeightPosterior, likelihood: Likelihood, counts: Counts, adam: FlatAdam) -> None:
        self.posterior, self.likelihood, self.adam = posterior, likelihood, adam
        self.n_visits, self.n_rows = counts
        self.adams = [adam]

    def set_rate(self, learning_rate: float) -> None:
        """Change the step size."""
        for adam in self.adams:
            adam.learning_rate = learning_rate

    def __call__(self, batch: Batch, total: Tensor) -> None:
        """Move the weights for a minibatch, and add its share of the epoch's loss to `total`, `S`.

        Where the batch has levels, zetas are chosen by y.
        """
        self.adam.gradient.zero_()
        zeta, y, y_err, levels, draw = batch
        share, kl = y.shape[1] / self.n_visits, self.posterior.kl()
        if levels is not None:
            with torch.no_grad():
                candidates = self.posterior.evaluate(draw, zeta)
                zeta = _taken(zeta, self.likelihood.choose_zetas(candidates, y, y_err, total, share, levels))
            mean = self.likelihood.log_density(self.posterior.evaluate(draw, zeta), y, y_err).mean((1, 2))
            loss(-mean, kl, self.n_rows).sum().backward()
            total.add_((self.likelihood.constant(y_err) + kl / self.n_rows).detach(), alpha=share)
        else:
            f = self.posterior.evaluate(draw, zeta)
            found = loss(-bound(self.likelihood, f, y, y_err, self.quadrature), kl, self.n_rows)  # (mcloss)
            found.sum().backward()
            total.add_(found.detach(), alpha=share)
        self.adam.step()

    def weights_changed(self) -> None:
        """Take note that the weights were set to others."""

    def rest_of_loss(self, y_err: Tensor | None) -> Tensor | float:
        """What the steps of an epoch leave out of eq. (mcloss); `y_err` is that of the rows that it visits."""
        return 0.0


class PassStep(Step):
    """The same for fully connected networks: autograd for the draw and the KL term, but not for layers and loss."""

    posterior: WeightPosterior

    def __init__(
        self, posterior: WeightPosterior, likelihood: Likelihood, counts: Counts, learning_rate: float, stack: MLPStack
    ) -> None:
        decay = 0.0 if posterior.weight_decay is None else posterior.weight_decay / counts.n_rows
        adam = FlatAdam(list(stack.parameters.values()), learning_rate, decay, posterior.anchors)
        super().__init__(posterior, likelihood, counts, adam)
        if posterior.learned:
            self.adams.append(FlatAdam(list(posterior.learned.values()), learning_rate))
        self.stack = stack
        stack.forget_buffers()

    def __call__(self, batch: Batch, total: Tensor) -> None:
        """Move phi for a minibatch; its loss less what does not depend on the data is added to `total`."""
        zeta, y, y_err, levels, draw = batch
        share = y.shape[1] / self.n_visits
        theta, signed = self.posterior.theta(draw), self.posterior.signed_masks
        points, parameters = theta.parameters is self.stack.parameters, list(theta.parameters.values())
        if levels is not None:
            with torch.no_grad():
                candidates = evaluate_by_hand(self.stack, theta.masks, parameters, zeta, signed)
                zeta = _taken(zeta, self.likelihood.choose_zetas(candidates, y, y_err, total, share, levels))
        gradients = self.adam.gradients if points else None
        f = evaluate_by_hand(self.stack, theta.masks, parameters, zeta, signed, gradients)
        with torch.no_grad():
            if levels is not None:
                df = self.likelihood.chosen_gradient(f.detach(), y, y_err)
            else:
                df = self.likelihood.add_loss_gradient(f.detach(), y, y_err, total, share, self.quadrature)
            for adam in self.adams[1:] if points else self.adams:
                adam.gradient.zero_()
        f.backward(df)
        rest = self.posterior.kl_beside_decay()
        if rest is not None and rest.requires_grad:
            (rest / self.n_rows).sum().backward()  # adds to what the data say
        for adam in self.adams:
            adam.step()

    def rest_of_loss(self, y_err: Tensor | None) -> Tensor | float:
        """The constant of the likelihood, and the KL term at the end of the epoch."""
        return self.likelihood.constant(y_err) + self.posterior.kl().detach() / self.n_rows


class MLPStep(Step):
    """The same without autograd, for fully connected networks whose KL term is a decay to zero or to anchors."""

    posterior: WeightPosterior

    def __init__(
        self, posterior: WeightPosterior, likelihood: Likelihood, counts: Counts, adam: FlatAdam, stack: MLPStack
    ) -> None:
        super().__init__(posterior, likelihood, counts, adam)
        self.stack = stack
        stack.forget_buffers()
        # Rounded products leave the memory as the limit: a large gradient is used, and the weights that it moves are
        # rounded again, while they are in the cache.
        self.piecewise = stack.operands == torch.bfloat16 and adam.values.device.type == "cpu"
        self.weights_changed()
        rest = [i for i in range(len(adam.gradients)) if i // 2 not in stack.large_layers or i % 2]
        self.rest = [adam.part(i) for i in rest]

    @torch.no_grad()
    def __call__(self, batch: Batch, total: Tensor) -> None:
        """Move the weights for a minibatch; its loss less what does not depend on the data is added to `total`."""
        zeta, y, y_err, levels, draw = batch
        (masks, parameters), share = self.posterior.theta(draw), y.shape[1] / self.n_visits
        if parameters is not self.stack.parameters:
            raise ValueError(
                f"{type(self.posterior).__name__}: its draws have parameters of their own, so that weight_decay does "
                "not do without autograd; leave weight_decay out."
            )
        f = self.stack.forward(masks, zeta)
        if levels is not None:
            zeta = _taken(zeta, self.likelihood.choose_zetas(f, y, y_err, total, share, levels))
            df = self.likelihood.chosen_gradient(self.stack.forward(masks, zeta), y, y_err)
        else:
            df = self.likelihood.add_loss_gradient(f, y, y_err, total, share, self.quadrature)
        if not self.piecewise:
            self.stack.backward(df, self.adam.gradients, signed=self.posterior.signed_masks)
            self.adam.step()
            return
        self.adam.begin()
        self.stack.backward(df, self.adam.gradients, self._move, signed=self.posterior.signed_masks)
        for part in self.rest:
            self.adam.move(part, self.adam.gradient[part])

    def _move(self, parameter: int, network: int, gradient: Tensor) -> None:
        self.adam.move(self.adam.part(parameter, network), gradient.flatten())
        self.stack.round_weights(parameter // 2, network)

    def weights_changed(self) -> None:
        """Round the weights again, where products take them rounded."""
        if self.piecewise:
            self.stack.round_weights()

    def rest_of_loss(self, y_err: Tensor | None) -> Tensor | float:
        """The constant of the likelihood, and the KL term at the end, whose gradient is Adam's weight decay."""
        return self.likelihood.constant(y_err) + self.posterior.kl().detach() / self.n_rows


def _taken(zeta: Tensor, chosen: Tensor) -> Tensor:
    """Zetas `S x B x L x n_x` at the positions `S x B x n_kept`."""
    return torch.take_along_dim(zeta, chosen.unsqueeze(-1), dim=2)


def step_for(posterior: WeightPosterior, likelihood: Likelihood, learning_rate: float, counts: Counts) -> Step:
    """The fastest step that a posterior allows."""
    stack, decay = posterior.stack, posterior.weight_decay
    if not (isinstance(stack, MLPStack) and posterior.by_hand):
        return Step(posterior, likelihood, counts, FlatAdam(posterior.parameters, learning_rate))
    _check_decay(posterior)
    if decay is None or posterior.learned or posterior.kl_beside_decay() is not None:
        return PassStep(posterior, likelihood, counts, learning_rate, stack)
    adam = FlatAdam(posterior.parameters, learning_rate, decay / counts.n_rows, posterior.anchors)
    return MLPStep(posterior, likelihood, counts, adam, stack)


@torch.enable_grad()
def _check_decay(posterior: WeightPosterior) -> None:
    """Refuse a `weight_decay` and a `kl_beside_decay` whose gradients do not add up to that of `kl`."""
    if posterior.weight_decay is None:
        return
    values = list(posterior.stack.parameters.values())
    anchors = posterior.anchors or [torch.zeros_like(value) for value in values]
    squares = sum_of_squares([value - anchor for value, anchor in zip(values, anchors, strict=True)])
    kl, rest = posterior.kl(), posterior.kl_beside_decay()
    left_out = kl - posterior.weight_decay / 2 * squares - (0.0 if rest is None else rest)
    size, gap = (_size_of_gradient(each, posterior.parameters) for each in (kl, left_out))
    if gap > _ROUNDING * size:
        raise ValueError(
            f"{type(posterior).__name__}: weight_decay and kl_beside_decay do not add up to kl. State them for its own "
            "kl, or return None from weight_decay."
        )


def _size_of_gradient(kl: Tensor, parameters: Sequence[Tensor]) -> float:
    """The length of the gradient of a divergence, `S`, with respect to the parameters of all networks."""
    if not kl.requires_grad:
        return 0.0
    found = torch.autograd.grad(kl.sum(), parameters, retain_graph=True, materialize_grads=True)
    return math.hypot(*(float(each.norm()) for each in found))
