"""Shared scenarios, the threads of a test, and the order of the tests.

Two workers share two cores, so each keeps to one thread; `EIV_TEST_THREADS` asks for more.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ.get("EIV_TEST_THREADS", "1")  # read when numpy is imported, and by processes

import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from commands import FIT, QUICK, rows
from eiv.engine.products import check_precision
from eiv.extras import is_installed
from eiv.likelihoods import VaryingLikelihood
from serving import Server
from smallnets import CPU

if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` would have every command ignore it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # `make test &` in a script
    signal.signal(signal.SIGINT, signal.default_int_handler)
THREADS = int(os.environ["OMP_NUM_THREADS"])
torch.set_num_threads(THREADS)
TESTS = Path(__file__).parent
SECONDS_OF_SLOW = 3600  # after which a test marked `slow` fails; `timeout` in pyproject.toml is for the others

# Folders and files without numbers that could depend on the CPU, or whose numbers others test; the rest is `numerical`.
_NOT_NUMERICAL = {
    "cli",
    "datasets",
    "docs",
    "experiments",
    "fuzz",
    "gpu",
    "guarantees",
    "io/tables",
    "io/test_files.py",
    "report",
    "test_bad_input.py",
    "test_benchmarks.py",
    "test_contributing.py",
    "test_docs.py",
    "test_examples.py",
    "test_extras.py",
    "test_order.py",
    "test_package.py",
    "test_pages.py",
    "test_public_api.py",
    "test_readme.py",
    "test_rooms.py",
}
# Files by the package that they need, of an extra or of POSIX, and tests by the file of Linux that they need. They are
# left out where it is missing; a test in another file says itself what it needs. See CONTRIBUTING.md.
FILES_THAT_NEED = {
    "typer": [
        *("cli/*", "experiments/*", "report/*", "scenarios.py", "training/test_diagnostics.py", "test_benchmarks.py"),
        "training/test_settings_page.py",
        *("test_contributing.py", "test_examples.py", "test_public_api.py", "test_readme.py", "test_rooms.py"),
    ],
    "pyarrow": ["fuzz/*", "io/tables/*", "regressor/test_fromfile.py"],
    "onnxruntime": ["io/test_export.py", "test_docs.py"],
    "resource": ["fuzz/*", "cli/test_[e-z]*.py", "report/test_model_report.py"],
}
TESTS_THAT_NEED = {
    "/dev/full": [
        "tests/cli/test_outputs.py::test_outputs_that_are_no_plain_files_are_refused",
        "tests/cli/test_outputs.py::test_library_outputs_that_are_no_plain_files_are_refused",
    ],
    "/proc": [
        "tests/cli/test_resources.py::test_too_little_memory_is_one_sentence"
    ],  # a limit that only Linux holds to
}
collect_ignore_glob = [
    pattern for package, files in FILES_THAT_NEED.items() if not is_installed(package) for pattern in files
]
# The longest tests, over five seconds each, which start first: no worker is left with one of them at the end.
LONGEST = [
    "tests/guarantees/test_classes_known.py::test_two_classes_and_one_noisy_column",
    "tests/guarantees/test_effect.py::test_eiv_covers_the_truth[4]",
    "tests/experiments/paper/test_run.py::test_killed_in_the_middle_the_tables_are_those_of_an_undisturbed_run",
    "tests/guarantees/test_default_recipe.py::test_each_row_counts_with_its_own_error[small]",
    "tests/test_readme.py::test_python_blocks_run_in_order[quick]",
    "tests/cli/test_signals.py::test_workers_end_with_a_reproduction[SIGHUP-True]",
    "tests/training/test_explanations.py::test_what_is_washed_out_is_covered",
    "tests/test_readme.py::test_commands_run_in_order",
    "tests/test_docs.py::test_python_blocks_run_in_order[compare.md-quick]",
    "tests/experiments/paper/test_report.py::test_the_page_needs_nothing_from_elsewhere",
    "tests/test_contributing.py::test_the_changes_apply_and_what_they_add_works",
]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Mark the numerical tests, give slow ones more time, and deal out the longest to the workers of pytest-xdist."""
    missing = {name: file for file, names in TESTS_THAT_NEED.items() if not Path(file).exists() for name in names}
    for item in items:
        if (name := item.nodeid.partition("[")[0]) in missing:
            item.add_marker(pytest.mark.skip(reason=f"needs {missing[name]}"))
        places = {
            path.relative_to(TESTS).as_posix() for path in (item.path, *item.path.parents) if TESTS in path.parents
        }
        if not places & _NOT_NUMERICAL:
            item.add_marker("numerical")
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SECONDS_OF_SLOW))
    result = yield
    if hasattr(config, "workerinput"):
        items[:] = dealt_out(items, config.workerinput["workercount"])
    return result


def dealt_out(items, n_workers):
    """The items in an order for `--dist worksteal`, where each worker gets one piece of the list: the longest first."""
    of_name = {item.nodeid: item for item in items}
    longest = [of_name[name] for name in LONGEST if name in of_name]
    others = [item for item in items if item.nodeid not in LONGEST]
    dealt, left = [], len(items)
    for worker in range(n_workers):
        own, size = longest[worker::n_workers], left // (n_workers - worker)
        n_others = max(0, size - len(own))
        dealt += own + others[:n_others]
        others, left = others[n_others:], left - size
    return dealt + others


@pytest.fixture(autouse=True)
def _own_start():
    """Each test has the same random numbers and number of threads, whatever ran before it in its worker."""
    torch.manual_seed(0)
    if torch.get_num_threads() != THREADS:
        torch.set_num_threads(THREADS)


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(scope="session")
def made_up_run(tmp_path_factory):
    """The folder of a reproduction, of results that were made up; copy it to write there."""
    from scenarios import run_tables  # noqa: PLC0415  (needs eiv.experiments, which need extras)

    folder = tmp_path_factory.mktemp("made_up_run")
    run_tables().write(folder)
    return folder


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process: exit status, what went to stdout, what went to stderr."""
    from eiv import cli  # noqa: PLC0415  (needs an extra)

    def run(*arguments, width=200):
        monkeypatch.setattr(sys, "argv", ["eiv", *map(str, arguments)])
        for console in (cli.console, cli.errors):
            monkeypatch.setattr(console, "_width", width)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table, in which the commands run."""
    rows().to_csv(tmp_path / "d.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def fits():
    """What `eiv fit` writes, by its options and table: always the same bytes, so one fit serves all tests."""
    return {}


@pytest.fixture
def model(folder, run, fits):
    """The same with a model."""
    options = (*FIT, *QUICK)
    if options not in fits:
        status, _, err = run("fit", "d.csv", *options, "-o", "m.eiv")
        assert (status, err) == (0, "")
        fits[options] = (folder / "m.eiv").read_bytes()
    (folder / "m.eiv").write_bytes(fits[options])
    return folder


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A network of our own, an empty cache and no EIV_DATA."""
    server = Server()
    monkeypatch.setenv("EIV_MIRROR", server.url)
    monkeypatch.setenv("EIV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EIV_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield server
    server.close()


@pytest.fixture
def unrendered(monkeypatch):
    """Figures are drawn, and their files hold a dot: for pages whose words are tested, which takes half of the time."""
    dots = {"svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>', "png": b"\x89PNG"}
    for module in ("eiv.plotting", "eiv.report.sections"):
        monkeypatch.setattr(f"{module}.image", lambda figure, kind: dots[kind])


@pytest.fixture
def without_workers(monkeypatch):
    """Units of a run on the CPU come one after another in this process, which saves the start of others."""
    monkeypatch.setattr(
        "eiv.experiments.runs.joblib.Parallel", lambda **options: lambda jobs: (f(*a, **k) for f, a, k in jobs)
    )


@pytest.fixture
def few_zetas(monkeypatch):
    """Laplace's information from a sixteenth of zetas and labels, where a test compares fits and not the integral."""
    monkeypatch.setattr("eiv.posteriors.last_layer_laplace._ZETAS", 16)
    monkeypatch.setattr("eiv.posteriors.last_layer_laplace._LABELS", 125)


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


@pytest.fixture
def any_head(monkeypatch):
    """Noise that varies is kept unheard, so that small tables have it."""
    monkeypatch.setattr(VaryingLikelihood, "fewest_held_out", 0)
