"""The checkpoint of a stage: who owns it, what is committed, and which files are removed when.

    headgate.json          identity: key, operator, bins; written once
    log/<number>.json      claims of drivers and commits of batches (`commit_log`); creating one is the commit
    state/<batch>-...      state files, named by the attempt that wrote them
    backlog/<batch>-...    rows that wait, likewise
    output/<batch>-...     output waiting to be published (function and memory sinks)
    aside/output/<batch>-  likewise rows that could not be used
    journal/<n>-....jsonl  reports and decisions, one line a batch, a file for each driver and thousand batches;
                           where files cannot grow, a file for a few batches (until then the log has their lines)

Only the driver writes here, except that tasks add files to `state`, `backlog` and `output` under
names of their own. The name of each file says which driver it belongs to. Whatever the newest
commit does not name is rubbish. A driver removes only rubbish of its own or of earlier drivers, so
a driver that wakes up late never removes a file of its successor.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

from headgate.errors import BatchOrder, CheckpointMismatch, CorruptState
from headgate.storage.commit_log import FORMAT, CommitLog, Driver, Entry, Link, check_format, checksum
from headgate.storage.journal_files import JournalFiles
from headgate.storage.manifest import Manifest
from headgate.storage.outside import OUTSIDE, unique
from headgate.storage.store import Store

DIRECT = "direct:stream"
"""Where the batches of a direct stream come from, as its manifests say."""
IDENTITY = "headgate.json"
_REMEDY = "restore it from a backup of the checkpoint"


class Checkpoint:
    """The driver's view of a stage's checkpoint. Opening it changes nothing; `identify` and
    `take` claim it for this driver.
    """

    def __init__(
        self,
        store: Store,
        identity: dict[str, Any],
        *,
        adopt: frozenset[str] = frozenset(),
        staged: Iterable[Store] = (),
        me: Driver | None = None,
    ) -> None:
        """Settings named in `adopt` are taken from an old checkpoint and not compared. `staged` are
        the stores in which output waits for its sink.
        """
        self.store, self._staged = store, tuple(staged)
        self.log = CommitLog(store, me)
        self._adopt, self._wanted = adopt, identity
        self._swept = False
        self._every = 1 if store.appends else OUTSIDE.get().every
        self._commit: Link | None = None
        self._links: list[Link] = []
        """The commits before the last one that the log still has."""
        self._journal = JournalFiles(store, self._every)
        self._obsolete: list[tuple[Store, str]] = []
        self.last: Manifest | None = None
        self.identity = self._identity()
        if self.identity is None and (store.names("log") or store.names("journal")):
            self.identity = self._identity()  # another driver may just have begun
            if self.identity is None:
                raise CorruptState(f"{store.path(IDENTITY)} is missing beside committed batches; {_REMEDY}")
        if self.identity is not None:
            self._read(self.log.last())
            self._compare()

    @property
    def stage(self) -> str:
        """The unique name of the stage, which was drawn at random when the checkpoint was made."""
        assert self.identity is not None, "a new checkpoint is identified before it is used"
        return str(self.identity["stage"])

    @property
    def run(self) -> str:
        """The part of file names that identifies this driver."""
        return self.log.run

    def identify(self) -> None:
        """Write the identity of a new checkpoint. The identity of an old one
        was compared when it was opened.
        """
        if self.identity is not None:
            return
        self.store.check()
        self.store.make("")
        with suppress(FileExistsError):  # another driver was faster; the two must be the same stage
            self.store.create(IDENTITY, self._encoded(unique()[:12]))
        self.identity = self._identity()

    def take(self) -> None:
        """Claim the query for this driver. Earlier drivers can commit nothing after this."""
        self.store.check()
        self.store.make("state", "backlog", "journal")
        entry = self.log.take()
        self._read(entry)
        self._compare()
        assert self.identity is not None
        if self.last is None and self.identity != {**self.identity, **self._wanted}:
            # Nothing was ever committed, so a stage that was corrected meanwhile may still begin here.
            self.store.replace(IDENTITY, self._encoded(self.stage))
            self.identity = self._identity()
        if self.last is not None and not self._journal.has(self.last.batch, self.last.journal):
            self._complete_journal(entry)

    def _complete_journal(self, entry: Entry | None) -> None:
        """Write the lines that the drivers before this one have committed and not written."""
        lines: list[tuple[int, str]] = []
        for commit in reversed(self.log.history(entry, self._every)):
            assert commit.body is not None, "a history has commits alone"
            batch, line = int(commit.body["batch"]), str(commit.body["journal"])
            if lines and self._journal.has(batch, line):
                break
            lines.append((batch, line))
        for batch, line in reversed(lines):
            self.write_journal(line, batch)
        self._journal.flush(self.run)

    def _read(self, entry: Any) -> None:
        if entry is None and self.store.names("journal"):
            entry = self.log.last()  # another driver may just have committed its first batch
            if entry is None:
                raise CorruptState(
                    f"{self.store.path('log')} holds no commit, but {self.store.path('journal')} has batches that were "
                    f"committed: the log was deleted or lost; {_REMEDY}, or start anew with an empty folder"
                )
        if entry is None or (self.last is not None and entry.link == self._commit):
            return
        self._commit, self.last = entry.link, Manifest.from_json(entry.body)

    def _identity(self) -> dict[str, Any] | None:
        where = self.store.path(IDENTITY)
        try:
            data = self.store.read(IDENTITY)
        except FileNotFoundError:
            return None
        try:
            identity = json.loads(data)
            version, _, seal = int(identity["format"]), str(identity["stage"]), identity.pop("checksum", None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptState(f"{where} cannot be read ({error}); {_REMEDY}") from error
        check_format(version, where)
        if seal != _seal(identity):
            raise CorruptState(f"{where} is damaged: its checksum does not match; {_REMEDY}")
        return dict(identity)

    def _encoded(self, stage: str) -> bytes:
        new = {"format": FORMAT, "stage": stage, **self._wanted}
        return json.dumps({**new, "checksum": _seal(new)}, indent=1).encode()

    def _compare(self) -> None:
        """Refuse a stage that is not the one whose batches are committed."""
        if self.last is None or self.identity is None:
            return
        for name, value in self._wanted.items():
            if name not in self._adopt and self.identity.get(name) != value:
                raise CheckpointMismatch(
                    f"checkpoint {self.store.path()} was made with {name} = {json.dumps(self.identity.get(name))}, and the stage now "
                    f"has {json.dumps(value)}; put it back as it was, or give the changed stage a checkpoint of its own"
                )

    def commit(self, manifest: Manifest) -> None:
        """Commit a batch. This is the atomic step: after it returns, the batch is never computed again."""
        before = self._commit
        self.log.commit(manifest.to_json())
        self._commit, self.last = self.log.newest, manifest
        if before is not None:
            self._links.append(before)

    def write_journal(self, line: str, batch: int) -> None:
        """Append a line to the journal, in a file that only this driver writes."""
        self._journal.write(line, batch, self.run)

    def starts_journal(self, batch: int) -> bool:
        """Whether the line of this batch is the first of a file."""
        return self._journal.starts(batch)

    def retire(self, before: Manifest | None, now: Manifest) -> None:
        """Remove the files that the commit of `now` made obsolete; on an object store, those of a few
        commits together.
        """
        if before is not None:
            self._obsolete += [(self.store, f"state/{name}") for name in before.state.names - now.state.names]
            old = before.backlog.files - now.backlog.files
            self._obsolete += [(self.store, f"backlog/{name}") for name in old]
            for staged in self._staged:
                self._obsolete += [(staged, name) for name in self._staged_names(staged, before)]
                if staged.in_place:
                    self._sweep_output(staged, before)
        if now.batch % self._every == self._every // 2:
            self._remove_obsolete()
        if len(self._links) >= self._every:
            self.log.forget(self._links.pop(0))
        if not self._swept:
            self._sweep(now)
            self._swept = True

    def _staged_names(self, staged: Store, before: Manifest) -> list[str]:
        """What is left of the output of a batch that has been published."""
        if staged.in_place:
            return []
        return [before.folder] if self._every == 1 else [f.name for f in (*before.output, *before.aside)]

    def _remove_obsolete(self) -> None:
        for store in (self.store, *self._staged):
            store.remove(*sorted(name for of, name in self._obsolete if of is store))
        self._obsolete = []

    def remove_state(self, names: Collection[str]) -> None:
        """Remove state files that no manifest needs."""
        self.store.remove(*(f"state/{name}" for name in sorted(names)))

    def _sweep(self, now: Manifest) -> None:
        """Remove files of attempts that were never committed, of this driver and of earlier ones. A
        newer driver may be publishing this batch meanwhile, from a folder that is `.ready`.
        """
        self._sweep_folder(self.store, "state/", now.state.names)
        self._sweep_folder(self.store, "backlog/", now.backlog.files)
        for folder in ("state/", "backlog/"):
            self.store.abandon(folder, self.log.is_older)
        for staged in self._staged:
            if staged.in_place:
                self._sweep_output(staged, now)
            else:
                self._sweep_folder(staged, "", {now.folder, f"{now.folder}.ready"})
            staged.abandon(f"{now.folder}/" if staged.in_place else "", self.log.is_older)

    def _sweep_output(self, staged: Store, of: Manifest) -> None:
        """Remove what attempts that do not count have left in the folder of a batch. A reader who only
        lists the folder would take it for output.
        """
        used = {file.name.rpartition("/")[2] for file in (*of.output, *of.aside)}
        self._sweep_folder(staged, f"{of.folder}/", used)

    def _sweep_folder(self, store: Store, folder: str, kept: Collection[str]) -> None:
        old = [n for n in store.names(folder) if n not in kept and self.log.is_older(n)]
        store.remove(*(f"{folder}{name}" for name in old))


def last_manifest(store: Store) -> Manifest | None:
    """The newest commit of a checkpoint, whichever driver owns it."""
    entry = CommitLog(store).last()
    return Manifest.from_json(entry.body) if entry is not None and entry.body is not None else None


def check_order(
    batch: int, last: int | None, where: str, *, first: int | None = None, part: bool = False
) -> None:
    """Refuse a batch that is not the next one after the last committed. `part` says that the last one is
    committed only in part; `first` is the number that the user gave for the first batch, if it is not 0.
    """
    if last is None:
        if batch == (first or 0):
            return
        if first is None:
            raise BatchOrder(
                f"Spark delivers batch {batch}, but nothing is committed in {where}: the rows of the batches before it would be "
                "missing from its state. If the folder was moved, deleted or mistyped, put the right one back; to start anew, delete "
                f"Spark's checkpoint too. To begin in the middle of a query on purpose, use Stage(first_batch={batch})"
            )
        raise BatchOrder(
            f"Spark delivers batch {batch}, but nothing is committed in {where}, and first_batch={first} says that its state begins "
            f"with batch {first}. Correct the number, or omit it"
        )
    if batch == last + 1 and not part:
        return
    if batch <= last:
        raise BatchOrder(
            f"Spark delivers batch {batch}, but {where} has committed up to batch {last}: the two checkpoints do not belong "
            "together. Use the Spark checkpoint of that run, or give the stage a new folder"
        )
    so_far = f"a part of batch {last}" if part else f"batch {last}"
    raise BatchOrder(
        f"Spark delivers batch {batch}, but {where} has committed only up to {so_far}: the rows in between would be missing. "
        "Use the stage's checkpoint of that run, or start both anew"
    )


def check_origin(origin: str | None, last: str | None, where: str, *, continues: str | None = None) -> None:
    """Refuse batches from another origin than the committed ones, unless the
    user has named the old origin.
    """
    if origin == last or (continues is not None and continues == last):
        return
    if DIRECT in (origin, last):
        raise CheckpointMismatch(
            f"{where} holds the state of {_said(last)}, and these batches come from {_said(origin)}: give "
            f"{'the direct stream' if origin == DIRECT else 'the stage'} a checkpoint of its own, in another folder"
        )
    if last and last.startswith("stage:"):
        remedy = "Use the checkpoint of that stage, or give both stages an empty folder"
    else:
        remedy = "Use the checkpointLocation of that query (it was deleted, or another one is named), or give the stage an empty folder"
    given = f" (continues={continues!r} names another)" if continues is not None else ""
    raise CheckpointMismatch(
        f"{where} holds the state of {_said(last)}, and these batches come from {_said(origin)}{given}: the two checkpoints do not "
        f"belong together. {remedy}. If this query is to continue from that state, although it reads its source from its own start, "
        f"say so with continues={last or ''!r}"
    )


def _said(origin: str | None) -> str:
    if not origin:
        return "no streaming query (the stage was called by hand)"
    if origin == DIRECT:
        return "a direct stream (hg.read)"
    kind, _, name = origin.partition(":")
    return f"the streaming query {origin}" if not name else f"the {kind} {name}"


def _seal(identity: dict[str, Any]) -> str:
    return checksum(json.dumps(identity, sort_keys=True).encode())
