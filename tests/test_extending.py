"""What can be added from outside the package, as objects: a weight family, a rule for sigma_y, a prior, a likelihood.

Each is trained, predicted with, saved with a note, and refused at load until it is given again.
"""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import clone

from eiv import EiVRegressor, ModelFileError, Prediction
from eiv.likelihoods import ByBound, ByError, Likelihood, StudentTLikelihood
from eiv.posteriors import MeanField, WeightPosterior
from eiv.training.choosing import _score
from eiv.training.fitting import Table, _check_one_kind
from eiv.training.settings import settings_for
from extensions import CommonFactor, FactorOfSize, FixedShare, ShrinkageLearner, Shrunk
from likelihoods.student_t import StudentT, StudentTOf

FAST = {"hidden_units": 16, "n_hidden": 2, "epochs": 20, "n_theta": 40, "random_state": 0, "dtype": "float64"}


OWN = [
    ("posterior", CommonFactor),
    ("posterior", FactorOfSize(0.3)),
    ("y_noise", FixedShare()),
    ("input_prior", Shrunk()),
    ("likelihood", StudentT),
    ("likelihood", StudentTOf(4.0)),
]


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (80, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * random.standard_normal(80)


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
@pytest.mark.parametrize(("name", "own"), OWN)
def test_it_is_trained_predicted_with_and_saved_with_a_note(name, own, table, tmp_path):
    X, y = table
    plain = {"posterior": "bernoulli_dropout", "dropout": 0.1, "input_prior": "flat", "y_noise": "rmse"}
    model = clone(EiVRegressor(0.1, **FAST | plain | {name: own})).fit(X, y)
    p = model.predict_distribution(X[:5])
    assert (p.std > 0).all()
    assert np.isfinite(p.quantile([0.1, 0.9], of="label")).all()
    model.save(tmp_path / "m.eiv")
    with pytest.raises(
        ModelFileError, match=rf"fitted with an? [a-z_ ]+ of the user's own .*load\(path, {name}=\.\.\.\)"
    ):
        EiVRegressor.load(tmp_path / "m.eiv")
    again = EiVRegressor.load(tmp_path / "m.eiv", **{name: own})
    for part in ("mean", "epistemic", "aleatoric", "noise"):
        np.testing.assert_array_equal(getattr(again.predict_distribution(X[:5]), part), getattr(p, part))


def test_a_learner_of_ones_own_is_given_again_as_it_was_fitted(table, tmp_path):
    X, y = table
    model = EiVRegressor(0.1, **FAST | {"recipe": "paper", "input_prior": ShrinkageLearner()}).fit(X, y)
    assert isinstance(model.input_prior_, Shrunk)
    model.save(tmp_path / "m.eiv")
    with pytest.raises(
        ModelFileError, match=r"an input prior of the user's own .* `input_prior_` of the model that was"
    ):
        EiVRegressor.load(tmp_path / "m.eiv")
    with pytest.raises(ModelFileError, match=r"must be the prior as it was fitted.*\(of type Shrunk\), got .*Learner"):
        EiVRegressor.load(tmp_path / "m.eiv", input_prior=ShrinkageLearner())
    again = EiVRegressor.load(tmp_path / "m.eiv", input_prior=model.input_prior_)
    np.testing.assert_array_equal(again.predict(X[:5]), model.predict(X[:5]))


@pytest.mark.parametrize("own", [CommonFactor, FactorOfSize(0.3)])
def test_a_family_of_ones_own_varies_as_it_says(own, table):
    """f is m + 0.1 e times a line through zero, so the epistemic std is 0.1 |f|: four standard errors of 200 draws.

    The mean of e moves m from 1 where it is learned.
    """
    X, y = table

    def module(n_inputs, n_outputs):
        return torch.nn.Linear(n_inputs, n_outputs, bias=False)

    model = EiVRegressor(
        None, posterior=own, module=module, standardise=False, n_theta=200, epochs=50, dtype="float64",
        random_state=0, recipe="paper",
    ).fit(X, y)  # fmt: skip
    p = model.predict_distribution(X)
    f = X @ model.posterior_.stack.parameters["weight"][0, 0].detach().numpy()
    ratio = np.sqrt(np.mean(p.epistemic**2) / np.mean((own.size * f) ** 2))
    assert abs(ratio - 1) < 4 / (2 * 200) ** 0.5


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
def test_a_rule_of_ones_own_decides(table):
    X, y = table
    model = EiVRegressor(0.1, y_noise=FixedShare(), held_out=0.0, **FAST, recipe="paper").fit(X, y)
    assert model.y_noise_[0] == pytest.approx(0.1 * y.std(ddof=1))


def test_a_likelihood_of_ones_own_makes_the_labels(table):
    X, y = table
    model = EiVRegressor(0.1, likelihood=StudentT, y_noise=0.2, **FAST, recipe="paper").fit(X, y)
    p = model.predict_distribution(X[:3])
    np.testing.assert_allclose(p.noise, 0.2 * (5 / 3) ** 0.5)
    assert (p.samples(of="label", random_state=0).std(0) > 0.2).all()
    certain = Prediction(p.mean, 0 * p.mean, 0 * p.mean, p.noise, labels=p.labels)
    for level in (0.95, 0.999):
        low, high = certain.interval(level, of="label")
        np.testing.assert_allclose((high - low) / 2, 0.2 * stats.t.ppf((1 + level) / 2, 5))
        np.testing.assert_allclose((high + low) / 2, p.mean)
    held_out = Table(X, np.full((1, 2), 0.1), y[:, None])
    q = model.predict_distribution(X)
    assert np.array_equal(_score(model.model_, held_out).log_densities, q.labels.moment_log_density(q.mean, q.std, y))
    low, high = p.interval(0.999, of="label")
    assert (high - low > 1.1 * 2 * stats.norm.ppf(0.9995) * p.total).all()


class Unfinished(Likelihood):
    def draw(self, f, streams, y_err=None):
        return f


class Undrawn(WeightPosterior):
    def kl(self):
        return self.squares()


@pytest.mark.parametrize(
    ("name", "own", "words"),
    [
        ("likelihood", Unfinished, "Unfinished has to define labels, log_density, score, start, state, std"),
        ("posterior", Undrawn, "Undrawn has to define draw, theta"),
    ],
)
def test_methods_that_are_missing_are_named(name, own, words, table):
    with pytest.raises(ValueError, match=words):
        EiVRegressor(0.1, **{name: own}).fit(*table)


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
def test_another_family_at_load_is_named(table, tmp_path):
    EiVRegressor(0.1, posterior=FactorOfSize(0.3), **FAST, recipe="paper").fit(*table).save(tmp_path / "m.eiv")
    with pytest.raises(ModelFileError, match="was fitted with posterior FactorOfSize; CommonFactor was given"):
        EiVRegressor.load(tmp_path / "m.eiv", posterior=CommonFactor)


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
@pytest.mark.parametrize(
    ("name", "own", "other", "words"),
    [
        ("posterior", FactorOfSize(0.3), FactorOfSize(np.float32(0.5)), r"FactorOfSize\(size=0\.3\); .*\(size=0\.5\)"),
        ("input_prior", Shrunk(0.8), Shrunk(), r"Shrunk\(factor=0\.8\); Shrunk\(factor=0\.9\)"),
    ],
)
def test_an_object_with_other_numbers_is_refused_at_load(name, own, other, words, table, tmp_path):
    EiVRegressor(0.1, **FAST | {"recipe": "paper", "epochs": 1, name: own}).fit(*table).save(tmp_path / "m.eiv")
    with pytest.raises(ModelFileError, match=f"was fitted with {name} {words}"):
        EiVRegressor.load(tmp_path / "m.eiv", **{name: other})


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
def test_another_name_at_load_is_warned_about(table, tmp_path):
    class Renamed(CommonFactor):
        pass

    EiVRegressor(0.1, posterior=CommonFactor, **FAST, recipe="paper").fit(*table).save(tmp_path / "m.eiv")
    with pytest.warns(UserWarning, match=r"fitted with posterior CommonFactor; .*Renamed was given"):
        EiVRegressor.load(tmp_path / "m.eiv", posterior=Renamed)
    EiVRegressor(0.1, likelihood=StudentTOf(4.0), **FAST, recipe="paper").fit(*table).save(tmp_path / "t.eiv")
    with pytest.warns(UserWarning, match=r"StudentTOf\(FREEDOM=4\.0, scale=None\); StudentTOf\(FREEDOM=5\.0"):
        EiVRegressor.load(tmp_path / "t.eiv", likelihood=StudentTOf(5.0))


class Counts(FixedShare):
    """Keeps under a private name what changes with use."""

    def __init__(self, share=0.1):
        self.share, self._asked = share, 0

    def renewed(self, *args):
        self._asked += 1
        return super().renewed(*args)


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
def test_what_is_private_is_not_compared(table, tmp_path):
    EiVRegressor(0.1, y_noise=Counts(), **FAST, recipe="paper").fit(*table).save(tmp_path / "m.eiv")
    EiVRegressor.load(tmp_path / "m.eiv", y_noise=Counts())
    with pytest.raises(ModelFileError, match=r"Counts\(share=0\.1\); Counts\(share=0\.2\)"):
        EiVRegressor.load(tmp_path / "m.eiv", y_noise=Counts(0.2))


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
@pytest.mark.parametrize(
    ("name", "ours", "word"),
    [
        ("posterior", MeanField, "mean_field"),
        ("likelihood", StudentTLikelihood, "student_t"),
        ("y_noise", ByBound(), "likelihood"),
        ("y_noise", ByError(less_explained=True), "residual"),
    ],
)
def test_classes_and_objects_of_ours_are_saved_by_their_names(name, ours, word, table, tmp_path):
    X, y = table
    settings = FAST | {"recipe": "paper", "epochs": 2, "y_noise": "likelihood"}
    model = EiVRegressor(0.1, **settings | {name: ours}).fit(X, y)
    by_name = EiVRegressor(0.1, **settings | {name: word}).fit(X, y)
    model.save(tmp_path / "m.eiv")
    by_name.save(tmp_path / "named.eiv")
    assert (tmp_path / "m.eiv").read_bytes() == (tmp_path / "named.eiv").read_bytes()
    again = EiVRegressor.load(tmp_path / "m.eiv")
    assert getattr(again, name) == word
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_likelihood_of_ones_own_keeps_its_parameters(table):
    X, y = table
    model = EiVRegressor(0.1, likelihood=StudentTOf(4.0), y_noise=0.2, **FAST, recipe="paper").fit(X, y)
    np.testing.assert_allclose(model.predict_distribution(X[:3]).noise, 0.2 * 2**0.5)


def test_objects_of_one_stack_are_alike():
    """A stack is of one kind: its first object would serve all models."""
    same, other = (settings_for({"recipe": "paper", "posterior": FactorOfSize(size)}, 9) for size in (0.3, 0.2))
    _check_one_kind([same, settings_for({"recipe": "paper", "posterior": FactorOfSize(0.3)}, 9)])
    with pytest.raises(ValueError, match="posterior must be the same for all models of a stack"):
        _check_one_kind([same, other])


def test_a_fitted_posterior_is_no_family(table):
    model = EiVRegressor(0.1, posterior=FactorOfSize(0.1), **FAST, recipe="paper").fit(*table)
    with pytest.raises(ValueError, match=r"posterior must be .* an object of one that has no networks yet"):
        EiVRegressor(0.1, posterior=model.posterior_).fit(*table)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("posterior", dict),
        ("likelihood", dict),
        ("y_noise", object()),
        ("likelihood", StudentT(5.0)),  # `start` is a class method, and would lose the number
        ("likelihood", StudentTOf),  # `start` is that of an object
    ],
)
def test_what_is_neither_ours_nor_of_the_right_kind_is_refused(name, value, table):
    with pytest.raises(ValueError, match=f"{name} must be"):
        EiVRegressor(0.1, **{name: value}).fit(*table)
