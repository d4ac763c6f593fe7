"""Algorithm 1: training S networks at once, each on rows of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from numpy.random import SeedSequence
from torch import Tensor

from eiv.graphs import Replay, matmul_precision, own_stream
from eiv.inputs import Rows, ZetaDraws, ZetaPosterior
from eiv.likelihoods import ByError, Likelihood
from eiv.mlp import MLPStack
from eiv.objective import bound, loss
from eiv.optim import FlatAdam
from eiv.passes import evaluate_by_hand
from eiv.posteriors import WeightDraw, WeightPosterior
from eiv.progress import Report
from eiv.quadrature import Quadrature
from eiv.streams import Purpose, Streams

__all__ = ["Schedule", "TrainingDivergedError", "TrainingResult", "train"]

_NOISE_VALUES = {"cpu": 2**20, "cuda": 2**23}  # random numbers a network that are drawn ahead at a time
_SPLITS = 3  # of the error of held-out rows, between noise and weights
_THETAS, _ZETAS = 100, 8  # behind the epistemic part of held-out rows
_LAST_LOOK = 64  # rows that trained networks are tried on
_SECONDS_UNSEEN = 0.3  # a look at the loss makes the host wait for a GPU


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
    r"""The settings of Algorithm 1; all are single numbers, the same for every network.

    .. math:: n_{\mathrm{train}}, \quad M, \quad L, \quad \sigma_y, \quad n_{\mathrm{update}\,\sigma_y}

    Attributes:
        epochs: n_train.
        batch_size: M, the rows of a minibatch; the last one of an epoch may be smaller.
        learning_rate: Adam's step size at the start.
        learning_rate_decay: the share of the training, at its end, over which that falls linearly to zero.
        n_zeta: L, the zetas drawn for each row; None: the number that suits `zeta_draws`.
        renew_every: n, the likelihood is renewed at the end of every n-th epoch; once at the end where there are fewer.
        precision: of matrix products on a GPU: "float32" rules TF32 out.
        zeta_draws: how the zetas of a row are drawn, one of `eiv.inputs.ZETA_DRAWS` or "auto".
        held_out: rows that training leaves out, chosen for each network, to find sigma_y with; 0 for none.

    Examples:
        >>> Schedule(epochs=100, batch_size=16, learning_rate=1e-3, n_zeta=5, renew_every=40).n_zeta
        5

    """

    epochs: int
    batch_size: int
    learning_rate: float
    n_zeta: int | None
    renew_every: int
    precision: str = "auto"
    zeta_draws: str = "monte_carlo"
    learning_rate_decay: float = 0.0
    held_out: int = 0

    def rate_at(self, done: float) -> float:
        """The step size where a share `done` of the training lies behind."""
        left = 1 - done
        return self.learning_rate * min(1.0, left / self.learning_rate_decay if self.learning_rate_decay else 1.0)

    def renews(self, epoch: int) -> bool:
        """Whether the likelihood is renewed at the end of an epoch; they count from 1."""
        return epoch % self.renew_every == 0 or epoch == self.epochs < self.renew_every

    def is_last_renewal(self, epoch: int) -> bool:
        """Whether it is not renewed again after this epoch."""
        return epoch + self.renew_every > self.epochs


@dataclass(frozen=True)
class TrainingResult:
    r"""What Algorithm 1 leaves beside the trained weights.

    .. math:: \sigma_y, \qquad \mathcal{L}^{M.C.}(\phi)

    Attributes:
        likelihood: of the S networks, as it was fitted.
        losses: `epochs x S`, the mean of eq. (mcloss) over each epoch, its KL term as it is at the end.
        likelihood_of_steps: before the error of held-out rows was split between noise and weights.

    Examples:
        >>> from eiv.likelihoods import NormalLikelihood
        >>> likelihood = NormalLikelihood(torch.ones(1, 1))
        >>> TrainingResult(likelihood, torch.zeros(3, 1), likelihood).losses.shape
        torch.Size([3, 1])

    """

    likelihood: Likelihood
    losses: Tensor
    likelihood_of_steps: Likelihood


class Batch(NamedTuple):
    r"""The rows of a minibatch, or of several, and the random numbers that a step takes.

    .. math:: \zeta_{ml}, \quad \theta_m, \quad y_m, \quad y_{err,m}

    Attributes:
        zeta: `S x B x L x n_x`; L = 1 for exact inputs.
        y: `S x B x n_y`.
        y_err: the same shape, or None.
        levels: of an informed choice of zetas, `S x B x n_kept`, or None.
        draw: a weight draw per row, or per minibatch where the family shares its draws.

    Examples:
        >>> batch = Batch(torch.zeros(1, 8, 5, 1), torch.zeros(1, 8, 1), None, None, draw={})
        >>> [len(part.tensors) for part in batch.split(4, shares_draws=False)]
        [2, 2]

    """

    zeta: Tensor
    y: Tensor
    y_err: Tensor | None
    levels: Tensor | None
    draw: WeightDraw

    @property
    def tensors(self) -> list[Tensor]:
        """All of them, one after the other."""
        parts = (self.zeta, self.y, self.y_err, self.levels, *self.draw.values())
        return [value for value in parts if value is not None]

    def filled(self, tensors: Sequence[Tensor]) -> Batch:
        """The same with other tensors, in the order of `tensors`."""
        zeta, y, *rest = tensors
        y_err = None if self.y_err is None else rest.pop(0)
        levels = None if self.levels is None else rest.pop(0)
        return Batch(zeta, y, y_err, levels, dict(zip(self.draw, rest, strict=True)))

    def split(self, size: int, shares_draws: bool) -> Iterator[Batch]:
        """Minibatches of `size` rows."""
        of_draw = 1 if shares_draws else size
        sizes = [size] * (len(self.tensors) - len(self.draw)) + [of_draw] * len(self.draw)
        parts = [value.split(count, dim=1) for value, count in zip(self.tensors, sizes, strict=True)]
        for tensors in zip(*parts, strict=True):
            yield self.filled(tensors)


def train(
    posterior: WeightPosterior,
    rows: Rows,
    likelihood: Likelihood,
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
        rows: the N training rows of each network.
        likelihood: p(y | f), where training begins; it stays as it is.
        schedule: epochs, batch size and the like.
        seeds: one per network; a network's course depends on its own seed alone.
        report: called at the end of every epoch, on a GPU some times a second.
        stop: training ends with an error soon after this is set.

    Returns:
        The fitted likelihood and the course of the loss.

    Raises:
        TrainingDivergedError: when the loss of a network is not finite.

    Examples:
        >>> from eiv.likelihoods import NOISE_RULES, NormalLikelihood
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(2)
        >>> x = torch.linspace(-1, 1, 50).reshape(1, 50, 1).expand(2, 50, 1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, x.device)
        >>> schedule = Schedule(epochs=20, batch_size=16, learning_rate=1e-2, n_zeta=5, renew_every=5)
        >>> rows = Rows(ZetaPosterior(x, torch.full((1, 1, 1), 0.1)), 2 * x)
        >>> likelihood = NormalLikelihood(torch.full((2, 1), 0.5), NOISE_RULES["rmse"])
        >>> result = train(BernoulliDropout(stack, 1.0), rows, likelihood, schedule, seeds)
        >>> bool((result.losses[-1] < result.losses[0]).all())
        True

    """
    with own_stream(rows.y.device):
        return _train(posterior, rows, likelihood.copy(), schedule, seeds, report, stop)


def _train(
    posterior: WeightPosterior,
    rows: Rows,
    likelihood: Likelihood,
    schedule: Schedule,
    seeds: Sequence[SeedSequence],
    report: Report | None,
    stop: threading.Event | None,
) -> TrainingResult:
    learned, judged = _held_apart(rows._replace(inputs=rows.inputs.for_training()), schedule.held_out, seeds)
    y, n_rows = learned.y, learned.y.shape[1]
    draws = None if learned.inputs.is_exact else ZetaDraws.of(schedule.zeta_draws, schedule.n_zeta, learned.inputs)
    blocks = _Blocks(posterior, learned, draws, schedule.batch_size, seeds)
    noise_streams = Streams.of(seeds, Purpose.Y_NOISE, y.device, y.dtype)
    losses, epoch_loss = y.new_zeros(schedule.epochs, len(y)), y.new_zeros(len(y))
    posterior.begin(Streams.of(seeds, Purpose.BEGIN, y.device, y.dtype))
    step = _step_for(posterior, likelihood, schedule.learning_rate, n_rows)
    step.quadrature = None if draws is None else draws.quadrature(y.dtype, y.device)

    def run_block(tensors: Sequence[Tensor]) -> None:
        for batch in blocks.like.filled(tensors).split(schedule.batch_size, posterior.shares_draws):
            step(batch, epoch_loss)

    replay, looked = Replay(run_block, y.device, schedule.precision), time.perf_counter()
    for epoch in range(1, schedule.epochs + 1):
        epoch_loss.zero_()
        for part, block in enumerate(blocks.epoch()):
            if stop is not None and stop.is_set():
                raise InterruptedError("Training was stopped.")
            step.set_rate(schedule.rate_at((epoch - 1 + part * blocks.size / n_rows) / schedule.epochs))
            replay(block.tensors)
        losses[epoch - 1] = epoch_loss + step.rest_of_loss(learned.y_err)
        update = not likelihood.is_fixed and schedule.renews(epoch)
        look = update or epoch == schedule.epochs or y.device.type == "cpu"
        look = look or time.perf_counter() - looked > _SECONDS_UNSEEN
        if look:
            _stop_if_diverged(losses[:epoch], schedule)
            looked = time.perf_counter()
        if update:
            with matmul_precision(y.device, schedule.precision):
                is_last = schedule.is_last_renewal(epoch)
                likelihood.renew(posterior, learned, judged, draws, noise_streams, is_last)
            state = torch.stack([value.sum() for value in likelihood.state.values()])
            _stop_if_diverged(state.sum().expand(epoch, 1), schedule)
        posterior.observe(epoch, schedule.epochs)
        if report is not None and look:
            report(epoch, losses[epoch - 1], likelihood)
    streams = Streams.of(seeds, Purpose.FINISH, y.device, y.dtype)
    with matmul_precision(y.device, schedule.precision):
        fitted = _finish(posterior, learned, judged, likelihood, draws, streams)
        # The last steps show in no loss: look at what the networks make of some of their rows.
        few = ByError().of_rows(posterior, learned.between(0, _LAST_LOOK)._replace(y_err=None), noise_streams)
    _stop_if_diverged(few.sum().expand(schedule.epochs, 1), schedule)
    return TrainingResult(fitted, losses, likelihood)


def _held_apart(rows: Rows, n_held_out: int, seeds: Sequence[SeedSequence]) -> tuple[Rows, Rows]:
    """The rows to learn from, and those to judge by: the same ones where none are held out."""
    if not n_held_out:
        return rows, rows
    order = Streams.of(seeds, Purpose.HOLD_OUT, rows.y.device, rows.y.dtype).permutations(rows.y.shape[1])
    return rows.take(order[:, n_held_out:]), rows.take(order[:, :n_held_out])


def _finish(
    posterior: WeightPosterior,
    learned: Rows,
    judged: Rows,
    likelihood: Likelihood,
    draws: ZetaDraws | None,
    streams: Streams,
) -> Likelihood:
    """End the training of a posterior, and split the error of held-out rows between noise and weights.

    The residuals of rows that were not learned from hold the error of f, which the epistemic part stands for: with
    sigma_y from the residuals alone it would be counted twice. So that part becomes a known error of theirs. Since it
    depends on sigma_y in turn, and grows with it, log sigma_y goes half the way each of three times.
    """
    posterior.finish(learned, likelihood, draws, streams)
    if not posterior.spreads_by_noise or not likelihood.splits_error or judged is learned:
        return likelihood
    for _ in range(_SPLITS):
        epistemic = _epistemic(posterior, judged.inputs, streams)
        known = epistemic if judged.y_err is None else torch.hypot(epistemic, judged.y_err)
        likelihood = likelihood.split(posterior, learned, judged._replace(y_err=known), draws, streams)
        posterior.finish(learned, likelihood, draws, streams)
    return likelihood


@torch.no_grad()
def _epistemic(posterior: WeightPosterior, inputs: ZetaPosterior, streams: Streams) -> Tensor:
    """The epistemic standard deviation of m(x), nearly, `S x N x n_y`: from 100 shared thetas and 8 zetas per row."""
    n_rows, n_zeta = inputs.mean.shape[1], 1 if inputs.is_exact else _ZETAS
    zeta = inputs.draw(streams.normal(n_rows, n_zeta, inputs.n_base)).flatten(1, 2).unsqueeze(1)
    f = posterior.evaluate(posterior.draw(streams, _THETAS), zeta.expand(-1, _THETAS, -1, -1))
    found: Tensor = f.unflatten(2, (n_rows, n_zeta)).mean(3).std(1)
    return found


class _Blocks:
    """The rows of an epoch in random order, several minibatches at a time, with the random numbers they need."""

    like: Batch  # the latest block

    def __init__(
        self,
        posterior: WeightPosterior,
        rows: Rows,
        draws: ZetaDraws | None,
        batch_size: int,
        seeds: Sequence[SeedSequence],
    ) -> None:
        self.posterior, self.rows, self.draws, y = posterior, rows, draws, rows.y
        self._shuffle, self._zetas, self._weights = (
            Streams.of(seeds, purpose, y.device, y.dtype)
            for purpose in (Purpose.SHUFFLE, Purpose.ZETA, Purpose.WEIGHTS)
        )
        stack = posterior.stack
        values_a_row = (draws.n_zeta * draws.n_base if draws else 0) + stack.width * max(1, len(stack.dropout_layers))
        if posterior.shares_draws:
            values_a_row += sum(value[0].numel() for value in posterior.parameters) // batch_size
        self.batch_size = batch_size
        ahead = max(batch_size, _NOISE_VALUES[y.device.type] // values_a_row)  # the same for every S
        self.n_rows = y.shape[1]
        whole_epochs = ahead // self.n_rows
        self.size = self.n_rows if whole_epochs else ahead // batch_size * batch_size
        self._ahead = whole_epochs * self.n_rows or self.size  # rows whose random numbers are drawn in one go
        self._used = self._ahead
        self._noise = self._shifts = y.new_empty(0)
        self._draws: WeightDraw = {}

    def epoch(self) -> Iterator[Batch]:
        """All rows, a block at a time."""
        for rows in self._shuffle.permutations(self.n_rows).split(self.size, dim=1):
            (taken, y, y_err), fresh = self.rows.take(rows), self._fresh(rows.shape[1])
            with matmul_precision(y.device, "float32"):
                zeta = taken.draw(self._noise[:, fresh]) if self.draws else taken.mean.unsqueeze(2)
            if self.posterior.shares_draws:
                draw = self.posterior.draw(self._weights, -(-rows.shape[1] // self.batch_size))
            else:
                draw = {name: values[:, fresh] for name, values in self._draws.items()}
            levels = None
            if n_kept := self.draws.n_kept if self.draws else 0:
                spaced = torch.arange(n_kept, dtype=y.dtype, device=y.device)
                levels = (spaced + self._shifts[:, fresh]) / n_kept
            self.like = Batch(zeta, y, y_err, levels, draw)
            yield self.like

    def _fresh(self, n_rows: int) -> slice:
        """Where the random numbers for `n_rows` rows stand that have not been used."""
        if self._used + n_rows > self._ahead:
            if self.draws:
                self._noise = self.draws.base(self._zetas, self._ahead)
                if self.draws.n_kept:
                    self._shifts = self._zetas.uniform(self._ahead, 1)
            if not self.posterior.shares_draws:
                self._draws = self.posterior.draw(self._weights, self._ahead)
            self._used = 0
        self._used += n_rows
        return slice(self._used - n_rows, self._used)


def _stop_if_diverged(losses: Tensor, schedule: Schedule) -> None:
    finite = losses.isfinite().all(1)
    if not bool(finite.all()):
        epoch = int(finite.logical_not().nonzero()[0]) + 1
        raise TrainingDivergedError(
            f"Training diverged in epoch {epoch}: the loss is no longer a finite number. "
            f"Lower learning_rate (now {schedule.learning_rate:g}); if that does not help, raise y_noise_init or "
            f"batch_size (now {schedule.batch_size}), or look for outliers."
        )


class _Step:
    """One optimisation step of Algorithm 1, for any weight posterior, by autograd."""

    quadrature: Quadrature | None = None  # of the zetas of a row

    def __init__(self, posterior: WeightPosterior, likelihood: Likelihood, n_rows: int, adam: FlatAdam) -> None:
        self.posterior, self.likelihood, self.n_rows, self.adam = posterior, likelihood, n_rows, adam
        self.adams = [adam]

    def set_rate(self, learning_rate: float) -> None:
        """Change the step size."""
        for adam in self.adams:
            adam.learning_rate = learning_rate

    def __call__(self, batch: Batch, total: Tensor) -> None:
        """Move the weights for a minibatch, and add its share of the epoch's loss to `total`, `S`.

        Where the batch has levels, zetas are chosen by y.
        """
        self.adam.gradient.zero_()
        zeta, y, y_err, levels, draw = batch
        share, kl = y.shape[1] / self.n_rows, self.posterior.kl()
        if levels is not None:
            with torch.no_grad():
                candidates = self.posterior.evaluate(draw, zeta)
                zeta = _taken(zeta, self.likelihood.choose_zetas(candidates, y, y_err, total, share, levels))
            mean = self.likelihood.log_density(self.posterior.evaluate(draw, zeta), y, y_err).mean((1, 2))
            loss(-mean, kl, self.n_rows).sum().backward()
            total.add_((self.likelihood.constant(y_err) + kl / self.n_rows).detach(), alpha=share)
        else:
            f = self.posterior.evaluate(draw, zeta)
            found = loss(-bound(self.likelihood, f, y, y_err, self.quadrature), kl, self.n_rows)  # (mcloss)
            found.sum().backward()
            total.add_(found.detach(), alpha=share)
        self.adam.step()

    def rest_of_loss(self, y_err: Tensor | None) -> Tensor | float:
        """What the steps of an epoch leave out of eq. (mcloss); `y_err` is that of all rows."""
        return 0.0


class _PassStep(_Step):
    """The same for fully connected networks: autograd for the draw and the KL term, but not for layers and loss."""

    posterior: WeightPosterior

    def __init__(
        self, posterior: WeightPosterior, likelihood: Likelihood, n_rows: int, learning_rate: float, stack: MLPStack
    ) -> None:
        decay = (posterior.weight_decay or 0.0) / n_rows
        adam = FlatAdam(list(stack.parameters.values()), learning_rate, decay)
        super().__init__(posterior, likelihood, n_rows, adam)
        if posterior.learned:
            self.adams.append(FlatAdam(list(posterior.learned.values()), learning_rate))
        self.stack = stack
        stack.forget_buffers()

    def __call__(self, batch: Batch, total: Tensor) -> None:
        """Move phi for a minibatch; its loss less what does not depend on the data is added to `total`."""
        zeta, y, y_err, levels, draw = batch
        share = y.shape[1] / self.n_rows
        theta, signed = self.posterior.theta(draw), self.posterior.signed_masks
        points = theta.parameters is self.stack.parameters
        if levels is not None:
            with torch.no_grad():
                candidates = evaluate_by_hand(self.stack, theta, zeta, signed)
                zeta = _taken(zeta, self.likelihood.choose_zetas(candidates, y, y_err, total, share, levels))
        f = evaluate_by_hand(self.stack, theta, zeta, signed, self.adam.gradients if points else None)
        with torch.no_grad():
            if levels is not None:
                df = self.likelihood.chosen_gradient(f.detach(), y, y_err)
            else:
                df = self.likelihood.add_loss_gradient(f.detach(), y, y_err, total, share, self.quadrature)
            for adam in self.adams[1:] if points else self.adams:
                adam.gradient.zero_()
        f.backward(df)
        (self.posterior.kl_beside_decay() / self.n_rows).sum().backward()  # adds to what the data say
        for adam in self.adams:
            adam.step()

    def rest_of_loss(self, y_err: Tensor | None) -> Tensor | float:
        """The constant of the likelihood, and the KL term at the end of the epoch."""
        return self.likelihood.constant(y_err) + self.posterior.kl().detach() / self.n_rows


class _MLPStep(_Step):
    """The same without autograd, for fully connected networks whose KL term is a decay to zero or to anchors."""

    posterior: WeightPosterior

    def __init__(
        self, posterior: WeightPosterior, likelihood: Likelihood, n_rows: int, adam: FlatAdam, stack: MLPStack
    ) -> None:
        super().__init__(posterior, likelihood, n_rows, adam)
        self.stack = stack
        stack.forget_buffers()
        # Rounded products leave the memory as the limit: a large gradient is used, and the weights that it moves are
        # rounded again, while they are in the cache.
        self.piecewise = stack.operands == torch.bfloat16 and adam.values.device.type == "cpu"
        if self.piecewise:
            stack.round_weights()
        rest = [i for i in range(len(adam.gradients)) if i // 2 not in stack.large_layers or i % 2]
        self.rest = [adam.part(i) for i in rest]

    @torch.no_grad()
    def __call__(self, batch: Batch, total: Tensor) -> None:
        """Move the weights for a minibatch; its loss less what does not depend on the data is added to `total`."""
        zeta, y, y_err, levels, draw = batch
        masks, share = self.posterior.theta(draw).masks, y.shape[1] / self.n_rows
        f = self.stack.forward(masks, zeta)
        if levels is not None:
            zeta = _taken(zeta, self.likelihood.choose_zetas(f, y, y_err, total, share, levels))
            df = self.likelihood.chosen_gradient(self.stack.forward(masks, zeta), y, y_err)
        else:
            df = self.likelihood.add_loss_gradient(f, y, y_err, total, share, self.quadrature)
        if not self.piecewise:
            self.stack.backward(df, self.adam.gradients, signed=self.posterior.signed_masks)
            self.adam.step()
            return
        self.adam.begin()
        self.stack.backward(df, self.adam.gradients, self._move, signed=self.posterior.signed_masks)
        for part in self.rest:
            self.adam.move(part, self.adam.gradient[part])

    def _move(self, parameter: int, network: int, gradient: Tensor) -> None:
        self.adam.move(self.adam.part(parameter, network), gradient.flatten())
        self.stack.round_weights(parameter // 2, network)

    def rest_of_loss(self, y_err: Tensor | None) -> Tensor | float:
        """The constant of the likelihood, and the KL term at the end, whose gradient is Adam's weight decay."""
        return self.likelihood.constant(y_err) + self.posterior.kl().detach() / self.n_rows


def _taken(zeta: Tensor, chosen: Tensor) -> Tensor:
    """Zetas `S x B x L x n_x` at the positions `S x B x n_kept`."""
    return torch.take_along_dim(zeta, chosen.unsqueeze(-1), dim=2)


def _step_for(posterior: WeightPosterior, likelihood: Likelihood, learning_rate: float, n_rows: int) -> _Step:
    stack, decay = posterior.stack, posterior.weight_decay
    if not isinstance(stack, MLPStack):
        return _Step(posterior, likelihood, n_rows, FlatAdam(posterior.parameters, learning_rate))
    if decay is None or posterior.learned:
        return _PassStep(posterior, likelihood, n_rows, learning_rate, stack)
    adam = FlatAdam(posterior.parameters, learning_rate, decay / n_rows, posterior.anchors)
    return _MLPStep(posterior, likelihood, n_rows, adam, stack)
