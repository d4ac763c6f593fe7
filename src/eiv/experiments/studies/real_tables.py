"""The real tables of the study of tables, and the example of the README."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import ShuffleSplit

from eiv import relative
from eiv.datasets import REAL, DataNotFoundError, load, overview
from eiv.inputs import RelativeError

__all__ = ["MEASURED", "RealTable", "humidity", "left_out", "load_table", "tables_at_hand"]

Array = NDArray[np.float64]
MEASURED = (
    "photoz_vvds",
    "supernovae_pantheon",
    "stars_harps_age",
    "exoplanet_radius",
    "cpx_pressure",
    "nhanes_age",
)
N_SPLITS, TRAIN_SHARE = 2, 0.8
_ERROR = 0.05  # the errors in the nine sets of the paper, as a share of the standard deviation of a column
_SPLIT_SEED = 16


@dataclass(frozen=True, eq=False)
class RealTable:
    """A table with the errors of its inputs.

    Attributes:
        X: `rows x n_x`.
        X_err: standard deviations, `n_x` or `rows x n_x`, or covariances `rows x n_x x n_x`.
        y: `rows`.
        is_share: whether the errors are a share of the spread of each column, since nothing is known of them.

    Examples:
        >>> table = RealTable(np.zeros((10, 2)), np.ones((10, 2)), np.arange(10.0))
        >>> [(len(train.y), len(test.y)) for train, test in table.splits()]
        [(8, 2), (8, 2)]

    """

    X: Array
    X_err: Array
    y: Array
    is_share: bool = False

    @property
    def stated(self) -> Array | RelativeError:
        """The errors for a fit: shares as such, because columns that follow from others contradict them as numbers."""
        spread = self.X.std(0)
        return relative(self.X_err / np.where(spread > 0, spread, 1.0)) if self.is_share else self.X_err

    def take(self, rows: NDArray[np.intp]) -> RealTable:
        """Some of the rows."""
        X_err = self.X_err if self.X_err.ndim == 1 else self.X_err[rows]
        return RealTable(self.X[rows], X_err, self.y[rows], self.is_share)

    def splits(self, most_rows: int | None = None) -> list[tuple[RealTable, RealTable]]:
        """Two random splits, the same at every call: four fifths to train with, at most `most_rows`, and the rest."""
        splitter = ShuffleSplit(N_SPLITS, train_size=TRAIN_SHARE, random_state=_SPLIT_SEED)
        return [(self.take(train[:most_rows]), self.take(test)) for train, test in splitter.split(self.X)]


def tables_at_hand() -> tuple[str, ...]:
    """The names of the tables that can be loaded without a download.

    Returns:
        Those of `MEASURED` in the folder that the environment variable EIV_TABLES names, and those of the paper.

    Examples:
        >>> set(tables_at_hand()) <= {*MEASURED, *REAL}
        True

    """
    folder, known = _folder(), overview().set_index("name")["at_hand"]
    measured = MEASURED if folder is not None and (folder / "tables.json").is_file() else ()
    return (*measured, *(name for name in REAL if known[name] != "no"))


def left_out() -> str:
    """A sentence on the tables that are not at hand; empty where all are.

    Returns:
        The names of these tables, and the variable to set.

    Examples:
        >>> isinstance(left_out(), str)
        True

    """
    found = set(tables_at_hand())
    parts = [
        f"{', '.join(missing)} ({variable} names no folder that holds them)"
        for names, variable in ((MEASURED, "EIV_TABLES"), (tuple(REAL), "EIV_DATA"))
        if (missing := [name for name in names if name not in found])
    ]
    return f"Left out: {'; '.join(parts)}." if parts else ""


def load_table(name: str) -> RealTable:
    r"""A measured table with its errors, or a table of the paper with the following errors.

    .. math:: \sigma_{x,j} = 0.05 \, \mathrm{sd}(x_j)

    Covariances between the errors of two inputs are used where a table has them; those with the error of y are not.

    Args:
        name: one of `MEASURED` or of `eiv.datasets.REAL`.

    Returns:
        All rows.

    Raises:
        DataNotFoundError: where the table is not at hand.

    Examples:
        >>> load_table("cpx_pressure").X.shape  # doctest: +SKIP
        (334, 9)

    """
    if name in REAL:
        data = load(name)
        X = data.X.to_numpy(float)
        errors = np.where(np.ptp(X, axis=0) > 0, _ERROR * X.std(0), 0.0)
        return RealTable(X, errors, data.y.to_numpy(float), is_share=True)
    folder = _folder()
    if folder is None or name not in MEASURED:
        raise DataNotFoundError(f"The table {name!r} is not at hand: EIV_TABLES must name the folder that holds it.")
    about = json.loads((folder / "tables.json").read_text(encoding="utf-8"))[name]
    table = pd.read_csv(folder / about["file"])
    inputs, errors = about["inputs"], about["errors"]
    std = np.column_stack([table[errors[i]] if i in errors else np.zeros(len(table)) for i in inputs]).astype(float)
    X, y = table[inputs].to_numpy(float), table[about["target_column"]].to_numpy(float)
    return RealTable(X, _with_covariances(std, table, inputs, about.get("covariances", ())), y)


def humidity(n_rows: int, seed: int) -> tuple[RealTable, Array, Array]:
    r"""The example of the README: a cheap sensor for air, and a reference instrument for its water vapour.

    .. math:: y = \frac{621.98 \, e}{p - e} + \varepsilon_y, \qquad
              e = h \cdot 6.112 \exp\!\Big(\frac{17.62 \, t}{243.12 + t}\Big)

    Args:
        n_rows: the number of rows.
        seed: the seed; 0 gives the 400 rows of `examples/humidity.csv`.

    Returns:
        The table (temperature, relative humidity and pressure; the mixing ratio in g/kg), the true inputs, `rows x 3`,
        and the true mixing ratios, `rows`.

    Examples:
        >>> humidity(400, 0)[0].X[0].tolist()
        [23.87, 33.1, 972.4]

    """
    random = np.random.default_rng(seed)
    t, h, p = random.uniform(5, 35, n_rows), random.uniform(15, 95, n_rows), random.normal(990, 15, n_rows)
    h_err = np.where((h >= 20) & (h <= 80), 1.2, 2.0)
    vapour = h / 100 * 6.112 * np.exp(17.62 * t / (243.12 + t))
    truth = 621.98 * vapour / (p - vapour)
    noise = random.standard_normal((4, n_rows))
    X = np.column_stack(
        [(t + 0.4 * noise[0]).round(2), (h + h_err * noise[1]).round(1), (p * (1 + 0.001 * noise[2])).round(1)]
    )
    X_err = np.column_stack([np.full(n_rows, 0.4), h_err, 0.001 * X[:, 2]])
    return RealTable(X, X_err, (truth + 0.15 * noise[3]).round(2)), np.column_stack([t, h, p]), truth


def _folder() -> Path | None:
    chosen = os.environ.get("EIV_TABLES")
    return Path(chosen).expanduser() if chosen else None


def _with_covariances(std: Array, table: pd.DataFrame, inputs: list[str], columns: Sequence[str]) -> Array:
    """Covariances `rows x n_x x n_x` if a column `cov_a_b` is about two inputs; else `std`, `n_x` if rows agree."""
    pairs = {f"cov_{a}_{b}": (i, j) for i, a in enumerate(inputs) for j, b in enumerate(inputs)}
    known = [name for name in columns if name in pairs]
    if not known:
        return std[0] if (std == std[0]).all() else std
    found: Array = np.eye(len(inputs)) * (std**2)[:, None]
    for name in known:
        i, j = pairs[name]
        found[:, i, j] = found[:, j, i] = table[name]
    return found
