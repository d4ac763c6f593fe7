"""`eiv study coverage`: the effect of each ingredient of a recipe on coverage, curve and output noise."""

from __future__ import annotations

import functools
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.random import SeedSequence

from eiv import EiVRegressor, fit_splits
from eiv.datasets import SIMULATED, Simulated, simulate
from eiv.experiments.paper.settings import COMMON, TRAINING
from eiv.experiments.runs import DEFAULT_OPTIONS, RunOptions, run_units
from eiv.experiments.studies.limits import best_prediction, smallest_rmse
from eiv.experiments.studies.results import check_earlier, collect_units
from eiv.metrics import coverage, rmse
from eiv.training.settings import Settings, settings_for
from eiv.validation import check_among

__all__ = ["LEVELS", "METHODS", "CoverageUnit", "study_coverage"]

ZETAS: tuple[Literal["uniform", "normal"], ...] = ("uniform", "normal")
LEVELS = (0.5, 0.8, 0.95)
TABLE, UNITS = "coverage.csv", "coverage_units.csv"
N_TEST = 1000  # fresh points for each realisation of the data
_ORDER = ["problem", "zeta", "method"]
_TEST = 2**20  # the distance between seeds of test points and those of training data

_COSINES = 5e6  # the cost of a network of cosines on 500 rows: two thirds of that of layers by the default recipe

# The paper's recipe, and each ingredient that the default one changes with network="paper", with the settings that it
# needs; then the default recipe, with the network that it takes by itself and with layers. Residual noise is a rule
# that the default recipe does not use.
METHODS: dict[str, dict[str, Any]] = {
    "non-EiV": {"x_err": None},
    "paper": {},
    "paper + mixture prior": {"input_prior": "mixture"},
    "paper + residual noise": {"y_noise": "residual"},
    "paper + likelihood noise": {"y_noise": "likelihood", "y_noise_every": 10},
    "paper + held-out noise": {"y_noise": "likelihood", "y_noise_every": 10, "held_out": 0.1},
    "paper + interpolated zetas": {"zeta_draws": "interpolated", "n_zeta": 16},
    "paper + longer, falling steps": {"batch_size": 64, "steps": 5000, "learning_rate_decay": 0.6},
    "paper + linearised Laplace": {"posterior": "linearised_laplace", "weight_penalty": 1.0},
    "ours with layers": {"recipe": "default", "network": "paper"},
    "ours": {"recipe": "default"},
}


@dataclass(frozen=True)
class CoverageUnit:
    """One problem and method: all realisations of the data, and all networks, as one stack.

    Attributes:
        problem: a simulated problem.
        zeta: "uniform" or "normal", the distribution of the true inputs.
        method: one of `METHODS`.
        n_realisations: the number of data sets that are drawn.
        n_networks: networks per data set.
        seed: the seed of the study.
        device: "cpu" or "cuda".

    Examples:
        >>> CoverageUnit("sine", "normal", "paper", n_realisations=10, n_networks=5, seed=0, device="cpu").key
        'sine-normal-paper'

    """

    problem: str
    zeta: Literal["uniform", "normal"]
    method: str
    n_realisations: int
    n_networks: int
    seed: int
    device: str

    @property
    def key(self) -> str:
        """The name of the unit."""
        words = self.method.replace(" + ", "_").replace(", ", "_").replace(" = ", "").replace(" ", "-")
        return f"{self.problem}-{self.zeta}-{words}"

    @property
    def cost(self) -> float:
        """The time that the unit takes, relative to that of others."""
        arguments, n_rows = self.arguments(), SIMULATED[self.problem].n_rows
        settings = self._settings()
        if settings.network == "cosine":
            return _COSINES * n_rows / 500
        n_zeta = 1 if arguments["x_err"] is None else settings.n_zeta or 16
        return float(settings.epochs * -(-n_rows // settings.batch_size) * (200 + settings.batch_size * n_zeta))

    def arguments(self) -> dict[str, Any]:
        """The arguments of `EiVRegressor`: those of the paper with the changes of the method, or the default recipe."""
        problem, changes = SIMULATED[self.problem], METHODS[self.method]
        if changes.get("recipe") == "default":
            return {"x_err": problem.x_err} | changes
        found = asdict(TRAINING[self.problem]) | COMMON | {"standardise": False} | changes
        steps = found.pop("steps", None)
        if steps is not None:
            found["epochs"] = max(1, round(steps / -(-problem.n_rows // found["batch_size"])))
        return found

    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, except versions and the machine."""
        arguments = self.arguments()
        if arguments.get("recipe") == "default":  # it may change from version to version
            arguments |= asdict(self._settings())
        return asdict(self) | {"n_test": N_TEST, "arguments": arguments}

    def run(self, on_progress: Callable[[float], None]) -> tuple[dict[str, pd.DataFrame], dict[str, float]]:
        """Train and evaluate: one row per network."""
        arguments = self.arguments()
        seeds = [self._seed(i) for i in range(self.n_realisations)]
        data = [simulate(self.problem, random_state=seed, zeta=self.zeta) for seed in seeds]
        n_rows = len(data[0].y)
        splits = [np.arange(n_rows) + n_rows * i for i in range(len(data)) for _ in range(self.n_networks)]
        started = time.perf_counter()
        models = fit_splits(
            EiVRegressor(**arguments, device=self.device, random_state=self._seed(-1)),
            np.concatenate([part.X for part in data]),
            np.concatenate([part.y for part in data]),
            splits,
            on_progress=lambda share: on_progress(0.8 * share),
        )
        trained = time.perf_counter()
        rows = [
            {"realisation": i // self.n_networks, "network": i % self.n_networks}
            | self._scores(model, seeds[i // self.n_networks] + _TEST)
            for i, model in enumerate(models)
        ]
        on_progress(1.0)
        seconds = {"training_s": trained - started, "evaluation_s": time.perf_counter() - trained}
        return {"networks": pd.DataFrame(rows).assign(training_s=(trained - started) / len(rows))}, seconds

    def _settings(self) -> Settings:
        """The settings of a fit, with the kind of network that the recipe takes; the problems have one feature."""
        arguments = self.arguments()
        return settings_for(arguments, SIMULATED[self.problem].n_rows, n_noisy=int(arguments["x_err"] is not None))

    def _seed(self, realisation: int) -> int:
        entropy = [self.seed, zlib.crc32(f"{self.problem} {self.zeta}".encode()), realisation + 1]
        return int(SeedSequence(entropy).generate_state(1)[0] // 4)

    def _scores(self, model: EiVRegressor, seed: int) -> dict[str, float]:
        test, best_rmse = _test_points(self.problem, self.zeta, seed)
        p = model.predict_distribution(test.X)
        scores: dict[str, float] = {}
        for level in LEVELS:
            for method in ("moment", "quantile"):
                scores[f"truth_{method}_{level:g}"] = coverage(test.truth, *p.interval(level, method=method))
        curve = model.predict(test.zeta, X_err=0)
        return scores | {
            "labels_0.95": coverage(test.y, *p.interval(of="label")),
            "rmse": rmse(test.truth, p.mean),
            "rmse_ratio": rmse(test.truth, p.mean) / smallest_rmse(self.problem, self.zeta),
            "best_rmse": best_rmse,
            "clean_rmse": rmse(test.truth, curve),
            "y_noise": float(model.y_noise_[0]),
            "y_noise_ratio": float(model.y_noise_[0]) / SIMULATED[self.problem].y_noise,
            "epistemic": float(np.sqrt(np.mean(p.epistemic**2))),
            "aleatoric": float(np.sqrt(np.mean(p.aleatoric**2))),
        }


def study_coverage(
    folder: Path,
    *,
    n_realisations: int = 10,
    n_networks: int = 5,
    methods: Sequence[str] = (),
    problems: Sequence[str] = (),
    seed: int = 0,
    options: RunOptions = DEFAULT_OPTIONS,
) -> pd.DataFrame:
    """Run the units of the study whose results `folder` does not hold yet, and write its table.

    Rows of other units that the table in `folder` holds stay there, so that a method or a problem can be added to it.

    Args:
        folder: the folder for the results.
        n_realisations: data sets per problem.
        n_networks: networks per data set.
        methods: some of `METHODS`; all by default.
        problems: some of the simulated problems; all by default.
        seed: the seed of data and networks.
        options: device, console and the like.

    Returns:
        One row per network: problem, zeta, method, realisation, network and scores.

    Raises:
        MixedResultsError: where `folder` holds results of other settings or of another seed.

    Examples:
        >>> study_coverage(Path("study"), n_realisations=1, n_networks=1)  # doctest: +SKIP

    """
    check_among("methods", methods, METHODS)
    check_among("problems", problems, SIMULATED)
    units = [
        CoverageUnit(problem, zeta, method, n_realisations, n_networks, seed, options.found_device)
        for problem in problems or SIMULATED
        for zeta in ZETAS
        for method in methods or METHODS
    ]
    names = (TABLE, UNITS)
    if not options.restart:
        check_earlier(folder, units, _ORDER, names, {"seed": seed, "n_test": N_TEST})
    in_order = sorted(units, key=lambda unit: -unit.cost)
    run_units(in_order, folder, options.shown_on, options.restart, alone=bool(options.times))
    known: dict[str, Sequence[str]] = dict(zip(_ORDER, (list(SIMULATED), ZETAS, list(METHODS)), strict=True))
    return collect_units(folder, units, _ORDER, names, beside=None if options.restart else known)


@functools.cache
def _test_points(problem: str, zeta: Literal["uniform", "normal"], seed: int) -> tuple[Simulated, float]:
    """Fresh points, and the RMSE of the best possible prediction on them."""
    test = simulate(problem, N_TEST, random_state=seed, zeta=zeta)
    return test, rmse(test.truth, best_prediction(problem, zeta, test.X[:, 0]))
