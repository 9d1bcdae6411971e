"""SIGKILL to the driver at every step of the commit, one after the other on one checkpoint: the answer is
exact.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.chaos import kill_points

STEPS = [
    "open",
    "compute",
    "decide",
    "commit",
    "journal",
    "retire",
    "one file moved",
    "all files moved",
    "batch shown",
    "publish",
]
WAYS = pytest.mark.parametrize("way", ["stage", "direct"])
FEW = ["one file moved"]


def run(command: list[str], log: Path) -> tuple[int, str]:
    """Run to the end, then end what the dead driver left behind (its JVM may linger, waiting for it)."""
    with log.open("w") as file:
        child = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        try:
            code = child.wait(timeout=120)
        finally:
            os.killpg(child.pid, signal.SIGKILL)
    return code, log.read_text()


def write_batches(folder: Path, count: int) -> list[tuple[Any, Any]]:
    """So many files of rows, which the source takes in the order of their age."""
    draw = np.random.default_rng(7)
    folder.mkdir()
    batches = []
    for b in range(count):
        keys, values = draw.zipf(1.3, 500) % 97, draw.integers(-1000, 1000, 500)
        batches.append((keys, values))
        path = folder / f"{b:03d}.parquet"
        pq.write_table(pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())}), path)
        os.utime(path, (1_700_000_000 + b, 1_700_000_000 + b))
    return batches


def kill_at(spark: Any, way: str, steps: list[str], folder: Path, *options: str) -> None:
    """Run and kill at each step, one batch later each time; then run to the end here, without the options."""
    script = Path(__file__).with_name("kill_points.py")
    for b, step in enumerate(steps):
        target = 0 if step == "open" else b
        command = [sys.executable, str(script), way, str(folder), step, str(target)]
        code, said = run([*command, *options], folder / "log")
        assert code == -signal.SIGKILL, f"killed at {step!r}: {said[-3000:]}"
    kill_points.main(spark, way, folder, "never", len(steps))


def output_of(folder: Path, batch: int) -> list[dict[str, Any]]:
    files = sorted((folder / "out" / f"batch={batch}").iterdir())
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


@pytest.mark.timeout(900)
@WAYS
@pytest.mark.parametrize(
    "steps",
    [FEW, pytest.param(STEPS, marks=pytest.mark.full)],
    ids=["some steps", "every step"],
)
def test_a_killed_driver_loses_and_repeats_nothing(
    spark: Any, tmp_path: Path, steps: list[str], way: str
) -> None:
    batches = write_batches(tmp_path / "in", len(steps) + 1)
    kill_at(spark, way, steps, tmp_path)
    n: Counter[int] = Counter()
    total: Counter[int] = Counter()
    last: dict[int, int] = {}
    expected_rows = []
    for b, (keys, values) in enumerate(batches):
        for k, v in zip(keys.tolist(), values.tolist(), strict=True):
            n[k] += 1
            total[k] += v
            last[k] = v
        expected_rows += [(b, k, n[k], total[k], last[k]) for k in sorted(set(keys.tolist()))]
    got = []
    for b in range(len(batches)):
        got += sorted((b, r["k"], r["n"], r["total"], r["last"]) for r in output_of(tmp_path, b))
    assert got == expected_rows

    lines = [
        json.loads(x)
        for f in sorted((tmp_path / "ckpt/journal").iterdir())
        for x in f.read_text().splitlines()
    ]
    assert [line["report"]["batch"] for line in lines] == list(range(len(batches)))
    newest = sorted((tmp_path / "ckpt/log").glob("*.json"))[-1].read_text()
    assert all(name in newest for name in os.listdir(tmp_path / "ckpt/state")), (
        "files that nobody needs were left behind"
    )


@pytest.mark.full
@pytest.mark.timeout(900)
@WAYS
def test_a_killed_driver_loses_no_row_that_waits(spark: Any, tmp_path: Path, way: str) -> None:
    steps = ["compute", "decide", "commit", "retire", "publish"]
    batches = write_batches(tmp_path / "in", len(steps) + 1)
    kill_at(spark, way, steps, tmp_path, "1000")
    newest: dict[int, dict[str, Any]] = {}
    for b in range(len(batches)):
        if (tmp_path / "out" / f"batch={b}").exists():
            newest |= {r["k"]: r for r in output_of(tmp_path, b)}
    rows = [(k, v) for keys, values in batches for k, v in zip(keys.tolist(), values.tolist(), strict=True)]
    for key in {k for k, _ in rows}:
        mine = [v for k, v in rows if k == key]
        assert (newest[key]["n"], newest[key]["total"], newest[key]["last"]) == (
            len(mine),
            sum(mine),
            mine[-1],
        )
    lines = [json.loads(x) for f in (tmp_path / "ckpt/journal").iterdir() for x in f.read_text().splitlines()]
    assert any(sum(line["report"]["channels"].get("backlog_rows", [0])) for line in lines), "rows did wait"
    assert not list((tmp_path / "ckpt/backlog").iterdir())
