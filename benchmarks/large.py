"""Tables larger than memory: `python benchmarks/large.py fit` and `python benchmarks/large.py predict`.

`fit` fits a Parquet file of ten million rows, `predict` a folder of Parquet files, with one and with two workers. Each
runs in processes of its own, whose peak of memory and processor time are taken from the system.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from page import PAGE, renew

FEATURES = ("length", "width", "temp", "pressure")
PIECE = 500_000
SMALL = [f"--set={each}" for each in ("network=paper", "hidden_units=32", "n_hidden=2", "epochs=5")]
FIT = """
import sys
from eiv import EiVRegressor
model = EiVRegressor({"length": 0.3}, network="paper", hidden_units=16, n_hidden=1, epochs=1, random_state=0)
model.fit_file(sys.argv[1], "y").save(sys.argv[2])
"""
LIMITS_MB = {"fit": 2000, "predict": 1500}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fit", "predict"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=20, help="of the folder that is predicted")
    parser.add_argument("--folder", type=Path, help="where there is room; a temporary folder by default")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/scale.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        rows = (fit if arguments.what == "fit" else predict)(Path(name), arguments)
    head = [
        "| | rows | time | processor time | rows per second of one core | peak of a process |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(rows))
    if arguments.write:
        renew(f"large {arguments.what}", "\n".join([*head, *rows]), PAGE.with_name("scale.md"))


def fit(folder: Path, arguments: argparse.Namespace) -> list[str]:
    generate(folder / "data.parquet", arguments.rows, seed=0)
    watched = Watched([sys.executable, "-c", FIT, folder / "data.parquet", folder / "m.eiv"])
    return [watched.row("fit of a file, one epoch", arguments.rows, LIMITS_MB["fit"])]


def predict(folder: Path, arguments: argparse.Namespace) -> list[str]:
    (folder / "in").mkdir()
    for number in range(arguments.files):
        generate(folder / "in" / f"{number:03}.parquet", arguments.rows // arguments.files, seed=number)
    generate(folder / "few.parquet", 2000, seed=0)
    model = folder / "m.eiv"
    eiv = [sys.executable, "-m", "eiv"]
    options = [*SMALL, "--set=n_theta=4", "--set=n_zeta=2", "--holdout=0"]
    subprocess.run(
        [*eiv, "fit", folder / "few.parquet", "--target=y", "--x-err=length=0.3", *options, "-o", model], check=True
    )
    found = []
    for jobs in (1, 2):
        watched = Watched([*eiv, "predict", model, folder / "in", "-o", folder / f"out{jobs}", f"--jobs={jobs}"])
        found.append(watched.row(f"predictions, {jobs} worker{'s' * (jobs > 1)}", arguments.rows, LIMITS_MB["predict"]))
    return found


def generate(path: Path, n_rows: int, seed: int) -> None:
    """A table of four features and a target in float32, written in pieces."""
    random, writer = np.random.default_rng(seed), None
    for start in range(0, n_rows, PIECE):
        X = random.standard_normal((min(PIECE, n_rows - start), len(FEATURES)), dtype=np.float32)
        table = pa.table({name: X[:, i] for i, name in enumerate(FEATURES)} | {"y": np.sin(X[:, 0]) + X[:, 1:].sum(1)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


class Watched:
    """A command that is run, with the peak memory and the processor time of it and of all that it starts."""

    def __init__(self, command: list[object]) -> None:
        self.peak = 0
        self.used: dict[int, float] = {}
        started = time.perf_counter()
        process = subprocess.Popen([*map(str, command)])
        watch = threading.Thread(target=self._watch, args=(psutil.Process(process.pid),), daemon=True)
        watch.start()
        status = process.wait()
        self.seconds = time.perf_counter() - started
        watch.join()
        if status:
            raise SystemExit(f"the command ended with status {status}")

    def _watch(self, process: psutil.Process) -> None:
        while True:
            try:
                running = [process, *process.children(recursive=True)]
                for each in running:
                    self.peak = max(self.peak, each.memory_info().rss)
                    times = each.cpu_times()
                    self.used[each.pid] = times.user + times.system
            except psutil.NoSuchProcess:
                if not psutil.pid_exists(process.pid):
                    return
            if process.status() == psutil.STATUS_ZOMBIE if psutil.pid_exists(process.pid) else True:
                return
            time.sleep(0.05)

    def row(self, what: str, n_rows: int, limit: int) -> str:
        """A line of a table; ends the run where memory was over the limit."""
        peak, used = self.peak / 2**20, sum(self.used.values())
        if peak > limit:
            raise SystemExit(f"{what}: {peak:.0f} MB, more than the {limit} MB allowed")
        return f"| {what} | {n_rows:,} | {self.seconds:.0f} s | {used:.0f} s | {n_rows / used:,.0f} | {peak:,.0f} MB |"


if __name__ == "__main__":
    main()
