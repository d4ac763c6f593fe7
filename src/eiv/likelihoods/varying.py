"""Labels whose noise varies with the true input: a second output of the network says how far they scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine.pooling import pooled, row_mean, row_std
from eiv.engine.stable import log_mean_exp
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods.base import OtherOutputs
from eiv.likelihoods.correlation import JointNoise, Scores
from eiv.likelihoods.noise import OFF_ZERO, ByBound, NoiseRule, Outputs, half_way, outputs_of, unless_unseen_disagree
from eiv.likelihoods.normal import log_mean_normal
from eiv.likelihoods.varyinglabels import VaryingLabels

if TYPE_CHECKING:
    from eiv.posteriors import WeightPosterior

__all__ = ["VaryingLikelihood"]

_CLOSED, _OPEN = 0.2, 0.4  # shares of the training up to which noise is constant, and from which on it is free to vary
_WIDEST = 6.0  # log sigma is within this of the constant, a factor of 400: a row that is met exactly has no end else
_STEPS, _STRIDE, _CLOSE = 20, 0.7, 1e-4  # Newton steps of a factor of sigma, the longest of them, and the last
_LEAST_BEND = 0.02  # one hundredth of the bend if every zeta were known, as for sigma_y
_RANGE = (0.005, 0.995)  # quantiles of log sigma over the training rows, beyond which predictions do not go
_CLEAR = 3.0  # nats by which held-out labels must be more probable: by chance that has a probability of e^-3 at most
_TO_BE_SEEN = 4.0  # how far noise has to grow over the range of x for the fewest held-out rows to show it
_FLOOR = 1e-4  # the least sigma as a share of the spread of y, as for sigma_y


class VaryingLikelihood(JointNoise):
    r"""Normal noise that depends on the true input, by a second head of the network; known errors come on top.

    .. math:: \log p(y | \theta, \zeta_l) = - \frac{(y - f_\theta(\zeta_l))^2}{2 s_l^2} - \log s_l
              - \tfrac12 \log 2 \pi, \qquad s_l^2 = \sigma_\psi^2(\zeta_l) + y_{err}^2, \qquad
              \log \sigma_\psi(\zeta) = \log \sigma_y + g \, h_\psi(\zeta)

    The network has 2 n_y outputs: f, then h. The share g of the head is 0 in the first fifth of the training, so that a
    poor fit is not explained as noise, and rises to 1 in the second.

    At the end held-out labels decide: the head is kept where they are more probable with it than with the best constant
    by a factor of e^3. Where noise is constant that happens with a probability of e^-3 at most, whatever the head
    (Markov's inequality for a ratio of densities). Noise that grows from s to r s over the range of x gains

    .. math:: \tfrac12 \log \frac{r^2 - 1}{2 \log r} - \tfrac12 \log r

    nats per row at exact inputs, 0.15 for r = 4, so that 20 held-out rows are the fewest that can show it. With fewer,
    or where labels do not ask for the head, the fit is made again as with normal noise (`eiv.training.choosing`), since
    f has been learned together with the head. `gain` is that of held-out labels in nats per row, `rows` their number.

    It assumes that noise is normal at each true input and varies smoothly with it. It learns h with the network, and
    sigma_y by the bound, with a prior that keeps it off zero, as for Student's t. It costs little more time than
    constant noise where it is kept, and as much as two fits where it is not. It misses tails, and variation that the
    errors of x wash out; with fewer than 100 rows noise is constant, unless more than a tenth of them are held out.
    Where networks are pooled, quantiles of labels take the noise of a row for all of its draws. The noise of several
    outputs may go together, with the same correlations everywhere (`eiv.likelihoods.correlation`).

    Args:
        y_noise: sigma_y, `S x n_y`.
        share: g, `S x 1`.
        typical: `S x n_y`, the root mean square of sigma_psi / sigma_y over the training rows.
        limits: `S x 2 n_y`, the lowest and the highest g h there.
        gain: `S x 1`, of the log density per held-out row.
        rows: `S x 1`, how many held-out rows have decided.
        rule: `ByBound`.
        correlation: `S x n_y x n_y`, of the noise of several outputs; None for independent ones.

    Examples:
        >>> likelihood = VaryingLikelihood.start(torch.ones(1, 1), ByBound())
        >>> likelihood.log_density(torch.tensor([0.0, 3.0]).view(1, 1, 1, 2), torch.zeros(1, 1, 1))
        tensor([[[-0.9189]]])

    """

    is_fixed = False
    splits_error = True
    fewest_held_out = math.ceil(
        _CLEAR / (0.5 * math.log((_TO_BE_SEEN**2 - 1) / (2 * math.log(_TO_BE_SEEN))) - 0.5 * math.log(_TO_BE_SEEN))
    )
    later_state = (*JointNoise.later_state, "rows")

    def __init__(
        self,
        y_noise: Tensor,
        share: Tensor,
        typical: Tensor,
        limits: Tensor,
        gain: Tensor,
        rows: Tensor,
        rule: NoiseRule,
        correlation: Tensor | None = None,
    ) -> None:
        self.y_noise, self.share, self.typical, self.limits = y_noise, share, typical, limits
        self.gain, self.rows, self.rule, self._judged = gain, rows, rule, False
        super().__init__(correlation)

    @classmethod
    def start(cls, y_noise: Tensor, rule: NoiseRule | None) -> Self:
        """The likelihood with constant noise."""
        if not isinstance(rule, ByBound):
            raise ValueError(
                "y_noise: likelihood='varying' finds its noise by the bound; take y_noise='likelihood', or "
                "likelihood='normal' for a noise that is known."
            )
        nothing = torch.zeros_like(y_noise[:, :1])
        limits = torch.zeros_like(y_noise).repeat(1, 2)
        return cls(y_noise, nothing, torch.ones_like(y_noise), limits, nothing.clone(), nothing.clone(), rule)

    @classmethod
    def width(cls, n_y: int) -> int:
        """The values of f, and as many of h."""
        return 2 * n_y

    @property
    def state(self) -> dict[str, Tensor]:
        """All but the rule."""
        names = ("y_noise", "share", "typical", "limits", "gain", "rows")
        return {name: getattr(self, name) for name in names} | self.joint_state

    def with_state(self, state: dict[str, Tensor]) -> Self:
        """The same rule with another state."""
        return type(self)(**state, rule=self.rule)

    def fault(self) -> str:
        """Noise that is not above zero, shares that are not from 0 to 1, and impossible correlations."""
        if not bool((self.y_noise > 0).all() and (self.typical > 0).all()):
            return "the noise of its likelihood must be above zero"
        if not bool(((self.share >= 0) & (self.share <= 1)).all()):
            return "the share of a head must be from 0 to 1"
        return super().fault()

    def log_density(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The logarithm of the normal density, summed over the outputs: `S x B x L`."""
        at = self._at(f, y, y_err)
        return -0.5 * (at.squares / at.variance + (2 * math.pi * at.variance).log()).sum(-1)

    def log_mean_density(self, f: Tensor, change: Tensor, y: Tensor, y_err: Tensor) -> Tensor:
        """The mean of the normal density in closed form, with the noise of the middle: `S x B`."""
        n_y = y.shape[-1]
        sigma = self._at(f.unsqueeze(2), y, y_err).variance.squeeze(2).sqrt()
        return log_mean_normal(y - f[..., :n_y], change[..., :n_y], sigma)

    def score(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The slopes r / s^2 of f and g a (r^2 / s^2 - 1) of h, a the share of sigma^2 in s^2: `S x B x L x 2 n_y`."""
        at = self._at(f, y, y_err)
        of_h = at.slope * at.part * (at.squares / at.variance - 1)
        return torch.cat([(y.unsqueeze(2) - f[..., : y.shape[-1]]) / at.variance, of_h], dim=-1)

    def whitened(self, slopes: Tensor, f: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The slopes of f divided by s, and those of h times sqrt(2) g a: labels say nothing about both together."""
        n_y = f.shape[-1] // 2
        known = None if y_err is None else y_err.to(slopes.dtype)
        at = self._at(f.to(slopes.dtype).unsqueeze(2), f[..., :n_y].to(slopes.dtype), known)
        roots = torch.cat([at.variance.rsqrt(), math.sqrt(2) * at.slope * at.part], dim=-1).squeeze(2)
        return slopes * roots.to(slopes.dtype).unsqueeze(3)

    @property
    def sigma(self) -> Tensor:
        """The root mean square of sigma_psi over the training rows, `S x n_y`."""
        return self.y_noise * self.typical

    def scores(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Scores:
        """Deviations in units of the noise at each zeta with known errors."""
        at = self._at(f, y, y_err)
        z = (y.unsqueeze(2) - f[..., : y.shape[-1]]) * at.variance.rsqrt()
        return Scores(z, None if y_err is None else at.part.sqrt())

    def labels(
        self,
        y_scale: NDArray[np.float64],
        shape: tuple[int, ...],
        y_err: NDArray[np.float64] | None = None,
        pool: Tensor | None = None,
    ) -> VaryingLabels:
        """Labels with the noise of a typical row, where nothing is known of h."""
        nothing = np.zeros(shape)
        known = nothing if y_err is None else y_err + nothing
        return VaryingLabels(self.std(pool) * y_scale + nothing, known, None, self.pooled_correlation(pool))

    def labels_at(
        self,
        others: Sequence[OtherOutputs],
        y_scale: NDArray[np.float64],
        shape: tuple[int, ...],
        y_err: NDArray[np.float64] | None = None,
        pool: Tensor | None = None,
    ) -> VaryingLabels:
        r"""Labels with the noise of each row, and of each draw where there are draws.

        .. math:: \mathrm{noise}^2 = \sum_s p_s E[\sigma_{\psi_s}^2(\zeta) | x] + y_{err}^2, \qquad
                  E[\sigma_\psi^2] = \sigma_y^2 \exp(2 g m_h + 2 g^2 v_h)

        with mean m and variance v of h, which is taken as normal, and the shares p of the networks. log sigma stays
        within that of the training rows.
        """
        bases = self.y_noise.double().log().cpu().numpy() + np.log(y_scale)
        limits = self.limits.double().cpu().numpy().reshape(len(bases), 2, -1)
        shares = self.share.double().cpu().numpy()
        variances = [
            np.exp(2 * (base + np.clip(g * each.mean + g**2 * each.variance, *limit)))
            for each, base, g, limit in zip(others, bases, shares, limits, strict=True)
        ]
        sigma = pooled(torch.from_numpy(np.stack(variances)), pool).sqrt().numpy()
        first = others[0].draws
        of_draws = None if first is None else np.exp(bases[0] + np.clip(shares[0] * first, *limits[0]))
        known = np.zeros(shape) if y_err is None else y_err + np.zeros(shape)
        return VaryingLabels(sigma, known, of_draws, self.pooled_correlation(pool))

    def draw(self, f: Tensor, streams: Streams, y_err: Tensor | None = None) -> Tensor:
        """Labels about f: `S x B x L x n_y`."""
        n_y = f.shape[-1] // 2
        at = self._at(f, f.new_zeros(len(f), f.shape[1], n_y), y_err)
        return f[..., :n_y] + at.variance.sqrt() * streams.normal(*f.shape[1:-1], n_y).to(f.dtype)

    @torch.no_grad()
    def renew(
        self,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        draws: ZetaDraws | None,
        streams: Streams,
        is_last: bool,
    ) -> None:
        """Find sigma_y again, in place, and at the end how much held-out labels gain by the head.

        While the head is open sigma_y stays as it is: the level of log sigma could else wander between the two.
        """
        if not is_last and bool(self.share.any()):
            return
        draws = draws or ZetaDraws.of("monte_carlo", 1, learned.inputs)  # one zeta per row for exact inputs
        seen = outputs_of(posterior, learned, draws, streams)
        unseen = seen if judged is learned else outputs_of(posterior, judged, draws, streams)
        factor = self._factor(seen, unseen)
        least = 0.0 if is_last else self.rule.least_share
        self.y_noise.mul_(factor.clamp_min(least))
        if is_last:
            self._judge(seen, unseen)
        self._describe(seen)

    def observe(self, done: float) -> None:
        """Open the head in the second fifth of the training; it stays as held-out labels have judged it."""
        if not self._judged:
            self.share.fill_(min(max((done - _CLOSED) / (_OPEN - _CLOSED), 0.0), 1.0))

    @torch.no_grad()
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
        draws = draws or ZetaDraws.of("monte_carlo", 1, learned.inputs)
        judged = judged.with_known(epistemic)
        seen, unseen = (outputs_of(posterior, rows, draws, streams) for rows in (learned, judged))
        found = self.y_noise * self._factor(seen, unseen)
        return self.with_state(self.state | {"y_noise": half_way(self.y_noise, found)})

    def in_words(self, y_scale: float) -> str:
        """The root mean square of sigma over networks and outputs, and the share of the head."""
        typical = y_scale * (self.y_noise * self.typical).square().mean().sqrt().item()
        return f"σ {typical:.4g}, {100 * self.share.mean().item():.0f} % varying"

    def objection(self, pool: Tensor | None = None) -> str:
        """That held-out labels do not ask for the head, pooled over the networks."""
        nats = float(pooled((self.gain * self.rows).double(), pool))
        if nats > _CLEAR:
            return ""
        return (
            f"noise that varies changes the log density of {pooled(self.rows, pool).item():.4g} held-out labels by "
            f"{nats:+.2g} nats, and {_CLEAR:g} are needed"
        )

    def describe(self, y_scale: NDArray[np.float64], pool: Tensor | None = None) -> str:
        """By how much noise varies for each output."""
        if not bool((self.share > 0).any()):
            return "normal noise that is the same everywhere"
        gain = float(pooled(self.gain.double(), pool))
        base = pooled(self.y_noise.double().log(), pool).cpu().numpy()
        low, high = np.exp(base + pooled(self.limits.double(), pool).cpu().numpy().reshape(2, -1)) * y_scale
        ranges = ", ".join(f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True))
        return f"normal noise that varies from {ranges} (held-out labels are more probable by {gain:.2g} nats per row)"

    def _at(self, f: Tensor, y: Tensor, y_err: Tensor | None) -> _At:
        n_y = y.shape[-1]
        h = self.share[:, None, None] * f[..., n_y:]
        sigma_squared = (2 * (self.y_noise.log()[:, None, None] + h.clamp(-_WIDEST, _WIDEST))).exp()
        variance = sigma_squared if y_err is None else sigma_squared + y_err.square().unsqueeze(2)
        slope = self.share[:, None, None] * (h.abs() < _WIDEST)
        return _At((y.unsqueeze(2) - f[..., :n_y]).square(), variance, sigma_squared / variance, slope)

    def _factor(self, seen: Outputs, unseen: Outputs) -> Tensor:
        """What sigma has to be multiplied by, from the rows that were seen unless the others disagree: `S x n_y`."""
        found, _ = self._best_factor(seen)
        if unseen is seen:
            return found
        other, error = self._best_factor(unseen)
        return unless_unseen_disagree(found, other, error)

    def _best_factor(self, rows: Outputs) -> tuple[Tensor, Tensor]:
        r"""The factor of sigma that maximises the bound with its prior, and the standard error of its logarithm.

        .. math:: B' = \frac1N + \frac1N \sum_i \sum_l w_{il} a_{il} \Big(\frac{r_{il}^2}{s_{il}^2} - 1\Big), \qquad
                  a = c^2 \sigma_\psi^2 / s^2, \quad s^2 = c^2 \sigma_\psi^2 + y_{err}^2
        """
        at = self._at(rows.f, rows.y, None)
        known = 0.0 if rows.y_err is None else rows.y_err.square().unsqueeze(2)
        log_factor = torch.zeros_like(self.y_noise)
        lowest = (_FLOOR * row_std(rows.y, rows.counts) / self.y_noise).log()
        for _ in range(_STEPS):
            own = at.variance * (2 * log_factor).exp()[:, None, None]
            variance = own + known
            part, scaled = own / variance, at.squares / variance
            terms = -0.5 * (scaled + variance.log()).sum(-1)
            weights = rows.weighted(terms).softmax(-1).unsqueeze(-1)
            slopes = part * (scaled - 1)
            mean = (weights * slopes).sum(2)
            bends = 2 * part * (1 - part) * (scaled - 1) - 2 * part.square() * scaled
            bend = row_mean((weights * (bends + slopes.square())).sum(2) - mean.square(), rows.counts)
            bend = (-bend).clamp_min(_LEAST_BEND)
            slope = row_mean(mean, rows.counts) + OFF_ZERO / rows.size
            step = (slope / bend).clamp(-_STRIDE, _STRIDE)
            log_factor = torch.maximum(log_factor + step, lowest)
            if step.abs().max() < _CLOSE:
                break
        return log_factor.exp(), (bend * rows.size).rsqrt()

    def _judge(self, seen: Outputs, unseen: Outputs) -> None:
        """Find how much more probable held-out labels are than with the best constant noise, nats per row."""
        self._judged = True
        if unseen is seen:
            return
        constant = self.with_state(self.state | {"share": torch.zeros_like(self.share)}).copy()
        constant.y_noise.mul_(constant._factor(seen, unseen))  # noqa: SLF001
        gains = self._log_densities(unseen) - constant._log_densities(unseen)  # noqa: SLF001
        self.gain.copy_(row_mean(gains, unseen.counts).unsqueeze(1))
        self.rows.zero_().add_(unseen.size)

    def _log_densities(self, rows: Outputs) -> Tensor:
        """The logarithm of the density of each row: `S x rows`."""
        return log_mean_exp(rows.weighted(self.log_density(rows.f, rows.y, rows.y_err)), dim=-1)

    def _describe(self, seen: Outputs) -> None:
        """The range and the root mean square of sigma over the rows, at the zetas that explain their labels."""
        n_y = self.y_noise.shape[1]
        weights = seen.weighted(self.log_density(seen.f, seen.y, seen.y_err)).softmax(-1).unsqueeze(-1)
        h = (weights * (self.share[:, None, None] * seen.f[..., n_y:]).clamp(-_WIDEST, _WIDEST)).sum(2)
        ends = torch.tensor(_RANGE, dtype=h.dtype, device=h.device)
        self.limits.copy_(h.quantile(ends, dim=1).transpose(0, 1).flatten(1))
        self.typical.copy_(row_mean((2 * h).exp(), seen.counts).sqrt())


class _At(NamedTuple):
    """Squared residuals, s^2, the share of sigma^2 in it, and the slope of log sigma with respect to h."""

    squares: Tensor
    variance: Tensor
    part: Tensor
    slope: Tensor
