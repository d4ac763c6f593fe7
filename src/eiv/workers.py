"""Independent tasks side by side on the cores of the CPU.

Networks do not need each other, so a thread for each core with its share of them beats threads inside every matrix
product. The threads are ours, so their floating point mode is too: the penalty of the weights drives whole units of a
network below the smallest normal number, where the processor is many times slower; taken as zero they cost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

Result = TypeVar("Result")


def n_workers(n_tasks: int, device: torch.device) -> int:
    """How many tasks run at once: one a core, or one at a time on a GPU."""
    return min(n_tasks, torch.get_num_threads()) if device.type == "cpu" else 1


def run_tasks(
    tasks: Sequence[Callable[[], Result]], device: torch.device, stop: threading.Event | None = None
) -> list[Result]:
    """Run `tasks` and return their results in order.

    When one fails, or the user interrupts, `stop` is set so that the others can end early, and the error is raised.
    """
    if device.type != "cpu":
        return [task() for task in tasks]
    n_threads, workers = torch.get_num_threads(), n_workers(len(tasks), device)
    try:
        with ThreadPoolExecutor(workers, initializer=_set_up, initargs=(n_threads // workers,)) as pool:
            futures = [pool.submit(task) for task in tasks]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                if stop is not None and not all(future.done() and not future.exception() for future in futures):
                    stop.set()
            failed = [future for future in futures if future.done() and future.exception()]
            return [future.result() for future in failed or futures]
    finally:
        torch.set_num_threads(n_threads)


def _set_up(n_threads: int) -> None:
    torch.set_num_threads(n_threads)
    torch.set_flush_denormal(True)  # holds for this thread, and for those that it starts
