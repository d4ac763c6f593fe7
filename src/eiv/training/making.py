"""What the settings of a fit stand for: its device, networks, weight posterior, likelihood, input prior and scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.random import SeedSequence
from numpy.typing import NDArray
from torch import Tensor, nn

from eiv import validation as v
from eiv.inputs import PRIORS, FlatPrior, InputPrior, LearnedPrior
from eiv.likelihoods import LIKELIHOODS, NOISE_RULES, Likelihood, NoiseRule
from eiv.networks import CosineNetwork, NetworkStack, paper_network
from eiv.networks.fast import fast_stack
from eiv.posteriors import FAMILIES, WeightPosterior
from eiv.training.settings import DTYPES, Settings

Array = NDArray[np.float64]
_OURS: dict[str, Mapping[str, object]] = {"posterior": FAMILIES, "likelihood": LIKELIHOODS, "y_noise": NOISE_RULES}


def word_for(setting: str, value: object) -> str:
    """The name of a class or an object of ours that was passed for a setting; empty for other values."""
    for word, ours in _OURS.get(setting, {}).items():
        alike = not isinstance(value, type) and type(value) is type(ours) and vars(value) == vars(ours)
        if value is ours or alike:
            return word
    return ""


def new_likelihood(settings: Settings, y_noise: Tensor) -> Likelihood:
    """The likelihood of networks, one of ours by its name or the user's own, with this noise, `S x n_y`."""
    rule = NOISE_RULES[settings.y_noise] if isinstance(settings.y_noise, str) else settings.y_noise
    return likelihood_of(settings).start(y_noise, rule if isinstance(rule, NoiseRule) else None)


def likelihood_of(settings: Settings) -> type[Likelihood] | Likelihood:
    """The likelihood: one of ours by its name, or the user's own, a class or an object with parameters of its own."""
    kind: type[Likelihood] | Likelihood = (
        LIKELIHOODS[settings.likelihood] if isinstance(settings.likelihood, str) else settings.likelihood
    )
    return kind


def new_posterior(
    settings: Settings,
    n_inputs: int,
    n_y: int,
    seeds: Sequence[SeedSequence],
    device: torch.device,
    weight_penalty: float | Tensor | None = None,
) -> WeightPosterior:
    """The weight posterior of fresh networks with these seeds; `weight_penalty`, `S`, where it is not the settings'."""
    n_outputs = likelihood_of(settings).width(n_y)

    def build() -> nn.Module:
        if settings.module is not None:
            try:
                return settings.module(n_inputs, n_outputs)
            except TypeError as error:
                raise TypeError(f"module must take (n_inputs, n_outputs); calling it failed: {error}") from error
        return network_of(settings, n_inputs, n_outputs)

    stack = NetworkStack(build, n_inputs, n_outputs, seeds, device, DTYPES[settings.dtype])
    penalty = settings.weight_penalty if weight_penalty is None else weight_penalty
    family = family_of(settings)
    new = family.start if isinstance(family, WeightPosterior) else family
    return new(fast_stack(stack, settings.precision), penalty)


def network_of(settings: Settings, n_inputs: int, n_outputs: int) -> nn.Module:
    """A network of one of our kinds."""
    if settings.network == "cosine":
        return CosineNetwork(n_inputs, n_outputs, settings.hidden_units)
    return paper_network(n_inputs, n_outputs, settings.hidden_units, settings.n_hidden, settings.dropout)


def family_of(settings: Settings) -> type[WeightPosterior] | WeightPosterior:
    """The family of the weight posterior: one of ours by its name, or the user's own, a class or an object."""
    family: type[WeightPosterior] | WeightPosterior = (
        FAMILIES[settings.posterior] if isinstance(settings.posterior, str) else settings.posterior
    )
    return family


def input_prior_of(prior: object, error_model: str) -> InputPrior | LearnedPrior:
    """The input prior that the arguments of a model stand for, to be fitted or not."""
    if isinstance(prior, str):
        v.check_option("input_prior", prior, tuple(PRIORS))
    elif isinstance(prior, type) or not (hasattr(prior, "posterior") or hasattr(prior, "fit")):
        raise TypeError(
            f"input_prior must be {', '.join(map(repr, PRIORS))} or an input prior such as eiv.NormalPrior(std=1.0), "
            f"got {prior!r}."
        )
    if error_model == "berkson":
        return FlatPrior()
    return PRIORS[prior] if isinstance(prior, str) else prior  # type: ignore[return-value]


def device_of(device: str) -> torch.device:
    """The device that an argument stands for."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}.") from error
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}.")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, but torch sees no GPU here. Use device='auto' or 'cpu'.")
    return found
