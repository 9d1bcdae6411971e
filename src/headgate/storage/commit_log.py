"""The log of a checkpoint: which driver owns it, and what is committed. Each entry
is a file that is created once.

    log/<number>.json    a claim (a driver took the query over) or a commit (of one batch)
    log/cleared          there once commits have been removed

Every entry takes the next number, and creating its file is the atomic step. A driver writes a claim before
it does anything else, and a commit after each batch. The entry with the highest number is the truth: it is
the last commit, or a claim that names the last commit. Old commits are removed, oldest first; claims are
kept. So a driver that has slept finds that the number it wants is taken by the claim of its successor, and
stops. A driver that claims may have looked at the log long ago, and create a claim where commits have been
removed since. Then the commit that its claim names has been removed too, and it looks again.

Law: only the driver with the newest claim commits, whatever the others believe. This needs a
store whose `create` is exclusive (`Store.check` refuses other stores). Listings may be stale: they only say
where to begin to read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import xxhash

from headgate.errors import CheckpointError, CorruptState, NewerFormat, OlderFormat, Superseded
from headgate.storage.outside import OUTSIDE
from headgate.storage.store import Store

FORMAT = 3
FOLDER = "log"
CLEARED = f"{FOLDER}/cleared"
_REMEDY = "restore it from a backup of the checkpoint"
_RUN = re.compile(r"-(\d{8})\.[0-9a-f]{8}(?:[-.]|$)")
"""Finds a driver's `run` in the name of a file, after the batch."""
as_json = json.JSONEncoder(separators=(",", ":")).encode
_LOOKS = 100
"""How often a reader retries when entries are removed while it reads them, before it gives up."""
_STALE = 3
"""How often a listing may be stale before a commit that cannot be found counts as lost."""


@dataclass(frozen=True)
class Link:
    """Identifies a commit by its number and the checksum of its bytes, so that no
    other entry can be mistaken for it.
    """

    number: int
    checksum: str


@dataclass(frozen=True)
class Driver:
    """A process that drives the query: where it runs, and when it was started as a driver."""

    host: str
    pid: int
    since: str
    token: str
    """Unique to this driver, even among drivers of the same process and second."""

    @classmethod
    def here(cls) -> Driver:
        """This process, now."""
        outside = OUTSIDE.get()
        return cls(*outside.here(), outside.unique()[:8])

    def to_json(self) -> list[Any]:
        """Values that JSON can hold."""
        return [self.host, self.pid, self.since, self.token]

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


@dataclass(frozen=True)
class Entry:
    """One entry, read back. `body` is the content of a commit, and None in a claim;
    `before` is the commit before it.
    """

    link: Link
    driver: Driver
    before: Link | None
    body: Mapping[str, Any] | None = field(repr=False)

    @property
    def last(self) -> Link | None:
        """The newest commit as of this entry."""
        return self.link if self.body is not None else self.before


class CommitLog:
    """The log of one checkpoint, as its driver sees it. Reading needs no claim; committing does."""

    def __init__(self, store: Store, me: Driver | None = None) -> None:
        self.store = store
        self.claim: Link | None = None
        self._me = me or Driver.here()
        self._at = -1
        self.newest: Link | None = None
        """The newest commit that this driver knows of."""
        self._names: list[str] = []
        """The files of the log when it was last listed, drafts among them."""
        self._old: list[int] = []
        """The commits of this driver that have not been removed."""
        self._inherited: Link | None = None
        """The newest commit of the drivers before this one, until it is removed."""
        self._seen: dict[Link, Entry] = {}
        """The last two entries that were read. The same bytes need not be decoded again."""

    @property
    def run(self) -> str:
        """The part of file names that identifies this driver: the number of its claim, and its token."""
        assert self.claim is not None, "a log is claimed before anything is written"
        return f"{self.claim.number:08d}.{self._me.token}"

    def newest_entry(self) -> Entry | None:
        """The newest entry, a claim or a commit; None if there is none."""
        return self._look()[0]

    def read_entry(self, number: int) -> Entry | None:
        """The entry with a number; None if it does not exist, or not any more."""
        return self._read(number)

    def last(self) -> Entry | None:
        """The newest commit, whoever made it; None if there is none."""
        return self._look()[1]

    def take(self) -> Entry | None:
        """Claim the query for this driver and return the newest commit. Earlier drivers
        can commit nothing after this.
        """
        self.store.make(FOLDER)
        for _ in range(_LOOKS):
            newest, last = self._look()
            number = newest.link.number + 1 if newest else 0
            before = last.link if last else None
            try:
                link = self._create(number, before, None)
            except CheckpointError:
                again = self._look()[0]
                if (again and again.link) == (newest and newest.link):
                    raise
                continue  # the answer was lost, or others have removed the draft: the log has gone on
            if link is None:
                continue  # another driver created that entry
            if not self._is_cleared(before):
                self.claim, self._at, self.newest = link, number, before
                self._inherited, self._old = before, []
                return last
            # Entries up to this number had been removed, so the claim has no effect: try again.
        raise self._restless()

    def commit(self, body: Mapping[str, Any]) -> None:
        """Commit a batch for ever, or raise `Superseded`, in which case nothing has changed."""
        assert self.claim is not None, "a log is claimed before anything is committed to it"
        link = self._create(self._at + 1, self.newest, body)
        if link is None:
            raise self.superseded()
        self._at, self.newest = link.number, link
        self._old.append(link.number)

    def is_mine(self) -> bool:
        """Whether this driver is still the newest. If the store cannot be read, True is returned;
        the next commit will find out. After a commit whose answer was lost, the newest entry is one
        that this driver does not know of, but it is its own.
        """
        try:
            if self.claim is None or not self.store.exists(entry_name(self._at + 1)):
                return True
            newest = self._look()[0]
            return newest is not None and newest.driver == self._me
        except CheckpointError:
            return True

    def check_mine(self) -> None:
        """Raise `Superseded` if another driver has claimed the query, and an error if the store cannot say. Unlike the
        rest of this class, any thread may call it, also during a commit.
        """
        assert self.claim is not None, "a log is claimed before anything is written"
        number = self._at + 1  # the claim of a successor takes this number, and claims are never removed
        while True:
            try:
                data = self.store.read(entry_name(number))
            except FileNotFoundError:
                return
            driver = Driver(*unsealed(data, self.store.path(entry_name(number)))["driver"])
            if driver != self._me:
                raise self._superseded_by(f": {driver}")
            number += 1  # our own commit, made meanwhile

    def superseded(self) -> Superseded:
        """The error to raise when this driver is no longer the newest."""
        newest = self._look()[0]
        return self._superseded_by(f": {newest.driver}" if newest else "")

    def _superseded_by(self, other: str) -> Superseded:
        return Superseded(
            f"another driver has taken over {self.store.path()}{other}. This one ({self._me}) has committed nothing "
            "since then, and stops. Run only one query on a checkpoint: stop the other one before you start this one again"
        )

    def history(self, last: Entry | None, most: int) -> list[Entry]:
        """At most this many of the newest commits, oldest first, as far back as the log reaches."""
        entries = [last] if last else []
        while entries and len(entries) < most and entries[-1].before is not None:
            entry = self._read(entries[-1].before.number)
            if entry is None or entry.link != entries[-1].before:
                break
            entries.append(entry)
        return entries[::-1]

    def forget(self, before: Link) -> None:
        """Remove the commits before this one, and drafts of entries. No driver needs them, so even a
        superseded driver may do this.
        """
        if self._inherited is not None:
            self._old[:0] = self._left_by_others(self._inherited)
            self._inherited = None
        drafts = [n for n in self._names if n[12:] != ".json" and int(n[:12]) < before.number]
        self.store.remove(*(f"{FOLDER}/{name}" for name in drafts))
        self._names = []
        if self._old and self._old[0] < before.number:
            self._clear()
        while self._old and self._old[0] < before.number:
            self.store.remove(entry_name(self._old[0]))  # one by one, so that an older one never outlives it
            del self._old[0]

    _cleared = False

    def _clear(self) -> None:
        """Say that commits are removed, before the first one is."""
        if not self._cleared:
            with suppress(FileExistsError):
                self.store.create(CLEARED, b"")
            self._cleared = True

    def _left_by_others(self, link: Link) -> list[int]:
        """The numbers of the commits up to this one that have not been removed, in ascending order."""
        numbers = []
        entry = self._read(link.number)
        while entry is not None:
            numbers.append(entry.link.number)
            entry = self._read(entry.before.number) if entry.before else None
        return numbers[::-1]

    def _is_cleared(self, before: Link | None) -> bool:
        """Whether the newest commit, as this driver knows it, is not the newest any more."""
        if before is None:
            return self.store.exists(CLEARED)
        entry = self._read(before.number)
        return entry is None or entry.link != before

    def is_older(self, name: str) -> bool:
        """Whether a file, by its name, was written by this driver or an earlier one."""
        assert self.claim is not None, "a log is claimed before anything is removed"
        run = _RUN.search(name)
        return run is not None and int(run[1]) <= self.claim.number

    # -- files

    def _look(self) -> tuple[Entry | None, Entry | None]:
        """The newest entry and the newest commit. The running driver may remove an entry
        between our listing and our reading, and a listing may be stale a few times.
        """
        lost = 0
        for _ in range(_LOOKS):
            numbers = self._numbers()
            newest = self._read(numbers[-1] if numbers else 0)
            if newest is None and not numbers:
                return None, None
            if newest is None:
                continue
            while (later := self._read(newest.link.number + 1)) is not None:
                newest = later
            if newest.last is None or newest.last == newest.link:
                return newest, newest if newest.last else None
            last = self._read(newest.last.number)
            if last is not None and last.link == newest.last:
                return newest, last
            lost += self._numbers()[-1:] == [newest.link.number]
            if lost > _STALE:
                problem = "is missing" if last is None else "is not the commit that was made there"
                path = self.store.path(entry_name(newest.last.number))
                raise CorruptState(
                    f"{path} {problem}, though entry {newest.link.number} of the log names it; {_REMEDY}"
                )
        raise self._restless()

    def _restless(self) -> CorruptState:
        return CorruptState(
            f"{self.store.path(FOLDER)} changes faster than it can be read; is another driver at work?"
        )

    def _numbers(self) -> list[int]:
        """The numbers of the entries, in ascending order."""
        self._names = [n for n in self.store.names(FOLDER) if n.partition(".")[0].isdecimal()]
        return sorted(int(n.removesuffix(".json")) for n in self._names if n[12:] == ".json")

    def _create(self, number: int, before: Link | None, body: Mapping[str, Any] | None) -> Link | None:
        """Create an entry; None if another entry has the number already."""
        content = {
            "entry": number,
            "driver": self._me.to_json(),
            "before": [before.number, before.checksum] if before else None,
            "body": body,
        }
        data = sealed(content)
        try:
            self.store.create(entry_name(number), data)
        except FileExistsError:
            try:
                if self.store.read(entry_name(number)) != data:
                    return None
            except FileNotFoundError:
                return None
            # The entry is our own: it was created by a request whose answer was lost.
        return Link(number, checksum(data))

    def _read(self, number: int) -> Entry | None:
        """Read an entry; None if it does not exist."""
        name = entry_name(number)
        try:
            data = self.store.read(name)
        except FileNotFoundError:
            return None
        link, where = Link(number, checksum(data)), self.store.path(name)
        if link in self._seen:
            return self._seen[link]
        content = unsealed(data, where)
        if content.get("entry") != number:
            raise CorruptState(
                f"{where} holds entry {content.get('entry')} of a log: it was put in another's place; {_REMEDY}"
            )
        before = content["before"]
        entry = Entry(link, Driver(*content["driver"]), Link(*before) if before else None, content["body"])
        if len(self._seen) > 1:
            del self._seen[next(iter(self._seen))]
        self._seen[link] = entry
        return entry


def entry_name(number: int) -> str:
    """Where an entry is, below the store's folder."""
    return f"{FOLDER}/{number:012d}.json"


def checksum(data: Any) -> str:
    """The checksum by which a file is recognised."""
    return str(xxhash.xxh3_64_hexdigest(data))


def sealed(body: Mapping[str, Any]) -> bytes:
    """A record as bytes, preceded by its format and a checksum."""
    text = as_json(body).encode()
    return b"headgate %d %s\n%s" % (FORMAT, checksum(text).encode(), text)


def unsealed(data: bytes, where: str) -> dict[str, Any]:
    """Read what `sealed` wrote."""
    first, _, text = data.decode("utf-8", errors="replace").partition("\n")
    words = first.split()
    if len(words) != 3 or words[0] != "headgate" or not words[1].isdecimal() or int(words[1]) < 1:
        raise CorruptState(f"{where} is not a headgate record; {_REMEDY}")
    check_format(int(words[1]), where)
    if checksum(text.encode()) != words[2]:
        raise CorruptState(f"{where} is damaged: its checksum does not match; {_REMEDY}")
    body: dict[str, Any] = json.loads(text)
    return body


def check_format(version: int, where: str) -> None:
    """Refuse a format that this version of headgate cannot read."""
    if version > FORMAT:
        raise NewerFormat(
            f"{where} has format {version}, and this headgate reads format {FORMAT}; upgrade headgate"
        )
    if version < FORMAT:
        raise OlderFormat(
            f"{where} has format {version}, which this headgate cannot read (it reads {FORMAT}); use the version "
            "that wrote it, or start anew with an empty folder"
        )
