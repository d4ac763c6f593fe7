"""The known errors of labels in a table that a model is applied to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from eiv import FittedModel
    from eiv.io.tables import ErrorSpec, ErrorTerm, Source, TableRows

Array = NDArray[np.float64]
_NO_SHARE = "a share of the label is not known before the label is"


@dataclass(frozen=True)
class LabelErrors:
    """The known errors of labels, or a sentence on why they are left out.

    Attributes:
        spec: the error of each output; None where none is known.
        origin: where it comes from, "--y-err" or "as in the fit".
        left_out: a sentence that says so where the fit had errors of labels and none are known here; else empty.

    """

    spec: ErrorSpec | None = None
    origin: str = ""
    left_out: str = ""

    @classmethod
    def of(
        cls,
        model_file: Path,
        model: FittedModel,
        notes: Mapping[str, Any],
        source: Source,
        features: tuple[str, ...],
        outputs: tuple[str, ...],
        labels: tuple[str, ...],
        y_err: str | None,
    ) -> LabelErrors:
        """The errors given by `y_err`, or else those of the fit, if the table has the columns that they need.

        `labels` are the columns with labels, one per output; empty where labels are not used.
        """
        from eiv.io.tables import ErrorSpec  # noqa: PLC0415

        columns = labels or outputs
        if y_err is not None:
            taken = dict.fromkeys(features, "a feature") | dict.fromkeys(columns, "the target")
            term = _given(y_err, source, taken)
            if term.kind == "reading" and not labels:
                raise ValueError(f"{source.path}: --y-err {y_err}: {_NO_SHARE}; give a number, 5%sd or a column.")
            if term.kind == "spread":
                term = replace(term, spread=_spread(model_file, notes))
            return cls(ErrorSpec(dict.fromkeys(columns, term)), "--y-err")
        kept = _noted(model_file, notes, outputs)
        if kept is None and not model.record.y_err_median.any():
            return cls()
        why = _why_not(kept, source, labels)
        if kept is None or why:
            return cls(left_out=_sentence(model, kept, source, why))
        spec = ErrorSpec(dict(zip(columns, kept.terms.values(), strict=True)))
        return cls(spec, "as in the fit")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that hold the errors."""
        return self.spec.columns if self.spec else ()

    def values(self, rows: TableRows, good: NDArray[np.bool_]) -> Array | None:
        """The errors of the rows that are `good`, `good rows x n_y`; None where none are known.

        They are NaN where the error is a share of a label that is missing.
        """
        if self.spec is None:
            return None
        return np.broadcast_to(self.spec.of(rows), (len(rows), len(self.spec.terms)))[good]

    def __str__(self) -> str:
        """A sentence that states the errors; empty where there are none."""
        if self.spec is None or self.spec.is_exact:
            return self.left_out
        terms = dict.fromkeys(map(str, self.spec.terms.values()))
        return f"Known errors of the labels: {', '.join(terms)} ({self.origin}); noise and total include them."


def _given(y_err: str, source: Source, taken: Mapping[str, str]) -> ErrorTerm:
    """The error that `--y-err` gives; its column must not be one of those `taken`, which hold something else."""
    from eiv.io.tables import ErrorTerm, TableError  # noqa: PLC0415
    from eiv.io.tables.errorspec import about  # noqa: PLC0415

    with about(source.path):
        term = ErrorTerm.of_labels(y_err, source.columns)
        if term.column in taken:
            raise TableError(f"--y-err {y_err}: {y_err!r} is {taken[y_err]}, so it cannot be the error of the target.")
    return term


def _spread(model_file: Path, notes: Mapping[str, Any]) -> float:
    """The standard deviation of the training labels, as `eiv fit` notes it."""
    spread = notes.get("target_spread")
    if not isinstance(spread, int | float) or not 0 <= spread < math.inf:
        raise ValueError(f"--y-err: {model_file} does not know the spread of its training labels; give a number.")
    return float(spread)


def _noted(model_file: Path, notes: Mapping[str, Any], outputs: tuple[str, ...]) -> ErrorSpec | None:
    """The errors of labels given to `eiv fit`; None if there were none, or if the model was saved from Python."""
    from eiv.io.modelfile import ModelFileError  # noqa: PLC0415
    from eiv.io.tables import ErrorSpec  # noqa: PLC0415

    if "y_err" not in notes:
        return None
    try:
        spec = ErrorSpec.from_json(notes["y_err"])
    except ValueError as error:
        raise ModelFileError(f"{model_file}: {error}.") from error
    if tuple(spec.terms) != outputs:
        raise ModelFileError(f"{model_file}: its errors of labels are not those of its outputs.")
    return spec


def _why_not(kept: ErrorSpec | None, source: Source, labels: tuple[str, ...]) -> str:
    """The reason why the errors of the fit cannot be used for this table; empty where they can."""
    if kept is None:
        return ""
    missing = [name for name in kept.columns if name not in source.columns]
    if missing:
        return f", as it has no column {missing[0]!r}"
    if not labels and any(term.kind == "reading" for term in kept.terms.values()):
        return f", as {_NO_SHARE}"
    return ""


def _sentence(model: FittedModel, kept: ErrorSpec | None, source: Source, why: str) -> str:
    form = "" if kept is None else f"{', '.join(map(str, kept.terms.values()))}; "
    median = ", ".join(f"{error:.4g}" for error in model.record.y_err_median)
    return (
        f"The labels of the fit had known errors ({form}{median} in the median), but those of {source.path} are not "
        f"known{why}: noise, total and intervals of labels leave them out. Give them with --y-err, or --y-err 0 for "
        "labels without such an error."
    )
