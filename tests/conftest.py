"""Shared scenarios. Two workers share two cores, so each keeps to one thread."""

import shutil

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence

from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import BernoulliDropout
from eiv.products import check_precision
from scenarios import run_tables

torch.set_num_threads(1)
CPU = torch.device("cpu")


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture
def made_up_run():
    """Tables of a reproduction, made up."""
    return run_tables()


@pytest.fixture
def has_bfloat16():
    try:
        check_precision("bfloat16", CPU, torch.float32)
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture
def line():
    """Forty noisy rows of a straight line: X, y."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (40, 1))
    return zeta + 0.1 * random.standard_normal((40, 1)), 2 * zeta[:, 0] + 0.1 * random.standard_normal(40)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A Chromium without a window, which keeps a log of what goes wrong."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("Chromium and ChromeDriver are not installed")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('browser')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def small_posterior(n_networks=2, n_inputs=1, n_outputs=1, dropout=0.2, dtype=torch.float32, hidden_units=8):
    """Bernoulli dropout on small networks of the paper's kind."""
    seeds = SeedSequence(0).spawn(n_networks)
    stack = NetworkStack(
        lambda: paper_network(n_inputs, n_outputs, hidden_units, dropout=dropout),
        n_inputs,
        n_outputs,
        seeds,
        CPU,
        dtype,
    )
    return BernoulliDropout(stack, weight_penalty=10.0)
