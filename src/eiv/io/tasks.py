"""Tasks on the workers of an engine, each by itself: a worker that is killed loses its own task, and no other.

`joblib.Parallel` ends with the first worker that is lost, and forgets the results of Ray's others; with Dask it waits
for ever. Here each task has a future of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from eiv.extras import needs
from eiv.io.clusters import PATIENCE, check_jobs, cores, dask_client, ray_connection
from eiv.validation import check_option

__all__ = ["Lost", "Workers", "workers"]

Item = TypeVar("Item")
Result = TypeVar("Result")
_LOOK = 2.0  # seconds without a result after which the workers are looked for
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Lost(Generic[Item]):
    """In place of a result: the worker of this item was killed, by a signal or for lack of memory.

    Examples:
        >>> Lost("a.csv").item
        'a.csv'

    """

    item: Item


@dataclass(frozen=True)
class Workers:
    """Workers that are there.

    Attributes:
        submit: gives a function and its argument to one of them, and returns the future of the result.
        at_once: how many they are.
        is_loss: whether an error of a future says that its worker was killed.
        check: raises a ConnectionError where the workers are gone, and none come back; None where that cannot be.

    Examples:
        >>> with workers("loky", 1) as found:
        ...     found.at_once
        1

    """

    submit: Callable[..., Future[Any]]
    at_once: int
    is_loss: Callable[[BaseException], bool]
    check: Callable[[], None] | None = None

    def results(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result | Lost[Item]]:
        """The results of `work` for the items, as they are done. Its errors are raised."""
        waiting = iter(items)
        running: dict[Future[Any], Item] = {}
        while True:
            for item in islice(waiting, self.at_once - len(running)):
                running[self.submit(work, item)] = item
            if not running:
                return
            done = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED).done
            if not done and self.check is not None:
                self.check()
            for future in done:
                item = running.pop(future)
                error = None if future.cancelled() else future.exception()  # Dask cancels where it is gone
                if error is not None and not self.is_loss(error):
                    raise error
                yield Lost(item) if future.cancelled() or error is not None else future.result()


@contextlib.contextmanager
def workers(engine: str, n_jobs: int) -> Iterator[Workers]:
    """Workers of an engine, for the block.

    Args:
        engine: "loky" (processes on this machine; a single one is this process), "ray" or "dask".
        n_jobs: how many; -1 for as many as there are cores.

    Raises:
        ValueError: for another engine, or no workers at once.
        ConnectionError: if a cluster does not answer, or has no workers.

    Examples:
        >>> with workers("loky", 1) as found:
        ...     list(found.results(abs, [-1, 2]))
        [1, 2]

    """
    check_option("backend", engine, ("loky", "ray", "dask"))
    check_jobs(n_jobs)
    with {"loky": _loky, "ray": _ray, "dask": _dask}[engine](n_jobs) as found:
        if found.at_once < 1:
            raise ConnectionError(f"The cluster of {engine.capitalize()} has no workers; start some there.")
        yield found


@contextlib.contextmanager
def _loky(n_jobs: int) -> Iterator[Workers]:
    """Processes on this machine; where one is killed, the others end with it, and new ones are started."""
    needs("Work on several workers", "joblib", extra="cli")
    from joblib.externals.loky import get_reusable_executor  # noqa: PLC0415  (an extra)
    from joblib.externals.loky.process_executor import BrokenProcessPool  # noqa: PLC0415

    at_once = cores() if n_jobs < 0 else n_jobs
    if at_once == 1:
        yield Workers(_done_here, 1, lambda _: False)
        return

    def executor() -> Any:
        return get_reusable_executor(at_once, env=_ONE_THREAD)

    try:
        yield Workers(
            lambda *call: executor().submit(*call), at_once, lambda error: isinstance(error, BrokenProcessPool)
        )
    finally:
        executor().shutdown(wait=True, kill_workers=True)


@contextlib.contextmanager
def _ray(n_jobs: int) -> Iterator[Workers]:
    with ray_connection(n_jobs):
        import ray  # noqa: PLC0415  (slow to import)

        task = ray.remote(_called).options(max_retries=0)

        def submit(work: Callable[[Item], Result], item: Item) -> Future[Result]:
            future: Future[Result] = task.remote(work, item).future()
            return future

        def is_loss(error: BaseException) -> bool:
            found = ray.exceptions
            return isinstance(error, found.RayError) and not isinstance(error, found.RayTaskError)

        yield Workers(submit, int(ray.cluster_resources()["CPU"]) if n_jobs < 0 else n_jobs, is_loss)


@contextlib.contextmanager
def _dask(n_jobs: int) -> Iterator[Workers]:
    needs("Work on Dask's workers", "dask", "distributed", extra="dask")
    import dask  # noqa: PLC0415  (an extra)
    from distributed.client import FutureCancelledError  # noqa: PLC0415
    from distributed.scheduler import KilledWorker  # noqa: PLC0415

    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), dask_client(n_jobs) as client:
        yield Workers(
            client.get_executor(pure=False).submit,
            sum(client.ncores().values()) if n_jobs < 0 else n_jobs,
            lambda error: isinstance(error, KilledWorker | FutureCancelledError),
            _Watch(client).check,
        )


class _Watch:
    """A watch over the workers of a Dask cluster: its tasks wait for ever where there are none."""

    def __init__(self, client: Any) -> None:
        self._client, self._seen = client, time.monotonic()

    def check(self) -> None:
        """Raise a ConnectionError where there have been no workers for a while, or there is no scheduler."""
        if self._client.status == "running" and self._client.ncores():
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > PATIENCE:
            raise ConnectionError(
                f"Dask has had no workers for {PATIENCE} s, though there is work left: they were killed or have "
                "ended. Start some, and begin again."
            )


def _called(work: Callable[[Item], Result], item: Item) -> Result:
    return work(item)


def _done_here(work: Callable[[Item], Result], item: Item) -> Future[Result]:
    future: Future[Result] = Future()
    future.set_result(_called(work, item))
    return future
