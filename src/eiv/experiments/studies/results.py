"""The two tables of a study: the scores of its networks, and the origin of the numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from eiv.experiments.runs import FORMAT, MixedResultsError, Unit, read_unit
from eiv.io.files import written_whole

__all__ = ["collect_units", "read_remarks", "read_tables"]


def check_earlier(
    folder: Path, units: Sequence[Unit], keys: Sequence[str], names: tuple[str, str], shared: Mapping[str, Any]
) -> None:
    """See to it that results of other units in a folder may stand beside those of a run.

    Args:
        folder: the folder of the study.
        units: the units of the run.
        keys: the attributes that identify a unit.
        names: the names of the two files of the study.
        shared: what all units of a study must have in common, by the name of its column.

    Raises:
        MixedResultsError: where the folder holds others.

    Examples:
        >>> check_earlier(Path("nowhere"), [], ["problem"], ("a.csv", "b.csv"), {"seed": 0})

    """
    if not all((folder / name).is_file() for name in names):
        return
    earlier = _others(pd.read_csv(folder / names[1]), units, keys)
    for column, wanted in {"format": FORMAT, **shared}.items():
        for found in earlier.get(column, ()):
            if found != wanted:
                raise MixedResultsError(
                    f"{folder} holds results of other units that were made with {column} = {found!r}, not {wanted!r}. "
                    "Choose another folder, or replace all results of this one with --restart."
                )


def collect_units(
    folder: Path,
    units: Sequence[Unit],
    keys: Sequence[str],
    names: tuple[str, str],
    beside: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """Collect the results of single units into two tables, and write them.

    Args:
        folder: the folder of the study.
        units: the units that it has run.
        keys: the attributes that identify a unit; they are the first columns of both tables.
        names: the names of the two files: one row per network, and one row per unit.
        beside: the values of each key, in the order of the study. Where it is given, the tables that the folder holds
            already keep their rows of other units.

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
    both = [table, pd.DataFrame(runs)]
    if beside is not None and all((folder / name).is_file() for name in names):
        earlier = [_others(pd.read_csv(folder / name), units, keys) for name in names]
        both = [_in_order(pd.concat(parts, ignore_index=True), beside) for parts in zip(earlier, both, strict=True)]
    for name, found in zip(names, both, strict=True):
        with written_whole(folder / name) as part:
            found.to_csv(part, index=False, float_format="%.6g")
    return both[0]


def _others(table: pd.DataFrame, units: Sequence[Unit], keys: Sequence[str]) -> pd.DataFrame:
    """The rows of a table that are of none of the units."""
    own = pd.MultiIndex.from_tuples([tuple(getattr(unit, name) for name in keys) for unit in units], names=keys)
    return table[~pd.MultiIndex.from_frame(table[list(keys)]).isin(own)]


def _in_order(table: pd.DataFrame, known: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Rows by the order of their keys; those with unknown ones come last."""
    places = {name: table[name].map({value: i for i, value in enumerate(values)}) for name, values in known.items()}
    order = pd.DataFrame(places).sort_values(list(known), kind="stable", na_position="last").index
    return table.loc[order].reset_index(drop=True)


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
