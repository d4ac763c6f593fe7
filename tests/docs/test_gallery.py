"""The gallery and the notebook run. The quick pages run in every `make test`, all of them in `make test-all`."""

import json
import re
from pathlib import Path

import pytest

from eiv.extras import is_installed
from pages import blocks, to_run

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "gallery").glob("*.py"))
QUICK = {"calibration_repeats"}  # under ten seconds on one core

pytestmark = pytest.mark.skipif(not is_installed("matplotlib"), reason="the pages draw figures")


@pytest.fixture
def plt(monkeypatch):
    """matplotlib without a window."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415 - of an extra

    plt.switch_backend("Agg")
    yield plt
    plt.close("all")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.stem in QUICK else pytest.mark.slow, id=page.stem) for page in PAGES],
)
def test_a_page_runs_and_draws(page, monkeypatch, capsys, plt):
    monkeypatch.chdir(page.parent)
    exec(compile(page.read_text("utf-8"), page.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out
    assert plt.get_fignums()


@pytest.mark.slow
def test_the_notebook_runs(plt):
    cells = json.loads((ROOT / "examples" / "ten_lines.ipynb").read_text("utf-8"))["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "outputs belong to the site, which runs the notebook"
            exec("".join(cell["source"]), names)
    assert names["p"].std.shape == (5,)
    assert plt.get_fignums()


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("from_*.md")), ids=lambda page: page.stem)
def test_what_a_page_of_moving_over_prints_is_what_it_says(page, capsys):
    pytest.importorskip("odrpack")
    text = page.read_text("utf-8")
    names = {}
    for block in to_run(blocks(text), "python"):
        exec(block.text, names)
    shown = re.findall(r"\d\.\d+", capsys.readouterr().out)
    prose = re.sub(r"^```.*?^```|^\|.*?$", "", text, flags=re.S | re.M)
    said = re.findall(r"(?<![\d./])\d\.\d\d(?!\d)", prose)  # figures of fits; those of the simulation have one digit
    assert said
    for figure in said:
        assert any(abs(float(figure) - float(number)) < 0.015 for number in shown), figure
