"""The README's examples run, word for word, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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
