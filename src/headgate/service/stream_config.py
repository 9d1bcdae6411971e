"""What `[streams.NAME]` may say: the options of a connector (`headgate.sources`), and a few of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import ConfigError
from headgate.sources.delta import Delta
from headgate.sources.files import Files
from headgate.sources.iceberg import Iceberg
from headgate.sources.kafka.source import Kafka
from headgate.sources.source import Source

FOLDER = "streams"
"""Where sources keep records of their own, beside state and results."""
MAX_ROWS = 200_000
"""How many rows of a stream a batch takes, if the configuration does not say."""
OF_SERVICE = frozenset({"format", "options_from_env", "max_rows", "select", "time"})
FILES = ("files", "parquet", "json", "csv")
"""The formats of files; with `files`, the suffixes of the files say which it is."""
FORMATS = ("kafka", *FILES, "delta", "iceberg")
_OF_SPARK_KAFKA = ("kafka.", "subscribe", "assign", "startingOffsets", "endingOffsets", "failOnDataLoss")
"""How options of Spark's own connector begin."""
_SPARK_FILES = {
    "path": "path",
    "pathGlobFilter": "pattern",
    "recursiveFileLookup": "recursive",
    "header": "header",
    "sep": "delimiter",
    "delimiter": "delimiter",
    "nullValue": "null",
}
"""Options of Spark's file source, and what they are called here."""
_NO_LONGER = ("maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge", "maxCachedFiles")
"""Options of Spark's file source that have no meaning here: batches have bounds, and no file is too old."""


def _of(kind: type[Source], *first: str) -> frozenset[str]:
    return frozenset({*first, *(kind.__init__.__kwdefaults__ or {})})


_OPTIONS = {
    "kafka": _of(Kafka, "servers", "topics", "schema"),
    **{name: _of(Files, "path", "schema") - {"format"} for name in FILES},
    "delta": _of(Delta, "path"),
    "iceberg": _of(Iceberg, "table"),
}
_SECRETS = {"kafka": "options", "delta": "storage_options", "iceberg": "catalog"}
"""The option that `options_from_env` adds to."""
_NEEDED = {
    "kafka": ("servers", "names no brokers: write servers = 'broker:9092'"),
    **dict.fromkeys(FILES, ("path", "names no folder: write path = 'in/events'")),
    "delta": ("path", "names no table: write path = 'lake/events'"),
    "iceberg": ("table", "names no table: write table = 'db.events'"),
}


@dataclass(frozen=True)
class StreamConfig:
    """A stream of the service."""

    name: str
    format: str
    options: Mapping[str, Any] = field(repr=False)
    """Of the source. They may hold a password, so they are never shown or written."""
    max_rows: int
    select: tuple[str, ...]
    """Expressions of Spark SQL over the columns of the source; without them, all columns."""
    time: str
    """The column of event time."""

    @classmethod
    def of(cls, name: str, section: Mapping[str, Any], environment: Mapping[str, str]) -> StreamConfig:
        """Read a section of the configuration. Options named in `options_from_env` come from the environment."""
        where, kind = f"[streams.{name}]", str(section.get("format", "parquet"))
        if kind not in FORMATS:
            raise ConfigError(
                f"{where} sets format = {kind!r}, which the service does not read: the formats are {', '.join(FORMATS)}. For other "
                "streams of Spark, write a query that writes to one of these, or push events over HTTP"
            )
        known = _OPTIONS[kind] | OF_SERVICE | ({"options"} if kind in FILES or kind == "delta" else set())
        if unknown := sorted(set(section) - known):
            raise ConfigError(
                f"{where} sets {unknown[0]!r}, which is not known; it can set {', '.join(sorted(known))}"
            )
        options = {key: value for key, value in section.items() if key in _OPTIONS[kind]}
        given = _table(where, "options", section.get("options", {}))
        if kind == "kafka":
            _refuse_sparks(where, given)
        elif "path" in given:  # as earlier versions had it, when Spark read the files
            options = _from_spark(where, kind, options, given)
        elif kind == "delta" and given:
            raise ConfigError(
                f"{where} sets options = {given!r}: write storage_options = {{ ... }} for a Delta table"
            )
        needed, message = _NEEDED[kind]
        if needed not in options:
            raise ConfigError(f"{where} {message}")
        _add_secrets(where, kind, options, section.get("options_from_env", {}), environment)
        if isinstance(options.get("start"), Mapping):
            options["start"] = _numbered(options["start"])
        max_rows, select = section.get("max_rows", MAX_ROWS), section.get("select", ())
        if not isinstance(max_rows, int) or isinstance(max_rows, bool) or max_rows < 1:
            raise ConfigError(
                f"{where} sets max_rows = {max_rows!r}: write how many rows a batch takes at most"
            )
        if not isinstance(select, (list, tuple)) or not all(isinstance(one, str) for one in select):
            raise ConfigError(f"{where} sets select = {select!r}: write a list of expressions")
        return cls(name, kind, options, max_rows, tuple(select), str(section.get("time", "time")))

    def source(self, schema: Any, batch_bytes: int = 0) -> Source:
        """The source, given the columns that its `schema` describes. Kafka has a bound of its own in bytes."""
        options = dict(self.options)
        try:
            if self.format == "kafka":
                if batch_bytes:
                    options.setdefault("max_bytes", batch_bytes)
                return Kafka(**{**options, "schema": schema})
            if self.format == "delta":
                return Delta(**options)
            if self.format == "iceberg":
                return Iceberg(**options)
            kind = None if self.format == "files" else self.format
            return Files(**{**options, "schema": schema, "format": kind})
        except ConfigError as error:
            raise ConfigError(f"[streams.{self.name}]: {error}") from error


def _table(where: str, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} sets {key} = {value!r}: write a table, such as {key} = {{ a = 'b' }}")
    return dict(value)


def _refuse_sparks(where: str, given: Mapping[str, Any]) -> None:
    for option in given:
        if option.startswith(_OF_SPARK_KAFKA):
            raise ConfigError(
                f"{where} has options of Spark's own Kafka connector ({option!r}), which the service does not use: write "
                "servers = 'broker:9092', topics = 'orders' and schema = '...'; options are those of librdkafka"
            )


def _from_spark(
    where: str, kind: str, options: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Options of Spark's file source as ours. They mean what they meant there: a CSV file has no header unless it is said."""
    found, text = dict(options), dict[str, Any]()
    if kind == "csv":
        text["header"] = False
    for option, value in given.items():
        if option in _NO_LONGER:
            continue
        ours = _SPARK_FILES.get(option)
        if ours is None or (kind == "delta" and ours != "path"):
            known = ", ".join(["path"] if kind == "delta" else _SPARK_FILES)
            raise ConfigError(
                f"{where} sets the option {option!r} of Spark's file source, which the service no longer uses; of those it knows "
                f"{known}"
            )
        if ours in ("header", "recursive"):
            value = value if isinstance(value, bool) else str(value).lower() == "true"
        (text if ours in ("header", "delimiter", "null") else found)[ours] = value
    found.pop("options", None)
    return {**found, **({"options": text} if text else {})}


def _add_secrets(
    where: str, kind: str, options: dict[str, Any], names: Any, environment: Mapping[str, str]
) -> None:
    """Add what the environment has to the options that may be secret."""
    secret = _from_environment(where, names, environment)
    key = _SECRETS.get(kind)
    if key is None:
        if secret:
            raise ConfigError(f"{where} sets options_from_env, and {kind} has no such options: leave it out")
        return
    if not secret and kind != "kafka":
        return
    plain = _table(where, key, options.get(key) or {})
    if both := sorted(secret.keys() & plain.keys()):
        raise ConfigError(f"{where} sets {both[0]!r} in {key} and in options_from_env: keep one of them")
    options[key] = {**plain, **secret}


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
