"""Laws of errors that are learned: from readings beside better ones, or from repeated readings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from eiv.inputs.flows import Flow, fit_flow, needs_flows
from eiv.inputs.laws import MixtureLaw
from eiv.inputs.learned import LearnedPrior
from eiv.inputs.repeats import errors_from_repeats

__all__ = ["law_from_pairs", "law_from_repeats"]

Array = NDArray[np.float64]
_FEWEST_PAIRS = 12  # four for each number of a normal distribution, as for the components of a learned prior
_LONGEST = 80  # characters of an argument in a message
_FEWEST_REPEATS = 3  # of the same thing: differences of two are symmetric whatever the law is


def law_from_pairs(
    clean: Any, noisy: Any, *, clean_err: ArrayLike = 0.0, max_parts: int = 3, flow: bool = False
) -> MixtureLaw | list[MixtureLaw] | dict[str, MixtureLaw]:
    r"""The law of the errors of an instrument, from its readings beside those of a better one of the same things.

    .. math:: \max_{w, s, v} \sum_i \log \sum_j w_j\, \mathcal{N}(d_i | s_j, v_j^2 + \tau_i^2), \qquad
              d_i = \zeta_i - x_i

    with tau the error of the better one (extreme deconvolution, as `eiv.LearnedPrior` has it). Readings that are off on
    average, skewed errors and heavy tails are all found. There are as many parts as readings that were held out ask
    for.

    Args:
        clean: the better readings, `rows`, or `rows x n_x`.
        noisy: those of the instrument, the same shape.
        clean_err: tau, the standard deviation of the better readings: a number, or one for each.
        max_parts: the most parts that are tried.
        flow: whether the law is the push-forward of a normal distribution by a flow instead, for shapes that a few
            parts do not have (`eiv.inputs.flows`). It needs the extra `flow`, and better readings without errors.

    Returns:
        A law for `x_err` and `X_err`; of several columns a list, or a mapping by the names of a pandas table.

    Examples:
        >>> random = np.random.default_rng(0)
        >>> truth = random.normal(size=500)
        >>> law = law_from_pairs(truth, truth + 0.3 + 0.1 * random.standard_normal(500))
        >>> parts = law.parts(np.zeros(1), "x_err")
        >>> parts.mean.round(2), parts.std.round(2)
        (array([-0.29]), array([0.09]))

    """
    better, readings = _numbers("clean", clean), _numbers("noisy", noisy)
    if better.shape != readings.shape or better.ndim not in (1, 2):
        raise ValueError(f"clean and noisy must have the same shape, got {better.shape} and {readings.shape}.")
    gaps = better - readings
    try:
        errors = np.broadcast_to(np.asarray(clean_err, dtype=float), gaps.shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"clean_err must be a number or of shape {gaps.shape}, got {clean_err!r}.") from error
    if flow:
        needs_flows()
        if errors.any():
            raise ValueError("clean_err must be 0 where the law is a flow; leave out flow=True for other readings.")
    find = _flow if flow else partial(_mixture, max_parts=max_parts)
    if gaps.ndim == 1:
        return _law("clean and noisy", gaps, errors, find)
    labels = _labels(noisy, gaps.shape[1])
    return _named(noisy, [_law(*each, find) for each in zip(labels, gaps.T, errors.T, strict=True)])


def law_from_repeats(
    X: Any, groups: ArrayLike, *, max_parts: int = 3
) -> MixtureLaw | list[MixtureLaw] | dict[str, MixtureLaw]:
    r"""The law of the errors of single readings, from repeated readings of the same things.

    .. math:: d_i = \frac{1}{n_g - 1} \sum_{j \in g, j \ne i} x_j - x_i, \qquad \tau_g = \sigma_x / \sqrt{n_g - 1}

    The mean of the other readings of a group is taken as the better reading of `law_from_pairs`, with a normal error.
    With n readings in a group the third cumulant of the law comes out :math:`1 - (n - 1)^{-2}` times as large as it is,
    the fourth :math:`1 + (n - 1)^{-3}` times: by 11 % and 4 % for n = 4. How far all readings are off on average cannot
    be known from repeats; that mean is taken as zero.

    Args:
        X: `rows` or `rows x n_x`, all single readings.
        groups: `rows`, a label for each: rows with the same label measure the same true value, three of them at least.
        max_parts: the most parts that are tried.

    Returns:
        A law for `x_err` and `X_err`; of several columns a list, or a mapping by the names of a pandas table.

    Examples:
        >>> random = np.random.default_rng(0)
        >>> groups = np.repeat(np.arange(100), 5)
        >>> law = law_from_repeats(groups + random.laplace(scale=0.1, size=500), groups)
        >>> round(float(law.parts(np.zeros(1), "x_err").std[0]), 2)  # 0.1 sqrt(2)
        0.14

    """
    values = _numbers("X", X)
    table = values[:, None] if values.ndim == 1 else values
    repeats = errors_from_repeats(table, groups)
    if repeats.counts.min() < _FEWEST_REPEATS:
        label, n = repeats.groups[repeats.counts.argmin()], repeats.counts.min()
        raise ValueError(f"groups must have {_FEWEST_REPEATS} readings each at least; group {label} has {n}.")
    others = (repeats.counts - 1)[repeats.members][:, None]
    better = ((others + 1) * np.asarray(repeats.X)[repeats.members] - table) / others
    errors = repeats.x_err / np.sqrt(others)
    labels = _labels(X, table.shape[1])
    columns = zip(labels, (better - table).T, errors.T, strict=True)
    find = partial(_mixture, max_parts=max_parts)
    laws = [_centred(_law(label, gaps, tau, find)) for label, gaps, tau in columns]
    return laws[0] if values.ndim == 1 else _named(X, laws)


def _numbers(name: str, values: Any) -> Array:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        given = repr(values)
        raise ValueError(
            f"{name} must be numbers, `rows` or `rows x n_x`, got {given if len(given) < _LONGEST else type(values)}."
        ) from error


def _law(label: str, gaps: Array, errors: Array, find: Callable[[Array, Array], MixtureLaw]) -> MixtureLaw:
    """The law of true values less readings, `rows`, whose true values have these errors."""
    if len(gaps) < _FEWEST_PAIRS:
        raise ValueError(f"{label}: a law takes {_FEWEST_PAIRS} readings at least, got {len(gaps)}.")
    if not np.isfinite(gaps).all() or not (np.isfinite(errors) & (errors >= 0)).all():
        raise ValueError(f"{label}: readings must be finite, and their errors not negative.")
    if np.ptp(gaps) == 0:
        raise ValueError(f"{label}: all readings are off by {-gaps[0]:g}, so that there is no error to learn.")
    return find(gaps, errors)


def _mixture(gaps: Array, errors: Array, max_parts: int) -> MixtureLaw:
    prior = LearnedPrior(max_components=max_parts).learn(torch.tensor(gaps[:, None]), torch.tensor(errors[:, None]))
    return MixtureLaw(
        np.asarray(prior.weights), np.asarray(prior.means)[:, 0], np.sqrt(np.asarray(prior.covariances)[:, 0])
    )


def _flow(gaps: Array, errors: Array) -> MixtureLaw:
    del errors  # there are none
    values = torch.from_numpy(gaps)
    return fit_flow(Flow.normal(float(gaps.mean()), float(gaps.std())), lambda flow: flow.log_density(values)).law()


def _centred(law: MixtureLaw) -> MixtureLaw:
    """The law with a mean of zero."""
    weights, shifts = np.asarray(law.weights), np.asarray(law.shifts)
    return MixtureLaw(weights, shifts - weights @ shifts / weights.sum(), law.stds)


def _labels(table: Any, n: int) -> list[str]:
    names: Sequence[Any] = list(getattr(table, "columns", range(n)))
    return [f"column {name!r}" for name in names]


def _named(table: Any, laws: list[MixtureLaw]) -> list[MixtureLaw] | dict[str, MixtureLaw]:
    return dict(zip(map(str, table.columns), laws, strict=True)) if hasattr(table, "columns") else laws
