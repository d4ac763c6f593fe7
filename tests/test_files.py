"""A file is there whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from eiv.files import write_whole, written_whole


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "folder" / "table.csv", b"content")
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.csv"
    write_whole(path, "old")

    def half():
        with written_whole(path) as part:
            part.write_text("half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_said_of_the_file(tmp_path):
    path = tmp_path / "table.csv"

    def fill(number):
        with written_whole(path) as part:
            part.write_text("half")
            raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=r"table\.csv could not be written, nothing is left of it: No space left"):
        fill(errno.ENOSPC)
    path.write_text("old")
    with pytest.raises(OSError, match=r"it is as it was before: File too large\.$"):
        fill(errno.EFBIG)
    with pytest.raises(PermissionError):
        fill(errno.EACCES)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_swept_away(tmp_path):
    with written_whole(tmp_path / "table.csv") as part:
        part.write_text("half")
        old, new = part.with_name(f".{'0' * 32}.eiv-part"), part.with_name(f".{'1' * 32}.eiv-part")
        assert len(part.name) == len(old.name)
    foreign = [tmp_path / name for name in (".film.part", ".notes.eiv-part", f".{'2' * 32}.part")]
    for path in (old, new, *foreign):
        path.write_text("half")
    for path in (old, *foreign):
        os.utime(path, (0, 0))
    write_whole(tmp_path / "table.csv", b"whole")
    assert set(tmp_path.iterdir()) == {new, *foreign, tmp_path / "table.csv"}


def test_permissions_are_those_of_any_new_file(tmp_path):
    write_whole(tmp_path / "ours", "text")
    (tmp_path / "theirs").write_text("text")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "theirs").stat().st_mode)
