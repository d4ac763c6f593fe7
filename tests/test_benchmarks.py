"""What of the benchmarks can be checked without a GPU."""

import importlib
import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """A script of `benchmarks/` as a module, by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for path in BENCHMARKS.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return importlib.import_module


@pytest.fixture
def gpu(script):
    return script("gpu")


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


@pytest.mark.parametrize("kind", ["paper", "cosine"])
def test_the_recipes_are_timed_with_the_network_that_the_page_names(script, monkeypatch, kind):
    recipes, fitted = script("recipes"), set()

    class Model:
        def __init__(self, x_err, *, recipe, network, random_state):
            fitted.add((recipe, network))

        def fit(self, X, y):
            """Take no time."""

    monkeypatch.setattr(recipes, "EiVRegressor", Model)
    text = recipes.report(1, kind, Console(quiet=True))
    assert fitted == {("paper", None), ("default", kind)}
    assert f'The default recipe has `network="{kind}"`.' in text


@pytest.mark.parametrize(("options", "kind"), [([], "paper"), (["--network", "cosine"], "cosine")])
def test_real_sets_are_fitted_with_the_network_that_the_page_names(script, monkeypatch, options, kind):
    real, pages, fitted = script("real_sets"), {}, []

    class Model:
        def predict_distribution(self, X, keep_draws):
            mean = np.zeros(len(X))
            return SimpleNamespace(mean=mean, interval=lambda level, of: (mean - 1, mean + 1))

    def fit_splits(model, X, y, splits):
        fitted.append(model.network)
        return [Model() for _ in splits]

    simulated = real.problem("linear", seed=0, n_networks=2)
    monkeypatch.setattr(real, "problem", lambda name, seed, n_networks: simulated)
    monkeypatch.setattr(real, "rows_of", lambda X, rows: X[rows])
    monkeypatch.setattr(real, "fit_splits", fit_splits)
    monkeypatch.setattr(real, "renew", pages.__setitem__)
    monkeypatch.setattr(sys, "argv", ["real_sets.py", "--sets", "wine", "--networks", "2", "--write", *options])
    real.main()
    assert fitted == [kind]
    assert pages["real sets"].splitlines()[0] == f'The default recipe with `network="{kind}"`.'


def test_no_two_networks_of_the_precisions_share_a_simulated_row(script, monkeypatch):
    monkeypatch.delenv("EIV_DATA", raising=False)
    found = list(script("bfloat16").problems())
    assert [data.name for data in found] == ["linear", "quadratic", "cubic", "sine"]
    for data in found:
        rows = np.concatenate([np.concatenate(split) for split in data.splits])
        assert len(data.splits) == 10
        assert len(np.unique(data.y[rows])) == len(rows)
        assert len(data.X) == len(data.truth) == len(rows)


def test_each_kind_of_cpu_has_tables_of_its_own(script, monkeypatch, tmp_path):
    page, text = script("page"), tmp_path / "page.md"
    text.write_text("before\n<!-- cpu: begin -->\nold\n<!-- cpu: end -->\nafter\n")
    monkeypatch.setattr(page, "PAGE", text)
    for name, table in [("AMD EPYC", "one"), ("Intel(R) Xeon(R)", "two"), ("AMD EPYC", "three")]:
        monkeypatch.setattr(page, "cpu", lambda name=name: name)
        page.renew_for_cpu("cpu", table)
    found = [line for line in text.read_text().splitlines() if line and not line.startswith("<!--")]
    assert found == ["before", "old", "**AMD EPYC**", "three", "**Intel(R) Xeon(R)**", "two", "after"]


def test_speed_takes_some_cases_quickly(script, monkeypatch, capsys):
    speed, cases = script("speed"), script("cases")
    monkeypatch.setattr(speed, "matmul_peak", lambda: 1e12)
    monkeypatch.setattr(
        speed, "measure", lambda timers, rounds: {"textbook loop": 2.0, "eiv, 1 network": float(rounds)}
    )
    monkeypatch.setattr(speed, "fit_timers", lambda case, console: {})
    monkeypatch.setattr(speed, "predict_timers", lambda case: {})
    monkeypatch.setattr(sys, "argv", ["speed.py", "--quick", "--case", "large MC"])
    speed.main()
    printed = capsys.readouterr().out
    assert "large MC" in printed
    assert not any(f", {case.name}" in printed for case in cases.CASES[:2])
    monkeypatch.setattr(sys, "argv", ["speed.py", "--write", "--case", "large MC"])
    with pytest.raises(SystemExit):
        speed.main()
