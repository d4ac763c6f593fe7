"""How the weights of a drawn network come from noise, as nodes of an ONNX graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

__all__ = ["OnnxGraph", "OnnxTheta"]


class OnnxGraph(Protocol):
    """The graph of one drawn network; its values go by the names of the nodes' outputs.

    Examples:
        >>> from eiv.posteriors import MeanField
        >>> MeanField.onnx_theta.__annotations__["graph"]
        'OnnxGraph'

    """

    def add(self, kind: str, *values: str, **attributes: Any) -> str:
        """The output of a new node, an operator of ONNX on some values."""

    def constant(self, value: Any) -> str:
        """A value that the file holds."""

    def part(self, value: str, axis: int, start: int, end: int | None) -> str:
        """The slice from `start` up to `end` along an axis."""

    def of_network(self, values: Tensor) -> str:
        """The one among values of all networks, `S x shape`, that is of the network to evaluate: `shape`."""

    def noise(self, name: str, shape: Sequence[int]) -> str:
        """Standard normal numbers, which are the input `noise_of_<name>` of the file."""


class OnnxTheta(NamedTuple):
    """The weights of one drawn network in an ONNX graph.

    Attributes:
        parameters: of the stack, by name and in its order: `shape`.
        moves: what is added to them, where f is linear in the change of the weights, for all of them; else empty.
        masks: how to draw the masks of the dropout layers, for JSON: their "kind", and its numbers for each network and
            layer. None without masks.

    Examples:
        >>> OnnxTheta({"0.weight": "gather_3"}).masks is None
        True

    """

    parameters: Mapping[str, str]
    moves: Mapping[str, str] = {}
    masks: Mapping[str, Any] | None = None
