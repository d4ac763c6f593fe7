"""How probable labels are under a kernel, and kernels before any label is seen."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from eiv.training.evidence.features import Draws, Family, Inputs, Values
from eiv.training.evidence.solution import Labels, Solution

_TINY = 1e-12  # as good as zero, in squares of spreads
# What is known of the values beforehand, normal: the mean and the standard deviation of each logarithm.
_LENGTH_PRIOR, _SIZE_PRIOR, _SLOPE_PRIOR, _NOISE_PRIOR = (0.0, 1.5), (0.0, 2.0), (-1.0, 2.0), (-2.0, 2.0)


class Spare(NamedTuple):
    """The variance of f given x beside that of the features' means, and how it goes with the kernel."""

    of_inputs: Tensor  # rows x n_y, at the weights that were found
    of_weights: Tensor  # rows x n_y, where they are open
    scatter: Tensor  # rows, tr Sigma of the kernel that both were found with
    most: float = 1.0  # factor that the second is stretched by at most, for a kernel with a larger tr Sigma

    @classmethod
    def alone(cls, of_inputs: Tensor) -> Spare:
        """A variance that goes with nothing."""
        return cls(of_inputs, torch.zeros_like(of_inputs), torch.ones_like(of_inputs[:, 0]))

    @classmethod
    @torch.no_grad()
    def of(cls, family: Family, values: Values, draws: Draws, inputs: Inputs, solution: Solution) -> Spare:
        """The variances of a solution."""
        scatter = family.scatter(family.means(inputs, values, draws), inputs, values, draws)
        return cls(solution.of_inputs, solution.spare, scatter.clamp_min(_TINY))  # a row without error has none

    def take(self, rows: Tensor) -> Spare:
        """Some of the rows."""
        return Spare(self.of_inputs[rows], self.of_weights[rows], self.scatter[rows], self.most)

    def variance(self, scatter: Tensor) -> Tensor:
        """With the kernel whose tr Sigma is `scatter`: what no label tells of is as large as the kernel says."""
        return self.of_inputs + self.of_weights * (scatter / self.scatter).clamp(0, self.most).unsqueeze(1)


def log_evidence(
    family: Family, values: Values, draws: Draws, inputs: Inputs, labels: Labels, spare: Spare | None = None
) -> Tensor:
    r"""The logarithm of the density of the labels, the weights integrated over.

    .. math:: \log \mathcal{N}\big(y \,|\, 0,\ M M^T + \mathrm{diag}(\sigma_y^2 + v)\big), \qquad
              M_{i \cdot} = \mathrm{E}[\phi(\zeta) | x_i], \qquad
              v = y_{err}^2 + \hat w^T \Sigma \hat w + \mathrm{tr}\, \Sigma C

    Args:
        family: the features.
        values: their kernel, and sigma_y.
        draws: their frequencies.
        inputs: zeta given x.
        labels: y and known variances.
        spare: the other parts of v, or None.

    Returns:
        A single number, the sum over the outputs.

    """
    means = family.means(inputs, values, draws)
    noise = (2 * values.log_noise).exp() + labels.known  # rows x n_y
    if spare is not None:
        noise = noise + spare.variance(family.scatter(means, inputs, values, draws))
    roots = noise.rsqrt().T
    scaled, y = means * roots.unsqueeze(-1), labels.y.T * roots  # n_y x rows x F
    one = torch.eye(means.shape[1], dtype=means.dtype, device=means.device)
    root = torch.linalg.cholesky(scaled.mT @ scaled + one)
    explained = torch.linalg.solve_triangular(root, scaled.mT @ y.unsqueeze(-1), upper=False)
    squares = y.square().sum() - explained.square().sum()
    log_det = 2 * root.diagonal(dim1=-2, dim2=-1).log().sum() + noise.log().sum()
    found: Tensor = -0.5 * (squares + log_det + y.numel() * math.log(2 * math.pi))
    return found


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
