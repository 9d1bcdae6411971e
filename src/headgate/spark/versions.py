"""The versions of Spark that headgate runs on. `docs/reference/spark-versions.md` says what works in which."""

from __future__ import annotations

import logging
import re
from typing import Any

from headgate.errors import ConfigError

OLDEST = (4, 1)
"""Earlier versions cannot send a row to a given partition (`DataFrame.repartitionById`)."""
TESTED = ((4, 1), (4, 2), (4, 3))
"""`script/matrix` runs the tests with each."""

READS_NANOSECONDS = (4, 3)
"""Earlier versions read times of day from Parquet files as if they were in microseconds."""

log = logging.getLogger("headgate.stage")
_told: set[str] = set()


def check_spark(spark: Any = None) -> None:
    """Refuse a Spark that is too old: the installed pyspark, and the server of a session if one is given. A version that is
    newer than the tested ones gets a warning, once.
    """
    try:
        import pyspark
    except ModuleNotFoundError:
        return  # whoever needs it says so
    _check("pyspark", str(pyspark.__version__), "install one of these: pip install 'pyspark>=4.1,<4.4'")
    if spark is not None:
        _check("the Spark of this session", str(spark.version), "connect to a server of such a version")


def reads_times_of_day() -> bool:
    """Whether Spark reads the times of day that it sends in Arrow back from a file."""
    import pyspark

    version = _parsed(str(pyspark.__version__))
    return version is None or version >= READS_NANOSECONDS


def _check(what: str, found: str, remedy: str) -> None:
    version = _parsed(found)
    if version is None:
        return  # a build with a name of its own
    known = " and ".join([", ".join(map(_text, TESTED[:-1])), _text(TESTED[-1])])
    if version < OLDEST:
        raise ConfigError(f"{what} has version {found}, and headgate runs on Spark {known}: {remedy}")
    if version > TESTED[-1] and found not in _told:
        _told.add(found)
        log.warning(
            "%s has version %s, which is newer than those that headgate is tested with (%s); it may work",
            what, found, known,
        )  # fmt: skip


def _parsed(found: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", found)
    return None if match is None else (int(match[1]), int(match[2]))


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
