"""Tests of fits from files: the same model as from memory, also after a fit that was killed."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import eiv.engine.memory
import eiv.io.pieces
import eiv.regressor.fromfile
import eiv.scaling
import eiv.training.large
from eiv import EiVRegressor, estimated, relative, split_normal
from eiv.inputs import FlatPrior, MixturePrior
from eiv.io.tablecache import Roles, TableCache
from eiv.io.tables import TableError, open_table
from eiv.training import checkpoints
from eiv.training.large import LargeTable
from processes import started

SMALL = {"network": "paper", "hidden_units": 8, "n_hidden": 1, "epochs": 2, "random_state": 0}
CUT = 300  # rows, in the place of 131,072


def in_small_pieces(setattr):
    for module in (eiv.io.pieces, eiv.regressor.fromfile, eiv.scaling, eiv.training.large):
        setattr(module, "AT_ONCE", CUT)
    setattr(eiv.engine.memory, "RANDOM_AHEAD", {"cpu": 2**13})
    setattr(checkpoints, "EVERY", 0.0)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    in_small_pieces(monkeypatch.setattr)


def table(n_rows=700):
    random = np.random.default_rng(0)
    zeta = random.normal(size=(n_rows, 2))
    x = zeta + 0.3 * random.normal(size=(n_rows, 2))
    found = pd.DataFrame({"a": x[:, 0], "b": x[:, 1] + 1e6, "a_err": random.uniform(0.2, 0.4, n_rows)})
    found["y"] = np.sin(zeta[:, 0]) + zeta[:, 1] + 0.1 * random.normal(size=n_rows)
    found["y_err"], found["w"] = random.uniform(0.01, 0.1, n_rows), random.integers(0, 3, n_rows).astype(float)
    return found


def saved(model, path):
    model.save(path)
    return path.read_bytes()


CASES = {
    "errors of rows": (".csv", {"x_err": {"a": "a_err", "b": 0.1}}, ["a", "b", "a_err"], {"y_err": "y_err"}),
    "weights, shares": (".parquet", {"x_err": relative(0.1)}, ["a", "b"], {"sample_weight": "w", "y_err": 0.05}),
    "exact, two networks": (".parquet", {"n_networks": 2}, ["b"], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_model_is_that_of_memory_to_the_last_bit(tmp_path, case):
    ending, arguments, columns, others = CASES[case]
    rows, path = table(), tmp_path / f"t{ending}"
    rows.to_parquet(path) if ending == ".parquet" else rows.to_csv(path, index=False)
    given = {name: rows[column] if isinstance(column, str) else column for name, column in others.items()}
    in_memory = EiVRegressor(**SMALL, **arguments).fit(rows[columns], rows["y"], **given)
    from_file = EiVRegressor(**SMALL, **arguments).fit_file(path, "y", columns=columns, **others)
    assert isinstance(from_file.model_.input_prior, FlatPrior if case.startswith("exact") else MixturePrior)
    assert saved(from_file, tmp_path / "1") == saved(in_memory, tmp_path / "2")
    assert not (tmp_path / f"{path.name}.eiv-cache").exists()


def test_many_rows_are_read_a_piece_at_a_time_and_few_as_a_whole(tmp_path, monkeypatch):
    rows, path = table(CUT + 1), tmp_path / "t.parquet"
    rows.to_parquet(path)
    large, plain = [], LargeTable.take
    monkeypatch.setattr(LargeTable, "take", lambda self, rows: large.append(len(rows)) or plain(self, rows))
    model = EiVRegressor(0.2, input_prior="flat", **SMALL)
    model.fit_file(path, "y", columns=["a"])
    assert large
    assert max(large) <= CUT
    large.clear()
    rows.drop(0).to_parquet(path)
    model.fit_file(path, "y", columns=["a"])
    assert not large
    few = EiVRegressor(0.2, input_prior="flat", **SMALL).fit(rows[["a"]].drop(0), rows["y"].drop(0))
    assert np.array_equal(model.predict(rows[["a"]]), few.predict(rows[["a"]]))


KILLED = """
import os, signal
import eiv.engine.memory
import test_fromfile as here
from eiv.training import checkpoints
from eiv.training.large import LargeTable
here.in_small_pieces(setattr)
save, left = checkpoints.Checkpoint.save, [2]
def save_and_die(self, state):
    save(self, state)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
checkpoints.Checkpoint.save = save_and_die
here.EiVRegressor(0.2, **here.SMALL).fit_file(PATH, "y", columns=["a", "b"])
"""


def test_killed_and_started_again_it_ends_with_the_same_model(tmp_path, monkeypatch):
    rows, path = table(), tmp_path / "t.parquet"
    rows.to_parquet(path)
    code = KILLED.replace("PATH", repr(str(path)))
    paths = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path])}
    with started(sys.executable, "-c", code, env=os.environ | paths) as process:
        _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said
    (kept,) = tmp_path.glob("t.parquet.eiv-cache/*/*.training")
    state = torch.load(kept, weights_only=True)
    assert state["epoch"] == 1
    assert state["part"] == 2  # of several blocks of an epoch
    read = []
    monkeypatch.setattr(checkpoints.Checkpoint, "load", lambda self: read.append(self.path) or state)
    resumed = EiVRegressor(0.2, **SMALL).fit_file(path, "y", columns=["a", "b"])
    assert read == [kept]
    whole = EiVRegressor(0.2, **SMALL).fit(rows[["a", "b"]], rows["y"])
    assert saved(resumed, tmp_path / "resumed") == saved(whole, tmp_path / "whole")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["resumed", "t.parquet", "whole"]


def test_a_cache_that_is_kept_is_read_instead_of_the_table(tmp_path, monkeypatch):
    rows, path = table().astype(np.float32), tmp_path / "t.parquet"
    rows.to_parquet(path)
    source, roles = open_table(path), Roles(("a", "b"), ("y",), {"a": "a_err", "b": 0.1})
    with TableCache.opened(source, roles, tmp_path / "cache", keep=True) as cache:
        assert {name: part.values.dtype for name, part in cache.arrays.items()} == {
            "x": np.float32,
            "y": np.float32,
            "x_err": np.float64,  # 0.1 is no number of float32
        }
        assert np.array_equal(cache.arrays["x"][:], rows[["a", "b"]].to_numpy(float))
        with (
            pytest.raises(OSError, match="another fit uses"),
            TableCache.opened(source, roles, tmp_path / "cache", True),
        ):
            pass
    monkeypatch.setattr(type(source), "chunks", None)
    with TableCache.opened(source, roles, tmp_path / "cache", keep=False) as again:
        assert np.array_equal(again.arrays["x_err"][:, 0], rows["a_err"].to_numpy(float))
    assert not (tmp_path / "cache").exists()


def test_numbers_that_need_float64_come_late(tmp_path, monkeypatch):
    rows, path = pd.DataFrame({"x": np.arange(5000.0), "y": np.arange(5000.0)}), tmp_path / "t.csv"
    rows.loc[4990, "x"] = 0.1
    rows.to_csv(path, index=False)
    monkeypatch.setattr("eiv.io.tables.reading._BLOCK", 4096)
    monkeypatch.setattr("eiv.io.tablecache._WIDENED", 700)
    with TableCache.opened(open_table(path), Roles(("x",), ("y",)), tmp_path / "cache", keep=True) as cache:
        assert cache.arrays["x"].values.dtype == np.float64
        assert cache.arrays["y"].values.dtype == np.float32
        assert np.array_equal(cache.arrays["x"][:, 0], rows["x"])


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"a": np.nan}, {}, "row 8: a missing or infinite value; drop_missing=True"),
        ({"w": -1.0}, {"sample_weight": "w"}, "row 8: weights of rows must not be negative"),
        ({"y_err": -1.0}, {"y_err": "y_err"}, "row 8: errors must not be negative"),
        ({}, {"columns": ["c"]}, "has no column 'c'"),
    ],
)
def test_bad_files_are_refused_and_leave_nothing(tmp_path, change, options, words):
    rows, path = table(), tmp_path / "t.parquet"
    for column, value in change.items():
        rows.loc[7, column] = value
    rows.to_parquet(path)
    with pytest.raises(TableError, match=words):
        EiVRegressor(0.1, **SMALL).fit_file(path, "y", **({"columns": ["a"]} | options))
    assert not [each for each in tmp_path.rglob("*") if each.is_file() and each.name not in ("t.parquet", "lock")]


@pytest.mark.parametrize(
    "model", [EiVRegressor("±0.3"), EiVRegressor(0.1, missing="integrate"), EiVRegressor(estimated(0.1, dof=8))]
)
def test_what_needs_all_rows_is_refused(tmp_path, model):
    path = tmp_path / "t.parquet"
    table().to_parquet(path)
    with pytest.raises(ValueError, match="piece by piece"):
        model.fit_file(path, "y", columns=["a"])


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"columns": ["a", "y"]}, ValueError, "columns: 'y' is a target"),
        ({"y_err": "y"}, ValueError, "y_err: 'y' is a target"),
        ({"sample_weight": "y"}, ValueError, "sample_weight: 'y' is a target"),
        ({"columns": "a"}, TypeError, "columns must be a list of names of columns, got 'a'"),
        ({"columns": [1]}, TypeError, r"columns must be a list of names of columns, got \[1\]"),
        ({"target": 3}, TypeError, "target must be the name of a column, or a list of names, got 3"),
        ({"target": []}, TypeError, "target must be the name of a column, or a list of names, got"),
        ({"path": 3}, TypeError, "path must be the name of a file, got 3"),
        ({"path": None}, TypeError, "path must be the name of a file, got None"),
        ({"cache": 5}, TypeError, "cache must be the name of a folder, or None, got 5"),
        ({"cache": "t.csv"}, ValueError, "cache must be a folder, and t.csv is a file"),
        ({"sample_weight": 2}, TypeError, "sample_weight must be the name of a column, or None, got 2"),
        ({"y_err": [0.1] * 700}, TypeError, "y_err must be the name of a column, a number for all rows, or None, got"),
        ({"y_err": np.full(700, 0.1)}, TypeError, "y_err must be the name of a column, .* or None, got ndarray"),
        ({"leave_out": [3, 700]}, ValueError, r"leave_out must hold places of rows of t.csv, .* 0 to 699, got 700\."),
        ({"leave_out": [-1]}, ValueError, r"whole numbers from 0 to 699, got -1\."),
        ({"leave_out": [1.5]}, ValueError, r"whole numbers from 0 to 699, got 1.5\."),
        ({"leave_out": None}, ValueError, r"whole numbers from 0 to 699, got None\."),
        ({"leave_out": np.zeros(700, dtype=bool)}, ValueError, r"whole numbers from 0 to 699, got False\."),
        ({"columns": ["a", "b", "a"]}, ValueError, "columns: 'a' is named more than once"),
        ({"target": ["y", "y"]}, ValueError, "target: 'y' is named more than once"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, monkeypatch, arguments, kind, words):
    monkeypatch.chdir(tmp_path)
    table().to_csv("t.csv", index=False)
    with pytest.raises(kind, match=words):
        EiVRegressor(0.1, **SMALL).fit_file(**{"path": "t.csv", "target": "y"} | arguments)
    assert os.listdir() == ["t.csv"]


@pytest.mark.parametrize("x_err", [{"a": "a_err dof=inf", "b": "±0.3"}, {"a": "a_err,a_err"}])
def test_texts_beside_columns_are_taken_where_all_rows_are_in_memory(tmp_path, x_err):
    rows, path = table(CUT), tmp_path / "t.parquet"
    rows.to_parquet(path)
    from_file = EiVRegressor(x_err, **SMALL).fit_file(path, "y", columns=["a", "b", "a_err"])
    in_memory = EiVRegressor(x_err, **SMALL).fit(rows[["a", "b", "a_err"]], rows["y"])
    assert saved(from_file, tmp_path / "1") == saved(in_memory, tmp_path / "2")
    table(CUT + 1).to_parquet(path)
    with pytest.raises(ValueError, match=r"neither a column nor a number, .* for more than 300 rows"):
        EiVRegressor(x_err, **SMALL).fit_file(path, "y", columns=["a", "b", "a_err"])


def test_degrees_of_freedom_beside_a_column_reach_the_fit(tmp_path):
    """Many rows are refused as with `eiv.estimated`, few come to the fit, which needs another network for them."""
    for n_rows, words in ((CUT, "network='cosine' only"), (CUT + 1, r"which eiv\.estimated does not allow")):
        table(n_rows).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(ValueError, match=words):
            EiVRegressor({"a": "a_err dof=8"}, **SMALL).fit_file(tmp_path / "t.parquet", "y", columns=["a", "a_err"])


@pytest.mark.parametrize("x_err", [0.1, {"a": split_normal(0.1, 0.2)}])
def test_a_refused_fit_leaves_nothing_beside_the_table(tmp_path, x_err):
    """The first for a cell of the table, the second for an argument, when the table has been read."""
    path, bad = tmp_path / "t.csv", table()
    if x_err == 0.1:
        bad.loc[500, "a"] = np.nan
    bad.to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"a missing or infinite value|laws|law"):
        EiVRegressor(x_err, **SMALL).fit_file(path, "y", columns=["a", "b"])
    assert os.listdir(tmp_path) == ["t.csv"]
