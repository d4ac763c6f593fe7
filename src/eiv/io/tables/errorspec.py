"""The errors of the columns of a table: from the texts of the command line to numbers for rows."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from eiv.io.notation import FORMS, read_error, two_columns, with_dof_in_words, without_dof
from eiv.io.tables.columns import check_unit, listed
from eiv.io.tables.scanning import TableError

if TYPE_CHECKING:
    from eiv.io.tables.reading import Source, TableRows

__all__ = ["ErrorSpec", "ErrorTerm"]

Array = NDArray[np.float64]
_FACTOR = re.compile(r"[\s±\d.(,;eE%)+−-]*(?:sd[\s,;(]+)?(?:k|dof|low|high)\s*")  # before the sign = of a number
_END = re.compile(r"(?<=[^\s,;])[\s,;]+(?P<name>low|high)\s*=\s*(?P<value>\S+?)(?=[,;]?(?:\s|$))")
Kind = Literal["absolute", "reading", "spread", "column", "columns", "stated"]
Entry = float | Array | str | tuple[Array, Array]
"""The error of a feature, as `X_err` takes it: a number, one per row, a text, or minus and plus of each row."""


@dataclass(frozen=True)
class ErrorTerm:
    r"""The error of one column: a standard deviation, or more than that in the notation of data sheets.

    .. math::
        \sigma = a \quad \text{(absolute)}, \qquad \sigma_i = s\,|x_i| \quad \text{(reading)}, \qquad
        \sigma = s \cdot \mathrm{sd}(x) \quad \text{(spread)}, \qquad \sigma_i = e_i \quad \text{(column)}

    Attributes:
        kind: "absolute", "reading", "spread", "column", "columns" or "stated".
        number: a, in the unit of the column, or the share s.
        column: the name of the column that holds the e_i, or how far true values lie below their readings.
        spread: sd(x) over the training rows, once it is known.
        plus: the name of the column that holds how far true values lie above their readings.
        text: what is stated, such as "±0.7"; see `eiv.io.notation`.
        dof: the degrees of freedom behind the error, where it is itself an estimate; else None.
        low: the least true value behind a cell such as <0.05; None where that is not stated.
        high: the largest true value behind a cell such as >3.

    Examples:
        >>> ErrorTerm.parse("0.5").number, ErrorTerm.parse("5%").kind, ErrorTerm.parse("5%sd").kind
        (0.5, 'reading', 'spread')
        >>> str(ErrorTerm.parse("±0.7"))
        'limits ±0.7, all between equally likely'
        >>> ErrorTerm.parse("length_error").column
        'length_error'

    """

    kind: Kind
    number: float = 0.0
    column: str | None = None
    spread: float | None = None
    plus: str | None = None
    text: str | None = None
    dof: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def parse(
        cls, text: str, columns: Sequence[str] | None = None, given: str = "", option: str = "--x-err"
    ) -> ErrorTerm:
        """Read a text of `eiv.io.notation`, the name of a column, or those of two, as in `minus,plus`.

        Messages name the option and `given`, the whole text of the user, of which `text` is a part.
        """
        option = f"{option} {given}".strip()
        if text in (columns or ()):
            return cls._alone(text, columns, option)
        try:
            text, ends = _without_ends(text)
            text, dof = without_dof(text)
        except ValueError as error:
            raise TableError(f"{option}: {error}.") from error
        term = cls._alone(text, columns, option)
        return replace(term, dof=None if dof == math.inf else dof, low=ends.get("low"), high=ends.get("high"))

    @classmethod
    def _alone(cls, text: str, columns: Sequence[str] | None, option: str) -> ErrorTerm:
        """The same for a text without degrees of freedom; `option` is what messages begin with."""
        if columns is not None and (pair := two_columns(text, columns)):
            return cls("columns", column=pair[0], plus=pair[1])
        try:
            stated = None if columns is not None and text in columns and _number(text) is None else read_error(text)
        except ValueError as error:
            raise TableError(f"{option}: {error}.") from error
        if stated is None:
            if columns is not None and text not in columns:
                raise TableError(
                    f"{option}: {text!r} is neither a number, a percentage nor another error, nor a column of the "
                    f"table. Errors are: {FORMS}."
                )
            return cls("column", column=text)
        if stated.kind == "absolute" and stated.k == 1:
            return cls("absolute", stated.number)
        if stated.kind in ("reading", "spread"):
            return cls("spread" if stated.kind == "spread" else "reading", stated.share)
        return cls("stated", text=text.strip())

    @classmethod
    def of_labels(cls, text: str, columns: Sequence[str]) -> ErrorTerm:
        """Read the error of a target, a standard deviation."""
        term = cls.parse(text, columns, text, "--y-err")
        if not term.is_plain or term.dof is not None or term.ends:
            raise TableError(f"--y-err {text}: the error of the target is a number, a percentage or a single column.")
        return term

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is read from."""
        return tuple(name for name in (self.column, self.plus) if name is not None)

    @property
    def is_plain(self) -> bool:
        """Whether it is a standard deviation, for all rows or for each."""
        return self.kind not in ("columns", "stated")

    def entry(self, rows: TableRows, feature: str, chosen: NDArray[np.bool_]) -> Entry:
        """The error of `feature` in the chosen rows, as `X_err` takes it for a column."""
        if self.kind == "stated":
            assert self.text is not None
            return self.text
        if self.kind == "columns":
            assert self.column is not None
            assert self.plus is not None
            return self._column(rows, self.column, feature)[chosen], self._column(rows, self.plus, feature)[chosen]
        values = self.values(rows, feature)
        return values[chosen] if isinstance(values, np.ndarray) else values

    def values(self, rows: TableRows, feature: str) -> Array | float:
        """The error of `feature`: one number for all of these rows, or one per row."""
        if self.kind == "absolute":
            return self.number
        if self.kind == "spread":
            return self.number * (self.spread or 0.0)
        if self.kind == "reading":
            return self.number * np.abs(rows.numbers(feature))
        assert self.column is not None
        return self._column(rows, self.column, feature)

    @staticmethod
    def _column(rows: TableRows, column: str, feature: str) -> Array:
        errors = rows.numbers(column)
        if feature in rows.cells.column_names:  # new rows may lack the target, but not its error
            errors = np.where(rows.readings(feature).missing, 0.0, errors)
        negative = np.flatnonzero(errors < 0)
        if len(negative):
            such = "1 such row" if len(negative) == 1 else f"{len(negative)} such rows"
            raise TableError(
                f"{rows.source.path}, {rows.source.place(rows.first + int(negative[0]))}: column {column!r} holds "
                f"{errors[negative[0]]:g}, but an error must not be negative ({such})."
            )
        return errors

    def __str__(self) -> str:
        words = with_dof_in_words(self._size_in_words(), math.inf if self.dof is None else self.dof)
        low = "" if self.low is None else f", true values from {self.low:g} on"
        return words + low + ("" if self.high is None else f", true values up to {self.high:g}")

    def with_ends(self, kept: ErrorTerm) -> ErrorTerm:
        """The same with the ends of another term where none are stated."""
        low, high = (kept.low if self.low is None else self.low), (kept.high if self.high is None else self.high)
        return replace(self, low=low, high=high)

    @property
    def ends(self) -> dict[str, float]:
        """The ends that are stated for cells such as <0.05 and >3."""
        return {name: end for name, end in (("low", self.low), ("high", self.high)) if end is not None}

    def _size_in_words(self) -> str:
        if self.kind == "column":
            return f"column {self.column}"
        if self.kind == "columns":
            return f"columns {self.column} (below the reading) and {self.plus} (above)"
        if self.kind == "stated":
            return str(read_error(self.text or ""))
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
        """Read texts `VALUE`, for all features, and `FEATURE=VALUE`; other features have their `kept` term, or none.

        The ends of a kept term stay, unless others are given.
        """
        terms = dict.fromkeys(features, ErrorTerm("absolute")) | dict(kept or {})
        given: dict[str, ErrorTerm] = {}
        for text in texts:
            feature, value = split_error(text, columns)
            if feature is None:
                term = ErrorTerm.parse(value, ())
                terms = {name: term.with_ends(terms[name]) for name in features}
            elif feature not in terms:
                raise TableError(f"--x-err {text}: {feature!r} is not a feature; these are: {listed(features)}.")
            elif feature in given:
                raise TableError(f"--x-err: the error of {feature!r} is given twice.")
            else:
                term = ErrorTerm.parse(value, columns, text)
                given[feature] = term.with_ends(terms[feature])
                for column in given[feature].columns:
                    if column in features:
                        raise TableError(
                            f"--x-err {text}: {column!r} is a feature itself, so it cannot be an error too."
                        )
        return cls(terms | given)

    def check_units(self, source: Source) -> None:
        """Raise a `TableError` where a column with errors has another unit than the column whose errors it holds."""
        for name, term in self.terms.items():
            if term.column is not None:
                check_unit(source, term.column, source.units.get(name), f"column {name!r}, whose errors it holds,")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that hold errors."""
        return tuple(dict.fromkeys(column for term in self.terms.values() for column in term.columns))

    def gaps(self, rows: TableRows) -> dict[str, Array]:
        """The columns that hold errors as numbers, zero where the readings that they belong to are all missing."""
        needed = {column: np.zeros(len(rows), dtype=bool) for column in self.columns}
        for name, term in self.terms.items():
            for column in term.columns:
                needed[column] |= ~rows.readings(name).missing
        return {column: np.where(of_rows, rows.numbers(column), 0.0) for column, of_rows in needed.items()}

    @property
    def is_constant(self) -> bool:
        """Whether all rows, those to come included, have the same errors."""
        return all(term.kind in ("absolute", "spread", "stated") for term in self.terms.values())

    @property
    def is_plain(self) -> bool:
        """Whether all errors are standard deviations."""
        return all(term.is_plain for term in self.terms.values())

    @property
    def noisy(self) -> tuple[str, ...]:
        """The features that have an error, or a column with theirs."""
        return tuple(
            name for name, term in self.terms.items() if term.columns or term.kind == "stated" or term.number > 0
        )

    @property
    def is_exact(self) -> bool:
        """Whether no feature has an error."""
        return not self.noisy

    @property
    def dof(self) -> list[float] | None:
        """The degrees of freedom behind each error, infinity where its size is known; None where all are."""
        found = [math.inf if term.dof is None else term.dof for term in self.terms.values()]
        return found if any(dof < math.inf for dof in found) else None

    def with_spreads(self, spreads: Mapping[str, float]) -> ErrorSpec:
        """The same errors, with the standard deviation of each column filled in."""
        return ErrorSpec(
            {
                name: replace(term, spread=float(spreads[name])) if term.kind == "spread" else term
                for name, term in self.terms.items()
            }
        )

    def of(self, rows: TableRows) -> Array:
        """The errors of some rows: `n_x` where all rows have the same, else `rows x n_x`; for plain errors alone."""
        errors = [term.values(rows, name) for name, term in self.terms.items()]
        if self.is_constant:
            return np.array(errors, dtype=float)
        return np.column_stack([np.broadcast_to(error, len(rows)) for error in errors])

    def stated(self, rows: TableRows, chosen: NDArray[np.bool_]) -> Array | dict[str, Entry]:
        """The errors of the chosen rows, as `X_err` takes them: an array as of `of`, or an entry for each feature."""
        if not self.is_plain:
            return {name: term.entry(rows, name, chosen) for name, term in self.terms.items()}
        errors = self.of(rows)
        return errors if self.is_constant else errors[chosen]

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
            if not isinstance(term, dict) or not _is_term(term):
                raise ValueError(f"not a term of an error specification: {term!r}"[:200])
        return cls({name: ErrorTerm(**term) for name, term in content.items()})


@contextlib.contextmanager
def about(path: Path) -> Iterator[None]:
    """Put the path of the table before the message of a `TableError`."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{path}: {error}") from error


def _is_term(term: dict[str, Any]) -> bool:
    """Whether this is what `to_json` makes of a term."""
    words = {"columns": ("column", "plus"), "column": ("column",), "stated": ("text",)}.get(str(term.get("kind")), ())
    numbers = (term.get("number", 0.0), term.get("spread", 0.0))
    dof, ends = term.get("dof", 1.0), [term.get(name, 0.0) for name in ("low", "high")]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in (dof, *ends)) or dof < 1:
        return False
    if not set(term) <= {"kind", "number", "spread", "dof", "low", "high", *words} or not all(
        isinstance(term.get(word), str) for word in words
    ):
        return False
    if term.get("kind") not in get_args(Kind):
        return False
    if term["kind"] == "stated" and read_error(term["text"]) is None:
        return False
    return all(isinstance(number, int | float) and 0 <= number < math.inf for number in numbers)


def split_error(text: str, columns: Sequence[str]) -> tuple[str | None, str]:
    """The two parts of `FEATURE=VALUE`, or None and `VALUE`; names may contain the sign =."""
    places = [i for i, sign in enumerate(text) if sign == "="]
    if not places:
        return None, text
    for place in places:
        if text[:place] in columns:
            return text[:place], text[place + 1 :]
    if _FACTOR.fullmatch(text[: places[0]]):  # 0.4 k=2
        return None, text
    raise TableError(f"--x-err {text}: there is no column {text[: places[0]]!r}; these are: {listed(columns)}.")


def _without_ends(text: str) -> tuple[str, dict[str, float]]:
    """The text of an error without the ends `low=` and `high=` of what cells such as <0.05 leave open, and these."""
    ends: dict[str, float] = {}
    for found in _END.finditer(text):
        end = _number(found["value"].replace("−", "-"))
        if end is None or not math.isfinite(end) or found["name"] in ends:
            raise ValueError(f"{found['name']} must be one number, got {text!r}")
        ends[found["name"]] = end
    if len(ends) > 1 and not ends["low"] < ends["high"]:
        raise ValueError(f"low = {ends['low']:g} must be below high = {ends['high']:g}")
    return _END.sub("", text), ends


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
