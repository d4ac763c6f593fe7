"""The sections on the page of a model: sentences on each result, with its figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv.plotting import COLOURS, image
from eiv.prediction import Prediction
from eiv.report import figures as draw
from eiv.report.contributions import Budget
from eiv.report.curves import Curve
from eiv.report.labels import Comparison, Pattern
from eiv.report.pages import Cell, HtmlFigure, HtmlTable, Section
from eiv.report.ranges import Ranges
from eiv.report.sample import Sample
from eiv.report.words import counted, coverage_verdict, listed, number, percent, scatter_sentence
from eiv.training.diagnostics import LARGE_GAP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eiv import FittedModel, Sensitivity

Array = NDArray[np.float64]
_SHOWN_LEVELS = [0.5, 0.68, 0.9, 0.95, 0.99]
_MOST_PANELS, _MOST_ROWS = 8, 10


@dataclass(frozen=True)
class LabelError:
    """The median known error of a label: `of_fit` over the training rows, `of_rows` over the rows of the page.

    The latter is None where the training labels had errors and those of the rows are not known.
    """

    of_fit: float = 0.0
    of_rows: float | None = 0.0

    @property
    def sentence(self) -> str:
        """A sentence that says whether intervals of labels include known errors; empty where there are none."""
        if self.of_rows is None:
            return (
                f"The labels of the fit had known errors (median {number(self.of_fit)}). Those of these rows are not "
                "known, so the noise and the intervals of labels leave them out."
            )
        if not self.of_rows:
            return ""
        return f"The intervals of labels include their known errors (median {number(self.of_rows)})."


@dataclass(frozen=True)
class Output:
    """The results for one output: curves, budget, and predictions for the rows of a table."""

    name: str
    features: tuple[str, ...]
    errors: Array
    curves: Sequence[Curve]
    budget: Budget
    p: Prediction | None
    labels: Comparison | None
    label_error: LabelError = LabelError()


def curves_section(output: Output, model: FittedModel) -> Section:
    """The curve along each feature."""
    constant = [output.features[j] for j in np.flatnonzero(np.ptp(model.record.x_quantiles, axis=0) == 0)]
    if not output.curves:
        return Section("curves", "Curves", ["No input varied in training, so there are no curves."])
    first, limits = output.curves[0], draw.limits_of(output.curves)
    text = [
        f"Each panel shows {output.name} along one input, while the others are held at their median over the training "
        "rows. All panels have the same vertical scale. Inputs with the largest effect on the prediction come first.",
        f"{output.features[first.feature]} moves it most, by {number(first.effect)} over the middle 90 % of its rows.",
    ]
    noisy = [
        f"{name} {number(error)}"
        for name, error in zip(output.features, model.factor * model.record.x_err_median, strict=True)
        if error > 0
    ]
    text.append(
        "The bands include the errors of the inputs (standard deviations, medians where rows differ): "
        f"{listed(noisy, 8)}."
        if noisy
        else "The inputs are taken as exact, so the bands include no input errors."
    )
    if output.label_error.of_fit:
        text.append(
            f"The band of a new label also includes its known error: {number(output.label_error.of_fit)}, the median "
            "over the training rows."
        )
    if constant:
        text.append(f"There is no panel for {listed(constant)}: the value is the same in all training rows.")
    shown = [
        _figure(
            f"curve-{curve.feature}",
            draw.curve_figure(curve, output.features[curve.feature], output.name, limits),
            f"{output.features[curve.feature]}: moves it by {number(curve.effect)}",
        )
        for curve in output.curves
    ]
    legend = [
        (COLOURS["eiv"], "prediction"),
        (draw.BANDS["function"], "95 %: the true value on the curve"),
        (draw.BANDS["label"], "95 %: a new label, that is a measured value"),
        ("#000000", "range of the training rows: thick line 90 % of them, thin line all"),
    ]
    if any(curve.x[0] < curve.quantiles[0] or curve.x[-1] > curve.quantiles[-1] for curve in output.curves):
        legend.append(("#cccccc", "hatched: beyond the training rows"))
    return Section("curves", "The curve along each input", text, shown, legend=legend)


def calibration_section(output: Output, found: Comparison, learned: bool) -> Section:
    """The section on the coverage of intervals; without a verdict where the model was fitted to these rows."""
    covered, chance = found.covered(_SHOWN_LEVELS), found.chance(_SHOWN_LEVELS)
    rows = [
        [
            Cell(f"{100 * level:.0f} %", level),
            Cell(percent(inside), inside),
            Cell(f"{percent(max(level - by, 0))} to {percent(min(level + by, 1))}", level),
        ]
        for level, inside, by in zip(_SHOWN_LEVELS, covered, chance, strict=True)
    ]
    std = float(np.std(found.residuals / found.p.total))
    text = [
        "Uncertainties are right where the 95 % interval holds 95 % of the labels, and likewise at every other level: "
        "the red line then stays in the grey band. Below the band the model is too sure of itself, above it too "
        "cautious.",
        "The model was fitted to these rows, so this is not a test: on new rows fewer labels lie in their intervals."
        if learned
        else f"{calibration_sentence(found)} {_elsewhere(found)}",
        f"Residuals divided by their uncertainty have a standard deviation of {std:.2f}, where 1 is right.",
        *filter(None, [output.label_error.sentence]),
    ]
    table = HtmlTable("Labels inside their interval", ("level", "inside", "expected, within chance"), rows)
    caption = f"Calibration of labels on {counted(len(found.y), 'row')}."
    return Section(
        "calibration",
        "Calibration",
        text,
        [_figure("calibration-curve", draw.calibration_figure(found), caption)],
        [table],
    )


def calibration_sentence(found: Comparison) -> str:
    """A sentence that says whether the 95 % interval is right."""
    (inside,) = found.covered([0.95])
    how = coverage_verdict(inside, len(found.y))
    return f"Of {counted(len(found.y), 'label')}, {percent(inside)} lie in their 95 % interval: {how}."


def _elsewhere(found: Comparison) -> str:
    """A sentence on the level that deviates most; empty where none deviates by more than chance."""
    covered, chance = found.covered(_SHOWN_LEVELS), found.chance(_SHOWN_LEVELS)
    excess = (covered - _SHOWN_LEVELS) / chance
    worst = int(np.argmax(np.abs(excess)))
    if abs(excess[worst]) <= 1 or _SHOWN_LEVELS[worst] == 0.95:
        return ""
    how = "more than chance explains: too cautious" if excess[worst] > 0 else "fewer than chance explains: too sure"
    return f"At {100 * _SHOWN_LEVELS[worst]:.0f}\u00a0% it is {percent(covered[worst])}, {how} there."


def residuals_section(output: Output, found: Comparison) -> Section:
    """The section on the residuals, and on patterns in them."""
    patterns = found.patterns()
    over_prediction = Pattern.of(found.p.mean, found.residuals)
    shown = [
        _figure(
            "measured", draw.measured_figure(found), f"labels over predictions of {output.name}; on the line both agree"
        ),
        _figure(
            "residuals-prediction",
            draw.residual_figure(found.p.mean, found, over_prediction, "prediction"),
            f"over the prediction: {_explained(over_prediction)}",
        ),
    ]
    shown += [
        _figure(
            f"residuals-{j}",
            draw.residual_figure(found.X[:, j], found, pattern, output.features[j]),
            f"over {output.features[j]}: {_explained(pattern)}",
        )
        for j, pattern in patterns[:_MOST_PANELS]
    ]
    text = [
        f"The root mean squared error is {number(found.rmse)}; always predicting the mean would make it "
        f"{number(float(found.y.std()))}. On average, labels lie {number(abs(found.residuals.mean()))} "
        f"{'above' if found.residuals.mean() > 0 else 'below'} their predictions.",
        "Red: means of ten groups of rows, with two standard errors. Where they differ from zero, the model misses "
        "something.",
    ]
    if patterns:
        j, pattern = patterns[0]
        text.append(
            f"The strongest pattern is that along {output.features[j]}: such means explain "
            f"{percent(pattern.explained)} of the residuals' variance, where chance explains "
            f"{percent(pattern.by_chance)}."
        )
    if len(patterns) > _MOST_PANELS:
        text.append(f"The {_MOST_PANELS} inputs with the strongest patterns, of {len(patterns)}, are shown.")
    return Section("residuals", "Residuals", text, shown)


def budget_section(output: Output, where: str) -> Section:
    """The section on how much of the uncertainty each source causes."""
    budget = output.budget
    of_inputs = [np.nan, *budget.of_inputs, np.nan]
    none = _cell(np.nan)
    errors = [none, *(_cell(error) if error else Cell("exact", 0.0) for error in output.errors), none, none]
    columns = zip(budget.sources, budget.shares, budget.uncertainties, of_inputs, errors, strict=True)
    rows = [
        [Cell.of(name), _share(share), _cell(u), _share(of_input), error] for name, share, u, of_input, error in columns
    ]
    rows.append([Cell.of("total"), _share(1.0), _cell(budget.total), none, none])
    largest = int(np.argmax(budget.shares))
    text = [
        f"A label of {output.name} is predicted with a standard uncertainty u of {number(budget.total)} ({where}). Its "
        f"largest source is {budget.sources[largest]}, with {percent(float(budget.shares[largest]))} of the variance.",
    ]
    noisy = np.flatnonzero(budget.variances[1:-2] > 0)
    if len(noisy):
        most = int(noisy[np.argmax(budget.variances[1:-2][noisy])])
        text.append(
            f"The errors of the inputs make up {percent(float(budget.shares[1:-1].sum()))} of it. Among these, the "
            f"error of {output.features[most]} counts most: a better measurement of it would help most."
        )
    else:
        text.append("The inputs are taken as exact, so none of them contributes to it.")
    known = f", with its known error of {number(output.label_error.of_rows)}" if output.label_error.of_rows else ""
    text.append(
        "Fitted curve: what the training rows leave open about it. Inputs together: the joint effect of their errors, "
        f"beyond that of each alone. Noise: the scatter of a label about the curve{known}."
    )
    if budget.of_size is not None:
        text.append(
            f"Of the uncertainty of the fitted curve, {number(budget.of_size)} is there because the size of the errors "
            "of the inputs is not known exactly."
        )
    headings = ("source", "of the variance", "u", "of the inputs' variance", "error of the input")
    table = HtmlTable(f"Uncertainty budget; u in units of {output.name}", headings, rows)
    figure = _figure(
        "budget-bars",
        draw.budget_figure(budget),
        f"Standard uncertainties u, and shares of the variance, of a label of {output.name}.",
    )
    return Section("budget", "Uncertainty budget", text, [figure], [table])


def ranges_section(outputs: Sequence[Output], sample: Sample, model: FittedModel) -> Section:
    """The section on inputs outside the range of the training rows."""
    low, high = model.record.x_quantiles[0], model.record.x_quantiles[-1]
    ranges, features = Ranges(sample.X, low, high), outputs[0].features
    n_outside = int(ranges.rows.sum())
    text = [ranges_sentence(ranges, features, outputs[0].p)]
    unlike = _unlike_rows(outputs[0], sample, model)
    text.append(
        "A row can be inside every range and still be unlike all training rows: this looks at one column at a time."
        if outputs[0].p is None or outputs[0].p.unlike is None
        else f"{unlike_sentence(outputs[0].p)} This takes all columns together, how often rows lie so far out in "
        "training, and the errors of the row; one that leaves a range by little need not be unlike."
    )
    if not n_outside:
        return Section("range", "Range of the inputs", text, tables=unlike)
    for output in outputs:
        if output.p is not None and n_outside < len(sample):
            inside, outside = (np.sqrt(np.mean(output.p.epistemic[rows] ** 2)) for rows in (~ranges.rows, ranges.rows))
            of = f" of {output.name}" if len(outputs) > 1 else ""
            text.append(
                f"The uncertainty of the fitted curve (epistemic){of} is {number(outside)} on the rows outside, and "
                f"{number(inside)} on the others."
            )
    counts = [
        [
            Cell.of(features[j]),
            *(
                Cell(number(value, 6), float(value))
                for value in (low[j], high[j], sample.X[:, j].min(), sample.X[:, j].max())
            ),
            *(_count(side[:, j].sum()) for side in (ranges.below, ranges.above)),
        ]
        for j in ranges.features.tolist()
    ]
    headings = ("input", "training from", "to", "table from", "to", "rows below", "rows above")
    first = [
        [_count(sample.numbers[i]), Cell.of(_outside(ranges, features, int(i)))]
        for i in np.flatnonzero(ranges.rows)[:_MOST_ROWS]
    ]
    which = "Rows outside" if n_outside <= _MOST_ROWS else f"The first {_MOST_ROWS} of {n_outside:,} rows outside"
    tables = [
        HtmlTable("Inputs that leave the training range", headings, counts),
        HtmlTable(f"{which}; row 1 is the first below the header", ("row", "values"), first),
        *unlike,
    ]
    figure = _figure("ranges", draw.ranges_figure(ranges, features), "Values outside, in units of the training range.")
    return Section("range", "Range of the inputs", text, [figure], tables)


def ranges_sentence(ranges: Ranges, features: Sequence[str], p: Prediction | None) -> str:
    """How many rows leave the training range, and in which columns; what that means where `p` does not say it."""
    n_outside = int(ranges.rows.sum())
    if not n_outside:
        return f"All {counted(len(ranges.X), 'row')} lie within the range of the training rows, in every column."
    names = listed([features[j] for j in ranges.features.tolist()])
    found = f"{n_outside:,} of {counted(len(ranges.X), 'row')} are outside the range of the training rows, in {names}."
    return found if p is not None and p.unlike is not None else f"{found} Predictions there are extrapolations."


def unlike_sentence(p: Prediction) -> str:
    """How many rows are unlike the training rows; empty where that is not known."""
    if p.unlike is None:
        return ""
    count, rows = int(p.unlike.sum()), counted(len(p), "row")
    if not count:
        return f"None of the {rows} is unlike the training rows."
    are = "is" if count == 1 else "are"
    return (
        f"{count:,} of {rows} {are} unlike the training rows: what is predicted there rests on the form of the network "
        "more than on data."
    )


def _unlike_rows(output: Output, sample: Sample, model: FittedModel) -> list[HtmlTable]:
    """The first rows that are unlike the training rows, and what sets them apart; no table where there are none."""
    cloud, unlike = model.cloud, None if output.p is None else output.p.unlike
    if cloud is None or unlike is None or not unlike.any():
        return []
    places = np.flatnonzero(unlike)
    rows = [
        [_count(sample.numbers[i]), Cell.of(cloud.words(sample.X[i], output.features))] for i in places[:_MOST_ROWS]
    ]
    which = "Rows" if len(places) <= _MOST_ROWS else f"The first {_MOST_ROWS} of {len(places):,} rows"
    return [HtmlTable(f"{which} unlike the training rows", ("row", "what sets it apart"), rows)]


def sensitivity_section(found: Sensitivity) -> Section:
    """The section on errors of another size or law."""
    text = [
        f"The model was fitted anew with errors of other sizes and laws, and judged on {found.n_held_out:,} rows held "
        "out. Factors are those of the errors as stated; their law is changed at the stated standard deviation.",
        *found.words(),
    ]
    headings = ["errors of", "factor or law", "change in u", "u / as stated", "labels inside", "density, nats", "±"]
    lines = [
        [Cell.of(row.column), Cell.of(row.change)]
        + [_cell(value) for value in (row.moved, row.u_ratio)]
        + [_share(row.coverage), _cell(row.density_gain), _cell(row.density_error)]
        for column in found.columns
        for row in [*found.of(column), *found.laws_of(column)]
    ]
    caption = "Change of the prediction in units of u as stated, and the gain in log density per label."
    figure = _figure("sensitivity", found.plot(), "What another size or law of the errors does, on rows held out.")
    return Section(
        "sensitivity", "If the errors were other ones", text, [figure], [HtmlTable(caption, headings, lines)]
    )


def training_section(model: FittedModel) -> Section:
    """The section on the training."""
    losses, gap = model.record.loss_curve, model.record.bound_gap
    mean = losses.mean(1)
    if model.settings.network == "cosine":
        found = (
            f"Length scales, strength and noise were found in {counted(len(losses), 'round')} as those that make the "
            f"labels most probable; their negative logarithmic density went from {number(mean[0])} to "
            f"{number(mean[-1])} per row."
        )
        return Section("training", "Training", [found], [])
    change = float(mean[-1] - mean[-1 - len(mean) // 5])
    text = [
        f"The loss went from {number(mean[0])} to {number(mean[-1])} in {counted(len(losses), 'epoch')}; in the last "
        f"fifth of them it {'rose' if change > 0 else 'fell'} by {number(abs(change))}. The figure cuts off the first "
        "tenth, where it falls most."
    ]
    if gap is not None:
        how = "accurately enough" if gap <= LARGE_GAP else "too coarsely"
        text.append(
            f"The true inputs were integrated over {how}: the loss is off by {number(gap)} per row "
            f"({LARGE_GAP:g} at most is good)."
        )
    text += filter(None, [scatter_sentence(model.likelihood.describe(model.y_scaler.scale, model.pool))])
    if model.record.likelihood_choice:
        text.append(f"The likelihood: {model.record.likelihood_choice}.")
    return Section("training", "Training", text, [_figure("loss", draw.loss_figure(losses), "Loss over the epochs.")])


def _figure(name: str, figure: Figure, caption: str) -> HtmlFigure:
    return HtmlFigure(name, image(figure, "svg"), caption)


def _count(n: int | np.integer[Any]) -> Cell:
    return Cell(str(n), float(n))


def _cell(value: float) -> Cell:
    return Cell("–", float("-inf")) if np.isnan(value) else Cell(number(value), float(value))


def _share(value: float) -> Cell:
    return Cell("–", float("-inf")) if np.isnan(value) else Cell(percent(value), float(value))


def _explained(pattern: Pattern) -> str:
    return f"means explain {percent(pattern.explained)}, by chance {percent(pattern.by_chance)}"


def _outside(ranges: Ranges, features: Sequence[str], row: int) -> str:
    words = [
        f"{features[j]} = {number(ranges.X[row, j], 6)} ({side} {number(end[j], 6)})"
        for side, outside, end in (("below", ranges.below, ranges.low), ("above", ranges.above, ranges.high))
        for j in np.flatnonzero(outside[row]).tolist()
    ]
    return ", ".join(words)
