"""The prior of the size of errors, its nodes, and the densities of x that go with input priors."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import eiv
from eiv.inputs.errors import times
from eiv.inputs.sizes import EstimatedError, LearnedSizes, SizePrior, as_estimated, two_nodes


@pytest.mark.parametrize("dof", [1.0, 4.0, 30.0])
def test_the_prior_is_that_of_a_standard_deviation_from_so_many_degrees_of_freedom(dof):
    prior = SizePrior(np.array([dof]))
    t = np.linspace(-6, 12, 200_001)
    density = np.exp(prior.log_density(t, 0))
    density /= density.sum() * (t[1] - t[0])
    exact = stats.chi2(dof).pdf(dof * np.exp(-2 * t)) * 2 * dof * np.exp(-2 * t)  # s^2 = nu / chi^2
    np.testing.assert_allclose(density, exact, atol=1e-5)
    mean = np.sum(t * density) * (t[1] - t[0])
    np.testing.assert_allclose(prior.mean, mean, atol=2e-4)
    np.testing.assert_allclose(prior.std, math.sqrt(np.sum((t - mean) ** 2 * density) * (t[1] - t[0])), rtol=1e-3)


def test_errors_that_are_known_have_no_open_size():
    prior = eiv.estimated([0.1, 0.2, 0.0], dof=[np.inf, 5, 5]).size_prior(3, None)
    assert prior.std[0] == prior.mean[0] == 0
    assert prior.groups(np.array([[0.1, 0.2, 0.0]])) == [[1]]
    assert eiv.estimated(0.1, dof=5, together=True).size_prior(3, None).groups(np.ones((1, 3))) == [[0, 1, 2]]


def test_degrees_of_freedom_by_the_rule_of_the_gum():
    assert eiv.estimated(1.0, rel_uncertainty=0.25).dof == 8  # G.4.2 of the GUM has this example
    repeats = eiv.errors_from_repeats([[1.0], [1.2], [3.0], [3.1], [2.8]], groups=[0, 0, 1, 1, 1])
    found = eiv.estimated(repeats)
    assert found.dof == 3
    np.testing.assert_array_equal(found.error, repeats.X_err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Give either dof or rel_uncertainty, got dof=None"),
        ({"dof": 3, "rel_uncertainty": 0.2}, "Give either dof or rel_uncertainty, got dof=3"),
        ({"rel_uncertainty": 0.9}, "rel_uncertainty must be a number above 0 and at most 0.7 or a text .*, got 0.9"),
        ({"rel_uncertainty": "30"}, "rel_uncertainty must be .* or a text such as '30%', .*, got '30'"),
        ({"rel_uncertainty": "many%"}, "rel_uncertainty must be .*, got 'many%'"),
        ({"rel_uncertainty": 0}, "rel_uncertainty must be .*, got 0"),
        ({"rel_uncertainty": True}, "rel_uncertainty must be .*, got True"),
        ({"rel_uncertainty": [0.3, 2]}, r"rel_uncertainty must be .*, got \[0.3, 2\]"),
        ({"rel_uncertainty": {"a": None}}, "rel_uncertainty must be .*, got {'a': None}"),
        ({"rel_uncertainty": [[0.3]]}, "rel_uncertainty must be .*, got"),
    ],
)
def test_errors_of_unknown_size_that_make_no_sense_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        eiv.estimated(0.1, **arguments)


def test_relative_uncertainties_take_the_forms_of_degrees_of_freedom():
    assert eiv.estimated(0.1, rel_uncertainty="25%").dof == eiv.estimated(0.1, rel_uncertainty=0.25).dof == 8
    assert eiv.estimated(0.1, rel_uncertainty=[0.25, "50 %", 0]).dof == [8, 2, math.inf]
    assert eiv.estimated(0.1, rel_uncertainty=np.array([0.25, 0.5])).dof == [8, 2]
    by_name = eiv.estimated({"a": 0.1, "b": 0.2}, rel_uncertainty={"a": "25%"})
    assert by_name.size_prior(2, ["a", "b"]).dof.tolist() == [8, math.inf]  # what is left out is known


@pytest.mark.parametrize(
    ("given", "error", "dof"),
    [
        ("0.3 dof=8", "0.3", 8),
        ("±0.7 (dof = 4.5)", "±0.7", 4.5),
        (["0.3 dof=8", 0.1], ["0.3", 0.1], [8, math.inf]),
        ({"a": "0.3 dof=8", "b": "5%"}, {"a": "0.3", "b": "5%"}, {"a": 8, "b": math.inf}),
    ],
)
def test_texts_with_degrees_of_freedom_are_estimated_errors(given, error, dof):
    assert as_estimated(given) == EstimatedError(error, dof)


@pytest.mark.parametrize("given", [None, 0.3, "0.3", ["±0.7", 0.1], {"a": "a_err"}, (0.1, 0.2)])
def test_other_errors_stay_as_they_are(given):
    assert as_estimated(given) == given


@pytest.mark.parametrize(
    ("given", "error"),
    [("0.3 dof=inf", "0.3"), (["0.3 dof=inf", 0.1], ["0.3", 0.1]), ({"a": "a_err dof=inf"}, {"a": "a_err"})],
)
def test_infinitely_many_degrees_of_freedom_leave_a_known_error(given, error):
    assert as_estimated(given) == error


@pytest.mark.parametrize("dof", [0.5, [1, 2, 3], "many", {"a": 3}])
def test_bad_degrees_of_freedom_are_refused(dof):
    with pytest.raises(ValueError, match="dof "):
        eiv.estimated(0.1, dof=dof).size_prior(2, None)
    with pytest.raises(ValueError, match="dof must be one number where the columns share one factor"):
        eiv.estimated(0.1, dof=[3, 4], together=True).size_prior(2, None)


def test_repeats_by_group_and_a_second_dof_are_refused():
    repeats = eiv.errors_from_repeats([[1.0], [1.2], [3.0], [3.1]], groups=[0, 0, 1, 1], by_group=True)
    with pytest.raises(ValueError, match="whose error all groups share"):
        eiv.estimated(repeats)
    with pytest.raises(ValueError, match="repeated measurements have their own"):
        eiv.estimated(eiv.errors_from_repeats([[1.0], [1.2]], groups=[0, 0]), dof=4)


def test_two_nodes_have_the_first_three_moments_of_the_density():
    law = stats.gamma(4)
    points = np.linspace(1e-6, 60, 200_001)
    mean, std, nodes = two_nodes(points, law.logpdf(points))
    assert mean == pytest.approx(4, rel=1e-6)
    assert std == pytest.approx(2, rel=1e-6)
    moments = [sum(weight * delta**k for delta, weight in nodes) for k in range(4)]
    np.testing.assert_allclose(moments, [1, 0, 1, 1], atol=1e-5)  # the skewness of gamma(4) is 2 / sqrt(4)


def test_words_say_where_the_rows_do_not_tell():
    sizes = LearnedSizes(np.array([1.1, 0.5, 1.0]), np.array([0.39, 0.1, 0.0]), np.array([0.4, 0.4, 0.0]))
    first, second = sizes.words(["length", "mass", "exact"])
    assert first.startswith("The rows do not tell the size of the errors of length")
    (wider,) = LearnedSizes(np.array([0.52]), np.array([0.55]), np.array([0.4])).words()
    assert wider == (
        "The rows leave the size of the errors of column 0 less certain than it was stated: 0.52 times the stated "
        "ones, uncertain by 55 % (40 % before the rows were seen)."
    )
    assert (
        second
        == "The errors of mass are 0.5 times the stated ones, uncertain by 10 % (40 % before the rows were seen)."
    )
    assert sizes.settled[2] == 0


def test_errors_of_each_feature_are_multiplied_by_its_factor():
    covariance = np.array([[[0.04, 0.01], [0.01, 0.09]]])
    factor = np.array([2.0, 3.0])
    np.testing.assert_allclose(times(covariance, factor)[0], np.diag(factor) @ covariance[0] @ np.diag(factor))


def test_densities_of_x_are_those_of_prior_and_errors():
    x = torch.tensor([[0.3, -1.0], [2.0, 0.5]], dtype=torch.float64)
    x_err = torch.tensor([[0.5, 0.2]], dtype=torch.float64)
    noise = np.diag([0.25, 0.04])
    parts = [(0.3, [0.0, 1.0], np.diag([1.0, 2.0])), (0.7, [1.0, 0.0], np.array([[1.0, 0.4], [0.4, 0.5]]))]
    weights, means, covariances = (np.array(part) for part in zip(*parts, strict=True))
    prior = eiv.MixturePrior(2 * weights, means, covariances)  # weights need not add up to one
    exact = np.log(sum(w * stats.multivariate_normal(m, v + noise).pdf(x.numpy()) for w, m, v in parts))
    np.testing.assert_allclose(prior.log_density(x, x_err), exact, rtol=1e-12)
    normal = eiv.NormalPrior(std=[1.0, np.inf], mean=0.5)
    exact = stats.norm(0.5, math.sqrt(1.25)).logpdf(x.numpy()[:, 0])
    np.testing.assert_allclose(normal.log_density(x, x_err), exact, rtol=1e-12)
    np.testing.assert_allclose(normal.log_density(x, x_err.square().diag_embed()), exact, rtol=1e-12)
    assert not eiv.FlatPrior().log_density(x, x_err).any()
