"""Checks of a direct query against its folders, and an interrupt that leaves Spark's jobs alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations

from headgate.errors import ConfigError
from headgate.sources.files import Files
from headgate.sources.kafka.source import Kafka
from headgate.spark.direct.resolve import Resolved, stage_folder
from headgate.spark.types import emitted_schema
from headgate.stage.sinks import Sink
from headgate.storage.store import Store
from headgate.streams.query_record import check_record


def check_folders(plan: Resolved, sink: Sink, checkpoint: str) -> None:
    """Refuse columns that the sink cannot hold, a checkpoint of a query with other keys or another output, and folders that
    lie in the input.
    """
    sink.check_columns(emitted_schema(plan.output))
    count = len(plan.stages)
    stages = [Store(stage_folder(checkpoint, number, count)) for number in range(count)]
    check_record(Store(checkpoint), stages, sink)
    places = {"checkpoint": Store(checkpoint).url}
    if sink.place is not None:
        places["output"] = sink.place
    sources = [resolved.input.source for resolved in plan.stages[0].inputs]
    for source in sources:
        if not isinstance(source, Files):
            continue
        for what, place in places.items():
            if _within(place, source.folder) is not None:
                raise ConfigError(
                    f"the {what} {place} lies in the input {source.folder}, which would be read as input: choose another folder"
                )
    kafka = [source.bad for source in sources if isinstance(source, Kafka) and source.bad is not None]
    folders = [*places.items(), *(("folder of bad records", bad.shown.url) for bad in kafka)]
    for (one, here), (other, there) in permutations(folders, 2):
        if one == other:
            continue  # several sources may share a folder for bad records
        below = _within(here, there)
        if below is not None and not below.startswith(("_", ".")):
            raise ConfigError(
                f"the {one} {here} lies in the {other} {there}, whose files it would be taken for: choose another folder, or one "
                "whose name begins with _"
            )


def _within(place: str, folder: str) -> str | None:
    """The path of a place below a folder; empty if it is the same, None if it lies elsewhere."""
    inner, outer = f"{place.rstrip('/')}/", f"{folder.rstrip('/')}/"
    return inner.removeprefix(outer) if inner.startswith(outer) else None


@contextmanager
def gentle_interrupt() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt and nothing else. Spark's own handler cancels all jobs, so that the
    batch that runs would fail.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
