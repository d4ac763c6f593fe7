"""The command line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import eiv

app = typer.Typer(
    name="eiv",
    help="Regression for inputs that carry error bars (Errors-in-Variables).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()
errors = Console(stderr=True)


def main() -> None:
    """Run the command line; an error that the user can do something about is one sentence and exit status 2."""
    try:
        app()
    except (ValueError, TypeError, OSError) as error:
        errors.print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        raise SystemExit(2) from None


@app.callback(invoke_without_command=True)
def _common(version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False) -> None:
    if version:
        console.print(f"eiv {eiv.__version__}", highlight=False)
        raise typer.Exit


@app.command()
def reproduce(
    profile: Annotated[
        str,
        typer.Option(help="quick: the four simulated sets, few networks. full: 13 sets, 10 networks, as the paper."),
    ] = "quick",
    only: Annotated[str, typer.Option(metavar="NAME,...", help="These data sets only.")] = "",
    networks: Annotated[int | None, typer.Option(help="Networks for each data set and method.")] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu or cuda.")] = "auto",
    out: Annotated[Path, typer.Option(help="Folder for the results; a killed run goes on there.")] = Path(
        "reproduction"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of data, splits and networks.")] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Replace results of other settings.")] = False,
) -> None:
    """Renew the paper's results: train, evaluate, draw all figures, and check every claim."""
    from eiv.paper.report import notice, write_report  # noqa: PLC0415  (slow to import)
    from eiv.paper.run import reproduce as run  # noqa: PLC0415

    started = time.perf_counter()
    names = [name.strip() for name in only.split(",") if name.strip()]
    tables = run(
        out, profile, only=names, n_networks=networks, device=device, seed=seed, restart=restart, console=errors
    )
    page = write_report(tables, out)
    _show_claims(tables)
    console.print(notice(tables), highlight=False)
    console.print(f"Report: {page}   tables and figures: {out}/   ({time.perf_counter() - started:.0f} s)")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a reproduction.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The page; DIR/report.html by default. Markdown where it ends in .md."),
    ] = None,
) -> None:
    """Make the page of a run again from its tables, without training."""
    from eiv.paper.report import write_report  # noqa: PLC0415
    from eiv.paper.tables import Tables  # noqa: PLC0415

    console.print(f"Report: {write_report(Tables.read(folder), folder, out)}")


@app.command()
def datasets() -> None:
    """List the thirteen data sets of the paper, and say which are at hand."""
    from eiv.datasets import overview  # noqa: PLC0415

    table = overview()
    shown = Table(title="Data sets")
    for column in table.columns:
        shown.add_column(str(column), overflow="fold")
    for row in table.itertuples(index=False):
        shown.add_row(*map(str, row))
    console.print(shown)


def _show_claims(tables: object) -> None:
    from eiv.paper.claims import check_claims  # noqa: PLC0415

    colours = {"holds": "green", "does not hold": "red", "cannot tell": "yellow", "not run": "yellow"}
    shown = Table(title="What the paper says")
    shown.add_column("claim")
    shown.add_column("verdict", no_wrap=True)
    for claim in check_claims(tables):  # type: ignore[arg-type]
        shown.add_row(claim.sentence, f"[{colours[claim.verdict]}]{claim.verdict}[/]")
    console.print(shown)
