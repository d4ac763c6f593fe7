"""The weights of cosine features for a given kernel and noise, under errors in x."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from eiv.training.evidence.features import Draws, Family, Inputs, Values

_STEPS, _HALVINGS = 6, 6
_ENOUGH = 1e-3  # gain of a step, in roots of the number of rows, below which no other is taken


@dataclass(frozen=True)
class Labels:
    """The labels of some rows, standardised.

    Attributes:
        y: `rows x n_y`.
        known: `rows x n_y`, variances that are known for each label; zero where nothing is known.
        counts: `rows`, how often each row counts; None where each counts once.

    """

    y: Tensor
    known: Tensor
    counts: Tensor | None = None

    @cached_property
    def weights(self) -> Tensor:
        """How often each row counts, `rows`."""
        return torch.ones_like(self.y[:, 0]) if self.counts is None else self.counts

    @cached_property
    def size(self) -> float:
        """How many rows they count for, the sum of the weights."""
        return float(self.weights.sum())

    def mean(self, values: Tensor) -> Tensor:
        """The mean over the rows of `values`, `rows x ...`."""
        weights = self.weights.view(-1, *[1] * (values.ndim - 1))
        return (weights * values).sum(0) / self.size

    def take(self, rows: Tensor) -> Labels:
        """Some of the rows."""
        return Labels(self.y[rows], self.known[rows], None if self.counts is None else self.counts[rows])


@dataclass(frozen=True)
class Solution:
    r"""The weights of each output, and what they leave open.

    Attributes:
        weights: `n_y x F`, in units of their prior.
        inverse_covariance: `n_y x F x F`, the inverse of their covariance C.
        of_inputs: `rows x n_y`, w^T Sigma w, the variance of f(zeta) given x at these weights.
        spare: `rows x n_y`, tr Sigma C, what the variance of the weights adds to it.
        evidence: `n_y`, the logarithm of the density of the labels, the weights integrated over (see `solve`).

    """

    weights: Tensor
    inverse_covariance: Tensor
    of_inputs: Tensor
    spare: Tensor
    evidence: Tensor

    @property
    def n_determined(self) -> float:
        """How many weights the labels determine, F less the trace of C; of several outputs, the most."""
        left_open = torch.cholesky_inverse(torch.linalg.cholesky(self.inverse_covariance)).diagonal(dim1=1, dim2=2)
        return float((1 - left_open).sum(1).max())


def solve(
    family: Family, values: Values, draws: Draws, inputs: Inputs, labels: Labels, before: Solution | None = None
) -> Solution:
    r"""The weights that fit mean and variance of the labels.

    .. math::
        \min_w \sum_i \frac12 \left[ \frac{(y_i - \mu_i^T w)^2}{n_i(w)} + \log n_i(w) \right] + \frac12 |w|^2, \qquad
        n_i(w) = \sigma_y^2 + w^T \Sigma_i w + \mathrm{tr}\, \Sigma_i C

    .. math::
        \log p(y) = -\sum_i \frac12 \left[ \frac{(y_i - \mu_i^T \hat w)^2}{n_i(\hat w)} + \log 2 \pi n_i(\hat w) \right]
        - \frac12 |\hat w|^2 - \frac12 \log \det C^{-1}

    mu and Sigma are mean and covariance of the features given x, C the covariance of the weights. The minimum is found
    by Fisher's scoring. Its information comes from the mean of the labels and from their variance, since both depend on
    w. A step that does not lower the sum is halved. Without the term in the variance, weights of high frequencies,
    whose means are damped away by the errors of x, would be free to grow. Terms of a sum over rows count as often as
    the weights of the rows say.

    The density of the labels, with the weights integrated over, is Laplace's approximation; without errors of x it is
    exact. C contains what the variances of the labels say about w. A density that takes these variances as known is too
    high for a kernel that explains noise by f within the errors of x.

    Args:
        family: the features.
        values: their kernel, and sigma_y.
        draws: their frequencies.
        inputs: zeta given x.
        labels: y and known variances.
        before: a solution for nearly the same, where there is one: its variances to start from, and its tr Sigma C.

    Returns:
        The weights.

    """
    features = RowFeatures(family, values, draws, inputs)
    found = []
    for j, sigma in enumerate(values.log_noise.exp()):
        of_inputs = spare = torch.zeros_like(labels.y[:, j])
        if before is not None:
            of_inputs, spare = before.of_inputs[:, j], before.spare[:, j]
        own = Output.of(labels, sigma, j)
        found.append(_of_output(features, own, of_inputs, spare))
    weights, inverse_covariance, of_inputs, spares, evidence = (
        torch.stack(parts) for parts in zip(*found, strict=True)
    )
    return Solution(weights, inverse_covariance, of_inputs.T, spares.T, evidence)


def log_density(
    family: Family, values: Values, draws: Draws, inputs: Inputs, labels: Labels, solution: Solution
) -> Tensor:
    """The logarithm of the density of the labels of each row, other than those that the weights were found from."""
    mean, variance = predicted(family, values, draws, inputs, labels, solution)
    return -0.5 * ((labels.y - mean).square() / variance + (2 * math.pi * variance).log()).sum(1)


def predicted(
    family: Family, values: Values, draws: Draws, inputs: Inputs, labels: Labels, solution: Solution
) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of labels other than those that the weights were found from, `rows x n_y` each.

    .. math:: \mu_i^T \hat w, \qquad
              \sigma_y^2 + y_{err}^2 + \hat w^T \Sigma_i \hat w + \mathrm{tr}\, \Sigma_i C + \mu_i^T C \mu_i
    """
    mean, variance = torch.zeros_like(labels.y), values.log_noise.exp().square() + labels.known
    roots = torch.linalg.cholesky(solution.inverse_covariance)
    for block in RowFeatures(family, values, draws, inputs):
        rows, means = block.rows, block.means
        for j, (w, root) in enumerate(zip(solution.weights, roots, strict=True)):
            of_weights = torch.linalg.solve_triangular(root, means.T, upper=False).square().sum(0)
            variance[rows, j] += block.variance(w)[0] + block.spare(root) + of_weights
            mean[rows, j] = means @ w
    return mean, variance


class Block(NamedTuple):
    """The features of some rows: their means, and how those at the nodes differ from these, with the nodes' weights.

    The differences make variances alone, which need no more digits than float32 has.
    """

    rows: Tensor
    means: Tensor  # rows x F
    nodes: Tensor  # rows x Q x F, float32
    weights: Tensor  # rows x Q

    def variance(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """w^T Sigma w, `rows`, and half of its slope, `rows x F`."""
        f = self.nodes @ w.float()
        steepness = torch.einsum("rq,rqf->rf", self.weights.float() * f, self.nodes)
        return (self.weights * f.square()).sum(-1), steepness.to(w)

    def spare(self, root: Tensor) -> Tensor:
        """The trace of Sigma C, `rows`, from the Cholesky root of the inverse of C."""
        flat = torch.linalg.solve_triangular(root.float(), self.nodes.flatten(0, 1).mT, upper=False)
        found: Tensor = (self.weights * flat.square().sum(0).view_as(self.weights)).sum(-1)
        return found


class RowFeatures:
    """The features of all rows, block by block; kept where they are one block."""

    def __init__(self, family: Family, values: Values, draws: Draws, inputs: Inputs) -> None:
        self.family, self.values, self.draws, self.inputs = family, values, draws, inputs
        self.kept = list(self._made()) if inputs.fits(family.n_features) else []

    def __iter__(self) -> Iterator[Block]:
        return iter(self.kept) if self.kept else self._made()

    def _made(self) -> Iterator[Block]:
        for rows, block in self.inputs.blocks(self.family.n_features):
            means = self.family.means(block, self.values, self.draws)
            if block.is_exact:
                nothing = torch.zeros_like(means, dtype=torch.float32).unsqueeze(1)
                yield Block(rows, means, nothing, torch.ones_like(means[:, :1]))
                continue
            zeta, weights = self.inputs.nodes
            nodes = zeta[rows], weights[rows]
            yield Block(rows, means, self.family.differences(nodes, self.values, self.draws), nodes[1])


class Look(NamedTuple):
    """What the sum to be lowered is at some weights, and how it changes; without the prior of the weights."""

    value: Tensor
    slope: Tensor
    information: Tensor
    variances: Tensor


class Output(NamedTuple):
    """One output of the rows: labels, their variance beside that from the input, and weights, `rows` each."""

    y: Tensor
    noise: Tensor
    counts: Tensor

    @classmethod
    def of(cls, labels: Labels, sigma: Tensor, j: int) -> Output:
        """Output j, whose noise has the standard deviation sigma."""
        return cls(labels.y[:, j], sigma.square() + labels.known[:, j], labels.weights)


def look(features: RowFeatures, output: Output, spare: Tensor | float, w: Tensor) -> Look:
    """Go through the rows with some weights."""
    y, noise, counts = output
    least = noise + spare
    value, slope, information = y.new_zeros(()), torch.zeros_like(w), w.new_zeros(len(w), len(w))
    variances = []
    for block in features:
        rows, means = block.rows, block.means
        variance, steepness = block.variance(w)
        total, residuals = least[rows] + variance, y[rows] - means @ w
        n = counts[rows]
        value = value + 0.5 * (n * (residuals.square() / total + total.log())).sum()
        slope = slope - means.T @ (n * (residuals / total))
        slope = slope + steepness.T @ (n * (1 / total - (residuals / total).square()))
        roots = n.sqrt() * total.rsqrt(), n.sqrt() * (2**0.5 / total)
        for part in (means * roots[0].unsqueeze(1), steepness * roots[1].unsqueeze(1)):
            information = information.addmm(part.T, part)
        variances.append(variance)
    return Look(value, slope, information, torch.cat(variances))


def _of_output(
    features: RowFeatures, output: Output, of_inputs: Tensor, spare: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What a solution has, for one output.

    `of_inputs` and `spare` are the variance of labels from their inputs to start from. The evidence is that with the tr
    Sigma C that is found.
    """
    w = _by_means_alone(features, output, output.noise + spare + of_inputs)
    w, now = lowest(features, output, spare, w)
    one = torch.eye(len(w), dtype=w.dtype, device=w.device)
    inverse_covariance = now.information + one
    root = torch.linalg.cholesky(inverse_covariance)
    spare = torch.cat([block.spare(root) for block in features])
    there = look(features, output, spare, w)
    loss = there.value + 0.5 * (w @ w + output.counts.sum() * math.log(2 * math.pi))
    evidence = -loss - torch.linalg.cholesky(there.information + one).diagonal().log().sum()
    return w, inverse_covariance, now.variances, spare, evidence


def lowest(features: RowFeatures, output: Output, spare: Tensor, w: Tensor) -> tuple[Tensor, Look]:
    """The weights that lower the sum as far as it goes, by Fisher's scoring from w, and the look with them."""
    size = float(output.counts.sum())
    one = torch.eye(len(w), dtype=w.dtype, device=w.device)
    now = look(features, output, spare, w)
    for _ in range(_STEPS):
        root = torch.linalg.cholesky(now.information + one)
        step = torch.cholesky_solve(-(now.slope + w).unsqueeze(1), root).squeeze(1)
        for halving in range(_HALVINGS):
            moved = w + step / 2**halving
            there = look(features, output, spare, moved)
            gain = now.value - there.value + 0.5 * (w @ w - moved @ moved)
            if gain > 0:
                break
        else:
            break
        w, now = moved, there
        if gain < _ENOUGH * size**0.5:
            break
    return w, now


def _by_means_alone(features: RowFeatures, output: Output, total: Tensor) -> Tensor:
    """Weights by least squares; halved as long as f varies more within the errors of x than labels about its mean."""
    n_features, (y, _, counts) = features.family.n_features, output
    information, right = torch.eye(n_features, dtype=y.dtype, device=y.device), y.new_zeros(n_features)
    for rows, means, *_ in features:
        scaled = means * (counts[rows].sqrt() * total[rows].rsqrt()).unsqueeze(1)
        information = information.addmm(scaled.T, scaled)
        right = right + means.T @ (counts[rows] * (y[rows] / total[rows]))
    w = torch.cholesky_solve(right.unsqueeze(1), torch.linalg.cholesky(information)).squeeze(1)
    for _ in range(_HALVINGS):
        within = about = y.new_zeros(())
        for rows, means, nodes, weights in features:
            within = within + (counts[rows].unsqueeze(1) * weights * (nodes @ w.float()).square()).sum()
            about = about + (counts[rows] * (y[rows] - means @ w).square()).sum()
        if within <= 2 * about:
            break
        w = w / 2
    return w
