"""`headgate bench kafka`: direct streams and the Kafka sink beside native Spark with its own connector, on a real broker.

The broker (Apache Kafka in KRaft mode) runs on the same machine; its jars come through Maven. Every way runs in a
process and a JVM of its own, and in every second round in the opposite order. Native runs on both of its state stores;
the faster counts.

`backlog`: JSON records on several partitions are read, parsed, aggregated by key and written as Parquet, in batches of
equal size. A batch's time is the whole of it; the first two of a run do not count.

`latency`: a process sends records at a fixed rate, and takes the time of each just before it hands it to its client. A
record's latency is from there to the moment when the batch with it appeared: for ours its record in the output folder,
for native the file `_SUCCESS` of the folder of the batch, both by the file system's clock. Both queries begin a batch as
soon as the one before has ended. What is sent while they warm up does not count.

`sink`: the time to publish a batch as a transaction. The rival writes the same records without one.

Without `quick`, the results go to `benchmarks/results/kafka.json` if there is a folder `benchmarks`, and
`python -m headgate_lab.bench.kafka.page` writes them into `docs/reference/kafka.md`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from headgate.cli.console import Tick, unknown
from headgate_lab.bench.job import workspace
from headgate_lab.bench.kafka import parts
from headgate_lab.bench.kafka.broker import CONNECTOR, KAFKA, Broker, jars
from headgate_lab.bench.kafka.parts import PARTS, QUICK, Found, Sizes
from headgate_lab.bench.result import Report, machine

RESULTS = Path("benchmarks/results/kafka.json")


def run(*, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = ()) -> Report:
    """Measure all parts, or `only` some."""
    for part in only:
        if part not in PARTS:
            raise unknown("part of bench kafka", part, PARTS)
    chosen = [part for part in PARTS if not only or part in only]
    where = {**machine(), "kafka": KAFKA.rpartition(":")[2], "connector": CONNECTOR[0].rpartition(":")[2]}
    progress("finding the jars of Kafka and of Spark's connector", 0.0)
    jars(*CONNECTOR, alone=True)
    founds: list[Found] = []
    with workspace() as work, Broker(work / "broker") as broker:
        for at, part in enumerate(chosen):

            def within(text: str, share: float, *, at: int = at) -> None:
                progress(text, (at + share) / len(chosen))

            sizes = QUICK if quick else Sizes()
            founds.append(parts.measure(part, sizes, broker, work / part, repeat=repeat, progress=within))
    results = tuple(result for found in founds for result in found.results)
    goals = tuple(goal for found in founds for goal in found.goals)
    report = Report("kafka", results, goals, where, quick=quick)
    if not quick and RESULTS.parents[1].is_dir() and not only:
        RESULTS.parent.mkdir(exist_ok=True)
        text = json.dumps(report.as_json(), indent=1, allow_nan=False)
        RESULTS.write_text(text + "\n", encoding="utf-8")
    return report
