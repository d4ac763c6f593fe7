"""Predictions: Algorithm 2, the split of the variance, intervals, quantiles and budgets."""

from eiv.prediction.classes import ClassPrediction
from eiv.prediction.result import LabelErrorWarning, Prediction, UnlikeRowsWarning
from eiv.prediction.trueinputs import TrueInputs

__all__ = ["ClassPrediction", "LabelErrorWarning", "Prediction", "TrueInputs", "UnlikeRowsWarning"]
