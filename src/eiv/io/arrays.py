"""Other people's arrays and tables as NumPy arrays and pandas tables."""

from __future__ import annotations

from typing import Any

from eiv.extras import needs

__all__ = ["plain"]

_KNOWN = ("numpy", "pandas", "scipy", "builtins")  # what scikit-learn and the checks of eiv take as it is


def plain(name: str, values: Any) -> Any:
    """The same numbers as a NumPy array, a pandas table or a pandas Series.

    Tensors of torch, tables that narwhals knows (polars, pyarrow, modin and others), arrays of xarray, whose
    coordinates become labels, and nullable columns of pandas are converted. Everything else is returned as it is.

    Args:
        name: of the argument, for messages.
        values: an array, a table, a column or anything else.

    Returns:
        The numbers, with the names of columns and rows that they had.

    Examples:
        >>> import torch
        >>> plain("X", torch.tensor([[1.0, 2.0]]))
        array([[1., 2.]], dtype=float32)

    """
    package = type(values).__module__.partition(".")[0]
    if package == "torch":
        return values.detach().cpu().numpy()
    if package == "pandas":
        return _without_nullable(values)
    if package == "xarray":
        return _array_of_xarray(name, values)
    if package not in _KNOWN and any(hasattr(type(values), part) for part in ("columns", "__arrow_c_stream__")):
        return _table(name, values)
    return values


def _without_nullable(values: Any) -> Any:
    """A pandas table or Series whose nullable numbers are plain ones, missing values being NaN."""
    from pandas.api.types import is_extension_array_dtype, is_numeric_dtype  # noqa: PLC0415

    def is_nullable(kind: Any) -> bool:
        return bool(is_extension_array_dtype(kind) and is_numeric_dtype(kind))

    if getattr(values, "ndim", 0) == 1:
        return values.astype(float) if is_nullable(values.dtype) else values
    nullable = [column for column, kind in getattr(values, "dtypes", {}).items() if is_nullable(kind)]
    return values.astype(dict.fromkeys(nullable, float)) if nullable else values


def _array_of_xarray(name: str, values: Any) -> Any:
    """An array whose axes may have labels; they are kept where its columns, or those of a single one its rows, do."""
    if not hasattr(values, "to_numpy"):
        raise TypeError(
            f"{name} must be an array or a table, got the {type(values).__name__} of xarray: give it as a table, with "
            ".to_dataframe()."
        )
    labelled = values.ndim in (1, 2) and values.dims[-1] in values.indexes
    return values.to_pandas() if labelled else values.to_numpy()


def _table(name: str, values: Any) -> Any:
    """A table or column of another library as that of pandas."""
    needs(f"{name} as a {type(values).__module__.partition('.')[0]} table", "narwhals", extra="frames")
    import narwhals as nw  # noqa: PLC0415  (optional)
    import pandas as pd  # noqa: PLC0415

    try:
        found = nw.from_native(values, allow_series=True)
    except TypeError as error:
        raise TypeError(f"{name} must be an array or a table, got {type(values).__name__}: {error}.") from error
    if isinstance(found, nw.LazyFrame):
        found = found.collect()
    if isinstance(found, nw.Series):
        return pd.Series(found.to_numpy(), name=found.name)
    return pd.DataFrame({column: found[column].to_numpy() for column in found.columns})
