"""Real data sets: where they are looked for, downloads, and the digest. The network is a server on this machine."""

import contextlib
import dataclasses
import gzip
import io
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eiv.datasets import REAL, DataNotFoundError, _download, load, overview
from eiv.datasets._catalogue import Description, Download
from eiv.datasets._parsers import blanks, commas, from_tgz, from_zip, gunzip
from eiv.datasets.real import cache_folder, content_digest
from serving import start, text, zipped

VALUES = np.array([[1.0, 0.5, -2.25], [4.0, 0.0, 1e-3], [7.0, 123456.789, 9.0]])
COLUMNS = ("a", "b", "c")
TOY_URL = "https://example.org/data/toy.zip"


def toy_zip(values=VALUES, member="folder/toy.txt"):
    return zipped(**{"README": "words", member: text(values, " ", "\r\n")})


@pytest.fixture
def toy(server, monkeypatch):
    """A data set of three rows, so that these tests need no data."""
    description = Description(
        name="toy",
        title="Toy",
        creators="nobody",
        file="toy.csv",
        n_rows=3,
        features=("a", "b"),
        targets=("c",),
        source="nowhere",
        url="https://example.org/about-toy",
        doi=None,
        licence="none",
        downloads=(Download(TOY_URL, from_zip("toy.txt", blanks)),),
        decimals=3,
        digest=content_digest(VALUES, COLUMNS, 3),
    )
    monkeypatch.setitem(REAL, "toy", description)
    server.serve(TOY_URL, toy_zip())
    return description


def words(value):
    """Names of tests from their words alone: archives hold the time of day."""
    return value if isinstance(value, str) else "bytes"


def files(folder):
    return sorted(path for path in Path(folder).rglob("*") if path.is_file())


def test_a_download_is_parsed_checked_and_kept(toy, server):
    data = load("toy")
    assert list(data.X.columns) == ["a", "b"]
    assert data.y.name == "c"
    np.testing.assert_array_equal(data.X.to_numpy(), VALUES[:, :2])
    np.testing.assert_array_equal(data.y.to_numpy(), VALUES[:, 2])
    assert data.path == cache_folder() / "toy.csv"
    assert files(cache_folder()) == [data.path]
    assert data.path.read_text() == "a,b,c\n1,0.5,-2.25\n4,0,0.001\n7,123456.789,9\n"


def test_the_second_load_does_not_touch_the_network(toy, server):
    first = load("toy")
    second = load("toy")
    assert len(server.asked) == 1
    pd.testing.assert_frame_equal(first.X, second.X, check_exact=True)


@pytest.mark.parametrize("packed", [False, True])
def test_the_folder_eiv_data_comes_before_the_cache(toy, server, monkeypatch, tmp_path, packed):
    load("toy")
    content = b'\xef\xbb\xbf"a","b","c"\r\n1.0e0,5e-1,-2.25\r\n4,0,1e-3\r\n7,123456.7890,9\r\n'  # another print of it
    path = tmp_path / ("toy.csv.gz" if packed else "toy.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    monkeypatch.setenv("EIV_DATA", str(tmp_path))
    data = load("toy")
    assert data.path == path
    np.testing.assert_array_equal(data.y.to_numpy(), VALUES[:, 2])
    path.unlink()
    assert load("toy").path == cache_folder() / "toy.csv"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a,b,c\n1,0.5,-2.25\n4,0,0.001\n", r"shape \(2, 3\) instead of \(3, 3\)"),
        (b"a,b,c\n1,0.5,-2.25\n4,0,0.002\n7,123456.789,9\n", "values differ"),
        (b"a,b,c\n1,0.5,-2.25\n4,0,nan\n7,123456.789,9\n", "values differ"),
        (b"a,b,c\n1,0.5,-2.25\n4,0,1e308\n7,123456.789,9\n", "values differ"),
        (b"a,c,b\n1,0.5,-2.25\n4,0,0.001\n7,123456.789,9\n", "columns are a, c, b instead of a, b, c"),
        (b"a,b,c\n1,0.5,x\n", "could not convert"),
        (b"", "columns are"),
        (b"\xff\xfe\x00", "cannot be read"),
        (gzip.compress(b"a,b,c\n1,0.5,-2.25\n" * 99)[:-20], "cannot be read"),
        (gzip.compress(b"a,b,c\n1,0.5,-2.25\n" * 99)[:20] + b"abcdefgh" * 9, "cannot be read"),
    ],
    ids=words,
)
def test_a_wrong_file_in_eiv_data_is_an_error_that_names_it(toy, server, monkeypatch, tmp_path, content, reason):
    (tmp_path / "toy.csv").write_bytes(content)
    monkeypatch.setenv("EIV_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=reason) as caught:
        load("toy")
    assert str(tmp_path / "toy.csv") in str(caught.value)
    assert server.asked == []


@pytest.mark.parametrize("content", [b"", b"a,b,c\n1,0.5,-2.25\n", b"\x1f\x8b\x08garbage", b"a,b,c\n" + b"1,2,3\n" * 3])
def test_a_damaged_file_in_the_cache_is_downloaded_anew(toy, server, content):
    cache_folder().mkdir()
    (cache_folder() / "toy.csv").write_bytes(content)
    np.testing.assert_array_equal(load("toy").y.to_numpy(), VALUES[:, 2])
    assert len(server.asked) == 1
    load("toy")
    assert len(server.asked) == 1


def test_without_data_and_network_the_error_says_which_file_to_put_where(toy, server, monkeypatch, tmp_path):
    monkeypatch.setenv("EIV_MIRROR", "http://127.0.0.1:9")  # nobody listens
    monkeypatch.setenv("EIV_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataNotFoundError) as caught:
        load("toy")
    for part in ["'toy'", "toy.csv", "EIV_DATA", str(tmp_path / "elsewhere"), str(cache_folder()), TOY_URL, "a,b,c"]:
        assert part in str(caught.value)
    assert not cache_folder().exists()
    monkeypatch.delenv("EIV_DATA")
    with pytest.raises(FileNotFoundError, match="not set"):
        load("toy")


def test_a_mirror_may_be_a_folder(toy, server, monkeypatch, tmp_path):
    original = tmp_path / "mirror" / "example.org" / "data" / "toy.zip"
    original.parent.mkdir(parents=True)
    original.write_bytes(toy_zip())
    monkeypatch.setenv("EIV_MIRROR", (tmp_path / "mirror").as_uri())
    assert len(load("toy").X) == 3
    assert server.asked == []


def test_the_next_address_is_tried(toy, server, monkeypatch):
    two = (Download("https://example.org/gone.zip", blanks), *toy.downloads)
    monkeypatch.setitem(REAL, "toy", dataclasses.replace(toy, downloads=two))
    assert len(load("toy").X) == 3
    assert len(server.asked) == 2


def test_a_cache_that_cannot_be_written_costs_a_warning(toy, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EIV_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match="could not be kept"):
        data = load("toy")
    assert data.path is None
    np.testing.assert_array_equal(data.y.to_numpy(), VALUES[:, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("boston",), "name must be 'yacht', 'naval'"),
        ((3,), "name must be"),
        (("energy", "warmth"), "target must be 'heating_load' or 'cooling_load', got 'warmth'"),
        (("naval", "fuel_flow"), "target must be 'gt_compressor_decay' or 'gt_turbine_decay'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        load(*arguments)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/eiv"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/eiv"),
        ("darwin", {}, "home/Library/Caches/eiv"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/eiv/Cache"),
        ("win32", {}, "home/AppData/Local/eiv/Cache"),
        ("linux", {"EIV_CACHE": "/mine"}, "/mine"),
    ],
)
def test_the_cache_folder_is_the_platforms(monkeypatch, platform, variables, expected):
    for name in ("EIV_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    assert cache_folder() == Path(expected)


def cut_off(handler):
    start(handler, len(toy_zip()))
    handler.wfile.write(toy_zip()[:100])


def cut_off_chunks(handler):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"64\r\n" + toy_zip()[:50])


def hang(handler):
    start(handler, len(toy_zip()))
    handler.wfile.write(toy_zip()[:100])
    handler.wfile.flush()
    time.sleep(0.6)


def drip(handler):
    start(handler, 10**6)
    for _ in range(20):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.02)


def reset(handler):
    handler.connection.close()


CHANGED = np.where(VALUES == 0.5, 0.501, VALUES)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (cut_off, "broke off after 100 of"),
        (cut_off_chunks, "broke off"),
        (hang, "no answer within 0.3 seconds"),
        (drip, "not complete within 0.1 seconds"),
        (reset, "broke off"),
        (None, "the server answered 404"),
        (lambda handler: handler.send_error(500), "the server answered 500"),
        (lambda handler: start(handler, 0), "damaged"),
        (b"<html>We have moved.</html>", "damaged"),
        (toy_zip()[:-30], "damaged"),
        (toy_zip().replace(b"PK\x01\x02", b"PK\x01\x03"), "damaged"),
        (toy_zip()[:40] + b"\x00" * 60 + toy_zip()[100:], "toy.zip: "),
        (zipped(README="words"), "no toy.txt in the archive, only README"),
        (zipped(**{"toy.txt": "1 2 three\n"}), "damaged"),
        (zipped(**{"toy.txt": ""}), "shape"),
        (toy_zip(VALUES[:2]), "shape"),
        (toy_zip(CHANGED), "values differ"),
        (toy_zip(VALUES[::-1]), "values differ"),
        (b"x" * 20001, "more than 0 MiB"),
    ],
    ids=words,
)
def test_nothing_stays_behind_where_a_download_fails(toy, server, monkeypatch, answer, reason):
    if answer is hang:
        monkeypatch.setattr(_download, "TIMEOUT", 0.3)
    if answer is drip:
        monkeypatch.setattr(_download, "DEADLINE", 0.1)
    monkeypatch.setattr(_download, "LIMIT", 20000)
    server.serve(TOY_URL, answer)
    with pytest.raises(DataNotFoundError, match=reason):
        load("toy")
    assert len(server.asked) == 1
    assert not cache_folder().exists()
    server.serve(TOY_URL, toy_zip())
    assert len(load("toy").X) == 3


@pytest.mark.parametrize("member", ["../../toy.txt", "/etc/toy.txt", "..\\toy.txt", "C:/toy.txt", "./../toy.txt"])
def test_names_in_an_archive_are_never_paths_here(toy, server, tmp_path, member):
    server.serve(TOY_URL, toy_zip(member=member))
    with contextlib.suppress(DataNotFoundError):
        load("toy")
    assert files(tmp_path) in ([], [cache_folder() / "toy.csv"])


def test_a_tar_archive_with_a_link_instead_of_the_file(tmp_path):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        link = tarfile.TarInfo("cal_housing.data")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises((KeyError, ValueError)):
        from_tgz("cal_housing.data", commas)(raw.getvalue())


def test_what_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr("eiv.datasets._parsers.LIMIT", 1000)
    with pytest.raises(ValueError, match="when unpacked"):
        from_zip("toy.txt", blanks)(zipped(**{"toy.txt": "1 " * 1000}))
    with pytest.raises(ValueError, match="when unpacked"):
        gunzip(gzip.compress(b"1 " * 1000))


def test_a_kill_half_way_leaves_nothing(server, tmp_path):
    reached = threading.Event()

    def half(handler):
        start(handler, 10**6)
        handler.wfile.write(b"PK" * 1000)
        handler.wfile.flush()
        reached.set()
        server.closing.wait(60)

    server.serve(REAL["yacht"].downloads[0].url, half)
    process = subprocess.Popen([sys.executable, "-c", "import eiv.datasets; eiv.datasets.load('yacht')"])
    try:
        assert reached.wait(60)
    finally:
        process.kill()
        process.wait(timeout=60)
    assert files(tmp_path) == []


def test_many_may_load_at_once(toy, server):
    threads = [threading.Thread(target=load, args=("toy",), daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert files(cache_folder()) == [cache_folder() / "toy.csv"]


def test_a_bar_is_drawn_on_a_terminal(toy, server, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert len(load("toy").X) == 3
    assert capsys.readouterr().out == ""


def test_without_openpyxl_the_error_says_what_to_install(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    server.serve(REAL["power"].downloads[0].url, zipped(**{"CCPP/Folds5x2_pp.xlsx": b""}))
    with pytest.raises(DataNotFoundError, match=r'openpyxl, which is missing: pip install "eiv\[datasets\]"'):
        load("power")


def test_the_overview_lists_all_thirteen(server, monkeypatch, tmp_path):
    table = overview()
    assert list(table["name"]) == [
        *("linear", "quadratic", "cubic", "sine"),
        *("yacht", "naval", "protein", "concrete", "kin8nm", "wine", "power", "energy", "california"),
    ]
    assert list(table.columns) == ["name", "kind", "rows", "features", "source", "licence", "at_hand"]
    assert list(table["at_hand"]) == ["simulated"] * 4 + ["no"] * 9
    assert table.drop(columns="at_hand").astype(str).map(len).to_numpy().min() > 0
    (tmp_path / "wine.csv").write_text("")
    monkeypatch.setenv("EIV_DATA", str(tmp_path))
    assert overview().set_index("name")["at_hand"]["wine"] == str(tmp_path / "wine.csv")
    assert server.asked == []


def test_every_description_is_complete():
    for name, description in REAL.items():
        assert description.name == name
        assert description.file in (f"{name}.csv", f"{name}.csv.gz")
        assert len(description.digest) == 64
        assert len(set(description.columns)) == len(description.features) + len(description.targets)
        assert description.default_target == description.targets[0]
        assert all(download.url.startswith("https://") for download in description.downloads)


def test_import_is_light():
    code = "import eiv.datasets, sys; print([m for m in ('pandas', 'torch', 'rich', 'openpyxl') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "[]"


def test_the_digest_sees_every_value_name_and_shape():
    digests = {content_digest(VALUES, COLUMNS, 3), content_digest(VALUES, ("a", "b", "d"), 3)}
    digests |= {
        content_digest(VALUES.reshape(9, 1), COLUMNS, 3),
        content_digest(np.asfortranarray(VALUES.T), COLUMNS, 3),
    }
    for i in range(VALUES.size):
        for change in (-1e-3, 1e-3, 1.0, np.nan):
            values = VALUES.copy()
            values.flat[i] += change
            digests.add(content_digest(values, COLUMNS, 3))
    assert len(digests) == 4 + 3 * VALUES.size + VALUES.size


def test_the_digest_does_not_see_the_last_bits():
    wanted = content_digest(VALUES, COLUMNS, 3)
    assert content_digest(np.nextafter(VALUES, np.inf), COLUMNS, 3) == wanted
    assert content_digest(np.nextafter(VALUES, -np.inf), COLUMNS, 3) == wanted
    assert content_digest(np.asfortranarray(VALUES).astype(">f8"), COLUMNS, 3) == wanted
