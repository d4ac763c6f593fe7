"""FITS, ECSV and VOTable through the commands: the numbers of a CSV, and the units of the file."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from commands import FIT, QUICK
from eiv import EiVClassifier, EiVRegressor
from eiv.io.budgets import NAMESPACE
from eiv.io.tables import TableError, open_table
from eiv.io.tables.reading import read_rows

astropy = pytest.importorskip("astropy")

from astropy import units as u  # noqa: E402
from astropy.table import MaskedColumn, QTable, Table  # noqa: E402

FORMS = {"d.fits": "fits", "d.ecsv": "ascii.ecsv", "d.vot": "votable"}
UNITS = {"length": u.m, "temp": u.K, "temp_err": u.K, "mass": u.kg}


def with_units(table, **other):
    columns = {name: table[name].to_numpy() for name in table}
    return QTable({name: x * (UNITS | other)[name] if name in UNITS else x.astype(str) for name, x in columns.items()})


@pytest.fixture
def tables(folder):
    """The table of the commands in every form, in their folder."""
    table = pd.read_csv("d.csv")
    for name, form in FORMS.items():
        with_units(table).write(name, format=form)
    return table


@pytest.mark.parametrize("name", FORMS)
def test_the_cells_are_those_of_the_table(tables, name):
    source = open_table(name)
    assert source.columns == tuple(tables)
    assert dict(source.units) == {"length": "m", "temp": "K", "temp_err": "K", "mass": "kg"}
    rows = read_rows(source)
    for column in UNITS:
        np.testing.assert_array_equal(rows.numbers(column), tables[column])
    assert [str(cell) for cell in rows.cells["id"].to_pylist()] == [str(value) for value in tables["id"]]
    assert source.place(3) == "row 4"


@pytest.mark.parametrize("name", FORMS)
def test_fit_and_predict_give_the_numbers_of_a_csv(tables, run, name):
    assert run("fit", "d.csv", *FIT, *QUICK, "-o", "csv.eiv")[0] == 0
    status, _, err = run("fit", name, *FIT, *QUICK, "-o", "own.eiv")
    assert status == 0, err
    for model, source, out in (
        ("csv.eiv", "d.csv", "csv.csv"),
        ("own.eiv", name, "own.csv"),
        ("own.eiv", "d.csv", "p.csv"),
    ):
        assert run("predict", model, source, "-o", out)[0] == 0
    expected, found, mixed = (pd.read_csv(out) for out in ("csv.csv", "own.csv", "p.csv"))
    for column in ("mean", "epistemic", "aleatoric", "noise", "low", "high"):
        np.testing.assert_allclose(found[column], expected[column], rtol=1e-6)
        np.testing.assert_allclose(mixed[column], expected[column], rtol=1e-6)
    names = EiVRegressor.load("own.eiv").model_.names
    assert dict(zip(names.features, names.units, strict=True)) == {name: str(UNITS[name]) for name in names.features}
    assert names.output_units == ("kg",)


def test_the_budget_of_a_row_has_the_names_and_units_of_the_table(tables, run):
    assert run("fit", "d.fits", *FIT, *QUICK, "-o", "own.eiv")[0] == 0
    status, _, err = run("explain", "own.eiv", "d.fits", "--row", "2", "--gum", "b.xml")
    assert status == 0, err
    root = ElementTree.parse("b.xml").getroot()
    names, units = ([each.text for each in root.iter(f"{{{NAMESPACE}}}{part}")] for part in ("label", "unit"))
    assert names == ["mass", "length", "temp", "fit", "noise"]
    assert units == [r"\kilogram", r"\metre", r"\kelvin", r"\kilogram", r"\kilogram"]
    with_units(tables, mass=u.mag).write("odd.fits")
    assert run("fit", "odd.fits", *FIT, *QUICK, "-o", "odd.eiv")[0] == 0
    status, _, err = run("explain", "odd.eiv", "odd.fits", "--row", "2", "--gum", "odd.xml", "-o", "odd.png")
    assert status == 2
    assert "its unit 'mag' has no form in the D-SI" in err
    assert not any(map(Path.exists, map(Path, ("odd.xml", "odd.png"))))


def test_other_units_are_refused(tables, run):
    assert run("fit", "d.fits", *FIT, *QUICK, "-o", "own.eiv")[0] == 0
    with_units(tables, length=u.cm).write("cm.fits")
    status, _, err = run("predict", "own.eiv", "cm.fits", "-o", "o.csv")
    assert status == 2
    assert "column 'length' is in cm, but it at the fit of own.eiv is in m: convert one of them first." in err
    with_units(tables, temp_err=u.mK).write("mk.fits")
    for command in (("predict", "own.eiv", "mk.fits", "-o", "o.csv"), ("fit", "mk.fits", *FIT, *QUICK, "-o", "o.eiv")):
        status, _, err = run(*command)
        assert status == 2
        assert "column 'temp_err' is in mK, but column 'temp', whose errors it holds, is in K" in err


def test_missing_values_texts_and_broken_files(tmp_path):
    path = tmp_path / "t.fits"
    Table({"a": MaskedColumn([1.0, 2.0], mask=[False, True]), "b": ["x", "y"], "c": [1, 2]}).write(path)
    rows = read_rows(open_table(path))
    np.testing.assert_array_equal(rows.numbers("a"), [1.0, np.nan])
    assert rows.cells["b"].to_pylist() == ["x", "y"]
    np.testing.assert_array_equal(rows.numbers("c"), [1.0, 2.0])
    Table({"a": np.ones((2, 3))}).write(tmp_path / "wide.fits")
    with pytest.raises(TableError, match=r"column 'a' holds '\[1. 1. 1.\]', not a number"):
        read_rows(open_table(tmp_path / "wide.fits")).numbers("a")
    for name, kind in (("bad.fits", "FITS"), ("bad.ecsv", "ECSV"), ("bad.vot", "VOTable")):
        (tmp_path / name).write_bytes(b"not a table\n" * 20)
        with pytest.raises(TableError, match=f"{name} is not a table in {kind}: "):
            open_table(tmp_path / name)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("<TABLEDATA>", "<BINARY><STREAM encoding='base64' href='file:///etc/hostname'>"),
        lambda text: text.replace(
            "<VOTABLE", "<!DOCTYPE VOTABLE [<!ATTLIST STREAM href CDATA 'file:///x'>]>\n<VOTABLE"
        ),
    ],
)
def test_a_votable_that_points_elsewhere_is_refused(tmp_path, change):
    path = tmp_path / "t.vot"
    Table({"a": [1.0, 2.0]}).write(path, format="votable")
    assert open_table(path).columns == ("a",)
    changed = change(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    for encoding in ("utf-8", "utf-16"):
        path.write_text(changed, encoding=encoding)
        with pytest.raises(TableError, match=r"t\.vot: a VOTable is read where it holds its data itself"):
            open_table(path)


def test_tables_that_polars_writes(tables, run):
    polars = pytest.importorskip("polars")
    polars.read_csv("d.csv").write_parquet("polars.parquet")
    for name in ("d.csv", "polars.parquet"):
        assert run("fit", name, *FIT, *QUICK, "-o", f"{name}.eiv")[0] == 0
        assert run("predict", f"{name}.eiv", name, "-o", f"{name}.out.csv")[0] == 0
    expected, found = (pd.read_csv(f"{name}.out.csv") for name in ("d.csv", "polars.parquet"))
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-6)


@pytest.mark.parametrize("name", FORMS)
def test_compare_gives_the_scores_of_a_csv(tables, run, name):
    pytest.importorskip("odrpack")
    methods = ("--methods", "least_squares,calibrated_plane", "--folds", "2")
    for source in ("d.csv", name):
        status, _, err = run("compare", source, *FIT, *methods, "-o", f"{source}.compared")
        assert status == 0, err
    expected, found = (pd.read_csv(f"{source}.compared/compare.csv") for source in ("d.csv", name))
    pd.testing.assert_frame_equal(found.drop(columns="seconds"), expected.drop(columns="seconds"), rtol=1e-9)


def test_a_model_of_classes_keeps_the_units_of_its_inputs(tables, run):
    kinds = np.where(tables["mass"] > tables["mass"].median(), "heavy", "light")
    with_units(tables.assign(kind=kinds)).write("classes.ecsv", format="ascii.ecsv")
    options = (
        "--target",
        "kind",
        "--drop",
        "id",
        "--drop",
        "batch",
        "--drop",
        "mass",
        "--x-err",
        "temp=temp_err",
        *QUICK,
    )
    status, _, err = run("fit", "classes.ecsv", *options, "-o", "classes.eiv")
    assert status == 0, err
    assert EiVClassifier.load("classes.eiv").model_.names.units == ("m", "K")
    assert run("predict", "classes.eiv", "classes.ecsv", "-o", "classes.csv")[0] == 0
