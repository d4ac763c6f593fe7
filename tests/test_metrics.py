import numpy as np
import pytest
from sklearn.metrics import root_mean_squared_error

from eiv.metrics import coverage, rmse


def test_rmse_agrees_with_scikit_learn():
    a, b = np.random.default_rng(0).normal(size=(2, 50))
    assert rmse(a, b) == pytest.approx(root_mean_squared_error(a, b))


def test_coverage_counts_the_values_inside_ends_included():
    assert coverage([0, 1, 2, 3], low=[0, 0, 0, 0], high=[0, 1, 1, 9]) == 0.75
