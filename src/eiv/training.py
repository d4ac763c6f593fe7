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
from eiv.inputs.draws import ZetaDraws
from eiv.inputs.zeta import ZetaPosterior, take_rows
from eiv.mlp import MLPStack
from eiv.noise import noise_by_bound, noise_by_error, spread_by_weights, with_known_errors
from eiv.objective import add_loss_gradient, choose_zetas, chosen_gradient, log_likelihood, noise_constant
from eiv.objective import loss as mc_loss
from eiv.optim import FlatAdam
from eiv.passes import evaluate_by_hand
from eiv.posteriors import StackPosterior, WeightDraw, WeightPosterior
from eiv.posteriors.base import shares_draws
from eiv.progress import Report
from eiv.quadrature import Quadrature
from eiv.streams import Purpose, Streams

__all__ = ["Schedule", "TrainingDivergedError", "TrainingResult", "train"]

_NOISE_VALUES = {"cpu": 2**20, "cuda": 2**23}  # random numbers a network that are drawn ahead at a time
_PARTINGS = 3  # of what held-out rows scatter, between the spread of theta and sigma_y
_LEAST_PARTED = 0.5  # of sigma_y, the least that such a parting aims at
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
        n_zeta: L, the zetas drawn for each row; None for as many as `zeta_draws` does with by experience.
        y_noise_init: sigma_y before its first update, in units of the y that is trained on.
        y_noise_every: n, sigma_y is renewed at the end of every n-th epoch; once at the end where there are fewer.
        y_noise_rule: how, one of `eiv.noise.NOISE_RULES`; None leaves it as it is. By the bound it falls by a fifth at
            most at a time, but for the last: f has to follow, or it keeps a shape that it had before it was told apart.
        precision: of matrix products on a GPU: "float32" rules TF32 out.
        zeta_draws: how the zetas of a row are drawn, one of `eiv.inputs.ZETA_DRAWS` or "auto".
        held_out: rows that training leaves out, chosen for each network, to find sigma_y with; 0 for none.

    Examples:
        >>> Schedule(epochs=100, batch_size=16, learning_rate=1e-3, n_zeta=5, y_noise_init=0.1, y_noise_every=40).n_zeta
        5

    """

    epochs: int
    batch_size: int
    learning_rate: float
    n_zeta: int | None
    y_noise_init: float
    y_noise_every: int
    precision: str = "auto"
    y_noise_rule: str | None = "rmse"
    zeta_draws: str = "monte_carlo"
    learning_rate_decay: float = 0.0
    held_out: int = 0

    def rate_at(self, done: float) -> float:
        """The step size where a share `done` of the training lies behind."""
        left = 1 - done
        return self.learning_rate * min(1.0, left / self.learning_rate_decay if self.learning_rate_decay else 1.0)

    def least_share(self, epoch: int) -> float:
        """What is left of sigma_y at least, when it is renewed at the end of an epoch."""
        is_last = epoch + self.y_noise_every > self.epochs
        return 0.0 if is_last or self.y_noise_rule != "likelihood" else 0.8

    def renews_noise(self, epoch: int) -> bool:
        """Whether sigma_y is renewed at the end of an epoch; they count from 1."""
        is_only = epoch == self.epochs < self.y_noise_every
        return self.y_noise_rule is not None and (epoch % self.y_noise_every == 0 or is_only)


@dataclass(frozen=True)
class TrainingResult:
    r"""What Algorithm 1 leaves beside the trained weights.

    .. math:: \sigma_y, \qquad \mathcal{L}^{M.C.}(\phi)

    Attributes:
        y_noise: `S x n_y`, sigma_y of each network and output.
        losses: `epochs x S`, the mean of eq. (mcloss) over each epoch, its KL term as it is at the end.
        y_noise_of_steps: `S x n_y`, sigma_y as the steps left it: before it was parted from the spread of theta.

    Examples:
        >>> noise = torch.ones(1, 1)
        >>> TrainingResult(noise, losses=torch.zeros(3, 1), y_noise_of_steps=noise).losses.shape
        torch.Size([3, 1])

    """

    y_noise: Tensor
    losses: Tensor
    y_noise_of_steps: Tensor


def train(
    posterior: WeightPosterior,
    inputs: ZetaPosterior,
    y: Tensor,
    schedule: Schedule,
    seeds: Sequence[SeedSequence],
    report: Report | None = None,
    stop: threading.Event | None = None,
    y_err: Tensor | None = None,
    y_noise: Tensor | None = None,
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
        report: called at the end of every epoch, on a GPU some times a second.
        stop: training ends with an error soon after this is set.
        y_err: `S x N x n_y`, the known part of the output's noise.
        y_noise: `S x n_y`, sigma_y to begin with, instead of `y_noise_init`.

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
    with own_stream(y.device):
        return _train(posterior, inputs, y, schedule, seeds, report, stop, y_err, y_noise)


def _train(
    posterior: WeightPosterior,
    inputs: ZetaPosterior,
    y: Tensor,
    schedule: Schedule,
    seeds: Sequence[SeedSequence],
    report: Report | None,
    stop: threading.Event | None,
    y_err: Tensor | None,
    y_noise: Tensor | None,
) -> TrainingResult:
    learned, judged = _parted(_Rows(inputs.for_training(), y, y_err), schedule.held_out, seeds)
    inputs, y, y_err = learned
    n_networks, n_rows, n_outputs = y.shape
    draws = None if inputs.is_exact else ZetaDraws.of(schedule.zeta_draws, schedule.n_zeta, inputs)
    labels = y if y_err is None else torch.cat([y, y_err], dim=-1)
    blocks = _Blocks(posterior, inputs, labels, draws, schedule.batch_size, seeds)
    noise_streams = Streams.of(seeds, Purpose.Y_NOISE, y.device, y.dtype)
    y_noise = y.new_full((n_networks, n_outputs), schedule.y_noise_init) if y_noise is None else y_noise
    inverse_noise = 1 / y_noise
    losses, epoch_loss = y.new_zeros(schedule.epochs, n_networks), y.new_zeros(n_networks)
    if isinstance(posterior, StackPosterior):
        posterior.begin(Streams.of(seeds, Purpose.BEGIN, y.device, y.dtype))
    step = _step_for(posterior, schedule.learning_rate, n_rows)
    step.quadrature = None if draws is None else draws.quadrature(y.dtype, y.device)

    sizes = [n_outputs, 0 if y_err is None else n_outputs, draws.n_kept if draws else 0]

    def run_block(values: Sequence[Tensor]) -> None:
        names, size = blocks.draw_names, schedule.batch_size
        rows = [size, size] + [1 if shares_draws(posterior) else size] * len(names)
        parts = [value.split(count, dim=1) for value, count in zip(values, rows, strict=True)]
        for zeta, labels, *weights in zip(*parts, strict=True):
            targets, known, levels = labels.split(sizes, dim=-1)
            inverse = inverse_noise if y_err is None else 1 / with_known_errors(y_noise, known)
            step(
                dict(zip(names, weights, strict=True)), zeta, targets, inverse, epoch_loss, levels if sizes[2] else None
            )

    replay, looked = Replay(run_block, y.device, schedule.precision), time.perf_counter()
    for epoch in range(1, schedule.epochs + 1):
        epoch_loss.zero_()
        for part, (zeta, weights, targets) in enumerate(blocks.epoch()):
            if stop is not None and stop.is_set():
                raise InterruptedError("Training was stopped.")
            step.set_rate(schedule.rate_at((epoch - 1 + part * blocks.size / n_rows) / schedule.epochs))
            replay([zeta, targets, *weights.values()])
        losses[epoch - 1] = epoch_loss + step.rest_of_loss(with_known_errors(y_noise, y_err))
        last = epoch == schedule.epochs
        update = schedule.renews_noise(epoch)
        look = update or last or y.device.type == "cpu" or time.perf_counter() - looked > _SECONDS_UNSEEN
        if look:
            _stop_if_diverged(losses[:epoch], schedule)
            looked = time.perf_counter()
        if update:
            with matmul_precision(y.device, schedule.precision):
                found = _renewed_noise(schedule.y_noise_rule, posterior, learned, judged, y_noise, draws, noise_streams)
            y_noise.copy_(torch.maximum(found, schedule.least_share(epoch) * y_noise))
            inverse_noise.copy_(1 / y_noise)
            _stop_if_diverged(y_noise.sum().expand(epoch, 1), schedule)
        if isinstance(posterior, StackPosterior):
            posterior.observe(epoch, schedule.epochs)
        if report is not None and look:
            report(epoch, losses[epoch - 1], y_noise)
    streams = Streams.of(seeds, Purpose.FINISH, y.device, y.dtype)
    with matmul_precision(y.device, schedule.precision):
        parted = _finish(posterior, learned, judged, y_noise, draws, schedule.y_noise_rule, streams)
        # The last steps show in no loss: look at what the networks make of some of their rows.
        few = noise_by_error(posterior, inputs.rows(0, _LAST_LOOK), y[:, :_LAST_LOOK], noise_streams)
    _stop_if_diverged(few.sum().expand(schedule.epochs, 1), schedule)
    return TrainingResult(parted, losses, y_noise)


class _Rows(NamedTuple):
    """Rows of the training data: inputs, outputs `S x N x n_y`, and what is known of their errors."""

    inputs: ZetaPosterior
    y: Tensor
    y_err: Tensor | None


def _parted(rows: _Rows, n_held_out: int, seeds: Sequence[SeedSequence]) -> tuple[_Rows, _Rows]:
    """The rows to learn from, and those to find sigma_y with: the same ones where none are held out."""
    if not n_held_out:
        return rows, rows
    y = rows.y
    order = Streams.of(seeds, Purpose.HOLD_OUT, y.device, y.dtype).permutations(y.shape[1])

    def taken(some: Tensor) -> _Rows:
        return _Rows(
            rows.inputs.take(some), take_rows(y, some), None if rows.y_err is None else take_rows(rows.y_err, some)
        )

    return taken(order[:, n_held_out:]), taken(order[:, :n_held_out])


def _renewed_noise(
    rule: str | None,
    posterior: WeightPosterior,
    learned: _Rows,
    judged: _Rows,
    y_noise: Tensor,
    draws: ZetaDraws | None,
    streams: Streams,
) -> Tensor:
    """Sigma_y by one of `eiv.noise.NOISE_RULES`: `S x n_y`.

    By the bound it is what the rows say that are learned from, as far as those held out do not disagree, and else what
    those say: half the way between them at two of their standard errors. Otherwise it is what the rows held out say.
    """
    if rule != "likelihood":
        return noise_by_error(posterior, judged.inputs, judged.y, streams, judged.y_err, rule == "residual")
    draws = draws or ZetaDraws.of("monte_carlo", 1, learned.inputs)  # exact inputs have one zeta a row

    def by_bound(rows: _Rows) -> tuple[Tensor, Tensor]:
        return noise_by_bound(posterior, rows.inputs, rows.y, y_noise, draws, streams, rows.y_err)

    found, _ = by_bound(learned)
    if judged is learned:
        return found
    unseen, spread = by_bound(judged)
    return _unless_unseen_disagree(found, unseen, spread)


def _unless_unseen_disagree(found: Tensor, unseen: Tensor, spread: Tensor) -> Tensor:
    """One sigma_y or another, which has `spread` as standard error of its logarithm, by how far they are apart."""
    away = (found / unseen).log()
    return unseen * (away / (1 + (away / (2 * spread)) ** 4)).exp()


def _finish(
    posterior: WeightPosterior,
    learned: _Rows,
    judged: _Rows,
    y_noise: Tensor,
    draws: ZetaDraws | None,
    rule: str | None,
    streams: Streams,
) -> Tensor:
    """End the training of a posterior, and part what held-out rows scatter between its spread and sigma_y, `S x n_y`.

    The residuals of rows that were not learned from hold the error of f, which the spread of theta stands for: with
    sigma_y from the residuals alone it would be counted twice. So that spread becomes a known part of their noise.
    Since it depends on sigma_y in turn, and grows with it, log sigma_y goes half the way each of three times.
    """
    if not isinstance(posterior, StackPosterior):
        return y_noise

    def finish() -> None:
        posterior.finish(learned.inputs, learned.y, with_known_errors(y_noise, learned.y_err), draws, streams)

    finish()
    if not posterior.spreads_by_noise or rule != "likelihood" or judged is learned:
        return y_noise
    for _ in range(_PARTINGS):
        spread = spread_by_weights(posterior, judged.inputs, streams)
        known = spread if judged.y_err is None else torch.hypot(spread, judged.y_err)
        found = _renewed_noise(rule, posterior, learned, judged._replace(y_err=known), y_noise, draws, streams)
        y_noise = (y_noise * torch.maximum(found, _LEAST_PARTED * y_noise)).sqrt()
        finish()
    return y_noise


class _Blocks:
    """The rows of an epoch in random order, several minibatches at a time, with the random numbers they need."""

    def __init__(
        self,
        posterior: WeightPosterior,
        inputs: ZetaPosterior,
        y: Tensor,
        draws: ZetaDraws | None,
        batch_size: int,
        seeds: Sequence[SeedSequence],
    ) -> None:
        self.posterior, self.inputs, self.y, self.draws = posterior, inputs, y, draws
        self._shuffle, self._zetas, self._weights = (
            Streams.of(seeds, purpose, y.device, y.dtype)
            for purpose in (Purpose.SHUFFLE, Purpose.ZETA, Purpose.WEIGHTS)
        )
        stack = posterior.stack
        values_a_row = (draws.n_zeta * draws.n_base if draws else 0) + stack.width * max(1, len(stack.dropout_layers))
        self.shared = shares_draws(posterior)
        if self.shared:
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

    @property
    def draw_names(self) -> list[str]:
        """The names of the tensors behind a weight draw."""
        return list(self._draws)

    def epoch(self) -> Iterator[tuple[Tensor, WeightDraw, Tensor]]:
        """Zetas `S x rows x L x n_x` (L = 1 for exact inputs), weight draws, and labels.

        There is a weight draw a row, or a minibatch where the family shares its draws. Labels are outputs
        `S x rows x n_y`, with the levels of an informed choice of zetas behind them.
        """
        for rows in self._shuffle.permutations(self.n_rows).split(self.size, dim=1):
            taken, fresh = self.inputs.take(rows), self._fresh(rows.shape[1])
            with matmul_precision(self.y.device, "float32"):
                zeta = taken.draw(self._noise[:, fresh]) if self.draws else taken.mean.unsqueeze(2)
            if self.shared:
                self._draws = draw = self.posterior.draw(self._weights, -(-rows.shape[1] // self.batch_size))
            else:
                draw = {name: values[:, fresh] for name, values in self._draws.items()}
            labels = take_rows(self.y, rows)
            n_kept = self.draws.n_kept if self.draws else 0
            if n_kept:
                spaced = torch.arange(n_kept, dtype=labels.dtype, device=labels.device)
                labels = torch.cat([labels, (spaced + self._shifts[:, fresh]) / n_kept], dim=-1)
            yield zeta, draw, labels

    def _fresh(self, n_rows: int) -> slice:
        """Where the random numbers for `n_rows` rows stand that have not been used."""
        if self._used + n_rows > self._ahead:
            if self.draws:
                self._noise = self.draws.base(self._zetas, self._ahead)
                if self.draws.n_kept:
                    self._shifts = self._zetas.uniform(self._ahead, 1)
            if not self.shared:
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
            f"Lower learning_rate (now {schedule.learning_rate:g}); if that does not help, raise y_noise_init "
            f"(now {schedule.y_noise_init:g}) or batch_size (now {schedule.batch_size}), or look for outliers."
        )


class _Step:
    """One optimisation step of Algorithm 1, for any weight posterior, by autograd."""

    quadrature: Quadrature | None = None  # of the zetas of a row

    def __init__(self, posterior: WeightPosterior, n_rows: int, adam: FlatAdam) -> None:
        self.posterior, self.n_rows, self.adam = posterior, n_rows, adam
        self.adams = [adam]

    def set_rate(self, learning_rate: float) -> None:
        """Change the step size."""
        for adam in self.adams:
            adam.learning_rate = learning_rate

    def __call__(
        self,
        draw: WeightDraw,
        zeta: Tensor,
        y: Tensor,
        inverse_noise: Tensor,
        total: Tensor,
        levels: Tensor | None = None,
    ) -> None:
        """Move the weights for a minibatch `S x B x L x n_x`, and add its share of the epoch's loss to `total`, `S`.

        With `levels`, `S x B x n_kept`, zetas are chosen by y.
        """
        self.adam.gradient.zero_()
        share, y_noise, kl = y.shape[1] / self.n_rows, 1 / inverse_noise, self.posterior.kl()
        if levels is not None:
            with torch.no_grad():
                candidates = self.posterior.evaluate(draw, zeta)
                zeta = _taken(zeta, choose_zetas(candidates, y, inverse_noise, total, share, levels))
            likelihood = log_likelihood(self.posterior.evaluate(draw, zeta), y, y_noise).mean((1, 2))
            (kl / self.n_rows - likelihood).sum().backward()
            total.add_((noise_constant(y_noise) + kl / self.n_rows).detach(), alpha=share)
        else:
            f = self.posterior.evaluate(draw, zeta)
            loss = mc_loss(f, y, y_noise, kl, self.n_rows, self.quadrature)  # (mcloss)
            loss.sum().backward()
            total.add_(loss.detach(), alpha=share)
        self.adam.step()

    def rest_of_loss(self, y_noise: Tensor) -> Tensor | float:
        """What the steps of an epoch leave out of eq. (mcloss)."""
        return 0.0


class _PassStep(_Step):
    """The same for fully connected networks: autograd for the draw and the KL term, but not for layers and loss."""

    posterior: StackPosterior

    def __init__(self, posterior: StackPosterior, n_rows: int, learning_rate: float, stack: MLPStack) -> None:
        decay = posterior.weight_decay or 0.0
        super().__init__(posterior, n_rows, FlatAdam(list(stack.parameters.values()), learning_rate, decay / n_rows))
        if posterior.learned:
            self.adams.append(FlatAdam(list(posterior.learned.values()), learning_rate))
        self.stack = stack
        stack.forget_buffers()

    def __call__(
        self,
        draw: WeightDraw,
        zeta: Tensor,
        y: Tensor,
        inverse_noise: Tensor,
        total: Tensor,
        levels: Tensor | None = None,
    ) -> None:
        """Move phi for a minibatch; its loss less what does not depend on the data is added to `total`."""
        share = y.shape[1] / self.n_rows
        theta, signed = self.posterior.theta(draw), self.posterior.signed_masks
        points = theta.parameters is self.stack.parameters
        if levels is not None:
            with torch.no_grad():
                candidates = evaluate_by_hand(self.stack, theta, zeta, signed)
                zeta = _taken(zeta, choose_zetas(candidates, y, inverse_noise, total, share, levels))
        f = evaluate_by_hand(self.stack, theta, zeta, signed, self.adam.gradients if points else None)
        with torch.no_grad():
            if levels is not None:
                df = chosen_gradient(f.detach(), y, inverse_noise)
            else:
                df = add_loss_gradient(f.detach(), y, inverse_noise, total, share, self.quadrature)
            for adam in self.adams[1:] if points else self.adams:
                adam.gradient.zero_()
        f.backward(df)
        (self.posterior.kl_beside_decay() / self.n_rows).sum().backward()  # adds to what the data say
        for adam in self.adams:
            adam.step()

    def rest_of_loss(self, y_noise: Tensor) -> Tensor | float:
        """The constant of sigma_y, and the KL term at the end of the epoch."""
        return noise_constant(y_noise) + self.posterior.kl().detach() / self.n_rows


class _MLPStep(_Step):
    """The same without autograd, for fully connected networks whose KL term is a decay to zero or to anchors."""

    posterior: StackPosterior

    def __init__(self, posterior: StackPosterior, n_rows: int, adam: FlatAdam, stack: MLPStack) -> None:
        super().__init__(posterior, n_rows, adam)
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
    def __call__(
        self,
        draw: WeightDraw,
        zeta: Tensor,
        y: Tensor,
        inverse_noise: Tensor,
        total: Tensor,
        levels: Tensor | None = None,
    ) -> None:
        """Move the weights for a minibatch; its loss less what does not depend on the data is added to `total`."""
        masks, share = self.posterior.theta(draw).masks, y.shape[1] / self.n_rows
        f = self.stack.forward(masks, zeta)
        if levels is not None:
            zeta = _taken(zeta, choose_zetas(f, y, inverse_noise, total, share, levels))
            df = chosen_gradient(self.stack.forward(masks, zeta), y, inverse_noise)
        else:
            df = add_loss_gradient(f, y, inverse_noise, total, share, self.quadrature)
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

    def rest_of_loss(self, y_noise: Tensor) -> Tensor | float:
        """The constant of sigma_y, and the KL term at the end of the epoch, whose gradient is Adam's weight decay."""
        return noise_constant(y_noise) + self.posterior.kl().detach() / self.n_rows


def _taken(zeta: Tensor, chosen: Tensor) -> Tensor:
    """Zetas `S x B x L x n_x` at the positions `S x B x n_kept`."""
    return torch.take_along_dim(zeta, chosen.unsqueeze(-1), dim=2)


def _step_for(posterior: WeightPosterior, learning_rate: float, n_rows: int) -> _Step:
    stack, decay = posterior.stack, posterior.weight_decay
    if not (isinstance(stack, MLPStack) and isinstance(posterior, StackPosterior)):
        return _Step(posterior, n_rows, FlatAdam(posterior.parameters, learning_rate))
    if decay is None or posterior.learned:
        return _PassStep(posterior, n_rows, learning_rate, stack)
    adam = FlatAdam(posterior.parameters, learning_rate, decay / n_rows, posterior.anchors)
    return _MLPStep(posterior, n_rows, adam, stack)
