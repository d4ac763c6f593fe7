"""The posterior of the true inputs of rows given an input prior, in the units of X or of the networks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from eiv.inputs.cloud import TrainingCloud
from eiv.inputs.given import zeta_given
from eiv.inputs.mixed import Errors, MixedErrors, missing_cells
from eiv.inputs.own import stack_posteriors, standardised
from eiv.inputs.priors import FlatPrior, InputPrior
from eiv.inputs.zeta import ZetaMixture, ZetaPosterior
from eiv.scaling import Scaler

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PriorOfLike:
    """A learned prior for rows like those it was learned from, and a flat one for others that miss no reading."""

    cloud: TrainingCloud

    def zetas(self, x: Array, errors: Errors) -> ZetaPosterior:
        """The posterior of zeta in rows `x`, with errors that are already times their factor."""
        zeta = zeta_given(self.cloud.prior, torch.tensor(x), errors)
        beyond, missing = self.cloud.beyond(x, errors), missing_cells(errors)
        if missing is not None:
            beyond &= ~missing.any(1)
        rows = torch.from_numpy(beyond)
        if not beyond.any() or not isinstance(zeta, ZetaMixture):
            return zeta
        if not isinstance(errors, MixedErrors):
            return zeta.with_flat_prior(rows, torch.tensor(x), torch.tensor(errors))
        pair = stack_posteriors([zeta, zeta_given(FlatPrior(), torch.tensor(x), replace(errors, missing=None))])
        assert isinstance(pair, ZetaMixture)
        parts = (pair.log_weights, pair.means, pair.scales)
        return ZetaMixture.of(
            *(torch.where(rows[(..., *(None,) * (part.ndim - 2))], part[1], part[0]) for part in parts)
        )


def standardised_zetas(prior: InputPrior | PriorOfLike, scaler: Scaler, x: Array, errors: Errors) -> ZetaPosterior:
    """The posterior of zeta given x in the units of the networks: `rows x n_x`, in float64."""
    zeta = checked_zetas(prior, x, errors)
    return standardised(zeta, torch.from_numpy(scaler.shift), torch.from_numpy(scaler.scale))


def checked_zetas(prior: InputPrior | PriorOfLike, x: Array, errors: Errors) -> ZetaPosterior:
    """The posterior of zeta given x in the units of X: `rows x n_x`, in float64."""
    zeta = prior.zetas(x, errors) if isinstance(prior, PriorOfLike) else zeta_given(prior, torch.tensor(x), errors)
    if not isinstance(zeta, ZetaPosterior):
        raise TypeError(f"input_prior: its posterior must be an eiv.inputs.ZetaPosterior, got {type(zeta).__name__}.")
    if not errors.any() and not zeta.is_exact:
        raise ValueError("input_prior: its posterior has a std above 0 where all errors of X are 0.")
    return zeta
