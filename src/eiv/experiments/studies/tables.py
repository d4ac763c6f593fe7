"""`eiv study tables`: single fits on random problems that were not used to choose a method, and on real tables."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eiv import TrainingDivergedError
from eiv.experiments.runs import DEFAULT_OPTIONS, RunOptions, run_units
from eiv.experiments.studies.random_problems import random_problem
from eiv.experiments.studies.real_tables import humidity, left_out, load_table, tables_at_hand
from eiv.experiments.studies.results import collect_units
from eiv.experiments.studies.rivals import RIVALS, Answer, fit_rival, installed_rivals
from eiv.metrics import coverage, crps, rmse
from eiv.training.settings import settings_for

__all__ = ["KEPT_SEEDS", "TableUnit", "study_tables"]

Array = NDArray[np.float64]
KEPT_SEEDS = range(1200, 1300)  # those below 1,000 are for development; 1,000 to 1,199 judged versions before
EXAMPLE = "humidity"
TABLE, UNITS = "tables.csv", "tables_units.csv"
N_TEST = 1000  # fresh rows of a random problem
_ORDER = ["problem", "method"]
_WIDTH = 1.96  # half the width of a 95 % interval, in standard deviations
_SLOW = {"ours": 10.0, "ignored": 5.0, "paper": 20.0}  # guesses of their time, relative to that of other methods


@dataclass(frozen=True)
class TableUnit:
    """One problem and method: a fit, or on a real table one for each of its two splits.

    Attributes:
        problem: "seed N" for a random problem, the name of a table, or "humidity".
        method: one of `eiv.experiments.studies.rivals.RIVALS`.
        most_rows: the most rows to train with, for a trial; None for all.
        device: "cpu" or "cuda".

    Examples:
        >>> TableUnit("seed 7", "ignored (cosine)", most_rows=None, device="cpu").key
        'tables-seed-7-ignored-cosine'

    """

    problem: str
    method: str
    most_rows: int | None
    device: str

    @property
    def key(self) -> str:
        """The name of the unit."""
        return "-".join(["tables", *re.findall(r"\w+", f"{self.problem} {self.method}")])

    @property
    def seed(self) -> int | None:
        """The seed of a random problem; None for other problems."""
        return int(self.problem.removeprefix("seed ")) if self.problem.startswith("seed ") else None

    @property
    def n_models(self) -> int:
        """The number of fits, each of which is one row of the results."""
        return 1 if self.seed is not None or self.problem == EXAMPLE else 2

    @property
    def cost(self) -> float:
        """The time that the unit takes, relative to that of others."""
        rows = 5000 if self.seed is None else random_problem(self.seed).n_rows
        return _SLOW.get(self.method, 1.0) * (1000 + min(rows, self.most_rows or rows)) * self.n_models

    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, except versions and the machine."""
        words = "" if self.seed is None else random_problem(self.seed).words
        found = asdict(self) | {"n_models": self.n_models, "n_test": N_TEST, "words": words}
        if self.method == "ours":  # it may change from version to version
            recipes = (settings_for({"recipe": "default"}, n_rows=500, n_noisy=noisy) for noisy in (1, 2))
            found["arguments"] = {recipe.network: asdict(recipe) for recipe in recipes}
        return found

    def run(self, on_progress: Callable[[float], None]) -> tuple[dict[str, pd.DataFrame], dict[str, float]]:
        """Fit and score: one row per fit, without scores where the method refuses the table or does not converge."""
        rows = [{"network": i, **scores} for i, scores in enumerate(self._fits())]
        on_progress(1.0)
        table = pd.DataFrame(rows)
        seconds = {f"{part}_s": float(table[f"{part}_s"].sum()) for part in ("training", "prediction")}
        return {"networks": table}, {"training_s": seconds["training_s"], "evaluation_s": seconds["prediction_s"]}

    def _fits(self) -> Iterator[dict[str, Any]]:
        if self.seed is not None:
            yield self._random(self.seed)
        elif self.problem == EXAMPLE:
            yield self._example()
        else:
            yield from self._real()

    def _random(self, seed: int) -> dict[str, Any]:
        problem = random_problem(seed)
        train = problem.draw(min(problem.n_rows, self.most_rows or problem.n_rows), "training")
        test = problem.draw(N_TEST, "test")
        limit, unit = problem.limit(test), problem.y_scale
        best, best_total = rmse(test.truth, limit.mean), np.sqrt(limit.variance + (unit * problem.y_noise) ** 2)
        found: dict[str, Any] = {
            "kind": "random",
            "shape": problem.shape,
            "zeta": problem.zeta,
            "errors": problem.errors,
            "n_rows": len(train.y),
            "n_columns": problem.n_columns,
            "n_noisy": problem.n_noisy,
            "reliability": problem.reliability[problem.reliability < 1].mean(),
            "y_noise": problem.y_noise,
            "noise_share": problem.noise_share(limit),
            "words": problem.words,
            "best_rmse": best / unit,
            "best_crps": crps(test.y, limit.mean, best_total) / unit,
            "best_truth_0.95": _covered(test.truth, limit.mean, np.sqrt(limit.variance)),
            "best_labels_0.95": _covered(test.y, limit.mean, best_total),
        }
        scores = self._scores(
            (train.X, train.X_err, train.y), (test.X, test.X_err, test.y), unit, test.truth, test.zeta
        )
        scores["rmse_ratio"] = scores["rmse"] * unit / best
        scores["y_noise_ratio"] = scores["y_noise_fitted"] / problem.y_noise
        return found | scores

    def _example(self) -> dict[str, Any]:
        train, *_ = humidity(400, seed=0)
        test, zeta, truth = humidity(N_TEST, seed=1)
        scores = self._scores((train.X, train.X_err, train.y), (test.X, test.X_err, test.y), 1.0, truth, zeta)
        return {"kind": "example", "n_rows": 400, "n_columns": 3, "n_noisy": 3} | scores

    def _real(self) -> Iterator[dict[str, Any]]:
        for train, test in load_table(self.problem).splits(self.most_rows):
            about = {"kind": "real", "n_rows": len(train.y), "n_columns": train.X.shape[1]}
            yield about | self._scores((train.X, train.X_err, train.y), (test.X, test.X_err, test.y), 1.0)

    def _scores(
        self,
        train: tuple[Array, Array, Array],
        test: tuple[Array, Array, Array],
        unit: float,
        truth: Array | None = None,
        zeta: Array | None = None,
    ) -> dict[str, Any]:
        """Scores in multiples of `unit`; the RMSE is to the truth where it is known, else to labels."""
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of thousands of fits; their problems show in the scores
            try:
                fitted = fit_rival(self.method, *train, device=self.device)
            except (TrainingDivergedError, ValueError, np.linalg.LinAlgError) as error:
                return dict.fromkeys(_SCORES, np.nan) | {"failure": str(error)}
            trained = time.perf_counter()
            answer = fitted.predict(*test[:2])
            seconds = {"training_s": trained - started, "prediction_s": time.perf_counter() - trained}
            exact = None if zeta is None else fitted.predict(zeta, np.zeros(zeta.shape[1]))
        labels = test[2]
        scores = dict.fromkeys(_SCORES, np.nan) | seconds
        scores |= {
            "rmse": rmse(labels if truth is None else truth, answer.mean) / unit,
            "crps": crps(labels, answer.mean, answer.total) / unit,
            "labels_0.95": _covered(labels, answer.mean, answer.total),
            "y_noise_fitted": fitted.y_noise / unit,
        }
        if truth is not None and exact is not None:
            scores |= _truth_scores(answer, exact, truth, unit)
        return scores | {"failure": ""}


def study_tables(
    folder: Path,
    *,
    seeds: Sequence[int] = KEPT_SEEDS,
    methods: Sequence[str] = (),
    random: bool = True,
    real: bool = True,
    most_rows: int | None = None,
    options: RunOptions = DEFAULT_OPTIONS,
) -> pd.DataFrame:
    """Run the units of the study whose results `folder` does not hold yet, and write its tables.

    Args:
        folder: the folder for the results.
        seeds: the seeds of random problems. Those below 1,000 are for development; the kept results come from others.
        methods: some of `eiv.experiments.studies.rivals.RIVALS`; by default all whose packages are installed.
        random: whether random problems are run.
        real: whether real tables are run, and the example of the README.
        most_rows: the most rows to train with, for a trial; None for all.
        options: device, console and the like; the console also shows a sentence on what is left out.

    Returns:
        One row per fit: problem, method, a description of the problem, and scores.

    Examples:
        >>> study_tables(Path("study"), seeds=range(5), real=False, most_rows=300)  # doctest: +SKIP

    """
    for word in methods:
        if word not in RIVALS:
            raise ValueError(f"methods must be among {', '.join(map(repr, RIVALS))}; got {word!r}.")
    chosen = [name for name in RIVALS if name in (methods or installed_rivals())]
    problems = [f"seed {seed}" for seed in seeds] if random else []
    problems += [EXAMPLE, *tables_at_hand()] if real else []
    if not problems:
        raise ValueError("There is nothing to run: neither random problems nor real tables.")
    missing = [name for name in RIVALS if name not in installed_rivals()]
    for sentence in (
        f"Left out: {', '.join(missing)} (not installed)." if missing and not methods else "",
        left_out() if real else "",
    ):
        if sentence:
            options.shown_on.print(sentence, highlight=False)
    device = options.found_device
    units = [TableUnit(problem, method, most_rows, device) for problem in problems for method in chosen]
    in_order = sorted(units, key=lambda unit: -unit.cost)
    run_units(in_order, folder, options.shown_on, options.restart, alone=bool(options.times))
    return collect_units(folder, units, _ORDER, (TABLE, UNITS))


_SCORES = (
    "rmse",
    "crps",
    "labels_0.95",
    "y_noise_fitted",
    "clean_rmse",
    "truth_0.95",
    "clean_0.95",
    "training_s",
    "prediction_s",
)


def _truth_scores(answer: Answer, exact: Answer, truth: Array, unit: float) -> dict[str, float]:
    """Scores against the true values: of the prediction from x, and of f at the true inputs, where u is epistemic."""
    return {
        "clean_rmse": rmse(truth, exact.mean) / unit,
        "truth_0.95": _covered(truth, answer.mean, answer.std),
        "clean_0.95": _covered(truth, exact.mean, exact.std),
    }


def _covered(values: Array, mean: Array, std: Array) -> float:
    """The share of values within 1.96 standard deviations of the mean; nan where a method has no standard deviation."""
    if np.isnan(std).any():
        return np.nan
    return coverage(values, mean - _WIDTH * std, mean + _WIDTH * std)
