"""A network with one hidden layer of cosines: a Gaussian process in the limit of many of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["CosineNetwork"]


class CosineNetwork(nn.Module):
    r"""One hidden layer of cosines and sines, to which the inputs themselves are appended.

    .. math:: f(\zeta) = b + w^T \big( s \circ [\cos \Omega\zeta,\ \sin \Omega\zeta,\ \zeta] \big)

    With frequencies :math:`\Omega` from the spectrum of a kernel and normal w, f is a draw from a Gaussian process with
    that kernel and a linear trend, in the limit of many frequencies; s are the prior scales of the features. The mean
    of f over a normal zeta with covariance C is known in closed form: the features of frequency :math:`\omega` are
    those at the mean of zeta times :math:`\exp(-\omega^T C \omega / 2)`.

    Args:
        n_inputs: n_x.
        n_outputs: n_y.
        n_frequencies: D, each with a cosine and a sine.

    Examples:
        >>> CosineNetwork(3, 1, n_frequencies=16)(torch.zeros(7, 3)).shape
        torch.Size([7, 1])

    """

    def __init__(self, n_inputs: int, n_outputs: int, n_frequencies: int) -> None:
        super().__init__()
        self.frequencies = nn.Linear(n_inputs, n_frequencies, bias=False)
        self.scales = nn.Parameter(torch.ones(2 * n_frequencies + n_inputs))
        self.head = nn.Linear(2 * n_frequencies + n_inputs, n_outputs)

    def forward(self, zeta: Tensor) -> Tensor:
        """Compute f for `rows x n_x`."""
        phases = self.frequencies(zeta)
        f: Tensor = self.head(torch.cat([phases.cos(), phases.sin(), zeta], dim=-1) * self.scales)
        return f
