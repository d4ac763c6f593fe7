"""`eiv fit` for a target of classes: the model, and its scores on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from eiv import EiVClassifier
from eiv.cli.app import console, errors

if TYPE_CHECKING:
    from eiv.cli.data import TrainingTable

_LEAST_PROBABILITY = 1e-15  # in a log-loss, as scikit-learn has it for float64


def fit_classes(
    arguments: Mapping[str, Any],
    table: TrainingTable,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    refit: bool,
) -> tuple[EiVClassifier, dict[str, float] | None]:
    """The model to save, and the scores of one that was not fitted to the held-out rows; None without those."""
    known = EiVClassifier().get_params()
    for name in arguments:
        if name not in known:
            raise ValueError(f"{name!r} is not a setting of a model of classes; these are: {', '.join(known)}.")

    def fitted(rows: NDArray[np.intp]) -> EiVClassifier:
        X_err, weights = (None if part is None else part[rows] for part in (table.X_err, table.weights))
        with errors.status(f"learning from {len(rows):,} rows"):
            X, _ = table.carried  # of pandas, or of astropy with units
            some = X.iloc[rows] if X is table.X else X[rows]
            return EiVClassifier(**arguments).fit(some, table.y[rows], X_err, weights)

    first = fitted(train)
    if not len(test):
        return first, None
    with errors.status(f"predicting {len(test):,} rows"):
        scores = _scores(first, table, train, test)
    return fitted(np.arange(len(table.y))) if refit else first, scores


def _scores(
    model: EiVClassifier, table: TrainingTable, train: NDArray[np.intp], test: NDArray[np.intp]
) -> dict[str, float]:
    """The scores on held-out rows; a class that is in these rows alone has no probability."""
    p = model.predict_distribution(table.X.iloc[test], X_err=None if table.X_err is None else table.X_err[test])
    y = table.y[test]
    learned, weights = (None if table.weights is None else table.weights[rows] for rows in (train, test))
    shares = np.average(table.y[train][:, None] == model.classes_, axis=0, weights=learned)

    def mean(values: NDArray[Any]) -> float:
        return float(np.average(values, weights=weights))

    return {
        "rows": len(test),
        "accuracy": mean(p.predicted == y),
        "log_loss": mean(_log_losses(p.probabilities, y, model.classes_)),
        "log_loss_of_shares": mean(_log_losses(np.tile(shares, (len(y), 1)), y, model.classes_)),
        **{name: mean(getattr(p, name)) for name in ("label", "aleatoric", "epistemic")},
    }


def _log_losses(probabilities: NDArray[np.float64], y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    of_label = (probabilities * (y[:, None] == classes)).sum(1)
    return np.asarray(-np.log(np.maximum(of_label, _LEAST_PROBABILITY)))


def show_class_scores(scores: Mapping[str, float]) -> None:
    """Print the scores."""
    shown = Table(title=f"On {scores['rows']:,.0f} rows that were held out", title_justify="left", show_header=False)
    shown.add_column("")
    shown.add_column("", justify="right")
    shown.add_row("rows whose class is the most probable one", f"{100 * scores['accuracy']:.1f} %")
    shown.add_row("log-loss, in nats", f"{scores['log_loss']:.4g}")
    shown.add_row("the same for always predicting the shares of the classes", f"{scores['log_loss_of_shares']:.4g}")
    shown.add_row("entropy of a prediction", f"{sum(scores[name] for name in ('label', 'aleatoric', 'epistemic')):.4g}")
    shown.add_row("  from the weights (epistemic)", f"{scores['epistemic']:.4g}")
    shown.add_row("  from the input errors (aleatoric)", f"{scores['aleatoric']:.4g}")
    shown.add_row("  from classes that overlap (label)", f"{scores['label']:.4g}")
    console.print(shown)
