"""The tidy tables of a run, and their files."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import pandas as pd

from eiv.datasets import SIMULATED
from eiv.experiments.paper.evaluation import LEVELS
from eiv.experiments.paper.stacks import Stack
from eiv.experiments.runs import read_unit
from eiv.io.files import written_whole

__all__ = ["Tables"]

_ORDER = ["dataset", "method"]


@dataclass(frozen=True)
class Tables:
    """All tables of a run, with the columns `dataset` and `method` first.

    Attributes:
        networks: one row per network and estimator (see `eiv.experiments.paper.evaluation.Evaluation`).
        calibration: one row per network, estimator and q.
        points: one row per point of known truth and estimator.
        stacks: one row per stack: settings, machine, versions and times.

    Examples:
        >>> import tempfile
        >>> from rich.console import Console
        >>> from eiv.experiments.paper.settings import TRAINING
        >>> from eiv.experiments.runs import run_units
        >>> stack = Stack("linear", "g_regression", TRAINING["linear"], n_networks=2, seed=0, device="cpu")
        >>> with tempfile.TemporaryDirectory() as name:
        ...     run_units([stack], Path(name), Console(quiet=True))
        ...     tables = Tables.collect(Path(name), [stack])
        >>> tables.summary().loc[("linear", "g_regression", "parameters"), ("truth_coverage", "mean")] < 0.5
        np.True_

    """

    networks: pd.DataFrame
    calibration: pd.DataFrame
    points: pd.DataFrame
    stacks: pd.DataFrame

    @classmethod
    def collect(cls, folder: Path, stacks: Sequence[Stack]) -> Tables:
        """The tables from the results of single stacks, in the order of the data sets in the plan."""
        parts: dict[str, list[pd.DataFrame]] = {field.name: [] for field in fields(cls)}
        for stack in stacks:
            content = read_unit(folder, stack.key)
            if content is None:
                raise FileNotFoundError(f"{folder}: there is no result for {stack.key}.")
            where = {"dataset": stack.dataset, "method": stack.method}
            for name, records in content["tables"].items():
                if records:
                    parts[name].append(pd.DataFrame(records).assign(**where))
            plain = {key: value for key, value in content["identity"].items() if not isinstance(value, dict)}
            parts["stacks"].append(pd.DataFrame([plain | content["provenance"] | where]))
        return cls(**{name: _joined(found) for name, found in parts.items()})

    @classmethod
    def read(cls, folder: Path) -> Tables:
        """Read the tables that `write` has written to a folder."""
        missing = [name for name in cls.__dataclass_fields__ if not (folder / f"{name}.csv").is_file()]
        if missing:
            raise FileNotFoundError(
                f"{folder} holds no results of a reproduction: {missing[0]}.csv is missing. "
                f"`eiv reproduce --out {folder}` makes them."
            )
        tables = cls(**{name: pd.read_csv(folder / f"{name}.csv") for name in cls.__dataclass_fields__})
        tables._check_whole()
        return tables

    def _check_whole(self) -> None:
        """Raise a ValueError where rows with a known truth are missing, for instance because a file was cut off.

        Each row of `networks` of a simulated set must have one row in `calibration` for each q, and each method must
        have the same points of a data set.
        """
        n_networks = self.networks.groupby(_ORDER, sort=False).size()
        of_calibration = self.calibration.groupby(_ORDER).size()
        of_points = self.points.groupby(_ORDER).size()
        most_points = of_points.groupby("dataset").max()
        for stack, n in n_networks.items():
            dataset, method = cast("tuple[str, str]", stack)
            wanted = {"calibration": n * len(LEVELS), "points": most_points.get(dataset, 1)}
            for name, found in (("calibration", of_calibration), ("points", of_points)):
                n_rows = found.get((dataset, method), 0)
                if n_rows != wanted[name] and (n_rows or dataset in SIMULATED):
                    raise ValueError(f"{name}.csv has {n_rows} of {wanted[name]} rows for {dataset}, {method}")

    def write(self, folder: Path) -> None:
        """Write each table as CSV, and as Parquet where pyarrow is installed."""
        for field in fields(self):
            table = getattr(self, field.name)
            with written_whole(folder / f"{field.name}.csv") as part:
                table.to_csv(part, index=False, float_format="%.7g")
            if importlib.util.find_spec("pyarrow") is not None:
                with written_whole(folder / f"{field.name}.parquet") as part:
                    table.to_parquet(part, index=False)

    def summary(self) -> pd.DataFrame:
        """Mean and standard error over the networks, by data set, method and estimator."""
        columns = self.networks.columns.difference(["dataset", "method", "network", "estimator", "unit"], sort=False)
        grouped = self.networks.groupby([*_ORDER, "estimator"], sort=False)[list(columns)]
        both = pd.concat({"mean": grouped.mean(), "se": grouped.sem()}, axis=1)
        return both.swaplevel(axis=1).sort_index(axis=1)


def select(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows of `table` that have the given values in the columns named by the keywords."""
    for column, value in values.items():
        table = table[table[column] == value]
    return table


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if not parts:
        return pd.DataFrame(columns=_ORDER)
    table = pd.concat(parts, ignore_index=True)
    return table[[*_ORDER, *table.columns.difference(_ORDER, sort=False)]]
