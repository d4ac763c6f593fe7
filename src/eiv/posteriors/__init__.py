"""Weight posteriors: one family per file, with the same method names in each."""

from eiv.posteriors.base import PointPosterior, Theta, ThetaVariance, WeightDraw, WeightPosterior
from eiv.posteriors.bernoulli_dropout import BernoulliDropout
from eiv.posteriors.concrete_dropout import ConcreteDropout
from eiv.posteriors.ensemble import Ensemble
from eiv.posteriors.exported import OnnxGraph, OnnxTheta
from eiv.posteriors.gaussian_dropout import GaussianDropout
from eiv.posteriors.last_layer_laplace import LastLayerLaplace
from eiv.posteriors.linearised_laplace import LinearisedLaplace
from eiv.posteriors.mean_field import MeanField
from eiv.posteriors.swag import SWAG
from eiv.posteriors.variational_dropout import VariationalDropout

__all__ = [
    "FAMILIES",
    "SWAG",
    "BernoulliDropout",
    "ConcreteDropout",
    "Ensemble",
    "GaussianDropout",
    "LastLayerLaplace",
    "LinearisedLaplace",
    "MeanField",
    "OnnxGraph",
    "OnnxTheta",
    "PointPosterior",
    "Theta",
    "ThetaVariance",
    "VariationalDropout",
    "WeightDraw",
    "WeightPosterior",
]

FAMILIES: dict[str, type[WeightPosterior]] = {
    "bernoulli_dropout": BernoulliDropout,
    "gaussian_dropout": GaussianDropout,
    "variational_dropout": VariationalDropout,
    "concrete_dropout": ConcreteDropout,
    "mean_field": MeanField,
    "ensemble": Ensemble,
    "last_layer_laplace": LastLayerLaplace,
    "linearised_laplace": LinearisedLaplace,
    "swag": SWAG,
}
"""Families that a user can ask for by name."""
