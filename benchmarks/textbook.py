"""The textbook loop: PyTorch modules, DataLoader, default Adam, one network at a time."""

from __future__ import annotations

import math

import torch
from cases import Case
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

Y_NOISE, PENALTY = 0.5, 10.0


class SharedDropout(nn.Module):
    """Dropout for `rows x zetas x units` with one mask per row."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, values: Tensor) -> Tensor:
        return values * nn.functional.dropout(torch.ones_like(values[:, :1]), self.rate)


class Textbook:
    """One network, trained and used as tutorials do it."""

    def __init__(self, case: Case, device: str = "cpu") -> None:
        self.case, self.device = case, torch.device(device)
        layers: list[nn.Module] = []
        width = case.n_inputs
        for _ in range(4):
            drop = SharedDropout(case.dropout) if case.n_zeta > 1 else nn.Dropout(case.dropout)
            layers += [nn.Linear(width, case.hidden_units), nn.LeakyReLU(), drop]
            width = case.hidden_units
        self.network = nn.Sequential(*layers, nn.Linear(width, 1)).to(self.device)
        X, y = (torch.tensor(values, dtype=torch.float32) for values in case.data())
        self.loader = DataLoader(TensorDataset(X, y[:, None]), batch_size=case.batch_size, shuffle=True)
        decay = 2 * (1 - case.dropout) * PENALTY / case.n_rows
        self.adam = torch.optim.Adam(self.network.parameters(), lr=1e-3, weight_decay=decay)

    def fit(self, epochs: int) -> None:
        self.network.train()
        for _ in range(epochs):
            for x, y in self.loader:
                loss = self.loss(x.to(self.device), y.to(self.device))
                self.adam.zero_grad()
                loss.backward()
                self.adam.step()

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        f = self.network(self.zetas(x))
        if self.case.n_zeta == 1:
            return ((f - y) ** 2).mean() / (2 * Y_NOISE**2)
        log_likelihood = -((f - y[:, None]) ** 2).sum(-1) / (2 * Y_NOISE**2)
        return -(torch.logsumexp(log_likelihood, 1) - math.log(self.case.n_zeta)).mean()

    def zetas(self, x: Tensor) -> Tensor:
        if self.case.n_zeta == 1:
            return x
        noise = torch.randn(len(x), self.case.n_zeta, x.shape[1], device=x.device)
        return x[:, None] + self.case.x_err * noise

    @torch.no_grad()
    def predict(self, x: Tensor, n_theta: int) -> Tensor:
        self.network.train()
        zetas = self.zetas(x.to(self.device))
        return torch.stack([self.network(zetas) for _ in range(n_theta)])
