"""Standardisation of weighted rows: that of the table in which each row is repeated."""

import numpy as np
import pytest

from eiv.scaling import Scaler

VALUES = np.random.default_rng(0).normal(size=(9, 2)) ** 3
WEIGHTS = np.array([1.0, 3.0, 2.0, 1.0, 5.0, 1.0, 2.0, 4.0, 1.0])


@pytest.mark.parametrize("fit", [Scaler.fit, Scaler.fit_middle])
def test_whole_weights_are_repeated_rows(fit):
    found, repeated = fit(VALUES, WEIGHTS), fit(VALUES.repeat(WEIGHTS.astype(int), axis=0))
    np.testing.assert_allclose(found.shift, repeated.shift, rtol=1e-12)
    np.testing.assert_allclose(found.scale, repeated.scale, rtol=1e-12)
    assert not np.allclose(found.shift, fit(VALUES).shift, rtol=0.01)  # weights matter


@pytest.mark.parametrize("fit", [Scaler.fit, Scaler.fit_middle])
def test_weights_in_tenths_are_repeated_rows_but_for_the_ends(fit):
    """Their scale does not matter to means, and to quantiles only by the place of the last row, (W - 1) q."""
    found, repeated = fit(VALUES, WEIGHTS / 10), fit(VALUES.repeat(WEIGHTS.astype(int), axis=0))
    if fit == Scaler.fit:
        np.testing.assert_allclose([found.shift, found.scale], [repeated.shift, repeated.scale], rtol=1e-12)
    else:
        low, high = np.quantile(VALUES, [0.0, 1.0], axis=0)
        assert ((low <= found.shift) & (found.shift <= high) & (found.scale > 0)).all()


def test_a_column_whose_middle_half_is_constant_by_weight():
    found = Scaler.fit_middle(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 8.0, 1.0]))
    np.testing.assert_allclose([found.shift[0], found.scale[0]], [1.0, np.sqrt(0.2)])  # mean and standard deviation
