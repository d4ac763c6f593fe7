"""The command line: what it prints, what it writes, and how it ends."""

import errno
import os
import shutil
import sys
import warnings

import pytest

import eiv
from eiv import cli
from eiv.datasets import REAL
from eiv.experiments.paper.report import write_report
from eiv.experiments.paper.tables import Tables
from scenarios import run_tables


def test_version(run):
    assert run("--version") == (0, f"eiv {eiv.__version__}\n", "")


def test_help_names_every_command(run):
    status, out, _ = run("--help")
    assert status == 0
    for command in ("fit", "predict", "explain", "report", "sensitivity", "info", "reproduce", "datasets", "study"):
        assert f"│ {command} " in out


def test_datasets_lists_all_thirteen(run, monkeypatch, tmp_path):
    monkeypatch.setenv("EIV_DATA", str(tmp_path))
    monkeypatch.setenv("EIV_CACHE", str(tmp_path))
    (tmp_path / "yacht.csv").touch()
    status, out, _ = run("datasets", width=80)
    assert status == 0
    assert "…" not in out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line and line[0].isalpha()}
    assert list(lines)[2:15] == ["linear", "quadratic", "cubic", "sine", *REAL]
    assert lines["yacht"] == ["yacht", "UCI", "243", "CC", "BY", "4.0", "yacht.csv", "308", "6"]
    assert lines["wine"] == ["wine", "UCI", "186", "CC", "BY", "4.0", "no", "1,599", "11"]
    assert f"The files are in {tmp_path}." in out


LARGE_SEED = "--seed must be a whole number from 0 to 4,294,967,295, got 4294967296.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "--profile", "slow"], "profile must be one of quick, full"),
        (["reproduce", "--only", "boston"], "'boston'"),
        (["reproduce", "--networks", "0"], "at least 1"),
        (
            ["report", "."],
            "holds no results: none of networks.csv, coverage.csv, posteriors.csv, tables.csv, errors.csv",
        ),
        (["report", "nowhere"], "There is no model file and no folder nowhere"),
        (["reproduce", "--seed", "-1"], "equal to 0"),
        (["reproduce", "--seed", "4294967296"], f"error: {LARGE_SEED}"),
        (["study", "coverage", "--seed", "4294967296"], f"error: {LARGE_SEED}"),
        (["study", "posteriors", "--seed", "4294967296"], f"error: {LARGE_SEED}"),
        (["study", "posteriors", "--families", "swag,dropout"], "got 'dropout'"),
        (["study", "tables", "--seeds", "5:5"], "--seeds must be two whole numbers A:B with A < B"),
        (["study", "tables", "--seeds", "0:1", "--methods", "best"], "methods must be among 'ours'"),
        (["study", "tables", "--no-real", "--no-random"], "There is nothing to run"),
        (["fry"], "fry"),
    ],
)
def test_errors_are_one_sentence_and_status_2(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*arguments)
    assert status == 2
    assert message in err
    assert "Traceback" not in out + err
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_system_are_one_sentence(run, monkeypatch):
    """Without the number of the error, as for a disk that cannot be read."""

    def fail(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr("eiv.io.modelfile.models.checked_header", fail)
    assert run("info", "m.eiv") == (2, "", f"error: m.eiv: {os.strerror(errno.EIO)}.\n")


@pytest.mark.skipif(os.name == "nt", reason="needs errors of POSIX")
@pytest.mark.parametrize("arguments", [["reproduce"], ["study", "coverage"]])
def test_a_folder_that_cannot_be_written_is_said_before_the_work(run, arguments, tmp_path, monkeypatch):
    monkeypatch.setattr("eiv.experiments.runs._run", lambda *args: pytest.fail("it has begun"))
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "results"):
        status, out, err = run(*arguments, "--device", "cpu", "--out", folder)
        assert (status, out) == (2, "")
        assert err == f"error: {folder / 'stacks'} cannot be written: {os.strerror(errno.ENOTDIR)}.\n"


def test_a_warning_is_one_sentence(capsys, monkeypatch):
    """Without the path and the line of code that Python shows."""
    monkeypatch.setattr(cli.app, "registered_commands", list(cli.app.registered_commands))

    @cli.app.command("warn")
    def warn():
        warnings.warn("the zetas are [too] few", stacklevel=1)

    monkeypatch.setattr(sys, "argv", ["eiv", "warn"])
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.raises(SystemExit):
            cli.main()
    assert capsys.readouterr().err == "warning: the zetas are [too] few\n"
    assert warnings.showwarning is before


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["reproduce"], "eiv.experiments.runs._run"),
        (["study", "coverage"], "eiv.experiments.runs._run"),
        (["study", "posteriors"], "eiv.experiments.runs._run"),
        (["study", "tables", "--seeds", "0:1", "--no-real", "--methods", "ours"], "eiv.experiments.runs._run"),
        (["info", "m.eiv"], "eiv.io.modelfile.models.checked_header"),
        (["datasets"], "eiv.datasets.overview"),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_interrupted(run, arguments, place, before, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    folder = tmp_path / "results"
    if before:
        folder.mkdir()
    is_long = place == "eiv.experiments.runs._run"
    status, out, err = run(*arguments, *(["--out", folder, "--device", "cpu"] if is_long else []))
    kept = "no unit was finished, nothing was written" if is_long else "nothing was written"
    if is_long and before:
        kept = f"finished units are kept in {folder}, and the same command continues there"
    assert (status, out, err) == (130, "", f"interrupted: {kept}.\n")


@pytest.mark.usefixtures("unrendered")
def test_report_makes_the_page_again(run, tmp_path):
    run_tables(sets=["yacht"]).write(tmp_path)
    status, out, _ = run("report", tmp_path)
    assert status == 0
    assert "report.html" in out
    page = (tmp_path / "report.html").read_bytes()
    assert page == write_report(Tables.read(tmp_path), tmp_path).read_bytes()


def test_report_refuses_a_folder_of_two_runs(run, tmp_path, made_up_run):
    shutil.copytree(made_up_run, tmp_path, dirs_exist_ok=True)
    (tmp_path / "coverage.csv").touch()
    status, _, err = run("report", tmp_path)
    assert status == 2
    assert "more than one run, networks.csv and coverage.csv" in err


@pytest.mark.usefixtures("unrendered")
def test_report_in_markdown(run, tmp_path):
    run_tables(sets=["yacht"]).write(tmp_path)
    assert run("report", tmp_path, "-o", tmp_path / "page.md")[0] == 0
    text = (tmp_path / "page.md").read_text()
    assert "page/scores.png" in text
    assert (tmp_path / "page" / "scores.png").is_file()
    rows = [line for line in text.splitlines() if line.startswith("| EiV and non-EiV")]
    assert len(rows) == 1
