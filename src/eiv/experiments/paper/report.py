"""The page of a run: claims first, then figures, tables, settings and provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from eiv.datasets import SIMULATED
from eiv.experiments.paper.claims import Claim, Condition, Verdict, check_claims, claims_table
from eiv.experiments.paper.figures import CAPTIONS, draw_figures
from eiv.experiments.paper.remarks import (
    DIFFERENCES,
    DRAWN_ANEW_DIFFERS,
    ERRORS,
    ERRORS_DRAWN_ANEW,
    ERRORS_OF_SPLITS,
    REMARKS,
    WORDS,
)
from eiv.experiments.paper.settings import PROFILES, TRAINING
from eiv.experiments.paper.stacks import DRAWN_ANEW, WIDER_NAVAL
from eiv.experiments.paper.tables import Tables
from eiv.experiments.studies.results import read_remarks
from eiv.io.files import written_whole
from eiv.plotting import LABELS
from eiv.report.pages import Cell, HtmlFigure, HtmlTable, write_page

__all__ = ["write_report"]

PAGE = "report.html"
_METHODS = LABELS | {WIDER_NAVAL: "EiV, σ_x = 0.05"}


def write_report(tables: Tables, folder: Path, page: Path | None = None) -> Path:
    """Write the figures, the table of claims and the page of a run.

    Args:
        tables: the tables of the run.
        folder: the folder for `figures/`, `claims.csv` and the page.
        page: the path of the page, if it should be elsewhere. With the ending .md the page is Markdown, and its figures
            are in a folder beside it.

    Returns:
        The path of the page.

    Examples:
        >>> write_report(Tables.read(Path("results")), Path("results"))  # doctest: +SKIP

    """
    path = page or folder / PAGE
    markdown = path.suffix == ".md"
    figures = path.with_suffix("") if markdown else folder / "figures"
    drawn = draw_figures(tables, figures)
    claims = check_claims(tables)
    with written_whole(folder / "claims.csv") as part:
        claims_table(claims).to_csv(part, index=False)
    write_page(
        path,
        "reproduction.md.j2" if markdown else "reproduction.html.j2",
        version=", ".join(sorted(map(str, tables.stacks["eiv"].unique()))),  # which the run was made with
        scope=_scope(tables),
        notice=notice(tables),
        words=WORDS,
        counts=_counts(claims),
        errors=_errors(tables),
        remarks=read_remarks(folder),
        claims=_claims(claims, check_claims(tables, "unbiased")),
        figures=[HtmlFigure(name, (figures / f"{name}.svg").read_bytes(), CAPTIONS[name]) for name in drawn],
        tables=[_scores(tables)],
        figures_folder=figures.name,
        settings=_settings(tables),
        differences=(*DIFFERENCES, *([DRAWN_ANEW_DIFFERS] if _drawn_anew(tables) else [])),
        provenance=_provenance(tables),
    )
    return path


def _scope(tables: Tables) -> str:
    sets, networks = tables.networks["dataset"].nunique(), tables.networks["network"].nunique()
    return f"{sets} of 13 data sets, EiV and non-EiV, {networks} network{'s' * (networks > 1)} each"


def notice(tables: Tables) -> str:
    """A sentence on what a run leaves out of the paper; empty where it is complete."""
    full = PROFILES["full"]
    missing = [name for name in full.sets if name not in set(tables.networks["dataset"])]
    n_networks = tables.networks["network"].nunique()
    if not missing and n_networks >= full.n_networks:
        return ""
    fewer = f"{n_networks} instead of {full.n_networks} networks per data set and method" * (
        n_networks < full.n_networks
    )
    without = f"without {', '.join(missing)}" if missing else ""
    parts = "; ".join(filter(None, [fewer, without]))
    return f"This is not the whole paper: {parts}. `eiv reproduce --profile full` runs all of it."


def _counts(claims: Sequence[Claim]) -> str:
    found = Counter(claim.verdict for claim in claims)
    words: dict[Verdict, str] = {
        "holds": "hold",
        "does not hold": "do not",
        "cannot tell": "are undecided (cannot tell)",
        "not run": "were not run",
    }
    parts = [f"{found[verdict]} {word}" for verdict, word in words.items() if found[verdict]]
    return f"Of {len(claims)} claims, {', '.join(parts)}."


def _drawn_anew(tables: Tables) -> bool | None:
    """Whether simulated data were drawn anew for each network, unlike in older runs; None without such data."""
    simulated = tables.stacks[tables.stacks["dataset"].isin(SIMULATED)]
    if simulated.empty:
        return None
    return "data_drawn" in simulated and bool((simulated["data_drawn"] == DRAWN_ANEW).all())


def _errors(tables: Tables) -> str:
    """The text on how standard errors are found, and on their meaning."""
    of_simulated = {True: ERRORS_DRAWN_ANEW, False: ERRORS_OF_SPLITS, None: ""}
    return f"{ERRORS} {of_simulated[_drawn_anew(tables)]}".strip()


def _claims(claims: Sequence[Claim], unbiased: Sequence[Claim]) -> list[dict[str, Any]]:
    shown = []
    for claim, other in zip(claims, unbiased, strict=True):
        rows = [
            [
                Cell.of(_subject(condition, second)),
                Cell.measured(condition.value, condition.error),
                Cell.of(condition.verdict),
                Cell.measured(second.value, second.error),
                Cell.of(second.verdict),
            ]
            for condition, second in zip(claim.conditions, other.conditions, strict=True)
        ]
        headings = ("", "as printed", "verdict", "unbiased", "verdict")
        shown.append(
            {
                "name": claim.name,
                "where": claim.where,
                "sentence": claim.sentence,
                "statistic": claim.statistic,
                "rule": claim.rule,
                "verdict": claim.verdict,
                "other": other.verdict if other.verdict != claim.verdict else "",
                "exceptions": tuple(map(_in_words, claim.exceptions)),
                "remark": REMARKS.get(claim.name, "") if claim.verdict in ("does not hold", "cannot tell") else "",
                "table": HtmlTable("", headings, rows),
            }
        )
    return shown


def _subject(condition: Condition, second: Condition) -> str:
    """The subject of two conditions, with that of the unbiased estimator where its level q differs."""
    if condition.subject == second.subject:
        return _in_words(condition.subject)
    return f"{_in_words(condition.subject)} (unbiased: {_in_words(second.subject)})"


def _in_words(subject: str) -> str:
    return subject.replace("non_eiv", "non-EiV").replace("eiv", "EiV")


def _scores(tables: Tables) -> HtmlTable:
    columns = {
        "rmse": "RMSE",
        "label_coverage_total": "labels by total",
        "label_coverage_u": "labels by u",
        "truth_coverage": "truth by u",
        "rmse_truth": "RMSE to truth",
        "u": "u",
        "epistemic": "epistemic",
        "aleatoric": "aleatoric",
        "y_noise": "σ_y",
    }
    summary = tables.summary()
    rows = [
        [
            *_names(*index),
            *(Cell.measured(*summary.loc[index, column].loc[["mean", "se"]]) for column in columns),
        ]
        for index in summary.index
    ]
    return HtmlTable(
        "All scores. Real data are in units of the spread (standard deviation) of the training labels, simulated data "
        "in their own units. Coverages are those of intervals of ± 1.96 standard deviations.",
        ("data set", "method", "estimator", *columns.values()),
        rows,
    )


def _names(dataset: str, method: str, estimator: str) -> list[Cell]:
    return [Cell.of(word) for word in (dataset, _METHODS[method], estimator.replace("literal", "as printed"))]


def _settings(tables: Tables) -> list[HtmlTable]:
    settings = training_table(tables.networks["dataset"].unique())
    simulated = [
        [name, SIMULATED[name].formula, str(list(SIMULATED[name].zeta_range)), *_noise(name)] for name in SIMULATED
    ]
    headings = ("data set", "g(ζ)", "range of ζ", "σ_x", "σ_y", "rows")
    data = HtmlTable("Table sim_data of the paper.", headings, [[Cell.of(value) for value in row] for row in simulated])
    return [settings, data]


def training_table(sets: Iterable[str]) -> HtmlTable:
    """The settings of the paper for some data sets."""
    rows = [[Cell.of(value) for value in (name, *asdict(TRAINING[name]).values())] for name in sets]
    names = ("data set", "h", "p", "learning rate", "batch", "epochs", "σ_x", "σ_y at start", "σ_y every … epochs")
    return HtmlTable("Table network_and_training of the paper.", names, rows)


def _noise(name: str) -> tuple[float, float, int]:
    return SIMULATED[name].x_err, SIMULATED[name].y_noise, SIMULATED[name].n_rows


def _provenance(tables: Tables) -> list[HtmlTable]:
    columns = ["dataset", "method", "n_networks", "seed", "device_name", "eiv", "torch", "numpy", "python"]
    columns += ["training_s", "evaluation_s", "finished"]
    shown = tables.stacks[columns].replace({"method": _METHODS})
    total = shown[["training_s", "evaluation_s"]].to_numpy().sum()
    caption = f"The origin of each stack of networks, and times in seconds: {total:.0f} s if run one after another."
    return [HtmlTable(caption, columns, _cells(shown))]


def _cells(table: pd.DataFrame) -> list[list[Cell]]:
    return [[Cell.of(value) for value in row] for row in table.itertuples(index=False)]
