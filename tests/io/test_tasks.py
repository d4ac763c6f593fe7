"""Tests of tasks on workers: each has a result, an error or the loss of its worker, and the others go on."""

import os
import signal
import time
from concurrent.futures import Future

import pytest

from eiv.extras import is_installed
from eiv.io.tasks import Lost, Workers, workers


def engines():
    yield pytest.param("loky", id="loky")
    for name in ("ray", "dask"):
        missing = not is_installed("ray" if name == "ray" else "distributed")
        yield pytest.param(name, marks=[pytest.mark.slow, pytest.mark.skipif(missing, reason=f"needs eiv[{name}]")])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
@pytest.mark.parametrize("engine", list(engines()))
def test_a_killed_worker_loses_its_tasks_and_no_others(engine):
    def die_of_two(number):  # a function of this module could not be found in a worker of Ray
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return -number

    with workers(engine, 2) as found:
        results = list(found.results(die_of_two, range(6)))
        lost = {each.item for each in results if isinstance(each, Lost)}
        assert 2 in lost
        assert len(lost) <= 2  # on the machine of a worker that was killed, one may run beside it
        assert {-each for each in results if not isinstance(each, Lost)} == {*range(6)} - lost
        assert list(found.results(die_of_two, [7])) == [-7]


def test_an_error_of_the_work_is_raised():
    def fail(number):
        raise ArithmeticError(f"not {number}")

    for n_jobs in (1, 2):
        with workers("loky", n_jobs) as found, pytest.raises(ArithmeticError, match="not 1"):
            list(found.results(fail, [1]))


def test_workers_that_are_gone_are_noticed_and_cancelled_tasks_are_lost(monkeypatch):
    def gone():
        raise ConnectionError("no workers")

    monkeypatch.setattr("eiv.io.tasks._LOOK", 0.01)
    waiting, cancelled = Future(), Future()
    cancelled.cancel()
    cancelled.set_running_or_notify_cancel()
    found = Workers(lambda _, item: [waiting, cancelled][item], 2, lambda _: False, gone).results(abs, [0, 1])
    assert next(found) == Lost(1)
    with pytest.raises(ConnectionError, match="no workers"):
        next(found)


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("distributed"), reason="needs eiv[dask]")
def test_a_dask_cluster_without_workers_ends_the_work(monkeypatch):
    from distributed import Client, LocalCluster  # noqa: PLC0415  (an extra)

    monkeypatch.setattr("eiv.io.tasks.PATIENCE", 1)
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster, Client(cluster) as client:
        with workers("dask", 2) as found:
            results = found.results(abs, range(-9, 0))
            assert next(results) in range(10)
            cluster.scale(0)
            while client.ncores():
                time.sleep(0.05)
            with pytest.raises(ConnectionError, match="Dask has had no workers for 1 s, though there is work left"):
                list(results)
        with pytest.raises(ConnectionError, match="The cluster of Dask has no workers"), workers("dask", -1):
            pass


def test_no_worker_at_once_is_refused():
    with pytest.raises(ValueError, match=r"n_jobs must be a number of tasks at once, .* got 0"), workers("loky", 0):
        pass


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match="backend must be 'loky', 'ray' or 'dask', got 'slurm'"), workers("slurm", 2):
        pass
