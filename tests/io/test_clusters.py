"""Tests of work that is spread over a cluster by joblib: two workers of Ray and of Dask on this machine."""

import socket
import time

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_validate

from eiv import EiVRegressor, fit_splits
from eiv.extras import is_installed
from eiv.io.clusters import cluster, parallel_config

SMALL = {"network": "paper", "hidden_units": 8, "n_hidden": 1, "epochs": 2, "random_state": 0, "input_prior": "flat"}
SHIFTED = 3.0


def engines():
    for name in ("ray", "dask"):
        missing = not is_installed("ray" if name == "ray" else "distributed")
        yield pytest.param(name, marks=[pytest.mark.slow, pytest.mark.skipif(missing, reason=f"needs eiv[{name}]")])


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    X = random.normal(size=(90, 2))
    return X, X.sum(1) + 0.1 * random.normal(size=90)


def test_joblibs_own_backends_are_no_cluster():
    assert cluster() is None
    for backend in ("loky", "threading"):
        with parallel_config(backend, 2):
            assert cluster() is None


def test_a_backend_that_joblib_does_not_know_is_refused():
    with (
        pytest.raises(ValueError, match=r"backend must be one of .*loky.*ray, got 'slurm'"),
        parallel_config("slurm", 2),
    ):
        pass


def test_no_tasks_at_once_are_refused():
    with pytest.raises(ValueError, match="n_jobs must be a number of tasks at once, or -1"), parallel_config("loky", 0):
        pass


def nobodys_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.parametrize("engine", list(engines()))
def test_a_cluster_that_does_not_answer_is_one_sentence(engine, monkeypatch, capfd):
    name = {"ray": "RAY_ADDRESS", "dask": "DASK_SCHEDULER_ADDRESS"}[engine]
    monkeypatch.setenv(name, f"127.0.0.1:{nobodys_port()}")
    monkeypatch.setattr("eiv.io.clusters.PATIENCE", 5)
    started = time.monotonic()
    with pytest.raises(ConnectionError, match=rf"^{name}=127.0.0.1:\d+: .* unset {name}"), parallel_config(engine, 2):
        pass
    assert time.monotonic() - started < 30
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("engine", list(engines()))
def test_a_cluster_gives_the_models_of_this_machine(engine, data):
    X, y = data
    model, splits = EiVRegressor(0.1, **SMALL), [range(60), range(30, 90)]
    grid = GridSearchCV(model, {"weight_penalty": [1.0, 10.0]}, cv=2)
    here = fit_splits(model, X, y, splits)
    scores, best = cross_validate(model, X, y, cv=3)["test_score"], grid.fit(X, y).cv_results_["mean_test_score"]
    with parallel_config(engine, 2):
        assert cluster() is not None
        there = fit_splits(model, X, y, splits)
        assert np.allclose(cross_validate(model, X, y, cv=3)["test_score"], scores, rtol=1e-5)
        assert np.allclose(grid.fit(X, y).cv_results_["mean_test_score"], best, rtol=1e-5)
        assert joblib.Parallel()(joblib.delayed(abs)(i) for i in (-1, 2)) == [1, 2]
    for one, other in zip(here, there, strict=True):
        assert np.allclose(one.predict(X), other.predict(X), rtol=1e-5)
        assert not np.allclose(one.predict(X), here[0].predict(X) + SHIFTED, rtol=1e-5)
    assert cluster() is None


@pytest.mark.parametrize("engine", list(engines()))
def test_units_of_a_study_run_on_a_cluster(engine, tmp_path):
    from rich.console import Console  # noqa: PLC0415  (an extra)

    from eiv.experiments.paper.settings import TRAINING  # noqa: PLC0415
    from eiv.experiments.paper.stacks import Stack  # noqa: PLC0415
    from eiv.experiments.runs import read_unit, run_units  # noqa: PLC0415

    units = [Stack(name, "g_regression", TRAINING[name], 2, seed=0, device="cpu") for name in ("linear", "quadratic")]
    run_units(units, tmp_path / "here", Console(quiet=True), alone=True)
    with parallel_config(engine, 2):
        run_units(units, tmp_path / "there", Console(quiet=True))
    for unit in units:
        here, there = (read_unit(tmp_path / folder, unit.key) for folder in ("here", "there"))
        assert there["tables"].keys() == here["tables"].keys()
        assert there["identity"] == here["identity"]
