"""Settings as JSON and arrays, and back. Only numbers, words and the priors of eiv can be read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from eiv.inputs import LAW_KINDS, PRIOR_KINDS, EstimatedError, RelativeError
from eiv.io.modelfile.container import Arrays

_CLASSES: dict[str, type] = PRIOR_KINDS | LAW_KINDS | {"relative": RelativeError, "estimated": EstimatedError}
_KINDS = {kind: name for name, kind in _CLASSES.items()}


def encode(name: str, value: Any, arrays: Arrays, where: str) -> Any:
    """`value` of the argument `name` as JSON; arrays go to `arrays`, under names that begin with `where`."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, float):
        return {"type": "float", "value": str(value)}
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[where] = np.asarray(value, dtype=value.dtype.newbyteorder("<"))
        return {"type": "array", "name": where}
    if isinstance(value, list | tuple):
        items = [encode(name, part, arrays, f"{where}/{i}") for i, part in enumerate(value)]
        return {"type": "list" if isinstance(value, list) else "tuple", "items": items}
    kind, parts = _parts_of(name, value)
    return {"type": kind} | {label: encode(name, part, arrays, f"{where}/{label}") for label, part in parts.items()}


def _parts_of(name: str, value: Any) -> tuple[str, dict[str, Any]]:
    """The word for the type of an object, and the parts that it is made of."""
    if isinstance(value, Mapping):
        return "mapping", {"keys": list(value), "values": list(value.values())}
    if type(value) in _KINDS:
        return _KINDS[type(value)], {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(value, "to_numpy") and hasattr(value, "index"):  # pandas
        axes = ("index", "columns") if value.ndim == 2 else ("index",)
        labels = {axis: list(getattr(value, axis)) for axis in axes}
        return "table" if value.ndim == 2 else "column", {"values": value.to_numpy()} | labels
    raise ValueError(
        f"{name}: a model file cannot hold a {type(value).__name__}. Numbers, arrays, mappings, pandas tables, "
        "eiv.relative, eiv.estimated, the laws of errors and the priors of eiv can be saved."
    )


def decode(encoded: Any, arrays: Arrays) -> Any:
    """The value that `encode` was given; a ValueError, LookupError or TypeError for what it would not write."""
    if encoded is None or isinstance(encoded, bool | int | float | str):
        return encoded
    if not isinstance(encoded, dict):
        raise ValueError(f"a {type(encoded).__name__} is not the form of a setting")
    kind = encoded["type"]
    if not isinstance(kind, str):
        raise ValueError(f"a {type(kind).__name__} is not a type of setting")
    if kind in _CLASSES:
        parts = {name: decode(value, arrays) for name, value in encoded.items() if name != "type"}
        known = {each.name: each for each in fields(_CLASSES[kind])}
        needed = {name for name, each in known.items() if each.default is MISSING}  # others may be newer than the file
        if not needed <= parts.keys() <= known.keys():
            raise ValueError(f"{kind} does not have the parts {sorted(parts)}")
        return _CLASSES[kind](**parts)
    if kind not in _PLAIN:
        raise ValueError(f"{kind!r} is not a type of setting")
    return _PLAIN[kind](encoded, arrays)


def _column(encoded: dict[str, Any], arrays: Arrays) -> Any:
    import pandas as pd  # noqa: PLC0415

    values, index = (decode(encoded[part], arrays) for part in ("values", "index"))
    return pd.Series(_shaped(values, index), index=index)


def _table(encoded: dict[str, Any], arrays: Arrays) -> Any:
    import pandas as pd  # noqa: PLC0415

    values, index, columns = (decode(encoded[part], arrays) for part in ("values", "index", "columns"))
    return pd.DataFrame(_shaped(values, index, columns), index=index, columns=columns)


def _shaped(values: Any, *labels: Any) -> NDArray[Any]:
    """The values of a pandas object, checked for their shape, since pandas would repeat a single number."""
    if not isinstance(values, np.ndarray) or values.shape != tuple(map(len, labels)):
        raise ValueError("a table has a different number of values than of labels")
    return values


def _items(encoded: dict[str, Any], arrays: Arrays) -> list[Any]:
    return [decode(part, arrays) for part in encoded["items"]]


_PLAIN: dict[str, Callable[[dict[str, Any], Arrays], Any]] = {
    "float": lambda encoded, arrays: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[encoded["value"]],
    "array": lambda encoded, arrays: arrays[encoded["name"]],
    "list": _items,
    "tuple": lambda encoded, arrays: tuple(_items(encoded, arrays)),
    "mapping": lambda encoded, arrays: dict(
        zip(decode(encoded["keys"], arrays), decode(encoded["values"], arrays), strict=True)
    ),
    "column": _column,
    "table": _table,
}
