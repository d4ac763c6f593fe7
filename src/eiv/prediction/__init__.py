"""Predictions: Algorithm 2, the split of the variance, intervals, quantiles and budgets."""

from eiv.prediction.result import LabelErrorWarning, Prediction

__all__ = ["LabelErrorWarning", "Prediction"]
