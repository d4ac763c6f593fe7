"""The default recipe on the nine real sets against the paper's tuned settings: `python benchmarks/real_sets.py`.

The paper's figures are those of the full run in results/. The default recipe is fitted to the same splits, with the
same errors of the inputs; `--network` chooses its kind of network, "paper" for that of the kept table. `--device cuda`
takes minutes, the CPU hours; `--write` renews the table in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from page import renew
from rich.console import Console

from eiv import EiVRegressor, fit_splits, relative
from eiv.datasets import SIMULATED
from eiv.experiments.paper.evaluation import rows_of
from eiv.experiments.paper.problems import problem
from eiv.experiments.paper.settings import TRAINING
from eiv.metrics import coverage, rmse
from eiv.training.diagnostics import LooseBoundWarning

RESULTS = Path(__file__).parents[1] / "results" / "networks.csv"
REAL = [name for name in TRAINING if name not in SIMULATED]


def scores(name: str, n_networks: int, device: str, network: str) -> tuple[np.ndarray, float]:
    """RMSE in units of the labels' spread and coverage of labels, one network per row; and seconds per network."""
    data = problem(name, seed=0, n_networks=n_networks)
    model = EiVRegressor(relative(TRAINING[name].x_err), network=network, device=device, random_state=data.network_seed)
    started = time.perf_counter()
    models = fit_splits(model, data.X, data.y, [train for train, _ in data.splits])
    seconds = (time.perf_counter() - started) / n_networks
    found = []
    for fitted, (train, test) in zip(models, data.splits, strict=True):
        p = fitted.predict_distribution(rows_of(data.X, test), keep_draws=False)
        y = data.y[test]
        found.append([rmse(y, p.mean) / data.y[train].std(), coverage(y, *p.interval(0.95, of="label"))])
    return np.array(found), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--networks", type=int, default=10, help="splits, a network on each")
    parser.add_argument("--sets", default=",".join(REAL), help="some of the data sets")
    parser.add_argument("--network", default="paper", help="kind of network: paper, cosine or auto")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", LooseBoundWarning)
    table = pd.read_csv(RESULTS).query("method == 'eiv' and estimator == 'unbiased'").groupby("dataset")
    paper = table[["rmse", "label_coverage_total"]].mean()
    lines = [
        f'The default recipe with `network="{arguments.network}"`.',
        "",
        "| data set | RMSE, paper | RMSE, default | ratio | labels covered, paper | default | s per network |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in arguments.sets.split(","):
        found, seconds = scores(name, arguments.networks, arguments.device, arguments.network)
        (error, covered), (before, labels) = found.mean(0), paper.loc[name]
        standard_error = found[:, 0].std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else np.nan
        lines.append(
            f"| {name} | {before:.4f} | {error:.4f} ± {standard_error:.4f} | {error / before:.3f} | {labels:.3f} "
            f"| {covered:.3f} | {seconds:.1f} |"
        )
        Console(width=160).print(lines[-1])
    if arguments.write:
        renew("real sets", "\n".join(lines))


if __name__ == "__main__":
    main()
