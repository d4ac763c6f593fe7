"""Likelihoods, and rules for the noise sigma_y."""

from eiv.likelihoods.base import Likelihood
from eiv.likelihoods.labels import Labels, NormalLabels
from eiv.likelihoods.noise import NOISE_RULES, ByBound, ByError, NoiseRule
from eiv.likelihoods.normal import NormalLikelihood
from eiv.likelihoods.student_t import StudentTLikelihood
from eiv.likelihoods.tailedlabels import StudentTLabels

__all__ = [
    "LIKELIHOODS",
    "NOISE_RULES",
    "ByBound",
    "ByError",
    "Labels",
    "Likelihood",
    "NoiseRule",
    "NormalLabels",
    "NormalLikelihood",
    "StudentTLabels",
    "StudentTLikelihood",
]

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "normal": NormalLikelihood,  # one sigma_y, as in the paper
    "student_t": StudentTLikelihood,  # a few labels far off
}
"""Likelihoods that a user can ask for by name."""
