"""The doctor's two touches of Spark: recording a session that runs already, and reading native state."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.spark.inside import PROGRESS_EVENT, add_event_log
from headgate.spark.session import is_connect

SESSION = "_session.json"
"""The file of a recording that says in which session it was made."""


class Recording:
    """A recording that runs; `stop` ends it. It is also a context manager."""

    def __init__(self, folder: str, stop: Any) -> None:
        self.folder, self._stop = folder, stop

    def stop(self) -> None:
        """End the recording. Stopping twice is harmless."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def record(spark: Any, folder: str | os.PathLike[str]) -> Recording:
    """Record what `headgate doctor` needs, from now on, into a folder: no restart, no change of the job.

    A classic session gets Spark's own event log there, with every task. Through Spark Connect only the
    progress of queries can be recorded: the doctor then knows no tasks, and so no skew.
    """
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    return _progress(spark, place) if is_connect(spark) else _events(spark, place)


def _events(spark: Any, place: Path) -> Recording:
    stop = add_event_log(spark, place)
    context = spark.sparkContext
    _session(
        spark, place, dict(context.getConf().getAll()), context.defaultParallelism, context.applicationId
    )
    return Recording(str(place), stop)


def _session(spark: Any, place: Path, conf: dict[str, str], cores: int, application: str) -> None:
    """What a log has at its beginning, which a recording that begins later misses."""
    line = {
        "Event": "headgate.Session",
        "Spark Version": spark.version,
        "App ID": application,
        "App Name": conf.get("spark.app.name", ""),
        "Spark Properties": conf,
        "Cores": cores,
    }
    (place / SESSION).write_text(json.dumps(line) + "\n", encoding="utf-8")


def _progress(spark: Any, place: Path) -> Recording:
    from pyspark.sql.streaming import StreamingQueryListener

    file = place / "progress"

    class Progress(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            line = {"Event": PROGRESS_EVENT, "progress": json.loads(event.progress.json)}
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    listener = Progress()
    master = {"spark.master": spark.conf.get("spark.master", "")}
    _session(spark, place, master, 0, spark.conf.get("spark.app.id", ""))
    spark.streams.addListener(listener)
    return Recording(str(place), lambda: spark.streams.removeListener(listener))


def read_state_keys(checkpoint: str, most: int) -> pa.Table:
    """Keys of native state, one for each row of state: the columns of the key. In a session of its own.

    Spark's state data source reads them from the checkpoint of a streaming query.
    """
    from headgate.spark.local import local_spark

    with (
        tempfile.TemporaryDirectory(prefix="headgate-doctor-") as folder,
        local_spark(2, Path(folder) / "spark.log", ours=False) as spark,
    ):
        return state_keys(spark, checkpoint, most)


def state_keys(spark: Any, checkpoint: str, most: int) -> pa.Table:
    """The same in a session that is there."""
    try:
        rows = spark.read.format("statestore").load(checkpoint)
        names = [field.name for field in rows.schema["key"].dataType.fields if field.name != "index"]
        return rows.select(*(f"key.{name}" for name in names)).limit(most).toArrow()
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"the state in {checkpoint} cannot be read by Spark's state data source: {first}. Give a sample of "
            "the input instead: --sample FILE --key COLUMN"
        ) from error
