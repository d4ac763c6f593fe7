"""A fitted model as a header and arrays, and back. Everything that is read is checked before it is used."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random import SeedSequence
from numpy.typing import NDArray

import eiv
from eiv import validation as v
from eiv.engine.streams import network_seeds
from eiv.inputs import LearnedSizes, MixturePrior, SizeNode, TrainingCloud
from eiv.io.modelfile.container import Arrays, ModelFileError
from eiv.io.modelfile.encoding import decode, encode
from eiv.io.modelfile.header import FORMAT, check_settings, saved_weights
from eiv.io.modelfile.names import encoded_names, names_of
from eiv.io.modelfile.own import OWN, check_own, encode_setting, is_own
from eiv.io.modelfile.values import floats, laws_of, not_negative, quantiles_of, scaler_of, sentence_of, x_err_of
from eiv.likelihoods import Likelihood
from eiv.model import FittedModel, Record
from eiv.posteriors import WeightPosterior
from eiv.training.making import device_of, likelihood_of, network_of, new_likelihood, new_posterior
from eiv.training.settings import RECIPES, SETTINGS, Settings, settings_for


class Saved(NamedTuple):
    """The content of a file: the model, and the arguments of its estimator that were changed since the fit."""

    model: FittedModel
    changed: dict[str, Any]

    @property
    def to_predict(self) -> FittedModel:
        """The model with the numbers of draws that its estimator had when it was saved."""
        return self.model.with_draws(self.changed.get("n_theta"), self.changed.get("n_zeta"))


def to_file(model: FittedModel, changed: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays that make up a fitted model."""
    arrays: Arrays = {}
    for settings in (model.arguments, dict(model.arguments) | dict(changed)):
        check_settings(settings)
    record = model.record
    header = {
        "format": FORMAT,
        "versions": {
            "eiv": eiv.__version__,
            "torch": torch.__version__.split("+")[0],
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "settings": _encoded_settings(model.arguments, arrays, "settings"),
        "recipe": RECIPES[model.arguments["recipe"]],
        "changed_since_fit": _encoded_settings(changed, arrays, "changed"),
        **encoded_names(model),
        "seed": model.seed,
        "n_networks": model.n_networks,
        "weights": model.weights.tolist(),
        "x_err": encode("x_err_", model.x_err, arrays, "x_err"),
        "laws": encode("laws", model.laws, arrays, "laws"),
        "input_prior": encode_setting("input_prior", model.input_prior, arrays, "input_prior"),
        "cloud": _encoded_cloud(model.cloud, arrays),
        "sizes": _encoded_sizes(model.sizes, arrays),
        "training": {
            "epochs": len(record.loss_curve),
            "first_loss": float(record.loss_curve[0].mean()),
            "last_loss": float(record.loss_curve[-1].mean()),
            "y_noise": model.y_noise.tolist(),
            "likelihood": model.likelihood.describe(model.y_scaler.scale, model.pool),
            "zeta_ess": record.zeta_ess,
            "bound_gap": record.bound_gap,
            "evidence": record.evidence,
            "likelihood_choice": record.likelihood_choice,
        },
    }
    for name, scaler in (("x", model.x_scaler), ("y", model.y_scaler)):
        arrays |= {f"{name}/shift": scaler.shift, f"{name}/scale": scaler.scale}
    arrays |= {"x/spread": record.x_spread, "y_noise": model.y_noise, "loss_curve": record.loss_curve}
    arrays |= {"x/quantiles": record.x_quantiles, "x/err_median": record.x_err_median}
    arrays["y/err_median"] = record.y_err_median
    stack = model.posterior.stack
    tensors = {f"network/{name}": value for name, value in {**stack.parameters, **stack.constants}.items()}
    tensors |= {f"posterior/{name}": value for name, value in model.posterior.state.items()}
    tensors |= {f"likelihood/{name}": value for name, value in model.likelihood.state.items()}
    arrays |= {name: value.detach().cpu().numpy() for name, value in tensors.items()}
    return header, {name: np.ascontiguousarray(value) for name, value in arrays.items()}


def from_file(header: dict[str, Any], arrays: Arrays, own: Mapping[str, Any], path: Path) -> Saved:
    """The model that `to_file` was given; `own` is the user's own code, by the name of its setting."""
    arguments = _decoded_settings(header["settings"], arrays, own, header, path)
    changed = _decoded_settings(header["changed_since_fit"], arrays, own, header, path)
    if arguments.get("module") is None and own.get("module") is not None:
        raise ModelFileError(f"{path}: the model has the paper's network; load it without a module.")
    for values in (arguments, changed):
        if "device" in values:
            values["device"] = _device_here(values["device"])
        check_settings(values)
    settings = settings_for(arguments, n_rows=1)
    n_x, n_y, names = header["features"]["n"], header["outputs"]["n"], names_of(header, settings)
    y_scaler, y_noise = scaler_of(arrays, "y", n_y), not_negative(arrays, "y_noise", n_y)
    saved = saved_weights(arrays, header["n_networks"])  # before memory is taken by sizes that may be forged
    seeds = network_seeds(header["seed"], header["n_networks"])
    posterior = _posterior(settings, n_x, n_y, seeds, saved, arrays, path)
    prior = _decoded("input_prior", header["input_prior"], arrays, own, path)
    if not hasattr(prior, "posterior"):
        if is_own("input_prior", header["input_prior"]):
            raise ModelFileError(
                f"{path}: input_prior must be the prior as it was fitted, `input_prior_` of the model that was saved "
                f"(of type {header['input_prior']['name']}), got {prior!r}, which still has to be fitted."
            )
        raise ValueError("there is no input prior")
    check_own(header, own, path)
    model = FittedModel(
        settings=settings,
        arguments=arguments,
        seed=header["seed"],
        x_scaler=scaler_of(arrays, "x", n_x),
        y_scaler=y_scaler,
        input_prior=prior,
        posterior=posterior,
        likelihood=_likelihood(settings, y_noise / y_scaler.scale, posterior, arrays),
        weights=np.array(header.get("weights", [1 / len(seeds)] * len(seeds)), dtype=float),  # older files have none
        x_err=x_err_of(decode(header["x_err"], arrays), n_x),
        laws=laws_of(decode(header.get("laws"), arrays), n_x),  # older files have none
        n_features=n_x,
        n_outputs=n_y,
        names=names,
        record=_record(header, arrays, n_x, n_y),
    )
    _try_prior(model)
    cloud = _cloud(header.get("cloud"), arrays, model)  # older files have none
    sizes = _sizes(header.get("sizes"), arrays, model, own, path)  # older files have none
    if sizes is not None:
        cloud = max(sizes.nodes, key=lambda node: node.share).cloud
    return Saved(replace(model, cloud=cloud, sizes=sizes), changed)


def _record(header: dict[str, Any], arrays: Arrays, n_x: int, n_y: int) -> Record:
    """The record of the training."""
    training, known = header["training"], "y/err_median" in arrays  # older files lack it
    return Record(
        loss_curve=floats(arrays, "loss_curve", training["epochs"], header["n_networks"]),
        x_spread=not_negative(arrays, "x/spread", n_x),
        x_quantiles=quantiles_of(arrays, n_x),
        x_err_median=not_negative(arrays, "x/err_median", n_x),
        y_err_median=not_negative(arrays, "y/err_median", n_y) if known else np.zeros(n_y),
        zeta_ess=training["zeta_ess"],
        bound_gap=training["bound_gap"],
        evidence=training.get("evidence"),  # older files have neither
        likelihood_choice=sentence_of(training.get("likelihood_choice", "")),
    )


def _encoded_sizes(sizes: LearnedSizes | None, arrays: Arrays) -> dict[str, Any] | None:
    """What was learned of the size of the errors of X, and what belongs to each of its nodes."""
    if sizes is None:
        return None
    nodes = [
        {
            "factor": node.factor.tolist(),
            "share": node.share,
            "input_prior": encode_setting("input_prior", node.input_prior, arrays, f"sizes/{place}/prior"),
            "cloud": _encoded_cloud(node.cloud, arrays, f"sizes/{place}/cloud"),
        }
        for place, node in enumerate(sizes.nodes)
    ]
    numbers = {"factor": sizes.factor, "std": sizes.std, "prior_std": sizes.prior_std}
    return {name: values.tolist() for name, values in numbers.items()} | {"nodes": nodes}


def _sizes(encoded: Any, arrays: Arrays, model: FittedModel, own: Mapping[str, Any], path: Path) -> LearnedSizes | None:
    """What `_encoded_sizes` was given; each node is tried as a model of its own."""
    if encoded is None:
        return None
    factor, std, prior_std = (
        not_negative({name: np.array(encoded[name], dtype=float)}, name, model.n_features)
        for name in ("factor", "std", "prior_std")
    )
    nodes = []
    for each in encoded["nodes"]:
        v.check("the share of a size", each["share"], v.real(0, below=1.0001))
        own_factor = not_negative({"factor": np.array(each["factor"], dtype=float)}, "factor", model.n_features)
        prior = _decoded("input_prior", each["input_prior"], arrays, own, path)
        if not hasattr(prior, "posterior"):
            raise ValueError("there is no input prior of a size")
        part = replace(model, input_prior=prior, sizes=LearnedSizes(own_factor, std, prior_std))
        _try_prior(part)
        nodes.append(SizeNode(own_factor, float(each["share"]), prior, _cloud(each["cloud"], arrays, part)))
    if not nodes or abs(sum(node.share for node in nodes) - 1) > 1e-9:
        raise ValueError("the shares of its sizes must add up to one")
    return LearnedSizes(factor, std, prior_std, tuple(nodes), model.names.features)


def _encoded_cloud(cloud: TrainingCloud | None, arrays: Arrays, where: str = "cloud") -> dict[str, Any] | None:
    """Where the training rows lie, as far as the file does not say it elsewhere: as the input prior, and as quantiles.

    The prior of a model that had none learned is no code of the user's own, but a normal distribution of x.
    """
    if cloud is None:
        return None
    prior = None if cloud.of_zeta else encode("cloud", cloud.prior, arrays, where)
    return {"rows": cloud.n_rows, "stretch": cloud.stretch, "normal": prior}


def _cloud(encoded: Any, arrays: Arrays, model: FittedModel) -> TrainingCloud | None:
    """What `_encoded_cloud` was given; what it is made of is tried on the middle of the rows."""
    if encoded is None:
        return None
    v.check("the rows of its cloud", encoded["rows"], v.integer(2, 10**15))
    v.check("the stretch of its cloud", encoded["stretch"], v.real(1))
    of_zeta = encoded["normal"] is None
    prior = model.input_prior if of_zeta else decode(encoded["normal"], arrays)
    if not isinstance(prior, MixturePrior):
        raise TypeError("its cloud has no distribution")
    quantiles, usual = model.record.x_quantiles, model.factor * model.record.x_err_median
    cloud = TrainingCloud(prior, of_zeta, float(encoded["stretch"]), encoded["rows"], quantiles, usual)
    cloud.likeness(quantiles[2:3], usual[None])
    return cloud


def _likelihood(settings: Settings, y_noise: NDArray[Any], posterior: WeightPosterior, arrays: Arrays) -> Likelihood:
    """The likelihood of all networks; older files hold one noise that all networks share."""
    like, n_networks = posterior.parameters[0], posterior.stack.n_networks
    shared = torch.from_numpy(np.tile(y_noise, (n_networks, 1)))
    prefix = "likelihood/"
    state = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    likelihood = new_likelihood(settings, shared)
    if not state:
        return likelihood
    later = {name: likelihood.state[name].numpy() for name in likelihood.later_state if name in likelihood.state}
    state = later | state
    wanted = {name: tuple(value.shape) for name, value in likelihood.state.items()}
    if {name: value.shape for name, value in state.items()} != wanted:
        raise ValueError("the state of its likelihood does not have the sizes that its settings require")
    if not all(value.dtype.kind == "f" and np.isfinite(value).all() for value in state.values()):
        raise ValueError("the state of its likelihood must be finite numbers")
    fitted = likelihood.with_state({name: torch.from_numpy(value).to(like.device) for name, value in state.items()})
    if fault := fitted.fault():
        raise ValueError(fault)
    return fitted


def _posterior(
    settings: Settings,
    n_x: int,
    n_y: int,
    seeds: Sequence[SeedSequence],
    saved: Arrays,
    arrays: Arrays,
    path: Path,
) -> WeightPosterior:
    """The weight posterior: new networks, with the saved weights copied into them."""
    if settings.module is None:
        _check_network(settings, n_x, n_y, len(seeds), saved)
    posterior = new_posterior(settings, n_x, n_y, seeds, device_of(settings.device))
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
    like = posterior.parameters[0].device
    prefix = "posterior/"
    state = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    if any(value.dtype.kind == "f" and np.isnan(value).any() for value in state.values()):
        raise ValueError(f"some numbers of the posterior {settings.posterior!r} are missing")
    posterior.load_state({name: torch.from_numpy(value).to(like) for name, value in state.items()})
    if not posterior.kept and posterior.kept_shapes({}):
        raise ValueError(f"there is no state of the posterior {settings.posterior!r}")
    return posterior


def _in_words(kind: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    return "none" if kind is None else f"{str(kind[1]).removeprefix('torch.')} of shape {kind[0]}"


def _check_network(settings: Settings, n_x: int, n_y: int, n_networks: int, saved: Arrays) -> None:
    """Compare sizes before a network is made, so that a forged header cannot ask for more memory than the file has."""
    if settings.network == "paper" and 2 * (settings.n_hidden + 1) != len(saved):
        raise ValueError(f"n_hidden is {settings.n_hidden}, but there are weights of {len(saved) / 2:g} layers")
    with torch.device("meta"):
        network = network_of(settings, n_x, likelihood_of(settings).width(n_y))
    expected = {name: (n_networks, *value.shape) for name, value in network.named_parameters()}
    if expected != {name: value.shape for name, value in saved.items()}:
        raise ValueError("its weights do not have the sizes that its settings require")


def _encoded_settings(settings: Mapping[str, Any], arrays: Arrays, where: str) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "random_state" and isinstance(value, np.random.RandomState):
            encoded[name] = None  # the header has the `seed` that was drawn from it
        else:
            encoded[name] = encode_setting(name, value, arrays, f"{where}/{name}")
    return encoded


def _decoded_settings(
    encoded: Mapping[str, Any], arrays: Arrays, own: Mapping[str, Any], header: Mapping[str, Any], path: Path
) -> dict[str, Any]:
    unknown = sorted(set(encoded) - {*SETTINGS, "x_err", "random_state"})
    if unknown:
        raise ModelFileError(
            f"{path}: its settings {unknown} are not known to eiv {eiv.__version__}; it was written by eiv "
            f"{header['versions']['eiv']}."
        )
    return {name: _decoded(name, value, arrays, own, path) for name, value in encoded.items()}


def _decoded(name: str, value: Any, arrays: Arrays, own: Mapping[str, Any], path: Path) -> Any:
    """A setting from its encoded form; the user's own code has to be given again."""
    if not is_own(name, value):
        return decode(value, arrays)
    if own.get(name) is None:
        fitted = " as it was fitted, `input_prior_` of the model that was saved" if name == "input_prior" else ""
        raise ModelFileError(
            f"{path}: the model was fitted with {OWN[name]} of the user's own "
            f"({value if name == 'module' else value.get('name')}), which the file does not hold. Load the model in "
            f"Python, and give it again{fitted}: load(path, {name}=...)."
        )
    return own[name]


def _device_here(device: object) -> object:
    """The device of the settings if this machine has it, else "auto"."""
    if isinstance(device, str) and device.startswith("cuda"):
        index = torch.device(device).index or 0
        return device if index < torch.cuda.device_count() else "auto"
    return device


def _try_prior(model: FittedModel) -> None:
    """Check that the input prior works for the features of the model."""
    error = np.ones(model.n_features) if model.x_err is None else model.x_err
    like = model.posterior.parameters[0]
    model.zeta_posterior(model.x_scaler.shift[None], error[None], like.device, like.dtype)
