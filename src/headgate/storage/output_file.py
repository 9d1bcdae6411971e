"""Output files: what tasks, and for split keys the driver, hand to the sink."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.spark.types import emitted
from headgate.storage.commit_log import checksum
from headgate.storage.manifest import Written
from headgate.storage.store import Store


def write_parquet(store: Store, name: str, table: pa.Table) -> Written:
    """Write one file. Dictionaries help with text only, and cost elsewhere."""
    table = emitted(table)
    sink = pa.BufferOutputStream()
    text = [f.name for f in table.schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
    pq.write_table(table, sink, use_dictionary=text, compression="snappy")
    data = sink.getvalue()
    return Written(name, store.write(name, [data]), checksum(data))
