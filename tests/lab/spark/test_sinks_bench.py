"""`headgate bench sinks` runs, and measures each sink beside the Parquet sink."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headgate_lab.bench.sinks.page import table


@pytest.mark.full
@pytest.mark.timeout(300)
def test_every_sink_is_measured(java_home: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headgate", "bench", "sinks", "--quick", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    bench = json.loads(done.stdout)
    ratios = {result["name"]: result["ratio"] for result in bench["results"] if result["unit"] == "ms"}
    tables = ["Delta", "Iceberg", "SQLite"]
    wanted = [f"{name}, {mode}, 1,000 rows: a batch" for name in tables for mode in ("append", "upsert")]
    assert all(ratios[name] > 0 for name in wanted)
    assert ratios["Parquet, 1,000 rows: a batch"] is None
    assert len(table(bench, ("Parquet", "Delta")).splitlines()) >= 5
