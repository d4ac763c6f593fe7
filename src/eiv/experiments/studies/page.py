"""The page of a study: sections of text, figures and tables, as one HTML file or as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eiv.experiments.studies.results import read_remarks, read_tables
from eiv.plotting import save, styled
from eiv.report.pages import Cell, HtmlFigure, HtmlTable, write_page

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Drawing", "Section", "StudyPage", "write_study_page"]


@dataclass(frozen=True)
class Drawing:
    """A figure for a page.

    Attributes:
        name: the name of its files.
        figure: a figure of matplotlib.
        caption: its caption.

    Examples:
        >>> from eiv.plotting import new_figure
        >>> Drawing("times", new_figure(1, 1, (4, 3))[0], caption="Seconds per network.").name
        'times'

    """

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Section:
    """A section of a page: its text comes first, then figures, then tables.

    Attributes:
        heading: the heading.
        text: the paragraphs.
        figures: the figures, in order.
        tables: the tables, in order.

    Examples:
        >>> Section("Times", text=["A unit has the machine for itself."]).tables
        ()

    """

    heading: str
    text: Sequence[str] = ()
    figures: Sequence[Drawing] = ()
    tables: Sequence[HtmlTable] = ()


@dataclass(frozen=True)
class StudyPage:
    """The content of the page of a study.

    Attributes:
        title: the title.
        lead: a description of what was run, in a sentence or two.
        sections: the sections, in order.
        notice: what a reader must know first; may be empty.

    Examples:
        >>> StudyPage("Families", "Eight of them.", [Section("Times")]).notice
        ''

    """

    title: str
    lead: str
    sections: Sequence[Section]
    notice: str = ""


def write_page_of(
    study: str,
    names: tuple[str, str],
    made: Callable[[pd.DataFrame, pd.DataFrame, list[str]], StudyPage],
    folder: Path,
    out: Path | None,
) -> Path:
    """Write the page of a study from the tables in its folder, without training.

    Args:
        study: its name, as in `eiv study NAME`.
        names: the names of the files of its two tables.
        made: a function that makes the page from both tables and the remarks.
        folder: the folder of the study.
        out: the path of the page, by default `report.html` in the folder; with the ending .md the page is Markdown.

    """
    table, units = read_tables(folder, study, names)
    with styled():
        page = made(table, units, read_remarks(folder))
    return write_study_page(page, out or folder / "report.html")


def what_is_missing(parts: Sequence[str]) -> str:
    """The notice of a run that leaves out parts of its study; empty where it is complete."""
    return f"This is not the whole study: {'; '.join(parts)}." if parts else ""


def write_study_page(page: StudyPage, path: Path) -> Path:
    """Write the page and its figures.

    Args:
        page: its content.
        path: the path of the page. With the ending .md it is Markdown, and its figures are in a folder of the same name
            beside it. Else it is HTML with embedded figures, which are also in `figures/` beside it.

    Returns:
        `path`.

    Examples:
        >>> import tempfile
        >>> page = StudyPage("Families", "Eight of them.", [Section("Times", text=["They differ."])])
        >>> with tempfile.TemporaryDirectory() as name:
        ...     print(write_study_page(page, Path(name) / "page.md").read_text().splitlines()[0])
        # Families

    """
    markdown = path.suffix == ".md"
    folder = path.with_suffix("") if markdown else path.parent / "figures"
    figures = []
    for section in page.sections:
        for drawing in section.figures:
            save(drawing.figure, folder / drawing.name)
        figures.append(
            [HtmlFigure(one.name, (folder / f"{one.name}.svg").read_bytes(), one.caption) for one in section.figures]
        )
    write_page(
        path, "study.md.j2" if markdown else "study.html.j2", page=page, figures=figures, figures_folder=folder.name
    )
    return path


def provenance_table(units: pd.DataFrame, columns: Sequence[str]) -> HtmlTable:
    """A table of some columns of `units`: settings, machine, versions and times."""
    total = units[["training_s", "evaluation_s"]].to_numpy().sum()
    rows = [[Cell.of(value) for value in row] for row in units[list(columns)].itertuples(index=False)]
    return HtmlTable(f"The origin of the numbers, and times in seconds: {total:.0f} s in total.", columns, rows)
