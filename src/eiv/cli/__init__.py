"""The command line, one file per command."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
import warnings
from typing import Any

from eiv.extras import MissingExtraError, needs

try:
    needs("The command line", "typer", "rich", "pyarrow", extra="cli")
    from eiv.cli import (  # noqa: F401  (each adds its command)
        compare,
        datasets,
        denoise,
        explain,
        fit,
        info,
        predict,
        report,
        reproduce,
        sensitivity,
        study,
    )
    from eiv.cli.app import app, complain, end_undisturbed, ending_signals, replace_unknown_characters, show_warning
    from eiv.cli.app import console as console
    from eiv.cli.app import errors as errors
except MissingExtraError as missing:
    sys.stderr.write(f"error: {missing}\n")
    raise SystemExit(2) from None


def main() -> None:
    """Run the command line. An error that the user can fix is reported in one sentence, with exit status 2.

    The same holds where stdout or stderr cannot be written; the work is done all the same.
    """
    replace_unknown_characters()
    with ending_signals(), warnings.catch_warnings():
        warnings.showwarning = show_warning
        status = _status()
        for talk, name in ((console, "stdout"), (errors, "stderr")):
            talk.finish()
            if talk.failure is not None:
                complain(f"{name} could not be written: {os.strerror(talk.failure.errno or 0)}.")
                status = status or 2
    atexit.register(end_undisturbed)  # the last function to be registered runs first
    raise SystemExit(status)


def _status() -> Any:
    """Run the command line and return its exit status."""
    try:
        app()
    except SystemExit as end:
        unread = isinstance(end.__context__, BrokenPipeError)  # nobody read typer's message on wrong arguments
        return 2 if unread else end.code or 0
    except KeyboardInterrupt as error:  # before a command has begun
        sys.stderr.write("interrupted: nothing was written.\n")
        return 128 + getattr(error, "number", signal.SIGINT)
    except (ValueError, TypeError, ArithmeticError, OSError, MissingExtraError) as error:
        if isinstance(error, OSError) and _is_of_help(error):
            console.on_failure(error)  # `main` reports it, once
        else:
            complain(error)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not _is_lack_of_memory(error):
            raise
        complain("There is not enough memory for this: use fewer rows, fewer networks or a smaller network.")
        return 2
    return 0


def _is_of_help(error: OSError) -> bool:
    """Whether the error arose when typer wrote its help."""
    places = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return places[-1].partition(".")[0] in ("rich", "typer", "click")


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether memory ran out, on the GPU or the CPU; torch has no exception class for the latter."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)
