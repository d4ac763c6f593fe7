"""The README's Python runs as written."""

import re
import textwrap
from pathlib import Path

import pytest
import sklearn

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture
def routing_restored():
    before = sklearn.get_config()
    yield
    sklearn.set_config(**before)


def test_python_blocks_run_in_order(routing_restored, capsys):
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", README.read_text(), flags=re.S | re.M)
    assert len(blocks) >= 2
    names = {}
    for _, block in blocks:
        exec(textwrap.dedent(block), names)
    shown = capsys.readouterr().out
    assert "aleatoric" in shown
    assert 0.15 < names["p"].noise[0] < 0.25  # "near 0.2", as the text says
    assert names["curve"].shape == (50,)


def test_links_lead_somewhere():
    for page in (README, *README.parent.glob("docs/*.md"), README.parent / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
