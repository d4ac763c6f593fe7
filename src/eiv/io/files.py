"""Files that are written completely or not at all."""

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
_STALE = 3600.0  # seconds after which a temporary file counts as abandoned, where files cannot be locked
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
    """The path of a temporary file to write to, which replaces `path` if the block ends without an error.

    A symbolic link is followed: the file that it points to is written, and the link stays. The new file has the
    permissions of the one that it replaces. Missing folders are not made, and only plain files are replaced.
    """
    check_links(path)
    check_plain(path)
    file = Path(os.path.realpath(path))
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {file.parent}.")
    sweep(file.parent)
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
    """Write a file that appears under its name only when it is complete."""
    with written_whole(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def check_plain(path: Path) -> None:
    """Raise a ValueError where a path, or the target of its symbolic link, exists and is not a plain file."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:  # links in a circle, a name that is too long
        raise type(error)(f"{path} cannot be written: {os.strerror(error.errno or 0)}.") from error
    if kind == stat.S_IFDIR:
        raise ValueError(f"{path} is a folder; give the name of a file.")
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "something else")
        raise ValueError(f"{path} is {what}, and only plain files are written; give the name of a file.")


def check_folder(folder: Path) -> None:
    """Raise an OSError where files could not be written to a folder, which need not exist yet."""
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
    """Inside the block, never replace a file at `path`, even one that appears while ours is being written.

    In that case ours is kept under a free name, such as `m.1.eiv` for `m.eiv`, and a `FileExistsError` says so.
    """
    token = _only_new.set(_only_new.get() | {Path(os.path.realpath(path))})
    try:
        yield
    finally:
        _only_new.reset(token)


@contextlib.contextmanager
def no_links(folder: Path) -> Iterator[None]:
    """Inside the block, write nothing through symbolic links in `folder`, which may come from somebody else."""
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


@contextlib.contextmanager
def held(path: Path, in_use: str) -> Iterator[None]:
    """Hold a file for the block, where files can be locked; an `OSError` with the words `in_use` if another does."""
    with path.open("wb") as lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise OSError(in_use) from error
            except OSError:  # a file system without locks
                pass
        yield


def digest_of(path: Path) -> str:
    """The SHA-256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _new_part(folder: Path, mode: int | None) -> Iterator[Path]:
    """An empty file to write to, locked until the block or this process ends."""
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
            if part.exists():  # else another process removed it before it was locked
                yield part
                return


def _put_in_place(part: Path, file: Path, path: Path) -> None:
    """Give a written file its name, or a free one where that name is taken and must not be replaced."""
    if file not in _only_new.get():
        check_plain(path)  # it may have become something else meanwhile
        part.replace(file)
        return
    chosen = next(name for name in _names_beside(file) if _is_linked(part, name))
    if chosen != file:
        shown = chosen if path.is_symlink() else path.with_name(chosen.name)
        raise FileExistsError(f"{path} appeared during the run and is left as it is; the result is {shown}.")


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
    """The name of the file, and then names with a number before the ending."""
    yield file
    ending = "".join(file.suffixes[-2:]) if file.suffix.lower() == ".gz" else file.suffix
    stem = file.name.removesuffix(ending)
    yield from (file.with_name(f"{stem}.{n}{ending}") for n in itertools.count(1))


def sweep(folder: Path) -> None:
    """Remove temporary files of processes that were killed while they wrote; nobody holds their locks."""
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
                except BlockingIOError:  # another process is writing
                    continue
                except OSError:  # a file system without locks
                    _remove_if_old(part)
                    continue
                part.unlink()


def _remove_if_old(part: Path) -> None:
    if time.time() - part.stat().st_mtime > _STALE:
        part.unlink()
