"""Student's t density of residuals, alone and with a known normal error added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from scipy.special import ndtr, stdtrit
from torch import Tensor

# Nodes u = log lambda of the scale mixture, u = 2 sinh(v) for even steps of v. They are near each other about
# lambda = 1, where nu = 50 needs a step of 1.3 / sqrt(nu / 2) in u, and reach to residuals of a thousand scales.
MIXTURE_NODES, _FROM, _TO = 33, -2.65, 1.35
_POINTS, _FARTHEST = 97, 9.0  # of the sum over residuals behind the information: up to sinh(9) = 4,000 scales


class Tail(NamedTuple):
    """The logarithm of a density of residuals, and its slope, each in the shape of the residuals."""

    log_density: Tensor
    slope: Tensor


def tail(residuals: Tensor, scale: Tensor, nu: Tensor, known: Tensor | None = None) -> Tail:
    r"""The log density of residuals r = y - f and its slope with respect to f, for noise that is t plus a normal error.

    .. math:: \log t_\nu(r | s) = \log \Gamma\big(\tfrac{\nu + 1}{2}\big) - \log \Gamma\big(\tfrac{\nu}{2}\big)
              - \tfrac12 \log \nu \pi s^2 - \tfrac{\nu + 1}{2} \log\Big(1 + \frac{r^2}{\nu s^2}\Big)

    With a known error e of the label there is no closed form. The t is a scale mixture of normals, and stays one when
    the error is added:

    .. math:: p(r) = \int \mathcal{N}(r | 0, s^2 / \lambda + e^2) \,
              \mathrm{Gamma}(\lambda | \tfrac{\nu}{2}, \tfrac{\nu}{2}) \, d\lambda
              \approx \sum_{k=1}^{33} w_k(\nu) \, \mathcal{N}(r | 0, s^2 / \lambda_k + e^2)

    The nodes are even steps of v in log lambda = 2 sinh v, for which the trapezoidal rule converges exponentially.

    Args:
        residuals: r, of any shape.
        scale: s, in a shape that multiplies it.
        nu: in the same shape as s.
        known: e, in a shape that multiplies r, or None.

    Returns:
        Both, in the shape of r.

    Examples:
        >>> one = torch.ones((), dtype=torch.float64)
        >>> tail(one, one, 4 * one).log_density.round(decimals=4), tail(one, one, 4 * one).slope
        (tensor(-1.5387, dtype=torch.float64), tensor(1., dtype=torch.float64))

    """
    if known is None:
        excess = residuals.square() / (nu * scale.square())
        constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * (math.pi * nu).log() - scale.log()
        slope = (nu + 1) / nu * residuals / scale.square() / (1 + excess)
        return Tail(constant - (nu + 1) / 2 * torch.log1p(excess), slope)
    variance, log_weights = mixture(scale, nu, known)
    inverse_variances = 1 / variance
    heights = log_weights + 0.5 * (inverse_variances / (2 * math.pi)).log()  # of the rows alone, not of their residuals
    terms = torch.addcmul(heights, residuals.square().unsqueeze(-1), inverse_variances, value=-0.5)
    top = terms.detach().amax(-1, keepdim=True)
    shares = (terms - top).exp()  # one exponential per normal serves density and slope
    total = shares.sum(-1)
    inverse = (shares * inverse_variances).sum(-1) / total
    return Tail(total.log() + top.squeeze(-1), residuals * inverse)


def mixture(scale: Tensor, nu: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """The variances s^2 / lambda + e^2 of the normals that make up a t with a known error, and their log weights."""
    step, u = _nodes(scale)
    log_weights = (step.log() + nu.unsqueeze(-1) / 2 * (u - u.exp())).log_softmax(-1)
    return scale.square().unsqueeze(-1) * (-u).exp() + known.square().unsqueeze(-1), log_weights


def normal_scores(residuals: Tensor, scale: Tensor, nu: Tensor, known: Tensor | None = None) -> Tensor:
    r"""The normal numbers that have the probability of residuals r: z = Phi^{-1}(F(r)).

    F is the distribution of a t with a known error by the mixture of `tail`, a residual at a time. Probabilities below
    1e-300 count as that, so that no score is above 37.

    Examples:
        >>> r = torch.tensor([-2.776, 0.0, 2.776], dtype=torch.float64)  # 2.5 %, 50 % and 97.5 % at nu = 4
        >>> normal_scores(r, torch.ones_like(r), torch.full_like(r, 4.0)).round(decimals=3)
        tensor([-1.9600,  0.0000,  1.9600], dtype=torch.float64)

    """
    variance, log_weights = mixture(scale, nu, torch.zeros_like(scale) if known is None else known)
    below = torch.zeros_like(residuals)
    for of_normal, log_weight in zip(variance.unbind(-1), log_weights.unbind(-1), strict=True):  # in the memory of one
        below += log_weight.exp() * torch.special.ndtr(-residuals.abs() * of_normal.rsqrt())
    found: Tensor = -residuals.sign() * torch.special.ndtri(below.clamp(1e-300, 0.5))
    return found


def bulk_part(scale: Tensor, nu: Tensor, known: Tensor) -> Tensor:
    r"""The root of the share of the noise in the bulk of labels, the rest being their known error.

    .. math:: a = \frac{b}{\sqrt{b^2 + e^2}}, \qquad b = s \, F_\nu^{-1}(\Phi(1))

    Two thirds of the noise lie within b, as within the standard deviation of a normal distribution, which it is at nu
    to infinity.

    Examples:
        >>> bulk_part(torch.tensor([1.0]), torch.tensor([1e9]), torch.tensor([1.0]))
        tensor([0.7071])

    """
    half = scale * torch.from_numpy(stdtrit(nu.double().cpu().numpy(), ndtr(1.0))).to(nu)
    found: Tensor = half / torch.hypot(half.expand_as(known), known)
    return found


class Bends(NamedTuple):
    """A log density of residuals, and its slopes and second derivatives with respect to log s and log nu.

    The slopes are `... x 2`, and the second derivatives `... x 3`: twice log s, both, twice log nu.
    """

    log_density: Tensor
    slopes: Tensor
    bends: Tensor


def bends(squares: Tensor, scale: Tensor, nu: Tensor, known: Tensor | None = None) -> Bends:
    r"""The log density of residuals with its derivatives with respect to log s and log nu, from squared residuals.

    .. math:: \frac{\partial}{\partial \log s} = (\nu + 1) p - 1, \qquad
              \frac{\partial}{\partial \log \nu} = \frac{\nu}{2} \big( D(\nu) - \log(1 + q) \big)
              + \frac{\nu + 1}{2} p, \qquad q = \frac{r^2}{\nu s^2}, \quad p = \frac{q}{1 + q}

    with :math:`D(\nu) = \psi(\tfrac{\nu + 1}{2}) - \psi(\tfrac{\nu}{2}) - \tfrac1\nu`. With a known error they follow
    from the mixture of `tail`, whose weights depend on nu and whose variances depend on s.

    Examples:
        >>> one = torch.ones(())
        >>> bends(one, one, 4 * one).slopes[0]
        tensor(0.)

    """
    if known is not None:
        return _bends_of_mixture(squares, scale, nu, known)
    excess = squares / (nu * scale.square())
    share, grown = excess / (1 + excess), torch.log1p(excess)
    left = share * (1 - share)
    constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * (math.pi * nu).log() - scale.log()
    change = torch.digamma((nu + 1) / 2) - torch.digamma(nu / 2) - 1 / nu
    bend = (torch.polygamma(1, (nu + 1) / 2) - torch.polygamma(1, nu / 2)) / 2 + nu.square().reciprocal()
    of_nu = nu / 2 * (change - grown) + (nu + 1) / 2 * share
    of_both = nu * share - (nu + 1) * left
    twice_nu = nu / 2 * (change + nu * bend - grown + 2 * share) - (nu + 1) / 2 * left
    return Bends(
        constant - (nu + 1) / 2 * grown,
        torch.stack([(nu + 1) * share - 1, of_nu], dim=-1),
        torch.stack([-2 * (nu + 1) * left, of_both, twice_nu], dim=-1),
    )


def _bends_of_mixture(squares: Tensor, scale: Tensor, nu: Tensor, known: Tensor) -> Bends:
    r"""The same with a known error: means and covariances over the normals of the mixture.

    Normal k has the slopes :math:`a_k = p_k (z_k - 1)` with respect to log s and d_k with respect to log nu, where
    :math:`z_k = r^2 / v_k` and p is the share of s^2 in the variance v. All means over the normals are sums of their
    densities times numbers of the row, since r^2 stands before the sum: one product of matrices finds them.
    """
    variance, log_weights = mixture(scale, nu, known)
    _, u = _nodes(scale)
    inverse_variances = 1 / variance
    heights = log_weights + 0.5 * (inverse_variances / (2 * math.pi)).log()  # of the rows alone, not of their residuals
    terms = torch.addcmul(heights, squares.unsqueeze(-1), inverse_variances, value=-0.5)
    top = terms.amax(-1, keepdim=True)
    densities = terms.sub_(top).exp_()
    part = 1 - known.square().unsqueeze(-1) * inverse_variances
    drift, prior = u - u.exp(), log_weights.exp()  # the slope of a weight with respect to nu / 2, but for its mean
    centre = (prior * drift).sum(-1, keepdim=True)
    variance_of_drift = (prior * (drift - centre).square()).sum(-1)
    d = (nu.unsqueeze(-1) / 2 * (drift - centre)).expand_as(part)
    of_weights = (torch.ones_like(part), part, d, part.square(), part * d, d.square())
    once = [each * inverse_variances for each in (part, part.square(), part * d)]
    total, *sums = _sums(densities, *of_weights, *once, (part * inverse_variances).square())
    plain, with_z = [each / total for each in sums[:5]], [each * squares / total for each in sums[5:8]]
    twice = sums[8] * squares.square() / total
    of_scale, of_nu = with_z[0] - plain[0], plain[1]
    bent = (
        # E[2 p (1 - 2 p) z - 2 p (1 - p)] + Var a
        2 * with_z[0]
        - 4 * with_z[1]
        - 2 * plain[0]
        + 2 * plain[2]
        + twice
        - 2 * with_z[1]
        + plain[2]
        - of_scale.square(),
        with_z[2] - plain[3] - of_scale * of_nu,
        of_nu - (nu / 2).square() * variance_of_drift + plain[4] - of_nu.square(),
    )
    log_density = total.log() + top.squeeze(-1)
    return Bends(log_density, torch.stack([of_scale, of_nu], dim=-1), torch.stack(bent, dim=-1))


def _sums(weights: Tensor, *numbers: Tensor) -> Sequence[Tensor]:
    """Sums over the normals of weights, `... x 33`, times numbers, whose third last axis may be 1: each `...`."""
    if weights.ndim < 3 or numbers[0].shape[-3] != 1:
        return [(weights * each).sum(-1) for each in numbers]
    table = torch.stack(numbers, dim=-1).squeeze(-4)  # without zetas: ... x n_y x 33 x n
    found: Tensor = (weights.transpose(-3, -2) @ table.expand(*weights.shape[:-3], *table.shape[-3:])).transpose(-3, -2)
    return found.unbind(-1)


def information(scale: Tensor, nu: Tensor, known: Tensor | None = None) -> Tensor:
    r"""The Fisher information of a label about f, in the shape of its noise.

    .. math:: I = E_y \Big[\Big(\frac{\partial \log p}{\partial f}\Big)^2\Big] = \frac{\nu + 1}{\nu + 3} \frac{1}{s^2}

    which is for labels without a known error. With one, the mean is a sum over residuals r = sqrt(s^2 + e^2) sinh(v).

    Examples:
        >>> information(torch.tensor(2.0), torch.tensor(5.0))
        tensor(0.1875)

    """
    if known is None:
        return (nu + 1) / (nu + 3) / scale.square()
    v = torch.linspace(0, _FARTHEST, _POINTS, dtype=scale.dtype, device=scale.device)
    width = torch.hypot(scale.expand_as(known), known).unsqueeze(-1)
    found = tail(width * v.sinh(), scale.unsqueeze(-1), nu.unsqueeze(-1), known.unsqueeze(-1))
    weights = width * v.cosh() * found.log_density.exp()
    weights[..., 0] /= 2  # both sides of zero have it in common
    return (weights * found.slope.square()).sum(-1) / weights.sum(-1)


def draw_t(first: Tensor, second: Tensor, nu: Tensor) -> Tensor:
    r"""Numbers of Student's t from two uniform ones each: the polar method of Bailey (1994), without rejection.

    .. math:: t = \sqrt{\nu \big((1 - u_1)^{-2 / \nu} - 1\big)} \, \cos 2 \pi u_2

    (R. W. Bailey, Mathematics of Computation 62, 779; at nu to infinity it is the method of Box and Muller.)

    Examples:
        >>> draw_t(torch.tensor(0.0), torch.tensor(0.0), torch.tensor(4.0))
        tensor(0.)

    """
    radius = (nu * torch.expm1(-2 / nu * torch.log1p(-first))).sqrt()
    return radius * torch.cos(2 * math.pi * second)


def _nodes(like: Tensor) -> tuple[Tensor, Tensor]:
    """The steps in u = log lambda, but for a factor, and u itself: `33` each."""
    v = torch.linspace(_FROM, _TO, MIXTURE_NODES, dtype=like.dtype, device=like.device)
    return v.cosh(), 2 * v.sinh()
