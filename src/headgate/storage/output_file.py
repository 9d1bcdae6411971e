"""Output files, which tasks write for the sink; for split keys the driver writes them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.state.payload import plain
from headgate.storage.commit_log import checksum
from headgate.storage.manifest import Written
from headgate.storage.store import Store


def write_parquet(store: Store, name: str, table: pa.Table, schema: pa.Schema) -> Written:
    """Write one file with the schema that readers of the engine expect. Only text is
    dictionary-encoded: for other types it costs more than it saves.
    """
    table = pa.Table.from_arrays([plain(column) for column in table.columns], schema=schema)
    sink = pa.BufferOutputStream()
    text = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
    pq.write_table(table, sink, use_dictionary=text, compression="snappy")
    data = sink.getvalue()
    return Written(name, store.write(name, [data]), checksum(data))
