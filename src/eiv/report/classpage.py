"""The page of a model of classes: probabilities along inputs, calibration, confusions, and what leaves them open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv.metrics import calibration_error
from eiv.plotting import COLOURS, REST, image, new_figure, styled
from eiv.report.figures import shortened
from eiv.report.pages import Cell, HtmlFigure, HtmlTable, Section
from eiv.report.words import counted, listed, number, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eiv import ClassPrediction, FittedModel
    from eiv.report.sample import Sample

Array = NDArray[np.float64]
_POINTS, _MOST_PANELS, _MOST_LINES, _MOST_CONFUSED = 25, 6, 6, 12
_MOST_ROWS, _BUDGET_ROWS = 2000, 6  # that are predicted, and whose entropy is split among the inputs
_BINS = 10
_LINES = ("#c8102e", "#1f5fa8", "#e69f00", "#009e73", "#666666", "#cc79a7")  # told apart without colour vision, too
LABEL, TOGETHER, WEIGHTS = "classes that overlap (label)", "inputs together", "fitted network (epistemic)"


@dataclass(frozen=True)
class ClassResults:
    """Predictions for the rows of a page, with their classes as places among `names`, NaN where there is none."""

    names: tuple[str, ...]
    p: ClassPrediction
    codes: Array | None

    @property
    def known(self) -> tuple[Array, NDArray[np.intp]] | None:
        """Probabilities and classes of the rows whose class is known; None where there are fewer than two."""
        if self.codes is None or np.isfinite(self.codes).sum() < 2:
            return None
        chosen = np.isfinite(self.codes)
        return self.p.probabilities[chosen], self.codes[chosen].astype(int)


def class_sections(model: FittedModel, features: Sequence[str], sample: Sample | None) -> list[Section]:
    """The sections on probabilities, calibration, confusions and entropy."""
    assert model.names.classes is not None
    names = tuple(str(name) for name in model.names.classes.tolist())
    found = [_curves_section(model, features, names)]
    some = None if sample is None else sample.evenly(_MOST_ROWS)
    if some is not None:
        p = model.predict_classes(*model.readings(some.X, some.X_err)[:2])
        results = ClassResults(names, p, None if some.y is None else some.y[:, 0])
        if results.known is not None:
            found += [_calibration_section(*results.known), _confusion_section(names, *results.known)]
    return [*found, _entropy_section(model, features, some)]


def class_summary(header: Mapping[str, Any]) -> list[str]:
    """What the scores of the fit say, in a sentence; none where no rows were held out."""
    scores = header["notes"].get("holdout")
    wanted = ("rows", "accuracy", "log_loss", "log_loss_of_shares")
    if not isinstance(scores, dict) or not all(isinstance(scores.get(name), int | float) for name in wanted):
        return []
    return [
        f"When the model was fitted, {scores['rows']:,.0f} rows were held out. For {percent(scores['accuracy'])} of "
        f"them the most probable class was right. The log-loss was {number(scores['log_loss'])} nats, and "
        f"{number(scores['log_loss_of_shares'])} for always predicting the shares of the classes."
    ]


def entropy_sources(p: ClassPrediction, features: Sequence[str]) -> tuple[list[str], Array]:
    """The sources of a budget of entropy, and their parts in nats as a mean over the rows."""
    assert p.contributions is not None
    of_inputs = p.contributions.mean(0)
    together = float((p.aleatoric - p.contributions.sum(1)).mean())
    parts = np.array([p.label.mean(), *of_inputs, together, p.epistemic.mean()])
    return [LABEL, *features, TOGETHER, WEIGHTS], parts


def entropy_figure(sources: Sequence[str], parts: Array, title: str = "") -> Figure:
    """Bars of the parts of an entropy; negative ones, which are chance, have none."""
    colours = {LABEL: REST["remainder"], TOGETHER: REST["other features"], WEIGHTS: COLOURS["non_eiv"]}
    with styled():
        figure, ((axes,),) = new_figure(1, 1, (4.6, 0.9 + 0.27 * len(sources) + 0.4 * bool(title)))
        places, lengths = range(len(sources)), np.maximum(parts, 0)
        bars = axes.barh(places, lengths, color=[colours.get(name, COLOURS["eiv"]) for name in sources])
        total = parts.sum() or 1.0
        words = [f"{number(part)} ({percent(part / total)})" for part in parts]
        axes.bar_label(bars, words, padding=3, fontsize=8.5)
        axes.set_yticks(places, [shortened(name) for name in sources])
        axes.set(xlabel="entropy, nats", ylim=(len(sources) - 0.4, -0.6), xlim=(0, 1.7 * lengths.max() or 1.0))
        figure.suptitle(title, fontsize=9.5)
    return figure


def _curves_section(model: FittedModel, features: Sequence[str], names: tuple[str, ...]) -> Section:
    quantiles = model.record.x_quantiles
    varying = np.flatnonzero(quantiles[-1] > quantiles[0])
    grids = np.linspace(quantiles[0], quantiles[-1], _POINTS)
    rows = np.tile(quantiles[2], (len(varying), _POINTS, 1))
    for place, feature in enumerate(varying):
        rows[place, :, feature] = grids[:, feature]
    flat = rows.reshape(-1, len(features))
    stated = None if model.x_err is not None else model.record.x_err_median
    p = model.predict_classes(*model.readings(flat, stated)[:2]).probabilities
    of_feature = dict(zip(varying.tolist(), p.reshape(len(varying), _POINTS, -1), strict=True))
    order = sorted(of_feature, key=lambda j: -float(np.ptp(of_feature[j], axis=0).max()))
    shown = np.argsort(-p.mean(0))[:_MOST_LINES]
    figures = [
        _figure(
            f"probabilities-{j}", _probability_figure(grids[:, j], of_feature[j][:, shown], features[j]), features[j]
        )
        for j in order[:_MOST_PANELS]
    ]
    text = [
        "Each panel shows the probabilities of the classes along one input, while the others are held at their median "
        "over the training rows. Inputs with the largest effect come first. The errors of the inputs are those of the "
        "fit.",
    ]
    if len(names) > _MOST_LINES:
        text.append(f"The {_MOST_LINES} most probable classes of {len(names)} are shown.")
    legend = [(colour, names[c]) for colour, c in zip(_LINES, shown.tolist(), strict=False)]
    return Section("probabilities", "Probabilities along each input", text, figures, legend=legend)


def _calibration_section(p: Array, codes: NDArray[np.intp]) -> Section:
    chosen, top = p.argmax(1), p.max(1)
    right = chosen == codes
    bins = np.minimum((_BINS * top).astype(int), _BINS - 1)
    sizes = np.bincount(bins, minlength=_BINS)
    some = np.flatnonzero(sizes)
    said = np.bincount(bins, top, _BINS)[some] / sizes[some]
    true = np.bincount(bins, right, _BINS)[some] / sizes[some]
    chance = 2 * np.sqrt(said * (1 - said) / sizes[some])
    shares = np.bincount(codes, minlength=p.shape[1]) / len(codes)
    losses = [float(-np.log(np.maximum(each, 1e-15)).mean()) for each in (p[np.arange(len(p)), codes], shares[codes])]
    error, by_chance = calibration_error(p, codes), np.sqrt(_BINS / len(p)) / 3
    text = [
        "Probabilities are right where, of all rows whose class is predicted with 80 %, 80 % have that class, and "
        "likewise at every other probability: the points then lie on the line, within two standard errors.",
        f"The most probable class is right for {percent(float(right.mean()))} of {counted(len(p), 'row')}. The mean "
        f"distance from the line (expected calibration error) is {error:.3f}; right probabilities would have about "
        f"{by_chance:.3f} by chance.",
        f"The log-loss is {number(losses[0])} nats, where always predicting the shares of the classes has "
        f"{number(losses[1])}.",
    ]
    rows = [
        [Cell(percent(a), a), Cell(percent(b), b), Cell(f"± {percent(c)}", c), Cell(f"{n:,}", float(n))]
        for a, b, c, n in zip(said, true, chance, sizes[some], strict=True)
    ]
    table = HtmlTable("Rows by the probability of their most probable class", ("said", "right", "chance", "rows"), rows)
    figure = _figure(
        "class-calibration", _calibration_figure(said, true, chance), "Share that is right over what was said."
    )
    return Section("calibration", "Calibration", text, [figure], [table])


def _confusion_section(names: tuple[str, ...], p: Array, codes: NDArray[np.intp]) -> Section:
    n = len(names)
    counts = np.bincount(n * codes + p.argmax(1), minlength=n * n).reshape(n, n)
    wrong = counts - np.diag(np.diag(counts))
    text = ["Rows are the classes that were measured, columns those that were predicted."]
    if wrong.any():
        i, j = np.unravel_index(int(wrong.argmax()), wrong.shape)
        text.append(
            f"The most frequent mistake: {names[j]} is predicted for {int(wrong[i, j]):,} of "
            f"{counted(int(counts[i].sum()), 'row')} of {names[i]}."
        )
    else:
        text.append("The most probable class is right for every row.")
    chosen = np.sort(np.argsort(-counts.sum(1))[:_MOST_CONFUSED])
    if n > _MOST_CONFUSED:
        text.append(f"The {_MOST_CONFUSED} most frequent classes of {n} are shown.")
    rows = [[Cell.of(names[i]), *(Cell(f"{counts[i, j]:,}", float(counts[i, j])) for j in chosen)] for i in chosen]
    table = HtmlTable("Measured and predicted classes", ("class", *(names[j] for j in chosen)), rows)
    return Section("confusion", "Confusions", text, tables=[table])


def _entropy_section(model: FittedModel, features: Sequence[str], sample: Sample | None) -> Section:
    if sample is None:
        stated: Any = None if model.x_err is not None else model.record.x_err_median
        x, errors = model.record.x_quantiles[2:3], stated
        where = "all inputs at their median over the training rows"
    else:
        few = sample.evenly(_BUDGET_ROWS)
        x, errors, where = few.X, few.X_err, f"the mean over {counted(len(few), 'row')} of {sample.name}, evenly chosen"
    p = model.predict_classes(*model.readings(x, errors)[:2], budget=True)
    sources, parts = entropy_sources(p, features)
    total = float(p.entropy.mean())
    text = [
        "How open a class is, is measured by the entropy of its probabilities: 0 where one class is certain, "
        f"{number(float(np.log(p.probabilities.shape[1])))} nats where all are alike. "
        f"It is {number(total)} nats ({where}).",
        "Label: what stays open where the true input is known. Each input: what an exact measurement of it alone would "
        "take off, on average. Inputs together: what is left of the effect of their errors. Fitted network: what the "
        "training rows leave open.",
    ]
    noisy = np.flatnonzero(parts[1:-2] > 0)
    if len(noisy):
        most = int(noisy[np.argmax(parts[1:-2][noisy])])
        text.append(f"A better measurement of {features[most]} would help most.")
    rows = [[Cell.of(name), Cell(f"{part:.4f}", float(part))] for name, part in zip(sources, parts, strict=True)]
    rows.append([Cell.of("entropy"), Cell(f"{total:.4f}", total)])
    figure = _figure("entropy-bars", entropy_figure(sources, parts), "Parts of the entropy, and their shares.")
    return Section(
        "entropy", "What leaves the class open", text, [figure], [HtmlTable("In nats", ("source", "part"), rows)]
    )


def class_title(header: Mapping[str, Any], names: Sequence[str]) -> str:
    """What the page is about."""
    target = header["notes"].get("target")
    return f"{target}: {listed(names, 4)}" if isinstance(target, str) else f"Classes {listed(names, 4)}"


def _probability_figure(x: Array, p: Array, feature: str) -> Figure:
    with styled():
        figure, ((axes,),) = new_figure(1, 1, (3.4, 2.6))
        for colour, line in zip(_LINES, p.T, strict=False):
            axes.plot(x, line, color=colour)
        axes.set(xlabel=shortened(feature), ylabel="probability", ylim=(-0.02, 1.02), xlim=(x[0], x[-1]))
    return figure


def _calibration_figure(said: Array, true: Array, chance: Array) -> Figure:
    with styled():
        figure, ((axes,),) = new_figure(1, 1, (4.2, 3.4))
        axes.plot((0, 100), (0, 100), ":", color="black", linewidth=1)
        look: Any = {"fmt": "o", "color": COLOURS["eiv"], "markersize": 4, "capsize": 2, "linewidth": 1.2}
        axes.errorbar(100 * said, 100 * true, 100 * chance, **look)
        axes.set(xlabel="probability of the most probable class, %", ylabel="rows where it is right, %")
        axes.set(xlim=(0, 100), ylim=(0, 100))
    return figure


def _figure(name: str, figure: Figure, caption: str) -> HtmlFigure:
    return HtmlFigure(name, image(figure, "svg"), caption)
