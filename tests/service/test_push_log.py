"""Pushed events are durable before they are acknowledged, and are taken once, in order, whatever dies in between."""

import threading
from collections import defaultdict
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import Backlogged, CheckpointError, CorruptState, Superseded
from headgate.service.flow import Flow
from headgate.service.push_lanes import file_name, lanes_of, numbers_of
from headgate.service.push_log import PushLog
from headgate.service.push_source import PushSource
from headgate.sources.source import Demand
from headgate.storage.store import Store

TENANTS = ("ann", "bob", "cay")


def run(claim):
    return f"{claim:08d}.r{claim}"


def rows(first, count, source=0):
    """Rows that are numbered one after the other."""
    return pa.table(
        {
            "source": pa.array([source] * count, pa.int32()),
            "time": pa.array([0] * count, pa.timestamp("us")),
            "l0": pa.array(range(first, first + count), pa.int64()),
        }
    )


def opened(folder, claim=0, offset=None, **flow):
    return PushLog(Store(str(folder), durable=False), run(claim), offset, Flow(**flow))


def taken(log, bound, size=1 << 30):
    """What a batch gets: the numbers of the rows by source, in order, and the offset after them."""
    log.flow = Flow(batch_rows=bound, batch_bytes=size)
    source = PushSource(log)
    planned = source.plan(None, Demand(rows=bound))
    found = defaultdict(list)
    for part in planned.ranges:
        for batch in source.read(part.what):
            for number, value in zip(
                batch.column("source").to_pylist(), batch.column("l0").to_pylist(), strict=True
            ):
                found[number].append(value)
    return found, planned


def test_pushed_events_are_files_before_they_are_acknowledged(local) -> None:
    events = [{"time": "2026-01-01T00:00:00Z", "x": 1, "city": "ash"}, {"time": 1.5, "n": 3}]
    assert local.service.push_events(local.ann, "beta", events) == 2
    local.service.push_log.close()
    again = opened(local.folder / "push", 7)
    source = PushSource(again)
    (part,) = source.plan(None, Demand(rows=10)).ranges
    read = [row for batch in source.read(part.what) for row in batch.to_pylist()]
    assert [(r["source"], r["d0"], r["v0"], r["l0"]) for r in read] == [
        (1, 1.0, "ash", None),
        (1, None, None, 3),
    ]
    again.close()


@st.composite
def histories(draw):
    """What happens to a log: pushes, batches that are committed or not, and services that take over."""
    push = st.tuples(st.just("push"), st.integers(0, 2), st.integers(1, 12))
    batch = st.tuples(st.just("batch"), st.integers(1, 20), st.sampled_from(["committed", "lost", "untold"]))
    restart = st.tuples(st.just("restart"), st.booleans(), st.just(0))
    return draw(st.lists(st.one_of(push, push, batch, restart), max_size=25))


@settings(max_examples=15)
@given(histories())
def test_everything_acknowledged_is_taken_once_and_in_order(tmp_path_factory, history) -> None:
    everything_is_taken_once_and_in_order(tmp_path_factory.mktemp("push"), history)


def everything_is_taken_once_and_in_order(folder, history) -> None:
    claim, offset = 0, None
    log, sleeping = opened(folder), []
    pushed: dict[int, list[int]] = defaultdict(list)
    committed: dict[int, list[int]] = defaultdict(list)

    def batch(bound, fate) -> None:
        nonlocal offset
        found, planned = taken(log, bound)
        if fate != "lost" and planned.ranges:
            offset = planned.offset
            for source, values in found.items():
                committed[source] += values
            if fate == "committed":
                log.committed(offset)
            else:
                restart(False)

    def restart(sleeps) -> None:
        nonlocal log, claim
        sleeping.append(log) if sleeps else log.close()
        claim += 1
        log = opened(folder, claim, offset)

    for act, first, second in history:
        if act == "push":
            values = rows(len(pushed[first]), second, first)
            for other in sleeping:  # what an old service accepts is not forgotten, and so it accepts nothing
                with pytest.raises(Superseded):
                    other.append(TENANTS[first], values)
            log.append(TENANTS[first], values)
            pushed[first] += values.column("l0").to_pylist()
        elif act == "batch":
            batch(first, second)
        else:
            restart(first)
    for _ in range(200):
        if not log.backlog()["rows"]:
            break
        batch(7, "committed")
    assert {source: values for source, values in committed.items() if values} == {
        source: values for source, values in pushed.items() if values
    }
    if committed:
        assert lanes_of(log.store) == [run(claim)] or not numbers_of(log.store, run(claim))
        assert len(numbers_of(log.store, run(claim))) <= 1
    for one in (log, *sleeping):
        one.close()


@pytest.mark.parametrize("step", ["write", "link", "flush", "remove"])
def test_a_disk_that_fails_loses_nothing_that_was_acknowledged(tmp_path, monkeypatch, step) -> None:
    """Whether a push that failed is in the log is open, as of any request without an answer; never half of it."""
    log = opened(tmp_path)
    log.append("ann", rows(0, 3))
    disk, fails = log.store.disk, [True]
    real = getattr(disk, step)

    def broken(*given, **more):
        if step == "link":
            real(*given, **more)  # it was done, and its answer was lost
        if fails:
            fails.pop()
            raise OSError("the disk is gone")
        return None if step == "link" else real(*given, **more)

    monkeypatch.setattr(disk, step, broken)
    acknowledged = [0, 1, 2]
    with suppress(CheckpointError):
        log.append("ann", rows(3, 2))
        acknowledged += [3, 4]
    log.append("ann", rows(5, 1))
    log.close()
    again = opened(tmp_path, 1)
    (values,) = taken(again, 100)[0].values()
    again.close()
    assert values in ([*acknowledged, 5], [0, 1, 2, 3, 4, 5])


def test_one_tenants_backlog_delays_nobody_else(tmp_path) -> None:
    log = opened(tmp_path)
    log.append("ann", rows(0, 5000, 0))
    for n in range(5):
        log.append("bob", rows(n, 1, 1))
    found, planned = taken(log, 100)
    assert found[1] == [0, 1, 2, 3, 4]
    assert found[0] == list(range(95))
    assert planned.more
    assert list(planned.offset["behind"]) == ["ann"], "only who waits is in the offset"
    log.committed(planned.offset)
    assert log.backlog_of("bob") == (0, 0)
    log.close()


def test_a_batch_is_bounded_by_bytes(tmp_path) -> None:
    log = opened(tmp_path)
    wide = rows(0, 1000).append_column("v0", pa.array(["x" * 1000] * 1000))
    log.append("ann", wide)
    log.append("bob", rows(0, 1000, 1))
    found, _ = taken(log, 2000, size=100_000)
    assert 40 <= len(found[0]) <= 60
    assert len(found[1]) == 1000
    assert len(taken(log, 2000, size=10)[0][0]) == 1, "a row that is larger than the bound comes alone"
    log.close()


@pytest.mark.parametrize(
    "damage", ["a file is gone", "a file is cut", "a lane is gone", "the newest lane is gone"]
)
def test_what_is_missing_or_damaged_is_named_and_nothing_is_skipped(tmp_path, damage) -> None:
    log = opened(tmp_path)
    for n in range(4):
        log.append("ann", rows(n, 1))
    planned = taken(log, 1)[1]
    log.close()
    middle = opened(tmp_path, 1, planned.offset)
    middle.append("ann", rows(9, 1))
    middle.close()
    offset = planned.offset
    if damage == "a file is gone":
        wanted = file_name(run(0), 2)
        (tmp_path / wanted).unlink()
    elif damage == "a file is cut":
        wanted = file_name(run(0), 2)
        (tmp_path / wanted).write_bytes((tmp_path / wanted).read_bytes()[:-9])
    else:
        wanted = run(0) if damage == "a lane is gone" else run(1)
        for path in (tmp_path / wanted).iterdir():
            path.unlink()
        (tmp_path / wanted).rmdir()
    with pytest.raises(CorruptState, match=wanted):
        opened(tmp_path, 2, offset)


def test_a_file_that_vanishes_while_a_batch_reads_is_named(tmp_path) -> None:
    log = opened(tmp_path)
    log.append("ann", rows(0, 3))
    source = PushSource(log)
    (part,) = source.plan(None, Demand(rows=10)).ranges
    (tmp_path / file_name(run(0), 1)).unlink()
    with pytest.raises(CorruptState, match=r"000000000001\.push is missing"):
        list(source.read(part.what))
    log.close()


def test_a_service_that_is_not_the_newest_does_not_open_the_log(tmp_path) -> None:
    opened(tmp_path, 4).close()
    with pytest.raises(Superseded, match=r"00000004\.r4, which is not older than 00000003\.r3"):
        opened(tmp_path, 3)


def test_pushes_at_the_same_time_share_files(tmp_path) -> None:
    log = opened(tmp_path)
    threads = [
        threading.Thread(target=log.append, args=(TENANTS[n % 3], rows(n, 1, n % 3))) for n in range(60)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(numbers_of(log.store, run(0))) <= 60
    found, _ = taken(log, 1000)
    assert sorted(value for values in found.values() for value in values) == list(range(60))
    log.close()


# -- backpressure


def test_a_push_beyond_a_tenants_bound_is_refused_and_says_when_to_come_again(tmp_path, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("headgate.service.push_log.time.monotonic", lambda: now[0])
    log = opened(tmp_path, tenant_backlog_rows=100)
    log.append("ann", rows(0, 90))
    now[0] += 2.0
    planned = taken(log, 60)[1]
    log.committed(planned.offset)  # 60 rows in 2 seconds
    log.flow = Flow(tenant_backlog_rows=100)
    log.append("ann", rows(90, 60))
    with pytest.raises(
        Backlogged, match=r"90 rows of tenant 'ann' wait .* tenant_backlog_rows.*push again in 3 s"
    ) as refused:
        log.append("ann", rows(150, 80))
    assert refused.value.retry_after_s == 3.0  # 70 rows too many, 30 a second
    log.append("bob", rows(0, 100, 1))
    log.close()


def test_the_bound_of_all_refuses_those_who_have_more_than_their_share(tmp_path) -> None:
    log = opened(tmp_path, backlog_rows=100, tenant_backlog_rows=1000)
    log.append("ann", rows(0, 95))
    log.append("bob", rows(0, 40, 1))
    with pytest.raises(Backlogged, match=r"of tenant 'ann'.*the limit is backlog_rows"):
        log.append("ann", rows(95, 1))
    log.append("bob", rows(40, 5, 1))
    log.append("cay", rows(0, 20, 2))
    with pytest.raises(Backlogged):
        log.append("dot", rows(0, 60, 0))  # twice the bound is the most for everyone
    log.close()


def test_bytes_are_bounded_too(tmp_path) -> None:
    log = opened(tmp_path, tenant_backlog_bytes=10_000)
    text = rows(0, 20).append_column("v0", pa.array(["x" * 300] * 20))
    log.append("ann", text)
    with pytest.raises(Backlogged, match="tenant_backlog_bytes"):
        log.append("ann", text)
    log.close()


@pytest.mark.full
@settings(max_examples=1000)
@given(histories())
def test_the_same_at_length(tmp_path_factory, history) -> None:
    everything_is_taken_once_and_in_order(tmp_path_factory.mktemp("push"), history)


def test_a_service_that_slept_while_all_was_computed_accepts_nothing(tmp_path) -> None:
    old = opened(tmp_path)
    for n in range(3):
        old.append("ann", rows(n, 1))
    planned = taken(old, 10)[1]
    old.committed(planned.offset)
    new = opened(tmp_path, 1, planned.offset)
    with pytest.raises(Superseded):
        old.append("ann", rows(3, 1))
    new.append("ann", rows(3, 1))
    assert taken(new, 10)[0][0] == [3]
    for log in (old, new):
        log.close()
