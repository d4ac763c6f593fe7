"""The variance split against known variance components."""

import pytest
import torch

from eiv.prediction.decomposition import literal_moments, unbiased_moments

N = 2000  # small predictions
SD_THETA, SD_ZETA, SD_BOTH, MEANS = 0.7, 1.1, 0.4, (0.0, 1.5, -0.6)


def small_predictions(n_networks, n_blocks=2, n_theta=3, n_zeta=2, dtype=torch.float64):
    """f = mu_s + a_theta + b_zeta + c_(theta, zeta): draws `S x G x A x L x N` and the true parts."""
    random = torch.Generator().manual_seed(n_networks)

    def normal(*shape):
        return torch.randn(*shape, N, generator=random, dtype=dtype)

    means = torch.tensor(MEANS[:n_networks], dtype=dtype)
    theta = SD_THETA * normal(n_networks, n_blocks, n_theta, 1)
    zeta = SD_ZETA * normal(1, n_blocks, 1, n_zeta)
    both = SD_BOTH * normal(n_networks, n_blocks, n_theta, n_zeta)
    f = means.reshape(-1, 1, 1, 1, 1) + theta + zeta + both
    return f, SD_THETA**2 + SD_BOTH**2 + means.var(correction=0).item(), SD_ZETA**2, means.mean().item()


@pytest.mark.parametrize("n_networks", [1, 3])
@pytest.mark.parametrize(
    "shape", [{}, {"n_blocks": 1, "n_theta": 2, "n_zeta": 5}, {"n_blocks": 20, "n_theta": 5, "n_zeta": 5}]
)
def test_both_parts_and_the_mean_are_unbiased(n_networks, shape, dtype):
    f, epistemic, aleatoric, mean = small_predictions(n_networks, **shape, dtype=dtype)
    moments = unbiased_moments(f)
    for estimates, truth in (
        (moments.epistemic, epistemic),
        (moments.aleatoric, aleatoric),
        (moments.mean, mean),
    ):
        assert abs(estimates.mean() - truth) < 4 * estimates.std() / N**0.5


def test_parts_add_up_to_u_squared():
    """Against u squared from pairs of draws that share neither theta nor zeta, for one network."""
    f, *_ = small_predictions(1)
    apart = [0.5 * (f[0, g, k, m] - f[0, g, i, n]).square() for g in range(2) for k in range(3) for i in range(3)
             for m in range(2) for n in range(2) if k != i and m != n]  # fmt: skip
    torch.testing.assert_close(unbiased_moments(f).variance, torch.stack(apart).mean(0))


def test_exact_inputs_leave_nothing_aleatoric():
    f = torch.randn(2, 4, 5, 1, 6)
    assert (unbiased_moments(f).aleatoric == 0).all()
    repeated = unbiased_moments(f.expand(-1, -1, -1, 5, -1))
    torch.testing.assert_close(repeated.epistemic, unbiased_moments(f).epistemic)
    assert repeated.aleatoric.abs().max() < 1e-6


def test_literal_is_the_variance_of_all_draws(dtype):
    f = torch.randn(100, 5, 7, dtype=dtype)
    moments = literal_moments(f)
    torch.testing.assert_close(moments.variance, f.flatten(0, 1).var(0))
    torch.testing.assert_close(moments.mean, f.flatten(0, 1).mean(0))


def test_literal_falls_short_by_a_fifth_of_the_input_variance():
    zeta = torch.randn(1, 5, 20_000, generator=torch.Generator().manual_seed(0))
    share = literal_moments(zeta.expand(100, -1, -1)).aleatoric
    assert abs(share.mean() - 0.8 * 500 / 499) < 4 * share.std() / 20_000**0.5
