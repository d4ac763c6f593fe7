"""`eiv study`: what each ingredient does, measured on problems whose truth is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from eiv.cli.app import app, console, errors, resumable

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
    with resumable(out):
        from eiv.studies.coverage import study_coverage  # noqa: PLC0415  (slow to import)
        from eiv.studies.coverage_page import write_coverage_page  # noqa: PLC0415

        table = study_coverage(
            out,
            n_realisations=realisations,
            n_networks=networks,
            methods=_names(methods, ";"),
            problems=_names(problems),
            device=device,
            seed=seed,
            restart=restart,
            console=errors,
        )
        columns = {
            "truth_moment_0.95": "truth (moments)",
            "truth_quantile_0.95": "truth (quantiles)",
            "labels_0.95": "labels",
            "rmse_ratio": "RMSE / limit",
            "clean_rmse": "error of f",
            "y_noise_ratio": "σ_y / true",
        }
        keys = {"problem": "problem", "zeta": "ζ", "method": "method"}
        _show("Means over data sets and networks; coverages of 95 % intervals", table, keys, columns)
        console.print(f"Report: {write_coverage_page(out)}   tables and figures: {out}/")


@study.command()
def posteriors(
    out: Annotated[Path, typer.Option(help="Folder for the results; a killed run goes on there.")] = Path("posteriors"),
    data_sets: Annotated[str, typer.Option(metavar="NAME,...", help="These data sets only.")] = "",
    families: Annotated[str, typer.Option(metavar="NAME,...", help="These families only.")] = "",
    networks: Annotated[int, typer.Option(min=1, help="Networks for each data set, method and family.")] = 10,
    ensembles: Annotated[
        int | None, typer.Option(min=1, help="Ensembles of five networks, where not as many as networks.")
    ] = None,
    epochs_share: Annotated[float, typer.Option(help="Train this share of the paper's epochs, for a trial.")] = 1.0,
    device: Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu or cuda.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of data, splits and networks.")] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Replace results of other settings.")] = False,
) -> None:
    """All families of weight posteriors, EiV and non-EiV, on ten data sets: coverage, scores and times."""
    with resumable(out):
        from eiv.studies.posteriors import study_posteriors  # noqa: PLC0415  (slow to import)
        from eiv.studies.posteriors_page import write_posteriors_page  # noqa: PLC0415

        table = study_posteriors(
            out,
            data_sets=_names(data_sets),
            families=_names(families),
            n_networks=networks,
            n_ensembles=ensembles,
            epochs_share=epochs_share,
            device=device,
            seed=seed,
            restart=restart,
            console=errors,
        )
        columns = {
            "truth_coverage": "truth",
            "label_coverage_total": "labels",
            "crps": "CRPS",
            "training_s": "fit, s",
        }
        keys = {"dataset": "data set", "method": "method", "family": "family"}
        _show("Means over networks: coverages, CRPS of labels, seconds a network", table, keys, columns)
        console.print(f"Report: {write_posteriors_page(out)}   tables and figures: {out}/")


def _names(text: str, separator: str = ",") -> list[str]:
    return [name.strip() for name in text.split(separator) if name.strip()]


def _show(title: str, table: Any, keys: dict[str, str], columns: dict[str, str]) -> None:
    """The means of some columns for each choice of the keys."""
    shown = Table(title=title)
    for heading in keys.values():
        shown.add_column(heading, no_wrap=True)
    for heading in columns.values():
        shown.add_column(heading, justify="right")
    means = table.groupby(list(keys), sort=False)[list(columns)].mean()
    for index, row in means.iterrows():
        shown.add_row(*index, *("–" if math.isnan(value) else f"{value:.3f}" for value in row))
    console.print(shown)
