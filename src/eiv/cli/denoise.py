"""`eiv denoise`: the true values behind the readings of a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from eiv.cli.app import app, check_output, console, counting, interruptible, printable, show_warning
from eiv.cli.shared import (
    Decimal,
    ErrorOfLabels,
    ErrorsOfRows,
    EscapeFormulas,
    LabelsOfRows,
    Level,
    ModelFile,
    Prefix,
    PriorOfRows,
    Separator,
    TableOut,
)

if TYPE_CHECKING:
    from eiv import TrueInputs
    from eiv.cli.modeltable import ModelTable
    from eiv.io.tables import TableRows

_PARTS = ("_true", "_true_std", "_true_low", "_true_high")
_ESS = "true_ess"
_FEW = 10  # effective draws: a mean from so many is off by a third of a standard deviation
_ROWS = 500  # of which the draws are held at once


@app.command()
def denoise(  # noqa: PLR0913  (a command)
    model_file: ModelFile,
    data: Annotated[Path, typer.Argument(help="The readings: CSV, Parquet, Excel (.xlsx), FITS, ECSV or VOTable.")],
    out: TableOut,
    target: LabelsOfRows = None,
    without_labels: Annotated[
        bool, typer.Option("--without-labels", help="Go by the readings alone, even where the table has labels.")
    ] = False,
    x_err: ErrorsOfRows = None,
    y_err: ErrorOfLabels = None,
    input_prior: PriorOfRows = None,
    level: Level = 0.95,
    prefix: Prefix = "",
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Leave the new columns empty for rows with missing or infinite readings."),
    ] = False,
    separator: Separator = None,
    decimal: Decimal = None,
    escape_formulas: EscapeFormulas = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Find the true values behind noisy readings, each with its uncertainty.

    OUT has all columns of the table and its rows in order. For each column NAME that has an error, or readings that are
    missing or below a limit, it has NAME_true, NAME_true_std, NAME_true_low and NAME_true_high. The last column is
    true_ess, how many independent draws the answer is worth. Where the table has the target of the model, its labels
    count too; empty ones are left out of account. The table may be larger than memory.
    """
    with interruptible(out, force):
        from eiv.cli.data import rows_in_words  # noqa: PLC0415  (slow to import)
        from eiv.cli.modeltable import ModelTable  # noqa: PLC0415
        from eiv.cli.population import Population  # noqa: PLC0415
        from eiv.io.tables import TableWriter, open_table  # noqa: PLC0415
        from eiv.io.tables.writing import with_columns  # noqa: PLC0415
        from eiv.validation import check_level  # noqa: PLC0415

        if without_labels and (target is not None or y_err is not None):
            raise ValueError("--without-labels leaves no use for --target and --y-err.")
        check_level("--level", level)
        check_output(out, force, data, model_file)
        source = open_table(data, separator, decimal)
        table = ModelTable.opened(model_file, source, x_err, y_err, with_labels=not without_labels, target=target)
        population = None if input_prior is None else Population.of(input_prior, table, drop_missing)
        if population is not None:
            table = replace(table, model=table.model.with_prior(population.prior))
        if y_err is not None and not table.labels:
            raise ValueError(f"{data}: --y-err {y_err}: the table has no labels; --target names their column.")
        denoiser = Denoiser(table, level, drop_missing)
        if clash := [name for name in denoiser.names if prefix + name in source.columns]:
            raise ValueError(
                f"{data} has a column {prefix + clash[0]!r} already; use --prefix to give the new columns other names."
            )
        started, found = time.perf_counter(), Counts()
        writing = TableWriter(out, source.text_format, escape_formulas=escape_formulas)
        with writing as writer, counting("denoising") as count:
            for rows, columns, counts in denoiser.tables(count):
                known = table.numbers(rows) if writer.is_parquet else {}
                writer.write(with_columns(rows.cells, known | {prefix + name: columns[name] for name in columns}))
                found = found.and_then(counts)
        seconds = time.perf_counter() - started
        if table.words_on_factor:
            show_warning(table.words_on_factor)
        if table.labels and table.label_errors.left_out:
            show_warning(
                f"{data}: the labels of the fit had known errors. Here they are taken as 0; --y-err gives them."
            )
        if found.few:
            show_warning(found.sentence)
        for words in (denoiser.words(found), "" if population is None else population.words):
            if words:
                console.print(printable(words), highlight=False)
        used = f"{found.rows - found.empty:,} denoised"
        console.print(printable(rows_in_words(source, found.rows, used, found.empty)), highlight=False)
        left = f", {found.empty:,} of them without true values" if found.empty else ""
        speed = f"{seconds:.0f} s, {found.rows / seconds:,.0f} rows per second"
        console.print(f"{printable(out)}: {found.rows:,} rows{left}   ({speed})", highlight=False)


@dataclass(frozen=True)
class Counts:
    """How many rows there are, are empty, have a label, and have few effective draws; the number of the first such."""

    rows: int = 0
    empty: int = 0
    labelled: int = 0
    few: int = 0
    first: int = 0

    def and_then(self, later: Counts) -> Counts:
        """Those of two pieces of a table."""
        own = {name: getattr(self, name) + getattr(later, name) for name in ("rows", "empty", "labelled", "few")}
        return Counts(**own, first=self.first or later.first)

    @property
    def sentence(self) -> str:
        """What to say of rows with few effective draws."""
        return (
            f"{self.few:,} of {self.labelled:,} labels are hardly explained by the curve and the readings (first: row "
            f"{self.first:,}): their {_ESS} is below {_FEW}, and the true values there are rough."
        )


@dataclass(frozen=True)
class Denoiser:
    """A table, its model, and the interval to find."""

    table: ModelTable
    level: float
    drop_missing: bool

    def __post_init__(self) -> None:
        """Refuse a table whose readings are the true values."""
        if not self.table.uncertain:
            raise ValueError(
                f"{self.table.source.path}: the inputs are taken as exact, and none is missing or below a limit, so "
                "there is no noise to remove."
            )

    @property
    def names(self) -> list[str]:
        """The new columns."""
        return [*(f"{name}{part}" for name in self.table.uncertain for part in _PARTS), _ESS]

    def words(self, found: Counts) -> str:
        """Whether labels were used."""
        if not self.table.labels:
            return "Labels: none; the true values are those that the readings alone leave."
        errors = self.table.label_errors
        terms = dict.fromkeys(map(str, errors.spec.terms.values())) if errors.spec is not None else ()
        known = f" with known errors: {', '.join(terms)} ({errors.origin})" if terms else ""
        return f"Labels: {', '.join(self.table.labels)} in {found.labelled:,} rows{known}."

    def tables(self, count: Callable[[int], None]) -> Iterator[tuple[TableRows, dict[str, Any], Counts]]:
        """Pieces of the table, their new columns, and counts."""
        for rows, good in self.table.chunks(self.drop_missing):
            columns = {name: np.full(len(rows), np.nan) for name in self.names}
            counts = Counts(len(rows), int((~good).sum()))
            places = np.flatnonzero(good)
            for start in range(0, len(places), _ROWS):
                some = np.zeros(len(rows), dtype=bool)
                some[places[start : start + _ROWS]] = True
                found, labelled = self.table.true_inputs(rows, some)
                self._fill(columns, some, found)
                few = labelled & (found.ess < _FEW) & found.std.any(1)
                first = rows.first + 1 + int(np.flatnonzero(some)[few.argmax()]) if few.any() else 0
                counts = counts.and_then(Counts(0, 0, int(labelled.sum()), int(few.sum()), first))
                count(rows.first + int(np.flatnonzero(some)[-1]) + 1)
            yield rows, columns, counts

    def _fill(self, columns: dict[str, Any], some: NDArray[np.bool_], found: TrueInputs) -> None:
        low, high = found.interval(self.level)
        parts = dict(zip(_PARTS, (found.mean, found.std, low, high), strict=True))
        for name in self.table.uncertain:
            i = self.table.features.index(name)
            for part, values in parts.items():
                columns[f"{name}{part}"][some] = values[:, i]
        columns[_ESS][some] = found.ess
