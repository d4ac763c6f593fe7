"""Input priors: what is believed of the true input before x is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from eiv.engine.readonly import ReadOnly, tensor_of
from eiv.inputs.zeta import ZetaMixture, ZetaNormal, ZetaPosterior, square_root

__all__ = ["FlatPrior", "InputPrior", "NormalPrior"]


class InputPrior(Protocol):
    r"""What a prior of the true input has to offer: the posterior that goes with it.

    .. math:: \pi(\zeta | x, \sigma_x^2) \propto \pi(\zeta)\, \mathcal{N}(x | \zeta, \sigma_x^2)

    One that has to be learned has a method `fit(x, x_err)` that returns such a prior. The posterior may be a subclass
    of `ZetaPosterior` with a `draw` of its own, which is then what zetas are drawn by.

    Examples:
        >>> prior: InputPrior = FlatPrior()

    """

    def posterior(self, x: Tensor, x_err: Tensor) -> ZetaPosterior:
        """The posterior of zeta given `x`, `rows x n_x`, in the units of X.

        `x_err` holds standard deviations, `rows x n_x`, or covariances, `rows x n_x x n_x`; rows may be 1.
        """


@dataclass(frozen=True)
class FlatPrior:
    r"""No knowledge of the true input: the limit of Lemma 1, which the paper uses throughout.

    .. math:: \pi(\zeta | x, \sigma_x^2) = \mathcal{N}(\zeta | x, \sigma_x^2)

    Right where the true inputs are locally uniform; elsewhere the fitted curve comes out too flat.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> FlatPrior().posterior(torch.tensor([[2.0]]), torch.tensor([[0.1]]))
        ZetaNormal(mean=tensor([[2.]]), std=tensor([[0.1000]]))

    """

    def posterior(self, x: Tensor, x_err: Tensor) -> ZetaPosterior:
        """Lemma 1 for `x`, `rows x n_x`."""
        return ZetaNormal(x, x_err) if x_err.ndim == 2 else _one_component(x, x_err)

    def components(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The prior as a mixture of one component: weights, means `1 x n_x` and variances `1 x n_x`, infinite."""
        return torch.ones_like(x[0, :1]), torch.zeros_like(x[:1]), torch.full_like(x[:1], torch.inf)

    def log_density(self, x: Tensor, x_err: Tensor) -> Tensor:
        """The logarithm of the density of x, `rows`, but for a constant: the same everywhere, whatever the errors."""
        return torch.zeros_like(x[:, 0])


@dataclass(frozen=True)
class NormalPrior(ReadOnly):
    r"""A normal prior of the true input, appendix A.2 of the paper: eq. (posterior_zeta).

    .. math::
        \pi(\zeta) = \mathcal{N}(\zeta | \mu, \lambda_\zeta^2), \qquad
        \pi(\zeta | x, \sigma_x^2) = \mathcal{N}(\zeta | \mu + s (x - \mu),\ s\, \sigma_x^2), \qquad
        s = (1 + \sigma_x^2 / \lambda_\zeta^2)^{-1}

    Attributes:
        std: lambda_zeta in units of X, a number or one per feature; infinity gives the flat prior.
        mean: mu in units of X, a number or one per feature; the paper has zero.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> NormalPrior(std=1.0).posterior(torch.tensor([[2.0]]), torch.tensor([[1.0]]))
        ZetaNormal(mean=tensor([[1.]]), std=tensor([[0.7071]]))

    """

    std: ArrayLike
    mean: ArrayLike = 0.0

    def posterior(self, x: Tensor, x_err: Tensor) -> ZetaPosterior:
        """Equation (posterior_zeta) for `x`, `rows x n_x`."""
        mean, std = self._like("mean", self.mean, x), self._like("std", self.std, x)
        if not bool((std > 0).all()):
            raise ValueError(f"NormalPrior: std must be above zero, got {self.std!r}.")
        if x_err.ndim == 3:
            return _correlated(x, x_err, mean, 1 / std.expand(x.shape[-1]))
        shrinkage = 1 / (1 + (x_err / std).square())
        return ZetaNormal(mean + shrinkage * (x - mean), shrinkage.sqrt() * x_err)

    def components(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The prior as a mixture of one component: weights, means `1 x n_x` and variances `1 x n_x` in units of `x`."""
        mean, std = self._like("mean", self.mean, x), self._like("std", self.std, x)
        if not bool((std > 0).all()):
            raise ValueError(f"NormalPrior: std must be above zero, got {self.std!r}.")
        one = torch.ones_like(x[:1])
        return one[0, :1], one * mean, one * std.square()

    def log_density(self, x: Tensor, x_err: Tensor) -> Tensor:
        """The logarithm of the density of `x`, `rows`, which scatters by lambda_zeta and its errors."""
        mean, std = (self._like(*each, x).expand_as(x[0]) for each in (("mean", self.mean), ("std", self.std)))
        errors = x_err.square().diag_embed() if x_err.ndim == 2 else x_err
        own = torch.isfinite(std)  # the density is the same everywhere along the others
        root = torch.linalg.cholesky(errors[:, own][:, :, own] + std[own].square().diag_embed())
        found: Tensor = torch.distributions.MultivariateNormal(mean[own], scale_tril=root).log_prob(x[:, own])
        return found

    @staticmethod
    def _like(name: str, value: ArrayLike, x: Tensor) -> Tensor:
        tensor = tensor_of(value, x.dtype, x.device)
        if tensor.ndim > 1 or (tensor.ndim == 1 and len(tensor) != x.shape[-1]):
            raise ValueError(
                f"NormalPrior: {name} must be a number or one value per feature ({x.shape[-1]}), "
                f"got shape {tuple(tensor.shape)}."
            )
        return tensor


def _correlated(x: Tensor, covariance: Tensor, mean: Tensor, inverse_std: Tensor) -> ZetaMixture:
    r"""The normal posterior for errors with a covariance S and an independent prior, which may be flat in places.

    With :math:`P = \mathrm{diag}(1 / \lambda)` and :math:`G = S P (P S P + I)^{-1} P` the posterior is
    :math:`\mathcal{N}(x - G (x - \mu), (I - G) S (I - G)^T + H H^T)`, :math:`H = S P (P S P + I)^{-1}`.
    """
    identity = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    scaled = covariance * inverse_std  # S P
    half = torch.linalg.solve(inverse_std[:, None] * scaled + identity, scaled.mT).mT  # H
    gain = half * inverse_std
    rest = identity - gain
    posterior = rest @ covariance @ rest.mT + half @ half.mT
    return _one_component(x - (gain @ (x - mean).unsqueeze(-1)).squeeze(-1), posterior)


def _one_component(mean: Tensor, covariance: Tensor) -> ZetaMixture:
    weightless = torch.zeros_like(mean[..., :1])
    return ZetaMixture.of(weightless, mean.unsqueeze(-2), square_root(covariance).unsqueeze(-3))
