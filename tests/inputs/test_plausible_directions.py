"""Errors that are larger than a combination of columns allows; and true values on planes and curves, which may be."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chi2

from eiv import EiVRegressor, LearnedPrior, SuspiciousErrorWarning
from eiv.inputs.directions import DirectionTest, _smallest_root_below
from eiv.inputs.mixed import MixedErrors
from eiv.inputs.plausible import check_plausible

FAST = {"hidden_units": 4, "epochs": 1, "n_theta": 4, "random_state": 0, "device": "cpu", "recipe": "paper"}
N = 300
RANDOM = np.random.default_rng(0)
Z = RANDOM.uniform(-1, 1, N)
CLOSE = np.column_stack([Z, Z]) + 0.01 * RANDOM.standard_normal((N, 2))  # their difference has a spread of 0.014
AGAINST = np.array([[0.09, -0.0899], [-0.0899, 0.09]])  # an error of 0.6 for it


def outcome(x, errors, **options):
    """What is said of a table: "refused", "warned" or "passed"."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            check_plausible("X_err", x, errors, **options)
        except ValueError:
            return "refused"
    return "warned" if found else "passed"


@pytest.mark.parametrize("n", [3, 60, 500])
def test_one_column_has_the_chi_squared_test(n):
    for ratio in (0.05, 0.5, 0.9):
        assert _smallest_root_below(ratio, 1, n) == pytest.approx(chi2.cdf(n * ratio, n), rel=1e-9)


@pytest.mark.parametrize(("n", "m"), [(3, 2), (59, 2), (12, 10), (59, 5), (199, 10)])
def test_the_bound_of_the_smallest_root_is_one_and_close(n, m):
    """Of 2,000 Wishart matrices 5 % at most, and four standard errors; a ratio 1.6 times smaller is below the bound."""
    matrices = np.random.default_rng(0).standard_normal((2000, n, m))
    roots = np.linalg.svd(matrices, compute_uv=False)[:, -1] ** 2 / n
    bounds = np.array([_smallest_root_below(root, m, n) for root in roots])
    assert np.mean(bounds < 0.05) < 0.07
    assert _smallest_root_below(np.quantile(roots, 0.05) / 1.6, m, n) < 0.05
    assert _smallest_root_below(1e-30, m, m - 1) == 1  # nothing is left to tell


@pytest.mark.parametrize("seed", range(3))
def test_the_ratio_is_the_largest_eigenvalue(seed):
    """Of S^-1 C, with columns that have no error and with correlated errors."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((50, 4)) @ random.standard_normal((4, 4)) * [1, 10, 0.1, 1e3] + 7
    factor = random.standard_normal((3, 3)) * [1, 10, 0.1]
    covariance = np.zeros((4, 4))
    covariance[:3, :3] = factor.T @ factor / 50
    test = DirectionTest.of(x, covariance[None])
    values, vectors = np.linalg.eig(np.linalg.solve(np.cov(x.T), covariance))
    largest = int(values.real.argmax())
    assert (test.spread / test.error) ** 2 == pytest.approx(1 / values.real[largest], rel=1e-9)
    direction = vectors[:, largest].real
    first = int(np.abs(test.parts).argmax())
    assert test.coefficients == pytest.approx(direction / direction[first], rel=1e-6)
    assert test.spread == pytest.approx((x @ test.coefficients).std(ddof=1), rel=1e-9)
    assert test.error == pytest.approx(np.sqrt(test.coefficients @ covariance @ test.coefficients), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
def test_units_and_places_do_not_matter(scale):
    plain = DirectionTest.of(CLOSE, np.array([[0.01, 0.02]]))
    scaled = DirectionTest.of(CLOSE * [scale, 1] + [1e3 * scale, -1e3], np.array([[0.01 * scale, 0.02]]))
    assert scaled.below == pytest.approx(plain.below, rel=1e-6)
    assert scaled.spread == pytest.approx(plain.spread * scale, rel=1e-6)
    assert scaled.coefficients == pytest.approx(plain.coefficients * [1, scale], rel=1e-6)


@pytest.mark.parametrize("form", ["covariance", "of all rows", "per row", "covariances per row", "one exact"])
def test_errors_beyond_the_difference_of_two_columns_are_warned_about(form):
    given = {
        "covariance": AGAINST,
        "of all rows": 0.3,
        "per row": np.tile(np.linspace(0.1, 0.4, N)[RANDOM.permutation(N), None], 2),
        "covariances per row": np.tile(AGAINST, (N, 1, 1)),
        "one exact": [0.3, 0.0],
    }[form]
    error = {"covariance": r"0\.6", "of all rows": r"0\.424", "one exact": r"0\.3"}.get(form, r"0\.\d+")
    with pytest.warns(
        SuspiciousErrorWarning,
        match=rf"X_err is beyond the spread of X in the direction column 0 - column 1 "
        rf"\(spread 0\.01\d+, error {error}, of 300 rows\)\. .* give the covariance",
    ):
        EiVRegressor(**FAST).fit(CLOSE, Z, X_err=given)


def test_the_words_name_the_columns_and_their_parts():
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, 100))
    table = pd.DataFrame({"a": a, "b": 1000 * b, "other": random.normal(size=100), "c": 2 * a - 3 * b})
    with pytest.warns(
        SuspiciousErrorWarning, match=re.escape("direction column 'c' + 0.003 × column 'b' - 2 × column 'a' (")
    ):
        check_plausible("x_err", table.to_numpy() + 0.0, np.array([[0.2, 200.0, 0.2, 0.2]]), list(table))
    wide = random.normal(size=(100, 9))
    wide[:, 8] = wide[:, :8].sum(1)
    with pytest.warns(SuspiciousErrorWarning, match=r"direction column 8( - column \d){4} and 4 more \("):
        check_plausible("x_err", wide, np.full((1, 9), 0.3))


@pytest.mark.parametrize(
    "covariance", [np.array([[0.09, 0.08995], [0.08995, 0.09]]), np.eye(2) * 1e-4, np.full((2, 2), 0.09)]
)
def test_errors_that_the_columns_share_pass(covariance):
    assert outcome(CLOSE, covariance[None]) == "passed"
    assert outcome(np.column_stack([Z, Z]), np.full((1, 2, 2), 0.09)) == "passed"  # one reading twice


def test_columns_that_are_beyond_their_own_spread_are_named_alone():
    with pytest.raises(ValueError, match=r"in column 0 \(.*\), column 1 \("):
        check_plausible("x_err", CLOSE, np.array([[3.0, 3.0]]))


def test_errors_that_go_with_x_lead_to_a_warning():
    x = np.exp(CLOSE)
    with pytest.warns(SuspiciousErrorWarning, match="but the errors of column 0, column 1 depend on X") as found:
        check_plausible("X_err", x, 0.2 * x)
    assert len(found) == 1


def test_a_hint_is_given_where_errors_are_somewhat_too_large():
    """The spread of the difference is 0.7 of its error: that is not impossible, but there by chance in few tables."""
    x = np.repeat(Z[:60, None], 2, 1) + np.random.default_rng(2).normal(0, 0.7 * 0.05, (60, 2))
    with pytest.warns(SuspiciousErrorWarning, match=r"column 0 - 0.985 × column 1 \(spread 0\.0482, error 0\.0702"):
        check_plausible("X_err", x, np.full((1, 2), 0.05))


def test_rows_without_a_reading_or_with_a_huge_error_do_not_count():
    x, errors = CLOSE.copy(), np.full((N, 2), 0.01)
    x[:50, 1], errors[:50, 1] = 0.0, 1e3
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        check_plausible("X_err", x, errors)
    assert ["some rows of column 1" in str(each.message) for each in found] == [True]
    missing = np.zeros((N, 2), dtype=bool)
    missing[50:100, 0] = True
    given = MixedErrors.with_missing(np.full((1, 2), 0.3), missing, np.ones(2))
    with pytest.warns(SuspiciousErrorWarning, match=r"direction column 'a' - .*column 'b' .* of 200 rows"):
        check_plausible("x_err", CLOSE[50:], given[np.arange(50, N)], ["a", "b"])


def test_a_prior_that_is_learned_by_itself_warns_too():
    x = torch.tensor(CLOSE)
    with pytest.warns(SuspiciousErrorWarning, match="in the direction column 0 - column 1"):
        LearnedPrior(max_components=1).fit(x, torch.tensor(AGAINST)[None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LearnedPrior(max_components=1).fit(x, torch.tensor([[0.09, 0.08995], [0.08995, 0.09]]).double()[None])


def test_too_few_rows_tell_nothing():
    x = np.column_stack([RANDOM.normal(size=(4, 4)), np.ones(4)])
    assert DirectionTest.of(x[:, :4], np.full((1, 4), 0.1)) is None
    assert outcome(x, np.full((1, 5), 1e-3) * [1, 1, 1, 1, 0]) == "passed"
    assert outcome(CLOSE, np.full((1, 2), 0.3), classical=False) == "passed"


def plane(random, n, d):
    """True inputs on a plane, with errors of equal size in all columns."""
    z = random.uniform(-3, 3, (n, d))
    z[:, -1] = z[:, :-1].sum(1)
    return z + 0.3 * random.standard_normal((n, d)), np.full((1, d), 0.3)


def curve(random, n, d):
    z = np.sin(random.uniform(-1, 1, (n, 1)) * np.arange(1, d + 1))
    return z + 0.1 * random.standard_normal((n, d)), np.full((1, d), 0.1)


def line_with_errors_of_each_row(random, n, d):
    errors = random.uniform(0.2, 2, (n, 1)) * np.ones(d)
    return 5 * random.uniform(-1, 1, (n, 1)) + errors * random.standard_normal((n, d)), errors


def line_with_a_covariance(random, n, d):
    factor = random.standard_normal((d, d))
    z = 30 * random.uniform(-1, 1, (n, 1)) * np.ones(d)
    return z + random.standard_normal((n, d)) @ factor, (factor.T @ factor)[None]


def line_with_covariances_of_rows(random, n, d):
    factors = random.standard_normal((n, d, d))
    z = 30 * random.uniform(-1, 1, (n, 1)) * np.ones(d)
    return z + (factors @ random.standard_normal((n, d, 1)))[..., 0], factors @ factors.swapaxes(1, 2)


def line_beside_exact_columns(random, n, d):
    z = random.uniform(-1, 1, (n, 1)) * np.arange(1, 2 * d + 1) + 0.1 * random.standard_normal((n, 2 * d))
    z[:, 0] = z[:, d:].sum(1)
    errors = np.repeat([0.2, 0.0], d)
    return z + errors * random.standard_normal((n, 2 * d)), errors[None]


def one_point(random, n, d):
    """No true scatter at all, where the bound is closest."""
    return random.standard_normal((n, d)), np.ones((1, d))


def one_point_with_uneven_errors(random, n, d):
    errors = np.where(random.random((n, d)) < 0.1, 3.0, np.linspace(0.1, 2, d))
    return errors * random.standard_normal((n, d)), errors


HONEST = [
    plane, curve, line_with_errors_of_each_row, line_with_a_covariance, line_with_covariances_of_rows,
    line_beside_exact_columns, one_point, one_point_with_uneven_errors,
]  # fmt: skip


@pytest.mark.parametrize("make", HONEST)
@pytest.mark.parametrize(("n", "d"), [(60, 2), (60, 5), (60, 10), (500, 2), (500, 10)])
def test_true_values_on_a_plane_or_a_curve_are_hardly_ever_warned_about(make, n, d):
    """In 5 % of tables at most, in one of 1,000 by so much: of 400, 34 and 4 have chances of 3e-3 and 8e-4."""
    random = np.random.default_rng(0)
    below = np.array([DirectionTest.of(*make(random, n, d)).below for _ in range(400)])
    assert np.sum(below < 1e-3) <= 3
    assert np.sum(below < 0.05) <= 33


@pytest.mark.parametrize("make", [plane, line_with_errors_of_each_row, line_with_covariances_of_rows])
@pytest.mark.parametrize(("n", "d", "factor"), [(60, 2, 2), (60, 10, 4), (500, 2, 1.3), (500, 10, 1.5)])
def test_errors_that_are_too_large_are_found(make, n, d, factor):
    """In most tables, so that the bound is of use."""
    random = np.random.default_rng(0)
    below = []
    for _ in range(50):
        x, errors = make(random, n, d)
        below.append(DirectionTest.of(x, errors * (factor**2 if errors.ndim == 3 else factor)).below)
    assert np.mean(np.array(below) < 1e-3) > 0.7
