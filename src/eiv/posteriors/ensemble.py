"""Anchored ensembles: members that are drawn to different points of the prior."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from eiv.engine.pooling import beside
from eiv.engine.streams import Streams
from eiv.posteriors.base import PointPosterior, ThetaVariance, WeightDraw, sum_of_squares
from eiv.posteriors.exported import OnnxGraph, OnnxTheta

__all__ = ["Ensemble"]


class Ensemble(PointPosterior):
    r"""An ensemble of networks with MAP weights, each under a prior that is centred at an anchor of its own.

    .. math::
        q_\phi(\theta) = \frac1S \sum_{s=1}^S \delta(\theta - \phi_s), \qquad
        \text{regulariser of member } s = \frac{1}{2 \lambda_\theta^2} |\phi_s - a_s|^2, \quad
        a_s \sim \mathcal{N}(0, \lambda_\theta^2)

    The members are the `n_networks` of a model, at least two. They differ in their anchors (Pearce, Leibfried and
    Brintrup, 2020), and not only in their random initial weights. Where the data say nothing, a member stays at its
    anchor, so that the ensemble varies as the prior does. A point has no finite divergence from the prior. The
    negative logarithm of the anchored prior takes its place, up to a constant.

    phi is the weights of the members and is learned. A member is a point: all of its draws are the same, for all rows
    and zetas. The cost is S trainings, each as long as one with Bernoulli dropout; every member is trained on all of
    the data. The epistemic component shrinks as N grows, faster than it should: on linear regression with posterior
    covariance C the members have the covariance :math:`C^2 / \lambda_\theta^2`, less than C, because they all see the
    same noise in the labels. The variance between S members is on average the fraction 1 - 1 / S of its limit for many
    members.

    Args:
        stack: the S networks; their dropout layers drop nothing.
        weight_penalty: 1 / (2 lambda_theta^2); with 0 the members differ in their initial weights only.

    Examples:
        >>> import torch
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import NetworkStack, paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(5), torch.device("cpu")
        >>> q = Ensemble(NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, cpu), weight_penalty=10.0)
        >>> q.begin(Streams(seeds, cpu))  # training does so
        >>> q.kl().shape
        torch.Size([5])

    """

    by_hand = True
    fewest_networks = 2

    def begin(self, streams: Streams) -> None:
        """Draw the anchors from the prior: `anchor.name`, `S x shape`; zero where there is no prior."""
        stds = [(2 * penalty) ** -0.5 if penalty else 0.0 for penalty in self.penalties.tolist()]
        for name, value in self.stack.parameters.items():
            std = beside(torch.tensor(stds, dtype=torch.float64), value)
            self.kept[f"anchor.{name}"] = streams.normal(*value.shape[1:]) * std

    def kept_shapes(self, found: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """One anchor per parameter, of its shape; older files have none where there is no prior."""
        parameters = self.stack.parameters if found or bool(self.penalties.any()) else {}
        return {f"anchor.{name}": tuple(value.shape) for name, value in parameters.items()}

    def evaluate(self, draw: WeightDraw, zeta: Tensor) -> Tensor:
        """Compute f(zeta): `S x D x R x n_x` to `S x D x R x n_y`; inputs that all draws share are evaluated once."""
        if zeta.stride(1) == 0:
            return super().evaluate(draw, zeta[:, :1]).expand(-1, zeta.shape[1], -1, -1)
        return super().evaluate(draw, zeta)

    @property
    def in_closed_form(self) -> bool:
        """True: f has no variance over theta, because a member is a point."""
        return True

    def mean(self, zeta: Tensor) -> Tensor:
        """The output of each member at `zeta`, `S x R x n_x`: `S x R x n_y`."""
        return super().evaluate({}, zeta.unsqueeze(1)).squeeze(1)

    def theta_variance(self, zeta: Tensor, draw: WeightDraw | None = None) -> ThetaVariance:
        """Zero variance, and zero deviation for a single draw, since a member is a point."""
        nothing = zeta.new_zeros(*zeta.shape[:2], self.stack.n_outputs)
        return ThetaVariance(nothing, None if draw is None else nothing.unsqueeze(1))

    @property
    def anchors(self) -> list[Tensor]:
        """The anchors of all members, in the order of the stack's parameters."""
        return [self.kept[f"anchor.{name}"] for name in self.stack.parameters] if self.kept else []

    def kl(self) -> Tensor:
        """The squared distance from the anchor over twice lambda_theta squared, `S`."""
        if not self.kept:
            return super().kl()
        gaps = [value - anchor for value, anchor in zip(self.stack.parameters.values(), self.anchors, strict=True)]
        squares = sum_of_squares(gaps)
        return self.penalty_beside(squares) * squares

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """The networks' parameters: a member is a point."""
        return OnnxTheta(parameters)
