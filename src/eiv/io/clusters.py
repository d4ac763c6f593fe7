"""Where independent work runs: on the cores of this machine or on those of a cluster, by joblib."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

from eiv.extras import needs

__all__ = ["cluster", "one_thread", "parallel_config", "register_ray"]


def register_ray() -> None:
    """Make "ray" known to joblib; needs `pip install "eiv[ray]"`.

    After that, `joblib.parallel_config(backend="ray")` spreads `eiv.fit_splits`, scikit-learn's `cross_validate` and
    `GridSearchCV`, and whatever else asks joblib, over a Ray cluster: that of the environment variable `RAY_ADDRESS`,
    or one on this machine.

    Examples:
        >>> from eiv.io.clusters import register_ray

    """
    needs("joblib's backend ray", "ray", extra="ray")
    from ray.util.joblib import register_ray as register  # noqa: PLC0415  (slow to import)

    register()


@contextlib.contextmanager
def parallel_config(backend: str, n_jobs: int, **options: Any) -> Iterator[None]:
    """As `joblib.parallel_config`, with an engine that is there: Ray is registered, and Dask has a client.

    Args:
        backend: a backend of joblib, such as "loky" (processes on this machine), "ray" or "dask".
        n_jobs: tasks that run at once; -1 for as many as there are cores.
        options: for joblib.

    Raises:
        ValueError: for a backend that joblib does not know.

    Examples:
        >>> import joblib
        >>> with parallel_config("threading", 2):
        ...     joblib.Parallel()(joblib.delayed(abs)(i) for i in (-1, 2))
        [1, 2]

    """
    needs("Work on several workers", "joblib", extra="cli")
    import joblib  # noqa: PLC0415  (an extra)
    from joblib.parallel import BACKENDS  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        if backend == "ray":
            register_ray()
            stack.enter_context(_ray(n_jobs))
        elif backend == "dask":
            needs("joblib's backend dask", "dask", "distributed", extra="dask")
            stack.enter_context(_dask_client(n_jobs))
        elif backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join((*BACKENDS, 'dask', 'ray'))}, got {backend!r}.")
        stack.enter_context(joblib.parallel_config(backend=backend, n_jobs=n_jobs, **options))
        yield


def cluster() -> Any:
    """The engine that `joblib.parallel_config` names, such as Ray's or Dask's; None for joblib's own, of one machine.

    Examples:
        >>> cluster()

    """
    from joblib.parallel import get_active_backend  # noqa: PLC0415  (slow to import)

    engine, _ = get_active_backend()
    return None if type(engine).__module__ == "joblib._parallel_backends" else engine


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one core in the block: several threads round sums in another order.

    Examples:
        >>> import torch
        >>> with one_thread():
        ...     torch.get_num_threads()
        1

    """
    import torch  # noqa: PLC0415  (slow to import)

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _ray(n_jobs: int) -> Iterator[None]:
    """A connection to Ray; one that this has started is shut down at the end."""
    import ray  # noqa: PLC0415  (slow to import)

    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if "RAY_ADDRESS" not in os.environ:  # workers on this machine
        options |= {"include_dashboard": False, "num_cpus": _cores() if n_jobs < 0 else n_jobs}
    ray.init(**options)
    try:
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _dask_client(n_jobs: int) -> Iterator[None]:
    """A client of Dask: the one that there is, that of DASK_SCHEDULER_ADDRESS, or one of workers on this machine."""
    from distributed import Client, LocalCluster, default_client  # noqa: PLC0415  (slow to import)

    try:
        default_client()
    except ValueError:
        pass
    else:
        yield
        return
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    with contextlib.ExitStack() as stack:
        if address is None:
            n_workers = _cores() if n_jobs < 0 else n_jobs
            cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
            address = stack.enter_context(cluster)
        stack.enter_context(Client(address, set_as_default=True))
        yield


def _cores() -> int:
    found = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
    return found or 1
