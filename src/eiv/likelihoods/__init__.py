"""Likelihoods, and rules for the noise sigma_y."""

from eiv.likelihoods.base import Likelihood
from eiv.likelihoods.categorical import CategoricalLikelihood
from eiv.likelihoods.labels import Labels, NormalLabels
from eiv.likelihoods.noise import NOISE_RULES, ByBound, ByError, NoiseRule
from eiv.likelihoods.normal import NormalLikelihood
from eiv.likelihoods.student_t import StudentTLikelihood
from eiv.likelihoods.tailedlabels import StudentTLabels
from eiv.likelihoods.varying import VaryingLikelihood
from eiv.likelihoods.varyinglabels import VaryingLabels

__all__ = [
    "LIKELIHOODS",
    "NOISE_RULES",
    "ByBound",
    "ByError",
    "CategoricalLikelihood",
    "Labels",
    "Likelihood",
    "NoiseRule",
    "NormalLabels",
    "NormalLikelihood",
    "StudentTLabels",
    "StudentTLikelihood",
    "VaryingLabels",
    "VaryingLikelihood",
]

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "normal": NormalLikelihood,  # one sigma_y, as in the paper
    "student_t": StudentTLikelihood,  # a few labels far off
    "varying": VaryingLikelihood,  # noise that depends on the true input
    "categorical": CategoricalLikelihood,  # of eiv.EiVClassifier
}
"""Likelihoods that a user can ask for by name."""
