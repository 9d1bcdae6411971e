"""Columns in exactly the types that a stage declared: an engine may label the same bytes in another way."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.state.lanes import bitmap
from headgate.state.payload import Payload


def conform(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns under the given names and in exactly the given types (Spark labels timestamps with the
    session's zone, and says of nested fields whether they can be null).
    """
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    arrays = [_conformed(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def conform_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows that were read from a file, in exactly the given types."""
    columns = [
        pa.chunked_array([_conformed(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _conformed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values in another type of the same layout. (Arrow's own cast fails on lists of nulls.)"""
    t = pa.types
    if array.type == kind:
        return array
    if isinstance(kind, Payload):
        return pa.ExtensionArray.from_storage(kind, _conformed(array, kind.storage_type))
    if t.is_list(kind) or t.is_map(kind):
        if t.is_list(kind):
            within = _conformed(array.values, kind.value_type)
        else:
            pair = [_conformed(array.keys, kind.key_type), _conformed(array.items, kind.item_type)]
            entries = pa.struct([kind.key_field, kind.item_field])
            within = pa.Array.from_buffers(entries, len(pair[0]), [None], children=pair)
        buffers = array.buffers()[:2]
        return pa.Array.from_buffers(kind, len(array), buffers, offset=array.offset, children=[within])
    if t.is_struct(kind):
        within = [_conformed(array.field(at), field.type) for at, field in enumerate(kind)]
        valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False)).astype(np.uint8)
        return pa.Array.from_buffers(kind, len(array), [bitmap(valid)], children=within)
    return array.cast(kind)
