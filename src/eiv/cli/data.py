"""The table to fit: which columns are features, which rows can be used, and what was left out and why."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv import estimated
from eiv.cli.classes import Labels, holds_classes, in_words, labels_of, refuse_identifiers
from eiv.cli.limits import as_gaps, limits_of, with_limits
from eiv.inputs.mixed import Errors
from eiv.inputs.stated import Readings
from eiv.io.tables import ErrorSpec, ErrorTerm, Source, TableError, TableRows
from eiv.io.tables.columns import check_columns, listed, split_names
from eiv.io.tables.errorspec import about, split_error
from eiv.io.tables.reading import read_rows
from eiv.io.tables.scanning import TextError
from eiv.validation import check_spread, check_weights

if TYPE_CHECKING:
    import pandas as pd

    from eiv.cli.options import FitOptions
    from eiv.io.tables.reading import CellsOfReadings

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrainingTable:
    """The rows to learn from: features `rows x n_x`, target `rows`, errors, groups `rows`.

    `x_err` is the error that holds for all rows, those to come included, as the estimators take it, and `X_err` that of
    each row; one of the two is None. `limits` says of which features how many readings are limits, such as <0.05.

    Rows of weight zero are left out, `n_weightless` of them; `weights` are those of the others, `rows`. The target
    holds numbers, or with `has_classes` words, whole numbers or truth values. `y_spec` and `y_err`, `rows`, are the
    known errors of the target. Both are None where none were given, or 0.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    spec: ErrorSpec
    x_err: list[float] | dict[str, Any] | None
    X_err: Errors | None
    y_spec: ErrorSpec | None
    y_err: Array | None
    groups: NDArray[Any] | None
    left_out: Mapping[str, str]
    missing: Missing
    limits: Mapping[str, str]
    has_classes: bool = False
    weights: Array | None = None
    n_weightless: int = 0
    units: Mapping[str, str] = field(default_factory=dict)
    y_unit: str | None = None

    @property
    def carried(self) -> tuple[Any, Any]:
        """X and y with the units of their columns, where the table has some; plain ones else."""
        if not self.units and self.y_unit is None:
            return self.X, self.y
        from astropy.table import QTable  # noqa: PLC0415  (the table was read by it)
        from astropy.units import Quantity  # noqa: PLC0415

        columns = {name: self.X[name].to_numpy() for name in self.X}
        X = QTable({n: Quantity(x, self.units[n]) if n in self.units else x for n, x in columns.items()})
        return X, self.y if self.y_unit is None else Quantity(self.y, self.y_unit)

    @property
    def gaps(self) -> dict[str, int]:
        """The number of missing readings, which the fit integrates over, of each feature with some."""
        counts = self.X.isna().sum()
        return {str(name): int(n) for name, n in counts.items() if n}

    def sized(self, errors: Any) -> Any:
        """Errors of X for a fit, with the degrees of freedom behind them where some are themselves estimates."""
        return errors if errors is None or self.spec.dof is None else estimated(errors, self.spec.dof)

    @property
    def spreads(self) -> dict[str, float]:
        """The standard deviation of each feature."""
        return _spreads(self.X, self.weights)

    @property
    def target_spread(self) -> float:
        """The standard deviation of a target of numbers."""
        return float(_spread(self.y, self.weights))

    @classmethod
    def of(cls, source: Source, options: FitOptions) -> TrainingTable:
        """Read a table, without the columns and rows that the options leave out."""
        import pandas as pd  # noqa: PLC0415

        target = str(options.target)
        features, left_out = _features(source, options)
        spec, y_spec = _stated(source, options, features)
        columns = (*spec.columns, *(y_spec.columns if y_spec else ()))
        others = [name for name in (options.groups, options.weights) if name is not None]
        rows = read_rows(source, (*features, target, *columns, *others))
        readings = {name: _readings(rows, name) for name in features}
        labels = _classes(rows, target, options)
        known = rows.numbers(target) if labels is None else labels.as_gaps
        weights = {} if options.weights is None else {options.weights: rows.numbers(options.weights)}
        integrates = options.settings.get("missing") == "integrate"
        seen = {name: as_gaps(cells, integrates) for name, cells in readings.items()}
        of_target = {name: rows.numbers(name) for name in columns if name not in spec.columns}
        used = seen | {target: known} | spec.gaps(rows) | of_target | weights
        good, missing = usable(used), Missing.of(used)
        missing.check(source, options.drop_missing, _advice(missing, features))
        counts = _weights(source, options, weights, good)
        n_weightless, good = int(good.sum()), good if counts is None else good & (counts > 0)
        n_weightless -= int(good.sum())
        X = pd.DataFrame({name: cells.numbers[good] for name, cells in readings.items()})
        y = known[good] if labels is None else labels.taken(good)
        _check_features(source, X)
        if labels is None:
            check_spread("y", y[:, None], None)
        of_rows = None if counts is None else counts[good]
        spec = spec.with_spreads(_spreads(X, of_rows))
        limits = limits_of(rows, readings, good, spec.terms)
        stated, y_err, by_row = with_limits(spec.stated(rows, good), features, limits), None, None
        if limits or not spec.is_constant:
            x, by_row, _ = Readings.of("--x-err", stated, X.to_numpy(), features, by_row=True)
            X = pd.DataFrame(x, columns=features)
        if y_spec is not None:
            y_spec = y_spec.with_spreads({target: float(_spread(y, of_rows))})
            y_err = None if y_spec.is_exact else np.broadcast_to(y_spec.of(rows), (len(rows), 1))[good, 0]
        for each in filter(None, (spec, y_spec)):
            each.check_units(source)
        return cls(
            X=X,
            y=y,
            spec=spec,
            x_err=None if limits else _for_all_rows(spec, stated),
            X_err=by_row,
            y_spec=y_spec,
            y_err=y_err,
            groups=_groups(rows, options, good),
            left_out=left_out | ({} if labels is None else {target: in_words(y)}),
            missing=missing,
            limits={name: each.words() for name, each in limits.items()},
            has_classes=labels is not None,
            weights=of_rows,
            n_weightless=n_weightless,
            units={name: source.units[name] for name in features if name in source.units},
            y_unit=source.units.get(target) if labels is None else None,
        )


def _stated(source: Source, options: FitOptions, features: Sequence[str]) -> tuple[ErrorSpec, ErrorSpec | None]:
    """The stated errors of the features, and of the target where there are some."""
    with about(source.path):
        kept = ErrorSpec.parse(options.x_err_of_file, features, source.columns).terms
        spec = ErrorSpec.parse(options.x_err, features, source.columns, kept)
        known = None if options.y_err is None else ErrorTerm.of_labels(options.y_err, source.columns)
    return spec, None if known is None else ErrorSpec({str(options.target): known})


def _readings(rows: TableRows, name: str) -> CellsOfReadings:
    """The cells of a feature; an error about one that holds text says how to leave it out."""
    try:
        return rows.readings(name)
    except TextError as error:
        raise TableError(f"{error} Leave the column out with --drop {shlex.quote(name)}.") from error


def _check_features(source: Source, X: pd.DataFrame) -> None:
    """Refuse rows that are too few, and columns without a reading or with values that leave no spread."""
    if len(X) < 2:
        raise TableError(f"{source.path}: there is one row to learn from, and a fit needs at least two.")
    for name in (name for name in X if X[name].isna().all()):
        raise TableError(f"{source.path}: column {name!r} holds no reading at all; leave it out with --drop.")
    check_spread("X", (X.fillna(X.median()) if X.isna().any(axis=None) else X).to_numpy(), list(X))


def _classes(rows: TableRows, target: str, options: FitOptions) -> Labels | None:
    """The labels of a column of classes; None for one of numbers."""
    if not holds_classes(rows, target, options.classes):
        return None
    labels = labels_of(rows, target)
    if not options.classes:
        refuse_identifiers(rows, target, labels)
    if options.y_err is not None:
        raise TableError(f"--y-err {options.y_err}: {target!r} holds classes, which have no error bars.")
    return labels


def _groups(rows: TableRows, options: FitOptions, good: NDArray[np.bool_]) -> NDArray[np.str_] | None:
    """The group of each good row, as a word; None without a column of groups."""
    if options.groups is None:
        return None
    return np.asarray([str(cell) for cell in rows.cells[options.groups].to_pylist()])[good]


def _for_all_rows(spec: ErrorSpec, stated: Any) -> list[float] | dict[str, Any] | None:
    """The errors that hold for all rows; None where there are none, or they differ from row to row."""
    if not spec.is_constant or spec.is_exact:
        return None
    return stated.tolist() if spec.is_plain else dict(stated)


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


def _advice(missing: Missing, features: Sequence[str]) -> str:
    """A sentence on how to keep rows whose features have missing values."""
    gaps = [name for name in missing.columns if name in features]
    return " --set missing=integrate keeps rows with missing readings of features." if gaps else ""


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
    dropped, chosen = split_names(options.drop, source.columns), split_names(options.feature, source.columns)
    check_columns(source, dropped, "--drop")
    own = {"--groups": options.groups, "--weights": options.weights}
    for option, column in own.items():
        check_columns(source, [] if column is None else [column], option)
    lists = {"--feature": chosen, "--drop": dropped}
    for option, names in (lists | {option: [column] for option, column in own.items()}).items():
        if target in names:
            raise TableError(f"{target!r} is the target, so it cannot be given with {option} too.")
    both = [name for name in chosen if name in (*dropped, *own.values())]
    if both:
        raise TableError(f"{both[0]!r} cannot be a feature and be left out at once.")
    left_out = {target: "target"} | _error_columns(source, options)
    for what, column in (("groups", options.groups), ("weights of the rows", options.weights)):
        if column is not None:
            left_out.setdefault(column, what)
    left_out |= dict.fromkeys(dropped, "--drop")
    features = [name for name in source.columns if name not in left_out]
    for name in chosen:
        if name not in features:
            why = f"holds the {left_out[name]}" if name in left_out else f"is not a column of {source.path}"
            raise TableError(f"--feature: {name!r} {why}; features can be: {listed(features)}.")
    if chosen:
        left_out |= {name: "not among --feature" for name in features if name not in chosen}
        features = [name for name in features if name in chosen]
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
            columns = () if feature is None else ErrorTerm.parse(value, source.columns, text).columns
        if feature == target:
            raise TableError(f"--x-err {text}: {target!r} is the target; its error is given by --y-err {value}.")
        if target in columns:
            raise TableError(f"--x-err {text}: {target!r} is the target, so it cannot be an error too.")
        for column in columns:
            found.setdefault(column, f"error of {feature}")
    for text in [text for text in (options.y_err, options.y_err_of_file) if text is not None]:
        with about(source.path):
            known = ErrorTerm.of_labels(text, source.columns).column
        if known == target:
            raise TableError(f"--y-err {text}: {target!r} is the target, so it cannot be its own error.")
        if known is not None:
            found.setdefault(known, f"error of {target}")
    return found


def _spreads(X: pd.DataFrame, weights: Array | None) -> dict[str, float]:
    """The standard deviation of each column, rows counting by their weights."""
    return dict(zip(X.columns, _spread(X.to_numpy(), weights).tolist(), strict=True))


def _spread(values: Array, weights: Array | None) -> Array:
    known = np.ma.masked_invalid(values)  # readings may be missing
    mean = np.ma.average(known, axis=0, weights=weights)
    return np.asarray(np.sqrt(np.ma.average((known - mean) ** 2, axis=0, weights=weights)))


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
