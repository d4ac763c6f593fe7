"""Memory of a prediction for a million rows: `python benchmarks/memory.py`.

Runs in a process of its own, so that the peak is that of the prediction alone.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from page import renew

from eiv import EiVRegressor

N_ROWS, N_FEATURES = 1_000_000, 8
LIMIT_MB = 1500


def resident_mb() -> float:
    """The memory that the process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="renew the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    X = random.standard_normal((N_ROWS, N_FEATURES))
    y = X[:, 0] + 0.1 * random.standard_normal(N_ROWS)
    model = EiVRegressor(x_err=0.1, hidden_units=32, epochs=5, n_theta=8, n_zeta=2, random_state=0, recipe="paper")
    model.fit(X[:2000], y[:2000])
    before = resident_mb()
    started = time.perf_counter()
    prediction = model.predict_distribution(X)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    above = peak - before
    print(f"{N_ROWS:,} rows x {N_FEATURES} features, 8 x 2 draws, {prediction!r}")
    print(f"{seconds:.1f} s, {N_ROWS / seconds:,.0f} rows/s; data and model {before:.0f} MB, peak {above:.0f} MB above")
    if arguments.write:
        rows = f"| peak above data and model | {above:.0f} MB (limit {LIMIT_MB:,} MB) |\n"
        renew("memory", f"| | |\n|---|---|\n{rows}| rows per second | {N_ROWS / seconds:,.0f} |")
    if above > LIMIT_MB:
        raise SystemExit(f"more than the {LIMIT_MB} MB allowed")


if __name__ == "__main__":
    main()
