"""A history as data: settings, and steps with rows and faults. It is made from a seed alone.

A history begins with a *past*, a few batches without faults; histories with neighbouring seeds share
it, so that it is played once for all of them. Then come one to three steps with faults. At the end the
faults stop, and a new driver has to finish everything (`play`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from headgate_lab.chaos.faults import BEFORE, DISK_ONLY, IN_TASKS, KINDS, OBJECTS_ONLY, Fault

SHARED = 64
"""So many histories share a past."""
OPERATORS = ("sum", "last", "dedup", "windows", "two stages")
KEYS = 7
"""Rows have few keys, so that steps touch the same ones."""
Route = tuple[str, int, int]


@dataclass(frozen=True)
class Settings:
    """What the stage is, and where it runs."""

    profile: str = "objects"
    """`objects` or `disk`."""
    way: str = "stage"
    """`stage` (Spark delivers batches) or `direct` (Headgate plans them)."""
    operator: str = "sum"
    bins: int = 4
    channels: int = 2
    executors: int = 2
    sink: str = "parquet"
    """`parquet`, `function` or `memory`."""
    durable: bool = True
    gate: int = 0
    """Rows of a wave; 0 for no gate."""
    memory: int = 0
    """Bytes of state that a channel may hold; 0 for no limit."""
    arrivals: int = 0
    buffer: int = 0
    tried: bool = True
    """Whether drivers know that the store can be used; otherwise each tries it first."""


@dataclass(frozen=True)
class Step:
    """Rows arrive, and a driver processes them."""

    rows: tuple[int, ...] = ()
    """The keys of the rows."""
    route: Route | None = None
    """A change of the routing that is proposed at the end of the next batch."""
    restart: str = ""
    """`new`: the driver of before has ended, and another one begins. `again`: the same stage is used on."""
    channels: int = 0
    """The number of channels of a new driver; 0 for that of before."""
    faults: tuple[Fault, ...] = ()
    drain: bool = False
    """Whether the driver drains the stage then, as at the end of a query."""


@dataclass(frozen=True)
class History:
    """Everything that a run depends on."""

    seed: int
    settings: Settings
    past: tuple[Step, ...]
    steps: tuple[Step, ...]

    @property
    def size(self) -> int:
        """How much there is to read in it."""
        steps = self.past + self.steps
        return sum(1 + len(s.rows) + 3 * len(s.faults) + bool(s.route) + bool(s.restart) for s in steps)


def history(seed: int) -> History:
    """The history of a seed."""
    settings, past = _past(seed // SHARED)
    chance = Random(f"steps {seed}")
    steps = [_step(chance, settings, faults=True)]
    while chance.random() < 0.2 and len(steps) < 3:
        steps.append(_step(chance, settings, faults=chance.random() < 0.6))
    return History(seed, settings, past, tuple(steps))


def _past(number: int) -> tuple[Settings, tuple[Step, ...]]:
    chance = Random(f"past {number}")
    settings = Settings(
        profile=chance.choice(["objects", "objects", "disk"]),
        way=chance.choice(["stage", "direct"]),
        operator=chance.choice([*OPERATORS, "sum", "last", "windows"]),
        bins=chance.randint(2, 6),
        channels=1,
        executors=chance.randint(1, 2),
        sink=chance.choice(["parquet", "parquet", "function", "memory"]),
        durable=True,
        tried=chance.random() < 0.8,
    )
    settings = replace(settings, channels=chance.choice([1, 1, 1, 1, 2, 2, 2, min(3, settings.bins)]))
    kind = chance.random()
    if kind < 0.12:
        settings = replace(settings, memory=1)
    elif kind < 0.2:
        settings = replace(settings, arrivals=1)
    elif kind < 0.26:
        settings = replace(settings, buffer=1 << 16)
    elif kind < 0.36 and settings.way == "stage":
        settings = replace(settings, gate=chance.randint(2, 3))
    length = chance.choice([0, 1, 2, 3, 5, 7])
    return settings, tuple(_step(chance, settings, faults=False) for _ in range(length))


def _step(chance: Random, settings: Settings, *, faults: bool) -> Step:
    rows = tuple(
        min(chance.randrange(KEYS), chance.randrange(KEYS)) for _ in range(chance.choice([1, 2, 3, 4, 6]))
    )
    route: Route | None = None
    waits = settings.memory or settings.arrivals or settings.buffer
    if chance.random() < (0.6 if waits else 0.4):
        kinds = ["move", "move", "move", "pin", "pin", "unpin", "channels"]
        if waits:  # rows may wait for a key whose pin changes
            kinds += ["pin", "unpin", "unpin"]
        if settings.operator == "sum":
            kinds.append("split")
        route = (chance.choice(kinds), chance.randrange(8), chance.randrange(8))
    restart = chance.choice(["", "", "", "", "new", "again"])
    channels = chance.randint(1, min(3, settings.bins)) if restart == "new" and chance.random() < 0.2 else 0
    chosen = tuple(_fault(chance, settings) for _ in range(chance.choice([1, 1, 1, 2]))) if faults else ()
    return Step(rows, route, restart, channels, chosen, drain=chance.random() < 0.06)


def kinds_of(settings: Settings) -> list[str]:
    """The kinds of faults that can strike under these settings."""
    unfit = set(OBJECTS_ONLY if settings.profile == "disk" else DISK_ONLY)
    if settings.way == "stage":
        unfit.add("range vanishes")
    if not settings.durable:
        unfit.add("power loss")
    return [kind for kind in KINDS if kind not in unfit]


WEIGHTS = {"kill": 5, "sleep": 6, "kill after": 2, "late kill": 3, "power loss": 6, "zombie task": 3}


def _fault(chance: Random, settings: Settings) -> Fault:
    kinds = kinds_of(settings)
    (kind,) = chance.choices(kinds, [WEIGHTS.get(kind, 1) for kind in kinds])
    if kind in BEFORE:
        return Fault(kind, pick=chance.randrange(1 << 16))
    if kind in IN_TASKS:
        return Fault(kind, chance.randrange(4), later=chance.randrange(60), pick=chance.randrange(1 << 16))
    reads = kind in ("sleep", "error") and chance.random() < 0.5
    longest = (24 if settings.profile == "objects" else 70) * (2 if reads else 1)
    later = 0
    if kind in ("late", "late kill", "twice", "sleep"):
        later = chance.choice([1, chance.randrange(12), chance.randrange(60), 10_000])
    elif kind == "full":
        later = chance.randrange(10)
    return Fault(kind, chance.randrange(longest), any=reads, later=later, pick=chance.randrange(1 << 16))
