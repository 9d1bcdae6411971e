"""The columns of `avro_machine` as Arrow arrays. What the type of a column cannot hold raises `ValueError`."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pyarrow as pa

from headgate.sources.kafka.avro_types import Node
from headgate.sources.kafka.lanes import (
    Ints,
    Lanes,
    bytes_of,
    decimals_of,
    offsets_of,
    packed,
    packed_bits,
    wide_integers,
)

_DAY = 86_400_000_000
_MOST = (1 << 63) // 1000 - 1


def array_of(node: Node, lanes: Lanes) -> pa.Array:
    """The values of a node."""
    values, mask = lanes.values(node.column), lanes.mask(node.column)
    rows = len(values)
    if node.kind == "record":
        children = [array_of(inner, lanes) for _, inner in node.inner]
        return pa.Array.from_buffers(node.arrow, rows, [mask], children=children)
    if node.kind == "array":
        child = array_of(node.inner[0][1], lanes)
        return pa.Array.from_buffers(node.arrow, rows, [mask, offsets_of(values)], children=[child])
    if node.kind == "map":
        pair = [array_of(inner, lanes) for _, inner in node.inner]
        kind = pa.struct([node.arrow.key_field, node.arrow.item_field])
        entries = pa.Array.from_buffers(kind, len(pair[0]), [None], children=pair)
        return pa.Array.from_buffers(node.arrow, rows, [mask, offsets_of(values)], children=[entries])
    if node.kind in ("string", "bytes", "fixed"):
        return _of_bytes(node, lanes, values, mask)
    if node.kind == "enum":
        codes = pa.Array.from_buffers(pa.int32(), rows, [mask, packed(values, np.int32)])
        return pa.DictionaryArray.from_arrays(codes, node.schema["symbols"]).dictionary_decode()
    return _number(node, values, mask)


def _number(node: Node, values: Ints, mask: pa.Buffer | None) -> pa.Array:
    kind, logical, rows = node.arrow, str(node.schema.get("logicalType", "")), len(values)
    if node.kind == "boolean":
        return pa.Array.from_buffers(kind, rows, [mask, packed_bits(values)])
    if node.kind == "float":
        return pa.Array.from_buffers(kind, rows, [mask, packed(values, np.uint32)])
    if pa.types.is_int32(kind) or pa.types.is_date32(kind):
        return pa.Array.from_buffers(kind, rows, [mask, packed(values, np.int32)])
    if pa.types.is_timestamp(kind) and logical.endswith("millis"):
        if rows and (values.max() > _MOST or values.min() < -_MOST):
            raise ValueError(f"has a time in field {node.path} that does not fit into microseconds")
        values = values * 1000
    if pa.types.is_time(kind):
        values = values * 1000 if logical == "time-millis" else values
        if rows and (values.max() >= _DAY or values.min() < 0):
            raise ValueError(f"has a time of day in field {node.path} that is not within a day")
    return pa.Array.from_buffers(kind, rows, [mask, packed(values, np.int64)])


def _of_bytes(node: Node, lanes: Lanes, places: Ints, mask: pa.Buffer | None) -> pa.Array:
    if pa.types.is_decimal(node.arrow):
        return _decimals(node, lanes, places, mask)
    array = bytes_of(lanes, places, mask, text=node.kind == "string", what=node.path)
    if node.kind == "fixed" and node.arrow == pa.string():
        texts = [None if one is None else str(UUID(bytes=one)) for one in array.to_pylist()]
        return pa.array(texts, pa.string())
    return array


def _decimals(node: Node, lanes: Lanes, places: Ints, mask: pa.Buffer | None) -> pa.Array:
    pairs, wrong = wide_integers(lanes.data, places)
    array = decimals_of(pairs, node.arrow, mask)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        wrong = 0
    if wrong >= 0:
        raise ValueError(f"has a number in field {node.path} with more digits than {node.arrow} holds")
    return array
