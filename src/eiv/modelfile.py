"""Saved models: one safetensors file with a JSON header, and no code in it.

The header is in the file's metadata under `eiv`; its digest covers every other byte of the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np
import safetensors
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

import eiv
from eiv import validation as v
from eiv.encoding import Arrays, decode, encode
from eiv.files import written_whole
from eiv.fitting import device_of, new_posterior
from eiv.networks import paper_network
from eiv.posteriors import WeightPosterior
from eiv.posteriors.base import StackPosterior
from eiv.scaling import Scaler
from eiv.streams import network_seeds

if TYPE_CHECKING:
    from eiv.regressor import EiVRegressor

__all__ = ["ModelFileError", "load_model", "read_header", "save_model"]

Model = TypeVar("Model", bound="EiVRegressor")
FORMAT = 1
_MOST_HEADER = 2**25  # bytes; a header of a thousand features has some ten thousand
_START = b'{"__metadata__":{"sha256":"'  # a model file begins with its header's length and these
_NO_DIGEST = b"0" * 64
_CHUNK = 2**20
_NAMES = {  # of the number types in a safetensors file
    np.dtype(kind): name
    for kind, name in {
        "<f8": "F64",
        "<i8": "I64",
        "<u8": "U64",
        "<f4": "F32",
        "<i4": "I32",
        "<u4": "U32",
        "<i2": "I16",
        "<u2": "U16",
        "i1": "I8",
        "u1": "U8",
        "?": "BOOL",
    }.items()
}
_TYPES = {name: kind for kind, name in _NAMES.items()}
_OTHERS = {
    b"PK": "a zip archive, such as torch.save writes",
    b"\x80": "a pickle, and is not opened: a pickle can run any program",
}


class ModelFileError(ValueError):
    r"""A file that is not a model, is damaged, or needs something that is not there.

    .. math:: \mathrm{SHA256}(\text{header}, \text{body}) \ne \mathrm{digest}

    Examples:
        >>> raise ModelFileError("model.eiv is damaged.")
        Traceback (most recent call last):
        ...
        eiv.modelfile.ModelFileError: model.eiv is damaged.

    """


def save_model(model: EiVRegressor, path: str | Path, notes: Mapping[str, Any] | None = None) -> None:
    r"""Write a fitted model to one file, whole or not at all; `EiVRegressor.save` with notes.

    .. math:: (\phi, \sigma_y, \pi(\zeta), \text{scaling}, \text{settings}) \mapsto \text{bytes}

    The same model gives the same bytes. Nothing is pickled. A module of your own is not saved with its weights; it has
    to be given again at load.

    Args:
        model: fitted.
        path: the file; one that is there is replaced.
        notes: what else to keep in the header: numbers, words, lists and mappings of them.

    Examples:
        >>> import tempfile
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_model(EiVRegressor(0.1, epochs=2).fit(X[:, None], y), f"{folder}/m.eiv", {"unit": "mm"})
        ...     read_header(f"{folder}/m.eiv")["notes"]
        {'unit': 'mm'}

    """
    check_is_fitted(model, "posterior_")
    header, arrays = _to_file(model)
    header["notes"] = dict(notes or {})
    try:
        text = json.dumps(header, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"notes must hold finite numbers, words, lists and mappings of them only: {error}.") from error
    ordered = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # aligned in memory
    with written_whole(Path(path)) as part, part.open("wb") as file:
        start = _start_of(text, {name: arrays[name] for name in ordered})
        digest = hashlib.sha256(start)
        for name in ordered:
            digest.update(arrays[name].data)
        file.write(start.replace(_NO_DIGEST, digest.hexdigest().encode(), 1))
        for name in ordered:
            file.write(arrays[name].data)


def load_model(path: str | Path, module: Any = None, kind: type[Model] | None = None) -> Model:
    r"""Read a model from its file; `EiVRegressor.load`.

    .. math:: \text{bytes} \mapsto (\phi, \sigma_y, \pi(\zeta), \text{scaling}, \text{settings})

    Args:
        path: the file.
        module: what `EiVRegressor(module=...)` was, for a model with a network of your own.
        kind: the class of the model; `EiVRegressor`, or one that inherits from it.

    Returns:
        The fitted model, which predicts what the saved one did, to the last bit on the same machine.

    Raises:
        ModelFileError: where the file is not a model, is damaged, is of a newer format, or needs a module.

    Examples:
        >>> import tempfile
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> model = EiVRegressor(0.1, epochs=2).fit(X[:, None], y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/m.eiv")
        ...     bool((load_model(f"{folder}/m.eiv").predict([[0.5]]) == model.predict([[0.5]])).all())
        True

    """
    from eiv.regressor import EiVRegressor  # noqa: PLC0415  (which needs this module)

    chosen: Any = kind or EiVRegressor
    path = Path(path)
    with _opened(path) as (file, size):
        start = _checked_start(file, size, path)
        content = start + file.read()
    header = _header_of(start, path)
    with _complaints(path):
        tensors = dict(safetensors.deserialize(content))  # type: ignore[no-untyped-call]
        arrays = {
            name: np.frombuffer(part["data"], _TYPES[part["dtype"]]).reshape(part["shape"]).copy()
            for name, part in tensors.items()
        }
        model: Model = _from_file(header, arrays, module, chosen, path)
    return model


def read_header(path: str | Path) -> dict[str, Any]:
    r"""What a model file says of its model, without the weights; the whole file is checked all the same.

    .. math:: \text{bytes} \mapsto (\text{format}, \text{versions}, \text{settings}, \text{training}, \text{notes})

    Args:
        path: the file.

    Returns:
        The header: numbers, words, lists and mappings of them, as `docs/modelfiles.md` lists them.

    Raises:
        ModelFileError: where the file is not a model, is damaged, or is of a newer format.

    Examples:
        >>> import tempfile
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     EiVRegressor(0.1, epochs=2).fit(X[:, None], y).save(f"{folder}/m.eiv")
        ...     read_header(f"{folder}/m.eiv")["features"]
        {'n': 1, 'names': None}

    """
    path = Path(path)
    with _opened(path) as (file, size):
        return _header_of(_checked_start(file, size, path), path)


def _to_file(model: EiVRegressor) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays that make up a fitted model."""
    arrays: Arrays = {}
    now = model.get_params(deep=False)
    changed = {name: value for name, value in now.items() if value is not model._fitted_params.get(name)}
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
    stack = model.posterior_.stack
    for name, value in {**stack.parameters, **stack.constants}.items():
        arrays[f"network/{name}"] = value.detach().cpu().numpy()
    if isinstance(model.posterior_, StackPosterior):
        for name, value in model.posterior_.state.items():
            arrays[f"posterior/{name}"] = value.detach().cpu().numpy()
    return header, {name: np.ascontiguousarray(value) for name, value in arrays.items()}


def _from_file(header: dict[str, Any], arrays: Arrays, module: Any, kind: type[Model], path: Path) -> Model:
    """The model that `_to_file` was given."""
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
    for name, constraint in kind._constraints.items():
        if name in settings:
            v.check(name, settings[name], constraint)

    model = kind(**settings)
    n_x, n_y = header["features"]["n"], header["outputs"]["n"]
    for name, value in (("features", n_x), ("outputs", n_y), ("networks", header["n_networks"])):
        v.check(f"the number of {name}", value, v.integer(1))
    v.check("the seed", header["seed"], v.integer(0))
    model.n_features_in_, model.n_outputs_ = n_x, n_y
    if header["features"]["names"] is not None:
        model.feature_names_in_ = np.array(_words(header["features"]["names"], n_x), dtype=object)
    names = header["outputs"]["names"]
    model._output_names = None if names is None else tuple(_words(names, n_y))
    model._y_has_columns = bool(header["outputs"]["columns"])
    model._seed, model._n_fitted_networks = header["seed"], header["n_networks"]
    model._x_scaler = Scaler(_floats(arrays, "x/shift", n_x), _floats(arrays, "x/scale", n_x))
    model._y_scaler = Scaler(_floats(arrays, "y/shift", n_y), _floats(arrays, "y/scale", n_y))
    model._x_spread, model.y_noise_ = _floats(arrays, "x/spread", n_x), _floats(arrays, "y_noise", n_y)
    model.x_quantiles_, model.x_err_median_ = _training_rows(arrays, n_x)
    model.loss_curve_ = _floats(arrays, "loss_curve", header["training"]["epochs"], model._n_fitted_networks)
    model.zeta_ess_, model.bound_gap_ = (_optional(header["training"][name]) for name in ("zeta_ess", "bound_gap"))
    model.x_err_ = decode(header["x_err"], arrays)
    if model.x_err_ is not None and np.shape(model.x_err_) not in ((n_x,), (n_x, n_x)):
        raise ValueError("x_err has the wrong shape")
    model.input_prior_ = decode(header["input_prior"], arrays)
    if not hasattr(model.input_prior_, "posterior"):
        raise ValueError("there is no input prior")
    model._fitted_params = model.get_params(deep=False)
    model.posterior_ = _posterior(model, arrays, path)
    model.set_params(**changed)
    return model


def _training_rows(arrays: Arrays, n_x: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What is known of the training rows: quantiles of the features, and their median errors."""
    quantiles, errors = _floats(arrays, "x/quantiles", 5, n_x), _floats(arrays, "x/err_median", n_x)
    if not np.isfinite(quantiles).all() or (np.diff(quantiles, axis=0) < 0).any():
        raise ValueError("the quantiles of its features are not in order")
    if not ((errors >= 0) & np.isfinite(errors)).all():
        raise ValueError("the errors of its features are not finite, or negative")
    return quantiles, errors


def _posterior(model: EiVRegressor, arrays: Arrays, path: Path) -> WeightPosterior:
    """The weight posterior: fresh networks, which then take over the saved weights."""
    saved = {name.removeprefix("network/"): value for name, value in arrays.items() if name.startswith("network/")}
    if model.module is None:
        _check_paper_network(model, saved)
    posterior = new_posterior(model, network_seeds(model._seed, model._n_fitted_networks), device_of(model.device))
    stack = posterior.stack
    values = stack.parameters | stack.constants
    shapes = {name: (tuple(value.shape), value.dtype) for name, value in values.items()}
    found = {name: (value.shape, torch.from_numpy(value).dtype) for name, value in saved.items()}
    if shapes != found:
        differing = sorted(name for name in shapes.keys() | found.keys() if shapes.get(name) != found.get(name))
        raise ModelFileError(
            f"{path}: its weights do not fit the network, first {differing[0]!r}: the file has "
            f"{found.get(differing[0], ('none',))[0]}, the network {shapes.get(differing[0], ('none',))[0]}."
        )
    with torch.no_grad():
        for name, value in values.items():
            value.copy_(torch.from_numpy(saved[name]))
    if isinstance(posterior, StackPosterior):
        like = posterior.parameters[0].device
        prefix = "posterior/"
        state = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
        posterior.load_state({name: torch.from_numpy(value).to(like) for name, value in state.items()})
    return posterior


def _check_paper_network(model: EiVRegressor, saved: Arrays) -> None:
    """Compare sizes before a network is made, so that a forged header cannot ask for more memory than the file has."""
    if 2 * (model.n_hidden + 1) != len(saved):
        raise ValueError(f"n_hidden is {model.n_hidden}, but there are weights of {len(saved) / 2:g} layers")
    with torch.device("meta"):
        network: nn.Module = paper_network(
            model.n_features_in_, model.n_outputs_, model.hidden_units, model.n_hidden, model.dropout
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


def _optional(value: Any) -> float | None:
    if value is not None and not isinstance(value, float):
        raise ValueError(f"{value!r} is not a number")
    return value


def _words(values: Any, n: int) -> list[str]:
    if not isinstance(values, list) or len(values) != n or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{n} names are wanted")
    return values


def _start_of(header: str, arrays: Arrays) -> bytes:
    """The first part of a safetensors file, up to the arrays; the library's own writer shuffles the metadata."""
    content: dict[str, Any] = {"__metadata__": {"sha256": _NO_DIGEST.decode(), "eiv": header}}
    end = 0
    for name, value in arrays.items():
        begin, end = end, end + value.nbytes
        if value.dtype not in _NAMES:
            raise ValueError(f"A tensor of type {value.dtype} ({name!r}) cannot be saved.")
        content[name] = {"dtype": _NAMES[value.dtype], "shape": list(value.shape), "data_offsets": [begin, end]}
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise ValueError(f"The header would have {len(text):,} bytes, more than {_MOST_HEADER:,}.")
    return len(text).to_bytes(8, "little") + text


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file.")
    with path.open("rb") as file:
        yield file, path.stat().st_size


def _checked_start(file: IO[bytes], size: int, path: Path) -> bytes:
    """The file up to its arrays, once the whole has been compared with its digest; `file` stands at the arrays."""
    start = file.read(8 + len(_START))
    if start[8:] != _START:
        what = next((words for magic, words in _OTHERS.items() if start.startswith(magic)), "")
        raise ModelFileError(f"{path} is not a model file of eiv" + (f": it is {what}." if what else "."))
    length = int.from_bytes(start[:8], "little")
    if length > min(_MOST_HEADER, size - 8):
        raise ModelFileError(f"{path} is damaged: its header would have {length:,} bytes, the file has {size:,}.")
    start += file.read(8 + length - len(start))
    place = slice(8 + len(_START), 8 + len(_START) + len(_NO_DIGEST))
    digest = hashlib.sha256(start[: place.start] + _NO_DIGEST + start[place.stop :])
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    if digest.hexdigest().encode() != start[place]:
        raise ModelFileError(f"{path} is damaged or incomplete: its content does not match its digest.")
    file.seek(len(start))
    return start


def _header_of(start: bytes, path: Path) -> dict[str, Any]:
    with _complaints(path):
        header = json.loads(json.loads(start[8:])["__metadata__"]["eiv"])
        written = header["format"]
        v.check("the format", written, v.integer(1))
        if written > FORMAT:
            raise ModelFileError(
                f"{path} is of format {written}, written by eiv {header['versions']['eiv']}; eiv {eiv.__version__} "
                f"reads formats up to {FORMAT}. Update eiv to load it."
            )
        if not isinstance(header, dict) or not isinstance(header["notes"], dict):
            raise TypeError("the header is not a mapping")
    return header


@contextlib.contextmanager
def _complaints(path: Path) -> Iterator[None]:
    """Turn what a forged header can cause into one error."""
    try:
        yield
    except ModelFileError:
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RuntimeError,
        OverflowError,
        safetensors.SafetensorError,
    ) as error:
        raise ModelFileError(f"{path} is not a model that eiv {eiv.__version__} can read: {error}") from error
