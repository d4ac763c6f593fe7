"""Long runs in units that run in parallel; each result is written when it is complete, so that runs can be resumed."""

from __future__ import annotations

import contextlib
import json
import multiprocessing.resource_tracker
import os
import platform
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import joblib
import joblib.externals.loky.backend.resource_tracker
import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import eiv
from eiv.experiments.watch import end_with
from eiv.io.clusters import cluster
from eiv.io.files import check_folder, write_whole

__all__ = ["MixedResultsError", "RunOptions", "Unit", "read_unit", "run_units"]

_FOLDER = "stacks"  # the folder of the results of single units
_UNITS_ON_A_GPU = 3  # one alone leaves it idle while Python prepares the next step
_SILENT = "ignore:resource_tracker:UserWarning"  # as for python -W
FORMAT = 2  # since 2, predictions have no common noise, and simulated data are drawn for each network


class MixedResultsError(ValueError):
    """A folder holds results that were made with other settings.

    Examples:
        >>> raise MixedResultsError("demo: linear-eiv was made with seed 1, not 0.")
        Traceback (most recent call last):
        ...
        eiv.experiments.runs.MixedResultsError: demo: linear-eiv was made with seed 1, not 0.

    """


class Unit(Protocol):
    """A unit of work, whose results are tables.

    Examples:
        >>> from eiv.experiments.paper.settings import TRAINING
        >>> from eiv.experiments.paper.stacks import Stack
        >>> unit: Unit = Stack("linear", "eiv", TRAINING["linear"], n_networks=2, seed=0, device="cpu")

    """

    @property
    def device(self) -> str:
        """The device it runs on, "cpu" or "cuda"."""

    @property
    def key(self) -> str:
        """Its name, which is also that of its file."""

    @property
    def cost(self) -> float:
        """The time that it takes, relative to that of other units."""

    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, except versions and the machine, as JSON values."""

    def run(self, on_progress: Callable[[float], None]) -> tuple[dict[str, pd.DataFrame], dict[str, float]]:
        """The tables, and the seconds of each step; `on_progress` is called with the share that is done."""


class _Queue(Protocol):
    def put(self, item: Any) -> None: ...
    def get(self) -> Any: ...


@dataclass(frozen=True)
class RunOptions:
    """How a study is run, whatever it studies.

    Attributes:
        device: "auto", "cpu" or "cuda".
        times: whether times can be compared, because units run one at a time; None: as the study does by default.
        restart: whether results of other settings are replaced instead of refused.
        console: the console for the progress bar; by default that of stderr.

    Examples:
        >>> RunOptions(device="cpu").found_device
        'cpu'

    """

    device: str = "auto"
    times: bool | None = None
    restart: bool = False
    console: Console | None = None

    @property
    def found_device(self) -> str:
        """The device: "cpu", or "cuda" where "auto" finds a GPU."""
        if self.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        return self.device

    @property
    def shown_on(self) -> Console:
        """The console."""
        return self.console or Console(stderr=True)


DEFAULT_OPTIONS = RunOptions()


def run_units(
    units: Sequence[Unit], folder: Path, console: Console, restart: bool = False, alone: bool = False
) -> None:
    """Run the units whose results `folder` does not hold yet, in parallel, with one progress bar.

    Args:
        units: the units to run; the longest should come first.
        folder: the folder for the results.
        console: the console for the progress bar.
        restart: whether results of other settings are replaced instead of refused.
        alone: whether units run one after another, in the given order, so that their times can be compared.

    Raises:
        MixedResultsError: where the folder holds results of other settings or another version.
        OSError: where results cannot be written to the folder, before any work is done.

    Examples:
        >>> import tempfile
        >>> from eiv.experiments.paper.settings import TRAINING
        >>> from eiv.experiments.paper.stacks import Stack
        >>> unit = Stack("linear", "g_regression", TRAINING["linear"], n_networks=2, seed=0, device="cpu")
        >>> with tempfile.TemporaryDirectory() as name:
        ...     run_units([unit], Path(name), Console(quiet=True))
        ...     sorted(read_unit(Path(name), unit.key))
        ['identity', 'provenance', 'tables']

    """
    todo = [unit for unit in units if not _is_done(folder, unit, restart)]
    if todo:
        check_folder(folder / _FOLDER)
        done = sum(unit.cost for unit in units) - sum(unit.cost for unit in todo)
        _run(todo, folder, console, done, alone)


def read_unit(folder: Path, key: str) -> dict[str, Any] | None:
    """The result of one unit, or None where there is no readable one.

    Args:
        folder: the folder of the run.
        key: the name of the unit.

    Returns:
        The content of the file.

    Examples:
        >>> read_unit(Path("nowhere"), "linear-eiv")

    """
    try:
        content = json.loads((folder / _FOLDER / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and {"identity", "provenance", "tables"} <= set(content) else None


def _identity(unit: Unit) -> dict[str, Any]:
    versions = {"format": FORMAT, "eiv": eiv.__version__, "torch": torch.__version__.split("+")[0]}
    return versions | {"device": unit.device} | unit.settings()


def _write(folder: Path, unit: Unit, tables: dict[str, pd.DataFrame], seconds: dict[str, float]) -> None:
    provenance = {
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **{name: round(value, 2) for name, value in seconds.items()},
        "device_name": torch.cuda.get_device_name() if unit.device == "cuda" else platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    records = {name: table.to_dict("records") for name, table in tables.items()}
    content = {"identity": _identity(unit), "provenance": provenance, "tables": records}
    (folder / _FOLDER).mkdir(parents=True, exist_ok=True)
    write_whole(folder / _FOLDER / f"{unit.key}.json", json.dumps(content))


def _is_done(folder: Path, unit: Unit, restart: bool) -> bool:
    found = read_unit(folder, unit.key)
    if found is None:
        return False
    asked = _identity(unit)
    different = [key for key in asked if found["identity"].get(key) != asked[key]]
    if different and not restart:
        key = different[0]
        raise MixedResultsError(
            f"{folder} holds a result for {unit.key} that was made with {key} = {found['identity'].get(key)!r}, not "
            f"{asked[key]!r}. Choose another folder, or replace such results with --restart."
        )
    return not different


def _run(todo: Sequence[Unit], folder: Path, console: Console, done: float, alone: bool) -> None:
    """Run `todo`: on a CPU in one process per core, on a GPU in a few threads; if `alone`, one by one in this one.

    Where the user has given joblib an engine of several machines, each unit is a task of that.
    """
    if not alone and (engine := cluster()) is not None:
        _spread(todo, folder.resolve(), console, done, engine)
        return
    processes = todo[0].device == "cpu" and not alone
    if todo[0].device == "cuda":
        torch.linalg.eigvalsh(
            torch.ones(1, 1, device="cuda")
        )  # its library fails to load if several threads use it first
    n_jobs = min(len(todo), (os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()) or 1)
    options: dict[str, Any] = (
        {
            "backend": "loky",
            "n_jobs": n_jobs,
            "inner_max_num_threads": 1,
            "initializer": end_with,
            "initargs": (os.getpid(),),
        }
        if processes
        else {"backend": "threading", "n_jobs": 1 if alone else _UNITS_ON_A_GPU}
    )
    with _messages(across_processes=processes) as messages, joblib.parallel_config(**options):
        work = partial(_run_unit, folder=folder, messages=messages, one_thread=processes)
        with contextlib.ExitStack() as stack:
            if processes:
                _start_trackers()
            with _left_to_the_parent():
                running = joblib.Parallel(return_as="generator_unordered")(joblib.delayed(work)(unit) for unit in todo)
                finished = stack.enter_context(_closing(running))
            with _progress(console, todo, done, messages):
                for _ in finished:
                    pass


def _spread(todo: Sequence[Unit], folder: Path, console: Console, done: float, engine: Any) -> None:
    """Run units on an engine; `folder` is on a file system that its machines share."""
    kind = "generator_unordered" if engine.supports_return_generator else "list"
    with _messages(across_processes=False) as messages, _progress(console, todo, done, messages):
        work = joblib.delayed(partial(_run_unit, folder=folder, messages=None, one_thread=todo[0].device == "cpu"))
        for key in joblib.Parallel(return_as=kind)(work(unit) for unit in todo):
            messages.put((key, 1.0))


@contextlib.contextmanager
def _closing(running: Generator[str]) -> Iterator[Iterator[str]]:
    """Cancel the units that still run at the end of the block, silently, since the user has interrupted them.

    joblib would warn of cancelled units, and its thread would show an error for those it had not yet started.
    """
    try:
        yield running
    finally:
        hook = threading.excepthook
        threading.excepthook = lambda _: None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                running.close()
        finally:
            threading.excepthook = hook


def _start_trackers() -> None:
    """Start the helper processes of Python and joblib that clean up resources shared by processes.

    They are started separately, because the helper of Python 3.11 unblocks SIGINT and SIGTERM. They do not warn of what
    they clean up after a process that was ended.
    """
    sys.warnoptions.append(_SILENT)  # which processes that start now are given
    try:
        with _left_to_the_parent():
            multiprocessing.resource_tracker.ensure_running()
            joblib.externals.loky.backend.resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(_SILENT)


@contextlib.contextmanager
def _left_to_the_parent() -> Iterator[None]:
    """Block signals in processes that start in the block, so that only this process responds to them.

    A signal to the whole process group would make workers, or helpers that end before them, print errors. This process
    receives a signal at the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_unit(unit: Unit, folder: Path, messages: _Queue | None, one_thread: bool) -> str:
    """Run a unit, write its results, and return its key; `one_thread` for one of several processes side by side."""
    if one_thread:
        torch.set_num_threads(1)
    tables, seconds = unit.run(lambda share: None if messages is None else messages.put((unit.key, share)))
    _write(folder, unit, tables, seconds)
    return unit.key


@contextlib.contextmanager
def _messages(across_processes: bool) -> Iterator[_Queue]:
    if not across_processes:
        yield queue.Queue()
        return
    from multiprocessing.managers import SyncManager  # noqa: PLC0415  (starts a process)

    manager = SyncManager()
    with contextlib.ExitStack() as stack:
        with _left_to_the_parent():
            manager.start(end_with, (os.getpid(),))
            stack.enter_context(manager)
        yield manager.Queue()


@contextlib.contextmanager
def _progress(console: Console, todo: Sequence[Unit], done: float, messages: _Queue) -> Iterator[None]:
    """One bar for the whole run, moved by messages `(stack, share done)`."""
    costs = {unit.key: unit.cost for unit in todo}
    shares = dict.fromkeys(costs, 0.0)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, speed_estimate_period=120) as bar:
        total = done + sum(costs.values())
        task = bar.add_task("stacks of networks", total=total)
        bar.update(task, completed=done)

        def follow() -> None:
            while (message := messages.get()) is not None:
                key, share = message
                shares[key] = share
                running = [key for key, value in shares.items() if 0 < value < 1]
                bar.update(
                    task,
                    completed=done + sum(costs[key] * value for key, value in shares.items()),
                    description=", ".join(running) or "stacks of networks",
                )

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            messages.put(None)
            thread.join()
