"""Records as Arrow tables: which columns a stream has, and how they are taken from the client's
messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.errors import ConfigError
from headgate.sources.kafka.codec import Codec
from headgate.sources.kafka.planning import Span
from headgate.sources.kafka.values import Parsed, as_bytes, as_json, as_text
from headgate.state.payload import plain_type

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
META = {
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": HEADERS,
}
"""What a record has besides its value."""
FORMS = ("json", "avro", "protobuf", "text", "raw")
KEYS = ("raw", "text", "avro")
BAD = pa.schema([("reason", pa.string()), *META.items(), ("value", pa.binary())])
"""The columns of a record that does not parse."""


@dataclass(frozen=True)
class Layout:
    """The columns of a stream: those of the value first, then those of the record under the names
    that the user chose.
    """

    form: str
    key: str
    value: pa.Schema
    meta: Mapping[str, str]
    """What of the record, and the name of its column."""
    codec: Codec | None = None
    """What parses Avro and Protobuf."""
    key_codec: Codec | None = None

    @classmethod
    def of(
        cls,
        form: Any,
        key: Any,
        schema: pa.Schema | None,
        meta: Any,
        codec: Codec | None = None,
        key_codec: Codec | None = None,
    ) -> Layout:
        """The layout that a user describes."""
        if form not in FORMS:
            raise ConfigError(f"Kafka(value={form!r}): values are {', '.join(map(repr, FORMS))}")
        if key not in KEYS:
            raise ConfigError(f"Kafka(key={key!r}): keys are {', '.join(map(repr, KEYS))}")
        if codec is not None:
            schema = codec.schema()
        elif form == "json" and schema is None:
            raise ConfigError(
                "Kafka(value='json') needs schema=...: JSON does not tell its columns and types. Write schema='user long, "
                "amount double', or value='raw' for bytes"
            )
        elif form != "json" and schema is not None:
            raise ConfigError(
                f"Kafka(value={form!r}) has one column, 'value', so schema=... must be left out"
            )
        if schema is None:
            schema = pa.schema([("value", pa.string() if form == "text" else pa.binary())])
        elif not isinstance(schema, pa.Schema) or not schema.names:
            raise ConfigError(
                f"Kafka(schema={schema!r}) is not a pyarrow.Schema with columns: pa.schema([...])"
            )
        elif form == "json":
            from headgate.sources.json_format import check as check_json

            check_json(schema)
        layout = cls(
            form, key, schema.remove_metadata(), _meta(meta, default=form == "raw"), codec, key_codec
        )
        names = layout.schema.names
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(
                f"Kafka has two columns {min(twice)!r}: one of the value, and one of meta=...; give that another name, as in "
                f"meta={{'key': 'record_key'}}"
            )
        return layout

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        kinds = {**META, "key": pa.string() if self.key == "text" else pa.binary()}
        if self.key_codec is not None:
            kinds["key"] = self.key_codec.schema().field(0).type
        return pa.schema([*self.value, *(pa.field(name, kinds[what]) for what, name in self.meta.items())])

    def only(self, columns: Sequence[str]) -> Layout:
        """The same without columns that nobody needs. One remains, so that rows can be counted."""
        value = pa.schema([field for field in self.value if field.name in columns])
        meta = {what: name for what, name in self.meta.items() if name in columns}
        if not value.names and not meta:
            value = pa.schema([self.value.field(0)])
        return replace(self, value=value, meta=meta)


def _meta(meta: Any, *, default: bool) -> dict[str, str]:
    if meta is None:
        return {what: what for what in META} if default else {}
    if isinstance(meta, str):
        meta = [meta]
    chosen = dict(meta) if isinstance(meta, Mapping) else {what: what for what in meta}
    for what, name in chosen.items():
        if what not in META or not isinstance(name, str) or not name:
            raise ConfigError(
                f"Kafka(meta=...) has {what!r}: {name!r}. It takes some of {', '.join(META)}, as a list, or as a dict with the names "
                "of the columns: meta={'timestamp': 'sent_at'}"
            )
    return chosen


def table_of(
    messages: Sequence[Any], span: Span, layout: Layout, whole: Layout
) -> tuple[pa.Table, pa.Table | None]:
    """The rows of records of one partition in the columns of `layout`, and the records that do not
    parse. `whole` is the layout with all columns of the stream: a record is judged by all of them,
    whoever needs them.
    """
    parsed = _parsed([message.value() for message in messages], whole)
    keys = _keys(messages, whole)
    bad = dict(parsed.bad)
    bad |= {at: f"has a key that {why}" for at, why in keys.bad.items() if at not in bad} if keys else {}
    kept = [message for at, message in enumerate(messages) if at not in bad] if bad else messages
    columns = list(_left(parsed, bad, len(messages)).select(layout.value.names).columns)
    for what in layout.meta:
        if what == "key" and keys:
            columns.append(_left(keys, bad, len(messages)).column(0))
        else:
            columns.append(_meta_column(what, kept, span))
    rows = pa.Table.from_arrays(columns, schema=_plain(layout.schema))
    return rows, _aside(messages, span, bad) if bad else None


def _keys(messages: Sequence[Any], layout: Layout) -> Parsed | None:
    """The keys, if they are parsed."""
    if "key" not in layout.meta or layout.key == "raw":
        return None
    keys = [message.key() for message in messages]
    return as_text(keys, "key") if layout.key_codec is None else layout.key_codec.parse(keys)


def _left(parsed: Parsed, bad: Mapping[int, str], count: int) -> pa.Table:
    """The rows that parsed, without those of records that are bad for another reason."""
    if len(bad) == len(parsed.bad):
        return parsed.table
    places = [at for at in range(count) if at not in parsed.bad]
    return parsed.table.take(pa.array([row for row, at in enumerate(places) if at not in bad], pa.int64()))


def _parsed(values: Sequence[bytes | None], layout: Layout) -> Parsed:
    if layout.codec is not None:
        return layout.codec.parse(values)
    if layout.form == "json":
        return as_json(values, {field.name: plain_type(field.type) for field in layout.value})
    name = layout.value.names[0]
    return as_text(values, name) if layout.form == "text" else as_bytes(values, name)


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def _meta_column(what: str, messages: Sequence[Any], span: Span) -> pa.Array:
    if what == "key":
        return pa.array([message.key() for message in messages], pa.binary())
    if what == "topic":
        return pa.repeat(pa.scalar(span.topic, pa.string()), len(messages))
    if what == "partition":
        return pa.array(np.full(len(messages), span.partition, np.int32))
    if what == "offset":
        return pa.array([message.offset() for message in messages], pa.int64())
    if what == "timestamp":
        stamps = [message.timestamp() for message in messages]
        millis = pa.array([at if kind else None for kind, at in stamps], pa.int64())
        return millis.cast(pa.timestamp("ms", "UTC")).cast(META["timestamp"])
    return pa.array([_headers(message) for message in messages], HEADERS)


def _headers(message: Any) -> list[dict[str, Any]] | None:
    headers = message.headers()
    return None if headers is None else [{"key": name, "value": value} for name, value in headers]


def _aside(messages: Sequence[Any], span: Span, bad: Mapping[int, str]) -> pa.Table:
    places = sorted(bad)
    found = [messages[at] for at in places]
    columns = [pa.array([bad[at] for at in places], pa.string())]
    columns += [_meta_column(what, found, span) for what in META]
    columns.append(pa.array([message.value() for message in found], pa.binary()))
    return pa.Table.from_arrays(columns, schema=BAD)
