"""Labels with heavy tails: most scatter about f by a scale s, and a few lie far off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine.pooling import pooled
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods.correlation import JointNoise, Scores
from eiv.likelihoods.noise import ByBound, NoiseRule, half_way
from eiv.likelihoods.tailedlabels import StudentTLabels
from eiv.likelihoods.tails import bulk_part, draw_t, information, normal_scores, tail
from eiv.likelihoods.tailsearch import LEAST_NU, MOST_NU, renewed_tail

if TYPE_CHECKING:
    from eiv.posteriors import WeightPosterior

__all__ = ["StudentTLikelihood"]

_START_NU = 4.0  # what Lange, Little and Taylor, J. Am. Stat. Assoc. 84 (1989) 881, take where nu is not estimated
_ROUNDING = 1e-5  # of limits in float32


class StudentTLikelihood(JointNoise):
    r"""Noise with heavy tails of each output: Student's t with scale s and nu degrees of freedom.

    .. math:: p(y | \theta, \zeta) = t_\nu\big(y - f_\theta(\zeta) \,\big|\, s\big), \qquad
              \mathrm{noise}^2 = s^2 \frac{\nu}{\nu - 2}

    It assumes that noise is symmetric about f and the same everywhere. Labels far off pull at f ever less, as
    (nu + 1) / r instead of r / sigma_y^2. Known errors of labels are normal and come on top, see
    `eiv.likelihoods.tails`.

    It learns s and nu, by maximising the bound together with the prior Gamma(2, 0.1) of nu (M. A. Juarez and M. F. J.
    Steel, Journal of Business & Economic Statistics 28 (2010) 52) and one of s that keeps it off zero
    (`eiv.likelihoods.tailsearch`), on the rows that sigma_y is found on. nu stays
    between 2.5 and 50. Below 2 there is no variance; 50 stands for normal noise. Training begins with nu = 4 and
    the interquartile range of y, so that wild labels do not lead it astray, and lets nu rise by a quarter at most
    per update.

    The noise of several outputs may go together, see `eiv.likelihoods.correlation`: each output keeps its own t, and
    their normal scores are correlated. A label that is wild in one output is hardly more often wild in another.

    It costs half as much time again as normal noise, with known errors four times as much. It misses wild labels that
    lie on one side of f or come in groups, and makes intervals at nu = 50 wider by 0.4 % where noise is normal.

    Args:
        scale: s, `S x n_y`.
        nu: `S x n_y`.
        rule: `ByBound`, or None where the standard deviation is known; nu is 4 then.
        correlation: `S x n_y x n_y`, of the normal scores of several outputs; None for independent ones.

    Examples:
        >>> likelihood = StudentTLikelihood(torch.ones(1, 1), torch.full((1, 1), 4.0))
        >>> likelihood.std().round(3)
        array([1.414])

    """

    has_tails = True

    def __init__(
        self, scale: Tensor, nu: Tensor, rule: NoiseRule | None = None, correlation: Tensor | None = None
    ) -> None:
        self.scale, self.nu, self.rule = scale, nu, rule
        super().__init__(correlation)
        self.is_fixed = rule is None
        self.splits_error = rule is not None and rule.splits_error

    @classmethod
    def start(cls, y_noise: Tensor, rule: NoiseRule | None) -> Self:
        """The likelihood with this standard deviation, and nu = 4."""
        if rule is not None and not isinstance(rule, ByBound):
            raise ValueError(
                "y_noise: likelihood='student_t' finds its scale and its degrees of freedom by the bound; take "
                "y_noise='likelihood', or a number for a known standard deviation."
            )
        nu = torch.full_like(y_noise, _START_NU)
        return cls(y_noise * ((nu - 2) / nu).sqrt(), nu, rule)

    @property
    def state(self) -> dict[str, Tensor]:
        """The scale s and nu, `S x n_y` each, and of several outputs the correlations, `S x n_y x n_y`."""
        return {"scale": self.scale, "nu": self.nu} | self.joint_state

    def with_state(self, state: dict[str, Tensor]) -> Self:
        """The same rule with another s and nu."""
        return type(self)(state["scale"], state["nu"], self.rule, state.get("correlation"))

    def fault(self) -> str:
        """Scales that are not above zero, nu out of its limits, but for rounding, and impossible correlations."""
        if not bool((self.scale > 0).all()):
            return "the scale of its likelihood must be above zero"
        within = (self.nu > LEAST_NU * (1 - _ROUNDING)) & (self.nu < MOST_NU * (1 + _ROUNDING))
        if not bool(within.all()):
            return f"nu of its likelihood must be from {LEAST_NU:g} to {MOST_NU:g}"
        return super().fault()

    def log_density(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The logarithm of the density, summed over the outputs: `S x B x L`."""
        return tail(y.unsqueeze(2) - f, *self._of_draws(y_err)).log_density.sum(-1)

    def score(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The slope (nu + 1) r / (nu s^2 + r^2) without known errors, `S x B x L x n_y`."""
        return tail(y.unsqueeze(2) - f, *self._of_draws(y_err)).slope

    def terms_and_score(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The log density and its slope, from one look at the residuals."""
        found = tail(y.unsqueeze(2) - f, *self._of_draws(y_err))
        return found.log_density.sum(-1), found.slope

    def whitened(self, slopes: Tensor, f: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The slopes times the root of (nu + 1) / (nu + 3) / s^2, or of what is left of it with known errors."""
        scale, nu = (each.unsqueeze(1).to(slopes.dtype) for each in (self.scale, self.nu))
        root = information(scale, nu, None if y_err is None else y_err.to(slopes.dtype)).sqrt()
        return slopes * root.unsqueeze(3)

    @property
    def sigma(self) -> Tensor:
        """The standard deviation s sqrt(nu / (nu - 2)), `S x n_y`."""
        return self.scale * (self.nu / (self.nu - 2)).sqrt()

    def scores(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Scores:
        """The normal scores of deviations, and the part of the noise among those of the bulk of the labels."""
        scale, nu, known = self._of_draws(y_err)
        part = None if known is None else bulk_part(scale, nu, known)
        return Scores(normal_scores(y.unsqueeze(2) - f, scale, nu, known), part)

    def pooled_nu(self, pool: Tensor | None = None) -> NDArray[np.float64]:
        """The harmonic mean of nu over the networks, weighted by their shares: `n_y`. Heavy tails prevail."""
        found: NDArray[np.float64] = (1 / pooled(1 / self.nu.double(), pool)).cpu().numpy()
        return found

    def labels(
        self,
        y_scale: NDArray[np.float64],
        shape: tuple[int, ...],
        y_err: NDArray[np.float64] | None = None,
        pool: Tensor | None = None,
    ) -> StudentTLabels:
        """Labels with the pooled standard deviation and the pooled nu, to which known errors are added."""
        nothing, nu = np.zeros(shape), self.pooled_nu(pool)
        scale = self.std(pool) * np.sqrt((nu - 2) / nu) * y_scale
        known = nothing if y_err is None else y_err + nothing
        return StudentTLabels(scale + nothing, nu + nothing, known, self.pooled_correlation(pool))

    def draw(self, f: Tensor, streams: Streams, y_err: Tensor | None = None) -> Tensor:
        """Labels about f: `S x B x L x n_y`."""
        scale, nu, known = self._of_draws(y_err)
        first, second = (streams.uniform(*f.shape[1:]).to(f.dtype) for _ in range(2))
        labels = f + scale * draw_t(first, second, nu)
        return labels if known is None else labels + known * streams.normal(*f.shape[1:]).to(f.dtype)

    def renew(
        self,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        draws: ZetaDraws | None,
        streams: Streams,
        is_last: bool,
    ) -> None:
        """Find s and nu again, in place; before the end of training s falls, and nu rises, by a limited share."""
        if self.rule is None:
            return
        found = renewed_tail(self.scale, self.nu, posterior, learned, judged, draws, streams)
        least = 0.0 if is_last else self.rule.least_share
        self.scale.copy_(torch.maximum(found.scale, least * self.scale))
        self.nu.copy_(found.nu if is_last else torch.minimum(found.nu, self.nu / least))

    def split(
        self,
        posterior: WeightPosterior,
        learned: Rows,
        judged: Rows,
        epistemic: Tensor,
        draws: ZetaDraws | None,
        streams: Streams,
    ) -> Self:
        """The likelihood with s moved half the way, in logarithm, to the one found for `judged`; nu stays.

        The epistemic uncertainty counts there as a known error of labels.
        """
        judged = judged.with_known(epistemic)
        found = renewed_tail(self.scale, self.nu, posterior, learned, judged, draws, streams, with_nu=False).scale
        return self.with_state(self.state | {"scale": half_way(self.scale, found), "nu": self.nu.clone()})

    def in_words(self, y_scale: float) -> str:
        """The root mean square of s, and the mean of nu, over networks and outputs."""
        scale, nu = y_scale * self.scale.square().mean().sqrt().item(), self.nu.mean().item()
        return f"s {scale:.4g}, ν {nu:.3g}"

    def describe(self, y_scale: NDArray[np.float64], pool: Tensor | None = None) -> str:
        """That labels are of Student's t, and its scale and nu for each output."""
        nu = self.pooled_nu(pool)
        scales = ", ".join(f"{value:.4g}" for value in self.std(pool) * np.sqrt((nu - 2) / nu) * y_scale)
        freedom = ", ".join(f"{value:.3g}" for value in nu)
        return f"Student's t with scale {scales} and {freedom} degrees of freedom"

    def _of_draws(self, y_err: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """s, nu and known errors in shapes that multiply `S x B x L x n_y`."""
        return self.scale[:, None, None], self.nu[:, None, None], None if y_err is None else y_err.unsqueeze(2)
