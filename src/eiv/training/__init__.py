"""Training: settings and recipes, Algorithm 1, fits of stacks, and how well they integrate over the true input."""

from eiv.training.loop import Schedule, TrainingDivergedError, TrainingResult, train

__all__ = ["Schedule", "TrainingDivergedError", "TrainingResult", "train"]
