"""The size of the errors of X, learned with the model."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import optimize

import eiv
from eiv import EiVRegressor, estimated, fit_splits
from eiv.datasets import SIMULATED, simulate
from eiv.inputs.sizes import SizePrior
from eiv.io.modelfile import read_header
from eiv.likelihoods import NormalLikelihood
from eiv.report.provenance import words_on_factor
from eiv.training.objective import bound, loss

SMALL = {"network": "cosine", "hidden_units": 16, "random_state": 0}
TINY = SMALL | {"hidden_units": 4}  # where only one fit is compared with another, or its form is asked for


def normal_data(n_rows, x_err, y_noise, seed=0):
    """A line with normal zeta, slope 1 and spread 1."""
    random = np.random.default_rng(seed)
    zeta = random.standard_normal(n_rows)
    x = zeta + x_err * random.standard_normal(n_rows)
    return x[:, None], zeta + y_noise * random.standard_normal(n_rows)


@pytest.fixture(scope="module")
def learned():
    """A quadratic problem whose errors are stated twice as large as they are."""
    data = simulate("quadratic", n_rows=120, random_state=0)
    return EiVRegressor(estimated(0.2, dof=4), **SMALL).fit(data.X, data.y), data


def reference(x, y, y_noise, stated, dof):
    """Mean and standard deviation of log s for normal data with known sigma_y, by the exact likelihood.

    It is maximised over the other parameters, which are free: the variance of zeta and the slope.
    """
    moments = np.cov(x, y, bias=True)

    def negative(parameters, size):
        spread, slope = math.exp(parameters[0]), parameters[1]
        model = np.array([[spread + size**2, slope * spread], [slope * spread, slope**2 * spread + y_noise**2]])
        return 0.5 * len(x) * (np.linalg.slogdet(model)[1] + np.trace(np.linalg.solve(model, moments)))

    t, best = np.linspace(-1.2, 1.2, 121), []
    for each in t:
        best.append(-optimize.minimize(negative, (-0.2, 1.0), (stated * math.exp(each),), method="Nelder-Mead").fun)
    weights = np.array(best) + SizePrior(np.array([dof])).log_density(t, 0)
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    mean = weights @ t
    return mean, math.sqrt(weights @ (t - mean) ** 2)


def test_normal_data_with_known_noise_have_the_size_of_the_closed_form():
    x, y = normal_data(400, x_err=0.6, y_noise=0.3)
    scale = EiVRegressor(estimated(0.4, dof=1), y_noise=0.3, input_prior="normal", **SMALL).fit(x, y).x_err_scale_
    moments = np.cov(x[:, 0], y, bias=True)
    closed = math.sqrt(moments[0, 0] - moments[0, 1] ** 2 / (moments[1, 1] - 0.3**2))
    mean, std = reference(x[:, 0], y, 0.3, 0.4, dof=1)
    assert 0.4 * scale.factor[0] == pytest.approx(closed, rel=0.05)  # with a prior worth one of 400 rows
    assert math.log(scale.factor[0]) == pytest.approx(mean, abs=0.3 * std)
    assert scale.std[0] == pytest.approx(std, rel=0.2)


@pytest.mark.parametrize("dof", [8, 200])
def test_where_everything_is_normal_the_posterior_of_the_size_is_its_prior(dof):
    x, y = normal_data(400, x_err=0.3, y_noise=0.6)
    model = EiVRegressor(estimated(0.3, dof=dof), input_prior="normal", **SMALL).fit(x, y)
    prior, scale = SizePrior(np.array([float(dof)])), model.x_err_scale_
    assert math.log(scale.factor[0]) == pytest.approx(prior.mean[0], abs=0.2 * prior.std[0])
    assert scale.std[0] == pytest.approx(prior.std[0], rel=0.1)
    assert "do not tell the size" in scale.words()[0]
    assert scale.dof[0] == pytest.approx(dof, rel=0.1)
    if dof == 200:
        assert scale.factor[0] == pytest.approx(1, abs=0.02)  # the size that was given


def sizes_by_the_paper_s_loss(data, start, y_noise=None, steps=320, rate=0.1):
    """sigma_x after each quarter of a training that moves its logarithm with the weights, by eq. (mcloss).

    Two hidden layers with dropout, one mask per row for its five zetas, zeta = x + sigma_x e. sigma_y is the RMSE of
    m(x), renewed every 40 steps as in Algorithm 1, or known. The weight penalty is 1.
    """
    generator = torch.Generator().manual_seed(0)
    x, y = torch.tensor(data.X), torch.tensor(data.y)[:, None]
    y, unit = (y - y.mean()) / y.std(), float(y.std())
    n_rows, sizes = len(x), [1, 16, 16, 1]
    weights = [
        (torch.randn(a + 1, b, generator=generator, dtype=torch.float64) / a**0.5).requires_grad_()
        for a, b in itertools.pairwise(sizes)
    ]
    log_size = torch.tensor(math.log(start), dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([*weights, log_size], lr=0.01)

    def f():
        z = x[:, None] + log_size.exp() * torch.randn(n_rows, 5, 1, generator=generator, dtype=torch.float64)
        for layer, each in enumerate(weights):
            if layer:
                mask = torch.rand(n_rows, 1, z.shape[-1], generator=generator, dtype=torch.float64) > rate
                z = torch.nn.functional.leaky_relu(z) * mask / (1 - rate)
            z = z @ each[:-1] + each[-1]
        return z

    sigma, found = 0.5 if y_noise is None else y_noise / unit, []
    for step in range(1, steps + 1):
        kl = (1 - rate) * sum(each.square().sum() for each in weights)
        likelihood = NormalLikelihood(torch.full((1, 1), sigma, dtype=torch.float64))
        adam.zero_grad()
        loss(-bound(likelihood, f()[None], y[None]), kl, n_rows).sum().backward()
        adam.step()
        if step % 40 == 0 and y_noise is None:
            with torch.no_grad():
                mean = torch.stack([f().mean(1) for _ in range(10)]).mean(0)
                sigma = float((mean - y).square().mean().sqrt())
        if step % (steps // 4) == 0:
            found.append(log_size.exp().item())
    return found


def test_the_paper_s_recipe_lets_the_size_fall_towards_zero():
    """It keeps falling, to less than two fifths of the truth, where it begins; with sigma_y known it does not fall."""
    data = simulate("quadratic", n_rows=100, random_state=0)
    found = sizes_by_the_paper_s_loss(data, start=0.1)
    assert [0.1, *found] == sorted([0.1, *found], reverse=True)
    assert found[-1] < 0.04
    assert min(sizes_by_the_paper_s_loss(data, start=0.1, y_noise=0.1, steps=200)) > 0.1


@pytest.mark.slow
def test_a_text_with_degrees_of_freedom_is_an_estimated_error(learned):
    model, data = learned
    same = EiVRegressor("0.2 dof=4", **SMALL).fit(data.X, data.y)
    assert same.x_err_scale_.factor == model.x_err_scale_.factor
    np.testing.assert_array_equal(same.predict(data.X), model.predict(data.X))
    (split,) = fit_splits(EiVRegressor(**TINY), data.X, data.y, [np.arange(40)], X_err=["0.2 dof=4"])
    np.testing.assert_array_equal(split.x_err_scale_.prior_std, model.x_err_scale_.prior_std)
    with pytest.raises(ValueError, match=r"X_err: '0.2 dof=4' is an error of unknown size, .* without dof="):
        model.predict(data.X, X_err="0.2 dof=4")
    with pytest.raises(ValueError, match=r"x_err: '0.2 dof=4' is an error of unknown size"):
        eiv.EiVClassifier(estimated("0.2 dof=4", dof=3), epochs=2).fit(data.X, data.y > 0.3)


def test_a_column_of_errors_may_be_estimated_beside_others():
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(60, 3)), columns=["a", "b", "c"]).assign(e=0.2)
    model = EiVRegressor({"a": "e dof=5", "b": "0.1", "c": 0.0}, **TINY).fit(table, table["a"] + table["b"])
    assert (model.x_err_scale_.prior_std > 0).tolist() == [True, False, False]
    assert model.predict(table).shape == (60,)


def test_parts_of_the_uncertainty_add_up_and_the_size_has_its_own(learned):
    model, data = learned
    p = model.predict_distribution(data.X, budget=True)
    np.testing.assert_allclose(p.std**2, p.epistemic**2 + p.aleatoric**2, rtol=1e-12)
    found = [part.predict(data.X, np.full((1, 1), 0.2)) for _, part in model.model_.by_size]
    shares = [share for share, _ in model.model_.by_size]
    means = np.array([each.mean for each in found])
    np.testing.assert_allclose(p.mean, shares @ means)
    np.testing.assert_allclose(p.of_size**2, shares @ (means - p.mean) ** 2)
    within = shares @ np.array([each.epistemic**2 for each in found])
    np.testing.assert_allclose(p.epistemic**2, within + p.of_size**2)
    np.testing.assert_allclose(p.draws.mean(0), p.mean)
    np.testing.assert_allclose(p.draws.std(0), p.std)
    np.testing.assert_allclose(p.budget()["x0"], 1, atol=1e-6)
    assert list(p.to_frame())[2:4] == ["epistemic", "of_size"]
    np.testing.assert_array_equal(p[:3].of_size, p.of_size[:3])


def test_nodes_have_the_mean_and_spread_of_the_posterior(learned):
    scale = learned[0].x_err_scale_
    logs, shares = np.log([node.factor[0] for node in scale.nodes]), [node.share for node in scale.nodes]
    assert shares @ logs == pytest.approx(math.log(scale.factor[0]))
    assert shares @ (logs - shares @ logs) ** 2 == pytest.approx(scale.std[0] ** 2)


def test_each_size_has_a_prior_and_a_factor_of_its_own(learned):
    model, data = learned
    (_, small), (_, large) = model.model_.by_size
    assert small.factor[0] < large.factor[0]
    assert small.input_prior is not large.input_prior
    curve = model.predict(data.X[:5], X_err=0)  # exact inputs have no size
    np.testing.assert_allclose(curve, model.predict_distribution(data.X[:5], X_err=0).mean)
    flat = model.predict_distribution(data.X, input_prior="flat", keep_draws=False)
    assert not np.allclose(flat.mean, model.predict(data.X))
    drawn = model.draw_zeta(data.X[:3], n_draws=4000, random_state=0)
    spread = drawn.std(0)[:, 0]
    assert ((spread > 0.5 * 0.2 * small.factor[0]) & (spread < 1.5 * 0.2 * large.factor[0])).all()


def test_a_model_file_holds_all_sizes(learned, tmp_path):
    model, data = learned
    model.save(tmp_path / "model.eiv")
    again = EiVRegressor.load(tmp_path / "model.eiv")
    before, after = (each.predict_distribution(data.X) for each in (model, again))
    for name in ("mean", "std", "of_size", "noise", "likeness", "draws"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    assert again.x_err == model.x_err
    assert again.x_err_scale_.words() == model.x_err_scale_.words()
    words = f"{model.x_err_scale_.words()[0]} Errors that are stated for new rows are multiplied in the same way."
    assert words_on_factor(read_header(tmp_path / "model.eiv")) == words


def test_a_budget_has_the_errors_as_they_were_learned(learned):
    """Its inputs have the moments of draws, and the degrees of freedom that the size has."""
    model, data = learned
    budgets = eiv.uncertainty_budgets(model, data.X[:5])
    drawn, p = model.draw_zeta(data.X[:5], 4000, random_state=0)[:, :, 0], model.predict_distribution(data.X[:5])
    np.testing.assert_allclose([budget.quantities[0].std for budget in budgets], drawn.std(0), rtol=0.05)
    np.testing.assert_allclose([budget.quantities[0].value for budget in budgets], drawn.mean(0), atol=0.01)
    np.testing.assert_allclose([budget.std for budget in budgets], p.std)
    dof = budgets[0].quantities[0].dof
    assert SizePrior(np.array([dof])).std == pytest.approx(model.x_err_scale_.std)
    assert budgets[0].dof < math.inf
    assert eiv.uncertainty_budgets(model, data.X[:1], dof={"x0": 5})[0].quantities[0].dof == 5
    np.testing.assert_array_equal(model.x_err_factor_, model.x_err_scale_.factor)
    assert f"<td>stated errors times</td><td>{model.x_err_scale_.factor[0]:.2g} (x0)</td>" in model.model_._repr_html_()


def test_another_population_is_learned_with_the_errors_of_that_size(learned, tmp_path, run, monkeypatch):
    """Rows whose spread is between the stated error and the learned one, so that the stated one is refused."""
    model = learned[0]
    monkeypatch.chdir(tmp_path)
    model.save("m.eiv")
    narrow = np.random.default_rng(0).normal(size=(2000, 1))
    narrow = 0.2 + 0.18 * (narrow - narrow.mean()) / narrow.std()
    assert 0.2 * model.x_err_scale_.factor[0] < 0.16
    with pytest.raises(ValueError, match="is beyond the spread"):
        eiv.LearnedPrior().fit(torch.tensor(narrow), torch.full((1, 1), 0.2))
    pd.DataFrame(narrow, columns=["x"]).to_csv("narrow.csv", index=False)
    status, _, err = run("predict", "m.eiv", "narrow.csv", "-o", "p.csv", "--input-prior", "mixture")
    assert status == 0, err
    prior = eiv.LearnedPrior().fit(torch.tensor(narrow), torch.tensor(0.2 * model.x_err_scale_.factor)[None])
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], model.predict(narrow, input_prior=prior), rtol=1e-9)


@pytest.mark.slow
def test_splits_learn_a_size_each():
    data = simulate("quadratic", n_rows=60, random_state=0)
    model = EiVRegressor(**TINY)
    errors = estimated(np.full((60, 1), 0.1), dof=30)
    found = eiv.fit_splits(model, data.X, data.y, [np.arange(40), np.arange(20, 60)], X_err=errors)
    assert all(each.x_err_scale_.prior_std[0] == pytest.approx(0.13, abs=0.01) for each in found)


@pytest.mark.slow
def test_two_columns_have_a_factor_each_or_one_together():
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (30, 2))
    x, y = zeta + [0.1, 0.2] * random.standard_normal((30, 2)), zeta[:, 0] ** 2 + zeta[:, 1]
    each = EiVRegressor(estimated([0.1, 0.2], dof=20), **TINY).fit(x, y)
    assert len(each.x_err_scale_.nodes) == 4
    assert each.model_.n_networks == 4 * 8
    together = EiVRegressor(estimated([0.1, 0.2], dof=20, together=True), **TINY).fit(x, y)
    assert np.ptp(together.x_err_scale_.factor) == 0
    assert len(together.x_err_scale_.nodes) == 2


def test_what_cannot_learn_a_size_says_what_can():
    x, y = normal_data(30, 0.1, 0.1)
    with pytest.raises(ValueError, match="is learned with network='cosine' only"):
        EiVRegressor(estimated(0.1, dof=8), recipe="paper").fit(x, y)
    with pytest.raises(ValueError, match="x_err_factor must be left out"):
        EiVRegressor(estimated(0.1, dof=8), x_err_factor=0.5).fit(x, y)
    with pytest.raises(ValueError, match="5 columns have errors of unknown size"):
        EiVRegressor(estimated(0.1, dof=8)).fit(np.random.default_rng(0).normal(size=(30, 5)), y)
    with pytest.raises(ValueError, match="labels that are numbers only"):
        eiv.EiVClassifier(estimated(0.1, dof=8)).fit(x, y > 0)


def test_rows_to_predict_have_stated_errors(learned):
    with pytest.raises(ValueError, match="the size of errors is learned in a fit"):
        learned[0].predict([[0.0]], X_err=estimated(0.1, dof=8))


@pytest.mark.parametrize("with_labels", [False, True])
def test_true_inputs_are_those_of_all_sizes(learned, with_labels):
    model, data = learned
    X, y = data.X[:5], data.y[:5] if with_labels else None
    found = model.true_inputs(X, y, n_draws=400)
    parts = [
        part.true_inputs(X, np.full((1, 1), 0.2), None if y is None else y[:, None], n_draws=400)
        for _, part in model.model_.by_size
    ]
    shares = np.array([share for share, _ in model.model_.by_size])
    means, stds = (np.array([getattr(each, name)[:, 0] for each in parts]) for name in ("mean", "std"))
    np.testing.assert_allclose(found.mean[:, 0], shares @ means)
    variance = shares @ (stds**2 + means**2) - (shares @ means) ** 2
    np.testing.assert_allclose(found.std[:, 0] ** 2, variance)
    np.testing.assert_allclose(found.covariance[:, 0, 0], variance)
    assert found.draws.shape == (400, 5, 1)
    scatter = found.std / 400**0.5  # stratified draws scatter less
    assert (np.abs(found.draws.mean(0) - found.mean) < 3 * scatter).all()
    small = np.isin(found.draws, parts[0].draws).all((1, 2))
    assert small.mean() == pytest.approx(shares[0], abs=1 / 400)
    if not with_labels:
        drawn = model.draw_zeta(X, n_draws=4000, random_state=0)
        np.testing.assert_allclose(found.std, drawn.std(0), rtol=0.1)


@pytest.mark.slow
def test_the_size_of_a_law_is_learned_beside_missing_readings(tmp_path):
    """A line with rectangular errors of the first column, and gaps in the second, whose readings are exact.

    With sigma_y known the size has the closed form of normal data, by the moments alone. Its standard error for 250
    rows is 4.6 % (2,000 simulated tables); three of them are allowed, and the prior of the size pulls by less than one.
    """
    random = np.random.default_rng(0)
    zeta, other = random.standard_normal((2, 250))
    x = zeta + random.uniform(-1.0, 1.0, 250)  # sigma_x = 0.577; stated: 0.4
    y = zeta + 0.5 * other + 0.3 * random.standard_normal(250)
    X = pd.DataFrame({"a": x, "b": np.where(random.random(250) < 0.1, np.nan, other)})
    errors = estimated([eiv.rectangular(0.7), 0.0], dof=4)
    model = EiVRegressor(errors, missing="integrate", y_noise=0.3, **SMALL | {"hidden_units": 8}).fit(X, y)
    scale = model.x_err_scale_
    assert 0.7 * scale.factor[0] == pytest.approx(1.0, rel=0.14)
    assert (scale.factor[1], scale.std[1]) == (1, 0)
    assert 0.02 < scale.std[0] < 0.2
    assert scale.dof.tolist() == [pytest.approx(0.5 * scale.std[0] ** -2, rel=0.02), math.inf]  # by the rule of the GUM
    assert f"<td>{scale.factor[0]:.2g} (a)</td>" in model.model_._repr_html_()
    model.save(tmp_path / "model.eiv")
    again = EiVRegressor.load(tmp_path / "model.eiv")
    for each in (model, again):
        (words,) = each.x_err_scale_.words()
        assert words.startswith("The errors of a are ")
    np.testing.assert_array_equal(model.predict(X[:9]), again.predict(X[:9]))
    found = again.true_inputs(X[:9], y[:9])
    assert (found.std[:, 0] < 0.577 * 1.2).all()
    assert ((found.std[:, 1] > 0) == np.isnan(X["b"][:9])).all()


def test_errors_are_plausible_by_the_small_end_of_their_sizes():
    x, y = normal_data(60, 0.3, 0.3)
    with pytest.raises(ValueError, match="x_err at the small end of its sizes is beyond the spread"):
        EiVRegressor(estimated(30.0, dof=8), **SMALL).fit(x, y)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wrong", [0.5, 2.0])
@pytest.mark.parametrize("problem", ["cubic", "sine"])
def test_a_size_stated_at_half_or_double_is_found_within_15_percent(problem, wrong):
    data, truth = simulate(problem, n_rows=600, random_state=0), SIMULATED[problem].x_err
    model = EiVRegressor(estimated(wrong * truth, dof=4), **SMALL | {"hidden_units": 64}).fit(data.X, data.y)
    assert wrong * model.x_err_scale_.factor[0] == pytest.approx(1, abs=0.15)


def test_the_posterior_of_a_size_is_normal_data_s_own_reference():
    """The reference of this file against the closed form, so that it is one."""
    x, y = normal_data(4000, x_err=0.6, y_noise=0.3)
    moments = np.cov(x[:, 0], y, bias=True)
    closed = math.sqrt(moments[0, 0] - moments[0, 1] ** 2 / (moments[1, 1] - 0.3**2))
    mean, _ = reference(x[:, 0], y, 0.3, 0.4, dof=1)
    assert 0.4 * math.exp(mean) == pytest.approx(closed, rel=0.01)


def test_estimated_errors_inside_of_others_are_refused():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20.0)
    with pytest.raises(ValueError, match="stands around the errors of all columns"):
        EiVRegressor([eiv.estimated(0.1, dof=8), 0.1]).fit(X, y)
