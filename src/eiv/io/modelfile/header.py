"""Checks of the header of a model file, before a model is made from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import eiv
from eiv import validation as v
from eiv.io.modelfile.container import Arrays, ModelFileError

FORMAT = 1

_LARGEST = float(np.finfo(np.float32).max)  # the largest number of a setting, since networks compute in float32
_MOST_DRAWS = 10**6  # the most n_theta x n_zeta, since predictions take time in proportion to it


def parse_header(text: str, path: Path) -> dict[str, Any]:
    """The header of a file, checked; an error where it is not valid or of a newer format."""
    header = json.loads(text)
    if not isinstance(header, dict):
        raise TypeError("the header is not a mapping")
    v.check("the format", header["format"], v.integer(1))
    if header["format"] > FORMAT:
        raise ModelFileError(
            f"{path} is of format {header['format']}, written by eiv {header['versions']['eiv']}; eiv "
            f"{eiv.__version__} reads formats up to {FORMAT}. Update eiv to load it."
        )
    _check(header, _HEADER, "")
    for name, wanted in {"weights": _NUMBERS, "recipe": _MAPPING}.items():
        if name in header:  # older files lack it
            v.check(name, header[name], wanted)
    return header


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise a ValueError where a setting is not within its limits."""
    from eiv.training.settings import SETTINGS  # noqa: PLC0415  (slow to import)

    for name, setting in SETTINGS.items():
        if name in settings:
            v.check(name, settings[name], setting.constraint)
            if isinstance(settings[name], float) and abs(settings[name]) > _LARGEST:
                raise ValueError(f"{name} must be at most {_LARGEST:.2g}, got {settings[name]!r}.")
    n_draws = (settings.get("n_theta") or 1) * (settings.get("n_zeta") or 1)
    if n_draws > _MOST_DRAWS:
        raise ValueError(f"n_theta x n_zeta must be at most {_MOST_DRAWS:,}, got {n_draws:,}.")


def saved_weights(arrays: Arrays, n_networks: int) -> Arrays:
    """The weights of the networks, by name; a ValueError where their sizes or values cannot come from a fit."""
    saved = {name.removeprefix("network/"): value for name, value in arrays.items() if name.startswith("network/")}
    if not saved or any(value.shape[:1] != (n_networks,) for value in saved.values()):
        raise ValueError(f"it does not hold the weights of {n_networks} networks")
    if any(value.dtype.kind == "f" and not np.isfinite(value).all() for value in saved.values()):
        raise ValueError("some of its weights are not finite numbers")
    return saved


def _check(content: Any, schema: Mapping[str, Any], where: str) -> None:
    """Check that a mapping has all entries of the schema; it may have more."""
    v.check(where or "the header", content, _MAPPING)
    for name, wanted in schema.items():
        inside = f"{where} {name}".lstrip()
        if name not in content:
            raise LookupError(f"the header has no {inside}")
        if isinstance(wanted, v.Constraint):
            v.check(inside, content[name], wanted)
        else:
            _check(content[name], wanted, inside)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _all(kind: type, holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A test of whether a value is a list or a mapping, as `kind` says, of values for which `holds` is true."""

    def test(values: Any) -> bool:
        inside = values.values() if isinstance(values, dict) else values
        return isinstance(values, kind) and all(holds(value) for value in inside)

    return test


def _is_word(value: object) -> bool:
    return isinstance(value, str)


_ANY = v.Constraint(lambda value: True, "anything")
_MAPPING = v.Constraint(lambda value: isinstance(value, dict), "a mapping")
_NUMBER = v.Constraint(_is_number, "a number")
_NUMBER_OR_NONE = v.Constraint(lambda value: value is None or _is_number(value), "a number or null")
_NUMBERS = v.Constraint(_all(list, _is_number), "numbers")
_NAMES_OR_NONE = v.Constraint(lambda value: value is None or _all(list, _is_word)(value), "names or null")
_HEADER: dict[str, Any] = {
    "versions": v.Constraint(_all(dict, _is_word), "words by name"),
    "settings": dict.fromkeys(
        ("recipe", "module", "posterior", "input_prior", "zeta_draws", "y_noise", "hidden_units", "n_hidden"), _ANY
    ),
    "changed_since_fit": _MAPPING,
    "features": {"n": v.integer(1), "names": _NAMES_OR_NONE},
    "outputs": {"n": v.integer(1), "names": _NAMES_OR_NONE, "columns": v.flag()},
    "seed": v.integer(0),
    "n_networks": v.integer(1),
    "training": {
        "epochs": v.integer(1),
        "first_loss": _NUMBER,
        "last_loss": _NUMBER,
        "y_noise": _NUMBERS,
        "zeta_ess": _NUMBER_OR_NONE,
        "bound_gap": _NUMBER_OR_NONE,
    },
    "notes": _MAPPING,
}
