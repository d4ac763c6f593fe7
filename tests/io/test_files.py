"""A file is there whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from eiv.io.files import check_folder, only_new, write_whole, written_whole

posix = pytest.mark.skipif(os.name == "nt", reason="needs permissions, links and paths of POSIX")


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "table.csv", b"content")
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize("locks", [True, False])
def test_what_a_killed_writer_left_is_swept_away(tmp_path, monkeypatch, locks):
    """At once where files can be locked, and else after an hour; never what is being written now."""
    if not locks:
        monkeypatch.setattr("eiv.io.files.fcntl", None)
    killed, old = (tmp_path / f".{digit * 32}.eiv-part" for digit in "01")
    foreign = [tmp_path / name for name in (".film.part", ".notes.eiv-part", f".{'2' * 32}.part")]
    for path in (killed, old, *foreign):
        path.write_text("half")
    for path in (old, *foreign):
        os.utime(path, (0, 0))
    with written_whole(tmp_path / "other.csv") as part:
        assert len(part.name) == len(old.name)
        part.write_text("half")
        if locks:
            os.utime(part, (0, 0))
        write_whole(tmp_path / "table.csv", b"whole")
        assert part.exists()
    left = set() if locks else {killed}
    assert set(tmp_path.iterdir()) == {*left, *foreign, tmp_path / "table.csv", tmp_path / "other.csv"}


@posix
def test_permissions_are_those_of_any_new_file(tmp_path):
    write_whole(tmp_path / "ours", "text")
    (tmp_path / "theirs").write_text("text")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "theirs").stat().st_mode)


@posix
def test_a_file_that_is_replaced_hands_on_its_permissions(tmp_path):
    path = tmp_path / "private.csv"
    for mode in (0o600, 0o444, 0o664):
        path.touch()
        path.chmod(mode)
        with written_whole(path) as part:
            assert stat.S_IMODE(part.stat().st_mode) & 0o077 & ~mode == 0, "nobody else reads it meanwhile"
            part.write_text("new")
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert path.read_text() == "new"


@posix
def test_a_symbolic_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    file, link, dangling = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "dangling"
    file.write_text("old")
    link.symlink_to(file)
    dangling.symlink_to(tmp_path / "there" / "new")
    for path in (link, dangling):
        write_whole(path, "new")
        assert path.is_symlink()
    assert file.read_text() == (tmp_path / "there" / "new").read_text() == "new"
    assert len(list((tmp_path / "there").iterdir())) == 2


@posix
def test_links_without_an_end_are_refused(tmp_path):
    for link, to in (("self", "self"), ("one", "two"), ("two", "one")):
        (tmp_path / link).symlink_to(tmp_path / to)
    why = f"cannot be written: {os.strerror(errno.ELOOP)}."
    for path in (tmp_path / "self", tmp_path / "one", tmp_path / "self" / "table.csv"):
        with pytest.raises(OSError, match=f"^{path} {why}$"):
            write_whole(path, "text")
    with pytest.raises(OSError, match=f"^{tmp_path / 'one'} {why}$"):
        check_folder(tmp_path / "one")
    assert len(list(tmp_path.iterdir())) == 3


@posix
def test_folders_that_can_be_written(tmp_path):
    for folder in (tmp_path, tmp_path / "new", tmp_path / "new" / "newer"):
        check_folder(folder)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for folder in (tmp_path / "dangling", tmp_path / "file", tmp_path / "file" / "new", tmp_path / ("n" * 300)):
        with pytest.raises(OSError, match=f"^{folder} cannot be written: "):
            check_folder(folder)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and named pipes")
def test_only_plain_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/full")
    for name, what in (("pipe", "a named pipe"), ("link", "a device"), ("/dev/null", "a device")):
        with pytest.raises(ValueError, match=f"{name} is {what}, and only plain files are written"):
            write_whole(tmp_path / name, "text")
    with pytest.raises(ValueError, match="is a folder"):
        write_whole(tmp_path, "text")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert len(list(tmp_path.iterdir())) == 2


def test_missing_folders_are_not_made(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"table\.csv cannot be written: there is no folder .*missing\.$"):
        write_whole(tmp_path / "missing" / "table.csv", "text")
    assert list(tmp_path.iterdir()) == []


@posix
@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_is_left_alone(tmp_path, monkeypatch, links):
    def no_links(*args):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "table.csv"

    def write():
        with only_new(path), written_whole(path) as part:
            part.write_text("ours")
            path.write_text("theirs")

    for n in (1, 2):
        with pytest.raises(FileExistsError, match=rf"left as it is; the result is {tmp_path}/table\.{n}\.csv\.$"):
            write()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "table.csv": "theirs",
        "table.1.csv": "ours",
        "table.2.csv": "ours",
    }
    for file in tmp_path.iterdir():
        file.unlink()
    with only_new(path):
        write_whole(path, "ours")
    assert path.read_text() == "ours"
    write_whole(path, "replaced")
    assert path.read_text() == "replaced"
    assert list(tmp_path.iterdir()) == [path]


@posix
@pytest.mark.parametrize(
    ("name", "beside"),
    [("t.csv.gz", "t.1.csv.gz"), ("t.v2.csv", "t.v2.1.csv"), ("t", "t.1"), (".t", ".t.1"), ("t.tar.x", "t.tar.1.x")],
)
def test_a_name_beside_keeps_the_ending(tmp_path, monkeypatch, name, beside):
    """Also where a folder has appeared, and of a relative path or a link."""
    monkeypatch.chdir(tmp_path)

    def write(path, appear):
        with only_new(path), written_whole(path) as part:
            part.write_text("ours")
            appear(path)

    with pytest.raises(FileExistsError, match=f"{name} appeared during .* the result is {beside}\\.$"):
        write(Path(name), Path.mkdir)
    assert Path(beside).read_text() == "ours"
    (tmp_path / "there").mkdir()
    Path("link").symlink_to(f"there/{name}")
    with pytest.raises(FileExistsError, match=f"link appeared during .* the result is {tmp_path}/there/{beside}\\.$"):
        write(Path("link"), Path.touch)
    assert (tmp_path / "there" / beside).read_text() == "ours"
