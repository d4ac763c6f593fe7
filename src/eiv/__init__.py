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
    from eiv.estimators.gum import uncertainty_budgets
    from eiv.inputs import (
        ErrorLaw,
        FlatPrior,
        LearnedPrior,
        LostPrecisionWarning,
        MixturePrior,
        NormalPrior,
        Repeats,
        SuspiciousErrorWarning,
        censored,
        errors_from_repeats,
        estimated,
        growing,
        law_from_pairs,
        law_from_repeats,
        rectangular,
        relative,
        split_normal,
        student_t,
        triangular,
    )
    from eiv.io.modelfile import ModelFileError
    from eiv.model import FittedModel
    from eiv.prediction.classes import ClassPrediction
    from eiv.prediction.gum import InputQuantity, UncertaintyBudget
    from eiv.prediction.result import LabelErrorWarning, Prediction, UnlikeRowsWarning
    from eiv.prediction.trueinputs import TrueInputs
    from eiv.regressor import EiVRegressor, Sensitivity, fit_splits, law_from_fit, sensitivity
    from eiv.training import TrainingDivergedError
    from eiv.training.neighbours import MissedCurveWarning

__version__ = "0.2.0"

__all__ = [
    "ClassPrediction",
    "Comparison",
    "EiVClassifier",
    "EiVRegressor",
    "ErrorLaw",
    "ErrorScaler",
    "FittedModel",
    "FlatPrior",
    "InputQuantity",
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
    "UncertaintyBudget",
    "UnlikeRowsWarning",
    "censored",
    "compare",
    "errors_from_repeats",
    "estimated",
    "fit_splits",
    "growing",
    "law_from_fit",
    "law_from_pairs",
    "law_from_repeats",
    "rectangular",
    "relative",
    "sensitivity",
    "split_normal",
    "student_t",
    "triangular",
    "uncertainty_budgets",
]

_HOMES = {
    "ClassPrediction": "eiv.prediction.classes",
    "Comparison": "eiv.comparison",
    "EiVClassifier": "eiv.classifier",
    "EiVRegressor": "eiv.regressor",
    "ErrorLaw": "eiv.inputs",
    "ErrorScaler": "eiv.estimators",
    "FittedModel": "eiv.model",
    "FlatPrior": "eiv.inputs",
    "InputQuantity": "eiv.prediction.gum",
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
    "UncertaintyBudget": "eiv.prediction.gum",
    "UnlikeRowsWarning": "eiv.prediction.result",
    "censored": "eiv.inputs",
    "compare": "eiv.comparison",
    "errors_from_repeats": "eiv.inputs",
    "estimated": "eiv.inputs",
    "fit_splits": "eiv.regressor",
    "growing": "eiv.inputs",
    "law_from_fit": "eiv.regressor",
    "law_from_pairs": "eiv.inputs",
    "law_from_repeats": "eiv.inputs",
    "rectangular": "eiv.inputs",
    "relative": "eiv.inputs",
    "sensitivity": "eiv.regressor",
    "split_normal": "eiv.inputs",
    "student_t": "eiv.inputs",
    "triangular": "eiv.inputs",
    "uncertainty_budgets": "eiv.estimators.gum",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'eiv' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
