"""One look for all figures: EiV red, non-EiV blue, truth black, as in the paper."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eiv.files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"eiv": "#c8102e", "non_eiv": "#1f5fa8", "g_regression": "#222222", "truth": "#000000"}
LINES = {"eiv": "-", "non_eiv": "--"}  # for eyes and printers that do not see colours
MARKERS = {"eiv": "o", "non_eiv": "s", "g_regression": "D"}
LABELS = {"eiv": "EiV", "non_eiv": "non-EiV", "g_regression": "g-based Bayesian regression"}

_STYLE: Any = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "figure.dpi": 160,
    "svg.hashsalt": "eiv",  # the same figure gives the same file
}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw in our style, and leave the user's as it is."""
    import matplotlib as mpl  # noqa: PLC0415  (slow to import)

    with mpl.rc_context(_STYLE):
        yield


def new_figure(n_rows: int, n_columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """A figure that belongs to no window, and its axes, `n_rows x n_columns`."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG and as PNG, `path` without its ending."""
    for kind in ("svg", "png"):
        with written_whole(path.with_suffix(f".{kind}")) as part, styled():
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(part, format=kind, metadata=metadata)
