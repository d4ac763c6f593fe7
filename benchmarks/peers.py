"""Other ways to train the same networks: optional contenders, each used where its package is installed.

All of them start from the network, the optimizer settings and the data of `Textbook`, and run on the CPU.
"""

from __future__ import annotations

import logging
import math
import warnings
from importlib.util import find_spec
from typing import Any, ClassVar

from cases import Case
from textbook import PENALTY, Y_NOISE, Textbook
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset


class GaussianLoss(nn.Module):
    """The textbook loss for exact inputs."""

    def forward(self, f: Tensor, y: Tensor) -> Tensor:
        return ((f - y) ** 2).mean() / (2 * Y_NOISE**2)


class Peer:
    """A contender for MC dropout that trains one network at a time."""

    package: ClassVar[str]
    networks: ClassVar[int] = 1

    def __init__(self, case: Case) -> None:
        self.textbook = Textbook(case)

    @classmethod
    def takes(cls, case: Case) -> bool:
        return case.n_zeta == 1

    def fit(self, epochs: int) -> None:
        raise NotImplementedError


class Skorch(Peer):
    """`skorch.NeuralNetRegressor` with its default callbacks, silent and without validation."""

    package = "skorch"

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        from skorch import NeuralNetRegressor

        self.net = NeuralNetRegressor(
            self.textbook.network,
            criterion=GaussianLoss,
            optimizer=optim.Adam,
            lr=1e-3,
            optimizer__weight_decay=self.textbook.adam.defaults["weight_decay"],
            batch_size=case.batch_size,
            iterator_train__shuffle=True,
            train_split=None,
            verbose=0,
            device="cpu",
        ).initialize()

    def fit(self, epochs: int) -> None:
        self.net.partial_fit(*self.textbook.loader.dataset.tensors, epochs=epochs)


class LightningPeer(Peer):
    """A Lightning module and its loader, trained without logging, checkpoints and progress bar."""

    module: Any
    loader: DataLoader

    def fit(self, epochs: int) -> None:
        from lightning import Trainer

        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there are no workers, and no logger
            trainer = Trainer(
                accelerator="cpu",
                max_epochs=epochs,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(self.module, self.loader)


class LightningUQBox(LightningPeer):
    """`MCDropoutRegression` of lightning-uq-box; its batches are dictionaries."""

    package = "lightning_uq_box"

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        from lightning_uq_box.uq_methods import MCDropoutRegression

        self.module = MCDropoutRegression(
            self.textbook.network,
            num_mc_samples=10,
            loss_fn=GaussianLoss(),
            optimizer=lambda _: self.textbook.adam,
        )
        rows = [{"input": x, "target": y} for x, y in self.textbook.loader.dataset]
        self.loader = DataLoader(rows, batch_size=case.batch_size, shuffle=True)


class TorchUncertainty(LightningPeer):
    """`RegressionRoutine` of torch-uncertainty around its `mc_dropout` wrapper; its targets have no columns."""

    package = "torch_uncertainty"

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        from torch_uncertainty.methods import mc_dropout
        from torch_uncertainty.routines import RegressionRoutine

        network = mc_dropout(self.textbook.network, num_estimators=10, task="regression", probabilistic=False)
        self.module = RegressionRoutine(network, output_dim=1, loss=GaussianLoss(), optim_recipe=self.textbook.adam)
        X, y = self.textbook.loader.dataset.tensors
        self.loader = DataLoader(TensorDataset(X, y[:, 0]), batch_size=case.batch_size, shuffle=True)


class Jax:
    """Ten networks in JAX: `vmap` over the networks, one compiled `scan` an epoch."""

    package = "jax"
    networks: ClassVar[int] = 10

    def __init__(self, case: Case) -> None:
        import jax
        import jax.numpy as jnp

        decay = 2 * (1 - case.dropout) * PENALTY / case.n_rows
        cpu = jax.devices("cpu")[0]
        X, y = (jax.device_put(values.astype("float32"), cpu) for values in case.data())

        def forward(weights: list, zetas: Any, key: Any) -> Any:
            values = zetas  # rows x zetas x units
            for W, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
                values = jax.nn.leaky_relu(values @ W + b)
                key, own = jax.random.split(key)
                kept = jax.random.bernoulli(own, 1 - case.dropout, (len(values), 1, len(b)))
                values = jnp.where(kept, values / (1 - case.dropout), 0)
            return (values @ weights[-2] + weights[-1])[..., 0]

        def loss(weights: list, x: Any, y: Any, key: Any) -> Any:
            noise_key, mask_key = jax.random.split(key)
            zetas = x[:, None]
            if case.n_zeta > 1:
                zetas += case.x_err * jax.random.normal(noise_key, (len(x), case.n_zeta, case.n_inputs))
            log_likelihood = -((forward(weights, zetas, mask_key) - y[:, None]) ** 2) / (2 * Y_NOISE**2)
            return -(jax.nn.logsumexp(log_likelihood, 1) - math.log(case.n_zeta)).mean()

        def step(state: tuple, rows: Any) -> tuple[tuple, None]:
            weights, means, squares, count, key = state
            key, own = jax.random.split(key)
            slopes = jax.grad(loss)(weights, X[rows], y[rows], own)
            slopes = [g + decay * w for g, w in zip(slopes, weights, strict=True)]
            means = [0.9 * m + 0.1 * g for m, g in zip(means, slopes, strict=True)]
            squares = [0.999 * s + 0.001 * g**2 for s, g in zip(squares, slopes, strict=True)]
            count += 1
            rate, scale = 1e-3 / (1 - 0.9**count), 1 / jnp.sqrt(1 - 0.999**count)
            weights = [
                w - rate * m / (scale * jnp.sqrt(s) + 1e-8) for w, m, s in zip(weights, means, squares, strict=True)
            ]
            return (weights, means, squares, count, key), None

        def epoch(state: tuple) -> tuple:
            *rest, key = state
            key, own = jax.random.split(key)
            batches = jax.random.permutation(own, case.n_rows).reshape(-1, case.batch_size)
            return jax.lax.scan(step, (*rest, key), batches)[0]

        networks = [Textbook(case).network.parameters() for _ in range(self.networks)]
        weights = [jnp.stack([w.detach().numpy().T for w in same]) for same in zip(*networks, strict=True)]
        zeros = [[jnp.zeros_like(w) for w in weights] for _ in range(2)]
        keys = jax.random.split(jax.random.key(0), self.networks)
        self.state = jax.device_put((weights, *zeros, jnp.zeros(self.networks), keys), cpu)
        self.epoch = jax.jit(jax.vmap(epoch), donate_argnums=0)
        self.wait = jax.block_until_ready

    @classmethod
    def takes(cls, case: Case) -> bool:
        return case.n_rows % case.batch_size == 0  # all the steps of a scan have one size

    def fit(self, epochs: int) -> None:
        for _ in range(epochs):
            self.state = self.epoch(self.state)
        self.wait(self.state)


PEERS: dict[str, type] = {
    "skorch": Skorch,
    "lightning-uq-box": LightningUQBox,
    "torch-uncertainty": TorchUncertainty,
    "JAX": Jax,
}


def available() -> dict[str, type]:
    """The contenders whose package is installed, by name."""
    return {name: peer for name, peer in PEERS.items() if find_spec(peer.package)}
