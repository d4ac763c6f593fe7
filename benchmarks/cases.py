"""What is measured: small and large networks, with errors in x (EiV) and without (MC dropout)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eiv import EiVRegressor


@dataclass(frozen=True)
class Case:
    """Sizes of one measurement; the settings that do not bear on speed are the paper's."""

    name: str
    n_inputs: int
    hidden_units: int
    batch_size: int
    dropout: float
    n_zeta: int  # 1: exact inputs, MC dropout
    n_rows: int
    epochs: int  # timed ones
    n_predicted: int = 1000  # rows of a timed prediction

    @property
    def x_err(self) -> float | None:
        return 0.1 if self.n_zeta > 1 else None

    @property
    def steps(self) -> int:
        return self.epochs * -(-self.n_rows // self.batch_size)

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(0)
        X = random.standard_normal((self.n_rows, self.n_inputs))
        return X, np.sin(X.sum(1)) + 0.1 * random.standard_normal(self.n_rows)

    def regressor(self, n_networks: int, epochs: int, **settings: object) -> EiVRegressor:
        return EiVRegressor(
            self.x_err,
            hidden_units=self.hidden_units,
            batch_size=self.batch_size,
            dropout=self.dropout,
            n_zeta=max(self.n_zeta, 2),
            n_networks=n_networks,
            epochs=epochs,
            y_noise_every=10**6,
            random_state=0,
            **settings,
            recipe="paper",
        )

    def flops_a_step(self) -> float:
        """Multiplications and additions of the matrix products of one network: forward, and twice that backward."""
        h = self.hidden_units
        weights = self.n_inputs * h + 3 * h * h + h
        return 3 * 2 * weights * self.batch_size * self.n_zeta

    def flops_per_row(self, n_theta: int) -> float:
        """The same for the prediction of one row by one network, dropped units included."""
        h = self.hidden_units
        return 2 * (self.n_inputs * h + 3 * h * h + h) * n_theta * self.n_zeta


CASES = [
    Case("small MC", 1, 128, 16, 0.1, n_zeta=1, n_rows=400, epochs=20),
    Case("small EiV", 1, 128, 16, 0.1, n_zeta=5, n_rows=400, epochs=12),
    Case("large MC", 8, 1024, 32, 0.2, n_zeta=1, n_rows=640, epochs=2, n_predicted=200),
    Case("large EiV", 8, 1024, 32, 0.2, n_zeta=5, n_rows=640, epochs=2, n_predicted=200),
]
