"""A stage's checkpoint: who it belongs to, what is committed, and the housekeeping.

    headgate.json          identity: key, operator, bins; written once
    commits/<batch>.json   one `Manifest` per batch; the last is the truth, creating it is the commit
    state/<batch>-...      state files, named by the attempt that wrote them
    backlog/<batch>-...    rows that wait, likewise
    output/<batch>/        output waiting to be published (function and memory sinks)
    aside/output/<batch>/  likewise rows that could not be used
    journal/<n>.jsonl      reports and decisions, one line a batch

Only the driver writes here, except that tasks add files to `state`, `backlog` and `output` under names of their own.
Whatever no manifest names is rubbish; it is swept after this run's first commit and not before. Until then a
run that was thought dead may still commit the batch under way, and would find its files gone; afterwards its
commit fails, because the batch is there already.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from typing import Any

import xxhash

from headgate.errors import BatchOrder, CheckpointError, CheckpointMismatch, CorruptState, NewerFormat
from headgate.spark.manifest import Manifest
from headgate.spark.store import Store

FORMAT = 1
KEPT_COMMITS = 2
LINES_PER_JOURNAL = 1000
IDENTITY = "headgate.json"
OUTPUTS = ("output", "aside/output")
_REMEDY = "restore it from a backup of the checkpoint"


class Checkpoint:
    """The driver's view of a stage's checkpoint."""

    def __init__(
        self, store: Store, identity: dict[str, Any], *, adopt: frozenset[str] = frozenset()
    ) -> None:
        """Open or make a checkpoint; what is in `adopt` is taken from an old one as it is, not compared."""
        self.store = store
        self.identity = self._claim(identity, adopt)
        self.stage = str(self.identity["stage"])
        store.make("commits", "state", "backlog", "output", "journal")
        self.last = latest(store)
        self._swept = False
        if self.last is not None:
            self._mend_journal(self.last)

    def _claim(self, identity: dict[str, Any], adopt: frozenset[str]) -> dict[str, Any]:
        where = self.store.path(IDENTITY)
        if not self.store.exists(IDENTITY):
            if self.store.names("commits"):
                raise CorruptState(f"{where} is missing beside committed batches; {_REMEDY}")
            self.store.make("")
            new = {"format": FORMAT, "stage": uuid.uuid4().hex[:12], **identity}
            with suppress(FileExistsError):  # another run was faster: then this must be the same stage
                self.store.create(
                    IDENTITY, json.dumps({**new, "checksum": _checksum(new)}, indent=1).encode()
                )
        try:
            found = json.loads(self.store.read(IDENTITY))
            version, _, checksum = int(found["format"]), str(found["stage"]), found.pop("checksum", None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptState(f"{where} cannot be read ({error}); {_REMEDY}") from error
        if version > FORMAT:
            raise NewerFormat(
                f"{where} has format {version}, and this headgate reads up to {FORMAT}; upgrade headgate"
            )
        if checksum != _checksum(found):
            raise CorruptState(f"{where} is damaged: its checksum does not match; {_REMEDY}")
        for name, value in identity.items():
            if name not in adopt and found.get(name) != value:
                raise CheckpointMismatch(
                    f"checkpoint {self.store.path()} was made with {name} = {json.dumps(found.get(name))}, and the stage now has "
                    f"{json.dumps(value)}; put it back as it was, or give the changed stage a checkpoint of its own"
                )
        return dict(found)

    def commit(self, manifest: Manifest) -> None:
        """The atomic step. After it returns, the batch is done for ever."""
        create_commit(self.store, manifest.batch, manifest.encode())
        self.last = manifest
        if not self._swept:
            self._sweep(manifest)
            self._swept = True

    def write_journal(self, line: str, batch: int) -> None:
        """Append a line to the journal."""
        self.store.append(_journal_name(batch), line)

    def retire(self, before: Manifest | None, now: Manifest) -> None:
        """Remove what the commit of `now` made needless."""
        if before is None:
            return
        self.discard(before, now)
        self.store.remove(*(f"backlog/{name}" for name in before.backlog.files - now.backlog.files))
        self.store.remove(*(f"{folder}/{before.batch:012d}" for folder in OUTPUTS))
        old = [n for n in self.store.names("commits") if n.endswith(".json")][:-KEPT_COMMITS]
        self.store.remove(*(f"commits/{n}" for n in old))

    def discard(self, before: Manifest, now: Manifest) -> None:
        """Remove state files that `before` names and `now` does not."""
        kept = {f.name for f in now.files}
        self.store.remove(*(f"state/{f.name}" for f in before.files if f.name not in kept))

    def _sweep(self, last: Manifest) -> None:
        """Remove what attempts left behind that never were committed."""
        kept = {f.name for f in last.files}
        self.store.remove(*(f"state/{n}" for n in self.store.names("state") if n not in kept))
        waiting = last.backlog.files
        self.store.remove(*(f"backlog/{n}" for n in self.store.names("backlog") if n not in waiting))
        current = f"{last.batch:012d}"
        for folder in OUTPUTS:
            self.store.remove(*(f"{folder}/{n}" for n in self.store.names(folder) if n != current))
        self.store.remove(*(f"commits/{n}" for n in self.store.names("commits") if not n.endswith(".json")))

    def _mend_journal(self, last: Manifest) -> None:
        """A crash can leave the last line torn or missing; the manifest has it."""
        name = _journal_name(last.batch)
        lines = (
            self.store.read(name).decode("utf-8", errors="replace").split("\n")
            if self.store.exists(name)
            else []
        )
        whole = [line for line in lines if _is_json(line)]
        if not whole or whole[-1] != last.journal:
            whole.append(last.journal)
        wanted = "\n".join(whole) + "\n"
        if wanted != "\n".join(lines):
            self.store.replace(name, wanted.encode())

    def journal_lines(self) -> list[str]:
        """All lines of the journal, oldest first."""
        names = [f"journal/{n}" for n in self.store.names("journal")]
        return [line for n in names for line in self.store.read(n).decode().splitlines() if line]


def create_commit(store: Store, batch: int, data: bytes) -> None:
    """Bind a batch for ever; a second driver on the same checkpoint is refused by name."""
    name = commit_name(batch)
    try:
        store.create(name, data)
    except FileExistsError:
        if store.read(name) != data:  # else it is ours: created by a request whose answer was lost
            raise CheckpointError(
                f"{store.path(name)} exists: another run of this stage has committed batch {batch}; "
                "stop one of the two, they must not share a checkpoint"
            ) from None


def check_order(batch: int, last: int | None, where: str, *, part: bool = False) -> None:
    """Whether Spark's next batch is the one after what is committed; `part` says that the last is so in part."""
    if last is None or (batch == last + 1 and not part):
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


def latest(store: Store) -> Manifest | None:
    """What is committed last in a checkpoint, whoever it belongs to."""
    names = [n for n in store.names("commits") if n.endswith(".json")]
    if not names:
        return None
    name = f"commits/{names[-1]}"
    return Manifest.decode(store.read(name), store.path(name))


def _checksum(identity: dict[str, Any]) -> str:
    return xxhash.xxh3_64_hexdigest(json.dumps(identity, sort_keys=True).encode())


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def commit_name(batch: int) -> str:
    """Where the record of a batch lies."""
    return f"commits/{batch:012d}.json"


def _journal_name(batch: int) -> str:
    return f"journal/{batch // LINES_PER_JOURNAL:06d}.jsonl"


def starts_journal(batch: int) -> bool:
    """Whether the line of this batch is the first of a file."""
    return batch % LINES_PER_JOURNAL == 0
