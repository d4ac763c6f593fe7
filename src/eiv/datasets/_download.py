"""Downloads of files."""

from __future__ import annotations

import contextlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator

import eiv
from eiv.extras import is_installed

TIMEOUT = 30.0  # seconds without a byte
DEADLINE = 600.0  # seconds for a whole file
LIMIT = 64 * 2**20  # the most bytes of a download, and of a file in an archive; the largest original has 4 megabytes


class DownloadError(OSError):
    """A file could not be downloaded completely; the message says why."""


def fetch(url: str) -> bytes:
    """The whole content of `url`, kept in memory, so that a broken transfer leaves no file."""
    request = urllib.request.Request(_mirrored(url), headers={"User-Agent": f"eiv/{eiv.__version__}"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return _read(response, url)
    except urllib.error.HTTPError as error:
        raise DownloadError(f"the server answered {error.code} {error.reason}") from error
    except TimeoutError as error:
        raise DownloadError(f"no answer within {TIMEOUT:g} seconds") from error
    except urllib.error.URLError as error:
        raise DownloadError(f"no connection ({error.reason})") from error
    except http.client.HTTPException as error:
        raise DownloadError(f"the transfer broke off ({error!r})") from error


def _mirrored(url: str) -> str:
    """The address mirror/host/path for `url` if EIV_MIRROR (http or file) is set, else `url` itself."""
    mirror = os.environ.get("EIV_MIRROR")
    if not mirror:
        return url
    parts = urllib.parse.urlsplit(url)
    return f"{mirror.rstrip('/')}/{parts.netloc}{parts.path}"


def _read(response: http.client.HTTPResponse, url: str) -> bytes:
    expected: int | None = getattr(response, "length", None)  # None where the server does not state it
    end = time.monotonic() + DEADLINE
    content = bytearray()
    with _progress(url, expected) as show:
        while chunk := response.read1(2**16):
            content += chunk
            show(len(content))
            if len(content) > LIMIT:
                raise DownloadError(f"more than {LIMIT // 2**20} MiB")
            if time.monotonic() > end:
                raise DownloadError(f"not complete within {DEADLINE:g} seconds")
    if expected is not None and len(content) != expected:
        raise DownloadError(f"the transfer broke off after {len(content)} of {expected} bytes")
    return bytes(content)


@contextlib.contextmanager
def _progress(url: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """A progress bar; nothing where there is no terminal, or no rich."""
    if not (sys.stderr.isatty() and is_installed("rich")):
        yield lambda done: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn  # noqa: PLC0415

    name = urllib.parse.unquote(url.rsplit("/", 1)[-1])
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.update(task, completed=done)
