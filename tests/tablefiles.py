"""Tables for the tests of those who read them."""


def written(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def without_last_row(open_csv):
    """A parser that loses the last row of each batch."""

    class Reader:
        def __init__(self, *args):
            self.reader = open_csv(*args)
            self.schema = self.reader.schema

        def __iter__(self):
            return (batch.slice(0, batch.num_rows - 1) for batch in self.reader)

    return Reader
