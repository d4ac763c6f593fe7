"""The page of `eiv study errors`, from its tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import ndtr

from eiv.datasets import SIMULATED
from eiv.experiments.studies.errors import COSINES, DOF, METHODS, N_TEST, STATED, TABLE, UNITS, ZETAS
from eiv.experiments.studies.page import Drawing, Section, StudyPage, provenance_table, what_is_missing, write_page_of
from eiv.plotting import COLOURS, MARKERS, new_figure
from eiv.report.pages import Cell, HtmlTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["chance_inside", "write_errors_page"]

_LOW, _HIGH = 0.92, 0.97  # the goal for the truth inside its 95 % interval
_SLOPE = 2 * 1.96 * math.exp(-(1.96**2) / 2) / math.sqrt(2 * math.pi)  # of coverage by the logarithm of the size
_SETTLED = 0.5  # share of the prior variance of log size that rows take away where they settle the size
_LOOKS = {"as stated": ("non_eiv", "errors taken as stated"), "learned": ("eiv", "size learned")}
_COLUMNS = {
    "truth_0.95": "truth inside its 95 % interval",
    "labels_0.95": "labels inside theirs",
    "rmse_ratio": "RMSE / limit",
    "clean_rmse": "error of f",
    "y_noise_ratio": "σ_y / true",
}


def write_errors_page(folder: Path, out: Path | None = None) -> Path:
    """Write the page of a study of errors from the tables in its folder, without training.

    Args:
        folder: the folder of the study.
        out: the path of the page, by default `report.html` in the folder; with the ending .md the page is Markdown.

    Returns:
        The path of the page.

    Examples:
        >>> write_errors_page(Path("errors"), Path("docs/errors.md"))  # doctest: +SKIP

    """
    return write_page_of("errors", (TABLE, UNITS), _page, folder, out)


def overview(table: pd.DataFrame) -> HtmlTable:
    """Means over all problems, by the stated size and the method."""
    rows = []
    for (stated, method), part in table.groupby(["stated", "method"], sort=False):
        cells = [Cell.measured(float(part[name].mean()), _error(part[name])) for name in _COLUMNS]
        rows.append([Cell.of(float(stated)), Cell.of(str(method)), *cells])
    headings = ["stated / true", "method", *_COLUMNS.values()]
    return HtmlTable("Means over problems and data sets, with their standard errors.", headings, rows)


def _error(values: pd.Series) -> float:
    return float(values.std() / np.sqrt(len(values))) if len(values) > 1 else float("inf")


def _page(table: pd.DataFrame, units: pd.DataFrame, remarks: Sequence[str]) -> StudyPage:
    n_rows, n_sets = int(units["n_rows"].max()), int(units["realisation"].nunique())
    lead = (
        f"The four simulated problems with uniform and with normal ζ, {n_rows} rows, {n_sets} "
        f"{'data set' if n_sets == 1 else 'data sets'} each. The stated errors of X are {_listed(STATED)} times the "
        f"true ones. They are taken as stated, or their size is learned: x_err=eiv.estimated(error, dof={DOF}). "
        f"Networks have {COSINES} cosines, fewer than by default, so that the study takes minutes."
    )
    gone = [name for name in SIMULATED if name not in set(table["problem"])]
    notice = what_is_missing([f"without {', '.join(gone)}"] if gone else [])
    sections = [
        Section("What follows", remarks) if remarks else None,
        Section(
            "Overview", [_overview_text()], [Drawing("errors_truth", _coverages(table), _TRUTH)], [overview(table)]
        ),
        Section("The size that is found", _size_text(table), [Drawing("errors_size", _sizes(table), _SIZE)]),
        Section("Problem by problem", tables=[_by_problem(table)]),
        Section("Provenance", tables=[_provenance(units)]),
    ]
    return StudyPage("Errors of the wrong size", lead, [section for section in sections if section], notice)


_TRUTH = "True values inside their 95 % interval. Grey: the goal, 0.92 to 0.97. Each point is a problem's mean."
_SIZE = (
    "The size that is found over the true one, with 1.96 of its stated standard deviations; one point for each data "
    "set. Grey: within 15 %."
)


def _overview_text() -> str:
    return (
        "RMSE is the error of the prediction of g(ζ) over the smallest possible one, of the method that knows g, σ_x "
        "and the distribution of ζ. The error of f is that of the curve at exact inputs, in standard deviations of the "
        "truth."
    )


def _size_text(table: pd.DataFrame) -> list[str]:
    learned = table[table["method"] == "learned"]
    wrong = learned[(learned["stated"] != 1) & (learned["settled"] > _SETTLED)]
    if wrong.empty:
        return ["The rows tell no size here."]
    truth = wrong["truth_0.95"]
    inside = ((truth >= _LOW) & (truth <= _HIGH)).sum()
    stated = table[(table["method"] == METHODS[0]) & (table["stated"] == 1)]["truth_0.95"]
    scatter = float(np.sqrt(max(stated.var() - 0.95 * 0.05 / N_TEST, 0.0))) if len(stated) > 1 else 0.0
    chances = np.array([chance_inside(std, scatter) for std in wrong["size_std"]])
    near = (wrong["size_ratio"] - 1).abs() <= 0.15
    held = (np.log(wrong["size_ratio"]).abs() <= 1.96 * wrong["size_std"]).sum()
    return [
        f"Where the errors are stated wrong and the rows take away more than half of the prior variance of the "
        f"logarithm of the size ({len(wrong)} of {(learned['stated'] != 1).sum()} fits), the truth is covered "
        f"{truth.mean():.3f} on average and {truth.min():.3f} to {truth.max():.3f} in single fits, of which {inside} "
        f"lie between {_LOW} and {_HIGH}. The size is found within 15 % in {near.sum()} of them. In {held} the true "
        "size lies within 1.96 of the stated standard deviations.",
        f"A single fit cannot always reach the goal, because what is left open of the size moves its coverage: with "
        f"{wrong['size_std'].median():.2f} as standard deviation of the logarithm, the median here, by "
        f"{_SLOPE * wrong['size_std'].median():.3f}. A method whose stated uncertainties are all right would have "
        f"{chances.sum():.1f} ± {np.sqrt((chances * (1 - chances)).sum()):.1f} of these {len(wrong)} fits inside the "
        f"goal, if they were of independent data. That counts the size, the {N_TEST:,} test points, and the scatter of "
        f"{scatter:.3f} that coverage has from one data set to another where the errors are stated right.",
    ]


def chance_inside(size_std: float, scatter: float, n_test: int = N_TEST) -> float:
    r"""The probability that a single fit covers 0.92 to 0.97 of the truth if all that it states is right.

    .. math:: c(t) = 2 \Phi(1.96\, e^t) - 1, \qquad t \sim \mathcal{N}(0, s^2), \qquad
              \hat c \sim \mathcal{N}\Big(c(t), \frac{c (1 - c)}{n} + d^2\Big)

    Intervals as wide as the assumed size makes them cover c(t) where the true size is off by t, in logarithms; that is
    where all uncertainty comes from the errors of x.

    Args:
        size_std: s.
        scatter: d, of the coverage from one data set to another.
        n_test: n, the test points.

    Examples:
        >>> round(chance_inside(0.04, 0.011), 2), round(chance_inside(0.2, 0.011), 2)
        (0.89, 0.41)

    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    covered = 2 * ndtr(1.96 * np.exp(size_std * nodes)) - 1
    std = np.sqrt(np.maximum(covered * (1 - covered), 0) / n_test + scatter**2) + np.finfo(float).tiny
    inside = ndtr((_HIGH - covered) / std) - ndtr((_LOW - covered) / std)
    return float(weights @ inside / weights.sum())


def _coverages(table: pd.DataFrame) -> Figure:
    figure, (panels,) = new_figure(1, len(STATED), (7.6, 3.4), sharex=True, sharey=True)
    names = [f"{problem}, {zeta}" for problem in SIMULATED for zeta in ZETAS]
    for axes, stated in zip(panels, STATED, strict=True):
        axes.axvspan(_LOW, _HIGH, color="#dddddd", zorder=0)
        for method, (look, label) in _LOOKS.items():
            part = table[(table["stated"] == stated) & (table["method"] == method)]
            means = part.groupby(["problem", "zeta"])["truth_0.95"].mean()
            places = [names.index(f"{problem}, {zeta}") for problem, zeta in means.index]
            axes.plot(means.to_numpy(), places, MARKERS[look], color=COLOURS[look], label=label, markersize=5)
        axes.set(title=f"stated {stated:g} times the true size", xlabel="truth covered", ylim=(len(names) - 0.5, -0.5))
    panels[0].set_yticks(range(len(names)), names)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def _sizes(table: pd.DataFrame) -> Figure:
    figure, ((axes,),) = new_figure(1, 1, (7.0, 4.0))
    learned = table[table["method"] == "learned"]
    names = [f"{problem}, {zeta}" for problem in SIMULATED for zeta in ZETAS]
    shades = dict(zip(STATED, ("#e8788a", COLOURS["eiv"], "#6b0818"), strict=True))
    axes.axvspan(0.85, 1.15, color="#dddddd", zorder=0)
    axes.axvline(1, color=COLOURS["truth"], linewidth=0.8)
    for shift, (stated, marker) in zip((-0.22, 0.0, 0.22), zip(STATED, "v^D", strict=True), strict=True):
        part = learned[learned["stated"] == stated]
        places = np.array([names.index(f"{row.problem}, {row.zeta}") for row in part.itertuples()]) + shift
        size, width = part["size_ratio"].to_numpy(), np.exp(1.96 * part["size_std"].to_numpy())
        ends = np.stack([size - size / width, size * width - size])
        style = {"fmt": marker, "color": shades[stated], "markersize": 4, "linewidth": 1}
        axes.errorbar(size, places, xerr=ends, label=f"stated {stated:g} times", **style)
    axes.set(xscale="log", xlabel="size of the errors, found over true", ylim=(len(names) - 0.5, -0.5))
    axes.set_xticks([0.5, 1, 2], ["0.5", "1", "2"])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _by_problem(table: pd.DataFrame) -> HtmlTable:
    rows = []
    more = {"size_ratio": "size / true", "size_std": "its std", "settled": "settled", "of_size": "u from the size"}
    for keys, part in table.groupby(["problem", "zeta", "stated", "method"], sort=False):
        learned = keys[-1] == METHODS[1]
        cells = [Cell.measured(float(part[name].mean()), float("inf")) for name in _COLUMNS]
        cells += [Cell.measured(float(part[name].mean()) if learned else float("nan"), float("inf")) for name in more]
        rows.append([Cell.of(key) for key in keys] + cells)
    caption = (
        "Means over the data sets. Settled: the share of the prior variance of the logarithm of the size that the rows "
        "take away. u from the size: its root mean square over that of u."
    )
    return HtmlTable(caption, ["problem", "ζ", "stated / true", "method", *_COLUMNS.values(), *more.values()], rows)


def _provenance(units: pd.DataFrame) -> HtmlTable:
    columns = ["problem", "zeta", "stated", "method", "realisation", "n_rows", "seed", "eiv", "torch", "device"]
    return provenance_table(units, [*columns, "training_s", "evaluation_s"])


def _listed(values: Sequence[float]) -> str:
    *first, last = (f"{value:g}" for value in values)
    return f"{', '.join(first)} and {last}"
