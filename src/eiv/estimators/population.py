"""Rows of another population than the training rows: their prior, and a warning of those that are unlike."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eiv import validation as v
from eiv.inputs import InputPrior
from eiv.model import FittedModel
from eiv.prediction import ClassPrediction, Prediction, UnlikeRowsWarning
from eiv.training.making import input_prior_of
from eiv.training.settings import SETTINGS

Population = Literal["flat"] | InputPrior | None
"""The prior of the true inputs in rows to predict; None for that of the fit."""
_MANY_UNLIKE = 0.1  # of the rows; of rows like those of the training well under a hundredth are (docs/method.md)


def for_population(model: FittedModel, input_prior: Population) -> FittedModel:
    """The model for true inputs with another prior; itself where none is given."""
    if input_prior is None:
        return model
    v.check("input_prior", input_prior, SETTINGS["input_prior"].check)
    prior = input_prior_of(input_prior, "classical")
    if not hasattr(prior, "posterior"):
        raise ValueError(
            f"input_prior: {input_prior!r} has to be learned before a prediction, from rows of the new population and "
            "their errors: give what eiv.LearnedPrior().fit(x, x_err) makes of torch tensors. 'flat' and "
            "eiv.NormalPrior(std=1.0) need not be learned."
        )
    return model.with_prior(prior)


def warn_of_unlike(
    model: FittedModel, x: NDArray[np.float64], found: Prediction | ClassPrediction, stacklevel: int
) -> None:
    """Warn where more than a tenth of the rows `x` are unlike the training rows; `stacklevel` as in `warnings.warn`."""
    cloud, unlike = model.cloud, found.unlike
    if cloud is None or unlike is None or unlike.mean() <= _MANY_UNLIKE:
        return
    first = int(unlike.argmax())
    warnings.warn(
        f"{unlike.sum():,} of {len(unlike):,} rows of X are unlike the training rows (first: row {first}, "
        f"{cloud.words(x[first], model.names.features)}): what is predicted there rests on the form of the network "
        "more than on data. predict_distribution(X).unlike says which rows these are.",
        UnlikeRowsWarning,
        stacklevel=stacklevel + 1,
    )
