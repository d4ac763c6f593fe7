"""The command `eiv` as a process of its own, which `python -m eiv` starts too."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Iterator


def script() -> None:
    """Run the command line, and end the process before Python takes itself apart.

    pyarrow reads tables ahead in threads of its own. One that still lets go of what it has read aborts a process whose
    interpreter is ending (apache/arrow#34314), as after Ctrl-C. By then, all other work at the end has been done.
    """
    status = 1  # of an error that nobody expected

    def leave() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)

    atexit.register(leave)  # before any other function is registered, so that it runs after all of them
    try:
        with _ended_at_once():
            from eiv.cli import main  # noqa: PLC0415  (it takes time, and registers functions)
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    except KeyboardInterrupt:
        status = 130
        raise


@contextlib.contextmanager
def _ended_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process while modules are loaded and nothing has been done.

    An exception in the midst of an import may be taken for a broken installation, as NumPy does, or get lost.
    """
    before = signal.getsignal(signal.SIGINT)

    def end(*_: object) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"interrupted: nothing was written.\n")
        os._exit(130)

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    script()
