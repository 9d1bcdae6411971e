"""The doctor on real native jobs: recorded in a session that runs, and from the log that Spark writes by itself."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import headgate as hg
from headgate.cli import app
from headgate.doctor import costs
from headgate.doctor.diagnosis import Diagnosis, examine, read_application
from headgate.doctor.spark_hash import partition_of

BATCHES, ROWS, HOT = 4, 400, 300
SCHEMA = "user long, amount double, time timestamp"


def write_input(folder: Path) -> None:
    """Batches of one file, in which key 7 has three of four rows."""
    folder.mkdir()
    for number in range(BATCHES):
        users = [7] * HOT + [1000 * (number + 1) + n for n in range(ROWS - HOT)]
        seconds = [(1_700_000_000 + 60 * number) * 1_000_000 + n for n in range(ROWS)]
        times = pa.array(seconds).cast(pa.timestamp("us", tz="UTC"))
        table = pa.table({"user": users, "amount": [float(n) for n in range(ROWS)], "time": times})
        pq.write_table(table, folder / f"{number}.parquet")


def run(spark: Any, source: Path, work: Path, answers: Any, name: str, mode: str = "update") -> None:
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = answers(rows).writeStream.queryName(name).outputMode(mode).format("noop")
    query = writer.option("checkpointLocation", str(work / name)).trigger(availableNow=True).start()
    query.awaitTermination()


@pytest.fixture(scope="module")
def recorded(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recording of two native queries, beside their input and checkpoints."""
    work: Path = tmp_path_factory.mktemp("doctor")
    write_input(work / "in")
    with hg.doctor.record(spark, str(work / "recording")) as recording:
        run(spark, work / "in", work, lambda rows: rows.groupBy("user").sum("amount"), "sums")
        delayed = lambda rows: rows.withWatermark("time", "20 seconds").dropDuplicates(["user", "time"])  # noqa: E731
        run(spark, work / "in", work, delayed, "firsts", "append")
    recording.stop()
    return work


def diagnosed(work: Path, name: str, **options: Any) -> Diagnosis:
    log = str(work / "recording")
    (found,) = examine(read_application(log), log, costs.load(), query=name, **options).diagnoses
    return found


def test_a_recorded_query_has_its_batches_and_operators(recorded: Path) -> None:
    found = diagnosed(recorded, "sums")
    assert (found.findings.batches, found.findings.rows) == (BATCHES, ROWS)
    assert found.source.startswith("FileStreamSource")
    assert found.operators == ("stateStoreSave",)
    assert found.prediction.default is not None
    assert "aggregate(" in found.steps[1]
    assert any(".dedup(" in step for step in diagnosed(recorded, "firsts").steps)


@pytest.mark.classic
def test_a_recorded_stage_has_tasks_keys_and_state(recorded: Path) -> None:
    found = diagnosed(recorded, "sums")
    (stage,) = found.findings.stages
    assert (stage.kind, stage.key, stage.partitions) == ("aggregate", ("user",), 2)
    assert stage.state_rows == 1 + BATCHES * (ROWS - HOT)
    assert stage.touched == 1 + ROWS - HOT
    shares = found.findings.shares
    assert 0 < shares.fixed < 1
    assert shares.state > 0
    assert shares.python == 0


@pytest.mark.classic
def test_a_stage_that_sends_every_row_shows_the_hot_partition(recorded: Path) -> None:
    (stage,) = diagnosed(recorded, "firsts").findings.stages
    assert (stage.kind, stage.key) == ("dedup", ("user", "time"))
    assert sum(stage.loads[-1]) == ROWS


def test_the_command_reads_a_recording(recorded: Path, tmp_path: Path) -> None:
    sample = str(recorded / "in")
    done = CliRunner().invoke(
        app,
        [
            "doctor",
            str(recorded / "recording"),
            "--query",
            "sums",
            "--sample",
            sample,
            "--key",
            "user",
            "--json",
        ],
    )
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["queries"]
    assert found["sample"]["hot"][0]["key"] == "7"
    assert found["sample"]["hot"][0]["share"] == HOT / ROWS
    assert {each["policy"] for each in found["prediction"]["policies"]} >= {"static", "rebuild", "flux-load"}


@pytest.mark.classic
def test_keys_of_native_state_are_read(spark: Any, recorded: Path) -> None:
    from headgate.spark.doctoring import state_keys

    keys = state_keys(spark, str(recorded / "sums"), 10_000)
    assert keys.column_names == ["user"]
    assert len(keys) == 1 + BATCHES * (ROWS - HOT)
    with pytest.raises(hg.errors.ConfigError, match="--sample FILE --key COLUMN"):
        state_keys(spark, str(recorded / "in"), 10)


def test_partitions_are_those_of_spark(spark: Any) -> None:
    rows = [(n * 7919 - 5000, n, f"né{n}"[: n % 5]) for n in range(50)] + [(None, None, None)]
    frame = spark.createDataFrame(rows, "a long, b int, c string")
    types = [pa.int64(), pa.int32(), pa.string()]
    for names in (["a"], ["b"], ["c"], ["a", "b", "c"]):
        at = ["abc".index(name) for name in names]
        wanted = [r[0] for r in frame.selectExpr(f"pmod(hash({', '.join(names)}), 13)").collect()]
        assert [partition_of([row[i] for i in at], [types[i] for i in at], 13) for row in rows] == wanted


NATIVE = """
import sys
from pathlib import Path
from headgate.spark.local import local_spark
from tests.spark.test_doctor import run

work = Path(sys.argv[1])
conf = {
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": (work / "log").as_uri(),
    "spark.sql.shuffle.partitions": "3", **dict(pair.split("=") for pair in sys.argv[2:]),
}
(work / "log").mkdir()
with local_spark(2, work / "spark.log", conf, ours=False) as spark:
    run(spark, work / "in", work, lambda rows: rows.groupBy("user").sum("amount"), "sums")
"""


@pytest.mark.full
@pytest.mark.classic
@pytest.mark.parametrize(
    "settings",
    [[], ["spark.eventLog.compression.codec=lz4"], ["spark.eventLog.compress=false", "spark.eventLog.rolling.enabled=false"]],
    ids=["default", "lz4", "plain"],
)  # fmt: skip
def test_the_logs_that_spark_writes_are_read(settings: list[str], java_home: str, tmp_path: Path) -> None:
    write_input(tmp_path / "in")
    subprocess.run([sys.executable, "-c", NATIVE, str(tmp_path), *settings], check=True, timeout=300)
    application = read_application(str(tmp_path / "log"))
    assert (application.ended, application.cores, application.damaged) == (True, 2, 0)
    (query,) = application.queries
    assert [batch.rows for batch in query.batches] == [ROWS] * BATCHES
    (found,) = examine(application, "log", costs.load()).diagnoses
    assert found.findings.stages[0].partitions == 3


@pytest.mark.full
@pytest.mark.classic
def test_constants_are_measured_for_every_kind(spark: Any, tmp_path: Path) -> None:
    from headgate.doctor.calibrate import STREAMS, measured
    from headgate.doctor.operators import KINDS

    found = measured(spark, 2, tmp_path, lambda step, part: None, quick=True)
    assert set(found.kinds) == set(STREAMS) == set(KINDS)
    for cost in found.kinds.values():
        assert cost.fixed_ms + cost.row_us + cost.key_us > 0
