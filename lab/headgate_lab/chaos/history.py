"""A history as data: settings, and steps with rows and faults. It is made from a seed alone.

A history begins with a *past*, a few batches without faults; histories with neighbouring seeds share
it, so that it is played once for all of them. Then come one to three steps with faults. At the end the
faults stop, and a new driver has to finish everything (`play`).

What is rare everywhere is never seen together with another rare thing. So histories that share a past
have *habits* of their own: some are full of pins, others of naps. And half of the faults are
placed by what an operation is, so that the one that creates an entry of the log is struck as often as the many
that write files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from random import Random
from typing import TypeVar

from headgate_lab.chaos import service_history as service
from headgate_lab.chaos.faults import BEFORE, DISK_ONLY, IN_TASKS, KINDS, OBJECTS_ONLY, ON_READS, Fault

SHARED = 32
"""So many histories share a past."""
OPERATORS = ("sum", "sum", "last", "last", "windows", "windows", "dedup", "two stages", "kernel", "join")
LIMITS_OF_WINDOWS = ("none", "none", "memory", "memory", "arrivals", "buffer", "gate", "gate")
LIMITS = (*["none"] * 8, *["memory"] * 3, "arrivals", "buffer", "buffer", "gate", "gate")
KEYS = 7
"""Rows have few keys, so that steps touch the same ones."""
Route = tuple[str, int, int]
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What the stage is, and where it runs."""

    profile: str = "objects"
    """`objects` or `disk`."""
    way: str = "stage"
    """`stage` (Spark delivers batches), `direct` (Headgate plans them) or `service` (Spark delivers
    batches to the query service: then channels are its servers).
    """
    operator: str = "sum"
    bins: int = 4
    channels: int = 2
    executors: int = 2
    sink: str = "parquet"
    """`parquet`, `function` or `memory`."""
    durable: bool = True
    """Whether what is committed must survive a loss of power."""
    gate: int = 0
    """Rows of a wave; 0 for no gate."""
    memory: int = 0
    """Bytes of state that a channel may hold; 0 for no limit."""
    arrivals: int = 0
    buffer: int = 0
    tried: bool = True
    """Whether drivers know that the store can be used; otherwise each tries it first."""
    kept: int = 0
    """Of how many batches a service keeps the results; 0 for all."""
    every: int = 1
    """On an object store, the batches between two removals of obsolete files."""
    source: str = "log"
    """Of a direct stream: `log`, or `files` that the product's own source reads."""


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


@dataclass(frozen=True)
class Habits:
    """What is frequent in the histories that share a past."""

    new: bool
    """Whether nothing has happened before."""
    keys: int
    """Rows have so many keys."""
    rows: tuple[int, ...]
    """The numbers of rows of a step, one of which is drawn."""
    routes: tuple[str, ...]
    """The changes of routing, likewise."""
    route: float
    """The part of the steps that change the routing."""
    drain: float
    """The part of the steps that drain the stage."""
    faults: Mapping[str, int]
    """The weights of kinds of faults."""


def history(seed: int) -> History:
    """The history of a seed."""
    settings, habits, past = _past(seed // SHARED)
    chance = Random(f"steps {seed}")
    steps = [_step(chance, settings, habits, faults=True)]
    while chance.random() < 0.2 and len(steps) < 3:
        steps.append(_step(chance, settings, habits, faults=chance.random() < 0.6))
    return History(seed, settings, past, tuple(steps))


@lru_cache(maxsize=4)
def _past(number: int) -> tuple[Settings, Habits, tuple[Step, ...]]:
    chance = Random(f"past {number}")
    operator = _dealt(number, OPERATORS)
    limit = _dealt(number, LIMITS_OF_WINDOWS if operator == "windows" else LIMITS)
    bins = chance.randint(2, 6)
    settings = Settings(
        profile=_dealt(number, ("objects", "objects", "disk")),
        way="stage" if limit == "gate" else _dealt(number, ("stage", "direct")),
        operator=operator,
        bins=bins,
        channels=min(bins, chance.choice([1, 2, 2, 3] if operator == "sum" else [1, 1, 1, 1, 2, 2, 2, 3])),
        executors=chance.randint(1, 2),
        sink=_dealt(number, ("parquet", "parquet", "function", "memory")),
        durable=_dealt(number, (True, True, True, True, False)),
        tried=chance.random() < 0.8,
        gate=chance.randint(2, 3) if limit == "gate" else 0,
        memory=1 if limit == "memory" else 0,
        arrivals=1 if limit == "arrivals" else 0,
        buffer=1 << 16 if limit == "buffer" else 0,
    )
    if settings.way == "direct" and settings.profile == "objects" and operator != "join":
        settings = replace(settings, source=_dealt(number, ("log", "files")))
    if settings.profile == "objects":
        settings = replace(settings, every=_dealt(number, (1, 1, 3, 4)))
    if is_service(number):
        settings = _of_service(number // service.ONE_OF, settings)
    length = _dealt(number, (0, 0, 1, 2, 3, 5, 7))
    habits = _habits(chance, settings, new=not length)
    return settings, habits, tuple(_step(chance, settings, habits, faults=False) for _ in range(length))


def seeds(way: str = "") -> Iterator[int]:
    """All seeds, or those whose histories are of the service."""
    for number in count():
        if way != "service" or is_service(number):
            yield from range(number * SHARED, (number + 1) * SHARED)


def is_service(number: int) -> bool:
    """Whether a past is that of a service."""
    return _dealt(number, tuple(range(service.ONE_OF))) == 0


def _of_service(number: int, settings: Settings) -> Settings:
    return replace(
        Settings(
            settings.profile, "service", _dealt(number, service.OPERATORS), executors=settings.executors
        ),
        channels=_dealt(number, service.SERVERS),
        sink="memory",
        tried=settings.tried,
        kept=_dealt(number, service.KEPT),
    )


def _dealt(number: int, cards: tuple[T, ...]) -> T:
    """One of the cards, which are dealt to pasts without putting them back: a few pasts see all of them."""
    deal, at = divmod(number, len(cards))
    return Random(f"{cards} {deal}").sample(cards, len(cards))[at]


def _habits(chance: Random, settings: Settings, *, new: bool) -> Habits:
    waits = settings.memory or settings.arrivals or settings.buffer
    routes = [("move", "move", "move", "pin", "pin", "unpin", "channels"), ("pin", "pin", "unpin")]
    if settings.operator == "sum":
        routes += [("split", "split", "unpin", "move"), ("split", "unpin")]
    if waits:
        routes.append(("pin", "pin", "unpin", "unpin", "move"))
    if settings.way == "service":
        routes = list(service.ROUTES)
    habit = chance.choice(routes)
    splits = "split" in habit  # then every piece needs rows of its own
    route = chance.choice([0.2, 0.4, 0.9 if waits else 0.6])
    return Habits(
        new=new,
        keys=2 if splits else chance.choice([2, 4, KEYS, KEYS]),
        rows=(4, 6) if splits else chance.choice([(1, 2, 3, 4, 6), (1, 2, 3, 4, 6), (1, 2), (4, 6)]),
        routes=habit,
        route=0.8 if splits or settings.way == "service" else route,
        drain=chance.choice([0.0, 0.0, 0.05, 0.25]),
        faults={kind: WEIGHTS.get(kind, 2) * chance.choice([0, 1, 1, 1, 3]) for kind in kinds_of(settings)},
    )


def _step(chance: Random, settings: Settings, habits: Habits, *, faults: bool) -> Step:
    keys = habits.keys
    rows = tuple(
        min(chance.randrange(keys), chance.randrange(keys)) for _ in range(chance.choice(habits.rows))
    )
    route: Route | None = None
    if chance.random() < habits.route:
        route = (chance.choice(habits.routes), chance.randrange(8), chance.randrange(8))
    restart = chance.choice(["", "", "again", "again", "new"])
    channels = chance.randint(1, min(3, settings.bins)) if restart == "new" and chance.random() < 0.2 else 0
    chosen = (
        tuple(_fault(chance, settings, habits) for _ in range(chance.choice([1, 1, 1, 2]))) if faults else ()
    )
    return Step(rows, route, restart, channels, chosen, drain=chance.random() < habits.drain)


def kinds_of(settings: Settings) -> list[str]:
    """The kinds of faults that can strike under these settings."""
    unfit = set(OBJECTS_ONLY if settings.profile == "disk" else DISK_ONLY)
    if settings.way != "direct":
        unfit.add("range vanishes")
    if not settings.durable:
        unfit.add("power loss")
    return [kind for kind in KINDS if kind not in unfit]


WEIGHTS = {
    "kill": 6, "kill after": 4, "late kill": 4, "sleep": 8, "naps": 8, "power loss": 10, "error": 4,
    "zombie task": 4, "bit rot": 3, "cold cache": 1, "range vanishes": 1, "clock jumps": 1,
}  # fmt: skip
"""How often kinds of faults are drawn, on average; 2 for others."""


def _fault(chance: Random, settings: Settings, habits: Habits) -> Fault:
    (kind,) = chance.choices([*habits.faults, "kill"], [*habits.faults.values(), 1])
    pick = chance.randrange(1 << 16)
    if kind == "bit rot":
        return Fault(kind, place=chance.choice(_stored(settings)), pick=pick)
    if kind in BEFORE:
        return Fault(kind, pick=pick)
    if kind == "stale listing":
        return Fault(
            kind, chance.randrange(6), any=True, place="list", later=chance.choice([1, 1, 2, 3, 5, 9])
        )
    if kind in IN_TASKS:
        return Fault(kind, chance.randrange(4), later=chance.randrange(100), pick=pick)
    reads = kind in ON_READS and chance.random() < 0.6
    place, at = _place(chance, settings, new=habits.new, reads=reads)
    later = 0
    if kind in ("late", "late kill", "twice", "sleep"):
        later = chance.choice([1, chance.randrange(8), chance.randrange(24), chance.randrange(100), 10_000])
    elif kind == "full":
        later = chance.randrange(10)
    elif kind == "naps":
        later = chance.choice([2, 4, 8, 16])
    until = ""
    if kind == "sleep" and chance.random() < 0.4:
        until, later = _place(chance, settings, new=habits.new, reads=False)[0], 10_000
    return Fault(kind, at, any=reads, place=place, later=later, until=until, pick=pick)


def _place(chance: Random, settings: Settings, *, new: bool, reads: bool) -> tuple[str, int]:
    """Where a fault strikes: at any operation, or at one of a kind, of which a driver needs roughly
    so many for its first batch.
    """
    disk = settings.profile == "disk"
    longest = (70 if disk else 24) * (2 if reads else 1)
    if chance.random() < 0.4:
        return "", chance.randrange(longest)
    places = {"log": 12 if disk else 4, "remove": 6 if disk else 4, "state": 6 if disk else 3}
    places |= {("link" if disk else "create"): 4, "journal": 2}
    if new or reads:
        places["headgate.json"] = 5 if disk else 1
    if settings.memory or settings.arrivals or settings.buffer:
        places["backlog"] = 4
    if settings.gate:
        places["waves"] = 6
    if settings.sink == "parquet":
        places |= {"_batches": 6 if disk else 2, "batch=": 2 if disk else 4}
        if disk:
            places |= {"_staging": 12, "rename": 3}
        if new or reads:
            places["_headgate.json"] = 5 if disk else 1
    else:
        places["output"] = 12 if disk else 4
    if settings.way == "service":
        places = service.places(disk=disk)
    if reads:
        places |= {"list": 12, "look": 8, "read": 8}
    place = chance.choice([*places, "log", "log"])
    return place, chance.randrange(places[place] * (2 if reads else 1))


def _stored(settings: Settings) -> list[str]:
    """Kinds of stored files."""
    if settings.way == "service":
        return service.STORED
    kinds = ["state", "state", "state", "log", "journal", "headgate.json"]
    if settings.memory or settings.arrivals or settings.buffer:
        kinds += ["backlog", "backlog"]
    if settings.sink != "parquet":
        return [*kinds, "output"]
    staged = ["_staging"] if settings.profile == "disk" else []
    return [*kinds, *staged, "_batches", "_headgate.json"]
