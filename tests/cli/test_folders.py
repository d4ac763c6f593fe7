"""Tests of `eiv predict` of a folder: on any engine the same bytes, resumed, and nothing that stops other tables."""

import contextlib
import os
import resource
import signal
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import rows
from eiv.cli.folders import predict_one, tables_of
from eiv.cli.predicting import Job
from eiv.extras import is_installed
from eiv.io.tasks import Workers
from processes import MAIN, process_group

NAMES = ("a.csv", "b.parquet", "c.csv.gz", "d.tsv")


@pytest.fixture
def tables(model):
    """A model, and a folder with four tables."""
    (model / "in").mkdir()
    for number, name in enumerate(NAMES):
        table = rows(30 + number)
        path = model / "in" / name
        table.to_parquet(path) if name.endswith("parquet") else table.to_csv(
            path, index=False, sep="\t" if name.endswith("tsv") else ","
        )
    (model / "in" / "notes.md").write_text("no table")
    return model


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def engines(*names):
    for name in names:
        missing = name != "loky" and not is_installed("ray" if name == "ray" else "distributed")
        yield pytest.param(name, marks=pytest.mark.skipif(missing, reason=f"needs eiv[{name}]"))


def job(**changes):
    options = {"y_err": None, "input_prior": None, "level": 0.95, "of": "function", "prefix": "", "drop_missing": False}
    others = {"separator": None, "decimal": None, "escape_formulas": False, "x_err": (), "model_file": Path("m.eiv")}
    return Job(**options | others | changes)


def test_each_table_has_the_predictions_that_it_has_alone(tables, run):
    status, out, err = run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")
    assert (status, err) == (0, "")
    assert out == "out: 4 tables, 126 rows\n"
    assert sorted(contents(tables / "out")) == ["a.csv", "b.parquet", "c.csv.gz", "d.tsv.parquet", "predict.json"]
    assert run("predict", "m.eiv", "in/a.csv", "-o", "alone.csv")[0] == 0
    alone, together = pd.read_csv("alone.csv"), pd.read_csv("out/a.csv")
    assert list(alone) == list(together)
    np.testing.assert_allclose(together["mean"], alone["mean"], rtol=1e-5)


def test_predictions_that_are_there_are_not_made_again(tables, run):
    assert run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")[0] == 0
    before = contents(tables / "out")
    Path("out/b.parquet").unlink()
    Path("out/a.csv").write_text("kept")
    status, out, _ = run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")
    assert status == 0
    assert out.startswith("3 of 4 tables have their predictions already.\nout: 1 tables, 31 rows")
    assert contents(tables / "out") == before | {"a.csv": b"kept"}
    assert run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1", "--force")[0] == 0
    assert contents(tables / "out") == before


def test_a_folder_of_other_predictions_is_refused(tables, run):
    assert run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")[0] == 0
    status, _, err = run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1", "--level", "0.9")
    assert status == 2
    assert "out holds predictions of another model or with other options" in err


def test_tables_that_fail_are_listed_and_the_others_go_on(tables, run):
    Path("in/b.parquet").write_bytes(b"no parquet")
    Path("in/e.csv").write_text("length,temp\n1,2\n")
    status, out, err = run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")
    assert status == 1
    assert out == "out: 3 tables, 95 rows\n"
    first, broken, lacking = err.splitlines()
    assert first == "2 of 5 tables failed:"
    assert broken.startswith(f"error: {tables}/in/b.parquet cannot be read as Parquet: ")
    assert lacking.startswith(f"error: {tables}/in/e.csv has no column 'temp_err'")
    assert sorted(contents(tables / "out")) == ["a.csv", "c.csv.gz", "d.tsv.parquet", "predict.json"]
    rows(31).to_parquet("in/b.parquet")
    Path("in/e.csv").unlink()
    assert run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")[0] == 0


def test_a_worker_without_the_model_file_says_so(tables):
    done = predict_one(job(model_file=Path("gone.eiv")), (Path("in/a.csv"), Path("out.csv")))
    assert done.failure == "in/a.csv: There is no file gone.eiv."
    assert not Path("out.csv").exists()


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tables):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    Path("out").mkdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        done = predict_one(job(), (Path("in/a.csv"), Path("out/a.csv")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.failure == "in/a.csv: out/a.csv could not be written, nothing is left of it: File too large."
    assert contents(Path("out")) == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("in", "-o", "out", "--backend", "slurm"), "backend must be 'loky', 'ray' or 'dask', got 'slurm'"),
        (("in", "-o", "m.eiv"), "m.eiv"),
        (("d.csv", "-o", "o.csv", "--backend", "ray"), "--backend and --jobs are for a folder of tables, and d.csv is"),
        (("empty", "-o", "out"), "empty holds no tables; known endings"),
        (("in", "-o", "out", "--of", "both"), "--of must be function or label"),
        (
            ("in", "-o", "out", "--jobs", "0"),
            "--jobs must be a number of tables at once, or -1 for one per core, got 0",
        ),
        (("in", "-o", "out", "--jobs", "-3"), "--jobs must be a number of tables at once, or -1 for one per core, got"),
        (("in", "-o", "in"), "in is the folder of the inputs; choose another"),
        (("in", "-o", "in", "--force"), "in is the folder of the inputs; choose another"),
        (("in", "-o", "in/../in", "--force"), "is the folder of the inputs; choose another"),
    ],
)
def test_wrong_arguments_are_refused_before_any_work(tables, run, arguments, words):
    (tables / "empty").mkdir()
    status, _, err = run("predict", "m.eiv", *arguments)
    assert status == 2
    assert words in err


def test_the_tables_of_a_folder_come_by_name(tables):
    assert [path.name for path in tables_of(Path("in"))] == sorted(NAMES)


def test_tables_whose_predictions_would_be_one_file_are_refused(tables, run):
    rows(5).to_parquet("in/d.tsv.parquet")
    status, _, err = run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")
    assert status == 2
    assert (
        "The predictions of in/d.tsv and of in/d.tsv.parquet would both be out/d.tsv.parquet; rename one of the" in err
    )
    assert not Path("out").exists()


def test_an_output_that_is_an_input_is_refused(tables, run):
    before = contents(tables / "in")
    Path("out").mkdir()
    Path("out/b.parquet").symlink_to(tables / "in" / "a.csv")
    status, _, err = run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1", "--force")
    assert status == 2
    assert "out/b.parquet is the input in/a.csv; choose another folder" in err
    assert contents(tables / "in") == before


def test_a_link_that_leads_nowhere_is_named(tables, run):
    Path("in/link.csv").symlink_to("gone.csv")
    status, out, err = run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")
    assert (status, out) == (1, "out: 4 tables, 126 rows\n")
    assert err.splitlines() == ["1 of 5 tables failed:", f"error: There is no file {tables}/in/link.csv."]


class Killing:
    """An engine of two workers, where some tables have their workers killed while they write, some of these always."""

    def __init__(self, once=(), always=()):
        self.once, self.always, self.calls = set(once), set(always), []

    def submit(self, work, pair):
        name, future = pair[0].name, Future()
        self.calls.append(name)
        if name in self.once | self.always:
            self.once.discard(name)
            pair[1].with_name(f".{'0' * 32}.eiv-part").touch()
            future.set_exception(ChildProcessError())
        else:
            future.set_result(work(pair))
        return future

    @contextlib.contextmanager
    def workers(self, engine, n_jobs):
        yield Workers(self.submit, 2, lambda error: isinstance(error, ChildProcessError))


def test_tables_that_lost_their_worker_are_tried_again_by_themselves(tables, run, monkeypatch):
    assert run("predict", "m.eiv", "in", "-o", "alone", "--jobs", "1")[0] == 0
    engine = Killing(once=["a.csv", "c.csv.gz"])
    monkeypatch.setattr("eiv.io.tasks.workers", engine.workers)
    status, out, err = run("predict", "m.eiv", "in", "-o", "out")
    assert (status, out) == (0, "out: 4 tables, 126 rows\n")
    assert err.startswith(
        "warning: 2 of 4 tables lost their worker, which was killed by a signal or for lack of memory."
    )
    assert engine.calls == ["a.csv", "b.parquet", "c.csv.gz", "d.tsv", "a.csv", "c.csv.gz"]
    assert contents(tables / "out") == contents(tables / "alone")


def test_a_table_that_always_loses_its_worker_is_given_up(tables, run, monkeypatch):
    engine = Killing(once=["a.csv"], always=["b.parquet"])
    monkeypatch.setattr("eiv.io.tasks.workers", engine.workers)
    status, out, err = run("predict", "m.eiv", "in", "-o", "out")
    assert (status, out) == (1, "out: 3 tables, 95 rows\n")
    assert err.splitlines()[-2:] == [
        "1 of 4 tables failed:",
        f"error: {tables}/in/b.parquet: its worker was killed 3 times, by a signal or for lack of memory.",
    ]
    assert engine.calls.count("b.parquet") == 3
    assert sorted(contents(tables / "out")) == ["a.csv", "c.csv.gz", "d.tsv.parquet", "predict.json"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", list(engines("loky", "ray", "dask")))
def test_every_engine_writes_the_same_bytes(tables, run, backend):
    assert run("predict", "m.eiv", "in", "-o", "alone", "--jobs", "1")[0] == 0
    assert run("predict", "m.eiv", "in", "-o", backend, "--jobs", "2", "--backend", backend)[:2] == (
        0,
        f"{backend}: 4 tables, 126 rows\n",
    )
    assert contents(tables / backend) == contents(tables / "alone")


def kill_writers(folder):
    """Kill the processes that write a file in the folder, and say how many."""
    killed = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            files = [os.readlink(file) for file in (process / "fd").iterdir()]
            if any(file.startswith(f"{folder}/.") and file.endswith(".eiv-part") for file in files):
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
    return killed


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("backend", list(engines("loky", "ray", "dask")))
def test_killed_workers_leave_no_part_of_a_file(tables, run, backend, always):
    """Ten times a worker is killed while it writes, or each one that writes; the command comes to an end."""
    for number in range(6):
        rows(4000).to_csv(f"in/more{number}.csv", index=False)
    assert run("predict", "m.eiv", "in", "-o", "whole", "--jobs", "1")[0] == 0
    whole, killed = contents(tables / "whole"), 0
    arguments = (sys.executable, "-c", MAIN, "predict", "m.eiv", "in", "-o", "out", "--jobs", "2", "--backend", backend)
    with process_group(arguments, stdout=-3, stderr=-3) as process:
        until = time.monotonic() + 1000
        while process.poll() is None and time.monotonic() < until:
            if always or killed < 10:
                killed += kill_writers(tables / "out")
            time.sleep(0.01)
        status = process.wait(timeout=100)
    left = contents(Path("out"))
    assert left.items() <= whole.items()
    assert killed > 0
    assert (status == 0) == (left == whole)
    assert run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")[0] == 0
    assert contents(Path("out")) == whole
