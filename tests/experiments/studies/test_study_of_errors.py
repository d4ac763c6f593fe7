"""The study of errors of the wrong size: what a unit is, that a small one runs, and its page."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from eiv.experiments.runs import RunOptions
from eiv.experiments.studies import errors
from eiv.experiments.studies.errors import METHODS, STATED, ErrorsUnit, study_errors
from eiv.experiments.studies.errors_page import chance_inside, overview, write_errors_page

KEPT = Path(__file__).parents[3] / "results" / "errors"


def unit(**changes):
    known = {"problem": "sine", "zeta": "normal", "stated": 2.0, "method": "learned", "realisation": 0}
    return ErrorsUnit(**(known | {"n_rows": 60, "seed": 0, "device": "cpu"} | changes))


def test_a_unit_is_named_by_what_it_is_and_its_settings_come_back_from_a_file():
    keys = {unit(stated=stated, method=method).key for stated in STATED for method in METHODS}
    assert len(keys) == 6
    assert json.loads(json.dumps(unit().settings())) == unit().settings()
    assert unit().cost > unit(method="as stated").cost


def test_data_are_the_same_for_all_methods_and_stated_sizes():
    assert unit(stated=0.5, method="as stated")._seed() == unit()._seed()
    assert unit(realisation=1)._seed() != unit()._seed()


@pytest.mark.usefixtures("without_workers")
@pytest.mark.slow
def test_a_small_study_runs_and_makes_its_page(monkeypatch, tmp_path):
    monkeypatch.setattr(errors, "STATED", (2.0,))
    monkeypatch.setattr(errors, "ZETAS", ("normal",))
    monkeypatch.setattr(errors, "COSINES", 8)
    table = study_errors(tmp_path, n_realisations=1, n_rows=60, problems=["quadratic"], options=RunOptions("cpu"))
    assert list(table["method"]) == list(METHODS)
    stated, learned = (table[table["method"] == method].iloc[0] for method in METHODS)
    assert (stated["size_ratio"], stated["size_std"]) == (2, 0)
    assert learned["size_std"] > 0
    page = write_errors_page(tmp_path, tmp_path / "page.md").read_text()
    assert "This is not the whole study: without linear, cubic, sine." in page
    assert (tmp_path / "page" / "errors_size.png").is_file()


def test_the_page_of_the_kept_results_is_the_one_in_the_docs(tmp_path):
    page = write_errors_page(KEPT, tmp_path / "errors_study.md").read_text()
    assert page == (KEPT.parents[1] / "docs" / "errors_study.md").read_text()
    table = pd.read_csv(KEPT / "errors.csv")
    assert len(overview(table).rows) == 6
    assert set(table["problem"]) == {"linear", "quadratic", "cubic", "sine"}


@pytest.mark.parametrize("size_std", [0.0, 0.04, 0.2])
def test_the_chance_of_a_single_fit_to_reach_the_goal_is_that_of_simulation(size_std):
    random = np.random.default_rng(0)
    covered = 2 * stats.norm.cdf(1.96 * np.exp(random.normal(0, size_std, 40_000))) - 1
    found = random.binomial(2000, covered) / 2000 + random.normal(0, 0.011, 40_000)
    inside = np.mean((found >= 0.92) & (found <= 0.97))
    assert chance_inside(size_std, 0.011) == pytest.approx(inside, abs=4 * 0.5 / 40_000**0.5)
