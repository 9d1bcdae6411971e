"""Protobuf values: plain, or in the wire format of a schema registry, where each value names its schema and
which of its messages it is.

The message type travels to the tasks as descriptors, so a worker needs the library and none of the
user's modules.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa

from headgate.errors import ConfigError
from headgate.sources.kafka.codec import HEAD, Codec, halved
from headgate.sources.kafka.protobuf_types import Field, fields_of, library
from headgate.sources.kafka.registry import Registry
from headgate.sources.kafka.values import Parsed

_NEEDS = "a class that protoc has made, or the path of a compiled FileDescriptorSet and a name: ('events.desc', 'shop.Event')"
_MOST_TYPES = 32
"""How many message types a process keeps ready."""


class Protobuf(Codec):
    """Messages of one type. `files` is a FileDescriptorSet that has it and all that it uses."""

    def __init__(self, files: bytes, name: str, registry: Registry | None = None) -> None:
        self.files, self.name, self.registry = files, name, registry
        self._columns = pa.schema([(field.name, field.arrow) for field in _message(files, name)[1]])

    @classmethod
    def of(cls, message: Any, registry: Registry | None, subject: str | None) -> Protobuf:
        """The codec that a user describes."""
        google = library()
        if message is None or (isinstance(message, str) and registry is not None):
            if registry is None or subject is None:
                raise ConfigError(f"Kafka(value='protobuf') needs message=...: {_NEEDS}")
            files = _registered(registry, subject)
            return cls(*_chosen(files, message), registry)
        if (
            isinstance(message, (tuple, list))
            and len(message) == 2
            and all(isinstance(one, str) for one in message)
        ):
            return cls(*_chosen(_read(message[0]), message[1]), registry)
        if not isinstance(message, type) or not issubclass(message, google.message.Message):
            raise ConfigError(f"Kafka(message={message!r}) is not a message type: give {_NEEDS}")
        descriptor = message.DESCRIPTOR  # type: ignore[attr-defined]
        files = google.descriptor_pb2.FileDescriptorSet()
        _add(descriptor.file, files, set())
        return cls(files.SerializeToString(), descriptor.full_name, registry)

    def schema(self) -> pa.Schema:
        """The columns: the fields of the message."""
        return self._columns

    def decode(self, written_by: int | None, values: Sequence[bytes]) -> Parsed:
        """Rows of messages that one schema has written."""
        kind, fields = _message(self.files, self.name)
        if written_by is None or self.registry is None:
            return _parsed(values, 0, kind, fields, self._columns)
        names = _names(self.registry, written_by)
        head = b""
        with suppress(ValueError):
            head = values[0][: _message_at(values[0], names, self.name)]
        if head and all(value.startswith(head) for value in values):
            return _parsed(values, len(head), kind, fields, self._columns)
        messages, places, bad = list[bytes](), list[int](), dict[int, str]()
        for at, value in enumerate(values):
            try:
                messages.append(value[_message_at(value, names, self.name) :])
                places.append(at)
            except ValueError as error:
                bad[at] = str(error)
        found = _parsed(messages, 0, kind, fields, self._columns)
        return Parsed(found.table, bad | {places[at]: why for at, why in found.bad.items()})


def _parsed(
    values: Sequence[bytes], skipped: int, kind: Any, fields: tuple[Field, ...], schema: pa.Schema
) -> Parsed:
    """Messages as compiled code parses them, behind a header of `skipped` bytes; what it leaves is parsed by
    the library, which also says what is wrong.
    """
    from headgate.sources.kafka.protobuf_tables import Unsure, columns

    def by_library(some: Sequence[bytes]) -> Parsed:
        messages = [value[skipped:] for value in some] if skipped else some
        return halved(messages, lambda few: _decoded(few, kind, fields, schema), schema)

    made = _tables(fields)
    if made is None or not values:
        return by_library(values) if values else Parsed(schema.empty_table(), {})
    try:
        found, left = columns(made, values, skipped)
    except (Unsure, ValueError):
        return by_library(values)
    table = pa.Table.from_arrays(found, schema=schema)
    if not left:
        return Parsed(table, {})
    others, slow = set(left), by_library([values[at] for at in left])
    places = [at for at in range(len(values)) if at not in others]
    places += [at for n, at in enumerate(left) if n not in slow.bad]
    table = pa.concat_tables([table, slow.table]).take(pa.array(np.argsort(places)))
    return Parsed(table, {left[n]: why for n, why in slow.bad.items()})


def _decoded(values: Sequence[bytes], kind: Any, fields: Sequence[Field], schema: pa.Schema) -> Parsed:
    from headgate.sources.kafka.protobuf_messages import column_of

    parse = kind.FromString
    try:
        messages = [parse(value) for value in values]
    except library().message.DecodeError as error:
        raise ValueError(f"is not a message of type {kind.DESCRIPTOR.full_name}: {error}") from error
    try:
        columns = [column_of(field, messages) for field in fields]
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(f"has a value that its column cannot hold: {error}") from error
    return Parsed(pa.Table.from_arrays(columns, schema=schema), {})


# -- message types


_made: dict[int, tuple[Any, Any]] = {}
"""Tables of compiled code, by the identity of the fields that they are made of, which are kept with them."""


def _tables(fields: tuple[Field, ...]) -> Any:
    """The tables of compiled code; None if messages lack a rule that only the library keeps."""
    from headgate.sources.kafka.protobuf_tables import tables

    known = _made.get(id(fields))
    if known is None:
        while len(_made) >= _MOST_TYPES:
            _made.pop(next(iter(_made)))
        known = _made[id(fields)] = (fields, None if any(map(_strict, fields)) else tables(fields))
    return known[1]


def _strict(field: Field) -> bool:
    """Whether a message without the field is wrong, or one within it."""
    return field.needed or any(map(_strict, field.inner))


@lru_cache(_MOST_TYPES)
def _message(files: bytes, name: str) -> tuple[Any, tuple[Field, ...]]:
    """The class and the fields of a message type."""
    google = library()
    pool = google.descriptor_pool.DescriptorPool()
    for file in google.descriptor_pb2.FileDescriptorSet.FromString(files).file:
        pool.Add(file)
    descriptor = pool.FindMessageTypeByName(name)
    return google.message_factory.GetMessageClass(descriptor), tuple(fields_of(descriptor))


def _add(file: Any, to: Any, seen: set[str]) -> None:
    """A file and those that it imports, these first."""
    if file.name in seen:
        return
    seen.add(file.name)
    for one in file.dependencies:
        _add(one, to, seen)
    file.CopyToProto(to.file.add())


def _read(path: str) -> Any:
    google = library()
    try:
        with fsspec.open(path, "rb") as file:
            return google.descriptor_pb2.FileDescriptorSet.FromString(file.read())
    except (OSError, ValueError, google.message.DecodeError) as error:
        raise ConfigError(
            f"Kafka(message=({path!r}, ...)) is not a FileDescriptorSet that can be read ({error}): make one with protoc "
            "--include_imports --descriptor_set_out"
        ) from error


def _chosen(files: Any, name: str | None) -> tuple[bytes, str]:
    """Descriptors and the name of a message in them, by default the first of the last file."""
    google = library()
    _import_known(files)
    last = files.file[-1] if files.file else None
    if name is None and last is not None and last.message_type:
        name = f"{last.package}.{last.message_type[0].name}".strip(".")
    pool = google.descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
        pool.FindMessageTypeByName(name or "")
    except KeyError as error:
        known = [f"{f.package}.{m.name}".strip(".") for f in files.file for m in f.message_type]
        raise ConfigError(
            f"Kafka(message=...) has no message {name!r}; it has {', '.join(known[-10:])}"
        ) from error
    except TypeError as error:
        raise ConfigError(
            f"Kafka(message=...) lacks a file that another imports ({error}): make it with protoc --include_imports"
        ) from error
    return files.SerializeToString(), str(name)


def _import_known(files: Any) -> None:
    """Put Google's own files first, if a file imports them and they are not there."""
    google = library()
    default, seen = google.descriptor_pool.Default(), {file.name for file in files.file}
    given = list(files.file)
    wanted = google.descriptor_pb2.FileDescriptorSet()
    for name in sorted({one for file in given for one in file.dependency} - seen):
        if name.startswith("google/protobuf/"):
            library_file = name.rpartition("/")[2].removesuffix(".proto")
            from importlib import import_module

            import_module(f"google.protobuf.{library_file}_pb2")
            _add(default.FindFileByName(name), wanted, seen)
    if wanted.file:
        del files.file[:]
        files.file.extend([*wanted.file, *given])


# -- the wire format of a registry


def _registered(registry: Registry, subject: str) -> Any:
    """The newest schema of a subject as descriptors."""
    google = library()
    found = registry.newest(subject, "PROTOBUF", compiled=True)
    files = google.descriptor_pb2.FileDescriptorSet()
    for name, text in (*found.imports, ("", found.text)):
        file = _file(text)
        if file is None:
            raise ConfigError(
                f"{registry.url} does not hand out compiled schemas of subject {subject!r}: write message=..., {_NEEDS}"
            )
        file.name = name or file.name or f"{subject}.proto"
        files.file.append(file)
    return files


def _file(text: str) -> Any:
    """A compiled schema of a registry; None if it is not one."""
    google = library()
    try:
        return google.descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, google.message.DecodeError):
        return None


def _names(registry: Registry, number: int) -> dict[tuple[int, ...], str]:
    """The messages of a schema by their place in it; nothing if the registry does not hand out compiled
    schemas.
    """
    file = _file(registry.schema(number, "PROTOBUF", compiled=True).text)
    names: dict[tuple[int, ...], str] = {}

    def add(messages: Any, at: tuple[int, ...], prefix: str) -> None:
        for place, one in enumerate(messages):
            names[*at, place] = f"{prefix}.{one.name}".strip(".")
            add(one.nested_type, (*at, place), names[*at, place])

    if file is not None:
        add(file.message_type, (), file.package)
    return names


def _message_at(value: bytes, names: dict[tuple[int, ...], str], wanted: str) -> int:
    """Where the message behind the header begins; raise `ValueError` if it is one of another type."""
    indexes, at = _indexes(value)
    name = names.get(indexes, "") if names else wanted
    if not name:
        raise ValueError(f"names message {list(indexes)}, which its schema does not have")
    if name != wanted:
        raise ValueError(f"is a message of type {name}, and not of type {wanted}")
    return at


def _indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its schema a value is, and where it begins. A single zero stands for the first.

    >>> _indexes(bytes([0, 0, 0, 0, 1, 0])), _indexes(bytes([0, 0, 0, 0, 1, 4, 2, 0]))
    (((0,), 6), ((1, 0), 8))
    """
    count, at = _number(value, HEAD)
    found = []
    if not 0 <= count <= len(value):
        raise ValueError("has a list of message indexes of a wrong length")
    for _ in range(count):
        index, at = _number(value, at)
        found.append(index)
    return tuple(found) or (0,), at


def _number(value: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    for byte in value[at : at + 10]:
        found |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
    raise ValueError("ends within its list of message indexes")
