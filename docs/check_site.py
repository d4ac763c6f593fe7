"""Check a built site: links inside it lead somewhere, and no page loads anything from elsewhere.

python docs/check_site.py build/site
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "img": "src",
    "script": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
}
CSS_ADDRESS = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loads.append(given[LOADED[tag]])
        self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.loads += CSS_ADDRESS.findall(given.get("style", ""))


def is_elsewhere(address: str) -> bool:
    return bool(urlsplit(address).netloc)


def html_pages(site: Path) -> list[Path]:
    """All pages; `_static` holds a template of the theme."""
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


def problems(site: Path) -> list[str]:
    """What is wrong with the site, a sentence each."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in html_pages(site)}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name} loads {load}" for load in page.loads if is_elsewhere(load)]
        for address in [*page.links, *page.loads]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{name}: {address} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: {address} leads to no place on that page")
    for path in sorted(site.rglob("*.css")):
        addresses = CSS_ADDRESS.findall(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)} loads {address}" for address in addresses if is_elsewhere(address)]
    return found


def main() -> None:
    site = Path(sys.argv[1])
    if not (site / "index.html").exists():
        sys.exit(f"{site} holds no index.html; `make docs` builds the site")
    if found := problems(site):
        sys.exit("\n".join(found))
    print(f"{len(html_pages(site))} pages: links inside lead somewhere, nothing is loaded from elsewhere")


if __name__ == "__main__":
    main()
