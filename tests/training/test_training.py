"""Algorithm 1, by a posterior that records what it is shown and by stacks of small networks."""

import threading

import pytest
import torch
from numpy.random import SeedSequence
from torch import nn

from eiv.engine.batch import Batch
from eiv.engine.optim import FlatAdam
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaNormal
from eiv.likelihoods import NOISE_RULES, ByError, NormalLikelihood
from eiv.networks import NetworkStack
from eiv.networks.fast import fast_stack
from eiv.posteriors import BernoulliDropout, PointPosterior
from eiv.training import Schedule, TrainingDivergedError, train
from eiv.training.loop import _epistemic
from smallnets import CPU, small_posterior

SCHEDULE = Schedule(epochs=4, batch_size=16, learning_rate=1e-3, n_zeta=5, renew_every=2)


class RecordingLine(PointPosterior):
    """f = w zeta + noise of a given size from the draw, for S networks; keeps the zetas of each step."""

    def __init__(self, n_networks, scatter=0.0):
        build, seeds = lambda: nn.Linear(1, 1, bias=False), SeedSequence(0).spawn(n_networks)
        super().__init__(NetworkStack(build, 1, 1, seeds, CPU), weight_penalty=1.0)
        self.scatter, self.seen, self.drawn = scatter, [], []

    def draw(self, streams, n_draws):
        return {"shift": streams.normal(n_draws)}

    def evaluate(self, draw, zeta):
        self.seen.append(zeta.detach().clone())
        self.drawn.append(draw["shift"])
        return self.stack({}, zeta) + self.scatter * draw["shift"][:, :, None, None]


def rows(n_networks, n_rows):
    x = torch.arange(n_networks * n_rows, dtype=torch.float32).reshape(n_networks, n_rows, 1) / 100
    return Rows(ZetaNormal(x, torch.zeros(n_networks, 1, 1)), 2 * x + 0.3 * torch.randn(x.shape))


def normal(n_networks, y_noise=0.5, rule="rmse", dtype=torch.float32):
    return NormalLikelihood(torch.full((n_networks, 1), y_noise, dtype=dtype), NOISE_RULES[rule])


def y_noise_of(result):
    return result.likelihood.state["y_noise"]


def test_every_epoch_visits_every_row_of_each_network_once():
    table = rows(3, 40)
    posterior = RecordingLine(3)
    schedule = Schedule(**{**SCHEDULE.__dict__, "renew_every": 100})
    train(posterior, table, normal(3), schedule, SeedSequence(0).spawn(3))
    assert [zeta.shape[1] for zeta in posterior.seen[:12]] == [16, 16, 8] * 4
    orders = [torch.cat(posterior.seen[i : i + 3], dim=1)[:, :, 0] for i in range(0, 12, 3)]
    for order in orders:
        torch.testing.assert_close(order.sort(dim=1).values, table.inputs.mean)
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0][0].argsort(0), orders[0][1].argsort(0))


def test_zetas_scatter_around_x_and_are_fresh_in_every_step():
    x = torch.zeros(1, 4000, 1)
    posterior = RecordingLine(1)
    schedule = Schedule(epochs=2, batch_size=1000, learning_rate=1e-3, n_zeta=5, renew_every=9)
    table = Rows(ZetaNormal(x, torch.full((1, 1, 1), 0.2)), x)
    train(posterior, table, normal(1), schedule, SeedSequence(0).spawn(1))
    assert [tuple(zeta.shape) for zeta in posterior.seen[:8]] == [(1, 1000, 5, 1)] * 8
    zetas = torch.stack(posterior.seen[:8])
    assert abs(zetas.std() - 0.2) < 4 * 0.2 / (2 * zetas.numel()) ** 0.5
    assert len(zetas.unique()) > 0.99 * zetas.numel()


def test_y_noise_is_the_training_rmse_of_each_network():
    table = rows(2, 40)
    posterior = RecordingLine(2)
    result = train(posterior, table, normal(2), SCHEDULE, SeedSequence(0).spawn(2))
    fitted = posterior.stack({}, table.inputs.mean.unsqueeze(2)).squeeze(2)
    rmse = (table.y - fitted).square().mean(1).sqrt()
    torch.testing.assert_close(y_noise_of(result), rmse, rtol=1e-4, atol=1e-5)


def test_y_noise_is_updated_every_nth_epoch_only():
    seen = []

    def report(epoch, loss, likelihood):
        seen.append(likelihood.state["y_noise"].item())

    train(RecordingLine(1), rows(1, 40), normal(1), SCHEDULE, SeedSequence(0).spawn(1), report)
    assert seen[0] == 0.5
    assert seen[1] != 0.5
    assert seen[1] == seen[2]
    assert seen[3] != seen[2]


def test_every_row_and_step_has_a_weight_draw_of_its_own():
    posterior = RecordingLine(3)
    train(posterior, rows(3, 40), normal(3), SCHEDULE, SeedSequence(0).spawn(3))
    drawn = torch.cat([draw for draw in posterior.drawn if draw.shape[1] <= 16], dim=1)
    assert drawn.shape == (3, 4 * 40)
    assert len(drawn.unique()) == drawn.numel()


def test_rows_with_errors_of_their_own_are_drawn_with_them():
    x = torch.arange(40.0).reshape(1, 40, 1)
    std = torch.where(x < 20, 0.0, 0.1)
    posterior = RecordingLine(1)
    train(posterior, Rows(ZetaNormal(x, std), x), normal(1), SCHEDULE, SeedSequence(0).spawn(1))
    zetas = torch.cat([zeta for zeta in posterior.seen if zeta.shape[2] == 5], dim=1)
    moved = (zetas - zetas.round()).abs() > 0
    assert not moved[zetas.round() < 19.5].any()
    assert moved[zetas.round() > 20.5].all()


def test_loss_holds_the_kl_term():
    """Networks that hardly move: with and without penalty the losses differ by KL / N."""
    x = torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(1, 40, 1)
    still = Schedule(epochs=1, batch_size=16, learning_rate=1e-30, n_zeta=5, renew_every=9)
    likelihood = normal(1, dtype=torch.float64)
    losses = []
    for penalty in (0.0, 10.0):
        posterior = small_posterior(1, dtype=torch.float64)
        posterior.weight_penalty = penalty
        table = Rows(ZetaNormal(x, torch.full((1, 1, 1), 0.1, dtype=torch.float64)), x)
        losses.append(train(posterior, table, likelihood, still, SeedSequence(0).spawn(1)).losses[0, 0])
    assert (losses[1] - losses[0]).item() == pytest.approx(posterior.kl().item() / 40)


class Square(RecordingLine):
    """f = zeta squared, so that m(x) = x^2 + x_err^2 differs from f(x)."""

    def evaluate(self, draw, zeta):
        return zeta**2


def test_training_rmse_is_that_of_m_and_not_of_f_at_x():
    x = torch.linspace(-1, 1, 4000).reshape(1, 4000, 1)
    table = Rows(ZetaNormal(x, torch.full((1, 1, 1), 0.5)), x**2 + 0.25)
    error = ByError().of_rows(Square(1), table, Streams(SeedSequence(5).spawn(1), CPU)).square().item()
    # m^ has a variance below v = (4 x^2 0.25 + 2 0.0625) / 10 < 0.12, and (y - m^)^2 - s^2 / 10 one below 3 v^2
    assert abs(error) < 4 * (3 * 0.12**2 / 4000) ** 0.5


def test_y_noise_has_a_floor_where_a_network_interpolates():
    inputs = rows(1, 40).inputs
    posterior = RecordingLine(1)
    y = posterior.stack({}, inputs.mean.unsqueeze(2)).squeeze(2).detach()
    found = ByError().of_rows(posterior, Rows(inputs, y), Streams(SeedSequence(5).spawn(1), CPU))
    assert found.item() == pytest.approx(1e-4 * y.std().item(), rel=1e-3)


def test_y_noise_is_updated_once_at_the_end_of_a_short_training():
    short = Schedule(epochs=3, batch_size=16, learning_rate=1e-3, n_zeta=5, renew_every=40)
    result = train(RecordingLine(1), rows(1, 40), normal(1), short, SeedSequence(0).spawn(1))
    assert y_noise_of(result).item() != 0.5


def test_training_rmse_is_free_of_the_monte_carlo_error_of_m():
    """With draws of scatter 1 around w x, ten draws per row would raise the mean square by 0.1."""
    inputs = rows(1, 4000).inputs
    posterior = RecordingLine(1, scatter=1.0)
    y = posterior.stack({}, inputs.mean.unsqueeze(2)).squeeze(2).detach() + 0.5 * torch.randn(1, 4000, 1)
    seeds = SeedSequence(5).spawn(1)
    squares = ByError().of_rows(posterior, Rows(inputs, y), Streams(seeds, CPU)).square().item()
    # (y - m^)^2 - s^2/10 has variance below 2 (0.25 + 0.1)^2 + 2 * 0.01 / 9 a row
    assert abs(squares - 0.25) < 4 * (0.25 / 4000) ** 0.5


@pytest.mark.parametrize("x_err", [0.0, 0.1])
def test_a_network_trained_alone_ends_as_it_does_in_a_stack(x_err):
    seeds = SeedSequence(0).spawn(3)
    x = torch.linspace(-1, 1, 3 * 50, dtype=torch.float64).reshape(3, 50, 1)
    std = torch.full((3, 1, 1), x_err, dtype=torch.float64)
    together = small_posterior(3, dtype=torch.float64)
    alone = small_posterior(3, dtype=torch.float64).split([1, 1, 1])[2]
    likelihood = normal(3, dtype=torch.float64)
    stacked = train(together, Rows(ZetaNormal(x, std), x**2), likelihood, SCHEDULE, seeds)
    own = Rows(ZetaNormal(x[2:], std[2:]), x[2:] ** 2)
    single = train(alone, own, likelihood.networks(slice(2, 3)), SCHEDULE, seeds[2:])
    for a, b in zip(together.parameters, alone.parameters, strict=True):
        torch.testing.assert_close(a[2:], b)
    torch.testing.assert_close(y_noise_of(stacked)[2:], y_noise_of(single))
    torch.testing.assert_close(stacked.losses[:, 2:], single.losses)


def test_training_that_diverges_says_so_and_what_to_change():
    table = rows(1, 40)
    table.y[0, 3] = float("inf")
    with pytest.raises(TrainingDivergedError, match=r"diverged in epoch 1.*learning_rate \(now 0\.001\)"):
        train(small_posterior(1), table, normal(1), SCHEDULE, SeedSequence(0).spawn(1))


def test_the_step_size_falls_to_zero_at_the_end():
    schedule = Schedule(**{**SCHEDULE.__dict__, "learning_rate_decay": 0.5})
    assert [schedule.rate_at(done) for done in (0.0, 0.5, 0.75, 1.0)] == pytest.approx([1e-3, 1e-3, 0.5e-3, 0.0])
    assert SCHEDULE.rate_at(0.99) == SCHEDULE.learning_rate


def test_a_step_size_of_zero_moves_nothing():
    posterior = small_posterior(1)
    adam = FlatAdam(posterior.parameters, learning_rate=0.1)
    before = adam.values.clone()
    adam.gradient.fill_(1.0)
    adam.learning_rate = 0.0
    adam.step()
    assert torch.equal(adam.values, before)


def test_informed_zetas_train_alike_with_and_without_autograd():
    """The fast path and autograd make the same choice and the same step."""
    results = []
    for fast in (True, False):
        posterior = small_posterior(2, dtype=torch.float64)
        if fast:
            posterior = BernoulliDropout(fast_stack(posterior.stack), posterior.weight_penalty)
        x = torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(1, 40, 1).expand(2, 40, 1)
        schedule = Schedule(
            epochs=3, batch_size=16, learning_rate=1e-2, n_zeta=16, renew_every=9, zeta_draws="informed"
        )
        table = Rows(ZetaNormal(x, torch.full((1, 1, 1), 0.2, dtype=torch.float64)), 2 * x)
        result = train(posterior, table, normal(2, 0.3, dtype=torch.float64), schedule, SeedSequence(0).spawn(2))
        results.append((torch.cat([p.detach().flatten() for p in posterior.parameters]), result.losses))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=0.05, atol=0.01)  # the KL term as it is at the end


@pytest.mark.parametrize("rule", NOISE_RULES)
def test_the_likelihood_given_stays_as_it_is(rule):
    likelihood = normal(2, rule=rule)
    given, value = likelihood.y_noise, likelihood.y_noise.clone()
    result = train(small_posterior(2), rows(2, 40), likelihood, SCHEDULE, SeedSequence(0).spawn(2))
    assert likelihood.y_noise is given
    assert torch.equal(given, value)
    score = likelihood.score(torch.zeros(2, 1, 1, 1), torch.ones(2, 1, 1))
    torch.testing.assert_close(score, torch.full((2, 1, 1, 1), 4.0))
    assert result.likelihood is not likelihood
    assert (y_noise_of(result) != 0.5).all()


def test_a_known_sigma_y_is_never_renewed():
    likelihood = NormalLikelihood(torch.tensor([[0.5], [0.7]]))
    seen = []

    def report(epoch, loss, likelihood):
        seen.append(likelihood.state["y_noise"].tolist())

    result = train(small_posterior(2), rows(2, 40), likelihood, SCHEDULE, SeedSequence(0).spawn(2), report)
    assert seen == [likelihood.y_noise.tolist()] * 4
    assert torch.equal(y_noise_of(result), likelihood.y_noise)


def test_known_errors_of_y_enter_the_steps_as_noise():
    """sigma_y = 3 and errors of 4 are as a sigma_y of 5, on every path."""
    x = torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(1, 40, 1).expand(2, 40, 1)
    inputs = ZetaNormal(x, torch.full((1, 1, 1), 0.2, dtype=torch.float64))
    for fast in (False, True):
        for kind in ("monte_carlo", "informed", "interpolated"):
            ends = []
            for noise, y_err in ((3.0, torch.full_like(x, 4.0)), (5.0, None)):
                stack = small_posterior(2, dtype=torch.float64).stack
                posterior = BernoulliDropout(fast_stack(stack) if fast else stack, 1.0)
                schedule = Schedule(**{**SCHEDULE.__dict__, "zeta_draws": kind, "n_zeta": 8})
                likelihood = NormalLikelihood(torch.full((2, 1), noise, dtype=torch.float64))
                result = train(posterior, Rows(inputs, 2 * x, y_err), likelihood, schedule, SeedSequence(0).spawn(2))
                ends.append([*posterior.parameters, result.losses])
            for a, b in zip(*ends, strict=True):
                torch.testing.assert_close(a, b)


def test_rows_held_out_are_not_learned_from():
    posterior, table = RecordingLine(2), rows(2, 40)
    schedule = Schedule(**{**SCHEDULE.__dict__, "held_out": 10, "renew_every": 100})
    train(posterior, table, normal(2), schedule, SeedSequence(0).spawn(2))
    assert [zeta.shape[1] for zeta in posterior.seen[:8]] == [16, 14] * 4
    epochs = [torch.cat(posterior.seen[i : i + 2], dim=1)[:, :, 0].sort(dim=1).values for i in range(0, 8, 2)]
    for epoch in epochs[1:]:
        assert torch.equal(epoch, epochs[0])  # the same ones in every epoch
    assert not torch.equal(epochs[0][0] + 0.4, epochs[0][1])  # a choice of its own for each network


@pytest.mark.parametrize("x_err", [0.0, 0.3])
def test_the_epistemic_part_leaves_the_scatter_over_zeta_out(x_err):
    inputs = ZetaNormal(torch.zeros(2, 5, 1), torch.full((1, 1, 1), x_err))
    found = _epistemic(RecordingLine(2, scatter=0.7), inputs, Streams(SeedSequence(0).spawn(2), CPU))
    assert found.shape == (2, 5, 1)
    torch.testing.assert_close(found, torch.full_like(found, 0.7), rtol=4 * (1 / 198) ** 0.5, atol=0)


def test_training_stops_when_asked_to():
    stop = threading.Event()

    def report(epoch, loss, likelihood):
        assert epoch == 1
        stop.set()

    with pytest.raises(InterruptedError, match="stopped"):
        train(small_posterior(1), rows(1, 40), normal(1), SCHEDULE, SeedSequence(0).spawn(1), report, stop)


@pytest.mark.parametrize("shares_draws", [False, True])
@pytest.mark.parametrize("n_draw_tensors", [0, 2])
@pytest.mark.parametrize("n_kept", [0, 4])
@pytest.mark.parametrize("with_errors", [False, True])
def test_a_batch_is_split_into_minibatches_and_filled_again(with_errors, n_kept, n_draw_tensors, shares_draws, dtype):
    """Forty rows in minibatches of 16: sixteen, sixteen and eight."""
    y = torch.randn(2, 40, 3, dtype=dtype)
    batch = Batch(
        zeta=torch.randn(2, 40, 5, 1, dtype=dtype),
        y=y,
        y_err=torch.rand_like(y) if with_errors else None,
        levels=torch.rand(2, 40, n_kept, dtype=dtype) if n_kept else None,
        draw={f"mask {i}": torch.randn(2, 3 if shares_draws else 40, 7 + i) for i in range(n_draw_tensors)},
    )
    assert len(batch.tensors) == 2 + with_errors + bool(n_kept) + n_draw_tensors
    parts = list(batch.split(16, shares_draws))
    assert [part.y.shape[1] for part in parts] == [16, 16, 8]
    for part in parts:
        assert (part.y_err is None, part.levels is None) == (not with_errors, not n_kept)
        assert list(part.draw) == list(batch.draw)
        assert all(len(value[0]) == (1 if shares_draws else part.y.shape[1]) for value in part.draw.values())
    again = batch.filled([torch.cat(values, dim=1) for values in zip(*(part.tensors for part in parts), strict=True)])
    for name in ("zeta", "y", "y_err", "levels"):
        found, wanted = getattr(again, name), getattr(batch, name)
        assert found is wanted is None or torch.equal(found, wanted)
    for name, value in batch.draw.items():
        assert torch.equal(again.draw[name], value)
