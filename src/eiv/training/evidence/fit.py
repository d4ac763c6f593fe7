"""From rows to a fitted network of cosines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eiv.inputs import Rows, ZetaNormal
from eiv.posteriors import WeightPosterior
from eiv.training.evidence.features import Family, Inputs
from eiv.training.evidence.search import Found, evidence_of_ignoring, search
from eiv.training.evidence.solution import Labels, Solution, solve

_SOLUTIONS = 2  # with all rows and all frequencies, the variance from the inputs renewed in between
_SEARCHED = 192  # frequencies that a kernel is found with


@dataclass(frozen=True)
class Fitted:
    """A network of cosines after its fit.

    Attributes:
        posterior: of its weights.
        y_noise: `n_y`, sigma_y.
        course: of the negative evidence in nats per row, a number for each round of the search.
        gain: how much more probable the labels are than with the errors of x ignored, in nats; None for exact inputs.

    """

    posterior: WeightPosterior
    y_noise: Tensor
    course: Tensor
    gain: float | None


def fit_by_evidence(
    posterior: WeightPosterior,
    rows: Rows,
    measured: Tensor,
    seed: int,
    known_noise: Tensor | None,
    on_round: Callable[[int, Tensor, Tensor], None],
) -> Fitted:
    r"""Fit one network of cosines: its kernel and sigma_y, then its weights.

    .. math:: \max_{k, \sigma_y} \log p(y | x, k, \sigma_y), \qquad w \sim \mathcal{N}(\hat w, C)

    Args:
        posterior: `eiv.posteriors.LastLayerLaplace` of one fresh `eiv.networks.CosineNetwork`, which is given weights.
        rows: the training rows, without the axis of the networks.
        measured: their x, `rows x n_x`, in the same units.
        seed: of the frequencies.
        known_noise: sigma_y where it is known, `n_y`.
        on_round: hears of each round that is done, with the loss and sigma_y.

    Returns:
        The posterior, sigma_y and the course of the search.

    """
    inputs, y = Inputs(rows.inputs.to(rows.y.device, torch.float64)), rows.y.double()
    labels = Labels(y, torch.zeros_like(y) if rows.y_err is None else rows.y_err.double().square())
    n_frequencies = posterior.stack.parameters["frequencies.weight"].shape[1]
    family = Family(inputs.zeta.mean.shape[1], y.shape[1], 0, min(n_frequencies, _SEARCHED), seed)
    known = None if known_noise is None else known_noise.double()
    found = search(inputs, labels, family, known, on_round)
    gain = None
    if not inputs.is_exact:
        exact = Inputs(ZetaNormal(measured.double(), torch.zeros_like(measured[:1], dtype=torch.float64)))
        gain = found.evidence - evidence_of_ignoring(exact, labels, family, known)
    whole, solution = _with_all_rows(found, inputs, labels, n_frequencies)
    _take_over(posterior, whole, found.flat, solution)
    return Fitted(posterior, whole.values(found.flat).log_noise.exp(), y.new_tensor(found.course), gain)


def _with_all_rows(found: Found, inputs: Inputs, labels: Labels, n_frequencies: int) -> tuple[Family, Solution]:
    """The weights of all frequencies from all rows, where the kernel was found with fewer of either."""
    family = replace(found.family, n_frequencies=n_frequencies)
    if family == found.family and len(inputs) == len(found.solution.spare):
        return family, found.solution
    values, draws = family.values(found.flat), family.draws(labels.y)
    spare, of_inputs = (part.mean(0).expand_as(labels.y) for part in (found.solution.spare, found.solution.of_inputs))
    solution = replace(found.solution, spare=spare, of_inputs=of_inputs)
    for _ in range(1 if inputs.is_exact else _SOLUTIONS):
        solution = solve(family, values, draws, inputs, labels, solution)
    return family, solution


@torch.no_grad()
def _take_over(posterior: WeightPosterior, family: Family, flat: Tensor, solution: Solution) -> None:
    """Give the network its frequencies, scales and weights, and the posterior the covariance of these."""
    values, draws = family.values(flat), family.draws(flat)
    scales = family.scales(values, draws)
    weights = solution.weights * scales[-1]  # the bias stands for itself
    wanted = {
        "frequencies.weight": family.frequencies(values, draws),
        "scales": scales[:-1],
        "head.weight": solution.weights[:, :-1],
        "head.bias": weights[:, -1],
    }
    for name, value in posterior.stack.parameters.items():
        value.copy_(wanted[name].unsqueeze(0))
    ones = torch.ones_like(scales)
    ones[-1] = scales[-1]
    roots = []
    for precision in solution.precision:
        values_, vectors = torch.linalg.eigh(precision / (ones.unsqueeze(1) * ones))
        roots.append(vectors * values_.rsqrt() @ vectors.T)  # the symmetric one, which is unique
    posterior.load_state({"root": torch.block_diag(*roots).unsqueeze(0)})
