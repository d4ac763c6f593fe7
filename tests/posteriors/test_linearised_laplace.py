import numpy as np
import pytest
import torch
from families import Linear, shrinkage, small, streams, trained, weights_of
from numpy.random import SeedSequence
from torch import nn
from torch.distributions import MultivariateNormal, kl_divergence
from torch.func import functional_call, jacrev, jvp

from eiv.engine.quadrature import Quadrature
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaNormal
from eiv.likelihoods import NormalLikelihood
from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import LastLayerLaplace, LinearisedLaplace
from smallnets import CPU

F64 = torch.float64
SEEDS = SeedSequence(0).spawn(2)


class Twice(nn.Module):
    """A hidden layer that is used twice, one without bias, and activations that work in place."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(2, 5, bias=False), nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        h = nn.functional.relu(self.first(x), inplace=True)
        return self.last(nn.functional.leaky_relu_(self.again(torch.tanh(self.again(h)))))


def linearised(build, n_outputs=3, weight_penalty=0.5, finish=True):
    """Two networks with exact inputs, at the end of a training."""
    posterior = LinearisedLaplace(NetworkStack(build, 2, n_outputs, SEEDS, CPU, F64), weight_penalty)
    x = torch.randn(2, 30, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    if finish:
        likelihood = NormalLikelihood(torch.tensor([[0.3, 0.5, 0.7][:n_outputs]] * 2, dtype=F64))
        rows = Rows(ZetaNormal(x, 0 * x), x.new_zeros(2, 30, n_outputs))
        posterior.finish(rows, likelihood, None, Streams(SEEDS, CPU, F64))
    return posterior


def moved_weights(posterior, move, s):
    """What a move of (w, delta) does to the parameters of network s, by the definition of the family."""
    moves = {name: torch.zeros_like(value[s]) for name, value in posterior.stack.parameters.items()}
    head = posterior._head()[s, 0]
    of_head = move[: head.numel()].view_as(head)
    moves["last.weight"], moves["last.bias"] = of_head[:, :-1], of_head[:, -1]
    left, right = posterior.kept["left"][s], posterior.kept["right"][s]
    for place, (name, n_out, n_in, bias) in enumerate((("first", 5, 2, False), ("again", 5, 5, True))):
        delta = move[head.numel() :].view(2, -1)[place] / (2 * 64) ** 0.5
        (u, left), (v, right) = (left[:n_out], left[n_out:]), (right[: n_in + bias], right[n_in + bias :])
        moves[f"{name}.weight"] = (u * delta) @ v[:n_in].T
        if bias:
            moves[f"{name}.bias"] = u @ (delta * v[n_in])
    return moves


def test_another_sigma_y_changes_the_variance_along_the_same_directions():
    """With exact inputs the information goes as 1 / sigma_y^2, and the prior stays."""
    posterior = linearised(lambda: paper_network(2, 1, 6, n_hidden=2), n_outputs=1)
    before = {name: value.clone() for name, value in posterior.kept.items()}
    x = torch.randn(2, 30, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    likelihood = NormalLikelihood(torch.full((2, 1), 0.6, dtype=F64))
    posterior.finish(Rows(ZetaNormal(x, 0 * x), x.new_zeros(2, 30, 1)), likelihood, None, Streams(SEEDS, CPU, F64))
    for name in ("left", "right"):
        assert torch.equal(posterior.kept[name], before[name])

    def information(root):
        return torch.linalg.inv(root @ root.mT) - torch.eye(root.shape[1], dtype=F64)  # weight_penalty is 1/2

    wide, narrow = (information(kept["root"]) for kept in (posterior.kept, before))
    torch.testing.assert_close(4 * wide, narrow, rtol=1e-6, atol=1e-6)


def test_a_draw_is_the_tangent_of_the_network_in_its_weights():
    posterior, template = linearised(Twice), Twice().double()
    draw = posterior.draw(streams(2, F64), 4)
    zeta = torch.randn(2, 4, 6, 2, dtype=F64)
    found = posterior.evaluate(draw, zeta)
    for s, d in ((0, 0), (1, 3)):
        own = {name: value[s].detach() for name, value in posterior.stack.parameters.items()}
        move = moved_weights(posterior, posterior.kept["root"][s] @ draw["head"][s, d], s)

        def f(weights, s=s, d=d):
            return functional_call(template, weights, (zeta[s, d],))

        value, change = jvp(f, (own,), (move,))
        torch.testing.assert_close(found[s, d], value + change)
    shared = zeta[:, :1].expand(-1, 4, -1, -1)
    torch.testing.assert_close(posterior.evaluate(draw, shared), posterior.evaluate(draw, shared.contiguous()))


@pytest.mark.slow
def test_with_many_directions_it_is_that_of_all_weights(monkeypatch):
    """One hidden layer, exact inputs: the variance of f is J (J^T J / sigma_y^2 + I / lambda^2)^-1 J^T."""
    monkeypatch.setattr(LinearisedLaplace, "n_directions", 2000)
    posterior = linearised(lambda: paper_network(2, 1, 6, n_hidden=1, dropout=0.0), n_outputs=1, weight_penalty=2.0)
    x = torch.randn(2, 30, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    last, hidden = posterior._features(x[:, :, None])
    roots = torch.cat([last, hidden.squeeze(3)], dim=3)[:, :, 0] @ posterior.kept["root"]
    template = posterior.stack.template
    for s in (0, 1):
        own = {name: value[s].detach() for name, value in (posterior.stack.parameters | posterior.no_masks()).items()}
        names = list(posterior.stack.parameters)
        slopes = jacrev(lambda weights, s=s, own=own: functional_call(template, own | weights, (x[s],))[:, 0])(
            {name: own[name] for name in names}
        )
        jacobian = torch.cat([slopes[name].flatten(1) for name in names], dim=1)
        precision = jacobian.T @ jacobian / 0.3**2 + 4.0 * torch.eye(jacobian.shape[1], dtype=F64)
        expected = (jacobian @ torch.linalg.solve(precision, jacobian.T)).diagonal()
        # Sums over K directions scatter by sqrt(2 / K) a weight; 18 weights of the hidden layer vary.
        torch.testing.assert_close(roots[s].square().sum(1), expected, rtol=4 * (2 / 2000) ** 0.5, atol=0)


@pytest.mark.parametrize("between", [None, torch.rand(9, 4, dtype=F64)])
def test_slopes_are_those_of_autograd(between):
    posterior = linearised(Twice)
    zeta, y = torch.randn(2, 7, 4, 2, dtype=F64), torch.randn(2, 7, 3, dtype=F64)
    likelihood, y_err = NormalLikelihood(torch.rand(2, 3, dtype=F64) + 0.3), torch.rand(2, 7, 3, dtype=F64)
    noise = likelihood.noise(y_err)
    rule = Quadrature(torch.randn(9 if between is not None else 4), between)
    features, head = posterior._features(zeta), posterior._head()
    found = posterior._scores(features, y, likelihood, y_err, rule)
    for s, i in ((0, 0), (1, 6)):

        def value(flat, s=s, i=i):
            of_head = features.last[s, i] @ flat[:18].view(3, 6).T
            f = rule.points(of_head + features.hidden[s, i] @ flat[18:])
            terms = torch.distributions.Normal(f, noise[s, i]).log_prob(y[s, i]).sum(-1)
            return (terms + rule.log_weights).logsumexp(-1)

        here = torch.cat([head[s].flatten(), torch.zeros(posterior.n_weights - 18, dtype=F64)])
        torch.testing.assert_close(found[s, i], torch.autograd.functional.jacobian(value, here))


def test_kl_is_that_of_normal_distributions():
    posterior = small("linearised_laplace", weight_penalty=2.0)
    trained(posterior)
    root, head = posterior.state["root"], posterior._head().flatten(1)
    n_weights = posterior.n_weights
    assert n_weights == 13 + 2 * 64
    mean = torch.cat([head, head.new_zeros(3, n_weights - 13)], dim=1)
    prior = MultivariateNormal(torch.zeros(n_weights, dtype=F64), 0.25 * torch.eye(n_weights, dtype=F64))
    others = 2.0 * (posterior.squares() - head.square().sum(1))  # points, up to a constant
    found = kl_divergence(MultivariateNormal(mean, root @ root.mT), prior) + others
    torch.testing.assert_close(posterior.kl(), found)


def test_linear_regression_is_exact():
    data = Linear(40)
    model = data.fit("linearised_laplace", epochs=400, batch_size=40, learning_rate=2e-2)
    np.testing.assert_allclose(model.posterior_.stack.parameters["weight"][0, 0].detach(), data.mean, atol=1e-3)
    np.testing.assert_allclose(np.cov(weights_of(model).T), data.covariance, rtol=5 * (2 / 2000) ** 0.5, atol=0)


def test_it_knows_what_the_last_layer_alone_does_not():
    """Hidden layers that vary too add to the variance of f, above all away from the data."""
    both = []
    for family in (LastLayerLaplace, LinearisedLaplace):
        posterior = family(NetworkStack(lambda: paper_network(2, 1, 12, n_hidden=2), 2, 1, SEEDS, CPU, F64), 0.5)
        x = torch.randn(2, 30, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
        likelihood = NormalLikelihood(torch.full((2, 1), 0.3, dtype=F64))
        posterior.finish(Rows(ZetaNormal(x, 0 * x), 0 * x[..., :1]), likelihood, None, Streams(SEEDS, CPU, F64))
        last, hidden = posterior._features(4 * x[:, :, None])  # away from the data too
        roots = torch.cat([last, hidden.squeeze(3)], dim=3)[:, :, 0] @ posterior.kept["root"]
        both.append(roots.square().sum(2))
    assert (both[1] > both[0]).double().mean() > 0.95
    assert both[1].mean() > 1.2 * both[0].mean()


class HeadFirst(nn.Module):
    """A network that defines its last layer first, and has one that nothing comes to."""

    def __init__(self, unused):
        super().__init__()
        self.out, self.first = nn.Linear(4, 1), nn.Linear(2, 4)
        if unused:
            self.aside = nn.Linear(7, 7)

    def forward(self, x):
        return self.out(torch.tanh(self.first(x)))


def test_layers_count_that_a_pass_comes_to_in_the_order_of_their_calls():
    shapes = []
    for unused in (False, True):
        posterior = linearised(lambda unused=unused: HeadFirst(unused), n_outputs=1)
        assert (posterior.head, posterior.hidden) == ("out", ["first"])
        shapes.append(posterior.kept["root"].shape)
    assert shapes[0] == shapes[1]


def test_the_epistemic_part_shrinks_as_the_data_grow():
    expected = np.sqrt(np.trace(Linear(400).covariance) / np.trace(Linear(40).covariance))
    assert shrinkage("linearised_laplace", epochs=200) == pytest.approx(expected, rel=5 * (2 / 2000) ** 0.5)


def test_modules_whose_output_is_not_that_of_a_linear_layer_are_refused():
    with pytest.raises(ValueError, match="not that of its last"):
        small("linearised_laplace", build=lambda: nn.Sequential(nn.Linear(2, 1), nn.ReLU(inplace=True)))
