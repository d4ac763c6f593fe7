"""The state of a training in a file, from which a training that was ended goes on to the same end."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eiv.engine.streams import Streams
from eiv.io.files import written_whole
from eiv.likelihoods import Likelihood
from eiv.posteriors import WeightPosterior
from eiv.training.blocks import Blocks
from eiv.training.steps import Step

EVERY = 60.0
"""Seconds between two checkpoints; writing one takes a few milliseconds."""


@dataclass
class Checkpoint:
    """A file for the state of one training. It is written whole or not at all, and holds tensors and numbers alone.

    Attributes:
        path: the file.

    Examples:
        >>> import tempfile
        >>> checkpoint = Checkpoint.of(Path(tempfile.mkdtemp()), "what the training depends on", [torch.ones(2)])
        >>> checkpoint.load()
        >>> checkpoint.save({"epoch": 3})
        >>> checkpoint.load()
        {'epoch': 3}

    """

    path: Path
    _saved: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, folder: Path, words: str, tensors: Iterable[Tensor]) -> Checkpoint:
        """The file of the training that depends on all this: no other finds it."""
        found = hashlib.sha256(words.encode())
        for tensor in tensors:
            found.update(tensor.detach().cpu().contiguous().numpy().data)
        return cls(folder / f"{found.hexdigest()[:24]}.training")

    @property
    def is_due(self) -> bool:
        """Whether the last one is long ago."""
        return time.monotonic() - self._saved > EVERY

    def save(self, state: dict[str, Any]) -> None:
        """Write the state."""
        with written_whole(self.path) as part:
            torch.save(state, part)
        self._saved = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The state as it was saved; None where there is none that can be read."""
        try:
            state: dict[str, Any] = torch.load(self.path, weights_only=True)
        except (FileNotFoundError, RuntimeError, EOFError, pickle.UnpicklingError):
            return None
        return state


@dataclass(frozen=True)
class Course:
    """All that changes in a training between one minibatch and the next.

    Attributes:
        step: moves the weights; its optimisers hold these.
        likelihood: with its state.
        blocks: the rows of an epoch.
        streams: of the rules that renew the likelihood.
        losses: `epochs x S`, those of the epochs before.
        epoch_loss: `S`, that of the epoch so far.

    """

    step: Step
    likelihood: Likelihood
    blocks: Blocks
    streams: Streams
    losses: Tensor
    epoch_loss: Tensor

    @staticmethod
    def is_known(posterior: WeightPosterior, likelihood: Likelihood) -> bool:
        """Whether this is all: not where a family or a likelihood takes note of epochs."""
        own = type(posterior).observe is WeightPosterior.observe and type(likelihood).observe is Likelihood.observe
        return own and type(likelihood).__module__.startswith("eiv.")

    def state(self, epoch: int, part: int) -> dict[str, Any]:
        """The state after so many blocks of an epoch, as tensors and numbers."""
        return {
            "epoch": epoch,
            "part": part,
            "adams": [adam.state for adam in self.step.adams],
            "likelihood": {name: value.clone() for name, value in self.likelihood.state.items()},
            "blocks": self.blocks.state,
            "streams": self.streams.state,
            "losses": self.losses.clone(),
            "epoch_loss": self.epoch_loss.clone(),
        }

    @torch.no_grad()
    def restore(self, state: dict[str, Any]) -> tuple[int, int]:
        """Go back to a state; the epoch it is in, and the blocks of that which lie behind."""
        for adam, saved in zip(self.step.adams, state["adams"], strict=True):
            adam.restore(saved)
        self.step.weights_changed()
        for name, value in self.likelihood.state.items():
            value.copy_(state["likelihood"][name])
        self.blocks.restore(state["blocks"])
        self.streams.restore(state["streams"])
        self.losses.copy_(state["losses"])
        self.epoch_loss.copy_(state["epoch_loss"])
        return state["epoch"], state["part"]
