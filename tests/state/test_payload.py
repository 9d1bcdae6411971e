"""The Arrow type of a column that is carried as bytes."""

from __future__ import annotations

import pickle

import pyarrow as pa

from headgate.state.payload import Payload


def test_a_payload_type_survives_pickling_and_arrow_s_own_format() -> None:
    kind = Payload(pa.list_(pa.string()), "array<string>", '{"type": "array"}')
    schema = pa.schema([("tags", kind)])
    assert pickle.loads(pickle.dumps(schema)) == schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema):
        pass
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        found = reader.schema.field("tags").type
    assert (found, str(found), found.origin) == (kind, "array<string>", '{"type": "array"}')
    other = Payload(pa.list_(pa.string()), "array<char(3)>", '{"type": "array"}')
    assert kind != other
    assert schema != pa.schema([("tags", other)])
