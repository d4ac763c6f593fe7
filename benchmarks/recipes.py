"""What the default recipe costs against the paper's, on the simulated sets: `python benchmarks/recipes.py [--write]`.

One network each, by both recipes in turn, round by round; the figures are medians over the rounds. The time of a fit
holds everything: the prior of the inputs, training, the weights' covariance, the look at the zetas. `--network` chooses
the kind of network of the default recipe, "paper" for that of the kept table.
"""

from __future__ import annotations

import argparse
import statistics
import warnings

import torch
from page import renew
from rich.console import Console
from speed import seconds

from eiv import EiVRegressor
from eiv.datasets import SIMULATED, simulate
from eiv.training.diagnostics import LooseBoundWarning

FEW_ROWS = 100


def report(rounds: int, network: str, console: Console) -> str:
    lines = [
        f"{torch.get_num_threads()} threads, torch {torch.__version__}; one network, medians of {rounds} interleaved "
        f'rounds. The default recipe has `network="{network}"`.',
        "",
        "| problem | rows | the paper's recipe, s | the default recipe, s | ratio |",
        "|---|---|---|---|---|",
    ]
    cases = [*((name, problem.n_rows) for name, problem in SIMULATED.items()), ("linear", FEW_ROWS)]
    for name, n_rows in cases:
        data, x_err = simulate(name, random_state=0), SIMULATED[name].x_err
        X, y = data.X[:n_rows], data.y[:n_rows]
        found: dict[str, list[float]] = {"paper": [], "default": []}
        for _ in range(rounds):
            for recipe, times in found.items():
                kind = network if recipe == "default" else None
                model = EiVRegressor(x_err, recipe=recipe, network=kind, random_state=0)
                times.append(seconds(lambda model=model, X=X, y=y: model.fit(X, y)))
        paper, default = (statistics.median(times) for times in found.values())
        lines.append(f"| {name} | {n_rows} | {paper:.1f} | {default:.1f} | {default / paper:.1f} |")
        console.print(lines[-1])
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    parser.add_argument("--network", default="paper", help="kind of network: paper, cosine or auto")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", LooseBoundWarning)
    found = report(arguments.rounds, arguments.network, Console())
    if arguments.write:
        renew("recipes", found)


if __name__ == "__main__":
    main()
