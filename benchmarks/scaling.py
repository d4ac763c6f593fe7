"""How the cost of training and prediction grows, one figure: `python benchmarks/scaling.py`.

From a common middle (EiV, 1,000 rows, 8 features, 4 x 128 units, L = 5, one network) one size at a time is changed.
"""

from __future__ import annotations

import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
from rich.progress import track

from eiv import EiVRegressor

mpl.use("Agg")
import matplotlib.pyplot as plt

FIGURE = Path(__file__).parents[1] / "docs" / "scaling.png"
MIDDLE = {"rows": 1000, "features": 8, "units": 128, "zetas L": 5, "networks": 1}
STEPS = {
    "rows": [250, 500, 1000, 2000, 4000],
    "features": [1, 4, 8, 16, 32, 64],
    "units": [32, 64, 128, 256, 512],
    "zetas L": [2, 5, 10, 20, 40],
    "networks": [1, 2, 5, 10, 20],
}
EPOCHS = 3


def cost(sizes: dict[str, int]) -> tuple[float, float]:
    """Seconds of an epoch and of a prediction for all rows."""
    random = np.random.default_rng(0)
    X = random.standard_normal((sizes["rows"], sizes["features"]))
    y = X[:, 0] + 0.1 * random.standard_normal(sizes["rows"])

    def fitted(epochs: int) -> tuple[EiVRegressor, float]:
        model = EiVRegressor(
            0.1, hidden_units=sizes["units"], n_zeta=sizes["zetas L"], n_networks=sizes["networks"], batch_size=32,
            epochs=epochs, y_noise_every=10**6, n_theta=20, random_state=0, recipe="paper",
        )  # fmt: skip
        start = time.perf_counter()
        return model.fit(X, y), time.perf_counter() - start

    _, short = fitted(1)
    model, long = fitted(1 + EPOCHS)
    start = time.perf_counter()
    model.predict_distribution(X, keep_draws=False)
    return (long - short) / EPOCHS, time.perf_counter() - start


def main() -> None:
    cost(MIDDLE)  # warm up
    figure, panels = plt.subplots(1, len(STEPS), figsize=(15, 3.4), sharey=True, layout="constrained")
    for axes, (name, values) in track(list(zip(panels, STEPS.items(), strict=True)), "measuring"):
        epochs, predictions = zip(*(cost(MIDDLE | {name: value}) for value in values), strict=True)
        axes.loglog(values, epochs, "o-", color="#c8102e", label="training, one epoch")
        axes.loglog(values, predictions, "s--", color="#444444", label="prediction of all rows, 20 thetas")
        guide = np.array([values[0], values[-1]])
        axes.loglog(guide, epochs[0] * guide / guide[0], ":", color="gray", label="proportional growth")
        axes.set_xticks(values, [f"{value:,}" for value in values])
        axes.minorticks_off()
        axes.set_xlabel(name)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("seconds")
    panels[0].legend(fontsize=8)
    figure.suptitle("Cost around 1,000 rows, 8 features, 4 x 128 units, L = 5, one network, batch 32", fontsize=11)
    figure.savefig(FIGURE, dpi=130)
    print(f"wrote {FIGURE}")


if __name__ == "__main__":
    main()
