"""`eiv fit`: from a table to a model."""

from __future__ import annotations

import itertools
import math
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from eiv.cli.app import app, check_output, console, errors, interruptible, printable
from eiv.cli.shared import Decimal, Drop, DropMissing, Feature, Groups, Separator, SettingsOfModel, TableFile, Target
from eiv.io.files import digest_of

if TYPE_CHECKING:
    from eiv import EiVClassifier, EiVRegressor
    from eiv.cli.data import TrainingTable
    from eiv.cli.options import FitOptions
    from eiv.io.tables import Source

_MOST_SHOWN = 100  # the most features that are listed, and the most other columns
_LEAST_HELD_OUT = 5  # the fewest held-out rows that are scored
_ROWS_OF_CLASS = 2  # that a classifier needs of each
_PATIENCE = 30.0  # seconds, after which a fit without a bar says how long it will take


@app.command()
def fit(  # noqa: PLR0913  (a command)
    data: TableFile,
    target: Target = None,
    classes: Annotated[
        bool | None,
        typer.Option(
            "--classes", help="The target holds classes, though it is a column of whole numbers; text always does."
        ),
    ] = None,
    x_err: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL=VALUE",
            help="The error of a column: a standard deviation, 0.5 in the column's unit, '0.4 k=2', 5% of each reading "
            "or 5%sd of the column's spread (standard deviation over the rows); limits ±0.7; '0.3 + 2%' of the true "
            "value; '+0.5 -0.2'; the name of a column that holds each row's error, or MINUS,PLUS of two. VALUE without "
            "a column holds for all columns. Columns without an error are exact.",
        ),
    ] = None,
    y_err: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="The known error of the target, in the forms of --x-err: 0.3 in its unit; 5% of each reading; 5%sd of "
            "its spread; or the name of a column that holds each row's error. The fit estimates the noise in addition "
            "to it.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="MODEL", help="The model file to write.")] = None,
    feature: Feature = None,
    drop: Drop = None,
    groups: Groups = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="How often each row counts: 2 is the row twice, 0 leaves it out; not a feature."
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The values of settings that are not given: default, which serves most tables, or paper, those of "
            "the paper.",
        ),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How labels scatter about the curve: normal (the default); student_t where a few labels lie far "
            "off; varying where they scatter more at some inputs than at others; auto compares them on held-out rows.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml", help="Options from a file, such as target = 'mass'; its table settings acts as --set."
        ),
    ] = None,
    settings: SettingsOfModel = None,
    holdout: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Rows held out for the scores; 0 for none; 0.2 by default.")
    ] = None,
    refit: Annotated[
        bool | None,
        typer.Option(
            "--refit/--no-refit",
            help="After the scores, fit the saved model to all rows (the default), or save the model that was scored.",
            show_default=False,
        ),
    ] = None,
    drop_missing: DropMissing = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of hold-out and networks; 0 by default.")] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    force: Annotated[bool, typer.Option("--force", help="Replace MODEL if it exists.")] = False,
) -> None:
    """Fit a model to a table whose columns carry errors.

    The command says what it understood, fits four fifths of the rows, scores this model on the rest, and then fits all
    rows. The last model is saved.
    """
    given = {
        "target": target,
        "classes": classes,
        "x_err": x_err,
        "y_err": y_err,
        "feature": feature,
        "drop": drop,
        "groups": groups,
        "weights": weights,
        "recipe": recipe,
        "likelihood": likelihood,
        "holdout": holdout,
        "refit": refit,
        "drop_missing": drop_missing,
        "seed": seed,
        "separator": separator,
        "decimal": decimal,
        "settings": settings,
    }
    with interruptible(out, force):
        _fit(data, {name: value for name, value in given.items() if value != []}, config, out, force)


def _fit(data: Path, given: dict[str, Any], config: Path | None, out: Path | None, force: bool) -> None:
    from eiv import EiVRegressor  # noqa: PLC0415  (slow to import)
    from eiv.cli import largefit  # noqa: PLC0415
    from eiv.cli.classfit import fit_classes, show_class_scores  # noqa: PLC0415
    from eiv.cli.data import TrainingTable  # noqa: PLC0415
    from eiv.cli.options import FitOptions  # noqa: PLC0415
    from eiv.io.tables import open_table  # noqa: PLC0415

    options = FitOptions.of(given, config)
    if out is None:
        raise ValueError("-o is missing: the name of the model file to write, for instance -o model.eiv.")
    check_output(out, force, data, *([] if config is None else [config]))
    started = time.perf_counter()
    source, digest = open_table(data, options.separator, options.decimal), digest_of(data)
    if source.n_rows > largefit.LARGE and _fit_large(source, options, out, {"data_sha256": digest}):
        console.print(f"Model: {printable(out)}   ({time.perf_counter() - started:.0f} s)", highlight=False)
        return
    table = TrainingTable.of(source, options)
    if table.has_classes and table.spec.dof is not None:
        raise ValueError("--x-err: the size of errors is learned for a target of numbers only; leave out dof=.")
    _show_table(data, table, options)
    train, test = _split(table, options)
    n_fitted = len(train) if not options.refit else len(table.y)
    _show_rows(source, table, n_fitted)
    arguments = {"x_err": table.sized(table.x_err)} | _arguments(options)
    final: EiVRegressor | EiVClassifier
    if table.has_classes:
        final, scores = fit_classes(arguments, table, train, test, options.refit)
    else:
        final, scored = _fitted(EiVRegressor(**arguments), table, train, test, options.refit)
        scores = None if scored is None else _scores(scored, table, test)
    notes = {"data_sha256": digest} | _notes(source, table, options, scores, n_fitted)
    final.save(out, notes)  # before anything more is printed, since printing may fail
    if scores is not None:
        if table.has_classes:
            show_class_scores(scores)
        else:
            _show_scores(scores, table)
    _show_choices(final)
    console.print(f"Model: {printable(out)}   ({time.perf_counter() - started:.0f} s)", highlight=False)


def _show_choices(final: EiVRegressor | EiVClassifier) -> None:
    """Print what the fit has chosen: the likelihood, the scatter of labels, and how errors of X are taken."""
    from eiv.report.words import factor_sentence, scatter_sentence  # noqa: PLC0415  (slow to import)

    if final.model_.record.likelihood_choice:
        console.print(f"Likelihood: {final.model_.record.likelihood_choice}.", highlight=False)
    if scatter := scatter_sentence(final.model_.likelihood.describe(final.model_.y_scaler.scale, final.model_.pool)):
        console.print(scatter, highlight=False)
    taken = factor_sentence(final.settings_.x_err_factor, final.x_err_factor)
    if taken:
        console.print(taken, highlight=False)
    if final.x_err_scale_ is not None:
        for words in final.x_err_scale_.words(final.model_.names.features):
            console.print(printable(words), highlight=False)


def _fit_large(source: Source, options: FitOptions, out: Path, notes: dict[str, Any]) -> bool:
    """Fit a table piece by piece, with scores of some rows that are held out; False where its options need all rows."""
    from eiv import EiVRegressor  # noqa: PLC0415  (slow to import)
    from eiv.cli.data import TrainingTable  # noqa: PLC0415
    from eiv.cli.largefit import SomeRows, file_arguments, scored_rows, with_error_columns  # noqa: PLC0415

    chosen = scored_rows(source, options)
    some = TrainingTable.of(SomeRows(source, chosen), options)
    arguments = file_arguments(some, options)
    if arguments is None:
        return False
    console.print(
        f"{printable(source.path)}: {source.n_rows:,} rows, which are read piece by piece; {len(chosen):,} of them:",
        highlight=False,
    )
    _show_table(source.path, some, options)
    held_out = chosen if options.holdout else chosen[:0]
    model = EiVRegressor(x_err=arguments.pop("x_err"), **_arguments(options))
    model.fit_file(source.path, str(options.target), leave_out=held_out, **arguments)
    n_fitted = source.n_rows - len(held_out)
    scores = _scores(model, with_error_columns(some), np.arange(len(some.y))) if len(held_out) else None
    model.save(out, notes | _notes(source, some, options, scores, n_fitted) | {"rows": source.n_rows})
    if scores is not None:
        _show_scores(scores, some)
    _show_choices(model)
    return True


def _arguments(options: FitOptions) -> dict[str, Any]:
    """The arguments of an estimator but for the errors of X."""
    likelihood = {} if options.likelihood is None else {"likelihood": options.likelihood}
    return {"random_state": options.seed, "recipe": options.recipe} | likelihood | options.settings


def _split(table: TrainingTable, options: FitOptions) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows to learn from and those to hold out; the latter are empty where there are too few rows."""
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit  # noqa: PLC0415

    rows = np.arange(len(table.y))
    n_groups = len(rows) if table.groups is None else len(np.unique(table.groups))
    if options.holdout * len(rows) < _LEAST_HELD_OUT or n_groups < 2:
        if options.holdout > 0:
            console.print("Too few rows or groups to hold some out: there will be no scores.")
        return rows, rows[:0]
    left = f"--holdout {options.holdout:g} leaves {{}} to learn from; give less."
    if math.ceil(options.holdout * n_groups) >= n_groups:
        raise ValueError(left.format(f"none of {n_groups} {'rows' if table.groups is None else 'groups'}"))
    kind = ShuffleSplit if table.groups is None else GroupShuffleSplit
    split = rows
    if table.has_classes and table.groups is None:
        _, places, sizes = np.unique(table.y, return_inverse=True, return_counts=True)
        split = rows[sizes[places] > _ROWS_OF_CLASS]  # rarer ones are learned from
        if options.holdout * len(split) >= (sizes > _ROWS_OF_CLASS).sum() > 1:  # what a split by shares needs
            kind = StratifiedShuffleSplit
    splitter = kind(1, test_size=options.holdout, random_state=options.seed)
    _, chosen = next(splitter.split(split, table.y[split], None if table.groups is None else table.groups[split]))
    test = split[chosen]
    if table.has_classes and table.groups is None:
        left_over = np.bincount(places) - np.bincount(places[test], minlength=places.max() + 1)
        test = test[left_over[places[test]] >= _ROWS_OF_CLASS]
    train = np.setdiff1d(rows, test)
    if len(train) < 2:
        raise ValueError(left.format(f"one of {len(rows)} rows"))
    return np.sort(train), np.sort(test)


def _fitted(
    model: EiVRegressor, table: TrainingTable, train: NDArray[np.intp], test: NDArray[np.intp], refit: bool
) -> tuple[EiVRegressor, EiVRegressor | None]:
    """The model to save, and the one to score, which was not fitted to the held-out rows; None without those."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    from eiv import fit_splits  # noqa: PLC0415

    splits = [train] if not len(test) else [train, np.arange(len(table.y))][: 1 + refit]
    columns = (TextColumn("learning: {task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        started, said = time.monotonic(), errors.is_terminal

        def on_progress(share: float) -> None:
            nonlocal said
            bar.update(task, completed=share, description=getattr(share, "what", "") or None)
            passed = time.monotonic() - started
            if not said and 0 < share < 1 and passed > _PATIENCE:
                left = timedelta(seconds=round(passed / share - passed))
                console.print(f"Learning: {100 * share:.2g} % done after {passed:.0f} s, about {left} h to go.")
                said = True

        models = fit_splits(
            model,
            *table.carried,
            splits,
            table.sized(table.X_err),
            table.y_err,
            table.weights,
            on_progress=on_progress,
        )
    return models[-1], models[0] if len(test) else None


def _scores(model: EiVRegressor, table: TrainingTable, test: NDArray[np.intp]) -> dict[str, float]:
    """The scores on the held-out rows, with the components of the uncertainty as root mean squares."""
    X_err = None if table.X_err is None else table.X_err[test]
    y_err, weights = (None if known is None else known[test] for known in (table.y_err, table.weights))
    p = model.predict_distribution(table.X.iloc[test], X_err=X_err, y_err=y_err, keep_draws=False)
    y, (low, high) = table.y[test], p.interval(0.95, of="label")

    def mean(values: NDArray[Any]) -> float:
        return float(np.average(values, weights=weights))

    parts = ("epistemic", "aleatoric", "noise", "total")
    return {
        "rows": len(test),
        "rmse": math.sqrt(mean((y - p.mean) ** 2)),
        "spread": math.sqrt(mean((y - mean(y)) ** 2)),
        "coverage_95": mean((low <= y) & (y <= high)),
        **{name: math.sqrt(mean(getattr(p, name) ** 2)) for name in parts},
    }


def _show_table(data: Path, table: TrainingTable, options: FitOptions) -> None:
    from eiv.cli.classes import may_be_classes  # noqa: PLC0415  (slow to import)
    from eiv.cli.limits import in_words  # noqa: PLC0415  (slow to import)

    n_rows = f"{len(table.y):,} rows"
    if table.missing.n_bad:
        names = ", ".join(table.missing.columns)
        n_rows += f"; {table.missing.n_bad:,} left out, with missing or infinite values in {names}"
    if table.n_weightless:
        n_rows += f"; {table.n_weightless:,} left out, with a weight of 0"
    if table.weights is not None:
        n_rows += f"; their weights add up to {table.weights.sum():,.6g}"
    shown = Table(title=f"{printable(data)}: {printable(n_rows)}", title_justify="left")
    for heading in ("column", "taken as", "error", "spread"):
        shown.add_column(heading, overflow="fold")
    spreads, gaps = table.spreads, table.gaps
    for name, term in itertools.islice(table.spec.terms.items(), _MOST_SHOWN):
        words = [str(term)]
        if name in table.limits:
            words.append(table.limits[name])
        if name in gaps:
            words.append(f"{in_words(gaps[name])} missing, integrated over")
        shown.add_row(printable(name), "feature", printable("; ".join(words)), f"{spreads[name]:.4g}")
    _add_rest(shown, "features", len(spreads))
    for name, why in itertools.islice(table.left_out.items(), _MOST_SHOWN):
        known = of_target = ""
        if name == options.target:
            known = "" if table.y_spec is None else str(table.y_spec.terms[name])
            of_target = "" if table.has_classes else f"{table.target_spread:.4g}"
        shown.add_row(printable(name), printable(why), printable(known), of_target)
    _add_rest(shown, "columns that are left out", len(table.left_out))
    console.print(shown)
    if not table.has_classes and (hint := may_be_classes(table.y)):
        console.print(hint, highlight=False)
    if table.spec.is_exact:
        console.print("No errors of the inputs were given (--x-err), so they are taken as exact.")


def _add_rest(shown: Table, what: str, n: int) -> None:
    if n > _MOST_SHOWN:
        shown.add_row(f"and {n - _MOST_SHOWN:,} more {what}", "", "", "")


def _show_rows(source: Source, table: TrainingTable, n_fitted: int) -> None:
    """Print how many rows were read, fitted, held out and left out."""
    from eiv.cli.data import rows_in_words  # noqa: PLC0415

    held_out = len(table.y) - n_fitted
    used = f"{n_fitted:,} learned from" + (f", {held_out:,} held out" if held_out else "")
    words = rows_in_words(source, table.missing.n_rows, used, table.missing.n_bad + table.n_weightless)
    console.print(printable(words), highlight=False)


def _show_scores(scores: dict[str, float], table: TrainingTable) -> None:
    from eiv.report.words import verdict  # noqa: PLC0415

    shown = Table(title=f"On {scores['rows']:,.0f} rows that were held out", title_justify="left", show_header=False)
    shown.add_column("")
    shown.add_column("", justify="right")
    shown.add_row("root mean squared error", f"{scores['rmse']:.4g}")
    shown.add_row("the same for always predicting the mean", f"{scores['spread']:.4g}")
    shown.add_row("labels inside their 95 % interval", f"{100 * scores['coverage_95']:.1f} %")
    shown.add_row("uncertainty of a new label", f"{scores['total']:.4g}")
    shown.add_row("  from the weights (epistemic)", f"{scores['epistemic']:.4g}")
    shown.add_row("  from the input errors (aleatoric)", f"{scores['aleatoric']:.4g}")
    known = "" if table.y_err is None else " and its known error"
    shown.add_row(f"  from the noise of the target{known}", f"{scores['noise']:.4g}")
    console.print(shown)
    console.print(verdict(scores, "the mean over the rows held out", table.spec.is_exact), highlight=False)


def _notes(
    source: Source, table: TrainingTable, options: FitOptions, scores: dict[str, float] | None, n_fitted: int
) -> dict[str, Any]:
    """The notes in the model file for `eiv predict` and `eiv info`."""
    known = {} if table.y_spec is None else {"y_err": table.y_spec.to_json()}
    return {
        "data": source.path.name.encode(errors="replace").decode(),
        "rows": len(table.y),
        "rows_left_out": table.missing.n_bad + table.n_weightless,
        **(
            {} if table.weights is None else {"weights": {"column": options.weights, "sum": float(table.weights.sum())}}
        ),
        "rows_learned_from": n_fitted,
        "target": options.target,
        "left_out": dict(table.left_out),
        "x_err": table.spec.to_json(),
        **known,
        "spreads": table.spreads,
        **({} if table.has_classes else {"target_spread": table.target_spread}),
        "seed": options.seed,
        "holdout": scores,
    }
