"""`eiv report`: the page of a reproduction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eiv.cli.app import app, console


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
