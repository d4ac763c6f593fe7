"""The result of a prediction: moments, the three parts of its uncertainty, intervals, quantiles and samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from eiv.validation import check_option, check_random_generator

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Prediction"]

Array = NDArray[np.float64]
Of = Literal["function", "label"]
_BISECTIONS = 48
_CHUNK_VALUES = 2**22


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    r"""What is known of f(zeta) and of a label y for each row, eq. (EiV_pred_unc) to eq. (total_unc).

    .. math::
        u^2 = \mathrm{epistemic}^2 + \mathrm{aleatoric}^2, \qquad \mathrm{total}^2 = u^2 + \sigma_y^2

    All values are standard deviations in the unit of y. Arrays have the shape `rows`, or `rows x n_y` where y was given
    with a second axis.

    Attributes:
        mean: m(x), the prediction.
        epistemic: what the data leave open about the weights.
        aleatoric: what the error of x leaves open about the true input.
        noise: sigma_y, the noise of a measured output.
        draws: `n_draws x rows (x n_y)`, draws of f(zeta), or None where they were not kept.
        index: the labels of the rows, where X was a pandas table.
        output_names: the names of the outputs, where y was one.

    Examples:
        >>> import numpy as np
        >>> p = Prediction(mean=np.zeros(2), epistemic=np.array([3.0, 0.0]), aleatoric=np.array([4.0, 1.0]),
        ...                noise=np.array([12.0, 0.0]))
        >>> p
        Prediction(rows=2, outputs=1, draws=not kept)
        >>> p.std, p.total
        (array([5., 1.]), array([13.,  1.]))
        >>> low, high = p.interval(0.95)
        >>> high.round(2)
        array([9.8 , 1.96])
        >>> p.to_frame()["total"].tolist()
        [13.0, 1.0]

    """

    mean: Array
    epistemic: Array
    aleatoric: Array
    noise: Array
    draws: NDArray[np.floating[Any]] | None = None
    index: Any = None
    output_names: tuple[str, ...] | None = None

    @property
    def std(self) -> Array:
        """u(x), the standard deviation of f(zeta)."""
        return np.hypot(self.epistemic, self.aleatoric)

    @property
    def total(self) -> Array:
        """The standard deviation of a label, eq. (total_unc)."""
        return np.hypot(self.std, self.noise)

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Prediction:
        """The prediction of some of the rows."""
        return Prediction(
            mean=self.mean[rows],
            epistemic=self.epistemic[rows],
            aleatoric=self.aleatoric[rows],
            noise=self.noise[rows],
            draws=None if self.draws is None else self.draws[:, rows],
            index=None if self.index is None else self.index[rows],
            output_names=self.output_names,
        )

    def __repr__(self) -> str:
        draws = "not kept" if self.draws is None else len(self.draws)
        return f"Prediction(rows={len(self)}, outputs={self._columns(self.mean).shape[1]}, draws={draws})"

    def interval(
        self, level: float = 0.95, of: Of = "function", method: Literal["moment", "quantile"] = "moment"
    ) -> tuple[Array, Array]:
        r"""Lower and upper ends of a central interval.

        .. math:: m \pm z_{(1 + \mathrm{level}) / 2} \, u

        Args:
            level: the probability that the interval should hold, between 0 and 1; 0.95 gives 1.96 standard deviations.
            of: "function" for f(zeta), "label" for a measured y.
            method: "moment" for mean and standard deviation as in the paper, "quantile" for quantiles of the draws.

        Returns:
            Two arrays of the shape of `mean`.

        Examples:
            >>> p = Prediction(np.zeros(1), np.ones(1), np.zeros(1), np.zeros(1))
            >>> p.interval(0.6827)
            (array([-1.0000...]), array([1.0000...]))

        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
        check_option("of", of, ("function", "label"))
        check_option("method", method, ("moment", "quantile"))
        if method == "quantile":
            low, high = self.quantile([(1 - level) / 2, (1 + level) / 2], of=of)
            return low, high
        width = ndtri((1 + level) / 2) * (self.std if of == "function" else self.total)
        return self.mean - width, self.mean + width

    def quantile(self, q: ArrayLike, of: Of = "function") -> Array:
        r"""Quantiles of the draws; for labels, of the mixture of normals around them.

        .. math:: F(y) = \frac1n \sum_{i=1}^n \Phi\Big(\frac{y - f_i}{\sigma_y}\Big) = q

        Args:
            q: one or several probabilities between 0 and 1.
            of: "function" for f(zeta), "label" for a measured y.

        Returns:
            `q.shape x rows (x n_y)`.

        Examples:
            >>> draws = np.arange(101.0).reshape(101, 1)
            >>> p = Prediction(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1), draws=draws)
            >>> p.quantile([0.05, 0.5]), p.quantile(0.5, of="label").round(3)
            (array([[ 5.],
                   [50.]]), array([50.]))

        """
        probabilities = np.asarray(q, dtype=float)
        if not np.all((probabilities > 0) & (probabilities < 1)):
            raise ValueError(f"q must lie between 0 and 1, got {q!r}.")
        check_option("of", of, ("function", "label"))
        draws = self._kept_draws()
        if of == "function":
            return np.asarray(np.quantile(draws, probabilities, axis=0), dtype=float)
        flat_draws = draws.reshape(len(draws), -1)
        noise = np.broadcast_to(self.noise, self.mean.shape).reshape(-1)
        found = np.empty((probabilities.size, flat_draws.shape[1]))
        for start in range(0, flat_draws.shape[1], step := max(1, _CHUNK_VALUES // len(draws))):
            part = slice(start, start + step)
            for row, probability in enumerate(probabilities.reshape(-1)):
                found[row, part] = _mixture_quantile(flat_draws[:, part], noise[part], probability)
        return found.reshape(*probabilities.shape, *self.mean.shape)

    def samples(self, of: Of = "function", random_state: int | np.random.Generator | None = None) -> Array:
        """The draws of f(zeta), or labels y = f(zeta) + noise with fresh noise from `random_state`.

        Returns `n_draws x rows (x n_y)`. The draws of one row are not independent of each other: they share thetas and
        zetas, as eq. (EiV_uncertainty) needs.

        Examples:
            >>> p = Prediction(np.zeros(3), np.ones(3), np.zeros(3), np.ones(3), draws=np.zeros((500, 3)))
            >>> p.samples().shape, p.samples(of="label", random_state=0).shape
            ((500, 3), (500, 3))

        """
        check_option("of", of, ("function", "label"))
        draws = self._kept_draws().astype(float)
        if of == "label":
            draws += self.noise * check_random_generator(random_state).standard_normal(draws.shape)
        return draws

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """A table with one row a prediction: the moments, the parts, and the interval of the function at `level`.

        Several outputs stand side by side under their names.

        Examples:
            >>> p = Prediction(np.zeros(2), np.ones(2), np.zeros(2), np.ones(2))
            >>> list(p.to_frame())
            ['mean', 'std', 'epistemic', 'aleatoric', 'noise', 'total', 'low', 'high']

        """
        import pandas as pd  # noqa: PLC0415

        low, high = self.interval(level)
        parts = {name: getattr(self, name) for name in ("mean", "std", "epistemic", "aleatoric", "noise", "total")}
        columns = {name: self._columns(value) for name, value in (parts | {"low": low, "high": high}).items()}
        if self.mean.ndim == 1:
            return pd.DataFrame({name: value[:, 0] for name, value in columns.items()}, index=self.index)
        outputs = self.output_names or tuple(f"y{i}" for i in range(self.mean.shape[1]))
        table = {(output, name): value[:, i] for i, output in enumerate(outputs) for name, value in columns.items()}
        return pd.DataFrame(table, index=self.index)

    def _columns(self, values: Array) -> Array:
        return values.reshape(len(values), -1)

    def _kept_draws(self) -> NDArray[np.floating[Any]]:
        if self.draws is None:
            raise ValueError(
                "Quantiles and samples need the draws, which were not kept for so many rows. "
                "Predict with keep_draws=True, or fewer rows at a time."
            )
        return self.draws


def _mixture_quantile(centres: NDArray[np.floating[Any]], noise: Array, probability: float) -> Array:
    """Where the mean of normal distribution functions around `centres`, `n x rows`, reaches `probability`."""
    low, high = centres.min(0) - 9 * noise, centres.max(0) + 9 * noise
    scale = np.maximum(noise, 1e-9 * (high - low) + np.finfo(float).tiny)  # no noise: a very steep step
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = ndtr((middle - centres) / scale).mean(0) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2, dtype=float)
