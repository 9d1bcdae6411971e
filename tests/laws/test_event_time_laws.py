"""Law 2 and 4 for the operators that go by event time: any batches, any tables, pins that come and go, bins that sleep, memory that is
lost, batches delivered twice, and the answer is the slow, obvious one.
"""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import event_time_oracle as oracle

from headgate import agg
from headgate.operators.dedup import Dedup
from headgate.operators.stream_join import Join
from headgate.operators.topk import TopK
from headgate.operators.vectorised import Vectorised
from headgate.operators.windows import Windows, hopping, session, tumbling
from headgate.routing.table import Pin, Table
from headgate.state.keys import KeySpec
from headgate.testing import builders
from headgate.testing.engine import key_hashes
from headgate.testing.trial import Trial

FEW = settings(max_examples=settings.default.max_examples // 4)  # type: ignore[union-attr]  # each example is a run of many steps
BINS = 5
TIME = pa.timestamp("us", tz="UTC")
KEYS = [KeySpec(("k",), (pa.int64(),)), KeySpec(("k",), (pa.string(),))]
FAR = "1000000 weeks"


def schema_of(key):
    return pa.schema([("k", key.types[0]), ("t", TIME), ("i", pa.int64())])


def batch_of(rows, key):
    kind = key.types[0]
    keys = [None if k is None else (f"key {k}" if pa.types.is_string(kind) else k) for k, *_ in rows]
    arrays = [pa.array(keys, kind), pa.array([r[1] for r in rows], pa.int64()).view(TIME)]
    return pa.RecordBatch.from_arrays(
        [*arrays, pa.array([r[2] for r in rows], pa.int64())], schema=schema_of(key)
    )


@st.composite
def streams(draw, span=40):
    """Batches of (key, time, number); times wander upwards and scatter."""
    batches, number = [], 0
    base = draw(st.integers(-20, 20))
    for _ in range(draw(st.integers(1, 6))):
        rows = draw(st.lists(st.tuples(st.sampled_from([None, 1, 2, 3]), st.integers(-8, span)), max_size=10))
        batches.append([(k, base + t, number + i) for i, (k, t) in enumerate(rows)])
        number += len(rows)
        base += draw(st.integers(0, 15))
    # whatever is open closes in the end
    return [*batches, [(9, base + 10_000, number)], [(9, base + 20_000, number + 1)], []]


def any_table(chance, hashes, version, *, splits):
    """Any assignment of bins, any of the keys pinned, and some of these in pieces if that may be."""
    pieces = {h: chance.choice([0, 1, 2, 3] if splits else [0, 1]) for h in hashes}
    pinned = [(h, channel) for h, n in pieces.items() for channel in chance.sample(range(3), n)]
    chance.shuffle(pinned)
    return Table(
        version=version,
        from_batch=version,
        channels=3,
        hash_bins=BINS,
        assignment=(*(chance.randrange(3) for _ in range(BINS)), *(channel for _, channel in pinned)),
        pins=tuple(Pin(h, BINS + i, "hot") for i, (h, _) in enumerate(pinned)),
    )


def run(operator, key, batches, seed, batch_of=batch_of):
    """Every row that is emitted or put aside, under whatever can happen."""
    bound, chance = operator.bind(key, batch_of([], key).schema), random.Random(seed)
    distinct = chance.choice([2, 2**63])
    channels = Trial(bound, distinct_hashes=distinct)
    some = batch_of([(k, 0, 0, 0) for k in (None, 1, 2)], key)
    hashes = sorted(set(key_hashes(some, key, distinct=distinct).tolist()))
    out = []
    for n, rows in enumerate(batches):
        table = any_table(chance, hashes, version=n, splits=not bound.whole)
        ending = n >= len(batches) - 3
        out.append(
            channels.batch(
                batch_of(rows, key),
                table,
                chunks=chance.sample(range(10), chance.randint(0, 2)),
                snapshots=chance.sample(range(BINS + 1), chance.randint(0, 2)),
                asleep=() if ending else chance.sample(range(BINS + 3), chance.randint(0, 4)),
                crash=chance.random() < 0.3,
            )
        )
        if chance.random() < 0.5:
            channels.forget()
    if bound.event_time is not None:
        assert sum(channels.table(b).rows for b in channels.sections) <= 4, "all is closed but the last rows'"
    return channels, out


def put_aside(channels):
    return sorted(i for part in channels.aside for i in part.column("i").to_pylist())


def numbered(rows):
    """Emitted windows as the oracle gives them; sums of distinct powers of two tell the rows."""
    found = []
    for row in rows:
        key = row["k"]
        key = int(key.split()[1]) if isinstance(key, str) else key
        bits = row["rows"]
        found.append(
            (key, row["window_start"], row["window_end"], [i for i in range(64) if bits >> i & 1], row["n"])
        )
    return sorted(found, key=repr)


def bits_of(batches):
    return [[(k, t, 1 << i) for k, t, i in rows] for rows in batches]


AGGREGATES = {"n": agg.count(), "rows": agg.sum("i"), "low": agg.min("t")}


def as_ints(tables):
    rows = pa.concat_tables(tables)
    for name in ("window_start", "window_end"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, rows.column(name).cast(pa.int64()))
    return rows.to_pylist()


WINDOWS = {
    "tumbling": (tumbling("10 us"), lambda b: oracle.tumbling(b, 10, 10, 7)),
    "hopping": (hopping("10 us", every="4 us"), lambda b: oracle.tumbling(b, 10, 4, 7)),
    "session": (session("5 us"), lambda b: oracle.sessions(b, 5, 7)),
}


@pytest.mark.parametrize("window", WINDOWS)
@given(seed=st.integers(0, 2**32), batches=streams(), key=st.sampled_from(KEYS))
@FEW
def test_windows(window, key, seed, batches) -> None:
    how, slowly = WINDOWS[window]
    operator = Windows(how, on="t", delay="7 us", ahead=FAR, **AGGREGATES)  # type: ignore[arg-type]
    channels, out = run(operator, key, bits_of(batches), seed)
    wanted, late = slowly(batches)
    assert numbered(as_ints(out)) == sorted(((*w, len(w[3])) for w in wanted), key=repr)
    assert put_aside(channels) == sorted(1 << i for i in late)
    assert channels.clock.counts.get("late", 0) == len(late)


@given(seed=st.integers(0, 2**32), batches=streams(), key=st.sampled_from(KEYS))
@FEW
def test_windows_that_are_updated(key, seed, batches) -> None:
    """The last that is emitted of a window is what it has when it closes."""
    operator = Windows(
        hopping("10 us", every="5 us"), on="t", delay="7 us", ahead=FAR, emit="update", **AGGREGATES
    )
    _, out = run(operator, key, bits_of(batches), seed)
    newest = {(w[0], w[1]): w for table in out for w in numbered(as_ints([table]))}
    wanted, _ = oracle.tumbling([*batches, [], []], 10, 5, 7)
    still_open = {key: w for key, w in newest.items() if w[0] == 9}
    assert {**still_open, **{(w[0], w[1]): (*w, len(w[3])) for w in wanted}} == newest


@given(seed=st.integers(0, 2**32), batches=streams(), key=st.sampled_from(KEYS))
@FEW
def test_dedup(key, seed, batches) -> None:
    channels, out = run(Dedup(on="t", delay="7 us", ahead=FAR), key, batches, seed)
    wanted, late = oracle.dedup(batches, 7)
    assert sorted(i for table in out for i in table.column("i").to_pylist()) == sorted(wanted)
    assert put_aside(channels) == sorted(late)


@given(seed=st.integers(0, 2**32), batches=streams())
@FEW
def test_dedup_for_ever(seed, batches) -> None:
    _, out = run(Dedup(keep=["i"]), KEYS[0], batches, seed)
    firsts: dict[Any, Any] = {}
    for key, _, number in (row for rows in batches for row in rows):
        firsts.setdefault(key, number)
    assert sorted(i for table in out for i in table.column("i").to_pylist()) == sorted(firsts.values())


def test_bins_with_nothing_due_are_not_opened() -> None:
    """Law 10: an empty batch opens the bins whose time has come, and no others."""
    key = KEYS[0]
    operator = Windows(tumbling("10 us"), on="t", delay="0 us", ahead=FAR, n=agg.count()).bind(
        key, schema_of(key)
    )
    channels, table = Trial(operator), builders.table([0] * 64)
    early = [(k, 1, k) for k in range(8)]
    channels.batch(batch_of([*early, *[(k, 55, k) for k in range(8, 200)]], key), table)
    channels.batch(batch_of([], key), table)
    bins = set(table.bin_of_hash(key_hashes(batch_of(early, key), key)).tolist())
    assert {b for _, b in channels.opened} == bins
    channels.batch(batch_of([], key), table)
    assert channels.opened == []


def test_rows_without_a_time_are_put_aside_by_name() -> None:
    key = KEYS[0]
    operator = Dedup(on="t", delay="7 us").bind(key, schema_of(key))
    channels = Trial(operator)
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1, 2]), pa.array([None, 5], pa.int64()).view(TIME), pa.array([0, 1])],
        schema=schema_of(key),
    )
    out = channels.batch(rows, Table.uniform(2, 1))
    assert out.column("i").to_pylist() == [1]
    assert channels.aside[0].to_pylist()[0]["reason"] == "no event time"
    assert channels.clock.counts == {"no event time": 1}
    assert np.array(channels.clock.newest).tolist() == [5]


def sides_of(rows, key):
    """Rows of two streams, as `two_streams` gives them."""
    plain = batch_of(rows, key)
    side = pa.array([r[3] for r in rows], pa.int32())
    numbers = plain.column("i")
    names = ["k", "time", "side", "left_i", "left_s", "right_i"]
    mine = [pc.if_else(pc.equal(side, s), numbers, pa.scalar(None, pa.int64())) for s in (0, 1)]
    text = pc.if_else(
        pc.equal(side, 0),
        pc.binary_join_element_wise("row", numbers.cast(pa.string()), " "),
        pa.scalar(None, pa.string()),
    )
    arrays = [plain.column("k"), plain.column("t"), side, mine[0], text, mine[1]]
    return pa.RecordBatch.from_arrays(arrays, names)


@st.composite
def two_streams(draw):
    """Batches of (key, time, number, side)."""
    batches = draw(streams())
    ways = draw(st.integers(0, 2**32))
    chance = random.Random(ways)
    ending = [[(*row, 0), (None, *row[1:], 1)] for rows in batches[-3:] for row in rows]
    both = [[(*row, chance.randrange(2)) for row in rows] for rows in batches[:-3]]
    return [*both, *ending, []]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@given(batches=two_streams(), seed=st.integers(0, 2**32), key=st.sampled_from(KEYS))
@FEW
def test_join(how, key, seed, batches) -> None:
    operator = Join(how, before="4 us", after="9 us", delay=("7 us", "3 us"), ahead=FAR)
    channels, out = run(operator, key, batches, seed, sides_of)
    wanted, late = oracle.join(batches, how, 4, 9, (7, 3))
    rows = [row for table in out for row in table.to_pylist()]
    found = [(row["left_i"], row.get("right_i")) for row in rows]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert all(row["left_s"] == (None if row["left_i"] is None else f"row {row['left_i']}") for row in rows)
    known = {number: k for batch in batches for k, _, number, side in batch if side == 0}
    if how not in ("right", "full"):
        keys = [int(row["k"].split()[1]) if isinstance(row["k"], str) else row["k"] for row in rows]
        assert keys == [known[row["left_i"]] for row in rows]
    assert channels.clock.counts.get("late", 0) == len(late)


@given(batches=streams(), seed=st.integers(0, 2**32), key=st.sampled_from(KEYS), k=st.integers(1, 4))
@FEW
def test_topk(key, seed, batches, k) -> None:
    """By time, of which there are equal ones."""
    _, out = run(TopK(k, by="t", keep=["i"]), key, batches, seed)
    newest: dict[Any, Any] = {}
    for table in out:
        lists: dict[Any, Any] = {}
        for row in table.to_pylist():
            lists.setdefault(row["k"], []).append((row["rank"], row["i"]))
        newest |= lists
    wanted: dict[Any, Any] = {}
    for number, t, key_ in ((i, t, k_) for rows in batches for k_, t, i in rows):
        wanted.setdefault(key_ if key_ is None or key is KEYS[0] else f"key {key_}", []).append((-t, number))
    assert {name: [i for _, i in sorted(found)] for name, found in newest.items()} == {
        name: [i for _, i in sorted(found)[:k]] for name, found in wanted.items()
    }


def counting(state, rows):
    """Rows per key so far; a key is forgotten at every third row."""
    before = dict(zip(state["k"].to_pylist(), state["n"].to_pylist(), strict=True))
    keys, emitted = rows["k"].to_pylist(), []
    for name, number in zip(keys, rows["i"].to_pylist(), strict=True):
        before[name] = before.get(name, 0) + 1
        emitted.append((number, before[name]))
        if before[name] == 3:
            del before[name]
    after = pa.table(
        {"k": pa.array(list(before), rows["k"].type), "n": pa.array(list(before.values()), pa.int64())}
    )
    return after, pa.table({"i": [i for i, _ in emitted], "n": pa.array([n for _, n in emitted], pa.int64())})


@given(batches=streams(), seed=st.integers(0, 2**32), key=st.sampled_from(KEYS))
@FEW
def test_vectorised(key, seed, batches) -> None:
    operator = Vectorised(counting, state={"n": pa.int64()}, output={"i": pa.int64(), "n": pa.int64()})
    _, out = run(operator, key, batches, seed)
    found = sorted((row["i"], row["n"]) for table in out for row in table.to_pylist())
    seen, wanted = {}, []  # type: ignore[var-annotated]
    for name, _, number in (row for rows in batches for row in rows):
        wanted.append((number, seen.get(name, 0) % 3 + 1))
        seen[name] = seen.get(name, 0) + 1
    assert found == wanted
