"""Tables in files: CSV, Parquet and Excel, read as a whole or in blocks, and the errors of their columns."""

from typing import TYPE_CHECKING

from eiv.extras import needs, on_first_use

if TYPE_CHECKING:
    from eiv.io.tables.errorspec import ErrorSpec, ErrorTerm
    from eiv.io.tables.reading import MISSING_WORDS, Source, TableRows, open_table
    from eiv.io.tables.scanning import TableError
    from eiv.io.tables.writing import TableWriter

needs("eiv.io.tables", "pyarrow", extra="parquet")  # pyarrow reads CSV, too

__all__ = [
    "MISSING_WORDS",
    "ErrorSpec",
    "ErrorTerm",
    "Source",
    "TableError",
    "TableRows",
    "TableWriter",
    "open_table",
]

__getattr__ = on_first_use(
    __name__,
    {
        "eiv.io.tables.errorspec": ("ErrorSpec", "ErrorTerm"),
        "eiv.io.tables.reading": ("MISSING_WORDS", "Source", "TableRows", "open_table"),
        "eiv.io.tables.scanning": ("TableError",),
        "eiv.io.tables.writing": ("TableWriter",),
    },
)
