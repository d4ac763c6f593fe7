"""Arguments and options that several commands have, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Tables and models
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, as `eiv fit` writes it.")]
TableFile = Annotated[Path, typer.Argument(help="The table: CSV, Parquet, Excel (.xlsx), FITS, ECSV or VOTable.")]
TableOut = Annotated[
    Path, typer.Option("--out", "-o", metavar="OUT", help="The table to write: .csv, .csv.gz, .parquet.")
]
Separator = Annotated[str | None, typer.Option(help="Separator of the cells of a CSV; found if not given.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal sign of a CSV, . or ,; found if not given.")]
Prefix = Annotated[str, typer.Option(help="A prefix for the names of the new columns.")]
EscapeFormulas = Annotated[
    bool,
    typer.Option(
        "--escape-formulas",
        help="Put an apostrophe before texts of a CSV that begin with =, +, -, @, a tab or a carriage return, so that "
        "no spreadsheet runs them as formulas; numbers stay as they are.",
    ),
]

# What a model learns from
Target = Annotated[str | None, typer.Option(metavar="COL", help="The column to predict.")]
Feature = Annotated[
    list[str] | None, typer.Option(metavar="COL,...", help="Learn from these columns only; by default from all.")
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COL,...", help="Leave these columns out.")]
Groups = Annotated[
    str | None, typer.Option(metavar="COL", help="Rows of one group are held out together; not a feature.")
]
DropMissing = Annotated[
    bool | None, typer.Option("--drop-missing", help="Leave out rows that hold missing or infinite values.")
]
SettingsOfModel = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of EiVRegressor, such as epochs=200."),
]

# Rows that a model is applied to
ErrorsOfRows = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL=VALUE",
        help="The error of a column in these rows, in the same forms as in `eiv fit`; other columns keep theirs. VALUE "
        "without a column holds for all columns.",
    ),
]
ErrorOfLabels = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE",
        help="The known error of labels in these rows: a number in the target's unit, 5%sd of the spread of the "
        "training labels, or the name of a column; by default as in the fit, where the table has what it needs.",
    ),
]
LabelsOfRows = Annotated[
    str | None,
    typer.Option(metavar="COL", help="The column with labels, that is measured values; by default the model's target."),
]
PriorOfRows = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Where the true inputs of these rows lie, if they are of another population than the training rows: "
        "normal or mixture, learned from the rows of DATA and their errors, or flat; by default as in the fit.",
    ),
]
DropIncomplete = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows whose inputs are missing or infinite.")
]
Level = Annotated[float, typer.Option(help="Probability of the interval from low to high.")]

# Experiments
Folder = Annotated[Path, typer.Option(help="Folder for the results; a killed run continues there.")]
Restart = Annotated[bool, typer.Option("--restart", help="Replace results of other settings.")]
Device = Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu or cuda.")]
Problems = Annotated[str, typer.Option(metavar="NAME,...", help="These problems only.")]
Realisations = Annotated[int, typer.Option(min=1, help="Data sets to draw per problem.")]
Backend = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Spread the work over a cluster: ray or dask (see docs/scale.md). By default over the cores.",
    ),
]
