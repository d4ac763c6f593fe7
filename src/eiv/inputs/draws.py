"""Ways to integrate over zeta in training: the base noise behind the zetas of a row, and the weights of these."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eiv.engine.quadrature import Quadrature
from eiv.engine.streams import Streams
from eiv.inputs.zeta import ZetaMixture, ZetaNormal, ZetaPosterior, is_ours

__all__ = ["MOVED_ZETAS", "ZETA_DRAWS", "ZetaDraws"]

MOVED_ZETAS = ("profile", "laplace")
"""Where nothing is drawn: the zeta of each row is moved with the weights."""

_LEAST = 2.0**-24  # distance of a uniform number from 0 and 1 in float32
_MOST_NOISY, _MOST_NODES = 3, 1000
_CANDIDATES = 8  # for each zeta that an informed choice keeps
_REACH = 4.0  # standard deviations that interpolated zetas span on either side
_POINTS = 16  # from one of them to the next


@dataclass(frozen=True)
class ZetaDraws:
    r"""Base noise e for L zetas per row and their weights, for the inner sum of eq. (mcloss).

    .. math:: \int p(y | \theta, \zeta)\, \pi(\zeta | x)\, d\zeta \approx
              \sum_{l=1}^L w_l\, p(y | \theta, \zeta_l), \qquad \zeta_l = \zeta(x, e_l)

    - "monte_carlo" (the paper): independent standard normal numbers, w = 1 / L.
    - "antithetic": in pairs e, -e.
    - "stratified": one in each of L slices of equal probability, for every noisy feature (a Latin hypercube).
    - "sobol": a Sobol sequence with a random digital shift for each row and step; best where L is a power of two.
    - "informed": stratified candidates, of which training keeps an eighth by how well they explain y (see
      `eiv.likelihoods.Likelihood.choose_zetas`): a sharp look where sigma_y is small against what the error of x moves
      f by.
    - "gauss_hermite": the nodes and weights of Gauss-Hermite quadrature, `n_zeta` along each of three noisy features
      at most. A mixture of several components can have one noisy feature; its nodes are quantiles.
    - "auto": "interpolated" for one noisy feature, else "informed".
    - "interpolated": for one noisy feature, `n_zeta` evenly spaced zetas, and f straight between them. Sixteen do where
      sigma_y is a hundredth of what the error of x moves f by.
    - "profile" and "laplace": nothing is drawn. The zeta of each row is moved by Gauss-Newton steps with the weights
      (`eiv.training.moved`). The base noise is zero and the unit vectors, which say how zeta depends on it. The
      posterior has to be normal.

    Zetas differ only in features that have an error.

    Attributes:
        kind: one of `ZETA_DRAWS` or `MOVED_ZETAS`.
        n_zeta: L, the zetas of a row: what was asked for, or that to the power of the noisy features for quadrature.
        n_base: the numbers behind a zeta.
        used: those that matter.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> zeta = ZetaNormal(torch.zeros(1, 3, 2), torch.tensor([[[0.1, 0.0]]]))
        >>> draws = ZetaDraws.of("gauss_hermite", 3, zeta)
        >>> draws.quadrature(torch.float64).log_weights.exp() / 3  # the weights
        tensor([0.1667, 0.6667, 0.1667], dtype=torch.float64)

    """

    kind: str
    n_zeta: int
    n_base: int
    used: tuple[int, ...]

    @classmethod
    def of(cls, kind: str, n_zeta: int | None, inputs: ZetaPosterior) -> ZetaDraws:
        """The draws for `inputs`: `n_zeta` of them, or where that is None the usual number for this kind of draws."""
        inputs = inputs.described
        ours = is_ours(inputs)
        used = inputs.noisy if ours else tuple(range(inputs.n_base))  # a draw of a user's may use any
        if kind == "auto":
            kind = "interpolated" if len(used) == 1 and inputs.is_smooth else "informed"
        n_zeta = n_zeta or _USUAL.get(kind, 16)
        if kind == "gauss_hermite":
            if len(used) > _MOST_NOISY or n_zeta ** len(used) > _MOST_NODES:
                raise ValueError(
                    f"zeta_draws='gauss_hermite' takes at most {_MOST_NOISY} features with errors and {_MOST_NODES} "
                    f"nodes, got {len(used)} features with n_zeta={n_zeta} nodes each. Take 'sobol' or 'stratified'."
                )
            if not inputs.is_smooth:
                raise ValueError(
                    "zeta_draws='gauss_hermite' takes a mixture as input_prior only where one feature has errors, and "
                    "a posterior of your own only where its is_smooth says so. Take 'sobol' or 'stratified'."
                )
            return cls(kind, n_zeta ** len(used), inputs.n_base, used)
        if kind == "interpolated":
            if len(used) > 1 or n_zeta < 2 or not inputs.is_smooth:
                raise ValueError(
                    f"zeta_draws='interpolated' takes one feature with errors and n_zeta=2 at least, got {len(used)} "
                    f"features with n_zeta={n_zeta}; and a posterior of your own only where its is_smooth says so. "
                    f"Take 'informed' or 'stratified'."
                )
            return cls(kind, n_zeta, inputs.n_base, used)
        if kind in MOVED_ZETAS:
            if not _is_normal(inputs):
                raise ValueError(
                    f"zeta_draws={kind!r} takes a normal posterior of the true input: input_prior='flat', 'normal' or "
                    "an eiv.NormalPrior."
                )
            return cls(kind, 1 + len(used), inputs.n_base, used)
        component = range(inputs.mean.shape[-1], inputs.n_base) if ours else ()
        return cls(kind, n_zeta, inputs.n_base, (*used, *component))

    @property
    def moves_zeta(self) -> bool:
        """Whether nothing is drawn, and the zeta of each row is moved with the weights."""
        return self.kind in MOVED_ZETAS

    def to_integrate(self, inputs: ZetaPosterior) -> ZetaDraws:
        """The draws for all that is not a step of training: themselves, or "auto" where nothing is drawn."""
        return ZetaDraws.of("auto", None, inputs) if self.moves_zeta else self

    @property
    def n_kept(self) -> int:
        """How many of the L zetas of a row go into the gradient; 0 for all."""
        return max(2, self.n_zeta // _CANDIDATES) if self.kind == "informed" else 0

    def base(self, streams: Streams, n_rows: int) -> Tensor:
        """Standard normal noise for `ZetaPosterior.draw`: `S x rows x L x n_base`."""
        if self.kind == "monte_carlo":
            return streams.normal(n_rows, self.n_zeta, self.n_base)
        values = _METHODS[self.kind](streams, n_rows, self.n_zeta, len(self.used))
        noise = values.new_zeros(*values.shape[:-1], self.n_base)
        noise[..., list(self.used)] = values
        return noise

    def quadrature(self, dtype: torch.dtype, device: torch.device | None = None) -> Quadrature | None:
        """How the sum over the L zetas is formed; None where it is their mean."""
        if self.kind not in ("gauss_hermite", "interpolated") or not self.used:
            return None
        if self.kind == "gauss_hermite":
            _, weights = _grid(self.n_zeta, len(self.used))
            return Quadrature(torch.tensor(np.log(weights * self.n_zeta), dtype=dtype, device=device))
        log_weights, between = _between(self.n_zeta)
        return Quadrature(
            torch.tensor(log_weights, dtype=dtype, device=device), torch.tensor(between, dtype=dtype, device=device)
        )


def _monte_carlo(streams: Streams, n_rows: int, n_zeta: int, n_base: int) -> Tensor:
    return streams.normal(n_rows, n_zeta, n_base)


def _antithetic(streams: Streams, n_rows: int, n_zeta: int, n_base: int) -> Tensor:
    half = streams.normal(n_rows, -(-n_zeta // 2), n_base)
    return torch.cat([half, -half], dim=2)[:, :, :n_zeta]


def _stratified(streams: Streams, n_rows: int, n_zeta: int, n_base: int) -> Tensor:
    order = streams.uniform(n_rows, n_zeta, n_base).argsort(dim=2)
    return _normal_scores((order + streams.uniform(n_rows, n_zeta, n_base)) / n_zeta)


def _sobol(streams: Streams, n_rows: int, n_zeta: int, n_base: int) -> Tensor:
    """A random digital shift: the leading digits of all points of a row are turned alike, the others are random."""
    cells = 2 ** max(1, math.ceil(math.log2(n_zeta)))
    points = torch.quasirandom.SobolEngine(n_base).draw(n_zeta, dtype=torch.float64)
    digits = (points * cells).long().to(streams.device)
    shift = (streams.uniform(n_rows, 1, n_base) * cells).long()
    return _normal_scores(((digits ^ shift) + streams.uniform(n_rows, n_zeta, n_base)) / cells)


def _gauss_hermite(streams: Streams, n_rows: int, n_zeta: int, n_base: int) -> Tensor:
    nodes, _ = _grid(n_zeta, n_base)
    grid = torch.tensor(nodes, dtype=streams.dtype, device=streams.device)
    return grid.expand(streams.n_networks, n_rows, -1, -1)


def _interpolated(streams: Streams, n_rows: int, n_zeta: int, n_base: int) -> Tensor:
    nodes = torch.linspace(-_REACH, _REACH, n_zeta, dtype=streams.dtype, device=streams.device)
    return nodes.reshape(-1, 1).expand(streams.n_networks, n_rows, -1, n_base)


def _axes(streams: Streams, n_rows: int, n_zeta: int, n_base: int) -> Tensor:
    axes = torch.eye(n_zeta, n_base, dtype=streams.dtype, device=streams.device).roll(1, dims=0)
    return axes.expand(streams.n_networks, n_rows, -1, -1)


def _is_normal(inputs: ZetaPosterior) -> bool:
    """Whether a posterior is one of ours, and a normal distribution in each row."""
    return type(inputs) is ZetaNormal or (type(inputs) is ZetaMixture and inputs.means.shape[-2] == 1)


@functools.cache
def _between(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """The points of "interpolated": log P w for standard normal noise, `P`, and their place between nodes, `P x L`."""
    nodes = np.linspace(-_REACH, _REACH, n_nodes)
    points = np.linspace(-_REACH, _REACH, _POINTS * (n_nodes - 1) + 1)
    between = np.maximum(0, 1 - np.abs(points[:, None] - nodes) / (nodes[1] - nodes[0]))
    weights = np.exp(-0.5 * points**2)
    return np.log(weights / weights.mean()), between


@functools.cache
def _grid(n_nodes: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes `L x features` and weights `L` of the product rule for independent standard normal numbers."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(round(n_nodes ** (1 / max(1, n_features))))
    grid = np.stack(np.meshgrid(*[nodes] * n_features, indexing="ij"), axis=-1).reshape(n_nodes, n_features)
    products = np.prod(np.meshgrid(*[weights / math.sqrt(2 * math.pi)] * n_features, indexing="ij"), axis=0)
    return grid, products.reshape(n_nodes)


def _normal_scores(uniform: Tensor) -> Tensor:
    scores: Tensor = torch.special.ndtri(uniform.clamp(_LEAST, 1 - _LEAST))
    return scores


_METHODS: dict[str, Callable[[Streams, int, int, int], Tensor]] = {
    "monte_carlo": _monte_carlo,
    "antithetic": _antithetic,
    "stratified": _stratified,
    "sobol": _sobol,
    "informed": _stratified,
    "gauss_hermite": _gauss_hermite,
    "interpolated": _interpolated,
    "profile": _axes,
    "laplace": _axes,
}
ZETA_DRAWS = tuple(kind for kind in _METHODS if kind not in MOVED_ZETAS)
_USUAL = {"monte_carlo": 64, "antithetic": 64, "informed": 32, "gauss_hermite": 8}
