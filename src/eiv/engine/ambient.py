"""What a user's program may have set in torch for itself, kept out of fits and predictions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

__all__ = ["own_defaults"]


@contextlib.contextmanager
def own_defaults() -> Iterator[None]:
    """Run with torch's own defaults: numbers in float32 where nothing else is said, and gradients on request.

    `torch.set_default_dtype` would change the random numbers that networks begin with, and inside
    `torch.inference_mode` nothing can be trained.

    Examples:
        >>> torch.set_default_dtype(torch.float64)
        >>> with torch.inference_mode(), own_defaults():
        ...     torch.zeros(1).dtype, torch.is_inference_mode_enabled()
        (torch.float32, False)
        >>> torch.get_default_dtype()
        torch.float64
        >>> torch.set_default_dtype(torch.float32)

    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(before)
