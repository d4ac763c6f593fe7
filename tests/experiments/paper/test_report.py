"""The page of a run, in a real browser where there is one."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eiv.experiments.paper.figures import CAPTIONS
from eiv.experiments.paper.remarks import REMARKS, WORDS
from eiv.experiments.paper.report import write_report
from eiv.experiments.paper.tables import Tables
from eiv.report.pages import Cell
from scenarios import only_svg, run_tables


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write_report(run_tables(), folder)


def test_the_page_needs_nothing_from_elsewhere(page):
    text = page.read_text()
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(source.startswith(("data:", "#", "https://doi.org/")) for source in sources)
    assert "@import" not in text
    assert "url(" not in text


def test_every_figure_is_there_as_svg_and_png(page):
    folder = page.parent / "figures"
    for name in CAPTIONS:
        assert ElementTree.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_same_tables_give_the_same_page(page, tmp_path):
    with only_svg():
        assert write_report(run_tables(), tmp_path).read_bytes() == page.read_bytes()


def test_what_was_not_run_is_said(page):
    text = page.read_text()
    assert "This is not the whole paper" in text
    assert "california" in text


@pytest.mark.usefixtures("unrendered")
def test_words_from_the_tables_are_escaped(tmp_path):
    tables = run_tables(sets=["yacht"])
    tables.stacks["device_name"] = "<script>alert(1)</script>"
    assert "<script>alert" not in write_report(tables, tmp_path).read_text()


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Cell.measured(0.95, 0.01), "0.950 ± 0.010"),
        (Cell.measured(float("nan"), 0.1), "–"),
        (Cell.measured(0.95, float("nan")), "0.950"),
        (Cell.of(1200), "1200"),
        (Cell.of("a"), "a"),
    ],
)
def test_cells(cell, text):
    assert cell.text == text


def test_in_a_browser_it_loads_without_errors_and_shows_every_figure(browser, page):
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    shown = browser.execute_script("return [...document.images].map(i => [i.complete, i.naturalWidth])")
    assert len(shown) == len(CAPTIONS)
    assert all(complete and width > 100 for complete, width in shown)


def test_in_a_browser_tables_sort(browser, page):
    browser.get(page.as_uri())
    column = """
        const table = document.querySelector('#tables ~ .scroll table');
        const heading = table.tHead.rows[0].cells[arguments[0]];
        heading.querySelector('button').click();
        return [...table.tBodies[0].rows].map(row => row.cells[arguments[0]].textContent)
    """
    names = browser.execute_script(column, 0)
    assert names == sorted(names)
    assert browser.execute_script(column, 0) == sorted(names, reverse=True)
    numbers = [float(text.split(" ")[0]) for text in browser.execute_script(column, 3)]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 2


@pytest.mark.parametrize("width", [360, 1400])
def test_in_a_browser_the_page_fits_its_window(browser, page, width):
    browser.set_window_size(width, 900)
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth + 1")


@pytest.mark.parametrize("width", [360, 1400])
def test_in_a_browser_captions_fit_the_window_and_words_unfold(browser, page, width):
    browser.set_window_size(width, 900)
    browser.get(page.as_uri())
    ends = browser.execute_script("""
        return [...document.querySelectorAll('caption')].filter(one => one.textContent)
            .map(one => [one.getBoundingClientRect().right, one.closest('.scroll').getBoundingClientRect().right])
    """)
    assert len(ends) == 4
    assert all(caption <= window for caption, window in ends)
    words = browser.find_element("css selector", "#words dl")
    assert not words.is_displayed()
    browser.find_element("css selector", "#words summary").click()
    assert words.is_displayed()


@pytest.fixture(scope="module", params=["html", "md"])
def ending(request):
    return request.param


@pytest.fixture(scope="module")
def text(page, ending, tmp_path_factory):
    """What the page says, of each kind."""
    if ending == "html":
        return page.read_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eiv.plotting.image", lambda figure, kind: b"")  # which it does not hold
        return text_of(run_tables(), tmp_path_factory.mktemp("markdown"), ending)


def test_words_are_explained_and_the_tables_use_them(text):
    for word in WORDS:
        assert f"<dt>{word}</dt>" in text or f"| {word} | " in text
    assert ">as printed</td>" in text or "| EiV | as printed | " in text
    assert not re.search(r"(>|\| )non_eiv(<| )", text)


def as_before(tables):
    """Tables of a run of the time when all networks of a simulated set had splits of one data set."""
    return replace(tables, stacks=tables.stacks.drop(columns="data_drawn"))


def text_of(tables, folder, ending):
    return write_report(tables, folder, folder / f"page.{ending}").read_text()


@pytest.mark.usefixtures("unrendered")
def test_both_readings_of_the_regression_and_their_verdicts_are_shown(tmp_path, ending):
    tables = run_tables(sets=["linear"])
    rows = tables.networks["estimator"] == "predictive"
    tables.networks.loc[rows, "truth_coverage"] = 1.0
    text = text_of(tables, tmp_path, ending)
    before_verdict = r"\) covers too little of the truth[^|<]*(</span><span class=\"verdict [a-z-]*\">|\|[^|]*\| )"
    for reading, verdict in (("band of its coefficients", "holds"), ("predictive band, with σ_y", "does not hold")):
        assert re.search(rf"The g-based regression \({reading}{before_verdict}{verdict}", text)
    assert "too often" not in text
    assert REMARKS["regression_covers_too_little_predictive"][:60] in text


@pytest.mark.usefixtures("unrendered")
def test_the_page_says_what_its_errors_are_of(text, tmp_path, ending):
    drawn_anew, of_splits = "errors are those over independent data sets", "overlapping splits of one data set. Errors"
    assert drawn_anew in text
    assert of_splits not in text
    assert "computed again without one network at a time" in text
    before = text_of(as_before(run_tables(sets=["linear"])), tmp_path, ending)
    assert drawn_anew not in before
    assert of_splits in before


@pytest.mark.usefixtures("unrendered")
def test_what_is_known_of_one_run_stands_on_its_page_only(text, tmp_path, ending):
    words = "After this run a race was found"
    assert words not in text
    (tmp_path / "remarks.md").write_text(f"{words}.\n")
    assert words in text_of(run_tables(sets=["yacht"]), tmp_path, ending)


@pytest.mark.usefixtures("unrendered")
def test_a_page_of_real_data_says_nothing_of_simulated_ones(tmp_path, ending):
    text = text_of(run_tables(sets=["yacht", "naval"]), tmp_path, ending)
    assert "overlapping random splits of one table" in text
    assert "On the simulated sets the rows" not in text
    assert "in which the networks of a simulated set" not in text


def test_a_changed_rule_says_that_it_was_changed(text):
    assert "This rule was changed after an earlier run" in text
    assert "one that was changed after an earlier run says so" in " ".join(text.split())


@pytest.mark.usefixtures("unrendered")
def test_the_page_in_docs_is_that_of_the_results(tmp_path):
    root = Path(__file__).parents[3]
    shutil.copy(root / "results" / "remarks.md", tmp_path)
    page = write_report(Tables.read(root / "results"), tmp_path, tmp_path / "reproduction.md")
    assert page.read_text() == (root / "docs" / "reproduction.md").read_text()


@pytest.mark.usefixtures("unrendered")
def test_the_page_names_the_version_of_the_run_not_that_of_today(tmp_path):
    tables = run_tables(sets=["yacht"])
    tables.stacks["eiv"] = "0.0.7"
    assert "eiv 0.0.7:" in " ".join(write_report(tables, tmp_path).read_text().split())
