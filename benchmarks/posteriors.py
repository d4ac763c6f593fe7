"""Families of weight posteriors against Bernoulli dropout on this machine: `python benchmarks/posteriors.py [--write]`.

All families of a case take turns in one process, round by round; the figures are medians over the rounds. A step of
training is timed as a long fit less a short one. What is left of the short fit is what a family costs once: building
the networks, and its work at the end of training.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
import torch
from cases import Case
from page import renew
from rich.console import Console
from speed import seconds

from eiv.posteriors import FAMILIES

FIRST = "bernoulli_dropout"
N_NETWORKS = 5  # the members of an ensemble, and as many networks of the others
N_THETA = 100
SHORT = 2  # epochs; SWAG takes no fewer
CASES = [
    Case("small MC", 1, 128, 16, 0.1, n_zeta=1, n_rows=400, epochs=20, n_predicted=200),
    Case("small EiV", 1, 128, 16, 0.1, n_zeta=5, n_rows=400, epochs=12, n_predicted=200),
    Case("medium MC", 8, 512, 32, 0.2, n_zeta=1, n_rows=640, epochs=4, n_predicted=200),
]


def times(case: Case, family: str) -> tuple[float, float, float]:
    """Seconds per network: of a step, of what comes once per fit, and of a prediction."""
    X, y = case.data()
    rows = np.random.default_rng(1).standard_normal((case.n_predicted, case.n_inputs))
    model = case.regressor(N_NETWORKS, SHORT + case.epochs, posterior=family).set_params(n_theta=N_THETA)
    short = seconds(lambda: case.regressor(N_NETWORKS, SHORT, posterior=family).fit(X, y))
    step = (seconds(lambda: model.fit(X, y)) - short) / case.steps
    once = short - SHORT * step * case.steps / case.epochs
    predicted = seconds(lambda: model.predict_distribution(rows, keep_draws=False))
    return step / N_NETWORKS, once / N_NETWORKS, predicted / N_NETWORKS


def measure(case: Case, rounds: int) -> dict[str, tuple[float, ...]]:
    """Medians of `times`, families taking turns; the first round warms up and does not count."""
    found: dict[str, list[tuple[float, float, float]]] = {family: [] for family in FAMILIES}
    for turn in range(rounds + 1):
        for family in FAMILIES:
            value = times(case, family)
            if turn > 0:
                found[family].append(value)
    return {family: tuple(map(statistics.median, zip(*values, strict=True))) for family, values in found.items()}


def report(rounds: int, console: Console) -> str:
    lines = [
        f"{torch.get_num_threads()} threads, torch {torch.__version__}; {N_NETWORKS} networks at a time, medians of "
        f"{rounds} interleaved rounds. Predictions have {N_THETA} thetas.",
        "",
        "| case | family | ms per network and step | times Bernoulli | s per network, once per fit "
        "| prediction, s per network | times Bernoulli |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        found = measure(case, rounds)
        for family, (step, once, predicted) in found.items():
            shares = step / found[FIRST][0], predicted / found[FIRST][2]
            lines.append(
                f"| {case.name} | `{family}` | {step * 1e3:.3f} | {shares[0]:.2f} | {once:.3f} | {predicted:.3f} "
                f"| {shares[1]:.2f} |"
            )
            console.print(lines[-1])
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    text = report(arguments.rounds, Console(width=160))
    if arguments.write:
        renew("posteriors", text)


if __name__ == "__main__":
    main()
