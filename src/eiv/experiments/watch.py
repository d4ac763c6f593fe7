"""Processes that end with the one that has started them. Light to import, so that a worker watches from its start."""

from __future__ import annotations

import functools
import os
import threading
import time

_LOOK_EVERY = 0.5  # seconds after which a worker looks whether its parent is there


@functools.cache  # one watch per process
def end_with(parent: int) -> None:
    """End this process when the one with the number `parent`, which has started it, is gone, however it ended.

    A thread that looks, on every system: the death signal of Linux follows the thread that started a process, and
    joblib starts some from threads that end early.
    """
    starter = os.getppid()  # `parent`, or a process of Python's between the two, which ends with it

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
