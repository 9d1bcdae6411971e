"""Hundreds of kills on the way from Kafka to Delta tables: no row is lost, none is doubled."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.chaos.kafka_delta_kills import KINDS, campaign
from tests.chaos.kafka_delta_oracle import compare
from tests.stage.staged import Staged

import headgate as hg

RECORDS = [(0, 0, 2, 5), (0, 1, 4, 1), (0, 2, 2, 3), (1, 0, 1, 7)]
"""Partition, offset, key and value of each."""


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_nothing_is_lost_or_doubled(java_home: str, tmp_path: Path) -> None:
    result = campaign(tmp_path, kills=300, seed=1)
    assert (result["lost"], result["doubled"]) == (0, 0)
    assert result["kills"] == 300
    assert set(result["kinds"]) == set(KINDS)


@pytest.mark.parametrize(
    ("stream", "rows", "lost", "doubled"),
    [
        ("rows", RECORDS, 0, 0),
        ("rows", RECORDS[1:], 1, 0),
        ("rows", [*RECORDS, RECORDS[2]], 0, 1),
        ("totals", [(1, 1, 7), (2, 2, 8), (4, 1, 1)], 0, 0),
        ("totals", [(1, 1, 7), (2, 1, 5), (4, 1, 1)], 1, 1),
        ("history", [(2, 1, 5), (4, 1, 1), (2, 2, 8), (1, 1, 7)], 0, 0),
        ("history", [(2, 1, 5), (4, 1, 1), (1, 1, 7)], 1, 0),
        ("history", [(2, 1, 5), (2, 1, 5), (4, 1, 1), (2, 2, 8), (1, 1, 7)], 0, 1),
        ("history", [(2, 1, 5), (2, 2, 13), (4, 1, 1), (2, 2, 8), (1, 1, 7)], 0, 1),
    ],
)
def test_the_oracle_notices_what_is_lost_or_doubled(
    stream: str, rows: list[tuple[int, ...]], lost: int, doubled: int, tmp_path: Path
) -> None:
    names = ["partition", "offset", "k", "n"] if stream == "rows" else ["k", "n", "total"]
    staged = Staged(tmp_path / "c", pa.schema([(name, pa.int64()) for name in names]))
    sink = hg.sinks.Delta(str(tmp_path / "t"))
    staged.start(sink)
    for part in (rows[:2], rows[2:]):
        sink.publish(staged.add([dict(zip(names, row, strict=True)) for row in part]))
    assert compare(stream, tmp_path / "t", RECORDS) == (lost, doubled, 2)
