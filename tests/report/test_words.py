"""The sentences of a report."""

import numpy as np
import pytest

from eiv.report.words import verdict


@pytest.mark.parametrize(
    ("aleatoric", "words"), [(0.01, "hardly matter"), (0.3, "matter here"), (2.0, "matter a lot here")]
)
def test_verdict(aleatoric, words):
    scores = {"aleatoric": aleatoric, "epistemic": 0.1, "total": float(np.hypot(1, aleatoric))}
    assert words in verdict(scores, "these rows", exact=False)
    assert "(these rows)" in verdict(scores, "these rows", exact=False)


def test_verdict_on_a_constant_curve():
    scores = {"aleatoric": 0.0, "epistemic": 0.0, "total": 1.0}
    words = "The input errors do not matter here: the predicted curve is constant (these rows)."
    assert verdict(scores, "these rows", exact=False) == words
