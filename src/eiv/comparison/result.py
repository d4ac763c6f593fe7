"""The result of a comparison: scores, paired differences, a sentence and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from eiv.comparison.folds import Fold, Task
from eiv.comparison.methods import METHODS, OURS
from eiv.metrics import coverage, normal_crps, rmse
from eiv.plotting import COLOURS, new_figure, styled
from eiv.validation import check_option

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Comparison"]

Array = NDArray[np.float64]
Score = Literal["crps", "squared_error"]
LEVEL = 0.95  # of the intervals
THIRDS = ("small", "middle", "large")
_LINEAR = 10.0  # per cent, up to which the axis of differences is linear
_STANDARD_ERRORS = 2.0  # of a difference, below which two methods cannot be distinguished


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Methods side by side in cross-validation on one table.

    Attributes:
        task: the table and its folds.
        folds: what each method predicted in each fold.
        skipped: the methods that could not be run, with the reason.

    Examples:
        >>> import eiv
        >>> x = np.linspace(-1, 1, 60)
        >>> y = 3 * x + 0.1 * np.sin(999 * x)
        >>> found = eiv.compare(x[:, None], y, X_err=0.01, methods=["least_squares", "boosted_trees"])
        >>> found.best, found.tied
        ('least_squares', ('least_squares',))
        >>> list(found.to_frame())
        ['rmse', 'crps', 'behind', 'behind_se', 'labels_0.95', 'seconds']

    """

    task: Task
    folds: Mapping[str, Sequence[Fold]]
    skipped: Mapping[str, str]

    @classmethod
    def of(cls, task: Task, folds: Mapping[str, Sequence[Fold]], skipped: Mapping[str, str]) -> Comparison:
        """The comparison of methods that ran; one that refused a fold counts as skipped."""
        failed = {name: next((fold.failure for fold in each if fold.failure), "") for name, each in folds.items()}
        ran = {name: each for name, each in folds.items() if not failed[name]}
        refused = dict(skipped) | {name: why.rstrip(".") for name, why in failed.items() if why}
        if not ran:
            raise ValueError(f"No method could be run. {'; '.join(f'{n}: {why}' for n, why in refused.items())}.")
        return cls(task, ran, refused)

    def __repr__(self) -> str:
        return f"Comparison(rows={len(self.task.y)}, methods={len(self.folds)}, best={self.best!r})"

    def of_rows(self, method: str, what: str) -> Array:
        """One value per row of the table, in its order: "mean", "total", "low", "high", "crps" or "squared_error"."""
        if what == "crps":
            return normal_crps(self.task.y, self.of_rows(method, "mean"), self.of_rows(method, "total"))
        if what == "squared_error":
            return np.asarray((self.task.y - self.of_rows(method, "mean")) ** 2)
        found = np.full(len(self.task.y), np.nan)
        for fold in self.folds[method]:
            found[fold.rows] = getattr(fold, what)
        return found

    def difference(self, method: str, other: str, score: Score = "crps") -> tuple[float, float]:
        r"""By how much the mean score of a method is above that of another, and the standard error of that.

        .. math:: \bar d = \frac1n \sum_i d_i, \qquad
                  \mathrm{se}^2 = \frac{G}{G - 1} \frac{1}{n^2} \sum_{g=1}^G \Big( \sum_{i \in g} (d_i - \bar d) \Big)^2

        The differences d are those of the same row, which is why they are much more certain than the scores themselves.
        Groups g are single rows where none are given. That rows of a fold share a fit is not in the standard error.
        """
        check_option("score", score, ("crps", "squared_error"))
        d = self.of_rows(method, score) - self.of_rows(other, score)
        groups = np.arange(len(d)) if self.task.groups is None else self.task.groups
        sums = np.bincount(groups, weights=d - d.mean())
        n_groups = len(sums)
        return float(d.mean()), float(np.sqrt(n_groups / (n_groups - 1) * np.sum(sums**2)) / len(d))

    @property
    def best(self) -> str:
        """The method with the smallest CRPS."""
        return min(self.folds, key=lambda name: float(self.of_rows(name, "crps").mean()))

    @property
    def tied(self) -> tuple[str, ...]:
        """The methods whose CRPS is within two standard errors of the best one's, that one first."""
        best = self.best
        differences = {name: self.difference(name, best) for name in self.folds if name != best}
        close = [name for name, (mean, error) in differences.items() if mean <= _STANDARD_ERRORS * error]
        return (best, *sorted(close, key=lambda name: differences[name][0]))

    def seconds(self, method: str) -> float:
        """The mean CPU time of a fit and its predictions, of all threads together."""
        return float(np.mean([fold.seconds for fold in self.folds[method]]))

    def coverage(self, method: str) -> float:
        """The share of labels inside their 95 % intervals."""
        return coverage(self.task.y, self.of_rows(method, "low"), self.of_rows(method, "high"))

    def coverage_by_error(self, method: str) -> tuple[float, float, float] | None:
        """That share in thirds of the rows by the size of their errors, small ones first; None where all have the same.

        The size is the root mean square over the columns of error over spread.
        """
        thirds = self._thirds()
        if thirds is None:
            return None
        low, high = self.of_rows(method, "low"), self.of_rows(method, "high")
        small, middle, large = (coverage(self.task.y[each], low[each], high[each]) for each in thirds)
        return small, middle, large

    def to_frame(self) -> pd.DataFrame:
        """Scores, one row per method, the best one first.

        `behind` is the difference of the CRPS to the best method's, with its standard error `behind_se`. `labels_0.95`
        is the share of labels in their 95 % interval, also by thirds of the size of the errors where they differ.
        `seconds` is the CPU time of one fit and its predictions, of all threads together.
        """
        import pandas as pd  # noqa: PLC0415  (slow to import)

        found = {}
        for name in self.folds:
            behind, error = self.difference(name, self.best)
            scores = {
                "rmse": rmse(self.task.y, self.of_rows(name, "mean")),
                "crps": float(self.of_rows(name, "crps").mean()),
                "behind": behind,
                "behind_se": error,
                f"labels_{LEVEL}": self.coverage(name),
            }
            by_error = self.coverage_by_error(name)
            if by_error is not None:
                scores |= {f"labels_{third}_errors": share for third, share in zip(THIRDS, by_error, strict=True)}
            found[name] = scores | {"seconds": self.seconds(name)}
        table = pd.DataFrame.from_dict(found, orient="index").sort_values("crps", kind="stable")
        return table.rename_axis("method")

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings of eiv, each once."""
        return tuple(dict.fromkeys(note for folds in self.folds.values() for fold in folds for note in fold.notes))

    @property
    def sentence(self) -> str:
        """Which method to take, and why, in plain words."""
        return " ".join(filter(None, [self._choice(), self._ours(), self._rmse(), self._intervals()]))

    def plot(self) -> Figure:
        """CRPS above the best one's, with two standard errors, and coverage of labels by size of the errors.

        Returns:
            A matplotlib figure.

        """
        table = self.to_frame()
        places = range(len(table))
        with styled():
            figure, ((left, right),) = new_figure(1, 2, (9.0, 1.3 + 0.34 * len(table)), sharey=True)
            for place, (name, row) in zip(places, table.iterrows(), strict=True):
                colour = COLOURS["eiv"] if name == OURS else COLOURS["non_eiv"]
                share, error = (100 * row[key] / table["crps"].iloc[0] for key in ("behind", "behind_se"))
                look: dict[str, Any] = {"marker": "o" if name == OURS else "s", "color": colour, "markersize": 5}
                left.errorbar(share, place, xerr=_STANDARD_ERRORS * error, capsize=2, **look)
                _draw_coverage(right, place, row, look)
            left.set_yticks(places, [METHODS[str(name)].label for name in table.index])
            left.set(ylim=(len(table) - 0.5, -0.5), xlabel="CRPS above the best one's, %")
            lowest = 100 * float(
                (table["behind"] - _STANDARD_ERRORS * table["behind_se"]).min() / table["crps"].iloc[0]
            )
            left.set_xlim(left=lowest - 1)
            left.set_xscale("symlog", linthresh=_LINEAR, linscale=1.0)
            left.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            left.axvline(0, color="black", linewidth=0.8)
            right.axvline(LEVEL, color="black", linewidth=0.8)
            right.set(xlabel="labels inside their 95 % interval")
            if len(table.filter(like="_errors").columns):
                right.set_title("thirds by size of the errors of x:\nopen small, filled large", fontsize=8.5)
        return figure

    def _thirds(self) -> list[NDArray[np.intp]] | None:
        sizes = self.task.error_sizes
        return None if sizes is None or np.ptp(sizes) == 0 else np.array_split(np.argsort(sizes, kind="stable"), 3)

    def _choice(self) -> str:
        best, *others = self.tied
        label, crps = METHODS[best].label, float(self.of_rows(best, "crps").mean())
        if len(self.folds) == 1:
            return f"Only {label} could be run: its CRPS is {crps:.4g}."
        if not others:
            table = self.to_frame()
            second = str(table.index[1])
            return (
                f"Take {label}: its CRPS, {crps:.4g}, is the smallest. That of the next, {METHODS[second].label}, is "
                f"higher by {_difference(*self.difference(second, best), crps)}."
            )
        fastest = min(self.tied, key=self.seconds)
        first = _listed([METHODS[name].label for name in self.tied])
        behind = _difference(*self.difference(others[-1], best), crps)
        return (
            f"{first} cannot be told apart on these rows: the CRPS of the first is {crps:.4g}, that of the last is "
            f"higher by {behind}. Take the fastest of them, {METHODS[fastest].label}, with {self.seconds(fastest):.2g} "
            f"CPU seconds per fit{self._unless(fastest)}."
        )

    def _unless(self, fastest: str) -> str:
        """Which of the tied methods gives f, where the fastest one does not."""
        others = [name for name in self.tied if METHODS[name].gives_f]
        if METHODS[fastest].gives_f or not others:
            return ""
        return f"; f at exact inputs, which it does not give, is had from {METHODS[others[0]].label}"

    def _ours(self) -> str:
        if OURS not in self.folds or OURS in self.tied:
            return ""
        crps = float(self.of_rows(self.best, "crps").mean())
        return f"eiv is behind by {_difference(*self.difference(OURS, self.best), crps)}."

    def _rmse(self) -> str:
        """The method whose RMSE is clearly below that of the best CRPS, if there is one."""
        other = min(self.folds, key=lambda name: float(self.of_rows(name, "squared_error").mean()))
        mean, error = self.difference(self.best, other, "squared_error")
        if other == self.best or mean <= _STANDARD_ERRORS * error:
            return ""
        values = [rmse(self.task.y, self.of_rows(name, "mean")) for name in (other, self.best)]
        return (
            f"Where only the prediction counts, {METHODS[other].label} has the smaller RMSE, "
            f"{values[0]:.4g} instead of {values[1]:.4g}."
        )

    def _intervals(self) -> str:
        """Whether the intervals of the best method hold what they promise."""
        found, n_rows = self.coverage(self.best), len(self.task.y)
        off = found - LEVEL
        words = "as they should"
        if abs(off) > _STANDARD_ERRORS * np.sqrt(LEVEL * (1 - LEVEL) / n_rows):
            words = "too few" if off < 0 else "more than they should"
        by_error = self.coverage_by_error(self.best)
        thirds = ""
        if by_error is not None:
            thirds = (
                f"; {100 * by_error[0]:.1f} % in the third of rows with the smallest errors, "
                f"{100 * by_error[2]:.1f} % in that with the largest"
            )
        return (
            f"The 95 % intervals of {METHODS[self.best].label} hold {100 * found:.1f} % of the labels, {words}{thirds}."
        )


def _draw_coverage(axes: Any, place: int, row: pd.Series, look: dict[str, Any]) -> None:
    """The coverage of a method: one point, or small and large errors with a line between."""
    if f"labels_{THIRDS[0]}_errors" not in row:
        axes.plot(row[f"labels_{LEVEL}"], place, linestyle="", **look)
        return
    small, large = row[f"labels_{THIRDS[0]}_errors"], row[f"labels_{THIRDS[-1]}_errors"]
    axes.plot([small, large], [place, place], color=look["color"], linewidth=1)
    axes.plot(small, place, linestyle="", **look | {"markerfacecolor": "white"})
    axes.plot(large, place, linestyle="", **look)


def _difference(mean: float, error: float, unit: float) -> str:
    return f"{mean:.2g} ± {error:.2g} ({100 * mean / unit:.1f} %)"


def _listed(labels: Sequence[str]) -> str:
    return f"{', '.join(labels[:-1])} and {labels[-1]}"
