"""ONNX files of fitted networks for other programs; all random numbers are inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import eiv
from eiv.engine.mlp import MLPStack
from eiv.extras import needs
from eiv.inputs import MixturePrior, NormalPrior
from eiv.io.files import write_whole
from eiv.likelihoods import VaryingLikelihood
from eiv.model import FittedModel
from eiv.posteriors import FAMILIES, OnnxTheta
from eiv.training.making import word_for

__all__ = ["export_onnx"]

Array = NDArray[Any]
_OPSET, _IR_VERSION = 17, 8  # from 2022, so that older programs can read the files


def export_onnx(model: FittedModel, path: str | Path) -> None:
    r"""Write the networks of a fitted model as an ONNX file; `EiVRegressor.export(path, "onnx")`.

    .. math:: f = f_{\theta(s, \epsilon)}(\zeta), \qquad \zeta = \mathrm{zeta\_mean} + \mathrm{zeta\_std} \cdot e

    The file draws no random numbers. The noise e of zeta, the number s of the network and the noise :math:`\epsilon` of
    theta are inputs; `docs/modelfiles.md` lists them. Inputs and f are in the units of X and y. For classes the output
    is `probabilities`, the softmax of f. Where noise varies there is a second one, `sigma`, the noise at zeta in units
    of y without known errors, which stays within that of the training rows.

    Args:
        model: a fitted model, with the paper's network or a module of your own that is a plain chain of `Linear`,
            (leaky) ReLU and dropout.
        path: the file; an existing one is replaced. It is written completely or not at all.

    Raises:
        MissingExtraError: where the package onnx is not installed; an ImportError.
        ValueError: where the network, or the family of the weight posterior, cannot be exported.

    Examples:
        >>> import tempfile
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_onnx(EiVRegressor(0.1, epochs=2).fit(X[:, None], y).model_, f"{folder}/model.onnx")

    """
    needs("Export to ONNX", "onnx", extra="onnx")
    import onnx  # noqa: PLC0415

    if model.settings.network == "cosine":
        raise ValueError('A network of cosines cannot be exported to ONNX yet: fit with network="paper" to export.')
    stack = model.posterior.stack
    if not isinstance(stack, MLPStack):
        raise ValueError(
            "module: only chains of Linear, (leaky) ReLU and dropout, such as the paper's network, can be exported. "
            "torch.onnx.export takes any network; the weights are in model.posterior_.stack.parameters."
        )
    if not model.posterior.exports_onnx():
        known = ", ".join(repr(name) for name, family in FAMILIES.items() if family.exports_onnx())
        raise ValueError(
            f"posterior: {model.settings.posterior!r} ({type(model.posterior).__name__}) cannot be exported: it has no "
            f"method onnx_theta of its own, which says how its weights are drawn. These families can be: {known}."
        )
    graph = _Graph(onnx, _dtype(model))
    zeta = _zeta(graph, model)
    graph.input("network", np.int64)
    parameters = {name: graph.of_network(value, name) for name, value in stack.parameters.items()}
    theta = model.posterior.onnx_theta(graph, parameters)
    values = _network(graph, stack, theta, zeta)
    outputs = {"f": _f(graph, model, values)}
    if model.names.classes is not None:
        outputs = {"probabilities": graph.add("Softmax", outputs["f"], axis=-1)}
    if isinstance(model.likelihood, VaryingLikelihood):
        outputs["sigma"] = _sigma(graph, model, model.likelihood, values)
    made = graph.made(outputs, model.n_outputs)
    about = _description(model, theta.masks)
    onnx.helper.set_model_props(made, {"eiv": json.dumps(about, ensure_ascii=False)})
    onnx.checker.check_model(made)
    write_whole(Path(path), made.SerializeToString())


class _Graph:
    """An ONNX graph under construction, an `eiv.posteriors.OnnxGraph`; values are the names of the outputs of nodes."""

    def __init__(self, onnx: Any, dtype: Any) -> None:
        self._onnx, self.dtype = onnx, dtype
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._constants: list[Any] = []

    def add(self, kind: str, *values: str, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(values), [name], **attributes))
        return name

    def constant(self, value: Any, name: str = "") -> str:
        name = name or f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def part(self, value: str, axis: int, start: int, end: int | None) -> str:
        """The slice from `start` up to `end` along an axis."""
        last = np.iinfo(np.int64).max if end is None else end
        return self.add("Slice", value, *(self.constant([number]) for number in (start, last, axis)))

    def of_network(self, values: torch.Tensor, name: str = "") -> str:
        """Those of the network that the input `network` chooses, among values `S x shape`: `shape`."""
        return self.add("Gather", self.constant(values.detach().cpu().numpy(), name), "network", axis=0)

    def noise(self, name: str, shape: Sequence[int]) -> str:
        """Standard normal numbers, an input."""
        return self.input(f"noise_of_{name}", self.dtype, *shape)

    def input(self, name: str, dtype: Any, *shape: str | int) -> str:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        return self.add("Cast", value, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def made(self, outputs: Mapping[str, str], n_outputs: int) -> Any:
        """The whole model, with values as its outputs by their names, `rows x n_y` each."""
        helper, double = self._onnx.helper, self._onnx.TensorProto.DOUBLE
        self._nodes += [helper.make_node("Identity", [value], [name]) for name, value in outputs.items()]
        infos = [helper.make_tensor_value_info(name, double, ("rows", n_outputs)) for name in outputs]
        graph = helper.make_graph(self._nodes, "eiv", self._inputs, infos, self._constants)
        return helper.make_model(
            graph,
            producer_name="eiv",
            producer_version=eiv.__version__,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
        )


def _zeta(graph: _Graph, model: FittedModel) -> str:
    """Zeta, standardised, `rows x n_x`; each of its three inputs may have a single row that serves for all."""
    n_x = model.n_features
    mean, std, noise = (
        graph.input(name, np.float64, rows, n_x)
        for name, rows in (("zeta_mean", "rows"), ("zeta_std", "rows_or_1"), ("noise", "rows_or_1_too"))
    )
    zeta = graph.add("Add", mean, graph.add("Mul", std, noise))
    zeta = graph.add("Sub", zeta, graph.constant(model.x_scaler.shift))
    return graph.cast(graph.add("Div", zeta, graph.constant(model.x_scaler.scale)), graph.dtype)


def _network(graph: _Graph, stack: MLPStack, theta: OnnxTheta, values: str) -> str:
    """All outputs of the network: affine maps, leaky ReLU and masks; plus the change of f along moves."""
    layers, moves = _in_pairs(theta.parameters), _in_pairs(theta.moves)
    change = ""
    for i, (weight, bias) in enumerate(layers):
        if moves:
            moved = graph.add("Gemm", values, *moves[i], transB=1)
            change = graph.add("Add", moved, graph.add("Gemm", change, weight, transB=1)) if change else moved
        values = graph.add("Gemm", values, weight, bias, transB=1)
        if i < len(layers) - 1:
            values, change = _activated(graph, values, change, stack.slope)
            if theta.masks is not None:
                width = stack.dropout_layers[i].shape[0]
                mask = graph.input(f"mask_{i + 1}", graph.dtype, f"rows_or_1_of_mask_{i + 1}", width)
                values = graph.add("Mul", values, mask)
    return graph.add("Add", values, change) if change else values


def _in_pairs(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """The weights and biases of each layer."""
    return list(zip(*[iter(values.values())] * 2, strict=True))


def _f(graph: _Graph, model: FittedModel, values: str) -> str:
    """The outputs of the network that are f, in units of y."""
    if model.posterior.stack.n_outputs > model.n_outputs:
        own = model.likelihood.f_outputs(model.n_outputs)
        values = graph.part(values, 1, own.start or 0, own.stop)
    scaled = graph.add("Mul", graph.cast(values, np.float64), graph.constant(model.y_scaler.scale))
    return graph.add("Add", scaled, graph.constant(model.y_scaler.shift))


def _sigma(graph: _Graph, model: FittedModel, likelihood: VaryingLikelihood, values: str) -> str:
    r"""The noise at zeta in units of y, from the outputs of the network that are not f.

    .. math:: \sigma = \sigma_y \exp \big( \min(\max(g h, \mathrm{low}), \mathrm{high}) \big)
    """
    scale = torch.tensor(model.y_scaler.scale).expand(model.n_outputs)  # a copy: the model is read-only
    limits = likelihood.limits.double().cpu().unflatten(1, (2, -1)).unbind(1)
    state = likelihood.y_noise.double().cpu() * scale, likelihood.share.double().cpu(), *limits
    base, share, low, high = map(graph.of_network, state)
    h = graph.cast(graph.part(values, 1, model.n_outputs, None), np.float64)
    within = graph.add("Min", graph.add("Max", graph.add("Mul", share, h), low), high)
    return graph.add("Mul", base, graph.add("Exp", within))


def _activated(graph: _Graph, values: str, change: str, slope: float | None) -> tuple[str, str]:
    """Leaky ReLU of values, SiLU where it has no slope, and its derivative times a change, if there is one."""
    if slope is not None:
        steepness = graph.constant(np.array([slope], graph.dtype))
        if change:
            below = graph.add("Less", values, graph.constant(np.array([0], graph.dtype)))
            change = graph.add("Where", below, graph.add("Mul", change, steepness), change)
        return graph.add("PRelu", values, steepness), change  # LeakyRelu stores its slope in single precision
    gate = graph.add("Sigmoid", values)
    found = graph.add("Mul", values, gate)
    if change:
        rest = graph.add("Sub", graph.constant(np.array([1], graph.dtype)), gate)
        change = graph.add("Mul", change, graph.add("Add", gate, graph.add("Mul", found, rest)))
    return found, change


def _description(model: FittedModel, masks: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a program has to know to make predictions with the file."""
    prior: Any = model.input_prior
    ours = fields(prior) if type(prior) in (NormalPrior, MixturePrior) else ()
    return {
        "version": eiv.__version__,
        "features": {"n": int(model.n_features), "names": model.names.features},
        "outputs": {"n": int(model.n_outputs), "names": model.names.outputs}
        | ({} if model.names.classes is None else {"classes": model.names.classes.tolist()}),
        "n_networks": model.n_networks,
        "weights": _plain(model.weights),
        "posterior": _word_of(model, "posterior"),
        "masks": masks,
        "input_prior": {"type": type(prior).__name__} | {part.name: _plain(getattr(prior, part.name)) for part in ours},
        "x_err": _plain(model.x_err),
        "laws": None if model.laws is None else [str(law) for law in model.laws],
        "x_err_factor": model.settings.x_err_factor,
        "y_noise": _plain(model.y_noise),
        "likelihood": {
            "name": _word_of(model, "likelihood"),
            "state": {name: _plain(value.double().cpu()) for name, value in model.likelihood.state.items()},
            "y_scale": _plain(model.y_scaler.scale),
        },
    }


def _word_of(model: FittedModel, setting: str) -> str | None:
    """The name of what a setting stands for; None for code of the user's own."""
    value = getattr(model.settings, setting)
    return value if isinstance(value, str) else word_for(setting, value) or None


def _plain(value: Any) -> Any:
    """Numbers and lists for JSON, which has no infinity."""
    if value is None:
        return None
    values = np.asarray(value, dtype=float).tolist()
    return json.loads(json.dumps(values), parse_constant=str)


def _dtype(model: FittedModel) -> Any:
    return np.float64 if model.posterior.stack.dtype == torch.float64 else np.float32
