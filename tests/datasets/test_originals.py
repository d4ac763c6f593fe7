"""The nine real data sets, from archives of the original layout."""

import functools
import hashlib
import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eiv.datasets import REAL, load
from eiv.datasets._parsers import gunzip
from eiv.datasets.real import OFFSET, cache_folder
from serving import text, zipped

EIV_DATA = os.environ.get("EIV_DATA")
needs_data = pytest.mark.skipif(not EIV_DATA, reason="EIV_DATA names no folder with the nine tables")


# Of the originals, as others have published them: a table that is rebuilt into these bytes is UCI's.
ORIGINAL_SHA256 = {
    "naval": "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",  # data.txt
    "concrete": "8d4b15b6fc68cd932d745cbd663d5ceae66dd54422e99c1e4865f2936ab7e2af",  # data.csv
    "energy": "db44dbe453acd464b5cf65be2fb01a28aa9c5b2630300e65fbe28cde35f5d96f",  # data.csv
}


@functools.cache
def table(name):
    """The table in EIV_DATA, read independently of the package."""
    return pd.read_csv(Path(EIV_DATA) / REAL[name].file, converters=dict.fromkeys(REAL[name].columns, float))


def workbook(sheets):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook(write_only=True)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    raw = io.BytesIO()
    book.save(raw)
    return raw.getvalue()


def yacht(values):
    return zipped(**{"yacht_hydrodynamics.data": text(values, " ", " \n") + " \n"})


def naval(values):
    data = "".join("".join(f"   {value:.7e}" for value in row) + "\n" for row in values.tolist())
    assert hashlib.sha256(data.encode()).hexdigest() == ORIGINAL_SHA256["naval"]
    folder = "UCI CBM Dataset"
    return zipped(**{f"{folder}/Features.txt": "1 - lp", f"{folder}/README.txt": "", f"{folder}/data.txt": data})


def protein(values):
    return zipped(**{"CASP.csv": "RMSD,F1,F2,F3,F4,F5,F6,F7,F8,F9\n" + text(np.roll(values, 1, axis=1), ",")})


def concrete(values):
    head = "Cement,Blast Furnace Slag,Fly Ash,Water,Superplasticizer,Coarse Aggregate,Fine Aggregate,Age,"
    head += "Concrete compressive strength\r\n"
    raw = (head + text(values, ",", "\r\n", lambda value: repr(value).removesuffix(".0"))).encode()
    assert hashlib.sha256(raw).hexdigest() == ORIGINAL_SHA256["concrete"]
    return raw


def kin8nm(values):
    head = "% Forward kinematics\n@RELATION kin8nm\n\n"
    head += "".join(f"@ATTRIBUTE {name} REAL\n" for name in REAL["kin8nm"].columns)
    return (head + "\n@DATA\n" + text(values, ", ", "\n", "{:.7e}".format) + "%\n").encode()


def wine(values):
    head = ";".join(f'"{name.replace("_", " ")}"' for name in REAL["wine"].columns) + "\n"
    red = head + text(values, ";")
    return zipped(
        **{"winequality-red.csv": red, "winequality-white.csv": head + "7;1\n", "winequality.names": "Cortez"}
    )


def power(values):
    head = list(REAL["power"].columns)
    sheets = {f"Sheet{i}": [head, *values[-i:].tolist()] for i in range(1, 5)}
    return zipped(**{"CCPP/Folds5x2_pp.xlsx": workbook(sheets | {"Sheet5": [head, *values.tolist()]})})


def energy(values):
    form = ["{:.2f}"] * 5 + ["{:.0f}", "{:.2f}", "{:.0f}", "{:.2f}", "{:.2f}"]
    rows = (",".join(f.format(value) for f, value in zip(form, row, strict=True)) for row in values.tolist())
    raw = "\n".join(["X1,X2,X3,X4,X5,X6,X7,X8,Y1,Y2", *rows, ""]).encode()
    assert hashlib.sha256(raw).hexdigest() == ORIGINAL_SHA256["energy"]
    return raw


def energy_workbook(values):
    values = values.copy()
    values[7, 8] -= 0.004  # the workbook has a digit more in places
    head = ["X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8", "Y1", "Y2"]
    rows = [[*row, None, None] for row in [head, *values.tolist()]] + [[None] * 12] * 3
    return zipped(**{"ENB2012_data.xlsx": workbook({"Φύλλο1": rows, "Φύλλο2": [], "Φύλλο3": []})})


def california(values):
    income, age, rooms, bedrooms, population, occupancy, latitude, longitude, price = values.T
    households = np.round(population / occupancy)
    raw = [longitude, latitude, age, np.round(rooms * households), np.round(bedrooms * households), population]
    raw = np.column_stack([*raw, households, income, np.round(price * 100000)])
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        for name, content in (
            ("CaliforniaHousing/cal_housing.data", text(raw, ",", "\n", "{:.6f}".format).encode()),
            ("CaliforniaHousing/cal_housing.domain", b"longitude: continuous.\n"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


ORIGINALS = [
    *((original.__name__, 0, original) for original in (yacht, naval, protein, concrete, kin8nm, wine, power, energy)),
    ("kin8nm", 1, kin8nm),
    ("energy", 1, energy_workbook),
    ("california", 0, california),
    ("california", 1, california),
]


def test_every_public_address_has_a_test():
    addresses = {(name, i) for name, description in REAL.items() for i in range(len(description.downloads))}
    assert addresses == {(name, i) for name, i, _ in ORIGINALS}


@needs_data
@pytest.mark.parametrize(("name", "source", "original"), ORIGINALS, ids=[f"{name}-{i}" for name, i, _ in ORIGINALS])
def test_the_original_becomes_the_table(server, monkeypatch, name, source, original):
    expected = table(name)
    server.serve(REAL[name].downloads[source].url, original(expected.to_numpy()))
    for target in REAL[name].targets:
        data = load(name, target)
        assert data.path == cache_folder() / REAL[name].file
        pd.testing.assert_frame_equal(data.X, expected[list(REAL[name].features)], check_exact=True)
        pd.testing.assert_series_equal(data.y, expected[target], check_exact=True)
    assert len(server.asked) == source + 1
    kept, given = (gunzip((folder / REAL[name].file).read_bytes()) for folder in (cache_folder(), Path(EIV_DATA)))
    assert kept == given  # what we write is what EIV_DATA holds


@needs_data
@pytest.mark.parametrize("name", list(REAL)[:9])
def test_the_table_in_eiv_data_is_taken_as_it_is(name):
    data, expected = load(name), table(name)
    assert data.path == Path(EIV_DATA) / REAL[name].file
    assert len(data.X) == REAL[name].n_rows
    pd.testing.assert_frame_equal(data.X, expected[list(REAL[name].features)], check_exact=True)
    pd.testing.assert_series_equal(data.y, expected[REAL[name].default_target], check_exact=True)
    assert not set(REAL[name].targets) & set(data.X.columns)


@needs_data
@pytest.mark.parametrize("name", list(REAL)[:9])
def test_no_value_lies_at_the_edge_of_its_cell(name):
    """A digest stays the same where values move by less than their distance to the edge."""
    scale = 10.0 ** REAL[name].decimals
    cells = table(name).to_numpy() * scale + OFFSET
    distance = np.abs(cells - np.round(cells)).min() / scale
    assert distance > {"kin8nm": 4e-10, "california": 1e-11}.get(name, 1e-7)


@needs_data
def test_the_copies_of_kin8nm_that_differ_by_5e_11_are_accepted(monkeypatch, tmp_path):
    values = table("kin8nm").copy()
    values.round(10).to_csv(tmp_path / "kin8nm.csv", index=False, float_format="%.10f")
    monkeypatch.setenv("EIV_DATA", str(tmp_path))
    assert 0 < np.abs(load("kin8nm").X.to_numpy() - values.to_numpy()[:, :8]).max() <= 5.001e-11
    values.iloc[5000, 3] += 1e-6
    values.to_csv(tmp_path / "kin8nm.csv", index=False)
    with pytest.raises(ValueError, match="values differ"):
        load("kin8nm")
