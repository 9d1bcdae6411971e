"""From a part of the bench to its tasks, and from the times of these to what is reported."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.cli.console import Tick
from headgate_lab.bench import data
from headgate_lab.bench.direct import answers
from headgate_lab.bench.direct.task import Task, run_tasks
from headgate_lab.bench.direct.works import DIRECT, STAGE, Sizes, Work, native_way, works
from headgate_lab.bench.nexmark import events
from headgate_lab.bench.rounds import Times, folder_of

SYSTEMS = {DIRECT: "direct", STAGE: "headgate"}
COMPARED = "one file a batch"
CLOSING = 3
"""Batches of one row, a minute apart, after those with event time: they close what is open."""


@dataclass
class Plan:
    """The tasks of a part, by process, and how many of the last batches of each count."""

    part: str
    works: list[Work] = field(default_factory=list)
    groups: list[list[Task]] = field(default_factory=list)
    steady: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Same:
    """Answers compared with native's: how many there are, and how many differ for each of our ways."""

    rows: int
    differing: dict[str, int]


def prepare(part: str, sizes: Sizes, work: Path) -> Plan:
    """Write the input of a part, and say what is to run."""
    if part == "first":
        return _first(sizes, work)
    if part == "state":
        return _state(sizes, work)
    plan = Plan(part, works(part, sizes))
    tasks: list[Task] = []
    folder, closing = work / part, 0
    if part == "nexmark":
        events.write(folder, events=sizes.events, batches=sizes.event_batches)
        closing = events.CLOSING
    else:
        data.write(_input(part, plan.works[0], sizes), folder)
        closing = CLOSING if part == "operators" else 0
    for one in plan.works:
        if one.twin is not None:
            drawn = _single(one.twin.rows, one.twin.batches, sizes.keys)
            drawn = _whole(drawn) if part == "history" else drawn
            data.write(data.timed(drawn), work / f"{part}-twin")
        for task, steady in _tasks(one, folder, work / f"{part}-twin", closing):
            tasks.append(task)
            plan.steady[task.name] = steady
    plan.groups = [tasks]
    return plan


def _input(part: str, one: Work, sizes: Sizes) -> Iterator[pa.Table]:
    if part == "small":
        return _single(one.rows, one.batches, sizes.keys)
    rows = data.zipf(one.rows, one.batches, sizes.keys)
    if part == "operators":
        last = pa.table({"user": [answers.CLOSING_USER], "amount": [0.0]})
        return data.timed(chain(rows, [last] * CLOSING))
    return _named(rows) if one.strings else rows


def _single(rows: int, batches: int, keys: int) -> Iterator[pa.Table]:
    """Batches of one file each: the writer makes two files of what it gets."""
    return data.zipf(2 * rows, batches // 2, keys, seed=4)


def _named(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same with strings as keys."""
    for rows in batches:
        names = pc.binary_join_element_wise("user", rows["user"].cast(pa.string()), "-")
        yield rows.set_column(0, "user", names)


def _whole(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same with whole numbers, whose sums are exact in any order."""
    for rows in batches:
        yield rows.set_column(1, "amount", pa.array(np.rint(rows["amount"].to_numpy())))


def task_name(work: str, way: str) -> str:
    """What the task of a way is called."""
    return f"{work}, {way}"


def _tasks(one: Work, source: Path, twin: Path, closing: int) -> Iterator[tuple[Task, int]]:
    batches = one.batches + closing

    def task(way: str, system: str, **more: object) -> Task:
        name = task_name(one.name, way)
        made = Task(name, system, one.operator, str(source), batches, name, closing=closing, rows=one.rows)
        made = replace(made, files=one.files, strings=one.strings)
        return replace(made, **more)  # type: ignore[arg-type]

    for way, system in SYSTEMS.items():
        yield task(way, system), one.steady
    if not one.slow:
        for store in one.stores:
            yield task(native_way(store), "native", store=store), one.steady
    if one.twin is not None:
        own = {
            "source": str(twin),
            "batches": one.twin.batches,
            "rows": one.twin.rows,
            "files": 1,
            "closing": 0,
        }
        for way, system in SYSTEMS.items():
            yield task(f"{way}, {COMPARED}", system, **own), one.twin.steady
        store = one.stores[0]
        way = native_way(store) if one.slow else f"{native_way(store)}, {COMPARED}"
        yield task(way, "native", store=store, **own), one.twin.steady


FIRST = {"aggregate": "aggregate", "zscore": "kernel not compiled yet"}


def _first(sizes: Sizes, work: Path) -> Plan:
    """A process for each way; the kernel has an empty cache, and no native twin, which takes minutes."""
    plan, source = Plan("first"), work / "first"
    data.write(data.zipf(sizes.first_rows, 1, sizes.keys), source)
    for operator in sizes.first_of:
        ways = SYSTEMS if operator == "zscore" else SYSTEMS | {native_way("hdfs"): "native"}
        for way, system in ways.items():
            name = task_name(f"first {operator}", way)
            task = Task(name, system, operator, str(source), 1, name, rows=sizes.first_rows, first=True)
            plan.groups.append([replace(task, store="hdfs", anew=operator == "zscore")])
            plan.steady[name] = 1
    return plan


def state_name(keys: int, turn: int) -> str:
    """What the task beside so many untouched keys is called."""
    return f"direct, {keys:,} untouched keys, turn {turn}"


def _state(sizes: Sizes, work: Path) -> Plan:
    """Both numbers of keys take turns in one session: sessions differ by more than what is to be seen."""
    plan = Plan("state")
    loads, turns = [], []
    for keys in (sizes.few_keys, sizes.many_keys):
        source, rows = work / f"state-{keys}", min(keys, sizes.preload_rows)
        batches = data.write(data.untouched(keys, rows), source)
        name = f"loading {keys:,} untouched keys"
        load = Task(name, "direct", "aggregate", str(source), batches, f"state {keys:,}", rows=rows)
        loads.append(load)
        plan.steady[name] = 1
        for turn in range(sizes.state_turns):
            more = work / f"more-{keys}-{turn}"
            drawn = data.uniform(sizes.state_rows, sizes.state_batches, sizes.state_rows, seed=turn)
            data.write(drawn, more)
            then = replace(load, name=state_name(keys, turn), batches=sizes.state_batches, adds=str(more))
            turns.append((turn, replace(then, rows=sizes.state_rows)))
            plan.steady[then.name] = sizes.state_steady
    plan.groups.append(loads + [task for _, task in sorted(turns, key=lambda pair: pair[0])])
    return plan


def run_plans(
    plans: list[Plan], *, repeat: int, together: bool, work: Path, progress: Tick
) -> tuple[Times, dict[str, Same]]:
    """The steady times of all tasks over all rounds, and the answers of the first round compared.

    `together` puts all tasks that need no process of their own into one. In every second round the
    ways run in the opposite order.
    """
    groups = [group for plan in plans for group in plan.groups]
    if together:
        alone = [group for group in groups if group[0].first]
        groups = [[task for group in groups if group not in alone for task in group], *alone]
    groups = [group for group in groups if group]
    steady = {name: count for plan in plans for name, count in plan.steady.items()}
    times: Times = {name: [] for name in steady}
    same: dict[str, Same] = {}
    total, done = repeat * sum(task.batches for group in groups for task in group), 0
    for number in range(repeat):
        for group in groups:
            placed = [replace(task, work=str(folder_of(task.work, work, number))) for task in group]
            ordered = placed if number % 2 == 0 or any(task.adds for task in group) else placed[::-1]
            base = done
            ahead = {task.name: sum(t.batches for t in ordered[:at]) for at, task in enumerate(ordered)}

            def tick(task: Task, batch: int, *, base: int = base, ahead: dict[str, int] = ahead) -> None:
                said = f"{task.name}: batch {batch} of {task.batches}" if batch else f"{task.name}: starting"
                progress(said, (base + ahead[task.name] + batch) / total)

            Path(ordered[0].work).parent.mkdir(parents=True, exist_ok=True)
            for name, measured in run_tasks(ordered, tick).items():
                times[name] += measured[-steady[name] :]
            done += sum(task.batches for task in group)
        if number == 0:
            progress("comparing the answers", min(1.0, done / total))
            same = {one.name: _compare(one, work) for plan in plans for one in plan.works}
        shutil.rmtree(work / f"round-{number}", ignore_errors=True)
    return times, same


def _compare(one: Work, work: Path) -> Same:
    def folder(way: str) -> Path:
        apart = one.twin is not None and not (one.slow and way in one.native)
        return folder_of(task_name(one.name, f"{way}, {COMPARED}" if apart else way), work)

    rows, differing = 0, {}
    for way in SYSTEMS:
        rows, differing[way] = answers.compared(one.operator, folder(way), folder(one.native[0]))
    return Same(rows, differing)
