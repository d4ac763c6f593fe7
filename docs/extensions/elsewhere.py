"""Pages of the site whose sources lie outside `docs/`, or under another name there.

In the Markdown files links lead to the sources, so that they work on a code host. On the site they lead to its pages.
"""

import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

DOCS = Path(__file__).parents[1]
NOTEBOOK = "ten_lines.ipynb"
PAGES = {
    f"../examples/{NOTEBOOK}": NOTEBOOK,
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "gallery/README.rst": "gallery_pages/index.rst",
}


def copy_notebook(app: Sphinx) -> None:
    shutil.copy2(DOCS.parent / "examples" / NOTEBOOK, DOCS / NOTEBOOK)


def lead_to_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    for target, page in PAGES.items():
        source[0] = source[0].replace(f"]({target})", f"]({page})")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("builder-inited", copy_notebook)
    app.connect("source-read", lead_to_pages)
    return {"parallel_read_safe": True}
