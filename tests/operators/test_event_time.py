"""The clock of event time: against an obvious answer, however rows are cut and routed."""

import numpy as np
import pytest

from headgate.errors import ConfigError
from headgate.far_ahead import NEVER, spans_of
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
