"""Tests of `eiv predict` of a folder: on any engine the same bytes, resumed, and errors that stop no other table."""

import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import rows
from eiv.cli.folders import predict_one, tables_of
from eiv.cli.predicting import Job
from eiv.extras import is_installed
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
    done = predict_one(job(model_file=Path("gone.eiv")), Path("in/a.csv"), Path("out.csv"))
    assert done.failure == "in/a.csv: There is no file gone.eiv."
    assert not Path("out.csv").exists()


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tables):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    Path("out").mkdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        done = predict_one(job(), Path("in/a.csv"), Path("out/a.csv"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.failure == "in/a.csv: out/a.csv could not be written, nothing is left of it: File too large."
    assert contents(Path("out")) == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("in", "-o", "out", "--backend", "slurm"), "backend must be one of"),
        (("in", "-o", "m.eiv"), "m.eiv"),
        (("d.csv", "-o", "o.csv", "--backend", "ray"), "--backend and --jobs are for a folder of tables, and d.csv is"),
        (("empty", "-o", "out"), "empty holds no tables; known endings"),
        (("in", "-o", "out", "--of", "both"), "--of must be function or label"),
    ],
)
def test_wrong_arguments_are_refused_before_any_work(tables, run, arguments, words):
    (tables / "empty").mkdir()
    status, _, err = run("predict", "m.eiv", *arguments)
    assert status == 2
    assert words in err


def test_the_tables_of_a_folder_come_by_name(tables):
    assert [path.name for path in tables_of(Path("in"))] == sorted(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "ray", "dask"])
def test_every_engine_writes_the_same_bytes(tables, run, backend):
    if backend != "loky" and not (is_installed(backend) and (backend == "ray" or is_installed("distributed"))):
        pytest.skip(f"needs eiv[{backend}]")
    assert run("predict", "m.eiv", "in", "-o", "alone", "--jobs", "1")[0] == 0
    assert run("predict", "m.eiv", "in", "-o", backend, "--jobs", "2", "--backend", backend)[:2] == (
        0,
        f"{backend}: 4 tables, 126 rows\n",
    )
    assert contents(tables / backend) == contents(tables / "alone")


def workers_of(process):
    """The processes of loky's workers that a command has started."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in listed if b"loky" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_workers_killed_ten_times_leave_no_part_of_a_file(tables, run):
    for number in range(6):
        rows(4000).to_csv(f"in/more{number}.csv", index=False)
    assert run("predict", "m.eiv", "in", "-o", "whole", "--jobs", "1")[0] == 0
    whole, chance, killed = contents(tables / "whole"), random.Random(0), 0
    arguments = (sys.executable, "-c", MAIN, "predict", "m.eiv", "in", "-o", "out", "--jobs", "2")
    for _ in range(10):
        for path in Path("out").glob("*.csv"):
            path.unlink()  # there is work to do again
        with process_group(arguments, stdout=-3, stderr=-3) as process:
            until = time.monotonic() + 100
            while process.poll() is None and not workers_of(process.pid) and time.monotonic() < until:
                time.sleep(0.02)
            while process.poll() is None and not list(Path("out").glob(".*")) and time.monotonic() < until:
                time.sleep(0.005)  # until a worker writes
            time.sleep(chance.uniform(0, 0.02))
            for worker in workers_of(process.pid) if process.poll() is None else []:
                os.kill(worker, signal.SIGKILL)
            status = process.wait(timeout=100)
        killed += status == 1
        left = contents(Path("out"))
        assert left.items() <= whole.items()
    assert killed == 10
    assert run("predict", "m.eiv", "in", "-o", "out", "--jobs", "1")[0] == 0
    assert contents(Path("out")) == whole
