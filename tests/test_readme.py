"""The README runs as written: its Python here, its commands in a copy of what they need.

`make test` takes smaller networks than the recipe and fewer rows, and runs the commands one by one in its process.
The numbers that the text states are those of the recipe itself: `make test-all` compares them, and runs the commands in
a shell.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import eiv
from pages import MARK, Block, blocks, to_run
from processes import MAIN, process_group

README = Path(__file__).parents[1] / "README.md"
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


BLOCKS = blocks(README.read_text())


def test_every_block_runs_or_says_why_not():
    assert len(BLOCKS) == README.read_text().count("```") / 2
    for block in BLOCKS:
        assert block.language in ("python", "sh") or block.mark.startswith(MARK), block.text
    assert len(to_run(BLOCKS, "python")) >= 2
    assert len(to_run(BLOCKS, "sh")) >= 2
    assert blocks("<!-- not run by the tests: slow -->\n```sh\nls\n```\n") == [Block("sh", "ls\n", MARK + "slow")]


@pytest.mark.parametrize("size", ["quick", pytest.param("full", marks=pytest.mark.slow)])
def test_python_blocks_run_in_order(capsys, monkeypatch, size):
    if size == "quick":
        monkeypatch.setattr("eiv.training.settings._COSINES", 96)
    names = {}
    for block in to_run(BLOCKS, "python"):
        exec(block.text, names)
    shown = capsys.readouterr().out
    assert "aleatoric" in shown
    (said,) = re.findall(r"In this example it is ([\d.]+), and the truth is 0.05", " ".join(README.read_text().split()))
    if size == "full":
        assert round(names["p"].noise[0], 2) == float(said)
    assert 0.03 < names["p"].noise[0] < 0.08
    assert names["curve"].shape == (50,)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder with what the commands read, in which they run."""
    for name in ("examples", "results"):
        shutil.copytree(README.parent / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EIV_CACHE", str(tmp_path / "cache"))
    return tmp_path


def check_answers(folder, shown):
    """That the commands have left what they should: the share of the variance that the README says, and that shown."""
    assert {"model.eiv", "predictions.csv", "report.html"} < {path.name for path in folder.iterdir()}
    found = pd.read_csv(folder / "predictions.csv")
    assert len(found) == len(pd.read_csv(README.parent / "examples" / "new.csv"))
    assert (found["total"] > found["std"]).all()
    (share,) = re.findall(r"they make up (\d+) % of the variance of a new label", " ".join(shown.split()))
    (said,) = re.findall(r"the input errors make up (\d+) %", " ".join(README.read_text().split()))
    return int(said), int(share)


@pytest.mark.usefixtures("unrendered")
def test_commands_run_in_order(clone, run, monkeypatch):
    """Each line of the blocks, in this process."""
    monkeypatch.setattr("eiv.training.settings._COSINES", 32)
    sensor = clone / "examples" / "humidity.csv"
    sensor.write_text("".join(sensor.read_text().splitlines(keepends=True)[:81]))
    shown = ""
    for block in to_run(BLOCKS, "sh"):
        for line in block.text.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "eiv"
            status, out, err = run(*arguments, width=100)
            assert (status, err) == (0, ""), line
            shown += out
    check_answers(clone, shown)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs sh, and a script as a command")
def test_command_blocks_run_in_order(clone):
    """Each block in a shell, by the recipe itself."""
    command = clone / "bin" / "eiv"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{MAIN}" "$@"\n')
    command.chmod(0o755)
    paths = {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(eiv.__file__).parents[1]),
    }
    shown = ""
    for block in to_run(BLOCKS, "sh"):
        environment = os.environ | paths | {"COLUMNS": "100"}
        with process_group(["sh", "-e", "-c", block.text], cwd=clone, env=environment, **PIPES) as process:
            out, err = process.communicate(timeout=1800)
        assert process.returncode == 0, f"{block.text}\n{out}\n{err}"
        assert err == ""
        shown += out
    said, share = check_answers(clone, shown)
    assert abs(share - said) < 10


def test_links_lead_somewhere():
    folder = README.parent
    for page in (*folder.glob("*.md"), *folder.glob("docs/*.md"), *folder.glob("examples/*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
