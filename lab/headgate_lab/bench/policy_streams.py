"""The streams of `bench skew` and the troubles of `bench rebalance` in modelled time, without Spark.

The stage, its tasks, its state and its files are the product's own (`headgate.testing.InProcess`). A row takes
a fixed time on its channel, and state that comes to a channel is read from a modelled disk; nothing else takes
time. So a batch takes as long as its busiest channel, on any machine, and what differs between policies is
what they decide. Keys, their order and the channel that is hit are drawn by `seed`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headgate.operators.base import Operator
from headgate.operators.history import HistoryWindow
from headgate.stage.settings import Limits, Routing
from headgate.stage.sinks import Parquet
from headgate.stage.stage import KeyedStage
from headgate.testing import Disk, InProcess, ModelledTime
from headgate_lab.bench import skew

PACE_US = 1000.0
SLOW = 0.43
DISK = Disk(mb_per_s=125.0, seek_ms=5.0)
STATE_MB = 768.0
"""The state of a channel for which its real one stands where memory is short, as in Flux's Figure 11."""
K = 10


@dataclass(frozen=True)
class Stream:
    """Batches for one stage, and what happens to it."""

    name: str
    channels: int
    batches: int
    operator: Operator
    rows: Callable[[int], pa.Table]
    before: Callable[[World, int], None]
    limits: Limits | None = None


@dataclass
class World:
    """A stage in modelled time."""

    stage: KeyedStage[pa.Table]
    stream: Stream
    hit: int
    watch: ModelledTime

    def paces(self, slow: int | None) -> None:
        """All channels at full speed, except for one."""
        paces = dict.fromkeys(range(self.stream.channels), PACE_US)
        if slow is not None:
            paces[slow] = PACE_US / SLOW
        self.watch.us = paces


def skewed(seed: int, *, quick: bool) -> Iterator[Stream]:
    """The streams of `bench skew`, with other keys."""
    for case in skew.cases(quick=quick):
        small = replace(case, rows=min(case.rows, 20_000))

        def rows(number: int, case: skew.Case = small) -> pa.Table:
            return skew.batch(case, number, seed)

        yield Stream(case.name, case.channels, case.batches, skew.OPERATORS[case.operator], rows, nothing)


def troubled(seed: int, *, quick: bool) -> Iterator[Stream]:
    """The troubles of `bench rebalance`, and none."""
    history = HistoryWindow(K, ["mean", "max"], of="amount", keep=["seq", "amount"])
    for channels in (8,) if quick else (8, 16):

        def rows(number: int, channels: int = channels) -> pa.Table:
            return uniform(seed, number, 250 * channels, 1024 * channels)

        for trouble in (nothing, slow_channel, less_memory, bursts):
            limits = Limits(memory=10**12) if trouble is less_memory else None
            what = (trouble.__doc__ or "").splitlines()[0].rstrip(".")
            yield Stream(f"{what}, {channels} channels", channels, 26, history, rows, trouble, limits)


def uniform(seed: int, number: int, rows: int, keys: int) -> pa.Table:
    """One batch of uniform keys."""
    draw = np.random.default_rng((17, seed, number))
    return pa.table(
        {
            "seq": np.arange(number * rows, (number + 1) * rows, dtype=np.int64),
            "user": draw.integers(0, keys, rows),
            "amount": draw.integers(0, 1000, rows).astype(np.float64),
        }
    )


def nothing(world: World, batch: int) -> None:
    """Nothing happens."""


def slow_channel(world: World, batch: int) -> None:
    """One channel falls to 43% of its speed."""
    if batch == 10:
        world.paces(world.hit)


def bursts(world: World, batch: int) -> None:
    """Another channel is slow in each batch."""
    if batch >= 10:
        world.paces((world.hit + batch) % world.stream.channels)


def less_memory(world: World, batch: int) -> None:
    """One channel loses half of its memory."""
    if batch == 10:
        held = max(channel.state_bytes for channel in world.stage.journal()[-1].report.channels)
        world.watch.disk = replace(DISK, grown=STATE_MB * 1e6 / held)
        world.stage.reclaim(int(1e12 - held * 4 / 3))
        world.stage.reclaim(int(held * 4 / 3 / 2), channel=world.hit)


def streams(seed: int, *, quick: bool) -> list[Stream]:
    """All of them."""
    return [*skewed(seed, quick=quick), *troubled(seed, quick=quick)]


def seconds(stream: Stream, policy: str, seed: int) -> tuple[float, ...]:
    """The modelled time of each batch under a policy; the empty name is the default."""
    watch = ModelledTime(PACE_US, DISK)
    with tempfile.TemporaryDirectory() as folder:
        stage = KeyedStage(
            InProcess(executors=stream.channels, watch=watch),
            key="user",
            operator=stream.operator,
            routing=Routing(policy=policy, channels=stream.channels)
            if policy
            else Routing(channels=stream.channels),
            checkpoint=f"{folder}/stage",
            sink=Parquet(f"{folder}/out"),
            durable=False,
            limits=stream.limits,
        )
        world = World(stage, stream, seed % stream.channels, watch)
        world.paces(None)
        for batch in range(stream.batches):
            stream.before(world, batch)
            stage.process(stream.rows(batch), batch, "bench")
        return tuple(entry.report.wall_ms / 1e3 for entry in stage.journal())
