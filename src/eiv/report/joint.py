"""Several outputs together: how their noise and their predictions are correlated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from eiv.plotting import COLOURS, image, new_figure, styled
from eiv.report.figures import BANDS, shortened
from eiv.report.pages import Cell, HtmlFigure, HtmlTable, Section
from eiv.report.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eiv import FittedModel
    from eiv.report.sample import Sample

Array = NDArray[np.float64]
_LEVEL, _MOST_PANELS, _MOST_ROWS = 0.95, 3, 5
_OUTLINE = "#c98a95"  # of labels: ellipses of several rows lie on each other
_POINTS = 73  # of an ellipse


@dataclass(frozen=True)
class Joint:
    """Predictions of several outputs for some rows: means, `rows x n_y`, and covariances, `rows x n_y x n_y`."""

    names: tuple[str, ...]
    mean: Array
    of_function: Array
    of_label: Array
    noise: Array

    @classmethod
    def of(cls, model: FittedModel, names: tuple[str, ...], sample: Sample | None) -> Joint:
        """The predictions for rows of the sample, evenly chosen, or for inputs at their medians."""
        some = None if sample is None else sample.evenly(_MOST_ROWS)
        if some is None:
            stated: Any = None if model.x_err is not None else model.record.x_err_median
            x, errors, known = model.record.x_quantiles[2:3], stated, model.record.y_err_median[None]
        else:
            x, errors, known = (
                some.X,
                some.X_err,
                np.zeros((len(some), len(names))) if some.y_err is None else some.y_err,
            )
        p = model.predict(*model.readings(x, errors)[:2], known, keep_draws=True)
        return cls(names, p.mean, p.covariance("function"), p.covariance("label"), p.noise_covariance)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of outputs, those whose labels are most correlated first."""
        correlations = np.abs(_correlations(self.of_label).mean(0))
        return sorted(combinations(range(len(self.names)), 2), key=lambda pair: -correlations[pair])


def joint_section(found: Joint) -> Section:
    """The section on how outputs go together: ellipses, and correlations of noise and of labels."""
    noise, label, function = (_correlations(each).mean(0) for each in (found.noise, found.of_label, found.of_function))
    rows = [
        [
            Cell.of(f"{found.names[j]}, {found.names[k]}"),
            *(Cell(f"{values[j, k]:+.2f}", float(values[j, k])) for values in (function, noise, label)),
        ]
        for j, k in found.pairs
    ]
    j, k = found.pairs[0]
    text = [
        "Errors of several outputs go together: the unknown true input moves all of them at once, and so may noise. "
        f"A label of {found.names[j]} that lies above its prediction therefore says something about that of "
        f"{found.names[k]}: their correlation is {label[j, k]:+.2f}.",
        "Each ellipse holds 95 % of what is expected at one row. Where it is tilted, the outputs go together; where "
        "its axes are those of the panel, they do not.",
    ]
    figures = [
        HtmlFigure(
            f"ellipses-{j}-{k}",
            image(_ellipses(found, j, k), "svg"),
            f"{found.names[j]} and {found.names[k]} at {counted(len(found.mean), 'row')}",
        )
        for j, k in found.pairs[:_MOST_PANELS]
    ]
    headings = ("outputs", "true values", "noise", "labels")
    table = HtmlTable("Correlations, mean over the rows", headings, rows)
    legend = [
        (COLOURS["eiv"], "prediction"),
        (BANDS["function"], "95 %: true values on the curves"),
        (_OUTLINE, "outline, 95 %: new labels, that is measured values"),
    ]
    return Section("together", "Outputs together", text, figures, [table], legend=legend)


def _ellipses(found: Joint, j: int, k: int) -> Figure:
    """Ellipses of labels and of true values about each prediction, for outputs `j` and `k`."""
    chosen = np.ix_([j, k], [j, k])
    with styled():
        figure, ((axes,),) = new_figure(1, 1, (3.8, 3.2))
        for mean, of_label, of_function in zip(found.mean[:, [j, k]], found.of_label, found.of_function, strict=True):
            axes.plot(*ellipse(mean, of_label[chosen]).T, color=_OUTLINE, linewidth=1.3)
            axes.fill(*ellipse(mean, of_function[chosen]).T, color=BANDS["function"], alpha=0.5, linewidth=0)
        axes.plot(found.mean[:, j], found.mean[:, k], ".", color=COLOURS["eiv"])
        axes.set(xlabel=shortened(found.names[j]), ylabel=shortened(found.names[k]))
    return figure


def ellipse(mean: Array, covariance: Array) -> Array:
    """Points of the ellipse that holds 95 % of a normal distribution of two variables: `points x 2`."""
    angles = np.linspace(0, 2 * np.pi, _POINTS)
    sizes, vectors = np.linalg.eigh(covariance)
    circle = np.sqrt(chdtri(2, 1 - _LEVEL)) * np.stack([np.cos(angles), np.sin(angles)])
    points: Array = mean + (vectors * np.sqrt(np.maximum(sizes, 0)) @ circle).T
    return points


def _correlations(covariances: Array) -> Array:
    """Of covariances, `rows x n_y x n_y`; zero where an output does not vary."""
    stds = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    scale = stds[:, :, None] * stds[:, None, :]
    return np.asarray(np.divide(covariances, scale, out=np.zeros_like(covariances), where=scale > 0))
