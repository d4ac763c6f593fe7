"""What the commands print: to a pipe that nobody reads, a full disk, another encoding; names in one line."""

import contextlib
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from commands import FIT, QUICK, rows
from eiv import cli
from eiv.io.modelfile import read_header
from processes import ended


def shell(script, encoding="utf-8"):
    """A line of bash in which `eiv` is the command line: exit status, stdout and stderr."""
    eiv = f"{sys.executable} -c 'from eiv.__main__ import script; script()'"
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    script = f'eiv() {{ {eiv} "$@"; }}; set -o pipefail; {script}'
    status, out, err = ended("bash", "-c", script, env=environment, text=False)
    return status, out.decode(encoding), err.decode(encoding)


@pytest.fixture
def run_to(run, monkeypatch):
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


def test_a_reader_that_goes_away(model, run_to):
    assert shell("eiv --version 2>&1 | true") == (0, "", "")
    before = Path("m.eiv").read_bytes()
    fit = ("fit", "d.csv", *FIT, *QUICK, "--force", "-o", "m.eiv")
    assert run_to(*fit, "--seed", "1", stdout=without_reader()) == (0, "", "")
    assert Path("m.eiv").read_bytes() != before, "the new model"
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
@pytest.mark.slow
def test_a_terminal_that_is_full(folder, run_to):
    said = "error: stdout could not be written: No space left on device.\n"
    for command in ("eiv", "eiv --version", "eiv --help", "eiv fit --help", "eiv study"):
        for buffered in ("unset PYTHONUNBUFFERED", "export PYTHONUNBUFFERED=1"):
            assert shell(f"{buffered}; {command} >/dev/full") == (2, "", said)
    for arguments in (
        ("fit", "d.csv", *FIT, *QUICK, "-o", "m.eiv"),
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
def test_a_terminal_that_cannot_show_everything(folder, run, monkeypatch, encoding):
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


def test_the_picture_comes_before_the_words(model, run, monkeypatch):
    def fail(*args, **kwargs):
        assert Path("p.png").exists()
        raise OSError("the terminal is gone")

    monkeypatch.setattr("eiv.cli.explain.console.print", fail)
    assert run("explain", "m.eiv", "d.csv", "--row", "1", "-o", "p.png")[2] == "error: the terminal is gone\n"


CLEAR = "\x1b[2J\x1b]0 mine\x07\x9b1m\u202e"


def test_characters_that_command_a_terminal_are_not_printed(folder, run):
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
def test_names_are_printed_in_one_line(folder, run, ending):
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
