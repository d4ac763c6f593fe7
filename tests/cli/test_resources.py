"""Too little memory, a limit on files and a full disk are one sentence."""

import re
import resource
import sys
import textwrap

import pytest

from commands import FIT, QUICK, large
from processes import MAIN, ended


def test_too_little_memory_is_one_sentence(folder, run, monkeypatch):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))

    wide = ("--set", "hidden_units=50000")  # ten gigabytes for one layer
    status, _, err = ended(
        sys.executable, "-c", MAIN, "fit", "d.csv", *FIT, *QUICK, *wide, "-o", "m.eiv", first=limited
    )
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("error: There is not enough memory")
    assert not (folder / "m.eiv").exists()

    def fail(*args):
        raise RuntimeError("a shape is wrong")

    monkeypatch.setattr("eiv.io.modelfile.models.checked_header", fail)
    with pytest.raises(RuntimeError, match="shape"):
        run("info", "m.eiv")


@pytest.mark.parametrize(
    ("kind", "target"), [("fit", "m.eiv"), *(("predict", name) for name in ("p.csv", "p.parquet", "p.csv.gz"))]
)
def test_a_limit_on_the_size_of_files(model, run, kind, target):
    """The write fails half way, as it does where a quota is used up."""
    large(10)
    before = (model / "m.eiv").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
        status, _, err = run(*full_disk(kind, target))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert status == 2, err
    kept = "it is as it was before" if target == "m.eiv" else "nothing is left of it"
    assert err == f"error: {target} could not be written, {kept}: File too large.\n"
    assert sorted(path.name for path in model.iterdir()) == ["d.csv", "large.csv", "m.eiv"]
    assert (model / "m.eiv").read_bytes() == before


def full_disk(kind, target):
    """A command that writes more than there is room for."""
    if kind == "predict":
        return ["predict", "m.eiv", "large.csv", "-o", target]
    return ["fit", "d.csv", *FIT, *QUICK, "--set", "hidden_units=100", "--holdout", "0", "-o", target, "--force"]


MOUNT = ["unshare", "--map-root-user", "--mount", "sh", "-c"]


def can_mount():
    """Whether a process may mount a disk of its own."""
    try:
        return ended(*MOUNT, "mount -t tmpfs none /mnt")[0] == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_mount(), reason="mounting a small disk is not allowed here")
def test_full_disk(model):
    """A disk of 64 kB in memory, which only the commands and the listing after them see."""
    large(10)
    (model / "disk").mkdir()
    outputs = {"fit": "disk/n.eiv", "predict": "disk/p.csv"}
    code = f"""
        import sys
        from eiv.cli import main
        for arguments in {[full_disk(*item) for item in outputs.items()]}:
            sys.argv = ["eiv", *arguments]
            try:
                main()
            except SystemExit as end:
                print("status", end.code)
    """
    script = """mount -t tmpfs -o size=64k none disk; "$@"; ls -A disk"""
    status, out, err = ended(*MOUNT, script, "sh", sys.executable, "-c", textwrap.dedent(code))
    assert err.splitlines() == [
        f"error: {name} could not be written, nothing is left of it: No space left on device."
        for name in outputs.values()
    ]
    assert re.findall("^status .*", out, re.MULTILINE) == ["status 2", "status 2"]
    assert out.endswith("status 2\n"), "the disk is empty"
    assert status == 0
