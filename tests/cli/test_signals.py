"""Commands that are interrupted, told to end or killed: what they leave, and that their processes end."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import weakref
from pathlib import Path

import pytest

import eiv
from commands import FIT, QUICK, large
from eiv.cli.app import ending_signals
from processes import command, ended


@pytest.fixture
def fit_and_send(model, run, monkeypatch):
    """Fit in this process: signals arrive while it learns, then while it says what it keeps."""

    def fit_and_send(first, *others, options=QUICK):
        app, fit = sys.modules["eiv.cli.app"], eiv.fit_splits  # `eiv.cli.app` itself is an object of that module
        stamp, sent = app._stamp, []

        def send_first(_):
            sent.append(first)
            signal.raise_signal(first)

        def send_others(out):
            for number in others if sent else ():
                signal.raise_signal(number)
            return stamp(out)

        monkeypatch.setattr(eiv, "fit_splits", lambda *args, **known: fit(*args, **known | {"on_progress": send_first}))
        monkeypatch.setattr(app, "_stamp", send_others)
        found = run("fit", "d.csv", *FIT, *options, "-o", "m.eiv", "--force")
        assert sent
        return found

    return fit_and_send


@pytest.mark.parametrize(
    "names", [["SIGINT"], ["SIGTERM"], ["SIGHUP", "SIGHUP"], ["SIGTERM", "SIGINT"], ["SIGINT", "SIGINT"]]
)
def test_a_fit_that_is_told_to_end_once_or_twice(model, fit_and_send, names):
    numbers = [getattr(signal, name) for name in names]
    before, handlers = (model / "m.eiv").read_bytes(), [signal.getsignal(number) for number in numbers]
    status, _, err = fit_and_send(*numbers)
    assert (status, err) == (128 + numbers[0], "interrupted: m.eiv is as it was before, nothing else is left.\n")
    assert (model / "m.eiv").read_bytes() == before
    assert {path.name for path in model.iterdir()} == {"d.csv", "m.eiv"}
    assert [signal.getsignal(number) for number in numbers] == handlers


def test_nohup_is_heeded(model, fit_and_send):
    before = (model / "m.eiv").read_bytes()
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        status, _, err = fit_and_send(signal.SIGHUP, options=(*QUICK, "--seed", "1"))
    finally:
        signal.signal(signal.SIGHUP, handler)
    assert (status, err) == (0, "")
    assert (model / "m.eiv").read_bytes() != before, "the new model"


@pytest.mark.slow
def test_a_process_that_is_told_to_end_twice_while_it_learns(model):
    before = (model / "m.eiv").read_bytes()
    steps = ("--recipe", "paper", "--set", "epochs=1000000")
    with command("fit", "d.csv", *FIT, *steps, "-o", "m.eiv", "--force") as process:
        process.stdout.readline()  # it has said what it understood
        time.sleep(0.5)
        for name in ("SIGTERM", "SIGINT"):
            process.send_signal(getattr(signal, name))
            time.sleep(0.05)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (
        128 + signal.SIGTERM,
        "interrupted: m.eiv is as it was before, nothing else is left.\n",
    )
    assert (model / "m.eiv").read_bytes() == before


def test_a_process_that_is_interrupted_while_it_predicts(model):
    large(200)  # two seconds
    with command("predict", "m.eiv", "large.csv", "-o", "p.csv") as process:
        wait_for(model, ".*.eiv-part")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted: p.csv was not written, nothing else is left.\n")
    assert {path.name for path in model.iterdir()} == {"d.csv", "m.eiv", "large.csv"}


def wait_for(folder, pattern):
    deadline = time.monotonic() + 60
    while not list(folder.glob(pattern)) and time.monotonic() < deadline:
        time.sleep(0.05)


def test_interrupted_before_anything_is_read(folder, run, monkeypatch):
    monkeypatch.setattr("eiv.cli.options.FitOptions.of", lambda *_: signal.raise_signal(signal.SIGINT))
    status, out, err = run("fit", "d.csv", "-o", "m.eiv")
    assert (status, out, err) == (130, "", "interrupted: m.eiv was not written, nothing else is left.\n")


def test_an_interrupted_study_keeps_what_is_finished(folder):
    few = ("--data-sets", "linear", "--families", "bernoulli_dropout,mean_field,swag", "--networks", "1")
    with command("study", "posteriors", *few, "--epochs-share", "0.05", "--out", "s") as process:
        wait_for(folder, "s/stacks/*.json")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("interrupted: finished units are kept in s, and the same command continues there.\n")
    assert "Traceback" not in err
    assert not list(folder.glob("s/*.csv"))
    assert list(folder.glob("s/stacks/*.json"))


def of_session(number):
    """The processes of a session that are alive, by /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == number and state != "Z":
            found.append(int(path.parent.name))
    return found


def until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return holds()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("name", "to_all"),
    [
        ("SIGHUP", True),
        pytest.param("SIGKILL", False, marks=pytest.mark.slow),
        pytest.param("SIGTERM", True, marks=pytest.mark.slow),
        pytest.param("SIGTERM", False, marks=pytest.mark.slow),
        pytest.param("SIGHUP", False, marks=pytest.mark.slow),
        pytest.param("SIGINT", False, marks=pytest.mark.slow),
        pytest.param("SIGINT", True, marks=pytest.mark.slow),
    ],
)
def test_workers_end_with_a_reproduction(tmp_path, name, to_all):
    """Whether a signal goes to the command alone or to all processes of its terminal."""
    number = getattr(signal, name)
    few = ("--only", "linear,quadratic", "--networks", "2", "--device", "cpu", "--out", tmp_path / "r")
    with command("reproduce", *few) as process:
        assert until(lambda: len(of_session(process.pid)) > 4), "the command, Python's helpers and two workers"
        time.sleep(3)
        (os.killpg if to_all else os.kill)(process.pid, number)
        _, err = process.communicate(timeout=30)  # also: nobody holds stdout
        if name != "SIGKILL":
            assert process.returncode == 128 + number, err
            assert re.search(r"\ninterrupted: (finished units are kept in|no unit was finished, nothing).*\n$", err)
            assert "Traceback" not in err
        assert until(lambda: not of_session(process.pid), 10)


JUST_STARTED = """
import os
from joblib.externals.loky.process_executor import ProcessPoolExecutor
from eiv.__main__ import script
start = ProcessPoolExecutor._adjust_process_count
def start_and_end(executor):
    start(executor)
    os.kill(os.getpid(), {number:d})
ProcessPoolExecutor._adjust_process_count = start_and_end
script()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", [pytest.param("SIGKILL", marks=pytest.mark.slow), "SIGTERM"])
def test_workers_end_with_a_reproduction_that_has_just_started_them(tmp_path, name):
    number = getattr(signal, name)
    few = ("--only", "linear,quadratic", "--networks", "2", "--device", "cpu", "--out", tmp_path / "r")
    with command("reproduce", *few, code=JUST_STARTED.format(number=number)) as process:
        process.wait(timeout=60)
        assert until(lambda: not of_session(process.pid), 10)
        if name == "SIGTERM":
            assert process.returncode == 128 + number
            assert process.stderr.read() == "interrupted: no unit was finished, nothing was written.\n"


def test_what_a_process_leaves_behind_is_cleaned_up_without_a_word():
    """Workers that have just been started may leave locks, of which joblib's helper would warn."""
    code = """
        import os
        from eiv.experiments.runs import _start_trackers
        _start_trackers()
        from joblib.externals.loky.backend.synchronize import Lock
        lock = Lock()
        os._exit(0)
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert found.stderr == ""


@pytest.mark.parametrize("name", ["typer", "numpy"])
def test_interrupted_while_the_commands_are_loaded(name):
    """In the first tenths of a second nothing but imports has been done, which may catch an exception, or lose it."""
    code = f"""
        import builtins, os, signal, time
        from eiv.__main__ import script
        load = builtins.__import__
        def interrupt(name, *args, **kwargs):
            if name == "{name}":
                try:
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(1)
                except BaseException:
                    pass
            return load(name, *args, **kwargs)
        builtins.__import__ = interrupt
        script()
    """
    status, _, err = ended(sys.executable, "-c", textwrap.dedent(code))
    assert (status, err) == (130, "interrupted: nothing was written.\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_callback_is_not_lost(number):
    """Python drops what a callback of a weak reference raises, as imports have them for the locks of modules."""

    def lose_and_wait():
        kept = {1, 2, 3}
        reference = weakref.ref(kept, lambda _: signal.raise_signal(number))
        del kept
        assert reference() is None
        time.sleep(20)

    with pytest.raises(KeyboardInterrupt) as raised, ending_signals():
        lose_and_wait()
    assert raised.value.number == number


def test_interrupted_while_the_command_is_made():
    """typer makes its commands from their functions before it runs one."""
    code = """
        import eiv.cli
        def interrupted():
            raise KeyboardInterrupt
        eiv.cli.app = interrupted
        eiv.cli.main()
    """
    status, _, err = ended(sys.executable, "-c", textwrap.dedent(code))
    assert (status, err) == (130, "interrupted: nothing was written.\n")


WAITS = """
import time
from typer.core import TyperGroup
from eiv.__main__ import script
def wait(*_):
    print("waiting", flush=True)
    time.sleep(60)
TyperGroup.{step} = wait
script()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("step", ["parse_args", "resolve_command"])
def test_interrupted_while_typer_reads_the_command_line(name, step):
    with command("info", "m.eiv", code=WAITS.format(step=step)) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(getattr(signal, name))
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + getattr(signal, name), "interrupted: nothing was written.\n")


ENDS = """
import atexit, os, signal, time
import eiv.cli
from eiv.__main__ import script
main = eiv.cli.main
def interrupt():
    os.kill(os.getpid(), signal.{name})
    time.sleep(0.1)
def main_and_interrupt():
    atexit.register(interrupt)
    main()
eiv.cli.main = main_and_interrupt
script()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupted_while_the_interpreter_ends(name):
    """As it is by a second Ctrl-C after the first."""
    with command("--version", code=ENDS.format(name=name)) as process:
        assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0


READS_AHEAD = """
import io, sys, time
import pyarrow.csv
import eiv.cli
from eiv.__main__ import script
class Slow(io.BytesIO):
    def read(self, *size):
        time.sleep(0.05)
        return super().read(*size)
def main():
    global reader
    reader = pyarrow.csv.open_csv(Slow(b"a,b\\n" + b"1,2\\n" * 2**14), pyarrow.csv.ReadOptions(block_size=2**10))
    print("printed", end="")
    sys.exit(130)
eiv.cli.main = main
script()
"""


def test_threads_of_others_do_not_abort_a_process_that_ends():
    """A reader of pyarrow lets go of Python's memory from threads of its own."""
    assert ended(sys.executable, "-c", READS_AHEAD) == (130, "printed", "")
