"""Direct streams in a Connect session, and in a classic one without headgate's settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("session_job.py")


@pytest.mark.full
@pytest.mark.timeout(200)
@pytest.mark.parametrize("session", ["connect", "plain"])
def test_direct_streams_give_the_same_answers(session: str, tmp_path: Path, java_home: str) -> None:
    environment = {**os.environ, "JAVA_HOME": java_home, "SPARK_LOCAL_IP": "127.0.0.1"}
    run = subprocess.run(
        [sys.executable, str(SCRIPT), session, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.count("equal") == 3
    assert "refused: key column 'usr'" in run.stdout
    told = "uses Spark Connect" if session == "connect" else "lacks settings"
    assert run.stderr.count(told) == 1, "it is said once"
