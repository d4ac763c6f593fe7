"""Where independent work runs: on the cores of this machine or on those of a cluster, by joblib."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from eiv.extras import needs

__all__ = ["cluster", "one_thread", "parallel_config", "register_ray"]

PATIENCE = 30
"""Seconds in which a cluster has to answer, and to have workers."""


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
        ValueError: for a backend that joblib does not know, or no tasks at once.
        ConnectionError: if the cluster of `RAY_ADDRESS` or `DASK_SCHEDULER_ADDRESS` does not answer.

    Examples:
        >>> import joblib
        >>> with parallel_config("threading", 2):
        ...     joblib.Parallel()(joblib.delayed(abs)(i) for i in (-1, 2))
        [1, 2]

    """
    needs("Work on several workers", "joblib", extra="cli")
    import joblib  # noqa: PLC0415  (an extra)
    from joblib.parallel import BACKENDS  # noqa: PLC0415

    check_jobs(n_jobs)
    with contextlib.ExitStack() as stack:
        if backend == "ray":
            register_ray()
            stack.enter_context(ray_connection(n_jobs))
        elif backend == "dask":
            stack.enter_context(dask_client(n_jobs))
        elif backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join((*BACKENDS, 'dask', 'ray'))}, got {backend!r}.")
        stack.enter_context(joblib.parallel_config(backend=backend, n_jobs=n_jobs, **options))
        yield


def check_jobs(n_jobs: int) -> None:
    """Raise a ValueError where no task could run.

    Examples:
        >>> check_jobs(-1)

    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be a number of tasks at once, or -1 for as many as there are cores, got 0.")


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
def ray_connection(n_jobs: int) -> Iterator[None]:
    """A connection to Ray; one that this has started is shut down at the end.

    Examples:
        >>> with ray_connection(2):  # doctest: +SKIP
        ...     ray.cluster_resources()["CPU"]
        2.0

    """
    needs("Work on Ray's workers", "ray", extra="ray")
    import ray  # noqa: PLC0415  (slow to import)

    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if "RAY_ADDRESS" in os.environ:
        _check_ray(os.environ["RAY_ADDRESS"])
    else:  # workers on this machine
        options |= {"include_dashboard": False, "num_cpus": cores() if n_jobs < 0 else n_jobs}
    ray.init(**options)
    try:
        yield
    finally:
        ray.shutdown()


def _check_ray(address: str) -> None:
    """Raise a ConnectionError where no cluster answers; in a process of its own, as Ray tries for minutes and talks."""
    try:
        subprocess.run(
            [sys.executable, "-c", "import ray; ray.init(log_to_driver=False)"],
            capture_output=True,
            check=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        why = f"nothing answered within {PATIENCE} s"
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip().rpartition("\n")[2].rstrip(".")
    else:
        return
    raise ConnectionError(
        f"RAY_ADDRESS={address}: {why}. Start a cluster there with `ray start`, or unset RAY_ADDRESS for workers "
        "on this machine."
    )


@contextlib.contextmanager
def dask_client(n_jobs: int) -> Iterator[Any]:
    """A client of Dask: the one that there is, that of DASK_SCHEDULER_ADDRESS, or one of workers on this machine.

    Examples:
        >>> with dask_client(2) as client:  # doctest: +SKIP
        ...     sum(client.ncores().values())
        2

    """
    needs("Work on Dask's workers", "dask", "distributed", extra="dask")
    from distributed import Client, LocalCluster, default_client  # noqa: PLC0415  (slow to import)

    try:
        found = default_client()
    except ValueError:
        pass
    else:
        yield found
        return
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    with contextlib.ExitStack() as stack:
        if address is None:
            n_workers = cores() if n_jobs < 0 else n_jobs
            local = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
            client = stack.enter_context(Client(stack.enter_context(local), set_as_default=True))
        else:
            client = stack.enter_context(_connected(address))
        yield client


def _connected(address: str) -> Any:
    """A client of the scheduler at an address, when it has workers; else a ConnectionError."""
    from distributed import Client  # noqa: PLC0415  (slow to import)

    why, client = f"no scheduler answered within {PATIENCE} s", None
    try:
        client = Client(address, set_as_default=True, timeout=PATIENCE)
        why = f"the scheduler has had no workers for {PATIENCE} s"
        client.wait_for_workers(1, timeout=PATIENCE)
    except (OSError, ValueError) as error:  # ValueError: no address
        if isinstance(error, ValueError):
            why = str(error).rstrip(".")
        if client is not None:
            client.close()
        raise ConnectionError(
            f"DASK_SCHEDULER_ADDRESS={address}: {why}. Start one there with `dask scheduler` and `dask worker`, or "
            "unset DASK_SCHEDULER_ADDRESS for workers on this machine."
        ) from error
    return client


def cores() -> int:
    """The cores that this process may use.

    Examples:
        >>> cores() >= 1
        True

    """
    found = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
    return found or 1
