"""Processes that a test starts, and that end with it."""

import contextlib
import os
import signal
import subprocess


@contextlib.contextmanager
def process_group(command, **options):
    """A process, which is killed at the end of the block with all that it has started, however the block ends.

    It has a session of its own, for that; Windows has none, and there its own children are left alone.
    """
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):  # all have ended
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait(timeout=60)
