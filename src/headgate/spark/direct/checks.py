"""Checks of a direct query against its folders, and an interrupt that leaves Spark's jobs alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.errors import CheckpointMismatch, ConfigError
from headgate.sources.files import Files
from headgate.spark.direct.resolve import Resolved, stage_folder
from headgate.stage.sinks import Parquet, Sink
from headgate.storage.checkpoint import IDENTITY
from headgate.storage.store import Store


def check_folders(plan: Resolved, sink: Sink, checkpoint: str) -> None:
    """Refuse a checkpoint of a query with another number of keys, and folders that lie in the input."""
    count, store = len(plan.stages), Store(checkpoint)
    other = ""
    if count > 1 and store.exists(IDENTITY):
        other = "one key"
    elif count == 1 and store.exists(f"stage-0/{IDENTITY}"):
        other = "several keys"
    elif count > 1 and store.exists(f"stage-{count}/{IDENTITY}"):
        other = "more keys"
    if other:
        raise CheckpointMismatch(
            f"{store.path()} belongs to a query with {other}, and this one has {count}: start another query with a checkpoint "
            "of its own"
        )
    places = {"checkpoint": Store(stage_folder(checkpoint, 0, 1)).url}
    if isinstance(sink, Parquet):
        places["output"] = Store(sink.path).url
    for resolved in plan.stages[0].inputs:
        source = resolved.input.source
        if not isinstance(source, Files):
            continue
        for what, place in places.items():
            if f"{place}/".startswith(f"{source.folder.rstrip('/')}/"):
                raise ConfigError(
                    f"the {what} {place} lies in the input {source.folder}, which would be read as input: choose another folder"
                )


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
