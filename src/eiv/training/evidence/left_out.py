"""How well each label is predicted from the others, without finding weights anew for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine.readonly import ReadOnly
from eiv.metrics import normal_crps
from eiv.scaling import mean_and_spread
from eiv.training.evidence.features import Draws, Family, Inputs, Values
from eiv.training.evidence.solution import Block, Labels, Output, RowFeatures, Solution, lowest

_MOST_LEVERAGE = 1 - 1e-9  # less than one but for rounding


@dataclass(frozen=True, eq=False)
class LeftOut(ReadOnly):
    """How well each label is predicted from the others.

    Attributes:
        crps: `rows`, the scores of the predicted distributions, a mean over the outputs; smaller is better.
        counts: `rows`, how often each row counts.

    """

    crps: NDArray[np.float64]
    counts: NDArray[np.float64]

    def loss_to(self, other: LeftOut) -> tuple[float, float]:
        """The share by which the score is above that of other predictions of these labels, and its standard error."""
        mean, std = mean_and_spread(self.crps - other.crps, self.counts)
        scale = np.average(other.crps, weights=self.counts)
        return float(mean / scale), float(std / scale / self.counts.sum() ** 0.5)


class Predicted(NamedTuple):
    """Labels of one output, each as predicted from the others.

    Attributes:
        mean: `rows`.
        variance: `rows`, of a label.
        leverages: `rows x 2`, the eigenvalues of each row's H, at least zero and less than one.

    """

    mean: Tensor
    variance: Tensor
    leverages: Tensor


def left_out(
    family: Family, values: Values, draws: Draws, inputs: Inputs, labels: Labels, solution: Solution
) -> LeftOut:
    """The scores of labels that are `predicted_from_others`."""
    found = [
        predicted_from_others(family, values, draws, inputs, labels, solution, j) for j in range(labels.y.shape[1])
    ]
    return scored(
        labels, torch.stack([each.mean for each in found], 1), torch.stack([each.variance for each in found], 1)
    )


def scored(labels: Labels, mean: Tensor, variance: Tensor) -> LeftOut:
    """The scores of predictions, `rows x n_y` each."""
    scores = normal_crps((labels.y - mean).cpu().numpy(), 0.0, variance.sqrt().cpu().numpy())
    return LeftOut(scores.mean(1), labels.weights.cpu().numpy())


def predicted_from_others(
    family: Family, values: Values, draws: Draws, inputs: Inputs, labels: Labels, solution: Solution, j: int
) -> Predicted:
    r"""Output j of each row as predicted by weights that have not seen it, one Newton step from those that have.

    .. math::
        J_i = \sqrt{c_i} \begin{pmatrix} \mu_i^T / \sqrt{n_i} \\ \sqrt{2}\, (\Sigma_i \hat w)^T / n_i \end{pmatrix},
        \qquad e_i = \sqrt{c_i} \begin{pmatrix} -r_i / \sqrt{n_i} \\ (1 - r_i^2 / n_i) / \sqrt{2} \end{pmatrix}, \qquad
        C^{-1} = 1 + \sum_i J_i^T J_i, \qquad H_i = J_i C J_i^T

    .. math::
        C_{-i} = (C^{-1} - J_i^T J_i)^{-1} = C + C J_i^T (1 - H_i)^{-1} J_i C, \qquad
        \hat w_{-i} = \hat w + C_{-i} J_i^T e_i = \hat w + C J_i^T (1 - H_i)^{-1} e_i

    r is y less its mean, c the weight of the row, which is left out as a whole. J^T J is what the mean and the variance
    of the label say about w, J^T e the slope of its term in the sum that `solve` lowers. The eigenvalues of H are less
    than one, since the prior of w is in C as well. sigma_y, kernel and tr Sigma C in n are those of all labels. Without
    errors in x nothing else is approximate.
    """
    features = RowFeatures(family, values, draws, inputs)
    output, spare = Output.of(labels, values.log_noise[j].exp(), j), solution.spare[:, j]
    w, now = lowest(features, output, spare, solution.weights[j])
    root = torch.linalg.cholesky(now.information + torch.eye(len(w), dtype=w.dtype, device=w.device))
    parts = [_of_block(block, output, spare, w, root) for block in features]
    return Predicted(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _of_block(block: Block, output: Output, spare: Tensor, w: Tensor, root: Tensor) -> Predicted:
    y, noise, counts = (part[block.rows] for part in output)
    (variance, steepness), least = block.variance(w), noise + spare[block.rows]
    n, residuals = least + variance, y - block.means @ w
    scaled = block.means / n.sqrt().unsqueeze(1), 2**0.5 * steepness / n.unsqueeze(1)
    jacobians = counts.sqrt().view(-1, 1, 1) * torch.stack(scaled, 1)  # rows x 2 x F
    slopes = torch.stack([-residuals / n.sqrt(), (1 - residuals.square() / n) / 2**0.5], 1)
    solved = torch.cholesky_solve(jacobians.flatten(0, 1).T, root).T.view_as(jacobians)
    leverages, vectors = torch.linalg.eigh(jacobians @ solved.mT)
    leverages = leverages.clamp(0.0, _MOST_LEVERAGE)
    raised = vectors / (1 - leverages).unsqueeze(1) @ vectors.mT  # (1 - H)^-1
    left = (vectors * (leverages / (1 - leverages)).unsqueeze(1)) @ vectors.mT  # J C_-i J^T
    step = raised @ (counts.sqrt().unsqueeze(1) * slopes).unsqueeze(2)
    moved = w + (solved.mT @ step).squeeze(2)
    of_nodes = torch.einsum("rqf,rkf->rqk", block.nodes, torch.cat([moved.unsqueeze(1), solved], 1).float()).to(w)
    of_inputs = (block.weights * of_nodes[..., 0].square()).sum(1)
    of_solved = torch.einsum("rq,rqk,rql->rkl", block.weights.to(w), of_nodes[..., 1:], of_nodes[..., 1:])
    opened = (raised * of_solved).sum((1, 2))  # tr Sigma (C_-i - C)
    of_weights = left[:, 0, 0] * n / counts
    return Predicted((block.means * moved).sum(1), least + of_inputs + opened + of_weights, leverages)
