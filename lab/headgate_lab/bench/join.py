"""`headgate bench join`: LineItem probing Orders, as in the MPC paper, with one of three channels
perturbed; `mpc` beside `static`.

Channels are paced; from the third batch on one of them has 43% of its speed. The response time
is that of the whole stream, without the building of the table. Every row of output is compared
with native Spark's join.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.console import Tick
from headgate.errors import ConfigError
from headgate.operators.hash_join import HashJoin
from headgate.spark.local import local_spark
from headgate.testing import pace
from headgate_lab.bench.job import workspace
from headgate_lab.bench.result import Goal, Report, Result, machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANNELS, PERTURBED, SLOW, PARTS = 3, 3, 0.43, 20


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goal."""
    where = machine()
    scale, pace_us = (0.001, 500.0) if quick else (0.005, 1000.0)
    times: dict[str, list[float]] = {"static": [], "mpc": []}
    wrong = 0
    with workspace() as work:
        _generate(scale, work / "tpch")
        with local_spark(CHANNELS + 1, work / "spark.log") as spark:
            progress("warming up", 0.0)
            _response_s(spark, "static", work / "tpch", work / "warm", 0.0)  # nobody pays for cold code
            for turn in range(repeat):
                order = ("static", "mpc") if turn % 2 == 0 else ("mpc", "static")
                for policy in order:
                    progress(f"{policy}, round {turn + 1}", (2 * turn + order.index(policy)) / (2 * repeat))
                    folder = work / f"{policy}-{turn}"
                    times[policy].append(_response_s(spark, policy, work / "tpch", folder, pace_us))
                    wrong += _differing(spark, work / "tpch", folder / "out")
    value, rival = (sorted(times[name])[len(times[name]) // 2] for name in ("mpc", "static"))
    samples = {f"{name} (s)": seconds for name, seconds in times.items()}
    result = Result(
        "response time of the join, one of three channels perturbed", "s", value, "static", rival, samples
    )
    goals = (
        Goal("response time, static over mpc", 1.3, rival / value),
        Goal("rows of output that differ from native Spark's", 0, wrong, at_most=True, unit=""),
    )
    return Report("join", (result,), goals, machine=where, quick=quick)


def _generate(scale: float, folder: Path) -> None:
    tool = Path(sys.executable).with_name("tpchgen-cli")
    if not tool.exists():
        raise ConfigError("the tables come from tpchgen-cli: pip install tpchgen-cli")
    common = [str(tool), "parquet", "-s", str(scale), f"--output-dir={folder}"]
    subprocess.run([*common, "--tables=orders"], check=True, capture_output=True)
    subprocess.run([*common, "--tables=lineitem", f"--parts={PARTS}"], check=True, capture_output=True)


def _response_s(spark: SparkSession, policy: str, data: Path, work: Path, pace_us: float) -> float:
    """Seconds of all batches after the first, which loads the build side."""
    from headgate.spark.stage import Stage
    from headgate.stage import sinks
    from headgate.stage.settings import Routing

    orders = spark.read.parquet(str(data / "orders.parquet")).select("o_orderkey", "o_custkey", "o_orderdate")
    stage = Stage(
        key="l_orderkey",
        operator=HashJoin(build=orders, on="o_orderkey"),
        routing=Routing(policy=policy, channels=CHANNELS),
        checkpoint=str(work / "stage"),
        sink=sinks.Parquet(str(work / "out")),
        durable=False,
    )
    pace(stage, pace_us)
    for batch, path in enumerate(sorted((data / "lineitem").glob("*.parquet"))):
        if batch == PERTURBED:
            pace(stage, {**dict.fromkeys(range(CHANNELS), pace_us), 0: pace_us / SLOW})
        lines = spark.read.parquet(str(path)).select("l_orderkey", "l_linenumber", "l_extendedprice")
        stage(lines, batch)
    return sum(entry.report.wall_ms for entry in stage.journal()[1:]) / 1e3


def _differing(spark: SparkSession, data: Path, output: Path) -> int:
    lines, orders = (spark.read.parquet(str(data / name)) for name in ("lineitem", "orders.parquet"))
    ours = spark.read.parquet(str(output)).drop("batch")
    native = lines.join(orders, lines.l_orderkey == orders.o_orderkey).select(*ours.columns)
    return int(native.exceptAll(ours).count() + ours.exceptAll(native).count())
