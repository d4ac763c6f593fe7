"""`eiv study errors`: what errors of X of the wrong size cost, and what learning their size gives back."""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.random import SeedSequence

from eiv import EiVRegressor, estimated
from eiv.datasets import SIMULATED, simulate
from eiv.experiments.runs import DEFAULT_OPTIONS, RunOptions, run_units
from eiv.experiments.studies.limits import best_prediction
from eiv.experiments.studies.results import collect_units
from eiv.metrics import coverage, rmse
from eiv.validation import check_among

__all__ = ["METHODS", "STATED", "ErrorsUnit", "study_errors"]

ZETAS: tuple[Literal["uniform", "normal"], ...] = ("uniform", "normal")
STATED = (0.5, 1.0, 2.0)  # stated errors over the true ones
METHODS = ("as stated", "learned")  # errors taken as they are stated; their size learned
DOF = 4  # degrees of freedom that stand behind the stated errors where their size is learned
TABLE, UNITS = "errors.csv", "errors_units.csv"
KEYS = ["problem", "zeta", "stated", "method", "realisation"]
N_TEST = 2000  # fresh points for each data set
COSINES = 64  # of each network, so that the study takes minutes and not hours
_TEST = 2**20  # the distance between seeds of test points and those of training data


@dataclass(frozen=True)
class ErrorsUnit:
    """One fit: a problem, a size of its stated errors, a method, and a realisation of the data.

    Attributes:
        problem: a simulated problem.
        zeta: "uniform" or "normal", the distribution of the true inputs.
        stated: the stated error over the true one.
        method: one of `METHODS`.
        realisation: the number of the data set, from 0.
        n_rows: its rows.
        seed: the seed of the study.
        device: "cpu" or "cuda".

    Examples:
        >>> ErrorsUnit("sine", "normal", 0.5, "learned", realisation=1, n_rows=300, seed=0, device="cpu").key
        'sine-normal-0.5-learned-1'

    """

    problem: str
    zeta: Literal["uniform", "normal"]
    stated: float
    method: str
    realisation: int
    n_rows: int
    seed: int
    device: str

    @property
    def key(self) -> str:
        """The name of the unit."""
        return f"{self.problem}-{self.zeta}-{self.stated:g}-{self.method.replace(' ', '-')}-{self.realisation}"

    @property
    def cost(self) -> float:
        """The time that the unit takes, relative to that of others."""
        return self.n_rows * (8.0 if self.method == "learned" else 1.0)

    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, except versions and the machine."""
        return asdict(self) | {"n_test": N_TEST, "dof": DOF, "hidden_units": COSINES}

    def run(self, on_progress: Callable[[float], None]) -> tuple[dict[str, pd.DataFrame], dict[str, float]]:
        """Fit and evaluate: one row."""
        started = time.perf_counter()
        model = self._fitted()
        trained = time.perf_counter()
        row = self._scores(model, self._seed() + _TEST)
        on_progress(1.0)
        seconds = {"training_s": trained - started, "evaluation_s": time.perf_counter() - trained}
        return {"networks": pd.DataFrame([row])}, seconds

    def _fitted(self) -> EiVRegressor:
        seed = self._seed()
        data = simulate(self.problem, self.n_rows, random_state=seed, zeta=self.zeta)
        error = self.stated * SIMULATED[self.problem].x_err
        chosen: dict[str, Any] = {"x_err": estimated(error, dof=DOF)}
        if self.method == "as stated":
            chosen = {"x_err": error, "x_err_factor": 1.0}
        model = EiVRegressor(**chosen, network="cosine", hidden_units=COSINES, device=self.device, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the labels contradict wrong errors is what is studied
            return model.fit(data.X, data.y)

    def _seed(self) -> int:
        entropy = [self.seed, zlib.crc32(f"{self.problem} {self.zeta}".encode()), self.realisation + 1]
        return int(SeedSequence(entropy).generate_state(1)[0] // 4)

    def _scores(self, model: EiVRegressor, seed: int) -> dict[str, float]:
        test = simulate(self.problem, N_TEST, random_state=seed, zeta=self.zeta)
        p = model.predict_distribution(test.X, keep_draws=False)
        best = rmse(test.truth, best_prediction(self.problem, self.zeta, test.X[:, 0]))
        scale = model.x_err_scale_
        size, std, settled = (1.0, 0.0, 0.0) if scale is None else (scale.factor[0], scale.std[0], scale.settled[0])
        return {
            "truth_0.95": coverage(test.truth, *p.interval()),
            "labels_0.95": coverage(test.y, *p.interval(of="label")),
            "rmse_ratio": rmse(test.truth, p.mean) / best,
            "clean_rmse": rmse(test.truth, model.predict(test.zeta, X_err=0)) / float(np.std(test.truth)),
            "y_noise_ratio": float(model.y_noise_[0]) / SIMULATED[self.problem].y_noise,
            "size_ratio": self.stated * float(size),
            "size_std": float(std),
            "settled": float(settled),
            "of_size": 0.0 if p.of_size is None else float(np.sqrt(np.mean(p.of_size**2) / np.mean(p.std**2))),
        }


def study_errors(
    folder: Path,
    *,
    n_realisations: int = 2,
    n_rows: int = 300,
    problems: Sequence[str] = (),
    seed: int = 0,
    options: RunOptions = DEFAULT_OPTIONS,
) -> pd.DataFrame:
    """Run the units of the study whose results `folder` does not hold yet, and write its tables.

    Args:
        folder: the folder for the results.
        n_realisations: data sets per problem.
        n_rows: rows of each.
        problems: some of the simulated problems; all by default.
        seed: the seed of data and networks.
        options: device, console and the like.

    Returns:
        One row per fit: problem, zeta, stated size, method, realisation and scores. More realisations can be added to
        those that the folder holds.

    Raises:
        MixedResultsError: where `folder` holds results of other settings.

    Examples:
        >>> study_errors(Path("errors"), n_realisations=1, n_rows=60)  # doctest: +SKIP

    """
    check_among("problems", problems, SIMULATED)
    units = [
        ErrorsUnit(problem, zeta, stated, method, realisation, n_rows, seed, options.found_device)
        for problem in problems or SIMULATED
        for zeta in ZETAS
        for stated in STATED
        for method in METHODS
        for realisation in range(n_realisations)
    ]
    in_order = sorted(units, key=lambda unit: (unit.realisation, -unit.cost))
    run_units(in_order, folder, options.shown_on, options.restart, alone=bool(options.times))
    return collect_units(folder, units, KEYS, (TABLE, UNITS))
