"""Regression and classification for inputs that carry error bars (Errors-in-Variables).

`import eiv` is fast: torch and scikit-learn are loaded with the first name that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eiv.extras import on_first_use

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

__getattr__ = on_first_use(
    __name__,
    {
        "eiv.classifier": ("EiVClassifier",),
        "eiv.comparison": (
            "Comparison",
            "compare",
        ),
        "eiv.estimators": ("ErrorScaler",),
        "eiv.estimators.gum": ("uncertainty_budgets",),
        "eiv.inputs": (
            "ErrorLaw",
            "FlatPrior",
            "LearnedPrior",
            "LostPrecisionWarning",
            "MixturePrior",
            "NormalPrior",
            "Repeats",
            "SuspiciousErrorWarning",
            "censored",
            "errors_from_repeats",
            "estimated",
            "growing",
            "law_from_pairs",
            "law_from_repeats",
            "rectangular",
            "relative",
            "split_normal",
            "student_t",
            "triangular",
        ),
        "eiv.io.modelfile": ("ModelFileError",),
        "eiv.model": ("FittedModel",),
        "eiv.prediction.classes": ("ClassPrediction",),
        "eiv.prediction.gum": (
            "InputQuantity",
            "UncertaintyBudget",
        ),
        "eiv.prediction.result": (
            "LabelErrorWarning",
            "Prediction",
            "UnlikeRowsWarning",
        ),
        "eiv.prediction.trueinputs": ("TrueInputs",),
        "eiv.regressor": (
            "EiVRegressor",
            "Sensitivity",
            "fit_splits",
            "law_from_fit",
            "sensitivity",
        ),
        "eiv.training": ("TrainingDivergedError",),
        "eiv.training.neighbours": ("MissedCurveWarning",),
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
