"""What `[streams.NAME]` with `format = "kafka"` may say: the options of `hg.sources.Kafka`, and a few of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import ConfigError
from headgate.sources.kafka.source import Kafka

FORMAT = "kafka"
MAX_ROWS = 200_000
"""How many rows of a stream a batch takes, if the configuration does not say."""
OF_SOURCE = frozenset({"servers", "topics", "schema", *(Kafka.__init__.__kwdefaults__ or {})})
OF_SERVICE = frozenset({"format", "options_from_env", "max_rows", "select", "time"})
_OF_SPARK = ("kafka.", "subscribe", "assign", "startingOffsets", "endingOffsets", "failOnDataLoss")
"""How options of Spark's own connector begin."""


@dataclass(frozen=True)
class KafkaConfig:
    """A stream of the service that reads Kafka topics."""

    name: str
    options: Mapping[str, Any] = field(repr=False)
    """Of the source. They may hold a password, so they are never shown or written."""
    max_rows: int
    select: tuple[str, ...]
    """Expressions of Spark SQL over the columns of the source; without them, all columns."""
    time: str
    """The column of event time."""

    @classmethod
    def of(cls, name: str, section: Mapping[str, Any], environment: Mapping[str, str]) -> KafkaConfig:
        """Read a section of the configuration. Options named in `options_from_env` come from the environment."""
        where = f"[streams.{name}]"
        if unknown := sorted(set(section) - OF_SOURCE - OF_SERVICE):
            known = ", ".join(sorted(OF_SOURCE | OF_SERVICE))
            raise ConfigError(f"{where} sets {unknown[0]!r}, which is not known; it can set {known}")
        options = {key: value for key, value in section.items() if key in OF_SOURCE}
        given = _table(where, "options", options.get("options", {}))
        for option in given:
            if option.startswith(_OF_SPARK):
                raise ConfigError(
                    f"{where} has options of Spark's own Kafka connector ({option!r}), which the service does not use: write "
                    "servers = 'broker:9092', topics = 'orders' and schema = '...'; options are those of librdkafka"
                )
        if "servers" not in options:
            raise ConfigError(f"{where} names no brokers: write servers = 'broker:9092'")
        secret = _from_environment(where, section.get("options_from_env", {}), environment)
        if both := sorted(secret.keys() & given.keys()):
            raise ConfigError(
                f"{where} sets {both[0]!r} in options and in options_from_env: keep one of them"
            )
        options["options"] = {**given, **secret}
        if isinstance(options.get("start"), Mapping):
            options["start"] = _numbered(options["start"])
        max_rows, select = section.get("max_rows", MAX_ROWS), section.get("select", ())
        if not isinstance(max_rows, int) or isinstance(max_rows, bool) or max_rows < 1:
            raise ConfigError(
                f"{where} sets max_rows = {max_rows!r}: write how many rows a batch takes at most"
            )
        if not isinstance(select, (list, tuple)) or not all(isinstance(one, str) for one in select):
            raise ConfigError(f"{where} sets select = {select!r}: write a list of expressions")
        return cls(name, options, max_rows, tuple(select), str(section.get("time", "time")))

    def source(self, schema: Any) -> Kafka:
        """The source, given the columns that its `schema` describes."""
        try:
            return Kafka(**{**self.options, "schema": schema})
        except ConfigError as error:
            raise ConfigError(f"[streams.{self.name}]: {error}") from error


def _table(where: str, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} sets {key} = {value!r}: write a table, such as {key} = {{ a = 'b' }}")
    return dict(value)


def _from_environment(where: str, names: Any, environment: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for option, variable in _table(where, "options_from_env", names).items():
        if not isinstance(variable, str) or variable not in environment:
            raise ConfigError(
                f"{where} takes {option!r} from the environment variable {variable!r}, which is not set: set it where the "
                "service is started"
            )
        found[option] = environment[variable]
    return found


def _numbered(start: Mapping[str, Any]) -> dict[str, Any]:
    """Offsets whose partitions are numbers: TOML has only text there."""
    return {
        topic: {int(number) if str(number).isdecimal() else number: at for number, at in partitions.items()}
        if isinstance(partitions, Mapping)
        else partitions
        for topic, partitions in start.items()
    }
