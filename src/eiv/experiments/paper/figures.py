"""The paper's figures, drawn from the tables of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from eiv.datasets import SIMULATED
from eiv.experiments.paper.settings import METHODS
from eiv.experiments.paper.tables import Tables, select
from eiv.plotting import COLOURS, LABELS, LINES, MARKERS, new_figure, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CAPTIONS", "draw_figures"]

CAPTIONS = {
    "prediction_linear": "Predictions on linear, averaged over the networks, with 1.96 times their uncertainty "
    "(epistemic for non-EiV, u for EiV). Each of the 50 points is predicted from a measured x of its own and drawn at "
    "its true ζ. The cut-out shows one ζ and its x: both predictions follow g(x).",
    "other_predictions": "The same on the other simulated sets.",
    "deviation_scatter": "Distances of the predictions for 200 fresh points from g(ζ) and from g(x). Below the "
    "diagonal a prediction is closer to g(x), the value at the measured input, than to the truth. Each panel gives the "
    "share of such points.",
    "scores": "RMSE, coverage of labels by 1.96 times the total uncertainty, and by 1.96 u (EiV) or 1.96 times the "
    "epistemic uncertainty (non-EiV), on the test rows. Bars: standard errors over the networks.",
    "truth_coverage": "Coverage of the truth g(ζ) on the test rows by 1.96 u (epistemic for non-EiV). For EiV, filled: "
    "the unbiased estimator, hollow: Algorithm 2 as printed, whose five zetas for all thetas make u too small. For the "
    "g-based regression, filled: the uncertainty of its coefficients, hollow: its predictive uncertainty, which "
    "includes σ_y, as the paper describes it.",
    "truth_coverage_by_level": "Coverage of the truth by intervals that should cover a share q of it. Bands: standard "
    "errors over the networks. A model on the diagonal is calibrated.",
}


def draw_figures(tables: Tables, folder: Path) -> list[str]:
    """Draw every figure that the tables have data for, as SVG and PNG.

    Args:
        tables: the tables of a run.
        folder: the folder for the figures.

    Returns:
        The names of the figures, in the order of the paper.

    Examples:
        >>> sorted(CAPTIONS)[:2]
        ['deviation_scatter', 'other_predictions']

    """
    drawn = []
    for name, draw in _FIGURES.items():
        with styled():
            figure = draw(tables)
            if figure is not None:
                save(figure, folder / name)
                drawn.append(name)
    return drawn


def _simulated(tables: Tables) -> list[str]:
    return [name for name in tables.networks["dataset"].unique() if name in SIMULATED]


def _points(tables: Tables, dataset: str, method: str, kind: str) -> pd.DataFrame:
    return select(tables.points, dataset=dataset, method=method, kind=kind, estimator="unbiased")


def _prediction_linear(tables: Tables) -> Figure | None:
    if "linear" not in _simulated(tables):
        return None
    figure, ((whole, zoom),) = new_figure(1, 2, (9.6, 4.2))
    for axes in (whole, zoom):
        _predictions(axes, tables, "linear")
    whole.set(title="predictions from measured x, drawn at the true ζ", ylabel="output")
    whole.legend(frameon=False, loc="upper left")
    points = _points(tables, "linear", "eiv", "line")
    inner = points[(points["zeta"].abs() < 0.7)]
    one = inner.loc[(inner["x"] - inner["zeta"]).abs().idxmax()]  # the ζ whose x is farthest from it
    centre, half = (one["zeta"] + one["x"]) / 2, 0.42
    zoom.set(xlim=(centre - half, centre + half), ylim=(centre - half, centre + half))
    for at, value, colour, style, label in (
        (one["zeta"], one["truth"], "black", ":", "ζ and g(ζ)"),
        (one["x"], one["g_of_x"], "gray", "--", "measured x and g(x)"),
    ):
        zoom.axvline(at, color=colour, linestyle=style, label=label)
        zoom.axhline(value, color=colour, linestyle=style)
    zoom.set_title("cut-out: the prediction at ζ follows g(x), not g(ζ)")
    handles, labels = zoom.get_legend_handles_labels()
    zoom.legend(handles[-2:], labels[-2:], loc="lower right", framealpha=1)
    return figure


def _other_predictions(tables: Tables) -> Figure | None:
    names = [name for name in _simulated(tables) if name != "linear"]
    if not names:
        return None
    figure, (row,) = new_figure(1, len(names), (3.6 * len(names), 3.6))
    for axes, name in zip(row, names, strict=True):
        _predictions(axes, tables, name)
        axes.set_title(name)
    row[0].set_ylabel("output")
    row[0].legend(frameon=False, fontsize=8, loc="upper center")
    return figure


def _predictions(axes: Axes, tables: Tables, dataset: str) -> None:
    for method in METHODS:
        line = _points(tables, dataset, method, "line")
        low, high = line["mean"] - 1.96 * line["u"], line["mean"] + 1.96 * line["u"]
        axes.fill_between(line["zeta"], low, high, color=COLOURS[method], alpha=0.2, linewidth=0)
        label = f"{LABELS[method]}: prediction ± 1.96 u"
        axes.plot(line["zeta"], line["mean"], LINES[method], color=COLOURS[method], label=label)
    problem = SIMULATED[dataset]
    zeta = np.linspace(*problem.zeta_range, 300)
    axes.plot(zeta, problem.g(zeta), color=COLOURS["truth"], label="truth g(ζ)")
    axes.set_xlabel("true input ζ")


def _deviation_scatter(tables: Tables) -> Figure | None:
    names = _simulated(tables)
    if not names:
        return None
    figure, (row,) = new_figure(1, len(names), (2.7 * len(names), 3.6))
    for axes, name in zip(row, names, strict=True):
        largest, shares = 0.0, []
        for method, marker in zip(METHODS, "+x", strict=True):
            fresh = _points(tables, name, method, "fresh")
            from_truth, from_g_of_x = (fresh["mean"] - fresh["truth"]).abs(), (fresh["mean"] - fresh["g_of_x"]).abs()
            shares.append(f"{LABELS[method]} {100 * (from_g_of_x < from_truth).mean():.0f} %")
            look = {"s": 16, "marker": marker, "color": COLOURS[method], "linewidth": 0.8}
            axes.scatter(from_truth, from_g_of_x, label=LABELS[method], **look)
            largest = max(largest, from_truth.max(), from_g_of_x.max())
        axes.plot([0, largest], [0, largest], ":", color="black", linewidth=1)
        axes.set(xlabel="|m − g(ζ)|", aspect="equal")
        axes.set_title(f"{name}\nbelow: {', '.join(shares)}", fontsize=9)
    row[0].set_ylabel("|m − g(x)|")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def _scores(tables: Tables) -> Figure | None:
    names = list(tables.networks["dataset"].unique())
    summary = tables.summary()
    columns = {
        "rmse": "RMSE to labels",
        "label_coverage_total": "labels covered by 1.96 total",
        "label_coverage_u": "labels covered by 1.96 u",
    }
    figure, (row,) = new_figure(1, 3, (9.6, 1.5 + 0.3 * len(names)), sharey=True)
    for axes, (column, title) in zip(row, columns.items(), strict=True):
        for shift, method in zip((-0.14, 0.14), METHODS, strict=True):
            found = summary.xs(method, level="method").xs("unbiased", level="estimator")[column].reindex(names)
            _dots(axes, found, np.arange(len(names)) + shift, method)
        axes.set(title=title)
        axes.grid(axis="y", alpha=0.25)
    row[0].set(yticks=range(len(names)), yticklabels=names, xlim=(0, None))
    row[0].invert_yaxis()
    row[1].axvline(0.95, color="black", linestyle="--", linewidth=1)
    row[2].set_xlim(0, 1)
    row[0].legend(frameon=False)
    return figure


def _truth_coverage(tables: Tables) -> Figure | None:
    names = _simulated(tables)
    if not names:
        return None
    summary = tables.summary()
    figure, ((axes,),) = new_figure(1, 1, (6.4, 3.9))
    rows = (
        ("eiv", "unbiased", ""),
        ("eiv", "literal", ", Algorithm 2 as printed"),
        ("non_eiv", "unbiased", ""),
        ("g_regression", "parameters", ", coefficients"),
        ("g_regression", "predictive", ", with σ_y"),
    )
    for shift, (method, estimator, words) in zip((-0.3, -0.15, 0.0, 0.15, 0.3), rows, strict=True):
        found = summary.xs(method, level="method").xs(estimator, level="estimator")["truth_coverage"].reindex(names)
        hollow = estimator in ("literal", "predictive")
        _dots(axes, found, np.arange(len(names)) + shift, method, hollow, words)
    axes.axvline(0.95, color="black", linestyle="--", linewidth=1)
    axes.set(yticks=range(len(names)), yticklabels=names, xlim=(-0.02, 1.02), xlabel="share of g(ζ) covered by 1.96 u")
    axes.invert_yaxis()
    axes.grid(axis="y", alpha=0.25)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return figure


def _dots(axes: Axes, found: pd.DataFrame, heights: Any, method: str, hollow: bool = False, words: str = "") -> None:
    axes.errorbar(
        found["mean"],
        heights,
        xerr=found["se"].fillna(0),
        fmt=MARKERS[method],
        markersize=5,
        capsize=2,
        linewidth=1,
        color=COLOURS[method],
        markerfacecolor="white" if hollow else COLOURS[method],
        label=LABELS[method] + words,
    )


def _truth_coverage_by_level(tables: Tables) -> Figure | None:
    names = _simulated(tables)
    if not names:
        return None
    figure, (row,) = new_figure(1, len(names), (2.7 * len(names), 3.1), sharey=True)
    for axes, name in zip(row, names, strict=True):
        for method in METHODS:
            found = select(tables.calibration, dataset=name, method=method, estimator="unbiased")
            grouped = found.groupby("q")["coverage"]
            mean, error = grouped.mean(), grouped.sem().fillna(0)
            axes.fill_between(mean.index, mean - error, mean + error, color=COLOURS[method], alpha=0.25, linewidth=0)
            axes.plot(mean.index, mean, LINES[method], color=COLOURS[method], label=LABELS[method])
        axes.plot([0, 1], [0, 1], ":", color="black", linewidth=1)
        axes.set(title=name, xlabel="q", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    row[0].set_ylabel("share of g(ζ) covered")
    row[0].legend(frameon=False, loc="upper left")
    return figure


_FIGURES: dict[str, Callable[[Tables], Figure | None]] = {
    "prediction_linear": _prediction_linear,
    "deviation_scatter": _deviation_scatter,
    "other_predictions": _other_predictions,
    "scores": _scores,
    "truth_coverage": _truth_coverage,
    "truth_coverage_by_level": _truth_coverage_by_level,
}
