"""Every likelihood with every weight family, form of errors, prior, way to draw zetas, in commands, ONNX and pages.

Fits are as small as can be: what is asked is that the parts go together, and that intervals of labels are finite. The
whole table of choices takes a minute, so that it is slow; families with errors of labels are also in the files of the
likelihoods.
"""

import json
import warnings

import numpy as np
import onnxruntime
import pytest

import eiv
from commands import FIT, rows
from eiv import EiVClassifier, EiVRegressor
from eiv.io.modelfile import read_header
from eiv.posteriors import FAMILIES
from eiv.report import write_model_page

SMALL = {"hidden_units": 4, "n_hidden": 1, "epochs": 3, "batch_size": 16, "n_theta": 6, "n_networks": 2,
         "y_noise_every": 2, "held_out": 0.0, "random_state": 0}  # fmt: skip
N = 32
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, 2))
Y = X + 0.3 * RANDOM.standard_t(3, (N, 2))
FACTORS = 0.2 * RANDOM.normal(size=(N, 2, 2))
GAPS = np.where(RANDOM.uniform(size=X.shape) < 0.1, np.nan, X)

ERRORS = {
    "one number": {"x_err": 0.2},
    "one column": {"x_err": [0.2, 0.0]},
    "covariance": {"x_err": [[0.04, 0.01], [0.01, 0.09]]},
    "per row": {"X_err": np.abs(RANDOM.normal(size=(N, 2)))},
    "covariances": {"X_err": FACTORS @ FACTORS.swapaxes(1, 2)},
    "law": {"x_err": [eiv.rectangular(0.3), eiv.student_t(0.2, dof=4)]},
    "gaps": {"x_err": 0.2, "missing": "integrate"},
    "Berkson": {"x_err": 0.2, "error_model": "berkson"},
    "half": {"x_err": 0.2, "x_err_factor": 0.5},
    "flat": {"x_err": 0.2, "input_prior": "flat"},
    "normal": {"x_err": 0.2, "input_prior": "normal"},
    "mixture": {"x_err": 0.2, "input_prior": eiv.LearnedPrior(min_components=2, max_components=2)},
    "informed": {"x_err": 0.2, "zeta_draws": "informed"},
    "interpolated": {"x_err": [0.2, 0.0], "zeta_draws": "interpolated"},
    "laplace": {"x_err": 0.2, "zeta_draws": "laplace"},
}
LIKELIHOODS = pytest.mark.parametrize("likelihood", ["student_t", "varying"])


pytestmark = pytest.mark.usefixtures("any_head", "few_zetas")


@pytest.fixture(autouse=True)
def _few_epochs_leave_a_loose_bound():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fitted(likelihood, y_err=None, **changes):
    given = {"X_err": changes.pop("X_err")} if "X_err" in changes else {}
    readings = GAPS if changes.get("missing") == "integrate" else X
    model = EiVRegressor(likelihood=likelihood, **SMALL | changes).fit(readings, Y, y_err=y_err, **given)
    return model, model.predict_distribution(readings, y_err=y_err, **given)


def assert_usable(p):
    low, high = p.interval(0.9, of="label")
    assert (low < high).all()
    assert np.isfinite(p.quantile([0.1, 0.9], of="label")).all()
    assert np.isfinite(p.noise_covariance).all()
    np.testing.assert_allclose(p.std**2, p.epistemic**2 + p.aleatoric**2)


@pytest.mark.slow
@LIKELIHOODS
@pytest.mark.parametrize("errors", ERRORS)
def test_errors_priors_and_draws(errors, likelihood):
    assert_usable(fitted(likelihood, **ERRORS[errors])[1])


@pytest.mark.slow
@LIKELIHOODS
@pytest.mark.parametrize("family", FAMILIES)
def test_families_of_stacked_networks_with_errors_of_labels(family, likelihood):
    assert_usable(fitted(likelihood, y_err=0.2, x_err=[0.2, 0.0], posterior=family, epochs=2)[1])


@pytest.mark.slow
@pytest.mark.parametrize("errors", ERRORS)
def test_classes_with_errors_priors_and_draws(errors):
    changes = dict(ERRORS[errors])
    given = {"X_err": changes.pop("X_err")} if "X_err" in changes else {}
    readings = GAPS if "missing" in changes else X
    small = {name: value for name, value in SMALL.items() if name not in ("y_noise_every", "held_out")}
    model = EiVClassifier(**small | changes).fit(readings, Y[:, 0] > 0, **given)
    p = model.predict_distribution(readings, **given)
    np.testing.assert_allclose(p.probabilities.sum(1), 1)
    assert (np.array([p.label, p.aleatoric, p.epistemic]) > -1e-12).all()


@LIKELIHOODS
def test_the_command_line_fits_tells_predicts_and_explains(likelihood, folder, run):
    quick = [word for name in ("hidden_units=8", "n_hidden=1", "epochs=3", "n_theta=10") for word in ("--set", name)]
    assert run("fit", "d.csv", *FIT, *quick, "--likelihood", likelihood, "-o", "m.eiv")[0] == 0
    told = " ".join(run("info", "m.eiv")[1].replace("│", " ").split())
    assert {"student_t": "Student's t", "varying": "normal noise that"}[likelihood] in told
    rows(9).to_csv("n.csv", index=False)
    status, _, complaint = run("predict", "m.eiv", "n.csv", "--of", "label", "-o", "p.csv")
    assert status == 0, complaint
    assert run("explain", "m.eiv", "n.csv", "--row", "2")[0] == 0


@LIKELIHOODS
@pytest.mark.usefixtures("unrendered")
@pytest.mark.slow
def test_a_page_of_several_outputs(likelihood, tmp_path):
    model, _ = fitted(likelihood, x_err=0.2)
    model.save(tmp_path / "m.eiv")
    write_model_page(tmp_path / "m.html", model.model_, read_header(tmp_path / "m.eiv"))
    text = (tmp_path / "m.html").read_text()
    assert {"student_t": "Student&#39;s t", "varying": "normal noise that"}[likelihood] in text
    assert "Outputs together" in text


@LIKELIHOODS
def test_an_exported_network_gives_f_alone(likelihood, tmp_path):
    model, _ = fitted(likelihood, x_err=0.2, posterior="ensemble")
    model.export(tmp_path / "m.onnx", "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    said = json.loads(session.get_modelmeta().custom_metadata_map["eiv"])["likelihood"]
    assert said["name"] == likelihood
    np.testing.assert_allclose(said["state"]["correlation"], model.model_.likelihood.correlation, rtol=1e-6)
    given = {"zeta_mean": X[:5], "zeta_std": np.zeros((1, 2)), "noise": np.zeros((1, 2))}
    both = np.mean([session.run(None, given | {"network": np.array(i)})[0] for i in range(2)], axis=0)
    np.testing.assert_allclose(both, model.predict(X[:5], X_err=0), rtol=1e-4, atol=1e-4)
