"""A folder of Parquet files that belongs to one stage. On any store, each batch
appears in it whole, and once.

    _headgate.json          the stage that owns the folder; written once
    _staging/<batch>-...    files that tasks write, until their batch is committed and shown
    batch=<N>/              the files of batch N
    _batches/<N>.json       the record of batch N: its files with sizes and checksums; written when they are all there

The rule for readers: a batch exists when its record exists, and consists of the files that the
record names (`files`). On a local disk `batch=N` appears in one rename, so even a reader who just
lists the folder never sees a part of a batch. Object stores cannot rename: there tasks write at once into
`batch=N` (`InPlace`), and only a reader who goes by the records is sure to see whole batches, each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from headgate.errors import CheckpointError, CheckpointMismatch, CorruptState
from headgate.storage.commit_log import checksum, sealed, unsealed
from headgate.storage.manifest import Written
from headgate.storage.store import Store, translated

OWNER, STAGING, RECORDS = "_headgate.json", "_staging", "_batches"
OUTPUT, ASIDE = "output", "rows aside"


@dataclass(frozen=True)
class Owner:
    """Who writes to a folder: the unique name of the stage, its checkpoint, and
    which of its outputs goes there.
    """

    stage: str
    checkpoint: str
    what: str = OUTPUT


class InPlace(Store):
    """Where tasks put the files of a batch on an object store: `<batch>-<driver>/<file>`, as a staged file is
    named, is written as `batch=<N>/<file>`, and stays there.
    """

    in_place = True

    def __init__(self, store: Store, column: str) -> None:
        self.__dict__.update(store.__dict__)
        self.column = column

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "column": self.column}

    def path(self, name: str = "") -> str:
        """Full path of a staged file, or of the folder of a batch."""
        folder, slash, file = name.partition("/")
        batch = folder.partition("-")[0]
        return super().path(f"{self.column}={int(batch)}{slash}{file}" if batch.isdecimal() else name)


class ParquetFolder:
    """The folder. `show` may be called again with the same files: after a
    crash, or by two drivers at once.
    """

    def __init__(self, path: str, column: str = "batch", first: int | None = None) -> None:
        self.store, self.column, self.first = Store(path), column, first

    @property
    def path(self) -> str:
        """The path of the folder."""
        return self.store.path()

    def output_store(self) -> Store:
        """Where tasks put the files of a batch."""
        return self.store.child(STAGING) if self.store.local else InPlace(self.store, self.column)

    def own(self, owner: Owner, committed: int | None = None) -> None:
        """Claim an empty folder for a stage. A folder that belongs to another stage, or whose owner
        is unknown, is refused, and so is one whose batches are not those that the stage has
        committed (up to the number `committed`).
        """
        remedy = f"give this stage a folder of its own, or remove {self.path} if it is not needed any more"
        if not self.store.exists(OWNER):
            if self.occupied():
                raise CheckpointMismatch(
                    f"{self.path} holds batches, and nothing says whose they are ({OWNER} is missing); {remedy}"
                )
            self._check_batches([], committed, new=True)
            self.store.make("", STAGING, RECORDS)
            new = {"stage": owner.stage, "checkpoint": owner.checkpoint, "what": owner.what}
            self.store.write_once(OWNER, sealed(new))
        where = self.store.path(OWNER)
        recorded = unsealed(self.store.read(OWNER), where)
        if not {"stage", "checkpoint", "what"} <= recorded.keys():
            raise CorruptState(f"{where} does not say whose folder this is; restore it from a backup")
        if recorded["stage"] != owner.stage:
            raise CheckpointMismatch(
                f"{self.path} holds the {recorded['what']} of another stage, {recorded['stage']} with the checkpoint "
                f"{recorded['checkpoint']}; this is the {owner.what} of {owner.stage} with the checkpoint {owner.checkpoint}. "
                f"If that checkpoint was deleted or replaced, these batches belong to the old one; {remedy}"
            )
        if recorded["what"] != owner.what:
            raise CheckpointMismatch(
                f"{self.path} holds the {recorded['what']} of this stage, and cannot hold its {owner.what} too; name two folders"
            )
        self._check_batches(self.batches(committed), committed)
        self.store.make(STAGING, RECORDS)

    def _check_batches(self, shown: list[int], committed: int | None, *, new: bool = False) -> None:
        """Refuse a folder with batches that are not committed, or without some that are (the last
        one may not be published yet; but a folder that is `new` never had this stage's output).
        """
        newest = -1 if committed is None else committed
        later = [number for number in shown if number > newest]
        if later:
            raise CheckpointMismatch(
                f"{self.path} holds the batches {later[0]} to {later[-1]}, which this stage has not committed: its checkpoint is older "
                "than the output. Restore the checkpoint that belongs to it, or move all of these batches away: "
                + ", ".join(f"{self._folder(number)} and {_record(number)}" for number in later)
            )
        upto = shown[-1] if shown else -1
        if upto < newest - (not new) and not (not shown and self.first in (newest, newest + 1)):
            has = f"only batches up to {upto}" if shown else "no batch"
            raise CheckpointMismatch(
                f"{self.path} has {has}, though this stage has committed up to batch {newest}: its output lies elsewhere, or was lost. "
                f"Name the folder that it had, or restore it. To begin a new folder with the next batch, use "
                f"sinks.Parquet(path, first_batch={newest + 1})"
            )

    def occupied(self) -> bool:
        """Whether any batch has been published here."""
        return any(name.startswith(f"{self.column}=") for name in self.store.names(""))

    def batches(self, committed: int | None = None) -> list[int]:
        """The numbers of the batches that exist, by the rule for readers. `committed` is the number of one
        that may exist.
        """
        names = (name.removesuffix(".json") for name in self.store.names(RECORDS))
        numbers = sorted(int(name) for name in names if name.isdecimal())
        if not self.store.local:
            numbers = self._asked_for(set(numbers), committed)
        for before, after in pairwise(numbers):
            if after != before + 1:
                raise CorruptState(
                    f"{self.store.path(_record(before + 1))} is missing, though batches after it are there: restore it from a backup, or "
                    f"remove the batches up to {before} with their records"
                )
        return numbers

    def _asked_for(self, listed: set[int], committed: int | None) -> list[int]:
        """A listing may be out of date: look for records that it may lack, and for those that it should not have."""
        near = (
            set() if committed is None else {committed - 1, committed, *(n for n in listed if n > committed)}
        )
        found = listed - near | {n for n in near if n >= 0 and self.store.exists(_record(n))}
        if found:
            between = set(range(min(found), max(found))) - found
            found |= {n for n in between if self.store.exists(_record(n))}
            while self.store.exists(_record(max(found) + 1)):
                found.add(max(found) + 1)
        return sorted(found)

    def files(self, batch: int | None = None) -> list[str]:
        """The paths of the files of a batch, or of all batches, by the rule for readers."""
        chosen = self.batches() if batch is None else [batch]
        return [
            self.store.path(f"{self._folder(number)}/{name}")
            for number in chosen
            for name, *_ in self._record(number)["files"]
        ]

    def show(self, staged: Store, files: Sequence[Written], batch: int, *, again: bool) -> None:
        """Publish the staged files of a batch. With `again` their bytes are first
        compared with what was committed. A batch before the first of the folder lies elsewhere.
        """
        if again and self.first is not None and batch < self.first:
            return
        wanted = [[_base(file.name), file.size, file.checksum] for file in files]
        if staged.in_place:
            return self._name(staged, files, batch, wanted, again=again)
        if self.store.exists(_record(batch)):
            if self._record(batch)["files"] != wanted:
                raise self._taken(batch)
            return
        if files and self.store.local:
            self._rename(staged, files, batch, again=again)
        elif files:
            try:
                self._copy(staged, files, batch, again=again)
            except CheckpointError:
                # Another driver may just have done the same, and removed the staged files.
                if not self.store.exists(_record(batch)) or self._record(batch)["files"] != wanted:
                    raise
        self.store.write_once(_record(batch), sealed({"batch": batch, "files": wanted}))

    def _name(
        self, staged: Store, files: Sequence[Written], batch: int, wanted: list[list[Any]], *, again: bool
    ) -> None:
        """The files are there: name them in the record."""
        if again and not self.store.exists(_record(batch)):
            for file in files:
                verify(staged, file.name, file)
        record = sealed({"batch": batch, "files": wanted})
        try:
            (self.store.create if self.store.exclusive else self.store.write_once)(_record(batch), record)
        except FileExistsError:
            if self._record(batch)["files"] != wanted:
                raise self._taken(batch) from None

    def _rename(self, staged: Store, files: Sequence[Written], batch: int, *, again: bool) -> None:
        """On a local disk: gather the files in a folder beside it, then rename that folder."""
        disk, folder = self.store.disk, self._folder(batch)
        assert disk is not None
        final = self.store.path(folder)
        names = sorted(_base(file.name) for file in files)
        with translated(final, "publishing"):
            if not disk.is_folder(final):
                ready = f"{files[0].name.rpartition('/')[0]}.ready"
                staged.make(ready)
                try:
                    for file in files:
                        there = f"{ready}/{_base(file.name)}"
                        if not staged.exists(there):
                            self._move(staged, file.name, there)
                        if again:
                            verify(staged, there, file)
                    self._move_folder(staged.path(ready), final)
                    again = False  # all files have been verified
                except (FileNotFoundError, CorruptState) as error:
                    if not disk.is_folder(final):  # otherwise another driver has just done the same
                        if isinstance(error, CorruptState):
                            raise
                        raise CorruptState(
                            f"output of batch {batch} is missing from {staged.path()}: run the stage once with its old output folder, if "
                            "that was changed, or restore it from a backup"
                        ) from None
            if again and self.store.names(folder) == names:
                for file in files:
                    verify(self.store, f"{folder}/{_base(file.name)}", file)
        if self.store.names(folder) != names:
            raise self._taken(batch)

    def _move(self, staged: Store, name: str, to: str) -> None:
        assert staged.disk is not None
        try:
            staged.disk.rename(staged.path(name), staged.path(to))
        except FileNotFoundError:
            if not staged.exists(to):  # otherwise another driver has just moved it there
                raise

    def _move_folder(self, ready: str, final: str) -> None:
        assert self.store.disk is not None
        self.store.disk.rename(ready, final)
        self.store.flush("")

    def _copy(self, staged: Store, files: Sequence[Written], batch: int, *, again: bool) -> None:
        """On other stores: copy file by file. A file that was copied before an
        interruption is kept if it is complete.
        """
        for file in files:
            name = f"{self._folder(batch)}/{_base(file.name)}"
            if self.store.size(name) != file.size:
                if again:
                    verify(staged, file.name, file)
                staged.copy(file.name, self.store, name)
            if again:
                verify(self.store, name, file)

    def _folder(self, batch: int) -> str:
        return f"{self.column}={batch}"

    def _record(self, batch: int) -> dict[str, Any]:
        where = self.store.path(_record(batch))
        try:
            record = unsealed(self.store.read(_record(batch)), where)
        except FileNotFoundError:
            raise CorruptState(f"{where} is missing: batch {batch} has not been published") from None
        if record.get("batch") != batch or "files" not in record:
            raise CorruptState(f"{where} is not the record of batch {batch}; restore it from a backup")
        return record

    def _taken(self, batch: int) -> CheckpointMismatch:
        return CheckpointMismatch(
            f"{self.store.path(self._folder(batch))} has other files than batch {batch} of this stage committed: something else wrote "
            f"there, or the checkpoint is older than the output. Move that folder and {self.store.path(_record(batch))} away, then "
            "start the query again"
        )


def verify(store: Store, name: str, written: Written) -> None:
    """Refuse a file whose bytes differ from what was committed."""
    if not written.checksum:
        return
    try:
        data = store.read(name)
    except FileNotFoundError:
        raise CorruptState(
            f"output file {store.path(name)} is missing: run the stage once with its old output folder, if that was changed, or restore "
            "it from a backup"
        ) from None
    if checksum(data) != written.checksum:
        raise CorruptState(
            f"output file {store.path(name)} is damaged: its checksum does not match what was committed, so it is not published; "
            "restore it from a backup of the checkpoint"
        )


def _record(batch: int) -> str:
    return f"{RECORDS}/{batch:012d}.json"


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]
