"""The errors of the columns of a table: from the texts of the command line to numbers for rows."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from eiv.io.tables.reading import TableRows, listed
from eiv.io.tables.scanning import TableError

__all__ = ["ErrorSpec", "ErrorTerm"]

Array = NDArray[np.float64]
Kind = Literal["absolute", "reading", "spread", "column"]
_SHARE = re.compile(r"(?P<number>[^%]*)%\s*(?P<of>sd|)\s*")


@dataclass(frozen=True)
class ErrorTerm:
    r"""The error of one column: a standard deviation.

    .. math::
        \sigma = a \quad \text{(absolute)}, \qquad \sigma_i = s\,|x_i| \quad \text{(reading)}, \qquad
        \sigma = s \cdot \mathrm{sd}(x) \quad \text{(spread)}, \qquad \sigma_i = e_i \quad \text{(column)}

    Attributes:
        kind: "absolute", "reading", "spread" or "column".
        number: a, in the unit of the column, or the share s.
        column: the name of the column that holds the e_i.
        spread: sd(x) over the training rows, once it is known.

    Examples:
        >>> ErrorTerm.parse("0.5"), ErrorTerm.parse("5%").kind, ErrorTerm.parse("5%sd").kind
        (ErrorTerm(kind='absolute', number=0.5, column=None, spread=None), 'reading', 'spread')
        >>> ErrorTerm.parse("length_error").column
        'length_error'

    """

    kind: Kind
    number: float = 0.0
    column: str | None = None
    spread: float | None = None

    @classmethod
    def parse(
        cls, text: str, columns: Sequence[str] | None = None, given: str = "", option: str = "--x-err"
    ) -> ErrorTerm:
        """Read `0.5`, `5%` (of each reading), `5%sd` (of the column's spread) or the name of a column.

        Messages name the option and `given`, the whole text of the user, of which `text` is a part.
        """
        option = f"{option} {given}".strip()
        share = _SHARE.fullmatch(text.strip())
        number = _number(share["number"] if share else text)
        if number is None:
            if columns is not None and text not in columns:
                raise TableError(
                    f"{option}: {text!r} is neither a number, a percentage (5% of the reading, 5%sd of the column's "
                    f"spread) nor a column of the table."
                )
            return cls("column", column=text)
        if not 0 <= number < math.inf:
            raise TableError(f"{option}: an error must not be negative or infinite, got {text!r}.")
        if share is None:
            return cls("absolute", number)
        return cls("spread" if share["of"] else "reading", number / 100)

    def values(self, rows: TableRows, feature: str) -> Array | float:
        """The error of `feature`: one number for all of these rows, or one per row."""
        if self.kind == "absolute":
            return self.number
        if self.kind == "spread":
            return self.number * (self.spread or 0.0)
        if self.kind == "reading":
            return self.number * np.abs(rows.numbers(feature))
        assert self.column is not None
        errors = rows.numbers(self.column)
        negative = np.flatnonzero(errors < 0)
        if len(negative):
            such = "1 such row" if len(negative) == 1 else f"{len(negative)} such rows"
            raise TableError(
                f"{rows.source.path}, {rows.source.place(rows.first + int(negative[0]))}: column {self.column!r} holds "
                f"{errors[negative[0]]:g}, but an error must not be negative ({such})."
            )
        return errors

    def __str__(self) -> str:
        if self.kind == "column":
            return f"column {self.column}"
        if self.kind == "absolute":
            return f"{self.number:g}" if self.number else "exact"
        of = "of the reading" if self.kind == "reading" else "of the column's spread"
        known = "" if self.spread is None else f" = {self.number * self.spread:.4g}"
        return f"{100 * self.number:g} % {of}{known}"


@dataclass(frozen=True)
class ErrorSpec:
    """The errors of all features of a table.

    Attributes:
        terms: the term of each feature, in the order of the features.

    Examples:
        >>> spec = ErrorSpec.parse(["0.1", "mass=5%"], ["length", "mass"], ["length", "mass", "price"])
        >>> [str(term) for term in spec.terms.values()]
        ['0.1', '5 % of the reading']
        >>> spec.is_constant, ErrorSpec.from_json(spec.to_json()) == spec
        (False, True)

    """

    terms: Mapping[str, ErrorTerm]

    @classmethod
    def parse(
        cls,
        texts: Sequence[str],
        features: Sequence[str],
        columns: Sequence[str],
        kept: Mapping[str, ErrorTerm] | None = None,
    ) -> ErrorSpec:
        """Read texts `VALUE`, for all features, and `FEATURE=VALUE`; other features have their `kept` term, or none."""
        terms = dict.fromkeys(features, ErrorTerm("absolute")) | dict(kept or {})
        given: dict[str, ErrorTerm] = {}
        for text in texts:
            feature, value = split_error(text, columns)
            if feature is None:
                term = ErrorTerm.parse(value, ())
                terms = dict.fromkeys(features, term)
            elif feature not in terms:
                raise TableError(f"--x-err {text}: {feature!r} is not a feature; these are: {listed(features)}.")
            elif feature in given:
                raise TableError(f"--x-err: the error of {feature!r} is given twice.")
            else:
                given[feature] = ErrorTerm.parse(value, columns, text)
                if given[feature].column in features:
                    raise TableError(f"--x-err {text}: {value!r} is a feature itself, so it cannot be an error too.")
        return cls(terms | given)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that hold errors."""
        return tuple(dict.fromkeys(term.column for term in self.terms.values() if term.column is not None))

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same errors."""
        return all(term.kind in ("absolute", "spread") for term in self.terms.values())

    @property
    def noisy(self) -> tuple[str, ...]:
        """The features that have an error, or a column with theirs."""
        return tuple(name for name, term in self.terms.items() if term.kind == "column" or term.number > 0)

    @property
    def is_exact(self) -> bool:
        """Whether no feature has an error."""
        return not self.noisy

    def with_spreads(self, spreads: Mapping[str, float]) -> ErrorSpec:
        """The same errors, with the standard deviation of each column filled in."""
        return ErrorSpec(
            {
                name: replace(term, spread=float(spreads[name])) if term.kind == "spread" else term
                for name, term in self.terms.items()
            }
        )

    def of(self, rows: TableRows) -> Array:
        """The errors of some rows: `n_x` where all rows have the same, else `rows x n_x`."""
        errors = [term.values(rows, name) for name, term in self.terms.items()]
        if self.is_constant:
            return np.array(errors, dtype=float)
        return np.column_stack([np.broadcast_to(error, len(rows)) for error in errors])

    def to_json(self) -> dict[str, Any]:
        """The errors as numbers and words, for a model file."""
        return {
            name: {key: value for key, value in asdict(term).items() if value is not None}
            for name, term in self.terms.items()
        }

    @classmethod
    def from_json(cls, content: Any) -> ErrorSpec:
        """The errors that `to_json` has encoded; a ValueError for anything else."""
        if not isinstance(content, dict):
            raise ValueError("an error specification is a mapping")
        for term in content.values():
            numbers = (term.get("number", 0.0), term.get("spread", 0.0)) if isinstance(term, dict) else ()
            if (
                not isinstance(term, dict)
                or not set(term) <= {"kind", "number", "column", "spread"}
                or term.get("kind") not in get_args(Kind)
                or not all(isinstance(number, int | float) and 0 <= number < math.inf for number in numbers)
                or (term["kind"] == "column") != isinstance(term.get("column"), str)
            ):
                raise ValueError(f"not a term of an error specification: {term!r}"[:200])
        return cls({name: ErrorTerm(**term) for name, term in content.items()})


@contextlib.contextmanager
def about(path: Path) -> Iterator[None]:
    """Put the path of the table before the message of a `TableError`."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{path}: {error}") from error


def split_error(text: str, columns: Sequence[str]) -> tuple[str | None, str]:
    """The two parts of `FEATURE=VALUE`, or None and `VALUE`; names may contain the sign =."""
    places = [i for i, sign in enumerate(text) if sign == "="]
    if not places:
        return None, text
    for place in places:
        if text[:place] in columns:
            return text[:place], text[place + 1 :]
    raise TableError(f"--x-err {text}: there is no column {text[: places[0]]!r}; these are: {listed(columns)}.")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number
