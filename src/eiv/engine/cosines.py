"""The fast path for networks of cosines, without gradients."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from eiv.engine import memory
from eiv.engine.stack import NetworkStack


class CosineStack(NetworkStack):
    r"""S networks of cosines of one shape, with the interface and the results of `NetworkStack`.

    .. math:: w_1 \cos \omega\zeta + w_2 \sin \omega\zeta = a \cos(\omega\zeta - \varphi), \qquad
              a = |(w_1, w_2)|, \quad \varphi = \mathrm{atan2}(w_2, w_1)

    So without gradients each output takes one cosine for each frequency. Rows go through in blocks that stay in a
    cache.

    Args:
        stack: the networks, whose parameters are shared, not copied.

    """

    def __init__(self, stack: NetworkStack) -> None:
        self.__dict__.update(stack.__dict__)

    def __call__(self, masks: dict[str, Tensor], zeta: Tensor) -> Tensor:
        """Evaluate `zeta`, `S x D x R x n_x`: `S x D x R x n_y`."""
        if torch.is_grad_enabled():
            return super().__call__(masks, zeta)
        f = zeta.new_empty(*zeta.shape[:3], self.n_outputs)
        for s, (inputs, outputs) in enumerate(zip(zeta.flatten(1, 2), f.flatten(1, 2), strict=True)):
            frequencies, scales, weights, biases = self._parameters(s)
            for j, (scaled, bias) in enumerate(zip(weights * scales, biases, strict=True)):
                of_cosines, of_sines, slopes = scaled.split([len(frequencies)] * 2 + [self.n_inputs])
                sizes, shifts = torch.hypot(of_cosines, of_sines), torch.atan2(of_sines, of_cosines)
                for rows in self._blocks(inputs):
                    waves = torch.addmm(shifts, inputs[rows], frequencies.T, beta=-1).cos_()
                    outputs[rows, j] = waves @ sizes + inputs[rows] @ slopes + bias
        return f

    def features(self, zeta: Tensor) -> Tensor:
        """The inputs of the last layer with a one for its bias, at `zeta`, `S x D x R x n_x`: `S x D x R x h + 1`."""
        _, n_frequencies, n_inputs = self.parameters["frequencies.weight"].shape
        found = zeta.new_ones(*zeta.shape[:3], 2 * n_frequencies + n_inputs + 1)
        for s, (inputs, outputs) in enumerate(zip(zeta.flatten(1, 2), found.flatten(1, 2), strict=True)):
            frequencies, scales, _, _ = self._parameters(s)
            for rows in self._blocks(inputs):
                phases = inputs[rows] @ frequencies.T
                cosines, sines, same, _ = outputs[rows].split([n_frequencies, n_frequencies, n_inputs, 1], dim=1)
                torch.cos(phases, out=cosines)
                torch.sin(phases, out=sines)
                same.copy_(inputs[rows])
                outputs[rows, :-1] *= scales
        return found

    def _parameters(self, s: int) -> list[Tensor]:
        """The frequencies, scales, weights and biases of network s."""
        names = ("frequencies.weight", "scales", "head.weight", "head.bias")
        return [self.parameters[name][s].detach() for name in names]

    def _blocks(self, inputs: Tensor) -> Iterator[slice]:
        """Rows of `inputs`, `rows x n_x`, that are taken at once."""
        size = len(inputs)
        if inputs.device.type == "cpu":
            size = max(1, memory.COSINES_AT_ONCE // self.parameters["frequencies.weight"].shape[1])
        for start in range(0, len(inputs), max(1, size)):
            yield slice(start, start + size)
