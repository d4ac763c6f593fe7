"""`eiv info`: what a model file holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from eiv.cli.app import app, console


@app.command()
def info(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="The whole header, for programs.")] = False,
) -> None:
    """Say what a model file holds: features and their errors, settings, training, scores. The file is checked."""
    from eiv.modelfile import read_header  # noqa: PLC0415  (slow to import)
    from eiv.modelfile.container import complaints  # noqa: PLC0415

    header = read_header(model)
    if as_json:
        typer.echo(json.dumps(header, indent=2, ensure_ascii=False))
        return
    shown = Table(title=f"{escape(str(model))}", title_justify="left", show_header=False)
    shown.add_column("")
    shown.add_column("", overflow="fold")
    with complaints(model):
        for name, value in _lines(header):
            shown.add_row(name, escape(value))
    console.print(shown)


def _lines(header: dict[str, Any]) -> list[tuple[str, str]]:
    notes, training = header["notes"], header["training"]
    versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
    names = header["features"]["names"]
    noise = ", ".join(f"{value:.4g}" for value in training["y_noise"])
    lines = [
        ("written by", f"{versions} (format {header['format']})"),
        ("features", f"{header['features']['n']}" + (f": {', '.join(names)}" if names else ", without names")),
    ]
    if "target" in notes:
        lines.append(("target", str(notes["target"])))
    if isinstance(notes.get("x_err"), dict):
        lines.append(("errors of the features", _errors(notes["x_err"])))
    if "rows" in notes:
        learned, left_out = notes.get("rows_learned_from", notes["rows"]), notes.get("rows_left_out", 0)
        lines.append(
            ("data", f"{notes.get('data')}: {notes['rows']} rows, {left_out} left out, learned from {learned}")
        )
    lines += [
        ("networks", f"{header['n_networks']}, {_network(header['settings'])}"),
        ("training", f"{training['epochs']} epochs, loss {training['first_loss']:.4g} to {training['last_loss']:.4g}"),
        ("noise of the target", noise),
        ("settings", _settings(header["settings"] | header["changed_since_fit"])),
    ]
    scores = notes.get("holdout")
    if isinstance(scores, dict):
        lines.append(("on rows held out", ", ".join(f"{name} {value:.4g}" for name, value in scores.items())))
    return lines


def _errors(content: dict[str, Any]) -> str:
    from eiv.tables import ErrorSpec  # noqa: PLC0415

    return "; ".join(f"{name}: {term}" for name, term in ErrorSpec.from_json(content).terms.items())


def _network(settings: dict[str, Any]) -> str:
    if settings["module"] is not None:
        return f"of the module {settings['module']}, which has to be given to EiVRegressor.load again"
    return f"{settings['n_hidden']} hidden layers of {settings['hidden_units']} units"


def _settings(settings: dict[str, Any]) -> str:
    """Those that are not the default ones."""
    from eiv import EiVRegressor  # noqa: PLC0415

    default = EiVRegressor().get_params(deep=False)
    changed = {name: value for name, value in settings.items() if value != default.get(name)}
    return ", ".join(f"{name}={value if not isinstance(value, dict) else '...'}" for name, value in changed.items())
