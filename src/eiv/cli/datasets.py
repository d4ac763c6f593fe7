"""`eiv datasets`: the data sets of the paper."""

from __future__ import annotations

from pathlib import Path

from eiv.cli.app import app, console, interruptible, printable, small_table


@app.command()
def datasets() -> None:
    """List the thirteen data sets of the paper, and which of them are at hand."""
    with interruptible(None):
        from eiv.datasets import overview  # noqa: PLC0415

        table = overview()
        shown = small_table("Data sets", ["name", "source", "licence", "at hand"], ["rows", "features"])
        for row in table.itertuples(index=False):
            words = (row.name, row.source, row.licence, Path(row.at_hand).name)
            shown.add_row(*map(printable, words), f"{row.rows:,}", str(row.features))
        console.print(shown)
        files = table.query("kind == 'real' and at_hand != 'no'")["at_hand"]
        if len(files):
            folders = " and ".join(dict.fromkeys(str(Path(name).parent) for name in files))
            console.print(f"The files are in {printable(folders)}.", highlight=False, soft_wrap=True)
