"""LineItem probing Orders, as in the MPC paper: the build side in a stage's state, probed by a stream, and balanced while it runs.

    pip install 'headgate[spark]' tpchgen-cli
    python examples/tpch_join.py [SCALE]

Orders is built once; LineItem arrives as a stream of files. Some machines are slower than others (here: paced channels), and the
policy moves bins of the build side to the faster ones while the probing goes on.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import headgate as hg


def generate(scale: float, folder: Path) -> None:
    """Orders in one file, LineItem in ten."""
    tool = str(Path(sys.executable).with_name("tpchgen-cli"))
    common = [tool, "parquet", "-s", str(scale), f"--output-dir={folder}"]
    subprocess.run([*common, "--tables=orders"], check=True, capture_output=True)
    subprocess.run([*common, "--tables=lineitem", "--parts=10"], check=True, capture_output=True)


def join(spark: SparkSession, data: Path, work: Path) -> hg.Stage:
    """Run the join over the whole stream; the stage, for its journal."""
    orders = spark.read.parquet(str(data / "orders.parquet")).select(
        "o_orderkey", "o_custkey", "o_orderdate", "o_orderpriority"
    )
    lines = spark.read.parquet(str(data / "lineitem")).select("l_orderkey", "l_linenumber", "l_extendedprice")
    stream = (
        spark.readStream.schema(lines.schema).option("maxFilesPerTrigger", 1).parquet(str(data / "lineitem"))
    )
    stage = hg.Stage(
        key="l_orderkey",
        operator=hg.HashJoin(build=orders, on="o_orderkey"),
        routing=hg.Routing(policy="flux-load", channels=4),
        checkpoint=str(work / "stage"),
        sink=hg.sinks.Parquet(str(work / "joined")),
    )
    hg.testing.pace(stage, {0: 30.0, 1: 10.0, 2: 10.0, 3: 10.0})  # microseconds a row
    query = (
        stream.writeStream.foreachBatch(stage)
        .option("checkpointLocation", str(work / "spark"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return stage


def main() -> None:
    """Generate, join, and say what was done."""
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 0.01
    spark = hg.configure(SparkSession.builder.master("local[4]")).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        data, work = Path(folder) / "tpch", Path(folder) / "work"
        generate(scale, data)
        stage = join(spark, data, work)
        print(stage.status())
        print(f"{spark.read.parquet(str(work / 'joined')).count():,} rows joined")


if __name__ == "__main__":
    main()
