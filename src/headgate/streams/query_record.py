"""What a direct query writes down beside its checkpoint: how many keys it has, and where its output goes.

The stages check their own parts of the checkpoint. This record is for what no single stage can know.
It changes nothing in the state: if it is missing, the stages alone decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.errors import CheckpointMismatch
from headgate.stage.sinks import Parquet, Sink
from headgate.storage.checkpoint import IDENTITY, last_manifest
from headgate.storage.commit_log import sealed, unsealed
from headgate.storage.parquet_folder import OWNER
from headgate.storage.store import Store

RECORD = "query.json"


def remember(store: Store, keys: int, sink: Sink) -> None:
    """Write the record, once the checkpoint is known to belong to this query."""
    data = sealed({"keys": keys, "output": _place(sink)})
    try:
        if store.read(RECORD) == data:
            return
    except FileNotFoundError:
        store.make("")
    store.replace(RECORD, data)


def check_record(store: Store, stages: Sequence[Store], sink: Sink) -> None:
    """Refuse a checkpoint of a query with another number of keys, or one whose output lies elsewhere.
    `stages` are the checkpoints that the stages of this query would have.
    """
    _check_stages(store, stages)
    try:
        record = unsealed(store.read(RECORD), store.path(RECORD))
    except FileNotFoundError:
        return
    begun = last_manifest(store if record["keys"] == 1 else store.child("stage-0"))
    if begun is None:
        return  # nothing was committed, so a query that was corrected meanwhile may still begin here
    if record["keys"] != len(stages):
        raise _other_keys(store, _count(record["keys"]), len(stages))
    if isinstance(sink, Parquet) and record["output"] not in (None, _place(sink)):
        _check_output(stages[-1], record["output"], sink)


def _check_stages(store: Store, stages: Sequence[Store]) -> None:
    """The same for a query that stopped before it wrote its record, by what its stages have written."""
    count = len(stages)
    there = [part.exists(IDENTITY) for part in stages]
    if count > 1 and store.exists(IDENTITY):
        raise _other_keys(store, "one key", count)
    if count == 1 and store.exists(f"stage-0/{IDENTITY}"):
        raise _other_keys(store, "several keys", count)
    if count > 1 and store.exists(f"stage-{count}/{IDENTITY}"):
        raise _other_keys(store, "more keys", count)
    if any(there) and not there[0]:
        raise CheckpointMismatch(
            f"{stages[0].path()} is missing or empty, though later stages of {store.path()} have begun: restore it from a backup, or "
            "start with a new checkpoint and a new output folder"
        )


def _check_output(last_stage: Store, old: str, sink: Parquet) -> None:
    """Refuse a new output folder, unless the old one has all batches before it."""
    place, committed = Store(sink.path), last_manifest(last_stage)
    if committed is None or place.exists(OWNER):
        return  # a folder that was moved says whose it is
    newest = committed.batch
    if sink.first_batch is None:
        raise CheckpointMismatch(
            f"the output of {last_stage.path()} lies in {old}, and this query names {place.url}: name the folder that it had. To "
            f"begin a new folder with the next batch, use sinks.Parquet(path, first_batch={newest + 1})"
        )
    if sink.first_batch == newest + 1 and Store(old).exists(OWNER) and newest not in Parquet(old).batches():
        raise CheckpointMismatch(
            f"batch {newest} is committed, but {old} does not have it yet: start the query once with that folder, and then with "
            f"{place.url}"
        )


def _place(sink: Sink) -> str | None:
    return Store(sink.path).url if isinstance(sink, Parquet) else None


def _count(keys: int) -> str:
    return "one key" if keys == 1 else f"{keys} keys"


def _other_keys(store: Store, other: str, count: int) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"{store.path()} belongs to a query with {other}, and this one has {count}: start another query with a checkpoint of its own"
    )
