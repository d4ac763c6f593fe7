"""Independent tasks side by side on the cores of the CPU.

Networks do not need each other, so a thread for each core with its share of them beats threads inside every matrix
product. The threads are ours, so their floating point mode is too: the penalty of the weights drives whole units of a
network below the smallest normal number, where the processor is many times slower; taken as zero they cost nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

Result = TypeVar("Result")
_WORTH_A_WORKER = 2**20
_WIDE = 512  # units of a layer from which on threads inside a matrix product pay
_lock = threading.Lock()
_active: list[int] = []  # torch's number of threads, once and then once for every run that is under way


def n_workers(n_tasks: int, device: torch.device, work: int) -> int:
    """How many tasks run at once: one per core, or one at a time on a GPU.

    Where the `work` of a call into torch (multiplications of one network) is small, Python is what takes the time, and
    threads that wait for each other's Python are slower than one.
    """
    return min(n_tasks, torch.get_num_threads()) if device.type == "cpu" and work >= _WORTH_A_WORKER else 1


def run_tasks(
    tasks: Sequence[Callable[[], Result]],
    device: torch.device,
    stop: threading.Event | None = None,
    width: int = 0,
) -> list[Result]:
    """Run `tasks` and return their results in order.

    Where there are fewer tasks than cores, matrix products of networks with layers of `width` values share the spare
    cores, if they are wide enough for that to pay.
    When one fails, or the user interrupts, `stop` is set so that the others can end early, and the error is raised.
    """
    if device.type != "cpu":
        return [task() for task in tasks]
    with _borrowed_threads() as n_threads:
        workers = min(len(tasks), n_threads)
        with ThreadPoolExecutor(
            workers, initializer=_set_up, initargs=(n_threads // workers if width >= _WIDE else 1,)
        ) as pool:
            futures = [pool.submit(task) for task in tasks]
            failed = []
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                failed = [future for future in futures if future.done() and future.exception()]
            finally:
                if failed or not all(future.done() for future in futures):
                    if stop is not None:
                        stop.set()
                    pool.shutdown(cancel_futures=True)
            return [future.result() for future in failed or futures]


@contextlib.contextmanager
def _borrowed_threads() -> Iterator[int]:
    """The number of threads that torch had before any of our workers; it comes back when the last of them is done."""
    with _lock:
        if not _active:
            _active.append(torch.get_num_threads())
        _active.append(_active[0])
        n_threads = _active[0]
    try:
        yield n_threads
    finally:
        with _lock:
            _active.pop()
            if len(_active) == 1:
                torch.set_num_threads(_active.pop())


def _set_up(n_threads: int) -> None:
    torch.set_num_threads(n_threads)
    torch.set_flush_denormal(True)  # holds for this thread, and for those that it starts
