"""`law_from_fit`: the shape of the law of errors, learned from the rows of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from eiv.engine.graphs import matmul_precision
from eiv.inputs import FlatPrior
from eiv.inputs.flows import Flow, fit_flow, needs_flows
from eiv.inputs.laws import MixtureLaw
from eiv.model import FittedModel
from eiv.prediction.lines import LineSampler, Observed, between
from eiv.regressor.estimator import EiVRegressor
from eiv.regressor.sensitivities import table_for
from eiv.training.fitting import Table

__all__ = ["law_from_fit"]

_REACH, _NODES = 6.0, 49  # of an integral over the error, in standard deviations, and where f is evaluated
_MOST_ROWS = 500  # that a shape is learned from, the first ones of a random order
_DRAWS = 8  # of the weights at least, over all networks


def law_from_fit(
    model: EiVRegressor | FittedModel, X: Any, y: Any, X_err: Any = None, y_err: Any = None, *, random_state: int = 0
) -> MixtureLaw:
    r"""The law of the errors of the only noisy column as the push-forward of a normal distribution, by the joint bound.

    .. math::
        \max_q \sum_i \mathrm{E}_\theta \log \int \pi(\zeta)\, q(\zeta - x_i)\, p(y_i | f_\theta(\zeta))\, d\zeta,
        \qquad \zeta - x = e = m + s\, T(z), \quad z \sim \mathcal{N}(0, 1)

    f, sigma_y and pi are those of the fit. T is a monotone spline (`eiv.inputs.flows`); m and s are such that e has a
    mean of zero and the stated standard deviation, so that only the shape is learned: a shift of all readings cannot be
    told from another f, and `eiv.estimated` learns the size. Fit again with the law, then f and pi are those that
    belong to it. That needs the extra `flow`.

    Args:
        model: a fitted model, with one column whose error is the same in all rows.
        X: `rows x n_x`, its training rows.
        y: `rows` or `rows x n_y`.
        X_err: the errors of X; by default those of the fit.
        y_err: the known errors of y, or None.
        random_state: the seed of the choice of rows, where there are more than 500.

    Returns:
        The nearest mixture of normal distributions, which `x_err` takes.

    Examples:
        >>> from eiv import EiVRegressor
        >>> zeta, error, noise = np.random.default_rng(0).normal(size=(3, 60))
        >>> X, y = (zeta + 0.3 * error)[:, None], zeta + 0.1 * noise
        >>> model = EiVRegressor(0.3, network="cosine", hidden_units=8).fit(X, y)
        >>> law = law_from_fit(model, X, y)
        >>> bool(abs(law.parts(np.zeros(1), "x_err").std[0] - 0.3) < 0.01)
        True

    """
    needs_flows()
    fitted, table = table_for(model, X, y, X_err, y_err)
    column, std = _only_noisy(fitted, table)
    order = np.random.default_rng(random_state).permutation(len(table.x))[:_MOST_ROWS]
    table = table.take(order)
    errors = std * torch.linspace(-_REACH, _REACH, _NODES, dtype=torch.float64)
    middle, width = between(errors, dim=0)
    log_weights = _log_weights(fitted, table, column, errors) + width.abs().log()
    pool = torch.tensor(fitted.weights)

    def per_row(flow: Flow) -> Tensor:
        log_q = flow.shaped(std).log_density(middle)
        found: Tensor = (pool @ (log_weights + log_q).logsumexp(-1).mean(1).flatten(1)).unflatten(0, (-1,))
        return found

    return fit_flow(Flow.normal(0.0, std), per_row).shaped(std).law()


def _only_noisy(model: FittedModel, table: Table) -> tuple[int, float]:
    """The column that has an error, and its standard deviation."""
    stds = table.stated_errors
    noisy = np.flatnonzero(stds.any(0))
    if len(noisy) != 1 or np.ptp(stds[:, noisy]) > 0:
        raise ValueError(
            f"X_err: the law of errors is learned where one column has an error, the same in all rows; {len(noisy)} "
            "have one here. For others take eiv.law_from_pairs or eiv.law_from_repeats."
        )
    if len(model.by_size) > 1:
        raise ValueError(
            "model: the law of errors is learned for a known size. Fit the model again with the size that was learned, "
            "the stated errors times x_err_scale_.factor."
        )
    if not hasattr(model.input_prior, "log_density") and not isinstance(model.input_prior, FlatPrior):
        raise ValueError("input_prior: to learn the law of errors, a prior of your own needs log_density(x, x_err).")
    return int(noisy[0]), float(stds[0, noisy[0]])


def _log_weights(model: FittedModel, table: Table, column: int, errors: Tensor) -> Tensor:
    """The logarithm of pi times the density of the label between true inputs: `S x A x rows x C`."""
    zeta = torch.from_numpy(table.x).unsqueeze(1).repeat(1, len(errors), 1)  # rows x T x n_x
    zeta[..., column] += errors
    centres = between(zeta, dim=1)[0]
    exact = torch.zeros(1, table.x.shape[1]).double()
    log_prior = torch.zeros(centres.shape[:-1]).double()
    if not isinstance(model.input_prior, FlatPrior):
        flat: Tensor = model.input_prior.log_density(centres.flatten(0, 1), exact)  # type: ignore[attr-defined]
        log_prior = flat.unflatten(0, centres.shape[:-1])
    posterior = model.posterior.in_double()
    likelihood = model.likelihood.to(posterior.parameters[0].device, torch.float64)
    units = (model.x_scaler.shift, model.x_scaler.scale)
    sampler = LineSampler(posterior, likelihood, units, _DRAWS, model.seeds, model.pool)
    shift, scale = model.y_scaler.shift, model.y_scaler.scale
    known = np.zeros_like(table.y) if table.y_err is None else table.y_err / scale
    observed = Observed(torch.tensor((table.y - shift) / scale), torch.tensor(known))
    device, found, n_thetas = posterior.parameters[0].device, [], -(-_DRAWS // model.n_networks)
    with matmul_precision(device, "float32"):
        for rows in torch.arange(len(zeta)).split(sampler.chunk_rows):
            some = observed.rows(rows.numpy())
            moved = Observed(some.y.to(device), some.y_err.to(device))
            of_labels = sampler.log_likelihood(zeta[rows].to(device), moved)[:, :n_thetas]
            found.append(of_labels.cpu() + log_prior[rows])
    return torch.cat(found, dim=2)
