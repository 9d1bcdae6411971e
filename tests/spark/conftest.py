"""A stage fed by hand: each list of rows is one batch."""

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.stages import stage_of

import headgate as hg


@pytest.fixture
def make_stage(tmp_path: Path) -> Callable[..., Any]:
    """A stage on a checkpoint of this test, with a memory sink unless told otherwise. Call it again for a
    restart.
    """

    def make(operator: Any, **options: Any) -> Any:
        settings = {
            "key": "k",
            "channels": 3,
            "bins": 16,
            "checkpoint": str(tmp_path / "ckpt"),
            "durable": False,
        }
        return stage_of(operator=operator, **{**settings, "sink": hg.sinks.Memory(), **options})

    return make


@pytest.fixture
def feed(spark: Any) -> Callable[..., None]:
    """Give a stage some batches of tuples, as Spark would, starting at batch `start`."""

    def give(
        stage: Any, batches: Iterable[list[tuple[Any, ...]]], schema: str = "k long, v long", start: int = 0
    ) -> None:
        for i, rows in enumerate(batches):
            stage(spark.createDataFrame(rows, schema).coalesce(1), start + i)

    return give


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of half a megabyte, and a way to enlarge it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o"]
    if (
        os.getuid()
        or subprocess.run([*mount, "size=512k", "tmpfs", folder], check=False, capture_output=True).returncode
    ):
        pytest.skip("needs the right to mount a file system")
    yield folder, lambda: subprocess.run([*mount, "remount,size=64m", "tmpfs", folder], check=True)
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def inside(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, as the place from which this process and Spark's JVM resolve relative paths."""
    monkeypatch.chdir(tmp_path)
    hadoop, properties = spark._jvm.org.apache.hadoop.fs, spark._jvm.java.lang.System
    files = hadoop.FileSystem.get(hadoop.Path("file:///").toUri(), spark._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory(), properties.getProperty("user.dir")
    files.setWorkingDirectory(hadoop.Path(tmp_path.as_uri()))  # for the files of a source
    properties.setProperty("user.dir", str(tmp_path))  # for the checkpoint of a query
    yield tmp_path
    files.setWorkingDirectory(before[0])
    properties.setProperty("user.dir", before[1])
