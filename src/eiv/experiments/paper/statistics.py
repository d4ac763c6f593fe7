"""Statistics of the networks of a run, with standard errors from the jackknife over networks.

On simulated sets each network has data of its own, so these are errors over independent data sets. On real sets the
networks have overlapping splits of one table. Methods are compared network by network, on the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eiv.datasets import SIMULATED
from eiv.experiments.paper.settings import METHODS
from eiv.experiments.paper.stacks import G_REGRESSION
from eiv.experiments.paper.tables import Tables, select
from eiv.experiments.paper.verdicts import Condition

Array = NDArray[np.float64]


class Numbers:
    """The values of single networks in the tables of a run."""

    def __init__(self, tables: Tables, estimator: str) -> None:
        self.tables, self.estimator = tables, estimator
        self.sets = list(tables.networks["dataset"].unique())

    @property
    def simulated(self) -> list[str]:
        """The simulated sets of the run."""
        return [name for name in self.sets if name in SIMULATED]

    def has(self, dataset: str, *methods: str) -> bool:
        """Whether a set was run with all of these methods."""
        return set(methods) <= set(select(self.tables.networks, dataset=dataset)["method"])

    def of(self, dataset: str, method: str, column: str, reading: str = "parameters") -> Array:
        """One value per network, `S`; `reading` is the version of the uncertainty of the g-based regression."""
        estimator = reading if method == G_REGRESSION else self.estimator
        found = select(self.tables.networks, dataset=dataset, method=method, estimator=estimator)
        return np.asarray(found.sort_values("network")[column], dtype=float)

    def calibration(self, dataset: str, method: str) -> tuple[Array, Array]:
        """The levels q, and the coverage of the truth at each, `S x q`."""
        found = select(self.tables.calibration, dataset=dataset, method=method, estimator=self.estimator)
        table = found.pivot_table(index="network", columns="q", values="coverage")
        return table.columns.to_numpy(float), table.to_numpy(float)

    def fresh(self, dataset: str, method: str) -> pd.DataFrame:
        """The 200 points of figure deviation_scatter."""
        return select(self.tables.points, dataset=dataset, method=method, estimator=self.estimator, kind="fresh")


def jackknife(statistic: Callable[..., float], *samples: Array) -> tuple[float, float]:
    """A function of the means over the networks, and its standard error from leaving out one network at a time.

    Network i is left out of all `samples` at once, since its rows are the same in all of them.
    """
    value = statistic(*(sample.mean(0) for sample in samples))
    n = len(samples[0])
    if n < 2:
        return value, np.inf
    parts = np.array([statistic(*(np.delete(sample, i, 0).mean(0) for sample in samples)) for i in range(n)])
    return value, float(np.sqrt((n - 1) * parts.var()))


def compare(
    numbers: Numbers,
    sets: Sequence[str],
    column: str,
    statistic: Callable[..., float],
    methods: Sequence[str] = METHODS,
    low: float = -np.inf,
    high: float = np.inf,
    reading: str = "parameters",
) -> tuple[Condition, ...]:
    """One condition per data set on a statistic of the means of a column for several methods."""
    return tuple(
        Condition(
            name,
            *jackknife(statistic, *(numbers.of(name, method, column, reading) for method in methods)),
            low=low,
            high=high,
        )
        for name in sets
        if numbers.has(name, *methods)
    )


def difference(first: float, second: float) -> float:
    """The first minus the second."""
    return first - second


def ratio(first: float, second: float) -> float:
    """The first divided by the second."""
    return first / second


def closer_to(q: Any) -> Callable[[Any, Any], float]:
    """A function for how much closer to q the first is than the second, averaged over q if there are several."""
    return lambda first, second: float(np.mean(np.abs(second - q) - np.abs(first - q)))


def least_sure(conditions: Iterable[Condition]) -> Condition:
    """Of conditions with a lower bound, the one closest to it in standard errors, which decides the verdict of all."""

    def room(condition: Condition) -> float:
        distance = condition.value - condition.low
        return distance / condition.error if condition.error else math.copysign(math.inf, distance)

    return min(conditions, key=room)


def both_trained(numbers: Numbers, sets: Sequence[str]) -> list[str]:
    """The sets for which both EiV and non-EiV models were trained."""
    return [name for name in sets if numbers.has(name, *METHODS)]
