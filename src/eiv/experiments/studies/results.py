"""The two tables of a study: the scores of its networks, and the origin of the numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from eiv.experiments.runs import Unit, read_unit
from eiv.io.files import written_whole

__all__ = ["collect_units", "read_remarks", "read_tables"]


def collect_units(folder: Path, units: Sequence[Unit], keys: Sequence[str], names: tuple[str, str]) -> pd.DataFrame:
    """Collect the results of single units into two tables, and write them.

    Args:
        folder: the folder of the study.
        units: the units that it has run.
        keys: the attributes that identify a unit; they are the first columns of both tables.
        names: the names of the two files: one row per network, and one row per unit.

    Returns:
        The first of the tables.

    Examples:
        >>> collect_units(Path("study"), units, ["problem", "method"], ("a.csv", "b.csv"))  # doctest: +SKIP

    """
    networks, runs = [], []
    for unit in units:
        content = read_unit(folder, unit.key)
        assert content is not None
        where = {name: getattr(unit, name) for name in keys}
        networks.append(pd.DataFrame(content["tables"]["networks"]).assign(**where))
        plain = {
            key: json.dumps(value) if isinstance(value, dict) else value for key, value in content["identity"].items()
        }
        runs.append(where | plain | content["provenance"])
    table = pd.concat(networks, ignore_index=True)
    table = table[[*keys, *table.columns.difference(list(keys), sort=False)]]
    for name, found in zip(names, (table, pd.DataFrame(runs)), strict=True):
        with written_whole(folder / name) as part:
            found.to_csv(part, index=False, float_format="%.6g")
    return table


def read_tables(folder: Path, study: str, names: tuple[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the tables that `collect_units` has written to a folder.

    Args:
        folder: the folder of the study.
        study: its name, as in `eiv study NAME`.
        names: the names of the two files.

    Returns:
        Both tables.

    Raises:
        FileNotFoundError: where one is missing.

    Examples:
        >>> read_tables(Path("nowhere"), "coverage", ("coverage.csv", "coverage_units.csv"))
        Traceback (most recent call last):
        ...
        FileNotFoundError: nowhere holds no study of coverage: coverage.csv is missing. `eiv study coverage --out
        nowhere` makes it.

    """
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} holds no study of {study}: {missing[0]} is missing. `eiv study {study} --out {folder}` makes it."
        )
    networks, units = (pd.read_csv(folder / name) for name in names)
    return networks, units


def read_remarks(folder: Path) -> list[str]:
    """The remarks on the results in a folder: the paragraphs of `remarks.md`, if there is one.

    Args:
        folder: the folder of the study.

    Returns:
        Each paragraph as one line.

    Examples:
        >>> read_remarks(Path("nowhere"))
        []

    """
    path = folder / "remarks.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]
