"""A covariance by the directions in which it differs from a multiple of the identity."""

import numpy as np
import pytest
import torch

from eiv import EiVRegressor
from eiv.posteriors.directions import Directions


def roots(variances, seed=0):
    """Symmetric roots with these variances along random directions, `S x n x n`."""
    random = torch.Generator().manual_seed(seed)
    n = variances.shape[1]
    vectors = torch.linalg.qr(torch.randn(len(variances), n, n, generator=random, dtype=torch.float64)).Q
    return vectors * variances.sqrt().unsqueeze(1) @ vectors.mT


@pytest.mark.parametrize("n_changed", [0, 3, 11])
def test_variances_are_those_of_the_whole_matrix(n_changed):
    """In all directions, those that the data determine to a millionth of the prior among them."""
    variances = torch.ones(2, 24, dtype=torch.float64)
    variances[0, :n_changed] = torch.logspace(-6, 0.5, n_changed, dtype=torch.float64)
    variances[1] = 0.3 * variances[0].flip(0)
    root = roots(variances)
    slopes = torch.cat([torch.randn(2, 50, 24, dtype=torch.float64), torch.linalg.eigh(root).eigenvectors.mT], dim=1)
    directions = Directions.of(root)
    assert directions.vectors.shape == (2, 24, n_changed)
    expected = (slopes @ root).square().sum(2)
    # 2^-23 by what is left out, and the rounding of c |J|^2 over the smallest variance
    torch.testing.assert_close(directions.variance(slopes), expected, rtol=2.0**-23 + 1e-9, atol=0)


def test_what_is_left_out_is_within_the_tolerance():
    """Variances that differ by less than the rounding of float32 count as the same."""
    variances = torch.ones(1, 40, dtype=torch.float64)
    variances[0, :4], variances[0, 4:19] = 1e-3, 1 + 1e-7
    root = roots(variances)
    slopes = torch.randn(1, 200, 40, dtype=torch.float64)
    directions = Directions.of(root)
    assert directions.excess.shape == (1, 4)
    found, expected = directions.variance(slopes), (slopes @ root).square().sum(2)
    assert 0 < ((found - expected) / expected).abs().max() < 2.0**-23


def test_many_rows_have_the_epistemic_part_of_few():
    """As many rows as weights are predicted by directions, fewer by the matrix itself."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (80, 1))
    X, y = zeta + 0.1 * random.standard_normal((80, 1)), np.sin(3 * zeta[:, 0]) + 0.1 * random.standard_normal(80)
    model = EiVRegressor(0.1, network="cosine", hidden_units=16, random_state=0, x_err_factor=1).fit(X, y).model_
    rows, errors = np.linspace(-2, 2, 100)[:, None], np.full((1, 1), 0.1)
    few = np.concatenate([model.predict(part, errors).epistemic for part in np.array_split(rows, 10)])
    np.testing.assert_allclose(model.predict(rows, errors).epistemic, few, rtol=1e-6)
    assert np.ptp(few) > 0.01 * few.max()
