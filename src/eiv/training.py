"""Algorithm 1: training S networks at once, each on rows of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from numpy.random import SeedSequence
from torch import Tensor

from eiv.inputs.zeta import ZetaPosterior, take_rows
from eiv.mlp import MLPStack
from eiv.objective import loss as mc_loss
from eiv.posteriors import WeightDraw, WeightPosterior
from eiv.progress import Report
from eiv.streams import Purpose, Streams

__all__ = ["Schedule", "TrainingDivergedError", "TrainingResult", "train"]

_NOISE_VALUES = 2**20  # random numbers a network that are drawn ahead at a time
_Y_NOISE_DRAWS = 10  # draws of f a row behind the training RMSE
_Y_NOISE_FLOOR = 1e-4  # sigma_y as a share of the spread of y, where a network interpolates its data


class TrainingDivergedError(ArithmeticError):
    r"""The loss of a network is no longer a finite number, so its weights are of no use.

    .. math:: \mathcal{L}^{M.C.}(\phi) \in \{\pm\infty, \mathrm{NaN}\}

    Examples:
        >>> raise TrainingDivergedError("Training diverged in epoch 3.")
        Traceback (most recent call last):
        ...
        eiv.training.TrainingDivergedError: Training diverged in epoch 3.

    """


@dataclass(frozen=True)
class Schedule:
    r"""The settings of Algorithm 1.

    Attributes:
        epochs: n_train.
        batch_size: M, the rows of a minibatch; the last one of an epoch may be smaller.
        learning_rate: Adam's step size.
        n_zeta: L, the zetas drawn for each row.
        y_noise_init: sigma_y before its first update, in units of the y that is trained on.
        y_noise_every: n, sigma_y is set to the training RMSE at the end of every n-th epoch.

    Examples:
        >>> Schedule(epochs=100, batch_size=16, learning_rate=1e-3, n_zeta=5, y_noise_init=0.1, y_noise_every=40).n_zeta
        5

    """

    epochs: int
    batch_size: int
    learning_rate: float
    n_zeta: int
    y_noise_init: float
    y_noise_every: int


@dataclass(frozen=True)
class TrainingResult:
    """What Algorithm 1 leaves beside the trained weights.

    Attributes:
        y_noise: `S x n_y`, sigma_y of each network and output.
        losses: `epochs x S`, the mean of eq. (mcloss) over each epoch, its KL term as it is at the end.

    Examples:
        >>> TrainingResult(y_noise=torch.ones(1, 1), losses=torch.zeros(3, 1)).losses.shape
        torch.Size([3, 1])

    """

    y_noise: Tensor
    losses: Tensor


def train(
    posterior: WeightPosterior,
    inputs: ZetaPosterior,
    y: Tensor,
    schedule: Schedule,
    seeds: Sequence[SeedSequence],
    report: Report | None = None,
    stop: threading.Event | None = None,
) -> TrainingResult:
    r"""Algorithm 1: lower eq. (mcloss) by Adam, in place, for all S networks at once.

    .. math:: \phi \leftarrow \mathrm{Adam}\big(\nabla_\phi \mathcal{L}^{M.C.}(\phi)\big), \qquad
              \sigma_y \leftarrow \mathrm{RMSE}(y, m(x)) \ \text{every } n \text{ epochs}

    Every network visits each of its own rows once an epoch, in an order of its own.

    Args:
        posterior: q_phi of S networks; its parameters are moved.
        inputs: the posterior of zeta given x for the N training rows of each network, `S x N x n_x`.
        y: `S x N x n_y`.
        schedule: epochs, batch size and the like.
        seeds: one a network; a network's course depends on its own seed alone.
        report: called at the end of every epoch.
        stop: training ends with an error soon after this is set.

    Returns:
        sigma_y and the course of the loss.

    Raises:
        TrainingDivergedError: when the loss of a network is not finite.

    Examples:
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(2)
        >>> x = torch.linspace(-1, 1, 50).reshape(1, 50, 1).expand(2, 50, 1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, x.device)
        >>> schedule = Schedule(
        ...     epochs=20, batch_size=16, learning_rate=1e-2, n_zeta=5, y_noise_init=0.5, y_noise_every=5
        ... )
        >>> inputs = ZetaPosterior(x, torch.full((1, 1, 1), 0.1))
        >>> result = train(BernoulliDropout(stack, 1.0), inputs, 2 * x, schedule, seeds)
        >>> bool((result.losses[-1] < result.losses[0]).all())
        True

    """
    n_networks, n_rows, n_outputs = y.shape
    n_zeta = 0 if inputs.is_exact else schedule.n_zeta
    blocks = _Blocks(posterior, inputs, y, n_zeta, schedule.batch_size, seeds)
    rmse_streams = Streams.of(seeds, Purpose.Y_NOISE, y.device, y.dtype)
    y_noise = y.new_full((n_networks, n_outputs), schedule.y_noise_init)
    losses = y.new_zeros(schedule.epochs, n_networks)
    decay = posterior.weight_decay
    no_kl = y.new_zeros(n_networks)

    with _FlatParameters(posterior) as flat:
        adam = torch.optim.Adam([flat.values], schedule.learning_rate, weight_decay=(decay or 0) / n_rows, fused=True)
        for epoch in range(1, schedule.epochs + 1):
            for zeta, weights, targets in blocks.epoch():
                if stop is not None and stop.is_set():
                    raise InterruptedError("Training was stopped.")
                for start in range(0, zeta.shape[1], schedule.batch_size):
                    batch = slice(start, start + schedule.batch_size)
                    f = posterior.evaluate({name: draw[:, batch] for name, draw in weights.items()}, zeta[:, batch])
                    kl = posterior.kl() if decay is None else no_kl
                    loss = mc_loss(f, targets[:, batch], y_noise, kl, n_rows)  # eq. (mcloss)
                    flat.clear()
                    loss.sum().backward()
                    adam.step()
                    losses[epoch - 1] += loss.detach() * (f.shape[1] / n_rows)
            if decay is not None:
                losses[epoch - 1] += posterior.kl().detach() / n_rows
            _stop_if_diverged(losses[epoch - 1], epoch, schedule)
            if epoch % schedule.y_noise_every == 0:
                y_noise = training_rmse(posterior, inputs, y, rmse_streams, blocks.size)
            if report is not None:
                report(epoch, losses[epoch - 1], y_noise)
        _stop_if_diverged(flat.values.square().mean(), schedule.epochs, schedule)
    return TrainingResult(y_noise, losses)


@torch.no_grad()
def training_rmse(
    posterior: WeightPosterior, inputs: ZetaPosterior, y: Tensor, streams: Streams, block_size: int
) -> Tensor:
    r"""The paper's rule for sigma_y: the root mean squared error of m(x) on the training data, `S x n_y`.

    m(x) is estimated from K = 10 independent pairs (theta, zeta) a row. Its own Monte Carlo error, which would raise
    the result, is taken out: :math:`(y - \hat m)^2 - s^2 / K` is unbiased for :math:`(y - m)^2`.
    """
    n_rows = y.shape[1]
    total = torch.zeros_like(y[:, 0])
    for start in range(0, n_rows, block_size):
        stop = min(start + block_size, n_rows)
        shape = (stop - start, _Y_NOISE_DRAWS, inputs.mean.shape[-1])
        zeta = inputs.rows(start, stop).draw(streams.normal(*shape)).flatten(1, 2).unsqueeze(2)
        f = posterior.evaluate(posterior.draw(streams, zeta.shape[1]), zeta).squeeze(2)
        f = f.unflatten(1, (-1, _Y_NOISE_DRAWS))
        errors = (y[:, start:stop] - f.mean(2)).square() - f.var(2) / _Y_NOISE_DRAWS
        total += errors.sum(1)
    floor = (_Y_NOISE_FLOOR * y.std(1)).square()
    return torch.maximum(total / n_rows, floor).sqrt()


class _Blocks:
    """The rows of an epoch in random order, several minibatches at a time, with the random numbers they need."""

    def __init__(
        self,
        posterior: WeightPosterior,
        inputs: ZetaPosterior,
        y: Tensor,
        n_zeta: int,
        batch_size: int,
        seeds: Sequence[SeedSequence],
    ) -> None:
        self.posterior, self.inputs, self.y, self.n_zeta = posterior, inputs, y, n_zeta
        self._shuffle, self._zetas, self._weights = (
            Streams.of(seeds, purpose, y.device, y.dtype)
            for purpose in (Purpose.SHUFFLE, Purpose.ZETA, Purpose.WEIGHTS)
        )
        stack = posterior.stack
        values_a_row = n_zeta * inputs.mean.shape[-1] + stack.width * max(1, len(stack.dropout_layers))
        self.size = max(1, _NOISE_VALUES // (values_a_row * batch_size)) * batch_size  # the same for every S

    def epoch(self) -> Iterator[tuple[Tensor, WeightDraw, Tensor]]:
        """Zetas `S x rows x L x n_x` (L = 1 for exact inputs), a weight draw a row, and outputs `S x rows x n_y`."""
        for rows in self._shuffle.permutations(self.y.shape[1]).split(self.size, dim=1):
            taken, n_rows = self.inputs.take(rows), rows.shape[1]
            if self.n_zeta == 0:
                zeta = taken.mean.unsqueeze(2)
            else:
                zeta = taken.draw(self._zetas.normal(n_rows, self.n_zeta, taken.mean.shape[-1]))
            yield zeta, self.posterior.draw(self._weights, n_rows), take_rows(self.y, rows)


def _stop_if_diverged(values: Tensor, epoch: int, schedule: Schedule) -> None:
    if not bool(values.isfinite().all()):
        raise TrainingDivergedError(
            f"Training diverged in epoch {epoch}: the loss is no longer a finite number. "
            f"Lower learning_rate (now {schedule.learning_rate:g}); if that does not help, raise y_noise_init "
            f"(now {schedule.y_noise_init:g}) or batch_size (now {schedule.batch_size}), or look for outliers."
        )


class _FlatParameters:
    """Parameters and gradients as views of two flat buffers, so that one fused Adam call moves them all."""

    def __init__(self, posterior: WeightPosterior) -> None:
        parameters = posterior.parameters
        self.values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.gradients = self.values.grad = torch.zeros_like(self.values)
        sizes = [parameter.numel() for parameter in parameters]
        views = zip(self.values.split(sizes), self.gradients.split(sizes), strict=True)
        for parameter, (value, gradient) in zip(parameters, views, strict=True):
            parameter.data = value.view_as(parameter)
            parameter.grad = gradient.view_as(parameter)
        # A stack on the fast path writes its gradients here by itself, where nothing else adds to them.
        self._writer: MLPStack | None = None
        if isinstance(posterior.stack, MLPStack) and posterior.weight_decay is not None:
            self._writer = posterior.stack

    def __enter__(self) -> Self:
        if self._writer is not None:
            self._writer.gradients = [
                gradient for value in self._writer.parameters.values() if (gradient := value.grad) is not None
            ]
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.gradients = None

    def clear(self) -> None:
        """Make ready for a backward pass."""
        if self._writer is None:
            self.gradients.zero_()
