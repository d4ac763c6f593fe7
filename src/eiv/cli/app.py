"""Code that the commands share: the application, its two consoles, and the protection of output files."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

import eiv
from eiv.io.files import check_plain, only_new


class Commands(TyperGroup):
    """The commands. Before one has begun, signals and closed pipes are handled as they are during a command."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the command line."""
        with interruptible(None):
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with interruptible(None), _perhaps_unread():
            return super().invoke(ctx)

    def format_help(self, *arguments: Any) -> None:
        """Print the help of the commands."""
        with _perhaps_unread():
            super().format_help(*arguments)


@contextlib.contextmanager
def _perhaps_unread() -> Iterator[None]:
    """Continue where nobody reads typer's help; rich, which writes it, would end the process with status 1."""
    try:
        yield
    except BrokenPipeError:
        console.on_broken_pipe()
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise


app = typer.Typer(
    name="eiv",
    cls=Commands,
    help="Regression for inputs that carry error bars (Errors-in-Variables).\n\n"
    "From a table to an answer: `eiv fit` fits a model to a table, `eiv predict` applies it to new rows with an "
    "uncertainty for each, `eiv explain` says where the uncertainty of one row comes from, `eiv report` makes a page "
    "to show to colleagues, `eiv info` says what a model file holds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Talk(Console):
    """A console that survives a closed pipe or a full disk, and shows control characters as harmless text."""

    failure: OSError | None = None  # why output was lost, unless the reader closed the pipe

    def on_broken_pipe(self) -> None:
        """Stop printing where the pipe is closed, instead of ending the command."""
        self.quiet = True
        with contextlib.suppress(OSError, ValueError):  # no descriptor
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())
            os.close(nowhere)

    def finish(self) -> None:
        """Flush the stream, which others may have written to."""
        try:
            self.file.flush()
        except BrokenPipeError:
            self.on_broken_pipe()
        except OSError as error:
            self.on_failure(error)
        except ValueError:  # it is closed
            pass

    def _check_buffer(self) -> None:
        """Write what was printed; where that fails, as on a full disk, the command continues."""
        try:
            super()._check_buffer()
        except OSError as error:
            self.on_failure(error)

    def on_failure(self, error: OSError) -> None:
        """Keep the error for the end of the command, and write nothing more."""
        self.failure = error
        del self._buffer[:]
        self.on_broken_pipe()

    def render_str(self, text: str, **options: Any) -> Text:
        """Text to show, with the control characters of a terminal replaced."""
        return super().render_str(harmless(text), **options)


def harmless(text: str) -> str:
    """The text with every character replaced that controls a terminal or changes the direction of writing."""
    return _COMMANDS.sub("\ufffd", text)


def printable(text: object) -> str:
    """Text from a table, a model or a path, safe to print within one line."""
    return escape(harmless(str(text)).translate(_BREAKS))


_BREAKS = str.maketrans("\t\n", "\ufffd\ufffd")
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_LARGEST_SEED = 2**32 - 1
console = Talk()
errors = Talk(stderr=True)


@app.callback(invoke_without_command=True)
def _common(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        console.print(f"eiv {eiv.__version__}", highlight=False)
        raise typer.Exit


def complain(error: object) -> None:
    """Print an error on stderr, as one sentence."""
    if isinstance(error, OSError) and error.filename is not None:  # an error of the system has no sentence of its own
        error = f"{error.filename}: {error.strerror}."
    errors.print(f"[bold red]error:[/] {printable(error)}", highlight=False, soft_wrap=True)


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning on stderr, without the line of code that it comes from."""
    errors.print(f"[bold yellow]warning:[/] {printable(message)}", highlight=False, soft_wrap=True)


def small_table(title: str, words: Iterable[str], numbers: Iterable[str]) -> Table:
    """A table that fits into 80 characters: columns of words, then columns of numbers, which are never cut."""
    shown = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True
    )
    for heading in words:
        shown.add_column(heading, overflow="fold")
    for heading in numbers:
        shown.add_column(heading, overflow="fold", justify="right", no_wrap=True)
    return shown


def check_seed(seed: int) -> None:
    """Raise a ValueError for a seed that numpy does not accept."""
    if not 0 <= seed <= _LARGEST_SEED:
        raise ValueError(f"--seed must be a whole number from 0 to {_LARGEST_SEED:,}, got {seed}.")


def check_output(out: Path, force: bool, *inputs: Path) -> None:
    """Raise an error, before any work is done, where `out` would replace a file or cannot be written."""
    check_plain(out)
    if any(out.exists() and path.exists() and out.samefile(path) for path in inputs):
        raise ValueError(f"{out} is an input; choose another name for the output.")
    if out.exists() and not force:
        raise ValueError(f"{out} exists already; use --force to replace it.")
    folder = Path(os.path.realpath(out)).parent
    if not folder.exists():
        raise FileNotFoundError(f"{out} cannot be written: there is no folder {folder}.")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(f"{out} cannot be written: {folder}: {os.strerror(error.errno or 0)}.") from error


def replace_unknown_characters() -> None:
    """Let stdout and stderr replace characters that the terminal's encoding does not have, instead of failing."""
    codecs.register_error("eiv", _alike)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors != "eiv":
            stream.reconfigure(errors="eiv")


def _alike(error: UnicodeError) -> tuple[str, int]:
    """A character of the same width for each that cannot be encoded."""
    assert isinstance(error, UnicodeEncodeError)
    found = error.object[error.start : error.end]
    return "".join("#" if "\u2588" <= sign <= "\u258f" else _ALIKE.get(sign, "?") for sign in found), error.end


_ALIKE = {"–": "-", "—": "-", "−": "-", "…": ".", "×": "x", "ζ": "z", "θ": "t", "σ": "s", "·": "."}


class Ended(KeyboardInterrupt):
    """A signal that asks the command to end, from Ctrl-C, `kill` or a terminal that is closed."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, with the same clean-up; under nohup, SIGHUP stays ignored.

    Only the first signal counts. A second Ctrl-C, or the second SIGHUP that a shell sends, does not disturb the
    clean-up. Python drops an exception in a callback, such as those of its imports; the signal is then sent again.
    """
    before = {number: signal.getsignal(number) for number in _ENDING}
    numbers = [number for number in _ENDING if before[number] in (signal.SIG_DFL, signal.default_int_handler)]
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set handlers
        numbers = []

    def end(number: int, _: object) -> None:
        for again in numbers:
            signal.signal(again, signal.SIG_IGN)
        raise Ended(number)

    def handle() -> None:
        for number in numbers:
            signal.signal(number, end)

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if not isinstance(what.exc_value, Ended):
            hook(what)
            return
        handle()
        send = signal.raise_signal if os.name == "nt" else partial(os.kill, os.getpid())
        threading.Timer(0.01, send, (what.exc_value.number,)).start()  # when the callback has ended

    hook = sys.unraisablehook
    try:
        handle()
        sys.unraisablehook = dropped
        yield
    finally:
        sys.unraisablehook = hook
        for number in numbers:
            signal.signal(number, before[number])


def end_undisturbed() -> None:
    """Ignore Ctrl-C while the interpreter ends: all work is done, or cleaned up."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def interruptible(out: Path | None, force: bool = True) -> Iterator[None]:
    """At Ctrl-C, say what was kept and exit: outputs are written completely or not at all.

    Without `force`, a file `out` that appears during the block is not replaced.
    """
    before = _stamp(out)
    try:
        with contextlib.nullcontext() if force or out is None else only_new(out):
            yield
    except KeyboardInterrupt as error:
        kept = "nothing was written"
        if out is not None:
            state = "is complete" if _stamp(out) != before else "is as it was before" if before else "was not written"
            kept = f"{out} {state}, nothing else is left"
        raise _interrupted(kept, error) from None


@contextlib.contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """At Ctrl-C in a long run, say what was kept and exit: the results of single units, each written completely."""
    try:
        yield
    except KeyboardInterrupt as error:
        kept = f"finished units are kept in {folder}, and the same command continues there"
        kept = kept if folder.exists() else "no unit was finished, nothing was written"
        raise _interrupted(kept, error) from None


def _interrupted(kept: str, error: KeyboardInterrupt) -> typer.Exit:
    """Say what was kept; the exit status is 128 plus the number of the signal, as in a shell: 130 after Ctrl-C."""
    errors.print(f"[bold red]interrupted:[/] {printable(kept)}.", highlight=False, soft_wrap=True)
    return typer.Exit(128 + (error.number if isinstance(error, Ended) else signal.SIGINT))


def _stamp(out: Path | None) -> tuple[int, int] | None:
    """Numbers that change when a file is replaced; None where there is no file."""
    if out is None or not out.exists():
        return None
    status = out.stat()
    return status.st_ino, status.st_mtime_ns


@contextlib.contextmanager
def spread_over(backend: str | None) -> Iterator[None]:
    """Run independent work on a backend of joblib in the block; as usual without one."""
    if backend is None:
        yield
        return
    from eiv.io.clusters import parallel_config  # noqa: PLC0415  (slow to import)

    with parallel_config(backend, n_jobs=-1):
        yield


@contextlib.contextmanager
def counting(work: str) -> Iterator[Callable[[int], None]]:
    """A function that shows on stderr how many rows are done, after the word for what is done to them."""
    with errors.status(work) as status:
        yield lambda n_rows: status.update(f"{work}: {n_rows:,} rows")
