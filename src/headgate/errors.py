"""What can go wrong, as a tree.

    HeadgateError
    ├── ConfigError (ValueError)        misuse: an invalid argument, name, plan or table
    │   ├── MissingColumn               the stream lacks a column that the stage names
    │   ├── UnsupportedType             a column has a type that cannot be used in this way
    │   ├── KernelRefused               a user kernel cannot be compiled; names file, line and remedy
    │   ├── QueryRefused                SQL that the query service does not support; names line and column
    │   └── AlreadyExists               a name that is taken
    ├── KernelFailed                    a user kernel failed on a row; names the row's key, file and line
    ├── QueryFailed                     an accepted query could not be computed
    ├── AccessDenied                    the token lacks the permission
    │   └── BadToken                    no token, or one that is unknown, expired or revoked
    ├── QuotaExceeded                   a tenant has as much of something as it may have; names the limit
    │   └── Backlogged                  too much that was pushed waits for a batch; says when to push again
    ├── NotFound (LookupError)          a query, source or server that does not exist
    ├── CursorGone                      the requested results are no longer kept
    ├── CheckpointMismatch              operator, key, schema or bins changed since the checkpoint was made
    ├── CheckpointError                 the checkpoint cannot be read or written
    │   ├── CorruptState                stored bytes do not match their checksum or their format
    │   ├── NewerFormat                 written by a later headgate
    │   ├── OlderFormat                 written by an earlier headgate, and not readable by this one
    │   ├── Superseded                  another driver has taken over the query; this one changes nothing more
    │   └── StorageFull                 the store has no room for the batch's delta
    ├── BatchOrder                      a batch id leaves a gap or was superseded
    ├── SourceFailed                    a source could not be read; nothing of the batch was committed
    │   └── OffsetsLost                 a Kafka topic no longer has the offset at which a query stands
    ├── StepFailed                      a step of a direct stream failed, or returned other columns than it declares
    ├── SinkFailed                      the output could not be published; the batch may be retried
    ├── ArithmeticOverflow (ArithmeticError)   an aggregate left the range of its type
    ├── NoRoom                          no server can hold a query within its capacity
    ├── TaskFailed                      a channel's task failed; the engine's own error is the cause
    ├── WaveFailed                      a wave behind a gate failed after all retries; the cause is chained
    └── StaleTable                      a plan was made from a table that is no longer in force

Law: each message says what happened, where, and what to do about it; the code that raises writes it.
Every error can be pickled, because tasks raise on one machine and the driver reads on another.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "duckdb": "service",
    "fastapi": "service",
    "httpx": "service",
    "sqlglot": "service",
    "uvicorn": "service",
    "jwt": "oidc",
    "piqp": "mpc",
    "scipy": "mpc",
    "matplotlib": "plot",
    "s3fs": "s3",
    "aiobotocore": "s3",
    "gcsfs": "gcs",
    "adlfs": "azure",
    "psycopg": "postgres",
    "confluent_kafka": "kafka",
    "fastavro": "avro",
    "google": "protobuf",
    "deltalake": "delta",
    "pyiceberg": "iceberg",
    "opentelemetry": "otel",
    "highspy": "reference",
    "mtkahypar": "reference",
}
"""Optional modules, and the extra that installs each."""

LAB = ("headgate_lab", "psutil")
"""Modules that the distribution `headgate-lab` brings: experiments, benches and the demonstration."""


class HeadgateError(Exception):
    """The base of every error that headgate raises on purpose."""


class ConfigError(HeadgateError, ValueError):
    """Misuse: an invalid value, named together with the remedy."""


class MissingColumn(ConfigError):
    """The stream lacks a column that the stage names."""


class UnsupportedType(ConfigError):
    """A column has a type that cannot be used in this way."""


class KernelRefused(ConfigError):
    """A user kernel cannot be compiled."""


class AlreadyExists(ConfigError):
    """A name that is taken: it cannot be given again."""


class KernelFailed(HeadgateError):
    """A user kernel failed on a row."""


class QueryRefused(ConfigError):
    """SQL that the query service does not support.

    ``reason`` is the name of the refusal; ``line`` and ``column`` say where in the text it is.
    """

    def __init__(self, message: str, reason: str = "refused", line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.reason, self.line, self.column = reason, line, column


class QueryFailed(HeadgateError):
    """An accepted query could not be computed on its rows; the engine's own error is chained as the cause."""


class AccessDenied(HeadgateError):
    """The token lacks the permission."""


class BadToken(AccessDenied):
    """There is no token, or it is unknown, expired or revoked: nobody knows who asks."""


class QuotaExceeded(HeadgateError):
    """A tenant has as much of something as the service's configuration allows."""


class Backlogged(QuotaExceeded):
    """A tenant pushes more than it may, or too much waits for a batch. ``retry_after_s`` says when there may be room again."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotFound(HeadgateError, LookupError):
    """A query, source or server that does not exist, or does not belong to the caller."""


class CursorGone(HeadgateError):
    """The requested results are no longer kept."""


class CheckpointMismatch(HeadgateError):
    """Operator, key, schema or bins changed since the checkpoint was made."""


class CheckpointError(HeadgateError):
    """The checkpoint cannot be read or written."""


class CorruptState(CheckpointError):
    """Stored bytes do not match their checksum or their format."""


class NewerFormat(CheckpointError):
    """The stored format was written by a later headgate."""


class OlderFormat(CheckpointError):
    """The stored format was written by an earlier headgate, and this one cannot read it."""


class Superseded(CheckpointError):
    """Another driver has taken over the query: this one commits and deletes nothing more."""


class StorageFull(CheckpointError):
    """The store has no room for the batch's delta."""


class BatchOrder(HeadgateError):
    """A batch id leaves a gap or was superseded."""


class SourceFailed(HeadgateError):
    """A source of a direct stream could not be read; nothing of the batch was committed."""


class OffsetsLost(SourceFailed):
    """A Kafka topic no longer has the offset at which a query stands."""


class StepFailed(HeadgateError):
    """A step of a direct stream failed, or returned other columns than it declares."""


class SinkFailed(HeadgateError):
    """The output could not be published; the batch may be retried."""


class ArithmeticOverflow(HeadgateError, ArithmeticError):
    """An aggregate left the range of its type."""


class NoRoom(HeadgateError):
    """No server can hold a query within its capacity."""


class TaskFailed(HeadgateError):
    """A channel's task failed; the engine's own error is chained as the cause."""


class WaveFailed(HeadgateError):
    """A wave behind a gate failed after all retries; it emitted nothing."""


class StaleTable(HeadgateError):
    """A plan was made from a table that is no longer in force."""


def not_installed(error: ImportError, what: str) -> ConfigError | None:
    """What to install for ``what``, if the missing module belongs to an extra or to the laboratory; None if it is another one.

    >>> print(not_installed(ModuleNotFoundError("No module named 'httpx'", name="httpx"), "headgate query"))
    headgate query needs httpx, which is not installed: pip install 'headgate[service]'
    """
    module = (error.name or "").partition(".")[0]
    if module in EXTRAS:
        wanted = f"'headgate[{EXTRAS[module]}]'"
    elif error.name in LAB:  # not a module inside of it: if one of those is missing, the laboratory is broken
        wanted = "headgate-lab (from a checkout: its folder lab)"
    else:
        return None
    return ConfigError(f"{what} needs {module}, which is not installed: pip install {wanted}")


def required(module: str, what: str) -> Any:
    """Import a module of an extra for ``what``; raise a `ConfigError` that names the extra if it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise not_installed(error, what) or error from error
