import math

import mpmath
import pytest
import torch

from eiv.engine.stable import log_mean_exp, log_normal_mass


def test_equals_the_plain_formula_where_that_works(dtype):
    values = torch.randn(4, 5, 3, dtype=dtype)
    torch.testing.assert_close(log_mean_exp(values, 1), values.exp().mean(1).log())


def test_neither_overflows_nor_underflows(dtype):
    values = torch.tensor([-2000.0, -2000.0 + math.log(3)], dtype=dtype)
    torch.testing.assert_close(log_mean_exp(values, 0), torch.tensor(-2000.0 + math.log(2), dtype=dtype))
    torch.testing.assert_close(log_mean_exp(-values, 0).isfinite(), torch.tensor(True))


def test_minus_infinity_is_a_zero():
    torch.testing.assert_close(log_mean_exp(torch.tensor([0.0, -math.inf]), 0), torch.tensor(math.log(0.5)))
    assert log_mean_exp(torch.tensor([-math.inf, -math.inf]), 0).item() == -math.inf


def test_gradient_is_the_softmax():
    values = torch.randn(6, dtype=torch.float64, requires_grad=True)
    log_mean_exp(values, 0).backward()
    torch.testing.assert_close(values.grad, values.detach().softmax(0))
    assert torch.autograd.gradcheck(lambda v: log_mean_exp(v, 0), values)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 1.0), (0.5, 0.5001), (5.0, 6.0), (-9.0, -8.99), (19.0, 21.0), (-3.0, 9.0)]
)
def test_normal_mass_equals_the_difference_of_tails(low, high):
    """In 60 digits, where neither end is rounded to one."""
    mpmath.mp.dps = 60
    tails = [mpmath.erfc(mpmath.mpf(end) / mpmath.sqrt(2)) / 2 for end in (low, high)]
    found = log_normal_mass(*(torch.tensor(end, dtype=torch.float64) for end in (low, high)))
    assert abs(found.item() - float(mpmath.log(tails[0] - tails[1]))) < 1e-10


@pytest.mark.parametrize(("low", "high"), [(20.5, 21.0), (40.0, 40.001), (100.0, 200.0)])
def test_normal_mass_far_out_by_two_terms_of_the_series(low, high):
    """The third term is 3 / x^4: 2e-5 beyond 20."""
    mpmath.mp.dps = 60
    tails = [mpmath.erfc(mpmath.mpf(end) / mpmath.sqrt(2)) / 2 for end in (low, high)]
    for ends in ((low, high), (-high, -low)):
        found = log_normal_mass(*(torch.tensor(end, dtype=torch.float64) for end in ends))
        assert abs(found.item() - float(mpmath.log(tails[0] - tails[1]))) < 3 / 20**4
