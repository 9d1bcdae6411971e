"""`headgate bench codecs`: values of Kafka records as Arrow columns, in JSON, Avro and Protobuf.

The same rows in each codec, 20,000 at a time as a task takes them, in this process and without brokers.
The rivals are JSON, and the libraries that parse one record at a time. Samples are CPU seconds of the
one thread, after compilation, and the codecs take turns. All must give the same table.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.cli.console import Tick
from headgate.errors import required
from headgate.sources.kafka.avro import Avro
from headgate.sources.kafka.protobuf import Protobuf
from headgate.sources.kafka.protobuf_messages import column_of
from headgate.sources.kafka.protobuf_types import fields_of
from headgate.sources.kafka.values import as_json
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import median

CHUNK = 20_000
JSON, AVRO, PROTOBUF = "JSON", "Avro", "Protobuf"
FASTAVRO, MESSAGES = "fastavro, a record at a time", "protobuf, a message at a time"
_BEGIN = 1_767_225_600_000_000


@dataclass(frozen=True)
class Rows:
    """Rows as each codec writes them."""

    name: str
    columns: pa.Schema
    written: dict[str, list[bytes]]
    parse: dict[str, Callable[[Sequence[bytes]], Any]] = field(default_factory=dict)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure all codecs on flat and on nested rows."""
    where = machine()
    count, rounds = (2_000, 2) if quick else (200_000, 5 * repeat)
    results: list[Result] = []
    goals: list[Goal] = []
    for at, make in enumerate((_flat, _nested)):
        progress("writing the rows", at / 2)
        rows = make(count)
        differing = _differing(rows)
        rates: dict[str, list[float]] = {name: [] for name in rows.parse}
        for number in range(rounds):
            progress(f"{rows.name}, round {number + 1} of {rounds}", (at + (number + 1) / (rounds + 1)) / 2)
            for name in rows.parse if number % 2 == 0 else reversed(rows.parse):
                rates[name].append(_rate(rows.parse[name], rows.written[name]))
        for name, rivals in {AVRO: (JSON, FASTAVRO), PROTOBUF: (JSON, MESSAGES)}.items():
            for rival in rivals:
                value, other = median(rates[name]), median(rates[rival])
                samples = {name: rates[name], rival: rates[rival]}
                results.append(Result(f"{name}, {rows.name}", "rows/s", value, rival, other, samples))
                if rival == JSON:
                    goals.append(Goal(f"{name}, {rows.name}: over JSON", 1.0, value / other))
        goals.append(
            Goal(f"{rows.name}: codecs whose table differs from JSON's", 0, differing, at_most=True, unit="")
        )
    return Report("codecs", tuple(results), tuple(goals), machine=where, quick=quick)


def _rate(parse: Callable[[Sequence[bytes]], Any], values: list[bytes]) -> float:
    chunks = [values[at : at + CHUNK] for at in range(0, len(values), CHUNK)]
    began = time.thread_time()
    for chunk in chunks:
        parse(chunk)
    return len(values) / (time.thread_time() - began)


def _differing(rows: Rows) -> int:
    """How many codecs give another table than JSON. This also compiles what is compiled."""
    tables = [rows.parse[name](rows.written[name][:CHUNK]).table for name in (JSON, AVRO, PROTOBUF)]
    return sum(not table.cast(rows.columns).equals(tables[0].cast(rows.columns)) for table in tables[1:])


def _made(name: str, columns: pa.Schema, schema: Any, message: Any, rows: Sequence[dict[str, Any]]) -> Rows:
    fastavro = required("fastavro", "headgate bench codecs")
    parsed = fastavro.parse_schema(schema)
    text = json.dumps(schema)
    avro, protobuf = Avro.of(text, None, None), Protobuf.of(message, None, None)
    kinds, fields = {field.name: field.type for field in columns}, fields_of(message.DESCRIPTOR)

    def encoded(row: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        return out.getvalue()

    def one_by_one(values: Sequence[bytes]) -> pa.Array:
        read = [fastavro.schemaless_reader(io.BytesIO(value), parsed, None) for value in values]
        return pa.array(read, pa.struct(list(columns)))

    def messages(values: Sequence[bytes]) -> list[pa.Array]:
        read = [message.FromString(value) for value in values]
        return [column_of(one, read) for one in fields]

    written = {
        JSON: [json.dumps(row, default=_text).encode() for row in rows],
        AVRO: [encoded(row) for row in rows],
        PROTOBUF: [message(**row).SerializeToString() for row in rows],
    }
    written |= {FASTAVRO: written[AVRO], MESSAGES: written[PROTOBUF]}
    parse: dict[str, Callable[[Sequence[bytes]], Any]] = {
        JSON: lambda values: as_json(values, kinds),
        AVRO: avro.parse,
        PROTOBUF: protobuf.parse,
        FASTAVRO: one_by_one,
        MESSAGES: messages,
    }
    return Rows(name, columns, written, parse)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _messages(fields: dict[str, Any]) -> Any:
    """The class of a message; a field is the number of a scalar type, a name, or a dict of fields; in a list it is
    repeated.
    """
    google = required("google.protobuf", "headgate bench codecs")
    for part in ("descriptor_pb2", "descriptor_pool", "message_factory", "timestamp_pb2"):
        required(f"google.protobuf.{part}", "headgate bench codecs")
    proto = google.descriptor_pb2
    file = proto.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")

    def add(name: str, fields: dict[str, Any]) -> str:
        made = proto.DescriptorProto(name=name)
        for number, (field_name, kind) in enumerate(fields.items(), 1):
            one = made.field.add(name=field_name, number=number, label=3 if isinstance(kind, list) else 1)
            kind = kind[0] if isinstance(kind, list) else kind
            if isinstance(kind, int):
                one.type = kind
            else:
                one.type = 11
                one.type_name = kind if isinstance(kind, str) else add(field_name.title(), kind)
        file.message_type.append(made)
        return f".bench.{name}"

    add("Row", fields)
    pool = google.descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(google.timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return google.message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Row"))


_STAMP = ".google.protobuf.Timestamp"
_MOMENT = {"type": "long", "logicalType": "timestamp-micros"}


def _flat(count: int) -> Rows:
    chance = np.random.default_rng(1)
    users, amounts = (
        chance.integers(0, 1_000_000, count).tolist(),
        (chance.integers(0, 100_000, count) / 100).tolist(),
    )
    rows = [
        {"user": users[n], "amount": amounts[n], "at": _at(n), "word": f"word {n % 1000}", "ok": n % 2 == 0}
        for n in range(count)
    ]
    kinds = {
        "user": pa.int64(),
        "amount": pa.float64(),
        "at": pa.timestamp("us", "UTC"),
        "word": pa.string(),
        "ok": pa.bool_(),
    }
    avro = {"user": "long", "amount": "double", "at": _MOMENT, "word": "string", "ok": "boolean"}
    message = _messages({"user": 3, "amount": 1, "at": _STAMP, "word": 9, "ok": 8})
    return _made("5 columns", pa.schema(list(kinds.items())), _record("Row", avro), message, rows)


def _nested(count: int) -> Rows:
    rows = [
        {
            "user": n % 1000,
            "place": {"city": f"city {n % 50}", "x": n / 8, "y": -n / 8},
            "tags": [f"tag {n % 7}"] * (n % 4),
            "prices": [n / 4, n / 2],
        }
        for n in range(count)
    ]
    place = pa.struct([("city", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
    kinds = {
        "user": pa.int64(),
        "place": place,
        "tags": pa.list_(pa.string()),
        "prices": pa.list_(pa.float64()),
    }
    inner = _record("Place", {"city": "string", "x": "double", "y": "double"})
    avro = {"user": "long", "place": inner, "tags": _array("string"), "prices": _array("double")}
    message = _messages({"user": 3, "place": {"city": 9, "x": 1, "y": 1}, "tags": [9], "prices": [1]})
    return _made(
        "a struct and two lists", pa.schema(list(kinds.items())), _record("Row", avro), message, rows
    )


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": n, "type": kind} for n, kind in fields.items()],
    }


def _array(items: str) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _at(n: int) -> datetime:
    return datetime.fromtimestamp((_BEGIN + 1_000_000 * n) // 1_000_000, UTC)
