"""Processes that end with the process that started them. Imports fast, so that workers watch from their start."""

from __future__ import annotations

import functools
import os
import threading
import time

_LOOK_EVERY = 0.5  # seconds between two checks of whether the parent still runs


@functools.cache  # one watch per process
def end_with(parent: int) -> None:
    """End this process when the process `parent`, which started it, has ended for any reason.

    A thread checks this on all systems. The death signal of Linux would not do: it depends on the thread that started a
    process, and joblib starts some processes from threads that end early.
    """
    starter = os.getppid()  # `parent`, or a process of Python between the two, which ends with it

    def watch() -> None:
        while os.getppid() == starter and _is_there(parent):
            time.sleep(_LOOK_EVERY)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
