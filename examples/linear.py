"""EiV and non-EiV on the paper's `linear` problem: a table of coverages and the paper's figure prediction_linear.

    python examples/linear.py --out demo

Ten networks of each kind are trained on ten splits of 500 rows with the paper's settings. The inputs carry an error of
0.1, which the non-EiV model does not know of.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import ShuffleSplit

from eiv import EiVRegressor, Prediction, fit_splits
from eiv.datasets import SIMULATED, simulate
from eiv.metrics import coverage, rmse

PROBLEM = SIMULATED["linear"]
PAPER = {  # table network_and_training, row linear; the paper does not standardise simulated data
    "hidden_units": 128,
    "dropout": 0.1,
    "learning_rate": 1e-3,
    "batch_size": 16,
    "epochs": 100,
    "y_noise_init": 0.1,
    "y_noise_every": 40,
    "standardise": False,
    "random_state": 0,
}
LINES = {"EiV": "-", "non-EiV": "--"}
COLOURS = {"EiV": "#c8102e", "non-EiV": "#1f5fa8"}
N_TEST = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the figure")
    parser.add_argument("--networks", type=int, default=10, help="networks of each kind")
    arguments = parser.parse_args()
    console = Console()
    started = time.perf_counter()

    data, test = simulate("linear", random_state=0), simulate("linear", N_TEST, random_state=1)
    splits = [rows for rows, _ in ShuffleSplit(arguments.networks, train_size=0.8, random_state=0).split(data.X)]
    grid, grid_x = figure_points()
    scores, curves = {}, {}
    for name, x_err in (("EiV", PROBLEM.x_err), ("non-EiV", None)):
        with console.status(f"{name}: training {arguments.networks} networks of the paper's kind ..."):
            models = fit_splits(EiVRegressor(x_err, **PAPER), data.X, data.y, splits)
        with console.status(f"{name}: predicting {N_TEST} fresh points ..."):
            scores[name] = [score(model.predict_distribution(test.X), test) for model in models]
            curves[name] = [model.predict_distribution(grid_x) for model in models]
    console.print(table(scores))
    console.print(
        "u is the uncertainty of f(ζ), for the non-EiV model its epistemic uncertainty alone. 95 % intervals should "
        "cover 0.95 of the values.\nMeans over the networks, standard errors in brackets."
    )
    figure = draw(grid, grid_x, curves, arguments.out)
    console.print(f"Figure: {figure}   ({time.perf_counter() - started:.0f} s)")


def score(p: Prediction, test) -> dict[str, float]:
    return {
        "truth g(ζ) by 1.96 u": coverage(test.truth, *p.interval()),
        "labels y by 1.96 total": coverage(test.y, *p.interval(of="label")),
        "RMSE to y": rmse(test.y, p.mean),
        "u": float(np.sqrt(np.mean(p.std**2))),
        "epistemic": float(np.sqrt(np.mean(p.epistemic**2))),
        "aleatoric": float(np.sqrt(np.mean(p.aleatoric**2))),
        "σ_y": float(p.noise[0]),
    }


def table(scores: dict[str, list[dict[str, float]]]) -> Table:
    shown = Table(title=f"linear: 500 rows, σ_x = {PROBLEM.x_err}, σ_y = {PROBLEM.y_noise}, {N_TEST} test points")
    shown.add_column("")
    for name in scores:
        shown.add_column(name, justify="right")
    shown.add_column("ideal", justify="right")
    ideals = {"truth g(ζ) by 1.96 u": "0.95", "labels y by 1.96 total": "0.95", "σ_y": f"{PROBLEM.y_noise}"}
    for quantity in next(iter(scores.values()))[0]:
        cells = []
        for runs in scores.values():
            values = np.array([run[quantity] for run in runs])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            cells.append(f"{values.mean():.3f} ({error:.3f})")
        label = f"coverage of {quantity}" if " by " in quantity else quantity
        shown.add_row(label, *cells, ideals.get(quantity, ""))
    return shown


def figure_points() -> tuple[np.ndarray, np.ndarray]:
    """Fifty equidistant ζ and a measured x for each."""
    zeta = np.linspace(-1, 1, 50)[:, None]
    return zeta, zeta + PROBLEM.x_err * np.random.default_rng(5).standard_normal(zeta.shape)


def draw(zeta: np.ndarray, x: np.ndarray, curves: dict[str, list[Prediction]], folder: Path) -> Path:
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, (whole, zoom) = plt.subplots(1, 2, figsize=(10, 4.3), layout="constrained")
    grid = zeta[:, 0]
    for axes in (whole, zoom):
        for name, predictions in curves.items():
            mean = np.mean([p.mean for p in predictions], axis=0)
            width = 1.96 * np.mean([p.std for p in predictions], axis=0)
            axes.fill_between(grid, mean - width, mean + width, color=COLOURS[name], alpha=0.22, linewidth=0)
            axes.plot(grid, mean, LINES[name], color=COLOURS[name], label=f"{name}: prediction ± 1.96 u")
        axes.plot(grid, PROBLEM.g(grid), color="black", label="truth g(ζ)")
        axes.set_xlabel("true input ζ")
    whole.set_ylabel("output")
    whole.set_title("predictions from measured x, drawn at the true ζ", fontsize=10)
    whole.legend(frameon=False, loc="upper left")

    # Cut-out around the point whose x lies farthest from its ζ, away from the ends.
    inner = np.arange(8, 42)
    chosen = inner[np.argmax(np.abs(x - zeta)[inner, 0])]
    at_zeta, at_x = grid[chosen], x[chosen, 0]
    centre, half = (at_zeta + at_x) / 2, 0.42
    zoom.set(xlim=(centre - half, centre + half), ylim=(centre - half, centre + half))
    zoom.axvline(at_zeta, color="black", linestyle=":", label="ζ and g(ζ)")
    zoom.axhline(PROBLEM.g(at_zeta), color="black", linestyle=":")
    zoom.axvline(at_x, color="gray", linestyle="--", label="measured x and g(x)")
    zoom.axhline(PROBLEM.g(at_x), color="gray", linestyle="--")
    zoom.set_title("cut-out: the prediction at ζ follows g(x), not g(ζ)", fontsize=10)
    handles, labels = zoom.get_legend_handles_labels()
    zoom.legend(handles[3:], labels[3:], loc="lower right", framealpha=1)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "prediction_linear.png"
    figure.savefig(path, dpi=160)
    figure.savefig(path.with_suffix(".svg"))
    plt.close(figure)
    return path


if __name__ == "__main__":
    main()
