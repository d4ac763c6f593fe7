"""How the fuzzers search: mutations of bytes, a few seconds of examples or minutes of them, and a bound on memory."""

import contextlib
import os
import resource
import time
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SECONDS = float(os.environ.get("EIV_FUZZ_SECONDS", "300"))  # of each long search
_ROOM = 2**31  # bytes that a search may take beside what the process has


def search(strategies, check, max_examples, seed=0):
    """Give `check` examples of `strategies`; the same ones for the same seed."""
    test = given(**strategies)(check)
    quiet = settings(max_examples=max_examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    with bounded_memory():
        hypothesis.seed(seed)(quiet(test))()


def search_long(fuzzers, n_at_once=200):
    """Go through `{name: (strategies, check)}` again and again, with other examples each time; returns the count."""
    deadline, seed = time.monotonic() + SECONDS, time.time_ns()
    n_examples = 0
    while time.monotonic() < deadline:
        for strategies, check in fuzzers.values():
            seed, n_examples = seed + 1, n_examples + n_at_once
            search(strategies, check, n_at_once, seed)
    return n_examples


def refusal(kind, read):
    """What the documented error says that `read` raises; None where it raises none."""
    try:
        read()
    except kind as error:
        return str(error)
    return None


@contextlib.contextmanager
def bounded_memory():
    """A forged number that asks for gigabytes becomes a MemoryError, which is no documented error."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else None
    before = resource.getrlimit(resource.RLIMIT_AS)
    if pages is not None:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


_place = st.floats(0, 1, exclude_max=True)
_edit = st.one_of(
    st.tuples(st.just("flip"), _place, st.integers(0, 7)),
    st.tuples(st.just("byte"), _place, st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)),
    st.tuples(st.just("cut"), _place, _place),
    st.tuples(st.just("insert"), _place, st.binary(min_size=1, max_size=12)),
    st.tuples(st.just("number"), _place, st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**62, 2**63, 2**64 - 1])),
    st.tuples(st.just("copy"), _place, _place),
)
edits = st.lists(_edit, min_size=1, max_size=4)


def edited(content, changes):
    """Bytes after flips, cuts, insertions, numbers of eight bytes written over, and pieces copied elsewhere."""
    for kind, where, how in changes:
        place = int(where * len(content))
        if kind == "flip" and content:
            content = content[:place] + bytes([content[place] ^ 1 << how]) + content[place + 1 :]
        elif kind == "byte":
            content = content[:place] + bytes([how]) + content[place + 1 :]
        elif kind == "cut":
            content = content[:place] + content[place + int(how**3 * len(content)) + 1 :]
        elif kind == "insert":
            content = content[:place] + how + content[place:]
        elif kind == "number":
            content = content[:place] + how.to_bytes(8, "little") + content[place + 8 :]
        elif kind == "copy":
            other = int(how * len(content))
            content = content[:place] + content[other : other + 40] + content[place:]
    return content
