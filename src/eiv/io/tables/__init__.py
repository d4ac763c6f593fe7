"""Tables in files: CSV, Parquet and Excel, read as a whole or in blocks, and the errors of their columns."""

from eiv.extras import needs

needs("eiv.io.tables", "pyarrow", extra="parquet")  # pyarrow reads CSV, too

from eiv.io.tables.errorspec import ErrorSpec, ErrorTerm  # noqa: E402
from eiv.io.tables.reading import MISSING_WORDS, Source, TableError, TableRows, open_table  # noqa: E402
from eiv.io.tables.writing import TableWriter  # noqa: E402

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
