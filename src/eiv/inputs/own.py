"""Posteriors of the true input that a user's input prior makes, with a `draw` of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from eiv.inputs.zeta import ZetaMixture, ZetaNormal, ZetaPosterior, is_ours, take_rows

__all__ = ["OwnDraws"]


@dataclass(frozen=True)
class OwnDraws(ZetaPosterior):
    r"""Posteriors with a `draw` of their own, in the units that the networks see.

    .. math:: \zeta_s = (\mathrm{draw}_s(e) - \mathrm{shift}_s) / \mathrm{scale}_s, \qquad s = 1 \dots S

    `draw` is called in the units of X and in the numbers of the posterior itself: in float32, x = 1000 would leave
    little of an error of 0.001.

    Attributes:
        parts: the posterior of each network, `rows x n_x`; a single one where `mean` has two axes.
        shift: `S x n_x`, in units of X.
        scale: `S x n_x`, the same; infinite for a feature that is left out.

    Examples:
        >>> class Uniform(ZetaPosterior):
        ...     def draw(self, noise):  # between mean - std and mean + std
        ...         return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * (2 * torch.special.ndtr(noise) - 1)
        >>> zeta = Uniform(torch.tensor([[7.0]]), torch.tensor([[2.0]]))
        >>> own = OwnDraws.of(zeta, shift=torch.tensor([5.0]), scale=torch.tensor([2.0]))
        >>> own.draw(torch.tensor([[[0.0], [9.0]]]))
        tensor([[[1.],
                 [2.]]])

    """

    parts: tuple[ZetaPosterior, ...]
    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, posterior: ZetaPosterior, shift: Tensor, scale: Tensor) -> OwnDraws:
        """One network's, `rows x n_x`; a TypeError or ValueError says where `posterior` cannot be drawn from."""
        _check_draws(posterior)
        mean, std = (posterior.mean - shift) / scale, posterior.std / scale
        return cls(mean, std, (posterior,), shift.unsqueeze(0), scale.unsqueeze(0))

    @property
    def n_base(self) -> int:
        """How many standard normal numbers make a zeta."""
        return max(part.n_base for part in self.parts)

    @property
    def is_smooth(self) -> bool:
        """Whether all parts are known to be, by a property of their own where they are a user's."""
        inherited = (ZetaNormal.is_smooth, ZetaMixture.is_smooth)
        known = all(is_ours(part) or type(part).is_smooth not in inherited for part in self.parts)
        return known and all(part.is_smooth for part in self.parts)

    @property
    def independent(self) -> Tensor:
        """Nothing is known of that."""
        return ~super().independent

    def take(self, rows: Tensor) -> Self:
        """The posterior of some rows; `rows` is `S x B`, a choice of its own for each network."""
        parts = tuple(_some_rows(part, chosen) for part, chosen in zip(self.parts, rows, strict=True))
        mean, std = (values if values.shape[1] == 1 else take_rows(values, rows) for values in (self.mean, self.std))
        return replace(self, mean=mean, std=std, parts=parts)

    def rows(self, start: int, stop: int) -> Self:
        """The posterior of the rows from `start` up to `stop`."""
        plain = ZetaNormal(self.mean, self.std).rows(start, stop)
        parts = tuple(_some_rows(part, slice(start, stop)) for part in self.parts)
        return replace(self, mean=plain.mean, std=plain.std, parts=parts)

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        """The same elsewhere, with draws in other numbers."""
        mean, std = self.mean.to(device, dtype), self.std.to(device, dtype)
        parts = tuple(part.to(device, part.mean.dtype) for part in self.parts)
        return replace(self, mean=mean, std=std, parts=parts, shift=self.shift.to(device), scale=self.scale.to(device))

    def standardised(self, shift: Tensor, scale: Tensor) -> OwnDraws:
        """The posterior of (zeta - shift) / scale; a feature that was left out stays so."""
        shift = torch.where(self.scale.isinf(), 0.0, shift)
        moved = torch.where(self.scale.isinf(), self.shift, self.shift + self.scale * shift)
        by_row = shift.unsqueeze(-2) if self.mean.ndim == 3 else shift
        return replace(
            self, mean=(self.mean - by_row) / scale, std=self.std / scale, shift=moved, scale=self.scale * scale
        )

    @torch.no_grad()
    def draw(self, noise: Tensor) -> Tensor:
        """Turn standard normal `noise`, `... x rows x L x n_base`, into L zetas per row."""
        if noise.shape[-1] < self.n_base:
            raise ValueError(
                f"noise must have n_base = {self.n_base} numbers for each zeta of {type(self.parts[0]).__name__}, "
                f"got {noise.shape[-1]}."
            )
        if self.mean.ndim == 2:
            return self._of_part(0, noise)
        each = noise.expand(*noise.shape[:-4], *self.mean.shape[:2], *noise.shape[-2:])
        return torch.stack([self._of_part(s, each.select(-4, s)) for s in range(len(self.parts))], dim=-4)

    def log_density(self, zeta: Tensor) -> Tensor:
        """The logarithm of the density at `zeta`, `... x rows x L x n_x`: `... x rows x L`."""
        if self.mean.ndim == 2:
            return self._log_density_of_part(0, zeta)
        return torch.stack([self._log_density_of_part(s, zeta[s]) for s in range(len(self.parts))])

    def _of_part(self, s: int, noise: Tensor) -> Tensor:
        """Zetas of one network; the axes beside that of the rows are joined into one for `draw` of the posterior."""
        part = self.parts[s]
        by_row = noise.expand(*noise.shape[:-3], len(part.mean), -1, -1).movedim(-3, 0)  # rows x ... x L x n_base
        zeta = part.draw(by_row.flatten(1, -2)[..., : part.n_base].to(part.mean.dtype))
        zeta = ((zeta - self.shift[s]) / self.scale[s]).to(self.mean.dtype)
        drawn: Tensor = zeta.unflatten(1, by_row.shape[1:-1]).movedim(0, -3)
        return drawn

    def _log_density_of_part(self, s: int, zeta: Tensor) -> Tensor:
        part, scale = self.parts[s], self.scale[s]
        left_out = scale.isinf()
        inner = torch.where(left_out, part.mean.unsqueeze(-2), zeta.to(scale.dtype) * scale + self.shift[s])
        change = torch.where(left_out | (part.std == 0), 0.0, scale.log()).sum(-1, keepdim=True)
        return (part.log_density(inner) + change).to(self.mean.dtype)


def standardised(zeta: ZetaPosterior, shift: Tensor, scale: Tensor) -> ZetaPosterior:
    """The posterior of (zeta - shift) / scale; an infinite scale leaves a feature that is exactly zero."""
    if type(zeta) in (ZetaNormal, ZetaMixture, OwnDraws):
        moved: ZetaPosterior = zeta.standardised(shift, scale)  # type: ignore[attr-defined]
        return moved
    return OwnDraws.of(zeta, shift, scale)


def stack_posteriors(posteriors: Sequence[ZetaPosterior]) -> ZetaPosterior:
    """Posteriors of several networks, `rows x n_x` each, as one, `S x rows x n_x`."""
    if not all(is_ours(zeta) for zeta in posteriors):
        return _stack_own(posteriors)
    if not any(isinstance(zeta, ZetaMixture) for zeta in posteriors):
        std = torch.stack(torch.broadcast_tensors(*(zeta.std for zeta in posteriors)))
        return ZetaNormal(torch.stack([zeta.mean for zeta in posteriors]), std)
    mixtures = [zeta.as_mixture() for zeta in posteriors if isinstance(zeta, ZetaNormal | ZetaMixture)]
    n_components = max(zeta.means.shape[-2] for zeta in mixtures)
    correlated = any(zeta.scales.ndim > zeta.means.ndim for zeta in mixtures)
    n_rows = max(len(zeta.scales) for zeta in mixtures)
    log_weights, means, scales = [], [], []
    for zeta in mixtures:
        again = torch.arange(n_components, device=zeta.means.device)
        here = again < zeta.means.shape[-2]
        again = torch.where(here, again, 0)  # the first component stands in, with weight zero
        factors = zeta.scales.diag_embed() if correlated and zeta.scales.ndim == zeta.means.ndim else zeta.scales
        log_weights.append(torch.where(here, zeta.log_weights[:, again], -torch.inf))
        means.append(zeta.means[:, again])
        scales.append(factors[:, again].expand(n_rows, *(-1,) * (factors.ndim - 1)))
    return ZetaMixture.of(torch.stack(log_weights), torch.stack(means), torch.stack(scales))


def _stack_own(posteriors: Sequence[ZetaPosterior]) -> OwnDraws:
    """Posteriors of which some have a `draw` of their own, `rows x n_x` each, as one, `S x rows x n_x`."""
    like = posteriors[0].mean
    nothing, one = like.new_zeros(like.shape[-1]), like.new_ones(like.shape[-1])
    own = [zeta if isinstance(zeta, OwnDraws) else OwnDraws.of(zeta, nothing, one) for zeta in posteriors]
    std = torch.stack(torch.broadcast_tensors(*(zeta.std for zeta in own)))
    shift, scale = (torch.cat([getattr(zeta, name).double() for zeta in own]) for name in ("shift", "scale"))
    parts = tuple(part for zeta in own for part in zeta.parts)
    return OwnDraws(torch.stack([zeta.mean for zeta in own]), std, parts, shift, scale)


def _some_rows(zeta: ZetaPosterior, rows: Tensor | slice) -> ZetaPosterior:
    """Some rows of a posterior `rows x n_x`; what rows share stays as it is."""
    return zeta.map_tensors(lambda values: values if values.ndim == 0 or len(values) == 1 else values[rows])


def _check_draws(zeta: ZetaPosterior) -> None:
    """Raise an error where `zeta`, `rows x n_x`, does not draw as is expected: its last row alone is a good sample."""
    name, (n_rows, n_features) = type(zeta).__name__, zeta.mean.shape
    steps = torch.arange(1, 1 + 3 * n_rows * zeta.n_base, dtype=zeta.mean.dtype, device=zeta.mean.device)
    noise = torch.sin(steps).reshape(n_rows, 3, zeta.n_base)  # any numbers
    drawn = zeta.draw(noise)
    if not isinstance(drawn, Tensor) or drawn.shape != (n_rows, 3, n_features):
        found = f"shape {tuple(drawn.shape)}" if isinstance(drawn, Tensor) else type(drawn).__name__
        raise TypeError(
            f"input_prior: {name}.draw must turn noise of shape (rows, L, n_base) into zetas of shape (rows, L, n_x); "
            f"of {tuple(noise.shape)} it made {found} in the place of {(n_rows, 3, n_features)}."
        )
    if not bool(drawn.isfinite().all()):
        raise ValueError(f"input_prior: {name}.draw made zetas that are not finite numbers.")
    rounding = 64 * torch.finfo(drawn.dtype).eps * drawn.abs().amax((0, 1))  # n_x
    moved = ((drawn - zeta.mean.unsqueeze(1)).abs().amax(1) > rounding) & (zeta.std == 0)
    if bool(moved.any()):
        feature = int(moved.any(0).nonzero()[0])
        raise ValueError(
            f"input_prior: {name}.std is 0 for feature {feature}, which says that it is exact, but {name}.draw moves "
            f"it away from {name}.mean. std must be above zero where zeta is uncertain."
        )
    rule = (
        f"input_prior: {name}.draw must give each row its zetas whatever the other rows are, with no randomness but "
        f"its noise. All that {name} holds of its rows must stand in dataclass fields, tensors whose first axis is "
        f"that of the rows. Its last row"
    )
    try:
        alone = _some_rows(zeta, slice(n_rows - 1, n_rows)).draw(noise[-1:])
    except Exception as error:
        raise TypeError(f"{rule} cannot be drawn alone: {error}") from error
    if alone.shape != (1, 3, n_features) or bool(((alone - drawn[-1:]).abs() > rounding + 1e-4 * zeta.std[-1]).any()):
        raise TypeError(f"{rule} alone has other zetas than among the others.")
