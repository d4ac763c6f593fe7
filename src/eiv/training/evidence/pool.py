"""Several kernels in place of the best one: what the rows leave open about kernel and sigma_y."""

from __future__ import annotations

import contextlib
import math
from functools import partial

import torch
from torch import Tensor

from eiv.engine.workers import run_tasks
from eiv.training.evidence.density import Spare, log_evidence, log_prior
from eiv.training.evidence.features import Inputs
from eiv.training.evidence.search import Found, evaluated
from eiv.training.evidence.solution import Labels

MEMBERS = 8  # kernels of a pool, in pairs on either side of the best
_STEP = 1e-3  # of a difference that stands for a derivative, in logarithms
_HALVINGS = 6


def pool_of(found: Found, inputs: Inputs, labels: Labels, known_noise: Tensor | None, n_members: int) -> list[Found]:
    r"""Kernels and sigma_y that stand for all that the rows allow (Laplace's approximation), with their weights.

    .. math:: h \sim \mathcal{N}\big(\hat h,\ H^{-1}\big), \qquad
              H = -\nabla^2 \log p(y, h | x) \big|_{\hat h}, \qquad
              h_{\pm i} = \hat h \pm \sqrt{n}\, H^{-1/2} q_i

    The q_i are orthonormal, of random orientation. The mean of the pairs is the best kernel, and their covariance is
    that of h: exactly with as many pairs as values, on average with fewer. No direction is wider than in the prior of
    the values. Where the density falls by more than twice what a normal one does, the way is halved: far from the best
    it need not be normal.

    Args:
        found: the best kernel, from the rows of `inputs`.
        inputs: zeta given x for the rows of the search.
        labels: theirs.
        known_noise: sigma_y where it is known, `n_y`.
        n_members: an even number.

    Returns:
        `n_members` kernels; the two of a pair follow each other.

    """
    root = _root_of_covariance(found, inputs, labels)
    if known_noise is not None:
        root[-len(known_noise) :] = 0
    random = torch.Generator().manual_seed(found.family.seed)
    turned = torch.randn(len(root), n_members // 2, generator=random, dtype=torch.float64)
    ways = math.sqrt(len(root)) * root @ torch.linalg.qr(turned)[0].to(root)
    members = [partial(_member, found, sign * way, inputs, labels) for way in ways.T for sign in (1, -1)]
    return run_tasks(members, labels.y.device)


def _root_of_covariance(found: Found, inputs: Inputs, labels: Labels) -> Tensor:
    """H^-1/2, but no wider than the prior in any direction; symmetric in units of the prior, so that there is one."""
    family, draws = found.family, found.family.draws(labels.y)
    spare = Spare.of(family, family.values(found.flat), draws, inputs, found.solution)._replace(most=math.inf)

    def slope(flat: Tensor) -> Tensor:
        at = flat.clone().requires_grad_(True)
        values = family.values(at)
        density = log_evidence(family, values, draws, inputs, labels, spare) + log_prior(values, family.n_inputs)
        return torch.autograd.grad(density, at)[0]

    def prior(flat: Tensor) -> Tensor:
        return log_prior(family.values(flat), family.n_inputs)

    here = slope(found.flat)
    steps = _STEP * torch.eye(len(here)).to(here)
    curvature = torch.stack([here - slope(found.flat + step) for step in steps]) / _STEP
    scale = (-torch.autograd.functional.hessian(prior, found.flat).diagonal()).rsqrt()  # std of the prior
    sizes, vectors = torch.linalg.eigh(scale.unsqueeze(1) * 0.5 * (curvature + curvature.T) * scale)
    root: Tensor = scale.unsqueeze(1) * (vectors * sizes.clamp_min(1).rsqrt() @ vectors.T)
    return root


def _member(best: Found, way: Tensor, inputs: Inputs, labels: Labels) -> Found:
    """The kernel at the end of the way, or of as much of it as the rows allow; for none of it the best one."""
    share = 1.0
    for _ in range(_HALVINGS):
        with contextlib.suppress(torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            found = evaluated(best.family, best.flat + share * way, inputs, labels, best.solution)
            if best.evidence - found.evidence <= share**2 * len(way):  # a normal density falls by half as much
                return found
        share /= 2
    return best
