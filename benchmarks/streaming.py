"""A table larger than it should be: `python benchmarks/streaming.py` predicts ten million rows of a CSV.

`eiv predict` runs in a process of its own, so that the peak is that of the command alone, start to end.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from page import renew

from eiv.io.tables import TableWriter

LIMIT_MB = 1000
COLUMNS = ("length", "width", "temp", "pressure")
PIECE = 500_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--ending", default=".csv", choices=[".csv", ".csv.gz", ".parquet"], help="of both tables")
    parser.add_argument("--folder", type=Path, help="where there is room for both; a temporary folder by default")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        data, out, model = folder / f"data{arguments.ending}", folder / f"out{arguments.ending}", folder / "m.eiv"
        generate(data, arguments.rows)
        generate(folder / "few.csv", 2000)
        small = [
            f"--set={setting}" for setting in ("hidden_units=32", "n_hidden=2", "epochs=5", "n_theta=4", "n_zeta=2")
        ]
        command("fit", folder / "few.csv", "--target=y", "--x-err=5%", *small, "-o", model)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
        started = time.perf_counter()
        command("predict", model, data, "-o", out)
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10  # of the largest child, which fit is not
        sizes = [f"{path.stat().st_size / 2**20:,.0f} MB" for path in (data, out)]
    rate = arguments.rows / seconds
    print(f"{arguments.rows:,} rows, {sizes[0]} in, {sizes[1]} out: {seconds:.0f} s, {rate:,.0f} rows/s")
    print(f"peak {peak:.0f} MB (fit of 2,000 rows: {before:.0f} MB)")
    if arguments.write:
        rows = [
            f"| rows, in and out | {arguments.rows:,}, {sizes[0]}, {sizes[1]} |",
            f"| peak of the process | {peak:.0f} MB (limit {LIMIT_MB:,} MB) |",
            f"| rows per second | {rate:,.0f} |",
        ]
        renew("streaming", "\n".join(["| | |", "|---|---|", *rows]))
    if peak > LIMIT_MB:
        raise SystemExit(f"more than the {LIMIT_MB} MB allowed")


def generate(path: Path, n_rows: int) -> None:
    """A table of four features and a target, written in pieces."""
    random = np.random.default_rng(0)
    with TableWriter(path) as writer:
        for start in range(0, n_rows, PIECE):
            X = random.standard_normal((min(PIECE, n_rows - start), len(COLUMNS))).round(4)
            table = {name: X[:, i] for i, name in enumerate(COLUMNS)} | {"y": X.sum(1).round(4)}
            writer.write(pa.table(table))


def command(*arguments: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "eiv", *map(str, arguments)],
        check=True,
    )


if __name__ == "__main__":
    main()
