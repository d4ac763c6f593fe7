"""The shipped example is what its script makes, and its truth is found again."""

import importlib
import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eiv.io.modelfile import read_header

FOLDER = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def humidity():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("make_humidity", FOLDER / "make_humidity.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shipped_tables_are_those_of_the_script(humidity):
    made, _ = humidity.tables()
    assert set(made) == {path.name for path in FOLDER.glob("*.csv")}
    for name, table in made.items():
        pd.testing.assert_frame_equal(pd.read_csv(FOLDER / name), table, rtol=1e-12)


def test_the_law_is_the_known_one(humidity):
    """Saturated air of 20 °C at 1013.25 hPa holds 14.7 g/kg, by any table of humid air."""
    assert humidity.mixing_ratio(20.0, 100.0, 1013.25) == pytest.approx(14.7, abs=0.05)


def test_the_truth_is_found_again(humidity, run, tmp_path, monkeypatch):
    shutil.copytree(FOLDER, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    quick = ("--set", "network=cosine", "--set", "hidden_units=96", "--no-refit")
    fit = ("fit", "examples/humidity.csv", "--config", "examples/errors.toml", *quick, "-o", "m.eiv")
    assert run(*fit)[0] == 0
    notes = read_header("m.eiv")["notes"]
    assert {name: term["kind"] for name, term in notes["x_err"].items()} == {
        "temperature_C": "absolute",
        "humidity_percent": "column",
        "pressure_hPa": "reading",
    }
    assert notes["holdout"]["rmse"] < 0.15 * notes["holdout"]["spread"]
    assert run("predict", "m.eiv", "examples/new.csv", "-o", "p.csv")[0] == 0
    found, (_, truth) = pd.read_csv("p.csv"), humidity.tables()
    assert np.sqrt(np.mean((found["mean"] - truth) ** 2)) < 1.0  # of 7 g/kg
    assert ((found["low"] <= truth) & (truth <= found["high"])).mean() > 0.6
    steep = truth > np.median(truth)  # warm and humid air: the same errors of the inputs matter more
    assert found["aleatoric"][steep].mean() > 1.5 * found["aleatoric"][~steep].mean()


def test_the_stages_of_rail_give_redshifts(tmp_path, monkeypatch):
    pytest.importorskip("rail.core.stage", reason="needs pz-rail-base")
    monkeypatch.syspath_prepend(FOLDER)
    stages = importlib.import_module("rail_stage")  # RAIL asks for a module that is imported
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    z, errors = random.uniform(0, 1, 80), np.full(80, 0.05)
    table = {"u": 20 + 2 * z + 0.05 * random.normal(size=80), "g": 21 - z + 0.05 * random.normal(size=80)}
    table |= {"u_err": errors, "g_err": errors, "redshift": z}
    columns = {"bands": ["u", "g"], "errors": ["u_err", "g_err"], "hdf5_groupname": ""}
    settings = {"network": "cosine", "hidden_units": 16}
    model = stages.EivInformer.make_stage(name="inform", settings=settings, **columns).inform(table)
    found = stages.EivEstimator.make_stage(name="estimate", model=model, n_quantiles=19, **columns).estimate(table).data
    assert found.npdf == 80
    np.testing.assert_allclose(found.median()[:, 0], z, atol=0.15)
    with pytest.raises(ValueError, match="errors must name a column for each of bands"):
        stages.EivInformer.make_stage(name="wrong", bands=["u"], errors=[]).inform(table)
