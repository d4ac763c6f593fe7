"""`eiv explain` for a model of classes: probabilities of one row, and what leaves its class open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.bar import Bar
from rich.table import Table

from eiv.cli.app import console, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eiv import ClassPrediction

Array = NDArray[np.float64]
_BAR = 12  # characters
_MOST_SHOWN = 20  # classes


def show_classes(target: str, p: ClassPrediction) -> None:
    """Print the probabilities of the classes of one row, the most probable ones first."""
    shown = Table(title=f"Prediction of {printable(target)}", title_justify="left")
    shown.add_column("class", overflow="fold")
    shown.add_column("probability", justify="right")
    shown.add_column("", width=_BAR)
    order = np.argsort(-p.probabilities[0])
    for place in order[:_MOST_SHOWN]:
        own = float(p.probabilities[0, place])
        shown.add_row(printable(p.classes[place]), f"{own:.4f}", Bar(1.0, 0, own, width=_BAR))
    if len(order) > _MOST_SHOWN:
        shown.add_row(
            f"and {len(order) - _MOST_SHOWN:,} more", f"{p.probabilities[0, order[_MOST_SHOWN:]].sum():.4f}", ""
        )
    console.print(shown, highlight=False)


def show_entropy(p: ClassPrediction, features: Sequence[str]) -> None:
    """Print what leaves the class open: each source's part of the entropy in nats, also as a bar."""
    from eiv.report.classpage import entropy_sources  # noqa: PLC0415
    from eiv.report.words import percent  # noqa: PLC0415

    sources, parts = entropy_sources(p, features)
    total, lengths = float(p.entropy[0]), np.maximum(parts, 0)
    shown = Table(title="What leaves the class open (entropy in nats)", title_justify="left")
    shown.add_column("source", overflow="fold")
    for heading in ("of entropy", "nats"):
        shown.add_column(heading, justify="right")
    shown.add_column("", width=_BAR)
    for source, part, length in zip(sources, parts, lengths, strict=True):
        bar = Bar(lengths.max() or 1.0, 0, length, width=_BAR)
        shown.add_row(printable(source), percent(part / total) if total else "–", f"{part:.4f}", bar)
    shown.add_section()
    shown.add_row("entropy", percent(1.0) if total else "–", f"{total:.4f}", "")
    console.print(shown, highlight=False)
    if not p.aleatoric.any():
        console.print("All inputs of this row are taken as exact, so none of them leaves its class open.")


def draw_entropy(out: Path, p: ClassPrediction, features: Sequence[str], title: str) -> None:
    """Write the parts of the entropy as a picture."""
    from eiv.io.files import write_whole  # noqa: PLC0415
    from eiv.plotting import image  # noqa: PLC0415
    from eiv.report.classpage import entropy_figure, entropy_sources  # noqa: PLC0415

    write_whole(out, image(entropy_figure(*entropy_sources(p, features), title), out.suffix.lower()[1:]))
