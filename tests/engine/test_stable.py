import math

import torch

from eiv.engine.stable import log_mean_exp


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
