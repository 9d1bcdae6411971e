"""Reads a query's checkpoint from outside, while it runs or afterwards.

It claims nothing and writes nothing: it reads the newest commit, which has the newest line of the journal,
and the files of the journal where lines are missing. What was read once is kept, so that a look at a
query without a new batch costs one listing and one small file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headgate.control.journal import Entry, decode
from headgate.errors import ConfigError, CorruptState
from headgate.operators.event_time import Clock
from headgate.storage.checkpoint import IDENTITY
from headgate.storage.commit_log import CommitLog, Link
from headgate.storage.commit_log import Entry as LogEntry
from headgate.storage.store import Store
from headgate.streams.query_record import RECORD
from headgate.watch.record import Commit, StageRecord
from headgate.watch.tail import JournalTail

KEPT = 500
"""How many of the newest batches are kept."""


class StageReader:
    """One stage of a checkpoint."""

    def __init__(self, store: Store) -> None:
        self.store, self._log = store, CommitLog(store)
        self._identity: dict[str, Any] = {}
        self._entries: dict[int, Entry]
        self._commits: dict[int, Commit]
        self._newest: Link | None = None
        self._forget()

    def _forget(self) -> None:
        self._entries, self._commits = {}, {}
        self._tail = JournalTail(self.store, KEPT)

    def look(self) -> bool:
        """Read what is new; return whether there is anything."""
        if not self._identity:
            try:
                self._identity = dict(json.loads(self.store.read(IDENTITY)))
            except FileNotFoundError:
                return False
            except ValueError as error:
                raise CorruptState(f"{self.store.path(IDENTITY)} cannot be read ({error})") from error
        last = self._log.last()
        if last is None or last.body is None or last.link == self._newest:
            return False
        newest = decode(str(last.body["journal"]))
        batch = newest.report.batch
        if self._entries and batch <= max(self._entries):  # a checkpoint that was restored from a backup
            self._forget()
        if batch - 1 not in self._entries:
            lines = self._tail.lines()[-KEPT:]
            known = {entry.report.batch: entry for entry in map(decode, lines)}
            self._entries |= {number: entry for number, entry in known.items() if number < batch}
            self._read_log(last)
        self._entries[batch] = newest
        self._commits[batch] = Commit(batch, Clock.from_json(last.body["clock"]), self._written(last.link))
        self._newest = last.link
        for old in sorted(self._entries)[:-KEPT]:
            del self._entries[old]
            self._commits.pop(old, None)
        return True

    def _read_log(self, last: LogEntry) -> None:
        """On an object store the newest lines are only in the commits, until a file gets some of them."""
        for commit in self._log.history(last, KEPT)[:-1]:
            assert commit.body is not None, "a history has commits alone"
            entry = decode(str(commit.body["journal"]))
            clock = Clock.from_json(commit.body["clock"])
            self._entries[entry.report.batch] = entry
            self._commits[entry.report.batch] = Commit(entry.report.batch, clock, self._written(commit.link))

    def _written(self, link: Link) -> float | None:
        """When a commit was written, if the store knows."""
        try:
            at = self.store.fs.modified(self.store.path(f"log/{link.number:012d}.json"))
        except (OSError, NotImplementedError, AttributeError, KeyError):
            return None
        return float(at.timestamp())

    def record(self) -> StageRecord:
        """What is known so far."""
        entries = tuple(self._entries[batch] for batch in sorted(self._entries))
        return StageRecord.of(self._identity, entries=entries, commits=dict(self._commits))


class Reader:
    """The stages of a query whose checkpoints are known."""

    def __init__(self, name: str, stores: Sequence[Store]) -> None:
        self.name, self.local = name, all(store.local for store in stores)
        self.stages = [StageReader(store) for store in stores]

    def look(self) -> bool:
        """Read what is new in any stage; return whether there is anything."""
        new = [stage.look() for stage in self.stages]
        return any(new)

    def records(self) -> list[StageRecord]:
        """What is known of each stage."""
        return [stage.record() for stage in self.stages]


class CheckpointReader(Reader):
    """All stages of a checkpoint: one in the folder itself, or one in each of `stage-0`, `stage-1` and so on."""

    def __init__(self, checkpoint: str) -> None:
        self.store = Store(checkpoint)
        super().__init__(self.store.path(), ())
        self.local = self.store.local
        self._find()
        if not self.stages and not self.store.exists(RECORD):
            raise ConfigError(
                f"{checkpoint} is not the checkpoint of a query: it has no {IDENTITY}. Give the folder that the query was "
                "started with, once it has begun"
            )

    def _find(self) -> None:
        if not self.stages and self.store.exists(IDENTITY):
            self.stages.append(StageReader(self.store))
        while not self._alone and self.store.exists(f"stage-{len(self.stages)}/{IDENTITY}"):
            self.stages.append(StageReader(self.store.child(f"stage-{len(self.stages)}")))

    @property
    def _alone(self) -> bool:
        return bool(self.stages) and self.stages[0].store is self.store

    def look(self) -> bool:
        """Read what is new, also in stages that have begun since."""
        self._find()
        return super().look()
