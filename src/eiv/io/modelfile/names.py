"""The names of features, outputs and classes in the header of a model file, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eiv.inputs.columns import ErrorColumns
from eiv.model import FittedModel, Names
from eiv.training.making import likelihood_of
from eiv.training.settings import Settings


def encoded_names(model: FittedModel) -> dict[str, Any]:
    """The parts of a header that name features and outputs."""
    names = model.names
    return {
        "features": {
            "n": model.n_features,
            "names": _listed(names.features),
            **_encoded_error_columns(names.error_columns),
            **_encoded_units(names.units),
        },
        "outputs": {
            "n": model.n_outputs,
            "names": _listed(names.outputs),
            "columns": names.has_columns,
            **_encoded_classes(names.classes),
            **_encoded_units(names.output_units),
        },
    }


def names_of(header: dict[str, Any], settings: Settings) -> Names:
    """The names of features, outputs and classes, which have to go with each other."""
    features, outputs = header["features"], header["outputs"]
    n_x, n_y = features["n"], outputs["n"]
    names = Names(
        _words(features["names"], n_x),
        _words(outputs["names"], n_y),
        outputs["columns"],
        _classes(outputs.get("classes"), n_y),
        _error_columns(features.get("error_columns")),
        _units(features.get("units"), n_x),
        _units(outputs.get("units"), n_y),
    )
    if names.error_columns is not None and names.error_columns.features != names.features:
        raise ValueError("the columns that hold errors do not go with its features")
    if (names.classes is None) != likelihood_of(settings).has_units:
        raise ValueError("its likelihood and its classes do not go together")
    if n_y > 1 and not names.has_columns:
        raise ValueError(f"{n_y} outputs without columns")
    return names


def _listed(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _encoded_classes(classes: NDArray[Any] | None) -> dict[str, Any]:
    """Classes as words, numbers or truth values, with their NumPy type; nothing where labels are numbers."""
    if classes is None:
        return {}
    values = classes.tolist()
    if not all(isinstance(value, str | int | float) for value in values):
        raise ValueError(
            f"y: a model file cannot hold classes of type {type(values[0]).__name__}; words, whole numbers and truth "
            "values can be saved."
        )
    return {"classes": {"type": "O" if classes.dtype == object else classes.dtype.str, "values": values}}


def _classes(encoded: Any, n: int) -> NDArray[Any] | None:
    """What `_encoded_classes` was given."""
    if encoded is None:
        return None
    kind, values = encoded["type"], encoded["values"]
    if not isinstance(kind, str) or np.dtype(kind).kind not in "biufUO":
        raise ValueError(f"{kind!r} is not a type of classes")
    if not isinstance(values, list) or not all(isinstance(value, str | int | float) for value in values):
        raise ValueError("its classes must be words, numbers or truth values")
    if n < 2 or len(values) != n or len(set(values)) != n:
        raise ValueError(f"it must hold {n} different classes")
    return np.array(values, dtype="U" if np.dtype(kind).kind == "U" else kind)  # a forged width takes no memory


def _encoded_error_columns(columns: ErrorColumns | None) -> dict[str, Any]:
    """The columns of X and which of them hold errors; nothing where none does."""
    if columns is None:
        return {}
    return {"error_columns": {"columns": list(columns.columns), "errors": dict(columns.errors)}}


def _error_columns(encoded: Any) -> ErrorColumns | None:
    """What `_encoded_error_columns` was given."""
    if encoded is None:
        return None
    columns, errors = encoded["columns"], encoded["errors"]
    names = _words(columns, len(set(columns)))
    if names is None or not isinstance(errors, dict) or not all(map(_is_error, errors.values())):
        raise ValueError("its columns that hold errors must be names, and other errors numbers of at least 0")
    return ErrorColumns(names, errors)


def _encoded_units(units: Sequence[str | None] | None) -> dict[str, Any]:
    """The units of columns; nothing where there are none."""
    return {} if units is None else {"units": list(units)}


def _units(encoded: Any, n: int) -> tuple[str | None, ...] | None:
    """What `_encoded_units` was given."""
    if encoded is None:
        return None
    is_list = isinstance(encoded, list) and len(encoded) == n
    if not is_list or not all(unit is None or isinstance(unit, str) for unit in encoded):
        raise ValueError(f"it must hold {n} units, names or null")
    return tuple(encoded)


def _is_error(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str) or (is_number and 0 <= value < math.inf)


def _words(values: Any, n: int) -> tuple[str, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != n or not all(isinstance(value, str) for value in values):
        raise ValueError(f"it must hold {n} names")
    return tuple(values)
