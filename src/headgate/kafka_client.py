"""What the Kafka source and the Kafka sink share: the client library, the user's options, and
errors in words.

The library is confluent-kafka, of the extra `headgate[kafka]`. It is imported when a client is
made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate import logs
from headgate.errors import ConfigError, required

log = logs.logger("headgate.kafka")
_QUIET = {"log_level": 3, "log.connection.close": False}


def library() -> Any:
    """The client library; raise a `ConfigError` that names the extra if it is not installed."""
    return required("confluent_kafka", "Kafka")


def server_list(servers: Any, what: str) -> str:
    """Addresses of brokers as the client takes them.

    >>> server_list(["one:9092", "two:9092"], "Kafka")
    'one:9092,two:9092'
    """
    listed = [servers] if isinstance(servers, str) else list(servers) if isinstance(servers, Iterable) else []
    if not listed or not all(isinstance(one, str) and one.strip() for one in listed):
        raise ConfigError(
            f"{what}({servers!r}): name brokers, such as 'localhost:9092' or ['one:9092', 'two:9092']"
        )
    return ",".join(one.strip() for one in listed)


def checked_options(options: Any, ours: Mapping[str, str], what: str) -> dict[str, Any]:
    """Options of the client that a user gives. Those in `ours` are Headgate's: each has what to
    write instead.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise ConfigError(
            f"{what}(options=...) takes a dict of librdkafka's settings, such as {{'security.protocol': 'SSL'}}"
        )
    for name in options:
        if name in ours:
            raise ConfigError(f"{what}(options=...) cannot have {name!r}: {ours[name]}")
    return dict(options)


class LastError:
    """Remembers what the client said last about its brokers, for messages."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, error: Any) -> None:
        self.text = str(error.str())

    def __str__(self) -> str:
        return f" ({self.text})" if self.text else ""


def settings(servers: str, options: Mapping[str, Any], heard: LastError, **own: Any) -> dict[str, Any]:
    """The configuration of a client. Names of `own` are written with underscores for dots."""
    ours = {name.replace("_", "."): value for name, value in own.items()}
    return {**_QUIET, "bootstrap.servers": servers, "error_cb": heard, **options, **ours}


def made(kind: str, config: dict[str, Any], what: str) -> Any:
    """A client of the library: `Consumer` or `Producer`."""
    try:
        return getattr(library(), kind)(config, logger=log)
    except library().KafkaException as error:
        raise ConfigError(f"{what} cannot be made: {error.args[0].str()}; correct options=...") from error


def is_refused(error: Any) -> bool:
    """Whether a KafkaError says that the user lacks a right, which trying again does not change."""
    return "AUTH" in str(error.name())
