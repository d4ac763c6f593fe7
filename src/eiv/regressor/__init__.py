"""The scikit-learn front door."""

from eiv.regressor.estimator import EiVRegressor
from eiv.regressor.sensitivities import Sensitivity, sensitivity
from eiv.regressor.splits import fit_splits

__all__ = ["EiVRegressor", "Sensitivity", "fit_splits", "sensitivity"]
