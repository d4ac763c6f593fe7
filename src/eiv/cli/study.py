"""`eiv study`: recipes, weight posteriors and other methods, measured on many problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eiv.cli.app import Commands, app, check_seed, console, errors, printable, resumable, small_table, spread_over
from eiv.cli.shared import Backend, Device, Folder, Problems, Realisations, Restart
from eiv.extras import needs

if TYPE_CHECKING:
    import pandas as pd

_METHODS = ("non-EiV", "paper", "ours with layers", "ours")  # shown in the terminal where no methods are chosen
_SCORES = {
    "truth_moment_0.95": "truth,\nmoments",
    "truth_quantile_0.95": "truth,\nquantiles",
    "labels_0.95": "\nlabels",
    "rmse_ratio": "RMSE /\nlimit",
    "clean_rmse": "error\nof f",
    "y_noise_ratio": "σ_y /\ntrue",
}
_TABLE_HEADINGS = {  # the columns of the page that fit into a terminal
    "RMSE / limit, median": "RMSE /\nlimit",
    "within 5 % of the best": "near\nbest",
    "error of f": "error\nof f",
    "truth": "\ntruth",
    "f at exact inputs": "\nf",
    "labels": "\nlabels",
    "σ_y / true": "σ_y /\ntrue",
    "CRPS / limit": "CRPS /\nlimit",
    "fit, s": "fit,\ns",
}

study = typer.Typer(
    name="study",
    cls=Commands,
    help="Measure coverage and accuracy: of recipes, weight posteriors and rivals.",
    no_args_is_help=True,
)
app.add_typer(study)


@study.callback()
def _studies(ctx: typer.Context, backend: Backend = None) -> None:
    """Measure coverage and accuracy: of recipes, weight posteriors and rivals."""
    ctx.with_resource(spread_over(backend))


@study.command()
def coverage(
    out: Folder = Path("study"),
    realisations: Realisations = 10,
    networks: Annotated[int, typer.Option(min=1, help="Networks per data set.")] = 5,
    methods: Annotated[str, typer.Option(metavar="NAME;...", help="These methods only, separated by semicolons.")] = "",
    problems: Problems = "",
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and networks.")] = 0,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Replace all results in the folder, also of methods and problems not run now."),
    ] = False,
) -> None:
    """Coverage of the truth, curve and output noise on the simulated sets, with uniform and with normal ζ."""
    needs("eiv study", "jinja2", "matplotlib", extra="report")
    with resumable(out):
        check_seed(seed)
        from eiv.experiments.runs import RunOptions  # noqa: PLC0415  (slow to import)
        from eiv.experiments.studies.coverage import study_coverage  # noqa: PLC0415
        from eiv.experiments.studies.coverage_page import write_coverage_page  # noqa: PLC0415

        table = study_coverage(
            out,
            n_realisations=realisations,
            n_networks=networks,
            methods=_names(methods, ";"),
            problems=_names(problems),
            seed=seed,
            options=RunOptions(device, restart=restart, console=errors),
        )
        _show_coverage(table, _names(methods, ";") or _METHODS)
        _show_page(write_coverage_page(out), out)


@study.command()
def posteriors(  # noqa: PLR0913  (a command)
    out: Folder = Path("posteriors"),
    data_sets: Annotated[str, typer.Option(metavar="NAME,...", help="These data sets only.")] = "",
    families: Annotated[str, typer.Option(metavar="NAME,...", help="These families only.")] = "",
    networks: Annotated[int, typer.Option(min=1, help="Networks per data set, method and family.")] = 10,
    ensembles: Annotated[
        int | None, typer.Option(min=1, help="Ensembles of five networks each; by default as many as networks.")
    ] = None,
    epochs_share: Annotated[float, typer.Option(help="Train this share of the paper's epochs, for a trial.")] = 1.0,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of data, splits and networks.")] = 0,
    times: Annotated[
        bool, typer.Option("--times/--no-times", help="Run one unit after the other, to measure times; or in parallel.")
    ] = True,
    restart: Restart = False,
) -> None:
    """All families of weight posteriors, EiV and non-EiV, on ten data sets: coverage, scores and times."""
    needs("eiv study", "jinja2", "matplotlib", extra="report")
    with resumable(out):
        check_seed(seed)
        from eiv.experiments.runs import RunOptions  # noqa: PLC0415  (slow to import)
        from eiv.experiments.studies.posteriors import study_posteriors  # noqa: PLC0415
        from eiv.experiments.studies.posteriors_page import write_posteriors_page  # noqa: PLC0415

        table = study_posteriors(
            out,
            data_sets=_names(data_sets),
            families=_names(families),
            n_networks=networks,
            n_ensembles=ensembles,
            epochs_share=epochs_share,
            seed=seed,
            options=RunOptions(device, times, restart, errors),
        )
        _show_posteriors(table)
        _show_page(write_posteriors_page(out), out)


@study.command()
def tables(
    out: Folder = Path("tables"),
    seeds: Annotated[
        str, typer.Option(metavar="A:B", help="Random problems from seed A up to B - 1; below 1000 for development.")
    ] = "1200:1300",
    methods: Annotated[str, typer.Option(metavar="NAME,...", help="These methods only.")] = "",
    real: Annotated[bool, typer.Option("--real/--no-real", help="Whether to run real tables.")] = True,
    random: Annotated[bool, typer.Option("--random/--no-random", help="Whether to run random problems.")] = True,
    most_rows: Annotated[int | None, typer.Option(min=20, help="The most rows to train with, for a trial.")] = None,
    device: Device = "auto",
    restart: Restart = False,
) -> None:
    """Single fits on random problems and real tables, by eiv and by other common methods."""
    needs("eiv study", "jinja2", "matplotlib", extra="report")
    with resumable(out):
        chosen = _range(seeds)
        from eiv.experiments.runs import RunOptions  # noqa: PLC0415  (slow to import)
        from eiv.experiments.studies.tables import study_tables  # noqa: PLC0415
        from eiv.experiments.studies.tables_page import write_tables_page  # noqa: PLC0415

        table = study_tables(
            out,
            seeds=chosen,
            methods=_names(methods),
            random=random,
            real=real,
            most_rows=most_rows,
            options=RunOptions(device, restart=restart, console=errors),
        )
        _show_tables(table)
        _show_page(write_tables_page(out), out)


@study.command("errors")
def wrong_errors(
    out: Folder = Path("errors"),
    realisations: Realisations = 2,
    rows: Annotated[int, typer.Option(min=50, help="Rows of each data set.")] = 300,
    problems: Problems = "",
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and networks.")] = 0,
    restart: Restart = False,
) -> None:
    """What errors of X of the wrong size cost on the simulated sets, and what learning their size gives back."""
    needs("eiv study", "jinja2", "matplotlib", extra="report")
    with resumable(out):
        check_seed(seed)
        from eiv.experiments.runs import RunOptions  # noqa: PLC0415  (slow to import)
        from eiv.experiments.studies.errors import study_errors  # noqa: PLC0415
        from eiv.experiments.studies.errors_page import write_errors_page  # noqa: PLC0415

        table = study_errors(
            out,
            n_realisations=realisations,
            n_rows=rows,
            problems=_names(problems),
            seed=seed,
            options=RunOptions(device, restart=restart, console=errors),
        )
        _show_errors(table)
        _show_page(write_errors_page(out), out)


def _range(text: str) -> range:
    """Seeds A to B - 1, from a text A:B."""
    first, _, last = text.partition(":")
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit() and int(first) < int(last)):
        raise ValueError(f"--seeds must be two whole numbers A:B with A < B, such as 0:20, got {text!r}.")
    return range(int(first), int(last))


def _names(text: str, separator: str = ",") -> list[str]:
    return [name.strip() for name in text.split(separator) if name.strip()]


def _show_page(page: Path, out: Path) -> None:
    console.print(f"Report: {printable(page)}   tables and figures: {printable(out)}/")


def _show_coverage(table: pd.DataFrame, methods: Sequence[str]) -> None:
    """Show some methods for each problem; the page has all methods and the standard errors."""
    means = table.groupby(["problem", "zeta", "method"], sort=False)[list(_SCORES)].mean()
    shown = small_table("Means over data sets and networks; coverages of 95 % intervals", [""], _SCORES.values())
    for (problem, zeta), rows in means.groupby(level=[0, 1], sort=False):
        shown.add_row(f"{problem}, {zeta} ζ", style="bold")
        for method, row in rows.droplevel([0, 1]).reindex(methods).dropna(how="all").iterrows():
            shown.add_row(f"  {method}", *(f"{value:.3f}" for value in row))
    console.print(shown)


def _show_posteriors(table: pd.DataFrame) -> None:
    """Show the summary of the families, as on the page."""
    from eiv.experiments.studies.posteriors_page import overview  # noqa: PLC0415

    content = overview(table)
    title = "Means over data sets; CRPS and times as ratios to Bernoulli dropout"
    headings = [heading.replace(" ", "\n") for heading in content.headings]
    shown = small_table(title, headings[:2], headings[2:])
    for row in content.rows:
        shown.add_row(*(cell.text for cell in row))
    console.print(shown)


def _show_tables(table: pd.DataFrame) -> None:
    """Show the summary of the methods, as on the page, if random problems were run."""
    from eiv.experiments.studies.tables_page import overview  # noqa: PLC0415

    random = table[table["kind"] == "random"]
    if random.empty:
        return
    content = overview(random)
    chosen = [content.headings.index(name) for name in _TABLE_HEADINGS]
    shown = small_table(content.caption, ["method"], _TABLE_HEADINGS.values())
    for row in content.rows:
        shown.add_row(row[0].text, *(row[i].text for i in chosen))
    console.print(shown)


def _show_errors(table: pd.DataFrame) -> None:
    """Show the means of the methods for each stated size, as on the page."""
    from eiv.experiments.studies.errors_page import overview  # noqa: PLC0415

    content = overview(table)
    headings = ["truth", "labels", "RMSE /\nlimit", "error\nof f", "σ_y /\ntrue"]
    shown = small_table("Means over problems and data sets", ["method"], ["stated /\ntrue", *headings])
    for row in content.rows:
        numbers = [cell.text.partition(" ±")[0] for cell in row[2:]]
        shown.add_row(row[1].text, row[0].text, *numbers)
    console.print(shown)
