"""What the estimators share."""

from eiv.estimators.base import EiVEstimator
from eiv.estimators.scaler import ErrorScaler

__all__ = ["EiVEstimator", "ErrorScaler"]
