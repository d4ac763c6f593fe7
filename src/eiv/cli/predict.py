"""`eiv predict`: apply a model to a table, block by block."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from eiv.cli.app import app, check_output, console, counting, interruptible, printable, show_warning
from eiv.cli.shared import (
    Decimal,
    ErrorOfLabels,
    ErrorsOfRows,
    Level,
    ModelFile,
    Prefix,
    PriorOfRows,
    Separator,
    TableOut,
)

if TYPE_CHECKING:
    from eiv import ClassPrediction, Prediction
    from eiv.cli.modeltable import ModelTable
    from eiv.io.tables import TableRows

_PARTS = ("mean", "std", "epistemic", "aleatoric", "noise", "total", "low", "high")
_OF_ROWS = ("likeness", "unlike")


@app.command()
def predict(  # noqa: PLR0913  (a command)
    model_file: ModelFile,
    data: Annotated[Path, typer.Argument(help="The new rows: CSV, Parquet, Excel (.xlsx), FITS, ECSV or VOTable.")],
    out: TableOut,
    x_err: ErrorsOfRows = None,
    y_err: ErrorOfLabels = None,
    input_prior: PriorOfRows = None,
    level: Level = 0.95,
    of: Annotated[
        str, typer.Option(help="What low and high enclose: function, the curve at the true input; label, a measured y.")
    ] = "function",
    prefix: Prefix = "",
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Leave the predictions empty for rows with missing or infinite values."),
    ] = False,
    separator: Separator = None,
    decimal: Decimal = None,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="Put an apostrophe before texts of a CSV that begin with =, +, -, @, a tab or a carriage return, so "
            "that no spreadsheet runs them as formulas; numbers stay as they are.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Predict new rows, each with the components of its uncertainty.

    OUT has all columns of the table and its rows in order, then the columns mean, std, epistemic, aleatoric, noise,
    total, low, high, likeness and unlike. The last is true where a row is unlike the training rows. For a model of
    classes they are P(NAME) for each class, predicted, the components of the entropy in nats (label, aleatoric,
    epistemic), likeness and unlike.
    The table may be larger than memory.
    """
    with interruptible(out, force):
        from eiv.cli.data import rows_in_words  # noqa: PLC0415  (slow to import)
        from eiv.cli.modeltable import ModelTable  # noqa: PLC0415
        from eiv.cli.population import Population  # noqa: PLC0415
        from eiv.io.tables import TableWriter, open_table  # noqa: PLC0415
        from eiv.io.tables.writing import with_columns  # noqa: PLC0415
        from eiv.validation import check_level  # noqa: PLC0415

        if of not in ("function", "label"):
            raise ValueError(f"--of must be function or label, got {of!r}.")
        check_level("--level", level)
        check_output(out, force, data, model_file)
        source = open_table(data, separator, decimal)
        model_table = ModelTable.opened(model_file, source, x_err, y_err)
        population = None if input_prior is None else Population.of(input_prior, model_table, drop_missing)
        if population is not None:
            model_table = replace(model_table, model=model_table.model.with_prior(population.prior))
        if model_table.model.has_classes and of == "label":
            raise ValueError(f"--of label: {model_file} predicts classes, which have probabilities and no intervals.")
        kind = ClassPredictor if model_table.model.has_classes else Predictor
        predictor = kind(model_table, level, of, drop_missing)  # type: ignore[arg-type]
        clash = [name for name in predictor.names(prefix) if name in source.columns]
        if clash:
            raise ValueError(
                f"{data} has a column {clash[0]!r} already; use --prefix to give the new columns other names."
            )
        started, n_rows, n_empty, unlike = time.perf_counter(), 0, 0, UnlikeRows()
        writes = TableWriter(out, source.text_format, escape_formulas=escape_formulas)
        with writes as writer, counting("predicting") as count:
            for rows, table, empty, found in predictor.tables():
                known = predictor.table.numbers(rows) if writer.is_parquet else {}
                writer.write(with_columns(rows.cells, known | {f"{prefix}{name}": table[name] for name in table}))
                n_rows, n_empty, unlike = n_rows + len(rows), n_empty + empty, unlike.and_then(found)
                count(n_rows)
        seconds, label_errors = time.perf_counter() - started, predictor.table.label_errors
        if label_errors.left_out and of == "label":
            show_warning(label_errors.left_out)
        elif str(label_errors):
            console.print(printable(label_errors), highlight=False)
        if model_table.words_on_factor:
            show_warning(model_table.words_on_factor)
        if unlike.count:
            show_warning(unlike.sentence(n_rows - n_empty))
        if population is not None:
            console.print(printable(population.words), highlight=False)
        left = f", {n_empty:,} of them without a prediction" if n_empty else ""
        words = rows_in_words(source, n_rows, f"{n_rows - n_empty:,} predicted", n_empty)
        console.print(printable(words), highlight=False)
        console.print(
            f"{printable(out)}: {n_rows:,} rows{left}   ({seconds:.0f} s, {n_rows / seconds:,.0f} rows per second)",
            highlight=False,
        )


@dataclass(frozen=True)
class UnlikeRows:
    """How many rows are unlike the training rows, and words for the first of them."""

    count: int = 0
    first: str = ""

    def and_then(self, later: UnlikeRows) -> UnlikeRows:
        """Those of two pieces of a table."""
        return UnlikeRows(self.count + later.count, self.first or later.first)

    def sentence(self, n_rows: int) -> str:
        """What to say of them."""
        are = "row is" if n_rows == 1 else "rows are"
        return f"{self.count:,} of {n_rows:,} {are} unlike the training rows (first: {self.first})."


@dataclass(frozen=True)
class Predictor:
    """A table, its model, and the interval to predict."""

    table: ModelTable
    level: float
    of: Literal["function", "label"]
    drop_missing: bool

    def names(self, prefix: str) -> list[str]:
        """The names of the new columns; a model from a file of an earlier version says nothing of unlike rows."""
        of_rows = () if self.table.model.cloud is None else _OF_ROWS
        return [f"{prefix}{name}" for name in (*self._parts(), *of_rows)]

    def tables(self) -> Iterator[tuple[TableRows, dict[str, Any], int, UnlikeRows]]:
        """Pieces of the table, their predictions by column, how many rows have none, and the unlike ones."""
        for rows, good in self.table.chunks(self.drop_missing):
            table, unlike = self._predicted(rows, good)
            yield rows, table, int((~good).sum()), unlike

    def _predicted(self, rows: TableRows, good: NDArray[np.bool_]) -> tuple[dict[str, Any], UnlikeRows]:
        table: dict[str, Any] = {name: np.full(len(rows), np.nan) for name in self.names("")}
        if "unlike" in table:
            table["unlike"] = np.full(len(rows), None, dtype=object)  # a truth value that may be missing
        if not good.any():
            return table, UnlikeRows()
        p = self._fill(table, rows, good)
        cloud, unlike = self.table.model.cloud, p.unlike
        if cloud is None or unlike is None:
            return table, UnlikeRows()
        table["likeness"][good], table["unlike"][good] = p.likeness, unlike
        if not unlike.any():
            return table, UnlikeRows()
        first = int(unlike.argmax())
        number = rows.first + 1 + int(np.flatnonzero(good)[first])
        words = cloud.words(self.table.inputs(rows, good)[0][first], self.table.features)
        return table, UnlikeRows(int(unlike.sum()), f"row {number:,}, {words}")

    def _fill(self, table: dict[str, Any], rows: TableRows, good: NDArray[np.bool_]) -> Prediction | ClassPrediction:
        """Write the parts of the prediction of the good rows into the columns of `table`."""
        p = self.table.predict(rows, good)
        low, high = p.interval(self.level, of=self.of)
        parts = {name: getattr(p, name) for name in _PARTS[:-2]} | {"low": low, "high": high}
        for i, label in enumerate(self._outputs()):
            for name, values in parts.items():
                table[label + name][good] = values.reshape(len(values), -1)[:, i]
        return p

    def _parts(self) -> list[str]:
        """The columns of a prediction."""
        return [f"{label}{part}" for label in self._outputs() for part in _PARTS]

    def _outputs(self) -> list[str]:
        """The prefixes of the new columns for each output: empty for a single output, its name for several."""
        return [""] if len(self.table.outputs) == 1 else [f"{name}_" for name in self.table.outputs]


class ClassPredictor(Predictor):
    """The same for a classifier: a probability for each class, the most probable one, the components of the entropy."""

    def _fill(self, table: dict[str, Any], rows: TableRows, good: NDArray[np.bool_]) -> ClassPrediction:
        p = self.table.predict_classes(rows, good)
        found = p.to_frame()
        table["predicted"] = np.full(len(rows), None, dtype=object)
        for name in self._parts():
            table[name][good] = found[name].to_numpy()
        return p

    def _parts(self) -> list[str]:
        classes = self.table.header["outputs"]["classes"]["values"]
        return [f"P({name})" for name in classes] + ["predicted", "label", "aleatoric", "epistemic"]
