"""The options of `eiv fit`, from the command line and from a TOML file; the command line takes precedence."""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from eiv import EiVRegressor
from eiv.cli.app import check_seed
from eiv.io.modelfile.header import check_settings
from eiv.likelihoods import LIKELIHOODS
from eiv.training.settings import RECIPES

_OPTIONS = {"x_err": "--x-err", "recipe": "--recipe", "likelihood": "--likelihood", "random_state": "--seed"}
_NOT_SETTINGS = ("self", *_OPTIONS, "module", "verbose")  # these have an option, or cannot be given as text
_LARGEST_CONFIG = 2**20  # bytes
_MOST_PARTS = 10  # the most parts of a key such as settings.epochs; the memory of tomllib grows with their square
_STRINGS = (  # strings, which may be parts of keys; one that is never closed ends the parsing
    r'"{3}(?:\\.|[^\\])*?(?:"{3,5}|\Z)',
    r"'{3}.*?(?:'{3,5}|\Z)",
    r'"(?:\\.|[^"\\\n])*"?',
    r"'[^'\n]*'?",
)
_NOT_BARE = re.compile("|".join((*_STRINGS, r"#[^\n]*")), re.DOTALL)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){{{_MOST_PARTS}}}")


@dataclass(frozen=True)
class FitOptions:
    """The options of `eiv fit`."""

    target: str | None = None
    classes: bool = False
    x_err: list[str] = field(default_factory=list)
    y_err: str | None = None
    feature: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    groups: str | None = None
    weights: str | None = None
    recipe: str = "default"
    likelihood: str | None = None
    holdout: float = 0.2
    refit: bool = True
    drop_missing: bool = False
    seed: int = 0
    separator: str | None = None
    decimal: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    x_err_of_file: list[str] = field(default_factory=list)  # for features whose error the command line does not give
    y_err_of_file: str | None = None  # its column is not a feature, even where the command line gives another error

    @classmethod
    def of(cls, given: Mapping[str, Any], config: Path | None) -> FitOptions:
        """The options of the command line that are not None, and all others from the file."""
        content = {} if config is None else _read_config(config)
        content["x_err_of_file"] = content.pop("x_err", [])
        content["y_err_of_file"] = content.get("y_err")
        values = content | {name: value for name, value in given.items() if value is not None and name != "settings"}
        values["settings"] = content.get("settings", {}) | _parse_settings(given.get("settings"))
        options = cls(**values)
        if options.target is None:
            raise ValueError("--target is missing: which column is to be predicted?")
        if not 0 <= options.holdout < 1:
            raise ValueError(f"--holdout must be a share of the rows from 0 to below 1, got {options.holdout:g}.")
        check_seed(options.seed)
        if options.recipe not in RECIPES:
            raise ValueError(f"--recipe must be one of {', '.join(RECIPES)}, got {options.recipe!r}.")
        known = [*(name for name, kind in LIKELIHOODS.items() if kind.has_units), "auto"]
        if options.likelihood is not None and options.likelihood not in known:
            raise ValueError(f"--likelihood must be one of {', '.join(known)}, got {options.likelihood!r}.")
        _check_settings(options.settings)
        return options


def _parse_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Settings from texts `NAME=VALUE`; a value is a number, true, false or a word."""
    settings = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, got {text!r}.")
        try:
            settings[name.strip()] = _parse_toml(f"value = {value.strip()}")["value"]
        except (ValueError, RecursionError):  # also numbers with thousands of digits, and deeply nested brackets
            settings[name.strip()] = value.strip()
    return settings


def _read_config(path: Path) -> dict[str, Any]:
    """The options of a TOML file, checked for their names and types."""
    _check_config_file(path)
    try:
        content = _parse_toml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path}.") from None
    except OSError as error:
        raise OSError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from error
    except RecursionError:
        raise ValueError(f"{path} is not a TOML file of options: its brackets are nested too deeply.") from None
    except ValueError as error:  # also from integers with thousands of digits, and from bytes that are not text
        raise ValueError(f"{path} is not a TOML file: {error}.") from error
    twice = [name for name in content if "-" in name and name.replace("-", "_") in content]
    if twice:
        raise ValueError(f"{path}: {twice[0]} and {twice[0].replace('-', '_')} are the same option; give one of them.")
    content = {name.replace("-", "_"): value for name, value in content.items()}
    if isinstance(content.get("x_err"), dict):
        content["x_err"] = [f"{feature}={value}" for feature, value in content["x_err"].items()]
    for name in ("x_err", "y_err"):
        if _fits("float", content.get(name)):
            content[name] = str(content[name])
    kinds = {option.name: str(option.type).removesuffix(" | None") for option in fields(FitOptions)[:-2]}
    for name in content:
        if name not in kinds:
            raise ValueError(f"{path}: {name!r} is not an option; these are: {', '.join(kinds)}.")
        if kinds[name] == "list[str]" and isinstance(content[name], str):
            content[name] = [content[name]]
        if not _fits(kinds[name], content[name]):
            words = _WORDS.get(name, _WORDS[kinds[name]])
            raise ValueError(f"{path}: {name} must be {words}, got {content[name]!r}.")
    return content


def _parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text; a ValueError where it is not valid TOML, or would take too much memory."""
    if _LONG_KEY.search(_NOT_BARE.sub("_", text)):
        raise ValueError(f"a key has more than {_MOST_PARTS} parts, the limit")
    return tomllib.loads(text)


def _check_config_file(path: Path) -> None:
    """Raise a ValueError where `path` is a device or pipe, or is too large for a file of options."""
    if path.exists() and not path.is_dir() and not path.is_file():
        raise ValueError(f"{path} is not a plain file.")
    if path.is_file() and path.stat().st_size > _LARGEST_CONFIG:
        raise ValueError(f"{path} is not a file of options: it has more than 1 MiB, the limit.")


_WORDS = {
    "str": "a word in quotes",
    "list[str]": "words in quotes, in brackets",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "dict[str, Any]": "a table [settings]",
    "y_err": "a number, or words in quotes",
}


def _fits(kind: str, value: object) -> bool:
    if kind == "list[str]":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    types: dict[str, Any] = {"str": str, "float": int | float, "int": int, "bool": bool, "dict[str, Any]": dict}
    return isinstance(value, types[kind]) and (kind == "bool" or not isinstance(value, bool))


def _check_settings(settings: Mapping[str, Any]) -> None:
    known = [name for name in inspect.signature(EiVRegressor.__init__).parameters if name not in _NOT_SETTINGS]
    for name in settings:
        if name in _OPTIONS:
            raise ValueError(f"{name!r} has an option of its own, {_OPTIONS[name]}.")
        if name not in known:
            raise ValueError(f"{name!r} is not a setting of the model; these are: {', '.join(known)}.")
    check_settings(settings)  # before the table is read
