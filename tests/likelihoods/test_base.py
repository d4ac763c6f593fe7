"""What every likelihood has: what is derived from its density, against autograd and against what is written by hand."""

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from numpy.random import SeedSequence
from student_t import StudentT
from torch import nn
from torch.distributions import StudentT as TorchStudentT

from eiv import EiVRegressor
from eiv.engine.quadrature import Quadrature
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws, ZetaNormal
from eiv.likelihoods import Likelihood, NormalLikelihood, StudentTLikelihood
from eiv.networks import NetworkStack
from eiv.networks.fast import fast_stack
from eiv.posteriors import BernoulliDropout, LastLayerLaplace, MeanField, PointPosterior
from eiv.training import Schedule, TrainingDivergedError, train
from eiv.training.diagnostics import zeta_diagnostics
from eiv.training.objective import bound
from smallnets import CPU, small_posterior

S, N_ROWS, N_ZETA, N_OUTPUTS = 2, 6, 8, 3
F64 = torch.float64


class Tailed(StudentTLikelihood):
    """Ours with heavy tails, for some nu."""

    def __init__(self, scale, nu=None, rule=None, correlation=None):
        super().__init__(scale, torch.full_like(scale, 4.5) if nu is None else nu, rule, correlation)


cheap = pytest.mark.parametrize("make", [StudentT, NormalLikelihood])  # for many labels
both = pytest.mark.parametrize("make", [StudentT, NormalLikelihood, Tailed])
with_and_without_errors = pytest.mark.parametrize("known", [False, True], ids=["", "y_err"])


def numbers(dtype, known=False, seed=0):
    """The state of a likelihood, f, y and known errors."""
    random = torch.Generator().manual_seed(seed)
    state = torch.rand(S, N_OUTPUTS, generator=random, dtype=F64) + 0.4
    f = torch.randn(S, N_ROWS, N_ZETA, N_OUTPUTS, generator=random, dtype=F64)
    y = torch.randn(S, N_ROWS, N_OUTPUTS, generator=random, dtype=F64)
    y_err = torch.rand(S, N_ROWS, N_OUTPUTS, generator=random, dtype=F64) if known else None
    return tuple(None if value is None else value.to(dtype) for value in (state, f, y, y_err))


def streams(seed=0, dtype=F64):
    return Streams(SeedSequence(seed).spawn(S), CPU, dtype)


def rule_of(kind, dtype):
    """No rule, weights of the zetas, or points between them."""
    random = torch.Generator().manual_seed(7)
    if kind == "mean":
        return None
    n_points = N_ZETA if kind == "weights" else 2 * N_ZETA + 1
    between = torch.rand(n_points, N_ZETA, generator=random, dtype=dtype) if kind == "points" else None
    return Quadrature(torch.randn(n_points, generator=random, dtype=dtype), between)


@pytest.mark.parametrize("missing", sorted(Likelihood.__abstractmethods__))
def test_a_likelihood_without_one_of_its_methods_cannot_be_made(missing):
    methods = {name: getattr(StudentT, name) for name in Likelihood.__abstractmethods__ - {missing}}
    whole = type("Whole", (Likelihood,), methods | {missing: getattr(StudentT, missing)})
    assert isinstance(whole(), Likelihood)
    with pytest.raises(TypeError, match=f"abstract method '?{missing}'?"):
        type("Incomplete", (Likelihood,), methods)()


def test_the_methods_to_be_defined_are_these():
    assert {"state", "with_state", "log_density", "score", "whitened", "draw"} <= Likelihood.__abstractmethods__


@with_and_without_errors
def test_the_density_of_the_tests_is_that_of_torch(known, dtype):
    scale, f, y, y_err = numbers(dtype, known)
    wide = scale[:, None] if y_err is None else torch.hypot(scale[:, None].expand_as(y_err), y_err)
    expected = TorchStudentT(5.0, f, wide.unsqueeze(2)).log_prob(y.unsqueeze(2)).sum(-1)
    torch.testing.assert_close(StudentT(scale).log_density(f, y, y_err), expected)


@both
@with_and_without_errors
def test_the_score_is_the_slope_of_the_density(make, known, dtype):
    state, f, y, y_err = numbers(dtype, known)
    likelihood, needs = make(state), f.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(likelihood.log_density(needs, y, y_err).sum(), needs)
    torch.testing.assert_close(likelihood.score(f, y, y_err), expected)


@both
@with_and_without_errors
def test_terms_and_constant_are_the_density(make, known, dtype):
    """Summed over the outputs; the constant is a mean over rows."""
    state, f, y, y_err = numbers(dtype, known)
    likelihood = make(state)
    left = likelihood.terms(f, y, y_err) - likelihood.log_density(f, y, y_err)  # S x B x L
    torch.testing.assert_close(left, left[:, :, :1].expand_as(left))  # the same for all zetas of a row
    expected = torch.as_tensor(likelihood.constant(y_err), dtype=dtype).expand(S)
    torch.testing.assert_close(left[:, :, 0].mean(1), expected)


@both
@with_and_without_errors
@pytest.mark.parametrize(("kind", "n_zeta"), [("mean", 1), ("mean", N_ZETA), ("weights", N_ZETA), ("points", N_ZETA)])
def test_the_gradient_of_the_loss_is_that_of_autograd(make, known, kind, n_zeta, dtype):
    """The method of the base class, and the one by hand where there is one."""
    state, f, y, y_err = numbers(dtype, known)
    f, rule, likelihood = f[:, :, :n_zeta].contiguous(), rule_of(kind, dtype), make(state)
    needs, start = f.clone().requires_grad_(True), torch.tensor([0.5, -1.0], dtype=dtype)
    value = -bound(likelihood, needs, y, y_err, rule)
    (expected,) = torch.autograd.grad(value.sum(), needs)
    for method in (Likelihood.add_loss_gradient, make.add_loss_gradient):
        total = start.clone()
        found = method(likelihood, f.clone(), y, y_err, total, 0.25, rule)
        torch.testing.assert_close(found, expected)
        # Of a minibatch of a quarter of the rows.
        added = start + 0.25 * (value.detach() - likelihood.constant(y_err))
        torch.testing.assert_close(total, added, rtol=1e-5, atol=1e-6)


@with_and_without_errors
@pytest.mark.parametrize("kind", ["mean", "weights", "points"])
def test_what_the_normal_likelihood_has_by_hand_is_what_the_base_class_derives(known, kind, dtype):
    state, f, y, y_err = numbers(dtype, known)
    likelihood, rule = NormalLikelihood(state), rule_of(kind, dtype)
    totals = torch.zeros(2, S, dtype=dtype)
    by_hand = likelihood.add_loss_gradient(f.clone(), y, y_err, totals[0], 0.7, rule)
    derived = Likelihood.add_loss_gradient(likelihood, f.clone(), y, y_err, totals[1], 0.7, rule)
    torch.testing.assert_close(by_hand, derived)
    torch.testing.assert_close(totals[0], totals[1])
    chosen = Likelihood.chosen_gradient(likelihood, f.clone(), y, y_err)
    torch.testing.assert_close(likelihood.chosen_gradient(f.clone(), y, y_err), chosen)
    whole = Likelihood.terms(likelihood, f, y, y_err)
    torch.testing.assert_close(whole, likelihood.log_density(f, y, y_err))
    assert Likelihood.constant(likelihood, y_err) == 0.0


@both
@with_and_without_errors
def test_zetas_are_chosen_by_their_share_of_the_likelihood(make, known, dtype):
    """A choice at each of many levels: how often each zeta is chosen is its weight, to one level."""
    state, f, y, y_err = numbers(dtype, known)
    likelihood, total, n_levels = make(state), torch.zeros(S, dtype=dtype), 1000
    levels = ((torch.arange(n_levels, dtype=dtype) + 0.5) / n_levels).expand(S, N_ROWS, -1)
    chosen = likelihood.choose_zetas(f, y, y_err, total, 0.7, levels)
    assert chosen.shape == levels.shape
    shares = nn.functional.one_hot(chosen, N_ZETA).double().mean(2)
    weights = likelihood.log_density(f, y, y_err).double().softmax(-1)
    assert (shares - weights).abs().max() < 1.5 / n_levels
    expected = 0.7 * (-bound(likelihood, f, y, y_err) - likelihood.constant(y_err))
    torch.testing.assert_close(total, expected, rtol=1e-5, atol=1e-6)


@both
def test_levels_at_the_ends_choose_a_zeta_that_is_there(make, dtype):
    state, f, y, _ = numbers(dtype)
    levels = torch.tensor([0.0, 1.0], dtype=dtype).expand(S, N_ROWS, 2)
    chosen = make(state).choose_zetas(f, y, None, torch.zeros(S, dtype=dtype), 1.0, levels)
    assert chosen.min() >= 0
    assert chosen.max() < N_ZETA


@both
@with_and_without_errors
def test_the_gradient_at_chosen_zetas_is_that_of_autograd(make, known, dtype):
    """Of the mean over rows and zetas of minus the log density."""
    state, f, y, y_err = numbers(dtype, known)
    likelihood, needs = make(state), f.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(-likelihood.log_density(needs, y, y_err).mean((1, 2)).sum(), needs)
    torch.testing.assert_close(likelihood.chosen_gradient(f.clone(), y, y_err), expected)


@both
@with_and_without_errors
def test_whitened_slopes_hold_the_expected_square_of_the_score(make, known):
    """E [score score^T] over labels that are drawn.

    The fourth moment of these scores is at most three times the square of their second, so that the mean of 40,000
    squares has a relative standard error of sqrt(2 / 40,000) at most, and the mean of products less than that.
    """
    state, f, _, y_err = numbers(F64, known)
    likelihood, n_labels = make(state), 40_000
    f = f[:, :1, :1].expand(-1, n_labels, -1, -1)
    y_err = None if y_err is None else y_err[:, :1].expand(-1, n_labels, -1)
    scores = likelihood.score(f, likelihood.draw(f, streams(), y_err)[:, :, 0], y_err)[:, :, 0]
    found = scores.mT @ scores / n_labels
    known_of_one = None if y_err is None else y_err[:, :1]
    slopes = torch.eye(N_OUTPUTS, dtype=F64).expand(S, 1, -1, -1)
    whitened = likelihood.whitened(slopes, f[:, :1, 0], known_of_one)[:, 0]
    expected = whitened.mT @ whitened
    scale = expected.diagonal(dim1=1, dim2=2).sqrt()
    assert ((found - expected).abs() < 5 * (2 / n_labels) ** 0.5 * scale[:, :, None] * scale[:, None]).all()


@cheap
@with_and_without_errors
def test_the_information_is_that_of_a_fine_sum(make, known):
    state, _, _, y_err = numbers(F64, known)
    likelihood = make(state)
    grid = torch.linspace(-60, 60, 60_001, dtype=F64)
    slopes = torch.randn(S, N_ROWS, N_OUTPUTS, 4, dtype=F64)
    found = likelihood.whitened(slopes, torch.zeros(S, N_ROWS, N_OUTPUTS, dtype=F64), y_err)
    for j in range(N_OUTPUTS):
        y = torch.zeros(S, N_ROWS, N_OUTPUTS, dtype=F64)
        f = torch.zeros(S, N_ROWS, len(grid), N_OUTPUTS, dtype=F64)
        f[..., j] = grid
        scores = likelihood.score(f, y, y_err)[..., j]
        log_density = likelihood.log_density(f, y, y_err)  # of all outputs: weights of the sum, once it is one
        information = (log_density.softmax(-1) * scores.square()).sum(-1)
        expected = information.sqrt().unsqueeze(-1) * slopes[:, :, j]
        torch.testing.assert_close(found[:, :, j].abs(), expected.abs(), rtol=1e-5, atol=1e-8)


def test_slopes_keep_their_precision():
    """The information is summed in float64 where the networks are float32."""
    for make in (StudentT, NormalLikelihood):
        state, f, *_ = numbers(torch.float32)
        assert make(state).whitened(torch.ones(S, N_ROWS, N_OUTPUTS, 2, dtype=F64), f[:, :, 0]).dtype == F64


@cheap
@with_and_without_errors
def test_labels_scatter_about_f_as_the_density_says(make, known, dtype):
    """Shares of labels below five of the density's own quantiles, by a fine sum, within four standard errors."""
    state, _, y, y_err = numbers(dtype, known)
    likelihood, n_labels = make(state), 20_000
    f = y[:, :, None].expand(-1, -1, n_labels, -1)
    labels = likelihood.draw(f, streams(dtype=dtype), y_err)
    assert labels.shape == f.shape
    assert labels.dtype == dtype
    grid = torch.linspace(-40, 40, 80_001, dtype=F64)
    residuals = (labels - f).double()
    for j in range(N_OUTPUTS):
        at = torch.zeros(S, N_ROWS, len(grid), N_OUTPUTS, dtype=F64)
        at[..., j] = grid
        given = None if y_err is None else y_err.double()
        density = make(state.double()).log_density(at, torch.zeros(S, N_ROWS, N_OUTPUTS, dtype=F64), given).softmax(-1)
        below = density.cumsum(-1)
        for level in (0.02, 0.25, 0.5, 0.75, 0.98):
            quantile = grid[(below < level).sum(-1).clamp_max(len(grid) - 1)]
            share = (residuals[..., j] < quantile.unsqueeze(-1)).double().mean(-1)
            assert ((share - level).abs() < 4.5 * (level * (1 - level) / n_labels) ** 0.5).all()


@both
def test_copies_have_a_state_of_their_own(make):
    state, f, y, _ = numbers(F64)
    likelihood = make(state)
    copied = likelihood.copy()
    expected = likelihood.log_density(f, y)
    assert type(copied) is make
    assert torch.equal(copied.log_density(f, y), expected)
    for value in copied.state.values():
        value.mul_(2)
    assert torch.equal(likelihood.log_density(f, y), expected)
    assert not torch.equal(copied.log_density(f, y), expected)


@both
def test_some_of_the_networks_and_all_of_them_again(make, dtype):
    state, f, y, _ = numbers(dtype)
    likelihood = make(state)
    whole = likelihood.log_density(f, y)
    parts = [likelihood.networks(slice(s, s + 1)) for s in range(S)]
    for s, part in enumerate(parts):
        torch.testing.assert_close(part.log_density(f[s : s + 1], y[s : s + 1]), whole[s : s + 1])
    joined = parts[0].join(parts[1:])
    assert {name: tuple(value.shape) for name, value in joined.state.items()} == {
        name: tuple(value.shape) for name, value in likelihood.state.items()
    }
    torch.testing.assert_close(joined.log_density(f, y), whole)
    swapped = parts[1].join(parts[:1])
    torch.testing.assert_close(swapped.log_density(f.flip(0), y.flip(0)), whole.flip(0))
    alone = likelihood.join([])
    assert all(torch.equal(value, likelihood.state[name]) for name, value in alone.state.items())


@both
def test_the_same_in_other_numbers(make):
    state, f, y, y_err = numbers(F64, known=True)
    moved = make(state).to(CPU, torch.float32)
    assert {value.dtype for value in moved.state.values()} == {torch.float32}
    found = moved.log_density(f.float(), y.float(), y_err.float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), make(state).log_density(f, y, y_err), rtol=1e-5, atol=1e-5)


def test_what_a_fixed_likelihood_does_without():
    state, *_ = numbers(F64)
    likelihood = StudentT(state)
    assert likelihood.is_fixed
    assert not likelihood.splits_error
    assert likelihood.in_words(2.0) == ""
    with pytest.raises(NotImplementedError, match="StudentT splits the error of held-out rows, but has no way to do"):
        likelihood.split(None, None, None, None, None, None)
    with pytest.raises(NotImplementedError, match="StudentT is not fixed, but has no way to renew its state"):
        likelihood.renew(None, None, None, None, None, is_last=True)


def rows_of_a_line(dtype=F64, known=False):
    """Forty rows for two networks, with errors in x."""
    x = torch.linspace(-1, 1, 40, dtype=dtype).reshape(1, 40, 1).expand(2, 40, 1)
    y_err = 0.2 + 0.1 * x.abs() if known else None
    return Rows(ZetaNormal(x, torch.full((1, 1, 1), 0.2, dtype=dtype)), 2 * x, y_err)


@with_and_without_errors
@pytest.mark.parametrize("kind", ["monte_carlo", "informed", "interpolated"])
@pytest.mark.parametrize("family", [BernoulliDropout, MeanField])
def test_a_likelihood_from_outside_trains_alike_with_and_without_autograd(family, kind, known):
    """By autograd, by passes written by hand, and by steps without autograd at all."""
    ends = []
    for fast in (False, True):
        stack = small_posterior(2, dtype=F64).stack
        posterior = family(fast_stack(stack) if fast else stack, 1.0)
        likelihood = StudentT(torch.full((2, 1), 0.3, dtype=F64))
        schedule = Schedule(epochs=3, batch_size=16, learning_rate=1e-2, n_zeta=8, renew_every=2, zeta_draws=kind)
        result = train(posterior, rows_of_a_line(known=known), likelihood, schedule, SeedSequence(0).spawn(2))
        assert torch.equal(result.likelihood.state["scale"], likelihood.scale)
        assert result.losses.isfinite().all()
        ends.append([value.detach() for value in posterior.parameters])
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


def test_heavy_tails_keep_the_slope_that_outliers_take_from_a_normal_likelihood():
    """Slope 1, with every fifth label of the upper half 5 too high."""
    x = torch.linspace(-1, 1, 200, dtype=F64).reshape(1, 200, 1).expand(2, 200, 1)
    wrong = ((torch.arange(200) % 5 == 0) & (torch.arange(200) >= 100)).view(1, 200, 1)
    rows = Rows(ZetaNormal(x, 0 * x[:, :1]), x + 5.0 * wrong)
    schedule = Schedule(epochs=150, batch_size=50, learning_rate=0.03, n_zeta=1, renew_every=1000)
    slopes = {}
    for make in (StudentT, NormalLikelihood):
        seeds = SeedSequence(0).spawn(2)
        posterior = MeanField(NetworkStack(lambda: nn.Linear(1, 1), 1, 1, seeds, CPU, F64), 0.01)
        train(posterior, rows, make(torch.full((2, 1), 0.1, dtype=F64)), schedule, seeds)
        slopes[make] = posterior.stack.parameters["weight"].flatten().detach()
    assert ((slopes[StudentT] - 1).abs() < 0.1).all()
    assert (slopes[NormalLikelihood] > 1.4).all()


@pytest.mark.parametrize("x_err", [0.0, 0.05])
def test_the_laplace_families_take_the_information_of_any_likelihood(x_err):
    """A line: information J^T J (nu + 1) / ((nu + 3) scale^2), from labels that are drawn where x has (small) errors.

    16,000 labels tell it to sqrt(2 / 16,000) = 1 %; an error of x of 0.05 under a slope of 0.1 is 1 % of the scale.
    """
    x, seeds = torch.linspace(-1, 1, 4000, dtype=F64).view(1, -1, 1), SeedSequence(0).spawn(1)
    posterior = LastLayerLaplace(NetworkStack(lambda: nn.Linear(1, 1), 1, 1, seeds, CPU, F64), weight_penalty=0.5)
    for value in posterior.parameters:
        value.data.fill_(0.1)
    inputs = ZetaNormal(x, torch.full((1, 1, 1), x_err, dtype=F64))
    draws = ZetaDraws.of("gauss_hermite", 8, inputs) if x_err else None
    likelihood = StudentT(torch.full((1, 1), 0.5, dtype=F64))
    posterior.finish(Rows(inputs, 0 * x), likelihood, draws, Streams(seeds, CPU, F64))
    slopes = torch.cat([x, torch.ones_like(x)], dim=2)[0]
    exact = slopes.T @ slopes * 6 / (8 * 0.25) + torch.eye(2, dtype=F64)
    root = posterior.state["root"][0]
    band = 0.05 if x_err else 1e-9
    torch.testing.assert_close(torch.linalg.inv(root @ root.mT), exact, rtol=band, atol=band * exact.max().item())


def test_a_likelihood_splits_the_error_of_held_out_rows_itself():
    """Training gives it the rows as they are, and the epistemic component beside them."""

    class Splitting(StudentT):
        splits_error, seen = True, []

        def split(self, posterior, learned, judged, epistemic, draws, streams):
            self.seen.append((judged.y_err, epistemic))
            return type(self)(self.scale / 2)

    seeds, x = SeedSequence(0).spawn(2), torch.linspace(-1, 1, 40, dtype=F64).view(1, -1, 1).expand(2, -1, -1)
    posterior = LastLayerLaplace(small_posterior(2, dtype=F64).stack, weight_penalty=0.5)
    rows = Rows(ZetaNormal(x, 0 * x), 2 * x, torch.full_like(x, 0.3))
    schedule = Schedule(epochs=2, batch_size=16, learning_rate=1e-3, n_zeta=None, renew_every=1, held_out=5)
    found = train(posterior, rows, Splitting(torch.full((2, 1), 0.5, dtype=F64)), schedule, seeds)
    assert len(Splitting.seen) == 3
    torch.testing.assert_close(found.likelihood.scale, found.likelihood_of_steps.scale / 8)
    for y_err, epistemic in Splitting.seen:
        assert torch.equal(y_err, torch.full((2, 5, 1), 0.3, dtype=F64))
        assert epistemic.shape == (2, 5, 1)
        assert (epistemic > 0).all()


@pytest.mark.parametrize("value", [float("nan"), 1e200])
def test_networks_that_end_in_no_numbers_have_diverged(value):
    """By what they make of their rows after the last step, whatever the likelihood; the square of 1e200 overflows."""

    class Ruined(BernoulliDropout):
        def finish(self, rows, likelihood, draws, streams):
            for parameter in self.parameters:
                parameter.data.fill_(value)

    seeds, x = SeedSequence(0).spawn(1), torch.linspace(-1, 1, 40, dtype=F64).view(1, -1, 1)
    posterior = Ruined(small_posterior(1, dtype=F64).stack, weight_penalty=0.5)
    schedule = Schedule(epochs=2, batch_size=16, learning_rate=1e-3, n_zeta=None, renew_every=1)
    with pytest.raises(TrainingDivergedError):
        train(posterior, Rows(ZetaNormal(x, 0 * x), x), StudentT(torch.full((1, 1), 0.5, dtype=F64)), schedule, seeds)


class Line(PointPosterior):
    """f = 2 zeta."""

    def evaluate(self, draw, zeta):
        return 2 * zeta


@pytest.mark.parametrize("make", [StudentT, NormalLikelihood])
def test_the_diagnostics_ask_the_likelihood(make):
    """Effective sample size of two zetas by a sum over a grid of pairs: as in `tests/training/test_diagnostics.py`."""
    x = torch.zeros(2, 3000, 1, dtype=F64)
    rows = Rows(ZetaNormal(x, torch.full((2, 1, 1), 0.4, dtype=F64)), x + 0.7)
    likelihood, posterior = make(torch.full((2, 1), 0.6, dtype=F64)), Line(small_posterior(2, dtype=F64).stack, 1.0)
    draws = ZetaDraws.of("monte_carlo", 2, rows.inputs)
    found = zeta_diagnostics(posterior, rows, likelihood, draws, streams()).ess.mean().item()
    nodes, weights = (torch.tensor(values, dtype=F64) for values in hermegauss(200))
    f = (2 * 0.4 * nodes).view(1, 1, -1, 1).expand(2, -1, -1, -1)
    log_p, pairs = likelihood.log_density(f, rows.y[:, :1])[0, 0], weights[:, None] * weights / weights.sum() ** 2
    ratio = (-(log_p[:, None] - log_p).abs()).exp()
    expected = (pairs * (1 + ratio) ** 2 / (1 + ratio.square())).sum().item()
    assert found == pytest.approx(expected, abs=0.016)


class SecondHead(StudentT):
    """A network with a second output for each column of labels, which stand first and which labels do not see."""

    @classmethod
    def width(cls, n_y):
        return 2 * n_y

    @classmethod
    def f_outputs(cls, n_y):
        return slice(n_y, 2 * n_y)

    def log_density(self, f, y, y_err=None):
        return super().log_density(self.own(f), y, y_err)

    def score(self, f, y, y_err=None):
        return nn.functional.pad(super().score(self.own(f), y, y_err), (f.shape[-1] // 2, 0))

    def whitened(self, slopes, f, y_err=None):
        return super().whitened(slopes[:, :, slopes.shape[2] // 2 :], f, y_err)

    def draw(self, f, streams, y_err=None):
        return super().draw(self.own(f), streams, y_err)

    @staticmethod
    def own(f):
        return f[..., f.shape[-1] // 2 :]


@pytest.mark.parametrize("x_err", [None, 0.1])
def test_a_network_may_have_more_outputs_than_labels_have_columns(x_err, tmp_path):
    X = np.linspace(-1, 1, 60)[:, None]
    y = np.column_stack([3 + 2 * X[:, 0], 5 - X[:, 0]])
    model = EiVRegressor(x_err, likelihood=SecondHead, hidden_units=8, epochs=40, n_theta=10, random_state=0).fit(X, y)
    assert model.posterior_.stack.n_outputs == 4
    p = model.predict_distribution(X, X_err=0.0, budget=True)
    zeta = torch.tensor((X - model.model_.x_scaler.shift) / model.model_.x_scaler.scale).expand(1, -1, -1)
    outputs = model.model_.for_predictions().mean(zeta)[0, :, 2:].numpy()
    scaler = model.model_.y_scaler
    np.testing.assert_allclose(p.mean, outputs * scaler.scale + scaler.shift)
    assert p.draws.shape[1:] == p.shares.shape[:2] == y.shape
    model.save(tmp_path / "model.eiv")
    again = EiVRegressor.load(tmp_path / "model.eiv", likelihood=SecondHead)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
