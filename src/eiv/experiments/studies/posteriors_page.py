"""The page of `eiv study posteriors`, from its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from eiv.datasets import SIMULATED
from eiv.experiments.paper.report import training_table
from eiv.experiments.paper.settings import METHODS
from eiv.experiments.studies.page import Drawing, Section, StudyPage, provenance_table, what_is_missing, write_page_of
from eiv.experiments.studies.posteriors import DATA_SETS, MEMBERS, SCORES, TABLE, UNITS
from eiv.plotting import COLOURS, LABELS, MARKERS, new_figure
from eiv.posteriors import FAMILIES
from eiv.report.pages import Cell, HtmlTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_posteriors_page"]

_KEYS = ["dataset", "method", "family"]
FIRST = "bernoulli_dropout"  # the family that the others are compared with
_PANELS = 5  # the most panels side by side
_FEW_NETWORKS = 10
_TIMES = {"training_s": "training", "prediction_s": "prediction"}
_RATIO_TICKS = (0.1, 0.3, 1, 3, 10, 30)


def write_posteriors_page(folder: Path, out: Path | None = None) -> Path:
    """Write the page of a study of posteriors from the tables in its folder, without training.

    Args:
        folder: the folder of the study.
        out: the path of the page, by default `report.html` in the folder; with the ending .md the page is Markdown.

    Returns:
        The path of the page.

    Examples:
        >>> write_posteriors_page(Path("study"), Path("docs/posteriors.md"))  # doctest: +SKIP

    """
    return write_page_of("posteriors", (TABLE, UNITS), _page, folder, out)


def _page(table: pd.DataFrame, units: pd.DataFrame, remarks: Sequence[str]) -> StudyPage:
    notice = _notice(table, units)
    sections = [
        Section("When to use which family", remarks) if remarks else None,
        Section("Overview", _overview_text(table), tables=[overview(table)]),
        _simulated(table),
        _labels(table),
        _times(table),
        Section("All scores", tables=_score_tables(table)),
        Section(
            "Settings and provenance",
            _settings_text(),
            tables=[training_table(table["dataset"].unique()), _provenance(units)],
        ),
    ]
    lead = (
        f"{table['family'].nunique()} families of weight posteriors, each with Errors-in-Variables (EiV) and without, "
        f"on {table['dataset'].nunique()} data sets of the paper with its settings: only the family changes. "
        f"{_how_many(units)}"
    )
    return StudyPage("Weight posteriors compared", lead, [section for section in sections if section], notice)


def _how_many(units: pd.DataFrame) -> str:
    single, joint = (units.loc[rows, "n_models"] for rows in (units["members"] == 1, units["members"] > 1))
    parts = [f"{single.max()} networks for each, each on its own split of the rows"] if len(single) else []
    if len(joint):
        parts.append(f"{joint.max()} ensembles of {MEMBERS} networks, one per split")
    anew = "data_drawn" in units and units["data_drawn"].notna().any()
    drawn = " On the simulated sets the data are drawn anew for each split." if anew else ""
    return f"There are {'; '.join(parts)}.{drawn}"


def _notice(table: pd.DataFrame, units: pd.DataFrame) -> str:
    """A sentence on what a run leaves out of the study; empty where it is complete."""
    parts = [
        f"without {', '.join(gone)}"
        for column, known in (("dataset", DATA_SETS), ("family", FAMILIES))
        if (gone := [name for name in known if name not in set(table[column])])
    ]
    fewest, share = int((units["n_models"] * units["members"]).min()), float(units["epochs_share"].min())
    if fewest < _FEW_NETWORKS:
        parts.append(f"{fewest} networks instead of {_FEW_NETWORKS} for some of the rows")
    if share < 1:
        parts.append(f"with {share:.2g} of the paper's epochs, so that scores are not those of trained networks")
    return what_is_missing(parts)


def _is_timed(table: pd.DataFrame) -> bool:
    """Whether at least some units of the study were run with times."""
    return bool(table[list(_TIMES)].notna().any(axis=None))


def _overview_text(table: pd.DataFrame) -> list[str]:
    text = [
        "CRPS, a score of the whole predicted distribution of a label, is given as a ratio to that of Bernoulli "
        "dropout with the same method on the same splits, as a geometric mean over the data sets. Below 1 is better. "
        "Coverages are means over the data sets; they should be 95 %."
    ]
    if _is_timed(table):
        text[0] += " Times are such ratios, too."
    lost = table[table["rmse"].isna()][_KEYS].drop_duplicates()
    if len(lost):
        cases = ", ".join(f"{row.family} ({LABELS[row.method]}) on {row.dataset}" for row in lost.itertuples())
        text.append(f"With the paper's settings these diverged in training, so that they have no scores: {cases}.")
    return text


def overview(table: pd.DataFrame) -> HtmlTable:
    """A summary of the families: means over the data sets, and ratios to Bernoulli dropout."""
    means = table.groupby(_KEYS, sort=False)[["truth_coverage", "label_coverage_total"]].mean()
    ratios = {"crps": _compared(table, "crps", np.divide)["mean"]}
    times = _TIMES if _is_timed(table) else {}
    ratios |= {column: _ratios(table, column).set_index(_KEYS)["ratio"] for column in times}
    logs = np.log(pd.DataFrame(ratios, index=means.index))
    over_sets = means.join(logs).groupby(["family", "method"], sort=False).mean()
    over_sets[list(ratios)] = np.exp(over_sets[list(ratios)])
    rows = [
        [Cell.of(family), Cell.of(LABELS[method]), *(Cell.measured(value, np.nan) for value in found)]
        for family in table["family"].unique()
        for method in table["method"].unique()
        for found in [over_sets.loc[(family, method)]]
    ]
    caption = "Summary of the families; the truth is known for the simulated sets only."
    headings = ("family", "method", "truth covered", "labels covered", "CRPS", *times.values())
    return HtmlTable(caption, headings, rows)


def _ratios(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Medians over the models, and their `ratio` to Bernoulli dropout on the same data set with the same method."""
    medians = table.groupby(_KEYS, sort=False)[column].median().rename("median").reset_index()
    first = medians[medians["family"] == FIRST].drop(columns="family").rename(columns={"median": "first"})
    both = medians.merge(first, on=["dataset", "method"], how="left")
    return both.assign(ratio=both["median"] / both["first"])


def _simulated(table: pd.DataFrame) -> Section | None:
    sets = [name for name in table["dataset"].unique() if name in SIMULATED]
    if not sets:
        return None
    figure = _panels(_summary(table, "truth_coverage"), sets, "share of g(ζ) covered", at=0.95, same_axis=True)
    caption = (
        "Coverage of the truth g(ζ) at the test rows by the interval m ± 1.96 u, with standard errors over the "
        "networks. The line is at 95 %. Without Errors-in-Variables u is the epistemic uncertainty alone."
    )
    return Section("Coverage of the truth", figures=[Drawing("posteriors_truth_coverage", figure, caption)])


def _labels(table: pd.DataFrame) -> Section:
    sets = list(table["dataset"].unique())
    covered = _panels(_summary(table, "label_coverage_total"), sets, "share of labels covered", at=0.95, same_axis=True)
    text = "Coverage of the test labels by the interval m ± 1.96 times the total uncertainty. The line is at 95 %."
    figures = [Drawing("posteriors_label_coverage", covered, text)]
    if FIRST in set(table["family"]):
        crps = _panels(_compared(table, "crps", np.divide), sets, "CRPS / that of Bernoulli", at=1.0, most=1.5)
        nll = _panels(_compared(table, "nll", np.subtract), sets, "NLL − that of Bernoulli", at=0.0, most=0.5)
        pairs = (
            "to that of Bernoulli dropout with the same method on the same split, as a mean over the splits; left of "
            "the line is better, and points far to the right are given as numbers"
        )
        figures += [
            Drawing("posteriors_crps", crps, f"The CRPS of labels as a ratio {pairs}. Bars: standard errors."),
            Drawing("posteriors_nll", nll, f"The NLL of labels as a difference, in nats, {pairs}."),
        ]
    return Section("Labels: coverage and scores", figures=figures)


def _summary(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Mean and standard error over the models."""
    grouped = table.groupby(_KEYS, sort=False)[column]
    return pd.DataFrame({"mean": grouped.mean(), "se": grouped.sem()})


def _compared(table: pd.DataFrame, column: str, compare: Callable[[Any, Any], Any]) -> pd.DataFrame:
    """Mean and standard error of the ratios or differences to Bernoulli dropout on the same split."""
    keys = ["dataset", "method", "network"]
    first = table[table["family"] == FIRST][[*keys, column]]
    both = table.merge(first, on=keys, suffixes=("", "_first"))
    return _summary(both.assign(**{column: compare(both[column], both[f"{column}_first"])}), column)


def _panels(
    summary: pd.DataFrame,
    sets: Sequence[str],
    label: str,
    at: float,
    *,
    same_axis: bool = False,
    most: float = np.inf,
) -> Figure:
    """A panel per data set, a row per family, a point per method; with a line at `at`, and axes that end at `most`."""
    families = list(dict.fromkeys(summary.index.get_level_values("family")))
    n_columns = min(_PANELS, len(sets))
    n_rows = -(-len(sets) // n_columns)
    size = (1.6 + 1.9 * n_columns, 0.9 + (0.5 + 0.24 * len(families)) * n_rows)
    figure, panels = new_figure(n_rows, n_columns, size, sharey=True, sharex=same_axis)
    for axes, name in zip(panels.flat, sets, strict=False):
        axes.axvline(at, color=COLOURS["truth"], linewidth=0.8)
        for shift, edge, method in zip((-0.14, 0.14), (0.7, 1.0), METHODS, strict=True):
            found = summary.reindex([(name, method, family) for family in families])
            look = {"color": COLOURS[method], "marker": MARKERS[method], "linestyle": "none", "markersize": 4}
            seen = found["mean"].where(found["mean"] <= most)
            axes.errorbar(seen, np.arange(len(families)) + shift, xerr=found["se"], label=LABELS[method], **look)
            for row in np.flatnonzero(found["mean"] > most):
                place = {"xycoords": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
                readable = {
                    "color": look["color"],
                    "size": "small",
                    "zorder": 5,
                    "bbox": {"fc": "w", "ec": "w", "pad": 0.4},
                }
                axes.annotate(f"{found['mean'].iloc[row]:.3g}", (edge, row + shift), **readable, **place)
        axes.set(title=name, ylim=(len(families) - 0.5, -0.5))
        axes.grid(axis="y", color="#e4e4e8", linewidth=0.6)
    for axes in panels.flat[len(sets) :]:
        axes.set_visible(False)
    panels[0, 0].set_yticks(range(len(families)), [family.replace("_", " ") for family in families])
    figure.supxlabel(label, fontsize="medium")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False)
    return figure


def _times(table: pd.DataFrame) -> Section | None:
    if not _is_timed(table):
        return None
    figures = []
    if FIRST in set(table["family"]):
        caption = (
            "Seconds per network as a ratio to Bernoulli dropout on the same data set with the same method, one point "
            "per data set. The time of an ensemble is that of one member."
        )
        figures = [Drawing("posteriors_times", _time_figure(table), caption)]
    return Section(
        "Times",
        [
            "Units ran one at a time. The time of training is that of the whole call, from building the networks to "
            "the finished posterior, after a short training that is not timed. The time of prediction is that of the "
            "test rows, as a median over the models."
        ],
        figures=figures,
        tables=[_time_table(table)],
    )


def _time_figure(table: pd.DataFrame) -> Figure:
    families = list(table["family"].unique())
    figure, (panels,) = new_figure(1, 2, (8.2, 1.4 + 0.28 * len(families)), sharey=True)
    for axes, (column, title) in zip(panels, _TIMES.items(), strict=True):
        ratios = _ratios(table, column)
        axes.axvline(1.0, color=COLOURS["truth"], linewidth=0.8)
        for shift, method in zip((-0.16, 0.16), METHODS, strict=True):
            chosen = ratios[ratios["method"] == method]
            places = [families.index(family) + shift for family in chosen["family"]]
            axes.plot(
                chosen["ratio"], places, MARKERS[method], color=COLOURS[method], markersize=4, alpha=0.6,
                markeredgewidth=0, label=LABELS[method],
            )  # fmt: skip
        axes.set(title=title, xscale="log", xlabel="times Bernoulli dropout", ylim=(len(families) - 0.5, -0.5))
        axes.set_xticks(_RATIO_TICKS, [f"{tick:g}" for tick in _RATIO_TICKS])
        axes.minorticks_off()
        axes.grid(axis="both", color="#e4e4e8", linewidth=0.6)
    panels[0].set_yticks(range(len(families)), [family.replace("_", " ") for family in families])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False)
    return figure


def _time_table(table: pd.DataFrame) -> HtmlTable:
    times = _ratios(table, "training_s").merge(_ratios(table, "prediction_s"), on=_KEYS, suffixes=("", "_predict"))
    columns = {"median": 3, "ratio": 2, "median_predict": 4, "ratio_predict": 2}  # with so many digits
    rows = [
        [
            *map(Cell.of, (row["dataset"], LABELS[row["method"]], row["family"])),
            *(Cell.measured(row[name], np.nan, digits) for name, digits in columns.items()),
        ]
        for row in times.to_dict("records")
    ]
    headings = ("data set", "method", "family", "training, s", "times Bernoulli", "prediction, s", "times Bernoulli")
    return HtmlTable("Seconds per network.", headings, rows)


def _score_tables(table: pd.DataFrame) -> list[HtmlTable]:
    simulated = table["dataset"].isin(SIMULATED)
    captions = {
        "Simulated data, in their own units.": (table[simulated], SCORES),
        "Real data, in units of the spread (standard deviation) of the training labels.": (
            table[~simulated],
            {key: name for key, name in SCORES.items() if "truth" not in key},
        ),
    }
    tables = []
    for caption, (part, columns) in captions.items():
        if len(part):
            grouped = part.groupby(_KEYS, sort=False)[list(columns)]
            rows = [
                [Cell.of(name), Cell.of(LABELS[method]), Cell.of(family), *map(Cell.measured, means, errors)]
                for (name, method, family), means, errors in zip(
                    grouped.groups, grouped.mean().to_numpy(), grouped.sem().to_numpy(), strict=True
                )
            ]
            whole = (
                f"{caption} Means and standard errors over the networks. Intervals are of ± 1.96 standard deviations. "
                "The bound gap is the error of the trained bound because zetas are few, in nats per row."
            )
            tables.append(HtmlTable(whole, ("data set", "method", "family", *columns.values()), rows))
    return tables


def _settings_text() -> list[str]:
    return [
        "The paper's settings hold for all families: epochs, step size, rule of σ_y, prior of the weights and n_theta "
        "= 100. Learned rates and standard deviations start from the paper's dropout rate. NLL and CRPS take a label "
        "as normal with the total uncertainty."
    ]


def _provenance(units: pd.DataFrame) -> HtmlTable:
    columns = [
        "dataset", "method", "family", "n_models", "members", "epochs_share", "seed", "device_name", "eiv", "torch",
        "numpy", "python", "training_s", "evaluation_s", "finished",
    ]  # fmt: skip
    return provenance_table(units, columns)
