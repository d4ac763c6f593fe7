"""Input priors: what is believed of the true input before x is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from eiv.inputs.zeta import ZetaPosterior

__all__ = ["FlatPrior", "InputPrior", "NormalPrior"]


class InputPrior(Protocol):
    r"""What a prior of the true input has to offer: the posterior that goes with it.

    .. math:: \pi(\zeta | x, \sigma_x^2) \propto \pi(\zeta)\, \mathcal{N}(x | \zeta, \sigma_x^2)

    Examples:
        >>> prior: InputPrior = FlatPrior()

    """

    def posterior(self, x: Tensor, x_err: Tensor) -> ZetaPosterior:
        """The posterior of zeta given `x`, `rows x n_x`, and its error (rows may be 1), in the units of X."""


@dataclass(frozen=True)
class FlatPrior:
    r"""No knowledge of the true input: the limit of Lemma 1, which the paper uses throughout.

    .. math:: \pi(\zeta | x, \sigma_x^2) = \mathcal{N}(\zeta | x, \sigma_x^2)

    Right where the true inputs are locally uniform; elsewhere the fitted curve comes out too flat.

    Examples:
        >>> FlatPrior().posterior(torch.tensor([[2.0]]), torch.tensor([[0.1]]))
        ZetaPosterior(mean=tensor([[2.]]), std=tensor([[0.1000]]))

    """

    def posterior(self, x: Tensor, x_err: Tensor) -> ZetaPosterior:
        """Lemma 1 for `x`, `rows x n_x`."""
        return ZetaPosterior(x, x_err)


@dataclass(frozen=True)
class NormalPrior:
    r"""A normal prior of the true input, appendix A.2 of the paper: eq. (posterior_zeta).

    .. math::
        \pi(\zeta) = \mathcal{N}(\zeta | \mu, \lambda_\zeta^2), \qquad
        \pi(\zeta | x, \sigma_x^2) = \mathcal{N}(\zeta | \mu + s (x - \mu),\ s\, \sigma_x^2), \qquad
        s = (1 + \sigma_x^2 / \lambda_\zeta^2)^{-1}

    Attributes:
        std: lambda_zeta in units of X, a number or one a feature; infinity gives the flat prior.
        mean: mu in units of X, a number or one a feature; the paper has zero.

    Examples:
        >>> NormalPrior(std=1.0).posterior(torch.tensor([[2.0]]), torch.tensor([[1.0]]))
        ZetaPosterior(mean=tensor([[1.]]), std=tensor([[0.7071]]))

    """

    std: ArrayLike
    mean: ArrayLike = 0.0

    def posterior(self, x: Tensor, x_err: Tensor) -> ZetaPosterior:
        """Equation (posterior_zeta) for `x`, `rows x n_x`."""
        mean, std = self._like("mean", self.mean, x), self._like("std", self.std, x)
        if not bool((std > 0).all()):
            raise ValueError(f"NormalPrior: std must be above zero, got {self.std!r}.")
        shrinkage = 1 / (1 + (x_err / std).square())
        return ZetaPosterior(mean + shrinkage * (x - mean), shrinkage.sqrt() * x_err)

    @staticmethod
    def _like(name: str, value: ArrayLike, x: Tensor) -> Tensor:
        tensor = torch.as_tensor(value, dtype=x.dtype, device=x.device)
        if tensor.ndim > 1 or (tensor.ndim == 1 and len(tensor) != x.shape[-1]):
            raise ValueError(
                f"NormalPrior: {name} must be a number or one value a feature ({x.shape[-1]}), "
                f"got shape {tuple(tensor.shape)}."
            )
        return tensor
