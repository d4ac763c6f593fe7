"""Whole fits and predictions against the textbook loop: `python benchmarks/defaults.py [--device cuda] [--write]`.

The unit is the time in which the textbook loop trains one of the paper's small EiV networks (500 rows, 100 epochs,
batches of 16) on the CPU. It is taken before and after each fit, in the same process; the smaller of the two counts. On
a GPU each fit runs twice and the second one counts: the first one loads and compiles.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from cases import Case
from page import cpu, renew_for_cpu
from rich.console import Console
from textbook import Textbook

from eiv import EiVRegressor

ROOT = Path(__file__).parents[1]
UNIT = Case("small EiV", 1, 128, 16, 0.1, n_zeta=5, n_rows=500, epochs=100)
N_PREDICTED, N_WITH_QUANTILES = 50_000, 2_000
Table = tuple[np.ndarray, np.ndarray]


def table(n_rows: int, n_columns: int) -> Table:
    """Noisy columns, of which the first one bends."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (n_rows, n_columns))
    y = np.sin(2 * zeta[:, 0]) + (zeta[:, 1] * zeta[:, 2] if n_columns > 2 else 0.0)
    return zeta + 0.1 * random.standard_normal(zeta.shape), y + 0.1 * random.standard_normal(n_rows)


def errors_of_rows() -> np.ndarray:
    return np.random.default_rng(1).uniform(0.05, 0.15, (200, 3))


def command(device: str) -> None:
    """`eiv fit` of the README's table, with its score and the start of Python."""
    with tempfile.TemporaryDirectory() as folder:
        call = ["fit", "examples/humidity.csv", "--config", "examples/errors.toml", "-o", f"{folder}/model.eiv"]
        call += ["--device", device]
        subprocess.run([sys.executable, "-m", "eiv", *call], cwd=ROOT, check=True, capture_output=True, timeout=3600)


FITS: dict[str, tuple[float, Callable[[str], object]]] = {  # by device, with the ratio that is asked for
    "default, 500 rows, one noisy column": (0.7, lambda device: regressor(device, x_err=0.1).fit(*table(500, 1))),
    "`eiv fit` of the README's table": (1.5, command),
    "default, 200 rows, three columns, errors per row": (
        1.0,
        lambda device: regressor(device).fit(*table(200, 3), X_err=errors_of_rows()),
    ),
    "ten networks of the paper's recipe, 500 rows": (
        1.3,
        lambda device: regressor(device, x_err=0.1, recipe="paper", n_networks=10, epochs=100).fit(*table(500, 1)),
    ),
}


def regressor(device: str, **settings: object) -> EiVRegressor:
    return EiVRegressor(random_state=0, device=device, **settings)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def unit() -> float:
    """Seconds of the textbook loop."""
    loop = Textbook(UNIT)
    return seconds(lambda: loop.fit(UNIT.epochs))


def rates(device: str) -> list[tuple[str, int, float]]:
    """What is predicted by the default with three noisy columns, the rows per second asked for, and those reached."""
    model = regressor(device, x_err=0.1).fit(*table(400, 3))
    X, _ = table(N_PREDICTED, 3)
    few = X[:N_WITH_QUANTILES]
    model.predict_distribution(few, keep_draws=False)  # what is found once per model
    moments = seconds(lambda: model.predict_distribution(X, keep_draws=False))
    quantiles = seconds(lambda: model.predict_distribution(few, keep_draws=True).interval(0.95, method="quantile"))
    return [
        ("moments", 50_000, N_PREDICTED / moments),
        ("95 % quantiles", 20_000, N_WITH_QUANTILES / quantiles),
    ]


def report(console: Console, device: str) -> str:
    lines = [
        f"{torch.get_num_threads()} threads, torch {torch.__version__}.",
        "",
        "| fit | s | textbook loop, s | ratio | asked for |",
        "|---|---|---|---|---|",
    ]
    before = unit()
    for name, (asked, fit) in FITS.items():
        if device != "cpu":
            fit(device)
        own = seconds(partial(fit, device))
        after = unit()
        loop = min(before, after)
        lines.append(f"| {name} | {own:.1f} | {loop:.1f} | {own / loop:.2f} | {asked} |")
        console.print(lines[-1])
        before = after
    lines += ["", "| prediction, three noisy columns | rows per second | asked for |", "|---|---|---|"]
    for name, asked, rate in rates(device):
        lines.append(f"| {name} | {rate:,.0f} | {asked:,} |")
        console.print(lines[-1])
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="of the networks, cpu or cuda")
    parser.add_argument(
        "--write", action="store_true", help="renew the table of this CPU in docs/benchmarks.md; not of a GPU"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    console = Console()
    console.print(cpu())
    text = report(console, arguments.device)
    if arguments.write and arguments.device == "cpu":
        renew_for_cpu("defaults", text)


if __name__ == "__main__":
    main()
