"""The command line, one file a command."""

from __future__ import annotations

import sys
import warnings

try:
    from eiv.cli import datasets, explain, fit, info, predict, report, reproduce, study  # noqa: F401  (each adds its command)
    from eiv.cli.app import app, complain, ending_signals, replace_unknown_characters, show_warning
    from eiv.cli.app import console as console
    from eiv.cli.app import errors as errors
except KeyboardInterrupt:  # these imports take some tenths of a second, before any command has begun
    sys.stderr.write("interrupted: nothing was written.\n")
    raise SystemExit(130) from None


def main() -> None:
    """Run the command line; an error that the user can do something about is one sentence and exit status 2."""
    replace_unknown_characters()
    with ending_signals(), warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            app()
        except (ValueError, TypeError, ArithmeticError, OSError) as error:
            complain(error)
            raise SystemExit(2) from None
        except (MemoryError, RuntimeError) as error:
            if not _is_lack_of_memory(error):
                raise
            complain("There is not enough memory for this: take fewer rows, fewer networks or a smaller network.")
            raise SystemExit(2) from None


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether there was too little memory, on the GPU or beside it; torch has no class of its own for the latter."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)
