"""The parts of the bench: what runs in which order, and what is made of the times."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headgate.cli.console import Tick
from headgate_lab.bench.direct.answers import Shape, differing, read
from headgate_lab.bench.kafka import producer
from headgate_lab.bench.kafka.broker import Broker
from headgate_lab.bench.kafka.latency import percentile, sliced
from headgate_lab.bench.kafka.task import Task, run_tasks
from headgate_lab.bench.result import Goal, Result

PARTS = ("backlog", "latency", "sink")
OURS, HDFS, ROCKSDB, WRITES = (
    "direct",
    "native, HDFS-backed state",
    "native, RocksDB",
    "native, no transaction",
)
SHAPE = Shape(("user", "n", "total"), newest=("user",))


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    partitions: int = 4
    records: int = 4_000_000
    rows: int = 500_000
    """Of a batch of the backlog."""
    keys: int = 100_000
    rounds: int = 3
    rates: tuple[int, ...] = (1_000, 50_000)
    warm_s: float = 20.0
    steady_s: float = 60.0
    slice_s: float = 10.0
    live_keys: int = 10_000
    live_rounds: int = 2
    sent: int = 300_000
    """Records of a large transaction."""
    large: int = 9
    small: int = 60


QUICK = Sizes(
    records=40_000,
    rows=10_000,
    keys=100,
    rounds=1,
    rates=(200,),
    warm_s=2.0,
    steady_s=4.0,
    slice_s=2.0,
    live_keys=100,
    live_rounds=1,
    sent=2_000,
    large=3,
    small=4,
)
COLD = 2
"""The first batches of a run do not count."""
FEW = 10
"""Records of a small transaction."""


@dataclass(frozen=True)
class Found:
    """What a part found."""

    results: tuple[Result, ...]
    goals: tuple[Goal, ...]


def measure(part: str, sizes: Sizes, broker: Broker, work: Path, *, repeat: int, progress: Tick) -> Found:
    """Measure a part."""
    work.mkdir(parents=True)
    return {"backlog": _backlog, "latency": _latency, "sink": _sink}[part](
        sizes, broker, work, repeat, progress
    )


def _ways(operator: str, **more: object) -> list[Task]:
    made = [Task(OURS, "direct", operator, "", 0, "")]
    made += [
        Task(name, "native", operator, "", 0, "", store=store)
        for name, store in ((HDFS, "hdfs"), (ROCKSDB, "rocksdb"))
    ]
    return [replace(task, **more) for task in made]  # type: ignore[arg-type]


def _in_order(ways: list[Task], number: int) -> list[Task]:
    return ways if number % 2 == 0 else list(reversed(ways))


def _one(task: Task) -> list[float]:
    Path(task.work).mkdir(parents=True)
    return run_tasks([task], lambda _task, _batch: None)[task.name]


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)


# -- backlog


def _backlog(sizes: Sizes, broker: Broker, work: Path, repeat: int, progress: Tick) -> Found:
    progress(f"sending {sizes.records:,} records", 0.0)
    broker.create("backlog", sizes.partitions)
    producer.backlog(
        broker.servers, "backlog", partitions=sizes.partitions, records=sizes.records, keys=sizes.keys
    )
    rounds, batches = sizes.rounds * repeat, sizes.records // sizes.rows
    ways = _ways("backlog", source="backlog", servers=broker.servers, rows=sizes.rows, batches=batches)
    samples: dict[str, list[float]] = {way.name: [] for way in ways}
    differ = 0
    for number in range(rounds):
        for at, way in enumerate(_in_order(ways, number)):
            progress(f"backlog, round {number + 1}: {way.name}", (number + at / len(ways)) / rounds)
            placed = replace(way, work=str(work / str(number) / _slug(way.name)))
            times = _one(placed)
            samples[way.name] += [1e3 * sizes.rows / ms for ms in times[min(COLD, len(times) - 1) :]]
        outs = [work / str(number) / _slug(way.name) / "out" for way in ways]
        ours, *natives = (read(out, SHAPE) for out in outs)
        differ += sum(differing(ours, native) for native in natives)
    rivals = (HDFS, ROCKSDB)
    rival = max(rivals, key=lambda name: statistics.median(samples[name]))
    name = "JSON records from Kafka, aggregated by key, to Parquet"
    result = _compared(name, "rows/s", samples, rival)
    goals = (
        Goal(name, 1.0, result.ratio or 0.0),
        Goal(f"{name}: answers that differ", 0.0, float(differ), at_most=True, unit=""),
    )
    return Found((result,), goals)


def _compared(name: str, unit: str, samples: dict[str, list[float]], rival: str) -> Result:
    middle = {way: statistics.median(values) for way, values in samples.items()}
    return Result(name, unit, middle[OURS], rival, middle[rival], samples)


# -- latency


def _latency(sizes: Sizes, broker: Broker, work: Path, repeat: int, progress: Tick) -> Found:
    results: list[Result] = []
    goals: list[Goal] = []
    rounds, done = sizes.live_rounds * repeat, 0
    for rate in sizes.rates:
        ways = _ways(
            "latency",
            servers=broker.servers,
            partitions=sizes.partitions,
            keys=sizes.live_keys,
            rate=rate,
            seconds=sizes.warm_s + sizes.steady_s,
        )
        total = rounds * len(sizes.rates) * len(ways)
        slices: dict[str, dict[str, list[float]]] = {way.name: {"p50": [], "p99": []} for way in ways}
        whole: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {way.name: [] for way in ways}
        for number in range(rounds):
            for way in _in_order(ways, number):
                progress(f"{rate:,} records/s, round {number + 1}: {way.name}", done / total)
                topic = f"live-{rate}-{number}-{_slug(way.name)}"
                broker.create(topic, sizes.partitions)
                folder = work / str(number) / f"{rate}-{_slug(way.name)}"
                _one(replace(way, source=topic, work=str(folder)))
                with np.load(folder / "latency.npz") as saved:
                    sent, waited = saved["sent"], saved["waited"]
                whole[way.name].append((sent, waited))
                cut = sliced(sent, waited, after_s=sizes.warm_s, slice_s=sizes.slice_s)
                for name, values in cut.items():
                    slices[way.name][name] += values
                broker.delete(topic)
                done += 1
        found = _percentiles(rate, sizes, slices, whole)
        results += found
        goals += [Goal(result.name, 1.0, result.ratio or 0.0, at_most=True) for result in found]
    return Found(tuple(results), tuple(goals))


def _percentiles(
    rate: int,
    sizes: Sizes,
    slices: dict[str, dict[str, list[float]]],
    whole: dict[str, list[tuple[np.ndarray, np.ndarray]]],
) -> list[Result]:
    """p50 and p99 over all records: the median of the rounds. The native store with the lower p50 counts."""

    def value(way: str, q: float) -> float:
        return float(
            statistics.median(
                percentile(sent, waited, q, after_s=sizes.warm_s) for sent, waited in whole[way]
            )
        )

    rival = min((HDFS, ROCKSDB), key=lambda way: value(way, 50))
    results = []
    for name, q in (("p50", 50.0), ("p99", 99.0)):
        samples = {way: found[name] for way, found in slices.items()}
        title = f"latency at {rate:,} records/s, {name}"
        results.append(Result(title, "ms", value(OURS, q), rival, value(rival, q), samples))
    return results


# -- the sink


def _sink(sizes: Sizes, broker: Broker, work: Path, repeat: int, progress: Tick) -> Found:
    ways = [Task(OURS, "direct", "sink", "", 0, ""), Task(WRITES, "native", "sink", "", 0, "")]
    times: dict[int, dict[str, list[float]]] = {
        size: {way.name: [] for way in ways} for size in (sizes.sent, FEW)
    }
    for number in range(repeat):
        for at, way in enumerate(_in_order(ways, number)):
            progress(f"sink: {way.name}", (number + at / 2) / repeat)
            tasks: list[Task] = []
            for size, count in ((sizes.sent, sizes.large), (FEW, sizes.small)):
                topic = f"out-{number}-{size}-{_slug(way.name)}"
                broker.create(topic, sizes.partitions)
                folder = work / str(number) / f"{size}-{_slug(way.name)}"
                named = replace(way, name=f"{way.name} {size}", source=topic, servers=broker.servers)
                tasks.append(replace(named, rows=size, batches=count + COLD, work=str(folder)))
                folder.mkdir(parents=True)
            took = run_tasks(tasks, lambda _task, _batch: None)
            for size in times:
                times[size][way.name] += took[f"{way.name} {size}"][COLD:]
    return Found((_rate(times[sizes.sent], sizes.sent), _each(times[FEW])), ())


def _rate(times: dict[str, list[float]], size: int) -> Result:
    samples = {way: [1e3 * size / ms for ms in values] for way, values in times.items()}
    return _compared(f"the sink, transactions of {size:,} records", "records/s", samples, WRITES)


def _each(times: dict[str, list[float]]) -> Result:
    return _compared(f"the sink, a transaction of {FEW} records", "ms", times, WRITES)
