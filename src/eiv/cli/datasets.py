"""`eiv datasets`: the data sets of the paper."""

from __future__ import annotations

from rich.table import Table

from eiv.cli.app import app, console, interruptible


@app.command()
def datasets() -> None:
    """List the thirteen data sets of the paper, and say which are at hand."""
    with interruptible(None):
        from eiv.datasets import overview  # noqa: PLC0415

        table = overview()
        shown = Table(title="Data sets")
        for column in table.columns:
            shown.add_column(str(column), overflow="fold")
        for row in table.itertuples(index=False):
            shown.add_row(*map(str, row))
        console.print(shown)
