"""Tables of docs/benchmarks.md, each between marks of its own."""

from __future__ import annotations

import platform
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
CPUINFO = Path("/proc/cpuinfo")


def renew(section: str, text: str, path: Path | None = None) -> None:
    """Put `text` into the page between the marks of `section`."""
    path = path or PAGE
    page = path.read_text()
    start, end = f"<!-- {section}: begin -->\n", f"<!-- {section}: end -->\n"
    path.write_text(page[: page.index(start) + len(start)] + text + "\n" + page[page.index(end) :])


def renew_for_cpu(section: str, text: str) -> None:
    """The same in the part of the section that belongs to this kind of CPU; a new kind gets one at the end."""
    page, name = PAGE.read_text(), f"{section}, {cpu()}"
    if f"<!-- {name}: begin -->" not in page:
        end = f"<!-- {section}: end -->\n"
        PAGE.write_text(page.replace(end, f"\n<!-- {name}: begin -->\n<!-- {name}: end -->\n{end}"))
    renew(name, f"**{cpu()}**\n\n{text}")


def cpu() -> str:
    """The name of this machine's CPU."""
    if CPUINFO.exists():
        for line in CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
