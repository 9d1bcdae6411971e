"""The oracle: native Spark, with the jars of Delta and Iceberg themselves, reads the tables that headgate wrote.

Their releases are for certain versions of Spark. So Spark is installed beside this environment, once, in a version that both
know; the tests are skipped, and say why, where it or the jars cannot be had.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kafka_broker import jars
from tests.stage.staged import WIDER, Staged

import headgate as hg

SPARK = "4.1.4"
DELTA = "io.delta:delta-spark_2.13:4.4.0"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
ROOT = Path(__file__).parents[2]
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"mode": "upsert", "key": "k"},
    "partitioned": {"partition_by": "k"},
}


@pytest.fixture(scope="module")
def other_spark() -> Path:
    """A Python with the version of Spark that the jars are made for."""
    place = Path(sys.prefix) / "jars" / f"pyspark-{SPARK}"
    python, mark = place / "bin" / "python", place / "complete"
    if not mark.exists():
        found = subprocess.run([ROOT / "script" / "find-uv"], capture_output=True, text=True, check=False)
        if found.returncode:
            pytest.skip(f"needs uv, to install pyspark {SPARK}")
        uv = found.stdout.strip()
        for words in (
            ["venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, place],
            ["pip", "install", "--quiet", "--python", python, f"pyspark=={SPARK}"],
        ):
            done = subprocess.run([uv, *map(str, words)], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"pyspark {SPARK} cannot be installed: {done.stderr.strip()[:300]}")
        mark.touch()
    return python


def write(sink: hg.sinks.Sink, folder: Path) -> None:
    """Some batches, one of them without rows, one with a new column, two drivers."""
    staged = Staged(folder)
    staged.start(sink)
    for files in ([[{"k": 1, "n": 1}, {"k": 2, "n": 2}], [{"k": 3, "n": 3}]], [], [[{"k": 2, "n": 7}]]):
        sink.publish(staged.add(*files))
        staged.start(sink)
    sink.publish(staged.add([{"k": 4, "n": 4, "new": "x"}], schema=WIDER))


def native(python: Path, kind: str, found: list[str], tables: list[str], java_home: str) -> list[Any]:
    """What native Spark reads from each table: how many rows have k >= 2, and all rows."""
    job = Path(__file__).with_name("lake_jars_job.py")
    done = subprocess.run(
        [python, job, kind, ",".join(found), *tables],
        env={**os.environ, "JAVA_HOME": java_home, "PYSPARK_PYTHON": str(python)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("rows: ")]
    assert told, done.stderr[-4000:]
    return json.loads(told[0].removeprefix("rows: "))


def check(rows: list[Any]) -> None:
    history = [[1, 1], [2, 2], [2, 7], [3, 3], [4, 4]]
    now = [[1, 1], [2, 7], [3, 3], [4, 4]]
    expected = {"append": history, "upsert": now, "partitioned": history}
    assert rows == [[len(wanted) - 1, wanted] for wanted in expected.values()]


@pytest.mark.full
def test_native_spark_reads_our_delta_tables(other_spark, java_home, tmp_path) -> None:
    pytest.importorskip("deltalake")
    found = [path for path in jars(DELTA) if "/io/delta/" in path]
    for kind, options in KINDS.items():
        write(hg.sinks.Delta(str(tmp_path / kind), **options), tmp_path / f"c-{kind}")
    check(native(other_spark, "delta", found, [str(tmp_path / kind) for kind in KINDS], java_home))


@pytest.mark.full
def test_native_spark_reads_our_iceberg_tables(other_spark, java_home, tmp_path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    found = [path for path in jars(ICEBERG) if "iceberg-spark-runtime" in path]
    catalog = catalogs.load_catalog(
        "test", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake"
    )
    places = []
    for kind, options in KINDS.items():
        write(hg.sinks.Iceberg(f"shop.{kind}", catalog=catalog, **options), tmp_path / f"c-{kind}")
        table = catalog.load_table(f"shop.{kind}")
        metadata = Path(table.metadata_location.removeprefix("file://"))
        # Spark has no catalog in SQLite; a table without a catalog is found by these two files.
        shutil.copy(metadata, metadata.with_name("v1.metadata.json"))
        metadata.with_name("version-hint.text").write_text("1")
        places.append(table.location().removeprefix("file://"))
    catalog.close()
    check(native(other_spark, "iceberg", found, places, java_home))
