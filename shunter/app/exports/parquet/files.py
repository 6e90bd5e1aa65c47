"""Tables in Parquet files: rows come one by one, and go out in groups.

Column types are written in words, so that only what writes files imports pyarrow (Apache 2.0),
which is an extra.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from shunter.app.output_files import replacing_bytes

Columns = Mapping[str, str]
"""The columns of a table in order, each with its type: `int`, `float`, `text`, `ints`, …"""

GROUP_ROWS: Final = 50_000
"""So many rows are one row group: what a reader has to load at least."""


class TableFile:
    """One table that is being written."""

    def __init__(self, file: BinaryIO, columns: Columns, metadata: Mapping[str, str]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        types = {
            "int": pa.int64(),
            "float": pa.float64(),
            "bool": pa.bool_(),
            "text": pa.string(),
            "word": pa.dictionary(pa.int32(), pa.string()),  # one of few
            "ints": pa.list_(pa.int64()),
            "floats": pa.list_(pa.float64()),
            "texts": pa.list_(pa.string()),
        }
        fields = [pa.field(name, types[kind]) for name, kind in columns.items()]
        self._schema: Any = pa.schema(fields, metadata=dict(metadata))
        self._arrays: Any = pa.array
        self._batch: Any = pa.RecordBatch.from_arrays
        self._writer: Any = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[Sequence[object]] = []
        self.rows = 0

    def add(self, *row: object) -> None:
        """Add a row: a value for each column, None where there is none."""
        self._rows.append(row)
        if len(self._rows) >= GROUP_ROWS:
            self._write()

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        self._write()
        self._writer.close()

    def _write(self) -> None:
        if not self._rows:
            return
        columns = zip(self._schema, zip(*self._rows, strict=True), strict=True)
        arrays = [self._arrays(values, type=field.type) for field, values in columns]
        self._writer.write_batch(self._batch(arrays, schema=self._schema))
        self.rows += len(self._rows)
        self._rows = []


@contextmanager
def table_files(
    folder: Path, tables: Mapping[str, Columns], metadata: Mapping[str, str]
) -> Iterator[dict[str, TableFile]]:
    """Open a file for each table; all are whole once the block has ended.

    Args:
        folder: where; it exists.
        tables: their columns by name; `jobs` is written to `jobs.parquet`.
        metadata: what each file says of itself.
    Raises:
        ShunterError: one cannot be written.
    """
    with ExitStack() as stack:
        files = {}
        for name, columns in tables.items():
            file = stack.enter_context(replacing_bytes(folder / f"{name}.parquet"))
            files[name] = TableFile(file, columns, metadata)
        yield files
        for table in files.values():
            table.close()
