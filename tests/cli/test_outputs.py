"""What the commands write: which files they replace, follow or leave alone."""

import os
import re
import shutil
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from commands import FIT, QUICK
from eiv import EiVRegressor, FittedModel


def test_outputs_are_not_replaced_unasked(model, run):
    before = (model / "m.eiv").read_bytes()
    status, _, err = run("fit", "d.csv", *FIT, *QUICK, "--seed", "9", "-o", "m.eiv")
    assert status == 2
    assert "m.eiv exists already; use --force" in err
    assert (model / "m.eiv").read_bytes() == before
    assert run("fit", "d.csv", *FIT, *QUICK, "--seed", "9", "-o", "m.eiv", "--force")[0] == 0
    assert (model / "m.eiv").read_bytes() != before
    (model / "p.csv").write_text("mine")
    assert run("predict", "m.eiv", "d.csv", "-o", "p.csv")[0] == 2
    assert (model / "p.csv").read_text() == "mine"
    assert "is a folder" in run("predict", "m.eiv", "d.csv", "-o", ".")[2]


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_outputs_that_are_no_plain_files_are_refused(model, run, force):
    os.mkfifo("pipe.csv")
    reader = os.open("pipe.csv", os.O_RDONLY | os.O_NONBLOCK)  # else who opens it to write waits for ever
    Path("device.csv").symlink_to("/dev/full")
    for name, what in (("pipe.csv", "a named pipe"), ("device.csv", "a device")):
        status, _, err = run("predict", "m.eiv", "d.csv", "-o", name, *force)
        assert (status, err) == (
            2,
            f"error: {name} is {what}, and only plain files are written; give the name of a file.\n",
        )
    os.close(reader)
    assert stat.S_ISFIFO(Path("pipe.csv").stat().st_mode)
    assert run("fit", "d.csv", *FIT, *QUICK, "-o", "/dev/null", *force)[0] == 2
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_library_outputs_that_are_no_plain_files_are_refused(tmp_path):
    fitted = EiVRegressor(epochs=1, hidden_units=2, recipe="paper").fit(np.arange(8.0)[:, None], np.arange(8.0))
    (tmp_path / "full").symlink_to("/dev/full")  # a link: nobody's device is lost where the check is
    with pytest.raises(ValueError, match="full is a device"):
        fitted.save(tmp_path / "full")
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="full is a device"):
        fitted.export(tmp_path / "full", "onnx")
    assert (tmp_path / "full").is_symlink()


def test_links_are_followed_and_permissions_are_kept(model, run):
    (model / "there").mkdir()
    Path("there/p.csv").write_text("old")
    Path("there/p.csv").chmod(0o600)
    Path("p.csv").symlink_to("there/p.csv")
    assert "p.csv exists already" in run("predict", "m.eiv", "d.csv", "-o", "p.csv")[2]
    assert run("predict", "m.eiv", "d.csv", "-o", "p.csv", "--force")[0] == 0
    assert Path("p.csv").is_symlink()
    assert Path("there/p.csv").read_text().startswith("id,length")
    assert stat.S_IMODE(Path("there/p.csv").stat().st_mode) == 0o600


def test_missing_folders_are_not_made(model, run, made_up_run):
    shutil.copytree(made_up_run, model, dirs_exist_ok=True)
    for arguments in (
        ("predict", "m.eiv", "d.csv", "-o", "no/p.csv"),
        ("explain", "m.eiv", "d.csv", "--row", "1", "-o", "no/p.png"),
        ("report", "m.eiv", "-o", "no/p.html"),
        ("report", ".", "-o", "no/p.md"),
    ):
        status, _, err = run(*arguments)
        assert status == 2
        assert re.match(r"error: no/p\.\w+ cannot be written: there is no folder .*/no\.\n", err)
    assert not Path("no").exists()


@pytest.mark.parametrize("kind", ["fit", "predict", "explain", "report"])
def test_an_output_that_appears_meanwhile_is_left_alone(model, run, monkeypatch, kind):
    """And the work is kept beside it."""
    name, arguments, place = {
        "fit": ("n.eiv", ["fit", "d.csv", *FIT, *QUICK], "eiv.fit_splits"),
        "predict": ("p.csv", ["predict", "m.eiv", "d.csv"], "eiv.FittedModel.predict"),
        "explain": ("p.png", ["explain", "m.eiv", "d.csv", "--row", "1"], "eiv.FittedModel.predict"),
        "report": ("p.html", ["report", "m.eiv"], "eiv.report.write_model_page"),
    }[kind]
    package, _, work = place.rpartition(".")
    owner = FittedModel if package.endswith("FittedModel") else sys.modules[package]
    original = getattr(owner, work)

    def slow(*args, **kwargs):
        Path(name).write_text("theirs")
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, work, slow)
    status, _, err = run(*arguments, "-o", name)
    assert status == 2
    beside = Path(name).with_suffix(f".1{Path(name).suffix}")
    assert err.endswith(f"error: {name} appeared during the run and is left as it is; the result is {beside}.\n")
    assert Path(name).read_text() == "theirs"
    assert not list(model.glob(".*.eiv-part"))
    assert run(*arguments, "-o", name, "--force")[0] == 0
    if kind == "report":  # which holds times
        assert beside.read_bytes().startswith(b"<!DOCTYPE html>")
    else:
        assert Path(name).read_bytes() == beside.read_bytes()


def test_the_picture_of_a_table_whose_name_is_not_text(model, run):
    name = os.fsdecode(b"n\xff.csv")
    Path(name).write_bytes(Path("d.csv").read_bytes())
    assert run("explain", "m.eiv", name, "--row", "1", "-o", "q.png")[0] == 0
    assert Path("q.png").stat().st_size > 0
