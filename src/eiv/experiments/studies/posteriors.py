"""`eiv study posteriors`: a comparison of the families of weight posteriors, on the paper's data with its settings."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eiv import EiVRegressor, Prediction, TrainingDivergedError, fit_splits
from eiv.datasets import SIMULATED
from eiv.experiments.paper.evaluation import rows_of, scores_of
from eiv.experiments.paper.problems import Problem, problem
from eiv.experiments.paper.settings import METHODS, TRAINING, Training
from eiv.experiments.paper.stacks import Stack
from eiv.experiments.runs import DEFAULT_OPTIONS, RunOptions, run_units
from eiv.experiments.studies.results import collect_units
from eiv.metrics import crps, interval_score, nll
from eiv.posteriors import FAMILIES
from eiv.training.diagnostics import LooseBoundWarning
from eiv.validation import check_among

__all__ = ["DATA_SETS", "PosteriorUnit", "study_posteriors"]

DATA_SETS = (*SIMULATED, "yacht", "energy", "concrete", "wine", "power", "kin8nm")
MEMBERS = 5  # the networks of an ensemble
TABLE, UNITS = "posteriors.csv", "posteriors_units.csv"
SCORES = {
    "rmse": "RMSE",
    "rmse_truth": "RMSE to truth",
    "truth_coverage": "truth by u",
    "label_coverage_total": "labels by total",
    "nll": "NLL",
    "crps": "CRPS",
    "interval_score": "interval score",
    "epistemic": "epistemic",
    "aleatoric": "aleatoric",
    "y_noise": "σ_y",
    "bound_gap": "bound gap",
}
_LEVEL = 0.95
_ORDER = ["dataset", "method", "family"]
_FEWEST_EPOCHS = 2  # the fewest epochs that SWAG accepts


@dataclass(frozen=True)
class PosteriorUnit:
    """One data set, method and family: models on S splits, trained and scored.

    The settings are those of the paper, except for the family. A model is one network; an ensemble has five.

    Attributes:
        dataset: one of `DATA_SETS`.
        method: "eiv" or "non_eiv".
        family: a name of `eiv.posteriors.FAMILIES`.
        n_models: S, one per split.
        epochs_share: the share of the paper's epochs that are trained.
        seed: the seed of the study.
        device: "cpu" or "cuda".
        timed: whether nothing else runs on the machine, so that times can be compared; else they are left out.

    Examples:
        >>> unit = PosteriorUnit("sine", "eiv", "swag", n_models=10, epochs_share=1.0, seed=0, device="cpu")
        >>> unit.key, unit.members, unit.training.epochs
        ('posteriors-sine-eiv-swag', 1, 100)

    """

    dataset: str
    method: str
    family: str
    n_models: int
    epochs_share: float
    seed: int
    device: str
    timed: bool = True

    @property
    def key(self) -> str:
        """The name of the unit."""
        return f"posteriors-{self.dataset}-{self.method}-{self.family}"

    @property
    def members(self) -> int:
        """The number of networks of a model."""
        return MEMBERS if FAMILIES[self.family].fewest_networks > 1 else 1

    @property
    def training(self) -> Training:
        """The row of table network_and_training, with this share of its epochs."""
        whole = TRAINING[self.dataset]
        return replace(
            whole,
            epochs=max(_FEWEST_EPOCHS, round(self.epochs_share * whole.epochs)),
            y_noise_every=max(1, round(self.epochs_share * whole.y_noise_every)),
        )

    @property
    def cost(self) -> float:
        """The time that the unit takes, relative to that of others."""
        return self._stack.cost * self.n_models * self.members

    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, except versions and the machine."""
        own = {name: value for name, value in asdict(self).items() if name != "timed"}
        return self._stack.settings() | own | {"members": self.members}

    def run(self, on_progress: Callable[[float], None]) -> tuple[dict[str, pd.DataFrame], dict[str, float]]:
        """Train and score: one row per model, without scores where training diverged."""
        data = problem(self.dataset, self.seed, self.n_models)
        started = time.perf_counter()
        try:
            if self.timed:
                self._warm_up(data)
                started = time.perf_counter()
            models = self._fit(data, self.training.epochs, on_progress=lambda share: on_progress(0.8 * share))
        except TrainingDivergedError:
            models = []
        trained = time.perf_counter()
        rows = [{"network": i, **self._scores(model, data, i)} for i, model in enumerate(models)]
        ended = time.perf_counter()
        on_progress(1.0)
        nothing = dict.fromkeys((*SCORES, "prediction_s"), np.nan)
        table = pd.DataFrame(rows or [{"network": i, **nothing} for i in range(self.n_models)])
        table["training_s"] = (trained - started) / (self.n_models * self.members) if rows else np.nan
        if not self.timed:
            table[["training_s", "prediction_s"]] = np.nan
        return {"networks": table}, {"training_s": trained - started, "evaluation_s": ended - trained}

    @property
    def _stack(self) -> Stack:
        """The networks of the paper for this data set and method."""
        return Stack(self.dataset, self.method, self.training, self.n_models, self.seed, self.device)

    def _warm_up(self, data: Problem) -> None:
        """Run a few steps that are not timed, so that everything is compiled and loaded."""
        with_few_rows = self._fit(data, epochs=3, most_rows=2 * self.training.batch_size)
        with_few_rows[0].predict(rows_of(data.X, data.splits[0][1][:100]))

    def _fit(
        self,
        data: Problem,
        epochs: int,
        most_rows: int | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> list[EiVRegressor]:
        regressor = self._stack.regressor(data)
        regressor.set_params(posterior=self.family, n_networks=self.members, epochs=epochs)
        splits = [train[:most_rows] for train, _ in data.splits]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LooseBoundWarning)  # the table shows the gap
            return fit_splits(regressor, data.X, data.y, splits, on_progress=on_progress)

    def _scores(self, model: EiVRegressor, data: Problem, split: int) -> dict[str, float]:
        train, test = data.splits[split]
        started = time.perf_counter()
        prediction = model.predict_distribution(rows_of(data.X, test), keep_draws=False)
        seconds = time.perf_counter() - started
        unit = 1.0 if data.truth is not None else float(data.y[train].std())
        scores = scores_of(prediction, data, test, unit) | _label_scores(prediction, data.y[test], unit)
        gap = np.nan if model.bound_gap_ is None else model.bound_gap_
        return scores | {"bound_gap": gap, "prediction_s": seconds / self.members}


def study_posteriors(
    folder: Path,
    *,
    data_sets: Sequence[str] = (),
    families: Sequence[str] = (),
    n_networks: int = 10,
    n_ensembles: int | None = None,
    epochs_share: float = 1.0,
    seed: int = 0,
    options: RunOptions = DEFAULT_OPTIONS,
) -> pd.DataFrame:
    """Run the units of the study whose results `folder` does not hold yet, and write its tables.

    Units run one at a time, so that their times can be compared, unless the options say `times=False`.

    Args:
        folder: the folder for the results.
        data_sets: some of `DATA_SETS`; all by default.
        families: some of `eiv.posteriors.FAMILIES`; all by default.
        n_networks: networks per data set, method and family, each on a split of its own.
        n_ensembles: the number of ensembles (of five members each); by default that of networks.
        epochs_share: the share of the paper's epochs that are trained, at most 1.
        seed: the seed of data, splits and networks.
        options: device, console and the like; times of units that `folder` holds already are kept.

    Returns:
        One row per model: data set, method, family, network, scores, and seconds per network.

    Examples:
        >>> study_posteriors(Path("study"), data_sets=["linear"], epochs_share=0.1)  # doctest: +SKIP

    """
    check_among("data_sets", data_sets, DATA_SETS)
    check_among("families", families, FAMILIES)
    for name, number in (("n_networks", n_networks), ("n_ensembles", n_ensembles)):
        if number is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}.")
    if not 0 < epochs_share <= 1:
        raise ValueError(f"epochs_share must be above 0 and at most 1, got {epochs_share!r}.")
    device, times = options.found_device, options.times is not False
    units = [
        PosteriorUnit(name, method, family, n_networks, epochs_share, seed, device, timed=times)
        for name in DATA_SETS
        for method in METHODS
        for family in FAMILIES
        if name in (data_sets or DATA_SETS) and family in (families or FAMILIES)
    ]
    if n_ensembles is not None:
        units = [replace(unit, n_models=n_ensembles) if unit.members > 1 else unit for unit in units]
    run_units(units, folder, options.shown_on, options.restart, alone=times)
    return collect_units(folder, units, _ORDER, (TABLE, UNITS))


def _label_scores(prediction: Prediction, y: Any, unit: float) -> dict[str, float]:
    """Scores of the distribution of labels, taken as normal with the total uncertainty, in multiples of `unit`."""
    truth, mean, std = y / unit, prediction.mean / unit, prediction.total / unit
    low, high = (end / unit for end in prediction.interval(_LEVEL, of="label"))
    return {
        "nll": nll(truth, mean, std),
        "crps": crps(truth, mean, std),
        "interval_score": interval_score(truth, low, high, _LEVEL),
    }
