"""The Python of pages that say so runs as written."""

from pathlib import Path

import pytest

from test_readme import blocks

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.filterwarnings("ignore::eiv.UnlikeRowsWarning")
def test_the_page_on_scikit_learn_runs():
    names = {}
    for block in blocks((DOCS / "scikit-learn.md").read_text()):
        assert block.language == "python"
        exec(block.text, names)
    assert (names["low"] < names["high"]).all()
    assert names["mean"].shape == (200,)
