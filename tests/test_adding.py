"""What can be added by name, in a copy of the package: how many source files that touches, and that the name works.

Each source file is what `tests/test_extending.py` passes from outside as an object.
"""

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import eiv
import test_extending as outside
from likelihoods import student_t

PACKAGE = Path(eiv.__file__).parent
MOST_FILES = {"posterior": 2, "y_noise": 1, "input_prior": 2, "likelihood": 3, "setting": 2, "command": 2}
NAMES = {"posterior": "common_factor", "y_noise": "fixed_share", "input_prior": "shrunk", "likelihood": "student_t"}
FIT = """
import json
import sys
import warnings

import numpy as np

import eiv
from eiv import EiVRegressor
from eiv.training.diagnostics import LooseBoundWarning

warnings.simplefilter("ignore", LooseBoundWarning)
random = np.random.default_rng(0)
X = random.uniform(-1, 1, (60, 2))
y = X.sum(1) + 0.1 * random.standard_normal(60)
found = {"package": eiv.__file__}
for argument, name in json.loads(sys.argv[1]).items():
    model = EiVRegressor(
        0.1, **{argument: name}, recipe="paper", hidden_units=8, n_hidden=2, epochs=5, n_theta=10, random_state=0
    ).fit(X, y)
    p = model.predict_distribution(X[:5])
    model.save("m.eiv")
    again = EiVRegressor.load("m.eiv").predict_distribution(X[:5])
    low, high = p.interval(of="label")
    try:
        EiVRegressor(0.1, **{argument: "nonsense"}).fit(X, y)
    except ValueError as error:
        refusal = str(error)
    found[argument] = {
        "is_same": np.array_equal(again.mean, p.mean) and np.array_equal(again.total, p.total),
        "is_finite": bool(np.isfinite([p.mean, p.std, low, high]).all() and (p.std > 0).all()),
        "is_listed": repr(name) in refusal,
    }
found["greeting"] = EiVRegressor(greeting="hello", epochs=1, hidden_units=8).fit(X, y).settings_.greeting
print(json.dumps(found))
"""


def insert(path, after, text):
    """Insert `text` after a line that the file has once."""
    before, place, rest = path.read_text(encoding="utf-8").partition(after)
    assert place, f"{path} has no {after!r}"
    path.write_text(before + place + text + rest, encoding="utf-8")


def add_posterior(room):
    source = inspect.getsource(outside.CommonFactor)
    (room / "common_factor.py").write_text(f"from eiv.posteriors.base import Theta, WeightPosterior\n\n\n{source}")
    insert(room / "__init__.py", "import Ensemble\n", "from eiv.posteriors.common_factor import CommonFactor\n")
    insert(room / "__init__.py", "FAMILIES: dict[str, type[WeightPosterior]] = {", '"common_factor": CommonFactor,')


def add_y_noise(room):
    insert(room / "noise.py", "return log_noise.exp(), (bend * some.shape[1]).rsqrt()\n", "\n\n" + SHARE)
    insert(room / "noise.py", "NOISE_RULES: dict[str, NoiseRule] = {", '"fixed_share": FixedShare(),')


SHARE = inspect.getsource(outside.FixedShare)


def add_input_prior(room):
    imports = "import torch\nfrom dataclasses import dataclass\nfrom eiv.inputs.zeta import ZetaNormal\n\n\n"
    (room / "shrunk.py").write_text(imports + inspect.getsource(outside.Shrunk))
    insert(room / "__init__.py", "import Rows\n", "from eiv.inputs.shrunk import Shrunk\n")
    insert(room / "__init__.py", "PRIORS: dict[str, InputPrior | LearnedPrior] = {", '"shrunk": Shrunk(),')
    insert(room / "__init__.py", "PRIOR_KINDS: dict[str, type] = {", '"shrunk_prior": Shrunk,')


def add_likelihood(room):
    shutil.copy(student_t.__file__, room / "student_t.py")
    insert(room / "__init__.py", "import NormalLikelihood\n", "from eiv.likelihoods.student_t import StudentT\n")
    insert(room / "__init__.py", "LIKELIHOODS: dict[str, type[Likelihood]] = {", '"student_t": StudentT, ')


def add_setting(package):
    setting = 'greeting: str = fixed(v.anything("a word"), "a word.", "")\n    '
    insert(package / "training" / "settings.py", 'SETTINGS["epochs"].paper\n        100\n\n    """\n\n    ', setting)
    estimator = package / "regressor" / "estimator.py"
    insert(estimator, "verbose: whether training shows a progress bar.\n", "        greeting: a word.\n")
    insert(estimator, "verbose: bool = False,\n", '        greeting: str = "",\n')
    insert(estimator, "self.verbose = verbose\n", "        self.greeting = greeting\n")


def add_command(room):
    (room / "greet.py").write_text(
        "from eiv.cli.app import app, console\n\n\n@app.command()\ndef greet() -> None:\n"
        '    """Say hello."""\n    console.print("hello")\n'
    )
    insert(room / "__init__.py", "from eiv.cli import datasets, explain, fit, ", "greet, ")


ADDITIONS = {
    "posterior": ("posteriors", add_posterior),
    "y_noise": ("likelihoods", add_y_noise),
    "input_prior": ("inputs", add_input_prior),
    "likelihood": ("likelihoods", add_likelihood),
    "setting": ("", add_setting),
    "command": ("cli", add_command),
}


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.py")}


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the package to which all of it was added, and the files that each addition touched."""
    copy, touched = tmp_path_factory.mktemp("adding") / "eiv", {}
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for what, (room, add) in ADDITIONS.items():
        before = contents(copy)
        add(copy / room)
        touched[what] = sorted(path.as_posix() for path, text in contents(copy).items() if before.get(path) != text)
    return copy, touched


def run(copy, folder, *arguments):
    """The output of a process that imports the copy."""
    environment = os.environ | {"PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command, options = [sys.executable, *arguments], {"cwd": folder, "env": environment}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("what", ADDITIONS)
def test_it_touches_no_more_source_files_than_stated(extended, what):
    _, touched = extended
    assert 0 < len(touched[what]) <= MOST_FILES[what], touched[what]


def test_it_is_fitted_saved_and_listed_by_its_name(extended, tmp_path):
    copy, _ = extended
    found = json.loads(run(copy, tmp_path, "-c", FIT, json.dumps(NAMES)))
    assert Path(found.pop("package")).parent == copy
    assert found.pop("greeting") == "hello"
    assert found == {name: {"is_same": True, "is_finite": True, "is_listed": True} for name in NAMES}


def test_a_command_is_run_by_its_name(extended, tmp_path):
    pytest.importorskip("typer")
    code = "from eiv.cli import main; main()"
    assert run(extended[0], tmp_path, "-c", code, "greet").strip() == "hello"
    assert "Say hello." in run(extended[0], tmp_path, "-c", code, "--help")
