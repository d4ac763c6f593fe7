"""`eiv reproduce`: run the stacks that are missing, and collect the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from eiv.experiments.paper.settings import PROFILES, TRAINING, Profile
from eiv.experiments.paper.stacks import plan
from eiv.experiments.paper.tables import Tables
from eiv.experiments.runs import run_units

__all__ = ["reproduce"]


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
    """Train and evaluate the networks of a profile, except those that `folder` holds already, and write the tables.

    Args:
        folder: the folder for the results; an interrupted run continues there.
        profile: "quick" or "full".
        only: names of data sets; by default all of the profile.
        n_networks: networks per data set and method; by default as many as in the profile.
        device: "auto", "cpu" or "cuda".
        seed: the seed of data, splits and networks.
        restart: whether results of other settings are replaced instead of refused.
        console: the console for the progress bar.

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
    run_units(stacks, folder, console, restart)
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
