"""A table as the model takes it: which columns are features, which rows can be used, and what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv.cli.options import FitOptions
from eiv.tables import ErrorSpec, ErrorTerm, Rows, Source, TableError
from eiv.tables.errorspec import split_error
from eiv.tables.reading import check_columns, read_rows

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrainingTable:
    """The rows to learn from: features `rows x n_x`, target `rows`, errors `n_x` or `rows x n_x`, groups `rows`."""

    X: pd.DataFrame
    y: Array
    spec: ErrorSpec
    errors: Array
    groups: NDArray[Any] | None
    left_out: Mapping[str, str]
    missing: Missing

    @property
    def X_err(self) -> Array | None:  # noqa: N802
        """The errors of each row, where rows differ."""
        return None if self.spec.is_constant else self.errors

    @property
    def spreads(self) -> dict[str, float]:
        """The standard deviation of each feature."""
        return {name: float(value) for name, value in self.X.std(ddof=0).items()}

    @classmethod
    def of(cls, source: Source, options: FitOptions) -> TrainingTable:
        """Read a table and leave out what the options say."""
        import pandas as pd  # noqa: PLC0415

        target = str(options.target)
        features, left_out = _features(source, options)
        kept = ErrorSpec.parse(options.x_err_of_file, features, source.columns).terms
        spec = ErrorSpec.parse(options.x_err, features, source.columns, kept)
        rows = read_rows(source)
        numbers = {name: rows.numbers(name) for name in (*features, target)}
        used = numbers | {name: rows.numbers(name) for name in spec.columns}
        missing = Missing.of(used)
        good = missing.good
        missing.check(rows, options.drop_missing)
        X = pd.DataFrame({name: numbers[name][good] for name in features})
        spec = spec.with_spreads({name: X[name].std(ddof=0) for name in features})
        errors = spec.of(rows)
        return cls(
            X=X,
            y=numbers[target][good],
            spec=spec,
            errors=errors if spec.is_constant else errors[good],
            groups=None
            if options.groups is None
            else np.asarray([str(cell) for cell in rows.cells[options.groups].to_pylist()])[good],
            left_out=left_out,
            missing=missing,
        )


@dataclass(frozen=True)
class Missing:
    """Cells that are no finite numbers: which rows are `good`, `rows`, and how many cells of each column are not."""

    good: NDArray[np.bool_]
    columns: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, columns: Mapping[str, Array]) -> Missing:
        """Look at the numbers of each column, `rows` each."""
        bad = {name: ~np.isfinite(values) for name, values in columns.items()}
        return cls(~np.any(list(bad.values()), axis=0), {name: columns[name] for name in bad if bad[name].any()})

    @property
    def n_bad(self) -> int:
        """Rows that cannot be used."""
        return int((~self.good).sum())

    def check(self, rows: Rows, drop: bool) -> None:
        """Raise a `TableError` where there are such cells and they are not to be dropped, or nothing else is left."""
        path = rows.source.path
        if self.n_bad and not drop:
            words = [self._words(rows, name, values) for name, values in self.columns.items()]
            raise TableError(
                f"{path}: {self.n_bad} of {len(self.good)} rows hold missing or infinite values ({'; '.join(words)}). "
                "Use --drop-missing to go on without them."
            )
        if self.n_bad == len(self.good):
            raise TableError(f"{path}: every row holds missing or infinite values.")

    @staticmethod
    def _words(rows: Rows, name: str, values: Array) -> str:
        n_missing, n_infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
        counts = [f"{n} {what}" for n, what in ((n_missing, "missing"), (n_infinite, "infinite")) if n]
        first = rows.first + int(np.flatnonzero(~np.isfinite(values))[0])
        return f"column {name!r}: {' and '.join(counts)}, first in {rows.source.place(first)}"


def _features(source: Source, options: FitOptions) -> tuple[list[str], dict[str, str]]:
    """The columns to learn from, and why each other column is not one of them."""
    target = str(options.target)
    check_columns(source, [target], "--target")
    check_columns(source, options.feature, "--feature")
    check_columns(source, options.drop, "--drop")
    check_columns(source, [] if options.groups is None else [options.groups], "--groups")
    for names, option in ((options.feature, "--feature"), (options.drop, "--drop"), ([options.groups], "--groups")):
        if target in names:
            raise TableError(f"{target!r} is the target, so it cannot be given to {option} too.")
    both = [name for name in options.feature if name in (*options.drop, options.groups)]
    if both:
        raise TableError(f"{both[0]!r} cannot be a feature and be left out at once.")
    left_out = {target: "target"}
    for text in (*options.x_err, *options.x_err_of_file):  # a column of errors is no feature, used or not
        feature, value = split_error(text, source.columns)
        column = None if feature is None else ErrorTerm.parse(value, source.columns).column
        if feature == target:
            raise TableError(f"--x-err {text}: {target!r} is the target; errors of the inputs are asked for.")
        if column == target:
            raise TableError(f"--x-err {text}: {target!r} is the target, so it cannot be an error too.")
        if column is not None:
            left_out.setdefault(column, f"error of {feature}")
    if options.groups is not None:
        left_out.setdefault(options.groups, "groups")
    left_out |= dict.fromkeys(options.drop, "--drop")
    if options.feature:
        left_out |= {
            name: "not among --feature" for name in source.columns if name not in (*options.feature, *left_out)
        }
    features = [name for name in source.columns if name not in left_out]
    if not features:
        raise TableError(f"{source.path}: no column is left to predict {target!r} from.")
    return features, left_out
