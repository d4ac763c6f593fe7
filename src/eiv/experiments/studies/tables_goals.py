"""The goals of the default recipe in the study of tables.

The rules were fixed before any run on the seeds that count. A goal has one number per problem, a summary of these
numbers, and bounds. It is met where the summary is within the bounds, without a margin. A problem on which our fit has
failed counts against each goal that includes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from eiv.experiments.paper.claims import Verdict

__all__ = ["GOALS", "Reached", "TableGoal", "by_problem", "noisy_problems"]

OURS, GP = "ours", "gp"
IGNORED = ("ignored", "ignored (cosine)")  # the better of both counts as ignoring the errors
NOISY_SHARE = 0.1  # the share of the errors of x in the variance of a label given x, above which a problem is noisy
_TOLERANCE = 1e-9  # for rounding errors
_SUMMARIES: dict[str, Callable[[pd.Series], float]] = {
    "median": lambda numbers: float(numbers.median()),
    "mean": lambda numbers: float(numbers.mean()),
    "largest": lambda numbers: float(numbers.max()),
}


@dataclass(frozen=True)
class Reached:
    """The result for a goal.

    Attributes:
        value: the summary; nan where no problem of the goal was run.
        n_problems: the number of problems of the goal.
        verdict: "holds", "does not hold" or "not run".
        exceptions: the problems outside the bounds of a single number; there may be some although the goal is met.

    Examples:
        >>> Reached(0.95, 100, "holds", ()).verdict
        'holds'

    """

    value: float
    n_problems: int
    verdict: Verdict
    exceptions: tuple[str, ...]


@dataclass(frozen=True)
class TableGoal:
    """Bounds for a summary of one number per problem.

    Attributes:
        sentence: a description of the number and of its problems.
        numbers: a function from the table of the study to one number per problem of the goal.
        summary: "median", "mean" or "largest" of the numbers; or "share", that of numbers within `each`.
        low: the lower bound of the summary.
        high: the upper bound of the summary.
        each: for a share, the bounds of a single number.

    Examples:
        >>> goal = TableGoal("RMSE", lambda table: table.set_index("problem")["rmse"], "median", high=1.0)
        >>> goal.asked, goal.reached(pd.DataFrame({"problem": ["a", "b"], "rmse": [0.5, 0.7]})).verdict
        ('median at most 1', 'holds')

    """

    sentence: str
    numbers: Callable[[pd.DataFrame], pd.Series]
    summary: str
    low: float = -np.inf
    high: float = np.inf
    each: tuple[float, float] | None = None

    @property
    def asked(self) -> str:
        """The bounds in words."""
        if self.each is None:
            return f"{self.summary} {_in_words(self.low, self.high)}"
        return f"{_in_words(*self.each)} in {self.low:.3g} of them or more"

    def reached(self, table: pd.DataFrame) -> Reached:
        """The result for this goal from a table of `study_tables`."""
        numbers = self.numbers(table)
        if numbers.empty:
            return Reached(np.nan, 0, "not run", ())
        if self.each is not None:
            within = _within(numbers, *self.each)
            value, outside = float(within.mean()), numbers.index[~within]
        else:
            value = _SUMMARIES[self.summary](numbers)
            outside = numbers.index[~_within(numbers, self.low, self.high)] if self.summary == "largest" else ()
        kept = self.low - _TOLERANCE <= value <= self.high + _TOLERANCE
        return Reached(value, len(numbers), "holds" if kept else "does not hold", tuple(map(str, outside)))


def by_problem(table: pd.DataFrame, score: str, kind: str = "random") -> pd.DataFrame:
    """A score of all methods, one row per problem and one column per method.

    Args:
        table: one row per fit, from `eiv.experiments.studies.tables.study_tables`.
        score: a column of it.
        kind: the kind of problems: "random", "real" or "example".

    Returns:
        Means over the splits; nan where one of the fits has failed. Empty where no problem of the kind was run.

    Examples:
        >>> rows = {"problem": ["a", "a"], "method": ["ours", "gp"], "kind": "real", "rmse": [1.0, 2.0]}
        >>> by_problem(pd.DataFrame(rows), "rmse", "real").loc["a"].to_dict()
        {'ours': 1.0, 'gp': 2.0}

    """
    rows = table[table["kind"] == kind]
    if rows.empty:  # the table need not have that score then
        return pd.DataFrame()
    means = rows.groupby(["problem", "method"], sort=False)[score].agg(lambda values: values.mean(skipna=False))
    return means.unstack().reindex(rows["problem"].unique())


def noisy_problems(table: pd.DataFrame) -> set[str]:
    r"""The random problems in which the errors of x matter.

    .. math:: \frac{\mathrm{E} \, \mathrm{Var}[g \mid x]}{\mathrm{E} \, \mathrm{Var}[g \mid x] + \sigma_y^2} > 0.1

    Args:
        table: one row per fit.

    Returns:
        Their names.

    Examples:
        >>> rows = {"problem": ["seed 1", "seed 2"], "kind": "random", "noise_share": [0.05, 0.5]}
        >>> noisy_problems(pd.DataFrame(rows))
        {'seed 2'}

    """
    rows = table[table["kind"] == "random"]
    return set(rows.loc[rows["noise_share"] > NOISY_SHARE, "problem"]) if len(rows) else set()


def _in_words(low: float, high: float) -> str:
    if np.isinf(low):
        return f"at most {high:g}"
    return f"at least {low:g}" if np.isinf(high) else f"{low:g} to {high:g}"


def _within(numbers: pd.Series, low: float, high: float) -> pd.Series:
    return numbers.between(low - _TOLERANCE, high + _TOLERANCE)


def _ours(score: str) -> Callable[[pd.DataFrame], pd.Series]:
    """A function to our score on random problems, which is infinite where the fit has failed."""

    def numbers(table: pd.DataFrame) -> pd.Series:
        found = by_problem(table, score)
        return found[OURS].fillna(np.inf) if OURS in found else pd.Series(dtype=float)

    return numbers


def _over(score: str, kind: str, others: Callable[[str], bool]) -> Callable[[pd.DataFrame], pd.Series]:
    """A function to our score over the smallest one of some methods, on problems on which one of them was run."""

    def numbers(table: pd.DataFrame) -> pd.Series:
        found = by_problem(table, score, kind)
        names = [name for name in found if others(name)]
        if OURS not in found or not names:
            return pd.Series(dtype=float)
        best = found[names].min(axis=1)
        return (found[OURS] / best)[best.notna()].fillna(np.inf)

    return numbers


def _where(
    numbers: Callable[[pd.DataFrame], pd.Series], rule: Callable[[pd.DataFrame], pd.Series]
) -> Callable[[pd.DataFrame], pd.Series]:
    """The same numbers, restricted to the random problems that a rule chooses by their columns."""

    def chosen(table: pd.DataFrame) -> pd.Series:
        found, rows = numbers(table), table[table["kind"] == "random"].drop_duplicates("problem").set_index("problem")
        return found[rule(rows).reindex(found.index)] if len(found) else found

    return chosen


def _example(score: str, over: str | None = None) -> Callable[[pd.DataFrame], pd.Series]:
    def numbers(table: pd.DataFrame) -> pd.Series:
        found = by_problem(table, score, "example")
        if OURS not in found or (over is not None and over not in found):
            return pd.Series(dtype=float)
        return (found[OURS] / (1.0 if over is None else found[over])).fillna(np.inf)

    return numbers


def _is_noisy(rows: pd.DataFrame) -> pd.Series:
    return rows["noise_share"] > NOISY_SHARE


def _is_other(name: str) -> bool:
    return name != OURS


GOALS = (
    TableGoal(
        "RMSE to g over that of the best other method",
        _over("rmse", "random", _is_other),
        "median",
        high=1.0,
    ),
    TableGoal(
        "RMSE to g over that of the best other method",
        _over("rmse", "random", _is_other),
        "share",
        low=0.9,
        each=(-np.inf, 1.05),
    ),
    TableGoal(
        "RMSE to g over the limit, with 500 rows or more and up to five noisy columns",
        _where(_ours("rmse_ratio"), lambda rows: (rows["n_rows"] >= 500) & (rows["n_noisy"] <= 5)),
        "median",
        high=1.05,
    ),
    TableGoal(
        "RMSE to g over that of ignoring the errors, noisy problems",
        _where(_over("rmse", "random", IGNORED.__contains__), _is_noisy),
        "largest",
        high=1.02,
    ),
    TableGoal(
        "error of f at exact inputs over that of ignoring the errors, noisy problems",
        _where(_over("clean_rmse", "random", IGNORED.__contains__), _is_noisy),
        "share",
        low=0.9,
        each=(-np.inf, 1.0),
    ),
    TableGoal("truth covered at 95 %", _ours("truth_0.95"), "mean", 0.94, 0.96),
    TableGoal("truth covered at 95 %, single fits", _ours("truth_0.95"), "share", low=0.9, each=(0.90, 0.985)),
    TableGoal(
        "f at exact inputs covered at 95 % by the epistemic uncertainty", _ours("clean_0.95"), "mean", 0.92, 0.98
    ),
    TableGoal("labels covered at 95 %", _ours("labels_0.95"), "mean", 0.94, 0.96),
    TableGoal(
        "σ_y over the true one, 300 rows or more, where σ_y² is more than a tenth of the variance of a label given x",
        _where(_ours("y_noise_ratio"), lambda rows: (rows["n_rows"] >= 300) & (rows["noise_share"] < 1 - NOISY_SHARE)),
        "share",
        low=0.9,
        each=(0.8, 1.2),
    ),
    TableGoal(
        "real tables: CRPS over that of the best of all methods",
        _over("crps", "real", lambda name: True),
        "share",
        low=2 / 3,
        each=(-np.inf, 1.03),
    ),
    TableGoal(
        "real tables: CRPS over that of ignoring the errors",
        _over("crps", "real", IGNORED.__contains__),
        "largest",
        high=1.02,
    ),
    TableGoal("humidity example: error of f at exact inputs, g/kg", _example("clean_rmse"), "largest", high=0.12),
    TableGoal("humidity example: RMSE over the Gaussian process's", _example("rmse", over=GP), "largest", high=1.0),
)
