"""What the commands do to files, processes and the terminal when something comes in between."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import stat
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eiv import EiVRegressor, cli
from eiv.datasets import SIMULATED
from eiv.experiments.paper.tables import Tables
from eiv.io.modelfile import read_header
from processes import command, ended
from scenarios import run_tables
from test_cli import run  # noqa: F401  (a fixture)
from test_cli_models import FIT, QUICK, folder, model, rows  # noqa: F401  (fixtures)


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_outputs_that_are_no_plain_files_are_refused(model, run, force):  # noqa: F811
    os.mkfifo("pipe.csv")
    reader = os.open("pipe.csv", os.O_RDONLY | os.O_NONBLOCK)  # else who opens it to write waits for ever
    Path("device.csv").symlink_to("/dev/full")
    for name, what in (("pipe.csv", "a named pipe"), ("device.csv", "a device")):
        status, _, err = run("predict", "m.eiv", "d.csv", "-o", name, *force)
        assert (status, err) == (
            2,
            f"error: {name} is {what}, and only plain files are written; give the name of a file.\n",
        )
    os.close(reader)
    assert stat.S_ISFIFO(Path("pipe.csv").stat().st_mode)
    assert run("fit", "d.csv", *FIT, *QUICK, "-o", "/dev/null", *force)[0] == 2
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_library_outputs_that_are_no_plain_files_are_refused(tmp_path):
    fitted = EiVRegressor(epochs=1, hidden_units=2, recipe="paper").fit(np.arange(8.0)[:, None], np.arange(8.0))
    (tmp_path / "full").symlink_to("/dev/full")  # a link: nobody's device is lost where the check is
    with pytest.raises(ValueError, match="full is a device"):
        fitted.save(tmp_path / "full")
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="full is a device"):
        fitted.export(tmp_path / "full", "onnx")
    assert (tmp_path / "full").is_symlink()


def test_links_are_followed_and_permissions_are_kept(model, run):  # noqa: F811
    (model / "there").mkdir()
    Path("there/p.csv").write_text("old")
    Path("there/p.csv").chmod(0o600)
    Path("p.csv").symlink_to("there/p.csv")
    assert "p.csv exists already" in run("predict", "m.eiv", "d.csv", "-o", "p.csv")[2]
    assert run("predict", "m.eiv", "d.csv", "-o", "p.csv", "--force")[0] == 0
    assert Path("p.csv").is_symlink()
    assert Path("there/p.csv").read_text().startswith("id,length")
    assert stat.S_IMODE(Path("there/p.csv").stat().st_mode) == 0o600


def test_missing_folders_are_not_made(model, run, made_up_run):  # noqa: F811
    shutil.copytree(made_up_run, model, dirs_exist_ok=True)
    for arguments in (
        ("predict", "m.eiv", "d.csv", "-o", "no/p.csv"),
        ("explain", "m.eiv", "d.csv", "--row", "1", "-o", "no/p.png"),
        ("report", "m.eiv", "-o", "no/p.html"),
        ("report", ".", "-o", "no/p.md"),
    ):
        status, _, err = run(*arguments)
        assert status == 2
        assert re.match(r"error: no/p\.\w+ cannot be written: there is no folder .*/no\.\n", err)
    assert not Path("no").exists()


@pytest.mark.parametrize("kind", ["fit", "predict", "explain", "report"])
def test_an_output_that_appears_meanwhile_is_left_alone(model, run, monkeypatch, kind):  # noqa: F811
    """And the work is kept beside it."""
    name, arguments, place = {
        "fit": ("n.eiv", ["fit", "d.csv", *FIT, *QUICK], "eiv.fit_splits"),
        "predict": ("p.csv", ["predict", "m.eiv", "d.csv"], "eiv.EiVRegressor.predict_distribution"),
        "explain": ("p.png", ["explain", "m.eiv", "d.csv", "--row", "1"], "eiv.EiVRegressor.predict_distribution"),
        "report": ("p.html", ["report", "m.eiv"], "eiv.report.write_model_page"),
    }[kind]
    package, _, work = place.rpartition(".")
    owner = EiVRegressor if package.endswith("EiVRegressor") else sys.modules[package]
    original = getattr(owner, work)

    def slow(*args, **kwargs):
        Path(name).write_text("theirs")
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, work, slow)
    status, _, err = run(*arguments, "-o", name)
    assert status == 2
    beside = Path(name).with_suffix(f".1{Path(name).suffix}")
    assert err.endswith(f"error: {name} appeared during the run and is left as it is; the result is {beside}.\n")
    assert Path(name).read_text() == "theirs"
    assert not list(model.glob(".*.eiv-part"))
    assert run(*arguments, "-o", name, "--force")[0] == 0
    if kind == "report":  # which holds times
        assert beside.read_bytes().startswith(b"<!DOCTYPE html>")
    else:
        assert Path(name).read_bytes() == beside.read_bytes()


@pytest.mark.usefixtures("unrendered")
def test_the_page_of_results_is_not_replaced_without_force(run, tmp_path):  # noqa: F811
    results, page = tmp_path / "results", tmp_path / "page.html"
    results.mkdir()
    run_tables(sets=["yacht"]).write(results)
    page.write_text("mine")
    status, _, err = run("report", results, "-o", page)
    assert (status, err) == (2, f"error: {page} exists already; use --force to replace it.\n")
    assert page.read_text() == "mine"
    assert run("report", results, "-o", page, "--force")[0] == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert [run("report", results)[0] for _ in range(2)] == [0, 0], "its own page is renewed"
    figures = tmp_path / "page"
    figures.mkdir()
    (figures / "scores.png").write_text("mine")
    status, _, err = run("report", results, "-o", tmp_path / "page.md")
    assert (status, err) == (2, f"error: {figures} exists already; use --force to replace figures in it.\n")
    assert (figures / "scores.png").read_text() == "mine"
    table = results / "networks.csv"
    before = table.read_bytes()
    assert "networks.csv is an input" in run("report", results, "-o", table, "--force")[2]
    assert table.read_bytes() == before


@pytest.mark.parametrize("name", ["report.html", "figures", "figures/scores.svg", "claims.csv", "page.md"])
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.usefixtures("unrendered")
def test_the_page_of_results_follows_no_links(run, tmp_path, made_up_run, name, there):  # noqa: F811
    results, outside = tmp_path / "results", tmp_path / "outside"
    (results / name).parent.mkdir(parents=True)
    shutil.copytree(made_up_run, results, dirs_exist_ok=True)
    if there and name == "figures":
        outside.mkdir()
    elif there:
        outside.write_text("mine")
    (results / name).symlink_to(outside)
    status, _, err = run("report", results, *(["-o", results / name, "--force"] if name == "page.md" else []))
    assert status == 2
    assert err.endswith(f"{Path(name).name} is a symbolic link in a folder of results; remove it first.\n")
    if not there:
        assert not outside.exists()
    elif name == "figures":
        assert not list(outside.iterdir())
    else:
        assert outside.read_text() == "mine"


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
        ("SIGKILL", False),
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
from eiv.cli import main
start = ProcessPoolExecutor._adjust_process_count
def start_and_end(executor):
    start(executor)
    os.kill(os.getpid(), {number:d})
ProcessPoolExecutor._adjust_process_count = start_and_end
main()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_workers_end_with_a_reproduction_that_has_just_started_them(tmp_path, name):
    number = getattr(signal, name)
    few = ("--only", "linear,quadratic", "--networks", "2", "--device", "cpu", "--out", tmp_path / "r")
    with command("reproduce", *few, code=JUST_STARTED.format(number=number)) as process:
        process.wait(timeout=60)
        assert until(lambda: not of_session(process.pid), 10)
        if name == "SIGTERM":
            assert process.returncode == 128 + number
            assert process.stderr.read() == "interrupted: no unit was finished, nothing was written.\n"


@pytest.mark.parametrize("names", [["SIGTERM"], ["SIGHUP", "SIGHUP"], ["SIGTERM", "SIGINT"], ["SIGINT", "SIGINT"]])
def test_a_fit_that_is_told_to_end(model, names):  # noqa: F811
    """Once or twice."""
    before = (model / "m.eiv").read_bytes()
    with command("fit", "d.csv", *FIT, "--set", "epochs=100000", "-o", "m.eiv", "--force") as process:
        process.stdout.readline()  # it has said what it understood
        time.sleep(0.5)
        for name in names:
            process.send_signal(getattr(signal, name))
            time.sleep(0.05)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (
        128 + getattr(signal, names[0]),
        "interrupted: m.eiv is as it was before, nothing else is left.\n",
    )
    assert (model / "m.eiv").read_bytes() == before


def test_nohup_is_heeded(folder):  # noqa: F811
    def first():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with command("fit", "d.csv", *FIT, *QUICK, "-o", "m.eiv", first=first) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0
    assert Path("m.eiv").exists()


def shell(script, encoding="utf-8"):
    """A line of bash in which `eiv` is the command line: exit status, stdout and stderr."""
    eiv = f"{sys.executable} -c 'from eiv.cli import main; main()'"
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    script = f'eiv() {{ {eiv} "$@"; }}; set -o pipefail; {script}'
    status, out, err = ended("bash", "-c", script, env=environment, text=False)
    return status, out.decode(encoding), err.decode(encoding)


@pytest.fixture
def run_to(run, monkeypatch):  # noqa: F811
    """`run` with other files in the place of the streams, which it closes as Python does at its end."""

    def run_to(*arguments, **streams):
        with monkeypatch.context() as patch, contextlib.ExitStack() as files:
            for talk in (cli.console, cli.errors):  # each goes back to what it was, and says again what it has to
                patch.setattr(talk, "quiet", False)
                patch.setattr(talk, "failure", None)
            for name, file in streams.items():
                patch.setattr(sys, name, files.enter_context(open(file, "w", encoding="utf-8")))
            return run(*arguments)

    return run_to


def without_reader():
    """The end of a pipe to write to, from which nobody reads."""
    read, write = os.pipe()
    os.close(read)
    return write


def test_a_reader_that_goes_away(folder, run_to):  # noqa: F811
    options = (*FIT, *QUICK)
    assert shell(f"eiv fit d.csv {' '.join(options)} -o m.eiv 2>&1 | true") == (0, "", "")
    assert run_to("fit", "d.csv", *options, "-o", "n.eiv", stdout=without_reader()) == (0, "", "")
    assert Path("n.eiv").read_bytes() == Path("m.eiv").read_bytes()
    assert run_to("explain", "m.eiv", "d.csv", "--row", "1", "-o", "p.png", stdout=without_reader()) == (0, "", "")
    assert Path("p.png").exists()
    assert run_to("info", "m.eiv", stdout=without_reader(), stderr=without_reader()) == (0, "", "")
    assert run_to("info", "--json", "m.eiv", stdout=without_reader()) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [("", 2), ("--help", 0), ("fit --help", 0), ("study", 2), ("--no-such", 2), ("info --no-such", 2)],
)
def test_nobody_reads_the_help(arguments, status):
    """The exit status is that of the same command with a reader."""
    assert shell(f"eiv {arguments} 2>&1 | true") == (status, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.filterwarnings("always::eiv.inputs.plausible.SuspiciousErrorWarning")
def test_a_terminal_that_is_full(folder, run_to):  # noqa: F811
    said = "error: stdout could not be written: No space left on device.\n"
    assert shell(f"eiv fit d.csv {' '.join((*FIT, *QUICK))} -o m.eiv >/dev/full") == (2, "", said)
    assert Path("m.eiv").exists()
    for command in ("eiv", "eiv --help", "eiv fit --help", "eiv study"):  # noqa: F402
        for buffered in ("unset PYTHONUNBUFFERED", "export PYTHONUNBUFFERED=1"):
            assert shell(f"{buffered}; {command} >/dev/full") == (2, "", said)
    for arguments in (
        ("predict", "m.eiv", "d.csv", "-o", "p.csv"),
        ("explain", "m.eiv", "d.csv", "--row", "1", "-o", "p.png"),
        ("info", "m.eiv"),
        ("info", "--json", "m.eiv"),
    ):
        assert run_to(*arguments, stdout="/dev/full") == (2, "", said)
    assert Path("p.csv").exists()
    assert Path("p.png").exists()
    assert run_to("info", "m.eiv", stdout="/dev/full", stderr="/dev/full") == (2, "", "")
    assert run_to("info", "none.eiv", stderr="/dev/full")[0] == 2
    warned = ("fit", "d.csv", "--target", "mass", "--feature", "length", "--feature", "temp", "--x-err", "length=0.1")
    warned += ("--x-err", "temp=4", *QUICK, "-o", "n.eiv")
    status, _, err = run_to(*warned)
    assert (status, err.startswith("warning: x_err is about as large")) == (0, True)
    Path("n.eiv").unlink()
    assert run_to(*warned, stderr="/dev/full")[0] == 2, "a warning is lost"
    assert Path("n.eiv").exists()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_that_cannot_show_everything(folder, run, monkeypatch, encoding):  # noqa: F811
    shown = "gr??e ?" if encoding == "ascii" else "größe ?"
    assert shell("eiv report 'größe λ'", encoding) == (
        *(2, ""),
        f"error: There is no model file and no folder {shown}.\n",
    )

    def show(*arguments):
        with monkeypatch.context() as patch:
            streams = {name: io.TextIOWrapper(io.BytesIO(), encoding=encoding) for name in ("stdout", "stderr")}
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            status = run(*arguments)[0]
            return status, *(stream.buffer.getvalue().decode(encoding) for stream in streams.values())

    table = Path("d.csv").read_text().replace("length", "größe λ")
    Path("d.csv").write_text(table, encoding="utf-8")
    options = [text.replace("length", "größe λ") for text in (*FIT, *QUICK)]
    status, out, err = show("fit", "d.csv", *options, "-o", "m.eiv")
    assert (status, err) == (0, "")
    assert shown in out
    status, out, err = show("explain", "m.eiv", "d.csv", "--row", "1", "-o", "p.png")
    assert (status, err) == (0, "")
    assert "####" in out, "bars"
    assert Path("p.png").exists()
    assert json.loads(show("info", "--json", "m.eiv")[1]) == read_header("m.eiv")
    name = os.fsdecode(b"\xff.csv")
    Path(name).write_text(table)
    assert show("predict", "m.eiv", name, "-o", "p.csv")[::2] == (0, "")


def test_the_picture_comes_before_the_words(model, run, monkeypatch):  # noqa: F811
    def fail(*args, **kwargs):
        assert Path("p.png").exists()
        raise OSError("the terminal is gone")

    monkeypatch.setattr("eiv.cli.explain.console.print", fail)
    assert run("explain", "m.eiv", "d.csv", "--row", "1", "-o", "p.png")[2] == "error: the terminal is gone\n"


CLEAR = "\x1b[2J\x1b]0 mine\x07\x9b1m\u202e"


def test_characters_that_command_a_terminal_are_not_printed(folder, run):  # noqa: F811
    name = f"le{CLEAR}ngth"
    Path("d.csv").write_text(Path("d.csv").read_text().replace("length", name), encoding="utf-8")
    options = [text.replace("length", name) for text in (*FIT, *QUICK)]
    shown = [
        run("fit", "d.csv", *options, "-o", "m.eiv"),
        run("info", "m.eiv"),
        run("info", "--json", "m.eiv"),
        run("explain", "m.eiv", "d.csv", "--row", "1"),
        run("predict", "m.eiv", f"no{CLEAR}.csv", "-o", "p.csv"),
    ]
    assert [status for status, _, _ in shown] == [0, 0, 0, 0, 2]
    assert "le�[2J�]0 mine��1m�ngth" in shown[0][1]
    assert json.loads(shown[2][1]) == read_header("m.eiv")
    for _, out, err in shown:
        assert not set(out + err) & set("\x1b\x07\x9b\u202e")


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_names_are_printed_in_one_line(folder, run, ending):  # noqa: F811
    """Whatever they hold, a table has one line for each and an error one line in all."""
    length, error, mass = "le\nngth", "er\tr", "ma\nss"
    frame = rows()[["length", "temp_err", "mass", "id"]].set_axis([length, error, mass, "i\nd"], axis=1)
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[ending]
    write(name := f"n.{ending}", index=False)
    fit = ("fit", name, "--target", mass, "--drop", "i\nd", "--x-err", f"{length}={error}", *QUICK)
    shown = {
        "fit": run(*fit, "-o", "m.eiv"),
        "explain": run("explain", "m.eiv", name, "--row", "1"),
        "info": run("info", "m.eiv"),
    }
    for _, out, _ in shown.values():
        assert "le\ufffdngth" in out
        assert "ma\ufffdss" in out
        assert "\t" not in out
        assert not any(line.strip("│ ").startswith(("ngth", "ss ")) for line in out.splitlines())
    assert "column er\ufffdr" in shown["fit"][1]
    Path("missing.csv").write_text(frame.assign(**{length: np.nan}).to_csv(index=False))
    for arguments in (
        (*fit[:3], "none", "-o", "n.eiv"),
        (*fit, "--x-err", "no\nne=1", "-o", "n.eiv"),
        (*fit, "--feature", "none", "-o", "n.eiv"),
        (fit[0], "missing.csv", *fit[2:], "-o", "n.eiv"),
        ("predict", "m.eiv", name, "--x-err", f"{mass}=2", "-o", "p.csv"),
    ):
        status, _, err = run(*arguments)
        assert (status, err.count("\n")) == (2, 1), err
        assert "\t" not in err


QUOTED_PART = r"""'a' . "b\"" ."""
LONG_KEY = f"{'a.' * 100_000}a"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--set", "y_noise_every=1000001"],
            "y_noise_every must be a whole number of at least 1 and at most 1,000,000,",
        ),
        (["--set", "n_theta=200000"], "n_theta must be a whole number of at least 2 and at most 100,000, got 200000."),
        (["--set", "n_hidden=12345678901234567890"], "n_hidden must be a whole number of at least 1 and at most 100,"),
        (["--set", "n_networks=100000"], "n_networks must be a whole number of at least 1 and at most 1,000, got"),
        (["--set", "epochs=99999999"], "epochs must be a whole number of at least 1 and at most 1,000,000, got"),
        (["--set", "n_theta=100000", "--set", "n_zeta=10000"], "n_theta x n_zeta must be at most 1,000,000, got"),
        (["--set", f"epochs={'9' * 5000}"], "epochs must be a whole number of at least 1"),
        (["--set", f"epochs={'[' * 5000}"], "epochs must be a whole number of at least 1"),
        (["--set", "batch_size=99999999999999999999"], "batch_size must be a whole number of at least 1 and at most"),
        (
            ["--set", "hidden_units=100001"],
            "hidden_units must be a whole number of at least 1 and at most 100,000",
        ),
        (["--seed", "4294967296"], "--seed must be a whole number from 0 to 4,294,967,295, got 4294967296."),
        (["--config", "/dev/zero"], "/dev/zero is not a plain file."),
        (["--config", "large.toml"], "large.toml is not a file of options: it has more than 1 MiB, the limit."),
        (["--config", "deep.toml"], "deep.toml is not a TOML file of options: its brackets are nested too deeply."),
        (["--config", "dots.toml"], "dots.toml is not a TOML file: a key has more than 10 parts, the limit."),
        (["--config", "quotes.toml"], "quotes.toml is not a TOML file: a key has more than 10 parts, the limit."),
        (["--config", "table.toml"], "table.toml is not a TOML file: a key has more than 10 parts, the limit."),
        (["--set", f"epochs={{{'a.' * 10}a = 1}}"], "at most 1,000,000, got '{a.a."),
        (["--config", "."], ". cannot be read: Is a directory."),
        (["--config", "twice.toml"], "twice.toml: drop-missing and drop_missing are the same option; give one of them"),
        (["--holdout", "0.99"], "--holdout 0.99 leaves none of 80 rows to learn from; give less."),
        (["--holdout", "0.98"], "--holdout 0.98 leaves one of 80 rows to learn from; give less."),
        (["--set", "learning_rate=1e300"], "learning_rate must be at most 3.4e+38, got 1e+300."),
        (["--holdout", "0.9", "--groups", "batch"], "--holdout 0.9 leaves none of 6 groups to learn from; give less."),
    ],
)
def test_what_is_checked_before_the_work(folder, run, monkeypatch, arguments, message):  # noqa: F811
    monkeypatch.setattr("eiv.fit_splits", lambda *args, **kwargs: pytest.fail("it has begun to learn"))
    Path("deep.toml").write_text(f"target = {'[' * 5000}")
    Path("dots.toml").write_text(f"[{LONG_KEY}]")
    Path("table.toml").write_text(f'settings = {{b = """text"""", {LONG_KEY} = 1}}')
    Path("quotes.toml").write_text(f"{QUOTED_PART * 50_000}a = 1")
    Path("large.toml").write_text("#" * (2**20 + 1))
    Path("twice.toml").write_text("drop-missing = true\ndrop_missing = false\n")
    drop = ("--drop", "id") if "--groups" in arguments else ("--drop", "id", "--drop", "batch")
    status, _, err = run("fit", "d.csv", "--target", "mass", *drop, *arguments, "-o", "m.eiv")
    assert status == 2
    assert err.startswith("error: ")
    assert message in err
    assert not Path("m.eiv").exists()


def test_dots_that_part_no_keys(folder, run):  # noqa: F811
    many = ", ".join(f"{i}.5" for i in range(30))
    Path("fit.toml").write_text(f"""drop = ['{"id." * 30}'] # {"a." * 30}\nsettings.hidden_units = [{many}]\n""")
    _, _, err = run("fit", "d.csv", "--target", "mass", "--config", "fit.toml", "-o", "m.eiv")
    assert err.startswith("error: hidden_units must be a whole number")


@pytest.mark.parametrize("value", [1e200, 1e-200, 8e307])
@pytest.mark.parametrize("column", ["mass", "length"])
@pytest.mark.parametrize("error", [[], ["--x-err", "length=5%sd", "--y-err", "5%sd"]])
def test_numbers_whose_squares_are_none(folder, run, value, column, error):  # noqa: F811
    table = rows()
    table[column] *= value
    table.to_csv("d.csv", index=False)
    status, _, err = run("fit", "d.csv", "--target", "mass", "--feature", "length", *error, *QUICK, "-o", "m.eiv")
    name = "y: the values reach" if column == "mass" else "X: the values in column 'length' reach"
    assert status == 2
    assert err.startswith(f"error: {name}"), "and no warning before"
    assert err.endswith("their spread cannot be computed; give them in another unit.\n")


def test_rows_whose_squares_are_none(model, run):  # noqa: F811
    table = rows()
    table.assign(length=1e308).to_csv("far.csv", index=False)
    table.assign(mass=1e200).to_csv("high.csv", index=False)
    table.assign(mass=1e-200).to_csv("low.csv", index=False)
    for arguments in (["predict", "-o", "p.csv"], ["explain", "--row", "1"], ["report", "-o", "p.html"]):
        status, _, err = run(arguments[0], "m.eiv", "far.csv", *arguments[1:])
        assert status == 2
        assert err.startswith("error: "), "and no warning before"
        assert err.endswith("Its values are too far from those of the fit.\n")
    assert run("report", "m.eiv", "high.csv", "-o", "p.html") == (
        2,
        "",
        "error: high.csv: the labels in column 'mass' reach from 1e+200 to 1e+200, and their squares cannot be "
        "computed; give them in the unit of the model.\n",
    )
    assert run("report", "m.eiv", "low.csv", "-o", "p.html")[0] == 0


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_a_level_that_rounds_to_one(model, run, command):  # noqa: F811
    more = ["--row", "1"] if command == "explain" else ["-o", "p.csv"]
    status, _, err = run(command, "m.eiv", "d.csv", *more, "--level", "0.9999999999999999")
    assert (status, err.startswith("error: --level must not be so close to 1")) == (2, True)
    assert run(command, "m.eiv", "d.csv", *more, "--level", "0.999999")[0] == 0


def cut(content, share):
    return content[: int(share * len(content))]


DAMAGE = {
    "in a line": lambda content: cut(content, 0.7).rstrip(b"\n"),
    "after a line": lambda content: cut(content, 0.7).rpartition(b"\n")[0] + b"\n",
    "header only": lambda content: content.partition(b"\n")[0] + b"\n",
    "empty": lambda content: b"",
    "no text": lambda content: b"\x00\xff" * 500 + b"\n",
    "other columns": lambda content: b"a,b\n1,2\n",
    "words": lambda content: content.replace(b"0.1", b"none"),
}


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("table", ["networks", "stacks", "calibration", "points"])
def test_damaged_results_are_one_sentence(run, tmp_path, made_up_run, table, damage):  # noqa: F811
    shutil.copytree(made_up_run, tmp_path, dirs_exist_ok=True)
    path = tmp_path / f"{table}.csv"
    changed = DAMAGE[damage](path.read_bytes())
    if changed == path.read_bytes():
        pytest.skip("leaves it as it is")
    path.write_bytes(changed)
    status, _, err = run("report", tmp_path)
    assert status == 2
    assert err.startswith(f"error: {tmp_path}: no page can be made of its tables, which are damaged")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize(
    ("table", "column"),
    [("networks", "rmse"), ("networks", "truth_coverage"), ("calibration", "coverage"), ("points", "mean")],
)
def test_results_without_a_score(run, tmp_path, table, column, value):  # noqa: F811
    results = run_tables()
    found = getattr(results, table)
    replace(results, **{table: found.assign(**{column: [value, *found[column][1:]]})}).write(tmp_path)
    status, _, err = run("report", tmp_path)
    assert status == 2
    assert f"1 of {len(found[found['dataset'].isin(SIMULATED)]) if 'truth' in column else len(found)} rows" in err
    assert f"rows of {table}.csv lack a score" in err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("table", ["calibration", "points"])
def test_results_cut_off_after_any_line(tmp_path, table):
    run_tables(sets=SIMULATED).write(tmp_path)
    Tables.read(tmp_path)
    lines = (tmp_path / f"{table}.csv").read_bytes().splitlines(keepends=True)
    stack = len(lines) // 12  # rows of one, of three for each of four sets
    for n in (1, 2, stack, stack + 1, 3 * stack + 1, 7 * stack + 1, 11 * stack + 1, len(lines) - 50, len(lines) - 1):
        (tmp_path / f"{table}.csv").write_bytes(b"".join(lines[:n]))
        with pytest.raises(ValueError, match=rf"{table}\.csv has \d+ of \d+ rows for \w+, \w+"):
            Tables.read(tmp_path)


@pytest.mark.parametrize("name", ["typer", "warnings"])
def test_interrupted_while_the_commands_are_loaded(name):
    """In the first tenths of a second nothing but imports has been done."""
    code = f"""
        import eiv
        import builtins
        load = builtins.__import__
        def interrupt(name, *args, **kwargs):
            if name == "{name}":
                raise KeyboardInterrupt
            return load(name, *args, **kwargs)
        builtins.__import__ = interrupt
        from eiv.cli import main
    """
    status, _, err = ended(sys.executable, "-c", textwrap.dedent(code))
    assert (status, err) == (130, "interrupted: nothing was written.\n")


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
from eiv.cli import main
def wait(*_):
    print("waiting", flush=True)
    time.sleep(60)
TyperGroup.{step} = wait
main()
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
from eiv.cli import main
def interrupt():
    os.kill(os.getpid(), signal.{name})
    time.sleep(0.1)
atexit.register(interrupt)
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupted_while_the_interpreter_ends(name):
    """As it is by a second Ctrl-C after the first."""
    with command("--version", code=ENDS.format(name=name)) as process:
        assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0


def test_the_picture_of_a_table_whose_name_is_not_text(model, run):  # noqa: F811
    name = os.fsdecode(b"n\xff.csv")
    Path(name).write_bytes(Path("d.csv").read_bytes())
    assert run("explain", "m.eiv", name, "--row", "1", "-o", "q.png")[0] == 0
    assert Path("q.png").stat().st_size > 0
