"""The service's own loop: ranges are planned, and their offsets are part of the commit. Numbered batches come in between."""

import time
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from tests.service.local import Local, local_job
from tests.sql.world import batches_of, oracle, rows_of

from headgate.errors import BatchOrder, CheckpointError, ConfigError, SourceFailed
from headgate.service.batch import loop as loop_module
from headgate.service.batch.loop import Loop
from headgate.service.flow import Flow
from headgate.service.manifest import BatchManifest
from headgate.sources.source import Range, Ranges, Source

COUNT = "SELECT count(*), sum(n) FROM {} GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
WINDOW = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)


class Slots(Source):
    """Rows in slots, which a test adds; an offset is how many were taken."""

    def __init__(self, rows, end=0) -> None:
        self.all, self.end, self.error = rows, end, None

    def schema(self):
        return self.all.schema

    def identity(self):
        return {}

    def plan(self, offset, demand):
        if self.error is not None:
            raise self.error
        start = offset or 0
        end = min(self.end, start + demand.rows)
        ranges = (Range((start, end), end - start),) if end > start else ()
        return Ranges(ranges, end, more=end < self.end)

    def read(self, what):
        yield from self.all.slice(what[0], what[1] - what[0]).to_batches()


@dataclass
class Given:
    """A stream of such rows."""

    name: str
    source: Slots
    max_rows: int = 1000
    poison: list = field(default_factory=list)

    def rows(self, ranges):
        parts = [batch for part in ranges for batch in self.source.read(part.what)]
        for what in [part.what for part in ranges]:
            if any(what[0] <= at < what[1] for at in self.poison):
                raise SourceFailed(f"the record at {self.poison} of {self.name} does not parse")
        return pa.Table.from_batches(parts)


def looped(local, *streams):
    return Loop(local.service, local.processor, streams, pa.concat_tables)


def stream_of(rows, source, **more):
    mine = rows.filter(pa.array(rows.column("source").to_numpy() == source))
    return Given(("alpha", "beta", "gamma")[source], Slots(mine), **more)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(loop_module, "FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(loop_module, "LONGEST_WAIT_S", 0.0)


def right(local, number, rows, source):
    name = ("alpha", "beta", "gamma")[source]
    mark = local.service.batch_log.last.latest[source] - 5_000_000
    return local.answers(number) == oracle(COUNT.format(name), WINDOW, rows, source, mark)


def test_offsets_are_part_of_the_commit_and_survive_a_restart(local) -> None:
    rows = rows_of(np.random.default_rng(3), 400)
    numbers = local.add(*(COUNT.format(name) for name in ("alpha", "beta")))
    first, second = (stream_of(rows, source) for source in (0, 1))
    for end in (20, 70, 1000):
        for stream in (first, second):
            stream.source.end = min(end, stream.source.all.num_rows)
        loop = looped(local, first, second)
        loop.step()
        loop.stop()
        last = local.service.batch_log.last
        assert last.offsets == {"alpha": first.source.end, "beta": second.source.end}
        local.restart()
    assert local.service.last_batch == 2, "the streams are processed together"
    assert right(local, numbers[0], rows, 0)
    assert right(local, numbers[1], rows, 1)


def test_batches_of_spark_come_in_between_and_are_told_apart_when_they_are_delivered_again(local) -> None:
    rows = rows_of(np.random.default_rng(5), 300)
    numbers = local.add(*(COUNT.format(name) for name in ("alpha", "beta")))
    stream = stream_of(rows, 0)
    pushed = rows.filter(pa.array(rows.column("source").to_numpy() == 1))
    parts = batches_of(pushed, [30, 60])
    loop = looped(local, stream)
    for delivery, end in enumerate((10, 40, 1000)):
        stream.source.end = min(end, stream.source.all.num_rows)
        loop.step()
        local.processor.process(parts[delivery], delivery)
        loop.step()
        if delivery == 1:
            local.restart()
            loop = looped(local, stream)
        local.processor.process(parts[delivery], delivery)
    assert local.service.last_batch == 5
    assert local.service.batch_log.last.delivered == 2
    with pytest.raises(BatchOrder):
        local.processor.process(parts[0], 5)
    assert right(local, numbers[0], rows, 0)
    assert right(local, numbers[1], rows, 1)


def test_a_commit_whose_answer_was_lost_is_not_read_again(local, monkeypatch) -> None:
    rows = rows_of(np.random.default_rng(7), 300)
    (number,) = local.add(COUNT.format("alpha"))
    stream = stream_of(rows, 0)
    stream.source.end = 30
    loop = looped(local, stream)
    commit = local.service.batch_log.commits.commit

    def unanswered(body) -> None:
        commit(body)
        local.service.batch_log.commits._at -= 1
        raise CheckpointError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(local.service.batch_log.commits, "commit", unanswered)
        loop.step()
    assert "no answer" in (local.service.failure or "")
    stream.source.end = stream.source.all.num_rows
    loop.step()
    assert local.service.failure is None
    assert right(local, number, rows, 0)


def test_a_job_that_fails_is_planned_anew(local) -> None:
    rows = rows_of(np.random.default_rng(9), 300)
    (number,) = local.add(COUNT.format("alpha"))
    stream = stream_of(rows, 0)
    stream.source.end = 30

    def fails(rows, snapshot, task):
        local_job(rows, snapshot, task)
        raise CheckpointError("a machine was lost")

    local.processor._job = fails
    loop = looped(local, stream)
    loop.step()
    assert local.service.failure == "stream 'alpha': a machine was lost"
    local.processor._job = local_job
    stream.source.end = stream.source.all.num_rows
    loop.step()
    assert local.service.failure is None
    assert right(local, number, rows, 0)


def test_a_record_that_does_not_parse_stops_its_own_stream_only(local) -> None:
    rows = rows_of(np.random.default_rng(11), 300)
    numbers = local.add(*(COUNT.format(name) for name in ("alpha", "beta")))
    bad, good = stream_of(rows, 0, poison=[10]), stream_of(rows, 1)
    loop = looped(local, bad, good)
    for stream in (bad, good):
        stream.source.end = stream.source.all.num_rows
    for _ in range(3):
        loop.step()
    assert local.service.failure == "stream 'alpha': the record at [10] of alpha does not parse"
    assert local.service.batch_log.last.offsets == {"beta": good.source.end}
    assert right(local, numbers[1], rows, 1)
    bad.poison.clear()
    loop.step()
    assert local.service.failure is None
    assert right(local, numbers[0], rows, 0)


def test_brokers_that_are_silent_hold_up_no_other_stream(local) -> None:
    rows = rows_of(np.random.default_rng(13), 200)
    (number,) = local.add(COUNT.format("beta"))
    silent, good = stream_of(rows, 0), stream_of(rows, 1)
    good.source.end = good.source.all.num_rows
    silent.source.error = SourceFailed("broker:9092 did not answer")
    loop = looped(local, silent, good)
    loop.step()
    loop.step()
    assert right(local, number, rows, 1)
    assert local.service.failure == "stream 'alpha': broker:9092 did not answer"


def test_a_stream_that_is_taken_out_keeps_its_place(local) -> None:
    rows = rows_of(np.random.default_rng(15), 300)
    (number,) = local.add(COUNT.format("alpha"))
    first, second = stream_of(rows, 0), stream_of(rows, 1)
    first.source.end = 40
    looped(local, first).step()
    local.restart()
    second.source.end = 50
    looped(local, second).step()
    local.restart()
    first.source.end = first.source.all.num_rows
    looped(local, first, second).step()
    assert right(local, number, rows, 0)


def test_it_runs_until_it_is_stopped_and_catches_up_without_a_pause(local) -> None:
    rows = rows_of(np.random.default_rng(17), 300)
    (number,) = local.add(COUNT.format("alpha"))
    stream = stream_of(rows, 0, max_rows=10)
    stream.source.end = stream.source.all.num_rows
    loop = looped(local, stream)
    loop.start()
    deadline = time.monotonic() + 60
    while local.processor.offsets().get("alpha") != stream.source.end:
        assert time.monotonic() < deadline, local.service.failure
        time.sleep(0.02)
    loop.stop()
    assert local.service.last_batch + 1 == -(-stream.source.end // 10)
    assert right(local, number, rows, 0)


def test_a_service_that_was_overtaken_stops(local) -> None:
    rows = rows_of(np.random.default_rng(19), 100)
    stream = stream_of(rows, 0)
    stream.source.end = 20
    loop = looped(local, stream)
    old = local.processor
    local.start()
    loop.step()
    assert old.superseded
    loop._run()  # it returns


def test_a_commit_of_an_earlier_version_is_read() -> None:
    body = BatchManifest(7, "run", origin="query").to_json()
    del body["delivered"], body["offsets"]
    read = BatchManifest.from_json(body)
    assert (read.delivered, read.offsets) == (7, {})


def test_streams_come_and_go_while_the_loop_runs(local) -> None:
    rows = rows_of(np.random.default_rng(21), 300)
    numbers = local.add(*(COUNT.format(name) for name in ("alpha", "beta")))
    first, second = stream_of(rows, 0), stream_of(rows, 1)
    loop = looped(local, first)
    first.source.end = 20
    loop.step()
    loop.add(second)
    with pytest.raises(ConfigError, match="'beta' runs already"):
        loop.add(second)
    for stream in (first, second):
        stream.source.end = 50
    loop.step()
    loop.remove("alpha")
    second.source.end = second.source.all.num_rows
    loop.step()
    assert local.service.batch_log.last.offsets == {"alpha": 50, "beta": second.source.end}
    first.source.end = first.source.all.num_rows
    loop.add(first)
    loop.step()
    assert right(local, numbers[0], rows, 0)
    assert right(local, numbers[1], rows, 1)
    loop.remove("beta", forget=True)
    first.source.all = pa.concat_tables([first.source.all, first.source.all.slice(0, 1)])
    first.source.end += 1
    loop.step()
    assert local.service.batch_log.last.offsets == {"alpha": first.source.end}
    loop.stop()


def test_a_batch_is_bounded_by_the_bytes_of_the_batches_before(tmp_path) -> None:
    local = Local(tmp_path, flow=Flow(batch_rows=50, batch_bytes=1000))
    rows = rows_of(np.random.default_rng(23), 300)
    local.add(COUNT.format("alpha"))
    stream = stream_of(rows, 0)
    stream.source.end = stream.source.all.num_rows
    loop, taken = looped(local, stream), [0]
    for _ in range(3):
        assert loop.step(), "there is more"
        taken.append(local.processor.offsets()["alpha"])
    assert np.diff(taken).tolist() == [50, 10, 10], "a row of these tests has 100 bytes"
    lag = local.service.lag()
    assert lag["streams"]["alpha"]["rows"] == 10
    loop.stop()
    local.service.close()


def test_a_query_misses_nothing_of_a_batch_that_is_computed_again_with_more_rows(tmp_path) -> None:
    local = Local(tmp_path / "service")
    rows = rows_of(np.random.default_rng(3), 60)
    local.add("SELECT x FROM alpha")

    def die(*_):
        raise CheckpointError("the process dies")

    local.processor._job, job = die, local.processor._job
    with pytest.raises(CheckpointError):
        local.processor.process_ranges(rows.slice(0, 20), {"s": 20})
    (late,) = local.add("SELECT n FROM alpha")  # while the first batch is under way
    (windows,) = local.add(COUNT.format("alpha"))
    assert local.service.get_query(local.ann, late).since == 1
    local.processor._job = job
    for restarted in (False, True):
        if restarted:
            local.restart()
        local.processor.process_ranges(rows.slice(20 * restarted, 40), {"s": 20 * restarted + 40})
        assert local.service.get_query(local.ann, late).since == 0
    local.processor.process_ranges(rows.slice(59, 1), {"s": 99})
    seen = sum(local.answers(late).values())
    mine = [rows.slice(0, 40), rows.slice(20, 40), rows.slice(59, 1)]
    assert seen == sum(int((part.column("source").to_numpy() == 0).sum()) for part in mine)
    assert local.answers(windows)
    local.service.close()
