"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PART = re.compile(r"\.[0-9a-f]{32}\.eiv-part")  # the name of a file that is being written
_STALE = 3600.0  # seconds after which a temporary file is left over, where files cannot be locked
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, a quota, a limit
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
_only_new: ContextVar[frozenset[Path]] = ContextVar("_only_new", default=frozenset())
_no_links: ContextVar[frozenset[Path]] = ContextVar("_no_links", default=frozenset())


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to, beside `path`, which takes its place once the block has ended without an error.

    A symbolic link is followed: the file that it points to is written, and the link stays. A file that is replaced
    hands on its permissions. Missing folders are not made, and only plain files are replaced.
    """
    check_links(path)
    check_plain(path)
    file = Path(os.path.realpath(path))
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {file.parent}.")
    _sweep(file.parent)
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else None
    with contextlib.ExitStack() as stack:
        try:
            part = stack.enter_context(_new_part(file.parent, mode))
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise type(error)(f"{path} cannot be written: {file.parent}: {why}.") from error
        try:
            yield part
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            if mode is not None:
                part.chmod(mode)
            _put_in_place(part, file, path)
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


def check_plain(path: Path) -> None:
    """Raise a ValueError where a path, or what its symbolic link points to, is there and is not a plain file."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:  # links without end, a name that is too long
        raise type(error)(f"{path} cannot be written: {os.strerror(error.errno or 0)}.") from error
    if kind == stat.S_IFDIR:
        raise ValueError(f"{path} is a folder; give the name of a file.")
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "something else")
        raise ValueError(f"{path} is {what}, and only plain files are written; give the name of a file.")


def check_folder(folder: Path) -> None:
    """Raise an OSError where files could not be written to a folder, which need not be there yet."""
    try:
        for place in (folder, *folder.absolute().parents):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                place.lstat()
                break
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise type(error)(f"{folder} cannot be written: {os.strerror(error.errno or 0)}.") from error


@contextlib.contextmanager
def only_new(path: Path) -> Iterator[None]:
    """Inside the block nothing at `path` is replaced, also where it appears while a file is being written.

    What was written then stays beside it, under a free name, which a `FileExistsError` says: `m.1.eiv` for `m.eiv`.
    """
    token = _only_new.set(_only_new.get() | {Path(os.path.realpath(path))})
    try:
        yield
    finally:
        _only_new.reset(token)


@contextlib.contextmanager
def no_links(folder: Path) -> Iterator[None]:
    """Inside the block nothing is written through a symbolic link in `folder`, which may come from somebody else."""
    token = _no_links.set(_no_links.get() | {Path(os.path.realpath(folder))})
    try:
        yield
    finally:
        _no_links.reset(token)


def check_links(path: Path) -> None:
    """Raise an OSError where a path leads through a symbolic link in a folder of `no_links`."""
    full = Path(os.path.abspath(path))
    for part in (full, *full.parents):
        folder = Path(os.path.realpath(part.parent))
        if part.is_symlink() and any(folder.is_relative_to(watched) for watched in _no_links.get()):
            raise OSError(
                f"{path} is not written: {part.name} is a symbolic link in a folder of results; remove it first."
            )


def digest_of(path: Path) -> str:
    """The SHA-256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _new_part(folder: Path, mode: int | None) -> Iterator[Path]:
    """An empty file to write to, which is locked for as long as the block, or this process, lasts."""
    while True:
        part = folder / f".{uuid.uuid4().hex}.eiv-part"
        number = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666 if mode is None else mode & 0o777 | 0o600)
        if fcntl is None:
            os.close(number)
            yield part
            return
        with os.fdopen(number, "rb") as lock:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            if part.exists():  # and not swept away by another process before it was locked
                yield part
                return


def _put_in_place(part: Path, file: Path, path: Path) -> None:
    """Give a written file its name, or one beside it where nothing must be replaced and something is there."""
    if file not in _only_new.get():
        check_plain(path)  # it may have become something else meanwhile
        part.replace(file)
        return
    chosen = next(name for name in _names_beside(file) if _is_linked(part, name))
    if chosen != file:
        shown = chosen if path.is_symlink() else path.with_name(chosen.name)
        raise FileExistsError(f"{path} has appeared while this ran and is left as it is; the result is {shown}.")


def _is_linked(part: Path, file: Path) -> bool:
    """Give a written file a name, by an exclusive link; False where the name is taken."""
    try:
        try:
            os.link(part, file)
        except FileExistsError:
            raise
        except OSError:  # a file system without links: an empty file holds the name
            os.close(os.open(file, os.O_CREAT | os.O_EXCL))
            part.replace(file)
        else:
            part.unlink()
    except FileExistsError:
        return False
    return True


def _names_beside(file: Path) -> Iterator[Path]:
    """Its own name, and then the same with numbers before the ending."""
    yield file
    ending = "".join(file.suffixes[-2:]) if file.suffix.lower() == ".gz" else file.suffix
    stem = file.name.removesuffix(ending)
    yield from (file.with_name(f"{stem}.{n}{ending}") for n in itertools.count(1))


def _sweep(folder: Path) -> None:
    """Remove what processes have left that were killed while they wrote: their locks ended with them."""
    for part in folder.glob(".*.eiv-part"):
        with contextlib.suppress(OSError):
            if not _PART.fullmatch(part.name):
                continue
            if fcntl is None:
                _remove_if_old(part)
                continue
            with part.open("rb") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:  # somebody writes
                    continue
                except OSError:  # a file system without locks
                    _remove_if_old(part)
                    continue
                part.unlink()


def _remove_if_old(part: Path) -> None:
    if time.time() - part.stat().st_mtime > _STALE:
        part.unlink()
