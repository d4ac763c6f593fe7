"""`eiv predict`: apply a model to a table, block by block."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from eiv.cli.app import app, check_output, console, counting, interruptible, printable, resumable, show_warning
from eiv.cli.predicting import Job, predict_table
from eiv.cli.shared import (
    Decimal,
    ErrorOfLabels,
    ErrorsOfRows,
    EscapeFormulas,
    Level,
    ModelFile,
    Prefix,
    PriorOfRows,
    Separator,
)


@app.command()
def predict(  # noqa: PLR0913  (a command)
    model_file: ModelFile,
    data: Annotated[
        Path,
        typer.Argument(
            help="The new rows: CSV, Parquet, Excel (.xlsx), FITS, ECSV or VOTable; or a folder of such tables."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="OUT", help="The table to write: .csv, .csv.gz, .parquet; or a folder."),
    ],
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
    escape_formulas: EscapeFormulas = False,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="For a folder of tables: where they are predicted. loky, processes on this machine (the default); "
            "ray or dask, a cluster (see docs/scale.md).",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", help="For a folder: the tables at once; by default as many as there are cores.")
    ] = -1,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Predict new rows, each with the components of its uncertainty.

    OUT has all columns of the table and its rows in order, then the columns mean, std, epistemic, aleatoric, noise,
    total, low, high, likeness and unlike. The last is true where a row is unlike the training rows. Where the size of
    the errors was learned, of_size stands behind epistemic: the part of it that is there because that size is not known
    exactly. For a model of classes they are P(NAME) for each class, predicted, the components of the entropy in nats
    (label, aleatoric, epistemic), likeness and unlike.
    The table may be larger than memory.

    DATA may be a folder of tables, and OUT is a folder then. Each table is predicted by itself, several at once, and
    one that is there already is not predicted again. A table that fails does not keep the others from being predicted;
    the exit status is then 1, and a list at the end says why.
    """
    job = Job(
        model_file,
        tuple(x_err or ()),
        y_err,
        input_prior,
        level,
        of,
        prefix,
        drop_missing,
        separator,
        decimal,
        escape_formulas,
    )
    if data.is_dir():
        from eiv.cli.folders import predict_folder  # noqa: PLC0415

        with resumable(out):
            job.check()
            if jobs != -1 and jobs < 1:
                raise ValueError(f"--jobs must be a number of tables at once, or -1 for one per core, got {jobs}.")
            predict_folder(job, data, out, force, (backend or "loky", jobs))
        return
    if backend is not None or jobs != -1:
        raise ValueError(f"--backend and --jobs are for a folder of tables, and {data} is none.")
    with interruptible(out, force):
        job.check()
        check_output(out, force, data, model_file)
        started = time.perf_counter()
        with counting("predicting") as count:
            found = predict_table(job, data, out, count)
        seconds = time.perf_counter() - started
        for words in found.warnings:
            show_warning(words)
        for words in found.words:
            console.print(printable(words), highlight=False)
        left = f", {found.n_empty:,} of them without a prediction" if found.n_empty else ""
        console.print(
            f"{printable(out)}: {found.n_rows:,} rows{left}   "
            f"({seconds:.0f} s, {found.n_rows / seconds:,.0f} rows per second)",
            highlight=False,
        )
