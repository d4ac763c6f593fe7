"""`eiv info`: what a model file holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from eiv.cli.app import app, console, harmless, interruptible, printable


@app.command()
def info(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole header as JSON, for programs.")] = False,
) -> None:
    """Show what a model file holds: features and their errors, settings, training, scores.

    The file is checked, and so are the weights in it.
    """
    with interruptible(None):
        from eiv.io.modelfile.container import complaints  # noqa: PLC0415  (slow to import)
        from eiv.io.modelfile.models import checked_header  # noqa: PLC0415
        from eiv.report.provenance import header_lines  # noqa: PLC0415

        header = checked_header(model)
        if as_json:
            console.out(_as_json(header), highlight=False)
            return
        shown = Table(title=f"{printable(model)}", title_justify="left", show_header=False)
        shown.add_column("")
        shown.add_column("", overflow="fold")
        with complaints(model):
            for name, value in header_lines(header):
                shown.add_row(name, printable(value))
        console.print(shown)


def _as_json(header: dict[str, Any]) -> str:
    """The header as JSON, with control characters and those that a terminal cannot show written as escapes."""
    text = json.dumps(header, indent=2, ensure_ascii=False)
    is_utf = (sys.stdout.encoding or "").lower().startswith("utf")
    return text if is_utf and harmless(text) == text else json.dumps(header, indent=2)
