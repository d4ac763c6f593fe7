"""Adam on one flat buffer: a single call moves the parameters of all networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from eiv.engine import kernels
from eiv.engine.pooling import beside

_ALIGNMENT = 64  # in values; matrix products are faster where operands start at a multiple of it


class FlatAdam:
    """Adam for `parameters`, which become views of one flat buffer; their gradients are views of another.

    Parameters decay towards zero, or towards the `anchors` if there are any, one per parameter. `weight_decay` is one
    number, or one per network, `S`.

    Attributes:
        values: the flat parameters.
        gradient: the flat gradient, to be filled before a step.
        gradients: views of it, one per parameter.

    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        learning_rate: float,
        weight_decay: float | Tensor = 0.0,
        anchors: Sequence[Tensor] = (),
    ) -> None:
        sizes = [-(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT for parameter in parameters]
        like = parameters[0].detach()
        self.values, self.gradient, self._m, self._v = (like.new_zeros(sum(sizes)) for _ in range(4))
        self._step = torch.zeros((), dtype=torch.float32, device=like.device)
        self._rate = torch.zeros((), dtype=torch.float32, device=like.device)  # a CUDA graph reads it from there
        self.learning_rate = learning_rate
        self._starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.gradients: list[Tensor] = []
        views = zip(self.values.split(sizes), self.gradient.split(sizes), strict=True)
        for parameter, (value, gradient) in zip(parameters, views, strict=True):
            view = value[: parameter.numel()].view_as(parameter)
            before = parameter.detach()
            if before.is_cuda:  # from another stream, which must not reuse the memory before it is copied
                before.record_stream(torch.cuda.current_stream(before.device))
            parameter.data = view.copy_(before)
            parameter.grad = gradient[: parameter.numel()].view_as(parameter)
            self.gradients.append(parameter.grad)
        self.weight_decay = 0.0 if isinstance(weight_decay, Tensor) else weight_decay
        self._anchors = self._flat(anchors) if anchors else None
        self._decays = None
        if isinstance(weight_decay, Tensor):
            self._decays = self._flat([beside(weight_decay, value).expand_as(value) for value in self.gradients])

    @property
    def learning_rate(self) -> float:
        """The step size, which may change between steps."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._learning_rate = value
        self._rate.fill_(value)

    @property
    def state(self) -> dict[str, Tensor]:
        """The parameters, the moments of their gradients, and the number of steps: copies."""
        return {name: value.clone() for name, value in self._buffers.items()}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go back to a state."""
        for name, value in self._buffers.items():
            value.copy_(state[name])

    @property
    def _buffers(self) -> dict[str, Tensor]:
        return {"values": self.values, "m": self._m, "v": self._v, "step": self._step}

    @torch.no_grad()
    def step(self) -> None:
        """Move all parameters along the gradient."""
        self.begin()
        self.move(slice(0, len(self.values)), self.gradient)

    def begin(self) -> None:
        """Begin a step; then call `move` for every part of the parameters."""
        self._step += 1

    def move(self, part: slice, gradient: Tensor) -> None:
        """Move one part of the flat parameters along its `gradient`, which may be overwritten."""
        if self._decays is not None:
            gap = self.values[part] if self._anchors is None else self.values[part] - self._anchors[part]
            gradient.addcmul_(self._decays[part], gap)
        elif self._anchors is not None:
            gradient.sub_(self._anchors[part], alpha=self.weight_decay)
        state = [buffer[part] for buffer in (self.values, self._m, self._v)]
        values, m, v = state
        if kernels.available(self.values.device) and self.values.dtype == torch.float32:
            kernels.adam(values, gradient, m, v, self._step, self._rate, self.weight_decay)
            return
        # torch.optim.Adam(fused=True) makes the same call; for small networks its overhead takes longer than the call.
        torch._fused_adam_(
            [values],
            [gradient],
            [m],
            [v],
            [],
            [self._step],
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )

    def _flat(self, values: Sequence[Tensor]) -> Tensor:
        """Values in the shapes of the parameters, in the layout of the flat buffer."""
        flat = torch.zeros_like(self.values)
        for i, value in enumerate(values):
            flat[self.part(i)] = value.flatten()
        return flat

    def part(self, parameter: int, network: int | None = None) -> slice:
        """The place of a parameter in the flat buffer, for all networks or for one."""
        start, size = self._starts[parameter], self.gradients[parameter].numel()
        if network is None:
            return slice(start, start + size)
        share = size // len(self.gradients[parameter])
        return slice(start + network * share, start + (network + 1) * share)
