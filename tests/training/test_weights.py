"""A row of weight two is the row twice: every closed form against that of the repeated table, training on average."""

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence

from eiv.engine.pooling import row_mean, row_std
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws, ZetaNormal
from eiv.inputs.deconvolution import Start, deconvolve
from eiv.inputs.learned import LearnedPrior
from eiv.likelihoods import (
    NOISE_RULES,
    ByBound,
    CategoricalLikelihood,
    NormalLikelihood,
    StudentTLikelihood,
    VaryingLikelihood,
)
from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import LastLayerLaplace
from eiv.training.blocks import Blocks, by_weight
from eiv.training.diagnostics import zeta_diagnostics
from eiv.training.evidence.density import log_evidence
from eiv.training.evidence.features import Family, Inputs
from eiv.training.evidence.solution import Labels, solve
from eiv.training.loop import Schedule, train
from eiv.training.neighbours import NeighbourTest
from eiv.training.steps import Counts, step_for
from smallnets import small_posterior

CPU, F64 = torch.device("cpu"), torch.float64
SEEDS = SeedSequence(0).spawn(1)
N, WHOLE = 24, torch.tensor([1, 2, 3, 1, 4, 2] * 4)
RANDOM = torch.Generator().manual_seed(0)
X = torch.randn(N, 2, generator=RANDOM, dtype=F64)
Y = torch.sin(2 * X[:, :1]) + 0.3 * torch.randn(N, 1, generator=RANDOM, dtype=F64)
KNOWN = 0.2 * torch.rand(N, 1, generator=RANDOM, dtype=F64)
ERRORS = 0.1 + 0.3 * torch.rand(N, 2, generator=RANDOM, dtype=F64)


def twice(values):
    return values.repeat_interleave(WHOLE, 0)


def weighted_and_repeated(x_err=None, y_err=None, y=Y):
    """Rows of one network, by weights and by repetition."""
    errors = torch.zeros_like(X) if x_err is None else x_err
    parts = [(X, errors, y, y_err, WHOLE.double()), (*map(twice, (X, errors, y)), None, None)]
    if y_err is not None:
        parts[1] = (*parts[1][:3], twice(y_err), None)
    return [
        Rows(ZetaNormal(x[None], e[None]), labels[None], *(None if part is None else part[None] for part in rest))
        for x, e, labels, *rest in parts
    ]


def point(n_outputs=1, likelihood_width=None):
    """A network without dropout: f is the same in every pass."""
    stack = NetworkStack(lambda: paper_network(2, n_outputs, 8), 2, n_outputs, SEEDS, CPU, F64)
    return LastLayerLaplace(stack, 1.0)


@pytest.mark.parametrize("exact", [False, True])
def test_density_of_labels_and_its_slopes(exact):
    family = Family(2, 2, 1, 16, seed=0)
    flat = 0.3 * torch.randn(family.n_values, generator=torch.Generator().manual_seed(1), dtype=F64)
    y, known = torch.cat([Y, -(Y**2)], 1), torch.cat([KNOWN, 2 * KNOWN], 1)
    found = []
    for chosen in (lambda values: values, twice):
        labels = Labels(chosen(y), chosen(known), WHOLE.double() if len(chosen(y)) == N else None)
        inputs = Inputs(ZetaNormal(chosen(X), chosen(0 * ERRORS if exact else ERRORS)))
        at = flat.clone().requires_grad_(True)
        value = log_evidence(family, family.values(at), family.draws(y), inputs, labels)
        with torch.no_grad():
            solution = solve(family, family.values(flat), family.draws(y), inputs, labels)
        parts = solution.weights, solution.inverse_covariance, solution.evidence
        found.append([value.detach(), *torch.autograd.grad(value, at), *parts])
        assert labels.size == WHOLE.sum()
    close = 1e-9 if exact else 1e-6  # with errors, variances come from differences at nodes in float32
    for by_weight_, repeated in zip(*found, strict=True):
        torch.testing.assert_close(by_weight_, repeated, rtol=close, atol=close)


def test_a_learned_prior_from_the_same_start():
    def mixture(x, errors, weights):
        start = Start(torch.softmax(3 * torch.cat([x[:, :1], -x[:, :1]], 1), 1), x.unsqueeze(1))
        return deconvolve(x, errors, weights.double()[None], start, full=True)

    found, repeated = mixture(X, ERRORS, WHOLE), mixture(twice(X), twice(ERRORS), torch.ones(int(WHOLE.sum())))
    for part, other in zip(found[:3], repeated[:3], strict=True):
        torch.testing.assert_close(part, other, rtol=1e-8, atol=1e-10)


def test_a_learned_prior_of_one_component_is_that_of_repeated_rows():
    """With one component nothing depends on the start. Folds differ, since a repeated row may be in several."""
    prior = LearnedPrior(max_components=1)
    found = prior.fit(X, ERRORS, WHOLE.double())
    repeated = prior.fit(twice(X), twice(ERRORS))
    if np.ndim(found.covariances) == np.ndim(repeated.covariances):
        np.testing.assert_allclose(found.means, repeated.means, atol=1e-4)
        np.testing.assert_allclose(found.covariances, repeated.covariances, atol=1e-4)
    plain = prior.fit(X, ERRORS)
    assert np.abs(found.means - plain.means).max() > 0.01
    for half in prior.halves(found, X, ERRORS, 4, WHOLE.double()):
        assert np.isfinite(half.means).all()


@pytest.mark.parametrize("with_errors", [False, True])
@pytest.mark.parametrize("rule", ["rmse", "residual", "likelihood"])
def test_rules_for_the_noise(rule, with_errors):
    found = []
    for rows in weighted_and_repeated(y_err=KNOWN if with_errors else None):
        noise = torch.full((1, 1), 0.5, dtype=F64)
        rule_, streams = NOISE_RULES[rule], Streams(SEEDS, CPU, F64)
        found.append(rule_.renewed(noise, point(), rows, rows, None, streams))
    torch.testing.assert_close(*found, rtol=1e-9, atol=0)


@pytest.mark.parametrize("with_errors", [False, True])
@pytest.mark.parametrize("kind", [StudentTLikelihood, VaryingLikelihood])
def test_state_of_other_likelihoods(kind, with_errors):
    """Zetas are nodes of a rule, the same for each copy of a row."""
    found = []
    for rows in weighted_and_repeated(ERRORS * torch.tensor([1.0, 0.0]).double(), KNOWN if with_errors else None):
        likelihood = kind.start(torch.full((1, 1), 0.5, dtype=F64), ByBound()).copy()
        draws = ZetaDraws.of("gauss_hermite", 5, rows.inputs)
        likelihood.observe(1.0)
        likelihood.renew(point(kind.width(1)), rows, rows, draws, Streams(SEEDS, CPU, F64), is_last=True)
        found.append(likelihood.state)
    for name in found[0]:
        if name != "limits":  # quantiles over rows, whatever their weight
            torch.testing.assert_close(found[0][name], found[1][name], rtol=1e-5, atol=1e-9)


LIKELIHOODS = {
    "normal": lambda: NormalLikelihood(torch.full((1, 1), 0.5, dtype=F64)),
    "student_t": lambda: StudentTLikelihood(torch.full((1, 1), 0.5, dtype=F64), torch.full((1, 1), 5.0, dtype=F64)),
    "varying": lambda: VaryingLikelihood.start(torch.full((1, 1), 0.5, dtype=F64), ByBound()),
    "categorical": lambda: CategoricalLikelihood(2),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_information_of_labels(name):
    """Laplace's approximation at exact inputs, where it is a closed form."""
    likelihood, roots = LIKELIHOODS[name](), []
    is_classes = name == "categorical"
    y = torch.cat([Y > 0, Y <= 0], 1).double() if is_classes else Y
    for rows in weighted_and_repeated(y=y):
        posterior = point(2 if is_classes else likelihood.width(1))
        posterior.finish(rows, likelihood, None, Streams(SEEDS, CPU, F64))
        roots.append(posterior.state["root"])
    torch.testing.assert_close(*roots, rtol=1e-8, atol=1e-10)


def test_information_with_errors_of_x_on_average():
    """Labels are drawn, 2,000 of them: entries have a relative standard error of some percent."""
    traces = []
    for rows in weighted_and_repeated(ERRORS):
        posterior = point()
        draws = ZetaDraws.of("gauss_hermite", 5, rows.inputs)
        posterior.finish(rows, LIKELIHOODS["normal"](), draws, Streams(SEEDS, CPU, F64))
        root = posterior.state["root"]
        traces.append(torch.linalg.inv(root @ root.mT).diagonal(dim1=1, dim2=2).sum())
    # Squared scores of a label have a spread of about their mean times sqrt(2): 1 / sqrt(1,000) for 2,000 labels.
    torch.testing.assert_close(*traces, rtol=4 * 2**0.5 / 1000**0.5, atol=0)


def test_gap_and_effective_sample_size():
    found = []
    for rows in weighted_and_repeated(ERRORS * torch.tensor([1.0, 0.0]).double()):
        draws = ZetaDraws.of("gauss_hermite", 5, rows.inputs)
        found.append(zeta_diagnostics(point(), rows, LIKELIHOODS["normal"](), draws, Streams(SEEDS, CPU, F64)))
    torch.testing.assert_close(found[0].ess, found[1].ess, rtol=1e-9, atol=0)


@pytest.mark.parametrize("n", [50, 83])
def test_visits_go_with_the_weights(n):
    weights = torch.rand(2, 50, generator=torch.Generator().manual_seed(0), dtype=F64) * 3
    expected, total = n * weights / weights.sum(1, keepdim=True), torch.zeros_like(weights)
    shifts = (torch.arange(200, dtype=F64) + 0.5) / 200
    for shift in shifts:
        counts = torch.stack(
            [torch.bincount(places, minlength=50) for places in by_weight(weights, shift.expand(2, 1), n)]
        )
        assert ((counts - expected).abs() < 1).all()
        total += counts
    torch.testing.assert_close(total / 200, expected, rtol=0, atol=1 / 100)  # evenly spaced shifts: an integral


def test_equal_weights_visit_each_row_once():
    places = by_weight(torch.full((1, 1000), 0.3), torch.tensor([[0.5]]), 1000)
    assert torch.equal(places, torch.arange(1000)[None])


def test_the_loss_of_an_epoch_is_that_of_the_repeated_table_on_average():
    """Without steps, over all shifts: the mean loss of 400 epochs against the loss of the repeated rows."""
    weighted, repeated = weighted_and_repeated(y_err=KNOWN)
    likelihood = LIKELIHOODS["normal"]()
    losses = []
    n_twice = repeated.y.shape[1]
    for rows, n_epochs, n_visits in ((weighted, 400, N), (weighted, 1, n_twice), (repeated, 1, n_twice)):
        posterior = small_posterior(1, 2, dropout=0.0, dtype=F64)
        blocks = Blocks(posterior, rows, None, 8, SEEDS, n_visits)
        step = step_for(posterior, likelihood, 0.0, Counts(n_visits, rows.size))
        step.set_rate(0.0)
        of_epochs = []
        for _ in range(n_epochs):
            total = torch.zeros(1, dtype=F64)
            for block in blocks.epoch():
                for batch in block.split(8, posterior.shares_draws):
                    step(batch, total)
            of_epochs.append(float(total + step.rest_of_loss(blocks.y_err)))
        losses.append(np.array(of_epochs))
    error = losses[0].std() / len(losses[0]) ** 0.5
    assert abs(losses[0].mean() - losses[2][0]) < 4 * error
    assert 0 < error < 0.02 * abs(losses[2][0])
    assert losses[1][0] == pytest.approx(losses[2][0], rel=1e-12)  # whole weights and as many visits: no chance


def test_training_with_weights_goes_where_the_repeated_table_leads():
    """A line by steps: the weights of a linear network against the minimum of the loss, in closed form."""
    stack = NetworkStack(lambda: torch.nn.Linear(2, 1, bias=False), 2, 1, SEEDS, CPU, F64)
    posterior, penalty = LastLayerLaplace(stack, 3.0), 3.0
    rows, repeated = weighted_and_repeated()
    schedule = Schedule(1500, 24, 0.02, None, 10_000, learning_rate_decay=0.7)
    train(posterior, rows, LIKELIHOODS["normal"](), schedule, SEEDS)
    x, y = repeated.inputs.mean[0], repeated.y[0]
    truth = torch.linalg.solve(x.T @ x / 0.25 + 2 * penalty * torch.eye(2), x.T @ y / 0.25)
    found = next(iter(stack.parameters.values()))[0].detach().T
    torch.testing.assert_close(found, truth, rtol=0.02, atol=0.005)
    plain = torch.linalg.solve(X.T @ X / 0.25 + 2 * penalty * torch.eye(2), X.T @ Y / 0.25)
    assert (plain - truth).abs().max() > 0.02  # rows that count once lead elsewhere


def test_means_and_spreads_over_rows():
    values, weights = torch.cat([X, Y], 1)[None], WHOLE.double()[None]
    torch.testing.assert_close(row_mean(values, weights), row_mean(twice(values[0])[None]))
    torch.testing.assert_close(row_std(values, weights), row_std(twice(values[0])[None]))


def test_neighbours_of_rows_that_count_alike():
    """Weights that are all the same leave the test of neighbours as it is; others move it."""
    x, y = X.numpy(), Y[:, 0].numpy()
    plain, same = NeighbourTest.of(x, y), NeighbourTest.of(x, y, np.full(N, 3.0))
    np.testing.assert_allclose([plain.difference, plain.error], [same.difference, same.error])
    assert NeighbourTest.of(x, y, WHOLE.double().numpy()).difference != plain.difference
