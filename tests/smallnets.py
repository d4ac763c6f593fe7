"""Small networks of the paper's kind and of another."""

import torch
from numpy.random import SeedSequence
from torch import nn

from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import BernoulliDropout

CPU = torch.device("cpu")
# scikit-learn's check fits once with whole weights and once with repeated rows, and compares to seven digits.
BY_CHANCE = {
    "check_sample_weight_equivalence_on_dense_data": "Both visit rows in random orders; tests/training/test_weights.py"
}


def small_posterior(n_networks=2, n_inputs=1, n_outputs=1, dropout=0.2, dtype=torch.float32, hidden_units=8):
    """Bernoulli dropout on small networks of the paper's kind."""
    seeds = SeedSequence(0).spawn(n_networks)
    stack = NetworkStack(
        lambda: paper_network(n_inputs, n_outputs, hidden_units, dropout=dropout),
        n_inputs,
        n_outputs,
        seeds,
        CPU,
        dtype,
    )
    return BernoulliDropout(stack, weight_penalty=10.0)


class SmallConv(nn.Module):
    """Twelve inputs read as a 1 x 3 x 4 picture, spatial and plain dropout."""

    def __init__(self, n_inputs: int = 12, n_outputs: int = 1) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 6, 2), nn.LeakyReLU(), nn.Dropout2d(0.5))
        self.signal = nn.Sequential(nn.Conv1d(6, 4, 2), nn.ReLU(), nn.Dropout1d(0.5))
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(20, 10), nn.LeakyReLU(), nn.Dropout(0.5), nn.Linear(10, n_outputs)
        )

    def forward(self, rows):
        maps = self.conv(rows.reshape(-1, 1, 3, 4))
        return self.head(self.signal(maps.flatten(2)))
