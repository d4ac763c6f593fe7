"""The engine on a GPU: checks, then milliseconds a step: `python benchmarks/gpu.py [--out FILE]`."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from cases import Case
from numpy.random import SeedSequence
from textbook import Textbook

from eiv.engine import kernels
from eiv.engine.graphs import matmul_precision
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaNormal
from eiv.likelihoods import NOISE_RULES, NormalLikelihood
from eiv.networks import NetworkStack, paper_network
from eiv.networks.fast import fast_stack
from eiv.posteriors import BernoulliDropout
from eiv.prediction.sampling import BlockSampler
from eiv.training import Schedule, train
from eiv.training.objective import bound

DEVICE = torch.device("cuda")
CASES: dict[str, tuple[int, Case, float | None]] = {  # networks, case, milliseconds a step allowed; EiV but for MC
    "10 networks, h=1024, batch 32": (10, Case("", 8, 1024, 32, 0.2, n_zeta=5, n_rows=3200, epochs=30), 0.65),
    "10 networks, h=1024, batch 100": (10, Case("", 8, 1024, 100, 0.2, n_zeta=5, n_rows=10_000, epochs=20), 1.0),
    "10 networks, h=128, batch 16": (10, Case("", 1, 128, 16, 0.1, n_zeta=5, n_rows=400, epochs=200), 0.13),
    "1 network, h=128, batch 16": (1, Case("", 1, 128, 16, 0.1, n_zeta=5, n_rows=400, epochs=200), 0.12),
    "10 networks, h=1024, batch 32, MC": (10, Case("", 8, 1024, 32, 0.2, n_zeta=1, n_rows=3200, epochs=30), None),
    "10 networks, h=128, batch 16, MC": (10, Case("", 1, 128, 16, 0.1, n_zeta=1, n_rows=400, epochs=200), None),
}


def stack_of(case: Case, n_networks: int, device: torch.device, dtype: torch.dtype = torch.float32, fast: bool = True):
    seeds = SeedSequence(0).spawn(n_networks)
    stack = NetworkStack(
        lambda: paper_network(case.n_inputs, 1, case.hidden_units, dropout=case.dropout),
        case.n_inputs, 1, seeds, device, dtype,
    )  # fmt: skip
    return BernoulliDropout(fast_stack(stack) if fast else stack, 10.0), seeds


def table(
    case: Case, n_networks: int, device: torch.device, dtype: torch.dtype = torch.float32
) -> tuple[Rows, NormalLikelihood]:
    """The rows of a case, and the likelihood that training begins with."""
    X, y = (torch.tensor(values, dtype=dtype, device=device) for values in case.data())
    x = X.expand(n_networks, -1, -1).contiguous()
    std = torch.full((n_networks, 1, case.n_inputs), case.x_err or 0.0, dtype=dtype, device=device)
    y_noise = torch.full((n_networks, 1), 0.5, dtype=dtype, device=device)
    rows = Rows(ZetaNormal(x, std), y[:, None].expand(n_networks, -1, -1).contiguous())
    return rows, NormalLikelihood(y_noise, NOISE_RULES["rmse"])


def schedule(case: Case, epochs: int) -> Schedule:
    return Schedule(epochs, case.batch_size, 1e-3, case.n_zeta, renew_every=10**6)


def check_gradients() -> float:
    """Kernels against autograd in float64, TF32 off; small networks, so that no unit sits on the kink by rounding."""
    worst = 0.0
    for n_zeta, batch in ((1, 7), (5, 16)):
        case = Case("", 3, 64, batch, 0.2, n_zeta=n_zeta, n_rows=64, epochs=1)
        fast, seeds = stack_of(case, 4, DEVICE)
        reference, _ = stack_of(case, 4, DEVICE, torch.float64, fast=False)
        draw = fast.draw(Streams(seeds, DEVICE), batch)
        zeta, y = torch.randn(4, batch, n_zeta, 3, device=DEVICE), torch.randn(4, batch, 1, device=DEVICE)
        likelihood = NormalLikelihood(torch.rand(4, 1, device=DEVICE) + 0.3)
        total = torch.zeros(4, device=DEVICE)
        gradients = [torch.full_like(parameter, torch.nan) for parameter in fast.parameters]
        with torch.no_grad():
            df = likelihood.add_loss_gradient(fast.stack.forward(draw, zeta), y, None, total, 1.0)
            fast.stack.backward(df, gradients)
        f = reference.evaluate({name: value.double() for name, value in draw.items()}, zeta.double())
        value = -bound(likelihood.to(DEVICE, torch.float64), f, y.double())
        expected = torch.autograd.grad(value.sum(), reference.parameters)
        worst = max(worst, float((total + likelihood.constant() - value.detach()).abs().max()))
        for found, wanted in zip(gradients, expected, strict=True):
            worst = max(worst, float((found - wanted).norm() / wanted.norm()))
    assert worst < 1e-5, worst
    return worst


def check_graph_and_stack() -> dict[str, float]:
    """Graph against eager bit for bit; a network alone against in a stack; another path, the same weights."""
    case = Case("", 3, 64, 16, 0.2, n_zeta=5, n_rows=100, epochs=1)

    def weights(n_networks: int, dtype: torch.dtype, fast: bool = True) -> list[torch.Tensor]:
        posterior, seeds = stack_of(case, 4, DEVICE, dtype, fast)
        if n_networks == 1:
            posterior, seeds = posterior.split([1] * 4)[2], seeds[2:3]
            for parameter in posterior.parameters:
                parameter.requires_grad_(True)
        train(posterior, *table(case, n_networks, DEVICE, dtype), schedule(case, 6), seeds)
        return [value.detach().clone() for value in posterior.parameters]

    graph, eager = weights(4, torch.float32), without_graphs(lambda: weights(4, torch.float32))
    assert all(torch.equal(a, b) for a, b in zip(graph, eager, strict=True)), "graph and eager differ"
    alone, stacked = weights(1, torch.float64), weights(4, torch.float64)
    gap = max(float((a[0] - b[2]).abs().max()) for a, b in zip(alone, stacked, strict=True))
    general = weights(4, torch.float64, fast=False)
    path = max(float((a - b).abs().max()) for a, b in zip(general, stacked, strict=True))
    assert gap < 1e-9, gap
    assert path < 1e-9, path
    return {"alone against stacked": gap, "general against fast path": path}


def without_graphs(run):
    from eiv.engine import graphs

    record, graphs.Replay._record = graphs.Replay._record, lambda *_: None
    try:
        return run()
    finally:
        graphs.Replay._record = record


def check_fresh_noise() -> None:
    """A network that cannot learn sees other masks and zetas in every step: its losses all differ."""
    case = Case("", 3, 64, 20, 0.2, n_zeta=5, n_rows=20, epochs=1)
    posterior, seeds = stack_of(case, 2, DEVICE)
    frozen = Schedule(100, 20, 1e-30, 5, renew_every=10**6)
    losses = train(posterior, *table(case, 2, DEVICE), frozen, seeds).losses
    assert len(losses[:, 0].unique()) > 95, "masks or zetas repeat"


def check_memory() -> float:
    """Memory after many epochs is what it was after few."""
    growth = memory_growth(CASES["10 networks, h=128, batch 16"][1], 10, DEVICE, torch.cuda.memory_allocated) / 2**20
    assert growth < 1, growth
    return growth


def memory_growth(
    case: Case, n_networks: int, device: torch.device, held_now: Callable[[], int], few: int = 10, many: int = 60
) -> int:
    """Bytes that training holds more after `many` epochs than after `few`, of which it is a multiple.

    On a GPU reports come a few times per second, which can be once in a short training. Where sigma_y is renewed there
    is one in any case.
    """
    posterior, seeds = stack_of(case, n_networks, device)
    rows, likelihood = table(case, n_networks, device)
    held = {}

    def report(epoch: int, *_: object) -> None:
        held[epoch] = held_now()

    train(posterior, rows, likelihood, replace(schedule(case, many), renew_every=few), seeds, report)
    return held[many] - held[few]


def ms_a_step(n_networks: int, case: Case, runs: int = 3) -> tuple[float, float]:
    """Median over runs, of the epochs after those in which the graph is recorded; and the seconds of the first run."""
    rows, likelihood = table(case, n_networks, DEVICE)
    times, first = [], 0.0
    for _ in range(runs):
        posterior, seeds = stack_of(case, n_networks, DEVICE)
        torch.cuda.synchronize()
        start = time.perf_counter()
        train(posterior, rows, likelihood, schedule(case, 3), seeds)
        torch.cuda.synchronize()
        short = time.perf_counter() - start
        first = first or short
        posterior, seeds = stack_of(case, n_networks, DEVICE)
        torch.cuda.synchronize()
        start = time.perf_counter()
        train(posterior, rows, likelihood, schedule(case, 3 + case.epochs), seeds)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start - short) / case.steps * 1e3)
    return statistics.median(times[1:]), first


def side_by_side(n_stacks: int = 4) -> dict[str, float]:
    """Seconds for several small stacks, one after another and in a thread each; they must end the same."""
    case = CASES["10 networks, h=128, batch 16"][1]

    def run(_: int) -> torch.Tensor:
        posterior, seeds = stack_of(case, 10, DEVICE)
        train(posterior, *table(case, 10, DEVICE), schedule(case, case.epochs), seeds)
        torch.cuda.current_stream().synchronize()
        return posterior.parameters[0].detach()

    run(0)
    start = time.perf_counter()
    in_turn = [run(i) for i in range(n_stacks)]
    middle = time.perf_counter()
    with ThreadPoolExecutor(n_stacks) as pool:
        at_once = list(pool.map(run, range(n_stacks)))
    end = time.perf_counter()
    assert all(torch.equal(a, b) for a, b in zip(in_turn, at_once, strict=True)), "stacks side by side differ"
    return {"in turn, s": middle - start, "at once, s": end - middle}


def textbook_ms(case: Case) -> float:
    loop = Textbook(case, "cuda")
    loop.fit(1)
    torch.cuda.synchronize()
    start = time.perf_counter()
    loop.fit(2)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / (2 * case.steps / case.epochs) * 1e3


def prediction_seconds(n_rows: int = 10_000) -> float:
    case = CASES["10 networks, h=1024, batch 32"][1]
    posterior, seeds = stack_of(case, 10, DEVICE)
    sampler = BlockSampler(posterior, case.n_inputs, 100, 5, seeds)
    zeta = ZetaNormal(torch.randn(n_rows, 8, device=DEVICE), torch.full((1, 8), 0.1, device=DEVICE))

    def run() -> None:
        for start in range(0, n_rows, sampler.chunk_rows):
            part = zeta.rows(start, start + sampler.chunk_rows)
            sampler.sample(part, keep_draws=False)
        torch.cuda.synchronize()

    with matmul_precision(DEVICE):
        run()
        start = time.perf_counter()
        run()
    return time.perf_counter() - start


def textbook_prediction_seconds(n_rows: int = 10_000) -> float:
    """One network."""
    loop = Textbook(CASES["10 networks, h=1024, batch 32"][1], "cuda")
    x = torch.randn(n_rows, 8)
    loop.predict(x, 10)
    torch.cuda.synchronize()
    start = time.perf_counter()
    loop.predict(x, 100)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU here")
    found: dict[str, object] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "kernels": kernels.available(DEVICE),
        "gradients, relative error": check_gradients(),
    }
    found |= check_graph_and_stack()
    check_fresh_noise()
    found["memory growth, MB"] = check_memory()
    print("checks passed:", found, flush=True)
    for name, (n_networks, case, limit) in CASES.items():
        ms, first = ms_a_step(n_networks, case)
        loop = textbook_ms(case)
        found[name] = {
            "ms per step": ms,
            "allowed": limit,
            "first run, s": first,
            "textbook, ms": loop,
        }
        print(
            f"{name:32s} {ms:.3f} ms per step (allowed {limit or '-'}); first 3 epochs {first:.1f} s; "
            f"textbook loop {loop:.2f} ms per network: {n_networks * loop / ms:.0f} times faster"
        )
    found["4 stacks of 10 networks, h=128"] = side_by_side()
    print("4 stacks of 10 networks, h=128, 200 epochs:", found["4 stacks of 10 networks, h=128"])
    found["prediction, s"] = prediction_seconds()
    found["textbook prediction of one network, s"] = textbook_prediction_seconds()
    print(
        f"prediction, 10 networks of h=1024, 100 x 5 draws, 10,000 rows: {found['prediction, s']:.2f} s; "
        f"textbook loop {found['textbook prediction of one network, s']:.2f} s per network"
    )
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
