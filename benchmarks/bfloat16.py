"""What bfloat16 products do to the paper's metrics: `python benchmarks/bfloat16.py [--device cuda] [--write]`.

The paper's settings on simulated problems and, where the folder EIV_DATA has them, on real data sets; ten networks, the
same seeds in both precisions. Simulated data are drawn anew for each network, real ones are split anew.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from page import renew
from sklearn.model_selection import ShuffleSplit

from eiv import EiVRegressor, fit_splits
from eiv.datasets import SIMULATED
from eiv.experiments.paper.problems import Splits, problem
from eiv.metrics import coverage, rmse

SMALL = {"hidden_units": 128, "dropout": 0.1, "batch_size": 16, "epochs": 100, "y_noise_every": 40}
LARGE = {"hidden_units": 1024, "dropout": 0.2, "batch_size": 32, "y_noise_init": 0.5}
REAL = {"concrete": {"epochs": 100, "y_noise_every": 40}, "kin8nm": {"epochs": 30, "y_noise_every": 14}}
N_NETWORKS = 10


@dataclass(frozen=True)
class Data:
    """A data set: its rows, the truth where it is known, training and test rows of each network, and settings."""

    name: str
    x_err: float
    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray | None
    splits: Splits
    settings: dict[str, object]


def problems() -> Iterator[Data]:
    """The data sets; no two networks share a row of a simulated one."""
    for name, simulated in SIMULATED.items():
        data = problem(name, seed=0, n_networks=N_NETWORKS)
        settings = SMALL | {"y_noise_init": simulated.y_noise if name != "linear" else 0.1, "standardise": False}
        yield Data(name, simulated.x_err, data.X, data.y, data.truth, data.splits, settings)
    folder = Path(os.environ.get("EIV_DATA", "."))
    for name, settings in REAL.items():
        if (folder / f"{name}.csv").exists():
            values = pd.read_csv(folder / f"{name}.csv").to_numpy(float)
            X, y = values[:, :-1], values[:, -1]
            splits = list(ShuffleSplit(N_NETWORKS, train_size=0.8, random_state=0).split(X))
            X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
            yield Data(name, 0.05, X, y, None, splits, LARGE | settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    lines = [
        "| data set | precision | RMSE | labels covered by 1.96 total | by 1.96 u | truth covered by 1.96 u |",
        "|---|---|---|---|---|---|",
    ]
    for data in problems():
        for precision in ("auto", "bfloat16"):
            model = EiVRegressor(
                data.x_err,
                precision=precision,
                device=arguments.device,
                random_state=0,
                **data.settings,
                recipe="paper",
            )
            models = fit_splits(model, data.X, data.y, [rows for rows, _ in data.splits])
            scores = []
            for fitted, (_, test) in zip(models, data.splits, strict=True):
                p = fitted.predict_distribution(data.X[test], keep_draws=False)
                by_u, y = p.interval(), data.y[test]
                known = coverage(data.truth[test], *by_u) if data.truth is not None else np.nan
                scores.append([rmse(y, p.mean), coverage(y, *p.interval(of="label")), coverage(y, *by_u), known])
            mean, error = np.mean(scores, 0), np.std(scores, 0, ddof=1) / np.sqrt(N_NETWORKS)
            cells = ["" if np.isnan(m) else f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
            lines.append(
                f"| {data.name} | {'float32' if precision == 'auto' else precision} | " + " | ".join(cells) + " |"
            )
            print(lines[-1], flush=True)
    if arguments.write:
        renew("bfloat16", "\n".join(lines))


if __name__ == "__main__":
    main()
