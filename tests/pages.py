"""The blocks between fences of a Markdown page, and which of them the tests run."""

import re
import textwrap
from typing import NamedTuple

MARK = "not run by the tests: "


class Block(NamedTuple):
    """A piece of a page between fences, and what the comment right before it says."""

    language: str
    text: str
    mark: str


def blocks(page):
    found = re.findall(r"(?:^ *<!-- (.*?) -->\n)?^( *)```([^`\n]*)\n(.*?)^\2```", page, flags=re.S | re.M)
    return [Block(language, textwrap.dedent(text), mark) for mark, _, language, text in found]


def to_run(found, language):
    """The blocks of a language, without those whose comment says why they cannot run: a reason has to follow `MARK`."""
    return [block for block in found if block.language == language and not block.mark.startswith(MARK)]
