"""The job of `test_cluster`: `python cluster_job.py MASTER WAY FOLDER`. It kills executors and workers of its
own, and checks the answer. WAY is `stage` (called as `foreachBatch` would) or `direct` (a direct stream).
"""

import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate import agg

CHANNELS = 4
ROWS, KEYS = 4000, 211


def children(parent: int) -> list[int]:
    """Direct children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent
            ):
                found.append(int(entry.name))
        except (OSError, IndexError):
            continue
    return found


def python_workers(executor: int) -> list[int]:
    """Forked Python workers of an executor (the grandchildren: JVM, daemon, worker)."""
    return [w for daemon in children(executor) for w in children(daemon)]


def places(stage: Any) -> dict[int, str]:
    return {c.channel: c.executor for c in stage.journal()[-1].report.channels}


def main(master: str, way: str, folder: Path) -> None:
    spark = (
        hg.configure(SparkSession.builder.master(master))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.cores", "1")
        .config("spark.executor.memory", "600m")
        .config("spark.locality.wait", "10s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    while spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos().__len__() < 3:
        time.sleep(0.2)

    sink = hg.sinks.Memory()
    operator = hg.Aggregate(n=agg.count(), total=agg.sum("v"), last=agg.last("v"))
    routing = hg.Routing(channels=CHANNELS, bins=32)
    source = hg.sources.Rows(schema=pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    query: Any = None
    if way == "direct":
        rows = hg.read(spark).source(source).key_by("k", routing=routing)
        query = rows.apply(operator).write(sink).start(str(folder / "ckpt"))
        stage = query.stages[0]
    else:
        stage = hg.Stage(
            key="k", operator=operator, routing=routing, checkpoint=str(folder / "ckpt"), sink=sink
        )
    hg.testing.pace(stage, 800)
    expected: Counter[int] = Counter()
    totals: Counter[int] = Counter()

    def batch(number: int) -> None:
        ids = range(number * ROWS, (number + 1) * ROWS)
        expected.update(i * i % KEYS for i in ids)
        for i in ids:
            totals[i * i % KEYS] += i
        if query is not None:
            source.add(pa.table({"k": [i * i % KEYS for i in ids], "v": list(ids)}))
            query.process_all_available()
            return
        frame = spark.range(number * ROWS, (number + 1) * ROWS, 1, 2)
        stage(frame.select((F.col("id") * F.col("id") % KEYS).alias("k"), F.col("id").alias("v")), number)

    def soon(victim: Any) -> threading.Timer:
        timer = threading.Timer(1.0, victim)
        timer.start()
        return timer

    for number in range(8):  # the first few may find the executors still warming up, and anchor again
        batch(number)
    seen = [{c.channel: c.executor for c in e.report.channels} for e in stage.journal()]
    settled = seen[-4:]
    assert sorted(Counter(seen[-1].values()).values()) == [2, 2], f"channels should be spread evenly: {seen}"
    assert all(s == settled[0] for s in settled), f"channels wandered: {seen}"
    assert all(c.rebuilt_bins == 0 for e in stage.journal()[-4:] for c in e.report.channels), (
        "state was rebuilt without a need"
    )
    print("channels stayed on their executors", settled[0], flush=True)

    victim = int(places(stage)[0].split("/")[1])
    killed: list[int] = []

    def kill_workers() -> None:
        killed.extend(python_workers(victim))
        for worker in killed:
            os.kill(worker, signal.SIGKILL)

    timer = soon(kill_workers)
    batch(8)
    assert killed, "the batch was over before its workers could be killed"
    timer.join()
    print("a Python worker was killed in batch 8", flush=True)

    victim = int(places(stage)[0].split("/")[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{victim}/cmdline").read_bytes(), (
        "an executor is a JVM"
    )
    timer = soon(lambda: os.kill(victim, signal.SIGKILL))
    batch(9)
    assert not timer.is_alive(), "the batch was over before its executor could be killed"
    timer.join()
    assert not os.path.exists(f"/proc/{victim}")
    print("an executor was killed in batch 9", places(stage), flush=True)

    for number in range(10, 33):
        batch(number)
        spread = sorted(Counter(places(stage).values()).values())
        if spread == [2, 2] and number >= 12:
            break
        time.sleep(0.5)
    assert spread == [2, 2], f"channels did not spread again over the replacement: {places(stage)}"
    print("channels spread again", places(stage), flush=True)

    got = {k[0]: (r["n"], r["total"]) for k, r in sink.latest("k").items()}
    assert got == {k: (expected[k], totals[k]) for k in expected}
    print("exact answer", flush=True)
    if query is not None:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
