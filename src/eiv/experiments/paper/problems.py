"""The data of a run: the rows of each network, and points with a known truth that all networks share."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray
from sklearn.model_selection import ShuffleSplit

from eiv.datasets import SIMULATED, load, simulate
from eiv.experiments.paper.settings import TRAIN_SHARE

__all__ = ["Points", "Problem", "problem"]

Array = NDArray[np.float64]
Splits = list[tuple[NDArray[np.intp], NDArray[np.intp]]]
N_FRESH = 200  # points of figure deviation_scatter
N_LINE = 50  # equidistant zetas of figure prediction_linear


@dataclass(frozen=True)
class Points:
    """Points of a simulated problem that no network has seen.

    Attributes:
        kind: "fresh" for zetas drawn like those of the data, "line" for equidistant ones.
        zeta: `points`, true inputs.
        x: `points`, measured inputs.
        truth: `points`, g(zeta).
        g_of_x: `points`, g(x).

    Examples:
        >>> points = problem("linear", seed=0, n_networks=1).points
        >>> [(p.kind, len(p.x)) for p in points]
        [('fresh', 200), ('line', 50)]

    """

    kind: str
    zeta: Array
    x: Array
    truth: Array
    g_of_x: Array


@dataclass(frozen=True)
class Problem:
    """The rows of a data set, and the split of them for each of S networks.

    Simulated data are drawn anew for each network: X holds the rows of all networks, one after another, and no two
    networks share a row. Real data are one table, which is split at random for each network. Four fifths of the rows of
    a network are for training.

    Attributes:
        name: the data set.
        X: `rows x n_x`; for simulated data the rows of all networks.
        y: `rows`.
        truth: `rows`, g(zeta), or None for real data.
        splits: the indices of training rows and of test rows, one pair per network.
        points: further points with a known truth, for simulated data.
        network_seed: the seed of the networks, the same for every method.

    Examples:
        >>> linear = problem("linear", seed=0, n_networks=3)
        >>> [(len(train), len(test)) for train, test in linear.splits]
        [(400, 100), (400, 100), (400, 100)]
        >>> len(linear.y), len(np.unique(linear.y))
        (1500, 1500)

    """

    name: str
    X: Any
    y: Array
    truth: Array | None
    splits: Splits
    points: tuple[Points, ...]
    network_seed: int


def problem(name: str, seed: int, n_networks: int) -> Problem:
    """The data of one set, its splits and its seeds, all from one `seed`.

    Args:
        name: one of the thirteen sets.
        seed: the seed of the run.
        n_networks: S.

    Returns:
        The problem; the rows of the first networks do not depend on `n_networks`.

    Examples:
        >>> problem("sine", seed=1, n_networks=2).X.shape
        (4000, 1)

    """
    seeds = SeedSequence([seed, zlib.crc32(name.encode())])
    _, split_seed, network_seed, *point_seeds = map(int, seeds.generate_state(5) // 2)
    if name in SIMULATED:
        points = _fresh(name, point_seeds[0]), _line(name, point_seeds[1])
        return Problem(name, *_drawn_anew(name, seeds.spawn(n_networks)), points, network_seed)
    loaded = load(name)
    splitter = ShuffleSplit(n_networks, train_size=TRAIN_SHARE, random_state=split_seed)
    return Problem(name, loaded.X, loaded.y.to_numpy(), None, list(splitter.split(loaded.X)), (), network_seed)


def _drawn_anew(name: str, seeds: Sequence[SeedSequence]) -> tuple[Array, Array, Array, Splits]:
    """X, y, truth and splits of one data set per seed; rows are independent, so the last ones are the test rows."""
    data = [simulate(name, random_state=int(seed.generate_state(1)[0])) for seed in seeds]
    X, y, truth = (np.concatenate([getattr(one, column) for one in data]) for column in ("X", "y", "truth"))
    rows = np.arange(len(y), dtype=np.intp).reshape(len(seeds), -1)
    n_train = round(TRAIN_SHARE * rows.shape[1])
    return X, y, truth, [(own[:n_train], own[n_train:]) for own in rows]


def _fresh(name: str, seed: int) -> Points:
    data = simulate(name, N_FRESH, random_state=seed)
    return Points("fresh", data.zeta[:, 0], data.X[:, 0], data.truth, SIMULATED[name].g(data.X[:, 0]))


def _line(name: str, seed: int) -> Points:
    simulated = SIMULATED[name]
    zeta = np.linspace(*simulated.zeta_range, N_LINE)
    x = zeta + simulated.x_err * np.random.default_rng(seed).standard_normal(N_LINE)
    return Points("line", zeta, x, simulated.g(zeta), simulated.g(x))
