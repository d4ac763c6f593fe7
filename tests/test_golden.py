"""Predictions in float64, pinned. `python tests/test_golden.py` renews them."""

import json
from pathlib import Path

import numpy as np

from eiv import EiVRegressor
from eiv.datasets import simulate

GOLDEN = Path(__file__).with_name("golden.json")


def predictions():
    data = simulate("sine", 60, random_state=0)
    found = {}
    for name, x_err in (("eiv", 0.04), ("exact", None)):
        model = EiVRegressor(
            x_err,
            hidden_units=8,
            epochs=4,
            y_noise_every=2,
            n_networks=2,
            n_theta=10,
            dtype="float64",
            random_state=0,
            recipe="paper",
        ).fit(data.X, data.y)
        p = model.predict_distribution(data.X[:5])
        parts = ("mean", "epistemic", "aleatoric", "noise")
        found[name] = {part: getattr(p, part).tolist() for part in parts} | {"loss": model.loss_curve_[-1].tolist()}
    return found


def test_predictions_are_what_they_were():
    golden = json.loads(GOLDEN.read_text())
    for name, parts in predictions().items():
        for part, values in parts.items():
            np.testing.assert_allclose(values, golden[name][part], rtol=1e-7, atol=1e-10, err_msg=f"{name} {part}")


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(predictions(), indent=1) + "\n")
    print(f"wrote {GOLDEN}")
