"""Independent tasks in parallel on the cores of the CPU.

Networks are independent, so one thread per core with a share of the networks is faster than threads inside every
matrix product. These threads take denormal numbers as zero. The penalty of the weights makes whole units of a network
that small, and processors are many times slower with denormal numbers.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")
_WORTH_A_WORKER = 2**20
_WIDE = 512  # units of a layer from which on threads inside a matrix product are worth it
_lock = threading.Lock()
_active: list[int] = []  # the number of threads that torch had at first, and once more for every active run
_alone: list[Any] = []  # what gives SciPy its threads back, and once more for everyone who wants it to have one


def n_workers(n_tasks: int, device: torch.device, work: int) -> int:
    """The number of tasks that run at once: one per core, or one on a GPU.

    It is one, too, where the `work` of a call into torch (multiplications per network) is small: Python then takes most
    of the time, and only one thread at a time can run it.
    """
    return min(n_tasks, torch.get_num_threads()) if device.type == "cpu" and work >= _WORTH_A_WORKER else 1


def run_tasks(
    tasks: Sequence[Callable[[], Result]],
    device: torch.device,
    stop: threading.Event | None = None,
    width: int = 0,
) -> list[Result]:
    """Run `tasks` and return their results in order.

    Where there are fewer tasks than cores, matrix products use the spare cores, if the layers of `width` values are
    wide enough. When a task fails, or the user interrupts, `stop` is set so that the others can end early, and the
    error is raised.
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
def scipy_alone() -> Iterator[None]:
    """One thread for the matrices of SciPy and NumPy meanwhile, in all threads of this process.

    For a dozen numbers, as in an optimiser, waking other threads takes two hundred times as long as the work, and they
    keep a core busy for a while after it.
    """
    with _lock:
        if not _alone:
            _alone.append(_libraries().limit(limits=1, user_api="blas"))
        _alone.append(_alone[0])
    try:
        yield
    finally:
        with _lock:
            _alone.pop()
            if len(_alone) == 1:
                _alone.pop().restore_original_limits()


@functools.cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401, PLC0415  (slow to import; its library has to be loaded to be found)

    return ThreadpoolController()


@contextlib.contextmanager
def _borrowed_threads() -> Iterator[int]:
    """The number of threads that torch had before any worker started; it is restored after the last run."""
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
    torch.set_flush_denormal(True)  # for this thread and those that it starts
