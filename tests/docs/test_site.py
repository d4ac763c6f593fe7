"""The site: its pages hang together, and nothing on them comes from elsewhere.

`make docs` builds it with all that runs on it. The build here leaves out the gallery and the notebook, which
`test_gallery.py` runs.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import eiv
from eiv.extras import is_installed

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


check_site = module(DOCS / "check_site.py")


def listed(page):
    """What the tables of contents of a page name."""
    tables = re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
    lines = [line for table in tables for line in table.splitlines() if line and not line.startswith(":")]
    return {re.sub(r".*<(.*)>$", r"\1", line) for line in lines}


def test_every_page_is_in_a_table_of_contents():
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    found = set().union(*(listed(path) for path in DOCS.glob("*.md")))
    assert found == pages | {"gallery_pages/index", "api/index", "ten_lines"}


def test_every_page_of_the_gallery_asks_and_answers():
    for path in (DOCS / "gallery").glob("*.py"):
        text = path.read_text("utf-8")
        question = text.split('"""')[1]
        assert re.search(r"\*\*[^*]+\?\*\*", question), f"{path.name} has no question"
        assert "plt.show()" in text, f"{path.name} has no figure"
        assert "**What it says.**" in text.rpartition("# %%")[2], f"{path.name} does not say what it shows"


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ('<a href="other.html#here">', None),
        ('<a href="https://doi.org/1"><img src="data:image/png;base64,AA">', None),
        ('<a href="lost.html">', "index.html: lost.html leads nowhere"),
        ('<a href="other.html#there">', "index.html: other.html#there leads to no place on that page"),
        ('<script src="https://cdn.example.org/a.js"></script>', "index.html loads https://cdn.example.org/a.js"),
        ('<link href="//fonts.example.org/a.css">', "index.html loads //fonts.example.org/a.css"),
        ('<p style="background: url(http://example.org/a.png)">', "index.html loads http://example.org/a.png"),
        ('<img src="lost.png">', "index.html: lost.png leads nowhere"),
    ],
)
def test_what_is_wrong_with_a_site_is_found(tmp_path, page, problem):
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "other.html").write_text('<p id="here">')
    assert check_site.problems(tmp_path) == ([problem] if problem else [])


def test_style_sheets_load_nothing_from_elsewhere(tmp_path):
    (tmp_path / "site.css").write_text('@import "https://example.org/a.css"; p {background: url(own.png)}')
    assert check_site.problems(tmp_path) == ["site.css loads https://example.org/a.css"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site without what runs on it."""
    if not is_installed("sphinx"):
        pytest.skip('needs the extra "docs"')
    folder = tmp_path_factory.mktemp("site")
    made = shutil.ignore_patterns("api", "gallery_pages", "ten_lines.ipynb")
    shutil.copytree(DOCS, folder / "docs", ignore=made)
    shutil.copytree(ROOT / "examples", folder / "examples")
    for path in ROOT.glob("*.md"):
        shutil.copy(path, folder)
    quick = ["-D", "plot_gallery=0", "-D", "nb_execution_mode=off"]
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", *quick, folder / "docs", folder / "html"]
    environment = os.environ | {"PYTHONPATH": str(Path(eiv.__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_its_links_lead_somewhere(site):
    assert check_site.problems(site) == []
    assert (site / "api" / "eiv.EiVRegressor.html").exists()
    assert "<math" in (site / "api" / "eiv.EiVRegressor.html").read_text("utf-8")
    assert 'href="api/eiv.EiVRegressor.html' in (site / "reference.html").read_text("utf-8")


@pytest.fixture(scope="module")
def address(site):
    """Where a server on this machine has the site."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
def test_a_browser_asks_no_other_machine(address, browser):
    """All that a page asks for, by the browser's own record."""
    for name in ("index", "reference", "tables", "gallery_pages/index", "api/eiv.EiVRegressor", "search"):
        browser.get(f"{address}/{name}.html")
        entries = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert entries, name
        assert [entry for entry in entries if not entry.startswith((address, "data:"))] == []
        severe = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert severe == [], json.dumps(severe)
