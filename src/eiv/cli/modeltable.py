"""A model and a table to apply it to: the columns that the model reads, and their errors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from eiv import ClassPrediction, FittedModel, Prediction, TrueInputs
    from eiv.cli.data import Missing
    from eiv.cli.labelerrors import LabelErrors
    from eiv.inputs.mixed import Errors
    from eiv.io.tables import ErrorSpec, Source, TableRows
    from eiv.report import Sample

Array = NDArray[np.float64]
_MOST_ROWS = 10_000  # that a page reads, or that a prior of a population is learned from


@dataclass(frozen=True)
class ModelTable:
    """A model, a table that it can be applied to, and the known errors of the table.

    `labels` are the columns with labels, one per output. They are empty where the table lacks one, or where labels are
    not used.
    """

    model: FittedModel
    header: Mapping[str, Any]
    source: Source
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    spec: ErrorSpec | None
    labels: tuple[str, ...]
    label_errors: LabelErrors

    @classmethod
    def opened(
        cls,
        model_file: Path,
        source: Source,
        x_err: list[str] | None,
        y_err: str | None,
        *,
        with_labels: bool = False,
        target: str | None = None,
    ) -> ModelTable:
        """Load the model and check that the table has the columns it needs; `target` is the column with the labels."""
        from eiv.cli.labelerrors import LabelErrors  # noqa: PLC0415  (slow to import)
        from eiv.io.tables.columns import check_columns, check_unit  # noqa: PLC0415
        from eiv.report.provenance import output_names  # noqa: PLC0415

        header, model = _read(model_file, _stamp(model_file))
        named = header["features"]["names"]
        if named is None and len(source.columns) != model.n_features:
            raise ValueError(
                f"{model_file} does not hold the names of its {model.n_features} features, so {source.path} must "
                f"have these columns only, in their order; it has {len(source.columns)}."
            )
        features = tuple(named or source.columns)
        check_columns(source, features, f"a feature of {model_file}")
        for name, unit in zip(features, model.names.units or (), strict=False):
            check_unit(source, name, unit, f"it at the fit of {model_file}")
        kept = _given_at_fit(model_file, header["notes"], features) or _named_at_fit(model)
        spec = _errors(model_file, model, header["notes"].get("spreads"), kept, source, features, x_err)
        if spec is None and model.x_err is None:
            raise ValueError(
                f"{model_file} was fitted with errors that differ from row to row; give those of {source.path} with "
                "--x-err."
            )
        for name, term in ({} if spec is None else spec.terms).items():
            columns = () if term.column is None else (term.column,)
            check_columns(source, columns, f"the error of {name!r}; another can be given with --x-err")
        if spec is not None:
            spec.check_units(source)
        outputs = output_names(header)
        if model.has_classes:
            if y_err is not None:
                raise ValueError(f"--y-err {y_err}: {model_file} predicts classes, which have no error bars.")
            named = header["notes"].get("target")
            column = (named,) if isinstance(named, str) else ()
            labels = _labels(source, column, target) if with_labels and (column or target) else ()
            return cls(model, header, source, features, outputs, spec, labels, LabelErrors())
        labels = _labels(source, outputs, target) if with_labels else ()
        known = LabelErrors.of(model_file, model, header["notes"], source, features, outputs, labels, y_err)
        return cls(model, header, source, features, outputs, spec, labels, known)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model reads."""
        return (*self.features, *(self.spec.columns if self.spec else ()), *self.label_errors.columns)

    @property
    def noisy(self) -> tuple[str, ...]:
        """The features that have an error."""
        if self.spec is not None:
            return self.spec.noisy
        found = np.asarray(self.model.x_err)
        errors = found if found.ndim == 1 else found.diagonal()
        return tuple(name for name, error in zip(self.features, errors, strict=True) if error > 0)

    @functools.cached_property
    def uncertain(self) -> tuple[str, ...]:
        """The features whose true values are not their readings in some row.

        Those with an error, and those with a cell that is missing or below a limit, for which the table is read.
        """
        unclear = [name for name in self.features if name not in self.noisy]
        found = set(self.noisy)
        if unclear:
            for rows in self.source.chunks(tuple(unclear)):
                for name in unclear:
                    cells = rows.readings(name)
                    if cells.hidden.any() or (self.integrates and np.isnan(cells.numbers).any()):
                        found.add(name)
        return tuple(name for name in self.features if name in found)

    @property
    def words_on_factor(self) -> str:
        """That stated errors of X are not taken as they are; empty where they are."""
        from eiv.report.provenance import words_on_factor  # noqa: PLC0415

        return words_on_factor(self.header)

    def numbers(self, rows: TableRows) -> dict[str, Array]:
        """The columns that the model reads, as numbers; without those of which some cells hold a limit."""
        found = {name: rows.readings(name) for name in self.columns}
        return {name: cells.numbers for name, cells in found.items() if not cells.hidden.any()}

    def chunks(
        self, drop_missing: bool, columns: tuple[str, ...] | None = None
    ) -> Iterator[tuple[TableRows, NDArray[np.bool_]]]:
        """Blocks of rows of the table, and whether each row can be used; without `drop_missing`, all have to be.

        With `columns`, only these are read.
        """
        from eiv.cli.data import Missing, usable  # noqa: PLC0415

        chunks = self.source.chunks(columns)
        for rows in chunks:
            good = usable(self.gaps(rows))
            if not good.all() and not drop_missing:  # count the gaps up to the end of the table, then raise an error
                missing = Missing.of(self.gaps(rows), rows.first)
                for later in chunks:
                    missing = missing.and_then(Missing.of(self.gaps(later), later.first))
                missing.check(self.source, drop=False, advice=self.without_column(missing))
            yield rows, good

    def inputs(self, rows: TableRows, good: NDArray[np.bool_]) -> tuple[Array, Errors | None]:
        """X, `good rows x n_x`, and X_err in a form for the model; None stands for that of the fit."""
        from eiv.cli.limits import limits_of, with_limits  # noqa: PLC0415

        readings = {name: rows.readings(name) for name in self.features}
        X = np.column_stack([cells.numbers[good] for cells in readings.values()])
        least = self.model.record.x_quantiles[0]
        signed = [name for name, value in zip(self.features, least, strict=True) if value < 0]
        terms = {} if self.spec is None else self.spec.terms
        limits = limits_of(rows, readings, good, terms, signed)
        stated: Any = None if self.spec is None else self.spec.stated(rows, good)
        if limits:
            stated = with_limits(self._of_fit() if stated is None else stated, self.features, limits)
        if not self.integrates and not isinstance(stated, dict):
            return X, stated
        x, errors, _ = self.model.readings(X, stated)
        if isinstance(errors, np.ndarray) and errors.shape == (1, X.shape[1]):  # without gaps those of all rows
            return x, errors[0]
        return x, errors

    def _of_fit(self) -> Any:
        """The errors of the fit, for all rows."""
        if self.model.laws is not None:
            return dict(zip(self.features, self.model.laws, strict=True))
        if self.model.x_err is None or self.model.x_err.ndim > 1:
            raise ValueError("readings below a limit, such as <0.05, take errors without correlations: give --x-err.")
        return self.model.x_err

    @property
    def integrates(self) -> bool:
        """Whether missing readings are integrated over."""
        return self.model.settings.missing == "integrate"

    def gaps(self, rows: TableRows) -> dict[str, Array]:
        """The columns that the model reads, as numbers whose gaps leave a row out."""
        from eiv.cli.limits import as_gaps  # noqa: PLC0415

        features = {name: as_gaps(rows.readings(name), self.integrates) for name in self.features}
        errors = {} if self.spec is None else self.spec.gaps(rows)
        return errors | features | {name: rows.numbers(name) for name in self.columns if name not in errors | features}

    def sample(self, drop_missing: bool) -> Sample:
        """TableRows of the table, every k-th of them where there are too many, read a piece at a time."""
        from eiv.report import Sample  # noqa: PLC0415

        pieces: list[Sample] = []
        step = 1
        for rows, good in self.chunks(drop_missing, (*self.columns, *self.labels)):
            X, X_err = self.inputs(rows, good)
            y = np.column_stack([self._label(rows, name)[good] for name in self.labels]) if self.labels else None
            y_err = self.label_errors.values(rows, good)
            numbers, n_bad = rows.first + 1 + np.flatnonzero(good), len(rows) - len(X)
            name = self.source.path.name.encode(errors="replace").decode()  # it need not be text
            pieces.append(Sample(X, X_err, y, numbers, len(X), name, n_bad, y_err=y_err))
            while (rows.first + len(rows)) / step > _MOST_ROWS:
                step *= 2
            pieces = [piece.take((piece.numbers - 1) % step == 0) for piece in pieces]
        sample = Sample.joined(pieces).with_all_errors()
        if not len(sample):
            raise ValueError(f"{self.source.path}: every row holds missing or infinite values.")
        return sample

    def _label(self, rows: TableRows, name: str) -> Array:
        """The labels of rows as numbers, NaN where there are none; of classes their places among those of the model."""
        from eiv.cli.classes import labels_of  # noqa: PLC0415

        classes = self.model.names.classes
        if classes is None:
            return rows.numbers(name)
        places = {str(known): float(place) for place, known in enumerate(classes.tolist())}
        values = [None if value is None else str(value) for value in labels_of(rows, name).values]
        if unseen := [value for value in values if value is not None and value not in places]:
            raise ValueError(
                f"{self.source.path}: column {name!r} holds {unseen[0]!r}, a class that the fit has not seen; it has "
                f"seen {', '.join(places)}."
            )
        return np.array([np.nan if value is None else places[value] for value in values])

    def predict(self, rows: TableRows, good: NDArray[np.bool_], budget: bool = False) -> Prediction:
        """The prediction of the good rows; an error says where in the file they are."""
        from eiv.validation import check_y_err  # noqa: PLC0415

        with self._of(rows, good) as (X, errors):
            known = self.label_errors.values(rows, good)  # where there are none, a printed line has said so
            y_err = check_y_err(0.0 if known is None else known, (len(X), self.model.n_outputs))
            return self.model.predict(X, errors, y_err, keep_draws=False, budget=budget)

    def predict_classes(self, rows: TableRows, good: NDArray[np.bool_], budget: bool = False) -> ClassPrediction:
        """The same for a model of classes."""
        with self._of(rows, good) as (X, errors):
            return self.model.predict_classes(X, errors, budget=budget)

    def true_inputs(self, rows: TableRows, good: NDArray[np.bool_]) -> tuple[TrueInputs, NDArray[np.bool_]]:
        """The true inputs of the good rows, and which of them have a label."""
        y = self._observed(rows, good)
        labelled: NDArray[np.bool_] = np.asarray(np.isfinite(y).all(1))
        with self._of(rows, good) as (X, errors):
            known = self.label_errors.values(rows, good)
            y_err = None if known is None else np.where(labelled[:, None], known, 0.0)
            found = self.model.true_inputs(X, errors, np.where(labelled[:, None], y, np.nan), y_err, keep_draws=True)
            return found, labelled

    def _observed(self, rows: TableRows, good: NDArray[np.bool_]) -> Array:
        """The labels of the good rows, `good rows x n_y`, NaN where there is none; classes as zeros and ones."""
        from eiv.cli.classes import labels_of  # noqa: PLC0415

        if not self.labels:
            return np.full((int(good.sum()), self.model.n_outputs), np.nan)
        if not self.model.has_classes:
            return np.column_stack([rows.numbers(name)[good] for name in self.labels])
        classes, (column,) = self.model.names.classes.tolist(), self.labels  # type: ignore[union-attr]
        values = labels_of(rows, column).values[good].tolist()
        if unseen := [value for value in values if value is not None and value not in classes]:
            raise ValueError(
                f"{self.source.path}: column {column!r} holds {unseen[0]!r}, a class that the fit has not seen; it has "
                f"seen {', '.join(map(repr, classes))}."
            )
        ones = np.eye(len(classes))
        return np.array(
            [np.full(len(classes), np.nan) if value is None else ones[classes.index(value)] for value in values]
        )

    @contextlib.contextmanager
    def _of(self, rows: TableRows, good: NDArray[np.bool_]) -> Iterator[tuple[Array, Errors]]:
        """The good rows and their errors, for a prediction."""
        X, X_err = self.inputs(rows, good)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what is no number is refused
                x, errors, _ = self.model.readings(X, X_err)
                yield x, errors
        except ValueError as error:
            raise ValueError(f"{self.source.path}, rows from {self.source.place(rows.first)} on: {error}") from error

    def without_column(self, missing: Missing) -> str:
        """A sentence on how to give the errors of labels without a column, where theirs has missing values."""
        is_label_error = any(name in missing.columns for name in self.label_errors.columns)
        return " --y-err VALUE gives an error of labels that needs no column." if is_label_error else ""


def _labels(source: Source, outputs: tuple[str, ...], target: str | None) -> tuple[str, ...]:
    """The columns that hold labels; empty where the table lacks one of them."""
    from eiv.io.tables.columns import check_columns  # noqa: PLC0415

    if target is None:
        return outputs if set(outputs) <= set(source.columns) else ()
    if len(outputs) > 1:
        raise ValueError(f"--target: the model has {len(outputs)} outputs: {', '.join(outputs)}.")
    check_columns(source, [target], "--target")
    return (target,)


@functools.lru_cache(maxsize=1)  # one table after another is predicted with the same model
def _read(model_file: Path, stamp: object) -> tuple[Mapping[str, Any], FittedModel]:
    """The header of a model file and its model; `stamp` changes where the file does."""
    from eiv.io.modelfile import load_model, read_header  # noqa: PLC0415  (slow to import)

    return read_header(model_file), load_model(model_file).to_predict


def _stamp(path: Path) -> object:
    with contextlib.suppress(OSError):  # reading it will say why
        status = path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


def _given_at_fit(model_file: Path, notes: Mapping[str, Any], features: tuple[str, ...]) -> ErrorSpec | None:
    """The errors given to `eiv fit`; None for a model that was saved from Python."""
    from eiv.io.modelfile import ModelFileError  # noqa: PLC0415
    from eiv.io.tables import ErrorSpec  # noqa: PLC0415

    if "x_err" not in notes:
        return None
    try:
        spec = ErrorSpec.from_json(notes["x_err"])
    except ValueError as error:
        raise ModelFileError(f"{model_file}: {error}.") from error
    if tuple(spec.terms) != features:
        raise ModelFileError(f"{model_file}: its errors are not those of its features.")
    return spec


def _named_at_fit(model: FittedModel) -> ErrorSpec | None:
    """The columns that hold errors by the `x_err` of a model that was saved from Python.

    None where it names none, or gives other errors in a notation that is not of the command line.
    """
    from eiv.io.tables import ErrorSpec, ErrorTerm  # noqa: PLC0415

    columns = model.names.error_columns
    if columns is None:
        return None
    errors = {name: columns.errors.get(name, 0.0) for name in columns.features}
    if any(isinstance(error, str) and error not in columns.columns for error in errors.values()):
        return None
    return ErrorSpec(
        {
            name: ErrorTerm.parse(error, columns.columns) if isinstance(error, str) else ErrorTerm("absolute", error)
            for name, error in errors.items()
        }
    )


def _errors(
    model_file: Path,
    model: FittedModel,
    spreads: Any,
    kept: ErrorSpec | None,
    source: Source,
    features: tuple[str, ...],
    x_err: list[str] | None,
) -> ErrorSpec | None:
    """The errors given by `x_err`, or else those given to `eiv fit`; None where the model itself holds them."""
    from eiv.io.tables import ErrorSpec, ErrorTerm  # noqa: PLC0415
    from eiv.io.tables.errorspec import about, split_error  # noqa: PLC0415

    if not x_err:
        return None if kept is None or (kept.is_constant and model.x_err is not None) else kept
    terms: Mapping[str, ErrorTerm] = {}
    if kept is not None:
        terms = kept.terms
    elif model.x_err is not None and model.x_err.ndim == 1:
        terms = {name: ErrorTerm("absolute", float(error)) for name, error in zip(features, model.x_err, strict=True)}
    else:  # errors that differ from row to row, or correlated ones, have no terms to keep
        with about(source.path):
            named = {feature for feature, _ in (split_error(text, source.columns) for text in x_err)}
        missing = [name for name in features if name not in named and None not in named]
        if missing:
            raise ValueError(f"--x-err: {model_file} holds no error of {missing[0]!r} by itself; give one.")
    with about(source.path):
        spec = ErrorSpec.parse(x_err, features, source.columns, terms)
    if any(term.dof is not None and term != terms.get(name) for name, term in spec.terms.items()):
        raise ValueError("--x-err: the size of errors is learned in `eiv fit`; here give the error without dof=.")
    if any(term.kind == "spread" for term in spec.terms.values()):
        if not _are_spreads(spreads, features):
            raise ValueError(f"--x-err: {model_file} does not know the spread of its training rows; give numbers.")
        spec = spec.with_spreads(spreads)
    return spec


def _are_spreads(spreads: Any, features: tuple[str, ...]) -> bool:
    return (
        isinstance(spreads, dict)
        and set(spreads) == set(features)
        and all(isinstance(spread, int | float) for spread in spreads.values())
    )
