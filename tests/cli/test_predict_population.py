"""`eiv predict --input-prior`: rows of another population."""

import numpy as np
import pandas as pd
import pytest
import torch

from eiv import EiVRegressor, FlatPrior, LearnedPrior
from eiv.io.tables import reading

QUICK = ("--set", "epochs=20", "--set", "hidden_units=8", "--set", "n_theta=4", "--set", "n_hidden=1")


def rows(n, centre, seed):
    random = np.random.default_rng(seed)
    zeta = centre + 0.5 * random.normal(size=n)
    x = zeta + 0.3 * random.normal(size=n)
    return pd.DataFrame({"x": x.round(4), "y": (2 * zeta + 0.1 * random.normal(size=n)).round(4)})


@pytest.fixture
def folder(tmp_path, monkeypatch, run, fits):
    """A model of rows about 0, and rows about 0.5."""
    monkeypatch.chdir(tmp_path)
    rows(200, 0.0, 0).to_csv("d.csv", index=False)
    rows(300, 0.5, 1)[["x"]].to_csv("new.csv", index=False)
    options = ("--target", "y", "--x-err", "0.3", *QUICK)
    if options not in fits:
        assert run("fit", "d.csv", *options, "-o", "m.eiv")[::2] == (0, "")
        fits[options] = (tmp_path / "m.eiv").read_bytes()
    (tmp_path / "m.eiv").write_bytes(fits[options])
    return tmp_path


@pytest.mark.parametrize("name", ["flat", "normal", "mixture"])
@pytest.mark.parametrize("block", [None, 300], ids=["whole", "in pieces"])
def test_it_is_the_prior_of_the_library(folder, run, monkeypatch, name, block):
    if block:
        monkeypatch.setattr(reading, "_BLOCK", block)
    status, out, err = run("predict", "m.eiv", "new.csv", "-o", "p.csv", "--input-prior", name)
    assert (status, err) == (0, "")
    words = "flat (--input-prior)" if name == "flat" else f"learned from 300 rows of new.csv ({name})"
    assert f"Prior of the true inputs: {words}." in out
    x = pd.read_csv("new.csv")
    error = torch.full((1, 1), 0.3, dtype=torch.float64)
    prior = FlatPrior()
    if name != "flat":
        prior = LearnedPrior(max_components=1 if name == "normal" else 10).fit(torch.tensor(x.to_numpy()), error)
    expected = EiVRegressor.load("m.eiv").predict(x, input_prior=prior)
    found = pd.read_csv("p.csv")["mean"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert run("predict", "m.eiv", "new.csv", "-o", "q.csv")[0] == 0
    assert np.abs(pd.read_csv("q.csv")["mean"] - found).mean() > 0.05, "another prediction than by default"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input-prior", "uniform"], "--input-prior must be 'flat', 'normal' or 'mixture', got 'uniform'."),
        (["--input-prior", "mixture", "--x-err", "0"], "the inputs are taken as exact, so a prior has no effect."),
        (
            ["--input-prior", "mixture", "--x-err", "5"],
            "new.csv: --input-prior mixture: the error is beyond the spread of X",
        ),
        (["--input-prior", "normal", "--x-err", "5"], "in column 'x' (spread 0.57, error 5, of 300 rows)"),
        (["--input-prior", "mixture", "few"], "learns from the rows of the table, 10 at least; it has 9."),
    ],
)
def test_what_it_refuses(folder, run, options, message):
    pd.read_csv("new.csv").iloc[:9].to_csv("few.csv", index=False)
    table = "few.csv" if options[-1] == "few" else "new.csv"
    status, _, err = run("predict", "m.eiv", table, "-o", "p.csv", *options[: 2 if table == "few.csv" else None])
    assert status == 2
    assert message in err
    assert not (folder / "p.csv").exists()


def test_where_x_was_set_no_prior_has_a_meaning(folder, run):
    """However large the errors are."""
    berkson = ("--x-err", "2", "--set", "error_model=berkson")
    assert run("fit", "d.csv", "--target", "y", *berkson, *QUICK, "-o", "b.eiv")[::2] == (0, "")
    for name in ("flat", "mixture"):
        status, _, err = run("predict", "b.eiv", "new.csv", "-o", "p.csv", "--input-prior", name)
        assert status == 2
        assert err.startswith("error: --input-prior has no meaning for error_model='berkson'")
