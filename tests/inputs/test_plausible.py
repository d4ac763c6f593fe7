"""Errors that cannot be true are refused, those that hardly can are warned about, and all others pass silently."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chi2

from eiv import EiVRegressor, LearnedPrior, SuspiciousErrorWarning, censored, fit_splits, rectangular, relative
from eiv.inputs.mixed import MixedErrors
from eiv.inputs.parts import Parts
from eiv.inputs.plausible import SpreadTest, check_plausible, errors_go_with

FAST = {"hidden_units": 4, "epochs": 1, "n_theta": 4, "random_state": 0, "device": "cpu", "recipe": "paper"}
RANDOM = np.random.default_rng(0)
N = 200
TRUE = RANDOM.uniform(-1, 1, (N, 2))  # spread 0.58
X = TRUE + 0.1 * RANDOM.standard_normal((N, 2))


@pytest.mark.parametrize("n_rows", [2, 3, 50])
def test_equal_errors_have_a_chi_squared_test(n_rows):
    x = RANDOM.normal(5.0, 0.7, n_rows)
    test = SpreadTest.of(x, np.full(n_rows, 0.6))
    ratio = (n_rows - 1) * x.var(ddof=1) / 0.36
    assert test.below == pytest.approx(chi2.cdf(ratio, n_rows - 1), rel=1e-9)
    assert test.above == pytest.approx(chi2.sf(ratio, n_rows - 1), rel=1e-9)
    assert (test.spread, test.error, test.n_rows) == pytest.approx((x.std(ddof=1), 0.6, n_rows))


def test_errors_of_each_row_have_the_variance_of_the_quadratic_form():
    """2 tr (M S M S) / (N - 1)^2, with the matrices written out."""
    errors, x = RANDOM.uniform(0, 2, 7), RANDOM.normal(size=7)
    centring = np.eye(7) - 1 / 7
    product = centring @ np.diag(errors**2)
    mean, variance = np.trace(product) / 6, 2 * np.trace(product @ product) / 36
    assert mean == pytest.approx(np.mean(errors**2))
    freedom = 2 * mean**2 / variance
    expected = chi2.cdf(freedom * x.var(ddof=1) / mean, freedom)
    assert SpreadTest.of(x, errors).below == pytest.approx(expected, rel=1e-9)


ERRORS = {
    "equal, 2 rows": np.ones(2),
    "equal, 8 rows": np.ones(8),
    "equal, 60 rows": np.ones(60),
    "of each row": np.linspace(0.2, 2, 60),
    "half of them zero": np.repeat([0.0, 1.0], 30),
}


@pytest.mark.parametrize("errors", ERRORS.values(), ids=ERRORS)
def test_a_column_of_errors_alone_is_refused_once_in_a_thousand_tables(errors):
    """Of 20,000 tables 20 are expected, and 38 come up with a chance of 2e-4; 5 % are above the upper level.

    Where rows differ the test is an approximation. It errs on the side of few refusals, and by a fifth above.
    """
    tables = 20_000
    x = errors * np.random.default_rng(1).standard_normal((tables, len(errors)))
    tests = [SpreadTest.of(row, errors) for row in x]
    refused = sum(test.below < 1e-3 for test in tests)
    silent = np.mean([test.above <= 0.05 for test in tests])
    equal = np.ptp(errors) == 0
    assert refused <= 38
    assert not equal or refused >= 5  # 1e-4
    assert silent == pytest.approx(0.05, abs=0.006 if equal else 0.01)  # four standard errors are 0.006


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1.0, 1e9, 1e200])
def test_units_do_not_matter(scale):
    x, errors = np.array([1.0, 2.0, 4.0, 3.0]), np.array([0.5, 1.0, 0.0, 2.0])
    plain, scaled = SpreadTest.of(x, errors), SpreadTest.of(scale * x, scale * errors)
    assert (scaled.below, scaled.above) == pytest.approx((plain.below, plain.above), rel=1e-9)
    assert (scaled.spread / scale, scaled.error / scale) == pytest.approx((plain.spread, plain.error))


@pytest.mark.parametrize("x_err", [0.8, 30.0, 1e300])
def test_an_error_beyond_the_spread_is_refused_with_the_numbers(x_err):
    number = re.escape(f"{x_err:g}")
    with pytest.raises(
        ValueError, match=rf"x_err is beyond the spread of X in column 1 \(spread 0\.605, error {number}"
    ):
        check_plausible("x_err", X, np.array([[0.1, x_err]]))
    names = ["length", "mass"]
    with pytest.raises(
        ValueError, match=r"X_err is .* in column 'length' \(.*\), column 'mass' .*error_model='berkson'"
    ):
        check_plausible("X_err", X, np.full((N, 2), x_err), names)
    covariance = np.array([[[min(x_err, 1e100) ** 2, 0.01], [0.01, 0.02]]])
    with pytest.raises(ValueError, match=r"column 0 \(spread"):
        check_plausible("x_err", X, covariance)
    check_plausible("x_err", X, np.full((1, 2), x_err), classical=False)


@pytest.mark.parametrize(
    "x_err", [[[0.1, 0.4]], [[0.0, 0.0]], [[0.0, 1e-300]], np.linspace(0, 0.6, 2 * N).reshape(N, 2)]
)
def test_errors_that_can_be_true_pass(x_err):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_plausible("x_err", X, np.asarray(x_err))


@pytest.mark.parametrize("network", ["paper", "cosine"])
@pytest.mark.parametrize("form", ["all rows", "per row", "covariance"])
def test_the_errors_are_those_times_the_factor(network, form):
    """What the fit takes as the error of X is x_err_factor times the stated one; none where that is 0."""
    given = {"all rows": 0.1, "per row": np.full((N, 2), 0.1), "covariance": np.eye(2)[None] * 0.1**2}[form]
    own = {"module": None, "network": network, "random_state": 0, "device": "cpu"}
    y = TRUE[:, 0]
    for factor in (20.0, 1e305, 1e200):
        with pytest.raises(ValueError, match=r"X_err times x_err_factor \(.*\) is beyond the spread of X in column 0"):
            EiVRegressor(x_err_factor=factor, **own).fit(X, y, X_err=given)
    with pytest.warns(SuspiciousErrorWarning, match=r"x_err times x_err_factor \(6\) is about as large"):
        EiVRegressor(0.1, x_err_factor=6, **FAST).fit(X, y)


def test_errors_that_are_ignored_are_not_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = EiVRegressor(3.0, x_err_factor=0, **FAST).fit(X, TRUE[:, 0])
    assert not model.predict_distribution(X).aleatoric.any()


def test_a_prior_is_not_learned_from_errors_that_cannot_be_true():
    x, error = torch.tensor(X), torch.full((1, 2), 3.0, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"x_err is beyond the spread of X in column 0 \(spread 0\.\d+, error 3,"):
        LearnedPrior().fit(x, error)
    with pytest.raises(ValueError, match=r"the error is beyond .* column 'length' .*, column 'mass'"):
        LearnedPrior().fit(
            x, error[0] * torch.eye(2).double()[None], name="the error", feature_names=["length", "mass"]
        )
    with pytest.warns(SuspiciousErrorWarning, match="x_err is about as large as the spread") as found:
        LearnedPrior(max_components=1).fit(x, error / 5)
    assert {Path(warning.filename).name for warning in found} == {"test_plausible.py"}
    constant = torch.cat([x, torch.ones(N, 1).double()], 1)  # says nothing of its errors
    LearnedPrior(max_components=1).fit(constant, torch.tensor([[0.1, 0.1, 3.0]]).double())
    LearnedPrior(max_components=1).fit(x[:1], error)


def test_a_spread_that_is_not_clearly_above_the_error_is_warned_about():
    x = X.copy()
    x[:, 0] = 0.3 * np.random.default_rng(2).standard_normal(N)
    with pytest.warns(
        SuspiciousErrorWarning, match=r"x_err is about as large as the spread .* column 0 \(spread 0\.289, error 0\.3, "
    ):
        check_plausible("x_err", x, np.array([[0.3, 0.1]]))


def test_small_tables_are_seldom_refused():
    """Two rows may be as close as a millionth of their error, squared; the default has no certainty at all."""
    x = np.array([[1.0], [1.01]])
    with pytest.warns(SuspiciousErrorWarning, match="of 2 rows"):
        check_plausible("x_err", x, np.array([[1.0]]))
    check_plausible("x_err", x, np.array([[0.001]]))


def test_errors_in_a_few_rows_only():
    errors = np.zeros((N, 2))
    errors[[3, 150], 0] = 0.1
    with pytest.warns(
        SuspiciousErrorWarning, match=r"nearly all rows of column 0 \(errors in 2 of 200 rows: rows 3, 150\)"
    ):
        check_plausible("X_err", X, errors)
    with pytest.warns(SuspiciousErrorWarning, match=r"errors in 1 of 200 rows: row 3\)"):
        check_plausible("X_err", X, errors * (np.arange(N) < 9)[:, None], classical=False)
    errors[:9, 0] = 0.1  # 10 of 200
    check_plausible("X_err", X, errors)
    check_plausible("X_err", X, 0.1 - errors)  # a few exact rows are as they should be
    check_plausible("X_err", X[:3], errors[:3])


def test_limits_in_a_few_rows_of_an_exact_column_are_as_they_should_be():
    limits = np.where(np.isin(np.arange(N), [3, 150]), 0.3, np.nan)
    law = censored(0.0, below=limits, low=-1.0).parts(X[:, 0], "X_err")
    check_plausible("X_err", X, MixedErrors.of([law, Parts.normal(0.1)]))
    errors = np.where(np.arange(N) == 7, 0.1, 0.0)  # beside them one forgets nothing less
    law = censored(errors, below=limits, low=-1.0).parts(X[:, 0], "X_err")
    with pytest.warns(SuspiciousErrorWarning, match=r"errors in 1 of 200 rows: row 7\)"):
        check_plausible("X_err", X, MixedErrors.of([law, Parts.normal(0.1)]))


def test_laws_in_nearly_all_rows_are_as_they_should_be():
    law = Parts.normal(0.1).where(np.isin(np.arange(N), [3, 150]), rectangular(0.3).parts(X[:, 0], "X_err"))
    check_plausible("X_err", X, MixedErrors.of([law, Parts.normal(0.1)]))


def test_missing_values_may_have_huge_errors():
    """Ten of two hundred values are the mean, with an error that says so."""
    x, errors = X.copy(), np.full((N, 2), 0.1)
    x[:10, 1], errors[:10, 1] = x[:, 1].mean(), 1e3
    with pytest.warns(
        SuspiciousErrorWarning, match=r"some rows of column 1 \(.*errors from 1e\+03 to 1e\+03 in 10 of 200"
    ):
        check_plausible("X_err", x, errors)
    errors[:110, 1] = 1e3
    with pytest.raises(ValueError, match="beyond the spread of X in column 1"):
        check_plausible("X_err", x, errors)


@pytest.mark.parametrize("seed", range(20))
def test_counts_with_the_roots_of_themselves_as_errors(seed):
    """Errors that go with x: a spread of the true values as large as the errors is no reason for a word."""
    random = np.random.default_rng(seed)
    counts = random.poisson(random.normal(400, 20, (N, 1))).astype(float)
    check_plausible("X_err", counts, np.sqrt(counts))


def outcome(x, errors):
    """What is said of a column: "refused", "warned" or "passed"."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            check_plausible("X_err", x[:, None], errors[:, None])
        except ValueError:
            return "refused"
    return "warned" if found else "passed"


def same_rate(random):
    counts = random.poisson(25, N).astype(float)
    return counts, np.sqrt(counts)


def half_chance(random):
    """Successes of 20 tries scatter by less than Poisson's: a variance of 5, where the root says 10."""
    counts = random.binomial(20, 0.5, N).astype(float)
    return counts, np.sqrt(counts)


def relative_errors(random, mean, n_rows=N):
    x = random.normal(mean, 1, n_rows) * (1 + random.standard_normal(n_rows))
    return x, np.abs(x)


def filled_in(random, share, error):
    """The mean in the place of missing values; the others have an error of a fifth of their spread."""
    x, errors, n_missing = random.normal(3, 1, N), np.full(N, 0.2), round(share * N)
    x[:n_missing], errors[:n_missing] = x[n_missing:].mean(), error
    return x, errors


def errors_alone(random):
    return random.standard_normal(N), np.ones(N)


def unequal_errors_alone(random):
    errors = random.uniform(0.2, 2, N)
    return errors * random.standard_normal(N), errors


RIGHT = {
    "errors alone": errors_alone,
    "unequal errors alone": unequal_errors_alone,
    "counts of the same rate": same_rate,
    "counts with a variance of half their mean": half_chance,
    "errors of 100 %": lambda random: relative_errors(random, 10),
    "errors of 100 %, about zero": lambda random: relative_errors(random, 0),
    "errors of 100 % in five rows": lambda random: relative_errors(random, 10, 5),
    "60 % filled in, error of the spread": lambda random: filled_in(random, 0.6, 1.0),
    "20 % filled in, error of twice the spread": lambda random: filled_in(random, 0.2, 2.0),
    "70 % filled in, huge error": lambda random: filled_in(random, 0.7, 1e3),
}


@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)
def test_tables_that_can_be_right_are_hardly_ever_refused(make):
    """At most once in a thousand; of 1,000 tables more than 5 are refused with a chance of 6e-4 then."""
    refused = sum(outcome(*make(np.random.default_rng(seed))) == "refused" for seed in range(1000))
    assert refused <= 5


@pytest.mark.parametrize("n_rows", [8, 200])
def test_errors_that_have_nothing_to_do_with_x_seldom_seem_to(n_rows):
    """Two-sided 4.6 %, and 2.3 % twice, are 9.1 % at most; 121 of 1,000 and more have a chance of 1e-3 then.

    Errors that are ten times too large are refused in all other tables.
    """
    related = 0
    for seed in range(1000):
        random = np.random.default_rng(seed)
        x, errors = random.standard_normal(n_rows), 10 * random.uniform(0.5, 1.5, n_rows)
        found = errors_go_with(x, errors) != ""
        related += found
        assert outcome(x, errors) == ("warned" if found else "refused")
    assert related <= 120


def test_errors_that_go_with_x_are_warned_about_with_the_numbers():
    x, errors = relative_errors(np.random.default_rng(0), 10)
    with pytest.warns(
        SuspiciousErrorWarning,
        match=r"X_err is beyond the spread of X in column 0 \(spread [\d.]+, error [\d.]+, of \d+ rows, "
        r"rank correlation [\d.]+ of errors and \|?X\|?\)\. Errors depend on X there",
    ) as found:
        check_plausible("X_err", x[:, None], errors[:, None])
    assert len(found) == 1
    x, errors = filled_in(np.random.default_rng(0), 0.6, 1.0)
    with pytest.warns(SuspiciousErrorWarning, match=r"rank correlation -0\.\d+ of errors and \|X - mean of X\|"):
        check_plausible("X_err", x[:, None], errors[:, None])


def test_two_rows_of_which_one_counts_as_missing():
    with pytest.warns(SuspiciousErrorWarning, match="of 2 rows"):
        check_plausible("X_err", np.array([[1.0], [2.0]]), np.array([[0.1], [1e3]]))


def test_errors_of_labels_beyond_their_spread_are_warned_about():
    y = np.column_stack([TRUE.sum(1), 100 * TRUE[:, 0]])
    model = EiVRegressor(0.1, **FAST)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SuspiciousErrorWarning)
        model.fit(X, y, y_err=[0.5, 50.0])
    with pytest.warns(
        SuspiciousErrorWarning, match=r"y_err is beyond the spread of y in column 0 \(spread 0\.781, error 50, of 200"
    ) as found:
        model.fit(X, y, y_err=50.0)
    assert len(found) == 1
    with pytest.warns(SuspiciousErrorWarning, match="in column 'b' .*spread 5"):
        model.fit(X, pd.DataFrame(y, columns=["a", "b"]), y_err={"b": 500.0, "a": 0.1})
    with pytest.warns(SuspiciousErrorWarning, match="y_err") as found:
        fit_splits(model, X, y[:, 0], [range(100), range(100, 200)], y_err=3.0)
    assert len(found) == 1
    missing = np.where(np.arange(N) % 2, 1e3, 0.1)  # a way to leave labels out
    with warnings.catch_warnings():
        warnings.simplefilter("error", SuspiciousErrorWarning)
        model.fit(X, y[:, 0], y_err=missing)


def test_constant_columns():
    x = np.column_stack([X[:, 0], np.full(N, 7.0)])
    check_plausible("x_err", x, np.array([[0.1, 0.0]]))
    with pytest.warns(
        SuspiciousErrorWarning, match=r"column 1 \(always 7, error 0\.2\), constant in X: this is left out"
    ):
        check_plausible("x_err", x, np.array([[0.1, 0.2]]))
    with pytest.warns(SuspiciousErrorWarning, match="constant"):
        check_plausible("x_err", x, np.array([[0.1, 0.2]]), classical=False)
    with pytest.raises(ValueError, match=r"column 1 \(spread 0, error 0\.2, of 200 rows\)"):
        check_plausible("x_err", x, np.array([[0.1, 0.2]]), constant_left_out=False)


def test_fit_asks_of_the_whole_table():
    y = TRUE.sum(1)
    with pytest.raises(ValueError, match=r"x_err is beyond the spread of X in column 0"):
        EiVRegressor(5.0, **FAST).fit(X, y)
    table = pd.DataFrame(X, columns=["length", "mass"])
    with pytest.raises(ValueError, match=r"X_err is beyond the spread of X in column 'mass'"):
        EiVRegressor(0.1, **FAST).fit(table, y, X_err={"mass": 5.0, "length": 0.0})
    with pytest.raises(ValueError, match="beyond the spread"):
        fit_splits(EiVRegressor(relative(1.3), **FAST), X, y, [range(100), range(100, 200)])
    assert EiVRegressor(5.0, error_model="berkson", **FAST).fit(X, y).x_err_ == pytest.approx([5.0, 5.0])
    with pytest.warns(SuspiciousErrorWarning) as found:
        fit_splits(EiVRegressor(relative(1.0), **FAST), X, y, [range(100), range(100, 200)])
    assert len(found) == 1
    constant = np.column_stack([X, np.ones(N)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", SuspiciousErrorWarning)
        EiVRegressor(relative(0.1), **FAST).fit(constant, y)
