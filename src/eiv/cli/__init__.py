"""The command line, one file a command."""

from __future__ import annotations

import warnings

from eiv.cli import datasets, explain, fit, info, predict, report, reproduce, study  # noqa: F401  (each adds its command)
from eiv.cli.app import app, complain, show_warning
from eiv.cli.app import console as console
from eiv.cli.app import errors as errors


def main() -> None:
    """Run the command line; an error that the user can do something about is one sentence and exit status 2."""
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            app()
        except (ValueError, TypeError, ArithmeticError, OSError) as error:
            complain(error)
            raise SystemExit(2) from None
