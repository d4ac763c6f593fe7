"""Formulas as MathML, which browsers render by themselves: no script and no font is loaded.

Sphinx uses it where `html_math_renderer = "mathml"`.
"""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)


def converted(node: nodes.Element, display: str) -> str:
    """The formula of a node. The converter leaves a command that it does not know as it is; that is a warning."""
    made = convert(node.astext().strip(), display=display)
    if "\\" in made or "&#x0005C;" in made:
        LOGGER.warning("a command in %r cannot be converted to MathML", node.astext(), location=node)
    return made


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(converted(node, "inline"))
    raise nodes.SkipNode


def display(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(converted(node, "block"))
    if node["label"]:
        translator.body.append(f'<span class="eqno">({node["label"]})</span>')
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
