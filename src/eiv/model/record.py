"""What a fitted model keeps of its fit: the names of columns, and the record of the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eiv.engine.readonly import ReadOnly
from eiv.inputs.columns import ErrorColumns
from eiv.training.evidence import LeftOut

__all__ = ["Names", "Record"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Names(ReadOnly):
    """The names of the columns of X and y.

    Attributes:
        features: those of X if it was a pandas table, else None.
        outputs: those of y if it was a pandas table, else None.
        has_columns: whether y had a second axis.
        classes: the classes in the order of the networks' outputs, where labels are classes.
        error_columns: the columns of X that hold errors of others, where some do.
        units: of the features, None for one without; None where X had none.
        output_units: the same for y.

    Examples:
        >>> Names(features=("length", "temperature")).has_columns
        False

    """

    features: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None
    has_columns: bool = False
    classes: NDArray[Any] | None = None
    error_columns: ErrorColumns | None = None
    units: tuple[str | None, ...] | None = None
    output_units: tuple[str | None, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of all columns of X, those with errors too; None where it had no names."""
        return self.features if self.error_columns is None else self.error_columns.columns


@dataclass(frozen=True)
class Record(ReadOnly):
    """A record of the training. Its arrays are read-only.

    Attributes:
        loss_curve: `epochs x S`, the loss of eq. (mcloss) after each epoch.
        x_spread: `n_x`, the standard deviation of each feature over the training rows.
        x_quantiles: `5 x n_x`, the minimum, the 5 %, 50 % and 95 % quantiles and the maximum of each feature there.
        x_err_median: `n_x`, the median error of each feature there.
        y_err_median: `n_y`, the median of the known errors of labels that are above zero; 0 if there are none.
        zeta_ess: the effective sample size of the zetas of a row; None for exact inputs.
        bound_gap: the error of the bound because zetas are few, in nats per row; None for exact inputs.
        evidence: for networks of cosines, the log density of the labels from which the kernel was found; else None.
        left_out: how well each of these labels is predicted from the others by the fit's kernel. Files do not keep it.
        kernel: for networks of cosines, the logarithms that `evidence` belongs to, as they are searched for; else None.
        n_searched: the frequencies that this kernel was found with. Files do not keep it.
            Files do not keep it.
        likelihood_choice: how the likelihood was chosen, in words; empty where it was given.

    Examples:
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> EiVRegressor(0.1, epochs=2).fit(X[:, None], y).model_.record.loss_curve.shape
        (2, 1)

    """

    loss_curve: Array
    x_spread: Array
    x_quantiles: Array
    x_err_median: Array
    y_err_median: Array
    zeta_ess: float | None = None
    bound_gap: float | None = None
    evidence: float | None = None
    left_out: LeftOut | None = None
    kernel: Array | None = None
    n_searched: int | None = None
    likelihood_choice: str = ""
