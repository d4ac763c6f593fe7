"""The evaluation of trained networks on test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eiv import EiVRegressor, Prediction
from eiv.datasets import SIMULATED
from eiv.experiments.paper.problems import Problem
from eiv.experiments.paper.regression import GRegression
from eiv.likelihoods import NormalLabels
from eiv.metrics import coverage, rmse

__all__ = ["ESTIMATORS", "LEVELS", "Evaluation", "evaluate_models", "evaluate_regression"]

Array = NDArray[np.float64]
ESTIMATORS: tuple[Literal["unbiased", "literal"], ...] = ("unbiased", "literal")
LEVELS = tuple(round(0.05 * i, 2) for i in range(1, 20))  # the values of q in figure true_cov_vs_q


@dataclass(frozen=True)
class Evaluation:
    """Tidy tables for one stack of networks.

    Attributes:
        networks: one row per network and estimator: RMSE, coverages and the components of the uncertainty.
        calibration: one row per network, estimator and q: coverage of g(zeta).
        points: one row per point of known truth and estimator: prediction and u, averaged over the networks.

    Examples:
        >>> from eiv.experiments.paper.problems import problem
        >>> evaluate_regression(problem("linear", seed=0, n_networks=2)).networks.shape[0]  # two readings each
        4

    """

    networks: pd.DataFrame
    calibration: pd.DataFrame
    points: pd.DataFrame


def evaluate_models(problem: Problem, models: Sequence[EiVRegressor]) -> Evaluation:
    """Evaluate one model per split on its test rows, with both estimators of Algorithm 2.

    Values of real data are in units of the standard deviation of the training labels, as the paper standardises them.

    Args:
        problem: the data.
        models: one model per split of the problem, fitted to the training rows of that split.

    Returns:
        The tables.

    Examples:
        >>> from eiv import EiVRegressor, fit_splits
        >>> from eiv.experiments.paper.problems import problem
        >>> linear = problem("linear", seed=0, n_networks=2)
        >>> rows = [train for train, _ in linear.splits]
        >>> models = fit_splits(EiVRegressor(0.1, recipe="paper", epochs=1, n_theta=4), linear.X, linear.y, rows)
        >>> sorted(evaluate_models(linear, models).networks["estimator"].unique())
        ['literal', 'unbiased']

    """
    bands: dict[str, list[Prediction]] = {estimator: [] for estimator in ESTIMATORS}
    for model, (_, test) in zip(models, problem.splits, strict=True):
        x = rows_of(problem.X, test)
        for points in problem.points:
            x = np.concatenate([x, points.x[:, None]])
        for estimator in ESTIMATORS:
            bands[estimator].append(model.predict_distribution(x, method=estimator, keep_draws=False))
    return _evaluate(problem, bands)


def evaluate_regression(problem: Problem) -> Evaluation:
    r"""Evaluate the g-based Bayesian regression, with two versions of its uncertainty, on the rows of the networks.

    .. math:: u = \mathrm{std}[\tilde g(x)] \quad \text{or} \quad u = \mathrm{std}[y]

    The second includes sigma_y. It covers nearly all of the truth on linear, and hardly any on sine, where sigma_y is
    small.

    Args:
        problem: a simulated problem.

    Returns:
        The tables; the estimators are "parameters" and "predictive".

    Examples:
        >>> from eiv.experiments.paper.problems import problem
        >>> tables = [evaluate_regression(problem(name, seed=0, n_networks=2)).networks for name in ("linear", "sine")]
        >>> [bool(found.query("estimator == 'predictive'")["truth_coverage"].mean() > 0.95) for found in tables]
        [True, False]

    """
    bands: dict[str, list[Prediction]] = {"parameters": [], "predictive": []}
    y_noise = SIMULATED[problem.name].y_noise
    for train, test in problem.splits:
        model = GRegression.fit(problem.name, problem.X[train, 0], problem.y[train])
        x = np.concatenate([problem.X[test, 0], *(points.x for points in problem.points)])
        mean, parameters, predictive = model.predict(x)
        nothing = np.zeros_like(mean)
        for name, std, noise in (("parameters", parameters, nothing + y_noise), ("predictive", predictive, nothing)):
            bands[name].append(Prediction(mean, std, nothing, noise, labels=NormalLabels(noise)))
    return _evaluate(problem, bands)


def rows_of(X: Any, rows: NDArray[np.intp]) -> Any:
    """The given rows of an array or a pandas table."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _evaluate(problem: Problem, bands: dict[str, list[Prediction]]) -> Evaluation:
    networks, calibration, points = [], [], []
    for estimator, found in bands.items():
        for network, (band, (train, test)) in enumerate(zip(found, problem.splits, strict=True)):
            unit = 1.0 if problem.truth is not None else float(problem.y[train].std())
            row = {"network": network, "estimator": estimator, "unit": unit}
            networks.append(row | scores_of(band[: len(test)], problem, test, unit))
            if problem.truth is not None:
                calibration += [
                    {
                        "network": network,
                        "estimator": estimator,
                        "q": q,
                        "coverage": coverage(problem.truth[test], *band[: len(test)].interval(q)),
                    }
                    for q in LEVELS
                ]
        start = len(problem.splits[0][1])
        for part in problem.points:
            inside = slice(start, start + len(part.x))
            means, stds = (np.array([getattr(band[inside], name) for band in found]) for name in ("mean", "std"))
            points.append(
                pd.DataFrame(
                    {
                        "kind": part.kind,
                        "point": np.arange(len(part.x)),
                        "estimator": estimator,
                        "zeta": part.zeta,
                        "x": part.x,
                        "truth": part.truth,
                        "g_of_x": part.g_of_x,
                        "mean": means.mean(0),
                        "mean_se": _standard_errors(means),
                        "u": stds.mean(0),
                        "u_se": _standard_errors(stds),
                    }
                )
            )
            start += len(part.x)
    return Evaluation(
        pd.DataFrame(networks),
        pd.DataFrame(calibration, columns=["network", "estimator", "q", "coverage"]),
        pd.concat(points, ignore_index=True) if points else pd.DataFrame(),
    )


def scores_of(band: Prediction, problem: Problem, test: NDArray[np.intp], unit: float) -> dict[str, float]:
    """The scores of one network on its test rows, in multiples of `unit`."""
    y, truth = problem.y[test], None if problem.truth is None else problem.truth[test]
    return {
        "rmse": rmse(y, band.mean) / unit,
        "rmse_truth": np.nan if truth is None else rmse(truth, band.mean),
        "label_coverage_total": coverage(y, *band.interval(of="label")),
        "label_coverage_u": coverage(y, *band.interval()),
        "truth_coverage": np.nan if truth is None else coverage(truth, *band.interval()),
        "u": _root_mean_square(band.std) / unit,
        "epistemic": _root_mean_square(band.epistemic) / unit,
        "aleatoric": _root_mean_square(band.aleatoric) / unit,
        "y_noise": _root_mean_square(band.noise) / unit,
    }


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _standard_errors(values: Array) -> Array:
    """The standard error of the mean over the first axis; NaN where there is only one value."""
    if len(values) < 2:
        return np.full(values.shape[1], np.nan)
    return np.asarray(values.std(0, ddof=1) / np.sqrt(len(values)))
