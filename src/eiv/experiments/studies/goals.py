"""The goals of the default recipe in the study of coverage.

The rule was fixed before any run. A goal is met on a problem where the mean is on the right side of its bounds by two
standard errors, missed where it is on the wrong side by two, and undecided in between. Standard errors are those over
the realisations of the data, each of which is a mean over its networks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from eiv.datasets import SIMULATED
from eiv.experiments.paper.claims import Condition

__all__ = ["GOALS", "Goal", "summarise"]

OURS, LAYERS, PAPER = "ours", "ours with layers", "paper"
_KEYS = ["problem", "zeta", "method"]


@dataclass(frozen=True)
class Goal:
    """Bounds for one number of a method, on some of the problems.

    Attributes:
        column: the column of a summary.
        name: the short name of that number.
        sentence: a description of it.
        low: the lower bound of the mean.
        high: the upper bound of the mean.
        problems: the problems that have this goal, with uniform and with normal zeta.

    Examples:
        >>> Goal("rmse_ratio", "RMSE / limit", "RMSE over the smallest possible", high=1.06).asked
        'at most 1.06'

    """

    column: str
    name: str
    sentence: str
    low: float = -np.inf
    high: float = np.inf
    problems: tuple[str, ...] = tuple(SIMULATED)

    @property
    def asked(self) -> str:
        """The bounds in words."""
        return f"at most {self.high:g}" if np.isinf(self.low) else f"{self.low:g} to {self.high:g}"

    def conditions(self, summary: pd.DataFrame, method: str = OURS) -> dict[tuple[str, str], Condition]:
        """The result of a method for each problem and zeta that was run."""
        found = {
            (problem, zeta): (row["mean", self.column], row["se", self.column])
            for (problem, zeta, name), row in summary.iterrows()
            if name == method and problem in self.problems
        }
        return {
            where: Condition(f"{where[0]} ({where[1]} ζ)", value, error, self.low, self.high)
            for where, (value, error) in found.items()
            if not np.isnan(value)
        }


GOALS = (
    Goal("truth_moment_0.95", "truth, moments", "truth covered by the 95 % moment interval", 0.93, 0.97),
    Goal("truth_quantile_0.95", "truth, quantiles", "truth covered by the 95 % quantile interval", 0.93, 0.97),
    Goal("labels_0.95", "labels", "labels covered by their 95 % interval", 0.93, 0.97),
    Goal("rmse_ratio", "RMSE / limit", "RMSE of m(x) to g(ζ) over the smallest possible", high=1.06),
    Goal(
        "clean_ratio",
        "error of f / paper's",
        "error of f at exact inputs over that of the paper's recipe",
        high=0.5,
        problems=("cubic", "sine"),
    ),
    Goal(
        "y_noise_ratio",
        "σ_y / true",
        "fitted σ_y over the true one",
        0.75,
        1.25,
        problems=("linear", "quadratic", "cubic"),
    ),
)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    r"""Means and standard errors over the realisations, each the mean over its networks, with ratios added.

    .. math:: \bar v \pm \frac{s_v}{\sqrt R}, \qquad v_r = \frac{1}{S} \sum_s v_{rs}

    Args:
        table: one row per network, from `eiv.experiments.studies.coverage.study_coverage`.

    Returns:
        One row per problem, zeta and method, with columns `("mean", name)` and `("se", name)`. `best_ratio` is the RMSE
        over that of the best prediction on the same test points; `clean_ratio` and `training_ratio` are error of f and
        training time over those of the paper's recipe on the same data.

    Examples:
        >>> rows = [{"problem": "sine", "zeta": "normal", "method": "paper", "realisation": i // 2, "network": i % 2,
        ...          "rmse": i + 1.0, "best_rmse": 1.0, "clean_rmse": 1.0, "training_s": 1.0} for i in range(4)]
        >>> summarise(pd.DataFrame(rows))["se", "best_ratio"].item()  # of 1.5 and 3.5
        1.0

    """
    data = ["problem", "zeta", "realisation"]
    paper = table[table["method"] == PAPER].groupby(data)[["clean_rmse", "training_s"]].mean()
    first = paper.reindex(pd.MultiIndex.from_frame(table[data])).set_index(table.index)
    ratios = {
        "best_ratio": table["rmse"] / table["best_rmse"],
        "clean_ratio": table["clean_rmse"] / first["clean_rmse"],
        "training_ratio": table["training_s"] / first["training_s"],
    }
    networks = table.drop(columns="network").assign(**ratios)
    realisations = networks.groupby([*_KEYS, "realisation"], sort=False).mean().reset_index("realisation", drop=True)
    grouped = realisations.groupby(_KEYS, sort=False)
    return pd.concat({"mean": grouped.mean(), "se": grouped.sem()}, axis=1)
