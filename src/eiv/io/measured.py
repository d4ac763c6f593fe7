"""Arrays and tables that carry errors or units: `uncertainties`, pint, and quantities and tables of astropy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eiv.io.arrays import plain
from eiv.validation import LEAVE_OUT, check_unmasked

__all__ = ["Measured", "Unit", "errors_in_units", "measured"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Unit:
    """The unit of a column.

    Attributes:
        name: as its library writes it, for instance "m / s".
        convert: from numbers in this unit to those in the unit of another name; raises an error where there is no way.

    Examples:
        >>> km = Unit("km", lambda values, name: values * {"m": 1000.0, "km": 1.0}[name])
        >>> km.factor("m")
        1000.0

    """

    name: str
    convert: Callable[[Array, str], Array]

    def factor(self, name: str) -> float:
        """What differences, such as errors, are multiplied by: 5/9 from °F to °C, though their zeros differ."""
        ends = np.array([0.0, 1.0])
        try:
            low, high = self.convert(ends, name)
        except TypeError as error:  # pint keeps differences of temperatures apart
            try:
                low, high = self.convert(ends, f"Δ{name}")
            except AttributeError:
                raise error from None
        return float(high - low)


@dataclass(frozen=True)
class Measured:
    """Numbers, and what came with them.

    Attributes:
        values: a NumPy array, a pandas table or Series, or whatever else carries nothing.
        errors: standard deviations in the same form; None where there are none.
        units: one for each column, None for a column without; None where there are none at all.

    Examples:
        >>> measured("X", np.ones((3, 2))).units is None
        True

    """

    values: Any
    errors: Any = None
    units: tuple[Unit | None, ...] | None = None

    @property
    def unit_names(self) -> tuple[str | None, ...] | None:
        """The names of the units."""
        return None if self.units is None else tuple(None if unit is None else unit.name for unit in self.units)

    def in_units(self, name: str, wanted: Sequence[str | None] | None, are_errors: Sequence[bool]) -> Measured:
        """The same numbers in other units, one for each column; columns that `are_errors` have no zero to move.

        Numbers without units are taken as they are. A ValueError says where units do not go together, and calls the
        whole `name`.
        """
        units = self.units
        if units is None or len(units) != len(are_errors):
            return self
        wanted = [None] * len(units) if wanted is None else wanted
        values, errors = _copy(self.values), _copy(self.errors)
        for j, (unit, target, is_error) in enumerate(zip(units, wanted, are_errors, strict=True)):
            if unit is None or unit.name == target:
                continue
            what = f"{name}: column {_column_name(values, j)}" if len(units) > 1 else name
            if target is None:
                raise ValueError(f"{what} is in {unit.name or 'no unit'}, but the model knows no unit of it.")
            with _about(what, unit, target):
                own = _column(values, j)
                factor = unit.factor(target)
                _set_column(values, j, factor * own if is_error else unit.convert(own, target))
                if errors is not None:
                    _set_column(errors, j, factor * _column(errors, j))
        return Measured(values, errors, units)


def measured(name: str, values: Any, masked: str | None = LEAVE_OUT) -> Measured:
    """What an array or a table carries.

    Args:
        name: of the argument, for messages.
        masked: what to do about masked values, for the message that refuses them; None where they become NaN.
        values: an array or table of numbers; of `ufloat`s, also in columns of a pandas table; a quantity of pint or
            astropy; or a Table or QTable of astropy. Others are made plain (`eiv.io.arrays.plain`).

    Returns:
        Plain numbers, and the errors and units that came with them.

    Examples:
        >>> measured("X", [[1.0], [2.0]]).values
        [[1.0], [2.0]]

    """
    package = type(values).__module__.partition(".")[0]
    if package == "pint" and hasattr(values, "magnitude"):
        inner = measured(name, values.magnitude, masked)
        kind, units = type(values), values.units
        unit = Unit(f"{units:~}", lambda numbers, to: kind(numbers, units).to(to).magnitude)
        return Measured(inner.values, inner.errors, (unit,) * _n_columns(inner.values))
    if package == "astropy" and hasattr(values, "colnames"):
        return _astropy_table(name, values, masked)
    if package == "astropy" and hasattr(values, "unit"):
        numbers = _without_mask(name, values.value, masked)
        return Measured(numbers, None, (_astropy_unit(values.unit),) * _n_columns(values))
    found = _without_mask(name, plain(name, values), masked)
    if hasattr(type(found), "iloc") and found.ndim == 2:
        return _pandas_table(found)
    inner = found.to_numpy() if hasattr(type(found), "iloc") and found.dtype.kind == "O" else found
    if not _holds_ufloats(inner):
        return Measured(found)
    array = np.asarray(inner, dtype=object)
    return Measured(_parts(array, "nominal_value"), _parts(array, "std_dev"))


def errors_in_units(name: str, errors: Any, units: Sequence[str | None] | None, names: Sequence[str] | None) -> Any:
    """Stated errors as plain numbers in the units of what they belong to.

    Args:
        name: of the argument, for messages.
        errors: in any form; those without units are taken as they are.
        units: of the columns that the errors belong to, None for one without; None where there are none.
        names: of these columns, for errors by name.

    Returns:
        The errors in the same form.

    Examples:
        >>> import astropy.units as u
        >>> errors_in_units("X_err", 10.0 * u.cm, ("m",), None).item()
        0.1

    """
    if isinstance(errors, Mapping):
        of_name = dict(zip(names or (), units or (), strict=False))
        return {
            label: errors_in_units(f"{name} of {label!r}", error, (of_name.get(str(label)),), None)
            for label, error in errors.items()
        }
    found = measured(name, errors)
    if found.units is None:
        return found.values
    if hasattr(type(found.values), "iloc"):
        of_name = dict(zip(names or (), units or (), strict=False))
        targets = [of_name.get(str(label)) for label in found.values.columns]
        return found.in_units(name, targets, [True] * len(targets)).values
    (unit,), factors = {*found.units}, []
    assert unit is not None
    for target in units or (None,):
        if target is None:
            raise ValueError(f"{name} is in {unit.name or 'no unit'}, but what it belongs to has no unit.")
        with _about(name, unit, target):
            factors.append(1.0 if unit.name == target else unit.factor(target))
    return found.values * (factors[0] if len(set(factors)) == 1 else np.array(factors))


def _pandas_table(table: Any) -> Measured:
    """A table some of whose columns hold ufloats."""
    carrying = [
        j for j, kind in enumerate(table.dtypes) if kind.kind == "O" and _holds_ufloats(table.iloc[:, j].to_numpy())
    ]
    if not carrying:
        return Measured(table)
    import pandas as pd  # noqa: PLC0415

    columns = {
        name: _parts(table[name].to_numpy(), "nominal_value") if j in carrying else table[name]
        for j, name in enumerate(table.columns)
    }
    errors = np.zeros(table.shape)
    for j in carrying:
        errors[:, j] = _parts(table.iloc[:, j].to_numpy(), "std_dev")
    return Measured(pd.DataFrame(columns, index=table.index), pd.DataFrame(errors, table.index, table.columns))


def _astropy_table(name: str, table: Any, masked: str | None) -> Measured:
    import pandas as pd  # noqa: PLC0415

    columns, units = {}, []
    for column in table.colnames:
        values = table[column]
        data = getattr(values, "value", values)
        columns[column] = np.asarray(_without_mask(f"{name}: column {column!r}", data, masked))
        units.append(_astropy_unit(values.unit) if getattr(values, "unit", None) is not None else None)
    return Measured(pd.DataFrame(columns), None, tuple(units) if any(units) else None)


def _without_mask(name: str, values: Any, masked: str | None) -> Any:
    """Values without their mask: a masked one is refused in the words of `masked`, or NaN where that is None."""
    if not isinstance(values, np.ma.MaskedArray) and not hasattr(values, "unmasked"):  # astropy has its own
        return values
    array = np.ma.asanyarray(values)
    if masked is not None:
        check_unmasked(name, array, masked)
    if not np.ma.is_masked(array):
        return array.data
    return (array if array.dtype == object else array.astype(float)).filled(np.nan)


def _astropy_unit(unit: Any) -> Unit:
    from astropy.units import Quantity, temperature  # noqa: PLC0415  (optional)

    def convert(numbers: Array, to: str) -> Array:
        return np.asarray(Quantity(numbers, unit).to(to, equivalencies=temperature()).value)

    return Unit(unit.to_string(), convert)


@contextlib.contextmanager
def _about(what: str, unit: Unit, target: str) -> Iterator[None]:
    """Turn the errors of the libraries into a ValueError that names the column and both units."""
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{what} is in {unit.name or 'no unit'}, which cannot be converted to {target or 'no unit'}: {error}."
        ) from error


def _holds_ufloats(values: Any) -> bool:
    """Whether the first of the values, however deep in lists, is a number of the library uncertainties."""
    while isinstance(values, list | tuple) and values:
        values = values[0]
    if isinstance(values, np.ndarray):
        if values.dtype != object or not values.size:
            return False
        values = values.flat[0]
    return hasattr(values, "nominal_value") and hasattr(values, "std_dev")


def _parts(array: NDArray[Any], name: str) -> Array:
    """The nominal values, or the standard deviations, of numbers of which some may be plain."""
    flat = [getattr(value, name, value if name == "nominal_value" else 0.0) for value in array.flat]
    return np.array(flat, dtype=float).reshape(array.shape)


def _n_columns(values: Any) -> int:
    shape = np.shape(values)
    return shape[1] if len(shape) == 2 else 1


def _copy(values: Any) -> Any:
    return (
        values if values is None else values.copy() if hasattr(type(values), "iloc") else np.array(values, dtype=float)
    )


def _column(values: Any, j: int) -> Array:
    if hasattr(type(values), "iloc"):
        return np.asarray(values.iloc[:, j], dtype=float)
    return np.asarray(values[:, j] if values.ndim == 2 else values)


def _set_column(values: Any, j: int, column: Array) -> None:
    if hasattr(type(values), "iloc"):
        values.isetitem(j, column)
    elif values.ndim == 2:
        values[:, j] = column
    else:
        values[...] = column


def _column_name(values: Any, j: int) -> Any:
    return repr(str(values.columns[j])) if hasattr(type(values), "iloc") else j
