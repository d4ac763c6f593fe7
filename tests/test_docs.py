"""The Python of the pages in docs/ runs as written, each page in its order. `make test` takes smaller fits."""

import shutil
from pathlib import Path

import pytest

from eiv.training.settings import RECIPES
from pages import MARK, blocks, to_run

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
FOUND = {path.name: blocks(path.read_text(encoding="utf-8")) for path in DOCS}
WITH_PYTHON = [name for name, found in FOUND.items() if to_run(found, "python")]


def test_blocks_are_found():
    for path in DOCS:
        assert len(FOUND[path.name]) == path.read_text(encoding="utf-8").count("```") / 2, path.name
    assert {"classes.md", "compare.md", "modelfiles.md"} <= {*WITH_PYTHON}
    skipped = blocks(f"<!-- {MARK}slow -->\n```python\nx = 1\n```\n\n```python\ny = 2\n```\n")
    assert [block.text for block in to_run(skipped, "python")] == ["y = 2\n"]
    assert to_run(blocks(f"<!-- {MARK}-->\n```python\nx = 1\n```\n"), "python"), "without a reason it has to run"


@pytest.mark.parametrize("size", ["quick", pytest.param("full", marks=pytest.mark.slow)])
@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_blocks_run_in_order(page, size, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    if size == "quick":
        for name, value in {"_COSINES": 32, "_STEPS": 50, "_UNITS": 16}.items():
            monkeypatch.setattr(f"eiv.training.settings.{name}", value)
        monkeypatch.setitem(RECIPES["paper"], "epochs", 2)
    names = {}
    for block in to_run(FOUND[page], "python"):
        exec(compile(block.text, page, "exec"), names)
