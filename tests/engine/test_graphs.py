"""Off a GPU these are no-ops; `benchmarks/gpu.py` tests them on one."""

import threading
import time

import torch

from eiv.engine.graphs import Replay, matmul_precision, own_stream


def test_on_the_cpu_every_call_runs_the_function():
    total = torch.zeros(2)
    replay = Replay(lambda values: total.add_(values[0]), torch.device("cpu"))
    for _ in range(5):
        replay([torch.ones(2)])
    assert total.tolist() == [5.0, 5.0]


def test_settings_of_the_cpu_stay_as_they_are():
    before = torch.get_float32_matmul_precision()
    with own_stream(torch.device("cpu")), matmul_precision(torch.device("cpu")):
        assert torch.get_float32_matmul_precision() == before


def test_nested_uses_leave_torchs_precision_as_it_was():
    """The setting is torch's own and needs no GPU."""
    gpu, before = torch.device("cuda"), torch.get_float32_matmul_precision()
    with matmul_precision(gpu):
        assert torch.get_float32_matmul_precision() == "high"
        with matmul_precision(gpu, "float32"):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def test_a_thread_keeps_its_precision_whatever_the_others_ask_for():
    gpu, found = torch.device("cuda"), []

    def launch(precision, wanted):
        for _ in range(200):
            with matmul_precision(gpu, precision):
                time.sleep(0)  # so that others may run
                found.append(torch.get_float32_matmul_precision() == wanted)

    pairs = (("auto", "high"), ("float32", "highest"))
    threads = [threading.Thread(target=launch, args=pair, daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert found == [True] * 400
