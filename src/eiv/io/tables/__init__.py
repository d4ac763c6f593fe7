"""Tables in files: CSV, Parquet and Excel, read whole or a piece at a time, and the errors that their columns have."""

from eiv.io.tables.errorspec import ErrorSpec, ErrorTerm
from eiv.io.tables.reading import Rows, Source, TableError, open_table
from eiv.io.tables.writing import TableWriter

__all__ = ["ErrorSpec", "ErrorTerm", "Rows", "Source", "TableError", "TableWriter", "open_table"]
