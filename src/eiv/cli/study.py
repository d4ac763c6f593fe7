"""`eiv study`: what each ingredient does, measured on problems whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eiv.cli.app import app, console, errors

study = typer.Typer(
    name="study", help="Measure what each ingredient does to coverage and accuracy.", no_args_is_help=True
)
app.add_typer(study)


@study.callback()
def _studies() -> None:
    """Keep `eiv study` a group of commands."""


@study.command()
def coverage(
    out: Annotated[Path, typer.Option(help="Folder for the results; a killed run goes on there.")] = Path("study"),
    realisations: Annotated[int, typer.Option(min=1, help="Data sets that are drawn of each problem.")] = 10,
    networks: Annotated[int, typer.Option(min=1, help="Networks for each of them.")] = 5,
    methods: Annotated[str, typer.Option(metavar="NAME;...", help="These methods only, parted by semicolons.")] = "",
    problems: Annotated[str, typer.Option(metavar="NAME,...", help="These problems only.")] = "",
    device: Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu or cuda.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and networks.")] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Replace results of other settings.")] = False,
) -> None:
    """Coverage of the truth, curve and output noise on the simulated sets, with uniform and with normal ζ."""
    from eiv.studies.coverage import study_coverage  # noqa: PLC0415  (slow to import)

    table = study_coverage(
        out,
        n_realisations=realisations,
        n_networks=networks,
        methods=[name.strip() for name in methods.split(";") if name.strip()],
        problems=[name.strip() for name in problems.split(",") if name.strip()],
        device=device,
        seed=seed,
        restart=restart,
        console=errors,
    )
    columns = {
        "truth_moment_0.95": "truth (moments)",
        "truth_quantile_0.95": "truth (quantiles)",
        "labels_0.95": "labels",
        "rmse_ratio": "RMSE / best",
        "clean_rmse": "error of f",
        "y_noise_ratio": "σ_y / true",
    }
    shown = Table(title="Means over data sets and networks; coverages of 95 % intervals")
    for heading in ("problem", "ζ", "method"):
        shown.add_column(heading, no_wrap=True)
    for heading in columns.values():
        shown.add_column(heading, justify="right")
    means = table.groupby(["problem", "zeta", "method"], sort=False)[list(columns)].mean()
    for index, row in means.iterrows():
        shown.add_row(*index, *(f"{value:.3f}" for value in row))
    console.print(shown)
    console.print(f"Table: {out / 'coverage.csv'}")
