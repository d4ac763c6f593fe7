from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm

from eiv import Prediction
from eiv.likelihoods import NormalLabels
from eiv.metrics import coverage


@pytest.fixture
def p():
    random = np.random.default_rng(0)
    draws = 3 + 2 * random.standard_normal((4000, 5))
    return predicted(draws, np.full(5, 1.5))


def predicted(draws, noise):
    """Draws of f, all of whose variance is epistemic, and normal labels about them."""
    return Prediction(draws.mean(0), draws.std(0), np.zeros(5), noise, draws, labels=NormalLabels(noise))


def test_parts_add_up(p):
    np.testing.assert_allclose(p.std**2, p.epistemic**2 + p.aleatoric**2)
    np.testing.assert_allclose(p.total**2, p.std**2 + p.noise**2)


def test_moment_interval_is_1_96_standard_deviations(p):
    for of, std in (("function", p.std), ("label", p.total)):
        low, high = p.interval(0.95, of=of)
        np.testing.assert_allclose(high - low, 2 * norm.ppf(0.975) * std)
        np.testing.assert_allclose((high + low) / 2, p.mean)


def test_function_quantiles_are_those_of_the_draws(p):
    np.testing.assert_allclose(p.quantile(0.25), np.quantile(p.draws, 0.25, axis=0), atol=2e-3)
    repeated = predicted(np.repeat(p.draws, 5, axis=0), p.noise)
    for of in ("function", "label"):
        np.testing.assert_allclose(repeated.quantile([0.025, 0.3], of=of), p.quantile([0.025, 0.3], of=of))
    low, high = p.interval(0.5, method="quantile")
    assert coverage(p.draws, low, high) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("q", [0.01, 0.3, 0.5, 0.975])
def test_label_quantiles_invert_the_mixture_of_normals(p, q):
    found = p.quantile(q, of="label")
    np.testing.assert_allclose(norm.cdf((found - p.draws) / p.noise).mean(0), q, atol=1e-9)


def test_label_quantiles_without_noise_are_those_of_the_draws(p):
    quiet = predicted(p.draws, np.zeros(5))
    np.testing.assert_allclose(quiet.quantile(0.3, of="label"), p.quantile(0.3), atol=0.01)


def test_label_samples_have_the_total_spread(p):
    labels = p.samples(of="label", random_state=1)
    np.testing.assert_allclose(labels.std(0), p.total, rtol=4 / np.sqrt(2 * 4000))
    assert np.array_equal(labels, p.samples(of="label", random_state=1))
    assert np.array_equal(p.samples(), p.draws)


def test_frame_has_one_row_a_prediction(p):
    frame = p.to_frame(level=0.5)
    assert list(frame) == ["mean", "std", "epistemic", "aleatoric", "noise", "total", "low", "high"]
    np.testing.assert_allclose(frame["high"], p.interval(0.5)[1])


def test_frame_of_labels_has_their_interval(p):
    low, high = p.interval(0.5, of="label")
    frame = p.to_frame(level=0.5, of="label")
    np.testing.assert_array_equal(frame[["low", "high"]], np.column_stack([low, high]))
    assert (frame["high"] > p.to_frame(level=0.5)["high"]).all()


@pytest.mark.parametrize("row", [3, -2, np.int64(3)])
def test_a_single_row_is_a_prediction_of_one_row(p, row):
    one = replace(p, index=list("abcde"))[row]
    assert len(one) == 1
    assert repr(one) == "Prediction(rows=1, outputs=1, draws=4000)"
    np.testing.assert_array_equal(one.mean, p.mean[3:4])
    np.testing.assert_array_equal(one.quantile(0.5, of="label"), p.quantile(0.5, of="label")[3:4])
    assert one.to_frame().index.tolist() == ["d"]
    with pytest.raises(IndexError, match=r"p\[5\]: the prediction has 5 rows"):
        p[5]
    assert [len(p[i]) for i in range(5)] == [1] * 5


def test_frame_of_several_outputs_has_their_names():
    two = np.zeros((3, 2))
    p = Prediction(two, two, two, two, index=["a", "b", "c"], output_names=("left", "right"))
    frame = p.to_frame()
    assert frame.loc["b", ("right", "mean")] == 0
    assert frame.shape == (3, 16)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.interval(0.0), "level must lie between 0 and 1"),
        (lambda p: p.interval(95), "level must lie between 0 and 1"),
        (lambda p: p.interval(0.9, of="truth"), "of must be 'function' or 'label', got 'truth'"),
        (lambda p: p.interval(0.9, method="mad"), "method must be 'moment' or 'quantile'"),
        (lambda p: p.quantile([0.5, 1.5]), "q must lie between 0 and 1"),
        (lambda p: p.quantile(0.5, of="x"), "of must be"),
        (lambda p: p.samples(of="x"), "of must be"),
    ],
)
def test_bad_arguments_are_named(p, call, words):
    with pytest.raises(ValueError, match=words):
        call(p)


def test_without_draws_the_error_says_how_to_keep_them():
    p = Prediction(np.zeros(1), np.ones(1), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="keep_draws=True"):
        p.quantile(0.5)


def test_of_labels_that_are_not_known_nothing_is_said(p):
    unknown = replace(p, labels=None)
    for ask in (unknown.interval, partial(unknown.quantile, 0.5), unknown.samples):
        ask(of="function")
        with pytest.raises(ValueError, match=r"How labels scatter .* such as eiv.likelihoods.NormalLabels\(noise\)"):
            ask(of="label")
