"""Table network_and_training of the paper, and the profiles of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eiv.datasets import SIMULATED

__all__ = ["METHODS", "PROFILES", "TRAINING", "Profile", "Training"]


@dataclass(frozen=True)
class Training:
    """A row of table network_and_training.

    Attributes:
        hidden_units: h.
        dropout: p.
        learning_rate: l.r.
        batch_size: batch.
        epochs: epochs.
        x_err: sigma_x, in units of x for the simulated sets, and as a share of each column's standard deviation for the
            real ones, which the paper standardises.
        y_noise_init: init. sigma_y, in the corresponding units of y.
        y_noise_every: n_update sigma_y, in epochs.

    Examples:
        >>> TRAINING["california"].batch_size
        200

    """

    hidden_units: int
    dropout: float
    learning_rate: float
    batch_size: int
    epochs: int
    x_err: float
    y_noise_init: float
    y_noise_every: int


# Columns and rows are in the order of the table in the paper.
TRAINING: dict[str, Training] = {
    "yacht": Training(1024, 0.2, 1e-3, 32, 1200, 0.05, 0.5, 500),
    "naval": Training(1024, 0.2, 1e-3, 32, 30, 0.025, 0.5, 14),
    "linear": Training(128, 0.1, 1e-3, 16, 100, 0.1, 0.1, 40),
    "protein": Training(1024, 0.2, 1e-3, 100, 30, 0.05, 0.5, 14),
    "concrete": Training(1024, 0.2, 1e-3, 32, 100, 0.05, 0.5, 40),
    "kin8nm": Training(1024, 0.2, 1e-3, 32, 30, 0.05, 0.5, 14),
    "wine": Training(1024, 0.2, 1e-3, 32, 100, 0.05, 0.5, 40),
    "quadratic": Training(128, 0.1, 1e-3, 16, 100, 0.1, 0.1, 40),
    "power": Training(1024, 0.2, 1e-3, 64, 35, 0.05, 0.5, 15),
    "sine": Training(128, 0.1, 1e-3, 16, 100, 0.04, 0.01, 40),
    "energy": Training(1024, 0.2, 1e-3, 32, 600, 0.05, 0.5, 250),
    "california": Training(1024, 0.1, 1e-3, 200, 100, 0.05, 0.5, 40),
    "cubic": Training(128, 0.1, 1e-3, 16, 100, 0.2, 0.05, 40),
}

COMMON: dict[str, Any] = {  # the same for all sets, from the text of sections 2 and 3 and of the appendix
    "recipe": "paper",
    "n_hidden": 4,
    "weight_penalty": 10.0,
    "n_zeta": 5,
    "n_theta": 100,
    "posterior": "bernoulli_dropout",
    "input_prior": "flat",
}

TRAIN_SHARE = 0.8  # the share of the rows of a network that it is trained on; the others are test rows

METHODS = ("eiv", "non_eiv")


@dataclass(frozen=True)
class Profile:
    """The extent of a run.

    Attributes:
        sets: the names of data sets.
        n_networks: S, the number of networks per data set and method.

    Examples:
        >>> PROFILES["full"].n_networks * 2 * len(PROFILES["full"].sets)
        260

    """

    sets: tuple[str, ...]
    n_networks: int


PROFILES: dict[str, Profile] = {
    "quick": Profile(sets=tuple(SIMULATED), n_networks=4),
    "full": Profile(sets=(*SIMULATED, *(name for name in TRAINING if name not in SIMULATED)), n_networks=10),
}
