"""The toy of Figure 1 (PX-11..17): eight keys on two channels, then on three, by our builders.

The paper shows three setups, optimised for communication, for computation, and for both, and does not
say how their placements were found. Here `scan`, the first of its algorithms, places the keys from one
channel on. What a setup is optimised for is judged with utility A, which looks at balance alone;
migration with APM, which weighs it. Beside that every placement of the eight keys is looked at: is there
one with the loads that the text gives?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from headgate.routing.balance import Floats, migration
from headgate.routing.builders import Objective, Problem, scan
from headgate_lab.papers.claims import Claim

NAMES = "XZVRUYWL"
TOY = np.array([5.0, 3, 2, 1, 4, 3, 3, 1])
SETUPS = {"communication": "CCL", "computation": "CQC", "both": "CQL"}
"""The resources that count in each setup; a key's state is its frequency in all of them."""


@dataclass(frozen=True)
class Placed:
    """The loads of a placement by channel, and what it moved."""

    comm: tuple[float, ...]
    comp: tuple[float, ...]
    moved: float

    @property
    def comm_ratio(self) -> float:
        """Most over least communication."""
        return ratio(self.comm)

    @property
    def comp_ratio(self) -> float:
        """Most over least computation."""
        return ratio(self.comp)


def ratio(loads: Sequence[float]) -> float:
    """Most over least; infinite if a channel has nothing."""
    return max(loads) / min(loads) if min(loads) > 0 else float("inf")


def loads(
    where: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]], channels: int, power: int
) -> tuple[float, ...]:
    """The load of each channel: the sum of a power of the frequencies."""
    return tuple(float(x) for x in np.bincount(where, weights=TOY**power, minlength=channels))


def grown(setup: str, utility: str) -> dict[int, Placed]:
    """The placements on two and on three channels."""
    each: Floats = np.stack([TOY, TOY**2, TOY])
    old, placed = np.zeros(8, np.int64), {}
    for n in (2, 3):
        goal = Objective(resources=SETUPS[setup], utility=utility)
        where = scan(Problem(TOY, old, n, goal, loads=each)).channel
        placed[n] = Placed(loads(where, n, 1), loads(where, n, 2), migration(TOY, old, where))
        old = where
    return placed


def some(channels: int, comm: Sequence[float], comp: Sequence[float]) -> list[tuple[int, ...]]:
    """All placements with these loads, in any order of the channels."""
    return [
        where
        for where in product(range(channels), repeat=8)
        if sorted(loads(where, channels, 1)) == list(comm) and sorted(loads(where, channels, 2)) == list(comp)
    ]


def toy_claims() -> list[Claim]:
    """Return PX-11..17."""
    comm, comp, both = (grown(setup, "A") for setup in SETUPS)
    cheap, dear = grown("communication", "APM")[3], grown("computation", "APM")[3]
    first, skewed = some(2, (11, 11), (35, 39)), some(3, (7, 7, 8), (15, 25, 34))
    second, even = some(2, (10, 12), (36, 38)), some(3, (5, 7, 10), (24, 25, 25))
    seven = {
        "".join(n for n, x, y in zip(NAMES, a, z, strict=True) if x != y)
        for a, z in product(first, skewed)
        if migration(TOY, a, z) == 7
    }

    def got(placed: Placed, **more: float) -> dict[str, float]:
        return {"comm": placed.comm_ratio, "comp": placed.comp_ratio, **more}

    def there(found: Sequence[object]) -> str:
        return f"{len(found)} of all placements have the loads of the text"

    return [
        Claim("PX-11", "toy for communication, N=2", {"comm": 1.0, "comp": 1.1}, got(comm[2]), "exact",
              comm[2].comm == (11, 11) and sorted(comm[2].comp) == [35, 39] and len(first) == 12, f"{there(first)}; it truncates 1.11"),
        Claim("PX-12", "toy for communication, N=3", {"comm": 1.14, "comp": 2.26}, got(comm[3]), "comm exact; comp above PX-17",
              sorted(comm[3].comm) == [7, 7, 8] and comm[3].comp_ratio > 27 / 22 and bool(skewed),
              f"computation is not looked at here, and suffers; {there(skewed)} (2.267)"),
        Claim("PX-13", "toy for communication, migration", 7.0, cheap.moved, "exact",
              cheap.moved == 7 and sorted(cheap.comm) == [7, 7, 8] and bool(seven) and "UY" not in seven,
              f"with utility A {comm[3].moved:g}. From the loads of PX-11 to those of PX-12 {', '.join(sorted(seven))} would have moved; "
              "the text's U and Y can't give these loads (PART-E22)"),
        Claim("PX-14", "toy for computation, N=2", {"comp": 1.05, "comm": 1.2}, got(comp[2]), "exact",
              sorted(comp[2].comp) == [36, 38] and sorted(comp[2].comm) == [10, 12], f"{there(second)}; it truncates 1.056"),
        Claim("PX-15", "toy for computation, N=3", {"comp": 1.04, "comm": 2.0, "migration": 10.0}, got(dear, migration=dear.moved),
              "exact", sorted(dear.comp) == [24, 25, 25] and dear.comm_ratio == 2 and dear.moved == 10, there(even)),
        Claim("PX-16", "toy for both, N=2", {"comm": 1.2, "comp": 1.05}, got(both[2]), "neither above 1.2",
              both[2].comm_ratio <= 1.2 and both[2].comp_ratio <= 1.2,
              "the text calls 1.2 and 1.05 good; ours has a lower balance penalty (Eq. 19)"),
        Claim("PX-17", "toy for both, N=3", {"comm": 1.14, "comp": 1.23}, got(both[3]), "exact",
              sorted(both[3].comm) == [7, 7, 8] and sorted(both[3].comp) == [22, 25, 27], "27/22 = 1.227"),
    ]  # fmt: skip
