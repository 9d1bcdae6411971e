"""A stage that is opened while the driver of before still commits: found by the simulator of faults."""

import pyarrow as pa
import pytest

from headgate import agg
from headgate.errors import CheckpointMismatch, Superseded
from headgate.operators.aggregate import Aggregate
from headgate.stage import sinks
from headgate.stage.settings import Routing
from headgate.stage.stage import KeyedStage
from headgate.storage.checkpoint import Checkpoint
from headgate.storage.parquet_folder import ParquetFolder
from headgate.testing.engine import InProcess

ROWS = pa.table({"k": [1, 2], "v": [1, 1]})


@pytest.fixture
def stages(tmp_path):
    """Makes stages of one checkpoint; the first has committed a batch."""
    engine = InProcess()

    def make() -> KeyedStage[pa.Table]:
        return KeyedStage(
            engine,
            key="k",
            operator=Aggregate(n=agg.count()),
            checkpoint=str(tmp_path / "checkpoint"),
            sink=sinks.Parquet(str(tmp_path / "out")),
            routing=Routing(policy="static", channels=1, bins=2),
            durable=False,
        )

    first = make()
    first.process(ROWS, 0, "query")
    return first, make


def meanwhile(monkeypatch, owner, name, work) -> None:
    """Before the first call of a method, something else happens."""
    method, busy = getattr(owner, name), False

    def called(self, *args, **options):
        nonlocal busy
        if not busy:
            busy = True
            work()
        return method(self, *args, **options)

    monkeypatch.setattr(owner, name, called)


def two_batches(stage) -> None:
    for batch in (1, 2):
        stage.process(ROWS, batch, "query")


def test_output_that_is_committed_meanwhile_is_not_taken_for_anothers(stages, monkeypatch) -> None:
    first, make = stages
    second = make()
    meanwhile(monkeypatch, ParquetFolder, "own", lambda: two_batches(first))
    last = second.resume(ROWS.slice(0, 0), "query")
    assert last is not None
    assert last.batch == 2
    with pytest.raises(Superseded):
        first.process(ROWS, 3, "query")


def test_output_that_is_really_newer_is_refused(stages, tmp_path) -> None:
    first, make = stages
    two_batches(first)
    max((tmp_path / "checkpoint" / "log").glob("*.json")).unlink()
    with pytest.raises(CheckpointMismatch, match="which this stage has not committed"):
        make().process(ROWS, 2, "query")


@pytest.mark.parametrize("way", ["resume", "drain"])
def test_a_stage_is_opened_as_of_the_newest_commit(stages, monkeypatch, way) -> None:
    first, make = stages
    second = make()
    meanwhile(monkeypatch, Checkpoint, "identify", lambda: two_batches(first))
    if way == "resume":
        second.resume(ROWS.slice(0, 0), "query")
    else:
        second.drain()
    assert second.opened is not None
    assert second.opened.checkpoint.last is not None
    assert second.opened.checkpoint.last.batch == 2
