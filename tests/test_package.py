"""What is published: wheel and source archive, and the recipe for conda. `make package` also installs the wheel."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import eiv
from eiv.extras import is_installed

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
RECIPE = (ROOT / "conda" / "recipe.yaml").read_text("utf-8")
OTHER_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}  # of the same package, at conda-forge
IN_RECIPE = ("cli", "parquet", "report", "excel", "frames")


def test_the_recipe_has_the_version_and_the_requirements_of_the_package():
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *(name for extra in IN_RECIPE for name in extras[extra])]
    wanted = {name.replace(">=", " >=") for name in wanted if not name.startswith("eiv[")}
    wanted = {f"{OTHER_NAMES.get(name, name)} {bound}" for name, bound in map(str.split, wanted)}
    run = RECIPE.partition("  run:\n")[2].partition("\n\n")[0]
    assert {line.strip(" -") for line in run.splitlines()} == wanted | {f"python {PROJECT['requires-python']}"}
    assert f'version: "{eiv.__version__}"' in RECIPE
    assert [f"- {name} = {target}" for name, target in PROJECT["scripts"].items()] == re.findall(r"- eiv = .*", RECIPE)


def test_the_citation_has_the_version_of_the_package():
    assert f"version: {eiv.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    if not (is_installed("build") and is_installed("twine") and is_installed("check_wheel_contents")):
        pytest.skip('needs the extra "publish"')
    folder = tmp_path_factory.mktemp("dist")
    run("build", "--outdir", folder, ROOT)
    return folder


def run(module, *arguments):
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_archives_pass_the_checks_of_the_registry(archives):
    assert "PASSED" in run("twine", "check", "--strict", *archives.iterdir())
    assert "OK" in run("check_wheel_contents", *archives.glob("*.whl"))


@pytest.mark.slow
def test_the_archives_hold_the_package_and_nothing_of_this_folder(archives):
    (wheel,), (source,) = archives.glob("*.whl"), archives.glob("*.tar.gz")
    ours = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name and ".egg-info" not in name}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == ours
    with tarfile.open(source) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"src", "tests", "docs", "examples", "LICENSE", "README.md", "pyproject.toml"} <= tops
    assert not tops & {".venv", ".git", "build", "dist", ".import_linter_cache", ".mypy_cache"}


def test_the_paper_cites_what_its_bibliography_holds():
    cited = set(re.findall(r"@([\w-]+)", (ROOT / "paper.md").read_text("utf-8").partition("---\n\n")[2]))
    held = set(re.findall(r"^@\w+\{([\w-]+),", (ROOT / "paper.bib").read_text("utf-8"), re.M))
    assert cited == held


def test_figures_of_the_paper_are_those_of_the_readme():
    paper, readme = (" ".join((ROOT / name).read_text("utf-8").split()) for name in ("paper.md", "README.md"))
    assert "inside its 95 % interval in 0.95 to 0.96 of the cases, against 0.76 to 0.95" in paper
    assert "| 0.43 to 0.74 | 0.76 to 0.95 | 0.95 to 0.96 |" in readme
    assert "0.21 standard deviations of the truth, against 0.36" in paper
    assert "in standard deviations of the truth | 0.36 | 0.35 | 0.42 | 0.21 |" in readme
    for both in ("within 3 % of", "four of fifteen"):
        assert both in paper
        assert both in readme
