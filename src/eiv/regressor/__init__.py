"""The scikit-learn front door."""

from eiv.regressor.estimator import EiVRegressor
from eiv.regressor.pushforward import law_from_fit
from eiv.regressor.sensitivities import Sensitivity, sensitivity
from eiv.regressor.splits import fit_splits

__all__ = ["EiVRegressor", "Sensitivity", "fit_splits", "law_from_fit", "sensitivity"]
