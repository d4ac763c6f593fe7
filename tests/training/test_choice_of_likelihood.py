"""`likelihood="auto"`: held-out labels over folds choose, and the model says what was chosen."""

import numpy as np
import pytest

from eiv import EiVRegressor
from eiv.io.modelfile import read_header
from eiv.likelihoods import VaryingLikelihood
from eiv.report.provenance import header_lines
from eiv.training import choosing
from eiv.training.evidence import LeftOut

FAST = {"hidden_units": 8, "n_hidden": 1, "epochs": 3, "n_theta": 4, "random_state": 0}
RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, (90, 1))
Y = np.sin(3 * X[:, 0]) + 0.1 * RANDOM.standard_normal(90)


def densities(gains):
    """Scores whose log densities differ from those of normal noise by a mean and a scatter."""

    def score(model, table):
        mean, scatter = gains.get(model.settings.likelihood, (0.0, 0.0))
        alternating = np.where(np.arange(len(table.x)) % 2, 1.0, -1.0)
        counts = np.ones(len(table.x)) if table.weights is None else table.weights
        return choosing.Score(mean + scatter * alternating, LeftOut(np.ones(len(table.x)), counts), 1.0)

    return score


@pytest.mark.parametrize(
    ("gains", "chosen"),
    [
        ({}, "normal"),
        ({"student_t": (0.3, 0.5)}, "student_t"),  # standard error 0.5 / sqrt(90) = 0.053
        ({"student_t": (0.12, 0.5)}, "normal"),  # 0.12 - 2 * 0.053 < 0.02
        ({"student_t": (0.3, 0.5), "varying": (0.4, 0.5)}, "varying"),
        ({"varying": (np.inf, 0.0)}, "normal"),
        ({"normal": (np.nan, 0.0)}, "student_t"),
        ({"student_t": (-1.0, 0.0), "varying": (0.019, 0.0)}, "normal"),  # clear, but not worth it
    ],
)
@pytest.mark.usefixtures("any_head")
def test_another_than_normal_noise_has_to_be_clearly_better(monkeypatch, gains, chosen):
    monkeypatch.setattr(choosing, "_score", densities(gains))
    model = EiVRegressor(likelihood="auto", **FAST).fit(X, Y)
    assert model.settings_.likelihood == chosen
    words = model.model_.record.likelihood_choice
    assert words.startswith(f"{chosen}, by the log density of held-out labels")
    for name, (mean, scatter) in gains.items() if np.isfinite(list(gains.values())).all() else ():
        assert f"{name} {mean:+.3f} ± {scatter / 90**0.5:.3f}" in words


@pytest.mark.usefixtures("any_head")
def test_the_fit_is_that_of_the_likelihood_chosen(monkeypatch, tmp_path):
    monkeypatch.setattr(choosing, "_score", densities({"varying": (1.0, 0.0)}))
    model = EiVRegressor(0.1, likelihood="auto", **FAST).fit(X, Y)
    plain = EiVRegressor(0.1, likelihood="varying", **FAST).fit(X, Y)
    assert np.array_equal(model.predict(X), plain.predict(X))
    assert plain.model_.record.likelihood_choice == ""
    model.save(tmp_path / "model.eiv")
    again = EiVRegressor.load(tmp_path / "model.eiv")
    assert again.model_.record.likelihood_choice == model.model_.record.likelihood_choice != ""
    lines = dict(header_lines(read_header(tmp_path / "model.eiv")))
    assert lines["likelihood"] == model.model_.record.likelihood_choice


def test_folds_are_of_all_rows_and_apart(monkeypatch):
    seen = []

    def fit_models(specs, tables, on_progress=None):
        seen.append([each.x[:, 0].tolist() for each in tables])
        return [None] * len(tables)

    def score(model, table):
        return choosing.Score(table.x[:, 0], LeftOut(*np.ones((2, len(table.x)))), 1.0)

    monkeypatch.setattr(choosing, "_score", score)
    table = EiVRegressor(**FAST)._check_table(X, Y, None)
    spec = choosing.Spec(EiVRegressor(**FAST)._arguments, 0)
    with monkeypatch.context() as patch:
        patch.setattr(choosing, "fit_models", fit_models)
        found = choosing._of_folds(spec, table, "normal", None)
    assert sorted(found.log_densities) == sorted(X[:, 0])  # each row is held out once
    for fold, learned in enumerate(seen[0]):
        assert len(learned) == 60
        assert not set(learned) & set(found.log_densities[30 * fold : 30 * fold + 30])


@pytest.mark.slow
def test_without_finite_densities_noise_is_normal():
    """In one fold all labels that are learned are the same, so that no label has a density."""
    y = np.r_[1.0, np.zeros(59)]
    model = EiVRegressor(0.1, likelihood="auto", **FAST).fit(X[:60], y)
    assert model.settings_.likelihood == "normal"
    assert "held-out labels is not finite" in model.model_.record.likelihood_choice


def test_the_labels_held_out_from_all_rows_may_object_to_the_choice(monkeypatch):
    """Of 90 rows 18 are held out, of two thirds of them 12."""
    monkeypatch.setattr(choosing, "_score", densities({"varying": (1.0, 0.0)}))
    monkeypatch.setattr(VaryingLikelihood, "fewest_held_out", 12)
    monkeypatch.setattr(VaryingLikelihood, "objection", lambda self, pool: "18 object" if self.rows[0] > 12 else "")
    model = EiVRegressor(likelihood="auto", **FAST).fit(X, Y)
    assert model.settings_.likelihood == "normal"
    words = model.model_.record.likelihood_choice
    assert words.startswith("varying, by the log density")
    assert "; of all rows normal noise that is the same everywhere, since 18 object" in words


def test_few_rows_are_not_compared():
    model = EiVRegressor(likelihood="auto", **FAST).fit(X[:40], Y[:40])
    assert model.settings_.likelihood == "normal"
    assert "too few rows" in model.model_.record.likelihood_choice


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y_noise": 0.3}, "likelihood: 'auto' compares likelihoods .*y_noise is 0.3"),
        ({"recipe": "paper"}, "y_noise is 'rmse'"),
        ({"network": "cosine"}, "likelihood: 'auto' has no meaning for network='cosine'"),
        ({"likelihood": "best"}, "likelihood must be .*'auto'"),
    ],
)
def test_what_it_does_not_go_with(arguments, words):
    with pytest.raises(ValueError, match=words):
        EiVRegressor(**{"likelihood": "auto"} | arguments).fit(X, Y)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["normal", "student_t", "varying"])
def test_tables_of_each_kind_are_told_apart(chosen):
    """600 rows each. Wild labels and fourfold noise gain 0.1 nats per label and more, see docs/noise.md."""
    random = np.random.default_rng(5)
    zeta = random.uniform(-1, 1, (600, 1))
    sigma = 0.1 * (16 ** ((zeta[:, 0] + 1) / 2) if chosen == "varying" else 1.0)
    y = np.sin(3 * zeta[:, 0]) + sigma * random.standard_normal(600)
    if chosen == "student_t":
        y[::20] += random.choice([-1, 1], 30) * random.uniform(0.5, 3, 30)
    model = EiVRegressor(likelihood="auto", hidden_units=32, n_hidden=2, epochs=150, random_state=0)
    assert model.fit(zeta, y).settings_.likelihood == chosen
