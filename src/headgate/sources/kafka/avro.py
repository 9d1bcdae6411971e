"""Avro values: plain, with the schema that the user gives, or in the wire format of a schema registry,
where each value names the schema that has written it.

The reader's schema gives the columns. Values are decoded by compiled code, many at a time: see
`avro_machine`. The library fastavro parses the schemas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa

from headgate.errors import ConfigError, required
from headgate.sources.kafka.avro_types import Schema, Tree
from headgate.sources.kafka.codec import HEAD, Codec, halved
from headgate.sources.kafka.registry import Registry
from headgate.sources.kafka.values import Parsed


class Avro(Codec):
    """Records of Avro. `text` is the reader's schema as JSON; `references` are schemas whose names it uses. With
    `column` a value of any type is one column of that name.
    """

    def __init__(
        self, text: str, registry: Registry | None = None, references: Sequence[str] = (), column: str = ""
    ) -> None:
        self.column, self.registry, self.references = column, registry, tuple(references)
        self.text = self._as_record(text)
        try:
            self._tree()
        except ValueError as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"Kafka(value='avro'): this is not an Avro schema: {error}") from error

    def _as_record(self, text: str) -> str:
        """A schema as a record of one field, whose bytes are the same."""
        if not self.column:
            return text
        try:
            field = {"name": self.column, "type": json.loads(text)}
        except ValueError:
            return text
        return json.dumps({"type": "record", "name": "headgate.column", "fields": [field]})

    @classmethod
    def of(cls, schema: Any, registry: Registry | None, subject: str | None, column: str = "") -> Avro:
        """The codec that a user describes: `schema` is JSON, a path, or the number of a version of the
        subject.
        """
        what, given = ("key", "key_schema") if column else ("value", "schema")
        required("fastavro", f"Kafka({what}='avro')")
        if isinstance(schema, int) and not isinstance(schema, bool) and registry is not None:
            found = registry.newest(_named(subject), "AVRO", schema)
        elif schema is not None:
            return cls(_text(schema, f"Kafka({what}='avro', {given}={schema!r})"), registry, (), column)
        elif registry is None:
            raise ConfigError(
                f"Kafka({what}='avro') needs {given}=..., an Avro schema as JSON or the path of one, or the address of a schema "
                "registry: registry='http://localhost:8081'"
            )
        else:
            found = registry.newest(_named(subject), "AVRO")
        return cls(found.text, registry, found.references, column)

    def _tree(self) -> Tree:
        return _tree(self.text, self.references)

    def schema(self) -> pa.Schema:
        """The columns: the fields of the reader's schema."""
        return self._tree().arrow()

    def decode(self, written_by: int | None, values: Sequence[bytes]) -> Parsed:
        """Rows of values that one schema has written."""
        from headgate.sources.kafka.avro_program import Program, program  # they load compiled code

        if self.registry is None or written_by is None:
            skipped = 0
            made: Program = _own_program(self.text, self.references)
        else:
            skipped = HEAD
            key = (self.registry.url, written_by, self.text, self.references)
            known = _programs.get(key)
            if known is None:
                found = self.registry.schema(written_by, "AVRO")
                required("fastavro", "Kafka(value='avro')")
                try:
                    writer = Schema.of(self._as_record(found.text), found.references)
                except ValueError as error:
                    raise ValueError(
                        f"has schema {written_by}, which is not an Avro schema: {error}"
                    ) from error
                while len(_programs) >= _MOST_PROGRAMS:
                    _programs.pop(next(iter(_programs)))
                known = _programs[key] = program(writer, self._tree())
            made = known
        return halved(values, lambda some: _decoded(some, skipped, made, self._tree()), self.schema())


_programs: dict[Any, Any] = {}
"""Programs of this process, by registry, id of the writer's schema, and reader's schema."""
_MOST_PROGRAMS = 256


@lru_cache(32)
def _tree(text: str, references: tuple[str, ...]) -> Tree:
    return Tree(Schema.of(text, references))


@lru_cache(32)
def _own_program(text: str, references: tuple[str, ...]) -> Any:
    from headgate.sources.kafka.avro_program import program

    tree = _tree(text, references)
    return program(tree.schema, tree)


def _decoded(values: Sequence[bytes], skipped: int, program: Any, tree: Tree) -> Parsed:
    """Rows of values whose first bytes are not of the message."""
    from headgate.sources.kafka.avro_columns import array_of
    from headgate.sources.kafka.avro_machine import run, scratch
    from headgate.sources.kafka.lanes import Lanes

    lanes = Lanes(values, skipped, program.consts, program.room)
    lanes.fill(run, program.code, program.aux, np.int64(lanes.size), *scratch())
    wrong = np.flatnonzero(lanes.status).tolist()
    bad = {at: program.reason(int(lanes.status[at])) for at in wrong}
    columns = [array_of(node, lanes) for _, node in tree.root.inner]
    return Parsed(pa.Table.from_arrays(columns, schema=tree.arrow()), bad)


def _text(schema: Any, said: str) -> str:
    """A schema as JSON; from a file if it is a path."""
    if isinstance(schema, dict | list):
        return json.dumps(schema)
    if not isinstance(schema, str) or not schema.strip():
        raise ConfigError(
            f"{said}: write an Avro schema as JSON, or the path of one. The number of a version "
            "needs registry=..."
        )
    if schema.lstrip()[0] in '{["':
        return schema
    try:
        with fsspec.open(schema, "r", encoding="utf-8") as file:
            return str(file.read())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{said} is neither JSON nor a file that can be read: {error}") from error


def _named(subject: str | None) -> str:
    if subject is None:
        raise ConfigError(
            "Kafka(registry=...) reads several topics: name the subject whose newest schema gives the columns, subject='events-value', "
            "or give schema=..."
        )
    return subject
