"""Time of this version over that of another one: `python benchmarks/versions.py COMMIT [--write]`.

Each version runs in a process of its own, with its own copy of `speed.py`; the two take turns, so that whatever else
the machine does strikes both. Times are those that the processor spent, on one thread. Trainings of small networks are
five times as long as those of `speed.py`, since short ones scatter. A figure is the median over the rounds of the ratio
of a turn to its neighbour's, with the standard error of that median.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from page import renew
from rich.console import Console
from speed import CASES

HERE = Path(__file__).parents[1]
TASKS, NETWORKS = ("training", "prediction"), (1, 10)
SERVE = """
import sys
import time
from dataclasses import replace
from functools import partial

import speed
import torch
from speed import CASES, engine_fit, predict_timers


def processor_seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


torch.set_num_threads(1)
speed.seconds = processor_seconds
for line in sys.stdin:
    task, name, n_networks = line.strip().split(",")
    case = next(case for case in CASES if case.name == name)
    longer = 5 if case.name.startswith("small") else 1
    timer = partial(engine_fit, replace(case, epochs=longer * case.epochs), int(n_networks))
    if task == "prediction":
        timer = predict_timers(case)[f"eiv, {n_networks} network{'s' if n_networks != '1' else ''}"][1]
    timer()  # warms up
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "done":
            break
        print(timer(), flush=True)
"""


@contextmanager
def source_tree(commit: str) -> Iterator[Path]:
    """The files of `commit` in a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(HERE), "archive", commit, "src", "benchmarks"]
        archive = io.BytesIO(subprocess.run(git, check=True, capture_output=True).stdout)
        with tarfile.open(fileobj=archive) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


class Version:
    """A process that times what it is asked for with the sources of one tree."""

    def __init__(self, tree: Path) -> None:
        paths = os.pathsep.join([str(tree / "src"), str(tree / "benchmarks")])
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return "" if line == "done" else self._process.stdout.readline().strip()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def ratios(new: Version, old: Version, task: str, rounds: int) -> list[float]:
    """Time of the new version over the old one's, round by round; who goes first alternates."""
    for version in (new, old):
        if version.ask(task) != "ready":
            raise SystemExit(f"one of the versions cannot time: {task}")
    found = []
    for turn in range(rounds):
        first, second = (new, old) if turn % 2 else (old, new)
        times = {first: float(first.ask("time")), second: float(second.ask("time"))}
        found.append(times[new] / times[old])
    for version in (new, old):
        version.ask("done")
    return found


def report(commit: str, tasks: Sequence[tuple[str, str, int]], rounds: int, console: Console) -> str:
    lines = [
        f"Processor time on one thread over that of `{commit}`, {rounds} rounds in turns.",
        "",
        "| case | networks | time over the other version's | standard error |",
        "|---|---|---|---|",
    ]
    with source_tree(commit) as tree, ExitStack() as stack:
        new, old = Version(HERE), Version(tree)
        stack.callback(new.close)
        stack.callback(old.close)
        for task, case, n_networks in tasks:
            found = ratios(new, old, f"{task},{case},{n_networks}", rounds)
            error = 1.2533 * statistics.stdev(found) / rounds**0.5  # sqrt(pi / 2): of a median
            row = f"| {task}, {case} | {n_networks} | {statistics.median(found):.3f} | {error:.3f} |"
            lines.append(row)
            console.print(row)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="the version to compare with")
    names = [case.name for case in CASES]
    parser.add_argument("--case", action="append", choices=names, help="a case of speed.py; all if none is given")
    parser.add_argument("--task", action="append", choices=TASKS, help="both if none is given")
    parser.add_argument("--networks", action="append", type=int, choices=NETWORKS, help="both if none is given")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each version, two at least")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    chosen = (arguments.task or TASKS, arguments.case or names, arguments.networks or NETWORKS)
    text = report(arguments.commit, list(itertools.product(*chosen)), arguments.rounds, Console())
    if arguments.write:
        renew("versions", text)


if __name__ == "__main__":
    main()
