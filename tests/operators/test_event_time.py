"""The clock of event time: against an obvious answer, however rows are cut and routed."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.errors import ConfigError
from headgate.far_ahead import NEVER, merged, newest_and_far_ahead, spans_of
from headgate.operators.event_time import Clock, EventTime, parse_duration

AHEAD = 10


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10 minutes", 600),
        ("1 hour 30 minutes", 5400),
        ("1.5h", 5400),
        ("2 days", 172800),
        ("30 s", 30),
        ("1 week", 604800),
    ],
)
def test_durations(text, wanted) -> None:
    assert parse_duration(text, "delay") == wanted * 1_000_000


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "10 fortnights", "10 minutes!", None, 5, "-3 s"])
def test_what_is_no_duration_is_named(text) -> None:
    with pytest.raises(ConfigError, match=r"delay=.* is not a duration; write '10 minutes'"):
        parse_duration(text, "delay")


def slowly(newest, times):
    """The same rule, row by row: half of the rows or more are as new as the middle; from there or from what is known, no gap."""
    ordered = sorted(times)
    known = newest
    if ordered:
        # what the middle's own stretch says is newest_and_far_ahead whole
        middle = ordered[(len(ordered) - 1) // 2]
        if newest == NEVER or middle > newest + AHEAD:
            known = max(t for t in ordered if t // AHEAD == middle // AHEAD)
    for t in ordered:
        if t - known <= AHEAD:
            known = max(known, t)
    return max(newest, known), sum(t > known for t in ordered)


@given(
    times=st.lists(st.integers(0, 200) | st.integers(0, 20), max_size=30),
    newest=st.sampled_from([NEVER]) | st.integers(0, 100),
    cuts=st.lists(st.integers(0, 30), max_size=4).map(sorted),
)
@example(times=[5, 6, 7, 190], newest=NEVER, cuts=[])
@example(times=[150], newest=5, cuts=[])
@example(times=[3, 150], newest=5, cuts=[1])
def test_what_is_believed_does_not_depend_on_how_rows_are_cut(times, newest, cuts) -> None:
    parts = [times[a:b] for a, b in itertools.pairwise([0, *cuts, max([len(times), *cuts])])]
    spans = merged(spans_of(np.array(part, np.int64), newest, AHEAD) for part in parts)
    assert newest_and_far_ahead(newest, spans, AHEAD) == slowly(newest, times)


def seen(*times, aside=None):
    return {"spans": {"0": spans_of(np.array(times, np.int64), NEVER, AHEAD)}, "aside": aside or {}}


def test_the_watermark_of_a_batch_comes_from_the_batches_before_it() -> None:
    time = EventTime("t", (5,), AHEAD)
    clock = Clock.start(time)
    assert (clock.watermark, clock.closed) == (NEVER, NEVER)
    clock = clock.after(time, [seen(20, 13), seen(17, aside={"late": 2})])
    assert (clock.newest, clock.watermark, clock.closed) == ((20,), 15, NEVER)
    clock = clock.after(time, [seen(11, aside={"late": 1})])
    assert (clock.newest, clock.watermark, clock.closed) == ((20,), 15, 15)
    assert clock.counts == {"late": 3}
    assert Clock.from_json(clock.to_json()) == clock


def test_a_stray_clock_closes_nothing_and_is_counted() -> None:
    time = EventTime("t", (5,), AHEAD)
    clock = Clock.start(time).after(time, [seen(20, 21, 22, 10**15)])
    assert (clock.watermark, clock.counts) == (17, {"far ahead": 1})
    assert clock.after(time, [seen(24, 25, 2 * 10**15)]).watermark == 20


def test_a_stream_that_was_silent_for_long_goes_on() -> None:
    time = EventTime("t", (5,), AHEAD)
    clock = Clock.start(time).after(time, [seen(20)])
    assert clock.after(time, [seen(1000, 1001, 1002)]).watermark == 997


def test_the_slowest_of_several_sources_sets_the_watermark() -> None:
    time = EventTime("t", (5, 50), AHEAD, source="side")
    clock = Clock.start(time).after(time, [seen(100)])
    assert clock.watermark == NEVER, "nothing is known of the other"
    spans = spans_of(np.array([90]), NEVER, AHEAD)
    assert clock.after(time, [{"spans": {"1": spans}, "aside": {}}]).watermark == 40
