"""Triton kernels for the GPU: the operations between the matrix products of a training step, one kernel for each.

They compute the same as the torch operations in `engine.mlp`, `likelihoods.normal` and `engine.optim`, which run where
there are no kernels; `tests/gpu` compares the two. Kernels need contiguous memory: slices and expanded tensors are
copied first.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Iterator

import torch
from torch import Tensor

MOST_LOSS_VALUES = 2**15  # the most rows times zetas of a minibatch for the loss, which one block of threads computes


@functools.cache
def available(device: torch.device) -> bool:
    """Whether the kernels can run on `device`."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(device) >= (7, 0)


if importlib.util.find_spec("triton") is not None:
    import triton
    import triton.language as tl

    @triton.jit
    def _activate(z, bias, mask, mask_stride, slope, n_rows, group, width, ROWS: tl.constexpr, UNITS: tl.constexpr):
        s = tl.program_id(2).to(tl.int64)
        r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        u = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
        inside = (r < n_rows)[:, None] & (u < width)[None, :]
        at = z + (s * n_rows + r[:, None]) * width + u[None, :]
        value = tl.load(at, mask=inside) + tl.load(bias + s * width + u, mask=u < width)[None, :]
        kept = tl.load(mask + s * mask_stride + (r[:, None] // group) * width + u[None, :], mask=inside)
        tl.store(at, tl.where(value > 0, value, value * slope) * kept, mask=inside)

    @triton.jit
    def _activate_backward(
        delta, a, mask, mask_stride, bias_gradient, slope, n_rows, group, width, ROWS: tl.constexpr, UNITS: tl.constexpr
    ):
        s = tl.program_id(1).to(tl.int64)
        u = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
        total = tl.zeros((ROWS, UNITS), tl.float32)
        for start in range(0, n_rows, ROWS):
            r = start + tl.arange(0, ROWS)
            inside = (r < n_rows)[:, None] & (u < width)[None, :]
            at = (s * n_rows + r[:, None]) * width + u[None, :]
            kept = tl.load(mask + s * mask_stride + (r[:, None] // group) * width + u[None, :], mask=inside, other=0.0)
            value = tl.load(delta + at, mask=inside, other=0.0) * kept
            output = tl.load(a + at, mask=inside, other=0.0) * kept  # has the sign of the value before the mask
            value = tl.where(output > 0, value, value * slope)
            tl.store(delta + at, value, mask=inside)
            total += value
        tl.store(bias_gradient + s * width + u, tl.sum(total, 0), mask=u < width)

    @triton.jit
    def _loss(
        f,
        y,
        y_stride,
        inverse_noise,
        df,
        loss,
        n_rows,
        weight,
        N_Y: tl.constexpr,
        L: tl.constexpr,
        ROWS: tl.constexpr,
        ZETAS: tl.constexpr,
    ):
        s = tl.program_id(0).to(tl.int64)
        b = tl.arange(0, ROWS)[:, None]
        l = tl.arange(0, ZETAS)[None, :]  # noqa: E741
        inside = (b < n_rows) & (l < L)
        at = ((s * n_rows + b) * L + l) * N_Y
        log_weight = tl.zeros((ROWS, ZETAS), tl.float32)
        for j in tl.static_range(N_Y):
            inverse = tl.load(inverse_noise + s * N_Y + j)
            target = tl.load(y + s * y_stride + b * N_Y + j, mask=b < n_rows, other=0.0)
            residual = (tl.load(f + at + j, mask=inside, other=0.0) - target) * inverse
            log_weight -= 0.5 * residual * residual
        log_weight = tl.where(inside, log_weight, float("-inf"))
        top = tl.max(tl.where(b < n_rows, log_weight, 0.0), 1)[:, None]
        share = tl.exp(log_weight - top)
        total = tl.sum(share, 1)[:, None]
        total = tl.where(b < n_rows, total, 1.0)
        for j in tl.static_range(N_Y):
            inverse = tl.load(inverse_noise + s * N_Y + j)
            target = tl.load(y + s * y_stride + b * N_Y + j, mask=b < n_rows, other=0.0)
            residual = (tl.load(f + at + j, mask=inside, other=0.0) - target) * inverse
            tl.store(df + at + j, share / total * residual * inverse / n_rows, mask=inside)
        log_mean = tl.where(b < n_rows, top + tl.log(total / L), 0.0)
        tl.store(loss + s, tl.load(loss + s) - weight * tl.sum(log_mean) / n_rows)

    @triton.jit
    def _adam(p, g, m, v, step, n, rate, decay, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        t, size_of_step = tl.load(step), tl.load(rate)
        value = tl.load(p + at, mask=inside)
        gradient = tl.load(g + at, mask=inside) + decay * value
        first = tl.load(m + at, mask=inside)
        first = first + 0.1 * (gradient - first)
        second = 0.999 * tl.load(v + at, mask=inside) + 0.001 * gradient * gradient
        size = tl.sqrt(second / (1 - tl.exp(t * -0.0010005003335835335))) + 1e-8  # log 0.999
        tl.store(
            p + at, value - size_of_step / (1 - tl.exp(t * -0.10536051565782628)) * first / size, mask=inside
        )  # log 0.9
        tl.store(m + at, first, mask=inside)
        tl.store(v + at, second, mask=inside)


def activate(z: Tensor, bias: Tensor, mask: Tensor, slope: float) -> None:
    """Replace `z`, `S x rows x h`, by mask times leaky ReLU of (z + bias).

    `bias` is `S x 1 x h`, and `mask`, `S x D x h`, has one mask for each of D groups of rows.
    """
    with _dense(z) as inside:
        n_networks, n_rows, width = inside.shape
        bias, mask = bias.contiguous(), mask.contiguous()
        grid = (triton.cdiv(n_rows, 8), triton.cdiv(width, 128), n_networks)
        _activate[grid](inside, bias, mask, mask.stride(0), slope, n_rows, n_rows // mask.shape[1], width, 8, 128)


def activate_backward(delta: Tensor, a: Tensor, mask: Tensor, slope: float, bias_gradient: Tensor) -> None:
    """Replace `delta`, the gradient with respect to the output `a` of a layer, by that before bias, ReLU and mask.

    Both are `S x rows x h`. The sum over the rows is written into `bias_gradient`.
    """
    with _dense(delta) as inside, _dense(bias_gradient) as sums:
        n_networks, n_rows, width = inside.shape
        a, mask = a.contiguous(), mask.contiguous()
        rows = min(128, triton.next_power_of_2(n_rows))
        group = n_rows // mask.shape[1]
        _activate_backward[(triton.cdiv(width, 32), n_networks)](
            inside, a, mask, mask.stride(0), sums, slope, n_rows, group, width, rows, 32, num_warps=8
        )


def add_loss_gradient(f: Tensor, y: Tensor, inverse_noise: Tensor, loss: Tensor, weight: float) -> Tensor:
    """Add `weight` times the negative bound, without its constant, to `loss`, `S`; return the gradient for `f`."""
    f, y, inverse_noise = f.contiguous(), y.contiguous(), inverse_noise.contiguous()
    n_networks, n_rows, n_zeta, n_outputs = f.shape
    df = torch.empty_like(f)
    with _dense(loss) as total:
        _loss[(n_networks,)](
            f, y, y.stride(0), inverse_noise, df, total, n_rows, weight, n_outputs, n_zeta,
            triton.next_power_of_2(n_rows), triton.next_power_of_2(n_zeta),
        )  # fmt: skip
    return df


def adam(parameters: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: Tensor, rate: Tensor, decay: float) -> None:
    """Move flat `parameters` by one step of Adam with its usual constants; `step` (from 1), `rate` are on the GPU."""
    with _dense(parameters) as values, _dense(m) as first, _dense(v) as second:
        n, block = values.numel(), 1024
        gradient = gradient.contiguous()
        _adam[(triton.cdiv(n, block),)](values, gradient, first, second, step, n, rate, decay, block, num_warps=4)


@contextlib.contextmanager
def _dense(values: Tensor) -> Iterator[Tensor]:
    """A contiguous tensor for a kernel to change; where it is a copy of `values`, it is copied back at the end."""
    dense = values.contiguous()
    yield dense
    if dense is not values:
        values.copy_(dense)
