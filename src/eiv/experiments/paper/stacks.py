"""The unit of work: the networks of one data set and method, trained and evaluated together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

import pandas as pd

from eiv import EiVRegressor, fit_splits, relative
from eiv.datasets import REAL, SIMULATED
from eiv.experiments.paper.evaluation import evaluate_models, evaluate_regression
from eiv.experiments.paper.problems import Problem, problem
from eiv.experiments.paper.settings import COMMON, METHODS, TRAINING, Profile, Training

__all__ = ["Stack"]

G_REGRESSION = "g_regression"
WIDER_NAVAL = "eiv_0.05"  # naval with the sigma_x of the other real sets; the paper calls its RMSE intolerable
DRAWN_ANEW = "anew for each network"  # simulated data; in older runs all networks had splits of one data set
_EVALUATION = 0.1  # the rough share of the evaluation in the time of a stack


@dataclass(frozen=True)
class Stack:
    """The S networks of one data set and method.

    Network s of every method has the same rows and the same seed, so that methods are compared in pairs.

    Attributes:
        dataset: one of the thirteen sets.
        method: "eiv", "non_eiv", "g_regression" (simulated sets, no network) or "eiv_0.05" (naval).
        training: its row of table network_and_training.
        n_networks: S.
        seed: the seed of the run.
        device: "cpu" or "cuda".

    Examples:
        >>> stack = Stack("linear", "g_regression", TRAINING["linear"], n_networks=2, seed=0, device="cpu")
        >>> stack.key, len(stack.run()[0]["networks"])
        ('linear-g_regression', 4)

    """

    dataset: str
    method: str
    training: Training
    n_networks: int
    seed: int
    device: str

    @property
    def key(self) -> str:
        """The name of the stack."""
        return f"{self.dataset}-{self.method}"

    @property
    def x_err(self) -> float | None:
        """The sigma_x of table network_and_training; None where the method takes inputs as exact."""
        return {"eiv": self.training.x_err, WIDER_NAVAL: 0.05}.get(self.method)

    @property
    def cost(self) -> float:
        """The relative time of the stack: each step has a fixed cost, plus one for its matrix products."""
        if self.method == G_REGRESSION:
            return 1.0
        n_rows = SIMULATED[self.dataset].n_rows if self.dataset in SIMULATED else REAL[self.dataset].n_rows
        steps = self.training.epochs * -(-0.8 * n_rows // self.training.batch_size)
        n_zeta = 1 if self.x_err is None else COMMON["n_zeta"]
        fixed, by_products = (4.0, 8e-7) if self.device == "cpu" else (1.0, 5e-9)
        return float(steps * (fixed + by_products * self.training.hidden_units**2 * self.training.batch_size * n_zeta))

    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, except versions and the machine."""
        return {
            **asdict(self),
            "x_err": self.x_err,
            "common": COMMON,
            "data": REAL[self.dataset].digest if self.dataset in REAL else _simulated_settings(self.dataset),
            **({"data_drawn": DRAWN_ANEW} if self.dataset in SIMULATED else {}),
        }

    def run(
        self, on_progress: Callable[[float], None] = lambda _: None
    ) -> tuple[dict[str, pd.DataFrame], dict[str, float]]:
        """Train and evaluate: the tables of `eiv.experiments.paper.evaluation.Evaluation`, and times."""
        data = problem(self.dataset, self.seed, self.n_networks)
        started = time.perf_counter()
        if self.method == G_REGRESSION:
            found, trained = evaluate_regression(data), started
        else:
            models = fit_splits(
                self.regressor(data),
                data.X,
                data.y,
                [train for train, _ in data.splits],
                on_progress=lambda share: on_progress((1 - _EVALUATION) * share),
            )
            trained = time.perf_counter()
            found = evaluate_models(data, models)
        ended = time.perf_counter()
        on_progress(1.0)
        tables = {field.name: getattr(found, field.name) for field in fields(found)}
        return tables, {"training_s": trained - started, "evaluation_s": ended - trained}

    def regressor(self, data: Problem) -> EiVRegressor:
        """The model of the paper for this data set and method."""
        settings = asdict(self.training) | COMMON
        x_err = self.x_err
        simulated = self.dataset in SIMULATED
        settings["x_err"] = x_err if simulated or x_err is None else relative(x_err)
        return EiVRegressor(**settings, standardise=not simulated, device=self.device, random_state=data.network_seed)


def _simulated_settings(name: str) -> dict[str, Any]:
    """The row of table sim_data, with JSON types, as it is read back from a file."""
    problem = SIMULATED[name]
    return {
        "g": problem.formula,
        "zeta_range": list(problem.zeta_range),
        "x_err": problem.x_err,
        "y_noise": problem.y_noise,
        "n_rows": problem.n_rows,
    }


def plan(profile: Profile, seed: int, device: str) -> list[Stack]:
    """All stacks of a run, the longest first."""
    stacks = []
    for name in profile.sets:
        methods = (*METHODS, *((G_REGRESSION,) if name in SIMULATED else ()))
        if name == "naval":
            methods += (WIDER_NAVAL,)
        stacks += [Stack(name, method, TRAINING[name], profile.n_networks, seed, device) for method in methods]
    return sorted(stacks, key=lambda stack: -stack.cost)
