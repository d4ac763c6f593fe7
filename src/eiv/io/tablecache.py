"""Tables larger than memory: the columns of a fit in memory-mapped files, read from a table once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from eiv.io.files import digest_of, held, write_whole, written_whole
from eiv.io.pieces import LargeArray
from eiv.io.tables import Source, TableError, TableRows
from eiv.io.tables.columns import check_columns

Array = NDArray[np.float64]
_FORMAT = 1
_DESCRIPTION = "table.json"
_WIDENED = 2**20  # numbers at once


@dataclass(frozen=True)
class Roles:
    """What a fit takes the columns of a table for.

    Attributes:
        features: to predict from.
        outputs: to predict.
        errors: of each feature, the name of a column or a number for all rows; empty where the file holds none.
        y_err: the column with the known errors of the only output, or None.
        weights: the column that says how often each row counts, or None.
        drop_missing: whether rows that lack a number are left out; else they are refused.
        leave_out: the places of other rows to leave out.

    Examples:
        >>> Roles(("a", "b"), ("y",), {"a": "a_err", "b": 0.0}).columns
        ('a', 'b', 'y', 'a_err')

    """

    features: tuple[str, ...]
    outputs: tuple[str, ...]
    errors: Mapping[str, str | float] | None = None
    y_err: str | None = None
    weights: str | None = None
    drop_missing: bool = False
    leave_out: tuple[int, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        held_by_column = [error for error in (self.errors or {}).values() if isinstance(error, str)]
        others = [name for name in (self.y_err, self.weights) if name is not None]
        return tuple(dict.fromkeys((*self.features, *self.outputs, *held_by_column, *others)))

    def arrays(self, rows: TableRows) -> dict[str, Array]:
        """The arrays of some rows, `rows x columns` each."""
        n = len(rows)
        arrays = {
            "x": np.column_stack([rows.numbers(name) for name in self.features]),
            "y": np.column_stack([rows.numbers(name) for name in self.outputs]),
        }
        if self.errors is not None:
            stated = [self.errors[name] for name in self.features]
            columns = [rows.numbers(each) if isinstance(each, str) else np.full(n, each) for each in stated]
            arrays["x_err"] = np.column_stack(columns)
        for name, column in (("y_err", self.y_err), ("weights", self.weights)):
            if column is not None:
                arrays[name] = rows.numbers(column)[:, None]
        return arrays


@dataclass(frozen=True)
class TableCache:
    """The columns of a table in files that are mapped into memory.

    An array is of float32 where that loses nothing, else float64. A fit from them is that of the same rows in memory.
    They are named by the content of the table and the roles of its columns, and are written whole or not at all.

    Attributes:
        folder: where the files lie.
        arrays: `rows x columns` each: "x", "y", and where there are any "x_err", "y_err" and "weights".

    """

    folder: Path
    arrays: Mapping[str, LargeArray]

    @classmethod
    @contextlib.contextmanager
    def opened(cls, source: Source, roles: Roles, folder: Path, keep: bool) -> Iterator[TableCache]:
        """The columns of a table, read if they are not there yet, for the block alone: one fit at a time.

        They are removed at the end of the block, unless they are to be kept, and where the table or an argument is
        refused. What a block leaves that was interrupted, or ended with its process, serves the next start.
        """
        check_columns(source, roles.columns, "the fit")
        place = folder / _key(source, roles)
        place.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as removed:
            with held(place / "lock", f"another fit uses {place}; wait for its end, or give it another cache."):
                try:
                    if not (place / _DESCRIPTION).exists():
                        _write(source, roles, place)
                    described = json.loads((place / _DESCRIPTION).read_text(encoding="utf-8"))
                    arrays = {
                        name: LargeArray(np.memmap(place / name, dtype, mode="r", shape=tuple(shape)))
                        for name, (dtype, shape) in described["parts"].items()
                    }
                    yield cls(place, arrays)
                except (ValueError, TypeError):
                    if not (keep and (place / _DESCRIPTION).exists()):
                        removed.callback(_remove, place)
                    raise
            if not keep:
                removed.callback(_remove, place)


def _remove(place: Path) -> None:
    """Remove the files of a fit, and the folder of the cache where it has no others."""
    shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(OSError):  # it holds the columns of another fit
        place.parent.rmdir()


def _key(source: Source, roles: Roles) -> str:
    text = source.text_format
    content = {"format": _FORMAT, "table": digest_of(source.path), "separator": text.separator, "decimal": text.decimal}
    return hashlib.sha256(json.dumps(content | asdict(roles), sort_keys=True).encode()).hexdigest()[:24]


def _write(source: Source, roles: Roles, place: Path) -> None:
    """Read a table, and write the arrays of its rows; the description comes last."""
    left_out, n_rows = np.asarray(roles.leave_out, dtype=np.intp), 0
    with contextlib.ExitStack() as stack:
        files: dict[str, _Part] = {}
        for rows in source.chunks(roles.columns):
            arrays = roles.arrays(rows)
            good = _usable(source, rows, arrays, roles.drop_missing)
            good[left_out[(left_out >= rows.first) & (left_out < rows.first + len(rows))] - rows.first] = False
            if "weights" in arrays:
                good &= arrays["weights"][:, 0] != 0
            for name, values in arrays.items():
                if name not in files:
                    part = stack.enter_context(written_whole(place / name))
                    files[name] = _Part(stack.enter_context(part.open("rb+")), values.shape[1])
                files[name].append(values[good])
            n_rows += int(good.sum())
        if n_rows < 2:
            raise TableError(f"{source.path}: {n_rows} rows are left to learn from, and a fit needs at least two.")
        described = {name: (file.dtype, (n_rows, file.n_columns)) for name, file in files.items()}
        for file in files.values():
            file.stream.flush()
    write_whole(place / _DESCRIPTION, json.dumps({"parts": described}))


def _usable(source: Source, rows: TableRows, arrays: Mapping[str, Array], drop: bool) -> NDArray[np.bool_]:
    """Which rows hold finite numbers alone; a `TableError` for the first that does not, unless these are dropped."""
    good: NDArray[np.bool_] = np.all([np.isfinite(values).all(1) for values in arrays.values()], axis=0)
    if not good.all() and not drop:
        first = int(np.flatnonzero(~good)[0])
        raise TableError(
            f"{source.path}, {source.place(rows.first + first)}: a missing or infinite value; drop_missing=True leaves "
            "such rows out."
        )
    for name in ("x_err", "y_err", "weights"):
        values = arrays.get(name)
        if values is not None and (values[good] < 0).any():
            first = int(np.flatnonzero((values < 0).any(1) & good)[0])
            what = "weights of rows" if name == "weights" else "errors"
            raise TableError(f"{source.path}, {source.place(rows.first + first)}: {what} must not be negative.")
    return good


class _Part:
    """A file that rows are appended to: in float32 until a number comes that would lose digits, in float64 then."""

    def __init__(self, stream: IO[bytes], n_columns: int) -> None:
        self.stream, self.n_columns, self.dtype = stream, n_columns, "float32"

    def append(self, values: Array) -> None:
        if self.dtype == "float32":
            with np.errstate(over="ignore"):
                rounded = values.astype(np.float32)
            if (rounded == values).all():
                self.stream.write(rounded.tobytes())
                return
            self._widen()
        self.stream.write(values.tobytes())

    def _widen(self) -> None:
        """Turn what is there into float64, from its end on, which the longer numbers do not reach before it is read."""
        self.dtype, size = "float64", self.stream.tell() // 4
        for start in reversed(range(0, size, _WIDENED)):
            self.stream.seek(4 * start)
            numbers = np.frombuffer(self.stream.read(4 * min(_WIDENED, size - start)), np.float32)
            self.stream.seek(8 * start)
            self.stream.write(numbers.astype(np.float64).tobytes())
        self.stream.seek(8 * size)


def columns_of(source: Source, names: Sequence[str]) -> dict[str, Array]:
    """Columns of a table that fits into memory, as numbers."""
    pieces = [{name: rows.numbers(name) for name in names} for rows in source.chunks(tuple(names))]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in names}
