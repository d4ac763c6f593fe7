"""What each input contributes to the entropy of a predicted class, against integrals."""

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence
from scipy.special import entr, expit

from eiv import EiVClassifier
from eiv.inputs import ZetaNormal
from eiv.networks import NetworkStack
from eiv.posteriors import BernoulliDropout
from eiv.prediction.classbudget import EntropyBudgetSampler

SEEDS = SeedSequence(0).spawn(1)
SLOPES, MEAN, STD = np.array([2.0, -1.0, 0.5]), np.array([[0.3, 0.1, 0.0], [1.0, 0.0, 0.0]]), np.array([0.8, 0.5, 0.0])


def linear():
    """Two classes whose logits differ by a linear function, whose weights do not vary (16 random bits drop nothing)."""
    stack = NetworkStack(
        lambda: torch.nn.Sequential(torch.nn.Dropout(1e-6), torch.nn.Linear(3, 2)),
        3,
        2,
        SEEDS,
        torch.device("cpu"),
        torch.float64,
    )
    with torch.no_grad():
        stack.parameters["1.weight"][0] = torch.tensor(np.stack([0 * SLOPES, SLOPES]))
        stack.parameters["1.bias"].zero_()
    return EntropyBudgetSampler(BernoulliDropout(stack, 1.0), 3, 5, 5, SEEDS)


def entropy(p):
    return entr(p) + entr(1 - p)


def integral(feature):
    """H[E p] - E H[E p given the feature], by 64 nodes along each of the two noisy inputs."""
    z, w = np.polynomial.hermite_e.hermegauss(64)
    w = w / w.sum()
    found = []
    for mean in MEAN:
        a, b = np.meshgrid(z, z, indexing="ij")  # the feature along the first axis
        other = 1 - feature
        logit = SLOPES @ mean + SLOPES[feature] * STD[feature] * a + SLOPES[other] * STD[other] * b
        p = expit(logit)
        given = p @ w
        found.append(entropy(w @ given) - w @ entropy(given))
    return np.array(found)


def test_contributions_are_mutual_information():
    """16 values and 64 of the other input leave an error below a hundredth of a nat."""
    inputs = ZetaNormal(torch.tensor(MEAN), torch.tensor(STD)[None])
    found = linear().contributions(inputs).numpy()
    np.testing.assert_allclose(found[:, 0], integral(0), atol=0.01)
    np.testing.assert_allclose(found[:, 1], integral(1), atol=0.01)
    assert (found[:, 2] == 0).all()  # an exact input
    assert (found[:, 0] > 5 * found[:, 1]).all()  # the errors differ by far more than that


def test_exact_rows_have_none():
    inputs = ZetaNormal(torch.tensor(MEAN), torch.zeros(1, 3, dtype=torch.float64))
    assert (linear().contributions(inputs) == 0).all()


def test_the_budget_adds_up_and_one_noisy_input_has_it_all():
    random = np.random.default_rng(0)
    zeta = random.normal(size=(80, 2))
    X = zeta + np.array([0.5, 0.0]) * random.normal(size=(80, 2))
    fast = {"hidden_units": 8, "n_hidden": 1, "epochs": 60, "n_theta": 20, "random_state": 0}
    model = EiVClassifier([0.5, 0.0], **fast).fit(X, zeta[:, 0] > 0)
    p = model.predict_distribution(X[:6], budget=True)
    table = p.budget()
    assert list(table) == ["label", "x0", "x1", "together", "weights"]
    np.testing.assert_allclose(table.sum(axis=1), p.entropy)
    np.testing.assert_allclose(table["x0"], p.aleatoric, atol=0.02)  # few thetas and nodes on either side
    assert (table["x1"] == 0).all()
    with pytest.raises(ValueError, match="budget was not asked for"):
        model.predict_distribution(X[:6]).budget()
