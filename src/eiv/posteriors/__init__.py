"""Weight posteriors: one family a file, the same names in each."""

from eiv.posteriors.base import StackPosterior, Theta, WeightDraw, WeightPosterior, evaluate_rows
from eiv.posteriors.bernoulli_dropout import BernoulliDropout
from eiv.posteriors.gaussian_dropout import GaussianDropout

__all__ = [
    "FAMILIES",
    "BernoulliDropout",
    "GaussianDropout",
    "StackPosterior",
    "Theta",
    "WeightDraw",
    "WeightPosterior",
    "evaluate_rows",
]

FAMILIES: dict[str, type[StackPosterior]] = {
    "bernoulli_dropout": BernoulliDropout,
    "gaussian_dropout": GaussianDropout,
}
