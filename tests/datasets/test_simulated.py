import numpy as np
import pytest

from eiv.datasets import simulate

TABLE = {  # typed from table sim_data: g, range, sigma_x, sigma_y, data points
    "linear": (lambda z: z, -1, 1, 0.1, 0.2, 500),
    "quadratic": (lambda z: z * z, -1, 1, 0.1, 0.1, 500),
    "cubic": (lambda z: z * z * z, -1, 1, 0.2, 0.05, 1000),
    "sine": (lambda z: z + np.sin(2 * np.pi * z) + np.sin(4 * np.pi * z), -0.2, 0.8, 0.04, 0.01, 2000),
}


@pytest.mark.parametrize("name", TABLE)
def test_problems_are_the_papers(name):
    g, low, high, x_err, y_noise, n_rows = TABLE[name]
    assert len(simulate(name).y) == n_rows
    n = 40_000
    data = simulate(name, n, random_state=0)
    np.testing.assert_allclose(data.truth, g(data.zeta[:, 0]))
    assert low <= data.zeta.min() < low + 0.01 * (high - low)
    assert high - 0.01 * (high - low) < data.zeta.max() <= high
    for error, sigma in ((data.X - data.zeta, x_err), (data.y - data.truth, y_noise)):
        assert abs(error.mean()) < 4 * sigma / n**0.5
        assert abs(error.std() - sigma) < 4 * sigma / (2 * n) ** 0.5


def test_seed_fixes_the_rows():
    assert np.array_equal(simulate("sine", random_state=3).y, simulate("sine", random_state=3).y)
    assert not np.array_equal(simulate("sine", random_state=3).y, simulate("sine", random_state=4).y)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="name must be 'linear', 'quadratic', 'cubic' or 'sine', got 'line'"):
        simulate("line")
    with pytest.raises(ValueError, match="n_rows must be a whole number of at least 1"):
        simulate("linear", 0)
