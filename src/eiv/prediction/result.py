"""The result of a prediction: moments, the three components of its uncertainty, intervals, quantiles and samples."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from eiv.likelihoods.labels import Labels
from eiv.prediction.exchange import html_of, to_arviz, to_qp
from eiv.validation import check, check_level, check_option, check_random_generator, integer

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["LabelErrorWarning", "Prediction", "UnlikeRowsWarning"]

Array = NDArray[np.float64]
Of = Literal["function", "label"]
_MOST_BARS = 20  # rows of a chart that nobody has chosen


class LabelErrorWarning(UserWarning):
    """Labels are predicted without their known errors, though the model was fitted to labels that had some.

    Their intervals then hold for labels whose known error is zero.

    Examples:
        >>> import warnings
        >>> warnings.simplefilter("ignore", LabelErrorWarning)

    """


class UnlikeRowsWarning(UserWarning):
    """More than a tenth of the rows that are predicted are unlike the training rows (`Prediction.unlike`).

    Examples:
        >>> import warnings
        >>> warnings.simplefilter("ignore", UnlikeRowsWarning)

    """


def is_unlike(likeness: Array | None, level: float | None) -> NDArray[np.bool_] | None:
    """Which rows have a likeness below a level: `rows`; None where either is not known."""
    return None if likeness is None or level is None else np.asarray(likeness < level)


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
        noise: the noise of a label, that is a measured output: sigma_y, and its known error on top where one was given.
        draws: `n_draws x rows (x n_y)`, draws of f(zeta), or None where they were not kept.
        index: the labels of the rows, where X was a pandas table.
        output_names: the names of the outputs, where y was one.
        shares: `rows (x n_y) x n_x`, the shares of the features in the aleatoric variance, or None where they were
            not asked for; `budget` shows them.
        feature_names: the names of the features, where X was a pandas table.
        y_err_of_fit: `n_y`, the median known error of the training labels, where the fit was given errors of its labels
            and this prediction was not: `noise` leaves them out, and what is asked of labels warns.
        labels: how labels scatter about f; None where that is not known, and nothing can be said of labels.
        likeness: `rows`, the probability that a row like those of the training lies farther out than this one, its
            error considered (see `eiv.inputs.TrainingCloud`). None where the model does not know its training rows, as
            from a file of an earlier version.
        unlike_below: the likeness below which a row is `unlike` the training rows.
        of_size: the part of `epistemic` that is there because the size of the errors of X is not known exactly; its
            square is a part of that of `epistemic`. None where the size was not learned (`eiv.estimated`).

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
    draws: Array | None = None
    index: Any = None
    output_names: tuple[str, ...] | None = None
    shares: Array | None = None
    feature_names: tuple[str, ...] | None = None
    y_err_of_fit: Array | None = None
    labels: Labels | None = None
    likeness: Array | None = None
    unlike_below: float | None = None
    of_size: Array | None = None

    @property
    def unlike(self) -> NDArray[np.bool_] | None:
        r"""Which rows are unlike the training rows: `rows`; None where nothing is known of these.

        .. math:: \mathrm{likeness} < \frac{1}{20 N}

        By chance, fewer than one of ten tables with as many rows as the training had, N, would hold such a row. What is
        predicted there rests on the form of the network more than on data.

        Examples:
            >>> p = Prediction(np.zeros(2), np.ones(2), np.zeros(2), np.ones(2), likeness=np.array([0.3, 1e-9]),
            ...                unlike_below=1e-4)
            >>> p.unlike
            array([False,  True])

        """
        return is_unlike(self.likeness, self.unlike_below)

    @property
    def std(self) -> Array:
        """u(x), the standard deviation of f(zeta)."""
        return np.hypot(self.epistemic, self.aleatoric)

    @property
    def total(self) -> Array:
        """The standard deviation of a label, eq. (total_unc)."""
        return np.hypot(self.std, self.noise)

    @property
    def noise_covariance(self) -> Array:
        r"""The covariance of the noise of several outputs, `rows x n_y x n_y`; its diagonal is the square of `noise`.

        Examples:
            >>> from eiv.likelihoods import NormalLabels
            >>> labels = NormalLabels(np.array([[1.0, 2.0]]), np.array([[1.0, 0.5], [0.5, 1.0]]))
            >>> nothing = np.zeros((1, 2))
            >>> Prediction(nothing, nothing, nothing, labels.std, labels=labels).noise_covariance
            array([[[1., 1.],
                    [1., 4.]]])

        """
        return self._known_labels().covariance

    def covariance(self, of: Of = "function") -> Array:
        r"""The covariance of several outputs of a row, of f(zeta) or of labels.

        .. math:: \mathrm{Cov}(f_j, f_k) = u_j u_k \, \mathrm{corr}(f_j, f_k), \qquad
                  \mathrm{Cov}(y) = \mathrm{Cov}(f) + \mathrm{noise\_covariance}

        Correlations are those of the draws, which have the same theta and zeta in all outputs. The diagonal is the
        square of `std`, or of `total`.

        Args:
            of: "function" for f(zeta), "label" for measured y.

        Returns:
            `rows x n_y x n_y`.

        Examples:
            >>> draws = np.array([[[1.0, 2.0]], [[-1.0, -2.0]]])
            >>> p = Prediction(np.zeros((1, 2)), np.array([[1.0, 2.0]]), np.zeros((1, 2)), np.zeros((1, 2)), draws)
            >>> p.covariance()
            array([[[1., 2.],
                    [2., 4.]]])

        """
        self._check_of(of)
        draws = self._kept_draws().reshape(len(self._kept_draws()), len(self), -1).astype(float)
        off = draws - draws.mean(0)
        of_draws = np.sqrt(np.mean(off**2, axis=0))
        with np.errstate(divide="ignore"):
            unit = np.where(of_draws > 0, self._columns(self.std) / of_draws, 0.0)
        found: Array = np.einsum("drj,drk->rjk", off, off) / len(draws) * unit[:, :, None] * unit[:, None, :]
        return found if of == "function" else found + self.noise_covariance

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, rows: int | slice | Sequence[int] | NDArray[Any]) -> Prediction:
        """The prediction of some of the rows, or of a single one, which is a prediction of one row."""
        if isinstance(rows, int | np.integer):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"p[{rows}]: the prediction has {len(self)} row{'' if len(self) == 1 else 's'}.")
            first = rows % len(self)
            rows = slice(first, first + 1)
        return Prediction(
            mean=self.mean[rows],
            epistemic=self.epistemic[rows],
            aleatoric=self.aleatoric[rows],
            noise=self.noise[rows],
            draws=None if self.draws is None else self.draws[:, rows],
            index=None if self.index is None else self.index[rows],
            output_names=self.output_names,
            shares=None if self.shares is None else self.shares[rows],
            feature_names=self.feature_names,
            y_err_of_fit=self.y_err_of_fit,
            labels=None if self.labels is None else self.labels[rows],
            likeness=None if self.likeness is None else self.likeness[rows],
            unlike_below=self.unlike_below,
            of_size=None if self.of_size is None else self.of_size[rows],
        )

    def __repr__(self) -> str:
        draws = "not kept" if self.draws is None else len(self.draws)
        unlike = self.unlike
        found = "" if unlike is None or not unlike.any() else f", unlike={int(unlike.sum())}"
        return f"Prediction(rows={len(self)}, outputs={self._columns(self.mean).shape[1]}, draws={draws}{found})"

    def interval(
        self, level: float = 0.95, of: Of = "function", method: Literal["moment", "quantile"] = "moment"
    ) -> tuple[Array, Array]:
        r"""Lower and upper ends of a central interval.

        .. math:: m \pm z_{(1 + \mathrm{level}) / 2} \, u

        For labels with normal noise, the total uncertainty stands in the place of u; others answer for themselves.

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
        check_level("level", level)
        check_option("method", method, ("moment", "quantile"))
        self._check_of(of)
        if method == "quantile":
            low, high = self._quantiles(np.array([(1 - level) / 2, (1 + level) / 2]), of)
            return low, high
        if of == "label":
            return self._known_labels().moment_interval(self.mean, self.std, level)
        width = ndtri((1 + level) / 2) * self.std
        return self.mean - width, self.mean + width

    def quantile(self, q: ArrayLike, of: Of = "function") -> Array:
        r"""Quantiles of the draws; for labels, of the mixture of their distributions around the draws.

        .. math:: F(y) = \frac1n \sum_{i=1}^n P(y_i \le y | f_i) = q

        Args:
            q: one or several probabilities between 0 and 1.
            of: "function" for f(zeta), "label" for a measured y.

        Returns:
            `q.shape x rows (x n_y)`.

        Examples:
            >>> from eiv.likelihoods import NormalLabels
            >>> draws = np.arange(101.0).reshape(101, 1)
            >>> labels = NormalLabels(np.ones(1))
            >>> p = Prediction(np.zeros(1), np.ones(1), np.zeros(1), labels.std, draws=draws, labels=labels)
            >>> p.quantile([0.05, 0.5]), p.quantile(0.5, of="label").round(3)
            (array([[ 5.],
                   [50.]]), array([50.]))

        """
        probabilities = np.asarray(q, dtype=float)
        if not np.all((probabilities > 0) & (probabilities < 1)):
            raise ValueError(f"q must lie between 0 and 1, got {q!r}.")
        self._check_of(of)
        return self._quantiles(probabilities, of)

    def _quantiles(self, probabilities: Array, of: Of) -> Array:
        draws = self._kept_draws()
        if of == "function":
            # A function of the draws' distribution alone: draws that each stand there five times give the same.
            return np.asarray(np.quantile(draws, probabilities, axis=0, method="averaged_inverted_cdf"), dtype=float)
        return self._known_labels().quantile(draws, probabilities)

    def samples(self, of: Of = "function", random_state: int | np.random.Generator | None = None) -> Array:
        """The draws of f(zeta), or labels y = f(zeta) + noise with fresh noise from `random_state`.

        Returns `n_draws x rows (x n_y)`. The draws of one row are not independent of each other: they share thetas and
        zetas, as eq. (EiV_uncertainty) needs.

        Examples:
            >>> from eiv.likelihoods import NormalLabels
            >>> labels = NormalLabels(np.ones(3))
            >>> p = Prediction(np.zeros(3), np.ones(3), np.zeros(3), labels.std, np.zeros((500, 3)), labels=labels)
            >>> p.samples().shape, p.samples(of="label", random_state=0).shape
            ((500, 3), (500, 3))

        """
        self._check_of(of)
        draws = self._kept_draws().astype(float)
        return draws if of == "function" else self._known_labels().sample(draws, check_random_generator(random_state))

    def to_frame(self, level: float = 0.95, of: Of = "function") -> pd.DataFrame:
        """A table with one row per prediction: moments, split of the variance, and the interval at `level`.

        `low` and `high` are the ends of the interval of f(zeta), or `of="label"` of a measured y.

        Several outputs stand side by side under their names. `of_size` stands behind `epistemic`, of which it is a
        part, where the size of the errors of X was learned. Where they are known, `likeness` and `unlike` come last;
        with several outputs, which share them, under an empty name.

        Examples:
            >>> p = Prediction(np.zeros(2), np.ones(2), np.zeros(2), np.ones(2))
            >>> list(p.to_frame())
            ['mean', 'std', 'epistemic', 'aleatoric', 'noise', 'total', 'low', 'high']

        """
        import pandas as pd  # noqa: PLC0415

        low, high = self.interval(level, of)
        names = ["mean", "std", "epistemic", "of_size", "aleatoric", "noise", "total"]
        parts = {name: value for name in names if (value := getattr(self, name)) is not None}
        columns = {name: self._columns(value) for name, value in (parts | {"low": low, "high": high}).items()}
        of_rows = {} if self.unlike is None else {"likeness": self.likeness, "unlike": self.unlike}
        if self.mean.ndim == 1:
            return pd.DataFrame({name: value[:, 0] for name, value in columns.items()} | of_rows, index=self.index)
        table: dict[tuple[str, str], Any] = {
            (output, name): value[:, i] for i, output in enumerate(self._outputs()) for name, value in columns.items()
        }
        return pd.DataFrame(table | {("", name): value for name, value in of_rows.items()}, index=self.index)

    def to_qp(self, of: Of = "function", n_quantiles: int = 99) -> Any:
        """The distribution of each row as an ensemble of qp, the package for redshift PDFs, by quantiles.

        Args:
            of: "function" for f(zeta), "label" for a measured y, such as a spectroscopic redshift.
            n_quantiles: how many quantiles, evenly spread between 0 and 1.

        Returns:
            A `qp.Ensemble`; needs `pip install "eiv[qp]"`.

        Examples:
            >>> draws = np.random.default_rng(0).normal(size=(500, 2))
            >>> int(Prediction(np.zeros(2), np.ones(2), np.zeros(2), np.zeros(2), draws=draws).to_qp().npdf)
            2

        """
        check("n_quantiles", n_quantiles, integer(3))
        return to_qp(self, of, n_quantiles)

    def to_arviz(self, y: ArrayLike | None = None, random_state: int | np.random.Generator | None = 0) -> Any:
        """The draws as an `InferenceData` of ArviZ: f in `posterior`, labels in `posterior_predictive`.

        The draws of a row share thetas and zetas, so they are not independent, and diagnostics of Markov chains have no
        meaning for them.

        Args:
            y: the measured labels, for `observed_data`; with them `arviz.plot_ppc` and `arviz.plot_loo_pit` work.
            random_state: the seed of the noise of labels.

        Returns:
            An `arviz.InferenceData`; needs `pip install "eiv[arviz]"`.

        Examples:
            >>> draws = np.random.default_rng(0).normal(size=(500, 2))
            >>> found = Prediction(np.zeros(2), np.ones(2), np.zeros(2), np.zeros(2), draws=draws).to_arviz()
            >>> dict(found.posterior["f"].sizes)
            {'chain': 1, 'draw': 500, 'row': 2}

        """
        return to_arviz(self, y, random_state)

    def _repr_html_(self) -> str:
        """The first rows as a table, in notebooks."""
        return html_of(self)

    def budget(self) -> pd.DataFrame:
        r"""The uncertainty budget: which input's error makes how much of the aleatoric variance.

        .. math:: \mathrm{share}_i = \frac{V_i}{V}, \qquad \mathrm{remainder} = 1 - \sum_i \mathrm{share}_i

        For a linear f with slopes a and errors s, V_i is a_i^2 s_i^2. In general it is the variance that feature i
        causes by its own error, averaged over the others (see `eiv.prediction.budget.BudgetSampler`). The remainder
        holds what features cause together: interactions, and correlations between their errors, which can be negative.

        Returns:
            One row per prediction, one column per feature and "remainder"; they add up to 1. Features without error
            have 0. Rows without any error, or whose aleatoric variance cannot be distinguished from zero, have NaN.
            Several outputs stand side by side under their names.

        Raises:
            ValueError: where the prediction was made without `budget=True`.

        Examples:
            >>> p = Prediction(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), shares=np.array([[0.75, 0.125]]))
            >>> p.budget()
                 x0     x1  remainder
            0  0.75  0.125      0.125

        """
        import pandas as pd  # noqa: PLC0415

        shares = self._shares_with_remainder()  # rows x n_y x (n_x + 1)
        features = self._features()
        if self.mean.ndim == 1:
            return pd.DataFrame(shares[:, 0], index=self.index, columns=features)
        columns = pd.MultiIndex.from_product([self._outputs(), features])
        return pd.DataFrame(shares.reshape(len(self), -1), index=self.index, columns=columns)

    def plot_budget(self, rows: int | slice | Sequence[int] | NDArray[Any] | None = None) -> Figure:
        """The uncertainty budget as bars, one per row, and a panel per output; shares and remainder add up to 1.

        Args:
            rows: which rows to draw, as for `prediction[rows]`; by default the first twenty.

        Returns:
            A matplotlib figure; `figure.savefig("budget.png")` writes it.

        Examples:
            >>> p = Prediction(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), shares=np.array([[0.75, 0.125]]))
            >>> p.plot_budget().get_axes()[0].get_xlabel()
            'share of the aleatoric variance'

        """
        from eiv.plotting import budget_figure  # noqa: PLC0415

        chosen = self[slice(_MOST_BARS) if rows is None else rows]
        labels = [str(label) for label in (range(len(self)) if self.index is None else self.index)]
        shown = np.atleast_1d(np.asarray(labels)[slice(_MOST_BARS) if rows is None else rows])
        outputs = [""] if self.mean.ndim == 1 else self._outputs()
        return budget_figure(chosen._shares_with_remainder(), self._features(), shown.tolist(), outputs)  # noqa: SLF001

    def _check_of(self, of: Of) -> None:
        """Refuse what is neither function nor label, and warn where a label's error is not all known."""
        check_option("of", of, ("function", "label"))
        if of == "label" and self.y_err_of_fit is not None:
            errors = ", ".join(f"{error:.4g}" for error in self.y_err_of_fit)
            warnings.warn(
                f"The labels of the fit had known errors (y_err, {errors} in the median), but this prediction has "
                "none: it speaks of labels without such an error. Predict with predict_distribution(X, y_err=...), or "
                "y_err=0 where that is meant.",
                LabelErrorWarning,
                stacklevel=3,
            )

    def _known_labels(self) -> Labels:
        if self.labels is None:
            raise ValueError(
                "How labels scatter about f is not known to this prediction. Make it with labels=..., such as "
                "eiv.likelihoods.NormalLabels(noise)."
            )
        return self.labels

    def _shares_with_remainder(self) -> Array:
        if self.shares is None:
            raise ValueError("The budget was not asked for. Predict with predict_distribution(X, budget=True).")
        shares = self.shares.reshape(len(self), -1, self.shares.shape[-1])
        return np.concatenate([shares, 1 - shares.sum(-1, keepdims=True)], axis=-1)

    def _features(self) -> list[str]:
        n_features = 0 if self.shares is None else self.shares.shape[-1]
        return [*(self.feature_names or (f"x{i}" for i in range(n_features))), "remainder"]

    def _outputs(self) -> list[str]:
        return list(self.output_names or (f"y{i}" for i in range(self.mean.shape[1])))

    def _columns(self, values: Array) -> Array:
        return values.reshape(len(values), -1)

    def _kept_draws(self) -> Array:
        if self.draws is None:
            raise ValueError(
                "Quantiles and samples need the draws, which were not kept for so many rows. "
                "Predict with keep_draws=True, or fewer rows at a time."
            )
        return self.draws
