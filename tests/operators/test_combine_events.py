"""Windows, dedup and lists of the largest: rows that are combined before they are sent change nothing."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.test_combine import SEVERAL, Pair, cut

from headgate import agg
from headgate.operators.arrival import CLOSED, Arrival
from headgate.operators.combine_windows import panes
from headgate.operators.dedup import Dedup
from headgate.operators.event_time import Clock
from headgate.operators.history import HistoryWindow
from headgate.operators.topk import TopK
from headgate.operators.windows import Session, Windows, hopping, session, tumbling
from headgate.routing.column_hash import key_hashes
from headgate.state.keys import KeySpec

TIME = pa.timestamp("us", tz="UTC")
FAR = "1000000 weeks"
KEYS = [KeySpec(("k",), (pa.int64(),)), KeySpec(("k",), (pa.string(),)), KeySpec(("t",), (TIME,))]
AGGREGATES = {"n": agg.count("i"), "total": agg.sum("i"), "low": agg.min("s"), "newest": agg.max("t")}


def windows(window, emit="append"):
    return Windows(window, on="t", delay="5 us", ahead=FAR, emit=emit, **AGGREGATES)


OPERATORS = [
    windows(tumbling("7 us")),
    windows(tumbling("7 us"), "update"),
    windows(hopping("12 us", every="4 us")),
    windows(hopping("10 us", every="4 us")),
    windows(hopping("11 us", every="10 us"), "update"),
    windows(session("6 us")),
    Dedup(),
    Dedup(on="t", delay="0 us", ahead=FAR),
    Dedup(on="t", delay="4 us", ahead=FAR, keep=["i"]),
    TopK(1, by="i"),
    TopK(2, by="f", keep=["s"]),
]


def _sessions(operator):
    return isinstance(operator, Windows) and isinstance(operator.window, Session)


def schema_of(key):
    kind = pa.int64() if key.names[0] == "t" else key.types[0]
    return pa.schema([("k", kind), ("t", TIME), ("i", pa.int64()), ("f", pa.float64()), ("s", pa.string())])


def batch_of(rows, key):
    schema = schema_of(key)
    keys = [f"key {k}" if k is not None and schema.field("k").type == pa.string() else k for k, *_ in rows]
    columns = [pa.array(keys, schema.field("k").type), pa.array([r[1] for r in rows], pa.int64()).view(TIME)]
    columns += [pa.array([r[at] for r in rows], schema.field(at).type) for at in (2, 3, 4)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


NUMBERS = st.none() | st.integers(-3, 3)
ROWS = st.tuples(
    st.sampled_from([None, 1, 2, 3]),
    st.integers(-8, 40),
    NUMBERS,
    st.none() | st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("-inf")]),
    st.none() | st.sampled_from(["", "a", "b" * 40]),
)


@st.composite
def streams(draw):
    """Batches of rows; times wander upwards and scatter."""
    batches, base = [], draw(st.integers(-20, 20))
    for rows in draw(st.lists(st.lists(ROWS, max_size=14), min_size=1, max_size=5)):
        batches.append([(k, base + t, i, f, s) for k, t, i, f, s in rows])
        base += draw(st.integers(0, 15))
    return [*batches, [(3, base + 10_000, 0, 0.0, "")], [(3, base + 20_000, 0, 0.0, "")], []]


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@given(batches=streams(), key=st.sampled_from(KEYS), distinct=SEVERAL, data=st.data())
def test_rows_that_are_combined_give_the_same_batches(operator, batches, key, distinct, data) -> None:
    if key.names == ("t",) and isinstance(operator, Dedup) and operator.keep is None:
        key = KEYS[0]
    bound, places = operator.bind(key, schema_of(key)), st.lists(st.integers(0, 14), max_size=3)
    pair, clock = Pair(bound, distinct=distinct), Clock.start(bound.event_time)
    names = list(dict.fromkeys([*key.names, *bound.inputs]))
    for rows in batches:
        arrival = Arrival(bound, clock)
        ranges = [arrival.admit(r.select(names)) for r in cut(batch_of(rows, key), data.draw(places))]
        watermark = None if bound.event_time is None else clock.watermark
        plain, partial = pair.batch(ranges, data.draw(places), watermark)
        if isinstance(operator, TopK):  # rows have other numbers, but in the same order
            assert partial[0] == plain[0]
        elif _sessions(operator):  # its rows may be found in another order
            assert sorted(partial[0], key=repr) == sorted(plain[0], key=repr)
        else:
            assert partial == plain
        clock = clock.after(bound.event_time, [arrival.seen()])
    assert pair.combined.fingerprint() == bound.fingerprint()


@given(st.lists(st.integers(-100, 100)), st.integers(1, 30), st.integers(1, 30))
def test_the_start_of_a_pane_is_in_the_same_windows(times, size, every) -> None:
    size, every = max(size, every), min(size, every)
    starts = panes(np.array(times, np.int64), size, every).tolist()

    def covering(t):
        return [s for s in range(-200 * every, 200 * every, every) if s <= t < s + size]

    assert all(p <= t for p, t in zip(starts, times, strict=True))
    assert list(map(covering, starts)) == list(map(covering, times))


def made(operator, rows, key=KEYS[0]):
    """The partial rows of some rows, as tuples."""
    bound = operator.bind(key, schema_of(key))
    whole = batch_of(rows, key).append_column(CLOSED, pa.array([-100] * len(rows), pa.int64()))
    combined = bound.in_pieces()
    assert combined is not None
    return [tuple(r.values()) for r in combined.partial(whole, key_hashes(whole, key))[0].to_pylist()]


def test_a_row_in_many_windows_is_sent_once() -> None:
    operator = Windows(hopping("100 us", every="1 us"), on="t", delay="5 us", n=agg.count())
    rows = [(1, 5, 0, 0.0, ""), (1, 5, 0, 0.0, ""), (1, 6, 0, 0.0, ""), (2, 5, 0, 0.0, "")]
    assert made(operator, rows) == [(1, 5, 2, -100), (1, 6, 1, -100), (2, 5, 1, -100)]


def test_the_sessions_of_a_piece_are_sent() -> None:
    operator = Windows(session("5 us"), on="t", delay="5 us", n=agg.count())
    rows = [(1, 9, 0, 0.0, ""), (1, 20, 0, 0.0, ""), (1, 4, 0, 0.0, ""), (2, 4, 0, 0.0, "")]
    assert made(operator, rows) == [(1, 4, 14, 2, -100), (1, 20, 25, 1, -100), (2, 4, 9, 1, -100)]


def test_rows_that_cannot_matter_are_left_out() -> None:
    rows = [(1, t, i, 0.0, "") for t, i in enumerate([3, 5, 5, None, 5, 9])] + [(2, 7, None, 0.0, "")]
    assert [(row[0], row[2]) for row in made(Dedup(), rows)] == [(1, 3), (2, None)]
    kept = [(row[0], row[1].microsecond) for row in made(TopK(3, by="i"), rows)]
    assert kept == [(1, 1), (1, 2), (1, 5), (2, 7)]


@pytest.mark.parametrize(
    "operator",
    [
        Windows(session("5 us"), on="t", delay="5 us", n=agg.count()),
        Windows(tumbling("5 us"), on="t", delay="5 us", n=agg.last("i")),
        HistoryWindow(3, "mean", of="f"),
    ],
    ids=str,
)
def test_other_operators_are_not_combined(operator) -> None:
    assert operator.bind(KEYS[0], schema_of(KEYS[0])).combined() is None


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_nothing_becomes_nothing(operator) -> None:
    assert made(operator, []) == []
