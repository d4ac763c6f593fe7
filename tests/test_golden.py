"""Predictions in float64, pinned: each family with exact inputs, one noisy column and three; and of kept model files.

`python tests/test_golden.py` says whether they are the same to the last bit on this machine; with `--renew` it writes
them anew. Another machine rounds in another way; how far the tests allow for that stands below. The model files were
written by the version before FittedModel; they are not renewed. The predictions of "swag" were renewed once, when its
draws were matched: those of all other families are the ones of that version.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from eiv import EiVRegressor
from eiv.networks import NetworkStack
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
# How far a number may be off on another CPU, in units of the largest of its kind (the means of a case, for instance).
#
# Training is smooth: starts that were moved by 2^-38 and by 2^-24 of the largest weight of a layer, in five patterns of
# signs and all cases, moved the numbers by at most 7.8 times as much. Starts that were moved by 2^-53, which float64
# just sees, moved them by 29 times as much, with the rounding on the way.
AMPLIFICATION, ROUNDING = 7.8, 29 * 2.0**-53
# Sums in another order are that rounding alone (3e-15 with MKL's oldest code). One float32 number on the way would make
# 2^-24. The tolerance is half way between the two, by digits: 2^-36.
TOLERANCE = (ROUNDING * 2.0**-24) ** 0.5
# torch draws the start in float32. Without fused multiply-add, weights are rounded once more on the way from [0, 1) to
# [-b, b), to 2^-23 b. The tolerance is what this makes of the numbers, and a factor of two for patterns not tried.
START = 2.0**-23
HAS_FMA = torch.backends.cpu.get_cpu_capability().startswith("AVX")
TOLERANCE_OF_FITS = TOLERANCE if HAS_FMA else 2 * AMPLIFICATION * START


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


def change(found, name):
    """By how much numbers differ from the pinned ones, in units of the largest of their kind."""
    golden = json.loads(GOLDEN.read_text())[name]
    assert found.keys() == golden.keys()
    gaps = {part: np.abs(np.subtract(found[part], golden[part])).max() for part in golden}
    return np.max([gap / (np.abs(golden[part]).max() or 1) for part, gap in gaps.items()])  # nan where one is


@pytest.mark.parametrize(("family", "inputs", "recipe"), cases())
def test_predictions_are_what_they_were(family, inputs, recipe):
    assert change(numbers(fitted(family, inputs, recipe)), f"{family}, {inputs}") < TOLERANCE_OF_FITS


@pytest.mark.parametrize("family", KEPT)
def test_model_files_of_the_version_before_predict_the_same(family):
    """As new fits do. "swag" alone predicted otherwise in that version: its draws were not matched."""
    assert change(numbers(EiVRegressor.load(MODELS / f"{family}.eiv")), f"{family}, {KEPT[family]}") < TOLERANCE


@pytest.mark.skipif(not HAS_FMA, reason="the start is another one")
@pytest.mark.parametrize("family", ["bernoulli_dropout", "last_layer_laplace", "swag"])
def test_a_start_that_is_moved_a_little_moves_the_predictions_a_little(family, monkeypatch):
    """By no more than the tolerance for another CPU takes it for; with one noisy input they move most."""
    step, random, build = 2.0**-24, np.random.default_rng(0), NetworkStack.__init__

    def moved(stack, *args, **options):
        build(stack, *args, **options)
        for value in stack.parameters.values():
            signs = torch.from_numpy(random.choice([-step, step], value.shape))
            value.data += signs * value.detach().abs().amax(tuple(range(1, value.ndim)), keepdim=True)

    monkeypatch.setattr(NetworkStack, "__init__", moved)
    found = change(numbers(fitted(family, "one noisy", "paper")), f"{family}, one noisy")
    assert step < found < 2 * AMPLIFICATION * step


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
