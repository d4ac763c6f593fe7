"""Errors in every form of the table in docs/method.md."""

import numpy as np
import pandas as pd
import pytest

from eiv import relative
from eiv.inputs.errors import check_x_err, named_errors

COVARIANCE = np.array([[0.04, 0.01], [0.01, 0.09]])


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (0.1, [[0.1, 0.1]]),
        ([0.1, 0.0], [[0.1, 0.0]]),
        (np.full((5, 2), 0.3), np.full((5, 2), 0.3)),
        (COVARIANCE, COVARIANCE[None]),
        (COVARIANCE[None], COVARIANCE[None]),
        (np.tile(COVARIANCE, (5, 1, 1)), np.tile(COVARIANCE, (5, 1, 1))),
        (np.diag([0.04, 0.09]), [[0.2, 0.3]]),
        (np.tile(np.diag([0.04, 0.0]), (5, 1, 1)), np.tile([0.2, 0.0], (5, 1))),
        ([[1.0, 2.0], [2.0, 4.0]], [[[1.0, 2.0], [2.0, 4.0]]]),  # singular, but a covariance
    ],
)
def test_forms(errors, expected):
    np.testing.assert_allclose(check_x_err("X_err", errors, 2, n_rows=5), expected)


def test_two_axes_are_a_covariance_for_all_rows_and_values_of_each_row_for_some():
    assert check_x_err("x_err", COVARIANCE, 2).shape == (1, 2, 2)
    assert check_x_err("x_err", [[0.04]], 1) == pytest.approx(0.2)  # a variance
    assert check_x_err("X_err", [[0.04]], 1, n_rows=1) == pytest.approx(0.04)  # one row of one feature
    rows = np.array([[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_array_equal(check_x_err("X_err", rows, 2, n_rows=2), rows)  # not symmetric
    np.testing.assert_array_equal(check_x_err("X_err", np.full((2, 2), 0.1), 2, n_rows=2), np.full((2, 2), 0.1))
    with pytest.raises(ValueError, match=r"could be one value per row and feature, or a covariance.*\(1, 2, 2\)"):
        check_x_err("X_err", COVARIANCE, 2, n_rows=2)
    with pytest.raises(ValueError, match=r"got shape \(1, 1\)"):
        check_x_err("X_err", [[0.04]], 1, n_rows=3)


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric matrices"),
        ([[1.0, 2.0], [2.0, 1.0]], "without negative eigenvalues"),
        ([[-1.0, 0.0], [0.0, 1.0]], "without negative eigenvalues"),
        ([[1.0, np.nan], [0.0, 1.0]], "must be finite"),
        ([[0.0, 0.1], [0.1, 1.0]], "without negative eigenvalues"),
        (np.ones((3, 2, 2)), r"got shape \(3, 2, 2\)"),
    ],
)
def test_what_is_no_covariance_is_refused(errors, words):
    with pytest.raises(ValueError, match=words):
        check_x_err("x_err", errors, 2)


def test_units_do_not_decide_what_is_a_covariance():
    tiny = COVARIANCE * np.outer([1e-9, 1e6], [1e-9, 1e6])
    assert check_x_err("x_err", tiny, 2).shape == (1, 2, 2)
    with pytest.raises(ValueError, match="negative eigenvalues"):
        check_x_err("x_err", np.array([[1.0, 2.0], [2.0, 1.0]]) * np.outer([1e-9, 1e6], [1e-9, 1e6]), 2)


def test_a_covariance_with_names_is_put_in_order():
    table = pd.DataFrame(COVARIANCE, index=["b", "a"], columns=["b", "a"])
    found = check_x_err("X_err", named_errors("X_err", table, ["a", "b"]), 2, n_rows=2)
    np.testing.assert_allclose(found, COVARIANCE[None, ::-1, ::-1])
    with pytest.raises(ValueError, match="has names, but X has none"):
        named_errors("X_err", table, None)


def test_relative_errors_are_shares_of_the_spread():
    spread = np.array([2.0, 10.0, 0.0])
    np.testing.assert_allclose(relative(0.05).of(spread, None), [[0.1, 0.5, 0.0]])
    np.testing.assert_allclose(relative([0.1, 0.0, 0.2]).of(spread, None), [[0.2, 0.0, 0.0]])
    np.testing.assert_allclose(relative({"c": 0, "b": 0.1, "a": 0}).of(spread, ["a", "b", "c"]), [[0.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match="relative must not be negative"):
        relative(-0.1).of(spread, None)
    with pytest.raises(ValueError, match="relative must be"):
        relative([0.1, 0.2]).of(spread, None)
