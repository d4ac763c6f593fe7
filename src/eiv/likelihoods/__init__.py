"""Likelihoods, and rules for the noise sigma_y."""

from eiv.likelihoods.base import Likelihood
from eiv.likelihoods.categorical import CategoricalLikelihood
from eiv.likelihoods.labels import Labels, NormalLabels
from eiv.likelihoods.noise import NOISE_RULES, ByBound, ByError, NoiseRule
from eiv.likelihoods.normal import NormalLikelihood

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
]

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "normal": NormalLikelihood,
    "categorical": CategoricalLikelihood,  # of eiv.EiVClassifier
}
"""Likelihoods that a user can ask for by name."""
