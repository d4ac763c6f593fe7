"""`eiv sensitivity`: what would follow if the errors of the inputs were of another size, or had another law."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eiv.cli.app import app, check_output, console, errors, interruptible, printable, show_warning, small_table
from eiv.cli.shared import DropIncomplete, ErrorsOfRows, LabelsOfRows, ModelFile
from eiv.extras import needs

if TYPE_CHECKING:
    from eiv import Sensitivity

_FITTING = "fitting with errors of other sizes and laws"
_KINDS = (".png", ".svg", ".pdf", ".csv")


@app.command()
def sensitivity(
    model_file: ModelFile,
    data: Annotated[Path, typer.Argument(help="The table with labels, such as that of the fit.")],
    factors: Annotated[
        str,
        typer.Option(
            metavar="F,...",
            help="What the errors are multiplied by, or laws that they have instead at the stated size: normal, "
            "rectangular, triangular, student_t. Separated by commas.",
        ),
    ] = "0.5,0.71,1.41,2,rectangular,student_t",
    x_err: ErrorsOfRows = None,
    target: LabelsOfRows = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A picture (.png, .svg, .pdf) or the table (.csv)."),
    ] = None,
    drop_missing: DropIncomplete = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Show how predictions, uncertainty, coverage and density of labels move with the size and law of the errors.

    The model is fitted anew for each factor and law, on four fifths of the rows; the others judge it. Factors are those
    of the errors as stated; where the fit took them as smaller, or learned their size, that is a further line.
    """
    with interruptible(out, force):
        from eiv import sensitivity as measure  # noqa: PLC0415  (slow to import)
        from eiv.cli.modeltable import ModelTable  # noqa: PLC0415
        from eiv.io.tables import open_table  # noqa: PLC0415

        tried = _factors(factors)
        if out is not None:
            if out.suffix.lower() not in _KINDS:
                raise ValueError(f"{out}: it can be written as {', '.join(_KINDS)}; choose one of these endings.")
            if out.suffix.lower() != ".csv":
                needs("A picture", "matplotlib", extra="report")
            check_output(out, force, data, model_file)
        table = ModelTable.opened(model_file, open_table(data), x_err, None, with_labels=True, target=target)
        if table.model.has_classes:
            raise ValueError(f"{model_file} predicts classes; `eiv sensitivity` is for models of numbers.")
        if not table.labels:
            raise ValueError(f"{data} has no labels of {', '.join(table.outputs)}; name their column with --target.")
        if table.label_errors.left_out:
            show_warning(table.label_errors.left_out)
        sample = table.sample(drop_missing)
        assert sample.y is not None
        with errors.status(_FITTING) as status:

            def on_progress(share: float) -> None:
                status.update(f"{_FITTING}, {100 * share:.0f} %")

            found = measure(
                *(table.model, sample.X, sample.y, sample.X_err, sample.y_err), factors=tried, on_progress=on_progress
            )
        if out is not None:
            _write(found, out)
        _show(found)
        if out is not None:
            console.print(f"Written: {printable(out)}", highlight=False)


def _factors(text: str) -> list[float | str]:
    """Numbers, and the names of laws."""
    found = [float(part) if _is_number(part) else part for part in map(str.strip, text.split(",")) if part]
    if not found:
        raise ValueError(f"--factors must be numbers or laws separated by commas, such as 0.5,2, got {text!r}.")
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _write(found: Sensitivity, out: Path) -> None:
    from eiv.io.files import write_whole  # noqa: PLC0415
    from eiv.plotting import image  # noqa: PLC0415

    if out.suffix.lower() == ".csv":
        write_whole(out, found.to_frame().to_csv(index=False))
    else:
        write_whole(out, image(found.plot(), out.suffix.lower()[1:]))


def _show(found: Sensitivity) -> None:
    headings = ["change\nin u", "u /\nas stated", "labels\ninside", "density,\nnats", "its\nerror"]
    title = f"On {found.n_held_out} rows held out, by what the errors are multiplied by, or their law"
    shown = small_table(title, ["errors of"], ["\nfactor\nor law", *headings])
    for column in found.columns:
        for row in [*found.of(column), *found.laws_of(column)]:
            numbers = (row.moved, row.u_ratio, row.coverage, row.density_gain, row.density_error)
            shown.add_row(printable(column), row.change, *(f"{value:.3f}" for value in numbers))
    console.print(shown)
    for words in found.words():
        console.print(printable(words), highlight=False)
