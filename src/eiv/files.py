"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

_PART = re.compile(r"\.[0-9a-f]{32}\.eiv-part")  # the name of a file that is being written
_STALE = 3600.0  # seconds after which a temporary file belongs to a process that was killed
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, a quota, a limit


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to, beside `path`, which takes its place once the block has ended without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent)
    part = path.parent / f".{uuid.uuid4().hex}.eiv-part"
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _FULL:
            kept = "it is as it was before" if path.exists() else "nothing is left of it"
            raise OSError(f"{path} could not be written, {kept}: {os.strerror(error.errno)}.") from error
        raise


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file that appears under its name only when it is complete, also for other processes."""
    with written_whole(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sweep(folder: Path) -> None:
    """Remove what processes have left that were killed while they wrote."""
    for part in folder.glob(".*.eiv-part"):
        with contextlib.suppress(OSError):
            if _PART.fullmatch(part.name) and time.time() - part.stat().st_mtime > _STALE:
                part.unlink()
