"""Predictions: Algorithm 2, the split of the variance, intervals, quantiles and budgets."""

from eiv.prediction.classes import ClassPrediction
from eiv.prediction.result import LabelErrorWarning, Prediction, UnlikeRowsWarning

__all__ = ["ClassPrediction", "LabelErrorWarning", "Prediction", "UnlikeRowsWarning"]
