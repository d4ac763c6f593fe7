"""Random numbers with one stream a network.

A network's numbers depend on its own seed alone, never on the networks beside it: trained alone or in a stack of ten,
it sees the same shuffles, the same zetas and the same masks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from enum import IntEnum

import numpy as np
import torch
from numpy.random import SFC64, Generator, SeedSequence
from torch import Tensor

_LEVELS = 2**16  # a mask compares 16 random bits with a threshold: four masks a 64-bit word


class Purpose(IntEnum):
    """What a stream is for. Each purpose has a stream of its own, so that one never shifts another."""

    INIT = 0
    SHUFFLE = 1
    ZETA = 2
    WEIGHTS = 3
    Y_NOISE = 4
    PREDICT_WEIGHTS = 5
    PREDICT_ZETA = 6


def network_seeds(random_state: int, n_networks: int) -> list[SeedSequence]:
    """Seeds of networks 0, 1, ... of one fit."""
    return SeedSequence(random_state).spawn(n_networks)


def child(seed: SeedSequence, purpose: int) -> SeedSequence:
    """The seed of one purpose; unlike `SeedSequence.spawn` it always gives the same one."""
    return SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, purpose))


@contextlib.contextmanager
def torch_seeded(seed: SeedSequence) -> Iterator[None]:
    """Run torch's own initialisers from `seed` and leave the global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seed.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        yield


class Streams:
    """S independent random streams; every draw has the network axis S first."""

    def __init__(self, seeds: Sequence[SeedSequence], device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.device, self.dtype = device, dtype
        self._generators = [Generator(SFC64(seed)) for seed in seeds]

    @classmethod
    def of(cls, seeds: Sequence[SeedSequence], purpose: Purpose, device: torch.device, dtype: torch.dtype) -> Streams:
        """The streams of one purpose for the networks with these seeds."""
        return cls([child(seed, purpose) for seed in seeds], device, dtype)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, `S x shape`."""
        numbers = np.empty((len(self._generators), *shape), np.float32 if self.dtype == torch.float32 else np.float64)
        for generator, target in zip(self._generators, numbers, strict=True):
            generator.standard_normal(dtype=numbers.dtype, out=target)
        return torch.from_numpy(numbers).to(self.device, self.dtype)

    def masks(self, rate: float, *shape: int) -> Tensor:
        """Dropout masks, `S x shape`: 0 with probability `rate`, else 1 / (1 - rate), so that their mean is 1."""
        threshold = min(round(rate * _LEVELS), _LEVELS - 1)
        size = int(np.prod(shape))
        kept = np.empty((len(self._generators), size), bool)
        for generator, target in zip(self._generators, kept, strict=True):
            words = generator.bit_generator.random_raw(-(-size // 4))
            np.greater_equal(words.view(np.uint16)[:size], threshold, out=target)
        scale = _LEVELS / (_LEVELS - threshold)
        return torch.from_numpy(kept.reshape(-1, *shape)).to(self.device).to(self.dtype).mul_(scale)

    def permutations(self, n: int) -> Tensor:
        """A shuffle of the rows 0 ... n-1 for each network, `S x n`."""
        orders = np.stack([generator.permutation(n) for generator in self._generators])
        return torch.from_numpy(orders).to(self.device)
