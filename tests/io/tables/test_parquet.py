"""Parquet: pieces of bounded size, damaged files, columns of any kind."""

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from eiv.io.tables import TableError, TableWriter, open_table, reading, rowgroups
from eiv.io.tables.reading import read_rows
from processes import ended
from tablefiles import written


def parquet(path, texts, **options):
    """A table with a column of texts between two of numbers."""
    numbers = np.arange(float(len(texts)))
    pyarrow.parquet.write_table(pa.table({"a": numbers, "t": texts, "y": numbers}), path, **options)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"row_group_size": 200},
        {"row_group_size": 200, "use_dictionary": False},
        {"row_group_size": 200, "use_dictionary": False, "column_encoding": {"t": "DELTA_BYTE_ARRAY"}},
    ],
)
@pytest.mark.parametrize("same", [False, True])
def test_parquet_is_read_in_pieces_of_bounded_size(options, same, tmp_path, monkeypatch):
    monkeypatch.setattr(rowgroups, "_PIECE", 10**6)
    text = "x" * 10_000
    path = parquet(tmp_path / "t.parquet", [text if same else f"{i:04}{text}" for i in range(1000)], **options)
    pieces = list(open_table(path).chunks())
    assert max(rows.cells.nbytes for rows in pieces) < 2 * 10**6
    assert sum(map(len, pieces)) == 1000
    assert [len(rows) for rows in open_table(path).chunks(["y", "a"])] == [1000]
    assert read_rows(open_table(path), ["y", "a"]).cells.column_names == ["a", "y"]


def test_a_row_group_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(rowgroups, "_LARGEST_COLUMN", 2**20)
    path = parquet(tmp_path / "t.parquet", [f"{i}" + "x" * 10_000 for i in range(200)])
    with pytest.raises(
        TableError, match=r"t\.parquet: column 't' has 2 MiB in row group 1; the limit is 1 MiB\. Write it with smaller"
    ):
        read_rows(open_table(path))
    assert len(read_rows(open_table(path), ["a"])) == 200


DAMAGED = """
import io, pathlib, struct, sys
import pyarrow as pa, pyarrow.parquet
from eiv.io.tables import TableError, open_table, rowgroups
from eiv.io.tables.reading import read_rows
rowgroups._PIECE = 1
sink = io.BytesIO()
pyarrow.parquet.write_table(pa.table({"f": [1.5, None, 2.0], "t": ["1", "x", None]}), sink, compression="none")
good, path = sink.getvalue(), pathlib.Path(sys.argv[1])
for place in range(len(good) - 8 - struct.unpack("<I", good[-8:-4])[0], len(good) - 8):
    path.write_bytes(good[:place] + bytes([good[place] ^ 2]) + good[place + 1:])
    try:
        read_rows(open_table(path))
    except TableError:
        pass
"""


def test_damaged_metadata_do_not_end_the_process(tmp_path):
    """As they would where pyarrow is asked for the sizes of columns that it cannot read."""
    status, _, err = ended(sys.executable, "-c", DAMAGED, tmp_path / "t.parquet")
    assert status == 0, err


def test_a_dictionary_without_its_texts(tmp_path, monkeypatch):
    """As a damaged file has it: what its cells point to must not be looked up."""
    parquet(tmp_path / "t.parquet", pa.array(["x", "y"]).dictionary_encode())
    source = open_table(tmp_path / "t.parquet")
    empty = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([], pa.string()), safe=False)
    batch = pa.record_batch({"a": [0.0, 1.0], "t": empty, "y": [0.0, 1.0]})
    monkeypatch.setattr(reading.pyarrow.parquet.ParquetFile, "iter_batches", lambda *args, **kwargs: iter([batch]))
    with pytest.raises(TableError, match=r"t\.parquet cannot be read as Parquet: .*out of bounds"):
        read_rows(source)


def test_columns_with_points_and_parts(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "a.b": [3.0, 4.0], "s": [{"u": 1, "v": "x"}, {"u": 2, "v": "y"}]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    source = open_table(tmp_path / "t.parquet")
    assert read_rows(source, ["a"]).cells.column_names == ["a"]
    assert read_rows(source, ["a.b"]).numbers("a.b").tolist() == [3, 4]
    assert read_rows(source).cells["s"].to_pylist() == table["s"].to_pylist()


def test_parquet_columns_with_dictionaries_and_views(tmp_path):
    text = pa.array(["1.5", "2", None])
    table = pa.table({"v": text.cast(pa.string_view()), "d": text.dictionary_encode(), "l": text.cast("large_string")})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    source = open_table(tmp_path / "t.parquet")
    rows = read_rows(source)
    for name in source.columns:
        np.testing.assert_array_equal(rows.numbers(name), [1.5, 2, np.nan])
    with TableWriter(tmp_path / "o.csv") as writer:
        writer.write(rows.cells)
    assert (tmp_path / "o.csv").read_text() == "v,d,l\n1.5,1.5,1.5\n2,2,2\n,,\n"


def test_parquet_that_is_said_to_have_other_rows(tmp_path):
    pd.DataFrame({"a": [1.5, 2.5, 3.5]}).to_parquet(tmp_path / "t.parquet")
    source = open_table(tmp_path / "t.parquet")
    source.n_rows = -4  # as a damaged file says
    with pytest.raises(TableError, match=r"t\.parquet: 3 rows were read, but the file states -4\. Is it damaged"):
        read_rows(source)


def test_parquet_text_that_is_none(tmp_path):
    array = pa.array([b"1", b"\xff"], pa.binary()).cast(pa.string(), safe=False)
    rows = reading.TableRows(open_table(written(tmp_path, "a\n1\n")), pa.table({"a": array}))
    with pytest.raises(TableError, match="column 'a'"):
        rows.numbers("a")
