"""Rules for sigma_y, the part of the output's scatter that the inputs do not explain."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from eiv.inputs import ZetaDraws, ZetaPosterior
from eiv.posteriors import WeightPosterior, evaluate_rows
from eiv.streams import Streams

__all__ = ["NOISE_RULES", "noise_by_bound", "noise_by_error", "spread_by_weights", "with_known_errors"]

NOISE_RULES = ("rmse", "residual", "likelihood")
_PAIRS = 10  # draws of (theta, zeta) a row behind its mean
_THETAS = 2  # weight draws a row behind the bound
_SPREAD_THETAS, _SPREAD_ZETAS = 100, 8  # behind the spread that the weights give m(x)
_MOST_ROWS = 2_000  # that the bound looks at
_ITERATIONS = 20
_STRIDE = 0.7  # the most that log sigma_y moves in one iteration
_LEAST_BEND = 0.01  # of the bound, as a share of what it would be if every zeta were known
_TINY = 1e-30
_BLOCK_VALUES = 2**20  # of the widest layer and one network, in one pass
_FLOOR = 1e-4  # sigma_y as a share of the spread of y, where a network interpolates its data


def with_known_errors(y_noise: Tensor, y_err: Tensor | None) -> Tensor:
    r"""The noise of each row: what is fitted, and what is known of the output's error.

    .. math:: \sqrt{\sigma_y^2 + \sigma_{y,i}^2}

    Args:
        y_noise: `S x n_y`.
        y_err: `S x rows x n_y`, or None.

    Returns:
        `S x rows x n_y`, or `y_noise` itself where nothing is known.

    Examples:
        >>> with_known_errors(torch.full((1, 1), 3.0), torch.full((1, 2, 1), 4.0))
        tensor([[[5.],
                 [5.]]])

    """
    return y_noise if y_err is None else torch.hypot(y_noise.unsqueeze(1).expand_as(y_err), y_err)


@torch.no_grad()
def noise_by_error(
    posterior: WeightPosterior,
    inputs: ZetaPosterior,
    y: Tensor,
    streams: Streams,
    y_err: Tensor | None = None,
    less_explained: bool = False,
) -> Tensor:
    r"""Sigma_y from the squared errors of m(x) on the training data: the paper's rule, or what is left of it.

    .. math:: \sigma_y^2 = \frac1N \sum_i (y_i - m(x_i))^2 \ \Big[ - \frac1N \sum_i u(x_i)^2 \Big]
              - \frac1N \sum_i y_{err,i}^2

    The paper takes the first sum alone ("rmse"). It already holds the scatter of f(zeta) about m(x), which the total
    uncertainty counts once more; the second sum takes it out ("residual").

    m(x) and u(x) are estimated from K = 10 independent pairs (theta, zeta) a row. The Monte Carlo error of the mean,
    which would raise the result, is taken out: :math:`(y - \hat m)^2 - s^2 / K` is unbiased for :math:`(y - m)^2`.

    Args:
        posterior: q_phi of S networks.
        inputs: the posterior of zeta given x of the rows, `S x N x n_x`.
        y: `S x N x n_y`.
        streams: random streams of the networks.
        y_err: `S x N x n_y`, known errors of y.
        less_explained: whether u(x)^2 is taken out.

    Returns:
        `S x n_y`.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, torch.device("cpu"))
        >>> x = torch.linspace(-1, 1, 50).reshape(1, 50, 1)
        >>> streams = Streams(seeds, x.device)
        >>> noise_by_error(BernoulliDropout(stack, 1.0), ZetaPosterior(x, 0 * x), 2 * x, streams).shape
        torch.Size([1, 1])

    """
    total = torch.zeros_like(y[:, 0])
    size = max(1, _BLOCK_VALUES // (posterior.stack.width * _PAIRS))  # the same for every S
    for start in range(0, y.shape[1], size):
        part = inputs.rows(start, start + size)
        labels = y[:, start : start + size]
        zeta = part.draw(streams.normal(labels.shape[1], _PAIRS, inputs.n_base)).unsqueeze(3)
        f = evaluate_rows(posterior, streams, zeta, theta_axis=2).squeeze(3)
        variance = f.var(2)
        errors = (labels - f.mean(2)).square() - variance / _PAIRS
        total += (errors - variance if less_explained else errors).sum(1)
    known = 0.0 if y_err is None else y_err.square().mean(1)
    return torch.maximum(total / y.shape[1] - known, _floor(y)).sqrt()


@torch.no_grad()
def noise_by_bound(
    posterior: WeightPosterior,
    inputs: ZetaPosterior,
    y: Tensor,
    y_noise: Tensor,
    draws: ZetaDraws,
    streams: Streams,
    y_err: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Sigma_y that maximises the bound of eq. (mcloss) for the networks as they are, by Newton's method.

    .. math:: \log \sigma_y \leftarrow \log \sigma_y - \frac{B'}{B''}, \qquad
              B' = \frac1N \sum_i a_i \Big( \sum_l w_{il} \frac{(y_i - f_{\theta_i}(\zeta_{il}))^2}{s_i^2} - 1 \Big),
              \qquad w_{il} \propto p(y_i | \theta_i, \zeta_{il}, s_i^2)

    with :math:`s_i^2 = \sigma_y^2 + y_{err,i}^2` and :math:`a_i = \sigma_y^2 / s_i^2`. Expectation maximisation, the
    fixed point of B' = 0, needs hundreds of rounds where the error of x explains most of the scatter: rows on a steep
    part of f fit any sigma_y and hold it where it is. Theta is the point that was trained, of families that train one.

    Args:
        posterior: q_phi of S networks.
        inputs: the posterior of zeta given x of the rows, `S x N x n_x`.
        y: `S x N x n_y`.
        y_noise: `S x n_y`, where to begin.
        draws: how zetas are drawn.
        streams: random streams of the networks.
        y_err: `S x N x n_y`, known errors of y.

    Returns:
        sigma_y and the standard error of its logarithm, :math:`(-N B'')^{-1/2}`: `S x n_y` each.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, torch.device("cpu"))
        >>> x = torch.linspace(-1, 1, 50).reshape(1, 50, 1)
        >>> inputs = ZetaPosterior(x, torch.full((1, 1, 1), 0.1))
        >>> draws = ZetaDraws.of("monte_carlo", 5, inputs)
        >>> q, streams = BernoulliDropout(stack, 1.0), Streams(seeds, x.device)
        >>> noise, spread = noise_by_bound(q, inputs, 2 * x, torch.ones(1, 1), draws, streams)
        >>> noise.shape, spread.shape
        (torch.Size([1, 1]), torch.Size([1, 1]))

    """
    stride = -(-y.shape[1] // _MOST_ROWS)
    rows = torch.arange(0, y.shape[1], stride, device=y.device).expand(len(y), -1)
    squares = torch.cat(list(_squares(posterior, inputs.take(rows), y[:, ::stride], draws, streams)), dim=1)
    quadrature = draws.quadrature(y.dtype, y.device)
    known = y.new_zeros(1, 1, 1) if y_err is None else y_err[:, ::stride].square().repeat_interleave(_THETAS, 1)
    log_noise, lowest = y_noise.log(), _floor(y).log() / 2
    for _ in range(_ITERATIONS):
        variance = (2 * log_noise).exp().unsqueeze(1)  # S x 1 x n_y
        share = variance / (variance + known)  # S x rows x n_y
        scaled = squares / (variance + known).unsqueeze(2)
        terms = scaled.sum(-1).mul_(-0.5)
        weights = (terms if quadrature is None else terms + quadrature.log_weights).softmax(-1)
        mean = torch.einsum("srl,srlj->srj", weights, scaled)
        spread = torch.einsum("srl,srlj->srj", weights, scaled.square()) - mean.square()
        slope = (share * (mean - 1)).mean(1)
        bend = (2 * share * (1 - share) * (mean - 1) + share.square() * (spread - 2 * mean)).mean(1)
        bend = (-bend).clamp_min(_LEAST_BEND * (2 * share.square() * mean).mean(1) + _TINY)
        log_noise = torch.maximum(log_noise + (slope / bend).clamp(-_STRIDE, _STRIDE), lowest)
    return log_noise.exp(), (bend * rows.shape[1]).rsqrt()


@torch.no_grad()
def spread_by_weights(posterior: WeightPosterior, inputs: ZetaPosterior, streams: Streams) -> Tensor:
    r"""The epistemic standard deviation of m(x), nearly: from 100 thetas that all rows share and L = 8 zetas a row.

    .. math:: \operatorname{std}_\theta \Big[ \frac1L \sum_l f_\theta(\zeta_{il}) \Big]

    Args:
        posterior: q_phi of S networks.
        inputs: the posterior of zeta given x of the rows, `S x N x n_x`.
        streams: random streams of the networks.

    Returns:
        `S x N x n_y`.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, torch.device("cpu"))
        >>> x = torch.linspace(-1, 1, 50).reshape(1, 50, 1)
        >>> q = BernoulliDropout(stack, 1.0)
        >>> spread_by_weights(q, ZetaPosterior(x, 0 * x), Streams(seeds, x.device)).shape
        torch.Size([1, 50, 1])

    """
    n_rows, n_zeta = inputs.mean.shape[1], 1 if inputs.is_exact else _SPREAD_ZETAS
    zeta = inputs.draw(streams.normal(n_rows, n_zeta, inputs.n_base)).flatten(1, 2).unsqueeze(1)
    f = posterior.evaluate(posterior.draw(streams, _SPREAD_THETAS), zeta.expand(-1, _SPREAD_THETAS, -1, -1))
    spread: Tensor = f.unflatten(2, (n_rows, n_zeta)).mean(3).std(1)
    return spread


def _squares(
    posterior: WeightPosterior, inputs: ZetaPosterior, y: Tensor, draws: ZetaDraws, streams: Streams
) -> Iterator[Tensor]:
    """Squared residuals for some thetas a row and their zetas, `S x (rows thetas) x L x n_y`, some rows at a time.

    Where a rule puts points between the zetas, those stand for them.
    """
    quadrature = draws.quadrature(y.dtype, y.device)
    size = max(1, _BLOCK_VALUES // (posterior.stack.width * _THETAS * draws.n_zeta))
    for start in range(0, y.shape[1], size):
        labels = y[:, start : start + size].repeat_interleave(_THETAS, 1)
        rows = torch.arange(start, min(start + size, y.shape[1]), device=y.device).repeat_interleave(_THETAS)
        zeta = inputs.take(rows.expand(len(y), -1)).draw(draws.base(streams, len(rows)))
        f = evaluate_rows(posterior, streams, zeta.unflatten(1, (-1, _THETAS)), theta_axis=2, as_trained=True)
        f = f.flatten(1, 2)
        yield (labels.unsqueeze(2) - (f if quadrature is None else quadrature.points(f))).square()


def _floor(y: Tensor) -> Tensor:
    return (_FLOOR * y.std(1)).square()
