"""The rules of verdicts, on tables whose answer is known."""

import pytest

from eiv.paper.claims import Claim, Condition, check_claims, claims_table
from eiv.paper.tables import Tables
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
        ({"truth_coverage": 0.1}, {"truth_closer_than_regression"}),
        ({"label_coverage_u": 0.2}, {"labels_better_covered_by_u"}),
        ({"label_coverage_total": 0.85}, {"labels_covered_alike", "labels_covered_as_they_should"}),
    ],
)
def test_a_change_fails_the_claims_that_it_concerns(change, failing):
    found = verdicts(made_up(**change))
    assert failing <= {name for name, verdict in found.items() if verdict == "does not hold"} | (
        {"less_output_noise"} if found["less_output_noise"] == "cannot tell" else set()
    )
    untouched = {"closer_to_g_of_x", "epistemic_too_small", "regression_covers_too_little", "predictions_alike"}
    assert all(found[name] == "holds" for name in untouched)


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
