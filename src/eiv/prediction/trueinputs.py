"""The result of `true_inputs`: what is known of the true inputs given the readings and, where known, the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from torch import Tensor

from eiv.validation import check_level, check_option

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FoundZetas", "TrueInputs", "ZetaMoments", "true_inputs_over_sizes"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class TrueInputs:
    r"""What is known of the true inputs zeta of each row, given its readings x and, where known, its label y.

    .. math:: p(\zeta | x, y) \propto \pi(\zeta | x) \int p(y | f_\theta(\zeta))\, q_\phi(\theta)\, d\theta

    All values are in the units of X. A feature without an error has its reading as mean, and a std of zero.

    Attributes:
        readings: x, `rows x n_x`.
        mean: E(zeta), `rows x n_x`.
        std: the standard deviation of zeta, `rows x n_x`.
        ess: `rows`, how many independent draws the answer is worth. With a label it is the effective number of pairs of
            a draw of the weights and a line in the space of zeta. Few are left where hardly any weights explain the
            label: the answer is then rough.
        draws: `n_draws x rows x n_x`, or None where they were not kept.
        covariance: `rows x n_x x n_x`, or None where it was not kept.
        index: the labels of the rows, where X was a pandas table.
        feature_names: the names of the features, where X was one.

    Examples:
        >>> draws = np.random.default_rng(0).normal(size=(500, 2, 1))
        >>> found = TrueInputs(np.zeros((2, 1)), np.zeros((2, 1)), np.ones((2, 1)), np.full(2, 500.0), draws)
        >>> found
        TrueInputs(rows=2, features=1, draws=500)
        >>> low, high = found.interval(0.95, method="moment")
        >>> high.round(2).tolist()
        [[1.96], [1.96]]

    """

    readings: Array
    mean: Array
    std: Array
    ess: Array
    draws: Array | None = None
    covariance: Array | None = None
    index: Any = None
    feature_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        draws = "not kept" if self.draws is None else len(self.draws)
        return f"TrueInputs(rows={len(self)}, features={self.mean.shape[1]}, draws={draws})"

    def interval(self, level: float = 0.95, method: Literal["quantile", "moment"] = "quantile") -> tuple[Array, Array]:
        r"""Lower and upper ends of a central interval of each feature.

        .. math:: P(\mathrm{low} < \zeta_i < \mathrm{high} | x, y) = \mathrm{level}

        Args:
            level: the probability that the interval should hold, between 0 and 1.
            method: "quantile" for quantiles of the draws, which may be skewed or have several peaks; "moment" for those
                of a normal distribution with this mean and standard deviation.

        Returns:
            Two arrays `rows x n_x`.

        Examples:
            >>> zero = np.zeros((1, 1))
            >>> TrueInputs(zero, zero, zero + 1, np.ones(1)).interval(0.6827, method="moment")
            (array([[-1.0000...]]), array([[1.0000...]]))

        """
        check_level("level", level)
        check_option("method", method, ("quantile", "moment"))
        if method == "quantile":
            low, high = self.quantile([(1 - level) / 2, (1 + level) / 2])
            return low, high
        width = ndtri((1 + level) / 2) * self.std
        return self.mean - width, self.mean + width

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of the draws: `q.shape x rows x n_x`, for one or several probabilities between 0 and 1.

        Examples:
            >>> zero = np.zeros((1, 1))
            >>> found = TrueInputs(zero, zero, zero + 1, np.ones(1), draws=np.arange(101.0).reshape(101, 1, 1))
            >>> found.quantile(0.5)
            array([[50.]])

        """
        probabilities = np.asarray(q, dtype=float)
        if not np.all((probabilities > 0) & (probabilities < 1)):
            raise ValueError(f"q must lie between 0 and 1, got {q!r}.")
        if self.draws is None:
            raise ValueError(
                "The draws were not kept: call true_inputs(..., keep_draws=True), or take method='moment'."
            )
        return np.asarray(np.quantile(self.draws, probabilities, axis=0, method="averaged_inverted_cdf"), dtype=float)

    def to_frame(self, level: float = 0.95, method: Literal["quantile", "moment"] | None = None) -> pd.DataFrame:
        """A table with one row per row: each reading, and beside it the true value, its std and its interval.

        The columns of a feature are NAME, NAME_true, NAME_true_std, NAME_true_low and NAME_true_high; `ess` is last.
        `method` is that of `interval`; by default "quantile" where the draws were kept.

        Examples:
            >>> zero = np.zeros((1, 1))
            >>> list(TrueInputs(zero, zero, zero + 1, np.ones(1)).to_frame())
            ['x0', 'x0_true', 'x0_true_std', 'x0_true_low', 'x0_true_high', 'ess']

        """
        import pandas as pd  # noqa: PLC0415

        low, high = self.interval(level, method or ("moment" if self.draws is None else "quantile"))
        parts = {"": self.readings, "_true": self.mean, "_true_std": self.std}
        parts |= {"_true_low": low, "_true_high": high}
        names = self.feature_names or tuple(f"x{i}" for i in range(self.mean.shape[1]))
        columns = {name + part: values[:, i] for i, name in enumerate(names) for part, values in parts.items()}
        return pd.DataFrame(columns | {"ess": self.ess}, index=self.index)


def true_inputs_over_sizes(found: Sequence[TrueInputs], shares: Array, seed: SeedSequence) -> TrueInputs:
    r"""The true inputs of a model of several sizes of the errors, from those of each size.

    .. math:: p(\zeta | x, y) = \sum_j p_j\, p(\zeta | x, y, t_j)

    The shares are those of the fit: a single row hardly changes what all training rows say of the size.

    Args:
        found: of each size, for the same rows and with as many draws.
        shares: p, one for each, which add up to one.
        seed: of the choice of draws, the same for all rows.

    Returns:
        Means, standard deviations and covariances of all together, and draws from each as its share is.

    Examples:
        >>> zero = np.zeros((1, 1))
        >>> sizes = [TrueInputs(zero, zero + mean, zero + 1, np.ones(1)) for mean in (-1.0, 1.0)]
        >>> true_inputs_over_sizes(sizes, np.array([0.5, 0.5]), SeedSequence(0)).std.round(3)
        array([[1.414]])

    """
    first, means = found[0], np.array([each.mean for each in found])
    mean = np.where(first.std > 0, np.tensordot(shares, means, 1), first.readings)
    gaps = means - mean
    variance = np.tensordot(shares, np.array([each.std for each in found]) ** 2 + gaps**2, 1)
    covariance, draws = None, None
    if first.draws is not None and first.covariance is not None:
        own = np.array([each.covariance for each in found])
        covariance = np.tensordot(shares, own + gaps[..., None] * gaps[..., None, :], 1)
        n_draws = len(first.draws)
        levels = (np.random.default_rng(seed).permutation(n_draws) + 0.5) / n_draws
        chosen = np.searchsorted(np.cumsum(shares), levels).clip(0, len(found) - 1)
        draws = np.empty_like(first.draws)
        for place, each in enumerate(found):
            assert each.draws is not None
            draws[chosen == place] = each.draws[chosen == place]
    ess = 1 / np.tensordot(shares**2, 1 / np.array([each.ess for each in found]), 1)
    return replace(first, mean=mean, std=np.sqrt(variance), ess=ess, draws=draws, covariance=covariance)


class ZetaMoments(NamedTuple):
    """What is found of the true inputs of some rows, in the units of X.

    Attributes:
        mean: `rows x n_x`.
        covariance: `rows x n_x x n_x`.
        draws: `n_draws x rows x n_x`.
        ess: `rows`, the effective number of draws.

    Examples:
        >>> import torch
        >>> one = torch.ones(1, 1)
        >>> ZetaMoments(one, one.unsqueeze(0), one.unsqueeze(0), torch.ones(1)).ess
        tensor([1.])

    """

    mean: Tensor
    covariance: Tensor
    draws: Tensor
    ess: Tensor


@dataclass(frozen=True)
class FoundZetas:
    """What is found of all rows, filled in some rows at a time.

    The attributes are those of `TrueInputs`.

    Examples:
        >>> FoundZetas.empty((7, 2), n_draws=500, keep=False).std.shape
        (7, 2)

    """

    mean: Array
    std: Array
    ess: Array
    draws: Array | None
    covariance: Array | None

    @classmethod
    def empty(cls, shape: tuple[int, ...], n_draws: int, keep: bool) -> FoundZetas:
        """Room for `rows x n_x` true inputs, with `keep` also for their draws and covariances."""
        kept = (np.empty((n_draws, *shape)), np.empty((*shape, shape[1]))) if keep else (None, None)
        return cls(np.empty(shape), np.empty(shape), np.empty(shape[0]), *kept)

    def put(self, rows: NDArray[np.int64], x: Array, found: ZetaMoments) -> None:
        """Fill in some rows, whose readings are `x`; a feature that is exact has its reading to the last bit."""
        std = found.covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt().cpu().numpy()
        self.mean[rows], self.std[rows] = np.where(std > 0, found.mean.cpu().numpy(), x), std
        self.ess[rows] = found.ess.cpu().numpy()
        if self.draws is not None and self.covariance is not None:
            self.draws[:, rows] = np.where(std > 0, found.draws.cpu().numpy(), x)
            self.covariance[rows] = found.covariance.cpu().numpy()
