"""Tables in files: CSV, Parquet and Excel, read whole or a piece at a time, and the errors that their columns have."""

from eiv.extras import needs

needs("eiv.io.tables", "pyarrow", extra="parquet")  # which reads CSV, too

from eiv.io.tables.errorspec import ErrorSpec, ErrorTerm  # noqa: E402
from eiv.io.tables.reading import Rows, Source, TableError, open_table  # noqa: E402
from eiv.io.tables.writing import TableWriter  # noqa: E402

__all__ = ["ErrorSpec", "ErrorTerm", "Rows", "Source", "TableError", "TableWriter", "open_table"]
