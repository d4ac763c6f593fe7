"""`eiv reproduce`: run the stacks that are missing, side by side, and put the tables together."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import joblib
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from eiv.paper.settings import PROFILES, TRAINING, Profile
from eiv.paper.stacks import Stack, plan
from eiv.paper.tables import Tables, read_stack, write_stack

__all__ = ["MixedResultsError", "reproduce"]

_STACKS_ON_A_GPU = 3  # one alone leaves it idle while Python prepares the next step


class MixedResultsError(ValueError):
    r"""A folder holds results that were made with other settings.

    .. math:: \text{identity}_{\text{found}} \ne \text{identity}_{\text{asked}}

    Examples:
        >>> raise MixedResultsError("demo: linear-eiv was made with seed 1, not 0.")
        Traceback (most recent call last):
        ...
        eiv.paper.run.MixedResultsError: demo: linear-eiv was made with seed 1, not 0.

    """


class _Queue(Protocol):
    def put(self, item: Any) -> None: ...
    def get(self) -> Any: ...


def reproduce(
    folder: Path,
    profile: str = "quick",
    *,
    only: Sequence[str] = (),
    n_networks: int | None = None,
    device: str = "auto",
    seed: int = 0,
    restart: bool = False,
    console: Console | None = None,
) -> Tables:
    r"""Train and evaluate what a profile asks for, but for what `folder` holds already, and write the tables.

    .. math:: 13 \text{ sets} \times 2 \text{ methods} \times 10 \text{ networks} = 260

    Args:
        folder: for the results; a run that was interrupted goes on there.
        profile: "quick" or "full".
        only: names of data sets, where not all of the profile are wanted.
        n_networks: networks a set and method, where not as many as the profile says.
        device: "auto", "cpu" or "cuda".
        seed: of everything.
        restart: whether results of other settings are replaced instead of refused.
        console: where progress is shown.

    Returns:
        The tables.

    Raises:
        MixedResultsError: where the folder holds results of other settings or another version.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     tables = reproduce(Path(name), only=["linear"], n_networks=2)  # doctest: +SKIP

    """
    chosen = _chosen(profile, only, n_networks)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    console = console or Console(stderr=True)
    stacks = plan(chosen, seed, device)
    todo = [stack for stack in stacks if not _is_done(folder, stack, restart)]
    if todo:
        _run(todo, folder, console, done=sum(stack.cost for stack in stacks) - sum(stack.cost for stack in todo))
    in_order = sorted(stacks, key=lambda stack: chosen.sets.index(stack.dataset))
    tables = Tables.collect(folder, in_order)
    tables.write(folder)
    return tables


def _chosen(profile: str, only: Sequence[str], n_networks: int | None) -> Profile:
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}.")
    chosen = PROFILES[profile]
    unknown = [name for name in only if name not in TRAINING]
    if unknown:
        raise ValueError(f"only must name data sets of the paper ({', '.join(TRAINING)}); got {unknown[0]!r}.")
    if only:
        chosen = replace(chosen, sets=tuple(name for name in PROFILES["full"].sets if name in only))
    if n_networks is not None:
        if n_networks < 1:
            raise ValueError(f"networks must be at least 1, got {n_networks}.")
        chosen = replace(chosen, n_networks=n_networks)
    return chosen


def _is_done(folder: Path, stack: Stack, restart: bool) -> bool:
    found = read_stack(folder, stack)
    if found is None:
        return False
    asked = stack.identity()
    different = [key for key in asked if found["identity"].get(key) != asked[key]]
    if different and not restart:
        key = different[0]
        raise MixedResultsError(
            f"{folder} holds a result for {stack.key} that was made with {key} = {found['identity'].get(key)!r}, not "
            f"{asked[key]!r}. Choose another folder, or replace such results with --restart."
        )
    return not different


def _run(todo: Sequence[Stack], folder: Path, console: Console, done: float) -> None:
    """Run `todo`: on the CPU one process a core with one thread each, on a GPU some threads."""
    on_cpu = todo[0].device == "cpu"
    n_jobs = min(len(todo), (os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()) or 1)
    options: dict[str, Any] = (
        {"backend": "loky", "n_jobs": n_jobs, "inner_max_num_threads": 1}
        if on_cpu
        else {"backend": "threading", "n_jobs": _STACKS_ON_A_GPU}
    )
    with _messages(across_processes=on_cpu) as messages, joblib.parallel_config(**options):
        work = partial(_run_stack, folder=folder, messages=messages)
        finished = joblib.Parallel(return_as="generator_unordered")(joblib.delayed(work)(stack) for stack in todo)
        with _progress(console, todo, done, messages):
            for _ in finished:
                pass


def _run_stack(stack: Stack, folder: Path, messages: _Queue) -> None:
    if stack.device == "cpu":
        torch.set_num_threads(1)
    found, provenance = stack.run(lambda share: messages.put((stack.key, share)))
    write_stack(folder, stack, found, provenance)


@contextlib.contextmanager
def _messages(across_processes: bool) -> Iterator[_Queue]:
    if not across_processes:
        yield queue.Queue()
        return
    from multiprocessing import Manager  # noqa: PLC0415  (starts a process)

    with Manager() as manager:
        yield manager.Queue()


@contextlib.contextmanager
def _progress(console: Console, todo: Sequence[Stack], done: float, messages: _Queue) -> Iterator[None]:
    """One bar for the whole run, moved by messages `(stack, share done)`."""
    costs = {stack.key: stack.cost for stack in todo}
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
