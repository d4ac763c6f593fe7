"""`eiv predict`: a model applied to a table, a piece at a time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.markup import escape

from eiv.cli.app import app, check_output, console, errors, interruptible

if TYPE_CHECKING:
    from eiv import EiVRegressor
    from eiv.tables import ErrorSpec, Rows, Source

_PARTS = ("mean", "std", "epistemic", "aleatoric", "noise", "total", "low", "high")


@app.command()
def predict(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, as `eiv fit` writes it.")],
    data: Annotated[Path, typer.Argument(help="The new rows: CSV, Parquet or Excel (.xlsx).")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="OUT", help="The table to write: .csv, .csv.gz, .parquet.")
    ],
    x_err: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL=VALUE",
            help="Errors of these rows instead of those that `eiv fit` was told, in the same forms.",
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the interval from low to high.")] = 0.95,
    of: Annotated[
        str, typer.Option(help="What low and high are for: function, the curve at the true input; label, a measured y.")
    ] = "function",
    prefix: Annotated[str, typer.Option(help="Put before the names of the new columns.")] = "",
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Leave the predictions empty for rows with missing or infinite values."),
    ] = False,
    separator: Annotated[str | None, typer.Option(help="Between the cells of a CSV; found if not told.")] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal sign of a CSV, . or ,; found if not told.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it is there.")] = False,
) -> None:
    """Predict new rows, with the parts of the uncertainty of each.

    The columns and the order of the rows are kept; mean, std, epistemic, aleatoric, noise, total, low and high come
    after them. Files larger than memory go through.
    """
    from eiv.tables import TableWriter, open_table  # noqa: PLC0415  (slow to import)
    from eiv.tables.writing import with_columns  # noqa: PLC0415

    if of not in ("function", "label"):
        raise ValueError(f"--of must be function or label, got {of!r}.")
    if not 0 < level < 1:
        raise ValueError(f"--level must lie between 0 and 1, got {level:g}.")
    check_output(out, force, data, model_file)
    predictor = Predictor.opened(model_file, open_table(data, separator, decimal), x_err, level, of, drop_missing)  # type: ignore[arg-type]
    source = predictor.source
    clash = [name for name in predictor.names(prefix) if name in source.columns]
    if clash:
        raise ValueError(f"{data} has a column {clash[0]!r} already; use --prefix to give the new columns other names.")
    started, n_rows, n_empty = time.perf_counter(), 0, 0
    with interruptible(out), TableWriter(out, source.text_format) as writer, _counting() as count:
        for rows, table, empty in predictor.tables():
            known = predictor.numbers(rows) if writer.is_parquet else {}
            writer.write(with_columns(rows.cells, known | {f"{prefix}{name}": table[name] for name in table}))
            n_rows, n_empty = n_rows + len(rows), n_empty + empty
            count(n_rows)
    seconds = time.perf_counter() - started
    left = f", {n_empty:,} of them without a prediction" if n_empty else ""
    console.print(
        f"{escape(str(out))}: {n_rows:,} rows{left}   ({seconds:.0f} s, {n_rows / seconds:,.0f} rows a second)",
        highlight=False,
    )


@dataclass(frozen=True)
class Predictor:
    """A model, a table to predict, and what is known of its errors."""

    model: EiVRegressor
    source: Source
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    spec: ErrorSpec | None
    level: float
    of: Literal["function", "label"]
    drop_missing: bool

    @classmethod
    def opened(
        cls,
        model_file: Path,
        source: Source,
        x_err: list[str] | None,
        level: float,
        of: Literal["function", "label"],
        drop_missing: bool,
    ) -> Predictor:
        """Load the model and check that the table has what it needs."""
        from eiv.modelfile import load_model, read_header  # noqa: PLC0415
        from eiv.tables.reading import check_columns  # noqa: PLC0415

        header = read_header(model_file)
        model: EiVRegressor = load_model(model_file)
        named = header["features"]["names"]
        if named is None and len(source.columns) != model.n_features_in_:
            raise ValueError(
                f"{model_file} knows no names of its {model.n_features_in_} features, so {source.path} must have these "
                f"columns only, in their order; it has {len(source.columns)}."
            )
        features = tuple(named or source.columns)
        check_columns(source, features, f"a feature of {model_file}")
        spec = _errors(model_file, header["notes"], features, source, x_err)
        if spec is None and model.x_err_ is None:
            raise ValueError(
                f"{model_file} was fitted with an error for each row; give those of {source.path}: --x-err."
            )
        if spec is not None:
            check_columns(source, spec.columns, "errors; others can be given with --x-err")
        outputs = tuple(header["outputs"]["names"] or (f"y{i}" for i in range(model.n_outputs_)))
        return cls(model, source, features, outputs, spec, level, of, drop_missing)

    def names(self, prefix: str) -> list[str]:
        """The names of the new columns."""
        return [f"{prefix}{label}{part}" for label in self._outputs() for part in _PARTS]

    def numbers(self, rows: Rows) -> dict[str, Any]:
        """The columns that the model reads, as numbers."""
        columns = (*self.features, *(self.spec.columns if self.spec else ()))
        return {name: rows.numbers(name) for name in columns}

    def tables(self) -> Iterator[tuple[Rows, dict[str, Any], int]]:
        """Pieces of the table, their predictions by column, and how many rows have none."""
        from eiv.cli.data import Missing  # noqa: PLC0415

        chunks = self.source.chunks()
        for rows in chunks:
            missing = Missing.of(self.numbers(rows))
            if missing.n_bad and not self.drop_missing:
                missing = _rest(self, rows, missing, chunks)
                missing.check(rows, drop=False)
            yield rows, self._predicted(rows, missing.good), missing.n_bad

    def _predicted(self, rows: Rows, good: Any) -> dict[str, Any]:
        import pandas as pd  # noqa: PLC0415

        table = {name: np.full(len(rows), np.nan) for name in self.names("")}
        if not good.any():
            return table
        X: Any = np.column_stack([rows.numbers(name)[good] for name in self.features])
        if hasattr(self.model, "feature_names_in_"):
            X = pd.DataFrame(X, columns=list(self.features))
        X_err = None if self.spec is None else self.spec.of(rows)
        if X_err is not None and X_err.ndim == 2:
            X_err = X_err[good]
        try:
            p = self.model.predict_distribution(X, X_err=X_err, keep_draws=False)
        except ValueError as error:
            raise ValueError(f"{self.source.path}, rows from {self.source.place(rows.first)} on: {error}") from error
        low, high = p.interval(self.level, of=self.of)
        parts = {name: getattr(p, name) for name in _PARTS[:-2]} | {"low": low, "high": high}
        for i, label in enumerate(self._outputs()):
            for name, values in parts.items():
                table[label + name][good] = values.reshape(len(values), -1)[:, i]
        return table

    def _outputs(self) -> list[str]:
        """What stands before the names of the parts: nothing for one output, its name for several."""
        return [""] if len(self.outputs) == 1 else [f"{name}_" for name in self.outputs]


def _errors(
    model_file: Path, notes: Mapping[str, Any], features: tuple[str, ...], source: Source, x_err: list[str] | None
) -> ErrorSpec | None:
    """The errors that were told now, or else at the fit; None where the model knows them itself."""
    from eiv.modelfile import ModelFileError  # noqa: PLC0415
    from eiv.tables import ErrorSpec  # noqa: PLC0415

    if x_err:
        spec = ErrorSpec.parse(x_err, features, source.columns)
        spreads: Any = notes.get("spreads")
        if any(term.kind == "spread" for term in spec.terms.values()):
            if not _are_spreads(spreads, features):
                raise ValueError(f"--x-err: {model_file} does not know the spread of its training rows; give numbers.")
            spec = spec.with_spreads(spreads)
        return spec
    if "x_err" not in notes:
        return None
    try:
        spec = ErrorSpec.from_json(notes["x_err"])
    except ValueError as error:
        raise ModelFileError(f"{model_file}: {error}.") from error
    if tuple(spec.terms) != features:
        raise ModelFileError(f"{model_file}: its errors are not those of its features.")
    return None if spec.is_constant else spec


def _are_spreads(spreads: Any, features: tuple[str, ...]) -> bool:
    return (
        isinstance(spreads, dict)
        and set(spreads) == set(features)
        and all(isinstance(spread, int | float) for spread in spreads.values())
    )


def _rest(predictor: Predictor, rows: Rows, missing: Any, chunks: Iterator[Rows]) -> Any:
    """What is missing from here to the end of the table: it is counted before anything is said."""
    from eiv.cli.data import Missing  # noqa: PLC0415

    pieces = [predictor.numbers(rows), *(predictor.numbers(more) for more in chunks)]
    return Missing.of({name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]})


@contextlib.contextmanager
def _counting() -> Iterator[Callable[[int], None]]:
    """A line on stderr that says how many rows are done."""
    with errors.status("predicting") as status:
        yield lambda n_rows: status.update(f"predicting: {n_rows:,} rows")
