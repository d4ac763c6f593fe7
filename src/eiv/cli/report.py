"""`eiv report`: the page of a model, of a reproduction, or of a study."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from eiv.cli.app import app, check_output, console, errors, interruptible, printable, show_warning
from eiv.cli.shared import Decimal, DropIncomplete, ErrorOfLabels, ErrorsOfRows, LabelsOfRows, Separator
from eiv.extras import needs
from eiv.io.files import check_links, digest_of, no_links

if TYPE_CHECKING:
    import pandas as pd

    from eiv import FittedModel, Sensitivity
    from eiv.cli.modeltable import ModelTable
    from eiv.report import Sample

_ENDINGS = (".html", ".htm")


@app.command()
def report(  # noqa: PLR0913  (a command)
    subject: Annotated[
        Path, typer.Argument(metavar="MODEL|DIR", help="A model file, or the folder of a reproduction or a study.")
    ],
    data: Annotated[
        Path | None,
        typer.Argument(help="For a model: a table to evaluate it on, best one that it was not fitted to."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="PAGE",
            help="The page; by default MODEL with the ending .html, or DIR/report.html. For a folder also Markdown, "
            "where it ends in .md.",
        ),
    ] = None,
    x_err: ErrorsOfRows = None,
    y_err: ErrorOfLabels = None,
    target: LabelsOfRows = None,
    drop_missing: DropIncomplete = False,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Add what errors of other sizes and laws would do: the model is fitted anew, as `eiv sensitivity` "
            "does, which takes minutes.",
        ),
    ] = False,
    separator: Separator = None,
    decimal: Decimal = None,
    force: Annotated[bool, typer.Option("--force", help="Replace PAGE if it exists.")] = False,
) -> None:
    """Write a self-contained page on a model, or make the page of a reproduction or a study again.

    The page of a model shows the curve along each input with its uncertainty, the uncertainty budget, the settings and
    the origin of the model. With DATA it also shows calibration, residuals, and inputs outside the training range.
    """
    needs("eiv report", "jinja2", "matplotlib", extra="report")
    started = time.perf_counter()
    if subject.is_file():
        page = out or subject.with_suffix(".html")
        if page.suffix.lower() not in _ENDINGS:
            raise ValueError(f"{page}: the page of a model can be written as {' or '.join(_ENDINGS)}.")
        check_output(page, force, subject, *([] if data is None else [data]))
        with interruptible(page, force):
            _of_model(subject, page, _Given(data, x_err, y_err, target, drop_missing, sensitivity, separator, decimal))
    elif subject.is_dir():
        if data is not None:
            raise ValueError(f"{subject} is a folder of results, for which no table can be given.")
        page = _of_results(subject, out, force)
    else:
        raise FileNotFoundError(f"There is no model file and no folder {subject}.")
    console.print(f"Report: {printable(page)}   ({time.perf_counter() - started:.0f} s)", highlight=False)


def _of_results(folder: Path, out: Path | None, force: bool) -> Path:
    """Make the page of a folder of results again; without `out`, the pages in that folder are replaced."""
    with no_links(folder), interruptible(out or folder / "report.html", force or out is None):
        name = _kind_of_results(folder)
        for own in ("report.html", "figures", "claims.csv"):
            check_links(folder / own)
        if out is not None:
            check_links(out)
            check_output(out, force, *folder.glob("*.csv"), *folder.glob("*.parquet"), folder / "remarks.md")
            _check_figures(_figures_folder(folder, out, name), folder, force)
        with _damage(folder):
            _check_whole(folder, name)
            return _PAGES[name](folder, out)


def _figures_folder(folder: Path, out: Path, name: str) -> Path:
    """The folder for the figures of a page."""
    if out.suffix == ".md":
        return out.with_suffix("")
    return (folder if name == "networks.csv" else out.parent) / "figures"


def _check_figures(figures: Path, folder: Path, force: bool) -> None:
    """Raise a ValueError where figures would replace others, except those in a folder of results."""
    check_links(figures)
    if not figures.is_dir():
        if figures.exists():
            raise ValueError(f"{figures} exists already and is not a folder; figures are written there.")
        return
    own = (folder / "figures").is_dir() and figures.samefile(folder / "figures")
    if not (own or force) and any(figures.iterdir()):
        raise ValueError(f"{figures} exists already; use --force to replace figures in it.")


def _kind_of_results(folder: Path) -> str:
    """The file in a folder of results that says what was run."""
    found = [name for name in _PAGES if (folder / name).is_file()]
    if not found:
        raise FileNotFoundError(
            f"{folder} holds no results: none of {', '.join(_PAGES)}. `eiv reproduce` and `eiv study` make them."
        )
    if len(found) > 1:
        raise ValueError(
            f"{folder} holds results of more than one run, {' and '.join(found)}; give each its own folder."
        )
    return found[0]


@contextlib.contextmanager
def _damage(folder: Path) -> Iterator[None]:
    """Turn every exception that damaged tables can cause into one ValueError."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        words = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{folder}: no page can be made of its tables, which are damaged or of another version: "
            f"{words.rstrip('.')}. Run the command that made them again."
        ) from error


def _check_whole(folder: Path, name: str) -> None:
    """Raise a ValueError where the end of a table or the rows of some networks are missing."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    from eiv.datasets import SIMULATED  # noqa: PLC0415

    units_name, keys = _UNITS[name]
    for path in sorted(folder / other for other in (name, units_name, "calibration.csv", "points.csv")):
        if path.is_file() and not path.read_bytes().endswith(b"\n"):
            raise ValueError(f"the end of {path.name} is missing")
    if not (folder / units_name).is_file():
        return  # an error is raised where they are read
    table, units = pd.read_csv(folder / name), pd.read_csv(folder / units_name)
    _check_scores(table, name)
    if name == "networks.csv":
        _check_scores(table[table["dataset"].isin(list(SIMULATED))], name, _OF_SIMULATED)
        for other in ("calibration.csv", "points.csv"):
            if (folder / other).is_file():
                _check_scores(pd.read_csv(folder / other), other)
    numbered = [column for column in ("realisation", "network") if column in table and column not in keys]
    found = table[[*keys, *numbered]].drop_duplicates().groupby(keys).size()
    unknown = set(found.index) - set(units[keys].itertuples(index=False, name=None))
    if unknown:
        raise ValueError(f"{units_name} has no row for {', '.join(map(str, min(unknown)))}")
    for unit in units.to_dict("records"):
        wanted = int(unit.get("n_models", unit.get("n_networks", 1)) * unit.get("n_realisations", 1))
        where = tuple(unit[key] for key in keys)
        if found.get(where, 0) != wanted:
            raise ValueError(f"{name} has {found.get(where, 0)} of {wanted} networks for {', '.join(map(str, where))}")


def _check_scores(table: pd.DataFrame, name: str, columns: tuple[str, ...] = ()) -> None:
    """Raise a ValueError where rows lack a score, or it is infinite. Failed fits of a study need no scores."""
    found = table[[column for column in columns or _ALWAYS[name] if column in table]]
    without = found.isna() | found.isin([np.inf, -np.inf])
    lacking = without.any(axis=1)
    if name in ("posteriors.csv", "tables.csv"):
        lacking &= ~without.all(axis=1)
    if lacking.any():
        raise ValueError(f"{int(lacking.sum())} of {len(table)} rows of {name} lack a score")


_ALWAYS = {  # the scores that every network has, and the values that every point of a curve has
    "networks.csv": ("rmse", "u", "epistemic", "aleatoric", "y_noise", "label_coverage_u", "label_coverage_total"),
    "calibration.csv": ("q", "coverage"),
    "points.csv": ("zeta", "x", "truth", "g_of_x", "mean", "u"),
    "coverage.csv": (
        *(f"truth_{kind}_{level}" for level in (0.5, 0.8, 0.95) for kind in ("moment", "quantile")),
        *("labels_0.95", "rmse", "rmse_ratio", "best_rmse", "clean_rmse", "y_noise", "y_noise_ratio"),
        *("epistemic", "aleatoric"),
    ),
    "posteriors.csv": ("rmse", "label_coverage_total", "nll", "crps", "interval_score", "y_noise"),
    "tables.csv": ("rmse", "crps", "labels_0.95", "training_s", "prediction_s"),
    "errors.csv": ("truth_0.95", "labels_0.95", "rmse_ratio", "clean_rmse", "y_noise_ratio", "size_ratio", "size_std"),
}
_OF_SIMULATED = ("rmse_truth", "truth_coverage")


def _of_reproduction(folder: Path, out: Path | None) -> Path:
    from eiv.experiments.paper.report import write_report  # noqa: PLC0415
    from eiv.experiments.paper.tables import Tables  # noqa: PLC0415

    return write_report(Tables.read(folder), folder, out)


def _of_coverage(folder: Path, out: Path | None) -> Path:
    from eiv.experiments.studies.coverage_page import write_coverage_page  # noqa: PLC0415

    return write_coverage_page(folder, out)


def _of_posteriors(folder: Path, out: Path | None) -> Path:
    from eiv.experiments.studies.posteriors_page import write_posteriors_page  # noqa: PLC0415

    return write_posteriors_page(folder, out)


def _of_tables(folder: Path, out: Path | None) -> Path:
    from eiv.experiments.studies.tables_page import write_tables_page  # noqa: PLC0415

    return write_tables_page(folder, out)


def _of_errors(folder: Path, out: Path | None) -> Path:
    from eiv.experiments.studies.errors_page import write_errors_page  # noqa: PLC0415

    return write_errors_page(folder, out)


_PAGES = {
    "networks.csv": _of_reproduction,
    "coverage.csv": _of_coverage,
    "posteriors.csv": _of_posteriors,
    "tables.csv": _of_tables,
    "errors.csv": _of_errors,
}
_UNITS = {  # the table with one row per unit, and the columns that identify a unit
    "networks.csv": ("stacks.csv", ["dataset", "method"]),
    "coverage.csv": ("coverage_units.csv", ["problem", "zeta", "method"]),
    "posteriors.csv": ("posteriors_units.csv", ["dataset", "method", "family"]),
    "tables.csv": ("tables_units.csv", ["problem", "method"]),
    "errors.csv": ("errors_units.csv", ["problem", "zeta", "stated", "method", "realisation"]),
}


@dataclass(frozen=True)
class _Given:
    """The table that a model is evaluated on, and the options about it; `data` is None where there is no table."""

    data: Path | None
    x_err: list[str] | None
    y_err: str | None
    target: str | None
    drop_missing: bool
    sensitivity: bool
    separator: str | None
    decimal: str | None

    def check_that_none_needs_a_table(self, model_file: Path) -> None:
        """Raise a ValueError where an option speaks of a table that is not given."""
        options: dict[str, object] = {"--x-err": self.x_err, "--y-err": self.y_err, "--target": self.target}
        options["--sensitivity"] = self.sensitivity
        for name, value in options.items():
            if value:
                raise ValueError(f"{name} needs a table; give one after {model_file}.")


def _of_model(model_file: Path, page: Path, given: _Given) -> None:
    from eiv.cli.data import rows_in_words  # noqa: PLC0415  (slow to import)
    from eiv.cli.modeltable import ModelTable  # noqa: PLC0415
    from eiv.io.modelfile import load_model, read_header  # noqa: PLC0415
    from eiv.io.tables import open_table  # noqa: PLC0415
    from eiv.report import write_model_page  # noqa: PLC0415

    model: FittedModel
    header: Mapping[str, Any]
    sample: Sample | None
    if given.data is None:
        given.check_that_none_needs_a_table(model_file)
        model, header, sample = load_model(model_file).to_predict, read_header(model_file), None
    else:
        source = open_table(given.data, given.separator, given.decimal)
        table = ModelTable.opened(model_file, source, given.x_err, given.y_err, with_labels=True, target=given.target)
        if table.label_errors.left_out:
            show_warning(table.label_errors.left_out)
        with errors.status("reading"):
            sample = replace(table.sample(given.drop_missing), digest=digest_of(source.path))
        _check_labels(table, sample)
        model, header = table.model, table.header
    lines = [("page made", time.strftime("%Y-%m-%d"))]
    lines.append(("model file", _with_digest(model_file.name, digest_of(model_file))))
    if sample is not None:
        lines.append(("table", _with_digest(sample.name, sample.digest)))
    with errors.status("predicting") as status, np.errstate(over="ignore", invalid="ignore"):
        found = _sensitivity(model_file, model, sample, status.update) if given.sensitivity else None
        write_model_page(page, model, header, sample, lines, status.update, found)
    if sample is not None:
        n_read, used = sample.n_rows + sample.n_left_out, f"{len(sample):,} evaluated"
        console.print(printable(rows_in_words(table.source, n_read, used, sample.n_left_out)), highlight=False)


def _sensitivity(
    model_file: Path, model: FittedModel, sample: Sample | None, on_step: Callable[[str], None]
) -> Sensitivity:
    """What errors of other sizes and laws would do, on the rows with labels."""
    from eiv import sensitivity  # noqa: PLC0415

    if model.has_classes:
        raise ValueError(f"--sensitivity: {model_file} predicts classes; it is for models of numbers.")
    if sample is None or sample.y is None:
        raise ValueError("--sensitivity needs a table with labels.")
    some = sample.take(np.flatnonzero(np.isfinite(sample.y).all(1)))

    def on_progress(share: float) -> None:
        on_step(f"fitting with errors of other sizes and laws, {100 * share:.0f} %")

    return sensitivity(model, some.X, some.y, some.X_err, some.y_err, on_progress=on_progress)


def _with_digest(name: str, digest: str) -> str:
    return f"{name}, SHA-256 {digest[:16]}…"


def _check_labels(table: ModelTable, sample: Sample) -> None:
    """Raise a ValueError where the squares of labels overflow; missing labels are left out of a page."""
    for name, column in zip(table.labels, [] if sample.y is None else sample.y.T, strict=True):
        known = column[np.isfinite(column)]
        with np.errstate(over="ignore"):
            if np.isfinite(known @ known):
                continue
        raise ValueError(
            f"{table.source.path}: the labels in column {name!r} reach from {known.min():.3g} to {known.max():.3g}, "
            "and their squares cannot be computed; give them in the unit of the model."
        )
