"""The goals of the default recipe, with numbers made up for each verdict, and the page of the study of coverage."""

import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eiv.datasets import SIMULATED
from eiv.experiments.studies import coverage, coverage_page
from eiv.experiments.studies.coverage import LEVELS, METHODS, CoverageUnit
from eiv.experiments.studies.coverage_page import write_coverage_page
from eiv.experiments.studies.goals import GOALS, Goal, summarise
from scenarios import only_svg

NOISE = {"non-EiV": 3.0, "paper": 2.0, "ours": 1.05}  # σ_y over the true one; 1.5 for the ingredients


def made_up(folder, problems=tuple(SIMULATED), methods=tuple(METHODS), n_realisations=10, n_networks=5):
    """The tables of a study with numbers that were made up; ours has a third of the paper's error of f."""
    random = np.random.default_rng(0)
    units = [
        CoverageUnit(problem, zeta, method, n_realisations, n_networks, 0, "cpu")
        for problem in problems
        for zeta in coverage.ZETAS
        for method in methods
    ]
    known = {"device_name": "<GPU>", "eiv": "0", "torch": "2", "numpy": "2", "python": "3", "finished": "2026-01-01"}
    runs = [
        unit.settings()
        | {"arguments": json.dumps(unit.settings()["arguments"]), "training_s": 50.0, "evaluation_s": 5.0}
        | known
        for unit in units
    ]
    index = pd.MultiIndex.from_product([range(n_realisations), range(n_networks)], names=["realisation", "network"])
    parts = []
    for unit in units:
        rows = index.to_frame(index=False)
        scatter = 0.005 * random.standard_normal((len(rows), 2 * len(LEVELS) + 6))
        where = {"problem": unit.problem, "zeta": unit.zeta, "method": unit.method}
        bad = unit.method == "non-EiV"
        names = [f"truth_{kind}_{level:g}" for level in LEVELS for kind in ("moment", "quantile")]
        levels = np.repeat(LEVELS, 2) * (0.6 if bad else 1)
        scores = dict(zip(names, (levels + scatter[:, : len(names)]).T, strict=True))
        noise = NOISE.get(unit.method, 1.5) + scatter[:, -1]
        scores |= {"labels_0.95": 0.95 + scatter[:, -2], "rmse": 0.104 + scatter[:, -3] / 5, "best_rmse": 0.1}
        scores |= {"rmse_ratio": scores["rmse"] / 0.1, "y_noise": 0.2 * noise, "y_noise_ratio": noise}
        scores |= {"clean_rmse": (0.01 if unit.method == "ours" else 0.03) + scatter[:, -4] / 10}
        scores |= {"epistemic": 0.02, "aleatoric": 0.0 if bad else 0.1, "training_s": 4.0 if bad else 1.0}
        parts.append(rows.assign(**where, **scores))
    table = pd.concat(parts, ignore_index=True)
    table.to_csv(folder / coverage.TABLE, index=False)
    pd.DataFrame(runs).to_csv(folder / coverage.UNITS, index=False)
    return table


def scores(column, values, method="ours", problem="cubic", **others):
    """A table of one column, `realisations x networks`, on one problem with uniform zeta."""
    known = {"rmse": 1.0, "best_rmse": 1.0, "clean_rmse": 1.0, "training_s": 1.0} | others
    return pd.DataFrame(
        [
            {"problem": problem, "zeta": "uniform", "method": method, "realisation": i, "network": j, **known}
            | {column: v}
            for i, row in enumerate(values)
            for j, v in enumerate(row)
        ]
    )


def test_errors_are_those_over_realisations():
    """Networks of a realisation share its data: however many there are, they do not make the error smaller."""
    summary = summarise(scores("labels_0.95", [[0.9, 0.94], [0.95, 0.97], [0.94, 0.94]]))
    means = pd.Series([0.92, 0.96, 0.94])
    assert summary["mean", "labels_0.95"].item() == pytest.approx(means.mean())
    assert summary["se", "labels_0.95"].item() == pytest.approx(means.std() / np.sqrt(3))


def test_ratios_are_to_the_papers_recipe_on_the_same_data():
    ours = scores("clean_rmse", [[1.0, 2.0], [3.0, 3.0]], training_s=4.0)
    paper = scores("clean_rmse", [[2.0, 4.0], [12.0, 12.0]], method="paper", training_s=2.0)
    found = summarise(pd.concat([ours, paper], ignore_index=True)).loc["cubic", "uniform", "ours"]
    assert found["mean", "clean_ratio"] == pytest.approx((0.5 + 0.25) / 2)
    assert found["se", "clean_ratio"] == pytest.approx(0.125)
    assert found["mean", "training_ratio"] == 2.0
    assert summarise(scores("rmse", [[1.2], [1.3]], best_rmse=0.5))["mean", "best_ratio"].item() == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("column", "values", "verdict"),
    [
        ("truth_moment_0.95", [0.95, 0.951], "holds"),
        ("truth_moment_0.95", [0.9, 0.901], "does not hold"),
        ("truth_moment_0.95", [0.99, 0.991], "does not hold"),
        ("truth_quantile_0.95", [0.93, 0.932], "cannot tell"),  # 0.931 ± 0.001
        ("truth_quantile_0.95", [0.932, 0.934], "holds"),  # 0.933 ± 0.001
        ("labels_0.95", [0.968, 0.972], "cannot tell"),
        ("rmse_ratio", [1.04, 1.05], "holds"),
        ("rmse_ratio", [0.9, 0.91], "holds"),
        ("rmse_ratio", [1.04, 1.07], "cannot tell"),
        ("rmse_ratio", [1.09, 1.1], "does not hold"),
        ("y_noise_ratio", [0.7, 0.71], "does not hold"),
        ("y_noise_ratio", [1.2, 1.21], "holds"),
        ("labels_0.95", [0.95], "cannot tell"),  # one realisation has no standard error
    ],
)
def test_verdicts(column, values, verdict):
    summary = summarise(scores(column, [[value] for value in values]))
    goal = next(goal for goal in GOALS if goal.column == column)
    assert goal.conditions(summary)["cubic", "uniform"].verdict == verdict


@pytest.mark.parametrize(("ours", "verdict"), [(0.4, "holds"), (0.5, "cannot tell"), (0.6, "does not hold")])
def test_the_error_of_f_is_at_most_half_of_the_papers(ours, verdict):
    tables = [
        scores("clean_rmse", [[share * value] for value in (0.99, 1.0, 1.01 * wobble)], method)
        for method, share, wobble in (("paper", 1.0, 1.0), ("ours", ours, 1.02))
    ]
    summary = summarise(pd.concat(tables, ignore_index=True))
    goal = next(goal for goal in GOALS if goal.column == "clean_ratio")
    assert goal.conditions(summary)["cubic", "uniform"].verdict == verdict


def test_a_goal_is_asked_of_its_problems_and_methods_only():
    summary = summarise(pd.concat([scores("y_noise_ratio", [[1.0]], problem=name) for name in SIMULATED]))
    noise = next(goal for goal in GOALS if goal.column == "y_noise_ratio")
    assert [where[0] for where in noise.conditions(summary)] == ["linear", "quadratic", "cubic"]
    assert noise.conditions(summary, "paper") == {}
    assert Goal("clean_ratio", "", "").conditions(summary) == {}  # without the paper's recipe there is no ratio


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coverage")
    made_up(folder)
    with only_svg():
        return write_coverage_page(folder)


def test_the_page_needs_nothing_from_elsewhere(page):
    text = page.read_text()
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert len([source for source in sources if source.startswith("data:image")]) == 5
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert "<GPU>" not in text  # escaped
    assert "not the whole study" not in text


@pytest.mark.parametrize("width", [360, 1400])
def test_in_a_browser_the_page_fits_its_window(browser, page, width):
    browser.set_window_size(width, 900)
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth + 1")


def test_the_page_in_markdown_has_its_figures_beside_it(tmp_path):
    table = made_up(tmp_path, problems=["linear", "cubic"], methods=["non-EiV", "paper", "ours"])
    (tmp_path / "docs").mkdir()
    text = write_coverage_page(tmp_path, tmp_path / "docs" / "coverage.md").read_text()
    figures = re.findall(r"!\[\w+\]\((.*)\)", text)
    assert len(figures) == 5
    assert all((tmp_path / "docs" / name).is_file() for name in figures)
    mean = table.query("problem == 'cubic' and zeta == 'normal' and method == 'ours'")["truth_moment_0.95"].mean()
    rows = [line for line in text.splitlines() if line.startswith(f"| cubic | normal | {mean:.3f} ±")]
    assert len(rows) == 1  # the table of goals; that of scores has the method in between
    assert rows[0].count("✓") == 6


def test_goal_by_goal_the_page_names_where_it_is_missed(tmp_path):
    table = made_up(tmp_path, methods=["paper", "ours"])
    table.loc[table.eval("method == 'ours' and problem == 'sine' and zeta == 'normal'"), "labels_0.95"] -= 0.1
    table.loc[table.eval("method == 'ours' and problem == 'cubic' and zeta == 'uniform'"), "rmse_ratio"] *= np.where(
        np.arange(50) < 25, 0.9, 1.1
    )
    reached = {goal: goal.conditions(summarise(table)) for goal in GOALS}
    rows = [[cell.text for cell in row] for row in coverage_page._by_goal(summarise(table), reached, "ours").rows]
    verdicts = {row[0].split(":")[0]: row[-3:] for row in rows}
    assert verdicts["labels covered by their 95 % interval"] == ["7\u00a0of\u00a08", "sine (normal ζ)", "–"]
    assert verdicts["RMSE of m(x) to g(ζ) over the smallest possible"] == ["7\u00a0of\u00a08", "–", "cubic (uniform ζ)"]
    assert verdicts["fitted σ_y over the true one"] == ["6\u00a0of\u00a06", "–", "–"]


def test_what_the_methods_change_comes_from_the_table_of_units(tmp_path):
    made_up(tmp_path, methods=["paper", "ours"])
    units = pd.read_csv(tmp_path / coverage.UNITS)
    assert coverage_page._changes(units, "paper") == "–"
    arguments = {"linear": {"epochs": 3, "n_zeta": 5}, "sine": {"epochs": 4, "n_zeta": 5}}
    for (name, method), rows in units.groupby(["problem", "method"]):
        known = arguments.get(name, {}) if method == "ours" else {"epochs": 3, "n_zeta": 5, "n_theta": 100}
        units.loc[rows.index, "arguments"] = json.dumps(known)
    units = units[units["problem"].isin(arguments)]
    assert coverage_page._changes(units, "ours") == "n_theta = default; epochs = 4"
    alone = units[units["method"] == "ours"]
    assert coverage_page._changes(alone, "ours") == "epochs = 3 (linear) or 4 (sine); n_zeta = 5"


def test_rows_without_a_score_are_refused(run, tmp_path):
    made_up(tmp_path)
    table = pd.read_csv(tmp_path / "coverage.csv")
    table.loc[:2, "y_noise_ratio"] = np.nan
    table.to_csv(tmp_path / "coverage.csv", index=False)
    status, _, err = run("report", tmp_path)
    assert status == 2
    assert f"3 of {len(table)} rows of coverage.csv lack a score" in err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.usefixtures("unrendered")
def test_a_part_of_the_study_says_what_is_missing(tmp_path, monkeypatch):
    made_up(tmp_path, problems=["sine"], methods=["non-EiV", "ours"], n_realisations=1, n_networks=2)
    text = write_coverage_page(tmp_path).read_text()
    assert "without 'linear', 'quadratic', 'cubic'; without 'paper', " in html.unescape(text)
    assert "1 instead of 10 realisations of the data; 2 instead of 5 networks for each of them" in text
    assert ">Results</h2>" not in text
    monkeypatch.setattr(coverage_page, "SIMULATED", {"sine": SIMULATED["sine"]})
    made_up(tmp_path, problems=["sine"])
    (tmp_path / "remarks.md").write_text("All is\nwell.\n\nAlmost.\n")
    text = write_coverage_page(tmp_path).read_text()
    assert ">Results</h2>" in text
    assert "<p>All is well.</p>" in text


@pytest.mark.usefixtures("unrendered")
@pytest.mark.slow
def test_a_method_may_be_run_on_one_problem_only(run, tmp_path):
    """As `eiv study coverage --methods ours --problems sine` does in a folder that holds the other methods."""
    table = made_up(tmp_path, methods=["non-EiV", "paper", "ours"], n_realisations=2, n_networks=2)
    for name in (coverage.TABLE, coverage.UNITS):
        rows = pd.read_csv(tmp_path / name)
        rows[(rows["method"] != "ours") | (rows["problem"] == "sine")].to_csv(tmp_path / name, index=False)
    assert run("report", tmp_path)[0] == 0
    text = html.unescape((tmp_path / "report.html").read_text())
    assert "'ours' on 'sine' only" in text
    kept = table[(table["method"] != "ours") | (table["problem"] == "sine")]
    figure = coverage_page._calibration(summarise(kept)).figure
    assert [line.get_text() for line in figure.legends[0].get_texts()] == ["non-EiV", "paper", "ours"]
    drawn = [len(axes.containers) for axes in figure.axes]
    assert drawn == [2, 2, 2, 3] * 4


@pytest.mark.usefixtures("unrendered")
def test_report_writes_markdown_too(run, tmp_path):
    made_up(tmp_path, problems=["sine"], methods=["paper", "ours"])
    assert run("report", tmp_path, "-o", tmp_path / "page.md")[0] == 0
    assert (tmp_path / "page.md").read_text().startswith("# Coverage, recipe by recipe")
    assert (tmp_path / "page" / "coverage_truth.png").is_file()


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("methods", [[], pytest.param(list(METHODS), marks=pytest.mark.slow)])
def test_what_the_command_prints_fits_into_80_columns(run, tmp_path, monkeypatch, methods):
    table = made_up(tmp_path, n_realisations=2, n_networks=2)
    monkeypatch.setattr(coverage, "study_coverage", lambda *args, **options: table)
    status, out, _ = run("study", "coverage", "--out", tmp_path, "--methods", ";".join(methods), width=80)
    assert status == 0
    lines = [line.rstrip() for line in out.splitlines()]
    assert "…" not in out
    assert max(map(len, lines[:-1])) <= 80  # the last one holds a path
    assert sum(line.lstrip().startswith(tuple(METHODS)) for line in lines) == 8 * (len(methods) or 4)
    columns = ["truth_moment_0.95", "truth_quantile_0.95", "labels_0.95", "rmse_ratio", "clean_rmse", "y_noise_ratio"]
    means = table.query("problem == 'linear' and zeta == 'uniform' and method == 'ours'")[columns].mean()
    first = next(line.split() for line in lines if line.startswith("  ours  "))
    assert first == ["ours", *(f"{value:.3f}" for value in means)]


def test_without_tables_there_is_no_page(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"coverage\.csv is missing"):
        write_coverage_page(tmp_path)


@pytest.mark.usefixtures("unrendered")
def test_the_page_in_docs_is_that_of_the_results(tmp_path):
    root = Path(__file__).parents[3]
    page = write_coverage_page(root / "results" / "coverage", tmp_path / "coverage.md")
    assert page.read_text() == (root / "docs" / "coverage.md").read_text()
    assert "## Results\n" in page.read_text()


@pytest.mark.usefixtures("unrendered")
def test_single_fits_stand_beside_the_means(tmp_path):
    table = made_up(tmp_path, problems=["sine"])
    page = write_coverage_page(tmp_path, tmp_path / "page.md").read_text()
    section = page.split("## Single fits: ours\n")[1].split("## ")[0]
    fits = table.query("method == 'ours' and problem == 'sine' and zeta == 'normal'")["truth_moment_0.95"]
    low, high = np.quantile(fits, [0.05, 0.95])
    assert f"| sine | normal | 50 | {fits.mean():.3f}, sd {fits.std():.3f}, {low:.3f} to {high:.3f} |" in section
    assert "alone gives a coverage the standard deviation 0.007" in section


@pytest.mark.usefixtures("unrendered")
def test_the_networks_of_the_default_recipe_are_those_of_the_units(tmp_path):
    made_up(tmp_path, problems=["sine"], methods=["paper", "ours with layers", "ours"])
    page = write_coverage_page(tmp_path, tmp_path / "page.md").read_text()
    assert "“ours” fits a network of cosines; “ours with layers” fits layers of leaky ReLU" in page
    assert page.count("## Goals for our recipe") == page.count("## Single fits") == 2
    units = pd.read_csv(tmp_path / coverage.UNITS)
    units["arguments"] = [text.replace("cosine", "paper") for text in units["arguments"]]
    units.to_csv(tmp_path / coverage.UNITS, index=False)
    page = write_coverage_page(tmp_path, tmp_path / "page.md").read_text()
    assert "“ours” fits layers of leaky ReLU" in page


def test_times_of_other_devices_are_not_compared(tmp_path):
    made_up(tmp_path, problems=["sine"], methods=["paper", "ours with layers", "ours"])
    units = pd.read_csv(tmp_path / coverage.UNITS)
    units.loc[units["method"] == "ours", "device_name"] = "x86_64"
    rows = coverage_page._methods(summarise(pd.read_csv(tmp_path / coverage.TABLE)), units).rows
    assert [row[-1].text for row in rows] == ["1.00", "1.00", "–"]
