"""What the commands share: the application, its two consoles, and how outputs are guarded."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import eiv

INTERRUPTED = 130  # exit status after Ctrl-C, as a shell has it

app = typer.Typer(
    name="eiv",
    help="Regression for inputs that carry error bars (Errors-in-Variables).\n\n"
    "From a table to an answer: `eiv fit` learns a model from a table, `eiv predict` applies it to new rows with an "
    "uncertainty for each, `eiv explain` says where that of one row comes from, `eiv report` makes a page to show, "
    "`eiv info` says what a model file holds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()
errors = Console(stderr=True)


@app.callback(invoke_without_command=True)
def _common(version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False) -> None:
    if version:
        console.print(f"eiv {eiv.__version__}", highlight=False)
        raise typer.Exit


def complain(error: object) -> None:
    """One sentence on stderr."""
    errors.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as a sentence on stderr, without the line of code that it comes from."""
    errors.print(f"[bold yellow]warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True)


def small_table(title: str, words: Iterable[str], numbers: Iterable[str]) -> Table:
    """A table for 80 columns, some of words and then some of numbers, of which none is ever cut."""
    shown = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True
    )
    for heading in words:
        shown.add_column(heading, overflow="fold")
    for heading in numbers:
        shown.add_column(heading, overflow="fold", justify="right", no_wrap=True)
    return shown


def check_output(out: Path, force: bool, *inputs: Path) -> None:
    """Raise a ValueError where a file would be lost, before any work is done."""
    if out.is_dir():
        raise ValueError(f"{out} is a folder; give the name of a file.")
    if any(out.exists() and path.exists() and out.samefile(path) for path in inputs):
        raise ValueError(f"{out} is an input; choose another name for the output.")
    if out.exists() and not force:
        raise ValueError(f"{out} is there already; use --force to replace it.")
    folder = next(folder for folder in out.absolute().parents if folder.exists())  # others are made
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(f"{out} cannot be written: {folder}: {os.strerror(error.errno or 0)}.") from error


@contextlib.contextmanager
def interruptible(out: Path | None) -> Iterator[None]:
    """End at Ctrl-C with a sentence on what was kept: outputs appear whole or not at all."""
    before = _stamp(out)
    try:
        yield
    except KeyboardInterrupt:
        kept = "nothing was written"
        if out is not None:
            state = "is complete" if _stamp(out) != before else "is as it was before" if before else "was not written"
            kept = f"{out} {state}, nothing else is left"
        raise _interrupted(kept) from None


@contextlib.contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """End a long run at Ctrl-C with a sentence on what was kept: results of single units, each written whole."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"finished units are kept in {folder}, and the same command goes on there"
        raise _interrupted(kept if folder.exists() else "no unit was finished, nothing was written") from None


def _interrupted(kept: str) -> typer.Exit:
    errors.print(f"[bold red]interrupted:[/] {escape(kept)}.", highlight=False, soft_wrap=True)
    return typer.Exit(INTERRUPTED)


def _stamp(out: Path | None) -> tuple[int, int] | None:
    """What changes where a file is replaced; None where there is none."""
    if out is None or not out.exists():
        return None
    status = out.stat()
    return status.st_ino, status.st_mtime_ns
