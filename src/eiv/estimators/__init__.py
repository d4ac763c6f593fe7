"""What the estimators share."""

from eiv.estimators.base import EiVEstimator

__all__ = ["EiVEstimator"]
