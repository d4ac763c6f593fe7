"""`eiv reproduce`: the whole paper."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eiv.cli.app import app, check_seed, console, errors, printable, resumable
from eiv.cli.shared import Device, Folder, Restart
from eiv.extras import needs


@app.command()
def reproduce(
    profile: Annotated[
        str,
        typer.Option(help="quick: the four simulated sets, few networks. full: 13 sets, 10 networks, as in the paper."),
    ] = "quick",
    only: Annotated[str, typer.Option(metavar="NAME,...", help="These data sets only.")] = "",
    networks: Annotated[int | None, typer.Option(help="Networks per data set and method.")] = None,
    device: Device = "auto",
    out: Folder = Path("reproduction"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of data, splits and networks.")] = 0,
    restart: Restart = False,
) -> None:
    """Repeat the paper's results: train, evaluate, draw all figures, and check every claim."""
    needs("eiv reproduce", "jinja2", "matplotlib", extra="report")
    with resumable(out):
        check_seed(seed)
        from eiv.experiments.paper.report import notice, write_report  # noqa: PLC0415  (slow to import)
        from eiv.experiments.paper.run import reproduce as run  # noqa: PLC0415

        started = time.perf_counter()
        names = [name.strip() for name in only.split(",") if name.strip()]
        tables = run(
            out, profile, only=names, n_networks=networks, device=device, seed=seed, restart=restart, console=errors
        )
        page = write_report(tables, out)
        _show_claims(tables)
        console.print(notice(tables), highlight=False)
        made = f"Report: {printable(page)}   tables and figures: {printable(out)}/"
        console.print(f"{made}   ({time.perf_counter() - started:.0f} s)")


def _show_claims(tables: object) -> None:
    from eiv.experiments.paper.claims import check_claims  # noqa: PLC0415

    colours = {"holds": "green", "does not hold": "red", "cannot tell": "yellow", "not run": "yellow"}
    shown = Table(title="What the paper says")
    shown.add_column("claim")
    shown.add_column("verdict", no_wrap=True)
    for claim in check_claims(tables):  # type: ignore[arg-type]
        shown.add_row(claim.sentence, f"[{colours[claim.verdict]}]{claim.verdict}[/]")
    console.print(shown)
