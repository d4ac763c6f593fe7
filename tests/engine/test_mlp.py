"""The fast path against autograd: products, gradients, whole trainings."""

import os
import pickle
from pathlib import Path

import pytest
import torch
from numpy.random import SeedSequence
from torch import nn

from eiv.engine.batch import Batch
from eiv.engine.mlp import MLPStack
from eiv.engine.optim import FlatAdam
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaNormal
from eiv.likelihoods import NOISE_RULES, NormalLikelihood
from eiv.networks import NetworkStack, paper_network
from eiv.networks.fast import fast_stack
from eiv.posteriors import BernoulliDropout
from eiv.training import Schedule, train
from eiv.training.objective import bound, loss
from eiv.training.steps import Counts, MLPStep
from smallnets import CPU

SEEDS = SeedSequence(0).spawn(3)


def normal(rule="rmse"):
    return NormalLikelihood(torch.full((3, 1), 0.5, dtype=torch.float64), NOISE_RULES[rule])


def networks(n_outputs=1, activation=None, dtype=torch.float64):
    def build():
        if activation is None:
            return paper_network(2, n_outputs, 12, dropout=0.3)
        return nn.Sequential(
            nn.Linear(2, 7), activation(), nn.Dropout(0.3), nn.Linear(7, 5), activation(), nn.Dropout(0.1),
            nn.Linear(5, n_outputs),
        )  # fmt: skip

    return NetworkStack(build, 2, n_outputs, SEEDS, CPU, dtype)


@pytest.mark.parametrize("activation", [None, nn.ReLU, nn.SiLU])
@pytest.mark.parametrize(("n_outputs", "n_zeta"), [(1, 1), (1, 5), (3, 5)])
def test_gradients_are_those_of_autograd(activation, n_outputs, n_zeta):
    plain = networks(n_outputs, activation)
    fast = fast_stack(plain)
    assert isinstance(fast, MLPStack)
    draw = BernoulliDropout(fast, 1.0).draw(Streams(SEEDS, CPU, torch.float64), 6)
    zeta, y = torch.randn(3, 6, n_zeta, 2, dtype=torch.float64), torch.randn(3, 6, n_outputs, dtype=torch.float64)
    likelihood = NormalLikelihood(torch.rand(3, n_outputs, dtype=torch.float64) + 0.2)
    value = loss(-bound(likelihood, plain(draw, zeta), y), torch.zeros(3), 6)
    expected = torch.autograd.grad(value.sum(), list(plain.parameters.values()))
    total = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        df = likelihood.add_loss_gradient(fast.forward(draw, zeta), y, None, total, weight=1.0)
        gradients = [torch.full_like(parameter, torch.nan) for parameter in expected]
        fast.backward(df, gradients)
    torch.testing.assert_close(total + likelihood.constant(), value.detach())
    for found, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


class RoundedProduct(torch.autograd.Function):
    """x W^T with x, W and, in the gradients, delta rounded to bfloat16."""

    @staticmethod
    def forward(ctx, *operands):
        x, weight = (operand.bfloat16().float() for operand in operands)
        ctx.save_for_backward(x, weight)
        return x @ weight.mT

    @staticmethod
    def backward(ctx, delta):
        x, weight = ctx.saved_tensors
        delta = delta.bfloat16().float()
        return delta @ weight, delta.mT @ x


def test_gradients_in_bfloat16_are_those_of_autograd_with_rounded_operands(has_bfloat16):
    """Sums in another order may round a few operands the other way; the second pass finds buffers that were used."""
    fast = fast_stack(networks(dtype=torch.float32), "bfloat16")
    parameters = list(fast.parameters.values())
    draw = BernoulliDropout(fast, 1.0).draw(Streams(SEEDS, CPU), 6)
    for _ in range(2):
        zeta, df = torch.randn(3, 6, 5, 2), torch.randn(3, 6, 5, 1)
        values = zeta.flatten(1, 2)
        for i, mask in enumerate(fast._ordered(draw)):
            weight, bias = parameters[2 * i], parameters[2 * i + 1].unsqueeze(1)
            z = (RoundedProduct.apply(values, weight) if i > 0 else values @ weight.mT) + bias
            values = nn.functional.leaky_relu(z) * mask.repeat_interleave(5, dim=1)
        f = values @ parameters[-2].mT + parameters[-1].unsqueeze(1)
        expected = torch.autograd.grad(f, parameters, df.flatten(1, 2))
        gradients = [torch.full_like(parameter.detach(), torch.nan) for parameter in parameters]
        with torch.no_grad():
            torch.testing.assert_close(fast.forward(draw, zeta).flatten(1, 2), f, rtol=1e-3, atol=1e-3)
            fast.backward(df, gradients)
        for found, wanted in zip(gradients, expected, strict=True):
            assert (found - wanted).norm() < 2**-9 * wanted.norm()


@pytest.mark.parametrize("n_inputs_a_draw", [5, 200])
def test_evaluation_without_gradients_is_the_same(n_inputs_a_draw):
    """Few inputs a draw are masked, many have the dropped units cut out of the products."""
    plain = networks()
    fast = fast_stack(plain)
    draw = BernoulliDropout(fast, 1.0).draw(Streams(SEEDS, CPU, torch.float64), 4)
    own = torch.randn(3, 4, n_inputs_a_draw, 2, dtype=torch.float64)
    shared = torch.randn(n_inputs_a_draw, 2, dtype=torch.float64).expand(3, 4, -1, -1)
    for zeta in (own, shared):
        with torch.no_grad():
            torch.testing.assert_close(fast(draw, zeta), plain(draw, zeta))
            ordered = fast._ordered(draw)
            torch.testing.assert_close(fast._evaluate_together(ordered, zeta), plain(draw, zeta))
        torch.testing.assert_close(fast(draw, zeta).detach(), plain(draw, zeta).detach())


@pytest.mark.parametrize("x_err", [0.0, 0.2])
def test_training_ends_with_the_weights_of_the_general_path(x_err):
    x = torch.linspace(-1, 1, 3 * 50 * 2, dtype=torch.float64).reshape(3, 50, 2)
    inputs = ZetaNormal(x, torch.full((3, 1, 2), x_err, dtype=torch.float64))
    schedule = Schedule(epochs=4, batch_size=16, learning_rate=1e-2, n_zeta=5, renew_every=2)
    ends = []
    for stack in (networks(), fast_stack(networks())):
        posterior = BernoulliDropout(stack, 0.1)
        result = train(posterior, Rows(inputs, x.sum(2, keepdim=True)), normal(), schedule, SEEDS)
        ends.append([*posterior.parameters, result.likelihood.state["y_noise"]])
    for general, fast in zip(*ends, strict=True):
        torch.testing.assert_close(general, fast, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("activation", [None, nn.ReLU, nn.SiLU])
def test_moving_the_weights_network_by_network_changes_nothing(activation):
    """The way of bfloat16 on the CPU, here with operands that are not rounded."""
    x = torch.linspace(-1, 1, 3 * 50 * 2, dtype=torch.float64).reshape(3, 50, 2)
    whole, piecewise = (fast_stack(networks(activation=activation)) for _ in range(2))
    draw = BernoulliDropout(whole, 1.0).draw(Streams(SEEDS, CPU, torch.float64), 50)
    likelihood = NormalLikelihood(torch.ones(3, 1, dtype=torch.float64))
    steps = []
    for stack in (whole, piecewise):
        adam = FlatAdam(list(stack.parameters.values()), 0.01, 0.1)
        steps.append(MLPStep(BernoulliDropout(stack, 1.0), likelihood, Counts(50, 50), adam, stack))
    steps[1].piecewise = True
    piecewise.round_weights()
    batch = Batch(x.unsqueeze(2), x[..., :1], None, None, draw)
    for _ in range(5):
        for step in steps:
            step(batch, x.new_zeros(3))
    for a, b in zip(whole.parameters.values(), piecewise.parameters.values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_only_plain_fully_connected_networks_take_the_fast_path():
    for build in (
        lambda: nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Dropout(0.1), nn.Linear(4, 1)),
        lambda: nn.Sequential(nn.Linear(2, 4, bias=False), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 1)),
        lambda: nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.1), nn.ReLU(), nn.Linear(4, 1)),
    ):
        assert type(fast_stack(NetworkStack(build, 2, 1, SEEDS, CPU))) is NetworkStack


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_does_not_grow_over_a_long_training():
    """The most that the process holds in the second half of a training is what it held in the first."""
    held = []

    def report(epoch, *_):
        with open("/proc/self/statm") as file:
            held.append(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)

    x = torch.randn(3, 64, 2, dtype=torch.float64)
    schedule = Schedule(epochs=1200, batch_size=32, learning_rate=1e-3, n_zeta=5, renew_every=20)
    inputs = ZetaNormal(x, torch.full((3, 1, 2), 0.1, dtype=torch.float64))
    train(BernoulliDropout(fast_stack(networks()), 0.1), Rows(inputs, x[..., :1]), normal(), schedule, SEEDS, report)
    assert max(held[600:]) - max(held[:600]) < 10


def test_buffers_do_not_grow_and_do_not_travel():
    stack = fast_stack(networks())
    posterior = BernoulliDropout(stack, 0.1)
    x = torch.randn(3, 50, 2, dtype=torch.float64)
    schedule = Schedule(epochs=5, batch_size=16, learning_rate=1e-3, n_zeta=2, renew_every=2)
    rows = Rows(ZetaNormal(x, torch.full((3, 1, 2), 0.1, dtype=torch.float64)), x[..., :1])
    train(posterior, rows, normal(), schedule, SEEDS)
    assert len(stack._spaces) == 2  # whole minibatches and the smaller last one
    assert not pickle.loads(pickle.dumps(stack))._spaces
