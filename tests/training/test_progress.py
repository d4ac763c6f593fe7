"""Tests of what a fit tells of its progress: shares that never fall, and what is being done."""

import itertools

import numpy as np
import pytest

from eiv import EiVRegressor, fit_splits
from eiv.training.progress import Share, between, joint, part_of

COSINES = [
    "distribution of the true inputs",
    "search for the kernel",
    "other explanations of the labels",
    "pool of networks",
    "weights from all rows",
    "covariance of the weights",
    "whether the labels bear out the errors",
]
STEPS = ["distribution of the true inputs", "training", "covariance of the weights"]


def fitted(n_splits, **settings):
    """The shares of a fit of splits of different sizes, and what it said, each time it said something else."""
    random, seen = np.random.default_rng(0), []
    zeta = random.normal(size=(80, 2))
    splits = [np.arange(60 + 20 * i) for i in range(n_splits)]
    model = EiVRegressor(0.2, random_state=0, **settings)
    fit_splits(model, zeta + 0.2 * random.normal(size=(80, 2)), np.sin(zeta[:, 0]), splits, on_progress=seen.append)
    return seen, [what for what, _ in itertools.groupby(share.what for share in seen if share.what)]


@pytest.mark.parametrize("n_networks", [1, 2])
def test_a_fit_of_cosines_says_what_it_does(n_networks):
    seen, said = fitted(2, network="cosine", hidden_units=8, n_networks=n_networks)
    assert seen == sorted(seen)
    assert seen[-1] == 1
    assert {*said} == {*COSINES}
    assert said[:2] == COSINES[:2]
    assert [what for what in said if what in (COSINES[0], COSINES[-1])] == [COSINES[0], COSINES[-1]]
    of_search = [share for share in seen if share.what == "search for the kernel"]
    assert len(of_search) >= 20, "it moves within a fit"


def test_a_fit_by_steps_says_what_it_does():
    seen, said = fitted(1, network="paper", hidden_units=8, n_hidden=1, epochs=3)
    assert seen == sorted(seen)
    assert (said, seen[-1]) == (STEPS, 1)


def test_parts_make_up_the_whole():
    seen = []
    part_of(between(seen.append, 0.5, 1.0), 1, 2)(Share(0.5, "work"))
    one, other = joint(seen.append, 2)
    one(Share(1.0, "first"))
    other(0.5)
    assert [(float(share), share.what) for share in seen] == [(0.875, "work"), (0.5, "first"), (0.75, "")]
    assert joint(None, 2) == [None, None]
    assert between(None, 0.0, 1.0) is None
