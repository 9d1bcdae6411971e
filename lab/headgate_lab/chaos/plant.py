"""`headgate chaos --plant`: does the simulator find bugs? A written list of them is planted, one at a time.

A mutant (`mutants/*.toml`) replaces a text that occurs once in a module by another: a mistake that a person
could make. Each runs in a process of its own, which changes the module as it loads it (`planted`) and plays
histories until one fails. The product's files are never touched.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table as Grid

from headgate.errors import ConfigError

LISTS = Path(__file__).parent / "mutants"
LIMIT = 20_000
"""A mutant that survives so many histories is missed."""
ENOUGH = 0.95
"""The part of the mutants that must be caught."""
SLOWEST = 0.1
"""Seconds that a history may take at most, on average."""


@dataclass(frozen=True)
class Mutant:
    """A planted bug: `old` occurs once in the source of `module`, and is replaced by `new`."""

    area: str
    name: str
    module: str
    old: str
    new: str
    way: str = ""
    """`service` if only histories of the service can find it."""


@dataclass(frozen=True)
class Hunt:
    """What came of a mutant."""

    mutant: Mutant
    seed: int | None
    """The first history that failed; None if it was missed."""
    problem: str
    histories: int
    """How many were played; 0 if that is not known."""
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether a history failed."""
        return self.seed is not None


@dataclass
class Plantation:
    """What came of all of them."""

    hunts: list[Hunt] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def caught(self) -> list[Hunt]:
        """Those that were found."""
        return [hunt for hunt in self.hunts if hunt.caught]

    @property
    def missed(self) -> list[str]:
        """The names of those that were not."""
        return [hunt.mutant.name for hunt in self.hunts if not hunt.caught]

    @property
    def enough(self) -> bool:
        """Whether enough were caught."""
        return len(self.caught) >= ENOUGH * len(self.hunts)

    def as_json(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        return {
            "planted": len(self.hunts),
            "caught": len(self.caught),
            "missed": self.missed,
            "seconds": round(self.seconds, 1),
            "mutants": [
                {
                    "area": hunt.mutant.area,
                    "name": hunt.mutant.name,
                    "seed": hunt.seed,
                    "histories": hunt.histories,
                    "problem": hunt.problem,
                    "seconds": hunt.seconds,
                }
                for hunt in self.hunts
            ],
        }


def mutants(part: str = "") -> list[Mutant]:
    """The list, or those of it with this text in their area or name."""
    found = []
    for file in sorted(LISTS.glob("*.toml")):
        listed = tomllib.loads(file.read_text(encoding="utf-8"))
        for entry in listed["mutant"]:
            mutant = Mutant(file.stem, **entry, way=listed.get("way", ""))
            if part.lower() in f"{mutant.area}: {mutant.name}".lower():
                found.append(mutant)
    if not found:
        raise ConfigError(f"no mutant has {part!r} in its name")
    return found


def source_of(module: str) -> str:
    """The source of a module of the product, which is not imported for this."""
    package, *inner = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"there is no package {package}")
    path = Path(spec.submodule_search_locations[0], *inner).with_suffix(".py")
    return path.read_text(encoding="utf-8")


def planted(mutant: Mutant) -> str:
    """The source of the mutant's module with the bug in it."""
    source = source_of(mutant.module)
    if source.count(mutant.old) != 1 or mutant.old == mutant.new:
        raise ConfigError(
            f"{mutant.name!r} replaces a text that occurs {source.count(mutant.old)} times in {mutant.module}: a mutant names a text "
            f"that occurs once, and another one. Correct {LISTS.name}/{mutant.area}.toml"
        )
    return source.replace(mutant.old, mutant.new)


def hunt(mutant: Mutant, limit: int = LIMIT) -> Hunt:
    """Play histories with the bug in a process of its own, until one fails."""
    planted(mutant)
    asked = {**asdict(mutant), "limit": limit}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    child = subprocess.Popen(
        [sys.executable, "-m", "headgate_lab.chaos.planted"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    _hunting.add(child)
    try:
        said, complaint = child.communicate(json.dumps(asked), timeout=60 + SLOWEST * limit)
    except subprocess.TimeoutExpired as late:
        return Hunt(mutant, None, f"it did not end in {late.timeout:.0f} s", 0, late.timeout)
    finally:
        child.kill()
        _hunting.discard(child)
    if child.returncode < 0:
        return Hunt(mutant, None, f"its process was ended by signal {-child.returncode}", 0, 0.0)
    if child.returncode:
        raise ConfigError(f"{mutant.name!r} could not be planted: {complaint.strip()[-400:]}")
    return Hunt(mutant, **json.loads(said.splitlines()[-1]))


_hunting: set[subprocess.Popen[str]] = set()


def hunt_all(
    chosen: Sequence[Mutant], limit: int, jobs: int, progress: Callable[[Plantation], None]
) -> Plantation:
    """Hunt for each mutant, several at a time; `progress` is told after each."""
    plantation, started = Plantation(), time.perf_counter()
    pool = ThreadPoolExecutor(jobs)
    try:
        order = {pool.submit(hunt, mutant, limit): at for at, mutant in enumerate(chosen)}
        places: dict[int, Hunt] = {}
        for done in as_completed(order):
            places[order[done]] = done.result()
            plantation.hunts = [places[at] for at in sorted(places)]
            plantation.seconds = time.perf_counter() - started
            progress(plantation)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in list(_hunting):
            child.kill()
        pool.shutdown()
    return plantation


def as_table(plantation: Plantation) -> Grid:
    """The mutants for a terminal."""
    planted, caught = len(plantation.hunts), len(plantation.caught)
    grid = Grid(
        title=f"{planted} bugs planted, {caught} caught in {plantation.seconds:.0f} s", title_justify="left"
    )
    for head in ("area", "bug", "histories", "found by"):
        grid.add_column(head, justify="right" if head == "histories" else "left", overflow="fold")
    for hunt in plantation.hunts:
        found = f"seed {hunt.seed}: {hunt.problem[:100]}" if hunt.caught else f"MISSED {hunt.problem}"
        style = None if hunt.caught else "red"
        grid.add_row(hunt.mutant.area, hunt.mutant.name, f"{hunt.histories:,}", found, style=style)
    return grid
