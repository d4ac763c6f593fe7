"""Predictions in the forms of other packages: qp, ArviZ, and HTML for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from eiv.extras import needs

if TYPE_CHECKING:
    from eiv.prediction.result import Prediction

__all__ = ["html_of", "to_arviz", "to_qp"]

Array = NDArray[np.float64]
_MOST_SHOWN = 10  # rows in a notebook
_GRID, _REACH = 401, 7.0  # points of a grid of labels, and the noises by which it goes beyond the draws of f


def to_qp(prediction: Prediction, of: Literal["function", "label"], n_quantiles: int) -> Any:
    """An ensemble of qp, by quantiles; `Prediction.to_qp` is the method for it.

    Args:
        prediction: a prediction of one output, with its draws.
        of: "function" or "label".
        n_quantiles: how many quantiles, evenly spread between 0 and 1.

    Returns:
        A `qp.Ensemble`, one distribution per row.

    Examples:
        >>> from eiv import Prediction
        >>> draws = np.random.default_rng(0).normal(size=(500, 2))
        >>> p = Prediction(np.zeros(2), np.ones(2), np.zeros(2), np.zeros(2), draws=draws)
        >>> int(to_qp(p, "function", 49).npdf)
        2

    """
    needs("Prediction.to_qp", "qp", extra="qp")
    import qp  # noqa: PLC0415  (of an extra)

    if prediction.mean.ndim != 1:
        raise ValueError(f"to_qp takes a prediction of one output, got {prediction.mean.shape[1]}.")
    probabilities = (np.arange(n_quantiles) + 0.5) / n_quantiles
    places = _label_quantiles(prediction, probabilities) if of == "label" else prediction.quantile(probabilities).T
    return qp.quant.create_ensemble(quants=probabilities, locs=np.ascontiguousarray(places))


def to_arviz(prediction: Prediction, y: Any, random_state: int | np.random.Generator | None) -> Any:
    """An `InferenceData` of ArviZ; `Prediction.to_arviz` is the method for it.

    Args:
        prediction: a prediction with its draws.
        y: the measured labels, `rows (x n_y)`, or None.
        random_state: the seed of the noise of labels.

    Returns:
        An `arviz.InferenceData`.

    Examples:
        >>> from eiv import Prediction
        >>> p = Prediction(np.zeros(2), np.ones(2), np.zeros(2), np.zeros(2), draws=np.zeros((500, 2)))
        >>> to_arviz(p, None, 0).groups()
        ['posterior']

    """
    needs("Prediction.to_arviz", "arviz", extra="arviz")
    import arviz  # noqa: PLC0415  (of an extra)

    axes = ["row"] if prediction.mean.ndim == 1 else ["row", "output"]
    coords: dict[str, Any] = {"row": np.arange(len(prediction)) if prediction.index is None else prediction.index}
    if len(axes) == 2:
        names = prediction.output_names
        coords["output"] = np.arange(prediction.mean.shape[1]) if names is None else list(names)
    groups: dict[str, Any] = {"posterior": {"f": prediction.samples()[None]}}  # one chain
    if prediction.labels is not None:
        drawn = prediction.samples(of="label", random_state=random_state)
        groups["posterior_predictive"] = {"y": drawn[None]}
    if y is not None:
        observed = np.asarray(y, dtype=float)
        if observed.shape != prediction.mean.shape:
            raise ValueError(f"y must have the shape of the prediction, {prediction.mean.shape}, got {observed.shape}.")
        groups["observed_data"] = {"y": observed}
    return arviz.from_dict(**groups, coords=coords, dims={"f": axes, "y": axes})


def html_of(prediction: Prediction) -> str:
    """The first rows as an HTML table, for notebooks.

    Args:
        prediction: the prediction.

    Returns:
        HTML.

    Examples:
        >>> from eiv import Prediction
        >>> "<table" in html_of(Prediction(np.zeros(2), np.ones(2), np.zeros(2), np.zeros(2)))
        True

    """
    shown = prediction[:_MOST_SHOWN].to_frame().to_html(float_format=lambda value: f"{value:.4g}", border=0)
    more = f"<p>and {len(prediction) - _MOST_SHOWN:,} more rows</p>" if len(prediction) > _MOST_SHOWN else ""
    return f"<div><p><b>{html.escape(repr(prediction))}</b></p>{shown}{more}</div>"


def _label_quantiles(prediction: Prediction, probabilities: Array) -> Array:
    """Quantiles of labels from their density on a grid, `rows x quantiles`; exact ones where noise is below its step.

    That takes a small part of the time of `Prediction.quantile`, which searches for each quantile of each row.
    """
    prediction.interval(of="label")  # refuses and warns of labels as everywhere
    draws, labels = prediction.samples(), prediction.labels
    assert labels is not None
    low, high = draws.min(0) - _REACH * labels.std, draws.max(0) + _REACH * labels.std
    grid = low + (high - low) * np.linspace(0, 1, _GRID)[:, None]  # grid x rows
    fine = labels.std > grid[1] - grid[0]
    found = np.empty((len(prediction), len(probabilities)))
    if not fine.all():
        found[~fine] = prediction[~fine].quantile(probabilities, of="label").T
    if fine.any():
        smooth, places = labels[fine], grid[:, fine]
        density = np.exp([smooth.log_density(draws[:, fine], each) for each in places])
        below = np.concatenate([np.zeros((1, places.shape[1])), np.cumsum(density[1:] + density[:-1], axis=0)])
        shares = below / below[-1]
        found[fine] = [np.interp(probabilities, shares[:, r], places[:, r]) for r in range(places.shape[1])]
    return found
