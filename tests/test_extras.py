"""What works without the extras, and the sentence that names the one to install: in processes without the packages."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from eiv import EiVRegressor
from eiv.extras import MissingExtraError, is_installed, needs

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OTHERS = ("parquet", "excel", "onnx", "odr", "flow", "qp", "datasets")  # arviz itself needs matplotlib
NOT_CORE = (
    "typer",
    "rich",
    "jinja2",
    "matplotlib",
    "pyarrow",
    "openpyxl",
    "onnx",
    "onnxruntime",
    "odrpack",
    "zuko",
    "qp",
    "arviz",
)

with_all = pytest.mark.skipif(
    not all(map(is_installed, NOT_CORE)), reason="needs the extras, to take some of them away"
)

WITHOUT = """
import importlib.abc, sys

class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
"""

TRY = """
import zipfile

def sentence(use):
    try:
        use()
    except ImportError as error:
        assert isinstance(error, MissingExtraError), repr(error)
        return str(error)
    except zipfile.BadZipFile:
        return "BadZipFile"
    return "it works"
"""

CORE = """
import json, sys, tempfile
from pathlib import Path
import eiv
from eiv.extras import MissingExtraError
light = sorted({"torch", "pandas"} & set(sys.modules))
import numpy as np, pandas as pd
from eiv.datasets import overview
from eiv.metrics import rmse

random = np.random.default_rng(0)
X = pd.DataFrame({"a": random.normal(size=60), "b": random.normal(size=60)})
y = X["a"] - X["b"]
model = eiv.EiVRegressor(0.1, epochs=20, recipe="paper", hidden_units=8, random_state=0, verbose=True).fit(X, y)
p = model.predict_distribution(X[:5], budget=True)
folder = Path(tempfile.mkdtemp())
model.save(folder / "m.eiv")
again = eiv.EiVRegressor.load(folder / "m.eiv")

def page():
    from eiv.io.modelfile import read_header
    from eiv.report import write_model_page
    write_model_page(folder / "page.html", model.model_, read_header(folder / "m.eiv"))

def workbook():
    from eiv.datasets._parsers import workbook
    workbook(None, 1)(b"")

def tables():
    import eiv.io.tables

def odr():
    from eiv.baselines import OrthogonalDistance
    OrthogonalDistance(0.1).fit(X, y + 0.1 * random.normal(size=60))

def flow():
    eiv.law_from_pairs(random.normal(size=20), np.zeros(20), flow=True)

def experiments():
    import eiv.experiments.paper.run

found = {
    "light": light,
    "same": bool((again.predict(X[:5]) == model.predict(X[:5])).all()),
    "frame": p.to_frame().shape[0],
    "data": len(overview()),
    "rmse": rmse(y, model.predict(X)) >= 0,
    "figure": sentence(lambda: p.plot_budget()),
    "page": sentence(page),
    "onnx": sentence(lambda: model.export(folder / "m.onnx", "onnx")),
    "workbook": sentence(workbook),
    "tables": sentence(tables),
    "odr": sentence(odr),
    "flow": sentence(flow),
    "qp": sentence(lambda: p.to_qp()),
    "arviz": sentence(lambda: p.to_arviz()),
    "experiments": sentence(experiments),
    "left": sorted(path.name for path in folder.iterdir()),
    "loaded": sorted({packages} & set(sys.modules)),
}
print(json.dumps(found))
"""

SENTENCES = {
    "figure": 'A figure needs matplotlib, which is missing: pip install "eiv[report]"',
    "page": 'A page needs jinja2 and matplotlib, which are missing: pip install "eiv[report]"',
    "onnx": 'Export to ONNX needs onnx, which is missing: pip install "eiv[onnx]"',
    "workbook": 'An Excel workbook needs openpyxl, which is missing: pip install "eiv[datasets]"',
    "tables": 'eiv.io.tables needs pyarrow, which is missing: pip install "eiv[parquet]"',
    "odr": 'Orthogonal distance regression needs odrpack, which is missing: pip install "eiv[odr]"',
    "flow": 'A law of errors as a flow needs zuko, which is missing: pip install "eiv[flow]"',
    "qp": 'Prediction.to_qp needs qp, which is missing: pip install "eiv[qp]"',
    "arviz": 'Prediction.to_arviz needs arviz, which is missing: pip install "eiv[arviz]"',
    "experiments": 'eiv.experiments needs rich, which is missing: pip install "eiv[cli]"',
}

COMMANDS = """
import json, sys
from eiv.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["eiv", *arguments]
    try:
        main()
    except SystemExit as end:
        print("status", end.code, file=sys.stderr, flush=True)
"""


def run_without(packages, code, *arguments, cwd=None):
    """What a process that cannot import `packages` prints."""
    code = WITHOUT.format(packages=set(packages)) + code
    call = [sys.executable, "-c", code, *arguments]
    return subprocess.run(call, capture_output=True, encoding="utf-8", timeout=240, cwd=cwd, check=False)


def test_the_core_works_without_any_extra():
    ended = run_without(NOT_CORE, TRY + CORE.replace("{packages}", repr(set(NOT_CORE))))
    assert ended.returncode == 0, ended.stderr
    *lines, last = ended.stdout.splitlines()
    assert json.loads(last) == {
        "light": [],
        "same": True,
        "frame": 5,
        "data": 13,
        "rmse": True,
        **SENTENCES,
        "left": ["m.eiv"],
        "loaded": [],
    }
    progress = [line for line in lines if line.startswith("training")]
    assert len(progress) == 10
    assert re.fullmatch(r"training 20/20 epochs  loss \S+  sigma_y \S+", progress[-1])


@with_all
@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (["typer"], "typer, which is missing"),
        (["rich"], "rich, which is missing"),
        (["pyarrow"], "pyarrow, which is missing"),
        (["typer", "rich", "pyarrow"], "typer, rich and pyarrow, which are missing"),
    ],
)
def test_without_its_packages_the_command_line_is_one_sentence(missing, words):
    ended = run_without(missing, COMMANDS, json.dumps([["--version"]]))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f'error: The command line needs {words}: pip install "eiv[cli]"\n'


@with_all
def test_the_command_line_without_the_other_extras(tmp_path):
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 2)).round(3)
    table = "\n".join(["a,b,y", *(f"{a},{b},{a - b:.3f}" for a, b in rows)])
    (tmp_path / "table.csv").write_text(table, encoding="utf-8")
    (tmp_path / "table.xlsx").write_bytes(b"PK\3\4")
    (tmp_path / "table.fits").write_bytes(b"SIMPLE")
    commands = [
        "fit table.csv --target y --x-err 0.1 --recipe paper --set epochs=2 -o m.eiv",
        "predict m.eiv table.csv -o p.parquet",
        "explain m.eiv table.csv --row 3",
        "info m.eiv",
        "datasets",
        "predict m.eiv table.xlsx -o p.csv",
        "predict m.eiv table.fits -o p.csv",
        "explain m.eiv table.csv --row 3 -o budget.png",
        "report m.eiv table.csv -o page.html",
        "reproduce --out quick",
        "study coverage --out study",
        "study posteriors --out study",
        "study tables --out study --seeds 0:1",
    ]
    missing = ("jinja2", "matplotlib", "openpyxl", "onnx", "onnxruntime", "astropy")
    ended = run_without(missing, COMMANDS, json.dumps([command.split() for command in commands]), cwd=tmp_path)
    lines = [line for line in ended.stderr.splitlines() if line.startswith(("status", "error"))]
    of_pages = 'needs jinja2 and matplotlib, which are missing: pip install "eiv[report]"'
    assert lines == [
        *["status 0"] * 5,
        'error: table.xlsx: reading Excel needs openpyxl, which is missing: pip install "eiv[excel]"',
        "status 2",
        'error: table.fits: reading FITS needs astropy, which is missing: pip install "eiv[astro]"',
        "status 2",
        'error: A picture needs matplotlib, which is missing: pip install "eiv[report]"',
        "status 2",
        f"error: eiv report {of_pages}",
        "status 2",
        f"error: eiv reproduce {of_pages}",
        "status 2",
        *[f"error: eiv study {of_pages}", "status 2"] * 3,
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", "table.xlsx", "table.fits", "m.eiv", "p.parquet"}


@pytest.mark.slow
@with_all
@pytest.mark.parametrize("extra", ["report", *OTHERS])
def test_each_extra_works_without_the_others(extra):
    """In particular from Python, without the command line."""
    hidden = set(NOT_CORE) - packages_of(extra)
    ended = run_without(hidden, TRY + CORE.replace("{packages}", repr(hidden)))
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    works = {
        "report": {"figure", "page"},
        "parquet": {"tables"},
        "onnx": {"onnx"},
        "odr": {"odr"},
        "flow": {"flow"},
        "qp": {"qp"},
    }.get(extra, {"workbook"})
    assert {name for name in SENTENCES if found[name] == SENTENCES[name]} == set(SENTENCES) - works
    assert {found[name] for name in works} <= {"it works", "BadZipFile"}  # the latter from openpyxl itself
    assert found["loaded"] == []


def test_without_rich_progress_is_ten_lines(line, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich", None)
    EiVRegressor(0.1, epochs=25, hidden_units=8, recipe="paper", verbose=True).fit(*line)
    shown = [words for words in capsys.readouterr().out.splitlines() if words.startswith("training")]
    assert [int(re.match(r"training (\d+)/25 epochs  loss", words)[1]) for words in shown] == [
        *(3, 5, 8, 10, 13, 15, 18, 20, 23, 25)
    ]


def packages_of(extra):
    """The packages that an extra installs, those of the extras that it names included."""
    names = set()
    for requirement in EXTRAS[extra]:
        own = re.fullmatch(r"eiv\[(.*)\]", requirement)
        names |= (
            set().union(*map(packages_of, own[1].split(",")))
            if own
            else {re.match(r"[\w-]+", requirement)[0].lower().removesuffix("-prob")}  # qp-prob is imported as qp
        )
    return names


def test_each_extra_installs_what_is_missing_without_it():
    calls = [
        (re.findall(r'"([^"]+)"', packages), extra)
        for path in (ROOT / "src").rglob("*.py")
        for packages, extra in re.findall(r'^ *needs\(f?"[^"]*", (.*), extra="(\w+)"\)', path.read_text("utf-8"), re.M)
    ]
    assert {extra for _, extra in calls} == set(EXTRAS) - {
        "all",
        "docs",
        "publish",
        "dev",
    }  # `make` installs the last three
    for packages, extra in calls:
        assert set(packages) <= packages_of(extra)


def test_all_installs_every_extra_and_dev_installs_all():
    needed_by_sklearn = {"joblib", "narwhals"}  # the second from 1.9 on
    assert packages_of("all") == {*NOT_CORE, *needed_by_sklearn, "astropy"}
    assert packages_of("dev") > packages_of("all")
    core = {re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert not core & packages_of("all")


def test_only_experiments_and_commands_need_the_joblib_of_the_extra():
    """scikit-learn brings an older one too, so a process without it cannot show this.

    Clusters and `fit_splits` use no more than `Parallel`, `parallel_config` and the active backend of that one.
    `tasks`, which the commands use, takes its processes.
    """
    package = ROOT / "src" / "eiv"
    users = [
        path for path in package.rglob("*.py") if re.search(r"^\s*(import|from) joblib", path.read_text("utf-8"), re.M)
    ]
    rest = {path.relative_to(package).as_posix() for path in users if path.parent.name not in ("cli", "experiments")}
    assert rest == {"io/clusters.py", "io/tasks.py", "regressor/splits.py"}


def test_a_folder_of_the_name_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "no_package_of_ours").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("no_package_of_ours")
    with pytest.raises(MissingExtraError, match=r'This needs no_package_of_ours, .*: pip install "eiv\[cli\]"'):
        needs("This", "numpy", "no_package_of_ours", extra="cli")
