"""Regression and classification for inputs that carry error bars (Errors-in-Variables).

`import eiv` is fast: torch and scikit-learn are loaded with the first name that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eiv.classifier import EiVClassifier
    from eiv.comparison import Comparison, compare
    from eiv.estimators import ErrorScaler
    from eiv.inputs import (
        FlatPrior,
        LearnedPrior,
        LostPrecisionWarning,
        MixturePrior,
        NormalPrior,
        Repeats,
        SuspiciousErrorWarning,
        errors_from_repeats,
        estimated,
        relative,
    )
    from eiv.io.modelfile import ModelFileError
    from eiv.model import FittedModel
    from eiv.prediction.classes import ClassPrediction
    from eiv.prediction.result import LabelErrorWarning, Prediction, UnlikeRowsWarning
    from eiv.prediction.trueinputs import TrueInputs
    from eiv.regressor import EiVRegressor, Sensitivity, fit_splits, sensitivity
    from eiv.training import TrainingDivergedError
    from eiv.training.neighbours import MissedCurveWarning

__version__ = "0.1.0"

__all__ = [
    "ClassPrediction",
    "Comparison",
    "EiVClassifier",
    "EiVRegressor",
    "ErrorScaler",
    "FittedModel",
    "FlatPrior",
    "LabelErrorWarning",
    "LearnedPrior",
    "LostPrecisionWarning",
    "MissedCurveWarning",
    "MixturePrior",
    "ModelFileError",
    "NormalPrior",
    "Prediction",
    "Repeats",
    "Sensitivity",
    "SuspiciousErrorWarning",
    "TrainingDivergedError",
    "TrueInputs",
    "UnlikeRowsWarning",
    "compare",
    "errors_from_repeats",
    "estimated",
    "fit_splits",
    "relative",
    "sensitivity",
]

_HOMES = {
    "ClassPrediction": "eiv.prediction.classes",
    "Comparison": "eiv.comparison",
    "EiVClassifier": "eiv.classifier",
    "EiVRegressor": "eiv.regressor",
    "ErrorScaler": "eiv.estimators",
    "FittedModel": "eiv.model",
    "FlatPrior": "eiv.inputs",
    "LabelErrorWarning": "eiv.prediction.result",
    "LearnedPrior": "eiv.inputs",
    "LostPrecisionWarning": "eiv.inputs",
    "MissedCurveWarning": "eiv.training.neighbours",
    "MixturePrior": "eiv.inputs",
    "ModelFileError": "eiv.io.modelfile",
    "NormalPrior": "eiv.inputs",
    "Prediction": "eiv.prediction.result",
    "Repeats": "eiv.inputs",
    "Sensitivity": "eiv.regressor",
    "SuspiciousErrorWarning": "eiv.inputs",
    "TrainingDivergedError": "eiv.training",
    "TrueInputs": "eiv.prediction.trueinputs",
    "UnlikeRowsWarning": "eiv.prediction.result",
    "compare": "eiv.comparison",
    "errors_from_repeats": "eiv.inputs",
    "estimated": "eiv.inputs",
    "fit_splits": "eiv.regressor",
    "relative": "eiv.inputs",
    "sensitivity": "eiv.regressor",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'eiv' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
