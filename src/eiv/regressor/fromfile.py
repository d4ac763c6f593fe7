"""Fitting a file that need not fit into memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eiv.estimators.base import spec_of, whole_fit
from eiv.inputs import EstimatedError, RelativeError
from eiv.inputs.columns import ErrorColumns
from eiv.inputs.sizes import as_estimated
from eiv.io.pieces import AT_ONCE, LargeArray, evenly
from eiv.scaling import mean_and_spread
from eiv.training.choosing import fit_models
from eiv.training.fitting import Table
from eiv.training.large import LargeTable, as_large
from eiv.training.neighbours import warn_of_missed_curves

if TYPE_CHECKING:
    from eiv import EiVRegressor
    from eiv.io.tablecache import Roles, TableCache
    from eiv.io.tables import Source


@dataclass(frozen=True)
class FileRoles:
    """What the columns of a file are, as `EiVRegressor.fit_file` takes it."""

    target: str | Sequence[str]
    columns: Sequence[str] | None = None
    y_err: str | float | None = None
    sample_weight: str | None = None
    drop_missing: bool = False
    leave_out: ArrayLike = ()

    def check(self) -> None:
        """Raise an error for what names no columns, and for a target that the model would learn from."""
        if not isinstance(self.target, str) and not _are_names(self.target):
            raise TypeError(f"target must be the name of a column, or a list of names, got {self.target!r}.")
        if self.columns is not None and (isinstance(self.columns, str) or not _are_names(self.columns)):
            raise TypeError(f"columns must be a list of names of columns, got {self.columns!r}.")
        if self.sample_weight is not None and not isinstance(self.sample_weight, str):
            raise TypeError(f"sample_weight must be the name of a column, or None, got {self.sample_weight!r}.")
        if not isinstance(self.y_err, str | int | float | np.integer | np.floating | None):
            raise TypeError(
                f"y_err must be the name of a column, a number for all rows, or None, got {type(self.y_err).__name__}."
            )
        for argument, named in (("target", self.outputs), ("columns", () if self.columns is None else self.columns)):
            twice = [name for name, times in Counter(named).items() if times > 1]
            if twice:
                raise ValueError(f"{argument}: {twice[0]!r} is named more than once.")
        taken = {
            "columns": () if self.columns is None else self.columns,
            "y_err": (self.y_err,),
            "sample_weight": (self.sample_weight,),
        }
        for argument, names in taken.items():
            for name in names:
                if name in self.outputs:
                    raise ValueError(f"{argument}: {name!r} is a target, which must not be an input of its own fit.")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The columns to predict."""
        return (self.target,) if isinstance(self.target, str) else tuple(self.target)

    def inputs(self, source: Source) -> tuple[str, ...]:
        """The columns of X, those with its errors among them."""
        if self.columns is not None:
            return tuple(self.columns)
        taken = {*self.outputs, self.y_err, self.sample_weight}
        return tuple(name for name in source.columns if name not in taken)

    def of_cache(self, source: Source, x_err: Any) -> Roles:
        """The same for the cache, with the errors by column that `x_err` names."""
        from eiv.io.tablecache import Roles  # noqa: PLC0415  (needs pyarrow)

        inputs = self.inputs(source)
        columns = ErrorColumns.of(x_err, inputs)
        errors = None if columns is None else {name: columns.errors.get(name, 0.0) for name in columns.features}
        strange = [error for error in (errors or {}).values() if isinstance(error, str) and error not in inputs]
        if strange:
            raise ValueError(
                f"x_err: {strange[0]!r} is neither a column nor a number, which is what fit_file takes for more than "
                f"{AT_ONCE:,} rows."
            )
        return Roles(
            inputs if columns is None else columns.features,
            self.outputs,
            errors,
            self.y_err if isinstance(self.y_err, str) else None,
            self.sample_weight,
            self.drop_missing,
            tuple(self.left_out(source).tolist()),
        )

    def left_out(self, source: Source) -> NDArray[np.intp]:
        """The places of the rows to leave out, in order; an error for what names no row of the table."""
        places = np.unique(np.asarray(self.leave_out))
        strange = places if places.dtype.kind not in "iu" else places[(places < 0) | (places >= source.n_rows)]
        if strange.size:
            raise ValueError(
                f"leave_out must hold places of rows of {source.path}, whole numbers from 0 to {source.n_rows - 1}, "
                f"got {strange.tolist()[0]!r}."
            )
        return places.astype(np.intp)


def _are_names(value: Any) -> bool:
    """Whether a value is a list of names, or a pandas index."""
    return hasattr(value, "__len__") and len(value) > 0 and all(isinstance(name, str) for name in value)


def fit_file(model: EiVRegressor, path: str | Path, roles: FileRoles, cache: str | Path | None) -> None:
    """Fit a model to a table in a file."""
    from eiv.io.tablecache import TableCache  # noqa: PLC0415  (needs pyarrow)
    from eiv.io.tables import open_table  # noqa: PLC0415

    for argument, value in (("path", path), ("cache", cache)):
        if not isinstance(value, str | Path) and not (argument == "cache" and value is None):
            what = "file" if argument == "path" else "folder, or None"
            raise TypeError(f"{argument} must be the name of a {what}, got {value!r}.")
    if cache is not None and Path(cache).exists() and not Path(cache).is_dir():
        raise ValueError(f"cache must be a folder, and {cache} is a file.")
    roles.check()
    source = open_table(path)
    if source.n_rows <= AT_ONCE:
        _fit_frame(model, source, roles)
        return
    _refuse_laws(model)
    in_cache = roles.of_cache(source, as_estimated(model.x_err))
    folder = source.path.with_name(f"{source.path.name}.eiv-cache") if cache is None else Path(cache)
    with whole_fit(model), TableCache.opened(source, in_cache, folder, keep=cache is not None) as found:
        table = _table(model, roles, in_cache, found)
        spec = replace(spec_of(model), checkpoints=found.folder)
        (model.model_,) = fit_models([spec], [table])
    if model.epochs is None:
        warn_of_missed_curves([model.model_], [table.sample], stacklevel=3)


def _refuse_laws(model: EiVRegressor) -> None:
    """Raise a ValueError for what needs all rows at once."""
    if model.missing == "integrate" or isinstance(as_estimated(model.x_err), EstimatedError):
        what = "missing='integrate'" if model.missing == "integrate" else "eiv.estimated"
        raise ValueError(f"fit_file reads more than {AT_ONCE:,} rows piece by piece, which {what} does not allow.")


def _fit_frame(model: EiVRegressor, source: Source, roles: FileRoles) -> None:
    """Fit rows that fit into memory as `fit` does."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    from eiv.io.tablecache import columns_of  # noqa: PLC0415  (needs pyarrow)
    from eiv.io.tables.columns import check_columns  # noqa: PLC0415

    inputs, known = roles.inputs(source), [roles.y_err] if isinstance(roles.y_err, str) else []
    weighted = [] if roles.sample_weight is None else [roles.sample_weight]
    names = tuple(dict.fromkeys((*inputs, *roles.outputs, *known, *weighted)))
    check_columns(source, names, "the fit")
    rows = pd.DataFrame(columns_of(source, names))
    good = np.ones(len(rows), dtype=bool)
    good[roles.left_out(source)] = False
    if roles.drop_missing:
        good &= np.isfinite(rows.to_numpy()).all(1)
    rows = rows[good].reset_index(drop=True)
    weights = None if roles.sample_weight is None else rows[roles.sample_weight]
    y = rows[roles.target] if isinstance(roles.target, str) else rows[list(roles.outputs)]
    y_err = rows[roles.y_err].to_numpy() if isinstance(roles.y_err, str) else roles.y_err
    model.fit(rows[list(inputs)], y, y_err=y_err, sample_weight=weights)


def _table(model: EiVRegressor, roles: FileRoles, in_cache: Roles, found: TableCache) -> LargeTable:
    """The rows of a cache. What the arguments say of them is checked by a sample."""
    some = evenly(len(found.arrays["x"]), AT_ONCE)
    sample = _checked(model, roles, in_cache, {name: part[some] for name, part in found.arrays.items()})
    if sample.laws is not None:
        raise ValueError(
            "fit_file reads its rows piece by piece, with standard deviations or a covariance as their errors; laws of "
            "errors take a table in memory, and fit."
        )
    x, y, y_err = found.arrays["x"], found.arrays["y"], found.arrays.get("y_err")
    weights = None if "weights" not in found.arrays else found.arrays["weights"][:, 0]
    counts = None if weights is None or (weights == 1).all() else weights
    x_err: Any = found.arrays.get("x_err", sample.x_err)
    if isinstance(model.x_err, RelativeError):
        x_err = model.x_err.of(mean_and_spread(as_large(x), counts)[1], sample.names.features)
    if y_err is None and sample.y_err is not None:
        y_err = LargeArray(np.broadcast_to(sample.y_err[0], y.shape))
    rows = {"x": x, "y": y, "y_err": y_err, "x_err": x_err, "weights": counts}
    return LargeTable.of(replace(sample, **rows))


def _checked(model: EiVRegressor, roles: FileRoles, in_cache: Roles, parts: dict[str, NDArray[np.float64]]) -> Table:
    """The table that `fit` makes of some rows."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    X = pd.DataFrame(parts["x"], columns=list(in_cache.features))
    for j, name in enumerate(in_cache.features):
        error = None if in_cache.errors is None else in_cache.errors[name]
        if isinstance(error, str):
            X[error] = parts["x_err"][:, j]
    y = pd.DataFrame(parts["y"], columns=list(roles.outputs))
    y_err = parts["y_err"][:, 0] if "y_err" in parts else roles.y_err
    weights = parts["weights"][:, 0] if "weights" in parts else None
    labels = y[roles.target] if isinstance(roles.target, str) else y
    return model._check_table(X, labels, None, y_err, weights)  # noqa: SLF001
