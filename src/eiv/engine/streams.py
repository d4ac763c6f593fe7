"""Random numbers with one stream per network.

The numbers of a network depend on its own seed alone. Trained alone or in a stack of ten, it gets the same shuffles,
zetas and masks.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import torch
from numpy.random import SFC64, Generator, SeedSequence
from torch import Tensor

_global_generator = threading.RLock()
_LEVELS = 2**16  # a mask compares 16 random bits with a threshold: four masks per 64-bit word
_MOST_PORTABLE = 2**22  # the most numbers of a draw that are made on the CPU for a GPU


class Purpose(IntEnum):
    """The purpose of a stream. Each has a stream of its own, so that draws for one do not shift those for another."""

    INIT = 0
    SHUFFLE = 1
    ZETA = 2
    WEIGHTS = 3
    Y_NOISE = 4
    PREDICT_WEIGHTS = 5
    PREDICT_ZETA = 6
    BUDGET = 7
    DIAGNOSTICS = 8
    BEGIN = 9
    FINISH = 10
    HOLD_OUT = 11
    POOL = 12


def network_seeds(random_state: int, n_networks: int) -> list[SeedSequence]:
    """Seeds of networks 0, 1, ... of one fit."""
    return SeedSequence(random_state).spawn(n_networks)


def child(seed: SeedSequence, purpose: int) -> SeedSequence:
    """The seed for one purpose; unlike `SeedSequence.spawn` it is the same at every call."""
    return SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, purpose))


@contextlib.contextmanager
def torch_seeded(seed: SeedSequence) -> Iterator[None]:
    """Seed torch's global generator, which its initialisers use, for one thread at a time; restore it at the end."""
    with _global_generator, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_integer(seed))
        yield


class Streams:
    """S independent random streams; every draw has the network axis S first.

    On the CPU the numbers come from NumPy, whose generators are several times faster than torch's there. On a GPU they
    are made on the device. `portable` streams give the same numbers on every device and in every floating point type,
    so that predictions agree: they are made on the CPU in float64 and rounded. Draws of more than 2^22 numbers per
    network are the exception, because it would take long to copy them to a GPU.
    """

    def __init__(
        self,
        seeds: Sequence[SeedSequence],
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        portable: bool = False,
    ) -> None:
        self.device, self.dtype, self.n_networks, self._portable = device, dtype, len(seeds), portable
        on_gpu = device.type != "cpu"
        self._on_cpu = [Generator(SFC64(seed)) for seed in seeds] if portable or not on_gpu else []
        self._on_gpu = [_torch_generator(seed, device) for seed in seeds] if on_gpu else []

    @classmethod
    def of(
        cls,
        seeds: Sequence[SeedSequence],
        purpose: Purpose,
        device: torch.device,
        dtype: torch.dtype,
        portable: bool = False,
    ) -> Streams:
        """The streams of one purpose for the networks with these seeds."""
        return cls([child(seed, purpose) for seed in seeds], device, dtype, portable)

    @property
    def state(self) -> list[Tensor]:
        """Where the streams stand, one tensor for each generator."""
        return [_state_of(generator) for generator in self._on_cpu] + [each.get_state() for each in self._on_gpu]

    def restore(self, state: Sequence[Tensor]) -> None:
        """Go back to where the streams stood."""
        for generator, saved in zip(self._on_cpu, state, strict=False):
            _restore(generator, saved)
        for on_gpu, saved in zip(self._on_gpu, state[len(self._on_cpu) :], strict=True):
            on_gpu.set_state(saved.cpu())

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, `S x shape`."""
        numbers = self._empty(shape)
        if self._made_on_gpu(shape):
            for on_gpu, target in zip(self._on_gpu, numbers, strict=True):
                target.normal_(generator=on_gpu)
            return numbers
        for on_cpu, array in zip(self._on_cpu, numbers.numpy(), strict=True):
            on_cpu.standard_normal(dtype=array.dtype, out=array)
        return numbers.to(self.device, self.dtype)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers, at least 0 and below 1, `S x shape`."""
        numbers = self._empty(shape)
        if self._made_on_gpu(shape):
            for on_gpu, target in zip(self._on_gpu, numbers, strict=True):
                target.uniform_(generator=on_gpu)
            return numbers
        for on_cpu, array in zip(self._on_cpu, numbers.numpy(), strict=True):
            on_cpu.random(dtype=array.dtype, out=array)
        return numbers.to(self.device, self.dtype)

    def masks(self, rate: float, *shape: int) -> Tensor:
        """Dropout masks, `S x shape`: 0 with probability `rate`, else 1 / (1 - rate), so that their mean is 1."""
        threshold = min(round(rate * _LEVELS), _LEVELS - 1)
        masks, scale = self._empty(shape), _LEVELS / (_LEVELS - threshold)
        if self._made_on_gpu(shape):
            for on_gpu, target in zip(self._on_gpu, masks, strict=True):
                target.bernoulli_(1 / scale, generator=on_gpu)
            return masks.mul_(scale)
        for on_cpu, array in zip(self._on_cpu, masks.flatten(1).numpy(), strict=True):
            words = on_cpu.bit_generator.random_raw(-(-array.size // 4)).view(np.uint16)
            np.greater_equal(words[: array.size], threshold, out=array, casting="unsafe")
            np.multiply(array, scale, out=array)  # while it is in the cache
        return masks.to(self.device, self.dtype)

    def permutations(self, n: int) -> Tensor:
        """A shuffle of the rows 0 ... n-1 for each network, `S x n`."""
        if not self._made_on_gpu((n,)):
            return torch.from_numpy(np.stack([generator.permutation(n) for generator in self._on_cpu])).to(self.device)
        keys = self._empty((n,), torch.float64)
        for generator, target in zip(self._on_gpu, keys, strict=True):
            target.uniform_(generator=generator)
        return keys.argsort(dim=1)

    def _made_on_gpu(self, shape: tuple[int, ...]) -> bool:
        return bool(self._on_gpu) and not (self._portable and math.prod(shape) <= _MOST_PORTABLE)

    def _empty(self, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
        on_gpu = self._made_on_gpu(shape)
        made = torch.float64 if self._portable and not on_gpu else self.dtype
        return torch.empty(self.n_networks, *shape, dtype=dtype or made, device=self.device if on_gpu else "cpu")


def _state_of(generator: Generator) -> Tensor:
    """The state of a generator on the CPU: that of SFC64, and what is left of a word of 64 bits."""
    state: Any = generator.bit_generator.state
    return torch.tensor([*state["state"]["state"].view(np.int64).tolist(), state["has_uint32"], state["uinteger"]])


def _restore(generator: Generator, saved: Tensor) -> None:
    *words, has_uint32, uinteger = saved.tolist()
    inner = {"state": np.array(words, dtype=np.int64).view(np.uint64)}
    generator.bit_generator.state = {
        "bit_generator": "SFC64",
        "state": inner,
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }


def _torch_generator(seed: SeedSequence, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(_integer(seed))


def _integer(seed: SeedSequence) -> int:
    return int(seed.generate_state(1, np.uint64)[0] >> np.uint64(1))
