"""`eiv compare` on the tables at hand; `python benchmarks/compare_tables.py --write` renews results and page.

EIV_TABLES names the folder of the measured tables. A killed run continues in the folder of `--work`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eiv import Comparison
from eiv.comparison import METHODS, Task
from eiv.datasets import SIMULATED, simulate
from eiv.experiments.comparisons import resumed_comparison
from eiv.experiments.studies.real_tables import MEASURED, humidity, load_table
from eiv.plotting import save

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "compare", ROOT / "docs" / "compare.md"
MOST_ROWS, SEED = 300, 0
KNOWN_LABELS = ("supernovae_pantheon", "stars_harps_age", "exoplanet_radius", "pearson_york")  # with errors of y


@dataclass(frozen=True)
class Rows:
    """A table: inputs, their errors, labels, known errors of these, one number or one by row."""

    X: Any
    X_err: Any
    y: Any
    y_err: Any = None


def _humidity() -> Rows:
    table = humidity(400, seed=0)[0]
    return Rows(table.X, table.X_err, table.y)


def _simulated(name: str) -> Callable[[], Rows]:
    def rows() -> Rows:
        data = simulate(name, random_state=SEED)
        return Rows(data.X, SIMULATED[name].x_err, data.y, SIMULATED[name].y_noise)

    return rows


def _measured(name: str) -> Callable[[], Rows]:
    def rows() -> Rows:
        folder = Path(os.environ["EIV_TABLES"])
        if name == "pearson_york":
            table = pd.read_csv(folder / "pearson_york.csv")
            return Rows(
                table[["x"]].to_numpy(), table[["e_x"]].to_numpy(), table["y"].to_numpy(), table["e_y"].to_numpy()
            )
        table = load_table(name)
        known = pd.read_csv(folder / f"{name}.csv")["e_y"].to_numpy() if name in KNOWN_LABELS else None
        return Rows(table.X, table.X_err, table.y, known)

    return rows


TABLES: dict[str, Callable[[], Rows]] = {
    "humidity": _humidity,
    "cubic": _simulated("cubic"),
    "sine": _simulated("sine"),
    **{name: _measured(name) for name in (*MEASURED, "pearson_york")},
}


def task_of(rows: Rows) -> Task:
    """At most `MOST_ROWS` random rows, in five folds."""
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(rows.y))[:MOST_ROWS])

    def of_rows(values: Any) -> Any:
        return values[chosen] if np.ndim(values) > 1 or np.shape(values) == np.shape(rows.y) else values

    return Task.of(
        rows.X[chosen],
        rows.y[chosen],
        X_err=of_rows(rows.X_err),
        y_err=of_rows(rows.y_err),
        seed=SEED,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="renew results/compare and docs/compare.md")
    parser.add_argument("--work", type=Path, default=Path("compare-tables"), help="folder for finished fits")
    parser.add_argument("--tables", default=",".join(TABLES), help="these tables only")
    arguments = parser.parse_args()
    found: dict[str, Comparison] = {}
    for name in arguments.tables.split(","):
        found[name] = resumed_comparison(task_of(TABLES[name]()), arguments.work / name, seed=SEED)
        print(f"{name}: {found[name].sentence}\n", flush=True)
    if arguments.write:
        write(found)


def write(found: dict[str, Comparison]) -> None:
    """Renew the numbers and the page, between its marks."""
    tables = [each.to_frame().reset_index().assign(table=name) for name, each in found.items()]
    scores = pd.concat(tables, ignore_index=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    order = ["table", *(column for column in scores if column != "table")]
    scores[order].to_csv(RESULTS / "compare.csv", index=False, float_format="%.5g")
    words = [
        {"table": n, "rows": len(c.task.y), "best": c.best, "tied": " ".join(c.tied), "sentence": c.sentence}
        for n, c in found.items()
    ]
    pd.DataFrame(words).to_csv(RESULTS / "sentences.csv", index=False)
    if "humidity" in found:
        save(found["humidity"].plot(), ROOT / "docs" / "compare" / "compare_humidity")
    page = PAGE.read_text()
    start, end = "<!-- results: begin -->\n", "<!-- results: end -->\n"
    PAGE.write_text(page[: page.index(start) + len(start)] + _page(found) + page[page.index(end) :])


def _page(found: dict[str, Comparison]) -> str:
    """The CRPS of each method over the best one's, its coverage, and a sentence for each table."""
    ratios, covered = _markdown(found, _ratio), _markdown(found, lambda c, name: f"{c.coverage(name):.3f}")
    sentences = "\n".join(f"- **{name}** ({len(c.task.y)} rows): {c.sentence}" for name, c in found.items())
    skipped = [(n, m, why) for n, c in found.items() for m, why in c.skipped.items() if m != "york_line"]
    without = "".join(f"\nSkipped on {table}: {method}. {why}.\n" for table, method, why in skipped)
    return (
        f"\nCRPS over that of the best method; bold where it is within two standard errors of the best:\n\n{ratios}\n"
        f"Share of labels in their 95 % interval:\n\n{covered}\nWhat `eiv compare` says:\n\n{sentences}\n{without}\n"
    )


def _ratio(comparison: Comparison, name: str) -> str:
    best = comparison.of_rows(comparison.best, "crps").mean()
    ratio = f"{comparison.of_rows(name, 'crps').mean() / best:.2f}"
    return f"**{ratio}**" if name in comparison.tied else ratio


def _markdown(found: dict[str, Comparison], cell: Callable[[Comparison, str], str]) -> str:
    lines = [f"| | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
    for name, method in METHODS.items():
        cells = [cell(each, name) if name in each.folds else "–" for each in found.values()]
        lines.append(f"| {method.label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
