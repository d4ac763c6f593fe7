"""How the noise of several outputs goes together: its correlations, for networks that are fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eiv.engine.pooling import row_mean
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods.noise import Outputs, outputs_of

if TYPE_CHECKING:
    from eiv.posteriors import WeightPosterior

_STEPS, _CLOSE = 500, 1e-7  # of expectation maximisation, and the change of a correlation that is not worth another
_WIDEST = 0.999  # the largest correlation, so that the covariance has an inverse
_NODES = 32  # zetas per row, where training has drawn none


def noise_correlation(
    y_noise: Tensor, posterior: WeightPosterior, rows: Rows, draws: ZetaDraws | None, streams: Streams
) -> Tensor:
    """The correlations of the noise for each network, `S x n_y x n_y`; `y_noise` is sigma_y, `S x n_y`.

    `rows` are those that training learned from, and `draws` the way to draw zetas; None where none were drawn. The rows
    are 2,000 at most, as for sigma_y.
    """
    if draws is None:
        kind, n_zeta = ("monte_carlo", 1) if rows.inputs.is_exact else ("sobol", _NODES)
        draws = ZetaDraws.of(kind, n_zeta, rows.inputs)
    return fit_correlation(y_noise, outputs_of(posterior, rows, draws, streams))


@torch.no_grad()
def fit_correlation(y_noise: Tensor, rows: Outputs) -> Tensor:
    r"""The correlations R of the noise that make labels most probable, sigma_y being known (expectation maximisation).

    .. math::
        M = \frac1N \sum_i \Big( \Sigma - G_i \Sigma + G_i \sum_l w_{il} r_{il} r_{il}^T G_i^T \Big), \qquad
        R_{jk} \leftarrow \frac{M_{jk}}{\sqrt{M_{jj} M_{kk}}}, \qquad
        \Sigma = \mathrm{diag}(\sigma_y) R \,\mathrm{diag}(\sigma_y)

    with residuals r = y - f(zeta) and weights w of the zetas of a row, proportional to their density of y under
    :math:`\Sigma_i = \Sigma + \mathrm{diag}(y_{err,i}^2)`, and :math:`G_i = \Sigma \Sigma_i^{-1}`. What the unknown
    zeta does to all outputs at once is no noise and does not count. Neither do known errors, which are independent.

    Args:
        y_noise: sigma_y, `S x n_y`.
        rows: outputs of the networks and labels.

    Returns:
        R, `S x n_y x n_y`.

    Examples:
        >>> labels = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [2.0, 1.0], [0.0, 1.0]]).unsqueeze(0)
        >>> rows = Outputs(torch.zeros(1, 4, 1, 2), labels, None, None, 4, None)
        >>> fit_correlation(torch.ones(1, 2), rows)[0, 0, 1].item()  # 4 over the root of 6 times 4
        0.8164...

    """
    residuals = rows.y.double().unsqueeze(2) - rows.f[..., : rows.y.shape[-1]].double()  # S x rows x L x n_y
    scale = y_noise.double().unsqueeze(2) * y_noise.double().unsqueeze(1)
    one = torch.eye(y_noise.shape[1], dtype=torch.float64, device=y_noise.device)
    found = one.expand_as(scale)
    for _ in range(_STEPS):
        moved = _correlations(_second_moments(residuals, rows, found * scale))
        away, found = (moved - found).abs().max(), moved
        if away < _CLOSE:
            break
    return found.to(y_noise.dtype)


def _second_moments(residuals: Tensor, rows: Outputs, covariance: Tensor) -> Tensor:
    """M, `S x n_y x n_y`, for residuals `S x rows x L x n_y`."""
    of_rows = covariance.unsqueeze(1)
    if rows.y_err is not None:
        of_rows = of_rows + rows.y_err.double().square().diag_embed()
    root = torch.linalg.cholesky(of_rows)
    white = torch.linalg.solve_triangular(root, residuals.mT, upper=False)  # S x rows x n_y x L
    weights = rows.weighted(-0.5 * white.square().sum(2)).softmax(-1)
    moments = torch.einsum("srl,srlj,srlk->srjk", weights, residuals, residuals)
    if rows.y_err is not None:
        gain = torch.cholesky_solve(covariance.unsqueeze(1).expand_as(of_rows), root).mT
        moments = covariance.unsqueeze(1) - gain @ covariance.unsqueeze(1) + gain @ moments @ gain.mT
    found: Tensor = row_mean(moments, rows.counts)
    return (found + found.mT) / 2  # else rounding makes it less symmetric from step to step


def _correlations(moments: Tensor) -> Tensor:
    spread = moments.diagonal(dim1=-2, dim2=-1).sqrt()
    found = (moments / (spread.unsqueeze(-1) * spread.unsqueeze(-2))).clamp(-_WIDEST, _WIDEST)
    return found - torch.diag_embed(found.diagonal(dim1=-2, dim2=-1)) + torch.eye(found.shape[-1]).to(found)
