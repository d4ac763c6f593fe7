"""What holds for every family of weight posteriors."""

import copy
import pickle

import numpy as np
import pytest
import torch
from families import NAMES, SEEDS, small, streams, trained
from sklearn.base import clone
from torch import nn

from eiv import EiVRegressor, NormalPrior, fit_splits
from eiv.engine.mlp import MLPStack
from eiv.engine.streams import Streams
from eiv.likelihoods import NormalLikelihood
from eiv.posteriors import FAMILIES, PointPosterior, Theta, WeightPosterior
from eiv.training.objective import bound, loss

pytestmark = pytest.mark.usefixtures("few_zetas")
every_family = pytest.mark.parametrize("name", NAMES)
AT_THE_END = ("last_layer_laplace", "linearised_laplace", "swag")  # points before the end of training
OWN_DRAWS = ("bernoulli_dropout", "gaussian_dropout", "variational_dropout", "concrete_dropout")


def ready(name, **arguments):
    """A posterior whose weights vary: trained, where they do not before."""
    posterior = small(name, **arguments)
    if name in AT_THE_END:
        trained(posterior, dtype=arguments.get("dtype", torch.float64))
    return posterior


@every_family
@pytest.mark.parametrize("x_err", [0.0, 0.2])
def test_training_by_hand_ends_where_autograd_does(name, x_err):
    ends = []
    for fast in (False, True):
        posterior = small(name, fast=fast)
        assert isinstance(posterior.stack, MLPStack) == fast
        result = trained(posterior, x_err=x_err)
        ends.append([*posterior.parameters, result.likelihood.state["y_noise"], *posterior.state.values()])
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


class OwnDivergence(WeightPosterior):
    """Masks as of Bernoulli dropout, with a divergence that is not a sum of squares; passes by hand are asked for."""

    by_hand = True
    draw, theta = FAMILIES["bernoulli_dropout"].draw, FAMILIES["bernoulli_dropout"].theta

    def kl(self):
        return sum(value.flatten(1).abs().sum(1) for value in self.stack.parameters.values())


class SplitDivergence(OwnDivergence):
    """A divergence that has squares about anchors, whose rest is not constant."""

    weight_decay = 3.0

    @property
    def anchors(self):
        return [torch.full_like(value, 0.3) for value in self.stack.parameters.values()]

    def kl(self):
        gaps = zip(self.stack.parameters.values(), self.anchors, strict=True)
        return 1.5 * sum((value - anchor).flatten(1).square().sum(1) for value, anchor in gaps) + super().kl()

    def kl_beside_decay(self):
        return super().kl()


class LearnedFactor(SplitDivergence):
    """The same, and a number that is learned."""

    def __init__(self, stack, weight_penalty):
        super().__init__(stack, weight_penalty)
        like = next(iter(stack.parameters.values()))
        self.learned["factor"] = like.new_ones(len(like), 1).requires_grad_(True)

    def theta(self, draw):
        factor = self.learned["factor"]
        masks = {name: mask * factor.view(-1, *[1] * (mask.ndim - 1)) for name, mask in draw.items()}
        return Theta(masks, self.stack.parameters)


class NoDivergence(OwnDivergence):
    """No prior of the weights at all."""

    def kl(self):
        return torch.zeros(self.stack.n_networks, dtype=self.stack.dtype)


@pytest.mark.parametrize("family", [OwnDivergence, SplitDivergence, LearnedFactor, NoDivergence])
@pytest.mark.parametrize("x_err", [0.0, 0.2])
def test_training_by_hand_uses_the_divergence_of_a_family_of_ones_own(family, x_err):
    ends = []
    for fast in (False, True):
        posterior = small(family, fast=fast)
        trained(posterior, x_err=x_err)
        ends.append([value.detach() for value in posterior.parameters])
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["bernoulli_dropout", "variational_dropout", "mean_field", "ensemble"])
def test_a_decay_that_is_not_that_of_the_divergence_is_refused(name):
    class Doubled(FAMILIES[name]):
        def kl(self):
            return 2 * super().kl()

    with pytest.raises(ValueError, match="Doubled: weight_decay and kl_beside_decay do not add up to kl"):
        trained(small(Doubled, fast=True))


def test_a_decay_without_autograd_is_refused_where_draws_have_parameters_of_their_own():
    class Moved(FAMILIES["gaussian_dropout"]):
        def theta(self, draw):
            return Theta(draw, {name: 1.1 * value for name, value in self.stack.parameters.items()})

    with pytest.raises(ValueError, match="Moved: its draws have parameters of their own"):
        trained(small(Moved, fast=True))


@every_family
def test_the_zetas_of_a_row_share_its_theta(name, dtype):
    posterior = ready(name, dtype=dtype)
    zeta = torch.ones(3, 6, 4, 5, 2, dtype=dtype)  # rows, thetas, zetas that are all the same
    with torch.no_grad():
        f = posterior.evaluate_rows(streams(dtype=dtype), zeta, theta_axis=2).squeeze(-1)
    torch.testing.assert_close(f, f[..., :1].expand_as(f), rtol=1e-5, atol=1e-6)
    first = f[..., 0].round(decimals=4)  # S x rows x thetas
    assert not (first[0] == first[1]).any()
    for own in first:
        if name in OWN_DRAWS:
            assert len(own.unique()) == 24  # independent over rows
        elif name == "ensemble":
            assert len(own.unique()) == 1  # a member is a point
        else:
            assert torch.equal(own, own[:1].expand_as(own))  # shared by rows by design ...
            assert len(own[0].unique()) == 4  # ... and different from theta to theta


@every_family
@pytest.mark.parametrize("theta_axis", [1, 2])
def test_theta_as_in_training_is_the_point_of_families_that_train_one(name, theta_axis):
    posterior = ready(name)
    zeta = torch.randn(3, 6, 4, 5, 2, dtype=torch.float64)
    with torch.no_grad():
        f, drawn = (
            posterior.evaluate_rows(streams(dtype=torch.float64), zeta, theta_axis, as_trained=as_trained)
            for as_trained in (True, False)
        )
        point = posterior.stack(posterior.no_masks(), zeta.flatten(1, 3).unsqueeze(1)).reshape(f.shape)
    assert f.shape == (3, 6, 4, 5, 1)
    if name in AT_THE_END:
        assert posterior.draw_as_in_training(streams(dtype=torch.float64), 2) == {}
        torch.testing.assert_close(f, point)
        assert not torch.equal(f, drawn)
    else:
        assert torch.equal(f, drawn)
        assert torch.allclose(f, point) == (name == "ensemble")


@every_family
def test_gradients_are_finite_and_reach_all_of_phi(name, dtype):
    posterior = small(name, dtype=dtype)
    posterior.begin(streams(dtype=dtype))
    n_draws = 1 if posterior.shares_draws else 8
    zeta, y = torch.randn(3, 8, 5, 2, dtype=dtype), torch.randn(3, 8, 1, dtype=dtype)
    f = posterior.evaluate(posterior.draw(streams(dtype=dtype), n_draws), zeta)
    likelihood = NormalLikelihood(torch.full((3, 1), 0.5, dtype=dtype))
    loss(-bound(likelihood, f, y), posterior.kl(), 100).sum().backward()
    for value in posterior.parameters:
        assert value.grad.dtype == dtype
        assert value.grad.isfinite().all()
        assert (value.grad != 0).any()


@every_family
def test_a_stack_trains_as_its_networks_alone(name):
    together = small(name, fast=True)
    parts = together.split([1, 1, 1])
    trained(together)
    for s, (alone, own) in enumerate(zip(parts, together.split([1, 1, 1]), strict=True)):
        trained(alone, seeds=SEEDS[s : s + 1])
        with torch.no_grad():
            zeta = torch.randn(1, 1, 7, 2, dtype=torch.float64)
            for a, b in zip(alone.parameters, own.parameters, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)
            draws = [q.draw(Streams(SEEDS[s : s + 1], zeta.device, zeta.dtype), 1) for q in (alone, own)]
            torch.testing.assert_close(alone.evaluate(draws[0], zeta), own.evaluate(draws[1], zeta))


@every_family
def test_join_and_split_copies_and_states_keep_the_posterior(name):
    posterior = ready(name)
    if name == "ensemble":
        posterior.begin(streams(dtype=torch.float64))
    parts = posterior.split([2, 1])
    restored = small(name)
    for own, value in zip(restored.stack.parameters.values(), posterior.stack.parameters.values(), strict=True):
        own.data.copy_(value)
    restored.load_state(posterior.state)
    assert all(len(value) == 3 for value in posterior.state.values())
    zeta = torch.randn(3, 4, 6, 2, dtype=torch.float64)
    with torch.no_grad():
        expected = posterior.evaluate(posterior.draw(streams(dtype=torch.float64), 4), zeta)
        others = [parts[0].join(parts[1:]), copy.copy(posterior), copy.deepcopy(posterior), restored]
        for other in [*others, pickle.loads(pickle.dumps(posterior))]:
            found = other.evaluate(other.draw(streams(dtype=torch.float64), 4), zeta)
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(other.kl(), posterior.kl())
    if posterior.learned:
        with pytest.raises(ValueError, match="state lacks"):
            restored.load_state({})


@every_family
def test_prediction_on_the_fast_path_is_the_same(name):
    """Many inputs a draw: units are cut out where masks are zero, and nowhere else."""
    plain, fast = ready(name), small(name, fast=True)
    for own, value in zip(fast.stack.parameters.values(), plain.stack.parameters.values(), strict=True):
        own.data.copy_(value)
    fast.load_state(plain.state)
    zeta = torch.randn(1, 1, 200, 2, dtype=torch.float64).expand(3, 4, -1, -1)
    with torch.no_grad():
        draw = plain.draw(streams(dtype=torch.float64), 4)
        torch.testing.assert_close(fast.evaluate(draw, zeta), plain.evaluate(draw, zeta))


@every_family
@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")  # training is short
def test_the_estimator_fits_predicts_clones_and_pickles(name, line):
    X, y = line
    model = EiVRegressor(
        0.1, posterior=name, input_prior=NormalPrior(std=1.0), hidden_units=16, epochs=8, n_networks=2, n_theta=20,
        weight_penalty=0.1, random_state=0, learning_rate=1e-2, recipe="paper",
    )  # fmt: skip
    p = clone(model).fit(X, y).predict_distribution(X)
    assert p.mean.shape == p.std.shape == (40,)
    assert (p.epistemic > 0).all()
    assert p.aleatoric.max() > 0
    again = model.fit(X, y, X_err=np.full((40, 1), 0.1))
    mean, std = again.predict(X, X_err=0.1, return_std=True)
    np.testing.assert_allclose(mean, p.mean, rtol=1e-4, atol=1e-5)
    other = pickle.loads(pickle.dumps(again)).predict(X, X_err=0.1, return_std=True)
    np.testing.assert_allclose(other, (mean, std), rtol=1e-5)
    literal = again.predict_distribution(X[:3], X_err=0.1, method="literal")
    assert (literal.epistemic > 0).all()
    split = fit_splits(clone(model), X, y, [range(30), range(10, 40)])
    assert all(np.isfinite(part.predict(X)).all() for part in split)


@every_family
@pytest.mark.parametrize("error_model", ["classical", "berkson"])
@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")  # training is short
def test_covariances_of_each_row_a_mixture_and_berkson_errors(name, error_model):
    random = np.random.default_rng(0)
    X, roots = random.standard_normal((40, 2)), 0.2 * random.standard_normal((40, 2, 2))
    prior = "mixture" if error_model == "classical" else "flat"
    model = EiVRegressor(
        posterior=name, input_prior=prior, error_model=error_model, hidden_units=8, n_hidden=2, epochs=4, n_networks=2,
        n_theta=20, random_state=0,
    )  # fmt: skip
    errors = roots @ roots.swapaxes(1, 2)
    p = model.fit(X, X.sum(1), X_err=errors).predict_distribution(X[:5], X_err=errors[:5])
    for part in (p.mean, p.epistemic, p.aleatoric):
        assert np.isfinite(part).all()
    assert (p.epistemic > 0).all()
    assert (p.aleatoric > 0).any()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OWN_DRAWS])
def test_modules_without_dropout_will_do(name):
    posterior = ready(name, build=lambda: nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)))
    with torch.no_grad():
        zeta = torch.randn(3, 4, 6, 2, dtype=torch.float64)
        assert posterior.evaluate(posterior.draw(streams(dtype=torch.float64), 4), zeta).isfinite().all()


@pytest.mark.parametrize("name", OWN_DRAWS)
def test_dropout_families_need_a_dropout_layer(name):
    with pytest.raises(ValueError, match="no dropout layer"):
        small(name, build=lambda: nn.Linear(2, 1))


def test_an_ensemble_needs_members(line):
    with pytest.raises(ValueError, match=r"n_networks must be 2 at least for posterior='ensemble'.*got 1"):
        EiVRegressor(posterior="ensemble", recipe="paper").fit(*line)


@pytest.mark.parametrize("missing", ["draw", "theta", "kl"])
def test_a_family_without_one_of_the_papers_requirements_cannot_be_made(missing):
    stack = small("ensemble").stack
    methods = {name: getattr(PointPosterior, name) for name in ("draw", "theta", "kl")}
    assert isinstance(type("Whole", (WeightPosterior,), methods)(stack, 1.0), WeightPosterior)
    del methods[missing]
    with pytest.raises(TypeError, match=f"abstract method '?{missing}'?"):
        type("Incomplete", (WeightPosterior,), methods)(stack, 1.0)


@every_family
def test_the_closed_form_is_there_or_missed(name):
    posterior, zeta = ready(name), torch.randn(3, 6, 2, dtype=torch.float64)
    if posterior.in_closed_form:
        assert posterior.mean(zeta).shape == posterior.theta_variance(zeta).variance.shape == (3, 6, 1)
        return
    for missed in (posterior.mean, posterior.theta_variance):
        with pytest.raises(NotImplementedError, match=f"{type(posterior).__name__} knows no .* in closed form"):
            missed(zeta)


def test_the_families_are_these():
    assert list(FAMILIES) == [
        "bernoulli_dropout", "gaussian_dropout", "variational_dropout", "concrete_dropout", "mean_field", "ensemble",
        "last_layer_laplace", "linearised_laplace", "swag",
    ]  # fmt: skip
