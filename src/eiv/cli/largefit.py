"""`eiv fit` of a table with more rows than are read into memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv.io.tables import Source, TableRows

if TYPE_CHECKING:
    from eiv.cli.data import TrainingTable
    from eiv.cli.options import FitOptions
    from eiv.io.tables.textformat import TextFormat

LARGE = 2**20
"""Rows: a table with more is fitted piece by piece, and its scores are those of some rows held out."""
_SCORED = 10_000  # rows that are held out for the scores, at most


class SomeRows:
    """Some rows of a table, as a table of their own."""

    def __init__(self, source: Source, chosen: NDArray[np.intp]) -> None:
        self._source, self._chosen = source, chosen
        self.path: Path = source.path
        self.columns: tuple[str, ...] = source.columns
        self.text_format: TextFormat = source.text_format
        self.n_rows, self.n_spanning = len(chosen), source.n_spanning
        self.units: Mapping[str, str] = source.units

    def place(self, row: int) -> str:
        """The place of a row in the file."""
        return self._source.place(int(self._chosen[row]))

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """The rows, read a block of the file at a time."""
        done = 0
        for rows in self._source.chunks(columns):
            start, end = np.searchsorted(self._chosen, [rows.first, rows.first + len(rows)])
            if end > start:
                yield TableRows(self, rows.cells.take(self._chosen[start:end] - rows.first), done)
                done += int(end - start)


def scored_rows(source: Source, options: FitOptions) -> NDArray[np.intp]:
    """The places of the rows that the columns are shown by and, unless none are held out, that scores are found on."""
    share = options.holdout or 1.0
    n_rows = max(2, min(_SCORED, round(share * source.n_rows)))
    return np.sort(np.random.default_rng(options.seed).choice(source.n_rows, n_rows, replace=False))


def with_error_columns(table: TrainingTable) -> TrainingTable:
    """The same rows with errors that stand in columns among those of X, as the model of a file takes them."""
    if table.X_err is None:
        return table
    errors = {term.column: table.X_err[:, j] for j, term in enumerate(table.spec.terms.values()) if term.column}  # type: ignore[index]
    return replace(table, X=table.X.assign(**errors), X_err=None)


def file_arguments(table: TrainingTable, options: FitOptions) -> dict[str, Any] | None:
    """The arguments of `fit_file`, and `x_err` of the estimator; None for what needs all rows in memory."""
    terms = [*table.spec.terms.values(), *(() if table.y_spec is None else table.y_spec.terms.values())]
    others = (options.separator, options.decimal, options.groups, options.weights, options.settings.get("missing"))
    if table.spec.dof is not None:
        return None
    if any(term.kind not in ("absolute", "column") for term in terms) or any(other is not None for other in others):
        return None
    if table.has_classes or table.limits or table.units or table.y_unit is not None:
        return None
    errors = {name: term.column or term.number for name, term in table.spec.terms.items()}
    known = [] if table.y_spec is None else [term.column or term.number for term in table.y_spec.terms.values()]
    return {
        "x_err": None if table.spec.is_exact else errors,
        "columns": tuple(dict.fromkeys((*table.spec.terms, *table.spec.columns))),
        "y_err": known[0] if known else None,
        "drop_missing": options.drop_missing,
    }
