"""Predictions in float64, pinned: each family with exact inputs, one noisy column and three; and of kept model files.

`python tests/test_golden.py` says whether they are the same to the last bit on this machine; with `--renew` it writes
them anew. Sums round in another order on another machine, so the tests allow for that. The model files were written by
the version before FittedModel; they are not renewed.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from eiv import EiVRegressor
from eiv.posteriors import FAMILIES

FOLDER = Path(__file__).with_name("golden")
GOLDEN, MODELS = FOLDER / "predictions.json", FOLDER / "models"
PARTS = ("mean", "epistemic", "aleatoric", "noise")
ERRORS = {"exact": None, "one noisy": [0.0, 0.2, 0.0], "three noisy": [0.1, 0.2, 0.15]}
KEPT = {
    "bernoulli_dropout": "three noisy",
    "linearised_laplace": "three noisy",
    "swag": "one noisy",
    "ensemble": "exact",
}


def table():
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (60, 3))
    y = np.sin(2 * zeta[:, 0]) + zeta[:, 1] * zeta[:, 2]
    return zeta + 0.15 * random.standard_normal(zeta.shape), y + 0.1 * random.standard_normal(60)


def fitted(family, inputs, recipe):
    X, y = table()
    model = EiVRegressor(
        ERRORS[inputs], posterior=family, recipe=recipe, hidden_units=8, n_hidden=2, epochs=4, y_noise_every=2,
        n_networks=2, n_theta=10, dtype="float64", random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # four epochs leave a loose bound
        return model.fit(X, y)


def numbers(model):
    p = model.predict_distribution(table()[0][:5])
    found = {part: getattr(p, part).tolist() for part in PARTS}
    return found | {"quantiles": p.quantile([0.05, 0.5, 0.95]).tolist(), "loss": model.loss_curve_[-1].tolist()}


def cases():
    recipes = dict.fromkeys(FAMILIES, "paper") | {"linearised_laplace": "default"}
    return [(family, inputs, recipes[family]) for family in FAMILIES for inputs in ERRORS]


def assert_golden(found, name):
    for part, values in found.items():
        np.testing.assert_allclose(
            values, json.loads(GOLDEN.read_text())[name][part], rtol=1e-7, atol=1e-9, err_msg=f"{name}: {part}"
        )


@pytest.mark.parametrize(("family", "inputs", "recipe"), cases())
def test_predictions_are_what_they_were(family, inputs, recipe):
    assert_golden(numbers(fitted(family, inputs, recipe)), f"{family}, {inputs}")


@pytest.mark.parametrize("family", KEPT)
def test_model_files_of_the_version_before_predict_the_same(family):
    assert_golden(numbers(EiVRegressor.load(MODELS / f"{family}.eiv")), f"{family}, {KEPT[family]}")


def main():
    found = {f"{family}, {inputs}": numbers(fitted(family, inputs, recipe)) for family, inputs, recipe in cases()}
    if "--renew" in sys.argv:
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
        print(f"wrote {GOLDEN}")
        return
    golden = json.loads(GOLDEN.read_text())
    for family, inputs in KEPT.items():
        found[f"{family}, {inputs}, from its file"] = numbers(EiVRegressor.load(MODELS / f"{family}.eiv"))
    changed = [name for name, values in found.items() if values != golden[name.removesuffix(", from its file")]]
    print(f"{len(found) - len(changed)} of {len(found)} are the same to the last bit", *changed, sep="\n  ")


if __name__ == "__main__":
    main()
