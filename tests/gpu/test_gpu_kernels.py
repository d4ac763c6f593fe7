"""Each Triton kernel against its torch twin in float64, whatever the layout of what it is given.

Tolerances: a kernel adds up at most some hundred products in float32, whose rounding error is 6e-8 each; 1e-5 of the
largest value is far above that, and far below what a wrong stride does.
"""

import threading

import pytest
import torch
from devices import DEVICE, MARKS

from eiv.engine import kernels
from eiv.engine.graphs import own_stream
from eiv.engine.optim import FlatAdam
from eiv.likelihoods import NormalLikelihood

pytestmark = [
    *MARKS,
    pytest.mark.skipif(DEVICE.type != "cuda", reason="kernels, and streams of work, are of a GPU"),
]
CUDA = torch.device("cuda")
S, D, R, H, SLOPE = 3, 4, 5, 37, 0.01  # networks, draws, rows of a draw, units


def plain(values):
    return values


def strided(values):
    """Every second number of a larger tensor."""
    wide = values.new_full((*values.shape[:-1], 2 * values.shape[-1]), torch.nan)
    wide[..., ::2] = values
    return wide[..., ::2]


def offset(values):
    """From the middle of a larger tensor on, with gaps between the networks."""
    long = values.new_full((values.shape[0], values.shape[1] + 3, *values.shape[2:]), torch.nan)
    long[:, 2:-1] = values
    return long[:, 2:-1]


def transposed(values):
    return values.mT.contiguous().mT


def networks_last(values):
    return values.movedim(0, -1).contiguous().movedim(-1, 0)


LAYOUTS = [plain, strided, offset, transposed, networks_last]


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(CUDA)


def assert_close(found, wanted):
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


def masks(kind):
    """`S x D x h`: one per draw, or one that all draws, or all networks, share without a copy."""
    own = numbers(S, D, H, seed=3)
    return {"own": own, "of draws": own[:, :1].expand(-1, D, -1), "of networks": own[:1].expand(S, -1, -1)}[kind]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shared", ["own", "of draws", "of networks"])
def test_activate(layout, shared):
    z, bias, mask = numbers(S, D * R, H), numbers(S, 1, H, seed=1), masks(shared)
    wanted = torch.nn.functional.leaky_relu(z.double() + bias.double(), SLOPE)
    wanted = (wanted.unflatten(1, (D, R)) * mask.double().unsqueeze(2)).flatten(1, 2)
    given, between = layout(z), layout(bias)
    kernels.activate(given, between, mask if shared != "own" else layout(mask), SLOPE)
    assert_close(given, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shared", ["own", "of draws", "of networks"])
def test_activate_backward(layout, shared):
    delta, mask = numbers(S, D * R, H), masks(shared)
    before = numbers(S, D * R, H, seed=2).double().requires_grad_(True)
    scaled = torch.nn.functional.leaky_relu(before, SLOPE).unflatten(1, (D, R)) * mask.double().unsqueeze(2)
    after = scaled.flatten(1, 2)
    (wanted,) = torch.autograd.grad(after, before, delta.double())
    given, sums = layout(delta), layout(numbers(S, 1, H, seed=4)).squeeze(1)
    output = layout(after.detach().float())
    kernels.activate_backward(given, output, mask if shared != "own" else layout(mask), SLOPE, sums)
    assert_close(given, wanted)
    assert_close(sums, wanted.sum(1))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_loss(layout, n_outputs):
    """Also with labels that are one of several of each row, as the information of the Laplace families takes them."""
    n_rows, n_zeta = 7, 6
    f, noise = numbers(S, n_rows, n_zeta, n_outputs), numbers(S, n_outputs, seed=1).abs() + 0.3
    labels, start = numbers(S, n_rows, 5, n_outputs, seed=2), numbers(S, seed=3)
    for y in (labels[:, :, 3], layout(labels[:, :, 3].contiguous()), labels[:1, :, 2].expand(S, -1, -1)):
        reference, total = start.double(), start.clone()
        wanted = NormalLikelihood(noise.double()).add_loss_gradient(f.double(), y.double(), None, reference, 0.7)
        given = layout(f.flatten(2)).unflatten(2, (n_zeta, n_outputs)) if layout is offset else layout(f)
        found = kernels.add_loss_gradient(given, y, layout((1 / noise)[:, None]).squeeze(1), total, 0.7)
        assert_close(found, wanted)
        assert_close(total, reference)


@pytest.mark.parametrize("layout", [plain, strided])
def test_adam(layout):
    values, steps, decay = numbers(1, 2000)[0], [numbers(1, 2000, seed=i)[0] for i in range(1, 6)], 0.03
    reference = values.double().cpu().clone()
    adam = FlatAdam([reference], learning_rate=0.01, weight_decay=decay)
    given, m, v = (layout(start.clone()[None])[0] for start in (values, 0 * values, 0 * values))
    count, rate = torch.zeros((), device=CUDA), torch.full((), 0.01, device=CUDA)
    for gradient in steps:
        adam.gradients[0].copy_(gradient)
        adam.step()
        count += 1
        kernels.adam(given, layout(gradient[None])[0], m, v, count, rate, decay)
    torch.testing.assert_close(given.cpu().double(), adam.values[:2000], rtol=0, atol=2e-6)


def test_stacks_side_by_side_start_from_their_own_weights():
    """Threads that train on streams of their own share the stream on which networks are built.

    Memory that held the initial weights goes back to that stream when training copies them. Had it been given away
    before the copy was made, other numbers would stand there: here zeros, which another thread keeps writing.
    """
    stop = threading.Event()

    def keep_writing():
        while not stop.is_set():
            torch.zeros(S, 256, 256, device=CUDA)

    writer = threading.Thread(target=keep_writing, daemon=True)
    writer.start()
    try:
        for seed in range(50):
            weights = numbers(S, 256, 256, seed=seed)
            wanted = weights.clone()
            with own_stream(CUDA):
                torch.cuda._sleep(2_000_000)  # a millisecond in which the copy has to wait
                adam = FlatAdam([weights], learning_rate=0.0)
                found = adam.values[: weights.numel()].view_as(wanted).clone()
            assert torch.equal(found, wanted)
    finally:
        stop.set()
        writer.join(timeout=60)
