"""How well training integrates over zeta: the effective sample size of its zetas, and the gap of its bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from eiv.engine import memory
from eiv.engine.pooling import row_mean
from eiv.engine.quadrature import Quadrature
from eiv.engine.stable import log_mean_exp
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws, ZetaPosterior
from eiv.likelihoods import Likelihood
from eiv.posteriors import WeightDraw, WeightPosterior

__all__ = ["LARGE_GAP", "LooseBoundWarning", "ZetaDiagnostics", "advice", "zeta_diagnostics"]

LARGE_GAP = 0.1  # nats per row, twice what the paper's settings leave on its simulated sets; see docs/method.md
_REPEATS = 16
_FINER = 4
_FEWEST_ROWS, _MOST_ROWS = 64, 512
_MOST_ZETAS = 500  # that are worth a try


class LooseBoundWarning(UserWarning):
    r"""The zetas of a row are too few for the bound of eq. (mcloss) to be near the likelihood it stands for.

    .. math:: \log p(y | x, \theta) - E \log \frac1L \sum_{l=1}^L p(y | \theta, \zeta_l) > 0.1

    Examples:
        >>> import warnings
        >>> warnings.simplefilter("ignore", LooseBoundWarning)

    """


@dataclass(frozen=True)
class ZetaDiagnostics:
    r"""What L zetas per row are worth to trained networks.

    .. math:: \mathrm{ess} = \Big( \sum_{l=1}^L w_l^2 \Big)^{-1}, \qquad
              \mathrm{gap} = \mathrm{bound}_{16 L} - \mathrm{bound}_L

    Attributes:
        ess: `S`, from 1, where a single zeta explains y, to L.
        gap: `S`, in nats per row.

    Examples:
        >>> ZetaDiagnostics(ess=torch.tensor([4.3]), gap=torch.tensor([0.05])).ess
        tensor([4.3000])

    """

    ess: Tensor
    gap: Tensor


@torch.no_grad()
def zeta_diagnostics(
    posterior: WeightPosterior, rows: Rows, likelihood: Likelihood, draws: ZetaDraws, streams: Streams
) -> ZetaDiagnostics:
    r"""Measure the effective sample size of the zetas and the gap of the bound, on some of the training rows.

    .. math:: w_l = \frac{p(y | \theta, \zeta_l)}{\sum_{l'} p(y | \theta, \zeta_{l'})}, \qquad
              \mathrm{gap} = E \log \frac{1}{16} \sum_{r=1}^{16} \hat p_r - E \log \hat p_1, \qquad
              \hat p_r = \frac1L \sum_{l=1}^L p(y | \theta, \zeta_{rl})

    Every row has one theta, as in training, and 16 sets of L zetas, drawn by the same rule. The bound with all of them
    and the mean of the bounds with one set differ by the gap, which cannot be negative. For many zetas it falls like
    1 / L, so that all but a sixteenth of the distance to the likelihood shows.

    Quadrature has one set of nodes and errs on both sides. Its gap is the mean size of its error, measured against 16 L
    points of a Sobol sequence, or against 4 L nodes where f is taken to be straight between them.

    It takes about as long as an epoch, on 64 to 512 rows.

    Args:
        posterior: q_phi of S trained networks.
        rows: the N rows that they learned from.
        likelihood: as it was fitted.
        draws: how training draws zetas.
        streams: random streams of the networks.

    Returns:
        Both for each network, means over the rows.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.likelihoods import NormalLikelihood
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, torch.device("cpu"))
        >>> x = torch.linspace(-1, 1, 50).reshape(1, 50, 1)
        >>> rows = Rows(ZetaNormal(x, torch.full((1, 1, 1), 0.1)), 0 * x)
        >>> draws = ZetaDraws.of("monte_carlo", 5, rows.inputs)
        >>> q, streams = BernoulliDropout(stack, 1.0), Streams(seeds, x.device)
        >>> zeta_diagnostics(q, rows, NormalLikelihood(torch.ones(1, 1)), draws, streams).ess.round()
        tensor([5.])

    """
    y, n_rows = rows.y, rows.y.shape[1]
    # Forward passes alone, with 16 times the zetas: three sixteenths of the rows cost as much as an epoch.
    n_chosen = min(n_rows, max(_FEWEST_ROWS, min(_MOST_ROWS, 3 * n_rows // _REPEATS)))
    chosen = torch.linspace(0, n_rows - 1, n_chosen, dtype=torch.float64, device=y.device).long()
    size = max(1, memory.TRAINING_PASS // (posterior.stack.width * _REPEATS * draws.n_zeta))
    found, counts = [], None if rows.weights is None else rows.weights[:, chosen]
    for some in chosen.split(size):
        taken, theta = rows.take(some.expand(len(y), -1)), posterior.draw_as_in_training(streams, len(some))
        density = partial(_density, posterior, taken, theta, likelihood)
        measure = _of_repeats if draws.quadrature(y.dtype) is None else _of_nodes
        found.append(torch.stack(measure(density, rows.inputs, draws, streams, len(some))))
    ess, gap = (row_mean(each, counts) for each in torch.cat(found, dim=2))
    return ZetaDiagnostics(ess, gap)


def advice(ess: float, gap: float, draws: ZetaDraws, n_zeta: int) -> str:
    r"""What to do about a large gap; for independent zetas it falls like 1 / L.

    .. math:: L \leftarrow L \cdot \mathrm{gap} / 0.1

    Args:
        ess: the effective sample size.
        gap: in nats per row.
        draws: how training drew zetas.
        n_zeta: what the user asked for.

    Returns:
        Sentences for a user.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> zeta = ZetaNormal(torch.zeros(1, 3, 1), torch.ones(1, 1, 1))
        >>> advice(2.4, 1.6, ZetaDraws.of("monte_carlo", 5, zeta), 5)
        "The zetas of a row are too few ... Raise n_zeta from 5 to about 80, take zeta_draws='interpolated', ..."

    """
    is_rule = draws.kind in ("gauss_hermite", "interpolated")  # whose error falls faster
    better = 2 * n_zeta if is_rule else math.ceil(n_zeta * gap / LARGE_GAP)
    other = "interpolated" if len(draws.used) == 1 else "informed"
    found = (
        f"The zetas of a row are too few for the integral over the true input: the effective sample size is {ess:.1f} "
        f"of {draws.n_zeta}, and the bound is off by {gap:.2g} nats per row. "
    )
    if better > _MOST_ZETAS:
        return f"{found}A larger n_zeta hardly helps: y_noise is too small for the residuals, or epochs are too few."
    switch = f", take zeta_draws={other!r}" if draws.kind != other else ""
    return found + (
        f"Raise n_zeta from {n_zeta} to about {better}{switch}, or check y_noise: a "
        f"sigma_y that is too small has the same effect."
    )


Density = Callable[..., Tensor]
"""From base noise `S x rows x L x n_base`, and a rule for its zetas, to log p(y | theta, zeta), `S x rows x L`."""


def _density(
    posterior: WeightPosterior,
    rows: Rows,
    theta: WeightDraw,
    likelihood: Likelihood,
    base: Tensor,
    quadrature: Quadrature | None = None,
) -> Tensor:
    f = posterior.evaluate(theta, rows.inputs.draw(base))
    if quadrature is None:
        return likelihood.log_density(f, rows.y, rows.y_err)
    return likelihood.log_density(quadrature.points(f), rows.y, rows.y_err) + quadrature.log_weights


def _of_repeats(
    density: Density, inputs: ZetaPosterior, draws: ZetaDraws, streams: Streams, n_rows: int
) -> tuple[Tensor, Tensor]:
    """Effective sample size and gap from 16 sets of zetas per row: `S x rows` each."""
    base = torch.cat([draws.base(streams, n_rows) for _ in range(_REPEATS)], dim=2)
    terms = density(base).unflatten(2, (_REPEATS, draws.n_zeta))
    bounds = log_mean_exp(terms, dim=-1)
    return _effective(terms.softmax(-1)).mean(-1), log_mean_exp(bounds, dim=-1) - bounds.mean(-1)


def _of_nodes(
    density: Density, inputs: ZetaPosterior, draws: ZetaDraws, streams: Streams, n_rows: int
) -> tuple[Tensor, Tensor]:
    """The same of quadrature, against many points."""
    base = draws.base(streams, n_rows)
    quadrature = draws.quadrature(base.dtype, base.device)
    assert quadrature is not None
    terms = density(base, quadrature)
    many = ("interpolated", _FINER) if draws.kind == "interpolated" else ("sobol", _REPEATS)
    finer = ZetaDraws.of(many[0], many[1] * draws.n_zeta, inputs)
    exact = density(finer.base(streams, n_rows), finer.quadrature(base.dtype, base.device))
    error = log_mean_exp(exact, dim=-1) - log_mean_exp(terms, dim=-1)
    return _effective(quadrature.of_zetas(terms.softmax(-1))), error.abs()


def _effective(weights: Tensor) -> Tensor:
    return 1 / weights.square().sum(-1)
