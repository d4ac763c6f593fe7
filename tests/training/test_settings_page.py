"""docs/settings.md has the table that `SETTINGS` gives, and other pages state the values that the code has.

`python tests/training/test_settings_page.py` writes the table anew.
"""

import re
from pathlib import Path

import pytest

from eiv.cli.app import check_seed
from eiv.io.modelfile.header import check_settings
from eiv.likelihoods import NOISE_RULES
from eiv.training import settings
from eiv.training.settings import RECIPES, SETTINGS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "settings.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"


def table():
    """The settings as a table in Markdown."""
    lines = ["| setting | default | paper | meaning |", "|---|---|---|---|"]
    for name, setting in SETTINGS.items():
        takes = setting.check.words + (", or None" if setting.of_recipe else "")
        values = (_value(RECIPES[recipe][name], setting) for recipe in ("default", "paper"))
        cells = (f"`{name}`", *values, f"{setting.text} Takes {takes}.")
        assert not any("|" in cell for cell in cells)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _value(value, setting):
    if value is None and setting.of_recipe:
        return "by the table"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def parts_of_page():
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    found, after = rest.split(END)
    return before, found, after


def test_the_page_has_the_table_of_the_settings():
    assert parts_of_page()[1] == table()


def test_limits_of_pages_are_those_of_the_checks():
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    (most,) = re.findall(r"`n_theta` times `n_zeta` is at most ([\d,]+)", page)
    n_theta, n_zeta = int(most.replace(",", "")) // 1000, 1000
    check_settings({"n_theta": n_theta, "n_zeta": n_zeta})
    with pytest.raises(ValueError, match=f"at most {most}"):
        check_settings({"n_theta": n_theta + 1, "n_zeta": n_zeta})
    (seed,) = re.findall(r"`--seed` is at most ([\d,]+)", page)
    check_seed(int(seed.replace(",", "")))
    with pytest.raises(ValueError, match=f"from 0 to {seed}"):
        check_seed(int(seed.replace(",", "")) + 1)


def test_the_method_page_states_the_values_of_the_default_recipe():
    page = " ".join((DOCS / "method.md").read_text(encoding="utf-8").split())
    words = {0.1: "A tenth", 0.5: "half", 0.8: "a fifth", 30: "thirty", 10: "ten"}
    stated = (
        f"{settings._STEPS:,} steps of {settings._BATCH} rows",
        f"falls over the last {100 * SETTINGS['learning_rate_decay'].default:.0f} %",
        f"at least {words[settings._FEWEST_EPOCHS]} epochs",
        f"minibatches are larger from {settings._ROWS_OF_BATCH:,} rows on",
        f"{words[SETTINGS['held_out'].default]} of the rows is held out of training",
        f"starts at {words[SETTINGS['y_noise_init'].default]} the spread of y",
        f"by at most {words[NOISE_RULES['likelihood'].least_share]} at each of",
        f"{words[settings._NOISE_UPDATES]} updates",
    )
    for sentence in stated:
        assert sentence in page, sentence


if __name__ == "__main__":
    before, _, after = parts_of_page()
    PAGE.write_text(before + BEGIN + table() + END + after, encoding="utf-8")
