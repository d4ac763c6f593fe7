"""The common style of all figures: EiV red, non-EiV blue, truth black, as in the paper."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv.extras import needs
from eiv.io.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"eiv": "#c8102e", "non_eiv": "#1f5fa8", "g_regression": "#222222", "truth": "#000000"}
LINES = {"eiv": "-", "non_eiv": "--"}  # so that the lines differ without colours, too
MARKERS = {"eiv": "o", "non_eiv": "s", "g_regression": "D"}
LABELS = {"eiv": "EiV", "non_eiv": "non-EiV", "g_regression": "g-based Bayesian regression"}
FEATURES = ("#332288", "#88ccee", "#44aa99", "#117733", "#ddcc77", "#cc6677", "#aa4499")  # safe for colour blindness
REST = {"other features": "#666666", "remainder": "#cccccc"}
_NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # characters that names may hold, but an SVG may not

_STYLE: Any = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "figure.dpi": 160,
    "svg.hashsalt": "eiv",  # the same figure gives the same file
    "text.parse_math": False,  # a name may hold the sign $
}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of eiv, without changing the user's settings of matplotlib."""
    with _matplotlib().rc_context(_STYLE):
        yield


def new_figure(n_rows: int, n_columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """A figure without a window, and its axes, `n_rows x n_columns`."""
    figure: Figure = _matplotlib().figure.Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def _matplotlib() -> ModuleType:
    """The module matplotlib, imported only here because that is slow and it belongs to an extra."""
    needs("A figure", "matplotlib", extra="report")
    import matplotlib.figure  # noqa: PLC0415

    return matplotlib


def image(figure: Figure, kind: str) -> bytes:
    """A figure as the content of a file, "svg", "png" or "pdf"; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # for names with characters that the font lacks
        figure.savefig(buffer, format=kind, metadata=metadata.get(kind))
    content = buffer.getvalue()
    return _NOT_XML.sub("\ufffd".encode(), content) if kind == "svg" else content


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG and as PNG to `path`, given without an ending; its folder is made if needed."""
    path.parent.mkdir(exist_ok=True)
    for kind in ("svg", "png"):
        write_whole(path.with_suffix(f".{kind}"), image(figure, kind))


def budget_figure(
    shares: NDArray[np.float64], features: Sequence[str], rows: Sequence[str], outputs: Sequence[str]
) -> Figure:
    """Bars of shares `rows x n_y x (n_x + 1)`, the remainder last: one bar per row, one panel per output.

    Where there are many features, only those with the largest shares have colours of their own. Negative shares are to
    the left of zero.
    """
    named = np.arange(len(features) - 1)
    if len(named) > len(FEATURES):
        named = np.sort(np.nan_to_num(shares[..., :-1]).mean((0, 1)).argsort()[::-1][: len(FEATURES)])
    parts = [(features[i], shares[..., i], colour) for i, colour in zip(named.tolist(), FEATURES, strict=False)]
    if len(named) < len(features) - 1:
        rest = np.delete(shares[..., :-1], named, axis=-1).sum(-1)
        parts.append((f"{len(features) - 1 - len(named)} other features", rest, REST["other features"]))
    parts.append((features[-1], shares[..., -1], REST["remainder"]))
    with styled():
        size = (2.6 + 3.6 * len(outputs), 1.4 + 0.24 * len(rows))
        figure, (panels,) = new_figure(1, len(outputs), size, sharey=True)
        for i, (axes, output) in enumerate(zip(panels, outputs, strict=True)):
            ends = np.zeros((2, len(rows)))  # the right and left ends of the bars so far
            for label, values, colour in parts:
                widths = np.nan_to_num(values[:, i])
                side = (widths < 0).astype(int)
                starts = ends[side, np.arange(len(rows))]
                hatch = "///" if colour == REST["remainder"] else None
                look = {"color": colour, "hatch": hatch, "edgecolor": "white", "label": label}
                axes.barh(range(len(rows)), widths, left=starts, **look)
                ends[side, np.arange(len(rows))] += widths
            axes.set(xlabel="share of the aleatoric variance", title=output, ylim=(len(rows) - 0.4, -0.6))
            axes.axvline(0, color="black", linewidth=0.8)
        panels[0].set_yticks(range(len(rows)), rows)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure


def sensitivity_figure(
    lines: Mapping[str, Sequence[Mapping[str, Any]]], laws: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Figure:
    """What other errors do, in four panels, for each choice of columns.

    Sizes are a line against their factor, other laws of the stated size are points on the right of it. What the fit
    itself took in the place of the stated errors is a dashed line.
    """
    panels = {
        "moved": "change of the prediction, in u",
        "u_ratio": "u over that as stated",
        "coverage": "labels in their 95 % interval",
        "density_gain": "log density of a label, gain in nats",
    }
    factors = sorted({row["factor"] for rows in lines.values() for row in rows})
    ticks = sorted({row["factor"] for rows in lines.values() for row in rows if not row["as_fitted"]})
    names = list(dict.fromkeys(row["law"] for rows in laws.values() for row in rows))
    places = dict(zip(names, _beyond(factors, len(names)), strict=True))
    with styled():
        figure, axes = new_figure(2, 2, (7.2, 5.2), sharex=True)
        for panel, (name, label) in zip(axes.flat, panels.items(), strict=True):
            for place, (column, rows) in enumerate(lines.items()):
                colour = "black" if not place else FEATURES[(place - 1) % len(FEATURES)]
                look = {"color": colour, "marker": "osD^v<>"[place % 7], "markersize": 4}
                others = laws[column]
                for row in (row for row in rows if row["as_fitted"]):
                    panel.axvline(row["factor"], color=colour, linestyle="--", linewidth=0.8, label="as fitted")
                for x, shown, line in (
                    ([row["factor"] for row in rows], rows, {"linewidth": 1.2, "label": column}),
                    ([places[row["law"]] for row in others], others, {"linestyle": "none", "elinewidth": 1.2}),
                ):
                    error = [2 * row["density_error"] for row in shown] if name == "density_gain" else None
                    panel.errorbar(x, [row[name] for row in shown], yerr=error, **look, **line)
            panel.axhline({"coverage": 0.95, "u_ratio": 1.0}.get(name, 0.0), color="#999999", linewidth=0.8)
            panel.set(ylabel=label)
        if factors[0] > 0:
            axes[0, 0].set_xscale("log")
        axes[1, 0].minorticks_off()
        for panel in axes[1]:
            panel.set_xticks(
                [*ticks, *places.values()],
                [f"{factor:g}" for factor in ticks] + [name.replace("_", " ") for name in names],
                rotation=45 if names else 0,
                ha="right" if names else "center",
                rotation_mode="anchor",
            )
            panel.minorticks_off()
            panel.set(xlabel="factor of the stated errors" + (", or their law" if names else ""))
        title = "errors of" if len(lines) > 1 else None
        handles, labels = axes[0, 0].get_legend_handles_labels()
        named = dict(zip(labels, handles, strict=True))  # "as fitted" once
        figure.legend(named.values(), named.keys(), loc="outside right upper", frameon=False, title=title)
    return figure


def _beyond(factors: Sequence[float], n: int) -> list[float]:
    """Places on the right of the factors, in equal steps of the axis: logarithms where no factor is zero."""
    last = factors[-1]
    return [last * 1.5 ** (i + 1) if factors[0] > 0 else last + 0.25 * (i + 1) for i in range(n)]
