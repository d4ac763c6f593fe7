"""Recipes: what a model is fitted with where the user does not say otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["RECIPES", "Settings", "settings_for"]


@dataclass(frozen=True)
class Settings:
    r"""The settings of a fit, each as the user or the recipe says. `EiVRegressor` tells what they mean.

    .. math:: \text{arguments}, \text{recipe}, N \mapsto \text{settings}

    Examples:
        >>> settings_for({"recipe": "paper", "epochs": 7}, n_rows=500).epochs
        7

    """

    input_prior: Any
    zeta_draws: str
    n_zeta: int | None
    posterior: str
    hidden_units: int
    n_hidden: int
    dropout: float
    weight_penalty: float
    epochs: int
    batch_size: int
    learning_rate: float
    learning_rate_decay: float
    y_noise: Any
    y_noise_init: float
    y_noise_every: int
    held_out: float
    n_theta: int


PAPER: dict[str, Any] = {
    "input_prior": "flat",
    "zeta_draws": "monte_carlo",
    "n_zeta": 5,
    "posterior": "bernoulli_dropout",
    "hidden_units": 128,
    "n_hidden": 4,
    "dropout": 0.1,
    "weight_penalty": 10.0,
    "epochs": 100,
    "batch_size": 16,
    "learning_rate": 1e-3,
    "learning_rate_decay": 0.0,
    "y_noise": "rmse",
    "y_noise_init": 0.5,
    "y_noise_every": 40,
    "held_out": 0.0,
    "n_theta": 100,
}

# docs/method.md says why; `eiv study coverage` compares it with the paper's. As many steps on 100 rows as on 10,000.
DEFAULT: dict[str, Any] = PAPER | {
    "input_prior": "mixture",
    "zeta_draws": "auto",
    "n_zeta": None,
    "posterior": "linearised_laplace",
    "dropout": 0.0,
    "weight_penalty": 1.0,
    "learning_rate_decay": 0.6,
    "y_noise": "likelihood",
    "held_out": 0.1,
}
_STEPS, _FEWEST_EPOCHS = 5000, 10
_BATCH, _ROWS_OF_BATCH = 64, 5000  # rows of a minibatch, and of a table up to which it is not larger
_NOISE_UPDATES = 30  # of sigma_y in a training


def _plain(settings: dict[str, Any], n_rows: int) -> dict[str, Any]:
    return settings


def _by_rows(settings: dict[str, Any], n_rows: int) -> dict[str, Any]:
    """Minibatches, epochs and updates of sigma_y for a table of `n_rows` rows, where they are not told."""
    batch_size = settings["batch_size"] or round(_BATCH * max(1.0, n_rows / _ROWS_OF_BATCH) ** 0.5)
    epochs = settings["epochs"] or max(_FEWEST_EPOCHS, math.ceil(_STEPS / math.ceil(n_rows / batch_size)))
    every = settings["y_noise_every"] or max(1, epochs // _NOISE_UPDATES)
    if not settings["epochs"]:
        epochs = every * math.ceil(epochs / every)  # sigma_y is renewed at the very end
    return settings | {"batch_size": batch_size, "epochs": epochs, "y_noise_every": every}


RECIPES: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any], int], dict[str, Any]]]] = {
    "default": (DEFAULT | dict.fromkeys(("batch_size", "epochs", "y_noise_every")), _by_rows),
    "paper": (PAPER, _plain),
}


def settings_for(arguments: Mapping[str, Any], n_rows: int) -> Settings:
    r"""The settings of a fit: what the arguments say, and else the recipe.

    .. math:: \text{batch} = 64 \max\Big(1, \sqrt{N / 5000}\Big), \qquad
              \text{epochs} = \max\big(10, \lceil 5000 / \lceil N / \text{batch} \rceil \rceil\big)

    Args:
        arguments: of `EiVRegressor`, `recipe` among them; None stands for what the recipe says.
        n_rows: N, the rows of the training data.

    Returns:
        All settings.

    Examples:
        >>> settings_for({"recipe": "default"}, n_rows=500).epochs
        640
        >>> settings_for({"recipe": "default"}, n_rows=100_000).batch_size
        286

    """
    values, complete = RECIPES[arguments["recipe"]]
    names = [field.name for field in fields(Settings)]
    told = {name: arguments[name] for name in names if arguments.get(name) is not None}
    return Settings(**complete(values | told, n_rows))
