"""Records as Arrow tables: which columns a stream has, and how they are taken from the client's
messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.errors import ConfigError
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
FORMS = ("json", "text", "raw")
KEYS = ("raw", "text")
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

    @classmethod
    def of(cls, form: Any, key: Any, schema: pa.Schema | None, meta: Any) -> Layout:
        """The layout that a user describes."""
        if form not in FORMS:
            raise ConfigError(f"Kafka(value={form!r}): values are {', '.join(map(repr, FORMS))}")
        if key not in KEYS:
            raise ConfigError(f"Kafka(key={key!r}): keys are {', '.join(map(repr, KEYS))}")
        if form == "json" and schema is None:
            raise ConfigError(
                "Kafka(value='json') needs schema=...: JSON does not tell its columns and types. Write schema='user long, "
                "amount double', or value='raw' for bytes"
            )
        if form != "json" and schema is not None:
            raise ConfigError(
                f"Kafka(value={form!r}) has one column, 'value', so schema=... must be left out"
            )
        if schema is None:
            schema = pa.schema([("value", pa.string() if form == "text" else pa.binary())])
        elif not isinstance(schema, pa.Schema) or not schema.names:
            raise ConfigError(
                f"Kafka(schema={schema!r}) is not a pyarrow.Schema with columns: pa.schema([...])"
            )
        else:
            from headgate.sources.json_format import check as check_json

            check_json(schema)
        layout = cls(form, key, schema.remove_metadata(), _meta(meta, default=form == "raw"))
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
        return pa.schema([*self.value, *(pa.field(name, kinds[what]) for what, name in self.meta.items())])

    def only(self, columns: Sequence[str]) -> Layout:
        """The same without columns that nobody needs. One remains, so that rows can be counted."""
        value = pa.schema([field for field in self.value if field.name in columns])
        meta = {what: name for what, name in self.meta.items() if name in columns}
        if not value.names and not meta:
            value = pa.schema([self.value.field(0)])
        return Layout(self.form, self.key, value, meta)


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
    values = [message.value() for message in messages]
    parsed = _parsed(values, whole)
    bad = dict(parsed.bad)
    if "key" in whole.meta and whole.key == "text":
        keys = as_text([message.key() for message in messages], "key")
        bad |= {at: f"has a key that {why}" for at, why in keys.bad.items() if at not in bad}
    good = [at for at in range(len(messages)) if at not in bad] if bad else None
    kept = messages if good is None else [messages[at] for at in good]
    table = parsed.table.select(layout.value.names)
    if len(bad) > len(parsed.bad):
        places = [at for at in range(len(messages)) if at not in parsed.bad]
        table = table.take([row for row, at in enumerate(places) if at not in bad])
    columns = list(table.columns) if layout.value.names else []
    columns += [_meta_column(what, kept, span, layout.key) for what in layout.meta]
    rows = pa.Table.from_arrays(columns, schema=_plain(layout.schema))
    return rows, _aside(messages, span, bad) if bad else None


def _parsed(values: Sequence[bytes | None], layout: Layout) -> Parsed:
    if layout.form == "json":
        return as_json(values, {field.name: plain_type(field.type) for field in layout.value})
    name = layout.value.names[0]
    return as_text(values, name) if layout.form == "text" else as_bytes(values, name)


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def _meta_column(what: str, messages: Sequence[Any], span: Span, key: str) -> pa.Array:
    if what == "key":
        array = pa.array([message.key() for message in messages], pa.binary())
        return array.cast(pa.string()) if key == "text" else array
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
    columns += [_meta_column(what, found, span, "raw") for what in META]
    columns.append(pa.array([message.value() for message in found], pa.binary()))
    return pa.Table.from_arrays(columns, schema=BAD)
