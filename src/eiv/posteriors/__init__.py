"""Weight posteriors: one family a file, the same names in each."""

from eiv.posteriors.base import WeightDraw, WeightPosterior
from eiv.posteriors.bernoulli_dropout import BernoulliDropout

__all__ = ["FAMILIES", "BernoulliDropout", "WeightDraw", "WeightPosterior"]

FAMILIES: dict[str, type[BernoulliDropout]] = {"bernoulli_dropout": BernoulliDropout}
