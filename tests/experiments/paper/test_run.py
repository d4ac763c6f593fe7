"""Runs that are interrupted, repeated and mixed."""

import json
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from eiv.experiments.paper import run, stacks
from eiv.experiments.paper.evaluation import evaluate_regression
from eiv.experiments.paper.problems import problem
from eiv.experiments.paper.regression import GRegression
from eiv.experiments.paper.run import reproduce
from eiv.experiments.paper.settings import PROFILES, TRAINING
from eiv.experiments.paper.stacks import Stack, plan
from eiv.experiments.paper.tables import Tables
from eiv.experiments.runs import MixedResultsError
from processes import ended, process_group

QUIET = Console(quiet=True)
RESULTS = ("networks", "calibration", "points")  # `stacks` holds times, which differ

SHORT = {"epochs": 4, "y_noise_every": 2, "hidden_units": 8}
FEW = {"only": ["linear", "quadratic"], "n_networks": 2, "device": "cpu", "seed": 5}
CODE = f"""
    import sys
    from dataclasses import replace
    from pathlib import Path
    import eiv.experiments.paper.settings as settings
    for name, row in settings.TRAINING.items():
        settings.TRAINING[name] = replace(row, **{SHORT})
    from eiv.experiments.paper.run import reproduce
    reproduce(Path(sys.argv[1]), **{FEW})
"""


def short_run(folder):
    """A process that runs six short stacks; at the end of the block it is killed with its workers."""
    command = [sys.executable, "-c", textwrap.dedent(CODE), str(folder)]
    return process_group(command, stderr=subprocess.DEVNULL)


def run_to_the_end(folder):
    with short_run(folder) as process:
        assert process.wait(timeout=240) == 0


def results(folder):
    return {name: (folder / f"{name}.csv").read_bytes() for name in RESULTS}


def n_finished(folder):
    return len(list(folder.glob("stacks/*.json")))


needs_groups = pytest.mark.skipif(
    not hasattr(os, "killpg"), reason="needs groups of processes, which are killed at once"
)


@needs_groups
@pytest.mark.usefixtures("without_workers")
def test_killed_in_the_middle_the_tables_are_those_of_an_undisturbed_run(tmp_path, monkeypatch):
    """The run that is killed has workers; those that go on and that are not disturbed have none."""
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    for name, row in TRAINING.items():
        monkeypatch.setitem(TRAINING, name, replace(row, **SHORT))
    with short_run(killed) as process:
        while n_finished(killed) == 0 and process.poll() is None:
            time.sleep(0.01)
    kept = n_finished(killed)
    assert 0 < kept < 6
    reproduce(killed, **FEW, console=QUIET)
    reproduce(undisturbed, **FEW, console=QUIET)
    assert n_finished(killed) == n_finished(undisturbed) == 6
    assert results(killed) == results(undisturbed)


@needs_groups
@pytest.mark.slow
def test_killed_at_random_moments_the_tables_are_those_of_an_undisturbed_run(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    started = time.monotonic()
    run_to_the_end(undisturbed)
    seconds = time.monotonic() - started
    random = np.random.default_rng(10)
    kept = []
    for _ in range(10):
        with short_run(killed):
            time.sleep(random.uniform(0.3, 0.9) * seconds)
        kept.append(n_finished(killed))
    run_to_the_end(killed)
    assert kept == sorted(kept)  # nothing is lost
    assert results(killed) == results(undisturbed)


ONE_UNIT = """
    import os, time
    from pathlib import Path
    from rich.console import Console
    from eiv.experiments.runs import run_units
    class Unit:
        device, key, cost = "cpu", "unit", 1.0
        def settings(self):
            return {}
        def run(self, on_progress):
            starter = os.getppid()
            Path("begun").touch()
            while os.getppid() == starter:
                time.sleep(0.01)
            time.sleep(2)
            return {}, {}
    run_units([Unit()], Path("."), Console(quiet=True))
    print("done")
"""


@pytest.mark.skipif(os.name != "posix", reason="needs sh")
@pytest.mark.slow
def test_a_run_outlives_the_shell_that_started_it(tmp_path):
    """Also where a single unit is left, which runs in no worker."""
    wait = '"$@" & while [ ! -e begun ]; do sleep 0.1; done'
    python = (sys.executable, "-c", textwrap.dedent(ONE_UNIT))
    assert ended("sh", "-c", wait, "sh", *python, cwd=tmp_path) == (0, "done\n", "")
    assert (tmp_path / "stacks" / "unit.json").exists()


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run of the g-based regression alone, which trains nothing."""
    folder = tmp_path_factory.mktemp("done")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "plan", only_regression)
        reproduce(folder, n_networks=3, device="cpu", console=QUIET)
    return folder


def only_regression(profile, seed, device):
    return [stack for stack in plan(profile, seed, device) if stack.method == "g_regression"]


@pytest.fixture
def regression_only(monkeypatch):
    monkeypatch.setattr(run, "plan", only_regression)


@pytest.mark.usefixtures("regression_only")
def test_what_is_done_is_not_done_again(done, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("a stack was run again")

    monkeypatch.setattr("eiv.experiments.runs._run", fail)
    reproduce(done, n_networks=3, device="cpu", console=QUIET)


@pytest.mark.usefixtures("regression_only")
@pytest.mark.parametrize(
    ("changed", "named"),
    [({"n_networks": 4}, "n_networks = 3, not 4"), ({"n_networks": 3, "seed": 1}, "seed = 0, not 1")],
)
def test_other_settings_are_not_mixed_in(done, changed, named):
    with pytest.raises(MixedResultsError, match=named):
        reproduce(done, device="cpu", console=QUIET, **changed)


@pytest.mark.usefixtures("regression_only")
def test_another_version_is_not_mixed_in(done, monkeypatch):
    monkeypatch.setattr("eiv.__version__", "99.0")
    with pytest.raises(MixedResultsError, match=r"eiv = '0\..*', not '99.0'.*--restart"):
        reproduce(done, n_networks=3, device="cpu", console=QUIET)


def test_a_changed_table_of_settings_is_another_identity():
    stack = Stack("linear", "eiv", TRAINING["linear"], n_networks=2, seed=0, device="cpu")
    other = replace(stack, training=replace(stack.training, epochs=99))
    assert stack.settings() != other.settings()
    assert json.loads(json.dumps(stack.settings())) == stack.settings()  # as it comes back from a file


@pytest.mark.usefixtures("regression_only")
def test_results_of_splits_of_one_data_set_are_not_taken_for_those_of_data_drawn_anew(tmp_path):
    reproduce(tmp_path, only=["linear"], n_networks=2, device="cpu", console=QUIET)
    path = tmp_path / "stacks" / "linear-g_regression.json"
    content = json.loads(path.read_text())
    del content["identity"]["data_drawn"]  # as runs were before
    path.write_text(json.dumps(content))
    with pytest.raises(MixedResultsError, match=r"data_drawn = None, not 'anew for each network'.*--restart"):
        reproduce(tmp_path, only=["linear"], n_networks=2, device="cpu", console=QUIET)


def test_results_of_real_data_do_not_depend_on_how_simulated_ones_are_drawn():
    stacks = plan(PROFILES["full"], seed=0, device="cpu")
    drawn = {stack.dataset for stack in stacks if "data_drawn" in stack.settings()}
    assert drawn == set(PROFILES["quick"].sets)


def test_all_methods_have_the_same_rows(monkeypatch):
    seen = {}

    def fit_splits(model, X, y, splits, on_progress):
        seen[model.x_err] = [(X[rows, 0], y[rows]) for rows in splits]
        return []

    def fit(name, x, y):
        seen.setdefault("regression", []).append((x, y))
        return GRegression(name, np.zeros(2), np.eye(2))

    monkeypatch.setattr(stacks, "fit_splits", fit_splits)
    monkeypatch.setattr(stacks, "evaluate_models", lambda data, models: evaluate_regression(data))
    monkeypatch.setattr(GRegression, "fit", lambda *args: GRegression("linear", np.zeros(2), np.eye(2)))
    stack = Stack("linear", "eiv", TRAINING["linear"], n_networks=3, seed=0, device="cpu")
    stack.run()
    replace(stack, method="non_eiv").run()
    monkeypatch.setattr(GRegression, "fit", fit)
    replace(stack, method="g_regression").run()
    assert set(seen) == {0.1, None, "regression"}
    for rows in zip(*seen.values(), strict=True):
        assert len({(x.tobytes(), y.tobytes()) for x, y in rows}) == 1


@pytest.mark.usefixtures("regression_only")
def test_restart_replaces_them(tmp_path):
    reproduce(tmp_path, only=["linear"], n_networks=2, device="cpu", console=QUIET)
    tables = reproduce(tmp_path, only=["linear"], n_networks=3, device="cpu", restart=True, console=QUIET)
    assert tables.networks["network"].nunique() == 3


@pytest.mark.usefixtures("regression_only")
def test_a_damaged_result_is_made_again(tmp_path):
    reproduce(tmp_path, only=["linear"], n_networks=2, device="cpu", console=QUIET)
    before = results(tmp_path)
    path = tmp_path / "stacks" / "linear-g_regression.json"
    path.write_text(path.read_text()[:100])
    reproduce(tmp_path, only=["linear"], n_networks=2, device="cpu", console=QUIET)
    assert results(tmp_path) == before


def test_tables_come_back_as_they_were(done):
    tables = Tables.read(done)
    for name in RESULTS:
        kept = pd.read_parquet(done / f"{name}.parquet")
        pd.testing.assert_frame_equal(getattr(tables, name), kept, rtol=1e-6, check_dtype=False)


def test_reading_a_folder_without_results(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"networks.csv is missing.*eiv reproduce"):
        Tables.read(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profile": "slow"}, "quick, full"),
        ({"only": ["boston"]}, "california.*'boston'"),
        ({"n_networks": 0}, "at least 1"),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        reproduce(tmp_path, console=QUIET, **arguments)


def test_the_full_plan_is_the_paper():
    stacks = plan(PROFILES["full"], seed=0, device="cuda")
    networks = [stack for stack in stacks if stack.method in ("eiv", "non_eiv")]
    assert sum(stack.n_networks for stack in networks) == 260
    assert [stack.cost for stack in stacks] == sorted((stack.cost for stack in stacks), reverse=True)
    assert {stack.dataset for stack in stacks if stack.method == "g_regression"} == set(PROFILES["quick"].sets)


def test_the_models_are_the_papers():
    stack = Stack("sine", "eiv", TRAINING["sine"], n_networks=1, seed=0, device="cpu")
    model = stack.regressor(problem("sine", 0, 1))
    assert (model.x_err, model.hidden_units, model.dropout, model.standardise) == (0.04, 128, 0.1, False)
    assert replace(stack, method="non_eiv").regressor(problem("sine", 0, 1)).x_err is None
