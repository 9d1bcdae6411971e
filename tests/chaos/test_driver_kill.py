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

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

STEPS = [
    "opened",
    "computed",
    "decided",
    "committed",
    "journaled",
    "retired",
    "one file moved",
    "all files moved",
    "published",
]


def run(command: list[str], log: Path) -> tuple[int, str]:
    """Run to the end, then end what the dead driver left behind (its JVM may linger, waiting for it)."""
    with log.open("w") as file:
        child = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        try:
            code = child.wait(timeout=120)
        finally:
            os.killpg(child.pid, signal.SIGKILL)
    return code, log.read_text()


@pytest.mark.timeout(600)
def test_a_killed_driver_loses_and_repeats_nothing(java_home: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(7)
    (tmp_path / "in").mkdir()
    batches = []
    for b in range(len(STEPS) + 1):
        keys, values = draw.zipf(1.3, 500) % 97, draw.integers(-1000, 1000, 500)
        batches.append((keys, values))
        path = tmp_path / "in" / f"{b:03d}.parquet"
        pq.write_table(pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())}), path)
        os.utime(
            path, (1_700_000_000 + b, 1_700_000_000 + b)
        )  # the source takes files in the order of their age
    script = Path(__file__).with_name("kill_points.py")
    for b, step in enumerate([*STEPS, "never"]):
        target = 0 if step == "opened" else b
        code, said = run([sys.executable, str(script), str(tmp_path), step, str(target)], tmp_path / "log")
        assert code == (0 if step == "never" else -signal.SIGKILL), f"killed at {step!r}: {said[-3000:]}"

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
        folder = tmp_path / "out" / f"batch={b}"
        rows = [r for f in sorted(folder.iterdir()) for r in pq.ParquetFile(f).read().to_pylist()]
        got += sorted((b, r["k"], r["n"], r["total"], r["last"]) for r in rows)
    assert got == expected_rows

    lines = [
        json.loads(x)
        for f in sorted((tmp_path / "ckpt/journal").iterdir())
        for x in f.read_text().splitlines()
    ]
    assert [line["report"]["batch"] for line in lines] == list(range(len(batches)))
    newest = sorted((tmp_path / "ckpt/commits").glob("*.json"))[-1].read_text()
    assert all(name in newest for name in os.listdir(tmp_path / "ckpt/state")), (
        "files that nobody needs were left behind"
    )
