"""Direct streams on S3: what a batch costs, by the server's own log, and drivers that are killed between any two requests."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.storage import s3
from tests.storage.s3_stream import KEYS, Nothing, Numbers, run_all, stream

from headgate.sources.files import Files
from headgate.stage import sinks

BATCHES, WARM = 16, 2


@pytest.fixture(scope="module")
def server() -> Iterator[s3.Faulty]:
    with s3.faulty_server() as running:
        yield running


def costs(server: s3.Faulty, root: str, source: Any, sink: Any, channels: int, each: Any) -> list[int]:
    """The requests of each batch, without the first ones, in which a driver claims the checkpoint and sweeps."""
    sent: list[int] = []

    def note() -> None:
        sent.append(len(server.requests()))
        each(len(sent))

    batches = run_all(stream(root, source, sink, channels), note)
    served = [after - before for before, after in pairwise(sent)]
    assert [batch.store_requests for batch in batches[1:]] == served, "the query counts as the server does"
    return served[WARM:]


FULL = pytest.mark.full
CASES = [
    ("parquet", 2),
    *(
        pytest.param(kind, n, marks=FULL)
        for kind in ("parquet", "none")
        for n in (2, 4, 8)
        if (kind, n) != ("parquet", 2)
    ),
]


@pytest.mark.parametrize(("kind", "channels"), CASES)
def test_a_batch_costs_at_most_5_requests_and_2_for_each_channel(kind, channels, server) -> None:
    root = f"s3://{s3.BUCKET}/costs-{kind}-{channels}"
    sink = sinks.Parquet(f"{root}/out") if kind == "parquet" else Nothing()
    rows = 4 * KEYS
    served = costs(server, root, Numbers(BATCHES * rows, rows), sink, channels, lambda n: None)
    assert max(served) <= 5 + 2 * channels, served


def test_a_batch_of_new_files_costs_no_more(server, tmp_path) -> None:
    def arrive(number: int) -> None:
        if number < BATCHES:
            table = pa.table({"k": list(range(KEYS)), "n": [number] * KEYS})
            pq.write_table(table, tmp_path / "draft")
            (tmp_path / "in").mkdir(exist_ok=True)
            (tmp_path / "draft").rename(tmp_path / "in" / f"{number:03d}.parquet")

    arrive(0)
    root = f"s3://{s3.BUCKET}/costs-files"
    source = Files(str(tmp_path / "in"), schema=pa.schema([("k", pa.int64()), ("n", pa.int64())]))
    served = costs(server, root, source, sinks.Parquet(f"{root}/out"), 2, arrive)
    assert max(served) <= 5 + 2 * 2 + 1, served  # the log of files has one more object


def expected(rows: int) -> list[tuple[int, int, int, int]]:
    """What each batch emits: (batch, key, count, total)."""
    n: Counter[int] = Counter()
    total: Counter[int] = Counter()
    out = []
    for start in range(0, rows, 10):
        for number in range(start, start + 10):
            n[number % KEYS] += 1
            total[number % KEYS] += number
        keys = sorted({number % KEYS for number in range(start, start + 10)})
        out += [(start // 10, k, n[k], total[k]) for k in keys]
    return out


def shown(root: str) -> list[tuple[int, int, int, int]]:
    """The output by the rule for readers."""
    sink, fs = sinks.Parquet(f"{root}/out"), fsspec.filesystem("s3")
    out = []
    for batch in sink.batches():
        rows = []
        for path in sink.files(batch):
            with fs.open(path, "rb") as file:
                rows += pq.ParquetFile(file).read().to_pylist()
        out += sorted((batch, row["k"], row["n"], row["total"]) for row in rows)
    return out


@pytest.mark.timeout(1800)
@pytest.mark.full
@pytest.mark.parametrize("kills", [5, 40])
def test_a_driver_that_is_killed_between_requests_loses_and_repeats_nothing(kills, server) -> None:
    """SIGKILL before a request that a seed chooses, a restart, and so on; and some requests go wrong."""
    root, chance = f"s3://{s3.BUCKET}/killed-{kills}", random.Random(kills)
    rows, died = 100 + 30 * kills, 0
    script, above = Path(__file__).with_name("s3_stream.py"), Path(__file__).parents[2]
    command = [sys.executable, str(script), root, str(rows)]
    server.harm(kills, 0.05)
    try:
        while True:
            at = chance.randrange(1, 60) if died < kills else 0
            done = subprocess.run(
                [*command, str(at)],
                env={**os.environ, "PYTHONPATH": str(above)},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                break
            assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
            died += 1
    finally:
        server.harm(0, 0.0)
    assert died == kills
    assert shown(root) == expected(rows)
