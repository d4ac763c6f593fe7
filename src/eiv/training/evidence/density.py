"""How probable labels are under a kernel, and kernels before any label is seen."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eiv.training.evidence.features import Draws, Family, Inputs, Values
from eiv.training.evidence.solution import Labels, Solution

_TINY = 1e-12  # as good as zero, as a share of the variance of y
# What is known of the values beforehand, normal: the mean and the standard deviation of each logarithm.
_LENGTH_PRIOR, _SIZE_PRIOR, _SLOPE_PRIOR, _NOISE_PRIOR = (0.0, 1.5), (0.0, 2.0), (-1.0, 2.0), (-2.0, 2.0)


class Spare(NamedTuple):
    """The variance of f given x beside that of the features' means, and how it goes with the kernel."""

    of_inputs: Tensor  # rows x n_y, at the weights that were found
    of_weights: Tensor  # rows x n_y, where they are open
    traces: Tensor  # rows, tr Sigma of the kernel that both were found with
    most: float = 1.0  # factor that the second is stretched by at most, for a kernel with a larger tr Sigma

    @classmethod
    def alone(cls, of_inputs: Tensor) -> Spare:
        """A variance that goes with nothing."""
        return cls(of_inputs, torch.zeros_like(of_inputs), torch.ones_like(of_inputs[:, 0]))

    @classmethod
    @torch.no_grad()
    def of(cls, family: Family, values: Values, draws: Draws, inputs: Inputs, solution: Solution) -> Spare:
        """The variances of a solution."""
        traces = family.traces(family.means(inputs, values, draws), inputs, values, draws)
        return cls(solution.of_inputs, solution.spare, traces.clamp_min(_TINY))  # a row without error has none

    def take(self, rows: Tensor) -> Spare:
        """Some of the rows."""
        return Spare(self.of_inputs[rows], self.of_weights[rows], self.traces[rows], self.most)

    def variance(self, traces: Tensor) -> Tensor:
        """The variance under another kernel, whose tr Sigma is `traces`; that of open weights scales with it."""
        return self.of_inputs + self.of_weights * (traces / self.traces).clamp(0, self.most).unsqueeze(1)


def log_evidence(
    family: Family, values: Values, draws: Draws, inputs: Inputs, labels: Labels, spare: Spare | None = None
) -> Tensor:
    r"""The logarithm of the density of the labels, the weights integrated over.

    .. math:: \log \mathcal{N}\big(y \,|\, 0,\ M M^T + \mathrm{diag}(\sigma_y^2 + v)\big), \qquad
              M_{i \cdot} = \mathrm{E}[\phi(\zeta) | x_i], \qquad
              v = y_{err}^2 + \hat w^T \Sigma \hat w + \mathrm{tr}\, \Sigma C

    A row counts as often as its weight says: it stands for as many rows of M and y that are the same.

    Args:
        family: the features.
        values: their kernel, and sigma_y.
        draws: their frequencies.
        inputs: zeta given x.
        labels: y, known variances and weights.
        spare: the other parts of v, or None.

    Returns:
        A single number, the sum over the outputs.

    """
    means = family.means(inputs, values, draws)
    noise = (2 * values.log_noise).exp() + labels.known  # rows x n_y
    if spare is not None:
        noise = noise + spare.variance(family.traces(means, inputs, values, draws))
    found: Tensor = _LogDensity.apply(means, noise, labels.y, labels.weights)  # type: ignore[no-untyped-call]
    return found


class _LogDensity(torch.autograd.Function):
    r"""The logarithm of the density of labels whose mean is zero and whose weights are integrated over.

    .. math::
        \log \mathcal{N}(y | 0, K), \qquad K = M M^T + \mathrm{diag}\, n, \qquad
        \frac{\partial}{\partial M} = (\alpha \alpha^T - K^{-1}) M, \qquad
        \frac{\partial}{\partial n_i} = \tfrac12 \big( \alpha_i^2 - (K^{-1})_{ii} \big), \qquad \alpha = K^{-1} y

    With K^-1 M = diag(1 / n) M A^-1 and A = 1 + M^T diag(1 / n) M, whose root the value needs anyway, they cost as much
    as the value once more. The derivatives of a Cholesky root, which torch would go through, cost several times that.
    A row of weight c stands for c rows that are the same: it is c times in A and in every sum, and has c times the
    derivatives of one of them.
    """

    @staticmethod
    def forward(ctx: Any, means: Tensor, noise: Tensor, y: Tensor, counts: Tensor) -> Tensor:
        """Of M, `rows x F`, n and y of each output, `rows x n_y`, and the weights, `rows`: the sum over the outputs."""
        value, of_means, of_noise = y.new_zeros(()), torch.zeros_like(means), torch.zeros_like(noise)
        one = torch.eye(means.shape[1], dtype=means.dtype, device=means.device)
        for j, (n, labels) in enumerate(zip(noise.T, y.T, strict=True)):
            scaled = means / (n / counts).unsqueeze(1)
            root = torch.linalg.cholesky(one.addmm(scaled.T, means))
            weights = torch.cholesky_solve(scaled.T @ labels.unsqueeze(1), root).squeeze(1)
            alpha = counts * labels / n - scaled @ weights  # of all rows that one stands for
            log_det = 2 * root.diagonal().log().sum() + (counts * n.log()).sum()
            value = value - 0.5 * (labels @ alpha + log_det + counts.sum() * math.log(2 * math.pi))
            if any(ctx.needs_input_grad):
                solved = torch.cholesky_solve(scaled.T, root).T
                of_means += torch.outer(alpha, means.T @ alpha) - solved
                of_noise[:, j] = 0.5 * (alpha.square() / counts - (counts - (solved * means).sum(1)) / n)
        ctx.save_for_backward(of_means, of_noise)
        return value

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """The derivatives with respect to M and n."""
        of_means, of_noise = ctx.saved_tensors
        return slopes[0] * of_means, slopes[0] * of_noise, None, None


def log_prior(values: Values, n_inputs: int) -> Tensor:
    """The logarithm of the density of the values before any label is seen, but for a constant."""

    def term(found: Tensor, prior: tuple[float, float], shift: float = 0.0) -> Tensor:
        return -0.5 * ((found - prior[0] - shift) / prior[1]).square().sum()

    sizes = term(values.log_size, _SIZE_PRIOR) + term(values.log_sizes, _SIZE_PRIOR)
    rest = term(values.log_slope, _SLOPE_PRIOR) + term(values.log_noise, _NOISE_PRIOR)
    return (
        term(values.log_lengths, _LENGTH_PRIOR, 0.5 * math.log(n_inputs))
        + term(values.directions, (0, 1))
        + sizes
        + rest
    )
