"""Labels with normal noise, the paper's model: y = f(zeta) + epsilon_y."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine import kernels
from eiv.engine.quadrature import Quadrature
from eiv.engine.stable import log_mean_exp, log_normal_mass
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods.correlation import JointNoise, Scores
from eiv.likelihoods.labels import NormalLabels
from eiv.likelihoods.noise import NoiseRule, checked, half_way

if TYPE_CHECKING:
    from eiv.posteriors import WeightPosterior

__all__ = ["NormalLikelihood"]

_LEAST_SLOPE = 1e-12  # squared, in units of the noise: below it f is constant but for rounding


class NormalLikelihood(JointNoise):
    r"""Normal noise sigma_y of each output, to which the known errors of labels are added.

    .. math:: \log p(y | \theta, \zeta_l, \sigma_y^2) = \log \mathcal{N}(y | f_\theta(\zeta_l), \sigma_y^2 + y_{err}^2)

    It assumes that labels scatter normally and alike at every true input, but for their known errors. It learns sigma_y
    by one of the rules of `eiv.likelihoods.noise`, or takes the one that is known, and costs least of all. It misses
    wild labels, which move f as far as they lie off, and noise that varies, whose mean it finds.

    The noise of several outputs may go together. Its correlations are found after training, see
    `eiv.likelihoods.correlation`, and say how labels of a row scatter jointly. Training takes outputs as independent
    given f.

    Args:
        y_noise: `S x n_y`, sigma_y of each network and output.
        rule: the rule that finds sigma_y in training; None where it is known.
        correlation: `S x n_y x n_y`, of the noise of several outputs; None for independent ones.

    Examples:
        >>> likelihood = NormalLikelihood(torch.full((1, 1), 3.0))
        >>> likelihood.noise(torch.full((1, 2, 1), 4.0))
        tensor([[[5.],
                 [5.]]])
        >>> f, y, total = torch.ones(1, 2, 5, 1), torch.zeros(1, 2, 1), torch.zeros(1)
        >>> NormalLikelihood(torch.ones(1, 1)).add_loss_gradient(f, y, None, total, weight=1.0)[0, 0, 0], total
        (tensor([0.1000]), tensor([0.5000]))

    """

    def __init__(self, y_noise: Tensor, rule: NoiseRule | None = None, correlation: Tensor | None = None) -> None:
        self.y_noise, self.rule = y_noise, rule
        super().__init__(correlation)
        self._inverse = 1 / y_noise
        self.is_fixed = rule is None
        self.splits_error = rule is not None and rule.splits_error

    @classmethod
    def start(cls, y_noise: Tensor, rule: NoiseRule | None) -> Self:
        """The likelihood with this sigma_y."""
        return cls(y_noise, rule)

    @property
    def state(self) -> dict[str, Tensor]:
        """sigma_y, `S x n_y`, and of several outputs the correlations of the noise, `S x n_y x n_y`."""
        return {"y_noise": self.y_noise} | self.joint_state

    def with_state(self, state: dict[str, Tensor]) -> Self:
        """The same rule with another sigma_y."""
        return type(self)(state["y_noise"], self.rule, state.get("correlation"))

    def fault(self) -> str:
        """Noise that is not above zero, and correlations that no noise has."""
        if not bool((self.y_noise > 0).all()):
            return "the noise of its likelihood must be above zero"
        return super().fault()

    def noise(self, y_err: Tensor | None = None) -> Tensor:
        """The noise of each row with its known error, `S x B x n_y`; sigma_y itself, `S x n_y`, without `y_err`."""
        return with_known_errors(self.y_noise, y_err)

    def log_density(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The logarithm of the normal density, summed over the outputs: `S x B x L`."""
        sigma = _of_draws(self.noise(y_err))
        residuals = (y.unsqueeze(2) - f) / sigma
        return -0.5 * residuals.square().sum(-1) - (sigma.log() + 0.5 * math.log(2 * math.pi)).sum(-1)

    def log_mean_density(self, f: Tensor, change: Tensor, y: Tensor, y_err: Tensor) -> Tensor:
        """The mean of the normal density in closed form: `S x B`."""
        return log_mean_normal(y - f, change, self.noise(y_err))

    def score(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The slope (y - f) / sigma_y^2, `S x B x L x n_y`."""
        return (y.unsqueeze(2) - f) * self._inverse_of_draws(y_err).square()

    def whitened(self, slopes: Tensor, f: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The slopes divided by sigma_y."""
        noise = self.noise(y_err)
        return slopes / (noise.unsqueeze(1) if noise.ndim == 2 else noise).to(slopes.dtype).unsqueeze(3)

    @property
    def sigma(self) -> Tensor:
        """sigma_y itself."""
        return self.y_noise

    def scores(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Scores:
        """Deviations in units of the noise with known errors."""
        total = _of_draws(self.noise(y_err))
        part = None if y_err is None else self.y_noise[:, None, None] / total
        return Scores((y.unsqueeze(2) - f) / total, part)

    def labels(
        self,
        y_scale: NDArray[np.float64],
        shape: tuple[int, ...],
        y_err: NDArray[np.float64] | None = None,
        pool: Tensor | None = None,
    ) -> NormalLabels:
        """Labels with normal noise, to which known errors are added; of several outputs jointly."""
        noise = np.hypot(self.std(pool) * y_scale, 0.0 if y_err is None else y_err) + np.zeros(shape)
        correlation = self.pooled_correlation(pool)
        known = None if y_err is None or correlation is None else y_err + np.zeros(shape)
        return NormalLabels(noise, correlation, known)

    def draw(self, f: Tensor, streams: Streams, y_err: Tensor | None = None) -> Tensor:
        """Labels about f: `S x B x L x n_y`."""
        return f + _of_draws(self.noise(y_err)) * streams.normal(*f.shape[1:]).to(f.dtype)

    def renew(
        self,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        draws: ZetaDraws | None,
        streams: Streams,
        is_last: bool,
    ) -> None:
        """Find sigma_y again by its rule, in place."""
        if self.rule is None:
            return
        found = self.rule.renewed(self.y_noise, posterior, learned, judged, draws, streams)
        found = checked(self.rule, found, self.y_noise)
        least = 0.0 if is_last else self.rule.least_share
        self.y_noise.copy_(torch.maximum(found, least * self.y_noise))
        self._inverse.copy_(1 / self.y_noise)

    def split(
        self,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        epistemic: Tensor,
        draws: ZetaDraws | None,
        streams: Streams,
    ) -> Self:
        """The likelihood with sigma_y moved half the way, in logarithm, to the one found for `judged`.

        The epistemic uncertainty counts there as a known error of labels.
        """
        assert self.rule is not None
        judged = judged.with_known(epistemic)
        found = self.rule.renewed(self.y_noise, posterior, learned, judged, draws, streams)
        found = checked(self.rule, found, self.y_noise)
        return type(self)(half_way(self.y_noise, found), self.rule)

    def terms(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """Minus half the squared residuals in units of the noise, summed over the outputs: `S x B x L`."""
        return (f - y.unsqueeze(2)).mul_(self._inverse_of_draws(y_err)).square().sum(-1).mul_(-0.5)

    def constant(self, y_err: Tensor | None = None) -> Tensor:
        r"""The terms of the negative bound that depend on the noise alone, `S`; the mean over rows with known errors.

        .. math:: \sum_{j=1}^{n_y} \log \sigma_{y,j} + \frac{n_y}{2} \log 2 \pi
        """
        noise = self.noise(y_err)
        constant = (noise.log() + 0.5 * math.log(2 * math.pi)).sum(-1)
        return constant if noise.ndim == 2 else constant.mean(1)

    def add_loss_gradient(
        self,
        f: Tensor,
        y: Tensor,
        y_err: Tensor | None,
        total: Tensor,
        weight: float,
        quadrature: Quadrature | None = None,
    ) -> Tensor:
        """As in `Likelihood`, in place, and by one kernel on a GPU."""
        few = f[0, ..., 0].numel() <= kernels.MOST_LOSS_VALUES
        plain = quadrature is None and y_err is None
        if plain and f.dtype == torch.float32 and kernels.available(f.device) and few:
            return kernels.add_loss_gradient(f, y, self._inverse, total, weight)
        if quadrature is not None:
            f = quadrature.points(f)
        _, n_rows, n_zeta, _ = f.shape
        inverse = self._inverse_of_draws(y_err)
        residuals = f.sub_(y.unsqueeze(2)).mul_(inverse)
        squares = residuals.square()
        if n_zeta == 1:
            total.add_(squares.sum((1, 2, 3)), alpha=0.5 * weight / n_rows)
            return residuals.mul_(inverse).div_(n_rows)
        terms = squares.sum(-1).mul_(-0.5)  # S x B x L
        if quadrature is not None:
            terms += quadrature.log_weights
        total.sub_(log_mean_exp(terms, dim=-1).sum(-1), alpha=weight / n_rows)
        gradient = residuals.mul_(inverse).mul_(terms.softmax(-1).div_(n_rows).unsqueeze(-1))
        return gradient if quadrature is None else quadrature.to_zetas(gradient)

    def chosen_gradient(self, f: Tensor, y: Tensor, y_err: Tensor | None) -> Tensor:
        """As in `Likelihood`, in place."""
        return f.sub_(y.unsqueeze(2)).mul_(self._inverse_of_draws(y_err).square()).div_(f.shape[1] * f.shape[2])

    def in_words(self, y_scale: float) -> str:
        """The root mean square of sigma_y over networks and outputs."""
        return f"σ_y {y_scale * self.y_noise.square().mean().sqrt().item():.4g}"

    def _inverse_of_draws(self, y_err: Tensor | None) -> Tensor:
        """One over the noise, in a shape that multiplies `S x B x L x n_y`."""
        return _of_draws(self._inverse if y_err is None else 1 / self.noise(y_err))


def with_known_errors(y_noise: Tensor, y_err: Tensor | None) -> Tensor:
    r"""The noise of each row, from the fitted noise and the known errors of labels.

    .. math:: \sqrt{\sigma_y^2 + y_{err,i}^2}

    `y_noise` is `S x n_y`, `y_err` and the result are `S x rows x n_y`. Without `y_err`, `y_noise` is returned.
    """
    return y_noise if y_err is None else torch.hypot(y_noise.unsqueeze(1).expand_as(y_err), y_err)


def log_mean_normal(gap: Tensor, change: Tensor, sigma: Tensor) -> Tensor:
    r"""The logarithm of the mean of a normal density of several outputs along a straight line.

    .. math::
        \int_{-1/2}^{1/2} \prod_j \mathcal{N}(r_j | s \Delta_j, \sigma_j^2)\, ds = \sqrt{\frac{2 \pi}{A}}\,
        e^{-\frac12 (C - B^2 / A)} \prod_j \frac{1}{\sqrt{2 \pi} \sigma_j}
        \Big[\Phi\Big(\sqrt A s - \frac{B}{\sqrt A}\Big)\Big]_{s=-1/2}^{1/2}, \qquad
        A = \sum_j \frac{\Delta_j^2}{\sigma_j^2}, \quad B = \sum_j \frac{r_j \Delta_j}{\sigma_j^2}, \quad
        C = \sum_j \frac{r_j^2}{\sigma_j^2}

    Args:
        gap: r, `... x n_y`.
        change: Delta, the same shape.
        sigma: the same shape.

    Returns:
        The shape `...`.

    Examples:
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> log_mean_normal(0 * one, 1e6 * one, one).exp() * 1e6  # the whole of the density, spread over the line
        tensor(1.0000, dtype=torch.float64)

    """
    slope, residual = change / sigma, gap / sigma
    a = slope.square().sum(-1).clamp_min(_LEAST_SLOPE)
    b, root = (slope * residual).sum(-1), a.sqrt()
    mass = log_normal_mass(-0.5 * root - b / root, 0.5 * root - b / root)
    rest = (residual.square() + 2 * sigma.log() + math.log(2 * math.pi)).sum(-1)
    return mass - 0.5 * (rest - b.square() / a + a.log() - math.log(2 * math.pi))


def _of_draws(noise: Tensor) -> Tensor:
    """Noise `S x n_y` or `S x B x n_y`, reshaped to multiply `S x B x L x n_y`."""
    return noise[:, None, None, :] if noise.ndim == 2 else noise.unsqueeze(2)
