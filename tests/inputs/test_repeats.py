"""Errors from repeated measurements against simulated ones and closed forms."""

import numpy as np
import pandas as pd
import pytest

from eiv import errors_from_repeats

COVARIANCE = np.array([[0.04, 0.015], [0.015, 0.01]])


def repeats(n_groups=300, seed=0):
    """Two to five measurements of each of many true inputs."""
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), random.integers(2, 6, n_groups))
    zeta = random.normal(size=(n_groups, 2))
    return zeta, zeta[groups] + random.multivariate_normal([0, 0], COVARIANCE, len(groups)), groups


def test_pooled_errors_and_their_uncertainty():
    zeta, X, groups = repeats()
    found = errors_from_repeats(X, groups)
    assert found.dof == len(X) - 300
    assert (np.abs(found.x_err - [0.2, 0.1]) < 4 * found.uncertainty).all()
    np.testing.assert_allclose(found.uncertainty, found.x_err / np.sqrt(2 * found.dof), rtol=1e-2)
    np.testing.assert_allclose(found.X_err, found.x_err / np.sqrt(found.counts)[:, None])
    gaps = (found.X - zeta) / found.X_err
    assert abs(gaps.std() - 1) < 4 / np.sqrt(2 * gaps.size)


def test_covariances():
    _, X, groups = repeats()
    found = errors_from_repeats(X, groups, covariance=True)
    assert (np.abs(found.x_err - COVARIANCE) < 4 * found.uncertainty).all()
    np.testing.assert_allclose(found.X_err, found.x_err / found.counts[:, None, None])
    single = errors_from_repeats(X, groups)
    np.testing.assert_allclose(np.sqrt(np.diag(found.x_err)), single.x_err)


@pytest.mark.parametrize("covariance", [False, True])
def test_the_stated_uncertainty_is_the_spread_of_the_estimate(covariance):
    found = [errors_from_repeats(*repeats(10, seed)[1:], covariance=covariance) for seed in range(400)]
    spread = np.std([f.x_err for f in found], axis=0)
    stated = np.sqrt(np.mean([f.uncertainty**2 for f in found], axis=0))
    np.testing.assert_allclose(spread, stated, rtol=0.15)  # 4 / sqrt(2 * 400), and the spread of `stated` itself


def test_errors_by_group_have_the_textbook_uncertainty():
    X = np.array([[0.0], [1.0], [5.0], [5.0], [8.0]])
    found = errors_from_repeats(X, ["a", "a", "b", "b", "b"], by_group=True)
    np.testing.assert_allclose(found.x_err[:, 0], [np.sqrt(0.5), np.sqrt(3)])
    np.testing.assert_allclose(found.X_err[:, 0], [0.5, 1.0])
    # relative standard uncertainty for 2 and 3 observations: 76 % and 52 % (GUM, table E.1)
    np.testing.assert_allclose((found.uncertainty / found.x_err)[:, 0], [0.76, 0.52], atol=0.005)
    wide = errors_from_repeats(np.hstack([X, -X]), ["a", "a", "b", "b", "b"], by_group=True, covariance=True)
    np.testing.assert_allclose(wide.x_err[1], [[3, -3], [-3, 3]])


def test_tables_keep_their_names_and_other_columns_are_averaged_alike():
    table = pd.DataFrame({"length": [1.0, 3.0, 7.0], "width": [0.0, 1.0, 2.0]})
    found = errors_from_repeats(table, ["q", "q", "p"])
    assert list(found.X.columns) == ["length", "width"]
    assert list(found.X.index) == list(found.groups) == ["p", "q"]
    np.testing.assert_allclose(found.average([1.0, 3.0, 9.0]), [9.0, 2.0])
    with pytest.raises(ValueError, match="values must have one a measurement"):
        found.average([1.0, 2.0])


@pytest.mark.parametrize(
    ("X", "groups", "options", "words"),
    [
        ([[1.0], [2.0]], [0, 1], {}, "no label twice"),
        ([[1.0], [2.0], [3.0]], [0, 0, 1], {"by_group": True}, "group 1 has one"),
        ([[1.0], [2.0]], [0], {}, r"groups must have a label for each of the 2 rows, got shape \(1,\)"),
        ([[1.0], [np.nan]], [0, 0], {}, "X must be a table of finite numbers"),
        ([1.0, 2.0], [0, 0], {}, "X must be a table"),
    ],
)
def test_bad_input(X, groups, options, words):
    with pytest.raises(ValueError, match=words):
        errors_from_repeats(X, groups, **options)
