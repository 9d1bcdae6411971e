"""The rows that are sent to a channel: their columns, and the hash of each row's key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.operators.base import BoundOperator
from headgate.routing.key_hash import SPARK_SEED, hash_ints
from headgate.state.keys import KeySpec

HASH, ORDER = "__headgate_hash", "__headgate_order"


def ships_hash(key: KeySpec) -> bool:
    """Whether rows are sent with their hash. The channel computes the hash of a single integer
    again, which is cheaper than sending eight more bytes for each row.
    """
    return not (len(key.names) == 1 and pa.types.is_signed_integer(key.types[0]))


def routed_schema(
    operator: BoundOperator, source: pa.Schema, *, hashed: bool | None = None, in_order: bool = False
) -> pa.Schema:
    """The columns that a channel receives, in order: key, inputs, then the hash and the
    place in the source if needed. It is not needed for rows that arrive `in_order`.
    """
    names = [*operator.key.names, *(n for n in operator.inputs if n not in operator.key.names)]
    fields = [source.field(n) for n in names]
    if ships_hash(operator.key) if hashed is None else hashed:
        fields.append(pa.field(HASH, pa.int64()))
    if operator.ordered and not in_order:
        fields.append(pa.field(ORDER, pa.int64()))
    return pa.schema(fields)


def hashes_of(rows: pa.RecordBatch, key: KeySpec) -> NDArray[np.int64]:
    """The key hashes of routed rows: as they were sent, or computed again if the key is a single integer."""
    at = rows.schema.get_field_index(HASH)
    if at >= 0:
        return np.asarray(rows.column(at).to_numpy())
    column = rows.column(key.names[0])
    if column.type != pa.int64():
        column = column.cast(pa.int64())
    hashes = hash_ints(column.fill_null(0).to_numpy() if column.null_count else column.to_numpy())
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = SPARK_SEED
    return hashes
