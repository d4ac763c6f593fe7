"""An uncertainty budget, as in metrology: what each source adds to the variance of a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eiv.prediction import Prediction

__all__ = ["Budget"]

Array = NDArray[np.float64]
WEIGHTS, TOGETHER, NOISE = "fitted curve (epistemic)", "inputs together", "noise of a label"

_ROUNDING = 1e-6  # shares of the inputs' variance below this are rounding errors
_CHANCE = 0.05  # twice the measured Monte Carlo error of the remainder, as a share of the inputs' variance


@dataclass(frozen=True)
class Budget:
    r"""What each source adds to the variance of a label, as a mean over rows.

    .. math::
        \mathrm{total}^2 = \mathrm{epistemic}^2 + \sum_i \mathrm{share}_i\, \mathrm{aleatoric}^2
        + \mathrm{remainder} \cdot \mathrm{aleatoric}^2 + \sigma_y^2

    Attributes:
        features: the names of the inputs.
        variances: `n_x + 3`, in units of y squared: that of the weights, of each input, the remainder of the inputs
            together, and that of the noise. They add up to the variance of a label. The remainder can be negative where
            errors are correlated. Where it is negative by Monte Carlo error only, it is set to zero and the variances
            of the inputs are scaled to add up to the aleatoric one.
        of_size: the part of the weights' standard uncertainty that is there because the size of the errors of X is not
            known exactly; None where that was not learned.

    Examples:
        >>> one = np.ones(1)
        >>> p = Prediction(0 * one, 3 * one, 4 * one, 12 * one, shares=np.array([[0.75, 0.125]]))
        >>> budget = Budget.of(p, ["length", "temp"])
        >>> budget.variances.tolist(), budget.total
        ([9.0, 12.0, 2.0, 2.0, 144.0], 13.0)
        >>> budget.of_inputs.tolist()
        [0.75, 0.125, 0.125]

    """

    features: tuple[str, ...]
    variances: Array
    of_size: float | None = None

    @classmethod
    def of(cls, p: Prediction, features: Sequence[str]) -> Budget:
        """The budget of a prediction of one output that was made with `budget=True`."""
        assert p.shares is not None
        of_inputs = np.nan_to_num(p.shares) * p.aleatoric[:, None] ** 2
        together = p.aleatoric**2 - of_inputs.sum(1)
        columns = np.column_stack([p.epistemic**2, of_inputs, together, p.noise**2])
        variances = columns.mean(0)
        part = variances[1:-1].sum()
        if -_CHANCE * part < variances[-2] < _ROUNDING * part:
            variances[1:-2] *= part / variances[1:-2].sum()
            variances[-2] = 0.0
        return cls(tuple(features), variances, None if p.of_size is None else float(np.sqrt(np.mean(p.of_size**2))))

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources."""
        return (WEIGHTS, *self.features, TOGETHER, NOISE)

    @property
    def shares(self) -> Array:
        """The shares of the variance of a label, `n_x + 3`; they add up to 1."""
        found: Array = self.variances / self.variances.sum()
        return found

    @property
    def of_inputs(self) -> Array:
        """The shares of each input and of the remainder in the aleatoric variance, `n_x + 1`; NaN where that is 0."""
        inputs = self.variances[1:-1]
        found: Array = inputs / inputs.sum() if inputs.sum() > 0 else np.full_like(inputs, np.nan)
        return found

    @property
    def uncertainties(self) -> Array:
        """Standard uncertainties in units of y, `n_x + 3`; NaN for a negative variance."""
        return np.sqrt(np.where(self.variances < 0, np.nan, self.variances))

    @property
    def total(self) -> float:
        """The standard uncertainty of a label."""
        return float(np.sqrt(self.variances.sum()))

    def largest(self, most: int) -> tuple[list[str], Array]:
        """The sources and their variances for a picture: the weights, the `most` largest inputs, and the rest."""
        inputs = self.variances[1:-2]
        order = np.argsort(-inputs, kind="stable")
        order = order[inputs[order] > 0]
        shown, hidden = order[:most], order[most:]
        names = [WEIGHTS, *(self.features[i] for i in shown)]
        values = [self.variances[0], *inputs[shown]]
        if len(hidden):
            names.append(f"{len(hidden)} other inputs")
            values.append(inputs[hidden].sum())
        if len(order) > 1:
            names.append(TOGETHER)
            values.append(self.variances[-2])
        return [*names, NOISE], np.array([*values, self.variances[-1]])
