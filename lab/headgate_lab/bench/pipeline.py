"""`headgate bench pipeline`: two stages of a pipeline on the same machines: a controller for each, or one for both (FLUX-F2).

The stages share the machines, one channel of each on every machine. They run one after the other, as
Spark's jobs of a batch do, or at the same time, as two queries or waves in flight do:

    one after the other    a batch takes max_j A_j + max_j B_j
    at the same time       a batch takes max_j (A_j + B_j)

A and B are what the machines take for the stages, moves included. One controller for both is the same
policy over the bins of both stages: it sees their sums. A controller of its own sees its stage alone,
with the time that its task takes: beside another task on the same machine, longer by what they share.
Time is modelled; policies, guard and loop are the real ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
import numpy.typing as npt

from headgate.cli.console import Tick
from headgate.control.loop import Loop
from headgate.control.report import BatchReport, BinReport, ChannelReport
from headgate.policies import FluxLoad, Guard, Mpc, Policy
from headgate.policies.horizon import Floats
from headgate_lab.bench.control_stage import BYTES_PER_MS, CHANNEL_BYTES, CHANNEL_ROWS, ROW_MS
from headgate_lab.bench.result import Report, Result, machine
from headgate_lab.papers.mpc.load import jobs

CHANNELS, BINS, BATCHES = 8, 32, 100
"""Machines, bins of a stage for each of them, and batches."""

POLICIES: tuple[Policy, ...] = (Mpc(), FluxLoad())
CASES = ("even", "one machine slow", "poisson", "hot key in one stage", "hot key in each", "skew, poisson")


@dataclass(frozen=True)
class Pipeline:
    """Rows of each bin of both stages, and by how much each machine is slower in each batch."""

    name: str
    rows: tuple[Floats, Floats]
    slow: Floats


def pipeline(case: str, seed: int, batches: int = BATCHES) -> Pipeline:
    """The pipeline of a case; loads and keys are drawn from the seed."""
    rng = np.random.default_rng([37, CASES.index(case), seed])
    even = np.full(CHANNELS * BINS, CHANNEL_ROWS / BINS)
    slow = np.ones((batches, CHANNELS))
    if "poisson" in case:
        perturbed = CHANNELS // 2
        slow += jobs("poisson", 3.0, machines=CHANNELS, perturbed=perturbed, steps=batches, rng=rng)
    if "slow" in case:
        slow[batches // 4 :, rng.integers(CHANNELS)] = 3.0
    first, second = even, even
    if "hot" in case:
        first = _hot(even, rng)
        second = _hot(even, rng) if "each" in case else even
    if "skew" in case:
        first, second = _skewed(even, rng), _skewed(even, rng)
    return Pipeline(case, (first, second), slow)


def _hot(rows: Floats, rng: np.random.Generator) -> Floats:
    """One bin has twice the rows of a channel's fair part: its channel is the slowest, wherever it is."""
    hot = np.asarray(0.75 * rows, dtype=np.float64)
    hot[rng.integers(len(rows))] += 0.25 * rows.sum()
    return hot


def _skewed(rows: Floats, rng: np.random.Generator) -> Floats:
    """Bins by Zipf's law with exponent 0.8, in an order that is drawn."""
    share = np.arange(1, len(rows) + 1) ** -0.8
    return np.asarray(rng.permutation(share / share.sum()) * rows.sum(), dtype=np.float64)


@dataclass
class Controlled:
    """Some bins under one loop."""

    loop: Loop
    rows: Floats
    bin_ms: Floats
    """The time to give or take a bin."""
    moving_ms: Floats = field(default_factory=lambda: np.zeros(CHANNELS))
    read_ms: Floats = field(default_factory=lambda: np.zeros(CHANNELS))

    @classmethod
    def of(cls, policy: Policy, rows: Floats) -> Controlled:
        """Begin with the policy's table. State is in proportion to rows."""
        table = policy.initial(len(rows), CHANNELS)
        loop = Loop(policy, Guard(cool_down_batches=0), "act", table)
        return cls(loop, rows, rows / CHANNEL_ROWS * CHANNEL_BYTES / BYTES_PER_MS)

    @property
    def place(self) -> npt.NDArray[np.int64]:
        """The channel of each bin."""
        return np.array(self.loop.table.assignment, dtype=np.int64)

    def work_ms(self, rows: Floats, slow: Floats) -> Floats:
        """What each machine takes for these rows of the bins."""
        return np.asarray(np.bincount(self.place, rows, CHANNELS) * ROW_MS * slow, dtype=np.float64)

    def step(self, batch: int, wall_ms: float, busy_ms: Floats) -> None:
        """Report a batch, and move what the loop decides."""
        before, sizes = self.place, (self.bin_ms * BYTES_PER_MS).astype(np.int64)
        held, state = (np.bincount(before, each, CHANNELS) for each in (self.rows, sizes))
        taken = np.rint(self.read_ms / max(self.bin_ms.mean(), 1e-9)).astype(np.int64)
        channels = tuple(
            ChannelReport(
                channel=c,
                rows=round(held[c]),
                busy_ms=float(busy_ms[c] + self.read_ms[c]),
                state_bytes=int(state[c]),
                rebuilt_bins=int(taken[c]),
                read_ms=float(self.read_ms[c]),
            )
            for c in range(CHANNELS)
        )
        bins = tuple(
            BinReport(b, round(self.rows[b]), state_bytes=int(sizes[b])) for b in range(len(self.rows))
        )
        version = self.loop.table.version
        self.loop.step(BatchReport(batch, version, round(self.rows.sum()), wall_ms, channels, bins))
        gone = np.flatnonzero(self.place != before)
        given, self.read_ms = (
            np.asarray(np.bincount(ends[gone], self.bin_ms[gone], CHANNELS), dtype=np.float64)
            for ends in (before, self.place)
        )
        self.moving_ms = given + self.read_ms


def drive(pipeline: Pipeline, policy: Policy, *, joint: bool, overlap: bool) -> float:
    """The seconds of all batches."""
    first, second = pipeline.rows
    zeros = np.zeros_like(first)
    parts: tuple[tuple[Controlled, Floats], ...]
    if joint:
        both = Controlled.of(policy, np.concatenate([first, second]))
        parts = ((both, np.concatenate([first, zeros])), (both, np.concatenate([zeros, second])))
    else:
        parts = ((Controlled.of(policy, first), first), (Controlled.of(policy, second), second))
    total_ms = 0.0
    for batch, slow in enumerate(pipeline.slow):
        a, b = (each.work_ms(rows, slow) for each, rows in parts)
        moving = [each.moving_ms for each, _ in parts[: 1 if joint else 2]]
        extra_a, extra_b = moving if not joint else (moving[0] / 2, moving[0] / 2)
        wall = float((a + b + extra_a + extra_b).max())
        if not overlap:
            wall = float((a + extra_a).max() + (b + extra_b).max())
        total_ms += wall
        if joint:
            parts[0][0].step(batch, wall, a + b)
        else:
            shared = np.minimum(a, b) if overlap else 0.0
            for (each, _), mine in zip(parts, (a, b), strict=True):
                each.step(batch, wall, mine + shared)
    return total_ms / 1e3


def least(pipeline: Pipeline, *, overlap: bool) -> float:
    """The least seconds of any tables that may change in each batch at no cost, bins in parts allowed but for the largest."""
    speeds = 1 / pipeline.slow
    loads = [rows * ROW_MS for rows in pipeline.rows]
    total_ms = 0.0
    for speed in speeds:
        fair = [load.sum() / speed.sum() for load in loads]
        largest = [load.max() / speed.max() for load in loads]
        if overlap:
            total_ms += float(max(sum(fair), *largest))
        else:
            total_ms += float(sum(max(pair) for pair in zip(fair, largest, strict=True)))
    return total_ms / 1e3


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Compare one controller for both stages with a controller each. Each repetition draws loads and keys anew."""
    where, todo = machine(), [(case, overlap) for case in CASES for overlap in (False, True)]
    results = []
    for policy in POLICIES:
        for at, (case, overlap) in enumerate(todo):
            progress(f"{policy.name}: {case}", at / len(todo))
            way = "at the same time" if overlap else "one after the other"
            spent: dict[str, list[float]] = {"each": [], "joint": [], "least": []}
            for seed in range(repeat):
                world = pipeline(case, seed, batches=10 if quick else BATCHES)
                for name in ("each", "joint"):
                    spent[name].append(drive(world, policy, joint=name == "joint", overlap=overlap))
                spent["least"].append(least(world, overlap=overlap))
            means = {name: fmean(samples) for name, samples in spent.items()}
            what = f"{policy.name}, {case}, {way}"
            samples = {f"{what}, {name} (s)": samples for name, samples in spent.items()}
            results += [
                Result(what, "s", means["joint"], "a controller each", means["each"], samples),
                Result(f"{what}: least possible", "s", means["least"], None, None, {}),
            ]
    return Report("pipeline", tuple(results), (), machine=where, quick=quick)
