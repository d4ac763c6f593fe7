"""Tables that are written."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from eiv.io.tables import TableError, TableWriter, open_table
from eiv.io.tables.reading import read_rows
from tablefiles import written


def test_numbers_keep_the_format_of_the_table(tmp_path):
    source = open_table(written(tmp_path, "a;b\n1,50;x\n2;y\n"))
    cells = read_rows(source).cells.append_column("m", pa.array([0.25, np.nan]))
    with TableWriter(tmp_path / "o.csv", source.text_format) as writer:
        writer.write(cells)
    assert (tmp_path / "o.csv").read_text() == "a;b;m\n1,50;x;0,25\n2;y;\n"


def test_nothing_is_left_of_a_failed_write(tmp_path):
    def write(name):
        with TableWriter(tmp_path / name) as writer:
            writer.write(pa.table({"a": [1]}))
            raise KeyboardInterrupt

    for name in ("o.csv", "o.csv.gz", "o.parquet"):
        with pytest.raises(KeyboardInterrupt):
            write(name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TableError, match=r"o\.xlsx: a table can be written as"):
        TableWriter(tmp_path / "o.xlsx")


def test_formulas_are_escaped_where_asked(tmp_path):
    names = ["=a", "b", "-c"]
    cells = pa.table(
        [pa.array(["=1+1", "@x", None]), pa.array(["-1.5", "+2,5e-3", "-x"]), pa.array([-1.5, 2.0, 3.0])], names
    )
    with TableWriter(tmp_path / "plain.csv") as writer:
        writer.write(cells)
    with TableWriter(tmp_path / "safe.csv", escape_formulas=True) as writer:
        writer.write(cells)
    assert (tmp_path / "plain.csv").read_text().splitlines()[1].startswith('"=1+1"')
    found = pd.read_csv(tmp_path / "safe.csv", dtype=str, keep_default_na=False)
    assert list(found) == ["'=a", "b", "'-c"]
    assert found["'=a"].tolist() == ["'=1+1", "'@x", ""]
    assert found["b"].tolist() == ["-1.5", "+2,5e-3", "'-x"]
    assert found["'-c"].astype(float).tolist() == [-1.5, 2.0, 3.0]
