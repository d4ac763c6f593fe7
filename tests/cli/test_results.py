"""`eiv report` of a folder of results: what it replaces, and what is said of damaged tables."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eiv.datasets import SIMULATED
from eiv.experiments.paper.tables import Tables
from scenarios import run_tables

KEPT = Path(__file__).parents[2] / "results"


@pytest.mark.usefixtures("unrendered")
def test_the_page_of_results_is_not_replaced_without_force(run, tmp_path):
    results, page = tmp_path / "results", tmp_path / "page.html"
    results.mkdir()
    run_tables(sets=["yacht"]).write(results)
    page.write_text("mine")
    status, _, err = run("report", results, "-o", page)
    assert (status, err) == (2, f"error: {page} exists already; use --force to replace it.\n")
    assert page.read_text() == "mine"
    assert run("report", results, "-o", page, "--force")[0] == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert [run("report", results)[0] for _ in range(2)] == [0, 0], "its own page is renewed"
    figures = tmp_path / "page"
    figures.mkdir()
    (figures / "scores.png").write_text("mine")
    status, _, err = run("report", results, "-o", tmp_path / "page.md")
    assert (status, err) == (2, f"error: {figures} exists already; use --force to replace figures in it.\n")
    assert (figures / "scores.png").read_text() == "mine"
    table = results / "networks.csv"
    before = table.read_bytes()
    assert "networks.csv is an input" in run("report", results, "-o", table, "--force")[2]
    assert table.read_bytes() == before


@pytest.mark.parametrize("folder", [".", "coverage", "posteriors", "tables", "errors"])
@pytest.mark.usefixtures("unrendered")
def test_the_page_of_each_kept_run_is_made_again(run, tmp_path, folder):
    assert run("report", KEPT / folder, "-o", tmp_path / "page.md")[0] == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("name", ["report.html", "figures", "figures/scores.svg", "claims.csv", "page.md"])
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.usefixtures("unrendered")
def test_the_page_of_results_follows_no_links(run, tmp_path, made_up_run, name, there):
    results, outside = tmp_path / "results", tmp_path / "outside"
    (results / name).parent.mkdir(parents=True)
    shutil.copytree(made_up_run, results, dirs_exist_ok=True)
    if there and name == "figures":
        outside.mkdir()
    elif there:
        outside.write_text("mine")
    (results / name).symlink_to(outside)
    status, _, err = run("report", results, *(["-o", results / name, "--force"] if name == "page.md" else []))
    assert status == 2
    assert err.endswith(f"{Path(name).name} is a symbolic link in a folder of results; remove it first.\n")
    if not there:
        assert not outside.exists()
    elif name == "figures":
        assert not list(outside.iterdir())
    else:
        assert outside.read_text() == "mine"


def cut(content, share):
    return content[: int(share * len(content))]


DAMAGE = {
    "in a line": lambda content: cut(content, 0.7).rstrip(b"\n"),
    "after a line": lambda content: cut(content, 0.7).rpartition(b"\n")[0] + b"\n",
    "header only": lambda content: content.partition(b"\n")[0] + b"\n",
    "empty": lambda content: b"",
    "no text": lambda content: b"\x00\xff" * 500 + b"\n",
    "other columns": lambda content: b"a,b\n1,2\n",
    "words": lambda content: content.replace(b"0.1", b"none"),
}


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("table", ["networks", "stacks", "calibration", "points"])
def test_damaged_results_are_one_sentence(run, tmp_path, made_up_run, table, damage):
    shutil.copytree(made_up_run, tmp_path, dirs_exist_ok=True)
    path = tmp_path / f"{table}.csv"
    changed = DAMAGE[damage](path.read_bytes())
    if changed == path.read_bytes():
        pytest.skip("leaves it as it is")
    path.write_bytes(changed)
    status, _, err = run("report", tmp_path)
    assert status == 2
    assert err.startswith(f"error: {tmp_path}: no page can be made of its tables, which are damaged")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize(
    ("table", "column"),
    [("networks", "rmse"), ("networks", "truth_coverage"), ("calibration", "coverage"), ("points", "mean")],
)
def test_results_without_a_score(run, tmp_path, table, column, value):
    results = run_tables()
    found = getattr(results, table)
    replace(results, **{table: found.assign(**{column: [value, *found[column][1:]]})}).write(tmp_path)
    status, _, err = run("report", tmp_path)
    assert status == 2
    assert f"1 of {len(found[found['dataset'].isin(SIMULATED)]) if 'truth' in column else len(found)} rows" in err
    assert f"rows of {table}.csv lack a score" in err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("table", ["calibration", "points"])
def test_results_cut_off_after_any_line(tmp_path, table):
    run_tables(sets=SIMULATED).write(tmp_path)
    Tables.read(tmp_path)
    lines = (tmp_path / f"{table}.csv").read_bytes().splitlines(keepends=True)
    stack = len(lines) // 12  # rows of one, of three for each of four sets
    for n in (1, 2, stack, stack + 1, 3 * stack + 1, 7 * stack + 1, 11 * stack + 1, len(lines) - 50, len(lines) - 1):
        (tmp_path / f"{table}.csv").write_bytes(b"".join(lines[:n]))
        with pytest.raises(ValueError, match=rf"{table}\.csv has \d+ of \d+ rows for \w+, \w+"):
            Tables.read(tmp_path)
