"""The batches that a service has committed, and the files that they left on disk.

    state/log/<number>.json    claims of drivers and commits of batches (`storage.commit_log`)
    state/state/...            pieces of state, written by the servers' tasks
    state/results/...          results, likewise
    state/constants/...        constants of the hosted computations, written by the driver for the tasks

A file that no kept manifest names is rubbish. A driver removes it only if a driver not newer than itself wrote it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from headgate.errors import CheckpointError
from headgate.service.manifest import BatchManifest
from headgate.service.table_file import CONSTANTS, RESULTS, STATE
from headgate.storage.commit_log import CommitLog, Link
from headgate.storage.store import Store


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
        self.needed_from: Callable[[], int | None] = lambda: None
        """Gives the first batch whose results somebody has still to read, however old it is."""
        self._claim()

    def _claim(self) -> None:
        """Claim the folder, and read what is committed: more than is kept, if somebody had still to read it."""
        entries = self.commits.history(self.commits.take(), sys.maxsize)
        self._links[:] = [entry.link for entry in entries]
        self.history[:] = [BatchManifest.from_json(entry.body) for entry in entries if entry.body is not None]

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
        before = self.last
        self._in_doubt = True
        self.commits.commit(manifest.to_json())
        self._in_doubt = False
        assert self.commits.newest is not None
        self._links.append(self.commits.newest)
        self.history.append(manifest)
        if before is not None:
            self._remove(STATE, before.state_files - manifest.state_files)
        needed = self.needed_from()
        while len(self.history) > self._kept_batches and (needed is None or self.history[0].batch < needed):
            self._remove(RESULTS, self.history.pop(0).result_files)
            del self._links[0]
        with suppress(CheckpointError):
            self.commits.forget(self._links[0])
        if not self._swept:  # once in a driver's life, for what drivers before it left behind
            self.sweep(STATE, keep=manifest.state_files)
            self.sweep(RESULTS, keep={file for kept in self.history for file in kept.result_files})
            self._swept = True

    def sweep(self, folder: str, *, keep: Collection[str]) -> None:
        """Remove the other files of a folder, as far as this driver or an older one wrote them."""
        names = self.store.names(folder)
        self._remove(folder, (name for name in names if name not in keep and self.commits.is_older(name)))

    def _remove(self, folder: str, names: Iterable[str]) -> None:
        with suppress(CheckpointError):  # rubbish is harmless
            self.store.remove(*(f"{folder}/{name}" for name in sorted(names)))
