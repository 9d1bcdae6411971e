"""The batches that a service has committed, and the files that they left on disk.

    state/log/<number>.json    claims of drivers and commits of batches (`storage.commit_log`)
    state/state/...            pieces of state, written by the servers' tasks
    state/results/...          results, likewise
    state/constants/...        constants of the hosted computations, written by the driver for the tasks

    state/pins/...             as long as one is there, a backup is being made, and nothing that was committed is removed

A file that no kept manifest names is rubbish. A driver removes it only if a driver not newer than itself wrote it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from headgate.errors import CheckpointError, CorruptState
from headgate.service.manifest import BatchManifest
from headgate.service.table_file import CONSTANTS, RESULTS, STATE
from headgate.storage.commit_log import CommitLog, Link
from headgate.storage.outside import unique
from headgate.storage.store import Store

PINS, PIN_S = "pins", 6 * 3600
"""A pin that nobody removed has no effect after this time."""


@contextmanager
def pin(store: Store) -> Iterator[None]:
    """While the block runs, no file is removed that the newest commit names, or will name. The block has to read
    which commit that is.
    """
    name = f"{PINS}/{int(time.time()) + PIN_S}-{unique()}"
    store.make(PINS)
    store.create(name, b"")
    try:
        yield
    finally:
        store.remove(name)


def is_pinned(store: Store) -> bool:
    """Whether a pin is there. It is not known whether one is: then there may be one."""
    try:
        ends = [name.partition("-")[0] for name in store.names(PINS)]
    except CheckpointError:
        return True
    return any(end.isdecimal() and int(end) > time.time() for end in ends)


class BatchLog:
    """The commits of a service, oldest first, of which the last `kept_batches` are kept with their results.

    Opening it claims the folder for this driver: drivers before it can commit no more.
    """

    def __init__(self, folder: str, kept_batches: int) -> None:
        self.store = Store(folder)
        self.store.check()
        self.store.make(STATE, RESULTS, CONSTANTS)
        self.commits = CommitLog(self.store)
        self._kept_batches = kept_batches
        self._links = list[Link]()
        self.history = list[BatchManifest]()
        self._in_doubt = self._swept = False
        self.needed_from: Callable[[BatchManifest], int | None] = lambda last: None
        """Gives the first batch whose results somebody has still to read after a commit, however old it is."""
        self._pinned = False
        self._waiting = list[str]()
        """What is to be removed when no pin is left."""
        self._claim()

    def _claim(self) -> None:
        """Claim the folder, and read what is committed: more than is kept, if somebody had still to read it."""
        entries = self.commits.history(self.commits.take(), sys.maxsize)
        self._links[:] = [entry.link for entry in entries]
        self.history[:] = [BatchManifest.from_json(entry.body) for entry in entries if entry.body is not None]
        last = self.last
        if last is not None and last.oldest is not None and self.history[0].batch > last.oldest:
            raise CorruptState(
                f"a commit in {self.store.path('log')} is missing: batch {last.batch} says that the commits since batch "
                f"{last.oldest} are there, and they begin with batch {self.history[0].batch}. Restore the folder from a backup"
            )

    def settle(self) -> None:
        """If the last commit failed, find out whether it was made. The new claim keeps it from being
        made later, when a batch was computed anew.
        """
        if self._in_doubt:
            if not self.commits.is_mine():
                raise self.commits.superseded()
            self._claim()
            self._in_doubt = False

    @property
    def run(self) -> str:
        """What this driver puts into the names of its files."""
        return self.commits.run

    @property
    def last(self) -> BatchManifest | None:
        """The manifest that was committed last."""
        return self.history[-1] if self.history else None

    def commit(self, manifest: BatchManifest) -> None:
        """Commit a batch, or raise `Superseded`; then remove what is needed no longer."""
        before, needed = self.last, self.needed_from(manifest)
        forgotten = self._forgotten([*self.history, manifest], needed)
        manifest = replace(manifest, oldest=[*self.history, manifest][forgotten].batch)
        self._in_doubt = True
        self.commits.commit(manifest.to_json())
        self._in_doubt = False
        assert self.commits.newest is not None
        self._links.append(self.commits.newest)
        self.history.append(manifest)
        self._pinned = is_pinned(
            self.store
        )  # after the commit: a backup pins first, and then looks for the newest
        if before is not None:
            self._remove(STATE, before.state_files - manifest.state_files)
        for _ in range(forgotten):
            self._remove(RESULTS, self.history.pop(0).result_files)
            del self._links[0]
        with suppress(CheckpointError):
            if not self._pinned:
                self.commits.forget(self._links[0])
        if not self._swept:  # once in a driver's life, for what drivers before it left behind
            self.sweep(STATE, keep=manifest.state_files)
            self.sweep(RESULTS, keep={file for kept in self.history for file in kept.result_files})
            self._swept = True

    def _forgotten(self, history: Sequence[BatchManifest], needed: int | None) -> int:
        """How many of the oldest commits are kept no longer."""
        forgotten = 0
        while len(history) - forgotten > self._kept_batches and (
            needed is None or history[forgotten].batch < needed
        ):
            forgotten += 1
        return forgotten

    def sweep(self, folder: str, *, keep: Collection[str]) -> None:
        """Remove the other files of a folder, as far as this driver or an older one wrote them."""
        names = self.store.names(folder)
        self._remove(folder, (name for name in names if name not in keep and self.commits.is_older(name)))

    def _remove(self, folder: str, names: Iterable[str]) -> None:
        paths = [f"{folder}/{name}" for name in sorted(names)]
        if self._pinned:
            self._waiting += paths
            return
        with suppress(CheckpointError):  # rubbish is harmless
            self.store.remove(*self._waiting, *paths)
            self._waiting = []
