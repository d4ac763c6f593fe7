"""The rules of verdicts, on tables whose answer is known."""

import numpy as np
import pytest

from eiv.experiments.paper.claims import Claim, Condition, check_claims, claims_table
from eiv.experiments.paper.tables import Tables
from scenarios import made_up


def verdicts(tables):
    return {claim.name: claim.verdict for claim in check_claims(tables)}


def test_all_hold_where_all_is_as_the_paper_says():
    assert set(verdicts(made_up()).values()) == {"holds"}


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"rmse": 2.0}, {"rmse_alike"}),
        ({"u": 0.4}, {"uncertainties_differ", "less_output_noise"}),
        ({"truth_coverage": 0.4}, {"truth_better_covered", "truth_covered_as_it_should", "truth_closer_than_non_eiv"}),
        (
            {"truth_coverage": 0.1},
            {"truth_closer_than_regression_parameters", "truth_closer_than_regression_predictive"},
        ),
        ({"label_coverage_u": 0.2}, {"labels_better_covered_by_u"}),
        ({"label_coverage_total": 0.85}, {"labels_covered_alike", "labels_covered_as_they_should"}),
    ],
)
def test_a_change_fails_the_claims_that_it_concerns(change, failing):
    found = verdicts(made_up(**change))
    assert failing <= {name for name, verdict in found.items() if verdict == "does not hold"} | (
        {"less_output_noise"} if found["less_output_noise"] == "cannot tell" else set()
    )
    untouched = {"closer_to_g_of_x", "epistemic_too_small", "predictions_alike"}
    untouched |= {"regression_covers_too_little_parameters", "regression_covers_too_little_predictive"}
    assert all(found[name] == "holds" for name in untouched)


def with_predictive_coverage(**coverages):
    """Tables whose g-based regression covers other shares of the truth if it is read with sigma_y."""
    tables = made_up()
    for name, coverage in coverages.items():
        rows = (tables.networks["dataset"] == name) & (tables.networks["estimator"] == "predictive")
        tables.networks.loc[rows, "truth_coverage"] += coverage - 0.2
    return tables


def test_each_reading_of_the_regression_has_its_own_verdict():
    """Coverages as they are measured: the predictive band covers too much on linear, and too little on sine."""
    tables = with_predictive_coverage(linear=1.0, quadratic=0.95, cubic=0.5, sine=0.05)
    claims = {claim.name: claim for claim in check_claims(tables)}
    assert claims["regression_covers_too_little_parameters"].verdict == "holds"
    assert claims["truth_closer_than_regression_parameters"].verdict == "holds"
    too_little = claims["regression_covers_too_little_predictive"]
    assert too_little.verdict == "does not hold"
    assert too_little.exceptions == ("linear", "quadratic")
    assert [c.value for c in too_little.conditions] == pytest.approx([1.0, 0.95, 0.5, 0.05], abs=0.002)
    closer = claims["truth_closer_than_regression_predictive"]
    assert {c.subject: c.verdict for c in closer.conditions} == {
        "linear": "holds",  # 0.95 of the EiV model against 1.0
        "quadratic": "cannot tell",
        "cubic": "holds",
        "sine": "holds",
    }


def test_the_readings_differ_in_what_they_say():
    sentences = {claim.name: claim.sentence for claim in check_claims(made_up())}
    for claim in ("truth_closer_than_regression", "regression_covers_too_little"):
        assert "(band of its coefficients)" in sentences[f"{claim}_parameters"]
        assert "(predictive band, with σ_y)" in sentences[f"{claim}_predictive"]


def closer_at_every_level(eiv, non_eiv=lambda q: 0.5 * q, error=0.01, n_networks=10):
    """The claim for curves of coverage with the mean `eiv` and `non_eiv`, and their standard error."""
    tables = made_up(n_networks)
    noise = np.random.default_rng(0).standard_normal((2, n_networks))
    noise = error * np.sqrt(n_networks) * (noise - noise.mean(1, keepdims=True)) / noise.std(1, ddof=1, keepdims=True)
    for scatter, (method, curve) in zip(noise, (("eiv", eiv), ("non_eiv", non_eiv)), strict=True):
        rows = tables.calibration["method"] == method
        q, network = tables.calibration.loc[rows, "q"], tables.calibration.loc[rows, "network"]
        tables.calibration.loc[rows, "coverage"] = q.map(curve) + scatter[network]
    return next(claim for claim in check_claims(tables) if claim.name == "closer_at_every_level")


def test_closer_at_every_level_can_hold_although_nothing_differs_at_small_q():
    """There both cover about q, by construction; the earlier rule could not decide that."""
    claim = closer_at_every_level(lambda q: q + 0.005, lambda q: q - 0.8 * q**2)
    assert claim.verdict == "holds"
    assert len(claim.conditions) == 8  # the mean over q, and the least sure of them, on four sets
    assert "was changed" in claim.rule


@pytest.mark.parametrize(
    ("eiv", "verdict", "exceptions"),
    [
        (lambda q: 0.95 if q == 0.5 else q, "does not hold", ("linear, q = 0.5",)),  # at one level far off
        (lambda q: 0.15 if q == 0.05 else q, "does not hold", ("linear, q = 0.05",)),  # the smallest one counts, too
        (lambda q: 0.22 if q == 0.5 else q, "cannot tell", ("linear, q = 0.5",)),  # by 0.03, within its error
        (lambda q: 0.5 * q, "cannot tell", ("linear, mean over q",)),
        (lambda q: 0.4 * q, "does not hold", ("linear, mean over q", "linear, q = 0.95")),
    ],
)
def test_closer_at_every_level_can_fail(eiv, verdict, exceptions):
    claim = closer_at_every_level(eiv, error=0.005)
    assert claim.verdict == verdict
    on_linear = tuple(subject for subject in claim.exceptions if subject.startswith("linear"))
    assert on_linear == exceptions


def test_one_network_decides_nothing_about_means():
    found = verdicts(made_up(n_networks=1))
    assert found["rmse_alike"] == "cannot tell"


def test_what_was_not_run_is_said_to_be_so():
    tables = made_up()
    networks = tables.networks.query("dataset != 'naval'")
    assert (
        verdicts(Tables(networks, tables.calibration, tables.points, tables.stacks))["rmse_differs_on_naval"]
        == "not run"
    )


@pytest.mark.parametrize(
    ("value", "verdict"), [(1.2, "holds"), (1.1, "cannot tell"), (0.95, "cannot tell"), (0.7, "does not hold")]
)
def test_two_standard_errors_decide(value, verdict):
    assert Condition("", value, 0.1, low=1.0).verdict == ("holds" if value >= 1.2 else verdict)


def test_one_failing_condition_fails_the_claim_and_is_named():
    good, bad = Condition("linear", 1.0, 0.1, low=0.0), Condition("sine", -1.0, 0.1, low=0.0)
    claim = Claim("c", "", "", "", "", (good, bad))
    assert claim.verdict == "does not hold"
    assert claim.exceptions == ("sine",)
    assert claims_table([claim])["verdict"].tolist() == ["holds", "does not hold"]


def test_jackknife_error_of_a_mean_is_the_textbook_one():
    tables = made_up()
    claim = next(claim for claim in check_claims(tables) if claim.name == "truth_covered_as_it_should")
    rows = tables.networks.query("dataset == 'linear' and method == 'eiv' and estimator == 'literal'")
    assert claim.conditions[0].error == pytest.approx(rows["truth_coverage"].sem())
