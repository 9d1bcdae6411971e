"""`headgate bench skew`: hot keys pinned and balanced on Spark, beside the
same stage with `static`.

A history window over Zipf keys and over one key at 20%, on 8 and 16 channels: rows of the busiest
channel over the mean once the table has settled, beside the least that any placement of whole keys
could reach; what was moved, how large the table got, how long a plan took; how soon a hot set that
shifts is followed; and whether every row of output equals native Spark's. Rows are counted, not
timed, so the machine's load does not matter to the balance. Where a key passes a channel's fair
share, an aggregate shows what splitting it does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headgate.cli.console import Tick, numbers_grid
from headgate.control.journal import Entry
from headgate.control.plan import Plan
from headgate.control.refusal import Refusal
from headgate.control.view import LoadView
from headgate.operators import agg
from headgate.operators.aggregate import Aggregate
from headgate.operators.base import Operator
from headgate.operators.history import HistoryWindow
from headgate.policies.rebuild import Rebuild
from headgate.routing.lower_bound import busiest_bound
from headgate.routing.table import Table
from headgate.spark.local import local_spark
from headgate_lab.bench.equality import differing_aggregate, differing_history
from headgate_lab.bench.job import CORES, workspace
from headgate_lab.bench.result import Goal, Report, Result, machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVEN = 1.10
SOON = 3
K = 20
OPERATORS: dict[str, Operator] = {
    "history": HistoryWindow(K, ["mean", "max"], of="amount", keep=["seq", "amount"]),
    "aggregate": Aggregate(n=agg.count(), total=agg.sum("amount"), top=agg.max("amount")),
}


@dataclass(frozen=True)
class Case:
    """One stream through one stage.

    `bend` is Zipf's exponent, `single` the share of one key above the rest, `shift` the batch with
    a new hot set.
    """

    bend: float
    channels: int
    operator: str = "history"
    single: float = 0.0
    shift: int | None = None
    rows: int = 60_000
    keys: int = 20_000
    batches: int = 9

    @property
    def name(self) -> str:
        """The case in words."""
        keys = f"one key at {self.single:.0%}" if self.single else f"Zipf {self.bend}"
        shift = ", hot set shifts" if self.shift is not None else ""
        split = ", aggregate (keys may be split)" if self.operator == "aggregate" else ""
        return f"{keys}{shift}, {self.channels} channels{split}"

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each key, hottest first."""
        weight = np.arange(1, self.keys + 1) ** -self.bend
        if self.single:
            weight = np.append(weight[1:].sum() * self.single / (1 - self.single), weight[1:])
        return np.asarray(weight / weight.sum())


def cases(*, quick: bool) -> Iterator[Case]:
    """The cases to run."""
    for channels in (8, 16):
        chosen = [Case(bend, channels) for bend in (0.8, 1.0, 1.2)]
        chosen += [Case(0.5, channels, single=0.2, operator=operator) for operator in OPERATORS]
        chosen.append(Case(1.0 if channels == 8 else 0.8, channels, shift=8, batches=14))
        if not quick:
            yield from chosen
        elif channels == 8:
            yield from (replace(case, rows=20_000, keys=5_000) for case in chosen[3:])


@dataclass(frozen=True)
class Trial:
    """The run of one policy in a case."""

    entries: list[Entry]
    planning_ms: list[float]
    wrong_rows: int

    def settled(self) -> float:
        """Busiest over mean, in rows, over the last three batches."""
        return statistics.median(entry.report.row_imbalance for entry in self.entries[-3:])

    def moved_bytes(self) -> int:
        """State of bins that came to another channel, as found there."""
        total = 0
        for before, after in zip(self.entries, self.entries[1:], strict=False):
            old, new = before.decision.base, after.decision.base
            sizes = {bin_report.bin: bin_report.state_bytes for bin_report in after.report.bins}
            total += sum(
                sizes.get(bin, 0) for bin, channel in new.items() if _came_from(bin, old, new) != channel
            )
        return total

    def pins(self) -> int:
        """Entries of the last table beside its hash bins."""
        return len(self.entries[-1].decision.table.pins)

    def followed_after(self, case: Case, bound: float) -> int:
        """How many batches after the shift ran out of balance."""
        assert case.shift is not None
        late = [e.report.batch for e in self.entries[case.shift :] if e.report.row_imbalance > EVEN * bound]
        return late[-1] - case.shift + 1 if late else 0


def _came_from(bin: int, old: Table, new: Table) -> int:
    """The channel that had the state of a bin of the new table."""
    if bin in old.channel_of:
        return old.channel_of[bin]
    key = next(pin.hash for pin in new.pins if pin.bin == bin)
    held = old.pinned.get(key)
    return old.channel_of[held[0].bin if held else old.home_bin(key)]


HEADS = (
    "busiest over mean, in rows",
    "static",
    "rebuild",
    "at\nbest",
    "MB\nmoved",
    "pins",
    "plan\nms",
    "shift\nafter",
    "wrong\nrows",
)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goals. There is no use in repeating: rows are counted."""
    where = machine()
    todo = list(cases(quick=quick))
    results: list[Result] = []
    goals: list[Goal] = []
    grid = numbers_grid(f"bench skew{' (quick)' if quick else ''}", HEADS)
    grid.columns[0].justify = "left"
    wrong = 0
    with workspace() as work, local_spark(CORES, work / "spark.log") as spark:
        for at, case in enumerate(todo):
            static, ours = _compare(spark, case, work / f"case-{at}", progress, at / len(todo), 1 / len(todo))
            bound = busiest_bound(case.shares, case.channels)
            even = ours.settled()
            soon = ours.followed_after(case, bound) if case.shift is not None else None
            plan_ms = max(ours.planning_ms)
            results += [
                Result(f"busiest over mean: {case.name}", "rows/rows", even, "static", static.settled(), _samples(case, static, ours)),
                Result(f"at best: {case.name}", "rows/rows", bound, None, None, {}),
                Result(f"moved: {case.name}", "bytes", float(ours.moved_bytes()), None, None, {}),
                Result(f"pins: {case.name}", "keys", float(ours.pins()), None, None, {}),
                Result(f"planning: {case.name}", "ms", plan_ms, None, None, {f"planning, {case.name} (ms)": ours.planning_ms}),
            ]  # fmt: skip
            if case.operator == "history" and bound == 1 and case.shift is None:
                goals.append(Goal(f"busiest over mean: {case.name}", EVEN, even, at_most=True))
            if soon is not None:
                goals.append(
                    Goal(
                        f"out of balance after the shift: {case.name}",
                        SOON,
                        float(soon),
                        at_most=True,
                        unit=" batches",
                    )
                )
            wrong += ours.wrong_rows
            grid.add_row(
                case.name,
                f"{static.settled():.2f}",
                f"{even:.3f}",
                f"{bound:.2f}",
                f"{ours.moved_bytes() / 1e6:,.1f}",
                str(ours.pins()),
                f"{plan_ms:.0f}",
                "" if soon is None else str(soon),
                str(ours.wrong_rows),
            )
    goals.append(
        Goal("rows of output that differ from native Spark's", 0, float(wrong), at_most=True, unit="")
    )
    return Report("skew", tuple(results), tuple(goals), machine=where, quick=quick, shown=grid)


def _samples(case: Case, static: Trial, ours: Trial) -> dict[str, list[float]]:
    return {
        f"busiest over mean, {case.name}, {who}": [round(e.report.row_imbalance, 4) for e in trial.entries]
        for who, trial in (("static", static), ("rebuild", ours))
    }


class Timed(Rebuild):
    """Rebuild that measures the time of its plans."""

    spent_ms: list[float] = []  # noqa: RUF012

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """As it is."""
        began = time.perf_counter()
        plan = super().propose(view, table)
        self.spent_ms.append(1e3 * (time.perf_counter() - began))
        return plan


def _compare(
    spark: SparkSession, case: Case, work: Path, progress: Tick, done: float, part: float
) -> tuple[Trial, Trial]:
    _write(case, work / "input")
    compared = []
    for half, policy in enumerate(("static", "rebuild")):
        progress(f"{case.name}: {policy}", done + part * half / 2)
        compared.append(_trial(spark, case, work, policy))
    return compared[0], compared[1]


def _trial(spark: SparkSession, case: Case, work: Path, policy: str) -> Trial:
    from headgate.spark.stage import Stage
    from headgate.stage import sinks
    from headgate.stage.settings import Routing

    Timed.spent_ms.clear()
    stage = Stage(
        key="user",
        operator=OPERATORS[case.operator],
        routing=Routing(policy=Timed() if policy == "rebuild" else policy, channels=case.channels),
        checkpoint=str(work / policy),
        sink=sinks.Parquet(str(work / f"out-{policy}")),
        durable=False,
    )
    for batch in range(case.batches):
        stage(spark.read.parquet(str(work / f"input/{batch:05d}.parquet")), batch)
    wrong = 0
    if policy == "rebuild":
        history = case.operator == "history"
        rows, output = work / "input", work / "out-rebuild"
        wrong = (
            differing_history(spark, rows, output, K) if history else differing_aggregate(spark, rows, output)
        )
    return Trial(stage.journal(), list(Timed.spent_ms) or [0.0], wrong)


def _write(case: Case, folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(case.batches):
        pq.write_table(batch(case, number), folder / f"{number:05d}.parquet")


def batch(case: Case, number: int, seed: int = 0) -> pa.Table:
    """One batch; which keys are hot is drawn once, and again at the shift."""
    era = int(case.shift is not None and number >= case.shift)
    names = np.random.default_rng((11, era, seed) if seed else (11, era)).permutation(case.keys)
    draw = np.random.default_rng((12, number, seed) if seed else (12, number))
    rank = np.searchsorted(np.cumsum(case.shares), draw.random(case.rows)).clip(max=case.keys - 1)
    seq = np.arange(number * case.rows, (number + 1) * case.rows, dtype=np.int64)
    return pa.table(
        {"seq": seq, "user": names[rank], "amount": draw.integers(0, 1000, case.rows).astype(np.float64)}
    )
