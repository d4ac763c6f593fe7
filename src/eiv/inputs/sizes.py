"""Errors whose size is not known exactly: what is believed of it beforehand, and what was learned of it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma, psi

from eiv.engine.readonly import ReadOnly
from eiv.inputs.cloud import TrainingCloud
from eiv.inputs.priors import InputPrior
from eiv.inputs.repeats import Repeats
from eiv.io.notation import without_dof
from eiv.validation import in_feature_order

__all__ = ["EstimatedError", "LearnedSizes", "SizeNode", "SizePrior", "estimated"]

Array = NDArray[np.float64]
_LEAST_DOF = 1.0
_MOST_RELATIVE = 0.7  # relative uncertainty of a size that one degree of freedom leaves, by the rule of the GUM
_HARDLY_SETTLED = 0.1  # share of the prior variance of a logarithm: rows that take away less say nothing of the size
_NEWTON = 12  # steps for the degrees of freedom, of which seven are enough from 0.1 to 1,000


@dataclass(frozen=True)
class EstimatedError:
    r"""An error of X whose size is itself an estimate; made by `eiv.estimated`.

    .. math:: \sigma_j = s_j \, \hat\sigma_j, \qquad s_j^2 \sim \nu_j / \chi^2_{\nu_j}

    Attributes:
        error: the stated error, in any form that `x_err` or `X_err` takes.
        dof: nu, a number, one per feature, or those by name; infinity where an error is known exactly, as for features
            that a mapping leaves out.
        together: whether one factor holds for all columns, rather than one for each.

    Examples:
        >>> EstimatedError(0.3, dof=8).size_prior(2, None).dof
        array([8., 8.])

    """

    error: Any
    dof: Any
    together: bool = False

    def size_prior(self, n_features: int, feature_names: Sequence[str] | None) -> SizePrior:
        """What is believed of the size of each column's error."""
        named = self.dof
        if isinstance(named, Mapping) and feature_names is not None:
            named = dict.fromkeys(map(str, feature_names), math.inf) | {str(name): nu for name, nu in named.items()}
        given = in_feature_order("dof", named, feature_names)
        takes = f"a number of at least {_LEAST_DOF:g}, or {n_features} of them, one per feature"
        try:
            dof = np.asarray(given, dtype=float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"dof must be {takes}, got {self.dof!r}.") from error
        if dof.shape not in ((), (n_features,)) or not (dof >= _LEAST_DOF).all():
            raise ValueError(f"dof must be {takes}, got {self.dof!r}.")
        dof = np.broadcast_to(dof, n_features).copy()
        if self.together and len(set(dof[np.isfinite(dof)])) > 1:
            raise ValueError(f"dof must be one number where the columns share one factor (together), got {self.dof!r}.")
        return SizePrior(dof, self.together)


def estimated(error: Any, dof: Any = None, *, rel_uncertainty: Any = None, together: bool = False) -> EstimatedError:
    r"""An error of X whose size is itself an estimate, so that the fit learns it as far as the rows can tell.

    .. math:: \sigma_j = s_j \, \hat\sigma_j, \qquad s_j^2 \sim \nu_j / \chi^2_{\nu_j}, \qquad
              \nu = \tfrac12 \left( \frac{\Delta u}{u} \right)^{-2}

    The first is what a standard deviation from nu degrees of freedom says of the true one. The second is the rule of
    the GUM (JCGM 100:2008, G.4.2) for an uncertainty u that is itself uncertain by a share.

    Args:
        error: the stated error, in any form that `x_err` or `X_err` takes; or an `eiv.Repeats`, whose `X_err` and `dof`
            are then taken.
        dof: nu, the degrees of freedom behind the stated error: a number, one per feature, or those by name; infinity
            where an error is known exactly, as for features that a mapping leaves out.
        rel_uncertainty: in place of `dof`, the relative uncertainty of the stated error: 0.3 or "30%" where it is known
            to plus or minus 30 %; one per feature, or those by name, with 0 where an error is known exactly.
        together: whether one factor holds for all columns, as for a calibration that they share, rather than one for
            each.

    Returns:
        What `x_err` and the `X_err` of a fit take.

    Examples:
        >>> from eiv import EiVRegressor, estimated
        >>> model = EiVRegressor(x_err=estimated(0.3, dof=8))
        >>> round(estimated(0.3, rel_uncertainty=0.3).dof, 1)
        5.6

    """
    if isinstance(error, Repeats):
        if dof is not None or rel_uncertainty is not None:
            raise ValueError("dof: repeated measurements have their own; give neither dof nor rel_uncertainty.")
        if np.ndim(error.dof):
            raise ValueError(
                "error: repeats with an error for each group (by_group) have too few measurements each to learn from; "
                "take errors_from_repeats(X, groups), whose error all groups share."
            )
        return EstimatedError(error.X_err, float(error.dof), together)
    if (dof is None) == (rel_uncertainty is None):
        raise ValueError(
            f"Give either dof or rel_uncertainty, got dof={dof!r} and rel_uncertainty={rel_uncertainty!r}."
        )
    if rel_uncertainty is not None:
        dof = _dof_of(rel_uncertainty)
    return EstimatedError(error, dof, together)


def _dof_of(relative: Any) -> Any:
    """The degrees of freedom that leave a size with this relative uncertainty, in the form in which it is given."""
    if isinstance(relative, Mapping):
        return {name: _dof_of_one(each, relative, exact=True) for name, each in relative.items()}
    if not isinstance(relative, str) and np.ndim(relative) == 1:
        return [_dof_of_one(each, relative, exact=True) for each in relative]
    return _dof_of_one(relative, relative, exact=False)


def _dof_of_one(relative: Any, given: Any, *, exact: bool) -> float:
    share = math.nan
    if isinstance(relative, str) and relative.strip().endswith("%"):
        with contextlib.suppress(ValueError):
            share = float(relative.strip()[:-1]) / 100
    elif isinstance(relative, int | float | np.integer | np.floating) and not isinstance(relative, bool):
        share = float(relative)
    if exact and share == 0:
        return math.inf
    if not 0 < share <= _MOST_RELATIVE:
        raise ValueError(
            f"rel_uncertainty must be a number above 0 and at most {_MOST_RELATIVE:g} or a text such as '30%', for all "
            f"features, for each or by name, got {given!r}."
        )
    return 0.5 * share**-2


def as_estimated(given: Any) -> Any:
    """Errors whose texts say how well they are known, such as "0.3 dof=8", as `estimated` has them; others as they are.

    Infinitely many degrees of freedom leave an error that is known.

    Examples:
        >>> as_estimated({"a": "0.3 dof=8", "b": 0.1})
        EstimatedError(error={'a': '0.3', 'b': 0.1}, dof={'a': 8.0, 'b': inf}, together=False)

    """
    if isinstance(given, str):
        text, dof = without_dof(given)
        return text if dof == math.inf else EstimatedError(text, dof)
    if isinstance(given, Mapping):
        read = as_estimated(list(given.values()))
        if isinstance(read, EstimatedError):
            return EstimatedError(dict(zip(given, read.error, strict=True)), dict(zip(given, read.dof, strict=True)))
        return dict(zip(given, read, strict=True))
    if isinstance(given, list | tuple) and any(isinstance(each, str) for each in given):
        parts = [without_dof(each) if isinstance(each, str) else (each, math.inf) for each in given]
        errors, dofs = ([part[place] for part in parts] for place in (0, 1))
        return errors if all(dof == math.inf for dof in dofs) else EstimatedError(errors, dofs)
    return given


@dataclass(frozen=True, eq=False)
class SizePrior:
    r"""What is believed of t = log s, the logarithm of the true error over the stated one, before the rows are seen.

    .. math::
        \log p(t) = -\nu t - \tfrac{\nu}{2} e^{-2t} + \mathrm{const}, \qquad
        \mathrm{E}\, t = \tfrac12 \big( \log \tfrac{\nu}{2} - \psi(\tfrac{\nu}{2}) \big), \qquad
        \mathrm{Var}\, t = \tfrac14 \psi'(\tfrac{\nu}{2})

    That is a scaled inverse chi-squared distribution of the variance.

    Attributes:
        dof: nu of each column, `n_x`; infinity where the error is known.
        together: whether one factor holds for all columns of which it is not known.

    Examples:
        >>> SizePrior(np.array([4.0])).std.round(2)
        array([0.4])

    """

    dof: Array
    together: bool = False

    @property
    def mean(self) -> Array:
        """The mean of t, `n_x`; 0 where the error is known."""
        half = np.where(np.isfinite(self.dof), self.dof, 1.0) / 2
        return np.where(np.isfinite(self.dof), (np.log(half) - psi(half)) / 2, 0.0)

    @property
    def std(self) -> Array:
        """The standard deviation of t, `n_x`; 0 where the error is known."""
        half = np.where(np.isfinite(self.dof), self.dof, 1.0) / 2
        return np.where(np.isfinite(self.dof), np.sqrt(polygamma(1, half)) / 2, 0.0)

    def groups(self, errors: Array) -> list[list[int]]:
        """The columns whose factors are learned, those of one factor together; `errors` are `(1 or rows) x n_x`.

        Columns without error have no factor.
        """
        open_ = np.flatnonzero(errors.any(0) & np.isfinite(self.dof)).tolist()
        return [open_] if self.together and open_ else [[column] for column in open_]

    def log_density(self, log_size: Array, column: int) -> Array:
        """The logarithm of the density of t, but for a constant."""
        nu = self.dof[column]
        return np.asarray(-nu * log_size - nu / 2 * np.exp(-2 * log_size))


@dataclass(frozen=True, eq=False)
class SizeNode(ReadOnly):
    """One size of the errors of X, and what belongs to it.

    Attributes:
        factor: `n_x`, what stated errors are multiplied by.
        share: its weight among all nodes, which add up to one.
        input_prior: pi(zeta) as it was found for this size.
        cloud: where the training rows lie, by this size.

    Examples:
        >>> from eiv.inputs import FlatPrior
        >>> SizeNode(np.array([0.5]), share=0.4, input_prior=FlatPrior()).share
        0.4

    """

    factor: Array
    share: float
    input_prior: InputPrior
    cloud: TrainingCloud | None = None


@dataclass(frozen=True, eq=False)
class LearnedSizes(ReadOnly):
    """What a fit has learned of the size of the errors of X; `x_err_scale_` of an estimator.

    Attributes:
        factor: `n_x`, the true error over the stated one: exp of the posterior mean of its logarithm; 1 for columns
            whose error is known.
        std: `n_x`, the posterior standard deviation of that logarithm, which is the relative uncertainty of `factor`.
        prior_std: `n_x`, the same before the rows were seen.
        nodes: sizes that stand for the posterior; the networks of a model are as many for each, in this order.
        names: of the columns; None where X had none.

    Examples:
        >>> sizes = LearnedSizes(np.array([0.52]), np.array([0.04]), np.array([0.4]))
        >>> sizes.settled.round(2)
        array([0.99])
        >>> sizes.words()
        ['The errors of column 0 are 0.52 times the stated ones, uncertain by 4 % (40 % before the rows were seen).']

    """

    factor: Array
    std: Array
    prior_std: Array
    nodes: tuple[SizeNode, ...] = ()
    names: tuple[str, ...] | None = None

    @property
    def settled(self) -> Array:
        r"""How much the rows tell of each size, `n_x`: the share of the prior variance that they take away.

        .. math:: 1 - \mathrm{Var}(t \mid x, y) / \mathrm{Var}(t)

        0 where they tell nothing, as where everything is normal and f is a line; 0 for errors that are known.
        """
        known = self.prior_std == 0
        return np.where(known, 0.0, np.clip(1 - (self.std / np.where(known, 1.0, self.prior_std)) ** 2, 0, 1))

    @property
    def dof(self) -> Array:
        r"""The degrees of freedom of each error of learned size, `n_x`; infinite where the error is known.

        .. math:: \tfrac14 \psi'(\tfrac{\nu}{2}) = \mathrm{std}^2

        So many would leave the size as uncertain as it is after the fit. Where the rows tell nothing, they are those
        that were stated. The rule of the GUM (G.4.2), half of 1 / std squared, is what this tends to where they are
        many.
        """
        known = self.std == 0
        wanted = 4 * np.where(known, 1.0, self.std) ** 2
        half = 0.5 + 1 / wanted  # above the root, and near it; Newton's steps for 1 / psi' stay on that side
        for _ in range(_NEWTON):
            there = polygamma(1, half)
            half = half + there * (1 - there / wanted) / polygamma(2, half)
        return np.where(known, np.inf, 2 * half)

    def words(self, names: Sequence[str] | None = None) -> list[str]:
        """A sentence for each column whose size was to be learned; `names` stand for those of the fit."""
        names = self.names if names is None else names
        found = []
        for column in np.flatnonzero(self.prior_std).tolist():
            name = f"column {column}" if names is None else str(names[column])
            factor, std, prior = self.factor[column], self.std[column], self.prior_std[column]
            size = f"{factor:.2g} times the stated ones, uncertain by {100 * std:.0f} %"
            before = f"{100 * prior:.0f} % before the rows were seen"
            if self.settled[column] >= _HARDLY_SETTLED:
                found.append(f"The errors of {name} are {size} ({before}).")
            elif std**2 < (1 + _HARDLY_SETTLED) * prior**2:
                found.append(
                    f"The rows do not tell the size of the errors of {name}: what is believed of it is what was "
                    f"stated, {size}."
                )
            else:
                found.append(
                    f"The rows leave the size of the errors of {name} less certain than it was stated: {size} "
                    f"({before})."
                )
        return found

    def at(self, node: SizeNode) -> LearnedSizes:
        """The size of one node alone, as if it were known."""
        return LearnedSizes(node.factor, np.zeros_like(self.std), self.prior_std, names=self.names)


def two_nodes(points: Array, log_density: Array) -> tuple[float, float, list[tuple[float, float]]]:
    r"""Mean and standard deviation of a density on a line, and the two nodes of Gauss's rule for it.

    .. math::
        \delta_\pm = \tfrac12 \big( \gamma \pm \sqrt{\gamma^2 + 4} \big), \qquad
        p_\pm = \frac{1}{1 + \delta_\pm^2}, \qquad \gamma \text{ the skewness}

    The rule has the mean, the variance and the skewness of the density.

    Args:
        points: evenly spaced.
        log_density: there, but for a constant.

    Returns:
        Mean, standard deviation, and for each node its distance from the mean in standard deviations and its weight.

    Examples:
        >>> points = np.linspace(-8, 8, 1001)
        >>> mean, std, nodes = two_nodes(points, -0.5 * points**2)
        >>> round(std, 6), [(round(d, 6), round(p, 6)) for d, p in nodes]
        (1.0, [(-1.0, 0.5), (1.0, 0.5)])

    """
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = float(weights @ points)
    std = math.sqrt(float(weights @ (points - mean) ** 2))
    skewness = float(weights @ (points - mean) ** 3) / std**3
    deltas = [(skewness + sign * math.sqrt(skewness**2 + 4)) / 2 for sign in (-1, 1)]
    return mean, std, [(delta, 1 / (1 + delta**2)) for delta in deltas]
