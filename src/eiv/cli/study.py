"""`eiv study`: what each ingredient does, measured on problems whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eiv.cli.app import app, check_seed, console, errors, printable, resumable, small_table
from eiv.extras import needs

if TYPE_CHECKING:
    import pandas as pd

_METHODS = ("non-EiV", "paper", "ours")  # that are shown where none are chosen
_SCORES = {
    "truth_moment_0.95": "truth,\nmoments",
    "truth_quantile_0.95": "truth,\nquantiles",
    "labels_0.95": "\nlabels",
    "rmse_ratio": "RMSE /\nlimit",
    "clean_rmse": "error\nof f",
    "y_noise_ratio": "σ_y /\ntrue",
}

study = typer.Typer(
    name="study", help="Measure what recipes and weight posteriors do to coverage and accuracy.", no_args_is_help=True
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
    needs("eiv study", "jinja2", "matplotlib", extra="report")
    with resumable(out):
        check_seed(seed)
        from eiv.experiments.studies.coverage import study_coverage  # noqa: PLC0415  (slow to import)
        from eiv.experiments.studies.coverage_page import write_coverage_page  # noqa: PLC0415

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
        _show_coverage(table, _names(methods, ";") or _METHODS)
        _show_page(write_coverage_page(out), out)


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
    times: Annotated[
        bool, typer.Option("--times/--no-times", help="Measure times, one unit after the other; or run side by side.")
    ] = True,
    restart: Annotated[bool, typer.Option("--restart", help="Replace results of other settings.")] = False,
) -> None:
    """All families of weight posteriors, EiV and non-EiV, on ten data sets: coverage, scores and times."""
    needs("eiv study", "jinja2", "matplotlib", extra="report")
    with resumable(out):
        check_seed(seed)
        from eiv.experiments.studies.posteriors import study_posteriors  # noqa: PLC0415  (slow to import)
        from eiv.experiments.studies.posteriors_page import write_posteriors_page  # noqa: PLC0415

        table = study_posteriors(
            out,
            data_sets=_names(data_sets),
            families=_names(families),
            n_networks=networks,
            n_ensembles=ensembles,
            epochs_share=epochs_share,
            device=device,
            seed=seed,
            times=times,
            restart=restart,
            console=errors,
        )
        _show_posteriors(table)
        _show_page(write_posteriors_page(out), out)


def _names(text: str, separator: str = ",") -> list[str]:
    return [name.strip() for name in text.split(separator) if name.strip()]


def _show_page(page: Path, out: Path) -> None:
    console.print(f"Report: {printable(page)}   tables and figures: {printable(out)}/")


def _show_coverage(table: pd.DataFrame, methods: Sequence[str]) -> None:
    """Some methods, problem by problem; the others and the standard errors are on the page."""
    means = table.groupby(["problem", "zeta", "method"], sort=False)[list(_SCORES)].mean()
    shown = small_table("Means over data sets and networks; coverages of 95 % intervals", [""], _SCORES.values())
    for (problem, zeta), rows in means.groupby(level=[0, 1], sort=False):
        shown.add_row(f"{problem}, {zeta} ζ", style="bold")
        for method, row in rows.droplevel([0, 1]).reindex(methods).dropna(how="all").iterrows():
            shown.add_row(f"  {method}", *(f"{value:.3f}" for value in row))
    console.print(shown)


def _show_posteriors(table: pd.DataFrame) -> None:
    """The families in short, as on the page."""
    from eiv.experiments.studies.posteriors_page import overview  # noqa: PLC0415

    content = overview(table)
    title = "Means over data sets; CRPS and times as ratios to Bernoulli dropout"
    headings = [heading.replace(" ", "\n") for heading in content.headings]
    shown = small_table(title, headings[:2], headings[2:])
    for row in content.rows:
        shown.add_row(*(cell.text for cell in row))
    console.print(shown)
