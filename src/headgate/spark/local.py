"""Spark on this machine, for demonstrations and benchmarks. Spark's own messages go to a log file.

Users' jobs do not use this: they bring their own session (`headgate.configure`).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.errors import ConfigError, HeadgateError, not_installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
}


def check_installed() -> None:
    """Raise an error at once, before anything is prepared, if pyspark is missing, or pandas, which
    pyspark needs before the first batch.
    """
    for module in ("pyspark", "pandas"):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise not_installed(error, "Spark on this machine") or error from error


@contextmanager
def local_spark(
    cores: int, log: Path, conf: Mapping[str, str] | None = None, *, ours: bool = True, master: str = ""
) -> Iterator[SparkSession]:
    """A new session on `local[cores]`, or on another master, which is stopped at the end of the
    block. `ours=False` omits headgate's settings, for a comparison with native Spark.

    A process can have only one at a time, since Spark allows only one.
    """
    check_installed()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from headgate.spark.inside import jvm_lives, quiet_query_errors, start_jvm
    from headgate.spark.session import configure

    where = master or f"local[{cores}]"
    builder = SparkSession.builder.master(where).appName("headgate")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    configured = configure(_Options()) if ours else _Options()
    settings = {**BASE, **configured.values, **(conf or {}), "spark.master": where}
    quiet_query_errors()  # we report errors ourselves, once
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    try:
        start_jvm(settings, log)
    except PySparkRuntimeError as error:
        raise ConfigError(
            f"Spark could not start: {_last_line(log) or error}. It needs Java 17 or newer on PATH or in JAVA_HOME; "
            f"its full output is in {log}"
        ) from error
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        if jvm_lives(spark):  # if it was killed, there is nobody to stop
            spark.stop()


class _Options:
    """Stands in for a builder, and collects the settings that `configure` makes."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def config(self, name: str, value: str) -> _Options:
        self.values[name] = value
        return self


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def failure_of(query: Any, doing: str, log: Path | None = None) -> HeadgateError | None:
    """Why a streaming query stopped, as a one-line error of ours; None if it has not failed."""
    error = query.exception()
    if error is None:
        return None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("headgate.errors.")]
    message = ours[-1].split(": ", 1)[-1] if ours else (lines[0] if lines else repr(error))
    where = f" (Spark's log is {log})" if log is not None else ""
    return HeadgateError(f"{doing} failed: {message}{where}")
