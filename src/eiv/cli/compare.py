"""`eiv compare`: eiv and other methods side by side on a table of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console

from eiv.cli.app import app, console, errors, printable, resumable, show_warning, small_table
from eiv.cli.shared import (
    Decimal,
    Drop,
    DropMissing,
    Feature,
    Groups,
    Restart,
    Separator,
    SettingsOfModel,
    TableFile,
    Target,
)
from eiv.extras import needs
from eiv.io.files import write_whole

if TYPE_CHECKING:
    from eiv import Comparison
    from eiv.cli.data import TrainingTable
    from eiv.cli.options import FitOptions
    from eiv.comparison import Task

_HEADINGS = {
    "rmse": "\nRMSE",
    "crps": "\nCRPS",
    "behind": "above\nthe best",
    "labels_0.95": "in\n95 %",
    "labels_small_errors": "small\nerrors",
    "labels_large_errors": "large\nerrors",
    "seconds": "CPU\ns",
}


@app.command()
def compare(  # noqa: PLR0913  (a command)
    data: TableFile,
    target: Target = None,
    x_err: Annotated[
        list[str] | None,
        typer.Option(metavar="COL=VALUE", help="The error of a column, in the forms that eiv fit takes."),
    ] = None,
    y_err: Annotated[
        str | None, typer.Option(metavar="VALUE", help="The known error of the target, in the forms of eiv fit.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the results; an interrupted run continues there.")
    ] = Path("compare"),
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help="These methods only, such as eiv,gaussian_process,simex_plane."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    most_rows: Annotated[
        int | None, typer.Option(min=10, help="Compare on this many rows at most, chosen at random.")
    ] = None,
    feature: Feature = None,
    drop: Drop = None,
    groups: Groups = None,
    recipe: Annotated[
        str | None, typer.Option(metavar="NAME", help="The values of eiv's settings that are not given, as in eiv fit.")
    ] = None,
    likelihood: Annotated[
        str | None, typer.Option(metavar="NAME", help="How eiv takes labels to scatter, as in eiv fit.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Options from a file, the one that eiv fit reads.")
    ] = None,
    settings: SettingsOfModel = None,
    drop_missing: DropMissing = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of folds and methods; 0 by default.")] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    restart: Restart = False,
) -> None:
    """Compare eiv with what else one would try, in cross-validation on a table.

    Every method fits four fifths of the rows and predicts the rest, five times. The command shows scores, and says in a
    sentence which method to take and why, also where it is not eiv.
    """
    needs("eiv compare", "matplotlib", extra="report")
    given = {
        "target": target,
        "x_err": x_err,
        "y_err": y_err,
        "feature": feature,
        "drop": drop,
        "groups": groups,
        "recipe": recipe,
        "likelihood": likelihood,
        "drop_missing": drop_missing,
        "seed": seed,
        "separator": separator,
        "decimal": decimal,
        "settings": settings,
    }
    chosen = [name.strip() for name in ",".join(methods or []).split(",") if name.strip()] or None
    with resumable(out):
        from eiv.cli.options import FitOptions  # noqa: PLC0415  (slow to import)
        from eiv.experiments.comparisons import resumed_comparison  # noqa: PLC0415
        from eiv.experiments.runs import RunOptions  # noqa: PLC0415

        options = FitOptions.of({name: value for name, value in given.items() if value != []}, config)
        table = _read(data, options)
        task = _task(table, options, folds, most_rows)
        _show_table(data, table, task)
        found = resumed_comparison(
            task,
            out,
            methods=chosen,
            seed=options.seed,
            arguments=_arguments(options),
            options=RunOptions(restart=restart, console=errors if errors.is_terminal else Console(quiet=True)),
        )
        _write(found, out)
        _show(found, out)


def _read(data: Path, options: FitOptions) -> TrainingTable:
    from eiv.cli.data import TrainingTable  # noqa: PLC0415
    from eiv.io.tables import open_table  # noqa: PLC0415

    table = TrainingTable.of(open_table(data, options.separator, options.decimal), options)
    if table.has_classes:
        raise ValueError(f"{data}: {options.target!r} holds classes; eiv compare is for numbers.")
    if table.spec.dof is not None:
        raise ValueError("--x-err: eiv compare takes errors of a known size, for all methods; leave out dof=.")
    return table


def _task(table: TrainingTable, options: FitOptions, n_folds: int, most_rows: int | None) -> Task:
    """The rows to compare on, and their folds."""
    from eiv.comparison import Task  # noqa: PLC0415

    rows = np.arange(len(table.y))
    if most_rows is not None and most_rows < len(rows):
        rows = np.sort(np.random.default_rng(options.seed).permutation(rows)[:most_rows])
    n_units = len(rows) if table.groups is None else len(np.unique(table.groups[rows]))
    if n_units < n_folds:
        raise ValueError(f"--folds {n_folds}: there are {n_units} rows or groups, and each fold needs one.")
    return Task.of(
        table.X.iloc[rows],
        table.y[rows],
        X_err=table.x_err if table.X_err is None else table.X_err[rows],
        y_err=None if table.y_err is None else table.y_err[rows],
        groups=None if table.groups is None else table.groups[rows],
        n_folds=n_folds,
        seed=options.seed,
    )


def _arguments(options: FitOptions) -> dict[str, Any]:
    """The arguments of `EiVRegressor`."""
    likelihood = {} if options.likelihood is None else {"likelihood": options.likelihood}
    return {"recipe": options.recipe, **likelihood} | options.settings


def _show_table(data: Path, table: TrainingTable, task: Task) -> None:
    shown = ", ".join(f"{name} ({term})" for name, term in table.spec.terms.items())
    of = f" of {len(table.y):,}" if len(task.y) < len(table.y) else ""
    console.print(
        f"{printable(data)}: {len(task.y):,}{of} rows, {len(task.folds)} folds. Features with their errors: "
        f"{printable(shown)}.",
        highlight=False,
    )
    if table.spec.is_exact:
        console.print("No errors of the inputs were given (--x-err), so they are taken as exact.")
    if task.has_laws:
        console.print("eiv takes the laws of the errors as they are, the others by mean and standard deviation.")


def _write(found: Comparison, out: Path) -> None:
    """Scores, sentence and figure."""
    from eiv.plotting import save  # noqa: PLC0415

    table = found.to_frame()
    write_whole(out / "compare.csv", table.to_csv(float_format="%.6g"))
    skipped = [f"Skipped: {name} ({why})." for name, why in found.skipped.items()]
    write_whole(out / "compare.txt", "\n".join([found.sentence, *skipped]) + "\n")
    save(found.plot(), out / "compare")


def _show(found: Comparison, out: Path) -> None:
    table = found.to_frame()
    columns = [name for name in _HEADINGS if name in table]
    title = f"Cross-validation on {len(found.task.y):,} rows, best CRPS first"
    shown = small_table(title, ["method"], [_HEADINGS[name] for name in columns])
    for name, row in table.iterrows():
        shown.add_row(str(name), *(_cell(column, row[column], row["behind_se"]) for column in columns))
    console.print(shown)
    for name, why in found.skipped.items():
        console.print(f"Skipped: {name} ({printable(why)}).", highlight=False)
    for note in found.notes:
        show_warning(note)
    console.print(found.sentence, highlight=False)
    console.print(f"Results: {printable(out)}/compare.csv, .txt, .svg and .png", highlight=False)


def _cell(column: str, value: float, error: float) -> str:
    if column.startswith("labels"):
        return f"{value:.3f}"
    if column == "behind":
        return f"{value:.2g} ± {error:.1g}" if value else "–"
    return f"{value:.2g}" if column == "seconds" else f"{value:.4g}"
