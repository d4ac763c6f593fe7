"""The six diffs of docs/extending.md: each touches few files, applies to the package, and what it adds works."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "extending.md"
FILES = {  # the most that a change may touch
    "A weight family": 2,
    "A rule for σ_y": 1,
    "An input prior": 2,
    "A likelihood": 3,
    "A setting": 2,
    "A command": 2,
}
# Each is fitted by its name, predicts, and comes back from a file that knows the name.
USE = """
import doctest, importlib, json, sys, warnings
import numpy as np
from eiv import EiVClassifier, EiVRegressor

warnings.simplefilter("ignore")
random = np.random.default_rng(0)
X = random.uniform(0.1, 1, (40, 2))
y = X.sum(1) + 0.1 * random.standard_normal(40)
fast = {"recipe": "paper", "hidden_units": 8, "n_theta": 10, "random_state": 0}
added = {"posterior": "uniform_dropout", "y_noise": "median", "input_prior": "positive", "likelihood": "laplace"}
found = {}
for name, value in added.items():
    model = EiVRegressor(0.1, epochs=2, **fast | {name: value}).fit(X, y)
    p = model.predict_distribution(X[:5])
    assert np.isfinite(p.quantile([0.1, 0.9], of="label")).all() and (p.std > 0).all()
    model.save("model.eiv")
    again = EiVRegressor.load("model.eiv")
    np.testing.assert_array_equal(again.predict_distribution(X[:5]).mean, p.mean)
    found[name] = type({"posterior": again.posterior_, "input_prior": again.input_prior_,
                        "likelihood": again.model_.likelihood}.get(name)).__name__
    if name == "input_prior":
        zetas = again.model_.draw_zeta(X, np.full((1, 2), 0.1), 50, random)
        found["least zeta"] = float(zetas.min())
    if name == "likelihood":
        low, high = (p.quantile(level, of="label") for level in (0.001, 0.999))
        found["tails"] = float(((high - low) / p.total).min())
wild = np.where(np.arange(40) < 2, 100.0, y)
rules = [EiVRegressor(0.1, epochs=2, y_noise=rule, **fast).fit(X, wild).y_noise_ for rule in ("median", "rmse")]
found["noise"] = float(rules[0][0] / rules[1][0])
first = [EiVRegressor(epochs=4, warm_up=share, **fast).fit(X, y).loss_curve_[0, 0] for share in (0.0, 1.0)]
found["first losses"] = [float(loss) for loss in first]
found["of classes"] = EiVClassifier(epochs=2, warm_up=0.5, **fast).fit(X, y > 1).settings_.warm_up
found["in words"] = ["over which the step size rises" in each.__doc__ for each in (EiVRegressor, EiVClassifier)]
for module in ("posteriors.uniform_dropout", "likelihoods.noise", "inputs.positive", "likelihoods.laplace"):
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(importlib.import_module(f"eiv.{module}"), optionflags=options).failed == 0
print(json.dumps(found))

from eiv.cli import main
sys.argv = ["eiv", "families"]
main()
"""


def diffs():
    """The diffs of the page by the titles of their sections."""
    found = re.findall(r"^## (.+?)$.*?^```diff\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return dict(found)


def test_each_change_is_there_and_touches_few_files():
    assert diffs().keys() == FILES.keys()
    for title, diff in diffs().items():
        touched = set(re.findall(r"^\+\+\+ b/(\S+)$", diff, re.MULTILINE))
        assert 1 <= len(touched) <= FILES[title], (title, touched)
        assert all(name.startswith("src/eiv/") for name in touched)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_changes_apply_and_what_they_add_works(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # the settings of ruff
    for title, diff in diffs().items():
        applied = subprocess.run(
            ["git", "apply", "-"], input=diff.encode(), cwd=tmp_path, capture_output=True, check=False, timeout=60
        )
        assert applied.returncode == 0, f"{title}: {applied.stderr.decode()}"
    for check in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--no-cache", "src"],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "PYTHONUTF8": "1", "COLUMNS": "120"}
    shown = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    first, _, listed = shown.stdout.partition("\n")
    found = json.loads(first)
    assert found["posterior"] == "UniformDropout"
    assert found["input_prior"] == "PositivePrior"
    assert found["likelihood"] == "LaplaceLikelihood"
    assert found["least zeta"] > 0
    assert found["tails"] > 7  # normal labels reach 6.2 standard deviations between these quantiles, Laplace's 8.8
    assert found["noise"] < 0.5  # two wild labels of forty raise the RMSE alone
    assert found["first losses"][0] < found["first losses"][1]  # smaller steps have come less far
    assert found["of classes"] == 0.5
    assert found["in words"] == [True, True]
    assert "uniform_dropout" in listed
