"""The order in which workers take up the tests (`conftest.py`)."""

import re
from collections import Counter
from itertools import chain
from types import SimpleNamespace

import pytest

from conftest import FILES_THAT_NEED, LONGEST, TESTS, TESTS_THAT_NEED, dealt_out


def test_tests_that_are_named_are_there():
    for name in chain(LONGEST, *TESTS_THAT_NEED.values()):
        file, test, values = re.fullmatch(r"tests/(.*)::(\w+)(?:\[(.*)\])?", name).groups()
        text = (TESTS / file).read_text(encoding="utf-8")
        assert f"def {test}(" in text, name
        assert all(value in text for value in (values or "").split("-")), name
    for pattern in chain(*FILES_THAT_NEED.values()):
        assert list(TESTS.glob(pattern)), pattern


@pytest.mark.parametrize(("n_others", "n_workers"), [(1000, 1), (1000, 2), (1001, 3), (3, 16)])
def test_each_worker_starts_with_its_share_of_the_longest(n_others, n_workers):
    names = [f"tests/test_{i}.py::test" for i in range(n_others)]
    names[1:1] = LONGEST[3:]
    names += LONGEST[:3]
    dealt = [item.nodeid for item in dealt_out([SimpleNamespace(nodeid=name) for name in names], n_workers)]
    assert Counter(dealt) == Counter(names)
    assert dealt[: -(-len(LONGEST) // n_workers)] == LONGEST[::n_workers]
    if n_workers == 2:
        second = dealt[len(dealt) // 2 :]
        assert second[: len(LONGEST) // 2] == LONGEST[1::2]
