"""The page of `eiv study tables`, from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from eiv.datasets import REAL
from eiv.experiments.paper.claims import Verdict
from eiv.experiments.studies.coverage_page import LOG, TOWARDS_ONE
from eiv.experiments.studies.page import Drawing, Section, StudyPage, what_is_missing, write_page_of
from eiv.experiments.studies.real_tables import MEASURED
from eiv.experiments.studies.rivals import OPTIONAL, RIVALS
from eiv.experiments.studies.tables import KEPT_SEEDS, N_TEST, TABLE, UNITS
from eiv.experiments.studies.tables_goals import GOALS, NOISY_SHARE, OURS, by_problem, noisy_problems
from eiv.plotting import COLOURS, FEATURES, MARKERS, new_figure
from eiv.report.pages import Cell, HtmlTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_tables_page"]

MARKS: dict[Verdict, str] = {"holds": "✓", "does not hold": "✗", "not run": "not run"}
COVERAGES = {"truth_0.95": "truth", "clean_0.95": "f at exact inputs", "labels_0.95": "labels"}
_MOST_NAMED = 12  # the most exceptions to a goal that are named
_WORST = 6  # the number of worst problems of each sort
_BAND = "#e3efe6"
_GRID = "#e4e4e8"
_LOOKS: dict[str, dict[str, Any]] = {
    OURS: {"color": COLOURS["eiv"], "marker": MARKERS["eiv"]},
    "paper": {"color": COLOURS["eiv"], "marker": "D", "fillstyle": "none"},
    "ignored": {"color": COLOURS["non_eiv"], "marker": MARKERS["non_eiv"]},
    "ignored (cosine)": {"color": COLOURS["non_eiv"], "marker": MARKERS["non_eiv"], "fillstyle": "none"},
}
_OTHERS: dict[str, Any] = {"color": FEATURES[3], "marker": "^"}


def write_tables_page(folder: Path, out: Path | None = None) -> Path:
    """Write the page of a study of tables from the tables in its folder, without training.

    Args:
        folder: the folder of the study.
        out: the path of the page, by default `report.html` in the folder; with the ending .md the page is Markdown.

    Returns:
        The path of the page.

    Examples:
        >>> write_tables_page(Path("study"), Path("docs/tables.md"))  # doctest: +SKIP

    """
    return write_page_of("tables", (TABLE, UNITS), _page, folder, out)


def _page(table: pd.DataFrame, units: pd.DataFrame, remarks: Sequence[str]) -> StudyPage:
    random = table[table["kind"] == "random"]
    sections = [
        Section("Results", remarks) if remarks else None,
        _goals(table),
        *(_of_random(random) if len(random) else ()),
        _real(table),
        _failures(table),
        Section("Provenance", tables=[_provenance(table, units)]),
    ]
    n_real = table.loc[table["kind"] == "real", "problem"].nunique()
    lead = (
        f"Single fits with {table['method'].nunique()} methods: on {random['problem'].nunique()} random problems, each "
        f"from one seed, of which {len(noisy_problems(table))} are noisy, and on {n_real} real tables. A random "
        "problem has 1 to 20 columns, of which some may be exact, and 60 to 20,000 rows; its g, the distribution of "
        "its true inputs and the errors of x are drawn as well. A problem is noisy where the errors of x make up more "
        f"than {NOISY_SHARE:g} of the variance of a label given x. Seeds below 1,000 were used for development; those "
        "from 1,000 on are run once."
    )
    title = "Tables that nothing was tuned to"
    return StudyPage(title, lead, [section for section in sections if section], _notice(table, units))


def _notice(table: pd.DataFrame, units: pd.DataFrame) -> str:
    """A sentence on what a run leaves out of the study; empty where it is complete."""
    found = set(table["problem"])
    seeds = [name for name in found if name.startswith("seed ")]
    kept = {f"seed {seed}" for seed in KEPT_SEEDS}
    parts = []
    if len(kept & found) < len(kept):
        parts.append(f"{len(kept & found)} of the {len(kept)} random problems that count")
    if set(seeds) - kept:
        parts.append(f"{len(set(seeds) - kept)} problems of other seeds, which were used for development")
    needed = [name for name in RIVALS if name not in OPTIONAL]
    for what, known, column in (("tables", (*MEASURED, *REAL), "problem"), ("methods", needed, "method")):
        if gone := [name for name in known if name not in set(table[column])]:
            parts.append(f"without the {what} {', '.join(gone)}")
    if units["most_rows"].notna().any():
        parts.append(f"at most {units['most_rows'].min():.0f} rows to train with")
    return what_is_missing(parts)


def _goals(table: pd.DataFrame) -> Section:
    rows = []
    for goal in GOALS:
        reached = goal.reached(table)
        value = Cell.measured(reached.value, np.nan)
        named = ", ".join(reached.exceptions[:_MOST_NAMED])
        rest = len(reached.exceptions) - _MOST_NAMED
        rows.append(
            [
                Cell.of(goal.sentence),
                Cell.of(goal.asked),
                value,
                Cell.of(reached.n_problems),
                Cell.of(MARKS[reached.verdict]),
                Cell.of((f"{named} and {rest} more" if rest > 0 else named) or "–"),
            ]
        )
    text = (
        "Each goal was fixed before the run. It has one number per problem; the result is the summary that the goal "
        "names, or the share of problems within the bounds. Goals are met (✓) or missed (✗) without a margin. To "
        "ignore the errors means to fit our default recipe, or its network of cosines, without them; the better of "
        "the two counts. A problem on which our fit failed counts against a goal. The goals of the study of coverage "
        "are on its own page, coverage.md; times of single fits on an otherwise idle machine are in benchmarks.md."
    )
    headings = ("number", "goal", "result", "problems", "met", "outside the bounds")
    return Section("Goals for the default recipe", [text], tables=[HtmlTable("Goal by goal.", headings, rows)])


def _of_random(random: pd.DataFrame) -> list[Section]:
    limit = (
        f"All scores are for {N_TEST} test rows. The limit is the prediction E[g(ζ) | x] with g and the distribution "
        "of ζ known. RMSE is that of the prediction to g(ζ). Error of f is the RMSE of f at exact inputs, in units of "
        "the spread (standard deviation) of g. CRPS is that of labels. The truth is covered where g(ζ) is within 1.96 "
        "u of the prediction; f at exact inputs where g is within 1.96 epistemic uncertainties of it. Where g(ζ) given "
        "x is not normal, such intervals do not cover 95 % even at the limit. Seconds are those of fits that ran in "
        "parallel on one machine, and a guide only."
    )
    return [
        Section("Method by method", [limit], tables=[overview(random)], figures=[_rmse_figure(random)]),
        Section("Coverage of single fits", figures=[_coverage_figure(random)]),
        *([Section("Output noise", figures=[_noise_figure(random)])] if random["y_noise_ratio"].notna().any() else []),
        *([_kinds(random), _worst(random)] if OURS in set(random["method"]) else []),
    ]


def overview(random: pd.DataFrame) -> HtmlTable:
    """A summary of the methods: medians and means over the random problems."""
    best = by_problem(random, "rmse").min(axis=1)
    rows = []
    for method, fits in random.groupby("method", sort=False):
        ratio = fits["rmse_ratio"].dropna()
        over_best = fits.set_index("problem")["rmse"] / best
        numbers = [
            ratio.median(),
            ratio.quantile(0.9) if len(ratio) else np.nan,
            (over_best <= 1.05).mean(),
            fits["clean_rmse"].median(),
            *(fits[column].mean() for column in COVERAGES),
            fits["y_noise_ratio"].median(),
            (fits["crps"] / fits["best_crps"]).median(),
        ]
        times = [Cell.measured(fits[column].median(), np.nan, 2) for column in ("training_s", "prediction_s")]
        rows.append([_name(str(method)), *(Cell.measured(number, np.nan) for number in numbers), *times])
    rows.append([_name("the limit itself"), *(Cell.measured(number, np.nan) for number in _limit(random))])
    headings = (
        "method",
        "RMSE / limit, median",
        "nine of ten below",
        "within 5 % of the best",
        "error of f",
        *COVERAGES.values(),
        "σ_y / true",
        "CRPS / limit",
        "fit, s",
        "prediction, s",
    )
    return HtmlTable("Medians over the problems; means for coverages.", headings, rows)


def _limit(random: pd.DataFrame) -> list[float]:
    """The row of the limit: the best possible values, and the coverage of moment intervals at the limit."""
    problems = random.drop_duplicates("problem")
    truth, labels = (problems[f"best_{column}"].mean() for column in ("truth_0.95", "labels_0.95"))
    return [1.0, 1.0, np.nan, 0.0, truth, np.nan, labels, 1.0, 1.0, np.nan, np.nan]


def _rmse_figure(random: pd.DataFrame) -> Drawing:
    scale = LOG._replace(ticks=(1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20))
    figure = _strips(random, {"": "rmse_ratio"}, "RMSE to g over the limit", scale, (0.0, 1.05))
    caption = "RMSE to g over the limit, one dot per problem; the bar is the median, shaded up to 1.05."
    return Drawing("tables_rmse", figure, caption)


def _coverage_figure(random: pd.DataFrame) -> Drawing:
    titles = {title: column for column, title in COVERAGES.items()}
    figure = _strips(random, titles, "share covered by the 95 % interval", TOWARDS_ONE, (0.90, 0.985))
    caption = (
        "Coverage of the truth, of f at exact inputs and of labels by the 95 % intervals of single fits, one dot per "
        "fit. The axis is stretched towards 1. Bar: median; shaded: 0.90 to 0.985. The choice of "
        f"{N_TEST} test rows alone gives a coverage the standard deviation {np.sqrt(0.95 * 0.05 / N_TEST):.3f}."
    )
    return Drawing("tables_coverage", figure, caption)


def _noise_figure(random: pd.DataFrame) -> Drawing:
    pale = (random["noise_share"] >= 1 - NOISY_SHARE) | (random["n_rows"] < 300)
    figure = _strips(random, {"": "y_noise_ratio"}, "fitted σ_y over the true one", LOG, (0.8, 1.2), pale)
    caption = (
        "Fitted σ_y over the true one, one dot per problem, for methods that fit one. Bar: median; shaded: 0.8 to 1.2. "
        f"Pale: σ_y² is less than {NOISY_SHARE:g} of the variance of a label given x, or there are fewer than 300 rows."
    )
    return Drawing("tables_y_noise", figure, caption)


def _strips(
    random: pd.DataFrame,
    columns: Mapping[str, str],
    label: str,
    scale: Any,
    band: tuple[float, float],
    pale: pd.Series | None = None,
) -> Figure:
    """One panel per column, one line per method, one dot per problem, and a bar at the median; some dots are pale."""
    scores = random[list(columns.values())]
    methods = [name for name in random["method"].unique() if scores[random["method"] == name].notna().any(axis=None)]
    size = (2 + 2.6 * max(len(columns), 2), 1.1 + 0.42 * len(methods))
    figure, (panels,) = new_figure(1, len(columns), size, sharex=True, sharey=True)
    low, high = scale.ends(np.append(scores.to_numpy().ravel(), [band[1], scale.at]))
    panels[0].set_xlim(low, high)
    panels[0].set_xscale("function", functions=(scale.forward, scale.inverse))
    for axes, (title, column) in zip(panels, columns.items(), strict=True):
        axes.axvspan(max(low, band[0]), band[1], color=_BAND, linewidth=0)
        axes.axvline(scale.at, color=COLOURS["truth"], linewidth=0.8)
        for place, method in enumerate(methods):
            found = random.loc[random["method"] == method, column].dropna()
            if len(found):
                _strip(axes, found, place, _LOOKS.get(method, _OTHERS), None if pale is None else pale[found.index])
        axes.set(title=title, ylim=(len(methods) - 0.5, -0.5))
        axes.grid(axis="y", color=_GRID, linewidth=0.6)
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].set_xticks([tick for tick in scale.ticks if low <= tick <= high])
    panels[0].xaxis.set_major_formatter("{x:g}")
    figure.supxlabel(label, fontsize="medium")
    return figure


def _strip(axes: Any, values: pd.Series, place: float, look: Mapping[str, Any], pale: pd.Series | None) -> None:
    """Draw dots about one line, spaced evenly across it and the same at every call."""
    across = place + 0.5 * (np.arange(len(values)) * 0.618 % 1 - 0.5)
    is_pale = np.zeros(len(values), dtype=bool) if pale is None else pale.to_numpy()
    for rows, alpha in ((~is_pale, 0.8), (is_pale, 0.25)):
        dots = {"linestyle": "none", "markersize": 3.5, "markeredgewidth": 0.8, "alpha": alpha}
        axes.plot(values[rows], across[rows], **dots, **look)
    axes.plot([values.median()] * 2, [place - 0.36, place + 0.36], color="black", linewidth=2)


def _kinds(random: pd.DataFrame) -> Section:
    """The section on our results by the kind of problem."""
    best = by_problem(random, "rmse").drop(columns=OURS).min(axis=1)
    ours = random[random["method"] == OURS].set_index("problem")
    ours = ours.assign(
        over_best=ours["rmse"] / best,
        rows=pd.cut(ours["n_rows"], [0, 300, 2000, np.inf], labels=["up to 300 rows", "up to 2,000 rows", "more rows"]),
        columns=pd.cut(
            ours["n_noisy"],
            [0, 1, 5, np.inf],
            labels=["1 noisy column", "2 to 5 noisy columns", "6 to 20 noisy columns"],
        ),
    )
    rows = []
    for what in ("shape", "zeta", "errors", "columns", "rows"):
        for kind, fits in ours.groupby(what, observed=True):
            numbers = [
                fits["rmse_ratio"].median(),
                fits["over_best"].median(),
                fits["over_best"].max(),
                fits["clean_rmse"].median(),
                *(fits[column].mean() for column in COVERAGES),
                fits["y_noise_ratio"].median(),
            ]
            name = f"{kind} {'ζ' if what == 'zeta' else 'errors'}" if what in ("zeta", "errors") else str(kind)
            rows.append([_name(name), Cell.of(len(fits)), *(Cell.measured(number, np.nan) for number in numbers)])
    headings = (
        "problems", "number", "RMSE / limit", "RMSE / best other", "the worst of these", "error of f",
        *COVERAGES.values(), "σ_y / true",
    )  # fmt: skip
    caption = "The default recipe by the kind of problem: medians, and means of coverages."
    return Section("Kind by kind", tables=[HtmlTable(caption, headings, rows)])


def _worst(random: pd.DataFrame) -> Section:
    """The section on the problems on which our results are worst, by three criteria."""
    others = by_problem(random, "rmse").drop(columns=OURS)
    ours = random[random["method"] == OURS].set_index("problem")
    has_other = others.notna().any(axis=1)
    ours = ours.assign(over_best=ours["rmse"] / others.min(axis=1), best=others[has_other].idxmin(axis=1))
    sorts = {
        "RMSE": ours["over_best"],
        "RMSE to limit": ours["rmse_ratio"],
        "coverage": (ours["truth_0.95"] - 0.95).abs(),
    }
    found: dict[str, list[str]] = {}
    for name, badness in sorts.items():
        for problem in badness.dropna().nlargest(_WORST).index:
            found.setdefault(problem, []).append(name)
    columns = ("rmse_ratio", "over_best", "clean_rmse", *COVERAGES, "y_noise_ratio")
    rows = [
        [
            _name(problem),
            Cell.of(ours.loc[problem, "words"]),
            Cell.of(", ".join(names)),
            *(Cell.measured(ours.loc[problem, column], np.nan) for column in columns),
            _name(str(ours.loc[problem, "best"]) if has_other[problem] else "–"),
        ]
        for problem, names in found.items()
    ]
    headings = (
        "problem", "what it is", "worst in", "RMSE / limit", "RMSE / best other", "error of f", *COVERAGES.values(),
        "σ_y / true", "best other",
    )  # fmt: skip
    text = (
        f"The {_WORST} problems on which the default recipe is farthest from the best other method, from the limit, "
        "and from covering 95 % of the truth. eiv.experiments.studies.random_problems.random_problem(seed) makes each."
    )
    return Section("The worst problems", [text], tables=[HtmlTable("The worst results of ours.", headings, rows)])


def _real(table: pd.DataFrame) -> Section | None:
    kinds = [kind for kind in ("real", "example") if (table["kind"] == kind).any()]
    if not kinds:
        return None
    captions = {
        "crps": "CRPS of labels, in their units; ✓ is the smallest.",
        "rmse": "RMSE to held-out labels, in their units; for humidity to the truth.",
        "labels_0.95": "Labels covered by the 95 % interval.",
        "training_s": "Seconds per fit.",
    }
    text = (
        "Means over two splits, with four fifths of the rows to train with. The first six tables have measured errors "
        "of several columns. Those of the paper have errors of 5 % of the spread (standard deviation) of each column. "
        "humidity is the example of the README: its 400 rows are fitted, and 1,000 fresh rows predicted."
    )
    tables = []
    for column, caption in captions.items():
        found = pd.concat([by_problem(table, column, kind) for kind in kinds])
        found = found[[name for name in table["method"].unique() if name in found]]
        rows = [
            [_name(str(problem)), *(_scored(value, column == "crps" and value == row.min()) for value in row)]
            for problem, row in found.iterrows()
        ]
        tables.append(HtmlTable(caption, ("table", *found.columns), rows))
    return Section("Real tables", [text], tables=tables)


def _scored(value: float, is_best: bool) -> Cell:
    if np.isnan(value):
        return Cell.measured(value, np.nan)
    return Cell(f"{value:.4g}{' ✓' if is_best else ''}", float(value))


def _failures(table: pd.DataFrame) -> Section | None:
    failed = table[table["failure"].notna() & (table["failure"] != "")]
    if failed.empty:
        return None
    rows = [[_name(row.problem), _name(row.method), Cell.of(row.failure)] for row in failed.itertuples()]
    content = HtmlTable("Fits that ended with an error.", ("problem", "method", "error"), rows)
    return Section("Fits without a result", tables=[content])


def _provenance(table: pd.DataFrame, units: pd.DataFrame) -> HtmlTable:
    columns = ["device_name", "eiv", "torch", "numpy", "python"]
    rows = []
    for method, found in units.groupby("method", sort=False):
        times = found[["training_s", "evaluation_s"]].sum()
        versions = [Cell.of(", ".join(sorted(map(str, found[column].unique())))) for column in columns]
        ends = [Cell.of(getattr(found["finished"], end)()) for end in ("min", "max")]
        fits = int((table["method"] == method).sum())
        rows.append([_name(str(method)), Cell.of(fits), *versions, *map(Cell.of, times.round(1)), *ends])
    headings = ("method", "fits", *columns, "fits, s", "predictions, s", "first", "last")
    return HtmlTable("The origin of the numbers; seconds are sums over all fits.", headings, rows)


def _name(name: str) -> Cell:
    """A name without line breaks."""
    return Cell(name.replace(" ", "\u00a0"), name)
