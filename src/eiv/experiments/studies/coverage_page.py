"""The page of `eiv study coverage`, from its tables."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from eiv.datasets import SIMULATED
from eiv.experiments.paper.claims import Condition, Verdict
from eiv.experiments.paper.report import training_table
from eiv.experiments.studies.coverage import LEVELS, METHODS, N_TEST, TABLE, UNITS
from eiv.experiments.studies.goals import GOALS, LAYERS, OURS, PAPER, Goal, summarise
from eiv.experiments.studies.page import Drawing, Section, StudyPage, provenance_table, what_is_missing, write_page_of
from eiv.plotting import COLOURS, LINES, MARKERS, new_figure
from eiv.report.pages import Cell, HtmlTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_coverage_page"]

NON_EIV = "non-EiV"
NETWORKS = {"cosine": "a network of cosines", "paper": "layers of leaky ReLU, trained by steps"}
FULL = {"realisations of the data": 10, "networks for each of them": 5}
MARKS: dict[Verdict, str] = {"holds": "✓", "does not hold": "✗", "cannot tell": "?"}
COVERAGES = {
    "truth_moment_0.95": "truth, moments",
    "truth_quantile_0.95": "truth, quantiles",
    "labels_0.95": "labels",
}
PREDICTION = COVERAGES | {"rmse_ratio": "RMSE / limit", "best_ratio": "RMSE / best"}
MODEL = {
    "rmse": "RMSE",
    "clean_rmse": "error of f",
    "clean_ratio": "error of f / paper's",
    "y_noise": "σ_y",
    "y_noise_ratio": "σ_y / true",
}
_KINDS = ("moment", "quantile")
LOWER_LEVELS = {f"truth_{kind}_{level:g}": f"{level:.0%}, {kind}s" for level in LEVELS[:-1] for kind in _KINDS}
_LOOKS: dict[str, dict[str, Any]] = {
    NON_EIV: {"color": COLOURS["non_eiv"], "marker": MARKERS["non_eiv"], "linestyle": LINES["non_eiv"]},
    PAPER: {"color": COLOURS["eiv"], "marker": "D", "linestyle": ":", "fillstyle": "none"},
    LAYERS: {"color": COLOURS["eiv"], "marker": "^", "linestyle": "--", "fillstyle": "none"},
    OURS: {"color": COLOURS["eiv"], "marker": MARKERS["eiv"], "linestyle": LINES["eiv"]},
}
_BAND = "#e3efe6"
_GRID = "#e4e4e8"


class _Scale(NamedTuple):
    """The scale of an axis: a transformation, its inverse, and the value at which a line is drawn."""

    forward: Callable[[Any], Any]
    inverse: Callable[[Any], Any]
    at: float  # the value at which a line is drawn
    ticks: tuple[float, ...] = ()

    def ends(self, values: Any) -> tuple[float, float]:
        """The ends of an axis for these values, with a margin."""
        low, high = np.nanmin(self.forward(values)), np.nanmax(self.forward(values))
        margin = 0.06 * (high - low)
        return float(self.inverse(low - margin)), float(self.inverse(high + margin))


LINEAR = _Scale(np.positive, np.positive, 1.0)
LOG = _Scale(  # matplotlib evaluates it at zero, too
    lambda ratio: np.log(np.maximum(ratio, 1e-9)), np.exp, 1.0, (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
)
TOWARDS_ONE = _Scale(
    lambda share: -np.log(1.01 - share), lambda v: 1.01 - np.exp(-v), 0.95, (0.2, 0.5, 0.8, 0.9, 0.95, 1)
)


def write_coverage_page(folder: Path, out: Path | None = None) -> Path:
    """Write the page of a study of coverage from the tables in its folder, without training.

    Args:
        folder: the folder of the study.
        out: the path of the page, by default `report.html` in the folder; with the ending .md the page is Markdown.

    Returns:
        The path of the page.

    Examples:
        >>> write_coverage_page(Path("study"), Path("docs/coverage.md"))  # doctest: +SKIP

    """
    return write_page_of("coverage", (TABLE, UNITS), _page, folder, out)


def _page(table: pd.DataFrame, units: pd.DataFrame, remarks: Sequence[str]) -> StudyPage:
    summary, notice = summarise(table), _notice(table, units)
    sections = [
        Section("Results", remarks) if remarks else None,
        *(_goals(summary, method) for method in (OURS, LAYERS)),
        Section("Coverage of the truth", figures=[_coverage(summary), _calibration(summary)]),
        Section("Prediction, curve and output noise", figures=_accuracy(summary)),
        *(_single_fits(table, method) for method in (OURS, LAYERS)),
        _scores(summary),
        _settings(summary, units),
    ]
    lead = (
        f"{table['method'].nunique()} methods on {table['problem'].nunique()} simulated problems, each with uniform "
        "and with normal ζ: the model without Errors-in-Variables, the paper's recipe, the paper's recipe with one "
        f"ingredient added, and the default recipe of EiVRegressor{_networks(units)}. There are "
        f"{units['n_realisations'].max()} realisations of the data, with {units['n_networks'].max()} networks and "
        f"{units['n_test'].max()} test points per realisation."
    )
    return StudyPage("Coverage, recipe by recipe", lead, [section for section in sections if section], notice)


def _networks(units: pd.DataFrame) -> str:
    """The networks that the default recipe fitted, in words; what a unit does not say is of before there were two."""
    parts = []
    for method in (OURS, LAYERS):
        arguments = map(json.loads, units["arguments"][units["method"] == method])
        kinds = dict.fromkeys(given.get("network", "paper") for given in arguments)
        parts += [f"“{method}” fits {' or '.join(NETWORKS.get(kind, kind) for kind in kinds)}"] if kinds else []
    return f" ({'; '.join(parts)})" if parts else ""


def _notice(table: pd.DataFrame, units: pd.DataFrame) -> str:
    """A sentence on what a run leaves out of the study; empty where it is complete."""
    parts = [
        f"without {', '.join(map(repr, gone))}"
        for column, known in (("problem", SIMULATED), ("method", METHODS))
        if (gone := [name for name in known if name not in set(table[column])])
    ]
    run = table.groupby("method", sort=False)["problem"].unique()
    parts += [
        f"{method!r} on {', '.join(map(repr, found))} only"
        for method, found in run.items()
        if len(found) < table["problem"].nunique()
    ]
    fewest = (int(units["n_realisations"].min()), int(units["n_networks"].min()))
    parts += [
        f"{n} instead of {whole} {what}" for n, (what, whole) in zip(fewest, FULL.items(), strict=True) if n < whole
    ]
    return what_is_missing(parts)


def _goals(summary: pd.DataFrame, method: str) -> Section | None:
    reached = {goal: found for goal in GOALS if (found := goal.conditions(summary, method))}
    if not reached:
        return None
    text = (
        "Each number is a mean over the realisations of the data, each of which is a mean over its networks, with the "
        "standard error over the realisations. A goal is met (✓) on a problem where the number is within the bounds by "
        "two standard errors, missed (✗) where it is outside by two, and undecided (?) where a bound is within two "
        "standard errors. The limit of the RMSE is that of f = g and the true distribution of ζ. RMSEs scatter with "
        "the test points, most with normal ζ; RMSE / best, in the table of all scores, scatters less."
    )
    if method == LAYERS and OURS in summary.index.unique("method"):
        text = "The same goals, for the default recipe with layers."
    tables = [_by_goal(summary, reached, method), _by_problem(reached, method)]
    return Section(f"Goals for our recipe: {method}", [text], tables=tables)


def _by_goal(
    summary: pd.DataFrame, reached: Mapping[Goal, Mapping[tuple[str, str], Condition]], method: str
) -> HtmlTable:
    rows = []
    for goal, found in reached.items():
        parts = {
            verdict: [condition.subject for condition in found.values() if condition.verdict == verdict]
            for verdict in MARKS
        }
        words = [
            f"{goal.sentence}: {goal.asked}",
            _from_to(found.values()),
            _from_to(goal.conditions(summary, PAPER).values()),
            f"{len(parts['holds'])}\u00a0of\u00a0{len(found)}",
            ", ".join(parts["does not hold"]) or "–",
            ", ".join(parts["cannot tell"]) or "–",
        ]
        rows.append([Cell.of(word) for word in words])
    caption = "Goal by goal: the least and the largest number over the problems that have this goal."
    return HtmlTable(caption, ("goal", method, "paper's recipe", "met", "missed", "undecided"), rows)


def _from_to(conditions: Iterable[Condition]) -> str:
    values = [condition.value for condition in conditions]
    return "\u00a0to\u00a0".join(dict.fromkeys(f"{end(values):.3f}" for end in (min, max))) if values else "–"


def _by_problem(reached: Mapping[Goal, Mapping[tuple[str, str], Condition]], method: str) -> HtmlTable:
    problems = dict.fromkeys(where for found in reached.values() for where in found)
    rows = [[*map(Cell.of, where), *(_judged(found.get(where)) for found in reached.values())] for where in problems]
    headings = ("problem", "ζ", *(goal.name for goal in reached))
    return HtmlTable(f"Problem by problem: {method}, with a dash where there is no goal.", headings, rows)


def _judged(condition: Condition | None) -> Cell:
    if condition is None:
        return Cell.measured(np.nan, np.nan)
    plain = Cell.measured(condition.value, condition.error)
    return Cell(f"{plain.text} {MARKS[condition.verdict]}", plain.key)


def _coverage(summary: pd.DataFrame) -> Drawing:
    columns = {f"{kind} interval": f"truth_{kind}_0.95" for kind in _KINDS}
    figure = _panels(summary, columns, "share of g(ζ) covered by the 95 % interval", GOALS[0], TOWARDS_ONE)
    caption = (
        "Coverage of the truth g(ζ) at test points by two 95 % intervals: m ± 1.96 u, and from the 2.5 % to the 97.5 % "
        "quantile. The axis is stretched towards 1. Bars: standard errors over the realisations; shaded: 0.93 to 0.97."
    )
    return Drawing("coverage_truth", figure, caption)


def _accuracy(summary: pd.DataFrame) -> list[Drawing]:
    goals = {goal.column: goal for goal in GOALS}
    captions = {
        "rmse_ratio": (LINEAR, "RMSE of the prediction m(x) to the truth g(ζ), over the smallest possible one."),
        "clean_ratio": (LOG, "RMSE of f to g at exact inputs ζ, over that of the paper's recipe on the same data."),
        "y_noise_ratio": (LOG, "Fitted σ_y over the true one."),
    }
    return [
        Drawing(
            f"coverage_{column}",
            _panels(summary, {"": column}, goals[column].name, goals[column], scale),
            f"{caption} Bars: standard errors over the realisations; shaded, for those with a goal: "
            f"{goals[column].asked}.",
        )
        for column, (scale, caption) in captions.items()
        if summary["mean", column].notna().any()
    ]


def _panels(summary: pd.DataFrame, columns: Mapping[str, str], label: str, goal: Goal, scale: _Scale) -> Figure:
    """A panel per problem and zeta, a row per method, a point per column (filled, then hollow), the goal shaded."""
    problems, zetas, methods = (list(summary.index.unique(name)) for name in ("problem", "zeta", "method"))
    places, without = np.arange(len(methods)), np.array([method == NON_EIV for method in methods])
    bounds = [bound for bound in (goal.low, goal.high, scale.at) if np.isfinite(bound)]
    low, high = scale.ends(np.append(summary["mean"][list(columns.values())].to_numpy(), bounds))
    size = (2.5 + 1.6 * len(problems), 0.9 + (0.5 + 0.22 * len(methods)) * len(zetas))
    figure, panels = new_figure(len(zetas), len(problems), size, sharex=True, sharey=True)
    panels[0, 0].set_xlim(low, high)
    panels[0, 0].set_xscale("function", functions=(scale.forward, scale.inverse))
    for axes, (zeta, problem) in zip(panels.flat, itertools.product(zetas, problems), strict=True):
        found = summary.reindex([(problem, zeta, method) for method in methods])
        if problem in goal.problems:
            axes.axvspan(max(low, goal.low), goal.high, color=_BAND, linewidth=0)
        axes.axvline(scale.at, color=COLOURS["truth"], linewidth=0.8)
        for i, (name, column) in enumerate(columns.items()):
            y = places + 0.3 * (i - (len(columns) - 1) / 2)
            for model, rows in (("non_eiv", without), ("eiv", ~without)):
                axes.errorbar(
                    found["mean", column][rows], y[rows], xerr=found["se", column][rows], label=name, linestyle="none",
                    color=COLOURS[model], marker=MARKERS[model], markersize=4, fillstyle=("full", "none")[i],
                )  # fmt: skip
        axes.set(title=f"{problem}, {zeta} ζ", ylim=(len(methods) - 0.5, -0.5))
        axes.grid(axis="y", color=_GRID, linewidth=0.6)
    axes.set_yticks(places, methods)
    if scale.ticks:
        axes.set_xticks([tick for tick in scale.ticks if low <= tick <= high])
        axes.xaxis.set_major_formatter("{x:g}")
    figure.supxlabel(label, fontsize="medium")
    if len(columns) > 1:
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles[1::2], names[1::2], loc="outside upper right", ncols=2, frameon=False)
    return figure


def _calibration(summary: pd.DataFrame) -> Drawing:
    problems, zetas = (list(summary.index.unique(name)) for name in ("problem", "zeta"))
    rows = list(itertools.product(zetas, _KINDS))
    figure, panels = new_figure(
        len(rows), len(problems), (1 + 1.9 * len(problems), 1 + 1.6 * len(rows)), sharex=True, sharey=True
    )
    for (zeta, kind), line in zip(rows, panels, strict=True):
        for axes, problem in zip(line, problems, strict=True):
            axes.plot([0, 1], [0, 1], color=COLOURS["truth"], linewidth=0.8)
            for method in (name for name in _LOOKS if (problem, zeta, name) in summary.index):
                columns = [f"truth_{kind}_{level:g}" for level in LEVELS]
                found = summary.loc[(problem, zeta, method)]
                mean, error = found["mean"][columns], found["se"][columns]
                axes.errorbar(LEVELS, mean, yerr=error, label=method, markersize=4, **_LOOKS[method])
            axes.set(xlim=(0.4, 1), ylim=(0, 1.02))
            axes.set_xticks(LEVELS, [f"{level:g}" for level in LEVELS])
            axes.set_title(f"{problem}, {zeta} ζ")
        line[0].set_ylabel(f"{kind} interval")
    figure.supxlabel("nominal level", fontsize="medium")
    figure.supylabel("share of g(ζ) covered", fontsize="medium")
    drawn = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in panels.flat]  # a method may lack problems
    lines = {label: handle for handle, label in itertools.chain(*drawn)}
    shown = [name for name in _LOOKS if name in lines]
    figure.legend([lines[name] for name in shown], shown, loc="outside upper right", ncols=4, frameon=False)
    caption = (
        "Coverage of the truth by intervals of 50, 80 and 95 %. On the line it is as large as it should be. Bars, "
        "mostly hidden by the points: standard errors over the realisations."
    )
    return Drawing("coverage_calibration", figure, caption)


def _single_fits(table: pd.DataFrame, method: str) -> Section | None:
    """The section on the scatter of coverage between single fits, since a user has one fit."""
    ours = table[table["method"] == method]
    if ours.empty:
        return None
    text = (
        "The numbers above are means over fits, but a user has one fit. This table is about single fits of "
        f"“{method}”, each of one network on one data set: the mean of their coverages, their standard deviation, and "
        f"their 5 % and 95 % quantiles. The choice of {N_TEST} test points alone gives a coverage the standard "
        f"deviation {np.sqrt(0.95 * 0.05 / N_TEST):.3f}."
    )
    rows = [
        [_name(problem), _name(zeta), Cell.of(len(fits)), *(_scattered(fits[name]) for name in COVERAGES)]
        for (problem, zeta), fits in ours.groupby(["problem", "zeta"], sort=False)
    ]
    headings = ("problem", "ζ", "fits", *COVERAGES.values())
    return Section(f"Single fits: {method}", [text], tables=[HtmlTable("Coverages by 95 % intervals.", headings, rows)])


def _scattered(values: pd.Series) -> Cell:
    """The mean of single values, their standard deviation and quantiles."""
    low, high = np.quantile(values, [0.05, 0.95])
    return Cell(f"{values.mean():.3f}, sd {values.std():.3f}, {low:.3f} to {high:.3f}", float(values.mean()))


def _scores(summary: pd.DataFrame) -> Section:
    text = (
        "Means and standard errors over the realisations. RMSE is of m(x) to g(ζ); the limit is its smallest possible "
        "value, and best is that of E[g(ζ) | x], with the true distribution of ζ, on the same test points. Error of f "
        "is the RMSE of the curve at exact inputs."
    )
    captions = {
        "Coverages by 95 % intervals, and RMSE.": PREDICTION,
        "RMSE, curve and output noise.": MODEL,
        "Coverage of the truth by intervals of 50 and of 80 %.": LOWER_LEVELS,
    }
    return Section("All scores", [text], tables=[_score_table(summary, *item) for item in captions.items()])


def _score_table(summary: pd.DataFrame, caption: str, columns: Mapping[str, str]) -> HtmlTable:
    means, errors = (summary[part][list(columns)].to_numpy() for part in ("mean", "se"))
    rows = [
        [*map(_name, where), *map(Cell.measured, mean, error)]
        for where, mean, error in zip(summary.index, means, errors, strict=True)
    ]
    return HtmlTable(caption, ("problem", "ζ", "method", *columns.values()), rows)


def _name(name: str) -> Cell:
    """A name without line breaks."""
    return Cell(name.replace(" ", "\u00a0"), name)


def _settings(summary: pd.DataFrame, units: pd.DataFrame) -> Section:
    text = (
        "The table lists the arguments of EiVRegressor that a method changes. Training times are in seconds per "
        "network, as means over the problems; their ratios to the paper's recipe are geometric means, with a dash "
        "where that ran on another device. Stacks of networks ran in parallel, so times are a guide only; "
        "docs/benchmarks.md has those of single fits."
    )
    tables = [_methods(summary, units), training_table(units["problem"].unique()), _provenance(units)]
    return Section("Settings and provenance", [text], tables=tables)


def _methods(summary: pd.DataFrame, units: pd.DataFrame) -> HtmlTable:
    means = summary["mean"].groupby("method", sort=False)
    seconds, ratios = (
        means["training_s"].mean(),
        np.exp(means["training_ratio"].agg(lambda found: np.log(found).mean())),
    )
    devices = units.groupby("method")["device_name"].agg(set)
    rows = [
        [
            _name(method),
            Cell.of(_changes(units, method)),
            Cell.measured(seconds[method], np.nan),
            Cell.measured(ratios[method] if devices[method] == devices.get(PAPER) else np.nan, np.nan, 2),
        ]
        for method in seconds.index
    ]
    return HtmlTable("The methods.", ("method", "differs from the paper", "training, s", "relative to the paper"), rows)


def _changes(units: pd.DataFrame, method: str) -> str:
    """The arguments of a method that differ from the paper's on the same problem; all where that was not run."""
    values: dict[str, dict[str, list[str]]] = {}
    for problem, rows in units.groupby("problem", sort=False):
        arguments = {row.method: json.loads(row.arguments) for row in rows.itertuples()}
        ours, paper = arguments.get(method, {}), arguments.get(PAPER, {})
        for name in {**ours, **paper}:
            if name not in ours or name not in paper or ours[name] != paper[name]:
                values.setdefault(name, {}).setdefault(str(ours.get(name, "default")), []).append(str(problem))
    words = [
        f"{name} = "
        + " or ".join(f"{value} ({', '.join(of)})" if len(found) > 1 else value for value, of in found.items())
        for name, found in values.items()
    ]
    return "; ".join(words) or "–"


def _provenance(units: pd.DataFrame) -> HtmlTable:
    columns = [
        "problem", "zeta", "method", "n_realisations", "n_networks", "seed", "device_name", "eiv", "torch", "numpy",
        "python", "training_s", "evaluation_s", "finished",
    ]  # fmt: skip
    return provenance_table(units, columns)
