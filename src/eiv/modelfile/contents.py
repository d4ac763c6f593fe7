"""A fitted model as a header and arrays, and back. What is read is checked before it is believed."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import eiv
from eiv.fitting import device_of, new_posterior
from eiv.inputs.errors import check_x_err
from eiv.modelfile.container import ModelFileError
from eiv.modelfile.encoding import Arrays, decode, encode
from eiv.modelfile.header import FORMAT, check_settings
from eiv.networks import paper_network
from eiv.posteriors import WeightPosterior
from eiv.posteriors.base import StackPosterior
from eiv.recipes import settings_for
from eiv.scaling import Scaler
from eiv.streams import network_seeds

if TYPE_CHECKING:
    from eiv.regressor import EiVRegressor

Model = TypeVar("Model", bound="EiVRegressor")


def to_file(model: EiVRegressor) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays that make up a fitted model."""
    arrays: Arrays = {}
    now = model.get_params(deep=False)
    changed = {name: value for name, value in now.items() if value is not model._fitted_params.get(name)}
    check_settings(now, model._constraints)
    check_settings(model._fitted_params, model._constraints)
    names = getattr(model, "feature_names_in_", None)
    header = {
        "format": FORMAT,
        "versions": {
            "eiv": eiv.__version__,
            "torch": torch.__version__.split("+")[0],
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "settings": _encoded_settings(model._fitted_params, arrays, "settings"),
        "changed_since_fit": _encoded_settings(changed, arrays, "changed"),
        "features": {"n": int(model.n_features_in_), "names": None if names is None else list(map(str, names))},
        "outputs": {
            "n": int(model.n_outputs_),
            "names": None if model._output_names is None else list(model._output_names),
            "columns": bool(model._y_has_columns),
        },
        "seed": model._seed,
        "n_networks": model._n_fitted_networks,
        "x_err": encode("x_err_", model.x_err_, arrays, "x_err"),
        "input_prior": encode("input_prior_", model.input_prior_, arrays, "input_prior"),
        "training": {
            "epochs": len(model.loss_curve_),
            "first_loss": float(model.loss_curve_[0].mean()),
            "last_loss": float(model.loss_curve_[-1].mean()),
            "y_noise": model.y_noise_.tolist(),
            "zeta_ess": model.zeta_ess_,
            "bound_gap": model.bound_gap_,
        },
    }
    for name, scaler in (("x", model._x_scaler), ("y", model._y_scaler)):
        arrays |= {f"{name}/shift": scaler.shift, f"{name}/scale": scaler.scale}
    arrays |= {"x/spread": model._x_spread, "y_noise": model.y_noise_, "loss_curve": model.loss_curve_}
    arrays |= {"x/quantiles": model.x_quantiles_, "x/err_median": model.x_err_median_}
    arrays["y/err_median"] = model.y_err_median_
    stack = model.posterior_.stack
    for name, value in {**stack.parameters, **stack.constants}.items():
        arrays[f"network/{name}"] = value.detach().cpu().numpy()
    if isinstance(model.posterior_, StackPosterior):
        for name, value in model.posterior_.state.items():
            arrays[f"posterior/{name}"] = value.detach().cpu().numpy()
    return header, {name: np.ascontiguousarray(value) for name, value in arrays.items()}


def from_file(header: dict[str, Any], arrays: Arrays, module: Any, kind: type[Model], path: Path) -> Model:
    """The model that `to_file` was given."""
    settings = _decoded_settings(header["settings"], arrays, kind, header, path)
    changed = _decoded_settings(header["changed_since_fit"], arrays, kind, header, path)
    if settings.get("module") is None and module is not None:
        raise ModelFileError(f"{path}: the model has the paper's network; load it without a module.")
    if settings.get("module") is not None:
        if module is None:
            raise ModelFileError(
                f"{path}: the model has a network of its own ({settings['module']}), which the file does not hold. "
                "Give it again: EiVRegressor.load(path, module=...)."
            )
        settings["module"] = module
    if changed.get("module") is not None:
        changed["module"] = module
    for values in (settings, changed):
        if "device" in values:
            values["device"] = _device_here(values["device"])
        check_settings(values, kind._constraints)

    model = kind(**settings)
    n_x, n_y = header["features"]["n"], header["outputs"]["n"]
    model.n_features_in_, model.n_outputs_ = n_x, n_y
    if header["features"]["names"] is not None:
        model.feature_names_in_ = np.array(_words(header["features"]["names"], n_x), dtype=object)
    names = header["outputs"]["names"]
    model._output_names = None if names is None else tuple(_words(names, n_y))
    model._y_has_columns = header["outputs"]["columns"]
    if n_y > 1 and not model._y_has_columns:
        raise ValueError(f"{n_y} outputs without columns")
    model._seed, model._n_fitted_networks = header["seed"], header["n_networks"]
    model._x_scaler, model._y_scaler = _scaler(arrays, "x", n_x), _scaler(arrays, "y", n_y)
    model._x_spread, model.y_noise_ = _spreads(arrays, "x/spread", n_x), _spreads(arrays, "y_noise", n_y)
    model.x_quantiles_, model.x_err_median_ = _quantiles(arrays, n_x), _spreads(arrays, "x/err_median", n_x)
    known = "y/err_median" in arrays  # older files lack it
    model.y_err_median_ = _spreads(arrays, "y/err_median", n_y) if known else np.zeros(n_y)
    model.loss_curve_ = _floats(arrays, "loss_curve", header["training"]["epochs"], model._n_fitted_networks)
    model.zeta_ess_, model.bound_gap_ = (header["training"][name] for name in ("zeta_ess", "bound_gap"))
    model.x_err_ = _x_err(decode(header["x_err"], arrays), n_x)
    model.input_prior_ = decode(header["input_prior"], arrays)
    if not hasattr(model.input_prior_, "posterior"):
        raise ValueError("there is no input prior")
    model._fitted_params = model.get_params(deep=False)
    model.settings_ = settings_for(model._fitted_params, n_rows=1)
    model.posterior_ = _posterior(model, arrays, path)
    _try_prior(model)
    model.set_params(**changed)
    return model


def _posterior(model: EiVRegressor, arrays: Arrays, path: Path) -> WeightPosterior:
    """The weight posterior: fresh networks, which then take over the saved weights."""
    saved = {name.removeprefix("network/"): value for name, value in arrays.items() if name.startswith("network/")}
    if not saved or any(value.shape[:1] != (model._n_fitted_networks,) for value in saved.values()):
        raise ValueError(f"there are not the weights of {model._n_fitted_networks} networks")
    if any(value.dtype.kind == "f" and not np.isfinite(value).all() for value in saved.values()):
        raise ValueError("some of its weights are no finite numbers")
    if model.module is None:
        _check_paper_network(model, saved)
    posterior = new_posterior(model, network_seeds(model._seed, model._n_fitted_networks), device_of(model.device))
    stack = posterior.stack
    values = stack.parameters | stack.constants
    shapes = {name: (tuple(value.shape), value.dtype) for name, value in values.items()}
    found = {name: (value.shape, torch.from_numpy(value).dtype) for name, value in saved.items()}
    if shapes != found:
        differing = sorted(name for name in shapes.keys() | found.keys() if shapes.get(name) != found.get(name))
        has, wants = (_in_words(kind.get(differing[0])) for kind in (found, shapes))
        raise ModelFileError(
            f"{path}: its weights do not fit the network, first {differing[0]!r}: the file has {has}, the network "
            f"{wants}."
        )
    with torch.no_grad():
        for name, value in values.items():
            value.copy_(torch.from_numpy(saved[name]))
    if isinstance(posterior, StackPosterior):
        like = posterior.parameters[0].device
        prefix = "posterior/"
        state = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
        if any(value.dtype.kind == "f" and np.isnan(value).any() for value in state.values()):
            raise ValueError(f"some numbers of the posterior {model.settings_.posterior!r} are missing")
        posterior.load_state({name: torch.from_numpy(value).to(like) for name, value in state.items()})
        if not posterior.kept and posterior.kept_shapes({}):
            raise ValueError(f"there is no state of the posterior {model.settings_.posterior!r}")
    return posterior


def _in_words(kind: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    return "none" if kind is None else f"{str(kind[1]).removeprefix('torch.')} of shape {kind[0]}"


def _check_paper_network(model: EiVRegressor, saved: Arrays) -> None:
    """Compare sizes before a network is made, so that a forged header cannot ask for more memory than the file has."""
    settings = model.settings_
    if 2 * (settings.n_hidden + 1) != len(saved):
        raise ValueError(f"n_hidden is {settings.n_hidden}, but there are weights of {len(saved) / 2:g} layers")
    with torch.device("meta"):
        network: nn.Module = paper_network(
            model.n_features_in_, model.n_outputs_, settings.hidden_units, settings.n_hidden, settings.dropout
        )
    expected = {name: (model._n_fitted_networks, *value.shape) for name, value in network.named_parameters()}
    if expected != {name: value.shape for name, value in saved.items()}:
        raise ValueError("its weights do not have the sizes that its settings ask for")


def _encoded_settings(settings: Mapping[str, Any], arrays: Arrays, where: str) -> dict[str, Any]:
    encoded = {}
    for name, value in settings.items():
        if name == "module" and value is not None:
            encoded[name] = getattr(value, "__qualname__", type(value).__qualname__)
        elif name == "random_state" and isinstance(value, np.random.RandomState):
            encoded[name] = None  # `seed` has what came out of it
        else:
            encoded[name] = encode(name, value, arrays, f"{where}/{name}")
    return encoded


def _decoded_settings(
    encoded: Mapping[str, Any], arrays: Arrays, kind: type[EiVRegressor], header: Mapping[str, Any], path: Path
) -> dict[str, Any]:
    known = kind._get_param_names()
    unknown = sorted(set(encoded) - set(known))
    if unknown:
        raise ModelFileError(
            f"{path}: its settings {unknown} are not known to eiv {eiv.__version__}; it was written by eiv "
            f"{header['versions']['eiv']}."
        )
    return {name: decode(value, arrays) for name, value in encoded.items()}


def _device_here(device: object) -> object:
    """The device of the settings where this machine has it, else "auto"."""
    if isinstance(device, str) and device.startswith("cuda"):
        index = torch.device(device).index or 0
        return device if index < torch.cuda.device_count() else "auto"
    return device


def _floats(arrays: Arrays, name: str, *shape: int) -> NDArray[np.float64]:
    values = arrays[name]
    if values.shape != shape or values.dtype != np.float64:
        raise ValueError(f"{name} is {values.dtype} of shape {values.shape}, not float64 of {shape}")
    return values


def _spreads(arrays: Arrays, name: str, n: int) -> NDArray[np.float64]:
    values = _floats(arrays, name, n)
    if not ((values >= 0) & (values < np.inf)).all():
        raise ValueError(f"{name} must not be negative or infinite")
    return values


def _quantiles(arrays: Arrays, n_x: int) -> NDArray[np.float64]:
    values = _floats(arrays, "x/quantiles", 5, n_x)
    if not np.isfinite(values).all() or (np.diff(values, axis=0) < 0).any():
        raise ValueError("the quantiles of its features are not in order")
    return values


def _scaler(arrays: Arrays, name: str, n: int) -> Scaler:
    """Shifts and scales; an infinite scale is that of a feature without spread."""
    shift, scale = _floats(arrays, f"{name}/shift", n), _floats(arrays, f"{name}/scale", n)
    if not np.isfinite(shift).all() or not (scale > 0).all() or (name == "y" and not np.isfinite(scale).all()):
        finite = " and finite" if name == "y" else ""
        raise ValueError(f"{name}/shift must be finite, {name}/scale above zero{finite}")
    return Scaler(shift, scale)


def _x_err(x_err: Any, n_x: int) -> NDArray[np.float64] | None:
    if x_err is None:
        return None
    if not isinstance(x_err, np.ndarray) or x_err.dtype != np.float64 or x_err.shape not in ((n_x,), (n_x, n_x)):
        raise ValueError("x_err has the wrong shape")
    check_x_err("x_err", x_err, n_x)
    return x_err


def _try_prior(model: EiVRegressor) -> None:
    """See to it that the input prior is one of the features that the model has."""
    error = np.ones(model.n_features_in_) if model.x_err_ is None else model.x_err_
    like = model.posterior_.parameters[0]
    model._zeta_posterior(model._x_scaler.shift[None], error[None], like.device, like.dtype)


def _words(values: Any, n: int) -> list[str]:
    if not isinstance(values, list) or len(values) != n or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{n} names are wanted")
    return values
