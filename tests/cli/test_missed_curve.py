"""`eiv fit` on a table whose curve the fit misses."""

import numpy as np
import pandas as pd
import pytest


@pytest.mark.filterwarnings("default::eiv.MissedCurveWarning")
def test_it_is_said_once_for_both_fits(tmp_path, monkeypatch, run):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, 80)
    pd.DataFrame({"x": x, "y": np.sin(3 * x)}).to_csv(tmp_path / "d.csv", index=False)
    monkeypatch.chdir(tmp_path)
    small = ("--x-err", "0.01", "--set", "network=cosine", "--set", "hidden_units=16", "--set", "y_noise=0.7")
    status, out, err = run("fit", "d.csv", "--target", "y", *small, "-o", "m.eiv")
    assert status == 0
    assert "rows that were held out" in out
    assert err.count("warning:") == 1
    assert err.startswith(
        "warning: sigma_y came out at 0.7, but labels of rows next to each other differ as if it were"
    )
