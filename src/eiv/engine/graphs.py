"""CUDA graphs, which launch many small GPU operations at once; and the precision of matrix products."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

_launching = threading.RLock()  # all threads share torch's setting of the precision


class Replay:
    """Run a function that works in place, as a CUDA graph where that is possible.

    For inputs of a new shape the function is called as usual, which also warms it up. When the same shape comes again,
    the function is recorded over buffers of its own. From then on, inputs are copied into these buffers and the record
    is replayed. On the CPU, and where recording fails, the function is simply called.

    Args:
        function: takes a list of tensors; it may change only tensors that outlive the call.
        device: the device of the tensors.
        precision: the precision of its matrix products, as in `matmul_precision`.

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
            warnings.warn(f"Training continues more slowly, without CUDA graphs: {error}", RuntimeWarning, stacklevel=2)
        else:
            self._graphs[shapes] = graph, buffers


@contextlib.contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, work on a separate CUDA stream, so that work can be recorded and several stacks can run at once."""
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
    """Let float32 matrix products on a GPU use TF32, unless `precision` is "float32"; restore the setting at the end.

    torch has one setting for all threads, and it takes effect when a product is launched or recorded. So one thread at
    a time may hold it, and the others wait. Replaying a recorded graph needs no setting and does not wait.
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
