"""The posterior of zeta given x against numerical quadrature of prior times likelihood."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from eiv.inputs import FlatPrior, NormalPrior, ZetaNormal


@pytest.mark.parametrize(
    ("x", "x_err", "mean", "std"), [(1.3, 0.5, 0.0, 1.0), (-2.0, 2.0, 1.0, 0.5), (0.1, 0.01, 3.0, 2)]
)
def test_normal_prior_is_bayes_theorem(x, x_err, mean, std, dtype):
    def density(zeta, power):
        return zeta**power * norm.pdf(zeta, mean, std) * norm.pdf(x, zeta, x_err)

    points = sorted({x, mean})
    evidence, first, second = (quad(density, -30, 30, args=(p,), points=points, limit=400)[0] for p in range(3))
    posterior = NormalPrior(std, mean).posterior(torch.tensor([[x]], dtype=dtype), torch.tensor([[x_err]], dtype=dtype))
    assert posterior.mean.item() == pytest.approx(first / evidence, rel=1e-4)
    assert posterior.std.item() == pytest.approx(np.sqrt(second / evidence - (first / evidence) ** 2), rel=1e-3)


def test_wide_normal_prior_tends_to_the_flat_one(dtype):
    x, x_err = torch.randn(7, 3, dtype=dtype), torch.rand(1, 3, dtype=dtype)
    flat = FlatPrior().posterior(x, x_err)
    gaps = [(NormalPrior(std).posterior(x, x_err).mean - flat.mean).abs().max() for std in (1.0, 10.0, 100.0)]
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    limit = NormalPrior(np.inf).posterior(x, x_err)
    assert torch.equal(limit.mean, flat.mean)
    assert torch.equal(limit.std, flat.std)


def test_exact_columns_stay_exact():
    posterior = NormalPrior(std=[1.0, 2.0]).posterior(torch.ones(4, 2), torch.tensor([[0.0, 1.0]]))
    assert (posterior.mean[:, 0] == 1).all()
    assert (posterior.std[:, 0] == 0).all()
    assert (posterior.std[:, 1] > 0).all()


def test_draws_have_the_moments_they_should(dtype):
    posterior = ZetaNormal(torch.tensor([[[1.0, -2.0]]], dtype=dtype), torch.tensor([[[0.5, 0.0]]], dtype=dtype))
    n = 40_000
    zeta = posterior.draw(torch.randn(1, 1, n, 2, dtype=dtype, generator=torch.Generator().manual_seed(0)))[0, 0]
    assert abs(zeta[:, 0].mean() - 1) < 4 * 0.5 / np.sqrt(n)
    assert abs(zeta[:, 0].std() - 0.5) < 4 * 0.5 / np.sqrt(2 * n)
    assert (zeta[:, 1] == -2).all()


@pytest.mark.parametrize(("std", "mean"), [(0.0, 0.0), (-1.0, 0.0), ([1.0, 1.0, 1.0], 0.0), (1.0, [0.0, 1.0, 2.0])])
def test_bad_priors_are_refused(std, mean):
    with pytest.raises(ValueError, match="NormalPrior"):
        NormalPrior(std, mean).posterior(torch.ones(4, 2), torch.ones(1, 2))
