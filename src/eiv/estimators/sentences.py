"""The docstring of an estimator with the sentences of its settings, which stand in `eiv.training.settings` alone."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Mapping
from typing import TypeVar

from eiv.training.settings import SETTINGS

_PLACE = "        recipe, ...: the settings; `eiv.training.settings.SETTINGS` has the sentence of each.\n"
_WIDTH = 120
T = TypeVar("T")


def with_sentences(own: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """A decorator of estimators that writes each setting with its sentence into the docstring.

    `own` are sentences of the estimator's own, for settings whose sentence in `SETTINGS` does not hold for it.
    """

    def documented(estimator: type[T]) -> type[T]:
        names = [field.name for field in dataclasses.fields(estimator) if field.name in SETTINGS]  # type: ignore[arg-type]
        entries = [_entry(name, own.get(name, SETTINGS[name].text)) for name in names]
        if estimator.__doc__ is not None:  # as with `python -OO`
            estimator.__doc__ = estimator.__doc__.replace(_PLACE, "".join(entries))
        return estimator

    return documented


def _entry(name: str, sentence: str) -> str:
    """An entry of the list of arguments, indented as in the docstring of a class."""
    lines = textwrap.wrap(
        f"{name}: {sentence}",
        _WIDTH,
        initial_indent=8 * " ",
        subsequent_indent=12 * " ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(lines) + "\n"
