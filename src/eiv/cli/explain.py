"""`eiv explain`: the uncertainty budget of one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.bar import Bar
from rich.table import Table

from eiv.cli.app import app, check_output, console, interruptible, printable, show_warning
from eiv.cli.shared import Decimal, ErrorOfLabels, ErrorsOfRows, ModelFile, Separator, TableFile
from eiv.extras import needs
from eiv.io.files import write_whole

if TYPE_CHECKING:
    from eiv import Prediction, UncertaintyBudget
    from eiv.cli.modeltable import ModelTable
    from eiv.io.tables import TableRows
    from eiv.report.contributions import Budget

Array = NDArray[np.float64]
_KINDS = (".png", ".svg", ".pdf")
_GUM_KINDS = (".csv", ".json", ".tex", ".xml")
_BAR = 12  # characters
_THETAS = 1600  # weight draws for the shares; with 100 the remainder scatters by a tenth of the variance of the inputs


@app.command()
def explain(  # noqa: PLR0913  (a command)
    model_file: ModelFile,
    data: TableFile,
    row: Annotated[
        int, typer.Option(metavar="N", help="The number of the row: 1 is the first one below the names of the columns.")
    ],
    x_err: ErrorsOfRows = None,
    y_err: ErrorOfLabels = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="PICTURE", help="The budget as a picture: .png, .svg, .pdf.")
    ] = None,
    gum: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The budget of a label after the GUM, with sensitivity coefficients and coverage factor: .csv, .json, "
            ".tex, or .xml with quantities of the D-SI.",
        ),
    ] = None,
    dof: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="For --gum: the degrees of freedom of the error of an input, of fit or of noise, such as length=9 for "
            "ten repeated readings; by default infinite, or those of an error whose size the fit has learned.",
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    separator: Separator = None,
    decimal: Decimal = None,
    force: Annotated[bool, typer.Option("--force", help="Replace PICTURE and FILE if they exist.")] = False,
) -> None:
    """Show where the uncertainty of the prediction for one row comes from: its uncertainty budget.

    For each input: its value, its error, and how much of the uncertainty that error causes. A reading that is missing
    or below a limit is an input with a large error, where the model takes such rows. Further sources are the
    uncertainty of the fitted curve, and the noise of a label, that is of a measured value. For a model of classes: the
    probabilities, and how much of their entropy each source causes.
    """
    with interruptible(out, force):
        from eiv.cli.data import rows_in_words  # noqa: PLC0415  (slow to import)
        from eiv.cli.modeltable import ModelTable  # noqa: PLC0415
        from eiv.io.tables import open_table  # noqa: PLC0415
        from eiv.report.contributions import Budget  # noqa: PLC0415
        from eiv.report.figures import shortened  # noqa: PLC0415
        from eiv.report.sample import single_outputs  # noqa: PLC0415
        from eiv.validation import check_level  # noqa: PLC0415

        check_level("--level", level)
        _check_ending(out, "a picture", _KINDS)
        _check_ending(gum, "a budget", _GUM_KINDS)
        if dof and gum is None:
            raise ValueError("--dof is for the budget after the GUM: give --gum FILE, too.")
        if out is not None:
            needs("A picture", "matplotlib", extra="report")
        for path in filter(None, (out, gum)):
            check_output(path, force, data, model_file)
        table = ModelTable.opened(model_file, open_table(data, separator, decimal), x_err, y_err)
        if table.model.has_classes:
            if gum is not None:
                raise ValueError(f"--gum {gum}: {model_file} predicts classes, which have no budget after the GUM.")
            _explain_classes(table, row, out)
            return
        _check_single(table, model_file, out, gum)
        (chosen, n_read), good = _row(table, row), np.ones(1, dtype=bool)
        if table.label_errors.left_out:
            show_warning(table.label_errors.left_out)
        if table.words_on_factor:
            show_warning(table.words_on_factor)
        found = table.predict(chosen, good)
        _warn_of_unlike(table, chosen, found.unlike)
        predictions = single_outputs(found)
        precise = replace(table, model=table.model.with_draws(max(_THETAS, table.model.settings.n_theta)))
        drawn = single_outputs(precise.predict(chosen, good, budget=True))
        known = table.label_errors.values(chosen, good)
        of_labels = [0.0] * len(predictions) if known is None else known[0].tolist()
        budgets = [
            Budget.of(replace(p, shares=many.shares), table.features)
            for p, many in zip(predictions, drawn, strict=True)
        ]
        after_gum = (
            "" if gum is None else _gum(gum, table, chosen, level, _degrees_of_freedom(dof or [], table.features))
        )
        if out is not None:  # before anything is printed, since printing may fail
            words = f"{shortened(table.outputs[0])} = {predictions[0].mean[0]:.4g}, u = {budgets[0].total:.3g}"
            name = data.name.encode(errors="replace").decode()  # matplotlib accepts valid text only
            _draw(out, budgets[0], f"{name}, row {row}\n{words}")
        if gum is not None:
            write_whole(gum, after_gum)
        console.print(printable(rows_in_words(table.source, n_read, "1 explained", n_read - 1)), highlight=False)
        _show_inputs(table, chosen, row)
        for name, p, budget, y_error in zip(table.outputs, predictions, budgets, of_labels, strict=True):
            _show_prediction(name, p, level, y_error)
            _show_budget(name, budget, taken=_errors(table, chosen)[1])
        for what, written in (("Picture", out), ("Budget after the GUM", gum)):
            if written is not None:
                console.print(f"{what}: {printable(written)}", highlight=False)


def _check_ending(path: Path | None, what: str, endings: Sequence[str]) -> None:
    """Refuse the name of an output whose ending says no form of it."""
    if path is not None and path.suffix.lower() not in endings:
        raise ValueError(f"{path}: {what} can be written as {', '.join(endings)}; choose one of these endings.")


def _check_single(table: ModelTable, model_file: Path, out: Path | None, gum: Path | None) -> None:
    """Refuse outputs that hold one output of a model that has several."""
    for option, path, words in (("-o", out, "a picture shows one only"), ("--gum", gum, "a budget is of one only")):
        if path is not None and len(table.outputs) > 1:
            raise ValueError(f"{option}: {model_file} has {len(table.outputs)} outputs; {words}.")


def _degrees_of_freedom(texts: Sequence[str], features: Sequence[str]) -> dict[str, float]:
    """Degrees of freedom by name, from texts such as `length=9`."""
    names, found = (*features, "fit", "noise"), {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = np.nan
        if name not in names or not found[name] > 0:
            raise ValueError(f"--dof must be NAME=VALUE, a number above 0 for {', '.join(names)}; got {text!r}.")
    return found


def _gum(path: Path, table: ModelTable, chosen: TableRows, level: float, dof: dict[str, float]) -> str:
    """The budget of the row after the GUM, in the form of the ending."""
    from eiv import uncertainty_budgets  # noqa: PLC0415
    from eiv.io import budgets  # noqa: PLC0415

    good = np.ones(1, dtype=bool)
    X, X_err = table.inputs(chosen, good)
    known = table.label_errors.values(chosen, good)
    (budget,) = uncertainty_budgets(table.model, X, X_err, known, of="label", dof=dof, level=level)
    forms: dict[str, Callable[[UncertaintyBudget], str]] = {
        ".csv": lambda each: str(each.to_frame().to_csv()),
        ".json": budgets.budget_to_json,
        ".tex": budgets.budget_to_latex,
        ".xml": budgets.budget_to_xml,
    }
    return forms[path.suffix.lower()](replace(budget, name=table.outputs[0]))


def _explain_classes(table: ModelTable, row: int, out: Path | None) -> None:
    """The same for a model of classes."""
    from eiv.cli.classexplain import draw_entropy, show_classes, show_entropy  # noqa: PLC0415
    from eiv.cli.data import rows_in_words  # noqa: PLC0415

    (chosen, n_read), good = _row(table, row), np.ones(1, dtype=bool)
    if table.words_on_factor:
        show_warning(table.words_on_factor)
    p = table.predict_classes(chosen, good, budget=True)
    _warn_of_unlike(table, chosen, p.unlike)
    target = str(table.header["notes"].get("target", "the class"))
    if out is not None:  # before anything is printed, since printing may fail
        name = table.source.path.name.encode(errors="replace").decode()  # matplotlib accepts valid text only
        words = f"P({p.predicted[0]}) = {p.probabilities[0].max():.3g}, entropy {p.entropy[0]:.3g} nats"
        draw_entropy(out, p, table.features, f"{name}, row {row}\n{words}")
    console.print(printable(rows_in_words(table.source, n_read, "1 explained", n_read - 1)), highlight=False)
    _show_inputs(table, chosen, row)
    show_classes(target, p)
    show_entropy(p, table.features)
    if out is not None:
        console.print(f"Picture: {printable(out)}", highlight=False)


def _warn_of_unlike(table: ModelTable, row: TableRows, unlike: NDArray[np.bool_] | None) -> None:
    """Warn where the row is unlike the training rows."""
    cloud = table.model.cloud
    if cloud is not None and unlike is not None and unlike[0]:
        words = cloud.words(table.inputs(row, np.ones(1, dtype=bool))[0][0], table.features)
        show_warning(f"The row is unlike the training rows ({words}).")


def _row(table: ModelTable, number: int) -> tuple[TableRows, int]:
    """One row of a table, and the number of rows. Values of other rows are not checked."""
    from eiv.cli.data import Missing  # noqa: PLC0415
    from eiv.io.tables import TableError, TableRows  # noqa: PLC0415

    chosen, n_rows = None, 0
    for rows in table.source.chunks(table.columns):
        n_rows = rows.first + len(rows)
        if rows.first < number <= n_rows:
            chosen = TableRows(table.source, rows.cells.slice(number - 1 - rows.first, 1), number - 1)
    if chosen is None:
        raise ValueError(f"--row must be from 1, the first row below the names, to {n_rows:,}, got {number}.")
    missing, place = Missing.of(table.gaps(chosen)), f"{table.source.path}, {table.source.place(number - 1)}"
    if missing.n_bad:
        raise TableError(
            f"{place}: column {next(iter(missing.columns))!r} holds a missing or infinite value."
            f"{table.without_column(missing)}"
        )
    return chosen, n_rows


def _errors(table: ModelTable, row: TableRows) -> tuple[Array, Array]:
    """The error of each input of one row as it is stated, and as the model takes it: `n_x` each."""
    from eiv.inputs.errors import standard_deviations, times  # noqa: PLC0415

    errors = table.model.readings(*table.inputs(row, np.ones(1, dtype=bool))).errors
    return standard_deviations(errors)[0], standard_deviations(times(errors, table.model.factor))[0]


def _show_inputs(table: ModelTable, row: TableRows, number: int) -> None:
    low, high = table.model.record.x_quantiles[0], table.model.record.x_quantiles[-1]
    place = f"{table.source.path}, row {number} ({table.source.place(number - 1)})"
    shown = Table(title=printable(place), title_justify="left")
    stated, taken = _errors(table, row)
    errors = {"error": stated} if np.array_equal(stated, taken) else {"stated error": stated, "error as taken": taken}
    for heading in ("input", "value", *errors, "in training"):
        shown.add_column(heading, overflow="fold", justify="left" if heading == "input" else "right")
    for j, name in enumerate(table.features):
        value, below, above = (float(cells[0]) for cells in row.readings(name))
        outside = "[bold yellow]outside[/] " if value < low[j] or value > high[j] else ""
        words = {"": value, "below ": below, "above ": above}
        said = [f"{what}{number:.6g}" for what, number in words.items() if np.isfinite(number)]
        shown.add_row(
            printable(name),
            said[0] if said else "missing",
            *("–" if not said else f"{each[j]:.4g}" if each[j] else "exact" for each in errors.values()),
            f"{outside}{low[j]:.4g} to {high[j]:.4g}",
        )
    console.print(shown)


def _show_prediction(name: str, p: Prediction, level: float, y_error: float) -> None:
    shown = Table(title=f"Prediction of {printable(name)}", title_justify="left", show_header=False)
    shown.add_column("")
    shown.add_column("", justify="right")
    shown.add_row("prediction", f"{p.mean[0]:.6g}")
    shown.add_row("uncertainty of the true value (std)", f"{p.std[0]:.4g}")
    shown.add_row("  from the fitted curve (epistemic)", f"{p.epistemic[0]:.4g}")
    if p.of_size is not None:
        shown.add_row("    of it from the size of the input errors", f"{p.of_size[0]:.4g}")
    shown.add_row("  from the input errors (aleatoric)", f"{p.aleatoric[0]:.4g}")
    shown.add_row("noise of a label", f"{p.noise[0]:.4g}")
    if y_error:
        shown.add_row("  of it the known error of the label", f"{y_error:.4g}")
    shown.add_row("uncertainty of a label (total)", f"{p.total[0]:.4g}")
    for what, of in (("true value", "function"), ("label", "label")):
        low, high = p.interval(level, of=of)  # type: ignore[arg-type]
        shown.add_row(f"{100 * level:g} % interval of the {what}", f"{low[0]:.5g} to {high[0]:.5g}")
    console.print(shown, highlight=False)


def _show_budget(name: str, budget: Budget, taken: Array) -> None:
    """Show each source's share of the variance of a label and of that from the inputs, and its u, also as a bar."""
    from eiv.report.words import percent  # noqa: PLC0415

    shown = Table(title=f"Uncertainty budget of a label of {printable(name)}", title_justify="left")
    shown.add_column("source", overflow="fold")
    for heading in ("of variance", "of inputs", "u"):
        shown.add_column(heading, justify="right")
    shown.add_column("", width=_BAR)
    of_inputs = ["", *("" if np.isnan(share) else percent(share) for share in budget.of_inputs), ""]
    lengths = np.nan_to_num(budget.uncertainties)
    columns = zip(budget.sources, budget.shares, of_inputs, budget.uncertainties, lengths, strict=True)
    for source, share, of_input, u, length in columns:
        bar = Bar(lengths.max(), 0, length, width=_BAR)
        shown.add_row(printable(source), percent(share), of_input, "–" if np.isnan(u) else f"{u:.4g}", bar)
    shown.add_section()
    shown.add_row("total", percent(1.0), "", f"{budget.total:.4g}", "")
    console.print(shown, highlight=False)
    if not taken.any():
        console.print("All inputs of this row are taken as exact, so none of them contributes to its uncertainty.")


def _draw(out: Path, budget: Budget, title: str) -> None:
    from eiv.io.files import write_whole  # noqa: PLC0415
    from eiv.plotting import image  # noqa: PLC0415
    from eiv.report.figures import budget_figure  # noqa: PLC0415

    write_whole(out, image(budget_figure(budget, title), out.suffix.lower()[1:]))
