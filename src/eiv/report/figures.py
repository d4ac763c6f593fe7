"""The figures on the page of a model, each small enough for a telephone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv.plotting import COLOURS, REST, new_figure, styled
from eiv.report.contributions import NOISE, TOGETHER, WEIGHTS, Budget
from eiv.report.curves import Curve
from eiv.report.labels import LEVELS, Comparison, Pattern
from eiv.report.ranges import Ranges
from eiv.report.words import number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
BANDS = {"label": "#f3c5cc", "function": "#dd7081"}  # the colour of EiV, lighter for labels
_PANEL, _SINGLE = (3.4, 2.6), (4.2, 3.4)  # inches
_MANY = 400  # the number of points from which on they are drawn as an image
_MOST_BARS, _LONGEST = 12, 28


def budget_figure(budget: Budget, title: str = "") -> Figure:
    """Bars of the standard uncertainty from each source, with its share of the variance of a label."""
    names, variances = budget.largest(_MOST_BARS)
    colours = {WEIGHTS: COLOURS["non_eiv"], TOGETHER: REST["other features"], NOISE: REST["remainder"]}
    with styled():
        figure, ((axes,),) = new_figure(1, 1, (4.6, 0.9 + 0.27 * len(names) + 0.4 * bool(title)))
        heights, lengths = range(len(names)), np.sqrt(np.maximum(variances, 0))
        bars = axes.barh(heights, lengths, color=[colours.get(name, COLOURS["eiv"]) for name in names])
        shares = variances / budget.total**2
        words = [f"{number(length)} ({percent(share)})" for length, share in zip(lengths, shares, strict=True)]
        axes.bar_label(bars, words, padding=3, fontsize=8.5)
        axes.set_yticks(heights, [shortened(name) for name in names])
        axes.set(xlabel="standard uncertainty u", ylim=(len(names) - 0.4, -0.6))
        axes.set_xlim(0, 1.6 * lengths.max())
        figure.suptitle(title, fontsize=9.5)
    return figure


def curve_figure(curve: Curve, feature: str, output: str, limits: tuple[float, float]) -> Figure:
    """A curve with the bands of the function and of a label, and the range of the training rows."""
    low, least, _, most, high = curve.quantiles
    with styled():
        figure, ((axes,),) = new_figure(1, 1, _PANEL)
        for of in ("label", "function"):
            axes.fill_between(curve.x, *curve.p.interval(0.95, of=of), color=BANDS[of], linewidth=0)
        axes.plot(curve.x, curve.p.mean, color=COLOURS["eiv"])
        axes.set(xlabel=shortened(feature), ylabel=shortened(output), ylim=limits, xlim=(curve.x[0], curve.x[-1]))
        along = axes.get_xaxis_transform()
        for ends, width in (((low, high), 1.2), ((least, most), 4.0)):
            axes.plot(ends, (0.02, 0.02), color="black", linewidth=width, transform=along, solid_capstyle="butt")
        for start, end in ((curve.x[0], low), (high, curve.x[-1])):
            if end > start:
                axes.axvspan(start, end, facecolor="#dddddd", edgecolor="#999999", hatch="///", alpha=0.5, linewidth=0)
    return figure


def limits_of(curves: Sequence[Curve]) -> tuple[float, float]:
    """Vertical limits that all panels share, so that the effects of the features can be compared."""
    ends = [curve.p.interval(0.95, of="label") for curve in curves]
    low, high = min(float(end[0].min()) for end in ends), max(float(end[1].max()) for end in ends)
    return low - 0.08 * (high - low), high + 0.02 * (high - low)


def calibration_figure(found: Comparison) -> Figure:
    """The coverage of labels over the level of their intervals, with a band for chance."""
    levels = np.array([0.0, *LEVELS, 1.0])
    covered, chance = np.array([0.0, *found.covered(LEVELS), 1.0]), found.chance(levels)
    with styled():
        figure, ((axes,),) = new_figure(1, 1, _SINGLE)
        right = 100 * levels
        band = (np.maximum(right - 100 * chance, 0), np.minimum(right + 100 * chance, 100))
        axes.fill_between(right, *band, color="#dddddd", label="right, within chance")
        axes.plot(right, right, ":", color="black", linewidth=1)
        axes.plot(right, 100 * covered, ".-", color=COLOURS["eiv"], label="this model")
        axes.set(xlabel="level of the interval, %", ylabel="labels inside, %", xlim=(0, 100), ylim=(0, 100))
        axes.legend(frameon=False, loc="lower right")
    return figure


def measured_figure(found: Comparison) -> Figure:
    """Measured over predicted labels."""
    with styled():
        figure, ((axes,),) = new_figure(1, 1, _PANEL)
        _points(axes, found.p.mean, found.y)
        ends = [min(found.p.mean.min(), found.y.min()), max(found.p.mean.max(), found.y.max())]
        axes.plot(ends, ends, color="black", linewidth=1)
        axes.set(xlabel="prediction", ylabel="label")
    return figure


def residual_figure(x: Array, found: Comparison, pattern: Pattern, what: str) -> Figure:
    """Residuals over a quantity, with the means of groups of rows."""
    with styled():
        figure, ((axes,),) = new_figure(1, 1, _PANEL)
        _points(axes, x, found.residuals)
        axes.axhline(0, color="black", linewidth=1)
        errors = np.nan_to_num(2 * pattern.errors)
        look: Any = {"fmt": "o", "color": COLOURS["eiv"], "markersize": 4, "capsize": 2, "linewidth": 1.2, "zorder": 3}
        axes.errorbar(pattern.centres, pattern.means, errors, **look)
        axes.set(xlabel=shortened(what), ylabel="label − prediction")
    return figure


def ranges_figure(ranges: Ranges, features: Sequence[str]) -> Figure:
    """The values outside the training range, each feature in units of its range."""
    chosen = ranges.features[: 2 * _MOST_BARS].tolist()
    with styled():
        figure, ((axes,),) = new_figure(1, 1, (4.6, 1.1 + 0.3 * len(chosen)))
        axes.barh(range(len(chosen)), 100.0, height=0.5, color="#dddddd", label="training range")
        for height, feature in enumerate(chosen):
            outside = (ranges.below | ranges.above)[:, feature]
            places = 100 * ranges.places[outside, feature]
            label = "values outside" if height == 0 else None
            axes.plot(places, np.full(len(places), height), "|", color=COLOURS["eiv"], markersize=9, label=label)
        axes.set_yticks(range(len(chosen)), [shortened(features[i]) for i in chosen])
        axes.set(xlabel="% of the training range", ylim=(len(chosen) - 0.4, -0.6))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return figure


def loss_figure(losses: Array) -> Figure:
    """The course of the loss, `epochs x networks`."""
    with styled():
        figure, ((axes,),) = new_figure(1, 1, (4.2, 2.6))
        epochs = np.arange(1, len(losses) + 1)
        axes.plot(epochs, losses, color=REST["remainder"] if losses.shape[1] > 1 else COLOURS["eiv"], linewidth=1)
        if losses.shape[1] > 1:
            axes.plot(epochs, losses.mean(1), color=COLOURS["eiv"], label="mean of the networks")
            axes.legend(frameon=False)
        axes.set(xlabel="epoch", ylabel="loss", ylim=_within(losses))
    return figure


def shortened(name: str) -> str:
    """A name, cut to a length that fits an axis."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _points(axes: Axes, x: Array, y: Array) -> None:
    axes.scatter(x, y, s=7, color="#777777", alpha=0.5, linewidths=0, rasterized=len(x) > _MANY)


def _within(losses: Array) -> tuple[float, float]:
    """Limits without the steep fall of the first epochs, which would hide the rest."""
    later = losses[len(losses) // 10 :]
    low, high = float(later.min()), float(later.max())
    room = 0.08 * (high - low) or 1.0
    return low - room, high + 2 * room
