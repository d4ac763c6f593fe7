"""Algorithm 1: training S networks at once, each on rows of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from numpy.random import SeedSequence
from torch import Tensor

from eiv.engine.graphs import Replay, matmul_precision, own_stream
from eiv.engine.optim import FlatAdam
from eiv.engine.streams import Purpose, Streams
from eiv.inputs import Rows, ZetaDraws, ZetaPosterior
from eiv.likelihoods import Likelihood
from eiv.posteriors import WeightPosterior
from eiv.training.blocks import Blocks
from eiv.training.checkpoints import Checkpoint, Course
from eiv.training.moved import MovedZetaStep
from eiv.training.progress import Report
from eiv.training.steps import Counts, Step, step_for

__all__ = ["Schedule", "TrainingDivergedError", "TrainingResult", "train"]

_SPLITS = 3  # of the error of held-out rows, between noise and weights
_THETAS, _ZETAS = 100, 8  # behind the epistemic variance of held-out rows
_LAST_LOOK, _LOOKS = 64, 10  # rows that trained networks are tried on, and draws of (theta, zeta) for each
_SECONDS_UNSEEN = 0.3  # a look at the loss makes the host wait for a GPU


class TrainingDivergedError(ArithmeticError):
    """The loss of a network is no longer a finite number, so its weights are of no use.

    Examples:
        >>> raise TrainingDivergedError("Training diverged in epoch 3.")
        Traceback (most recent call last):
        ...
        eiv.training.loop.TrainingDivergedError: Training diverged in epoch 3.

    """


@dataclass(frozen=True)
class Schedule:
    """The settings of Algorithm 1; all are single numbers, the same for every network.

    Attributes:
        epochs: n_train.
        batch_size: M, the rows of a minibatch; the last one of an epoch may be smaller.
        learning_rate: Adam's step size at the start.
        learning_rate_decay: the share of the training, at its end, over which that falls linearly to zero.
        n_zeta: L, the zetas drawn for each row; None: the number that suits `zeta_draws`.
        renew_every: n, the likelihood is renewed at the end of every n-th epoch; once at the end where there are fewer.
        precision: of matrix products on a GPU: "float32" rules TF32 out.
        zeta_draws: how the zetas of a row are drawn, one of `eiv.inputs.ZETA_DRAWS`, `MOVED_ZETAS` or "auto".
        held_out: rows that training leaves out, chosen for each network, to find sigma_y with; 0 for none.
        n_visits: of rows with weights in an epoch, as many as these rows count for; None where each row counts once.

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
    n_visits: int | None = None

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
    """What Algorithm 1 leaves beside the trained weights.

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


def train(
    posterior: WeightPosterior,
    rows: Rows,
    likelihood: Likelihood,
    schedule: Schedule,
    seeds: Sequence[SeedSequence],
    report: Report | None = None,
    stop: threading.Event | None = None,
    checkpoint: Checkpoint | None = None,
) -> TrainingResult:
    r"""Algorithm 1: lower eq. (mcloss) by Adam, in place, for all S networks at once.

    .. math:: \phi \leftarrow \mathrm{Adam}\big(\nabla_\phi \mathcal{L}^{M.C.}(\phi)\big), \qquad
              \sigma_y \leftarrow \mathrm{RMSE}(y, m(x)) \ \text{every } n \text{ epochs}

    Every network visits each of its own rows once an epoch, in an order of its own; rows with weights in proportion to
    these.

    Args:
        posterior: q_phi of S networks; its parameters are moved.
        rows: the N training rows of each network.
        likelihood: p(y | f), where training begins; it stays as it is.
        schedule: epochs, batch size and the like.
        seeds: one per network; a network's course depends on its own seed alone.
        report: called at the end of every epoch, on a GPU a few times per second.
        stop: training ends with an error soon after this is set.
        checkpoint: where the state is kept from time to time, and taken from if there is one.

    Returns:
        The fitted likelihood and the course of the loss.

    Raises:
        TrainingDivergedError: when the loss of a network is not finite.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.likelihoods import NOISE_RULES, NormalLikelihood
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(2)
        >>> x = torch.linspace(-1, 1, 50).reshape(1, 50, 1).expand(2, 50, 1)
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, x.device)
        >>> schedule = Schedule(epochs=20, batch_size=16, learning_rate=1e-2, n_zeta=5, renew_every=5)
        >>> rows = Rows(ZetaNormal(x, torch.full((1, 1, 1), 0.1)), 2 * x)
        >>> likelihood = NormalLikelihood(torch.full((2, 1), 0.5), NOISE_RULES["rmse"])
        >>> result = train(BernoulliDropout(stack, 1.0), rows, likelihood, schedule, seeds)
        >>> bool((result.losses[-1] < result.losses[0]).all())
        True

    """
    with own_stream(rows.y.device):
        return _train(posterior, rows, likelihood.copy(), schedule, seeds, report, stop, checkpoint)


def _train(
    posterior: WeightPosterior,
    rows: Rows,
    likelihood: Likelihood,
    schedule: Schedule,
    seeds: Sequence[SeedSequence],
    report: Report | None,
    stop: threading.Event | None,
    checkpoint: Checkpoint | None,
) -> TrainingResult:
    learned, judged = _held_apart(rows._replace(inputs=rows.inputs.for_training()), schedule.held_out, seeds)
    y = learned.y
    draws = None if learned.inputs.is_exact else ZetaDraws.of(schedule.zeta_draws, schedule.n_zeta, learned.inputs)
    blocks = Blocks(posterior, learned, draws, schedule.batch_size, seeds, schedule.n_visits)
    integrals = None if draws is None else draws.to_integrate(learned.inputs)
    noise_streams = Streams.of(seeds, Purpose.Y_NOISE, y.device, y.dtype)
    losses, epoch_loss = y.new_zeros(schedule.epochs, len(y)), y.new_zeros(len(y))
    posterior.begin(Streams.of(seeds, Purpose.BEGIN, y.device, y.dtype))
    counts = Counts(blocks.n_visits, learned.size)
    step = _step(posterior, likelihood, schedule.learning_rate, counts, draws)

    def run_block(tensors: Sequence[Tensor]) -> None:
        for batch in blocks.like.filled(tensors).split(schedule.batch_size, posterior.shares_draws):
            step(batch, epoch_loss)

    replay, looked = Replay(run_block, y.device, schedule.precision), time.perf_counter()
    course = Course(step, likelihood, blocks, noise_streams, losses, epoch_loss)
    kept = None if checkpoint is None else checkpoint.load()
    begun, done = (1, 0) if kept is None else course.restore(kept)
    for epoch in range(begun, schedule.epochs + 1):
        if not done:
            epoch_loss.zero_()
        for part, block in enumerate(blocks.epoch(done), done):
            if stop is not None and stop.is_set():
                raise InterruptedError("Training was stopped.")
            step.set_rate(schedule.rate_at((epoch - 1 + part * blocks.size / blocks.n_visits) / schedule.epochs))
            replay(block.tensors)
            if checkpoint is not None and checkpoint.is_due:
                checkpoint.save(course.state(epoch, part + 1))
        done = 0
        losses[epoch - 1] = epoch_loss + step.rest_of_loss(blocks.y_err)
        update = not likelihood.is_fixed and schedule.renews(epoch)
        look = update or epoch == schedule.epochs or y.device.type == "cpu"
        look = look or time.perf_counter() - looked > _SECONDS_UNSEEN
        if look:
            _stop_if_diverged(losses[:epoch], schedule)
            looked = time.perf_counter()
        if update:
            with matmul_precision(y.device, schedule.precision):
                is_last = schedule.is_last_renewal(epoch)
                likelihood.renew(posterior, learned, judged, integrals, noise_streams, is_last)
            state = torch.stack([value.sum() for value in likelihood.state.values()])
            _stop_if_diverged(state.sum().expand(epoch, 1), schedule)
        posterior.observe(epoch, schedule.epochs)
        likelihood.observe(epoch / schedule.epochs)
        if report is not None and look:
            report(epoch, losses[epoch - 1], likelihood)
    fitted = _ended(posterior, learned, judged, likelihood, integrals, seeds, noise_streams, schedule)
    return TrainingResult(fitted, losses, likelihood)


def _step(
    posterior: WeightPosterior, likelihood: Likelihood, learning_rate: float, counts: Counts, draws: ZetaDraws | None
) -> Step:
    """The step that goes with the way to draw zetas; None where inputs are exact."""
    if draws is not None and draws.moves_zeta:
        adam = FlatAdam(posterior.parameters, learning_rate)
        return MovedZetaStep(posterior, likelihood, counts, adam, with_determinant=draws.kind == "laplace")
    step, like = step_for(posterior, likelihood, learning_rate, counts), posterior.parameters[0]
    step.quadrature = None if draws is None else draws.quadrature(like.dtype, like.device)
    return step


def _held_apart(rows: Rows, n_held_out: int, seeds: Sequence[SeedSequence]) -> tuple[Rows, Rows]:
    """The rows to learn from, and those to judge by: the same ones where none are held out."""
    if not n_held_out:
        return rows, rows
    order = Streams.of(seeds, Purpose.HOLD_OUT, rows.y.device, rows.y.dtype).permutations(rows.y.shape[1])
    return rows.kept(order[:, n_held_out:]), rows.take(order[:, :n_held_out])


def _ended(
    posterior: WeightPosterior,
    learned: Rows,
    judged: Rows,
    likelihood: Likelihood,
    draws: ZetaDraws | None,
    seeds: Sequence[SeedSequence],
    noise_streams: Streams,
    schedule: Schedule,
) -> Likelihood:
    """End the training of a posterior; the likelihood that goes with it."""
    streams = Streams.of(seeds, Purpose.FINISH, learned.y.device, learned.y.dtype)
    with matmul_precision(learned.y.device, schedule.precision):
        fitted = _finish(posterior, learned, judged, likelihood, draws, streams)
        fitted = fitted.finished(posterior, learned, draws, streams)
        # The last steps show in no loss: look at what the networks make of some of their rows.
        few = _squared_outputs(posterior, learned.inputs.rows(0, _LAST_LOOK), noise_streams)
    _stop_if_diverged(few.sum().expand(schedule.epochs, 1), schedule)
    return fitted


def _finish(
    posterior: WeightPosterior,
    learned: Rows,
    judged: Rows,
    likelihood: Likelihood,
    draws: ZetaDraws | None,
    streams: Streams,
) -> Likelihood:
    """Finish a posterior, and split the error of held-out rows between noise and weights.

    The residuals of rows that were not learned from hold the error of f, which the epistemic variance covers: with
    sigma_y from the residuals alone it would be counted twice. So the likelihood is found again given it. Since
    it depends on sigma_y in turn, and grows with it, this is done three times, each time half the way.
    """
    posterior.finish(learned, likelihood, draws, streams)
    if not posterior.depends_on_noise or not likelihood.splits_error or judged is learned:
        return likelihood
    for _ in range(_SPLITS):
        epistemic = _epistemic(posterior, judged.inputs, streams)[..., likelihood.f_outputs(judged.y.shape[-1])]
        likelihood = likelihood.split(posterior, learned, judged, epistemic, draws, streams)
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


@torch.no_grad()
def _squared_outputs(posterior: WeightPosterior, inputs: ZetaPosterior, streams: Streams) -> Tensor:
    """The squares of f for some draws of theta and zeta per row, `S x N x K x n_y`; an overflow is of no use either."""
    zeta = inputs.draw(streams.normal(inputs.mean.shape[1], _LOOKS, inputs.n_base)).unsqueeze(3)
    return posterior.evaluate_rows(streams, zeta, theta_axis=2).squeeze(3).square()


def _stop_if_diverged(losses: Tensor, schedule: Schedule) -> None:
    finite = losses.isfinite().all(1)
    if not bool(finite.all()):
        epoch = int(finite.logical_not().nonzero()[0]) + 1
        raise TrainingDivergedError(
            f"Training diverged in epoch {epoch}: the loss is no longer a finite number. "
            f"Lower learning_rate (now {schedule.learning_rate:g}); if that does not help, raise y_noise_init or "
            f"batch_size (now {schedule.batch_size}), or look for outliers."
        )
