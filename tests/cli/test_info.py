"""`eiv info`: what a model file says of itself, and what is said of a bad one."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from commands import rows
from eiv import EiVRegressor, NormalPrior
from eiv.io.modelfile import read_header
from extensions import CommonFactor
from forging import altered, forged
from processes import MAIN, ended

HEAVY = ("torch", "pandas", "scipy", "sklearn", "matplotlib", "pyarrow")


def test_info(model, run):
    status, out, _ = run("info", "m.eiv")
    assert status == 0
    for words in ("eiv 0.", "length, temp", "mass", "column temp_err", "3 epochs", "of 8 units", "recipe=", "rmse"):
        assert words in out
    assert re.search(r"│ seed +│ 0 +│", out), "the seed that was given, not the one of this network"
    assert "random_state" not in out
    status, out, _ = run("info", "m.eiv", "--json")
    assert json.loads(out) == read_header("m.eiv")


def test_units_and_columns_with_errors_are_shown(tmp_path, run):
    u, table = pytest.importorskip("astropy.units"), pytest.importorskip("astropy.table")
    x, path = np.random.default_rng(0).normal(size=(30, 2)), tmp_path / "units.eiv"
    X = table.QTable({"a": x[:, 0] * u.m, "b": x[:, 1], "a_err": np.full(30, 10.0) * u.cm})
    EiVRegressor({"a": "a_err", "b": 0.2}, recipe="paper", epochs=1).fit(X, x[:, 0] * u.kg).save(path)
    status, out, _ = run("info", str(path))
    assert status == 0
    assert "2: a [m], b " in out
    assert "a: column a_err, b: 0.2" in out


@pytest.mark.parametrize(
    "change",
    [
        lambda inner, header: inner["notes"].update(x_err={"length": 3}),
        lambda inner, header: inner["settings"].pop("module"),
        lambda inner, header: inner["settings"].update(recipe="no such"),
        lambda inner, header: inner["training"].pop("y_noise"),
    ],
)
def test_info_on_a_forged_file_is_one_sentence(model, run, change):
    (model / "bad.eiv").write_bytes(forged((model / "m.eiv").read_bytes(), lambda *parts: change(*parts) and None))
    status, out, err = run("info", "bad.eiv")
    assert (status, out) == (2, "")
    assert err.startswith("error: bad.eiv is not a model that eiv")


def test_info_refuses_weights_that_predict_refuses(model, run):
    whole = (model / "m.eiv").read_bytes()
    for bad in (altered(whole, "network/0.bias", np.full(8, np.nan, np.float32)), whole[:-1]):
        (model / "bad.eiv").write_bytes(bad)
        said = run("predict", "bad.eiv", "d.csv", "-o", "p.csv")
        assert said[0] == 2
        assert run("info", "bad.eiv") == said
        assert run("info", "bad.eiv", "--json") == said


@pytest.mark.parametrize("arguments", [("info", "m.eiv"), ("info", "m.eiv", "--json"), ("--help",), ("info", "--help")])
def test_no_heavy_package_is_loaded_to_look_at_a_model(model, arguments):
    status, out, err = ended(sys.executable, "-X", "importtime", "-c", MAIN, *arguments)
    assert (status, len(out) > 100) == (0, True)
    loaded = {line.rpartition("|")[2].strip() for line in err.splitlines()}
    assert "eiv.cli.info" in loaded
    assert not loaded & {*HEAVY}


def test_a_file_without_the_values_of_its_recipe_shows_the_same(model, run):
    """As earlier versions wrote it."""
    before = run("info", "m.eiv")
    whole = Path("m.eiv").read_bytes()
    Path("m.eiv").write_bytes(forged(whole, lambda inner, header: inner.pop("recipe") and None))
    assert "recipe" not in read_header("m.eiv")
    assert run("info", "m.eiv") == before


def test_info_of_a_model_with_a_network_of_its_own(folder, run):
    table = rows()[["length", "temp", "mass"]]
    settings = {"epochs": 2, "n_theta": 10, "recipe": "paper", "posterior": "swag"}
    own = EiVRegressor(0.1, module=torch.nn.Linear, **settings).fit(table[["length", "temp"]], table.mass)
    own.save("m.eiv")
    status, out, _ = run("info", "m.eiv", width=200)
    assert (status, "of the module Linear, to be given again at load" in out) == (0, True)
    Path("bad.eiv").write_bytes(altered(Path("m.eiv").read_bytes(), "network/bias", np.full(1, np.nan, np.float32)))
    status, _, err = run("info", "bad.eiv")
    assert status == 2
    assert err.endswith("can read: some of its weights are not finite numbers\n")


def test_info_names_objects_that_have_to_be_given_again(folder, run):
    table = rows()[["length", "temp", "mass"]]
    own = EiVRegressor({"length": 0.1}, posterior=CommonFactor, input_prior=NormalPrior(1.0), epochs=1, recipe="paper")
    own.fit(table[["length", "temp"]], table.mass).save("m.eiv")
    status, out, _ = run("info", "m.eiv", width=300)
    assert status == 0
    assert "posterior=CommonFactor (to be given again at load), input_prior=a normal prior, " in out
    assert ", x_err=a mapping" in out
    status, _, err = run("predict", "m.eiv", "d.csv", "-o", "p.csv", width=300)
    assert status == 2
    assert "a weight posterior of the user's own (CommonFactor), which the file does not hold. Load the model in" in err
