"""What of the benchmarks can be checked without a GPU."""

import itertools
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch):
    """`benchmarks/gpu.py` as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("cases", "gpu", "textbook"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import gpu  # noqa: PLC0415

    return gpu


def test_the_memory_check_does_with_few_reports(gpu, monkeypatch):
    """A fast GPU reports no epoch but those where sigma_y is renewed, and the last one."""
    train, seen = gpu.train, []

    def fast(posterior, rows, likelihood, schedule, seeds, report):
        def seldom(epoch, *rest):
            if schedule.renews(epoch) or epoch == schedule.epochs:
                seen.append(epoch)
                report(epoch, *rest)

        return train(posterior, rows, likelihood, schedule, seeds, seldom)

    monkeypatch.setattr(gpu, "train", fast)
    case = gpu.Case("", 1, 8, 16, 0.1, n_zeta=5, n_rows=32, epochs=1)
    grown = gpu.memory_growth(case, 2, torch.device("cpu"), itertools.count(step=1000).__next__, few=3, many=12)
    assert seen == [3, 6, 9, 12]
    assert grown == 3000
