"""The examples of the README, and the one that `import headgate` shows first, run word for word in an empty folder."""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in/events").mkdir(parents=True)
    rows = pa.table({"user": pa.array([1, 1, 2], pa.int64()), "amount": [2.0, 3.0, 5.0]})
    pq.write_table(rows, tmp_path / "in/events/one.parquet")
    return tmp_path


@pytest.fixture
def inside(spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder, as the place from which this process and Spark's JVM resolve relative paths."""
    monkeypatch.chdir(folder)
    hadoop, properties = spark._jvm.org.apache.hadoop.fs, spark._jvm.java.lang.System
    files = hadoop.FileSystem.get(hadoop.Path("file:///").toUri(), spark._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory(), properties.getProperty("user.dir")
    files.setWorkingDirectory(hadoop.Path(folder.as_uri()))  # for the files of a source
    properties.setProperty("user.dir", str(folder))  # for the checkpoint of a query
    yield folder
    files.setWorkingDirectory(before[0])
    properties.setProperty("user.dir", before[1])


def code_of_the_readme() -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.S))


def check(said: str, folder: Path) -> None:
    assert "batch 0, 3 rows" in said
    out = sorted(pq.read_table(folder / "out/users").to_pylist(), key=lambda r: r["user"])
    assert [(r["user"], r["n"], r["total"], r["top"]) for r in out] == [(1, 2, 5.0, 3.0), (2, 1, 5.0, 5.0)]
    assert (folder / "checkpoints/users/spark/commits/0").exists()


def test_the_examples_of_the_readme_run(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (inside / "job.py").write_text(code_of_the_readme())
    exec(compile(code_of_the_readme(), str(inside / "job.py"), "exec"), {"__name__": "job"})
    check(capsys.readouterr().out, inside)


@pytest.mark.full
def test_the_examples_of_the_readme_run_as_a_program(java_home: str, folder: Path) -> None:
    (folder / "job.py").write_text(code_of_the_readme())
    done = subprocess.run([sys.executable, "job.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    check(done.stdout, folder)


def test_the_example_of_the_package_itself_runs(spark: Any, inside: Path) -> None:
    events = spark.readStream.schema("user long").parquet("in/events")
    example = re.search(r"(?:^    .*\n|^\n)+", headgate.__doc__ or "", re.M)
    assert example is not None
    code, start = textwrap.dedent(example.group()).rsplit(".start()", 1)
    assert not start.strip()
    names = {"events": events}
    exec(code.replace("\nevents.", "\nwriter = events."), names)
    names["writer"].trigger(availableNow=True).start().awaitTermination()
    out = sorted(pq.read_table("out/users").to_pylist(), key=lambda row: row["user"])
    assert [(row["user"], row["n"]) for row in out] == [(1, 2), (2, 1)]
    assert (inside / "state/spark/commits/0").exists()
