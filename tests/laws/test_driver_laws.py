"""Law 12: a driver that is not the newest changes nothing. Every interleaving of two drivers' steps, on the product's own code.

Each driver is a coroutine that stops before every operation on the store that another driver could notice; the explorer lets one of
them go on at a time, and tries every choice. What a driver does next depends only on what it has seen, so two schedules that led
to the same store and the same sights need only one continuation: that makes it possible to try them all.
"""

import json
from collections.abc import Callable
from functools import partial

import greenlet
import pytest

from headgate.errors import Superseded
from headgate.routing.table import Table
from headgate.storage.checkpoint import Checkpoint
from headgate.storage.commit_log import CommitLog, Driver
from headgate.storage.manifest import Delivery, Manifest
from headgate.storage.state_index import StateFile, StateIndex, live_files

ONE = Table.uniform(2, 1)
IDENTITY = {"key": [["k", "int64"]], "bins": 4, "operator": "test"}


class MemoryStore:
    """A store with the operations that a checkpoint uses: each is one step, and exclusive where it says so."""

    def __init__(
        self,
        files: dict[str, bytes],
        step: Callable[[str], None] = lambda what: None,
        saw: Callable[[object], None] = lambda what: None,
        prefix: str = "",
    ) -> None:
        self.files, self.step, self.saw, self.prefix = files, step, saw, prefix

    def path(self, name: str = "") -> str:
        return f"/{self.prefix}{name}"

    def child(self, name: str) -> "MemoryStore":
        return MemoryStore(self.files, self.step, self.saw, f"{self.prefix}{name}/")

    appends = True

    def check(self) -> None: ...

    def abandon(self, *_: object) -> None: ...

    def make(self, *names: str) -> None: ...

    def _noticed(self, name: str) -> bool:
        """The log and the state; journals are each driver's own, and nothing here has a backlog."""
        return (self.prefix + name).startswith(("log", "state"))

    def names(self, folder: str) -> list[str]:
        start = f"{self.prefix}{folder.rstrip('/')}/" if folder.rstrip("/") else self.prefix
        if self._noticed(folder):
            self.step(f"list {start}")
        found = sorted({n.removeprefix(start).split("/")[0] for n in self.files if n.startswith(start)})
        self.saw(tuple(found))
        return found

    def read(self, name: str) -> bytes:
        if self._noticed(name):
            self.step(f"read {name}")
        found = self.files.get(self.prefix + name)
        self.saw(found)
        if found is None:
            raise FileNotFoundError(name)
        return found

    def exists(self, name: str) -> bool:
        if self._noticed(name):
            self.step(f"look {name}")
        found = self.prefix + name in self.files
        self.saw(found)
        return found

    def create(self, name: str, data: bytes) -> None:
        if self._noticed(name):
            self.step(f"create {name}")
        self.saw(self.prefix + name in self.files)
        if self.prefix + name in self.files:
            raise FileExistsError(name)
        self.files[self.prefix + name] = data

    def replace(self, name: str, data: bytes) -> None:
        self.write(name, [data])

    def write(self, name: str, parts: list[bytes]) -> None:
        if self._noticed(name):
            self.step(f"write {name}")
        self.files[self.prefix + name] = b"".join(parts)

    def append(self, name: str, line: str) -> None:
        if self._noticed(name):
            self.step(f"append {name}")
        self.files[self.prefix + name] = self.files.get(self.prefix + name, b"") + line.encode() + b"\n"

    def remove(self, *names: str) -> None:
        for name in names:
            if self._noticed(name):
                self.step(f"remove {name}")
            whole = self.prefix + name
            for found in [n for n in self.files if n == whole or n.startswith(f"{whole}/")]:
                del self.files[found]


class Task:
    """One driver: a coroutine that takes a step when it is told to."""

    def __init__(self, number: int, work: Callable[["Task"], None]) -> None:
        self.number, self._work = number, work
        self.done = False
        self.seen = 0
        self.steps: list[str] = []
        self.committed: list[int] = []
        self._self = greenlet.greenlet(self._run)

    def go(self) -> None:
        """One operation, and on to where the next would begin."""
        self._self.switch()

    def step(self, what: str) -> None:
        self._self.parent.switch()
        self.steps.append(what)

    def saw(self, what: object) -> None:
        self.seen = hash((self.seen, what))

    def _run(self) -> None:
        try:
            self._work(self)
        except Superseded:
            self.steps.append("superseded")
        self.done = True


def manifest_after(checkpoint: Checkpoint, touched: int) -> Manifest:
    before = checkpoint.last
    batch = before.batch + 1 if before else 0
    bases = dict(before.state.bases) if before else {}
    bases[touched] = batch  # a snapshot: files before it are needed no more
    name = f"{batch:012d}-00000-{checkpoint.run}-0.hgs"
    checkpoint.store.write(f"state/{name}", [b"state"])
    files = live_files(
        (*(before.state.files if before else ()), StateFile(name, batch, frozenset([touched]))), bases
    )
    line = json.dumps({"report": {"batch": batch}})
    return Manifest(
        batch=batch,
        run=checkpoint.run,
        channels=1,
        delivery=Delivery(number=batch),
        table=ONE,
        state=StateIndex(files=files, bases=bases),
        journal=line,
    )


def drive(files: dict[str, bytes], task: Task, batches: int) -> None:
    """Take the query, and commit some batches: what a stage does to its checkpoint."""
    store = MemoryStore(files, task.step, task.saw)
    me = Driver("host", task.number, "then", f"{task.number:08x}")
    checkpoint = Checkpoint(store, IDENTITY, me=me)  # type: ignore[arg-type]
    checkpoint.take()
    for n in range(batches):
        before = checkpoint.last
        manifest = manifest_after(checkpoint, n % 2)
        checkpoint.commit(manifest)
        task.committed.append(manifest.batch)
        checkpoint.retire(before, manifest)


def begun() -> dict[str, bytes]:
    """A checkpoint with two batches of a driver that is gone."""
    files: dict[str, bytes] = {}
    store = MemoryStore(files)
    checkpoint = Checkpoint(store, IDENTITY, me=Driver("host", 0, "then", "00000000"))  # type: ignore[arg-type]
    checkpoint.identify()
    checkpoint.take()
    for n in range(2):
        before = checkpoint.last
        manifest = manifest_after(checkpoint, n)
        checkpoint.commit(manifest)
        checkpoint.retire(before, manifest)
    return files


class World:
    """Two drivers on one store, brought to a state by a schedule. The first may have taken the query before the second begins."""

    def __init__(
        self, start: dict[str, bytes], batches: tuple[int, int], schedule: tuple[int, ...], *, ahead: bool
    ) -> None:
        self.files = dict(start)
        self.tasks = [Task(i + 1, partial(drive, self.files, batches=n)) for i, n in enumerate(batches)]
        self.tasks[0].go()  # up to its first operation
        while ahead and not any(step.startswith("write") for step in self.tasks[0].steps):
            self.tasks[0].go()
        self.tasks[1].go()
        for choice in schedule:
            self.tasks[choice].go()

    @property
    def key(self) -> tuple[object, ...]:
        sights = tuple((len(task.steps), task.seen, task.done) for task in self.tasks)
        return hash_of(self.files), sights


def hash_of(files: dict[str, bytes]) -> int:
    return hash(tuple(sorted(files.items())))


def check(world: World) -> None:
    """What must hold after every step."""
    store = MemoryStore(world.files)
    log = CommitLog(store)  # type: ignore[arg-type]
    last = log.last()
    assert last is not None
    manifest = Manifest.from_json(last.body or {})
    missing = [f.name for f in manifest.state.files if f"state/{f.name}" not in world.files]
    assert not missing, f"the live query lost {missing}: {[task.steps for task in world.tasks]}"
    made = sorted(batch for task in world.tasks for batch in task.committed)
    assert len(set(made)) == len(made), f"batch committed by both: {made}"
    assert all(batch <= manifest.batch for batch in made), (
        f"a commit was undone: {made}, last is {manifest.batch}"
    )


def explore(batches: tuple[int, int], *, ahead: bool, most: int = 50_000) -> int:
    """Visit every state that two drivers can reach; returns how many there are."""
    start = begun()
    seen: set[object] = set()
    todo: list[tuple[int, ...]] = [()]
    while todo:
        schedule = todo.pop()
        world = World(start, batches, schedule, ahead=ahead)
        check(world)
        while (key := world.key) not in seen:
            seen.add(key)
            assert len(seen) <= most, "more states than were thought of; raise the limit if that is right"
            able = [choice for choice, task in enumerate(world.tasks) if not task.done]
            if not able:
                break
            # This world goes on with the last choice; each other one takes a world of its own, from the start.
            todo += [(*schedule, choice) for choice in able[:-1]]
            world.tasks[able[-1]].go()
            schedule = (*schedule, able[-1])
            check(world)
    return len(seen)


@pytest.mark.parametrize(
    ("batches", "ahead"),
    [
        pytest.param((1, 1), False, id="both begin at once"),
        pytest.param((1, 2), True, id="one sleeps in its batch while the other commits two"),
        pytest.param((1, 3), True, id="one sleeps while the other commits three", marks=pytest.mark.full),
        pytest.param((2, 2), True, id="two batches each", marks=pytest.mark.full),
        pytest.param((1, 2), False, id="both begin, one commits twice", marks=pytest.mark.full),
    ],
)
def test_only_the_newest_driver_changes_anything_in_every_interleaving(
    batches: tuple[int, int], ahead: bool
) -> None:
    assert explore(batches, ahead=ahead) > 100
