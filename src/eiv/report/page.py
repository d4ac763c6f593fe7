"""The page of a model: its fitted curves and uncertainties, and its scores on the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import eiv
from eiv.extras import needs
from eiv.inputs.errors import standard_deviations
from eiv.report import sections
from eiv.report.classpage import class_sections, class_summary, class_title
from eiv.report.contributions import Budget
from eiv.report.curves import curves
from eiv.report.joint import Joint, joint_section
from eiv.report.labels import Comparison
from eiv.report.pages import Cell, HtmlTable, Section, write_page
from eiv.report.provenance import (
    header_lines,
    held_out_scores,
    output_names,
    settings_of,
    with_units,
    words_on_factor,
)
from eiv.report.ranges import Ranges
from eiv.report.sample import Sample, predict
from eiv.report.sections import LabelError, Output
from eiv.report.words import counted, coverage_verdict, number, percent, verdict

if TYPE_CHECKING:
    from eiv import FittedModel, Sensitivity

__all__ = ["write_model_page"]

Array = NDArray[np.float64]
_BUDGET_PASSES = 4000  # the most rows times features with errors for which a budget is computed


def write_model_page(
    path: Path,
    model: FittedModel,
    header: Mapping[str, Any],
    sample: Sample | None = None,
    provenance: Sequence[tuple[str, str]] = (),
    on_step: Callable[[str], None] = lambda step: None,
    sensitivity: Sensitivity | None = None,
) -> None:
    """Write one self-contained HTML page on a model.

    Args:
        path: the page; an existing file is replaced.
        model: a fitted model: `EiVRegressor.model_`, or what `eiv.io.modelfile.load_model` reads.
        header: the header of its file, from `eiv.io.modelfile.read_header`.
        sample: rows of a table, with or without labels. Without it the page shows what the model file holds.
        provenance: further lines for the table at the end, each a name and a value.
        on_step: called with a description of each step.
        sensitivity: what other errors do (`eiv.sensitivity`), for a section of its own; not for classes.

    Examples:
        >>> import tempfile
        >>> from eiv import EiVRegressor
        >>> from eiv.io.modelfile import read_header
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> model = EiVRegressor(0.1, epochs=2, n_theta=4).fit(X[:, None], y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file, page = Path(folder) / "m.eiv", Path(folder) / "m.html"
        ...     model.save(file)
        ...     write_model_page(page, model.model_, read_header(file))
        ...     "Uncertainty budget" in page.read_text()
        True

    """
    needs("A page", "jinja2", "matplotlib", extra="report")
    on_step("predicting")
    if model.has_classes:
        _write_class_page(path, model, header, sample, provenance)
        return
    outputs, where = _outputs(model, header, sample)
    on_step("drawing")
    parts = _sections(model, outputs, sample, where, learned=_is_learned(header, sample))
    if sensitivity is not None:
        parts.insert(-1, sections.sensitivity_section(sensitivity))  # before that on the training
    names = " and ".join(output.name for output in outputs)
    write_page(
        path,
        "model.html.j2",
        title=f"{names} from {counted(model.n_features, 'measured input')}",
        version=eiv.__version__,
        subject=_subject(sample),
        summary=_summary(model, header, outputs, sample, where),
        notice=_notice(header, outputs, sample),
        sections=[*parts, _provenance(header, provenance)],
    )


def _write_class_page(
    path: Path,
    model: FittedModel,
    header: Mapping[str, Any],
    sample: Sample | None,
    provenance: Sequence[tuple[str, str]],
) -> None:
    """The same for a model of classes."""
    assert model.names.classes is not None
    features = tuple(header["features"]["names"] or (f"x{j}" for j in range(model.n_features)))
    parts = class_sections(model, features, sample)
    notice = list(filter(None, [words_on_factor(header)]))
    if sample is not None and sample.y is None:
        notice.append(f"{sample.name} holds no classes, so the page has no calibration and no confusions.")
    elif _is_learned(header, sample):
        notice.append("The model was fitted to these rows: on new ones, calibration and confusions look worse.")
    write_page(
        path,
        "model.html.j2",
        title=class_title(header, [str(name) for name in model.names.classes.tolist()]),
        version=eiv.__version__,
        subject=_subject(sample),
        summary=class_summary(header),
        notice=" ".join(notice),
        sections=[*parts, sections.training_section(model), _provenance(header, provenance)],
    )


def _sections(
    model: FittedModel, outputs: Sequence[Output], sample: Sample | None, where: str, *, learned: bool
) -> list[Section]:
    """The sections on each output, on the rows and on the training; `learned`: the rows are those of the fit."""
    parts: list[Section] = []
    for i, output in enumerate(outputs):
        found = [sections.curves_section(output, model)]
        if output.labels is not None:
            found.append(sections.calibration_section(output, output.labels, learned))
            found.append(sections.residuals_section(output, output.labels))
        found.append(sections.budget_section(output, where))
        parts += found if len(outputs) == 1 else [_named(section, i, output.name) for section in found]
    if len(outputs) > 1:
        parts.append(joint_section(Joint.of(model, tuple(output.name for output in outputs), sample)))
    if sample is not None:
        parts.append(sections.ranges_section(outputs, sample, model))
    return [*parts, sections.training_section(model)]


def _outputs(model: FittedModel, header: Mapping[str, Any], sample: Sample | None) -> tuple[list[Output], str]:
    """The results of the model for the rows, one entry per output, and words that say where its budget holds."""
    named = header["features"]["names"] or [f"x{j}" for j in range(model.n_features)]
    features = with_units(named, model.names.units)
    names = with_units(output_names(header), model.names.output_units)
    middle = model.record.x_quantiles[2:3]
    own_errors = None if model.x_err is not None else model.record.x_err_median
    if sample is None:
        predictions: list[Any] = [None] * len(names)
        budgets = predict(model, middle, own_errors, model.record.y_err_median, budget=True)
        errors, where = model.factor * model.record.x_err_median, "all inputs at their median over the training rows"
    else:
        predictions = predict(model, sample.X, sample.X_err, sample.y_err)
        errors = _typical_errors(model, sample)
        like, left_out = _like_the_training(sample, predictions[0].unlike)
        some = like.evenly(max(1, _BUDGET_PASSES // (1 + int(np.count_nonzero(errors)))))
        budgets = predict(model, some.X, some.X_err, some.y_err, budget=True)
        chosen = "" if len(some) == len(like) == sample.n_rows - left_out else ", evenly chosen"
        without = f", without {left_out:,} unlike the training rows" if left_out else ""
        where = f"the mean over {counted(len(some), 'row')} of {sample.name}{chosen}{without}"
    drawn = curves(model, None if sample is None else sample.X)
    found = []
    for i, name in enumerate(names):
        p = predictions[i]
        labels = None if sample is None or sample.y is None else Comparison.of(sample.X, sample.y[:, i], p)
        known = LabelError(float(model.record.y_err_median[i]), _typical_label_error(model, sample, i))
        found.append(Output(name, features, errors, drawn[i], Budget.of(budgets[i], features), p, labels, known))
    return found, where


def _like_the_training(sample: Sample, unlike: NDArray[np.bool_] | None) -> tuple[Sample, int]:
    """The rows that are like those of the training, and how many are not; all of them where none is.

    What the training rows leave open is so large far out that one such row would decide a mean over all.
    """
    if unlike is None or unlike.all():
        return sample, 0
    return sample.take(~unlike), int(unlike.sum())


def _typical_errors(model: FittedModel, sample: Sample) -> Array:
    """The median error of each feature in the rows, as the model takes it."""
    if sample.X_err is None:
        return model.factor * model.record.x_err_median
    stated = standard_deviations(model.readings(sample.X, sample.X_err).errors)
    return np.asarray(model.factor * np.median(stated, axis=0))


def _typical_label_error(model: FittedModel, sample: Sample | None, i: int) -> float | None:
    """The median known error of a label of output i in the rows; None where only the labels of the fit had some."""
    if sample is None or sample.y_err is None:
        of_fit = float(model.record.y_err_median[i])
        return of_fit if sample is None or not of_fit else None
    return float(np.median(sample.y_err[:, i]))


def _named(section: Section, i: int, name: str) -> Section:
    """The section with the name of its output in the title, for models of several outputs."""
    figures = [replace(figure, name=f"{figure.name}-{i}") for figure in section.figures]
    return replace(section, name=f"{section.name}-{i}", title=f"{section.title}: {name}", figures=figures)


def _subject(sample: Sample | None) -> str:
    if sample is None:
        return "No table was given, so the page shows what the model file holds."
    rows = (
        counted(sample.n_rows, "row")
        if sample.is_whole
        else f"{len(sample):,} of {sample.n_rows:,} rows, evenly chosen"
    )
    without = f"; {sample.n_left_out:,} left out because of missing values" if sample.n_left_out else ""
    return f"Evaluated on {sample.name}: {rows}{without}."


def _summary(
    model: FittedModel, header: Mapping[str, Any], outputs: Sequence[Output], sample: Sample | None, where: str
) -> list[str]:
    found = []
    scores = held_out_scores(header["notes"])
    if scores is not None:
        found.append(
            f"When the model was fitted, {scores['rows']:,.0f} rows were held out. On these the root mean squared "
            f"error was {number(scores['rmse'])} ({number(scores['spread'])} for always predicting the mean), and "
            f"{percent(scores['coverage_95'])} of the labels lay in their 95 % interval: "
            f"{coverage_verdict(scores['coverage_95'], max(1, int(scores['rows'])))}."
        )
    for output in outputs:
        of = f"{output.name}: " if len(outputs) > 1 else ""
        if output.labels is not None and not _is_learned(header, sample):
            found.append(of + sections.calibration_sentence(output.labels))
        parts = {
            "epistemic": np.sqrt(output.budget.variances[0]),
            "aleatoric": np.sqrt(output.budget.variances[1:-1].sum()),
            "total": output.budget.total,
        }
        stated = output.errors.any() or not np.any(model.factor)  # else the model takes them as exact, and says so
        found.append(of + verdict(parts, where, exact=not stated))
    if sample is not None:
        ranges = Ranges(sample.X, model.record.x_quantiles[0], model.record.x_quantiles[-1])
        found.append(sections.ranges_sentence(ranges, outputs[0].features, outputs[0].p))
        if outputs[0].p is not None and outputs[0].p.unlike is not None:
            found.append(sections.unlike_sentence(outputs[0].p))
    return found


def _notice(header: Mapping[str, Any], outputs: Sequence[Output], sample: Sample | None) -> str:
    found = list(filter(None, [words_on_factor(header)]))
    if sample is None:
        return " ".join(found)
    found += [output.label_error.sentence for output in outputs if output.label_error.of_rows is None][:1]
    if all(output.labels is None for output in outputs):
        found.append(
            f"{sample.name} holds no labels of {', '.join(output.name for output in outputs)}, so the page has no "
            "calibration and no residuals."
        )
    elif _is_learned(header, sample):
        scores = "the scores on rows held out, below" if held_out_scores(header["notes"]) else "rows that are new to it"
        found.append(
            f"The model was fitted to {sample.name}. On these rows, residuals and calibration look better than on new "
            f"ones; what counts are {scores}."
        )
    return " ".join(found)


def _is_learned(header: Mapping[str, Any], sample: Sample | None) -> bool:
    """Whether the table is that of the fit: by its digest, or by its name where one of the digests is not known."""
    if sample is None:
        return False
    notes = header["notes"]
    by_content = sample.digest and isinstance(notes.get("data_sha256"), str)
    return bool(notes["data_sha256"] == sample.digest if by_content else notes.get("data") == sample.name)


def _provenance(header: Mapping[str, Any], more: Sequence[tuple[str, str]]) -> Section:
    lines = [*more, *header_lines(header)]
    rows = [[Cell.of(name), Cell.of(value)] for name, value in lines]
    settings = [[Cell.of(name), Cell.of(str(value))] for name, value in sorted(_settings(header).items())]
    return Section(
        "settings",
        "Settings and provenance",
        [],
        tables=[HtmlTable("Where the model and this page come from", ("item", "value"), rows)],
        folded=[HtmlTable("All other settings of the model", ("setting", "value"), settings)],
    )


def _settings(header: Mapping[str, Any]) -> dict[str, Any]:
    """The settings but for those of the lines "seed" and "networks", which say what came of them."""
    others = {name: value for name, value in settings_of(header).items() if name not in ("random_state", "n_networks")}
    return {name: "…" if isinstance(value, dict) else value for name, value in others.items()}
