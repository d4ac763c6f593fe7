"""Errors as the push-forward of a normal distribution by a flow, for laws that a few normal parts do not have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eiv.extras import needs
from eiv.inputs.laws import MixtureLaw
from eiv.inputs.parts import nearest_to, normal_scores

__all__ = ["Flow", "fit_flow", "needs_flows"]

N_PARTS = 16
"""How many normal distributions stand for a flow; `docs/errors.md` says how far off they are."""
_BINS = 8  # of the spline, as zuko has by default
_BOUND = 5.0  # of the spline, in normal scores: 6e-7 of the probability lies beyond
_STEPS = 100  # of the search, at most


class Flow(NamedTuple):
    r"""The push-forward of a standard normal number by a monotone spline.

    .. math:: e = m + s\, T(z), \qquad z \sim \mathcal{N}(0, 1), \qquad
              \log q(e) = \log \mathcal{N}(z | 0, 1) - \log T'(z) - \log s

    The pieces of T are quotients of quadratic functions (C. Durkan, A. Bekasov, I. Murray, G. Papamakarios, Neural
    spline flows, NeurIPS 2019), as the package zuko has them.

    Attributes:
        knots: widths, heights and slopes of the bins, before they are made positive.
        mean: m.
        scale: s.

    Examples:
        >>> flow = Flow.normal(0.0, 2.0)
        >>> flow.push(torch.ones(1).double()).detach()
        tensor([2.], dtype=torch.float64)

    """

    knots: tuple[Tensor, Tensor, Tensor]
    mean: Tensor | float
    scale: Tensor | float

    @classmethod
    def normal(cls, mean: float, scale: float) -> Flow:
        """The normal distribution, where training begins."""
        widths, heights, slopes = (torch.zeros(n).double().requires_grad_(True) for n in (_BINS, _BINS, _BINS - 1))
        return cls((widths, heights, slopes), mean, scale)

    def push(self, z: Tensor) -> Tensor:
        """Errors from standard normal numbers."""
        found: Tensor = self.mean + self.scale * self._spline()(z)
        return found

    def log_density(self, e: Tensor) -> Tensor:
        """The logarithm of the density of errors."""
        scale = torch.as_tensor(self.scale)
        z, log_slope = self._spline().inv.call_and_ladj((e - self.mean) / scale)
        found: Tensor = log_slope - 0.5 * z.square() - scale.log() - 0.5 * math.log(2 * math.pi)
        return found

    def shaped(self, std: float) -> Flow:
        """The same shape with a mean of zero and this standard deviation."""
        shape = self._replace(mean=0.0, scale=1.0)
        errors, weights = shape.rule()
        mean = weights @ errors
        scale = std / (weights @ (errors - mean).square()).sqrt()
        return self._replace(mean=-scale * mean, scale=scale)

    def rule(self) -> tuple[Tensor, Tensor]:
        """Errors and weights that stand for the flow in expectations."""
        scores, half = (torch.from_numpy(part) for part in normal_scores())
        return self.push(torch.cat([-scores, scores])), torch.cat([half, half]) / 2

    def law(self) -> MixtureLaw:
        """The mixture of `N_PARTS` normal distributions that is nearest."""
        with torch.no_grad():
            errors, weights = (part.numpy() for part in self.rule())
        parts = nearest_to(errors, weights, N_PARTS)
        return MixtureLaw(np.exp(parts.log_weights[0]), parts.shifts[0], parts.stds[0])

    def _spline(self) -> Any:
        from zuko.transforms import MonotonicRQSTransform  # noqa: PLC0415  (an extra)

        return MonotonicRQSTransform(*self.knots, bound=_BOUND)


def needs_flows() -> None:
    """Raise a `MissingExtraError` where zuko is missing.

    Examples:
        >>> needs_flows()

    """
    needs("A law of errors as a flow", "zuko", extra="flow")


def fit_flow(start: Flow, per_row: Callable[[Flow], Tensor]) -> Flow:
    r"""Train a flow by the logarithm of the density of each row.

    .. math:: \max_T \sum_i \ell_i(T) - \tfrac12 |k|^2

    by L-BFGS, with a standard normal prior of its 23 free numbers k, before they are made positive. All of them are
    zero for a normal distribution.

    Args:
        start: where to begin.
        per_row: l, `rows`.

    Returns:
        The flow.

    Examples:
        >>> random = torch.Generator().manual_seed(0)
        >>> errors = torch.rand(400, generator=random, dtype=torch.float64)
        >>> flow = fit_flow(Flow.normal(0.5, 0.29), lambda flow: flow.log_density(errors))
        >>> bool(flow.log_density(errors).mean() > -0.1)  # a normal distribution has -0.18, the truth 0
        True

    """
    needs_flows()
    widths, heights, slopes = (part.detach().clone().requires_grad_(True) for part in start.knots)
    flow = start._replace(knots=(widths, heights, slopes))
    search = torch.optim.LBFGS(flow.knots, max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        found = 0.5 * torch.cat(flow.knots).square().sum() - per_row(flow).sum()
        found.backward()
        return found

    search.step(loss)
    return flow._replace(knots=(widths.detach(), heights.detach(), slopes.detach()))
