"""The user's own code in a model file: what the file keeps of it, and whether that given at load is the same."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eiv import validation as v
from eiv.io.modelfile.container import Arrays, ModelFileError
from eiv.io.modelfile.encoding import encode
from eiv.training.making import word_for

OWN = {  # settings that can be the user's own code, and words for them
    "module": "a network",
    "posterior": "a weight posterior",
    "input_prior": "an input prior",
    "y_noise": "a rule for sigma_y",
    "likelihood": "a likelihood",
}


def encode_setting(name: str, value: Any, arrays: Arrays, where: str) -> Any:
    """A setting in encoded form; for the user's own code, its name and the plain values that it carries."""
    if name == "module" and value is not None:
        return _name_of(value)
    if word := word_for(name, value):
        return word
    try:
        return encode(name, value, arrays, where)
    except ValueError:
        if name not in OWN:
            raise
        return {"type": "own", "name": _name_of(value), "parts": _plain_parts(value)}


def is_own(name: str, value: Any) -> bool:
    """Whether an encoded setting stands for code of the user's own."""
    if name == "module":
        return value is not None
    return name in OWN and isinstance(value, dict) and value.get("type") == "own"


def other_code(header: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """A sentence for each piece of the user's own code that has another name than in the fit; it may be the same."""
    found = ""
    for name, value in header["settings"].items():
        fitted = (value if name == "module" else value["name"]) if is_own(name, value) else None
        if fitted and own.get(name) is not None and fitted != _name_of(own[name]):
            found += f" The model was fitted with {name} {fitted}; {_name_of(own[name])} was given."
    return found


def _plain_parts(value: Any) -> dict[str, Any]:
    """The words, truth values and finite numbers that an object carries under public names."""
    parts = {} if isinstance(value, type) else getattr(value, "__dict__", {})
    kept = {name: part.item() if isinstance(part, np.generic) else part for name, part in parts.items()}
    return {name: part for name, part in kept.items() if not name.startswith("_") and _is_plain(part)}


def _is_plain(value: Any) -> bool:
    """Whether a value is the same in a header."""
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _parameters_of(value: Any) -> set[str]:
    """The names of what an object is made with."""
    try:
        return set(inspect.signature(type(value)).parameters)
    except (TypeError, ValueError):  # an extension type without a signature
        return set()


def check_own(header: Mapping[str, Any], own: Mapping[str, Any], path: Path) -> None:
    """Refuse an object that was made with other values than that of the fit; warn of other differences.

    Those may be a class that was renamed, or attributes that change with use. A prior is given as it was fitted, so
    that the argument which learned it says nothing. Older files have names only.
    """
    fitted = {name: value for name, value in header["settings"].items() if name not in ("module", "input_prior")}
    for name, value in (fitted | {"input_prior": header["input_prior"]}).items():
        given = own.get(name)
        if given is None or not is_own(name, value):
            continue
        before, now = value.get("parts", {}), _plain_parts(given)
        if not isinstance(before, dict):
            raise TypeError(f"the parts of {name} must be a mapping")
        other = {part for part in before.keys() & now.keys() if before[part] != now[part]}
        words = (
            f"{path}: the model was fitted with {name} {value['name']}{_in_brackets(before)}; "
            f"{_name_of(given)}{_in_brackets(now)} was given"
        )
        if other & _parameters_of(given):
            raise ModelFileError(f"{words}, which is not the same.")
        if other or _name_of(given) != value["name"]:
            warnings.warn(f"{words}, which may not be the same.", stacklevel=v.frames_to_caller())


def _in_brackets(parts: Mapping[str, Any]) -> str:
    return f"({', '.join(f'{name}={value!r}' for name, value in parts.items())})" if parts else ""


def _name_of(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))
