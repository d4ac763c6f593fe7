"""The pages of the API, from the docstrings: one for each name of `eiv`, one for each other module with public names.

A name stands on one page alone, that of the module with the shortest path. Names in the text of the other pages become
links to it.
"""

import importlib
import inspect
import pkgutil
import re
from collections import Counter
from pathlib import Path

from docutils import nodes
from sklearn.base import BaseEstimator
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata

import eiv

FOLDER = Path(__file__).parents[1] / "api"
OF_SCIKIT_LEARN = re.compile(r"set_\w+_request|get_metadata_routing|set_output")
A_NAME = re.compile(r"[A-Za-z_][\w.]*")


def public_names() -> dict[str, list[str]]:
    """Modules and the classes and functions that they offer, each under the shortest path that leads to it."""
    modules = ["eiv", *(name for _, name, _ in pkgutil.walk_packages(eiv.__path__, "eiv.") if "._" not in name)]
    found: dict[str, list[str]] = {}
    seen = set()
    for module in sorted(modules, key=lambda name: (name.count("."), name)):
        here = importlib.import_module(module)
        for name in getattr(here, "__all__", ()):
            value = getattr(here, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and value not in seen:
                seen.add(value)
                found.setdefault(module, []).append(name)
    return found


def described(module: str, name: str) -> str:
    """The directive that turns a docstring into a part of a page."""
    value = getattr(importlib.import_module(module), name)
    if inspect.isfunction(value):
        return f".. autofunction:: {module}.{name}\n"
    members = ":members:\n"
    if issubclass(value, BaseEstimator):
        members += "   :inherited-members: BaseEstimator, RegressorMixin, ClassifierMixin\n"
    return f".. autoclass:: {module}.{name}\n   {members}"


def headed(title: str, text: str) -> str:
    return f"{title}\n{'=' * len(title)}\n\n{text}"


def pages(names: dict[str, list[str]]) -> dict[str, str]:
    """All pages by their names."""
    front, modules = names["eiv"], [module for module in names if module != "eiv"]
    made = {f"eiv.{name}": headed(name, described("eiv", name)) for name in front}
    for module in modules:
        parts = [described(module, name) for name in names[module]]
        made[module] = headed(module, f".. currentmodule:: {module}\n\n" + "\n".join(parts))
    made["index"] = headed(
        "API",
        "What each name takes and gives, with an example.\n\n"
        + listed([*(f"eiv.{name}" for name in front), "modules"]),
    )
    made["modules"] = headed("Single modules", "For those who build on them.\n\n" + listed(sorted(modules)))
    return made


def listed(entries: list[str]) -> str:
    return "\n".join([".. toctree::", "   :maxdepth: 1", "", *(f"   {entry}" for entry in entries)]) + "\n"


def write_pages(app: Sphinx) -> None:
    """Write what has changed, and take away pages of names that are gone."""
    names = public_names()
    app.config.eiv_names = targets(names)
    FOLDER.mkdir(exist_ok=True)
    made = {FOLDER / f"{name}.rst": text for name, text in pages(names).items()}
    for path in set(FOLDER.glob("*.rst")) - set(made):
        path.unlink()
    for path, text in made.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def targets(names: dict[str, list[str]]) -> dict[str, str]:
    """What may be written for a name, and its full path: the path, or its last part where no other has the same."""
    full = [f"{module}.{name}" for module, found in names.items() for name in found]
    often = Counter(path.rpartition(".")[2] for path in full)
    return {path: path for path in full} | {
        short: path for path in full if often[short := path.rpartition(".")[2]] == 1
    }


class NameLinks(SphinxTransform):
    """Names of the API in Markdown pages lead to their docstrings; short ones that are plain words do not."""

    default_priority = 500

    def apply(self) -> None:
        known = self.config.eiv_names
        for node in list(self.document.findall(nodes.literal)):
            text = node.astext()
            if "code" not in node["classes"] and not self.env.docname.startswith(("api/", "gallery/")):
                called = text.partition("(")[0]
                distinct = "." in called or called != called.lower() or self.env.docname == "reference"
                if A_NAME.fullmatch(called) and called in known and distinct and not inside_link(node):
                    link = addnodes.pending_xref(
                        "", refdomain="py", reftype="obj", reftarget=known[called], refdoc=self.env.docname
                    )
                    node.replace_self(link)
                    link += node


def is_skipped(app: Sphinx, what: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Whether scikit-learn added a method; docstrings of these refer to pages of its own site."""
    return True if OF_SCIKIT_LEARN.fullmatch(name) else None


def inside_link(node: nodes.Node) -> bool:
    return isinstance(node.parent, nodes.reference | addnodes.pending_xref)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_config_value("eiv_names", {}, "")
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-skip-member", is_skipped)
    app.add_transform(NameLinks)
    return {"parallel_read_safe": True}
