"""What bfloat16 products do to the paper's metrics: `python benchmarks/bfloat16.py [--device cuda] [--write]`.

The paper's settings on simulated problems and, where the folder EIV_DATA has them, on real data sets; ten networks on
ten splits, the same seeds in both precisions.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from page import renew
from sklearn.model_selection import ShuffleSplit

from eiv import EiVRegressor, fit_splits
from eiv.datasets import SIMULATED, simulate
from eiv.metrics import coverage, rmse

SMALL = {"hidden_units": 128, "dropout": 0.1, "batch_size": 16, "epochs": 100, "y_noise_every": 40}
LARGE = {"hidden_units": 1024, "dropout": 0.2, "batch_size": 32, "y_noise_init": 0.5}
REAL = {"concrete": {"epochs": 100, "y_noise_every": 40}, "kin8nm": {"epochs": 30, "y_noise_every": 14}}
N_NETWORKS = 10


def problems() -> Iterator[tuple[str, float, np.ndarray, np.ndarray, np.ndarray | None, dict[str, object]]]:
    """Name, error, X, y, the truth where it is known, settings."""
    for name, problem in SIMULATED.items():
        data = simulate(name, random_state=0)
        settings = SMALL | {"y_noise_init": problem.y_noise if name != "linear" else 0.1, "standardise": False}
        yield name, problem.x_err, data.X, data.y, data.truth, settings
    folder = Path(os.environ.get("EIV_DATA", "."))
    for name, settings in REAL.items():
        if (folder / f"{name}.csv").exists():
            values = pd.read_csv(folder / f"{name}.csv").to_numpy(float)
            X, y = values[:, :-1], values[:, -1]
            yield name, 0.05, (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), None, LARGE | settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    lines = [
        "| data set | precision | RMSE | labels covered by 1.96 total | by 1.96 u | truth covered by 1.96 u |",
        "|---|---|---|---|---|---|",
    ]
    for name, x_err, X, y, truth, settings in problems():
        splits = list(ShuffleSplit(N_NETWORKS, train_size=0.8, random_state=0).split(X))
        for precision in ("auto", "bfloat16"):
            model = EiVRegressor(
                x_err, precision=precision, device=arguments.device, random_state=0, **settings, recipe="paper"
            )
            models = fit_splits(model, X, y, [rows for rows, _ in splits])
            scores = []
            for fitted, (_, test) in zip(models, splits, strict=True):
                p = fitted.predict_distribution(X[test], keep_draws=False)
                by_u = p.interval()
                known = coverage(truth[test], *by_u) if truth is not None else np.nan
                labels = coverage(y[test], *p.interval(of="label"))
                scores.append([rmse(y[test], p.mean), labels, coverage(y[test], *by_u), known])
            mean, error = np.mean(scores, 0), np.std(scores, 0, ddof=1) / np.sqrt(N_NETWORKS)
            cells = ["" if np.isnan(m) else f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
            lines.append(f"| {name} | {'float32' if precision == 'auto' else precision} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    if arguments.write:
        renew("bfloat16", "\n".join(lines))


if __name__ == "__main__":
    main()
