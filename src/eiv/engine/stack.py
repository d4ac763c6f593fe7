"""Stacks of S networks of one shape, of the paper or of a user, that are evaluated together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from numpy.random import SeedSequence
from torch import Tensor, nn
from torch.func import functional_call

from eiv.engine import memory
from eiv.engine.streams import Purpose, child, torch_seeded

__all__ = ["MaskedDropout", "NetworkStack"]

_DROPOUTS: dict[type[nn.Module], int] = {  # the number of trailing axes that share one mask value
    nn.Dropout: 0,
    nn.Dropout1d: 1,
    nn.Dropout2d: 2,
    nn.Dropout3d: 3,
}
_ROW_MIXERS = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)  # noqa: SLF001


class MaskedDropout(nn.Module):
    r"""Dropout with given masks instead of random ones: one mask for each of D groups of consecutive rows.

    .. math:: a_{dr} \mapsto b_d \odot a_{dr}, \qquad d = 1 \dots D, \quad r = 1 \dots R

    A weight draw is one mask b. In training every row has a draw of its own, which all of its L zetas share (the
    paper's footnote). In prediction one draw serves all rows. Both are D groups of R rows. A layer that a network uses
    in several places has one mask for each.

    Args:
        rate: p, the probability of a zero.
        shared_axes: trailing axes along which the mask is constant: 0 for `nn.Dropout`, 2 for `nn.Dropout2d`.

    Attributes:
        mask_0: `D x features`, the masks for the first use of the layer in a pass; `mask_1` for the second, and so on.

    Examples:
        >>> layer = MaskedDropout(0.5)
        >>> layer.mask_0 = torch.tensor([[2.0, 0.0], [0.0, 2.0]])  # two draws
        >>> layer(torch.ones(4, 2))                                # two rows each
        tensor([[2., 0.],
                [2., 0.],
                [0., 2.],
                [0., 2.]])

    """

    def __init__(self, rate: float, shared_axes: int = 0) -> None:
        super().__init__()
        self.rate, self.shared_axes = rate, shared_axes
        self.set_uses(1)

    def set_uses(self, n_uses: int) -> None:
        """Set how many times a pass through the network uses this layer."""
        self.n_uses, self._use = n_uses, 0
        for use in range(n_uses):
            self.register_buffer(f"mask_{use}", torch.ones(1), persistent=False)

    def restart(self) -> None:
        """Start a new pass through the network, with the first mask."""
        self._use = 0

    def forward(self, values: Tensor) -> Tensor:
        """Multiply each group of rows of `values`, `rows x features`, by its mask."""
        mask: Tensor = getattr(self, f"mask_{self._use}")
        self._use = (self._use + 1) % self.n_uses
        groups = values.unflatten(0, (mask.shape[0], -1))
        product: Tensor = groups * mask.unsqueeze(1)
        return product.flatten(0, 1)


@dataclass(frozen=True)
class DropoutLayer:
    """A place in a network where units are dropped: the name of its mask, its rate and the shape of one mask."""

    mask_name: str
    rate: float
    shape: tuple[int, ...]


class NetworkStack:
    r"""S networks of one shape, their parameters stacked, evaluated together.

    .. math:: f_s(\zeta) = f_{\theta_s}(\zeta), \qquad s = 1 \dots S

    Network s computes what it would compute alone. The parameters carry the axis S first; gradients flow to them.

    Args:
        build: makes one network that maps `rows x n_inputs` to `rows x n_outputs`.
        n_inputs: n_x.
        n_outputs: n_y.
        seeds: one per network; it fixes the initial weights.
        device: where the parameters live.
        dtype: their floating point type.

    Attributes:
        n_inputs, n_outputs: n_x and n_y.
        parameters: `{name: S x shape}`, the leaves that training moves.
        dropout_layers: the places that take a mask.
        width: the largest number of values per row in any layer; memory grows with it.

    Examples:
        >>> from eiv.networks import paper_network
        >>> seeds = SeedSequence(0).spawn(10)
        >>> stack = NetworkStack(lambda: paper_network(2, 1), 2, 1, seeds, torch.device("cpu"))
        >>> masks = {layer.mask_name: torch.ones(10, 1, *layer.shape) for layer in stack.dropout_layers}
        >>> stack(masks, torch.zeros(10, 1, 7, 2)).shape  # ten networks, one weight draw, seven rows
        torch.Size([10, 1, 7, 1])

    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        n_inputs: int,
        n_outputs: int,
        seeds: Sequence[SeedSequence],
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        built: list[nn.Module] = []
        for seed in seeds:
            with torch_seeded(child(seed, Purpose.INIT)):
                module = build()
                if not isinstance(module, nn.Module):
                    raise TypeError(f"module must build a torch.nn.Module, got {type(module).__name__}.")
                if any(module is other for other in built):
                    raise ValueError("module must build a new network at every call; it returned the same one twice.")
                built.append(module)
        self.n_inputs, self.n_outputs = n_inputs, n_outputs
        modules = [_with_masked_dropout(module) for module in built]
        self.template = modules[0].to(dtype)
        with torch_seeded(seeds[0]):
            self.dropout_layers, self.width = _probe(self.template, n_inputs, n_outputs, dtype)
        stacked = _stack_state(modules, device, dtype)
        trained = {name for name, value in self.template.named_parameters() if value.requires_grad}
        self.parameters = {name: value for name, value in stacked.items() if name in trained}
        self.constants = {name: value for name, value in stacked.items() if name not in trained}
        if not self.parameters:
            raise ValueError("module has no parameters to train.")
        self.template.to("meta")  # only its structure is used from here on
        for value in self.parameters.values():
            value.requires_grad_(True)

    @property
    def dtype(self) -> torch.dtype:
        """The floating point type of the parameters."""
        return next(iter(self.parameters.values())).dtype

    @property
    def n_networks(self) -> int:
        """S."""
        return next(iter(self.parameters.values())).shape[0]

    def __call__(self, masks: dict[str, Tensor], zeta: Tensor) -> Tensor:
        """Evaluate `zeta`, `S x D x R x n_x`: R inputs for each of D weight draws with masks `S x D x shape`.

        Returns `S x D x R x n_y`. Without gradients the inputs are evaluated in blocks, so that memory stays bounded.
        """
        if torch.is_grad_enabled():
            return self._evaluate(masks, zeta)
        return torch.cat([self._evaluate(masks, part) for part in self.blocks(zeta)], dim=2)

    def blocks(self, zeta: Tensor, width: int = 0) -> tuple[Tensor, ...]:
        """`zeta` split along R into blocks that fit into memory, for `width` values per row or those of the network."""
        most = memory.values_at_once(zeta.device) // (zeta.shape[0] * zeta.shape[1] * max(self.width, width))
        parts: tuple[Tensor, ...] = zeta.split(max(1, most), dim=2)
        return parts

    def _evaluate(self, masks: dict[str, Tensor], zeta: Tensor) -> Tensor:

        # functional_call changes the template meanwhile, so threads that predict at the same time need one each.
        template = self.template if torch.is_grad_enabled() else copy.deepcopy(self.template)

        def one_network(state: dict[str, Tensor], inputs: Tensor) -> Tensor:
            for _, layer in _masked_layers(template):
                layer.restart()
            return functional_call(template, state, (inputs,))  # type: ignore[no-any-return]

        state, inputs = self.parameters | self.constants | masks, zeta.flatten(1, 2)
        if self.n_networks == 1:  # without vmap, which is slower and does not support all operations
            outputs = one_network({name: value[0] for name, value in state.items()}, inputs[0]).unsqueeze(0)
        else:
            outputs = torch.vmap(one_network)(state, inputs)
        grouped: Tensor = outputs.unflatten(1, zeta.shape[1:3])
        return grouped

    def in_double(self) -> Self:
        """The same networks in float64, or unchanged where a module of the user does not work in it."""
        changed = copy.copy(self)
        changed.parameters = {name: value.detach().double() for name, value in self.parameters.items()}
        changed.constants = {
            name: value.double() if value.is_floating_point() else value for name, value in self.constants.items()
        }
        return changed if changed.takes_its_dtype() else self

    def takes_its_dtype(self) -> bool:
        """Whether a forward pass works in the floating point type of the parameters."""
        first = next(iter(self.parameters.values()))
        masks = {layer.mask_name: first.new_ones(len(first), 1, *layer.shape) for layer in self.dropout_layers}
        try:
            with torch.no_grad():
                return self._evaluate(masks, first.new_zeros(len(first), 1, 2, self.n_inputs)).dtype == first.dtype
        except RuntimeError:
            return False

    def with_parameters(self, parameters: dict[str, Tensor]) -> Self:
        """Networks with other parameters under the same names, `n S x shape`: n copies of each network."""
        changed = copy.copy(self)
        n_each = len(next(iter(parameters.values()))) // self.n_networks
        changed.parameters = parameters
        changed.constants = {name: value.repeat_interleave(n_each, 0) for name, value in self.constants.items()}
        return changed

    def join(self, others: Sequence[Self]) -> Self:
        """One stack of this one's networks and those of `others`, in order."""
        joined = copy.copy(self)
        for name in ("parameters", "constants"):
            states = [getattr(stack, name) for stack in (self, *others)]
            setattr(joined, name, {key: torch.cat([state[key].detach() for state in states]) for key in states[0]})
        return joined

    def split(self, sizes: Sequence[int]) -> list[Self]:
        """Split the stack into stacks of `sizes` networks, in order."""
        parts = []
        for stop, size in zip(torch.tensor(sizes).cumsum(0).tolist(), sizes, strict=True):
            part = copy.copy(self)
            for name in ("parameters", "constants"):
                state = {key: value.detach()[stop - size : stop].clone() for key, value in getattr(self, name).items()}
                setattr(part, name, state)
            for value in part.parameters.values():
                value.requires_grad_(True)
            parts.append(part)
        return parts

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """The attributes with all tensors on the CPU, so that networks trained on a GPU can be loaded anywhere."""
        on_cpu = {
            name: {key: value.detach().cpu() for key, value in getattr(self, name).items()}
            for name in ("parameters", "constants")
        }
        return self.__dict__ | on_cpu


def _with_masked_dropout(module: nn.Module) -> nn.Module:
    """A copy of `module` with every dropout layer replaced by a `MaskedDropout`."""
    module = copy.deepcopy(module)
    if type(module) in _DROPOUTS:
        module = nn.Sequential(module)
    replaced: dict[nn.Module, MaskedDropout] = {}  # a layer registered twice stays one layer
    for parent in list(module.modules()):
        for name, layer in list(parent._modules.items()):  # noqa: SLF001
            if not isinstance(layer, nn.modules.dropout._DropoutNd):  # noqa: SLF001
                continue
            if type(layer) not in _DROPOUTS:
                raise ValueError(
                    "module: dropout layers must be nn.Dropout, nn.Dropout1d, nn.Dropout2d or nn.Dropout3d, "
                    f"got {type(layer).__name__}."
                )
            if layer.p >= 1:
                raise ValueError(f"module: a dropout rate must be below 1, got {layer.p!r}.")
            replaced.setdefault(layer, MaskedDropout(layer.p, _DROPOUTS[type(layer)]))
            setattr(parent, name, replaced[layer])
    for layer in module.modules():
        if isinstance(layer, _ROW_MIXERS) and (layer.track_running_stats or isinstance(layer, _ROW_MIXERS[0])):
            raise ValueError(
                f"module: {type(layer).__name__} mixes rows or keeps running statistics, so that the prediction for a "
                "row would depend on other rows. Use nn.LayerNorm or nn.GroupNorm."
            )
    return module


def _probe(module: nn.Module, n_inputs: int, n_outputs: int, dtype: torch.dtype) -> tuple[list[DropoutLayer], int]:
    """Evaluate `module` for two rows to find its dropout layers and its width, and to check that it can be used."""
    n_rows = 2
    seen: dict[nn.Module, list[tuple[int, ...]]] = {}
    width = n_inputs

    def look(layer: nn.Module, inputs: tuple[Tensor, ...], output: object) -> None:
        nonlocal width
        if isinstance(output, Tensor):
            width = max(width, output.numel() // n_rows)
        if isinstance(layer, MaskedDropout):
            seen.setdefault(layer, []).append(tuple(inputs[0].shape))

    hooks = [layer.register_forward_hook(look) for layer in module.modules()]
    rows = torch.zeros(n_rows, n_inputs, dtype=dtype)
    try:
        with torch.no_grad():
            before = torch.random.get_rng_state()
            try:
                output = module.train()(rows)
            except RuntimeError as error:
                raise ValueError(f"module cannot take {n_rows} rows of {n_inputs} inputs: {error}") from error
            draws_itself = not torch.equal(before, torch.random.get_rng_state())
    finally:
        for hook in hooks:
            hook.remove()
    if draws_itself:
        raise ValueError(
            "module draws random numbers in its forward pass. Use nn.Dropout layers for them, and not "
            "torch.nn.functional.dropout: the zetas of a row have to share a mask."
        )
    if tuple(output.shape) != (n_rows, n_outputs):
        raise ValueError(f"module must map {n_rows} rows to shape ({n_rows}, {n_outputs}), got {tuple(output.shape)}.")
    layers = []
    for name, layer in _masked_layers(module):
        shapes = seen.get(layer, [])
        if not shapes:
            raise ValueError(f"module: the dropout layer {name!r} is never used.")
        layer.set_uses(len(shapes))
        layers += [_dropout_layer(name, layer, use, shape, n_rows) for use, shape in enumerate(shapes)]
    return layers, width


def _masked_layers(module: nn.Module) -> list[tuple[str, MaskedDropout]]:
    return [(name, layer) for name, layer in module.named_modules() if isinstance(layer, MaskedDropout)]


def _dropout_layer(name: str, layer: MaskedDropout, use: int, shape: tuple[int, ...], n_rows: int) -> DropoutLayer:
    if shape[0] != n_rows:
        raise ValueError(
            f"module: the dropout layer {name!r} gets {shape[0]} rows instead of {n_rows}; "
            "rows must stay the first axis up to this layer."
        )
    features = list(shape[1:])
    shared = layer.shared_axes
    if len(features) < shared + 1:
        raise ValueError(
            f"module: the dropout layer {name!r} is {shared}-D and needs rows x channels x {shared} more axes, "
            f"got shape {shape}."
        )
    features[len(features) - shared :] = [1] * shared
    return DropoutLayer(f"{name}.mask_{use}", layer.rate, tuple(features))


def _stack_state(modules: Sequence[nn.Module], device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """The parameters and buffers of all modules except the masks, `{name: S x shape}`."""
    masks = {f"{name}.mask_{use}" for name, layer in _masked_layers(modules[0]) for use in range(layer.n_uses)}
    states = []
    for module in modules:
        values = [*module.named_parameters(), *module.named_buffers()]
        states.append({name: value.detach() for name, value in values if name not in masks})
    shapes = [{name: tuple(value.shape) for name, value in state.items()} for state in states]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError("module must build networks of one shape; its calls gave different parameters.")

    def cast(value: Tensor) -> Tensor:
        return value.to(device, dtype if value.is_floating_point() else value.dtype)

    return {name: torch.stack([cast(state[name]) for state in states]) for name in states[0]}
