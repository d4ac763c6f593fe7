"""The table to fit: which columns are features, which rows can be used, and what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv.cli.classes import holds_classes, in_words, labels_of, refuse_identifiers
from eiv.cli.options import FitOptions
from eiv.io.tables import ErrorSpec, ErrorTerm, Source, TableError
from eiv.io.tables.errorspec import about, split_error
from eiv.io.tables.reading import check_columns, listed, read_rows
from eiv.validation import check_spread, check_weights

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrainingTable:
    """The rows to learn from: features `rows x n_x`, target `rows`, errors `n_x` or `rows x n_x`, groups `rows`.

    Rows of weight zero are left out, `n_weightless` of them; `weights` are those of the others, `rows`. The target
    holds numbers, or with `has_classes` words, whole numbers or truth values. `y_spec` and `y_err`, `rows`, are the
    known errors of the target. Both are None where none were given, or 0.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    spec: ErrorSpec
    errors: Array
    y_spec: ErrorSpec | None
    y_err: Array | None
    groups: NDArray[Any] | None
    left_out: Mapping[str, str]
    missing: Missing
    has_classes: bool = False
    weights: Array | None = None
    n_weightless: int = 0

    @property
    def X_err(self) -> Array | None:  # noqa: N802
        """The errors per row, `rows x n_x`; None where all rows have the same."""
        return None if self.spec.is_constant else self.errors

    @property
    def spreads(self) -> dict[str, float]:
        """The standard deviation of each feature."""
        return {name: float(value) for name, value in self.X.std(ddof=0).items()}

    @classmethod
    def of(cls, source: Source, options: FitOptions) -> TrainingTable:
        """Read a table, without the columns and rows that the options leave out."""
        import pandas as pd  # noqa: PLC0415

        target = str(options.target)
        features, left_out = _features(source, options)
        with about(source.path):
            kept = ErrorSpec.parse(options.x_err_of_file, features, source.columns).terms
            spec = ErrorSpec.parse(options.x_err, features, source.columns, kept)
            y_spec = None if options.y_err is None else ErrorSpec({target: _y_term(options.y_err, source)})
        columns = (*spec.columns, *(y_spec.columns if y_spec else ()))
        others = [name for name in (options.groups, options.weights) if name is not None]
        rows = read_rows(source, (*features, target, *columns, *others))
        numbers = {name: rows.numbers(name) for name in features}
        labels = labels_of(rows, target) if holds_classes(rows, target, options.classes) else None
        if labels is not None and not options.classes:
            refuse_identifiers(rows, target, labels)
        if labels is not None and options.y_err is not None:
            raise TableError(f"--y-err {options.y_err}: {target!r} holds classes, which have no error bars.")
        known = rows.numbers(target) if labels is None else labels.as_gaps
        weights = {} if options.weights is None else {options.weights: rows.numbers(options.weights)}
        used = numbers | {target: known} | {name: rows.numbers(name) for name in columns} | weights
        good, missing = usable(used), Missing.of(used)
        missing.check(source, options.drop_missing)
        counts = _weights(source, options, weights, good)
        n_weightless, good = int(good.sum()), good if counts is None else good & (counts > 0)
        n_weightless -= int(good.sum())
        if good.sum() < 2:
            raise TableError(f"{source.path}: there is one row to learn from, and a fit needs at least two.")
        X = pd.DataFrame({name: numbers[name][good] for name in features})
        y = known[good] if labels is None else labels.taken(good)
        check_spread("X", X.to_numpy(), features)
        if labels is None:
            check_spread("y", y[:, None], None)
        spec = spec.with_spreads({name: X[name].std(ddof=0) for name in features})
        errors, y_err = spec.of(rows), None
        if y_spec is not None:
            y_spec = y_spec.with_spreads({target: y.std()})
            y_err = None if y_spec.is_exact else np.broadcast_to(y_spec.of(rows), (len(rows), 1))[good, 0]
        return cls(
            X=X,
            y=y,
            spec=spec,
            errors=errors if spec.is_constant else errors[good],
            y_spec=y_spec,
            y_err=y_err,
            groups=None
            if options.groups is None
            else np.asarray([str(cell) for cell in rows.cells[options.groups].to_pylist()])[good],
            left_out=left_out | ({} if labels is None else {target: in_words(y)}),
            missing=missing,
            has_classes=labels is not None,
            weights=None if counts is None else counts[good],
            n_weightless=n_weightless,
        )


@dataclass(frozen=True)
class Missing:
    """Missing and infinite cells: `n_bad` of the first `n_rows` rows have some; `columns` are the gaps per column."""

    n_rows: int
    n_bad: int
    columns: Mapping[str, Gaps]

    @classmethod
    def of(cls, columns: Mapping[str, Array], first: int = 0) -> Missing:
        """Count the gaps in columns of numbers, `rows` each, that start at row `first` of a table."""
        good = usable(columns)
        gaps = {name: Gaps.of(values, first) for name, values in columns.items() if not np.isfinite(values).all()}
        return cls(first + len(good), int((~good).sum()), gaps)

    def and_then(self, later: Missing) -> Missing:
        """The count for these rows and the `later` ones together."""
        names = dict.fromkeys((*self.columns, *later.columns))
        columns = {name: self.columns.get(name, Gaps()).and_then(later.columns.get(name, Gaps())) for name in names}
        return Missing(later.n_rows, self.n_bad + later.n_bad, columns)

    def check(self, source: Source, drop: bool, advice: str = "") -> None:
        """Raise a `TableError` where there are gaps and their rows may not be dropped, or no row is left."""
        if self.n_bad and not drop:
            words = [
                f"column {name!r}: {gaps}, first in {source.place(gaps.first)}" for name, gaps in self.columns.items()
            ]
            raise TableError(
                f"{source.path}: {self.n_bad} of {self.n_rows} rows hold missing or infinite values "
                f"({'; '.join(words)}). Use --drop-missing to continue without them.{advice}"
            )
        if self.n_bad == self.n_rows:
            raise TableError(f"{source.path}: every row holds missing or infinite values.")


@dataclass(frozen=True)
class Gaps:
    """The numbers of missing and of infinite cells of a column, and the first row with one."""

    n_missing: int = 0
    n_infinite: int = 0
    first: int = -1

    @classmethod
    def of(cls, values: Array, first: int) -> Gaps:
        """Count the gaps of a column that starts at row `first` of a table and has some."""
        place = int(np.flatnonzero(~np.isfinite(values))[0])
        return cls(int(np.isnan(values).sum()), int(np.isinf(values).sum()), first + place)

    def and_then(self, later: Gaps) -> Gaps:
        """The gaps of these rows and the `later` ones together."""
        first = self.first if self.first >= 0 else later.first
        return Gaps(self.n_missing + later.n_missing, self.n_infinite + later.n_infinite, first)

    def __str__(self) -> str:
        counts = ((self.n_missing, "missing"), (self.n_infinite, "infinite"))
        return " and ".join(f"{n} {what}" for n, what in counts if n)


def usable(columns: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Whether each row holds finite numbers only, `rows`."""
    return np.asarray(np.all([np.isfinite(values) for values in columns.values()], axis=0))


def rows_in_words(source: Source, n_read: int, used: str, n_left_out: int) -> str:
    """A line that says how many rows of a table were read, used and left out."""
    words = f"Rows: {n_read:,} read, {used}, {n_left_out:,} left out."
    if not source.n_spanning:
        return words
    span = "row spans" if source.n_spanning == 1 else "rows span"
    return f"{words} {source.n_spanning:,} {span} several lines of {source.path}."


def _features(source: Source, options: FitOptions) -> tuple[list[str], dict[str, str]]:
    """The columns to learn from, and why each other column is not one of them."""
    target = str(options.target)
    check_columns(source, [target], "--target")
    check_columns(source, options.drop, "--drop")
    own = {"--groups": options.groups, "--weights": options.weights}
    for option, column in own.items():
        check_columns(source, [] if column is None else [column], option)
    lists = {"--feature": options.feature, "--drop": options.drop}
    for option, names in (lists | {option: [column] for option, column in own.items()}).items():
        if target in names:
            raise TableError(f"{target!r} is the target, so it cannot be given with {option} too.")
    both = [name for name in options.feature if name in (*options.drop, *own.values())]
    if both:
        raise TableError(f"{both[0]!r} cannot be a feature and be left out at once.")
    left_out = {target: "target"} | _error_columns(source, options)
    for what, column in (("groups", options.groups), ("weights of the rows", options.weights)):
        if column is not None:
            left_out.setdefault(column, what)
    left_out |= dict.fromkeys(options.drop, "--drop")
    features = [name for name in source.columns if name not in left_out]
    for name in options.feature:
        if name not in features:
            why = f"holds the {left_out[name]}" if name in left_out else f"is not a column of {source.path}"
            raise TableError(f"--feature: {name!r} {why}; features can be: {listed(features)}.")
    if options.feature:
        left_out |= {name: "not among --feature" for name in features if name not in options.feature}
        features = [name for name in features if name in options.feature]
    if not features:
        raise TableError(f"{source.path}: no column is left to predict {target!r} from.")
    return features, left_out


def _error_columns(source: Source, options: FitOptions) -> dict[str, str]:
    """The columns that hold errors, and of what; they are not features, even where their errors are not used."""
    target = str(options.target)
    found: dict[str, str] = {}
    for text in (*options.x_err, *options.x_err_of_file):
        with about(source.path):
            feature, value = split_error(text, source.columns)
            column = None if feature is None else ErrorTerm.parse(value, source.columns, text).column
        if feature == target:
            raise TableError(f"--x-err {text}: {target!r} is the target; its error is given by --y-err {value}.")
        if column == target:
            raise TableError(f"--x-err {text}: {target!r} is the target, so it cannot be an error too.")
        if column is not None:
            found.setdefault(column, f"error of {feature}")
    for text in [text for text in (options.y_err, options.y_err_of_file) if text is not None]:
        with about(source.path):
            column = _y_term(text, source).column
        if column == target:
            raise TableError(f"--y-err {text}: {target!r} is the target, so it cannot be its own error.")
        if column is not None:
            found.setdefault(column, f"error of {target}")
    return found


def _weights(
    source: Source, options: FitOptions, columns: Mapping[str, Array], good: NDArray[np.bool_]
) -> Array | None:
    """How often each row counts, `rows`, 0 for those that cannot be used; None without a column of weights."""
    if options.weights is None:
        return None
    counts = np.where(good, columns[options.weights], 0.0)
    try:
        return check_weights(counts, len(counts))
    except ValueError as error:
        words = str(error).removeprefix("sample_weight").removeprefix(":").strip()
        raise TableError(f"{source.path}, --weights {options.weights}: {words}") from error


def _y_term(text: str, source: Source) -> ErrorTerm:
    return ErrorTerm.parse(text, source.columns, text, "--y-err")
