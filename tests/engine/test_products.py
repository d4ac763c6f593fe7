import numpy as np
import pytest
import torch

from eiv import EiVRegressor
from eiv.engine.products import product
from smallnets import SmallConv


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
def test_bfloat16_operands_are_multiplied_exactly_and_summed_in_float32(flip_a, flip_b, has_bfloat16):
    """Products of rounded operands against float64; float32 sums of 40 terms leave an error of about 1e-6."""
    a = torch.randn(3, *((40, 7) if flip_a else (7, 40))).bfloat16()
    b = torch.randn(3, *((5, 40) if flip_b else (40, 5))).bfloat16()
    a, b = a.mT if flip_a else a, b.mT if flip_b else b
    found = product(a, b, out=torch.full((3, 7, 5), torch.nan))
    torch.testing.assert_close(found.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-5)


def test_float_products_are_those_of_torch(dtype):
    a, b = torch.randn(3, 4, 6, dtype=dtype), torch.randn(3, 6, 5, dtype=dtype)
    torch.testing.assert_close(product(a, b, out=a.new_empty(3, 4, 5)), a @ b)


def test_training_in_bfloat16_stays_close(line, has_bfloat16):
    X, y = line
    settings = {"hidden_units": 64, "epochs": 20, "n_theta": 20, "weight_penalty": 0.1, "random_state": 0}
    exact = EiVRegressor(0.1, **settings, recipe="paper").fit(X, y)
    rounded = EiVRegressor(0.1, precision="bfloat16", **settings, recipe="paper").fit(X, y)
    assert not np.array_equal(exact.predict(X), rounded.predict(X))
    np.testing.assert_allclose(rounded.predict(X), exact.predict(X), atol=0.3 * y.std())
    np.testing.assert_allclose(rounded.loss_curve_[-1], exact.loss_curve_[-1], rtol=0.1)


def test_bad_precisions_are_refused(line):
    X, y = line
    with pytest.raises(ValueError, match="precision must be 'auto', 'float32' or 'bfloat16', got 'half'"):
        EiVRegressor(precision="half", recipe="paper").fit(X, y)
    with pytest.raises(ValueError, match="needs dtype='float32'"):
        EiVRegressor(precision="bfloat16", dtype="float64", recipe="paper").fit(X, y)
    with pytest.raises(ValueError, match="for fully connected networks"):
        EiVRegressor(precision="bfloat16", module=SmallConv, epochs=1, recipe="paper").fit(
            np.random.default_rng(0).normal(size=(9, 12)), y[:9]
        )
