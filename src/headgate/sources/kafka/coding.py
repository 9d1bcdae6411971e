"""Which codecs a user's words describe, if any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.errors import ConfigError
from headgate.sources.kafka.codec import Codec
from headgate.sources.kafka.registry import Registry

_CODED = ("avro", "protobuf")


def codecs_of(
    form: Any,
    schema: Any,
    message: Any,
    key: Any,
    key_schema: Any,
    registry: Any,
    registry_options: Mapping[str, Any] | None,
    subject: str | None,
    topics: tuple[str, ...],
    patience: float,
) -> tuple[Codec | None, Codec | None]:
    """The codecs of values and of keys. `subject` is the one that has the columns if the user does not give
    them; by default it is named after the topic.
    """
    if registry is not None and form not in _CODED and key != "avro":
        raise ConfigError(
            f"Kafka(registry=...) is for value='avro' and value='protobuf', and not for {form!r}"
        )
    if message is not None and form != "protobuf":
        raise ConfigError(f"Kafka(message=...) is for value='protobuf', and not for {form!r}")
    if key_schema is not None and key != "avro":
        raise ConfigError(f"Kafka(key_schema=...) is for key='avro', and not for {key!r}")
    if registry is None and registry_options:
        raise ConfigError(
            "Kafka(registry_options=...) needs the address of a registry: registry='http://localhost:8081'"
        )
    known = None if registry is None else Registry.of(registry, registry_options, patience)
    topic = topics[0] if len(topics) == 1 else None
    keys: Codec | None = None
    if key == "avro":
        from headgate.sources.kafka.avro import Avro

        keys = Avro.of(key_schema, known, topic and f"{topic}-key", "key")
    return _values(form, schema, message, known, subject or (topic and f"{topic}-value")), keys


def _values(
    form: Any, schema: Any, message: Any, registry: Registry | None, subject: str | None
) -> Codec | None:
    if form == "avro":
        from headgate.sources.kafka.avro import Avro

        return Avro.of(schema, registry, subject)
    if form != "protobuf":
        return None
    if schema is not None:
        raise ConfigError("Kafka(value='protobuf') takes message=..., and no schema=...")
    from headgate.sources.kafka.protobuf import Protobuf

    return Protobuf.of(message, registry, subject)
