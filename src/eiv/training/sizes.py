"""The size of the errors of X, learned with the model and integrated over."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.interpolate import Akima1DInterpolator

from eiv.engine.workers import run_tasks
from eiv.inputs.sizes import LearnedSizes, SizeNode, SizePrior, two_nodes
from eiv.model import FittedModel
from eiv.training.evidence import Found
from eiv.training.fitting import Spec, Table, Trial, fit_stack
from eiv.training.making import device_of, input_prior_of
from eiv.training.progress import Progress, part_of, tell
from eiv.training.settings import Settings

Array = NDArray[np.float64]
_COARSE = (
    -2.0,
    -1.0,
    0.0,
    1.0,
    2.0,
)  # nodes of the first look, in standard deviations of the prior or of a look before
_ROUNDS = 8  # of further nodes, at most
_STEEP = 4.0  # nats that the posterior may fall from its maximum to the next node: 2.8 standard deviations
_CLOSE = 0.5  # standard deviations of the posterior within which the density need not be found again
_BEYOND, _POINTS = 4.0, 4001  # how far beyond the nodes a posterior is followed, in their spacing; points of its grid
_MOST_SEPARATE = 4  # columns with a factor each


@dataclass(frozen=True)
class _Posterior:
    """What the rows leave open of the logarithm of one factor: mean, standard deviation, and nodes as `two_nodes`."""

    mean: float
    std: float
    nodes: list[tuple[float, float]]


@dataclass
class _Curve:
    """The logarithm of the density of x and y along the size of one group of columns, the others held.

    Attributes:
        make: the trial of a logarithm of the size.
        device: that searches run on.
        trials: for each logarithm its trial.
        kernels: the best kernel so far.

    """

    make: Callable[[float], Trial]
    device: torch.device
    trials: dict[float, Trial] = field(default_factory=dict)
    kernels: dict[float, Found] = field(default_factory=dict)

    def look(self, nodes: Sequence[float]) -> None:
        """Find the density at nodes of a first look: at every second one from nothing, then from their neighbours."""
        fresh = nodes[::2]
        made = run_tasks([partial(self.make, node) for node in nodes], self.device)
        self.trials = dict(zip(nodes, made, strict=True))
        kernels = run_tasks([self.trials[node].search.best for node in fresh], self.device)
        self.kernels = dict(zip(fresh, kernels, strict=True))
        order = sorted(nodes)
        for way in (order, order[::-1]):
            for before, node in itertools.pairwise(way):
                self._begin_from(before, node)

    def refine(self, nodes: Sequence[float]) -> None:
        """Find the density at further nodes, from their neighbours on either side."""
        for node in nodes:
            known = list(self.kernels)
            self.trials[node] = self.make(node)
            for side in ([t for t in known if t < node], [t for t in known if t > node]):
                if side:
                    self._begin_from(min(side, key=lambda t: abs(t - node)), node)

    def _begin_from(self, before: float, node: float) -> None:
        """Let a node have the kernel that begins at that of its neighbour, where it is better."""
        if before not in self.kernels:
            return
        found = self.trials[node].search.near(self.kernels[before].flat)
        if node not in self.kernels or found.evidence > self.kernels[node].evidence:
            self.kernels[node] = found

    def nearest(self, node: float) -> Found:
        """The kernel of the node that is nearest."""
        return self.kernels[min(self.kernels, key=lambda t: abs(t - node))]

    def posterior(self, prior: SizePrior, column: int) -> _Posterior:
        """Prior times density, which is interpolated between the nodes and straight beyond them."""
        nodes, values = self._density()
        margin = _BEYOND * np.diff(nodes).max()
        points = np.linspace(nodes[0] - margin, nodes[-1] + margin, _POINTS)
        density = Akima1DInterpolator(nodes, values)(points)
        for side, end, near in ((points < nodes[0], 0, 1), (points > nodes[-1], -1, -2)):
            slope = (values[end] - values[near]) / (nodes[end] - nodes[near])
            density[side] = values[end] + slope * (points[side] - nodes[end])
        return _Posterior(*two_nodes(points, density + prior.log_density(points, column)))

    def missing(self, prior: SizePrior, column: int) -> list[float]:
        """Nodes that the posterior lacks: beside its maximum where it falls steeply, then where it has its mass."""
        nodes, values = self._density()
        values = values + prior.log_density(nodes, column)
        best = int(values.argmax())
        if best in (0, len(nodes) - 1):
            step = nodes[1] - nodes[0] if best == 0 else nodes[-2] - nodes[-1]
            return [float(nodes[best] - step)]
        steep = [beside for beside in (best - 1, best + 1) if values[best] - values[beside] > _STEEP]
        if steep:
            return [float(nodes[best] + nodes[beside]) / 2 for beside in steep]
        found = self.posterior(prior, column)
        wanted = [found.mean + delta * found.std for delta, _ in found.nodes]
        return [t for t in wanted if np.abs(nodes - t).min() > _CLOSE * found.std]

    def _density(self) -> tuple[Array, Array]:
        """The nodes in order, and the logarithm of the density of x and y there."""
        nodes = np.array(sorted(self.trials))
        return nodes, np.array([self.kernels[t].evidence + self.trials[t].log_density_of_x for t in nodes])


def fit_with_sizes(spec: Spec, table: Table, on_progress: Progress = None) -> FittedModel:
    r"""Fit a model and the size of the errors of X, by the joint density of x and y.

    .. math::
        p(t | x, y) \propto p(t)\, p(x | t, \hat\pi_t)\, p(y | x, t), \qquad t = \log s

    p(t) is the scaled inverse chi-squared prior of `SizePrior`. The prior of zeta is found anew for each size, and
    gives the density of x. That of the labels is the evidence of a network of cosines, the weights integrated over.
    Sizes are then integrated over. Of each of d factors, the posterior about the centre of the others has two nodes of
    Gauss's rule; those of factor j stand at

    .. math:: t = c + \sqrt{d}\, \sigma_j \delta_{j\pm} e_j, \qquad \text{with the share } p_{j\pm} / d

    so that all nodes together have the means and variances of the factors, and for one factor its skewness too; that
    factors may go together is left out. Networks are fitted at each node and pooled by these shares.

    Args:
        spec: what is to be fitted.
        table: with a `size_prior`.
        on_progress: called with the share of the work that is done.

    Returns:
        The pooled model, with `FittedModel.sizes`.

    """
    assert table.size_prior is not None
    prior = table.size_prior
    spec = spec.given(network="cosine", x_err_factor=1.0)
    plain = replace(table, size_prior=None)
    groups = prior.groups(table.stated_errors)
    if not groups:
        return fit_stack([spec], [plain], on_progress)[0]
    found, kernels = _posteriors(spec, plain, prior, groups, part_of(on_progress, 0, 2))
    centre = np.array([each.mean for each in found])
    places: list[Array] = []
    shares: list[float] = []
    for j, each in enumerate(found):
        for delta, weight in each.nodes:
            places.append(centre + np.sqrt(len(found)) * each.std * delta * (np.arange(len(found)) == j))
            shares.append(weight / len(found))
    factors = [_factors(place, groups, len(prior.dof)) for place in places]
    tables = [plain.with_errors_times(factor) for factor in factors]
    near = [kernels[i // 2].flat for i in range(len(factors))]
    models = fit_stack([spec] * len(tables), tables, part_of(on_progress, 1, 2), near)
    std = np.zeros(len(prior.dof))
    for group, each in zip(groups, found, strict=True):
        std[group] = each.std
    learns = np.isin(np.arange(len(std)), np.concatenate(groups))
    factor, prior_std = _factors(centre, groups, len(std)), np.where(learns, prior.std, 0.0)
    sizes = LearnedSizes(factor, std, prior_std, names=table.names.features)
    return _pooled(models, factors, shares, sizes, table)


def check_can_learn(settings: Settings, table: Table) -> None:
    """Refuse a fit that cannot learn the size of the errors, with a sentence that says which one can."""
    assert table.size_prior is not None
    if settings.network != "cosine":
        raise ValueError(
            "x_err: the size of errors is learned with network='cosine' only, whose labels have a density in closed "
            "form. Leave out the arguments that only other networks have (such as recipe='paper', likelihood or "
            "epochs), or state the errors without eiv.estimated."
        )
    groups = table.size_prior.groups(table.stated_errors)
    if len(groups) > _MOST_SEPARATE:
        raise ValueError(
            f"x_err: {len(groups)} columns have errors of unknown size, and at most {_MOST_SEPARATE} sizes are learned "
            "one by one. Give dof=inf for columns whose errors are known well, or eiv.estimated(..., together=True) "
            "for one factor of all."
        )
    prior = input_prior_of(settings.input_prior, settings.error_model)
    if not hasattr(prior, "log_density") and not hasattr(prior, "fit"):
        raise ValueError(
            "input_prior: to learn the size of errors, a prior of your own needs log_density(x, x_err), the logarithm "
            "of the density of each row of x."
        )


def _posteriors(
    spec: Spec, table: Table, prior: SizePrior, groups: list[list[int]], on_progress: Progress
) -> tuple[list[_Posterior], list[Found]]:
    """The posterior of each factor, and a kernel near its centre; several factors are looked at twice in turn."""
    centre = np.array([prior.mean[group[0]] for group in groups])
    widths = np.array([prior.std[group[0]] for group in groups])
    n_looks = 1 if len(groups) == 1 else 2
    found: list[_Posterior] = []
    kernels: list[Found] = []
    for look in range(n_looks):
        found, kernels = [], []
        for j, group in enumerate(groups):

            def make(log_size: float, j: int = j) -> Trial:
                place = np.where(np.arange(len(centre)) == j, log_size, centre)
                return Trial.of(spec, table.with_errors_times(_factors(place, groups, table.x.shape[1])))

            curve = _Curve(make, device_of(spec.arguments["device"]))
            nodes = [float(centre[j] + step * widths[j]) for step in _COARSE]
            curve.look(nodes)
            each = _settled(curve, prior, group[0])
            found.append(each)
            kernels.append(curve.nearest(each.mean))
            centre[j], widths[j] = each.mean, each.std
            tell(on_progress, (look * len(groups) + j + 1) / (n_looks * len(groups)), "size of the errors")
    return found, kernels


def _settled(curve: _Curve, prior: SizePrior, column: int) -> _Posterior:
    """The posterior, once the density is known where it has its mass."""
    for _ in range(_ROUNDS):
        missing = curve.missing(prior, column)
        if not missing:
            break
        curve.refine(missing)
    return curve.posterior(prior, column)


def _factors(log_sizes: Array, groups: list[list[int]], n_features: int) -> Array:
    """What the errors of each feature are multiplied by, `n_x`."""
    factors = np.ones(n_features)
    for group, log_size in zip(groups, log_sizes, strict=True):
        factors[group] = np.exp(log_size)
    return factors


def _pooled(
    models: Sequence[FittedModel], factors: Sequence[Array], shares: Sequence[float], sizes: LearnedSizes, table: Table
) -> FittedModel:
    """The models of all nodes as one, whose networks have the shares of their nodes."""
    first, *others = models
    nodes = tuple(
        SizeNode(factor, share, model.input_prior, model.cloud)
        for factor, share, model in zip(factors, shares, models, strict=True)
    )
    main = models[int(np.argmax(shares))]
    courses = [model.record.loss_curve for model in models]
    longest = max(map(len, courses))
    courses = [np.pad(each, ((0, longest - len(each)), (0, 0)), mode="edge") for each in courses]
    weights = np.concatenate([share * model.weights for share, model in zip(shares, models, strict=True)])
    return replace(
        main,
        posterior=first.posterior.join([model.posterior for model in others]),
        likelihood=first.likelihood.join([model.likelihood for model in others]),
        weights=weights / weights.sum(),
        x_err=table.usual_error,
        record=replace(main.record, loss_curve=np.concatenate(courses, axis=1), x_err_median=table.x_err_median),
        sizes=replace(sizes, nodes=nodes),
    )
