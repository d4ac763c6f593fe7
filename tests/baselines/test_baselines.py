"""What a user would try instead: each method against its closed form or the library behind it."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

import eiv
from eiv.baselines import (
    BoostedTrees,
    GaussianProcess,
    LeastSquares,
    NoisyInputGaussianProcess,
    OrthogonalDistance,
    RegressionCalibration,
    Simex,
    YorkLine,
)
from eiv.baselines.base import std_through
from eiv.extras import is_installed
from eiv.metrics import coverage

needs_odrpack = pytest.mark.skipif(not is_installed("odrpack"), reason="needs odrpack")
SEEDED = {"random_state": 0}
METHODS = [
    LeastSquares(),
    GaussianProcess(**SEEDED),
    BoostedTrees(**SEEDED),
    RegressionCalibration(),
    Simex(n_remeasured=3, **SEEDED),
    NoisyInputGaussianProcess(n_rounds=1, **SEEDED),
    *([OrthogonalDistance(), OrthogonalDistance(degree=2)] if is_installed("odrpack") else []),
]
WITH_ERRORS = [
    type(method)(0.2, **{k: v for k, v in method.get_params().items() if k != "x_err"}) for method in METHODS
]
NAMES = [repr(method).partition("(")[0] for method in METHODS]
# Pearson's points with York's weights, 1901 and 1966.
X_OF_PEARSON = [0.0, 0.9, 1.8, 2.6, 3.3, 4.4, 5.2, 6.1, 6.5, 7.4]
Y_OF_PEARSON = [5.9, 5.4, 4.4, 4.6, 3.5, 3.7, 2.8, 2.8, 2.4, 1.5]
X_WEIGHTS = [1000, 1000, 500, 800, 200, 80, 60, 20, 1.8, 1]
Y_WEIGHTS = [1, 1.8, 4, 8, 20, 20, 70, 70, 100, 500]


@parametrize_with_checks([*METHODS, WITH_ERRORS[3], WITH_ERRORS[4]])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def table():
    """Two noisy columns with errors by row, and a curved f: X, X_err, y."""
    random = np.random.default_rng(1)
    zeta, X_err = random.normal(size=(120, 2)), random.uniform(0.1, 0.4, (120, 2))
    X = zeta + X_err * random.normal(size=(120, 2))
    return X, X_err, np.sin(zeta[:, 0]) + zeta[:, 1] + 0.2 * random.normal(size=120)


@pytest.fixture
def noisy_line():
    """One column with normal true inputs, errors 0.5, a line of slope 2 and noise 0.3: X, y."""
    random = np.random.default_rng(0)
    zeta = random.normal(3, 1, (400, 1))
    return zeta + 0.5 * random.normal(size=(400, 1)), 2 * zeta[:, 0] + 1 + 0.3 * random.normal(size=400)


SQUARE = 5e-8  # a least sum of squares leaves the square root of the rounding error open, 1.5e-8


@pytest.fixture
def small():
    """Thirty rows of one column, errors of both by row: X, X_err, y, y_err."""
    random = np.random.default_rng(3)
    zeta, X_err = random.normal(size=(30, 1)), random.uniform(0.2, 0.6, (30, 1))
    y_err = random.uniform(0.1, 0.3, 30)
    return zeta + X_err * random.normal(size=(30, 1)), X_err, 2 * zeta[:, 0] + y_err * random.normal(size=30), y_err


def by_scikit_learn(x, X_err, y, y_err):
    return LinearRegression().fit(x, y).predict(x)


def by_its_gaussian_process(x, X_err, y, y_err):
    rows = np.random.default_rng(0).permutation(30)  # the sums of a kernel have the order of the rows
    kernel = ConstantKernel() * RBF(np.ones(1)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, alpha=1e-10 + y_err[rows] ** 2, random_state=0).fit(x[rows], y[rows])
    return process.predict(x)


def by_its_trees(x, X_err, y, y_err):
    columns = np.hstack([x, X_err])
    return HistGradientBoostingRegressor(random_state=0).fit(columns, y).predict(columns)


def by_odrpack(x, X_err, y, y_err):
    fit = pytest.importorskip("odrpack").odr_fit(
        lambda z, b: b[0] + b[1] * z, x[:, 0], y, [0.0, 1.0], weight_x=X_err[:, 0] ** -2.0, weight_y=y_err**-2.0,
        sstol=1e-16, partol=1e-16, diff_scheme="central",
    )  # fmt: skip
    return fit.beta[0] + fit.beta[1] * x[:, 0]


def by_york(x, X_err, y, y_err):
    """His iteration of the slope, in the form of York et al. 2004, Am. J. Phys. 72, for independent errors."""
    u, slope = x[:, 0], 1.0
    wx, wy = X_err[:, 0] ** -2.0, y_err**-2.0
    for _ in range(200):
        weights = wx * wy / (wx + slope**2 * wy)
        du, dy = (each - np.average(each, weights=weights) for each in (u, y))
        beta = weights * (du / wy + slope * dy / wx)
        slope = np.sum(weights * beta * dy) / np.sum(weights * beta * du)
    return np.average(y, weights=weights) + slope * (u - np.average(u, weights=weights))


@pytest.mark.parametrize(
    ("method", "direct", "rtol"),
    [
        (LeastSquares(), by_scikit_learn, 1e-12),
        (GaussianProcess(**SEEDED), by_its_gaussian_process, 1e-9),
        (BoostedTrees(**SEEDED), by_its_trees, 1e-12),
        pytest.param(OrthogonalDistance(), by_odrpack, SQUARE, marks=needs_odrpack),
        pytest.param(YorkLine(), by_odrpack, SQUARE, marks=needs_odrpack),
        pytest.param(YorkLine(), by_york, SQUARE, marks=needs_odrpack),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_numbers_are_those_of_a_direct_call_of_its_library(small, method, direct, rtol):
    """In standardised units, which a library alone would be given."""
    X, X_err, y, y_err = small
    centre, scale, middle, unit = X.mean(), X.std(), y.mean(), y.std()
    own = (X - centre) / scale, X_err / scale, (y - middle) / unit, y_err / unit
    found = method.fit(X, y, X_err=X_err, y_err=y_err).predict(X, X_err=X_err)
    np.testing.assert_allclose(found, middle + unit * direct(*own), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_a_prediction_has_the_parts_of_ours(table, method):
    X, X_err, y = table
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(120) + 1000)
    model = method.fit(frame, y, X_err=X_err, y_err=0.05)
    p = model.predict_distribution(frame[:7], X_err=X_err[:7], y_err=0.3)
    np.testing.assert_allclose(p.total**2, p.epistemic**2 + p.aleatoric**2 + p.noise**2)
    np.testing.assert_allclose(p.noise, np.hypot(model.y_noise_, 0.3))
    assert p.to_frame().index.tolist() == list(range(1000, 1007))
    np.testing.assert_allclose(p.draws.mean(0), p.mean, atol=1e-12)
    np.testing.assert_allclose(p.draws.std(0), p.std, atol=1e-12)
    low, high = p.interval(0.9, of="label")
    np.testing.assert_allclose(high - low, 2 * 1.6448536 * p.total)
    alone = model.predict_distribution(frame[3:4], X_err=X_err[3:4])
    np.testing.assert_allclose([alone.mean[0], alone.std[0]], [p.mean[3], p.std[3]])
    with pytest.warns(eiv.LabelErrorWarning):
        alone.interval(of="label")


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_labels_lie_in_their_intervals(table, method):
    """Of 2,000 new rows: the band is 4 standard errors of a share of 0.95, and 0.05 for what 120 rows leave open."""
    X, _, y = table
    random = np.random.default_rng(5)
    zeta, X_err = random.normal(size=(2000, 2)), random.uniform(0.1, 0.4, (2000, 2))
    new, labels = zeta + X_err * random.normal(size=zeta.shape), np.sin(zeta[:, 0]) + zeta[:, 1]
    labels += 0.2 * random.normal(size=2000)
    p = method.fit(X, y, X_err=table[1]).predict_distribution(new, X_err=X_err)
    assert abs(coverage(labels, *p.interval(0.95, of="label")) - 0.95) < 0.05 + 4 * np.sqrt(0.05 / 2000)


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_errors_are_refused_in_the_words_of_ours(table, method):
    X, X_err, y = table
    with pytest.raises(ValueError, match=r"x_err must be a number, 2 values"):
        type(method)([0.1, 0.2, 0.3]).fit(X, y)
    with pytest.raises(ValueError, match="X_err must not be negative"):
        method.fit(X, y, X_err=-X_err)
    with pytest.raises(ValueError, match="y is constant"):
        method.fit(X, np.ones(120))
    if method._takes_errors:
        with pytest.raises(ValueError, match="X_err is needed"):
            method.fit(X, y, X_err=X_err).predict(X)
    else:
        assert method.fit(X, y, X_err=X_err).predict(X).shape == (120,)


def test_relative_and_named_errors_are_those_of_ours(table):
    X, _, y = table
    frame = pd.DataFrame(X, columns=["a", "b"])
    found = [
        RegressionCalibration(x_err).fit(frame, y).model_.coef_
        for x_err in (eiv.relative(0.3), {"b": 0.3 * X[:, 1].std(), "a": 0.3 * X[:, 0].std()}, 0.3 * X.std(0))
    ]
    np.testing.assert_allclose(found[1], found[0])
    np.testing.assert_allclose(found[2], found[0])


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_errors_travel_as_columns_of_the_inputs(table, method):
    X, X_err, y = table
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(a_err=X_err[:, 0])
    errors = np.column_stack([X_err[:, 0], np.full(120, 0.2)])
    named = clone(method).set_params(x_err={"a": "a_err", "b": 0.2}).fit(frame, y)
    stated = clone(method).fit(frame[["a", "b"]], y, X_err=errors)
    found, expected = (
        named.predict_distribution(frame[:9]),
        stated.predict_distribution(frame[["a", "b"]][:9], X_err=errors[:9]),
    )
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.total, expected.total)
    assert found.feature_names == ("a", "b")


def of(method, *args, **more):
    return clone(method).fit(*args, **more)


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_units_are_those_of_the_fit(table, method):
    u, (X, X_err, y) = pytest.importorskip("astropy.units"), table
    wanted = of(method, X, y, X_err=X_err, y_err=0.05)
    expected = wanted.predict_distribution(X[:9], X_err=X_err[:9], y_err=0.1)
    model = of(method, X * u.m, y * u.kg, X_err=100 * X_err * u.cm, y_err=50 * u.g)
    found = model.predict_distribution(X[:9] / 1000 * u.km, X_err=100 * X_err[:9] * u.cm, y_err=100 * u.g)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-6)
    score = model.score(X * u.m, 1000 * y * u.g, X_err=X_err)
    assert score == pytest.approx(wanted.score(X, y, X_err=X_err), rel=1e-6)
    assert of(method, X * u.m, y, X_err=[10, 20] * u.cm).x_err_ == pytest.approx([0.1, 0.2])
    with pytest.raises(ValueError, match="X: column 0 is in s, which cannot be converted to m"):
        model.predict(X * u.s, X_err=0.1)
    with pytest.raises(ValueError, match="X_err is in kg, which cannot be converted to m"):
        model.predict(X * u.m, X_err=0.1 * u.kg)
    with pytest.raises(ValueError, match="X_err is in kg, which cannot be converted to m"):
        of(method, X * u.m, y, X_err=[10, 20] * u.kg)
    with pytest.raises(ValueError, match="y_err is in m, which cannot be converted to kg"):
        model.predict_distribution(X * u.m, X_err=0.1, y_err=0.1 * u.m)
    with pytest.raises(ValueError, match="x_err must be plain numbers, in the units of X"):
        clone(method).set_params(x_err=0.1 * u.cm).fit(X * u.m, y)


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_ufloats_are_values_with_errors(table, method):
    unumpy, (X, X_err, y) = pytest.importorskip("uncertainties.unumpy"), table
    model = of(method, unumpy.uarray(X, X_err), unumpy.uarray(y, 0.05))
    expected = of(method, X, y, X_err=X_err, y_err=0.05).predict_distribution(X[:9], X_err=X_err[:9])
    found = model.predict_distribution(unumpy.uarray(X[:9], X_err[:9]))
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.total, expected.total)
    with pytest.raises(ValueError, match="X carries errors of its own, and X_err gives others"):
        of(method, unumpy.uarray(X, X_err), y, X_err=0.1)


def test_tables_of_astropy_hold_errors_in_units_of_their_own(table):
    u, astropy, (X, X_err, y) = pytest.importorskip("astropy.units"), pytest.importorskip("astropy.table"), table
    q = astropy.QTable({"a": X[:, 0] * u.m, "b": X[:, 1] * u.s, "a_err": 100 * X_err[:, 0] * u.cm})
    model = RegressionCalibration({"a": "a_err"}).fit(q, y)
    errors = X_err * [1.0, 0.0]
    expected = RegressionCalibration().fit(X, y, X_err=errors).predict(X, X_err=errors)
    np.testing.assert_allclose(model.predict(q), expected, rtol=1e-9)


def test_masked_values_are_refused(table):
    X, X_err, y = table
    masked = np.ma.array(X, mask=np.eye(120, 2))
    with pytest.raises(ValueError, match="X must hold a value everywhere, but 2 of its 240 values are masked: leave"):
        LeastSquares().fit(masked, y)
    with pytest.raises(ValueError, match="X must hold a value everywhere"):
        LeastSquares().fit(X, y).predict(masked)
    with pytest.raises(ValueError, match="X_err must hold a value everywhere"):
        LeastSquares().fit(X, y, X_err=np.ma.array(X_err, mask=masked.mask))


def test_least_squares_is_that_of_scikit_learn(table):
    X, _, y = table
    ours, theirs = LeastSquares().fit(X, y), LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X))
    design = np.column_stack([np.ones(120), X])
    variance = np.sum((y - theirs.predict(X)) ** 2) / 117
    expected = np.sqrt(variance * np.diag(design @ np.linalg.inv(design.T @ design) @ design.T))
    np.testing.assert_allclose(ours.predict_distribution(X).epistemic, expected)
    assert ours.y_noise_ == pytest.approx(np.sqrt(variance))


def test_the_gaussian_process_is_that_of_scikit_learn(table):
    X, _, y = table
    kernel = ConstantKernel() * RBF(np.ones(2)) + WhiteKernel(0.1)
    centre, scale, unit = X.mean(0), X.std(0), y.std()
    theirs = GaussianProcessRegressor(kernel, random_state=0).fit((X - centre) / scale, (y - y.mean()) / unit)
    mean, std = theirs.predict((X - centre) / scale, return_std=True)
    p = GaussianProcess(random_state=0).fit(X, y).predict_distribution(X)
    np.testing.assert_allclose(p.mean, y.mean() + unit * mean, atol=1e-5)  # rows in another order
    np.testing.assert_allclose(p.total, unit * std, rtol=1e-4)


def test_known_errors_of_labels_are_no_noise_of_the_gaussian_process(noisy_line):
    X, y = noisy_line
    random = np.random.default_rng(3)
    with_more = y + 0.5 * random.normal(size=400)
    alone, known = (GaussianProcess(random_state=0).fit(X, with_more, y_err=y_err) for y_err in (None, 0.5))
    assert known.y_noise_ == pytest.approx(np.sqrt(alone.y_noise_**2 - 0.25), rel=0.02)


def test_boosted_trees_are_those_of_scikit_learn(table):
    X, X_err, y = table
    columns, trees = np.hstack([X, X_err]), HistGradientBoostingRegressor(random_state=0)
    residual = y - cross_val_predict(trees, columns, y, cv=KFold(5, shuffle=True, random_state=0))
    p = BoostedTrees(random_state=0).fit(X, y, X_err=X_err).predict_distribution(X, X_err=X_err)
    np.testing.assert_array_equal(p.mean, trees.fit(columns, y).predict(columns))
    np.testing.assert_allclose(p.total, np.sqrt(np.mean(residual**2)))
    line = BoostedTrees(regressor=LinearRegression()).fit(X, y, X_err=X_err)
    np.testing.assert_allclose(line.predict(X, X_err=X_err), LinearRegression().fit(columns, y).predict(columns))


def test_regression_calibration_of_a_line_is_the_corrected_slope(noisy_line):
    r"""Slope of least squares times Var(x) / (Var(x) - sigma_x^2); sigma_y^2 = s^2 - slope^2 Var(zeta | x)."""
    X, y = noisy_line
    variance, covariance = X[:, 0].var(ddof=1), np.cov(X[:, 0], y)[0, 1]
    model = RegressionCalibration(0.5).fit(X, y)
    slope = covariance / (variance - 0.25)
    assert model.model_.coef_[0] == pytest.approx(slope)
    p = model.predict_distribution(X[:5])
    reliability = 1 - 0.25 / variance
    np.testing.assert_allclose(p.mean, LinearRegression().fit(X, y).predict(X[:5]))  # the prediction is the same
    np.testing.assert_allclose(p.aleatoric, slope * np.sqrt(0.25 * reliability))
    residual = y - LinearRegression().fit(X, y).predict(X)
    s2 = np.sum(residual**2) / 398
    assert model.y_noise_ == pytest.approx(np.sqrt(s2 - slope**2 * 0.25 * reliability))
    assert model.predict([[3.0], [4.0]], X_err=0) @ [-1, 1] == pytest.approx(slope)


def test_regression_calibration_in_two_columns_is_the_corrected_plane(table):
    """The slopes are (S_xx - Sigma_x)^-1 S_xy, also for errors that are correlated."""
    X, _, y = table
    errors = np.array([[[0.1, 0.05], [0.05, 0.08]]])
    together = np.cov(np.column_stack([X, y]).T)
    expected = np.linalg.solve(together[:2, :2] - errors[0], together[:2, 2])
    np.testing.assert_allclose(RegressionCalibration().fit(X, y, X_err=errors).model_.coef_, expected)


def test_regression_calibration_takes_another_regression(table):
    X, X_err, y = table
    exact = RegressionCalibration(regressor=GaussianProcess(**SEEDED)).fit(X, y).predict_distribution(X)
    plain = GaussianProcess(**SEEDED).fit(X, y).predict_distribution(X)
    np.testing.assert_allclose(exact.mean, plain.mean, atol=1e-8)
    np.testing.assert_allclose(exact.total, plain.total, atol=1e-8)
    calibrated = RegressionCalibration(regressor=GaussianProcess(**SEEDED)).fit(X, y, X_err=X_err)
    assert (calibrated.predict_distribution(X, X_err=X_err).aleatoric > 0).all()


def test_simex_of_a_line_from_the_same_draws(small):
    """Lines through x + sqrt(lambda) times drawn errors, and the parabola through their means: to rounding."""
    X, X_err, y, _ = small
    random, new, factors = np.random.default_rng(7), np.array([-1.0, 0.5, 2.0]), (0.0, 0.5, 1.0, 1.5, 2.0)
    means, variances = [], []
    for factor in factors:
        draws = random.standard_normal((6, *X.shape)) if factor else np.zeros((1, *X.shape))
        lines = [line_through((X + np.sqrt(factor) * X_err * each)[:, 0], y, new) for each in draws]
        values, own = (np.array(part) for part in zip(*lines, strict=True))
        means.append(values.mean(0))
        variances.append(own.mean(0) - (values.var(0, ddof=1) if factor else 0))

    def at_no_error(values):
        return np.polyval(np.polyfit(factors, np.array(values), 2), -1)

    model = Simex(n_remeasured=6, random_state=7).fit(X, y, X_err=X_err)
    p = model.predict_distribution(new[:, None], X_err=0)
    np.testing.assert_allclose(p.mean, at_no_error(means), rtol=1e-10)
    np.testing.assert_allclose(p.epistemic**2, np.maximum(at_no_error(variances), 0), rtol=1e-8)
    slope = np.diff(model.predict([[0.0], [1.0]], X_err=0)).item()
    slopes = [(each[1] - each[0]) / 1.5 for each in means]
    assert slope == pytest.approx(at_no_error(slopes), rel=1e-10)
    assert abs(slope - slopes[0]) > 0.1 * abs(slope)  # what the errors take from the slope


def line_through(x, y, new):
    """The least-squares line at new inputs, and the square of its standard error."""
    centred = x - x.mean()
    slope = centred @ y / (centred @ centred)
    residual = y - y.mean() - slope * centred
    variance = residual @ residual / (len(x) - 2)
    return y.mean() + slope * (new - x.mean()), variance * (1 / len(x) + (new - x.mean()) ** 2 / (centred @ centred))


def test_simex_of_a_line_is_the_parabola_through_known_slopes(noisy_line):
    """With many remeasurements, the slope at lambda is cov / (var + lambda sigma_x^2), and SIMEX extrapolates these.

    The slope of one remeasurement scatters by less than 0.1, so that the mean of 200 has a standard error of 0.007;
    the weights of the parabola multiply it by 4 at most, and the band is four of these.
    """
    X, y = noisy_line
    variance, covariance = X[:, 0].var(ddof=1), np.cov(X[:, 0], y)[0, 1]
    factors = np.array([0, 0.5, 1, 1.5, 2])
    slopes = covariance / (variance + factors * 0.25)
    expected = np.polyval(np.polyfit(factors, slopes, 2), -1)
    model = Simex(0.5, n_remeasured=200, random_state=0).fit(X, y)
    assert model.predict([[3.0], [4.0]]) @ [-1, 1] == pytest.approx(expected, abs=0.1)
    assert expected - slopes[0] > 0.2  # what the band has to tell apart


def test_simex_without_errors_is_the_regression_itself(table):
    X, _, y = table
    ours, plain = Simex().fit(X, y).predict_distribution(X), LeastSquares().fit(X, y).predict_distribution(X)
    np.testing.assert_allclose(ours.mean, plain.mean)
    np.testing.assert_allclose(ours.epistemic, plain.epistemic)


@pytest.mark.parametrize("weight", [-1.0, np.nan])
def test_weights_of_a_score_are_those_of_the_estimators(weight):
    X, y = np.arange(10.0)[:, None], 2 * np.arange(10.0)
    model = LeastSquares().fit(X, y + np.sin(X[:, 0]))
    with pytest.raises(ValueError, match="sample_weight must hold finite numbers of at least 0, but 1 of 10 are not"):
        model.score(X, y, sample_weight=[weight, *[1.0] * 9])
    assert model.score(X, y, sample_weight=[0.0, *[1.0] * 9]) == pytest.approx(model.score(X[1:], y[1:]))


@pytest.mark.slow
def test_the_standard_error_of_simex_is_the_scatter_of_its_slopes():
    """Over 40 data sets: the standard error is right within what 40 draws can tell at a level of 1e-3."""
    found, stated = [], []
    for seed in range(40):
        random = np.random.default_rng(seed)
        zeta = random.normal(size=(100, 1))
        X, y = zeta + 0.4 * random.normal(size=(100, 1)), 2 * zeta[:, 0] + 0.3 * random.normal(size=100)
        p = Simex(0.4, n_remeasured=15, random_state=seed).fit(X, y).predict_distribution([[1.0]])
        found.append(p.mean[0])
        stated.append(p.epistemic[0])
    ratio = np.var(found, ddof=1) / np.mean(np.square(stated))
    low, high = chi2(39).ppf([0.0005, 0.9995]) / 39
    assert low < ratio < high


@needs_odrpack
def test_yorks_line_through_pearsons_points():
    odrpack = pytest.importorskip("odrpack")
    X, y = np.array(X_OF_PEARSON)[:, None], np.array(Y_OF_PEARSON)
    X_err, y_err = 1 / np.sqrt(X_WEIGHTS)[:, None], 1 / np.sqrt(Y_WEIGHTS)
    model = YorkLine().fit(X, y, X_err=X_err, y_err=y_err)
    assert model.coef_[0] == pytest.approx(-0.4805334, abs=5e-8)
    assert model.intercept_ == pytest.approx(5.4799102, abs=5e-8)
    # The standard error of the line at x = 0 is that of the intercept, as odrpack has it without its scaling.
    direct = odrpack.odr_fit(
        lambda x, b: b[0] + b[1] * x, X[:, 0], y, [5.0, -0.5], weight_x=np.array(X_WEIGHTS, float),
        weight_y=np.array(Y_WEIGHTS, float), sstol=1e-14, partol=1e-14, diff_scheme="central",
    )  # fmt: skip
    p = model.predict_distribution([[0.0]], X_err=0)
    assert p.epistemic[0] == pytest.approx(np.sqrt(direct.cov_beta[0, 0]), rel=1e-5)
    scaled = OrthogonalDistance().fit(X, y, X_err=X_err, y_err=y_err)
    assert scaled.predict_distribution([[0.0]], X_err=0).epistemic[0] == pytest.approx(direct.sd_beta[0], rel=1e-5)


@needs_odrpack
def test_yorks_line_is_of_one_column(table):
    X, X_err, y = table
    with pytest.raises(ValueError, match="one column for York's line, got 2"):
        YorkLine().fit(X, y, X_err=X_err)


@needs_odrpack
@pytest.mark.parametrize("degree", [1, 2])
def test_orthogonal_distances_are_those_of_odrpack(table, degree):
    """With errors by row that are correlated, and a third column that is exact."""
    odrpack = pytest.importorskip("odrpack")
    X, X_err, y = table
    X = np.column_stack([X, np.random.default_rng(2).normal(size=120)])
    covariances = np.zeros((120, 3, 3))
    covariances[:, :2, :2] = X_err[:, :, None] * X_err[:, None] * np.array([[1, 0.5], [0.5, 1]])
    weights = np.zeros((3, 3, 120))
    weights[:2, :2] = np.linalg.inv(covariances[:, :2, :2]).transpose(1, 2, 0)
    weights[2, 2] = 1

    def curve(x, b):
        return b[0] + sum(b[1 + 3 * d : 4 + 3 * d] @ x ** (d + 1) for d in range(degree))

    fixed = np.zeros((3, 120), dtype=bool)
    fixed[2] = True
    theirs = odrpack.odr_fit(
        curve, X.T.copy(), y, np.full(1 + 3 * degree, 0.3), weight_x=weights, weight_y=np.full(120, 25.0), fix_x=fixed,
        sstol=1e-14, partol=1e-14, diff_scheme="central", maxit=1000,
    )  # fmt: skip
    ours = OrthogonalDistance(degree=degree).fit(X, y, X_err=covariances, y_err=0.2)
    np.testing.assert_allclose(ours.predict(X, X_err=0), curve(X.T, theirs.beta), rtol=1e-4, atol=1e-5)
    if degree == 1:
        np.testing.assert_allclose(ours.coef_, theirs.beta[1:], rtol=1e-4)
        assert ours.intercept_ == pytest.approx(theirs.beta[0], rel=1e-4, abs=1e-5)


@needs_odrpack
def test_with_exact_inputs_orthogonal_distances_are_least_squares(table):
    X, _, y = table
    ours, plain = OrthogonalDistance().fit(X, y, y_err=0.2), LeastSquares().fit(X, y)
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(
        ours.predict_distribution(X, y_err=0).epistemic, plain.predict_distribution(X).epistemic, rtol=1e-5
    )


@needs_odrpack
def test_orthogonal_distances_with_a_normal_truth_have_the_slope_of_moments(noisy_line):
    """For one noise of x and y each, known up to their ratio: Deming's line, a closed form."""
    X, y = noisy_line
    model = OrthogonalDistance(0.5).fit(X, y)
    ratio = RegressionCalibration(0.5).fit(X, y).y_noise_ ** 2 / 0.25
    (sxx, sxy), (_, syy) = np.cov(X[:, 0], y)
    difference = syy - ratio * sxx
    expected = (difference + np.sqrt(difference**2 + 4 * ratio * sxy**2)) / (2 * sxy)
    assert model.coef_[0] == pytest.approx(expected, rel=1e-6)


@needs_odrpack
def test_errors_that_orthogonal_distances_cannot_divide_by_are_refused(table):
    X, _, y = table
    with pytest.raises(ValueError, match="covariances that can be inverted"):
        OrthogonalDistance().fit(X, y, X_err=np.ones((1, 2, 2)))
    with pytest.raises(ValueError, match="y_err must be above 0 for all rows or for none"):
        OrthogonalDistance(0.1).fit(X, y, y_err=np.arange(120.0))


@needs_odrpack
def test_a_fit_that_does_not_converge_is_refused(table, monkeypatch):
    odrpack = pytest.importorskip("odrpack")
    fit = odrpack.odr_fit
    monkeypatch.setattr(odrpack, "odr_fit", lambda *arguments, **options: fit(*arguments, **options | {"maxit": 1}))
    with pytest.raises(ValueError, match="did not converge"):
        OrthogonalDistance().fit(table[0], table[2], X_err=table[1], y_err=0.2)


def test_without_errors_noisy_inputs_are_a_gaussian_process(table):
    X, _, y = table
    ours, plain = (
        kind(**SEEDED).fit(X, y).predict_distribution(X) for kind in (NoisyInputGaussianProcess, GaussianProcess)
    )
    np.testing.assert_array_equal(ours.mean, plain.mean)
    np.testing.assert_array_equal(ours.total, plain.total)


def test_slopes_of_the_gaussian_process_are_its_differences(table):
    X, X_err, y = table
    model = NoisyInputGaussianProcess(**SEEDED).fit(X, y, X_err=X_err)
    x, step = model._inputs.transform(X[:9]), 1e-5
    for j in range(2):
        up, down = (model.model_.predict(x + sign * step * np.eye(2)[j]) for sign in (1, -1))
        np.testing.assert_allclose(model._slopes(x)[:, j], (up - down) / (2 * step), rtol=1e-4, atol=1e-6)


def test_noisy_inputs_explain_the_scatter_that_they_cause():
    """y = 3 x with x in error by 0.1: the labels scatter by 0.3 about the curve, and none of it is noise of y."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-3, 3, (300, 1))
    X, y = zeta + 0.1 * random.normal(size=(300, 1)), 3 * zeta[:, 0] + 0.05 * random.normal(size=300)
    model = NoisyInputGaussianProcess(0.1, **SEEDED).fit(X, y)
    np.testing.assert_allclose(model.predict_distribution([[-1.0], [0.0], [1.0]]).aleatoric, 0.3, rtol=0.05)
    assert model.y_noise_ < 0.1
    assert GaussianProcess(**SEEDED).fit(X, y).y_noise_ == pytest.approx(0.3, rel=0.15)


def test_std_through_a_plane_is_exact():
    covariances = np.array([[[0.04, 0.01], [0.01, 0.09]], [[0.0, 0.0], [0.0, 0.25]]])
    slopes = np.array([2.0, -1.0])
    expected = np.sqrt(np.einsum("i,rij,j->r", slopes, covariances, slopes))
    np.testing.assert_allclose(std_through(lambda z: z @ slopes, np.ones((2, 2)), covariances), expected)


def test_wrong_arguments_are_named(table):
    X, _, y = table
    with pytest.raises(ValueError, match="n_remeasured must be a whole number of at least 2, got 1"):
        Simex(n_remeasured=1).fit(X, y)
    with pytest.raises(ValueError, match="most_rows must be a whole number"):
        GaussianProcess(most_rows=0).fit(X, y)
    with pytest.raises(ValueError, match="random_state must be None, a whole number or a numpy"):
        Simex(0.1, random_state=np.random.default_rng()).fit(X, y)
