"""Tables of docs/benchmarks.md, each between marks of its own."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def renew(section: str, text: str) -> None:
    """Put `text` into the page between the marks of `section`."""
    page = PAGE.read_text()
    start, end = f"<!-- {section}: begin -->\n", f"<!-- {section}: end -->\n"
    PAGE.write_text(page[: page.index(start) + len(start)] + text + "\n" + page[page.index(end) :])
