"""A silent zero in the epistemic component is the classic bug of such libraries."""

import itertools

import numpy as np
import pytest

from eiv import EiVRegressor
from eiv.datasets import simulate

RATES = (0.0, 0.05, 0.15, 0.4)


@pytest.fixture(scope="module")
def parts():
    data = simulate("linear", 200, random_state=0)
    found = []
    for rate in RATES:
        model = EiVRegressor(
            0.1, dropout=rate, hidden_units=64, epochs=30, weight_penalty=1.0, random_state=0, recipe="paper"
        )
        found.append(model.fit(data.X, data.y).predict_distribution(data.X))
    return found


def test_it_vanishes_without_dropout_and_only_there(parts):
    assert parts[0].epistemic.max() < 1e-6
    for p in parts[1:]:
        assert p.epistemic.min() > 1e-3


def test_it_grows_with_the_rate(parts):
    sizes = [np.sqrt(np.mean(p.epistemic**2)) for p in parts]
    assert all(b > 1.2 * a for a, b in itertools.pairwise(sizes))


def test_the_input_leaves_its_part_at_every_rate(parts):
    """f is close to zeta, so the aleatoric component is close to 0.1 where f is not flattened by the penalty."""
    for p in parts[:3]:
        assert 0.06 < np.sqrt(np.mean(p.aleatoric**2)) < 0.12


def test_it_is_the_spread_of_f_over_masks_drawn_by_hand():
    """An independent reference: plain torch dropout on the fitted weights."""
    import torch  # noqa: PLC0415

    from eiv.networks import paper_network  # noqa: PLC0415

    data = simulate("linear", 200, random_state=0)
    model = EiVRegressor(
        None, hidden_units=32, epochs=10, n_theta=4000, random_state=0, standardise=False, recipe="paper"
    )
    model.fit(data.X, data.y)
    network = paper_network(1, 1, 32, dropout=0.1)
    network.load_state_dict({name: value[0] for name, value in model.posterior_.stack.parameters.items()})
    torch.manual_seed(1)
    rows = torch.tensor(data.X[:20], dtype=torch.float32)
    with torch.no_grad():
        by_hand = torch.stack([network.train()(rows)[:, 0] for _ in range(4000)])
    p = model.predict_distribution(data.X[:20])
    # standard error of a standard deviation from n draws: at most about kurtosis-inflated 1 / sqrt(2 n) = 1.1 %
    np.testing.assert_allclose(p.epistemic, by_hand.std(0), rtol=0.08)
    np.testing.assert_allclose(p.mean, by_hand.mean(0), atol=5 * (p.epistemic.max() * 2 / 4000) ** 0.5)
