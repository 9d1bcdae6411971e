"""Queries with their checkpoints and output on a real S3 server, without a jar: restarted, and exactly once."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage import s3


@pytest.mark.full
@pytest.mark.timeout(600)
def test_queries_run_on_s3_and_go_on_after_a_restart(java_home: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("s3_job.py")
    root = str(script.parents[2])
    with s3.server():
        done = subprocess.run(
            [sys.executable, str(script), f"s3://{s3.BUCKET}", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": root, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["rows"] == [{"k": k, "n": 40, "total": 60} for k in range(10)]
    assert said["failed"] == "StreamingQueryException"
    assert said["seen"] == [10] * 4


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_example_of_the_page_runs(java_home: str, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/object-stores.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    with s3.server():
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    requests, files = done.stdout.splitlines()[-2:]
    assert int(requests) > 0
    assert "headgate-tests/out/batch=0/part-" in files
