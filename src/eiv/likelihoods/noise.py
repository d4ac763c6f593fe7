"""Rules for sigma_y, the scatter of the outputs that the inputs do not explain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from eiv.engine import memory
from eiv.engine.pooling import row_mean, row_std, row_sum
from eiv.engine.quadrature import Quadrature
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws

if TYPE_CHECKING:
    from eiv.posteriors import WeightPosterior

__all__ = ["NOISE_RULES", "ByBound", "ByError", "NoiseRule"]

_PAIRS = 10  # draws of (theta, zeta) per row, from which its mean is estimated
_THETAS = 2  # weight draws per row, from which the bound is estimated
_MOST_ROWS = 2_000  # the most rows that the bound is estimated from
_ITERATIONS = 20
_STRIDE = 0.7  # the most that log sigma_y moves in one iteration
_LEAST_BEND = 0.01  # the least curvature of the bound, as a share of its value if every zeta were known
_TINY = 1e-30
_LEAST_SPLIT = 0.5  # the least noise that a split of the held-out error moves towards, as a share of the noise now
_FLOOR = 1e-4  # the least sigma_y as a share of the spread of y, for networks that interpolate their data
# The power of the noise in its prior, Gamma(2, rate to 0), where a likelihood has one: it moves log sigma up by one
# squared standard error and keeps sigma off zero, where the bound is flat if the errors of x explain all of the scatter
# (Y. Chung, S. Rabe-Hesketh, V. Dorie, A. Gelman and J. Liu, Psychometrika 78 (2013) 685).
OFF_ZERO = 1.0


class NoiseRule(ABC):
    """A rule that finds sigma_y for networks in their present state.

    Attributes:
        least_share: the least ratio of the new sigma_y to the old one, except at the end of training.
        splits_error: whether sigma_y is found again after training, given the epistemic variance of held-out rows.

    Examples:
        >>> NOISE_RULES["likelihood"].least_share
        0.8

    """

    least_share = 0.0
    splits_error = False

    @abstractmethod
    def renewed(
        self,
        y_noise: Tensor,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        draws: ZetaDraws | None,
        streams: Streams,
    ) -> Tensor:
        """The new sigma_y, `S x n_y`; `y_noise` is the present one.

        `learned` are the rows that training learns from. `judged` are held-out rows, or `learned` if there are none.
        `draws` is the way to draw zetas, None for exact inputs.
        """


def checked(rule: NoiseRule, found: Tensor, y_noise: Tensor) -> Tensor:
    """What a rule has found in the place of `y_noise`, refused where it is no noise; our own rules are trusted."""
    if type(rule) in map(type, NOISE_RULES.values()):
        return found
    takes = (
        f"y_noise: {type(rule).__name__}.renewed must return the new sigma_y of each network and output, a tensor of "
        f"shape {tuple(y_noise.shape)} with finite values above zero; got"
    )
    if not isinstance(found, Tensor):
        raise TypeError(f"{takes} {found!r} ({type(found).__name__}).")
    if found.shape != y_noise.shape:
        raise ValueError(f"{takes} the shape {tuple(found.shape)}.")
    wrong = found[~(found.isfinite() & (found > 0))]
    if len(wrong):
        raise ValueError(f"{takes} {wrong[0].item():g}.")
    return found.to(y_noise)


class ByError(NoiseRule):
    r"""Sigma_y from the squared errors of m(x) on held-out rows, or on all rows if none are held out.

    .. math:: \sigma_y^2 = \frac1N \sum_i (y_i - m(x_i))^2 \ \Big[ - \frac1N \sum_i u(x_i)^2 \Big]
              - \frac1N \sum_i y_{err,i}^2

    The paper uses the first sum alone ("rmse"). It includes the scatter of f(zeta) about m(x), which the total
    uncertainty then counts twice. The second sum removes it ("residual"). A difference of two noisy variances can fall
    to zero, and sigma_y to its floor, 1e-4 of the spread of y. With the 20 rows that a table of 200 holds out that
    happened in one fit of eight; `held_out=0` takes all rows.

    m(x) and u(x) are estimated from K = 10 independent pairs (theta, zeta) per row. The Monte Carlo error of the mean
    would raise the result and is removed: :math:`(y - \hat m)^2 - s^2 / K` is unbiased for :math:`(y - m)^2`.

    Args:
        less_explained: whether u(x)^2 is subtracted.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.inputs import ZetaNormal, ZetaPosterior
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, torch.device("cpu"))
        >>> x = torch.linspace(-1, 1, 50).reshape(1, 50, 1)
        >>> rows, streams = Rows(ZetaNormal(x, 0 * x), 2 * x), Streams(seeds, x.device)
        >>> ByError().of_rows(BernoulliDropout(stack, 1.0), rows, streams).shape
        torch.Size([1, 1])

    """

    def __init__(self, less_explained: bool = False) -> None:
        self.less_explained = less_explained

    def renewed(
        self,
        y_noise: Tensor,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        draws: ZetaDraws | None,
        streams: Streams,
    ) -> Tensor:
        """The sigma_y of the held-out rows, `S x n_y`."""
        return self.of_rows(posterior, judged, streams)

    @torch.no_grad()
    def of_rows(self, posterior: WeightPosterior, rows: Rows, streams: Streams) -> Tensor:
        """The sigma_y of some rows, `S x n_y`."""
        y, total = rows.y, torch.zeros_like(rows.y[:, 0])
        size = max(1, memory.TRAINING_PASS // (posterior.stack.width * _PAIRS))  # the same for every S
        for start in range(0, y.shape[1], size):
            part = rows.between(start, start + size)
            zeta = part.inputs.draw(streams.normal(part.y.shape[1], _PAIRS, part.inputs.n_base)).unsqueeze(3)
            f = posterior.evaluate_rows(streams, zeta, theta_axis=2).squeeze(3)
            variance = f.var(2)
            errors = (part.y - f.mean(2)).square() - variance / _PAIRS
            total += row_sum(errors - variance if self.less_explained else errors, part.weights)
        known = 0.0 if rows.y_err is None else row_mean(rows.y_err.square(), rows.weights)
        return torch.maximum(total / _size(rows) - known, _floor(rows)).sqrt()


class ByBound(NoiseRule):
    r"""The sigma_y of normal noise that maximises the bound of eq. (mcloss) for the networks in their present state.

    .. math:: \log \sigma_y \leftarrow \log \sigma_y - \frac{B'}{B''}, \qquad
              B' = \frac1N \sum_i a_i \Big( \sum_l w_{il} \frac{(y_i - f_{\theta_i}(\zeta_{il}))^2}{s_i^2} - 1 \Big),
              \qquad w_{il} \propto p(y_i | \theta_i, \zeta_{il}, s_i^2)

    with :math:`s_i^2 = \sigma_y^2 + y_{err,i}^2` and :math:`a_i = \sigma_y^2 / s_i^2`. These are Newton steps.
    Expectation maximisation, the fixed point of B' = 0, needs hundreds of iterations where the error of x explains most
    of the scatter: rows on a steep stretch of f fit any sigma_y and keep it from moving. For families that train a
    point, theta is that point.

    At each update sigma_y falls by at most a fifth, except at the end of training: f must adapt gradually, or it stays
    at its early, too flat shape.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.inputs import ZetaNormal, ZetaPosterior
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, torch.device("cpu"))
        >>> x = torch.linspace(-1, 1, 50).reshape(1, 50, 1)
        >>> rows = Rows(ZetaNormal(x, torch.full((1, 1, 1), 0.1)), 2 * x)
        >>> draws = ZetaDraws.of("monte_carlo", 5, rows.inputs)
        >>> q, streams = BernoulliDropout(stack, 1.0), Streams(seeds, x.device)
        >>> noise, error = ByBound().of_rows(torch.ones(1, 1), q, rows, draws, streams)
        >>> noise.shape, error.shape
        (torch.Size([1, 1]), torch.Size([1, 1]))

    """

    least_share = 0.8
    splits_error = True

    def renewed(
        self,
        y_noise: Tensor,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        draws: ZetaDraws | None,
        streams: Streams,
    ) -> Tensor:
        """The sigma_y of the training rows, moved towards that of the held-out rows where the two disagree: `S x n_y`.

        It moves half the way where they differ by two standard errors, and further where they differ by more.
        """
        draws = draws or ZetaDraws.of("monte_carlo", 1, learned.inputs)  # one zeta per row for exact inputs
        found, _ = self.of_rows(y_noise, posterior, learned, draws, streams)
        if judged is learned:
            return found
        unseen, error = self.of_rows(y_noise, posterior, judged, draws, streams)
        return unless_unseen_disagree(found, unseen, error)

    @torch.no_grad()
    def of_rows(
        self, y_noise: Tensor, posterior: WeightPosterior, rows: Rows, draws: ZetaDraws, streams: Streams
    ) -> tuple[Tensor, Tensor]:
        """The sigma_y of some rows and the standard error of its logarithm, (-N B'')^(-1/2): `S x n_y` each."""
        squares, errors, quadrature, size, lowest, counts = squares_of(posterior, rows, draws, streams)
        known = squares.new_zeros(1, 1, 1) if errors is None else errors.square()
        log_noise = y_noise.log()
        for _ in range(_ITERATIONS):
            variance = (2 * log_noise).exp().unsqueeze(1)  # S x 1 x n_y
            share = variance / (variance + known)  # S x rows x n_y
            scaled = squares / (variance + known).unsqueeze(2)
            terms = scaled.sum(-1).mul_(-0.5)
            weights = (terms if quadrature is None else terms + quadrature.log_weights).softmax(-1)
            mean = torch.einsum("srl,srlj->srj", weights, scaled)
            variance_of_squares = torch.einsum("srl,srlj->srj", weights, scaled.square()) - mean.square()
            slope = row_mean(share * (mean - 1), counts)
            bends = 2 * share * (1 - share) * (mean - 1) + share.square() * (variance_of_squares - 2 * mean)
            least = _LEAST_BEND * row_mean(2 * share.square() * mean, counts) + _TINY
            bend = (-row_mean(bends, counts)).clamp_min(least)
            log_noise = torch.maximum(log_noise + (slope / bend).clamp(-_STRIDE, _STRIDE), lowest)
        return log_noise.exp(), (bend * size).rsqrt()


NOISE_RULES: dict[str, NoiseRule] = {
    "rmse": ByError(),  # the RMSE of m(x), as in the paper
    "residual": ByError(less_explained=True),  # the same less the uncertainty of f(zeta), which that error holds too
    "likelihood": ByBound(),  # what maximises the bound
}
"""Rules for sigma_y that a user can ask for by name."""


def unless_unseen_disagree(found: Tensor, unseen: Tensor, error: Tensor) -> Tensor:
    """A value between `found` and `unseen`, nearer to the latter the more they differ.

    `error` is the standard error of the logarithm of `unseen`.
    """
    away = (found / unseen).log()
    return unseen * (away / (1 + (away / (2 * error)) ** 4)).exp()


class Squares(NamedTuple):
    """Squared residuals of some rows, from which the bound is estimated as a function of the noise.

    Attributes:
        squares: `S x (rows thetas) x L x n_y`.
        errors: known errors of the labels, `S x (rows thetas) x n_y`, or None.
        quadrature: the rule for the sum over zetas, or None for their mean.
        size: how many rows they count for, a number or `S x 1`.
        lowest: `S x n_y`, the logarithm of the least noise.
        counts: how often each counts, `S x (rows thetas)`; None where all count the same.

    """

    squares: Tensor
    errors: Tensor | None
    quadrature: Quadrature | None
    size: int | Tensor
    lowest: Tensor
    counts: Tensor | None = None


def squares_of(posterior: WeightPosterior, rows: Rows, draws: ZetaDraws, streams: Streams) -> Squares:
    """The squared residuals of 2,000 rows at most, evenly chosen."""
    y, some = rows.y, _evenly_chosen(rows)
    passes = _passes(posterior, some, draws, streams)
    squares = torch.cat([(labels.unsqueeze(2) - f).square() for labels, f in passes], dim=1)
    errors, counts = _of_thetas(some.y_err), _of_thetas(some.weights)
    quadrature = draws.quadrature(y.dtype, y.device)
    return Squares(squares, errors, quadrature, _size(some), _floor(rows).log() / 2, counts)


class Outputs(NamedTuple):
    """All outputs of the networks for some rows, from which a bound is estimated.

    Attributes:
        f: `S x (rows thetas) x L x width`.
        y: labels, `S x (rows thetas) x n_y`.
        y_err: their known errors, or None.
        quadrature: the rule for the sum over zetas, or None for their mean.
        size: how many rows they count for, a number or `S x 1`.
        counts: how often each counts, `S x (rows thetas)`; None where all count the same.

    """

    f: Tensor
    y: Tensor
    y_err: Tensor | None
    quadrature: Quadrature | None
    size: int | Tensor
    counts: Tensor | None

    def weighted(self, terms: Tensor) -> Tensor:
        """Terms of a sum over zetas, with the logarithms of their weights."""
        return terms if self.quadrature is None else terms + self.quadrature.log_weights

    def double(self) -> Outputs:
        """The same in float64, but for the rule."""
        y_err, counts = (None if part is None else part.double() for part in (self.y_err, self.counts))
        return self._replace(f=self.f.double(), y=self.y.double(), y_err=y_err, counts=counts)


def outputs_of(posterior: WeightPosterior, rows: Rows, draws: ZetaDraws, streams: Streams) -> Outputs:
    """The outputs of 2,000 rows at most, evenly chosen, as for `squares_of`."""
    y, some = rows.y, _evenly_chosen(rows)
    labels, f = (torch.cat(parts, dim=1) for parts in zip(*_passes(posterior, some, draws, streams), strict=True))
    errors, counts = _of_thetas(some.y_err), _of_thetas(some.weights)
    return Outputs(f, labels, errors, draws.quadrature(y.dtype, y.device), _size(some), counts)


def _of_thetas(values: Tensor | None) -> Tensor | None:
    """Values of rows, `S x rows x ...`, for each theta of a row."""
    return None if values is None else values.repeat_interleave(_THETAS, 1)


def half_way(now: Tensor, found: Tensor) -> Tensor:
    """The noise half the way, in logarithm, from what it is to what was found, which counts as half of it at least."""
    return (now * torch.maximum(found, _LEAST_SPLIT * now)).sqrt()


def _evenly_chosen(rows: Rows) -> Rows:
    """2,000 rows at most."""
    y, stride = rows.y, -(-rows.y.shape[1] // _MOST_ROWS)
    return rows.take(torch.arange(0, y.shape[1], stride, device=y.device).expand(len(y), -1))


def _passes(
    posterior: WeightPosterior, rows: Rows, draws: ZetaDraws, streams: Streams
) -> Iterator[tuple[Tensor, Tensor]]:
    """Labels, `S x (rows thetas) x n_y`, and f for some thetas per row and their zetas, `... x L x n_y`, in blocks.

    Where a quadrature rule has points between the zetas, f is that at the points.
    """
    y = rows.y
    quadrature = draws.quadrature(y.dtype, y.device)
    size = max(1, memory.TRAINING_PASS // (posterior.stack.width * _THETAS * draws.n_zeta))
    for start in range(0, y.shape[1], size):
        labels = y[:, start : start + size].repeat_interleave(_THETAS, 1)
        chosen = torch.arange(start, min(start + size, y.shape[1]), device=y.device).repeat_interleave(_THETAS)
        zeta = rows.inputs.take(chosen.expand(len(y), -1)).draw(draws.base(streams, len(chosen)))
        f = posterior.evaluate_rows(streams, zeta.unflatten(1, (-1, _THETAS)), theta_axis=2, as_trained=True)
        f = f.flatten(1, 2)
        yield labels, f if quadrature is None else quadrature.points(f)


def _size(rows: Rows) -> int | Tensor:
    """How many rows they count for, in a shape that divides `S x n_y`."""
    size = rows.size
    return size.unsqueeze(1) if isinstance(size, Tensor) else size


def _floor(rows: Rows) -> Tensor:
    return (_FLOOR * row_std(rows.y, rows.weights)).square()
