"""Batched matrix products of a training step, in the precision asked for."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

PRECISIONS = ("auto", "float32", "bfloat16")


def product(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """Write `a` times `b`, `S x m x k` and `S x k x n`, into `out`; products of bfloat16 are summed in float32."""
    if a.dtype != torch.bfloat16:
        return torch.bmm(a, b, out=out)
    if out.is_cuda:
        return out.copy_(torch.bmm(a, b))
    return _mkl_product(a, b, out)


def check_precision(precision: str, device: torch.device, dtype: torch.dtype) -> None:
    """Raise a ValueError where `precision` is not available for this device and dtype."""
    if precision != "bfloat16":
        return
    if dtype != torch.float32:
        raise ValueError("precision='bfloat16' needs dtype='float32'.")
    if device.type == "cpu" and _mkl_gemm() is None:
        raise ValueError("precision='bfloat16' on the CPU needs a build of torch with MKL; use precision='float32'.")


@functools.cache
def _mkl_gemm() -> Any:
    """The function gemm_bf16bf16f32 of oneMKL inside torch's library, or None.

    torch's own bfloat16 products round their results to bfloat16. On virtual machines that hide part of the
    processor's description they can crash the process.
    """
    for library in (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*"):
        try:
            gemm = ctypes.CDLL(str(library)).GEMM_BF16BF16F32
        except (OSError, AttributeError):
            continue
        gemm.argtypes, gemm.restype = [ctypes.c_char_p] * 2 + [ctypes.c_void_p] * 11, None
        return gemm
    return None


def _mkl_product(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """`product` by MKL, which expects columns first: out^T = b^T a^T."""
    (flag_a, ld_a), (flag_b, ld_b) = _layout(a), _layout(b)
    n, m, k, ld_b_at, ld_a_at, ld_out_at, one, zero = _mkl_numbers(
        out.shape[2], out.shape[1], a.shape[2], ld_b, ld_a, out.stride(1)
    )
    at_a, at_b, at_out = (operand.data_ptr() for operand in (a, b, out))
    step_a, step_b, step_out = (operand.stride(0) * operand.element_size() for operand in (a, b, out))
    gemm = _mkl_gemm()
    for _ in range(len(out)):
        gemm(flag_b, flag_a, n, m, k, one, at_b, ld_b_at, at_a, ld_a_at, zero, at_out, ld_out_at)
        at_a, at_b, at_out = at_a + step_a, at_b + step_b, at_out + step_out
    return out


@functools.lru_cache(maxsize=128)
def _mkl_numbers(*integers: int) -> list[Any]:
    """References to `integers` and to the factors 1 and 0; cached, because making them takes longer than the call."""
    numbers = [ctypes.c_int(value) for value in integers] + [ctypes.c_float(value) for value in (1, 0)]
    return [ctypes.byref(number) for number in numbers]


def _layout(operand: Tensor) -> tuple[bytes, int]:
    """MKL's flag for matrices stored by rows (N) or by columns (T), and the distance between these."""
    return (b"N", operand.stride(1)) if operand.stride(2) == 1 else (b"T", operand.stride(2))
