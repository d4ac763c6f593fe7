"""The network of the paper."""

from __future__ import annotations

from torch import nn

__all__ = ["paper_network"]


def paper_network(
    n_inputs: int, n_outputs: int, hidden_units: int = 128, n_hidden: int = 4, dropout: float = 0.1
) -> nn.Sequential:
    r"""The network of the paper's experiments (its figure architecture).

    .. math:: f_\theta = W_5 \circ D \circ \lambda \circ W_4 \circ \dots \circ D \circ \lambda \circ W_1

    with affine maps W, leaky ReLU :math:`\lambda` and dropout D after each hidden layer, and a linear head.

    Args:
        n_inputs: n_x.
        n_outputs: n_y.
        hidden_units: h, the units of each hidden layer.
        n_hidden: the number of hidden layers.
        dropout: p, the probability that a draw of the weights drops a unit.

    Returns:
        A module that maps `rows x n_x` to `rows x n_y`.

    Examples:
        >>> import torch
        >>> paper_network(3, 1)(torch.zeros(7, 3)).shape
        torch.Size([7, 1])

    """
    layers: list[nn.Module] = []
    width = n_inputs
    for _ in range(n_hidden):
        layers += [nn.Linear(width, hidden_units), nn.LeakyReLU(), nn.Dropout(dropout)]
        width = hidden_units
    return nn.Sequential(*layers, nn.Linear(width, n_outputs))
