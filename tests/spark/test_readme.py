"""The examples of the README, and the one that `import headgate` shows first, run word for word in an empty folder."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import headgate

README = Path(__file__).parents[2] / "README.md"


def test_the_examples_of_the_readme_run(java_home: str, tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.S))
    (tmp_path / "in/events").mkdir(parents=True)
    rows = pa.table({"user": pa.array([1, 1, 2], pa.int64()), "amount": [2.0, 3.0, 5.0]})
    pq.write_table(rows, tmp_path / "in/events/one.parquet")
    (tmp_path / "job.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "batch 0, 3 rows" in done.stdout
    out = sorted(pq.read_table(tmp_path / "out/users").to_pylist(), key=lambda r: r["user"])
    assert [(r["user"], r["n"], r["total"], r["top"]) for r in out] == [(1, 2, 5.0, 3.0), (2, 1, 5.0, 5.0)]


def test_the_example_of_the_package_itself_runs(spark, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"user": pa.array([1, 1, 2], pa.int64())}), "in/one.parquet")
    events = spark.readStream.schema("user long").parquet(str(tmp_path / "in"))
    example = re.search(r"(?:^    .*\n|^\n)+", headgate.__doc__ or "", re.M)
    assert example is not None
    told = textwrap.dedent(example.group())
    # The session of all tests has its JVM elsewhere, and that is where Spark itself would look for a relative path.
    told = told.replace('"state/spark"', repr(str(tmp_path / "state/spark")))
    code, start = told.rsplit(".start()", 1)
    assert not start.strip()
    names = {"events": events}
    exec(code.replace("\nevents.", "\nwriter = events."), names)
    names["writer"].trigger(availableNow=True).start().awaitTermination()
    out = sorted(pq.read_table("out/users").to_pylist(), key=lambda row: row["user"])
    assert [(row["user"], row["n"]) for row in out] == [(1, 2), (2, 1)]
