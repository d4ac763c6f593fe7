"""Tables of docs/benchmarks.md, each between marks of its own."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def renew(section: str, text: str, name: str = "benchmarks.md") -> None:
    """Put `text` into the page between the marks of `section`."""
    path = DOCS / name
    page = path.read_text()
    start, end = f"<!-- {section}: begin -->\n", f"<!-- {section}: end -->\n"
    path.write_text(page[: page.index(start) + len(start)] + text + "\n" + page[page.index(end) :])
