"""Elements of self-contained HTML pages, which load nothing from the network and include their figures."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eiv.extras import needs
from eiv.io.files import write_whole


@dataclass(frozen=True)
class Cell:
    """A cell of a sortable table: its text, and the value it is sorted by."""

    text: str
    key: float | str

    @classmethod
    def of(cls, value: object) -> Cell:
        """A cell for a word or a plain number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return cls(str(value), str(value))
        return cls(f"{value:.4g}", float(value))

    @classmethod
    def measured(cls, value: float, error: float, digits: int = 3) -> Cell:
        """A cell for a number with its standard error; a dash where there is no number."""
        if math.isnan(value):
            return cls("–", float("-inf"))
        if not math.isfinite(error):
            return cls(f"{value:.{digits}f}", value)
        return cls(f"{value:.{digits}f} ± {error:.{digits}f}", value)

    @property
    def is_number(self) -> bool:
        """Whether the cell holds a number, which is aligned to the right."""
        return not isinstance(self.key, str)


@dataclass(frozen=True)
class HtmlTable:
    """A table of a page: a caption, headings, and rows of cells."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class HtmlFigure:
    """A figure of a page: an SVG that is embedded in it, and its caption."""

    name: str
    svg: bytes
    caption: str

    @property
    def source(self) -> str:
        """The figure as a data URL."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()


@dataclass(frozen=True)
class Section:
    """A section of a page: sentences, figures, tables, tables to unfold, and a legend of colours."""

    name: str
    title: str
    text: Sequence[str]
    figures: Sequence[HtmlFigure] = ()
    tables: Sequence[HtmlTable] = ()
    folded: Sequence[HtmlTable] = ()
    legend: Sequence[tuple[str, str]] = ()


def write_page(path: Path, template: str, **content: Any) -> None:
    """Fill in a template and write the page, completely or not at all."""
    needs("A page", "jinja2", extra="report")
    import jinja2  # noqa: PLC0415

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("eiv.report"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    write_whole(path, environment.get_template(template).render(**content))
