"""A comparison in units that are kept as they finish, so that it can be interrupted and resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eiv import Comparison
from eiv.comparison import Fold, Task, chosen_methods, run_fold
from eiv.experiments.runs import DEFAULT_OPTIONS, RunOptions, read_unit, run_units

__all__ = ["CompareUnit", "resumed_comparison"]

_SLOW = {"eiv": 5.0, "noisy_input_gp": 3.0, "calibrated_gp": 1.5}  # guesses of their time, relative to that of others
_OF_ROWS = ("mean", "total", "low", "high")


@dataclass(frozen=True)
class CompareUnit:
    """One method on one fold.

    Attributes:
        task: the table and its folds.
        method: a name of `eiv.comparison.METHODS`.
        fold: the number of the fold.
        seed: the seed of the method.
        arguments: further arguments of `EiVRegressor`.
        device: the device it runs on.

    Examples:
        >>> task = Task.of(np.zeros((4, 1)), np.arange(4.0), n_folds=2)
        >>> CompareUnit(task, "simex_plane", 1).key
        'compare-simex_plane-1'

    """

    task: Task
    method: str
    fold: int
    seed: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"

    @property
    def key(self) -> str:
        """The name of the unit."""
        return f"compare-{self.method}-{self.fold}"

    @property
    def cost(self) -> float:
        """The time that the unit takes, relative to that of others."""
        return _SLOW.get(self.method, 1.0)

    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, except versions and the machine."""
        task = self.task
        digest = hashlib.sha256()
        for values in (np.asarray(task.X, dtype=float), task.errors, task.y, task.y_err, *task.folds):
            digest.update(b"" if values is None else values.tobytes())
        arguments = self.arguments if self.method == "eiv" else {}
        return {"table": digest.hexdigest(), "seed": self.seed, "arguments": {k: str(v) for k, v in arguments.items()}}

    def run(self, on_progress: Callable[[float], None]) -> tuple[dict[str, pd.DataFrame], dict[str, float]]:
        """Fit, and predict the rows of the fold."""
        on_progress(0.01)  # which shows its name
        found = run_fold(self.method, self.task, self.fold, seed=self.seed, settings=self.arguments)
        on_progress(1.0)
        rows = pd.DataFrame({name: getattr(found, name) for name in _OF_ROWS})
        whole = {"seconds": found.seconds, "failure": found.failure, "notes": json.dumps(found.notes)}
        return {"rows": rows, "fold": pd.DataFrame([whole])}, {"training_s": found.seconds}


def resumed_comparison(
    task: Task,
    folder: Path,
    *,
    methods: Sequence[str] | None = None,
    seed: int = 0,
    arguments: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULT_OPTIONS,
) -> Comparison:
    """Compare methods on a table, one fit after another; fits whose results `folder` holds are not repeated.

    Args:
        task: the table and its folds.
        folder: the folder for the results.
        methods: some names of `eiv.comparison.METHODS`; by default all that can be run.
        seed: the seed of the methods.
        arguments: further arguments of `EiVRegressor`.
        options: console and the like.

    Returns:
        The comparison.

    Raises:
        MixedResultsError: where the folder holds results of another table or other settings.

    Examples:
        >>> import tempfile
        >>> from rich.console import Console
        >>> task = Task.of(np.arange(20.0)[:, None], np.sin(np.arange(20.0)) + np.arange(20.0), n_folds=2)
        >>> with tempfile.TemporaryDirectory() as name:
        ...     options = RunOptions(console=Console(quiet=True))
        ...     resumed_comparison(task, Path(name), methods=["least_squares"], options=options)
        Comparison(rows=20, methods=1, best='least_squares')

    """
    names, skipped = chosen_methods(methods, task.X.shape[1], task.y_err is not None, task.has_gaps)
    of_folds = range(len(task.folds))
    units = {name: [CompareUnit(task, name, fold, seed, arguments or {}) for fold in of_folds] for name in names}
    in_order = [unit for each in units.values() for unit in each]
    run_units(in_order, folder, options.shown_on, options.restart, alone=True)
    folds = {name: [_read(folder, unit) for unit in each] for name, each in units.items()}
    return Comparison.of(task, folds, skipped)


def _read(folder: Path, unit: CompareUnit) -> Fold:
    """What a unit found."""
    content = read_unit(folder, unit.key)
    assert content is not None
    rows, (whole,) = pd.DataFrame(content["tables"]["rows"]), content["tables"]["fold"]
    columns = {name: rows[name].to_numpy(float) for name in _OF_ROWS}
    notes = tuple(json.loads(whole["notes"]))
    return Fold(unit.task.folds[unit.fold], **columns, seconds=whole["seconds"], failure=whole["failure"], notes=notes)
