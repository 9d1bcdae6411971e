"""A folder of the version before the push log: what was acknowledged and not computed is taken over, once.

`earlier.zip` was written by that version, with Spark, in /tmp/headgate-earlier: four batches were committed, the files of
the fifth were planned by Spark and not committed, and after that the clock went back by a year and nobody read what was
pushed. Spark had put older notes of its file source together (`.compact`), and removed files that it had read.
"""

import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.service.local import local_job
from tests.service.pushed import Pushed

from headgate.errors import CheckpointError, CorruptState
from headgate.service.batch.loop import Loop
from headgate.service.batch.processor import BatchProcessor
from headgate.service.push_log import PushLog
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.service.stream_upgrade import place_after_spark
from headgate.service.tenants import OPERATOR
from headgate.sources.files import Files

ROAD, RAIL, WATER = [0, 1, 2, 3, 4, 6, 7], [100, 101, 102, 103, 106], [0, 1, 2, 3, 4, 5, 6]
PLANNED, UNREAD = "01794891468969481678.parquet", "01763269069990504108.parquet"


@pytest.fixture
def earlier(tmp_path):
    with zipfile.ZipFile(Path(__file__).parent / "earlier.zip") as packed:
        packed.extractall(tmp_path)
    for log in (tmp_path / "service" / "spark" / "sources" / "1").iterdir():
        log.write_text(log.read_text().replace("/tmp/headgate-earlier", str(tmp_path)))
    return tmp_path


class Water:
    """The files of the stream that the configuration had, as rows in slots."""

    name, max_rows = "water", 1000

    def __init__(self, service, folder) -> None:
        schema = pa.schema([("time", pa.timestamp("us", "UTC")), ("level", pa.float64())])
        self.source = Files(str(folder), schema, format="json")
        self.number = service.sources.by_name["water"].id
        self.start = place_after_spark(service, "water", "json", self.source)

    def rows(self, ranges):
        rows = pa.Table.from_batches([batch for part in ranges for batch in self.source.read(part.what)])
        number = pa.array([self.number] * rows.num_rows, pa.int32())
        time = rows.column("time").cast(pa.timestamp("us"))
        return pa.table({"source": number, "time": time, "d0": rows.column("level")})


def opened(folder):
    return Service(Settings(folder / "service", servers=2))


def answers(service, folder):
    """Run batches until nothing is left; returns the results of the three queries in order."""
    streams: list[Any] = [Pushed(service), Water(service, folder / "in")]
    union = lambda parts: pa.concat_tables(parts, promote_options="default")  # noqa: E731
    loop = Loop(service, BatchProcessor(service, local_job), streams, union)
    for _ in range(4):
        loop.step()
    loop.stop()
    assert service.failure is None
    found = []
    for number, tenant in enumerate(("ann", "bob", OPERATOR.name)):
        rows, _ = service.read(service.tenants.by_name(tenant), number, None, 1000)
        found.append(
            [next(iter(row["values"].values())) for row in sorted(rows, key=lambda row: row["batch"])]
        )
    return found


def test_what_was_pushed_and_not_computed_is_taken_over_once(earlier) -> None:
    service = opened(earlier)
    assert not list((earlier / "service" / "push").glob("*.parquet"))
    assert service.lag()["rows"] == 4
    assert answers(service, earlier) == [ROAD, RAIL, WATER]
    service.close()
    again = opened(earlier)
    assert answers(again, earlier) == [ROAD, RAIL, WATER]
    again.close()


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_service_that_dies_while_it_takes_over_leaves_nothing_undone_or_twice(
    earlier, monkeypatch, after
) -> None:
    left, write = [after], PushLog.write

    def dies(log, *given, **more):
        if not left[0]:
            raise CheckpointError("the disk is full")
        left[0] -= 1
        return write(log, *given, **more)

    with monkeypatch.context() as patched:
        if after < 3:
            patched.setattr(PushLog, "write", dies)
        else:
            patched.setattr("headgate.storage.store.Store.remove", lambda *given: 1 / 0)
        with pytest.raises((CheckpointError, ZeroDivisionError)):
            opened(earlier)
    service = opened(earlier)
    assert answers(service, earlier) == [ROAD, RAIL, WATER]
    service.close()


def test_a_file_that_is_gone_or_damaged_is_named(earlier) -> None:
    path = earlier / "service" / "push" / PLANNED
    held = path.read_bytes()
    path.unlink()
    with pytest.raises(CorruptState, match=f"{PLANNED} is missing"):
        opened(earlier)
    path.write_bytes(held[: len(held) // 2])
    with pytest.raises(CorruptState, match=f"{PLANNED} cannot be read"):
        opened(earlier)
    path.write_bytes(held)
    service = opened(earlier)
    assert answers(service, earlier) == [ROAD, RAIL, WATER]
    service.close()


@pytest.mark.parametrize("name", ["offsets/3", "sources/0/2.compact"])
def test_a_checkpoint_of_sparks_that_is_damaged_is_named(earlier, name) -> None:
    (earlier / "service" / "spark" / name).write_text("v7\n{}\n")
    with pytest.raises(CorruptState, match=name):
        opened(earlier)
