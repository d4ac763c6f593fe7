"""Classes: the probability inside the sum over zeta, its slope and its information; a logistic model by quadrature."""

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from numpy.random import SeedSequence
from scipy.optimize import minimize
from torch import nn
from torch.distributions import Categorical

from eiv.engine.quadrature import Quadrature
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaNormal
from eiv.likelihoods import CategoricalLikelihood
from eiv.networks import NetworkStack
from eiv.posteriors import LastLayerLaplace, PointPosterior
from eiv.training import Schedule, train
from eiv.training.objective import bound
from smallnets import CPU

S, N_ROWS, N_ZETA, C = 2, 6, 8, 4
F64 = torch.float64


def numbers(dtype=F64, seed=0):
    """Outputs f of networks, and classes as zeros and ones."""
    random = torch.Generator().manual_seed(seed)
    f = 2 * torch.randn(S, N_ROWS, N_ZETA, C, generator=random, dtype=F64)
    y = nn.functional.one_hot(torch.randint(C, (S, N_ROWS), generator=random), C)
    return f.to(dtype), y.to(dtype)


def test_the_probability_is_that_of_torch(dtype):
    f, y = numbers(dtype)
    expected = Categorical(logits=f).log_prob(y.argmax(-1).unsqueeze(-1).expand(-1, -1, N_ZETA))
    torch.testing.assert_close(CategoricalLikelihood(C).log_density(f, y), expected)


def test_the_score_is_the_slope_of_the_logarithm(dtype):
    f, y = numbers(dtype)
    needs = f.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(CategoricalLikelihood(C).log_density(needs, y).sum(), needs)
    torch.testing.assert_close(CategoricalLikelihood(C).score(f, y), expected)


@pytest.mark.parametrize("with_rule", [False, True])
def test_the_gradient_of_the_bound_is_that_of_autograd(with_rule):
    f, y = numbers()
    rule = Quadrature(torch.randn(N_ZETA, dtype=F64), None) if with_rule else None
    likelihood, needs = CategoricalLikelihood(C), f.clone().requires_grad_(True)
    negative = -bound(likelihood, needs, y, None, rule)
    (expected,) = torch.autograd.grad(negative.sum(), needs)
    total = torch.zeros(S, dtype=F64)
    torch.testing.assert_close(likelihood.add_loss_gradient(f.clone(), y, None, total, 1.0, rule), expected)
    torch.testing.assert_close(total, negative.detach())


def test_the_information_is_the_expected_square_of_the_score():
    """The sum over the classes is exact."""
    f, _ = numbers()
    f, slopes = f[:, :, 0], torch.randn(S, N_ROWS, C, 5, dtype=F64)
    found = CategoricalLikelihood(C).whitened(slopes, f)
    labels = torch.eye(C, dtype=F64).expand(S, N_ROWS, C, C)  # each class once, in the place of zetas
    scores = torch.stack([CategoricalLikelihood(C).score(f.unsqueeze(2), labels[:, :, c]) for c in range(C)], dim=2)
    information = torch.einsum("sbc,sbci,sbcj->sbij", f.softmax(-1), scores.squeeze(3), scores.squeeze(3))
    torch.testing.assert_close(found.mT @ found, slopes.mT @ information @ slopes)
    assert CategoricalLikelihood(C).whitened(slopes, f.float()).dtype == F64


def test_classes_are_drawn_by_their_probabilities():
    """The share of a class in 40,000 draws has a standard error of 0.0025 at most; five of them are allowed."""
    f, _ = numbers()
    many = f[:, :1, :1].expand(-1, 1, 40_000, -1)
    drawn = CategoricalLikelihood(C).draw(many, Streams(SeedSequence(0).spawn(S), CPU, F64))
    assert drawn.shape == many.shape
    assert torch.equal(drawn.sum(-1), torch.ones_like(drawn[..., 0]))
    assert ((drawn.mean(2) - f[:, :1, 0].softmax(-1)).abs() < 0.0125).all()


def test_nothing_of_it_is_fitted():
    likelihood = CategoricalLikelihood.start(torch.ones(3, C), None)
    assert likelihood.is_fixed
    assert not likelihood.has_units
    assert likelihood.state == {}
    assert likelihood.networks(slice(1)).join([likelihood]).n_classes == C
    with pytest.raises(TypeError, match="EiVClassifier"):
        likelihood.labels(np.ones(C), (1, C))


def test_a_logistic_model_with_errors_in_x_is_that_of_quadrature():
    """P(1 | x) = integral of the logistic function of a + b zeta over zeta given x, by 200 nodes.

    The reference is the maximum of that likelihood with the same prior, by BFGS. Training integrates with 15 nodes; its
    last steps are small. Both maxima are of the same smooth function, so they agree to a hundredth of a standard error
    of b, which is 0.2 with 400 rows. The probabilities depend on the differences of the two outputs alone.
    """
    random = np.random.default_rng(0)
    zeta, x_err = random.standard_normal(400), 0.7
    x = zeta + x_err * random.standard_normal(400)
    label = random.uniform(size=400) < 1 / (1 + np.exp(0.5 - 2 * zeta))
    mean, std = x / (1 + x_err**2), x_err / np.sqrt(1 + x_err**2)  # of zeta given x, zeta being N(0, 1)
    nodes, weights = hermegauss(200)

    def negative(numbers):
        """Two outputs with a weight and a bias each, as the network has them, and the prior exp(-penalty w^2)."""
        slopes, biases = numbers[:2], numbers[2:]
        f = (mean[:, None] + std * nodes)[..., None] * slopes + biases
        p = np.exp(f - np.logaddexp.reduce(f, axis=-1, keepdims=True))
        of_label = np.where(label[:, None], p[..., 1], p[..., 0]) @ (weights / weights.sum())
        return -np.log(of_label).sum() + 0.1 * (numbers**2).sum()

    wanted = minimize(negative, np.zeros(4)).x
    seeds = SeedSequence(0).spawn(1)
    stack = NetworkStack(lambda: nn.Linear(1, 2), 1, 2, seeds, CPU, F64)
    posterior = PointPosterior(stack, weight_penalty=0.1)
    rows = Rows(
        ZetaNormal(torch.tensor(mean).view(1, -1, 1), torch.full((1, 1, 1), std, dtype=F64)),
        nn.functional.one_hot(torch.tensor(label).long(), 2).to(F64).unsqueeze(0),
    )
    schedule = Schedule(600, 400, 0.05, 15, 1, zeta_draws="gauss_hermite", learning_rate_decay=0.7)
    train(posterior, rows, CategoricalLikelihood(2), schedule, seeds)
    slope, bias = (float(value.detach().flatten().diff()) for value in stack.parameters.values())
    np.testing.assert_allclose([slope, bias], [wanted[1] - wanted[0], wanted[3] - wanted[2]], atol=2e-3)


def test_the_covariance_of_logistic_regression_is_the_textbook_one():
    """C^-1 = 2 penalty I + sum_i (diag p - p p^T) x x^T for exact inputs."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1, 50, 2, generator=random, dtype=F64)
    seeds = SeedSequence(0).spawn(1)
    posterior = LastLayerLaplace(NetworkStack(lambda: nn.Linear(2, 3), 2, 3, seeds, CPU, F64), weight_penalty=0.5)
    y = nn.functional.one_hot(torch.randint(3, (1, 50), generator=random), 3).to(F64)
    posterior.finish(Rows(ZetaNormal(x, 0 * x), y), CategoricalLikelihood(3), None, Streams(seeds, CPU, F64))
    p = posterior.mean(x)[0].softmax(-1)
    h = nn.functional.pad(x[0], (0, 1), value=1.0)
    blocks = torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)
    precision = torch.eye(9, dtype=F64) + torch.einsum("bij,bp,bq->ipjq", blocks, h, h).reshape(9, 9)
    root = posterior.kept["root"][0]
    torch.testing.assert_close(root @ root, torch.linalg.inv(precision))
