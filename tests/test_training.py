"""Algorithm 1, by a posterior that records what it is shown and by stacks of small networks."""

import pytest
import torch
from eiv.noise import noise_by_error
from numpy.random import SeedSequence
from torch import nn

from conftest import CPU, small_posterior
from eiv.inputs import ZetaPosterior
from eiv.mlp import fast_stack
from eiv.networks import NetworkStack
from eiv.optim import FlatAdam
from eiv.posteriors import BernoulliDropout
from eiv.streams import Streams
from eiv.training import Schedule, TrainingDivergedError, train

SCHEDULE = Schedule(epochs=4, batch_size=16, learning_rate=1e-3, n_zeta=5, y_noise_init=0.5, y_noise_every=2)


class RecordingLine:
    """f = w zeta + noise of a given size from the draw, for S networks; keeps the zetas of each step."""

    def __init__(self, n_networks, spread=0.0):
        self.stack = NetworkStack(lambda: nn.Linear(1, 1, bias=False), 1, 1, SeedSequence(0).spawn(n_networks), CPU)
        self.spread, self.seen, self.drawn, self.weight_decay = spread, [], [], None

    @property
    def parameters(self):
        return list(self.stack.parameters.values())

    def draw(self, streams, n_draws):
        return {"shift": streams.normal(n_draws)}

    def evaluate(self, draw, zeta):
        self.seen.append(zeta.detach().clone())
        self.drawn.append(draw["shift"])
        return self.stack({}, zeta) + self.spread * draw["shift"][:, :, None, None]

    def kl(self):
        return self.parameters[0].square().flatten(1).sum(1)


def rows(n_networks, n_rows):
    x = torch.arange(n_networks * n_rows, dtype=torch.float32).reshape(n_networks, n_rows, 1) / 100
    return ZetaPosterior(x, torch.zeros(n_networks, 1, 1)), 2 * x + 0.3 * torch.randn(x.shape)


def test_every_epoch_visits_every_row_of_each_network_once():
    inputs, y = rows(3, 40)
    posterior = RecordingLine(3)
    schedule = Schedule(**{**SCHEDULE.__dict__, "y_noise_every": 100})
    train(posterior, inputs, y, schedule, SeedSequence(0).spawn(3))
    assert [zeta.shape[1] for zeta in posterior.seen[:12]] == [16, 16, 8] * 4
    orders = [torch.cat(posterior.seen[i : i + 3], dim=1)[:, :, 0] for i in range(0, 12, 3)]
    for order in orders:
        torch.testing.assert_close(order.sort(dim=1).values, inputs.mean)
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0][0].argsort(0), orders[0][1].argsort(0))


def test_zetas_scatter_around_x_and_are_fresh_in_every_step():
    x = torch.zeros(1, 4000, 1)
    posterior = RecordingLine(1)
    schedule = Schedule(epochs=2, batch_size=1000, learning_rate=1e-3, n_zeta=5, y_noise_init=0.5, y_noise_every=9)
    train(posterior, ZetaPosterior(x, torch.full((1, 1, 1), 0.2)), x, schedule, SeedSequence(0).spawn(1))
    assert [tuple(zeta.shape) for zeta in posterior.seen[:8]] == [(1, 1000, 5, 1)] * 8
    zetas = torch.stack(posterior.seen[:8])
    assert abs(zetas.std() - 0.2) < 4 * 0.2 / (2 * zetas.numel()) ** 0.5
    assert len(zetas.unique()) > 0.99 * zetas.numel()


def test_y_noise_is_the_training_rmse_of_each_network():
    inputs, y = rows(2, 40)
    posterior = RecordingLine(2)
    result = train(posterior, inputs, y, SCHEDULE, SeedSequence(0).spawn(2))
    fitted = posterior.stack({}, inputs.mean.unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(result.y_noise, (y - fitted).square().mean(1).sqrt(), rtol=1e-4, atol=1e-5)


def test_y_noise_is_updated_every_nth_epoch_only():
    inputs, y = rows(1, 40)
    seen = []
    train(
        RecordingLine(1),
        inputs,
        y,
        SCHEDULE,
        SeedSequence(0).spawn(1),
        lambda e, loss, noise: seen.append(noise.item()),
    )
    assert seen[0] == 0.5
    assert seen[1] != 0.5
    assert seen[1] == seen[2]
    assert seen[3] != seen[2]


def test_every_row_and_step_has_a_weight_draw_of_its_own():
    inputs, y = rows(3, 40)
    posterior = RecordingLine(3)
    train(posterior, inputs, y, SCHEDULE, SeedSequence(0).spawn(3))
    drawn = torch.cat([draw for draw in posterior.drawn if draw.shape[1] <= 16], dim=1)
    assert drawn.shape == (3, 4 * 40)
    assert len(drawn.unique()) == drawn.numel()


def test_rows_with_errors_of_their_own_are_drawn_with_them():
    x = torch.arange(40.0).reshape(1, 40, 1)
    std = torch.where(x < 20, 0.0, 0.1)
    posterior = RecordingLine(1)
    train(posterior, ZetaPosterior(x, std), x, SCHEDULE, SeedSequence(0).spawn(1))
    zetas = torch.cat([zeta for zeta in posterior.seen if zeta.shape[2] == 5], dim=1)
    moved = (zetas - zetas.round()).abs() > 0
    assert not moved[zetas.round() < 19.5].any()
    assert moved[zetas.round() > 20.5].all()


def test_loss_holds_the_kl_term():
    """Networks that hardly move: with and without penalty the losses differ by KL / N."""
    x = torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(1, 40, 1)
    still = Schedule(epochs=1, batch_size=16, learning_rate=1e-30, n_zeta=5, y_noise_init=0.5, y_noise_every=9)
    losses = []
    for penalty in (0.0, 10.0):
        posterior = small_posterior(1, dtype=torch.float64)
        posterior.weight_penalty = penalty
        inputs = ZetaPosterior(x, torch.full((1, 1, 1), 0.1, dtype=torch.float64))
        losses.append(train(posterior, inputs, x, still, SeedSequence(0).spawn(1)).losses[0, 0])
    assert (losses[1] - losses[0]).item() == pytest.approx(posterior.kl().item() / 40)


class Square(RecordingLine):
    """f = zeta squared, so that m(x) = x^2 + x_err^2 differs from f(x)."""

    def evaluate(self, draw, zeta):
        return zeta**2


def test_training_rmse_is_that_of_m_and_not_of_f_at_x():
    x = torch.linspace(-1, 1, 4000).reshape(1, 4000, 1)
    inputs = ZetaPosterior(x, torch.full((1, 1, 1), 0.5))
    y = x**2 + 0.25
    error = noise_by_error(Square(1), inputs, y, Streams(SeedSequence(5).spawn(1), CPU)).square().item()
    # m^ has a variance below v = (4 x^2 0.25 + 2 0.0625) / 10 < 0.12, and (y - m^)^2 - s^2 / 10 one below 3 v^2
    assert abs(error) < 4 * (3 * 0.12**2 / 4000) ** 0.5


def test_y_noise_has_a_floor_where_a_network_interpolates():
    inputs, _ = rows(1, 40)
    posterior = RecordingLine(1)
    y = posterior.stack({}, inputs.mean.unsqueeze(2)).squeeze(2).detach()
    found = noise_by_error(posterior, inputs, y, Streams(SeedSequence(5).spawn(1), CPU))
    assert found.item() == pytest.approx(1e-4 * y.std().item(), rel=1e-3)


def test_y_noise_is_updated_once_at_the_end_of_a_short_training():
    inputs, y = rows(1, 40)
    short = Schedule(epochs=3, batch_size=16, learning_rate=1e-3, n_zeta=5, y_noise_init=0.5, y_noise_every=40)
    assert train(RecordingLine(1), inputs, y, short, SeedSequence(0).spawn(1)).y_noise.item() != 0.5


def test_training_rmse_is_free_of_the_monte_carlo_error_of_m():
    """With draws of spread 1 around w x, ten draws a row would raise the mean square by 0.1."""
    inputs, _ = rows(1, 4000)
    posterior = RecordingLine(1, spread=1.0)
    y = posterior.stack({}, inputs.mean.unsqueeze(2)).squeeze(2).detach() + 0.5 * torch.randn(1, 4000, 1)
    seeds = SeedSequence(5).spawn(1)
    squares = noise_by_error(posterior, inputs, y, Streams(seeds, CPU)).square().item()
    # (y - m^)^2 - s^2/10 has variance below 2 (0.25 + 0.1)^2 + 2 * 0.01 / 9 a row
    assert abs(squares - 0.25) < 4 * (0.25 / 4000) ** 0.5


@pytest.mark.parametrize("x_err", [0.0, 0.1])
def test_a_network_trained_alone_ends_as_it_does_in_a_stack(x_err):
    seeds = SeedSequence(0).spawn(3)
    x = torch.linspace(-1, 1, 3 * 50, dtype=torch.float64).reshape(3, 50, 1)
    std = torch.full((3, 1, 1), x_err, dtype=torch.float64)
    together = small_posterior(3, dtype=torch.float64)
    alone = small_posterior(3, dtype=torch.float64).split([1, 1, 1])[2]
    stacked = train(together, ZetaPosterior(x, std), x**2, SCHEDULE, seeds)
    single = train(alone, ZetaPosterior(x[2:], std[2:]), x[2:] ** 2, SCHEDULE, seeds[2:])
    for a, b in zip(together.parameters, alone.parameters, strict=True):
        torch.testing.assert_close(a[2:], b)
    torch.testing.assert_close(stacked.y_noise[2:], single.y_noise)
    torch.testing.assert_close(stacked.losses[:, 2:], single.losses)


def test_training_that_diverges_says_so_and_what_to_change():
    inputs, y = rows(1, 40)
    y[0, 3] = float("inf")
    with pytest.raises(TrainingDivergedError, match=r"diverged in epoch 1.*learning_rate \(now 0\.001\)"):
        train(small_posterior(1), inputs, y, SCHEDULE, SeedSequence(0).spawn(1))


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
            epochs=3, batch_size=16, learning_rate=1e-2, n_zeta=16, y_noise_init=0.3, y_noise_every=9,
            zeta_draws="informed",
        )  # fmt: skip
        inputs = ZetaPosterior(x, torch.full((1, 1, 1), 0.2, dtype=torch.float64))
        result = train(posterior, inputs, 2 * x, schedule, SeedSequence(0).spawn(2))
        results.append((torch.cat([p.detach().flatten() for p in posterior.parameters]), result.losses))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=0.05, atol=0.01)  # the KL term as it is at the end
