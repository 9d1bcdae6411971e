"""From one partitioning function to the next (Gedik, section 4.2); usable without Spark.

Given the current function, the tracked keys with their frequencies, and the wanted channels, it builds
the next function: a new ring, and pins placed by one of the three builders. Channels may be added,
removed (keys of a removed channel count as moved, wherever they go) or stay the same (PART-E18).

The three builders stop where the paper's listings stop: `readj` on a plateau, `scan` and `redist` after
their last item. So after several channels are added at once a channel may be left empty. `builder` gives
them with `level` behind them, which goes on until the result is within tolerance or no move or swap helps.
`ALGORITHMS` has them as in the paper, for the reproduction.

Not here: when to rebuild (a policy decides) and bins (`placement`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headgate.routing.balance import Floats, Ints
from headgate.routing.builders.level import level
from headgate.routing.builders.problem import Assignment, Objective, Problem
from headgate.routing.builders.readj import readj
from headgate.routing.builders.redist import redist
from headgate.routing.builders.scan import scan
from headgate.routing.partitioning import PartitioningFunction

Builder = Callable[[Problem], Assignment]


def _readj_literal(problem: Problem) -> Assignment:
    return readj(problem, variant="literal")


ALGORITHMS: Mapping[str, Builder] = {
    "scan": scan,
    "redist": redist,
    "readj": readj,
    "readj-literal": _readj_literal,
}


def builder(algorithm: str, *, paper: bool = False) -> Builder:
    """Return a builder by name: followed by `level`, or as in the ``paper``.

    Law, for one resource and equal speeds, with ``heaviest`` the largest item of the problem: the result is
    within tolerance, or ``max <= min + heaviest``. The fair share and the heaviest item are both lower
    bounds of the busiest channel, so it is at most twice what any placement can reach. In particular no
    channel is empty while another has two items.

    >>> builder("readj")(Problem(np.full(8, 0.125), np.zeros(8, dtype=np.int64), 4)).rho
    1e-09
    >>> round(builder("readj", paper=True)(Problem(np.full(8, 0.125), np.zeros(8, dtype=np.int64), 4)).rho, 1)
    14.0
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm is one of {', '.join(ALGORITHMS)}; got {algorithm!r}")
    build = ALGORITHMS[algorithm]

    def levelled(problem: Problem) -> Assignment:
        built = build(problem)
        if problem.channels == 1 or problem.worst(built.channel) <= 1:
            return built
        return level(replace(problem, start=built.channel))

    return build if paper else levelled


@dataclass(frozen=True)
class Rebuilt:
    """The next function, and how its pins were placed (``hashes`` has the order of ``assignment.channel``)."""

    function: PartitioningFunction
    assignment: Assignment
    hashes: npt.NDArray[np.int64]


def rebuild(
    current: PartitioningFunction,
    hashes: npt.NDArray[np.int64],
    frequency: Floats,
    *,
    channels: Sequence[int],
    objective: Objective | None = None,
    algorithm: str = "redist",
    last_frequency: Mapping[int, float] | None = None,
    paper: bool = False,
) -> Rebuilt:
    """Build the next partitioning function from tracked key hashes and their frequencies.

    Keys that are pinned but no longer tracked return to the ring. Their state is counted with the
    frequency in ``last_frequency``, or else with the smallest tracked frequency (PART-E15). ``paper``
    takes the builder as the paper has it (`builder`).

    >>> from headgate.routing.key_hash import hash_ints
    >>> from headgate.routing.ring import HashRing
    >>> now = PartitioningFunction(HashRing.uniform(2))
    >>> hot, f = hash_ints([1, 2, 3, 4]), np.array([0.3, 0.2, 0.2, 0.1])
    >>> then = rebuild(now, hot, f, channels=range(3)).function
    >>> sorted(then.pins.values()), then.channels
    ([0, 1, 1, 2], (0, 1, 2))
    """
    place = builder(algorithm, paper=paper)
    wanted = tuple(channels)
    ring = current.ring.with_channels(wanted)
    tracked = np.asarray(hashes, dtype=np.int64)
    if np.unique(tracked).shape[0] != tracked.shape[0]:
        raise ValueError("a tracked key is given twice; sum its frequencies first")
    known = {int(h) for h in tracked}
    floor = float(np.min(frequency)) if len(frequency) else 0.0
    gone = np.array([h for h in current.pins if h not in known], dtype=np.int64)
    last = last_frequency or {}
    gone_state = objective_of(objective).resources.state(
        np.array([min(last.get(int(h), floor), floor) for h in gone], dtype=np.float64)
    )
    gone_moved = float(gone_state[current.lookup_hashes(gone) != ring.lookup_hashes(gone)].sum())
    index = _dense(wanted)
    old = index[current.lookup_hashes(tracked)]
    problem = Problem(
        volume=np.asarray(frequency, dtype=np.float64),
        old=old,
        channels=len(wanted),
        objective=objective_of(objective),
        start=np.where(old >= 0, old, index[ring.lookup_hashes(tracked)]),
        moved_state=gone_moved,
        dropped_state=float(gone_state.sum()),
    )
    assignment = place(problem)
    ids = np.asarray(wanted, dtype=np.int64)[assignment.channel]
    pins = dict(zip(tracked.tolist(), ids.tolist(), strict=True))
    return Rebuilt(PartitioningFunction(ring, pins), assignment, tracked)


def objective_of(objective: Objective | None) -> Objective:
    """Return ``objective``, or the paper's defaults."""
    return Objective() if objective is None else objective


def _dense(channels: tuple[int, ...]) -> Ints:
    """Return an array from channel id to index, -1 for ids that do not exist."""
    index = np.full(2**15, -1, dtype=np.int64)
    index[list(channels)] = np.arange(len(channels))
    return index
