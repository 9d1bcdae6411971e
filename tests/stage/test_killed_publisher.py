"""Drivers that are killed by the operating system while they publish: no row is lost, none is doubled."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.stage.publisher_job import rows_of, sink_of

ROOT = Path(__file__).parents[2]
KILLS, BATCHES = 12, 1000


def read(folder: Path, kind: str) -> list[tuple[int, int]]:
    """The rows of the table."""
    if kind.startswith("delta"):
        import deltalake

        rows = deltalake.DeltaTable(str(folder / "t")).to_pyarrow_dataset().to_table()
    elif kind.startswith("sqlite"):
        import sqlite3

        connection = sqlite3.connect(folder / "t.db")
        found = connection.execute("SELECT k, n FROM t").fetchall()
        connection.close()
        return sorted(found)
    else:
        rows = sink_of(folder, kind)._table.open().scan().to_arrow()
    return sorted((row["k"], row["n"]) for row in rows.to_pylist())


@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    ["delta append", "delta upsert", "iceberg append", "iceberg upsert", "sqlite append", "sqlite upsert"],
)
def test_killed_at_seeded_moments_each_batch_is_there_once(kind: str, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    chance = random.Random(kind)
    job: list[Any] = [sys.executable, ROOT / "tests" / "stage" / "publisher_job.py", tmp_path, kind]
    settings = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(KILLS):
        with (tmp_path / "errors").open("w") as errors:
            child = subprocess.Popen(
                [*map(str, job), str(BATCHES)], stdout=subprocess.PIPE, stderr=errors, text=True, env=settings
            )
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(chance.randint(1, 6))]
        time.sleep(chance.uniform(0.0, 0.06))
        child.kill()
        child.communicate()
        assert all(told), (tmp_path / "errors").read_text()
    done = int((tmp_path / "committed").read_text()) + 1
    assert done < BATCHES
    subprocess.run([*map(str, job), str(done + 1)], check=True, capture_output=True, env=settings)
    rows = [(row["k"], row["n"]) for number in range(done + 1) for row in rows_of(number)]
    assert read(tmp_path, kind) == sorted(dict(rows).items() if kind.endswith("upsert") else rows)
