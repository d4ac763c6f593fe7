"""The mean density of a label where f is uniform about its value."""

import numpy as np
import pytest
import torch

from eiv.likelihoods import CategoricalLikelihood, NormalLikelihood, StudentTLikelihood
from eiv.likelihoods.noise import ByBound
from eiv.likelihoods.varying import VaryingLikelihood

N_ROWS, N_NODES = 200, 1000


def by_quadrature(likelihood, f, change, y, y_err):
    """The mean by Gauss-Legendre nodes."""
    nodes, weights = (torch.from_numpy(part) / 2 for part in np.polynomial.legendre.leggauss(N_NODES))
    values = f.unsqueeze(2) + nodes[:, None] * change.unsqueeze(2)
    return (likelihood.log_density(values, y, y_err) + weights.log()).logsumexp(-1)


def rows(n_y, largest_change):
    """Rows whose labels lie within the change of f or close to it."""
    random = torch.Generator().manual_seed(n_y)
    f, y, change, y_err = torch.randn(4, 1, N_ROWS, n_y, generator=random, dtype=torch.float64)
    change = largest_change * change
    return f, change, f + 0.4 * change.abs() * y, 0.1 * y_err.abs()


@pytest.mark.parametrize("n_y", [1, 2])
@pytest.mark.parametrize("largest_change", [1e-9, 0.1, 3.0, 30.0])
def test_normal_labels_have_it_in_closed_form(n_y, largest_change):
    """A thousand nodes over a change of 90 lie a tenth of sigma_y apart."""
    likelihood = NormalLikelihood(torch.tensor([[0.7, 1.3]], dtype=torch.float64)[:, :n_y])
    row = rows(n_y, largest_change)
    found, expected = likelihood.log_mean_density(*row), by_quadrature(likelihood, *row)
    near = expected > -50
    assert near.sum() > N_ROWS / 2
    torch.testing.assert_close(found[near], expected[near], rtol=0, atol=1e-8)


def test_labels_of_varying_noise_have_it_too():
    """The noise is that of the middle: h does not change here."""
    likelihood = VaryingLikelihood.start(torch.ones(1, 1, dtype=torch.float64), ByBound())
    likelihood = likelihood.with_state(likelihood.state | {"share": torch.ones(1, 1, dtype=torch.float64)})
    f, change, y, y_err = rows(1, 3.0)
    f, change = torch.cat([f, 0.5 * f], dim=-1), torch.cat([change, 0 * change], dim=-1)
    found, expected = likelihood.log_mean_density(f, change, y, y_err), by_quadrature(likelihood, f, change, y, y_err)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_other_labels_take_the_spread_of_f_as_an_error():
    """The mean is right where f hardly moves, never above the greatest value, and not missed between two values."""
    one = torch.ones(1, 1, dtype=torch.float64)
    likelihood = StudentTLikelihood(0.1 * one, 5 * one)
    f, change, y, y_err = rows(1, 0.01)
    expected = by_quadrature(likelihood, f, change, y, y_err)
    torch.testing.assert_close(likelihood.log_mean_density(f, change, y, y_err), expected, rtol=0, atol=1e-2)
    f, change, y, y_err = rows(1, 10.0)
    found, nothing = likelihood.log_mean_density(f, change, y, 0 * y_err), torch.zeros_like(f)
    greatest = likelihood.log_density((f + (y - f).clamp(-change.abs() / 2, change.abs() / 2)).unsqueeze(2), y, nothing)
    assert bool((found <= greatest.squeeze(2) + 1e-12).all())
    within = (y - f).abs() < 0.4 * change.abs()
    ratio = found.exp() / by_quadrature(likelihood, f, change, y, nothing).exp()
    unresolved = within.squeeze(-1) & (change.abs() > 3).squeeze(-1)
    assert unresolved.any()
    # A normal density in place of a uniform one, sqrt(6 / pi) exp(-6 t^2): 1.38 at t = 0, 0.53 at t = 0.4.
    assert 0.5 < ratio[unresolved].min() < 0.7
    assert 1.3 < ratio[unresolved].max() < 1.4


def test_the_probability_of_a_class_is_that_of_the_middle():
    likelihood, f = CategoricalLikelihood(3), torch.randn(1, 5, 3, dtype=torch.float64)
    y = torch.eye(3, dtype=torch.float64)[[0, 1, 2, 0, 1]].unsqueeze(0)
    found = likelihood.log_mean_density(f, f, y, 0 * y)
    torch.testing.assert_close(found, likelihood.log_density(f.unsqueeze(2), y).squeeze(2))
