"""Checks of labels that are classes, and their columns of zeros and ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from eiv.validation import check_unmasked

_NAMED = 5  # classes in a message


def check_labels(y: Any) -> None:
    """Refuse labels that are missing."""
    if y is None:
        raise ValueError("y is missing: a classifier requires y to be passed, but the target y is None.")
    check_unmasked("y", y)
    import pandas as pd  # noqa: PLC0415

    labels = np.atleast_1d(np.asarray(y, dtype=object))
    missing = np.array([bool(pd.isna(label)) for label in labels.flat]).reshape(len(labels), -1)
    if missing.any():
        raise ValueError(
            f"y: {missing.sum()} of {missing.size} labels are missing (NaN or None), first in row "
            f"{missing.any(1).argmax()}. "
            "Leave these rows out."
        )


def one_column_per_class(labels: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Labels as zeros and ones, `rows x C`, and the classes in order; a ValueError where they cannot be learned."""
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"y: its classes cannot be put in order, since they are of several types: {error}.") from error
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise ValueError(f"y: {error} eiv.EiVRegressor takes labels that are numbers.") from error
    if len(classes) == 1:
        raise ValueError(f"y has one class only, {classes.tolist()[0]!r}: a classifier needs two at least.")
    if (alone := np.bincount(codes.reshape(-1)) == 1).any():
        names = ", ".join(repr(name) for name in classes[alone].tolist()[:_NAMED])
        more = f" and {alone.sum() - _NAMED} more" if alone.sum() > _NAMED else ""
        raise ValueError(
            f"y: a class needs two rows at least, since one does not show how far it reaches; one row have: "
            f"{names}{more}. Leave these rows out, or put them into another class."
        )
    return np.eye(len(classes))[codes], classes


def check_seen(labels: NDArray[Any], classes: NDArray[Any]) -> None:
    """Refuse classes that the fit has not seen."""
    seen = set(classes.tolist())
    if unseen := [label for label in dict.fromkeys(labels.tolist()) if label not in seen]:
        raise ValueError(
            f"y: {unseen[0]!r} is a class that the fit has not seen; it has seen {', '.join(map(repr, seen))}."
        )
