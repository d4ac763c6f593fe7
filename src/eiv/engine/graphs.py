"""CUDA graphs: many small operations on the GPU as one launch."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

_launching = threading.RLock()  # threads side by side share torch's setting of the precision


class Replay:
    """Run a function that works in place, by a CUDA graph where that is possible.

    Inputs of a new shape go through the function as usual, which also warms it up. When the shape comes again, the
    function is recorded over buffers of its own, and from then on inputs are copied there and the record is replayed.
    On the CPU, and where recording fails, the function is simply called.

    Args:
        function: takes a list of tensors; all that it changes must lie in tensors that outlive it.
        device: where they are.
        precision: of its matrix products, as for `matmul_precision`.

    """

    def __init__(
        self, function: Callable[[Sequence[Tensor]], None], device: torch.device, precision: str = "auto"
    ) -> None:
        self.function, self.device, self.precision = function, device, precision
        self._records: bool = device.type == "cuda"
        self._seen: set[tuple[torch.Size, ...]] = set()
        self._graphs: dict[tuple[torch.Size, ...], tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}

    def __call__(self, inputs: Sequence[Tensor]) -> None:
        """Run the function on `inputs`."""
        shapes = tuple(value.shape for value in inputs)
        if self._records and shapes in self._seen and shapes not in self._graphs:
            self._record(shapes, inputs)
        self._seen.add(shapes)
        if shapes not in self._graphs:
            with matmul_precision(self.device, self.precision):
                self.function(inputs)
            return
        graph, buffers = self._graphs[shapes]
        for buffer, value in zip(buffers, inputs, strict=True):
            buffer.copy_(value)
        graph.replay()

    def _record(self, shapes: tuple[torch.Size, ...], inputs: Sequence[Tensor]) -> None:
        buffers = [value.clone() for value in inputs]
        graph = torch.cuda.CUDAGraph()
        try:
            stream = torch.cuda.current_stream()
            with (
                matmul_precision(self.device, self.precision),
                torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"),
            ):
                self.function(buffers)
        except RuntimeError as error:
            self._records = False
            warnings.warn(f"Training goes on without CUDA graphs, more slowly: {error}", RuntimeWarning, stacklevel=2)
        else:
            self._graphs[shapes] = graph, buffers


@contextlib.contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, do the work on a stream of its own, so that it can be recorded and several stacks can run at once."""
    if device.type != "cuda":
        yield
        return
    outer, inner = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    inner.wait_stream(outer)
    with torch.cuda.stream(inner):
        yield
    outer.wait_stream(inner)


@contextlib.contextmanager
def matmul_precision(device: torch.device, precision: str = "auto") -> Iterator[None]:
    """On a GPU, let float32 matrix products use TF32 unless `precision` is "float32"; then back to how it was.

    The setting is torch's, for all threads, and counts when a product is launched or recorded. So one thread at a time
    has it: others wait until they have theirs. What a thread does meanwhile by replaying a record goes on.
    """
    if device.type != "cuda":
        yield
        return
    with _launching:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
