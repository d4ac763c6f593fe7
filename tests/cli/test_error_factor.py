"""That stated errors of the inputs are not taken as they are, wherever a model shows."""

import re

import numpy as np
import pandas as pd
import pytest

from eiv.report.words import factor_sentence

QUICK = ("--set", "epochs=2", "--set", "n_hidden=1", "--set", "hidden_units=8", "--set", "n_theta=4")
GIVEN = (
    "Stated errors of X are taken at 0.5 of their size, as x_err_factor=0.5 says; x_err_factor=1 takes them as stated."
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table whose error is 0.02."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-2, 2, 80)
    x, y = zeta + 0.02 * random.normal(size=80), np.sin(3 * zeta) + 0.02 * random.normal(size=80)
    pd.DataFrame({"x": x, "y": y}).round(5).to_csv(tmp_path / "d.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def page(path):
    return " ".join(re.sub(r"<[^>]+>", " ", path.read_text()).split())


def words(text):
    """In one line, and without the frames of tables."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("factor", [0.5, 1])
def test_a_factor_that_was_given_is_said_by_each_command(folder, run, factor):
    given = ("--set", f"x_err_factor={factor}")
    status, out, err = run("fit", "d.csv", "--target", "y", "--x-err", "0.02", *QUICK, *given, "-o", "m.eiv")
    assert (status, err) == (0, "")
    expected = factor == 0.5
    assert (GIVEN in out) == expected
    assert (GIVEN in words(run("info", "m.eiv", width=100)[1])) == expected
    for command in (("predict", "m.eiv", "d.csv", "-o", "p.csv"), ("explain", "m.eiv", "d.csv", "--row", "1")):
        assert run(*command)[::2] == (0, f"warning: {GIVEN}\n" if expected else "")
    for table in ([], ["d.csv"]):
        assert run("report", "m.eiv", *table, "-o", "m.html", "--force")[0] == 0
        assert page(folder / "m.html").count(GIVEN) == 2 * expected  # at the top, and where the settings are


@pytest.mark.filterwarnings("default::eiv.SuspiciousErrorWarning")
def test_one_that_the_labels_ask_for_says_so(folder, run):
    small = ("--set", "network=cosine", "--set", "hidden_units=16", "--holdout", "0")
    status, out, err = run("fit", "d.csv", "--target", "y", "--x-err", "0.5", *small, "-o", "m.eiv")
    assert status == 0
    assert err.startswith("warning: The labels contradict the errors of X")
    (found,) = re.findall(r"Stated errors of X .* takes them as stated\.", out)
    assert re.fullmatch(
        r"Stated errors of X are (ignored|taken at 0\.25 of their size), since the labels contradict them; "
        r"x_err_factor=1 takes them as stated\.",
        found,
    )
    assert found in words(run("info", "m.eiv", width=100)[1])
    assert run("predict", "m.eiv", "d.csv", "-o", "p.csv")[2] == f"warning: {found}\n"


def test_the_sentence():
    assert factor_sentence(1.0, None) == factor_sentence(1.0, 1) == ""
    assert factor_sentence(0.25, "auto").startswith("Stated errors of X are taken at 0.25 of their size, since the")
    assert factor_sentence(0.0, None).startswith("Stated errors of X are ignored, since the labels contradict them;")
    assert factor_sentence(2, 2).startswith("Stated errors of X are taken at 2 of their size, as x_err_factor=2 says;")
