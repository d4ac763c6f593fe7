"""Speed on this machine's CPU against the textbook loop and the peers: `python benchmarks/speed.py [--write]`.

Each kind of CPU has tables of its own on the page. `--quick` takes one round of each case, four minutes on two idle
cores; `--case "small MC"` takes one case, and may be repeated.

All contenders of a case take turns in one process, round by round; the figures are medians over the rounds. The
textbook loop and most peers train one network at a time, so ten networks take ten times as long. Training is timed
without the set-up: a long fit less a short one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import peers
import torch
from cases import CASES, Case
from page import cpu, renew_for_cpu
from rich.console import Console
from textbook import Textbook

N_THETA, N_NETWORKS = 100, 10
TARGETS = {  # case: training, with bfloat16, prediction
    "small MC": (7, None, 2.5),
    "small EiV": (5, None, 1.7),
    "large MC": (1.8, 2.5, 2.2),
    "large EiV": (1.35, 2.2, 1.7),
}
Timer = Callable[[], float]


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def engine_fit(case: Case, n_networks: int, **settings: object) -> float:
    """Seconds of the timed epochs: a long fit less a short one."""
    X, y = case.data()
    short = seconds(lambda: case.regressor(n_networks, 1, **settings).fit(X, y))
    return seconds(lambda: case.regressor(n_networks, 1 + case.epochs, **settings).fit(X, y)) - short


def fresh_fit(kind: type, case: Case) -> float:
    """Seconds of the timed epochs of a new network; the penalty slows an old one down, by numbers next to zero."""
    contender = kind(case)
    contender.fit(1)
    return seconds(lambda: contender.fit(case.epochs))


def fit_timers(case: Case, console: Console) -> dict[str, tuple[int, Timer]]:
    """Contenders of the training: networks that one run trains, and the run."""
    timers: dict[str, tuple[int, Timer]] = {
        "textbook loop": (1, partial(fresh_fit, Textbook, case)),
        "eiv, 1 network": (1, partial(engine_fit, case, 1)),
        "eiv, 10 networks": (N_NETWORKS, partial(engine_fit, case, N_NETWORKS)),
    }
    if TARGETS[case.name][1] is not None:
        timers["eiv, 10 networks, bfloat16"] = (N_NETWORKS, partial(engine_fit, case, N_NETWORKS, precision="bfloat16"))
    for name, kind in peers.available().items():
        if not kind.takes(case):
            continue
        try:
            kind(case)
        except (ImportError, RuntimeError) as error:
            console.print(f"  {name} is installed but does not work here: {error}", style="dim")
            continue
        timers[name] = (kind.networks, partial(fresh_fit, kind, case))
    return timers


def predict_timers(case: Case) -> dict[str, tuple[int, Timer]]:
    X, y = case.data()
    rows = np.random.default_rng(1).standard_normal((case.n_predicted, case.n_inputs))
    loop, x = Textbook(case), torch.tensor(rows, dtype=torch.float32)
    settings = {"n_theta": N_THETA} | ({"n_zeta": case.n_zeta} if case.n_zeta > 1 else {})
    timers: dict[str, tuple[int, Timer]] = {"textbook loop": (1, lambda: seconds(lambda: loop.predict(x, N_THETA)))}
    for n_networks in (1, N_NETWORKS):
        model = case.regressor(n_networks, 1).set_params(**settings).fit(X, y)
        name = f"eiv, {n_networks} network{'s' if n_networks > 1 else ''}"
        run = partial(model.predict_distribution, rows, keep_draws=False)
        timers[name] = (n_networks, lambda run=run: seconds(run))
    return timers


def measure(timers: dict[str, tuple[int, Timer]], rounds: int) -> dict[str, float]:
    """Median seconds per network, contenders taking turns; the first round warms up and does not count."""
    times: dict[str, list[float]] = {name: [] for name in timers}
    for turn in range(rounds + 1):
        for name, (n_networks, timer) in timers.items():
            value = timer() / n_networks
            if turn > 0:
                times[name].append(value)
    return {name: statistics.median(values) for name, values in times.items()}


def matmul_peak() -> float:
    """Operations a second of a large float32 matrix product on all threads."""
    a, b = torch.randn(2, 2048, 2048)
    torch.mm(a, b)
    return 2 * 2048**3 / min(seconds(lambda: torch.mm(a, b)) for _ in range(5))


def report(rounds: int, cases: Sequence[Case], console: Console) -> str:
    peak = matmul_peak()
    taken = f"Medians of {rounds} interleaved rounds." if rounds > 1 else "One round."
    lines = [
        f"{torch.get_num_threads()} threads, torch {torch.__version__}; float32 matrix products reach "
        f"{peak / 1e9:.0f} GFLOP/s. {taken}",
        "",
        "| case | contender | ms per network and step | times the textbook loop | asked for | share of the peak |",
        "|---|---|---|---|---|---|",
    ]
    for case in cases:
        console.print(f"training, {case.name} ...")
        found = measure(fit_timers(case, console), rounds)
        for name, value in found.items():
            asked = {"eiv, 10 networks": TARGETS[case.name][0], "eiv, 10 networks, bfloat16": TARGETS[case.name][1]}
            if case.name == "small MC":
                asked["eiv, 1 network"] = 2
            share = case.flops_a_step() * case.steps / value / peak
            row = f"| training, {case.name} | {name} | {value / case.steps * 1e3:.3f} "
            lines.append(row + f"| {found['textbook loop'] / value:.2f} | {asked.get(name, '')} | {share:.0%} |")
            console.print(lines[-1])
    lines += [
        "",
        f"| case | contender | rows | s per network, {N_THETA} thetas | times the textbook loop | asked for "
        "| share of the peak |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        console.print(f"prediction, {case.name} ...")
        found = measure(predict_timers(case), rounds)
        for name, value in found.items():
            asked_for = TARGETS[case.name][2] if name == "eiv, 10 networks" else ""
            share = case.flops_per_row(N_THETA) * case.n_predicted / value / peak
            row = f"| prediction, {case.name} | {name} | {case.n_predicted} | {value:.3f} "
            lines.append(row + f"| {found['textbook loop'] / value:.2f} | {asked_for} | {share:.0%} |")
            console.print(lines[-1])
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    parser.add_argument("--quick", action="store_true", help="one timed round")
    parser.add_argument(
        "--case", action="append", choices=[case.name for case in CASES], help="one case; may be repeated"
    )
    parser.add_argument("--write", action="store_true", help="renew the tables of this CPU in docs/benchmarks.md")
    arguments = parser.parse_args()
    cases = [case for case in CASES if case.name in (arguments.case or [case.name])]
    if arguments.write and len(cases) < len(CASES):
        parser.error("--write takes all cases")
    console = Console()
    console.print(cpu())
    text = report(1 if arguments.quick else arguments.rounds, cases, console)
    if arguments.write:
        renew_for_cpu("cpu", text)


if __name__ == "__main__":
    main()
