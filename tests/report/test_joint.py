"""Several outputs on the page of a model: ellipses and correlations."""

import numpy as np
import pandas as pd
import pytest

from eiv import EiVRegressor
from eiv.io.modelfile import read_header
from eiv.report import Sample, write_model_page
from eiv.report.joint import Joint, ellipse, joint_section


def test_an_ellipse_holds_its_share():
    covariance, mean = np.array([[4.0, 1.2], [1.2, 0.5]]), np.array([1.0, -2.0])
    off = ellipse(mean, covariance) - mean
    distances = np.einsum("pi,ij,pj->p", off, np.linalg.inv(covariance), off)
    np.testing.assert_allclose(distances, 5.991, atol=1e-3)  # the 95 % quantile of chi^2 with two degrees of freedom


def test_outputs_that_go_together_come_first():
    covariance = np.array([[[1.0, 0.1, 0.0], [0.1, 1.0, -1.6], [0.0, -1.6, 4.0]]])
    found = Joint(("a", "b", "c"), np.zeros((1, 3)), 0 * covariance, covariance, covariance)
    assert found.pairs[0] == (1, 2)
    (table,) = joint_section(found).tables
    assert [cell.text for cell in table.rows[0]] == ["b, c", "+0.00", "-0.80", "-0.80"]


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("with_rows", [True, False])
def test_the_page_of_two_outputs_has_a_section_on_both(tmp_path, with_rows):
    random = np.random.default_rng(0)
    X = pd.DataFrame({"dose": random.normal(size=60)})
    Y = pd.DataFrame({"left": X["dose"], "right": -X["dose"]}) + 0.3 * random.normal(size=(60, 1))
    fast = {"hidden_units": 8, "n_hidden": 1, "epochs": 5, "n_theta": 10, "random_state": 0}
    model = EiVRegressor(0.1, **fast).fit(X, Y)
    model.save(tmp_path / "m.eiv")
    sample = Sample(X.to_numpy(), None, Y.to_numpy(), np.arange(1, 61), 60, "t.csv") if with_rows else None
    write_model_page(tmp_path / "m.html", model.model_, read_header(tmp_path / "m.eiv"), sample)
    page = (tmp_path / "m.html").read_text()
    assert "Outputs together" in page
    assert "left, right" in page
