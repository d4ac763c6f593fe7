"""Predictions: Algorithm 2, the split of the variance, intervals, quantiles and budgets."""

from eiv.prediction.result import LabelErrorWarning, Prediction, UnlikeRowsWarning

__all__ = ["LabelErrorWarning", "Prediction", "UnlikeRowsWarning"]
