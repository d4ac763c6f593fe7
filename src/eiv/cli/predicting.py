"""One table predicted, block by block: what `eiv predict` does with it, by itself or for each table of a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from eiv import ClassPrediction, Prediction
    from eiv.cli.modeltable import ModelTable
    from eiv.io.tables import TableRows

_ENDS = ("low", "high")
_OF_ROWS = ("likeness", "unlike")


@dataclass(frozen=True)
class Job:
    """What is to be predicted of tables: the arguments of the command, without the tables."""

    model_file: Path
    x_err: tuple[str, ...]
    y_err: str | None
    input_prior: str | None
    level: float
    of: str
    prefix: str
    drop_missing: bool
    separator: str | None
    decimal: str | None
    escape_formulas: bool

    def check(self) -> None:
        """Raise a ValueError for an argument that no table suits."""
        from eiv.validation import check_level  # noqa: PLC0415  (slow to import)

        if self.of not in ("function", "label"):
            raise ValueError(f"--of must be function or label, got {self.of!r}.")
        check_level("--level", self.level)


@dataclass(frozen=True)
class Predicted:
    """What came of a table: its rows, those without a prediction, those unlike the training rows, and what to say."""

    n_rows: int
    n_empty: int
    n_unlike: int
    warnings: tuple[str, ...]
    words: tuple[str, ...]


def predict_table(job: Job, data: Path, out: Path, count: Callable[[int], None]) -> Predicted:
    """Write the predictions of a table, block by block; `count` is called with the number of rows done."""
    from eiv.cli.data import rows_in_words  # noqa: PLC0415  (slow to import)
    from eiv.cli.modeltable import ModelTable  # noqa: PLC0415
    from eiv.cli.population import Population  # noqa: PLC0415
    from eiv.io.tables import TableWriter, open_table  # noqa: PLC0415
    from eiv.io.tables.writing import with_columns  # noqa: PLC0415

    source = open_table(data, job.separator, job.decimal)
    model_table = ModelTable.opened(job.model_file, source, list(job.x_err), job.y_err)
    population = None if job.input_prior is None else Population.of(job.input_prior, model_table, job.drop_missing)
    if population is not None:
        model_table = replace(model_table, model=model_table.model.with_prior(population.prior))
    if model_table.model.has_classes and job.of == "label":
        raise ValueError(f"--of label: {job.model_file} predicts classes, which have probabilities and no intervals.")
    kind = ClassPredictor if model_table.model.has_classes else Predictor
    predictor = kind(model_table, job.level, job.of, job.drop_missing)  # type: ignore[arg-type]
    clash = [name for name in predictor.names(job.prefix) if name in source.columns]
    if clash:
        raise ValueError(f"{data} has a column {clash[0]!r} already; use --prefix to give the new columns other names.")
    n_rows, n_empty, unlike = 0, 0, UnlikeRows()
    with TableWriter(out, source.text_format, escape_formulas=job.escape_formulas) as writer:
        for rows, table, empty, found in predictor.tables():
            known = predictor.table.numbers(rows) if writer.is_parquet else {}
            writer.write(with_columns(rows.cells, known | {f"{job.prefix}{name}": table[name] for name in table}))
            n_rows, n_empty, unlike = n_rows + len(rows), n_empty + empty, unlike.and_then(found)
            count(n_rows)
    label_errors, warnings, words = predictor.table.label_errors, [], []
    if label_errors.left_out and job.of == "label":
        warnings.append(label_errors.left_out)
    elif str(label_errors):
        words.append(str(label_errors))
    if model_table.words_on_factor:
        warnings.append(model_table.words_on_factor)
    if unlike.count:
        warnings.append(unlike.sentence(n_rows - n_empty))
    if population is not None:
        words.append(population.words)
    words.append(rows_in_words(source, n_rows, f"{n_rows - n_empty:,} predicted", n_empty))
    return Predicted(n_rows, n_empty, unlike.count, tuple(warnings), tuple(words))


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
        ends = dict(zip(_ENDS, p.interval(self.level, of=self.of), strict=True))
        parts = {name: getattr(p, name) for name in self._of_output if name not in ends} | ends
        for i, label in enumerate(self._outputs()):
            for name, values in parts.items():
                table[label + name][good] = values.reshape(len(values), -1)[:, i]
        return p

    def _parts(self) -> list[str]:
        """The columns of a prediction."""
        return [f"{label}{part}" for label in self._outputs() for part in self._of_output]

    @property
    def _of_output(self) -> tuple[str, ...]:
        """The columns of one output; `of_size`, a part of epistemic, where the fit learned the size of the errors."""
        sizes = self.table.model.sizes
        of_size = () if sizes is None or len(sizes.nodes) < 2 else ("of_size",)
        return ("mean", "std", "epistemic", *of_size, "aleatoric", "noise", "total", *_ENDS)

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
