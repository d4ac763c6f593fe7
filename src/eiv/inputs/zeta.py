"""The posterior of the true input given the measured one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from eiv.inputs.quantile import mixture_quantile

__all__ = ["ZetaMixture", "ZetaNormal", "ZetaPosterior", "ZetaTable"]

_NODES, _WIDEST_SCORE = 129, 5.0  # of the quantiles in a table


@dataclass(frozen=True)
class ZetaPosterior(ABC):
    r"""What is known of zeta given x, row by row.

    .. math:: \pi(\zeta | x, \sigma_x^2)

    An input prior of your own may return a subclass of your own. It has to define `draw`, and `n_base` where that takes
    more or fewer numbers than there are features. Training and prediction then draw from it, in units of X: `draw` is
    given noise `rows x L x n_base` and returns `rows x L x n_x`, each row for itself. What belongs to the rows has to
    stand in dataclass fields, tensors whose first axis is that of the rows (or 1). `std` must be above zero where zeta
    is uncertain, and `mean` right where it is not; otherwise they need not be exact.

    Attributes:
        mean: `... x rows x n_x`.
        std: the same shape; the axis of the rows may be 1 where all rows share one error.

    Examples:
        >>> class Uniform(ZetaPosterior):
        ...     def draw(self, noise):  # between mean - std and mean + std
        ...         return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * (2 * torch.special.ndtr(noise) - 1)
        >>> Uniform(torch.tensor([[7.0]]), torch.tensor([[2.0]])).draw(torch.zeros(1, 1, 1))
        tensor([[[7.]]])

    """

    mean: Tensor
    std: Tensor

    @abstractmethod
    def draw(self, noise: Tensor) -> Tensor:
        """Turn standard normal `noise`, `... x rows x L x n_base`, into L zetas per row (the reparametrised draw)."""

    @property
    def is_exact(self) -> bool:
        """Whether zeta is known: no error in any row and feature."""
        return not bool(self.std.any())

    @property
    def noisy(self) -> tuple[int, ...]:
        """The features that have an error in any row."""
        return tuple(self.std.flatten(0, -2).any(0).nonzero().flatten().tolist())

    @property
    def described(self) -> ZetaPosterior:
        """A posterior that says what this one is like, perhaps of fewer rows."""
        return self

    @property
    def n_base(self) -> int:
        """How many standard normal numbers make a zeta."""
        return self.mean.shape[-1]

    @property
    def is_smooth(self) -> bool:
        """Whether `draw` is a smooth function of its noise, as quadrature needs it."""
        return False

    @property
    def independent(self) -> Tensor:
        """Whether the features of a row are independent of each other: `... x rows`, where rows may be 1."""
        return self.std.new_ones((1,) * (self.std.ndim - 1), dtype=torch.bool)

    @property
    def matchable(self) -> bool:
        """Whether mean, std and covariance describe what `draw` draws, so that draws may be matched to them.

        Not of a subclass of your own, whose `draw` may be anything.
        """
        return is_ours(self)

    @property
    def covariance(self) -> Tensor:
        """The covariance of zeta in each row, `... x rows x n_x x n_x`; the axis of the rows may be 1."""
        return self.std.square().diag_embed()

    def take(self, rows: Tensor) -> Self:
        """The posterior of some rows; `rows` is `S x B`, a choice of its own for each network."""
        return self.map_tensors(lambda values: values if values.shape[1] == 1 else take_rows(values, rows))

    def kept(self, rows: Tensor) -> ZetaPosterior:
        """The same as `take`, of rows that more is to be taken from."""
        return self.take(rows)

    def rows(self, start: int, stop: int) -> Self:
        """The posterior of the rows from `start` up to `stop`."""
        chosen = (*(slice(None),) * (self.mean.ndim - 2), slice(start, stop))
        return self.map_tensors(lambda values: values if values.shape[len(chosen) - 1] == 1 else values[chosen])

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        """The same elsewhere, or in other numbers."""
        return self.map_tensors(lambda values: values.to(device, dtype if values.is_floating_point() else values.dtype))

    def at_nodes(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Zetas as `draw` makes them from the nodes of a rule, and their weights, `... x rows x L`: all the same."""
        return self.draw(noise), noise.new_full(noise.shape[:-1], 1 / noise.shape[-2])

    def log_density(self, zeta: Tensor) -> Tensor:
        """The logarithm of the density at `zeta`, `... x rows x L x n_x`: `... x rows x L`.

        A feature that is exact in its row has no density; it is taken as given.
        """
        name = type(self).__name__
        raise TypeError(f"{name} draws zeta in a way of its own, and has no log_density. Define log_density in {name}.")

    def for_training(self) -> ZetaPosterior:
        """The same, made ready for many draws of the same rows."""
        return self

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with another tensor in the place of each, in posteriors among the fields too."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: dict[str, Any] = {name: change(value) for name, value in parts.items() if isinstance(value, Tensor)}
        for name, value in parts.items():
            if isinstance(value, ZetaPosterior):
                changed[name] = value.map_tensors(change)
        return replace(self, **changed)

    def _refuse_own(self, method: str) -> None:
        """Raise a TypeError where `method` would stand for another distribution than `draw` draws from."""
        if type(self).draw not in (ZetaNormal.draw, ZetaMixture.draw):
            raise TypeError(
                f"{type(self).__name__} draws zeta in a way of its own, and the {method} that it inherits does not go "
                f"with that. Define {method} in {type(self).__name__}."
            )


@dataclass(frozen=True)
class ZetaNormal(ZetaPosterior):
    r"""Normal posterior of zeta given x, independent between rows and features.

    .. math:: \pi(\zeta | x, \sigma_x^2) = \mathcal{N}(\zeta | \mathrm{mean}, \mathrm{std}^2)

    Examples:
        >>> zeta = ZetaNormal(mean=torch.zeros(1, 3, 2), std=torch.full((1, 1, 2), 0.1))
        >>> zeta.draw(torch.ones(1, 3, 5, 2)).shape  # five zetas per row
        torch.Size([1, 3, 5, 2])

    """

    @property
    def is_smooth(self) -> bool:
        """A straight line."""
        return True

    def standardised(self, shift: Tensor, scale: Tensor) -> ZetaNormal:
        """The posterior of (zeta - shift) / scale; an infinite scale leaves a feature that is exactly zero."""
        return ZetaNormal((self.mean - shift) / scale, self.std / scale)

    def draw(self, noise: Tensor) -> Tensor:
        """Mean and standard deviation, times the noise."""
        return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * noise[..., : self.mean.shape[-1]]

    def log_density(self, zeta: Tensor) -> Tensor:
        """The logarithm of the normal density at `zeta`: `... x rows x L`."""
        self._refuse_own("log_density")
        return _log_normal(zeta - self.mean.unsqueeze(-2), self.std.unsqueeze(-2)).sum(-1)

    def as_mixture(self) -> ZetaMixture:
        """The same as a mixture of one component."""
        self._refuse_own("as_mixture")
        weightless = torch.zeros_like(self.mean[..., :1])
        return ZetaMixture.of(weightless, self.mean.unsqueeze(-2), self.std.unsqueeze(-2))


@dataclass(frozen=True)
class ZetaMixture(ZetaPosterior):
    r"""Posterior of zeta given x as a mixture of normal distributions, independent between rows.

    .. math:: \pi(\zeta | x, \sigma_x^2) = \sum_{c=1}^C w_c\, \mathcal{N}(\zeta | m_c, F_c F_c^T)

    Made by `ZetaMixture.of(log_weights, means, scales)`; `mean` and `std` are its moments. One component serves for a
    normal distribution with correlated features.

    Attributes:
        log_weights: log w, `... x rows x C`; minus infinity for a component that is not there.
        means: m, `... x rows x C x n_x`.
        scales: standard deviations, `... x rows x C x n_x`, where features are independent within each component, or
            factors F of the covariances, `... x rows x C x n_x x n_x`. The axis of the rows may be 1.
        lines: whether "no", "some" or "all" rows have one feature with an error at most.

    Examples:
        >>> pair = torch.tensor([[[-1.0], [1.0]]])  # one row, two components, one feature
        >>> zeta = ZetaMixture.of(torch.full((1, 2), 0.5).log(), pair, torch.full((1, 2, 1), 0.5))
        >>> zeta.mean, zeta.std
        (tensor([[0.]]), tensor([[1.1180]]))
        >>> zeta.draw(torch.tensor([[[0.0], [1.0]]]))  # two zetas
        tensor([[[0.0000],
                 [1.2376]]])

    """

    log_weights: Tensor
    means: Tensor
    scales: Tensor
    lines: str

    @classmethod
    def of(cls, log_weights: Tensor, means: Tensor, scales: Tensor) -> ZetaMixture:
        """The mixture of these components; weights need not add up to one."""
        log_weights = log_weights.log_softmax(-1)
        stds, weights = _feature_stds(means, scales), log_weights.exp().unsqueeze(-1)
        first = means[..., :1, :]  # exact features come out exact: all components agree on them
        mean = first + (weights * (means - first)).sum(-2, keepdim=True)
        variance = (weights * (stds.square() + (means - mean).square())).sum(-2)
        single = _is_line(stds)
        lines = "all" if bool(single.all()) else "some" if bool(single.any()) else "no"
        return cls(mean.squeeze(-2), variance.sqrt(), log_weights, means, scales, lines)

    @property
    def n_base(self) -> int:
        """How many standard normal numbers make a zeta: of several features one more, for the component."""
        n_inputs = self.mean.shape[-1]
        return n_inputs if n_inputs == 1 else n_inputs + 1

    @property
    def is_smooth(self) -> bool:
        """Whether `draw` is a smooth function of its noise: one component, or one noisy feature."""
        return self.means.shape[-2] == 1 or self.lines == "all"

    @property
    def independent(self) -> Tensor:
        """Whether the features of a row are independent of each other: one component without correlations."""
        if self.means.shape[-2] > 1:
            return ~super().independent
        if self.scales.ndim == self.means.ndim:
            return super().independent
        off_diagonal = self.scales - self.scales.diagonal(dim1=-2, dim2=-1).diag_embed()
        return ~off_diagonal.flatten(-3).any(-1)

    @property
    def covariance(self) -> Tensor:
        r"""The covariance of zeta in each row, `... x rows x n_x x n_x`; the axis of the rows may be 1.

        .. math:: \sum_c w_c \, (F_c F_c^T + d_c d_c^T), \qquad d_c = m_c - \sum_{c'} w_{c'} m_{c'}

        Rows and columns of exact features are zero: all components agree on them.
        """
        within = (
            self.scales.square().diag_embed() if self.scales.ndim == self.means.ndim else self.scales @ self.scales.mT
        )
        if self.means.shape[-2] == 1:
            return within.squeeze(-3)
        gap = self.means - self.mean.unsqueeze(-2)
        weights = self.log_weights.exp()[..., None, None]
        return (weights * (within + gap.unsqueeze(-1) * gap.unsqueeze(-2))).sum(-3)

    def with_flat_prior(self, rows: Tensor, x: Tensor, x_err: Tensor) -> ZetaMixture:
        """The same, but for the `rows`, a truth value for each, that of a flat prior: normal about x.

        `x` is `rows x n_x`; `x_err` holds standard deviations or covariances, and its axis of rows may be 1.
        """
        if x_err.ndim == 3:
            own = square_root(x_err)
        else:
            own = x_err if self.scales.ndim == self.means.ndim else x_err.diag_embed()
        means = torch.where(rows[:, None, None], x.unsqueeze(-2), self.means)
        chosen = rows[(..., *(None,) * (self.scales.ndim - 1))]
        return ZetaMixture.of(self.log_weights, means, torch.where(chosen, own.unsqueeze(1), self.scales))

    def standardised(self, shift: Tensor, scale: Tensor) -> ZetaMixture:
        """The posterior of (zeta - shift) / scale."""
        by_row = scale if self.scales.ndim == self.means.ndim else scale.unsqueeze(-1)
        return ZetaMixture.of(self.log_weights, (self.means - shift) / scale, self.scales / by_row)

    def draw(self, noise: Tensor) -> Tensor:
        """Turn standard normal `noise`, `... x rows x L x n_base`, into L zetas per row.

        A row with one noisy feature is drawn by the inverse of its distribution function, which is smooth in x. In
        others the last number chooses the component, and the zeta is a reparametrised draw from it.
        """
        return self._by_component(noise, self.log_weights.exp())[0]

    def at_nodes(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        r"""Zetas from the nodes of a rule, and their weights, `... x rows x L`.

        .. math:: n_c \propto \sqrt{w_c}, \qquad \text{each with the weight } w_c / n_c

        A component with a weight of 0.005 that lies far from the others can make most of the variance; of a hundred
        nodes of the same weight it might get none. A row with one noisy feature has quantiles of the same weight.
        """
        weights = self.log_weights.exp()
        zeta, component = self._by_component(noise, weights.sqrt())
        if component is None:
            return zeta, noise.new_full(noise.shape[:-1], 1 / noise.shape[-2])
        counts = torch.zeros_like(component[..., :1], dtype=weights.dtype).expand(
            *component.shape[:-1], weights.shape[-1]
        )
        counts = counts.scatter_add(-1, component, torch.ones_like(component, dtype=weights.dtype))
        each = torch.take_along_dim(weights / counts.clamp_min(1), component, dim=-1)
        each = each / each.sum(-1, keepdim=True)  # of components that none has met
        if self.lines == "some":
            each = torch.where(self._single[..., None], 1 / noise.shape[-2], each)
        return zeta, each

    def _by_component(self, noise: Tensor, shares: Tensor) -> tuple[Tensor, Tensor | None]:
        """Zetas, and their components if they have one of their own, in proportion to `shares`, `... x rows x C`."""
        n_inputs = self.mean.shape[-1]
        base = noise[..., :n_inputs]
        if self.means.shape[-2] == 1:
            return self._of_each(base).squeeze(-2), None
        if self.lines == "all":
            return self._on_lines(base), None
        level = torch.special.ndtr(noise[..., n_inputs:])
        steps = (shares.cumsum(-1) / shares.sum(-1, keepdim=True))[..., :-1]
        component = (level > steps.unsqueeze(-2)).sum(-1)  # ... x rows x L
        drawn = torch.take_along_dim(self._of_each(base), component[..., None, None], dim=-2).squeeze(-2)
        if self.lines == "some":
            rows = self._single.expand(drawn.shape[:-2])
            drawn[rows] = self._taken(rows).draw(base.expand(*rows.shape, *base.shape[-2:])[rows])
        return drawn, component

    def _taken(self, rows: Tensor) -> ZetaMixture:
        """Rows by a truth value for each, `... x rows`, with one axis for all of them."""
        parts = (self.log_weights, self.means, self.scales)
        own = (part.expand(*rows.shape, *part.shape[self.mean.ndim - 1 :])[rows] for part in parts)
        return ZetaMixture.of(*own)

    @property
    def _single(self) -> Tensor:
        """Which rows have one noisy feature at most."""
        return _is_line(_feature_stds(self.means, self.scales))

    def log_density(self, zeta: Tensor) -> Tensor:
        """The logarithm of the density at `zeta`, `... x rows x L x n_x`: `... x rows x L`.

        Features that are exact have no density; they are taken as given.
        """
        self._refuse_own("log_density")
        gaps = zeta.unsqueeze(-2) - self.means.unsqueeze(-3)  # ... x rows x L x C x n_x
        if self.scales.ndim == self.means.ndim:
            parts = _log_normal(gaps, self.scales.unsqueeze(-3)).sum(-1)
        else:
            noisy = list(self.noisy)
            factors = self.scales[..., noisy, :][..., noisy].unsqueeze(-4)
            standard = torch.linalg.solve(factors, gaps[..., noisy].unsqueeze(-1)).squeeze(-1)
            parts = -0.5 * (standard.square() + math.log(2 * math.pi)).sum(-1) - torch.linalg.slogdet(factors)[1]
        return (parts + self.log_weights.unsqueeze(-2)).logsumexp(-1)

    def for_training(self) -> ZetaPosterior:
        """Quantiles of each row in a table, where `draw` would have to find them anew in every epoch."""
        if self.means.shape[-2] == 1 or self.lines != "all" or type(self) is not ZetaMixture:
            return self
        noisy = list(self.noisy)
        scores = torch.linspace(-_WIDEST_SCORE, _WIDEST_SCORE, _NODES, dtype=self.mean.dtype, device=self.mean.device)
        base = scores[:, None].expand(*self.mean.shape[:-1], -1, self.mean.shape[-1])
        return ZetaTable(self.mean, self.std, self._on_lines(base)[..., noisy].mT.contiguous())

    def as_mixture(self) -> ZetaMixture:
        """Itself."""
        self._refuse_own("as_mixture")
        return self

    def _of_each(self, base: Tensor) -> Tensor:
        """A zeta of every component for normal `base`, `... x rows x L x n_x`: `... x rows x L x C x n_x`."""
        if self.scales.ndim == self.means.ndim:
            return self.means.unsqueeze(-3) + self.scales.unsqueeze(-3) * base.unsqueeze(-2)
        if self.scales.shape[self.mean.ndim - 2] == 1:  # shared by all rows: one matrix product
            moved = torch.einsum("...rlj,...cij->...rlci", base, self.scales.squeeze(self.mean.ndim - 2))
        else:
            moved = torch.einsum("...rlj,...rcij->...rlci", base, self.scales)
        return self.means.unsqueeze(-3) + moved

    def _on_lines(self, base: Tensor) -> Tensor:
        """Zetas by quantiles of each noisy feature for itself."""
        noisy = list(self.noisy)
        weights = self.log_weights.exp()[..., None, None, :]
        means = self.means[..., noisy].mT.unsqueeze(-3)  # ... x rows x 1 x noisy x C
        stds = _feature_stds(self.means, self.scales)[..., noisy].mT.unsqueeze(-3)
        zeta = self.mean.unsqueeze(-2).repeat_interleave(base.shape[-2], -2)
        zeta[..., noisy] = mixture_quantile(base[..., noisy], weights, means, stds)
        return zeta


@dataclass(frozen=True)
class ZetaTable(ZetaPosterior):
    r"""Posterior of zeta given x by a table of its quantiles, between which draws are interpolated.

    .. math:: \zeta(e) \approx \text{linear between } \zeta(e_g), \qquad e_g = -5, \dots, 5

    With 129 nodes a draw is off by less than a thousandth of the standard deviation on average; most in the gap between
    separate peaks, where hardly any draw falls. Rows have one noisy feature at most.

    Attributes:
        nodes: quantiles of the noisy features, `... x rows x noisy x nodes`.

    Examples:
        >>> pair = torch.tensor([[[-1.0], [1.0]]])
        >>> zeta = ZetaMixture.of(torch.full((1, 2), 0.5).log(), pair, torch.full((1, 2, 1), 0.5))
        >>> zeta.for_training().draw(torch.tensor([[[0.0], [1.0]]])).round(decimals=2)
        tensor([[[0.0000],
                 [1.2400]]])

    """

    nodes: Tensor

    @property
    def is_smooth(self) -> bool:
        """Nearly: straight between many nodes."""
        return True

    def draw(self, noise: Tensor) -> Tensor:
        """Turn standard normal `noise`, `... x rows x L x n_x`, into L zetas per row."""
        noisy = list(self.noisy)
        place = (noise[..., noisy].mT + _WIDEST_SCORE) * ((_NODES - 1) / (2 * _WIDEST_SCORE))
        place = place.clamp(0, _NODES - 1)
        left = place.long().clamp_max(_NODES - 2)
        low, high = (torch.take_along_dim(self.nodes, left + step, dim=-1) for step in (0, 1))
        zeta = self.mean.unsqueeze(-2).repeat_interleave(noise.shape[-2], -2)
        zeta[..., noisy] = torch.lerp(low, high, place - left).mT
        return zeta


def is_ours(zeta: ZetaPosterior) -> bool:
    """Whether a posterior is of a class of this module, so that its fields say all of it."""
    return type(zeta) in (ZetaNormal, ZetaMixture, ZetaTable)


def take_rows(values: Tensor, rows: Tensor) -> Tensor:
    """Rows `S x B` of `values`, `S x N x ...`."""
    return torch.take_along_dim(values, rows[(..., *(None,) * (values.ndim - 2))], dim=1)


def square_root(covariance: Tensor) -> Tensor:
    """A factor F of positive semi-definite covariances `F F^T`, `... x n_x x n_x`; rows of exact features are zero."""
    exact = covariance.diagonal(dim1=-2, dim2=-1) == 0
    factor, failed = torch.linalg.cholesky_ex(covariance + exact.to(covariance).diag_embed())
    if bool(failed.any()):  # singular: the symmetric root
        values, vectors = torch.linalg.eigh(covariance)
        root = vectors * values.clamp_min(0).sqrt().unsqueeze(-2) @ vectors.mT
        factor = torch.where((failed > 0)[..., None, None], root, factor)
    zeroed: Tensor = factor.masked_fill(exact.unsqueeze(-1) | exact.unsqueeze(-2), 0.0)
    return zeroed


def _feature_stds(means: Tensor, scales: Tensor) -> Tensor:
    """Standard deviations of each feature within each component."""
    return scales if scales.ndim == means.ndim else scales.square().sum(-1).sqrt()


def _is_line(stds: Tensor) -> Tensor:
    """Which rows of `stds`, `... x rows x C x n_x`, have one noisy feature at most."""
    return (stds > 0).any(-2).sum(-1) <= 1


def _log_normal(gap: Tensor, std: Tensor) -> Tensor:
    exact = std == 0
    std = torch.where(exact, 1.0, std)
    return torch.where(exact, 0.0, -0.5 * (gap / std).square() - std.log() - 0.5 * math.log(2 * math.pi))
