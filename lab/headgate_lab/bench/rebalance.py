"""`headgate bench rebalance`: Flux's policies on live channels that are paced, beside the
same stage with `static`.

Channels sleep for each row, so that 16 and 32 of them can be slow or fast on two cores. There are
three troubles, each from batch 10 on (memory: 8): one channel at 43% of its speed (the paper's external load),
one channel that loses half of its memory, and bursts that visit the channels in turn while a buffer
lets rows wait; `--only` takes `slow`, `memory` and `bursts`. Where memory is short, state is read from a
modelled disk: 125 MB/s and 5 ms a seek, like a volume in a cloud, and a channel's small state takes as
long to read as the 768 MB of the paper. Each trouble is shown to the default policy too. Throughput is
rows over the time of a batch, all of Spark's bookkeeping in it, relative to the same stage before the
trouble. Every row of output is compared with native Spark's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.cli.console import Tick, numbers_grid, unknown
from headgate.control.journal import Entry
from headgate.control.report import BatchReport
from headgate.operators.history import HistoryWindow
from headgate.policies import FluxHybrid, FluxLoad, Guard, Policy, Static, get
from headgate.sizes import show_bytes
from headgate.spark.local import local_spark
from headgate.stage.settings import DEFAULT_POLICY
from headgate.testing import Disk, pace
from headgate_lab.bench.equality import differing_history
from headgate_lab.bench.job import workspace
from headgate_lab.bench.result import Goal, Report, Result, machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.spark.stage import Stage

SLOW = 0.43
CHANNELS = (16, 32)
K = 10
PAPER = FluxLoad(1.2, rounds=4, settle=1.2, choice="first", receiver=0.9)  # its rounds last ms, not a batch
DISK = Disk(mb_per_s=125.0, seek_ms=5.0)
STATE_BYTES = 768e6
"""The state of a channel in the paper's Figure 11, for which the bench's stands."""
PARTS = {"slow": "slow channel", "memory": "memory halved", "bursts": "bursts in turn"}
FREE = Guard(min_gain=0, cool_down_batches=0)


@dataclass(frozen=True)
class RebalanceSizes:
    """The sizes of a run: a batch takes `rows * pace_us` of sleep on each channel."""

    rows: int = 1000
    pace_us: float = 2000.0
    keys: int = 16_384
    batches: int = 26
    trouble: int = 10

    @property
    def steady(self) -> slice:
        """The batches before the trouble that count: the first ones load classes and compile."""
        return slice(self.trouble - 5, self.trouble)


QUICK = RebalanceSizes(rows=300, keys=500, batches=14, trouble=6)
MEMORY_BATCHES, MEMORY_TROUBLE = 18, 8
"""The memory case has fewer batches, so that both numbers of channels fit into some minutes."""


@dataclass(frozen=True)
class Case:
    """One trouble under one policy. `before` is called with the stage and the number of
    the batch that comes.
    """

    trouble: str
    who: str
    policy: Policy
    channels: int
    before: Callable[[Stage, int, Case], None]
    guard: Guard | None = None
    options: Mapping[str, Any] | None = None
    sizes: RebalanceSizes = RebalanceSizes()

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.trouble}, {self.channels} channels: {self.who}"


@dataclass(frozen=True)
class Trial:
    """The run of a case."""

    entries: list[Entry]
    sizes: RebalanceSizes
    wrong_rows: int

    def speeds(self) -> list[float]:
        """Rows per ms of each batch."""
        return [entry.report.rows / entry.report.wall_ms for entry in self.entries[: self.sizes.batches]]

    @property
    def unloaded(self) -> float:
        """Rows per ms before the trouble."""
        return statistics.median(self.speeds()[self.sizes.steady])

    def relative(self, last: int = 5) -> float:
        """Speed of the last batches over that before the trouble."""
        return statistics.median(self.speeds()[-last:]) / self.unloaded

    def batches_until(self, share: float) -> int | None:
        """Batches after the trouble until the speed is back, and stays."""
        speeds = self.speeds()[self.sizes.trouble :]
        low = [at for at, speed in enumerate(speeds) if speed < share * self.unloaded]
        back = low[-1] + 1 if low else 0
        return back if back < len(speeds) else None

    def moved_bytes(self) -> float:
        """The bytes of the plans that were carried out."""
        done = [entry.decision.plan for entry in self.entries if entry.decision.changed]
        return sum(plan.cost for plan in done if plan is not None)

    def moving(self) -> float:
        """The share of the time after the trouble that the slowest reader spent on state that came to it."""
        reports = [entry.report for entry in self.entries[self.sizes.trouble :]]
        reading = sum(max(channel.read_ms for channel in report.channels) for report in reports)
        return reading / sum(report.wall_ms for report in reports)

    def waiting(self) -> int:
        """Rows that wait after the last batch with rows."""
        return sum(channel.backlog_rows for channel in self._last.channels)

    def on_disk(self) -> int:
        """Bytes of state that are not in memory after the last batch with rows."""
        return sum(channel.disk_bytes for channel in self._last.channels)

    def seconds_after(self) -> float:
        """The time of all batches from the trouble on."""
        after = self.entries[self.sizes.trouble : self.sizes.batches]
        return sum(entry.report.wall_ms for entry in after) / 1e3

    @property
    def _last(self) -> BatchReport:
        return self.entries[self.sizes.batches - 1].report


def slow_channel(stage: Stage, batch: int, case: Case) -> None:
    """Channel 0 falls to 43% of its speed."""
    if batch == case.sizes.trouble:
        pace(stage, {**_paced(case), 0: case.sizes.pace_us / SLOW})


def less_memory(stage: Stage, batch: int, case: Case) -> None:
    """Channel 0 loses half of its memory, of which it used three quarters."""
    if batch == case.sizes.trouble:
        held = max(channel.state_bytes for channel in stage.journal()[-1].report.channels)
        pace(stage, _paced(case), replace(DISK, grown=STATE_BYTES / held))
        stage.reclaim(int(1e12 - held * 4 / 3))
        stage.reclaim(int(held * 4 / 3 / 2), channel=0)


def bursts(stage: Stage, batch: int, case: Case) -> None:
    """Each batch another channel has 43% of its speed."""
    if batch >= case.sizes.trouble:
        pace(stage, {**_paced(case), batch % case.channels: case.sizes.pace_us / SLOW})


def _paced(case: Case) -> dict[int, float]:
    return dict.fromkeys(range(case.channels), case.sizes.pace_us)


def cases(channels: int, sizes: RebalanceSizes) -> list[Case]:
    """The cases for a number of channels."""
    memory, default = {"memory": 10**12}, get(DEFAULT_POLICY)
    shorter = replace(
        sizes, batches=min(sizes.batches, MEMORY_BATCHES), trouble=min(sizes.trouble, MEMORY_TROUBLE)
    )
    all_cases = [
        Case("slow channel", "static", Static(), channels, slow_channel),
        Case("slow channel", "flux-load, paper's thresholds", PAPER, channels, slow_channel, FREE),
        Case("slow channel", "flux-load", FluxLoad(), channels, slow_channel),
        Case("slow channel", "default", default, channels, slow_channel),
        Case("memory halved", "static", Static(), channels, less_memory, options=memory),
        Case("memory halved", "flux-hybrid", FluxHybrid(), channels, less_memory, options=memory),
        Case("memory halved", "default", default, channels, less_memory, options=memory),
        Case("bursts in turn", "static", Static(), channels, bursts),
        Case("bursts in turn", "default", default, channels, bursts),
        Case("bursts in turn", "static, buffer", Static(), channels, bursts, options={"buffer": "64MB"}),
    ]
    return [replace(case, sizes=shorter if case.options is memory else sizes) for case in all_cases]


def run(*, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = ()) -> Report:
    """Measure all troubles, or `only` some, and compare with the goals."""
    for part in only:
        if part not in PARTS:
            raise unknown("part of bench rebalance", part, tuple(PARTS))
    wanted = [trouble for part, trouble in PARTS.items() if not only or part in only]
    where = machine()
    sizes = QUICK if quick else RebalanceSizes()
    trials: dict[str, Trial] = {}
    counts = (8,) if quick else CHANNELS
    todo = {n: [case for case in cases(n, sizes) if case.trouble in wanted] for n in counts}
    total = sum(map(len, todo.values()))
    with workspace() as work:
        for channels in counts:
            with local_spark(channels, work / f"spark-{channels}.log") as spark:
                for at, case in enumerate(todo[channels]):
                    progress(case.name, len(trials) / total)
                    rows = work / f"input-{channels}-{case.sizes.batches}"
                    if not rows.exists():
                        _write(case.sizes, channels, rows)
                    trials[case.name] = _trial(spark, case, rows, work / f"{channels}-{at}")
    return _report(trials, counts, wanted, quick, where)


def _trial(spark: SparkSession, case: Case, rows: Path, work: Path) -> Trial:
    from headgate.spark.stage import Stage
    from headgate.stage import sinks
    from headgate.stage.settings import Limits, Routing

    stage = Stage(
        key="user",
        operator=HistoryWindow(K, ["mean", "max"], of="amount", keep=["seq", "amount"]),
        routing=Routing(policy=case.policy, guard=case.guard, channels=case.channels),
        checkpoint=str(work / "stage"),
        sink=sinks.Parquet(str(work / "out")),
        durable=False,
        limits=Limits(**(case.options or {})),
    )
    pace(stage, _paced(case))
    for batch in range(case.sizes.batches):
        case.before(stage, batch, case)
        stage(spark.read.parquet(str(rows / f"{batch:05d}.parquet")), batch)
    batch = case.sizes.batches
    pace(stage, 0.0)
    while sum(one.backlog_rows for one in stage.journal()[-1].report.channels):
        stage(
            spark.read.parquet(str(rows / "00000.parquet")).limit(0), batch
        )  # nothing may wait when outputs are compared
        batch += 1
    return Trial(stage.journal(), case.sizes, differing_history(spark, rows, work / "out", K))


def _write(sizes: RebalanceSizes, channels: int, folder: Path) -> None:
    """Uniform keys, as in the paper's baseline."""
    folder.mkdir(parents=True)
    count = sizes.rows * channels
    for number in range(sizes.batches):
        draw = np.random.default_rng((13, number))
        columns = {
            "seq": np.arange(number * count, (number + 1) * count, dtype=np.int64),
            "user": draw.integers(0, sizes.keys, count),
            "amount": draw.integers(0, 1000, count).astype(np.float64),
        }
        pq.write_table(pa.table(columns), folder / f"{number:05d}.parquet")


HEADS = (
    "trouble in mid-run",
    "speed after,\nof before",
    "moved",
    "moving, of\nthe time",
    "rows\nwaiting",
    "wrong\nrows",
)


def _report(
    trials: dict[str, Trial],
    counts: tuple[int, ...],
    wanted: Sequence[str],
    quick: bool,
    where: Mapping[str, Any],
) -> Report:
    results: list[Result] = []
    goals: list[Goal] = []
    grid = numbers_grid(f"bench rebalance{' (quick)' if quick else ''}", HEADS)
    grid.columns[0].justify = "left"
    for name, trial in trials.items():
        static = trials[name.split(": ")[0] + ": static"]
        samples = {name: [round(speed, 3) for speed in trial.speeds()]}
        rival = None if trial is static else "static"
        results += [
            Result(f"speed after over before: {name}", "ratio", trial.relative(), rival, static.relative() if rival else None, samples),
            Result(f"moved: {name}", "bytes", trial.moved_bytes(), None, None, {}),
            Result(f"moving: {name}", "share of time", trial.moving(), None, None, {}),
            Result(f"waiting: {name}", "rows", trial.waiting(), None, None, {}),
            Result(f"on disk: {name}", "bytes", trial.on_disk(), None, None, {}),
            Result(f"time from the trouble on: {name}", "s", trial.seconds_after(), rival, static.seconds_after() if rival else None, {}),
        ]  # fmt: skip
        grid.add_row(
            name,
            f"{trial.relative():.2f}",
            show_bytes(trial.moved_bytes()),
            f"{trial.moving():.1%}",
            f"{trial.waiting():,}",
            str(trial.wrong_rows),
        )
    for channels in counts:
        for trouble in wanted:
            goals += GOALS[trouble](f"{trouble}, {channels} channels", trials)
    goals.append(
        Goal(
            "share of the time that moving takes",
            0.5,
            max(t.moving() for t in trials.values()),
            at_most=True,
            unit="",
        )
    )
    wrong = sum(trial.wrong_rows for trial in trials.values())
    goals.append(Goal("rows of output that differ from native Spark's", 0, wrong, at_most=True, unit=""))
    return Report("rebalance", tuple(results), tuple(goals), machine=where, quick=quick, shown=grid)


def _slow_goals(where: str, trials: Mapping[str, Trial]) -> list[Goal]:
    paper, ours = trials[f"{where}: flux-load, paper's thresholds"], trials[f"{where}: flux-load"]
    late = 10 * len(paper.entries)  # never
    back = _or(paper.batches_until(0.85), late), _or(ours.batches_until(0.95), late)
    return [
        Goal(f"{where}: static falls to about 43% of the speed", 0.6, trials[f"{where}: static"].relative(), at_most=True),
        Goal(f"{where}: paper's thresholds, speed after", 0.85, paper.relative()),
        Goal(f"{where}: paper's thresholds, back to 0.85 in", 15, back[0], at_most=True, unit=" batches"),
        Goal(f"{where}: ours, speed after", 0.95, ours.relative()),
        Goal(f"{where}: ours, back to 0.95 in", 15, back[1], at_most=True, unit=" batches"),
        Goal(f"{where}: default, speed after", 0.95, trials[f"{where}: default"].relative()),
    ]  # fmt: skip


def _memory_goals(where: str, trials: Mapping[str, Trial]) -> list[Goal]:
    goals = [Goal(f"{where}: static falls clearly", 0.7, trials[f"{where}: static"].relative(), at_most=True)]
    for who in ("flux-hybrid", "default"):
        trial = trials[f"{where}: {who}"]
        goals += [
            Goal(f"{where}: {who}, speed after", 0.95, trial.relative()),
            Goal(f"{where}: {who}, bytes on disk at the end", 0, trial.on_disk(), at_most=True, unit=""),
        ]
    return goals


def _bursts_goals(where: str, trials: Mapping[str, Trial]) -> list[Goal]:
    static = trials[f"{where}: static"].relative()
    return [
        Goal(f"{where}: with the buffer, speed after", 0.9, trials[f"{where}: static, buffer"].relative()),
        Goal(f"{where}: default, speed over static's", 0.98, trials[f"{where}: default"].relative() / static),
    ]


GOALS: Mapping[str, Callable[[str, Mapping[str, Trial]], list[Goal]]] = {
    "slow channel": _slow_goals,
    "memory halved": _memory_goals,
    "bursts in turn": _bursts_goals,
}


def _or(number: int | None, otherwise: int) -> int:
    return otherwise if number is None else number
