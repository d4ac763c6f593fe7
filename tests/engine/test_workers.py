import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from eiv import EiVRegressor, TrainingDivergedError
from eiv.engine.workers import run_tasks, scipy_alone

CPU = torch.device("cpu")


@pytest.fixture
def two_cores():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def test_results_come_in_order_and_the_callers_settings_stay(two_cores):
    assert run_tasks([lambda i=i: i for i in range(7)], CPU) == list(range(7))
    assert torch.get_num_threads() == 2
    assert (torch.tensor([1e-310], dtype=torch.float64) * 0.5).item() != 0


def test_tiny_numbers_are_zero_inside_a_task(two_cores):
    def halved():
        return (torch.tensor([1e-310], dtype=torch.float64) * 0.5).item()

    assert run_tasks([halved], CPU) == [0.0]


def test_tasks_share_the_cores(two_cores):
    assert run_tasks([torch.get_num_threads] * 2, CPU) == [1, 1]
    assert run_tasks([torch.get_num_threads], CPU, width=1024) == [2]
    assert run_tasks([torch.get_num_threads], CPU, width=128) == [1]


def test_scipy_has_its_threads_back_when_the_last_one_is_done():
    def threads():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    both_inside, seen = threading.Barrier(2), []

    def first():
        with scipy_alone():
            both_inside.wait()
        seen.append(threads())  # the other one is still inside
        both_inside.wait()

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with ThreadPoolExecutor(1) as pool, scipy_alone():
            running = pool.submit(first)
            both_inside.wait()
            both_inside.wait()
            running.result()
        assert seen == [{1}]
        assert threads() == before
        with pytest.raises(ValueError, match="no way"), scipy_alone():
            raise ValueError("no way")
        assert threads() == before


def test_a_failure_stops_the_others_and_is_raised(two_cores):
    stop = threading.Event()

    def fails():
        raise KeyError("this one")

    with pytest.raises(KeyError, match="this one"):
        run_tasks([fails, lambda: stop.wait(30)], CPU, stop)
    assert stop.is_set()


def test_networks_do_not_depend_on_the_number_of_cores(line, two_cores):
    X, y = line
    settings = {"hidden_units": 128, "epochs": 3, "n_theta": 10, "random_state": 0, "n_networks": 3, "dtype": "float64"}
    settings |= {"batch_size": 64}
    for x_err in (None, 0.1):
        on_two = EiVRegressor(x_err, **settings, recipe="paper").fit(X, y)
        predicted = on_two.predict(X)
        torch.set_num_threads(1)
        on_one = EiVRegressor(x_err, **settings, recipe="paper").fit(X, y)
        np.testing.assert_allclose(predicted, on_one.predict(X), rtol=1e-9)
        np.testing.assert_allclose(on_two.loss_curve_, on_one.loss_curve_)
        torch.set_num_threads(2)


def test_divergence_in_one_worker_is_reported(line, two_cores):
    X, y = line
    with pytest.raises(TrainingDivergedError):
        EiVRegressor(0.1, epochs=50, hidden_units=16, n_networks=4, learning_rate=1e30, recipe="paper").fit(X, y)


def test_predictions_in_many_threads_leave_the_number_of_threads_alone(two_cores):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: run_tasks([lambda: torch.randn(50, 50) @ torch.randn(50, 50)] * 4, CPU), range(20)))
        assert torch.get_num_threads() == 2
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2
